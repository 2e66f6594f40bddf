//! Slices at starts that are data: `dynamic_slice` and `dynamic_update_slice`.
//!
//! Starts are one scalar per dimension, all of one integer dtype. Where they point is no matter of types: they clamp.

use systole_kernels::{Shape, TensorType};

use super::{Reason, one_per_dimension, same_dtype};

/// C2–C5.
pub(super) fn slice(operands: &[&TensorType], sizes: &[i64]) -> Result<TensorType, Reason> {
    let [operand, starts @ ..] = operands else {
        return Err(String::from("takes an operand and a start index for each of its dimensions, not 0 operands"));
    };
    start_indices(operand, starts)?;
    one_per_dimension("slice_sizes", sizes.len(), operand.rank())?;
    for (d, (&size, &extent)) in sizes.iter().zip(operand.shape.iter()).enumerate() {
        if !usize::try_from(size).is_ok_and(|size| size <= extent) {
            return Err(format!(
                "slice size {size} in dimension {d} does not lie within 0 and the extent {extent} of {}",
                operand.shape
            ));
        }
    }
    // Each lies within the operand's extent, so it fits.
    Ok(TensorType { dtype: operand.dtype, shape: sizes.iter().map(|&size| size as usize).collect::<Shape>() })
}

/// C2–C6.
pub(super) fn update_slice(operands: &[&TensorType]) -> Result<TensorType, Reason> {
    let [operand, update, starts @ ..] = operands else {
        return Err(format!(
            "takes an operand, an update, and a start index for each dimension, not {} operands",
            operands.len()
        ));
    };
    same_dtype("operand and update", operand, update)?;
    if operand.rank() != update.rank() {
        return Err(format!("operand shape {} and update shape {} differ in rank", operand.shape, update.shape));
    }
    start_indices(operand, starts)?;
    for (d, (&extent, &whole)) in update.shape.iter().zip(operand.shape.iter()).enumerate() {
        if extent > whole {
            return Err(format!(
                "update shape {} exceeds operand shape {} in dimension {d}: {extent} against {whole}",
                update.shape, operand.shape
            ));
        }
    }
    Ok((*operand).clone())
}

fn start_indices(operand: &TensorType, starts: &[&TensorType]) -> Result<(), Reason> {
    one_per_dimension("start_indices", starts.len(), operand.rank())?;
    let Some(first) = starts.first() else { return Ok(()) };
    if !first.dtype.is_integer() {
        return Err(format!("start indices are {}, not an integer dtype", first.dtype));
    }
    for start in starts {
        same_dtype("start indices'", first, start)?;
        if start.rank() != 0 {
            return Err(format!("a start index has shape {}, not a scalar's", start.shape));
        }
    }
    Ok(())
}
