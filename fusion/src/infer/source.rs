//! Sources: `constant` and `iota`.
//!
//! Constant C1: the value has the output's type; a splat has the type's dtype, a dense value one element's bytes per
//! element. Iota C1: the dimension is one of the result's.

use systole_kernels::TensorType;

use super::{Reason, admit, below, take};
use crate::ir::{Literal, Opcode};

pub(super) fn constant(operands: &[&TensorType], literal: &Literal) -> Result<TensorType, Reason> {
    let [] = take(operands)?;
    match literal {
        Literal::Splat(ty, value) if value.dtype() != ty.dtype => {
            Err(format!("an element of dtype {} is splat over {ty}", value.dtype()))
        }
        Literal::Dense(ty, bytes) if ty.checked_byte_len() != Some(bytes.len()) => {
            Err(format!("{} bytes are given for {ty}", bytes.len()))
        }
        Literal::Splat(ty, _) | Literal::Dense(ty, _) => Ok(ty.clone()),
    }
}

pub(super) fn iota(
    op: Opcode,
    operands: &[&TensorType],
    ty: &TensorType,
    dimension: u32,
) -> Result<TensorType, Reason> {
    let [] = take(operands)?;
    admit(op, ty.dtype)?;
    below("iota_dimension", dimension, ty.rank())?;
    Ok(ty.clone())
}
