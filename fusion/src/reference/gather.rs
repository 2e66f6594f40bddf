//! Ops whose coordinates are data (N19): the specification's formulas, name by name.

use systole_kernels::TensorType;

use super::{HostTensor, element};
use crate::ir::GatherDims;

pub(super) fn gather(operand: &HostTensor, indices: &HostTensor, dims: &GatherDims, ty: &TensorType) -> HostTensor {
    let vector_dim = dims.index_vector_dim as usize;
    let collapsed =
        |d: usize| dims.collapsed_slice_dims.iter().chain(&dims.operand_batching_dims).any(|&dim| dim as usize == d);
    HostTensor::build(ty, |result_index| {
        let is_offset = |d: usize| dims.offset_dims.contains(&(d as u32));
        let batch_index: Vec<usize> = (0..ty.rank()).filter(|&d| !is_offset(d)).map(|d| result_index[d]).collect();
        let mut offset_index = dims.offset_dims.iter().map(|&d| result_index[d as usize]);

        let mut operand_index = vec![0usize; operand.ty.rank()];
        for (component, &d) in dims.start_index_map.iter().enumerate() {
            let mut position = batch_index.clone();
            if vector_dim < indices.ty.rank() {
                position.insert(vector_dim, component);
            }
            let d = d as usize;
            let last = operand.ty.shape[d] as i128 - i128::from(dims.slice_sizes[d]);
            operand_index[d] += element::integer(indices.at(&position)).clamp(0, last) as usize;
        }
        for (&d, &start) in dims.operand_batching_dims.iter().zip(&dims.start_indices_batching_dims) {
            let start = start as usize;
            operand_index[d as usize] += batch_index[start - usize::from(start > vector_dim)];
        }
        for (d, position) in operand_index.iter_mut().enumerate() {
            if !collapsed(d) {
                *position += offset_index.next().expect("C1: one offset dimension for each kept dimension");
            }
        }
        operand.at(&operand_index)
    })
}

/// Each start clamped so that a slice of these extents lies within the operand.
fn adjusted(operand: &HostTensor, starts: &[&HostTensor], sizes: &[usize]) -> Vec<usize> {
    let clamped = |(d, start): (usize, &&HostTensor)| {
        let last = operand.ty.shape[d] as i128 - sizes[d] as i128;
        element::integer(start.at(&[])).clamp(0, last) as usize
    };
    starts.iter().enumerate().map(clamped).collect()
}

pub(super) fn dynamic_slice(operand: &HostTensor, starts: &[&HostTensor], ty: &TensorType) -> HostTensor {
    let starts = adjusted(operand, starts, &ty.shape);
    HostTensor::build(ty, |index| {
        let source: Vec<usize> = index.iter().zip(&starts).map(|(&i, &start)| start + i).collect();
        operand.at(&source)
    })
}

pub(super) fn dynamic_update_slice(
    operand: &HostTensor,
    update: &HostTensor,
    starts: &[&HostTensor],
    ty: &TensorType,
) -> HostTensor {
    let starts = adjusted(operand, starts, &update.ty.shape);
    HostTensor::build(ty, |index| {
        let within = |(d, &i): (usize, &usize)| i.checked_sub(starts[d]).filter(|&i| i < update.ty.shape[d]);
        match index.iter().enumerate().map(within).collect::<Option<Vec<usize>>>() {
            Some(inside) => update.at(&inside),
            None => operand.at(index),
        }
    })
}
