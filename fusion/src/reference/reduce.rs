//! `reduce`: lanes, then a tree over the lanes, then the initial value; 16-bit floats in f32 (N8, N25). argmax and
//! argmin: the first of all pairs in an order (N26).

use std::cmp::Ordering;

use systole_kernels::program::{Comparison, Extreme, Monoid, Order};
use systole_kernels::{DType, Scalar, TensorType};

use super::{HostTensor, element, index};
use crate::ir::Trace;
use crate::ir::region::{self, Body};

/// Result `number` of a reduce of operands, then initial values.
pub(super) fn reduce(
    operands: &[&HostTensor],
    number: usize,
    dimensions: &[u32],
    body: &Trace,
    ty: &TensorType,
) -> HostTensor {
    let count = operands.len() / 2;
    match region::as_body(body).expect("V2: the body is one that reductions know") {
        Body::Each(monoids) => combine_all(operands[number], operands[count + number], dimensions, monoids[number], ty),
        Body::Arg(extreme) => first_of_all(operands, number, dimensions, extreme, ty),
    }
}

/// The dimensions that are reduced, and the others.
fn split(extents: &[usize], dimensions: &[u32]) -> (Vec<usize>, Vec<usize>) {
    (0..extents.len()).partition(|&d| dimensions.contains(&(d as u32)))
}

fn combine_all(
    operand: &HostTensor,
    init: &HostTensor,
    dimensions: &[u32],
    monoid: Monoid,
    ty: &TensorType,
) -> HostTensor {
    let lane = region::monoid_op(monoid).info().lane.expect("a monoid's op has a lane function in its row");
    let combine = |a: Scalar, b: Scalar| element::binary(lane, a, b);

    let extents = &operand.ty.shape;
    let (reduced, kept) = split(extents, dimensions);
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

fn first_of_all(
    operands: &[&HostTensor],
    number: usize,
    dimensions: &[u32],
    extreme: Extreme,
    ty: &TensorType,
) -> HostTensor {
    let &[values, indices, value, index] = operands else { unreachable!("V2: argmax has two operands") };
    let extents = &values.ty.shape;
    let (reduced, kept) = split(extents, dimensions);
    let reduced_extents: Vec<usize> = reduced.iter().map(|&d| extents[d]).collect();
    HostTensor::build(ty, |result_index| {
        let mut source = vec![0; extents.rank()];
        for (&d, &i) in kept.iter().zip(result_index) {
            source[d] = i;
        }
        let mut pairs = vec![(value.at(&[]), index.at(&[]))];
        for reduced_index in index::all(&reduced_extents) {
            for (&d, &i) in reduced.iter().zip(&reduced_index) {
                source[d] = i;
            }
            pairs.push((values.at(&source), indices.at(&source)));
        }
        let &(value, index) = pairs.iter().min_by(|&&a, &&b| order(extreme, a, b)).expect("there is an initial pair");
        let winner = if number == 0 { value } else { index };
        // A NaN becomes the canonical one; other floats round to themselves.
        if ty.dtype.is_float() { element::round(ty.dtype, element::float(winner)) } else { winner }
    })
}

/// The order of N26, in which the winner is the least.
fn order(extreme: Extreme, (a, i): (Scalar, Scalar), (b, j): (Scalar, Scalar)) -> Ordering {
    let nan = |x: Scalar| x.dtype().is_float() && element::float(x).is_nan();
    let greater = |order: Order, x: Scalar, y: Scalar| element::compare(Comparison::Gt, order, x, y);
    let descending = |order: Order, x: Scalar, y: Scalar| greater(order, y, x).cmp(&greater(order, x, y));
    let values = |order: Order| match extreme {
        Extreme::Greatest => descending(order, a, b),
        Extreme::Least => descending(order, b, a),
    };
    let indices = descending(Order::Partial, j, i);
    match (nan(a), nan(b)) {
        (true, true) => indices,
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        // Total order tells zeros apart, which are all that is left of equal floats.
        (false, false) => values(Order::Partial).then(indices).then_with(|| values(Order::Total)),
    }
}

/// A 16-bit float as an `f32`.
fn widen(x: Scalar) -> Scalar {
    match x.dtype() {
        DType::F16 | DType::BF16 => element::float(x).into(),
        DType::Bool | DType::I32 | DType::U32 | DType::I64 | DType::F32 => x,
    }
}
