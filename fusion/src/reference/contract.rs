//! `dot_general` (N6, N7, N25, N28): per output element chains of fused multiply-adds, each over a block of terms.

use systole_kernels::arithmetic::Arithmetic;
use systole_kernels::program::Precision;
use systole_kernels::{DType, Scalar, TensorType};

use super::{HostTensor, chip, element, index};
use crate::ir::DotDims;

/// Terms per block, of the IEEE device.
const BLOCK: usize = 128;

pub(super) fn dot_general(
    arithmetic: Arithmetic,
    lhs: &HostTensor,
    rhs: &HostTensor,
    dims: &DotDims,
    ty: &TensorType,
) -> HostTensor {
    let free = |tensor: &HostTensor, batching: &[u32], contracting: &[u32]| -> Vec<usize> {
        let bound = |d: usize| batching.iter().chain(contracting).any(|&dim| dim as usize == d);
        (0..tensor.ty.rank()).filter(|&d| !bound(d)).collect()
    };
    let lhs_free = free(lhs, &dims.lhs_batching, &dims.lhs_contracting);
    let rhs_free = free(rhs, &dims.rhs_batching, &dims.rhs_contracting);
    let contracted: Vec<usize> = dims.lhs_contracting.iter().map(|&d| lhs.ty.shape[d as usize]).collect();

    HostTensor::build(ty, |result_index| {
        // The result's dimensions: batching ones, then lhs's others, then rhs's others.
        let (batch, others) = result_index.split_at(dims.lhs_batching.len());
        let (from_lhs, from_rhs) = others.split_at(lhs_free.len());
        let mut terms = Vec::new();
        for k in index::all(&contracted) {
            let mut lhs_index = vec![0; lhs.ty.rank()];
            let mut rhs_index = vec![0; rhs.ty.rank()];
            place(&mut lhs_index, &dims.lhs_batching, batch);
            place(&mut rhs_index, &dims.rhs_batching, batch);
            place(&mut lhs_index, &dims.lhs_contracting, &k);
            place(&mut rhs_index, &dims.rhs_contracting, &k);
            lhs_free.iter().zip(from_lhs).for_each(|(&d, &i)| lhs_index[d] = i);
            rhs_free.iter().zip(from_rhs).for_each(|(&d, &i)| rhs_index[d] = i);
            terms.push((lhs.at(&lhs_index), rhs.at(&rhs_index)));
        }
        match ty.dtype {
            dtype @ (DType::F16 | DType::BF16 | DType::F32) => match arithmetic {
                Arithmetic::Ieee => {
                    let terms = terms.into_iter().map(|(a, b)| (element::float(a), element::float(b)));
                    element::round(dtype, dot(BLOCK, terms))
                }
                Arithmetic::Chip(mxu) => chip::write(dtype, by_parts(mxu.depth(), &terms, dims.precision)),
            },
            dtype @ (DType::Bool | DType::I32 | DType::U32 | DType::I64) => {
                let zero = element::wrap(dtype, 0);
                terms.into_iter().fold(zero, |sum, (a, b)| {
                    let product = element::integer(a) * element::integer(b);
                    element::wrap(dtype, element::integer(sum) + element::integer(element::wrap(dtype, product)))
                })
            }
        }
    })
}

/// N28: a dot for each pair of parts that counts, those that matter least first.
fn by_parts(block: usize, terms: &[(Scalar, Scalar)], precision: Precision) -> f32 {
    let terms: Vec<(Vec<f32>, Vec<f32>)> =
        terms.iter().map(|&(a, b)| (chip::parts(a, precision), chip::parts(b, precision))).collect();
    let Some(count) = terms.first().map(|(a, _)| a.len()) else { return 0.0 };
    let pass = |left: usize, right: usize| dot(block, terms.iter().map(|(a, b)| (a[left], b[right])));
    let (high, middle, low) = (0, 1, 2);
    let corrections = match count {
        1 => return pass(high, high),
        // The lesser part of two is the middle one.
        2 => pass(middle, high) + pass(high, middle),
        _ => {
            let sum = pass(middle, middle) + pass(high, low) + pass(low, high);
            sum + pass(high, middle) + pass(middle, high)
        }
    };
    if corrections.is_finite() { corrections + pass(high, high) } else { 0.0 + pass(high, high) }
}

fn dot(block: usize, terms: impl Iterator<Item = (f32, f32)>) -> f32 {
    let terms: Vec<(f32, f32)> = terms.collect();
    let mut blocks = terms.chunks(block).map(|block| block.iter().fold(0.0f32, |acc, &(a, b)| f32::mul_add(a, b, acc)));
    let Some(first) = blocks.next() else {
        return 0.0;
    };
    blocks.fold(first, |sum, block| sum + block)
}

fn place(index: &mut [usize], dimensions: &[u32], values: &[usize]) {
    for (&d, &i) in dimensions.iter().zip(values) {
        index[d as usize] = i;
    }
}
