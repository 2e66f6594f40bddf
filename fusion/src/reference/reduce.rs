//! `reduce`: lanes, then a tree over the lanes, then the initial value; 16-bit floats in f32 (N8, N25, N27).
//! argmax and argmin: the first of all pairs in an order (N26).

use std::cmp::Ordering;

use systole_kernels::arithmetic::Arithmetic;
use systole_kernels::program::{Comparison, Extreme, Monoid, Order};
use systole_kernels::{DType, Scalar, TensorType};

use super::{HostTensor, chip, element, index};
use crate::ir::Trace;
use crate::ir::region::{self, Body};

/// Result `number` of a reduce of operands, then initial values.
pub(super) fn reduce(
    arithmetic: Arithmetic,
    operands: &[&HostTensor],
    number: usize,
    dimensions: &[u32],
    body: &Trace,
    ty: &TensorType,
) -> HostTensor {
    let count = operands.len() / 2;
    match region::as_body(body).expect("V2: the body is one that reductions know") {
        Body::Each(monoids) => {
            combine_all(arithmetic, [operands[number], operands[count + number]], dimensions, monoids[number], ty)
        }
        Body::Arg(extreme) => first_of_all(arithmetic, operands, number, dimensions, extreme, ty),
    }
}

/// The dimensions that are reduced, and the others.
fn split(extents: &[usize], dimensions: &[u32]) -> (Vec<usize>, Vec<usize>) {
    (0..extents.len()).partition(|&d| dimensions.contains(&(d as u32)))
}

fn combine_all(
    arithmetic: Arithmetic,
    [operand, init]: [&HostTensor; 2],
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
            let x = read(arithmetic, operand.at(&source));
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
        let init = read(arithmetic, init.at(&[]));
        let result = match partial[0] {
            None => init,
            Some(sum) => combine(sum, init),
        };
        match arithmetic {
            _ if !ty.dtype.is_float() => result,
            Arithmetic::Ieee => element::round(ty.dtype, element::float(result)),
            Arithmetic::Chip(_) => chip::write(ty.dtype, element::float(result)),
        }
    })
}

fn first_of_all(
    arithmetic: Arithmetic,
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
        let read = |x: Scalar| match arithmetic {
            Arithmetic::Chip(_) if x.dtype().is_float() => chip::write(x.dtype(), element::float(x)),
            Arithmetic::Ieee | Arithmetic::Chip(_) => x,
        };
        let mut pairs = vec![(read(value.at(&[])), index.at(&[]))];
        for reduced_index in index::all(&reduced_extents) {
            for (&d, &i) in reduced.iter().zip(&reduced_index) {
                source[d] = i;
            }
            pairs.push((read(values.at(&source)), indices.at(&source)));
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

/// An element as it is combined: a 16-bit float as an `f32`, and as a chip reads it.
fn read(arithmetic: Arithmetic, x: Scalar) -> Scalar {
    let x = match arithmetic {
        Arithmetic::Ieee => x,
        Arithmetic::Chip(_) => chip::read(x),
    };
    match x.dtype() {
        DType::F16 | DType::BF16 => element::float(x).into(),
        DType::Bool | DType::I32 | DType::U32 | DType::I64 | DType::F32 => x,
    }
}
