//! Ops that move elements: `broadcast_in_dim`, `reshape`, `transpose`, `slice`, `reverse`, `concatenate`, `pad`.
//!
//! Extents are `usize` and amounts `i64` from anywhere, so arithmetic between them is done in `i128`, where it cannot
//! overflow.

use smallvec::SmallVec;
use systole_kernels::{Shape, TensorType};

use super::{MAX_OPERANDS, Reason, below, distinct_below, one_per_dimension, same_dtype, take};
use crate::ir::{PadAmounts, SliceLimits};

/// C2–C5.
pub(super) fn broadcast_in_dim(
    operands: &[&TensorType],
    shape: &Shape,
    dimensions: &[u32],
) -> Result<TensorType, Reason> {
    let [operand] = take(operands)?;
    one_per_dimension("broadcast_dimensions", dimensions.len(), operand.rank())?;
    distinct_below("broadcast_dimensions", dimensions, shape.rank())?;
    for (d, (&extent, &dimension)) in operand.shape.iter().zip(dimensions).enumerate() {
        let target = shape[dimension as usize];
        if extent != 1 && extent != target {
            return Err(format!(
                "operand dimension {d} has extent {extent}, which does not broadcast to {target} in dimension \
                 {dimension} of {shape}"
            ));
        }
    }
    Ok(TensorType { dtype: operand.dtype, shape: shape.clone() })
}

/// C2: the number of elements stays.
pub(super) fn reshape(operands: &[&TensorType], shape: &Shape) -> Result<TensorType, Reason> {
    let [operand] = take(operands)?;
    let (before, after) = (operand.shape.checked_elements(), shape.checked_elements());
    if before.is_none() || before != after {
        let words = |n: Option<usize>| n.map_or(String::from("too many"), |n| n.to_string());
        return Err(format!("{} has {} elements, {shape} has {}", operand.shape, words(before), words(after)));
    }
    Ok(TensorType { dtype: operand.dtype, shape: shape.clone() })
}

/// C2: a permutation.
pub(super) fn transpose(operands: &[&TensorType], permutation: &[u32]) -> Result<TensorType, Reason> {
    let [operand] = take(operands)?;
    one_per_dimension("permutation", permutation.len(), operand.rank())?;
    distinct_below("permutation", permutation, operand.rank())?;
    let shape = permutation.iter().map(|&d| operand.shape[d as usize]).collect();
    Ok(TensorType { dtype: operand.dtype, shape })
}

/// C2–C5.
pub(super) fn slice(operands: &[&TensorType], limits: &SliceLimits) -> Result<TensorType, Reason> {
    let [operand] = take(operands)?;
    let SliceLimits { start, limit, stride } = limits;
    one_per_dimension("start_indices", start.len(), operand.rank())?;
    one_per_dimension("limit_indices", limit.len(), operand.rank())?;
    one_per_dimension("strides", stride.len(), operand.rank())?;
    let mut shape = SmallVec::<[usize; 4]>::new();
    for (d, &extent) in operand.shape.iter().enumerate() {
        let (start, limit, stride) = (i128::from(start[d]), i128::from(limit[d]), i128::from(stride[d]));
        if stride < 1 {
            return Err(format!("the stride of dimension {d} is {stride}, not at least 1"));
        }
        if !(0 <= start && start <= limit && limit <= extent as i128) {
            return Err(format!(
                "{start}:{limit} does not lie within 0:{extent} in dimension {d} of {}",
                operand.shape
            ));
        }
        // At most the operand's extent, so it fits.
        shape.push(((limit - start + stride - 1) / stride) as usize);
    }
    Ok(TensorType { dtype: operand.dtype, shape: Shape::new(shape) })
}

/// C2, C3: the dimensions are the operand's, each at most once.
pub(super) fn reverse(operands: &[&TensorType], dimensions: &[u32]) -> Result<TensorType, Reason> {
    let [operand] = take(operands)?;
    distinct_below("dimensions", dimensions, operand.rank())?;
    Ok(operand.clone())
}

/// C1–C6.
pub(super) fn concatenate(operands: &[&TensorType], dimension: u32) -> Result<TensorType, Reason> {
    let [first, others @ ..] = operands else {
        return Err(String::from("takes at least 1 operand, not 0"));
    };
    if operands.len() > MAX_OPERANDS {
        return Err(format!("takes at most {MAX_OPERANDS} operands, not {}", operands.len()));
    }
    below("dimension", dimension, first.rank())?;
    let mut total = first.shape[dimension as usize];
    for other in others {
        same_dtype("operand", first, other)?;
        if first.rank() != other.rank() {
            return Err(format!("operand shapes {} and {} differ in rank", first.shape, other.shape));
        }
        for (d, (&a, &b)) in first.shape.iter().zip(other.shape.iter()).enumerate() {
            if d != dimension as usize && a != b {
                return Err(format!(
                    "operand shapes {} and {} differ in dimension {d}, which is not concatenated: {a} against {b}",
                    first.shape, other.shape
                ));
            }
        }
        total = total
            .checked_add(other.shape[dimension as usize])
            .ok_or_else(|| format!("the extents of dimension {dimension} sum to more than an index holds"))?;
    }
    let shape = first.shape.iter().enumerate().map(|(d, &e)| if d == dimension as usize { total } else { e }).collect();
    Ok(TensorType { dtype: first.dtype, shape })
}

/// C1–C4: one scalar of the operand's dtype; interior padding comes before edge padding, no extent gets negative.
pub(super) fn pad(operands: &[&TensorType], amounts: &PadAmounts) -> Result<TensorType, Reason> {
    let [operand, value] = take(operands)?;
    same_dtype("operand and padding value", operand, value)?;
    if value.rank() != 0 {
        return Err(format!("the padding value has shape {}, not a scalar's", value.shape));
    }
    let PadAmounts { low, high, interior } = amounts;
    one_per_dimension("edge_padding_low", low.len(), operand.rank())?;
    one_per_dimension("edge_padding_high", high.len(), operand.rank())?;
    one_per_dimension("interior_padding", interior.len(), operand.rank())?;
    let mut shape = SmallVec::<[usize; 4]>::new();
    for (d, &extent) in operand.shape.iter().enumerate() {
        if interior[d] < 0 {
            return Err(format!("the interior padding of dimension {d} is {}, not at least 0", interior[d]));
        }
        let extent = extent as i128;
        let padded = i128::from(low[d]) + extent + (extent - 1).max(0) * i128::from(interior[d]) + i128::from(high[d]);
        shape.push(usize::try_from(padded).map_err(|_| {
            format!(
                "extent {extent} of dimension {d} with padding {}, {} and {} between becomes {padded}",
                low[d], high[d], interior[d]
            )
        })?);
    }
    Ok(TensorType { dtype: operand.dtype, shape: Shape::new(shape) })
}
