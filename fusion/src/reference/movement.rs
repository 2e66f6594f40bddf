//! Ops that move elements (N5, N18): the formulas of StableHLO's specification, by index vectors.

use systole_kernels::TensorType;

use super::HostTensor;
use crate::ir::{PadAmounts, SliceLimits};

pub(super) fn broadcast_in_dim(operand: &HostTensor, dimensions: &[u32], ty: &TensorType) -> HostTensor {
    HostTensor::build(ty, |index| {
        let source: Vec<usize> = dimensions
            .iter()
            .zip(operand.ty.shape.iter())
            .map(|(&dimension, &extent)| if extent == 1 { 0 } else { index[dimension as usize] })
            .collect();
        operand.at(&source)
    })
}

pub(super) fn transpose(operand: &HostTensor, permutation: &[u32], ty: &TensorType) -> HostTensor {
    HostTensor::build(ty, |index| {
        let mut source = vec![0; index.len()];
        for (&dimension, &i) in permutation.iter().zip(index) {
            source[dimension as usize] = i;
        }
        operand.at(&source)
    })
}

pub(super) fn slice(operand: &HostTensor, limits: &SliceLimits, ty: &TensorType) -> HostTensor {
    HostTensor::build(ty, |index| {
        let along = |(d, &i): (usize, &usize)| limits.start[d] as usize + i * limits.stride[d] as usize;
        let source: Vec<usize> = index.iter().enumerate().map(along).collect();
        operand.at(&source)
    })
}

pub(super) fn reverse(operand: &HostTensor, dimensions: &[u32], ty: &TensorType) -> HostTensor {
    HostTensor::build(ty, |index| {
        let along = |(d, &i): (usize, &usize)| if dimensions.contains(&(d as u32)) { ty.shape[d] - 1 - i } else { i };
        let source: Vec<usize> = index.iter().enumerate().map(along).collect();
        operand.at(&source)
    })
}

pub(super) fn concatenate(operands: &[&HostTensor], dimension: usize, ty: &TensorType) -> HostTensor {
    HostTensor::build(ty, |index| {
        let mut source = index.to_vec();
        for operand in operands {
            let extent = operand.ty.shape[dimension];
            if source[dimension] < extent {
                return operand.at(&source);
            }
            source[dimension] -= extent;
        }
        unreachable!("the result's extent is the sum of the operands'")
    })
}

pub(super) fn pad(operand: &HostTensor, value: &HostTensor, amounts: &PadAmounts, ty: &TensorType) -> HostTensor {
    HostTensor::build(ty, |index| {
        let mut source = Vec::new();
        for (d, &i) in index.iter().enumerate() {
            let distance = i as i128 - i128::from(amounts.low[d]);
            let step = i128::from(amounts.interior[d]) + 1;
            let inside = distance >= 0 && distance % step == 0 && distance / step < operand.ty.shape[d] as i128;
            if !inside {
                return value.at(&[]);
            }
            source.push((distance / step) as usize);
        }
        operand.at(&source)
    })
}
