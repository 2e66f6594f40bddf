//! Ops that work element by element: unary, predicates, binary, `compare`, `select`, `clamp`, `convert`.
//!
//! No implicit broadcast: operands have one shape. The only scalars admitted beside a shape are `select`'s predicate
//! (C1) and `clamp`'s bounds (C1, C2).

use systole_kernels::program::Order;
use systole_kernels::{DType, TensorType};

use super::{Reason, admit, same_dtype, same_shape, take};
use crate::ir::Opcode;

pub(super) fn unary(op: Opcode, operands: &[&TensorType]) -> Result<TensorType, Reason> {
    let [operand] = take(operands)?;
    admit(op, operand.dtype)?;
    Ok(operand.clone())
}

pub(super) fn predicate(op: Opcode, operands: &[&TensorType]) -> Result<TensorType, Reason> {
    let operand = unary(op, operands)?;
    Ok(TensorType { dtype: DType::Bool, shape: operand.shape })
}

pub(super) fn binary(op: Opcode, operands: &[&TensorType]) -> Result<TensorType, Reason> {
    let [lhs, rhs] = take(operands)?;
    same_dtype("operand", lhs, rhs)?;
    admit(op, lhs.dtype)?;
    same_shape("operand", lhs, rhs)?;
    Ok(lhs.clone())
}

/// C3: integers and bools have one order; only floats have a total one beside the partial one.
pub(super) fn compare(op: Opcode, operands: &[&TensorType], order: Order) -> Result<TensorType, Reason> {
    let [lhs, rhs] = take(operands)?;
    same_dtype("operand", lhs, rhs)?;
    admit(op, lhs.dtype)?;
    same_shape("operand", lhs, rhs)?;
    if order == Order::Total && !lhs.dtype.is_float() {
        return Err(format!("the total order is one of floats, not of {}", lhs.dtype));
    }
    Ok(TensorType { dtype: DType::Bool, shape: lhs.shape.clone() })
}

pub(super) fn select(op: Opcode, operands: &[&TensorType]) -> Result<TensorType, Reason> {
    let [pred, on_true, on_false] = take(operands)?;
    if pred.dtype != DType::Bool {
        return Err(format!("the predicate is {}, not bool", pred.dtype));
    }
    same_dtype("on_true and on_false", on_true, on_false)?;
    admit(op, on_true.dtype)?;
    same_shape("on_true and on_false", on_true, on_false)?;
    if pred.rank() != 0 {
        same_shape("predicate and on_true", pred, on_true)?;
    }
    Ok(on_true.clone())
}

pub(super) fn clamp(op: Opcode, operands: &[&TensorType]) -> Result<TensorType, Reason> {
    let [min, operand, max] = take(operands)?;
    same_dtype("min and operand", min, operand)?;
    same_dtype("operand and max", operand, max)?;
    admit(op, operand.dtype)?;
    if min.rank() != 0 {
        same_shape("min and operand", min, operand)?;
    }
    if max.rank() != 0 {
        same_shape("operand and max", operand, max)?;
    }
    Ok(operand.clone())
}

pub(super) fn convert(op: Opcode, operands: &[&TensorType], dtype: DType) -> Result<TensorType, Reason> {
    let [operand] = take(operands)?;
    admit(op, operand.dtype)?;
    admit(op, dtype)?;
    Ok(TensorType { dtype, shape: operand.shape.clone() })
}

/// C1 for dtypes of one width; StableHLO's other forms, which give or take a dimension, are not taken.
pub(super) fn bitcast_convert(op: Opcode, operands: &[&TensorType], dtype: DType) -> Result<TensorType, Reason> {
    let [operand] = take(operands)?;
    admit(op, operand.dtype)?;
    admit(op, dtype)?;
    if operand.dtype.size() != dtype.size() {
        let (from, to) = (operand.dtype, dtype);
        return Err(format!("{from} and {to} differ in width: {} against {} bytes", from.size(), to.size()));
    }
    Ok(TensorType { dtype, shape: operand.shape.clone() })
}
