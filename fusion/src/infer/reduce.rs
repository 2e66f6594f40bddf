//! `reduce`.
//!
//! C1–C7. The body must be one that the contract gives an order for ([`as_body`](region::as_body)): for each operand one
//! binary op of two scalars of its dtype, or the body of argmax or argmin for a value and an index.

use smallvec::SmallVec;
use systole_kernels::TensorType;

use super::{Reason, counted, distinct_below, same_dtype, same_shape};
use crate::ir::Trace;
use crate::ir::region::{self, Body};

pub(super) fn reduce(
    operands: &[&TensorType],
    dimensions: &[u32],
    body: &Trace,
) -> Result<SmallVec<[TensorType; 1]>, Reason> {
    if operands.is_empty() || !operands.len().is_multiple_of(2) {
        return Err(format!("takes operands and as many initial values, not {} operands", operands.len()));
    }
    let (operands, inits) = operands.split_at(operands.len() / 2);
    for (operand, init) in operands.iter().zip(inits) {
        same_shape("operand", operands[0], operand)?;
        same_dtype("operand and initial value", operand, init)?;
        if init.rank() != 0 {
            return Err(format!("the initial value has shape {}, not a scalar's", init.shape));
        }
    }
    distinct_below("dimensions", dimensions, operands[0].rank())?;
    let Some(known) = region::as_body(body) else {
        return Err(String::from(match operands.len() {
            1 => "the body is not one add, multiply, maximum, minimum, and, or of its two scalar arguments",
            _ => {
                "the body is neither one add, multiply, maximum, minimum, and, or for each operand, nor that of argmax \
                 or argmin"
            }
        }));
    };
    if body.outputs().len() != operands.len() {
        return Err(format!("the body combines {}, not {}", counted(body.outputs().len(), "operand"), operands.len()));
    }
    for (at, operand) in operands.iter().enumerate() {
        let argument = body.ty(body.inputs()[at]).dtype;
        if argument != operand.dtype {
            return Err(format!("the body combines {argument} elements, the operand has {}", operand.dtype));
        }
        if let Body::Each(monoids) = &known {
            let op = region::monoid_op(monoids[at]);
            if !op.info().dtypes.admits(argument) {
                return Err(format!("the body's {op} takes {}, not {argument}", op.info().dtypes.describe()));
            }
        }
    }
    let kept = |d: usize| !dimensions.iter().any(|&dim| dim as usize == d);
    let result = |operand: &&TensorType| {
        let shape = operand.shape.iter().enumerate().filter(|&(d, _)| kept(d)).map(|(_, &extent)| extent).collect();
        TensorType { dtype: operand.dtype, shape }
    };
    Ok(operands.iter().map(result).collect())
}
