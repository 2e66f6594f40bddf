//! `dot_general`.
//!
//! C1–C10 and C12, with the operands' common dtype as the result's, or `f32` for 16-bit floats.

use smallvec::SmallVec;
use systole_kernels::contract::contracts;
use systole_kernels::{Shape, TensorType};

use super::{Reason, admit, distinct_below, same_dtype, take};
use crate::ir::{DotDims, Opcode};

pub(super) fn dot_general(op: Opcode, operands: &[&TensorType], dims: &DotDims) -> Result<TensorType, Reason> {
    let [lhs, rhs] = take(operands)?;
    same_dtype("operand", lhs, rhs)?;
    admit(op, lhs.dtype)?;
    let DotDims { lhs_batching, rhs_batching, lhs_contracting, rhs_contracting, result, precision: _ } = dims;
    if *result == Some(lhs.dtype) {
        // Else one op would have two spellings, and a key for each.
        return Err(format!("the result is named {} as the operands are: leave it out", lhs.dtype));
    }
    let dtype = result.unwrap_or(lhs.dtype);
    if !contracts(lhs.dtype, dtype) {
        return Err(format!("the product of {} has no result of dtype {dtype}", lhs.dtype));
    }
    distinct_below("lhs_batching_dimensions", lhs_batching, lhs.rank())?;
    distinct_below("rhs_batching_dimensions", rhs_batching, rhs.rank())?;
    distinct_below("lhs_contracting_dimensions", lhs_contracting, lhs.rank())?;
    distinct_below("rhs_contracting_dimensions", rhs_contracting, rhs.rank())?;
    disjoint("lhs", lhs_batching, lhs_contracting)?;
    disjoint("rhs", rhs_batching, rhs_contracting)?;
    paired("batching", (lhs, lhs_batching), (rhs, rhs_batching))?;
    paired("contracting", (lhs, lhs_contracting), (rhs, rhs_contracting))?;

    let mut shape: SmallVec<[usize; 4]> = lhs_batching.iter().map(|&d| lhs.shape[d as usize]).collect();
    shape.extend(free(lhs, lhs_batching, lhs_contracting));
    shape.extend(free(rhs, rhs_batching, rhs_contracting));
    Ok(TensorType { dtype, shape: Shape::new(shape) })
}

fn disjoint(side: &str, batching: &[u32], contracting: &[u32]) -> Result<(), Reason> {
    match batching.iter().find(|d| contracting.contains(d)) {
        None => Ok(()),
        Some(d) => Err(format!("dimension {d} of {side} is both batching and contracting")),
    }
}

fn paired(what: &str, lhs: (&TensorType, &[u32]), rhs: (&TensorType, &[u32])) -> Result<(), Reason> {
    let ((lhs, lhs_dims), (rhs, rhs_dims)) = (lhs, rhs);
    if lhs_dims.len() != rhs_dims.len() {
        return Err(format!("lhs has {} {what} dimensions, rhs has {}", lhs_dims.len(), rhs_dims.len()));
    }
    for (&l, &r) in lhs_dims.iter().zip(rhs_dims) {
        let (a, b) = (lhs.shape[l as usize], rhs.shape[r as usize]);
        if a != b {
            return Err(format!(
                "{what} dimension {l} of {} and {r} of {} differ: {a} against {b}",
                lhs.shape, rhs.shape
            ));
        }
    }
    Ok(())
}

fn free<'a>(ty: &'a TensorType, batching: &'a [u32], contracting: &'a [u32]) -> impl Iterator<Item = usize> + 'a {
    let bound = move |d: usize| batching.iter().chain(contracting).any(|&dim| dim as usize == d);
    ty.shape.iter().enumerate().filter(move |&(d, _)| !bound(d)).map(|(_, &extent)| extent)
}
