//! `reduce` (N8, N24): lanes, then a tree over the lanes, then the initial value; 16-bit floats in f32.

use systole_kernels::{DType, Scalar, TensorType};

use super::{HostTensor, element, index};
use crate::ir::{Trace, region};

pub(super) fn reduce(
    operand: &HostTensor,
    init: &HostTensor,
    dimensions: &[u32],
    body: &Trace,
    ty: &TensorType,
) -> HostTensor {
    let monoid = region::as_monoid(body).expect("V2: the body is a monoid");
    let lane = region::monoid_op(monoid).info().lane.expect("a monoid's op has a lane function in its row");
    let combine = |a: Scalar, b: Scalar| element::binary(lane, a, b);

    let extents = &operand.ty.shape;
    let reduced: Vec<usize> = (0..extents.rank()).filter(|&d| dimensions.contains(&(d as u32))).collect();
    let kept: Vec<usize> = (0..extents.rank()).filter(|d| !reduced.contains(d)).collect();
    let minor = extents.rank().checked_sub(1).is_some_and(|minor| reduced.contains(&minor));
    let lanes = if minor { 1024 } else { 8 };
    let reduced_extents: Vec<usize> = reduced.iter().map(|&d| extents[d]).collect();

    HostTensor::build(ty, |result_index| {
        let mut source = vec![0; extents.rank()];
        for (&d, &i) in kept.iter().zip(result_index) {
            source[d] = i;
        }
        let mut partial: Vec<Option<Scalar>> = vec![None; lanes];
        for (i, reduced_index) in index::all(&reduced_extents).enumerate() {
            for (&d, &i) in reduced.iter().zip(&reduced_index) {
                source[d] = i;
            }
            let slot = &mut partial[i % lanes];
            let x = widen(operand.at(&source));
            *slot = Some(match *slot {
                None => x,
                Some(sum) => combine(sum, x),
            });
        }
        let mut stride = lanes / 2;
        while stride >= 1 {
            for j in 0..stride {
                if let Some(upper) = partial[j + stride] {
                    let lower = partial[j].expect("lanes are present from the first on");
                    partial[j] = Some(combine(lower, upper));
                }
            }
            stride /= 2;
        }
        let init = widen(init.at(&[]));
        let result = match partial[0] {
            None => init,
            Some(sum) => combine(sum, init),
        };
        if ty.dtype.is_float() { element::round(ty.dtype, element::float(result)) } else { result }
    })
}

/// A 16-bit float as an `f32`.
fn widen(x: Scalar) -> Scalar {
    match x.dtype() {
        DType::F16 | DType::BF16 => element::float(x).into(),
        DType::Bool | DType::I32 | DType::U32 | DType::I64 | DType::F32 => x,
    }
}
