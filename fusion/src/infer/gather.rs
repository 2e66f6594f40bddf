//! `gather`, with batching dimensions.
//!
//! C1–C23 of the specification, in an order in which each check may rely on those before it.

use smallvec::SmallVec;
use systole_kernels::{Shape, TensorType};

use super::{Reason, below, distinct_below, one_per_dimension, take};
use crate::ir::GatherDims;

pub(super) fn gather(operands: &[&TensorType], dims: &GatherDims) -> Result<TensorType, Reason> {
    let [operand, indices] = take(operands)?;
    if !indices.dtype.is_integer() {
        return Err(format!("start indices are {}, not an integer dtype", indices.dtype));
    }
    let vector_dim = dims.index_vector_dim as usize;
    if vector_dim > indices.rank() {
        return Err(format!("index_vector_dim {vector_dim} exceeds the rank of start indices {}", indices.shape));
    }
    operand_dims(operand, dims)?;
    index_dims(operand, indices, dims)?;
    slice_sizes(operand, dims)?;

    // Batch dimensions are start_indices' without the index vector, offset dimensions the slice's kept ones.
    let mut batch = indices.shape.iter().enumerate().filter(|&(d, _)| d != vector_dim).map(|(_, &extent)| extent);
    let mut offset =
        dims.slice_sizes.iter().enumerate().filter(|&(d, _)| !sliced_away(dims, d)).map(|(_, &size)| size as usize);
    let batch_rank = indices.rank() - usize::from(vector_dim < indices.rank());
    let rank = batch_rank + dims.offset_dims.len();
    ascending("offset_dims", &dims.offset_dims, rank)?;
    let mut shape = SmallVec::<[usize; 4]>::new();
    for d in 0..rank {
        let source = if dims.offset_dims.contains(&(d as u32)) { offset.next() } else { batch.next() };
        // Every result dimension has its source: C1 counts the offset ones, `rank` the batch ones.
        shape.extend(source);
    }
    no_empty_slices(dims, &shape)?;
    Ok(TensorType { dtype: operand.dtype, shape: Shape::new(shape) })
}

/// Beyond the specification, whose formula reads past the end there: a collapsed or batching dimension stands for one
/// element, which a slice of none does not have. Where the result has no elements either, nothing is missed.
fn no_empty_slices(dims: &GatherDims, shape: &[usize]) -> Result<(), Reason> {
    if shape.contains(&0) {
        return Ok(());
    }
    match (0..dims.slice_sizes.len()).find(|&d| dims.slice_sizes[d] == 0 && sliced_away(dims, d)) {
        None => Ok(()),
        Some(d) => Err(format!(
            "slice size 0 in dimension {d}, which is collapsed or batching, leaves nothing for the result {}",
            Shape::new(shape.iter().copied())
        )),
    }
}

/// C1, C6–C8, C10, C11, C18, C19.
fn operand_dims(operand: &TensorType, dims: &GatherDims) -> Result<(), Reason> {
    let GatherDims { offset_dims, collapsed_slice_dims, operand_batching_dims, start_index_map, .. } = dims;
    ascending("collapsed_slice_dims", collapsed_slice_dims, operand.rank())?;
    ascending("operand_batching_dims", operand_batching_dims, operand.rank())?;
    if let Some(d) = collapsed_slice_dims.iter().find(|d| operand_batching_dims.contains(d)) {
        return Err(format!("dimension {d} is both in collapsed_slice_dims and in operand_batching_dims"));
    }
    let placed = offset_dims.len() + collapsed_slice_dims.len() + operand_batching_dims.len();
    if placed != operand.rank() {
        return Err(format!(
            "{} offset, {} collapsed and {} batching dimensions do not add up to the operand's rank {}",
            offset_dims.len(),
            collapsed_slice_dims.len(),
            operand_batching_dims.len(),
            operand.rank()
        ));
    }
    distinct_below("start_index_map", start_index_map, operand.rank())?;
    match start_index_map.iter().find(|d| operand_batching_dims.contains(d)) {
        None => Ok(()),
        Some(d) => Err(format!("dimension {d} is both in start_index_map and in operand_batching_dims")),
    }
}

/// C3, C13–C17.
fn index_dims(operand: &TensorType, indices: &TensorType, dims: &GatherDims) -> Result<(), Reason> {
    let components = indices.shape.get(dims.index_vector_dim as usize).copied().unwrap_or(1);
    if dims.start_index_map.len() != components {
        return Err(format!(
            "start_index_map has {} entries, an index vector of {} has {components}",
            dims.start_index_map.len(),
            indices.shape
        ));
    }
    let batching = &dims.start_indices_batching_dims;
    distinct_below("start_indices_batching_dims", batching, indices.rank())?;
    if batching.contains(&dims.index_vector_dim) {
        return Err(format!("index_vector_dim {} is in start_indices_batching_dims", dims.index_vector_dim));
    }
    if batching.len() != dims.operand_batching_dims.len() {
        return Err(format!(
            "the operand has {} batching dimensions, start indices have {}",
            dims.operand_batching_dims.len(),
            batching.len()
        ));
    }
    for (&o, &i) in dims.operand_batching_dims.iter().zip(batching) {
        let (a, b) = (operand.shape[o as usize], indices.shape[i as usize]);
        if a != b {
            return Err(format!(
                "batching dimension {o} of {} and {i} of {} differ: {a} against {b}",
                operand.shape, indices.shape
            ));
        }
    }
    Ok(())
}

/// C9, C12, C20, C21.
fn slice_sizes(operand: &TensorType, dims: &GatherDims) -> Result<(), Reason> {
    one_per_dimension("slice_sizes", dims.slice_sizes.len(), operand.rank())?;
    for (d, (&size, &extent)) in dims.slice_sizes.iter().zip(operand.shape.iter()).enumerate() {
        if !usize::try_from(size).is_ok_and(|size| size <= extent) {
            return Err(format!(
                "slice size {size} in dimension {d} does not lie within 0 and the extent {extent} of {}",
                operand.shape
            ));
        }
        if size > 1 && sliced_away(dims, d) {
            return Err(format!("slice size {size} in dimension {d}, which is collapsed or batching, exceeds 1"));
        }
    }
    Ok(())
}

fn sliced_away(dims: &GatherDims, d: usize) -> bool {
    dims.collapsed_slice_dims.iter().chain(&dims.operand_batching_dims).any(|&dim| dim as usize == d)
}

fn ascending(what: &str, dims: &[u32], rank: usize) -> Result<(), Reason> {
    for (i, &dim) in dims.iter().enumerate() {
        below(what, dim, rank)?;
        if i > 0 && dims[i - 1] >= dim {
            return Err(format!("{what} {dims:?} do not ascend"));
        }
    }
    Ok(())
}
