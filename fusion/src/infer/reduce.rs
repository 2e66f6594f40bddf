//! `reduce`.
//!
//! C2–C7 for one operand and one initial value. The body must be one that the contract gives an order for
//! ([`as_monoid`]): two scalars of the operand's dtype, one binary op of them, its result.

use systole_kernels::TensorType;

use super::{Reason, distinct_below, same_dtype, take};
use crate::ir::{Trace, region};

pub(super) fn reduce(operands: &[&TensorType], dimensions: &[u32], body: &Trace) -> Result<TensorType, Reason> {
    if operands.len() > 2 {
        return Err(format!("takes one operand and its initial value, not {} operands", operands.len()));
    }
    let [operand, init] = take(operands)?;
    same_dtype("operand and initial value", operand, init)?;
    if init.rank() != 0 {
        return Err(format!("the initial value has shape {}, not a scalar's", init.shape));
    }
    distinct_below("dimensions", dimensions, operand.rank())?;
    let Some(monoid) = region::as_monoid(body) else {
        return Err(String::from(
            "the body is not one add, multiply, maximum, minimum, and, or of its two scalar arguments",
        ));
    };
    let argument = body.ty(body.inputs()[0]).dtype;
    if argument != operand.dtype {
        return Err(format!("the body combines {argument} elements, the operand has {}", operand.dtype));
    }
    let op = region::monoid_op(monoid);
    if !op.info().dtypes.admits(argument) {
        return Err(format!("the body's {op} takes {}, not {argument}", op.info().dtypes.describe()));
    }
    let kept = |d: usize| !dimensions.iter().any(|&dim| dim as usize == d);
    let shape = operand.shape.iter().enumerate().filter(|&(d, _)| kept(d)).map(|(_, &extent)| extent).collect();
    Ok(TensorType { dtype: operand.dtype, shape })
}
