//! The reference interpreter against values worked out by hand, clause by clause of docs/numerics.md.

mod samples;

use samples::{samples, single, ty};
use systole_fusion::ir::region::monoid_region;
use systole_fusion::ir::{Attrs, DotDims, GatherDims, Nan, Opcode, Origin, PadAmounts, SliceLimits, Trace, ValueId};
use systole_fusion::reference::{HostTensor, interpret};
use systole_fusion::verify::verify;
use systole_kernels::arithmetic::is_arithmetic;
use systole_kernels::program::{Comparison, Monoid, Order};
use systole_kernels::{DType, Element, Shape, TensorType, bf16, f16};

const INF: f32 = f32::INFINITY;
const NAN: f32 = f32::from_bits(0x7fc0_0000);
const PAYLOAD: f32 = f32::from_bits(0xffc1_2345);

fn evaluate(op: Opcode, operands: &[HostTensor], attrs: Attrs, regions: &[systole_fusion::ir::Region]) -> HostTensor {
    let types: Vec<TensorType> = operands.iter().map(|operand| operand.ty.clone()).collect();
    let outputs = interpret(&single(op, &types, attrs, regions), operands).expect("interprets");
    <[HostTensor; 1]>::try_from(outputs).expect("one output").into_iter().next().expect("one output")
}

fn row<T: Element>(elements: &[T]) -> HostTensor {
    HostTensor::from_slice([elements.len()], elements)
}

fn bits(tensor: &HostTensor) -> Vec<u64> {
    tensor.scalars().into_iter().map(|scalar| scalar.bits()).collect()
}

/// Elementwise, bit by bit.
fn check<T: Element, U: Element>(op: Opcode, operands: &[&[T]], attrs: Attrs, expected: &[U]) {
    let operands: Vec<HostTensor> = operands.iter().map(|elements| row(elements)).collect();
    let found = evaluate(op, &operands, attrs, &[]);
    assert_eq!(found.ty.dtype, U::DTYPE);
    assert_eq!(bits(&found), bits(&row(expected)), "{op} gives {:?}, expected {expected:?}", found.to_vec::<U>());
}

#[test]
fn n2_products_and_sums_round_apart() {
    // (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24, which rounds to 1 + 2^-11; fused, the difference would be 2^-24.
    let x = 1.0 + 2f32.powi(-12);
    let mut trace = Trace::new();
    let a = trace.input(ty(DType::F32, &[]));
    let c = trace.input(ty(DType::F32, &[]));
    let product = trace.push(Opcode::Multiply, [a, a], Attrs::None, [], Origin::Unknown).expect("fits");
    let sum = trace.push(Opcode::Add, [product, c], Attrs::None, [], Origin::Unknown).expect("fits");
    trace.output(sum);
    let inputs = [HostTensor::scalar(x), HostTensor::scalar(-(1.0 + 2f32.powi(-11)))];
    assert_eq!(interpret(&trace, &inputs).expect("interprets")[0].to_vec::<f32>(), [0.0]);
}

#[test]
fn n3_functions_at_their_limits() {
    let unary = |op, xs: &[f32], expected: &[f32]| check(op, &[xs], Attrs::None, expected);
    unary(Opcode::Exponential, &[0.0, 1.0, -INF, INF, 89.0, PAYLOAD], &[1.0, 2.718_281_7, 0.0, INF, INF, NAN]);
    unary(Opcode::Log, &[1.0, 0.0, -0.0, -1.0, INF], &[0.0, -INF, -INF, NAN, INF]);
    unary(Opcode::Tanh, &[0.0, -0.0, INF, -INF, 20.0], &[0.0, -0.0, 1.0, -1.0, 1.0]);
    unary(Opcode::Logistic, &[0.0, INF, -INF], &[0.5, 1.0, 0.0]);
    unary(Opcode::Sqrt, &[4.0, -0.0, -1.0, 2.0], &[2.0, -0.0, NAN, std::f32::consts::SQRT_2]);
    unary(Opcode::Rsqrt, &[4.0, 0.0, -0.0, INF, -1.0], &[0.5, INF, -INF, 0.0, NAN]);
}

#[test]
fn n1_subnormals_are_kept() {
    let least = f32::from_bits(1);
    check(Opcode::Add, &[&[least], &[least]], Attrs::None, &[f32::from_bits(2)]);
    check(Opcode::Multiply, &[&[f32::MIN_POSITIVE], &[0.5]], Attrs::None, &[f32::from_bits(0x0040_0000)]);
}

#[test]
fn n4_n5_nan_payloads() {
    check(Opcode::Add, &[&[PAYLOAD, INF], &[1.0, -INF]], Attrs::None, &[NAN, NAN]);
    check(Opcode::Sign, &[&[PAYLOAD]], Attrs::None, &[NAN]);
    check(Opcode::Floor, &[&[PAYLOAD]], Attrs::None, &[NAN]);
    check(Opcode::Convert, &[&[PAYLOAD, 1.5]], Attrs::Convert(DType::F32), &[NAN, 1.5]);
    check(Opcode::Negate, &[&[PAYLOAD, 0.0]], Attrs::None, &[-PAYLOAD, -0.0]);
    check(Opcode::Abs, &[&[PAYLOAD, -0.0]], Attrs::None, &[f32::from_bits(0x7fc1_2345), 0.0]);
    check(Opcode::Reshape, &[&[PAYLOAD]], Attrs::Reshape(Shape::from([1])), &[PAYLOAD]);
    let reversed =
        evaluate(Opcode::Select, &[row(&[true, false]), row(&[PAYLOAD, 1.0]), row(&[2.0, -PAYLOAD])], Attrs::None, &[]);
    assert_eq!(bits(&reversed), [0xffc1_2345, 0x7fc1_2345], "N22");
}

fn dot_dims(lhs: u32, rhs: u32) -> Attrs {
    Attrs::Dot(Box::new(DotDims {
        lhs_contracting: [lhs].into_iter().collect(),
        rhs_contracting: [rhs].into_iter().collect(),
        ..DotDims::default()
    }))
}

#[test]
fn n6_dot_is_a_fused_chain_in_blocks_of_128() {
    let lhs = HostTensor::from_slice([2, 3], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let rhs = HostTensor::from_slice([3, 2], &[7.0f32, 8.0, 9.0, 10.0, 11.0, 12.0]);
    let product = evaluate(Opcode::DotGeneral, &[lhs, rhs], dot_dims(1, 0), &[]);
    assert_eq!(product.to_vec::<f32>(), [58.0, 64.0, 139.0, 154.0]);

    // Fused: the exact 1 + 2^-11 + 2^-24 meets -(1 + 2^-11) before it is rounded.
    let x = 1.0 + 2f32.powi(-12);
    let fused =
        evaluate(Opcode::DotGeneral, &[row(&[1.0f32, x]), row(&[-(1.0 + 2f32.powi(-11)), x])], dot_dims(0, 0), &[]);
    assert_eq!(fused.to_vec::<f32>(), [2f32.powi(-24)]);

    // 2^24 in the first block swallows single ones that follow there; those of the next block come as a sum.
    let mut ones = vec![1.0f32; 256];
    ones[0] = 2f32.powi(24);
    let blocks = evaluate(Opcode::DotGeneral, &[row(&ones), row(&[1.0f32; 256])], dot_dims(0, 0), &[]);
    assert_eq!(blocks.to_vec::<f32>(), [2f32.powi(24) + 128.0]);

    // acc starts at +0, so a product of -0 is lost.
    let zero = evaluate(Opcode::DotGeneral, &[row(&[-0.0f32]), row(&[1.0f32])], dot_dims(0, 0), &[]);
    assert_eq!(bits(&zero), [0]);
    let nan = evaluate(Opcode::DotGeneral, &[row(&[PAYLOAD]), row(&[1.0f32])], dot_dims(0, 0), &[]);
    assert_eq!(bits(&nan), [0x7fc0_0000]);
}

#[test]
fn n6_contracted_axes_flatten_in_the_listed_order() {
    // Next to 2^24 a single 1 is swallowed, so the sum tells where -2^24 came.
    let big = 2f32.powi(24);
    let lhs = HostTensor::from_slice([2, 2], &[big, 1.0, -big, 1.0]);
    let one = HostTensor::from_slice([2, 2], &[1.0f32; 4]);
    let contract = |order: [u32; 2]| {
        let dims = DotDims {
            lhs_contracting: order.into_iter().collect(),
            rhs_contracting: order.into_iter().collect(),
            ..DotDims::default()
        };
        let operands = [lhs.clone(), one.clone()];
        evaluate(Opcode::DotGeneral, &operands, Attrs::Dot(Box::new(dims)), &[]).to_vec::<f32>()
    };
    assert_eq!(contract([0, 1]), [1.0], "2^24 + 1 = 2^24, - 2^24, + 1");
    assert_eq!(contract([1, 0]), [2.0], "2^24 - 2^24, + 1, + 1");
}

#[test]
fn n7_empty_and_integer_dots() {
    let empty = evaluate(
        Opcode::DotGeneral,
        &[HostTensor::from_slice::<f32>([2, 0], &[]), HostTensor::from_slice::<f32>([0, 1], &[])],
        dot_dims(1, 0),
        &[],
    );
    assert_eq!(bits(&empty), [0, 0]);
    let wrapped = evaluate(Opcode::DotGeneral, &[row(&[i32::MAX, 3]), row(&[2i32, 5])], dot_dims(0, 0), &[]);
    assert_eq!(wrapped.to_vec::<i32>(), [13]);
    let batched = DotDims {
        lhs_batching: [0].into_iter().collect(),
        rhs_batching: [1].into_iter().collect(),
        ..DotDims::default()
    };
    let outer = evaluate(
        Opcode::DotGeneral,
        &[HostTensor::from_slice([2, 2], &[1i64, 2, 3, 4]), HostTensor::from_slice([1, 2], &[10i64, 100])],
        Attrs::Dot(Box::new(batched)),
        &[],
    );
    assert_eq!((outer.ty.to_string().as_str(), outer.to_vec::<i64>()), ("tensor<2x2x1xi64>", vec![10, 20, 300, 400]));
}

fn reduce<T: Element>(operand: HostTensor, init: T, dims: &[u32], monoid: Monoid) -> HostTensor {
    let attrs = Attrs::Reduce(dims.iter().copied().collect());
    evaluate(Opcode::Reduce, &[operand, HostTensor::scalar(init)], attrs, &[monoid_region(monoid, T::DTYPE)])
}

#[test]
fn n8_reduce_runs_in_lanes_and_a_tree() {
    let matrix = HostTensor::from_slice([2, 3], &[1i32, 2, 3, 4, 5, 6]);
    assert_eq!(reduce(matrix.clone(), 10i32, &[0], Monoid::Add).to_vec::<i32>(), [15, 17, 19]);
    assert_eq!(reduce(matrix.clone(), 1i32, &[1], Monoid::Multiply).to_vec::<i32>(), [6, 120]);
    assert_eq!(reduce(matrix.clone(), 0i32, &[1, 0], Monoid::Maximum).to_vec::<i32>(), [6]);
    assert_eq!(reduce(matrix, 0i32, &[], Monoid::Add).to_vec::<i32>(), [1, 2, 3, 4, 5, 6]);

    // The last dimension is reduced: 1,024 lanes. Elements 0 and 1024 share a lane, so 2^24 and -2^24 cancel before
    // the ones are added.
    let big = 2f32.powi(24);
    let mut wide = vec![1.0f32; 1025];
    (wide[0], wide[1024]) = (big, -big);
    assert_eq!(reduce(row(&wide), 0.0f32, &[0], Monoid::Add).to_vec::<f32>(), [1023.0]);
    // In 8 lanes element 8 shares the lane of element 0, element 4 the first step of the tree.
    let mut tall = vec![1.0f32; 9];
    (tall[0], tall[8]) = (big, -big);
    let column = HostTensor::from_slice([9, 1], &tall);
    assert_eq!(reduce(column, 0.0f32, &[0], Monoid::Add).to_vec::<f32>(), [7.0]);
    // Without the last element the tree adds 0+4, 2+6, then pairs of pairs: (2^24 + 1) + (1 + 1) ... to 2^24 + 6.
    let column = HostTensor::from_slice([8, 1], &tall[..8]);
    assert_eq!(reduce(column, 0.0f32, &[0], Monoid::Add).to_vec::<f32>(), [big + 6.0]);
    // The initial value comes last: 1 + ... cannot be swallowed by it early.
    assert_eq!(reduce(row(&[1.0f32, 1.0]), big, &[0], Monoid::Add).to_vec::<f32>(), [big + 2.0]);
}

#[test]
fn n8_edges_of_reduce() {
    let none = HostTensor::from_slice::<f32>([2, 0], &[]);
    assert_eq!(bits(&reduce(none.clone(), -0.0f32, &[1], Monoid::Add)), [0x8000_0000; 2]);
    assert_eq!(bits(&reduce(none, PAYLOAD, &[1], Monoid::Maximum)), [0x7fc0_0000; 2]);
    let nan = row(&[1.0, PAYLOAD, 3.0]);
    assert_eq!(bits(&reduce(nan, -INF, &[0], Monoid::Maximum)), [0x7fc0_0000]);
    assert_eq!(bits(&reduce(row(&[-0.0f32, -0.0]), -0.0f32, &[0], Monoid::Add)), [0x8000_0000]);
    assert_eq!(reduce(row(&[true, false]), false, &[0], Monoid::Or).to_vec::<bool>(), [true]);
    assert_eq!(reduce(row(&[true, false]), true, &[0], Monoid::And).to_vec::<bool>(), [false]);
    assert_eq!(reduce(row(&[6u32, 12]), u32::MAX, &[0], Monoid::And).to_vec::<u32>(), [4]);
}

#[test]
fn n8_appending_the_identity_changes_nothing() {
    let mut seed = 7u32;
    let mut elements = vec![];
    for _ in 0..1500 {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        elements.push((seed as i32 as f32) * 1e-3);
    }
    for n in [0, 1, 2, 7, 1000, 1024, 1025, 1500] {
        let short = reduce(row(&elements[..n]), 0.5f32, &[0], Monoid::Add);
        let mut padded = elements[..n].to_vec();
        padded.extend([-0.0; 700]);
        assert_eq!(bits(&reduce(row(&padded), 0.5f32, &[0], Monoid::Add)), bits(&short), "{n} elements");
    }
}

#[test]
fn n9_integers_wrap() {
    check(Opcode::Add, &[&[i32::MAX], &[1]], Attrs::None, &[i32::MIN]);
    check(Opcode::Subtract, &[&[0u32], &[1]], Attrs::None, &[u32::MAX]);
    check(Opcode::Multiply, &[&[i64::MAX], &[2]], Attrs::None, &[-2i64]);
    check(Opcode::Negate, &[&[i32::MIN, 5]], Attrs::None, &[i32::MIN, -5]);
    check(Opcode::Negate, &[&[1u32]], Attrs::None, &[u32::MAX]);
    check(Opcode::Abs, &[&[i64::MIN, -3]], Attrs::None, &[i64::MIN, 3]);
    check(Opcode::Not, &[&[0i32, -1]], Attrs::None, &[-1i32, 0]);
}

#[test]
fn n10_integer_division() {
    let (a, b) = ([7i32, -7, 7, -7, 5, i32::MIN], [2i32, 2, -2, -2, 0, -1]);
    check(Opcode::Divide, &[&a, &b], Attrs::None, &[3i32, -3, -3, 3, -1, i32::MIN]);
    check(Opcode::Remainder, &[&a, &b], Attrs::None, &[1i32, -1, 1, -1, 5, 0]);
    check(Opcode::Divide, &[&[7u32, 7], &[0, 2]], Attrs::None, &[u32::MAX, 3]);
    check(Opcode::Remainder, &[&[i64::MIN, 9], &[-1, 0]], Attrs::None, &[0i64, 9]);
}

#[test]
fn n11_integer_power() {
    let (a, b) = ([2i32, 2, -3, 1, -1, -1, 0, 3, 0], [10i32, 32, 3, -5, -5, -4, -1, -1, 0]);
    check(Opcode::Power, &[&a, &b], Attrs::None, &[1024i32, 0, -27, 1, -1, 1, 0, 0, 1]);
    check(Opcode::Power, &[&[3i64], &[41]], Attrs::None, &[3i64.wrapping_pow(41)]);
    check(Opcode::Power, &[&[u32::MAX, 5], &[u32::MAX, 0]], Attrs::None, &[u32::MAX, 1]);
}

#[test]
fn n12_conversions() {
    let floats = [1.9f32, -1.9, 3e9, -3e9, NAN, INF, -0.0];
    check(Opcode::Convert, &[&floats], Attrs::Convert(DType::I32), &[1, -1, i32::MAX, i32::MIN, 0, i32::MAX, 0]);
    check(Opcode::Convert, &[&floats], Attrs::Convert(DType::U32), &[1u32, 0, 3_000_000_000, 0, 0, u32::MAX, 0]);
    check(Opcode::Convert, &[&[1e19f32, -1e19]], Attrs::Convert(DType::I64), &[i64::MAX, i64::MIN]);
    check(Opcode::Convert, &[&floats], Attrs::Convert(DType::Bool), &[true, true, true, true, true, true, false]);
    check(Opcode::Convert, &[&[16_777_217i32, 16_777_219]], Attrs::Convert(DType::F32), &[16_777_216f32, 16_777_220.0]);
    check(Opcode::Convert, &[&[i64::MAX]], Attrs::Convert(DType::F32), &[9.223_372e18f32]);
    check(Opcode::Convert, &[&[-1i64, 1 << 33]], Attrs::Convert(DType::U32), &[u32::MAX, 0]);
    check(Opcode::Convert, &[&[u32::MAX]], Attrs::Convert(DType::I64), &[4_294_967_295i64]);
    check(Opcode::Convert, &[&[true, false]], Attrs::Convert(DType::F32), &[1.0f32, 0.0]);
    check(Opcode::Convert, &[&[2i32, 0]], Attrs::Convert(DType::Bool), &[true, false]);
}

#[test]
fn n13_n14_extrema_and_bools() {
    check(
        Opcode::Maximum,
        &[&[0.0f32, -0.0, PAYLOAD, 1.0], &[-0.0, 0.0, 1.0, 2.0]],
        Attrs::None,
        &[0.0, 0.0, NAN, 2.0],
    );
    check(
        Opcode::Minimum,
        &[&[0.0f32, -0.0, 1.0, 1.0], &[-0.0, 0.0, PAYLOAD, 2.0]],
        Attrs::None,
        &[-0.0, -0.0, NAN, 1.0],
    );
    check(Opcode::Maximum, &[&[u32::MAX], &[1]], Attrs::None, &[u32::MAX]);
    check(Opcode::Minimum, &[&[-1i32], &[1]], Attrs::None, &[-1]);
    let (a, b) = ([false, false, true, true], [false, true, false, true]);
    let or = [false, true, true, true];
    let and = [false, false, false, true];
    for (op, expected) in [
        (Opcode::Add, or),
        (Opcode::Maximum, or),
        (Opcode::Or, or),
        (Opcode::Multiply, and),
        (Opcode::Minimum, and),
        (Opcode::And, and),
        (Opcode::Xor, [false, true, true, false]),
    ] {
        check(op, &[&a, &b], Attrs::None, &expected);
    }
    check(Opcode::Not, &[&[true, false]], Attrs::None, &[false, true]);
}

#[test]
fn n15_clamp() {
    check(
        Opcode::Clamp,
        &[&[0.0f32, 0.0, 2.0, 0.0, NAN], &[-1.0, PAYLOAD, 1.0, -0.0, 1.0], &[1.0, 1.0, 1.0, 1.0, 1.0]],
        Attrs::None,
        &[0.0f32, NAN, 1.0, 0.0, NAN],
    );
    let scalars = evaluate(
        Opcode::Clamp,
        &[HostTensor::scalar(-1i32), row(&[-5i32, 0, 5]), HostTensor::scalar(1i32)],
        Attrs::None,
        &[],
    );
    assert_eq!(scalars.to_vec::<i32>(), [-1, 0, 1]);
}

#[test]
fn n16_comparison() {
    let compare = |direction, order| Attrs::Compare { direction, order };
    let (a, b) = ([1.0f32, NAN, -0.0, 1.0], [2.0f32, NAN, 0.0, 1.0]);
    for (direction, partial, total) in [
        (Comparison::Eq, [false, false, true, true], [false, true, false, true]),
        (Comparison::Ne, [true, true, false, false], [true, false, true, false]),
        (Comparison::Lt, [true, false, false, false], [true, false, true, false]),
        (Comparison::Le, [true, false, true, true], [true, true, true, true]),
        (Comparison::Gt, [false, false, false, false], [false, false, false, false]),
        (Comparison::Ge, [false, false, true, true], [false, true, false, true]),
    ] {
        check(Opcode::Compare, &[&a, &b], compare(direction, Order::Partial), &partial);
        check(Opcode::Compare, &[&a, &b], compare(direction, Order::Total), &total);
    }
    let ascending = [-NAN, -INF, -1.0, -f32::from_bits(1), -0.0, 0.0, 1.0, INF, NAN, f32::from_bits(0x7fff_ffff)];
    check(Opcode::Compare, &[&ascending[..9], &ascending[1..]], compare(Comparison::Lt, Order::Total), &[true; 9]);
    check(Opcode::Compare, &[&[false, true], &[true, false]], compare(Comparison::Lt, Order::Partial), &[true, false]);
    check(Opcode::Compare, &[&[u32::MAX], &[1]], compare(Comparison::Gt, Order::Partial), &[true]);
    check(Opcode::Compare, &[&[-1i64], &[1]], compare(Comparison::Gt, Order::Partial), &[false]);
}

#[test]
fn n17_iota() {
    let iota = |ty: TensorType, dimension| evaluate(Opcode::Iota, &[], Attrs::Iota { ty, dimension }, &[]);
    assert_eq!(iota(ty(DType::I32, &[2, 3]), 1).to_vec::<i32>(), [0, 1, 2, 0, 1, 2]);
    assert_eq!(iota(ty(DType::F32, &[2, 3]), 0).to_vec::<f32>(), [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
}

#[test]
fn n18_movement() {
    let matrix = HostTensor::from_slice([2, 3], &[1i32, 2, 3, 4, 5, 6]);
    let one = |op, attrs| evaluate(op, std::slice::from_ref(&matrix), attrs, &[]).to_vec::<i32>();
    assert_eq!(one(Opcode::Transpose, Attrs::Transpose([1, 0].into_iter().collect())), [1, 4, 2, 5, 3, 6]);
    let limits = SliceLimits {
        start: [0, 0].into_iter().collect(),
        limit: [2, 3].into_iter().collect(),
        stride: [1, 2].into_iter().collect(),
    };
    assert_eq!(one(Opcode::Slice, Attrs::Slice(Box::new(limits))), [1, 3, 4, 6]);

    // A transposition of three dimensions tells the permutation from its inverse.
    let cube = HostTensor::from_slice([1, 2, 3], &[1i32, 2, 3, 4, 5, 6]);
    let turned = evaluate(Opcode::Transpose, &[cube], Attrs::Transpose([1, 2, 0].into_iter().collect()), &[]);
    assert_eq!((turned.ty.to_string().as_str(), turned.to_vec::<i32>()), ("tensor<2x3x1xi32>", vec![1, 2, 3, 4, 5, 6]));

    let broadcast = evaluate(
        Opcode::BroadcastInDim,
        &[HostTensor::from_slice([1, 3], &[1i32, 2, 3])],
        Attrs::BroadcastInDim { shape: Shape::from([3, 2]), dimensions: [1, 0].into_iter().collect() },
        &[],
    );
    assert_eq!(broadcast.to_vec::<i32>(), [1, 1, 2, 2, 3, 3]);

    let joined = evaluate(
        Opcode::Concatenate,
        &[matrix.clone(), HostTensor::from_slice::<i32>([2, 0], &[]), HostTensor::from_slice([2, 1], &[8, 9])],
        Attrs::Concatenate(1),
        &[],
    );
    assert_eq!(joined.to_vec::<i32>(), [1, 2, 3, 8, 4, 5, 6, 9]);

    let pad = |low: i64, high: i64, interior: i64| {
        let amounts = PadAmounts {
            low: [low].into_iter().collect(),
            high: [high].into_iter().collect(),
            interior: [interior].into_iter().collect(),
        };
        evaluate(Opcode::Pad, &[row(&[1i32, 2, 3]), HostTensor::scalar(0i32)], Attrs::Pad(Box::new(amounts)), &[])
            .to_vec::<i32>()
    };
    assert_eq!(pad(1, 2, 0), [0, 1, 2, 3, 0, 0]);
    assert_eq!(pad(0, 0, 2), [1, 0, 0, 2, 0, 0, 3]);
    assert_eq!(pad(-1, -2, 1), [0, 2]);
    assert_eq!(pad(-2, 3, 0), [3, 0, 0, 0]);
}

#[test]
fn n18_reverse() {
    let matrix = HostTensor::from_slice([2, 3], &[1i32, 2, 3, 4, 5, 6]);
    let turned = |dims: &[u32]| {
        let attrs = Attrs::Reverse(dims.iter().copied().collect());
        evaluate(Opcode::Reverse, std::slice::from_ref(&matrix), attrs, &[]).to_vec::<i32>()
    };
    assert_eq!(turned(&[1]), [3, 2, 1, 6, 5, 4]);
    assert_eq!(turned(&[0]), [4, 5, 6, 1, 2, 3]);
    assert_eq!(turned(&[1, 0]), [6, 5, 4, 3, 2, 1]);
}

#[test]
fn n19_dynamic_slices_clamp() {
    let matrix = HostTensor::from_slice([2, 3], &[1i32, 2, 3, 4, 5, 6]);
    let (least, most) = (HostTensor::scalar(i64::MIN), HostTensor::scalar(i64::MAX));
    let slice = |operands: &[&HostTensor]| {
        let operands: Vec<HostTensor> = operands.iter().map(|&operand| operand.clone()).collect();
        let attrs = Attrs::DynamicSlice([1, 2].into_iter().collect());
        evaluate(Opcode::DynamicSlice, &operands, attrs, &[]).to_vec::<i32>()
    };
    assert_eq!(slice(&[&matrix, &least, &most]), [2, 3]);
    assert_eq!(slice(&[&matrix, &most, &least]), [4, 5]);
    let unsigned = HostTensor::scalar(u32::MAX);
    assert_eq!(slice(&[&matrix, &unsigned, &HostTensor::scalar(0u32)]), [4, 5]);
    let update = HostTensor::from_slice([1, 2], &[8i32, 9]);
    let updated = evaluate(Opcode::DynamicUpdateSlice, &[matrix, update, most.clone(), most], Attrs::None, &[]);
    assert_eq!(updated.to_vec::<i32>(), [1, 2, 3, 4, 8, 9]);
}

#[test]
fn n19_gather_clamps() {
    let dims = GatherDims {
        offset_dims: [1].into_iter().collect(),
        collapsed_slice_dims: [0].into_iter().collect(),
        start_index_map: [0].into_iter().collect(),
        index_vector_dim: 1,
        slice_sizes: [1, 2].into_iter().collect(),
        ..GatherDims::default()
    };
    let table = HostTensor::from_slice([3, 2], &[10i32, 11, 20, 21, 30, 31]);
    let rows = evaluate(
        Opcode::Gather,
        &[table.clone(), row(&[2i64, -5, i64::MAX])],
        Attrs::Gather(Box::new(dims.clone())),
        &[],
    );
    assert_eq!(rows.to_vec::<i32>(), [30, 31, 10, 11, 30, 31]);
    let unsigned = evaluate(Opcode::Gather, &[table, row(&[u32::MAX, 1])], Attrs::Gather(Box::new(dims)), &[]);
    assert_eq!(unsigned.to_vec::<i32>(), [30, 31, 20, 21]);
}

#[test]
fn n20_n21_signs_and_remainders() {
    check(Opcode::Sign, &[&[-3.0f32, -0.0, 0.0, 2.0]], Attrs::None, &[-1.0f32, -0.0, 0.0, 1.0]);
    check(Opcode::Sign, &[&[-3i32, 0, 9]], Attrs::None, &[-1, 0, 1]);
    check(Opcode::Floor, &[&[-0.5f32, -0.0, 1.5]], Attrs::None, &[-1.0f32, -0.0, 1.0]);
    check(Opcode::Ceil, &[&[-0.5f32, 0.5, -1.5]], Attrs::None, &[-0.0f32, 1.0, -1.0]);
    check(
        Opcode::Remainder,
        &[&[17.1f32, -17.0, 5.0, 5.0, INF, -4.0], &[3.0, 3.0, -INF, 0.0, 2.0, 2.0]],
        Attrs::None,
        &[2.1000004f32, -2.0, 5.0, NAN, NAN, -0.0],
    );
    check(
        Opcode::Power,
        &[&[2.0f32, -2.0, 0.0, NAN, 1.0, -1.0, -8.0], &[0.5, 3.0, 0.0, -0.0, NAN, INF, 0.5]],
        Attrs::None,
        &[std::f32::consts::SQRT_2, -8.0, 1.0, 1.0, 1.0, 1.0, NAN],
    );
}

/// What the kernels take for arithmetic is what the table of ops says.
#[test]
fn n26_what_is_flushed_is_what_makes_nans_canonical() {
    for &op in Opcode::ALL {
        if let Some(lane) = op.info().lane {
            assert_eq!(is_arithmetic(lane), op.info().nan == Nan::Canonical, "{op}");
        }
    }
}

#[test]
fn every_sample_interprets_to_its_inferred_type() {
    for &op in Opcode::ALL {
        for trace in samples(op) {
            verify(&trace).unwrap_or_else(|error| panic!("{op}: {error}"));
            let inputs: Vec<HostTensor> = trace.inputs().iter().map(|&input| numbers(trace.ty(input))).collect();
            let outputs = interpret(&trace, &inputs).unwrap_or_else(|error| panic!("{op}: {error}"));
            let wanted = trace.ty(trace.outputs()[0]);
            assert_eq!((&outputs[0].ty, outputs[0].bytes.len()), (wanted, wanted.byte_len()), "{op}");
        }
    }
}

fn numbers(ty: &TensorType) -> HostTensor {
    let bytes = (0..ty.byte_len()).map(|i| if ty.dtype == DType::Bool { (i % 2) as u8 } else { (i * 37 % 256) as u8 });
    HostTensor { ty: ty.clone(), bytes: bytes.collect() }
}

#[test]
fn bad_inputs_and_traces_are_errors() {
    let trace = single(Opcode::Tanh, &[ty(DType::F32, &[2])], Attrs::None, &[]);
    let error = |inputs: &[HostTensor]| interpret(&trace, inputs).expect_err("refused").to_string();
    assert_eq!(error(&[]), "the trace has 1 inputs, 0 are given");
    assert_eq!(error(&[row(&[1i32, 2])]), "input 0 has type tensor<2xf32>, a tensor<2xi32> is given");
    let short = HostTensor { ty: ty(DType::F32, &[2]), bytes: vec![0; 7] };
    assert_eq!(error(&[short]), "input 0 of type tensor<2xf32> is given 7 bytes");
    let mut broken = Trace::new();
    broken.output(ValueId(4));
    let message = interpret(&broken, &[]).expect_err("refused").to_string();
    assert_eq!(message, "the trace is not valid: V6: output 0 is value 4, which is not defined");
    let mut bools = Trace::new();
    bools.input(ty(DType::Bool, &[1]));
    let three = HostTensor { ty: ty(DType::Bool, &[1]), bytes: vec![3] };
    assert_eq!(
        interpret(&bools, &[three]).expect_err("refused").to_string(),
        "input 0 has a bool whose byte is not 0 or 1"
    );
}

fn bf(values: &[f32]) -> Vec<bf16> {
    values.iter().map(|&value| bf16::from_f32(value)).collect()
}

fn half(values: &[f32]) -> Vec<f16> {
    values.iter().map(|&value| f16::from_f32(value)).collect()
}

#[test]
fn n23_halves_round_the_f32_result() {
    let add = |a: &[f32], b: &[f32], expected: &[f32]| {
        check(Opcode::Add, &[&bf(a), &bf(b)], Attrs::None, &bf(expected));
    };
    // The last place of bf16 is 2 from 256 on: ties go to even.
    add(&[256.0, 256.0, 3.38e38, -0.0], &[1.0, 3.0, 3.38e38, -0.0], &[256.0, 260.0, INF, -0.0]);
    check(Opcode::Add, &[&half(&[65504.0, 65504.0]), &half(&[15.99, 16.0])], Attrs::None, &half(&[65504.0, INF]));
    let place = 2f32.powi(-24);
    check(
        Opcode::Multiply,
        &[&half(&[place, 3.0 * place, 2f32.powi(-14)]), &half(&[0.5, 0.5, 0.75])],
        Attrs::None,
        &half(&[0.0, 2.0 * place, 0.75 * 2f32.powi(-14)]),
    );
    check(Opcode::Exponential, &[&bf(&[1.0, 89.0])], Attrs::None, &bf(&[2.718_281_7, INF]));
    check(Opcode::Floor, &[&half(&[-0.5, 2.5])], Attrs::None, &half(&[-1.0, 2.0]));
    check(Opcode::Remainder, &[&bf(&[-7.0]), &bf(&[4.0])], Attrs::None, &bf(&[-3.0]));

    let signalling = [bf16::from_bits(0xff81), bf16::from_bits(0x7fc0)];
    check(Opcode::Sign, &[&signalling], Attrs::None, &[bf16::from_bits(0x7fc0); 2]);
    check(Opcode::Negate, &[&signalling], Attrs::None, &[bf16::from_bits(0x7f81), bf16::from_bits(0xffc0)]);
    check(Opcode::Abs, &[&[f16::from_bits(0xfc01)]], Attrs::None, &[f16::from_bits(0x7c01)]);
    let ordered = [0xfe00, 0xfc01, 0xfc00, 0x8000, 0x0000, 0x0001, 0x7c00, 0x7c01, 0x7e00].map(f16::from_bits);
    let less = Attrs::Compare { direction: Comparison::Lt, order: Order::Total };
    check(Opcode::Compare, &[&ordered[..8], &ordered[1..]], less, &[true; 8]);
    let equal = Attrs::Compare { direction: Comparison::Eq, order: Order::Partial };
    check(Opcode::Compare, &[&half(&[0.0, NAN]), &half(&[-0.0, NAN])], equal, &[true, false]);
}

#[test]
fn n24_conversions_to_halves_round_once() {
    let to = Attrs::Convert;
    // By way of an f32 rounded to nearest the first would be a tie of bf16, and go to even.
    check(Opcode::Convert, &[&[0x0101_0001, 0x0101_0000]], to(DType::BF16), &bf(&[16_908_288.0, 16_777_216.0]));
    check(Opcode::Convert, &[&[-0x0101_0000_0000_0001i64]], to(DType::BF16), &bf(&[-72_620_543_991_349_248.0]));
    check(Opcode::Convert, &[&[u32::MAX]], to(DType::BF16), &bf(&[4_294_967_296.0]));
    check(
        Opcode::Convert,
        &[&[65_519i64, 65_520, i64::MIN, 2049]],
        to(DType::F16),
        &half(&[65504.0, INF, -INF, 2048.0]),
    );
    check(Opcode::Convert, &[&[true, false]], to(DType::F16), &half(&[1.0, 0.0]));
    let between = [1.0 + 2f32.powi(-8), 1.0 + 3.0 * 2f32.powi(-8), -0.0, INF];
    check(Opcode::Convert, &[&half(&between)], to(DType::BF16), &bf(&[1.0, 1.0 + 2f32.powi(-6), -0.0, INF]));
    check(Opcode::Convert, &[&bf(&[1e10, 2f32.powi(-25), 2f32.powi(-24)])], to(DType::F16), &half(&[INF, 0.0, 6e-8]));
    check(Opcode::Convert, &[&[PAYLOAD, 1.0 + 2f32.powi(-8)]], to(DType::BF16), &[bf16::from_bits(0x7fc0), bf16::ONE]);
    let payloads = [bf16::from_bits(0xff81)];
    check(Opcode::Convert, &[&payloads], to(DType::BF16), &[bf16::from_bits(0x7fc0)]);
    check(Opcode::Convert, &[&payloads], to(DType::F16), &[f16::from_bits(0x7e00)]);
    check(Opcode::Convert, &[&payloads], to(DType::F32), &[NAN]);
    check(Opcode::Convert, &[&bf(&[-2.5, 3e9, NAN])], to(DType::I32), &[-2, i32::MAX, 0]);
    let index = evaluate(Opcode::Iota, &[], Attrs::Iota { ty: ty(DType::BF16, &[260]), dimension: 0 }, &[]);
    assert_eq!(index.to_vec::<bf16>()[255..], bf(&[255.0, 256.0, 256.0, 258.0, 260.0]), "N17");
}

#[test]
fn n25_sums_of_halves_round_at_the_end() {
    let sum = |elements: &[f32], init: f32| {
        let operands = [row(&bf(elements)), HostTensor::scalar(bf16::from_f32(init))];
        let dims = Attrs::Reduce([0].into_iter().collect());
        evaluate(Opcode::Reduce, &operands, dims, &[monoid_region(Monoid::Add, DType::BF16)]).to_vec::<bf16>()
    };
    assert_eq!(sum(&[1.0; 1000], 0.0), bf(&[1000.0]), "in bf16 it would stop at 256");
    assert_eq!(sum(&[256.0, 1.0], 1.0), bf(&[258.0]), "init is added before the rounding");
    assert_eq!(sum(&[], 1.0), bf(&[1.0]));
    assert_eq!(sum(&[NAN], 1.0)[0].to_bits(), 0x7fc0);

    let (lhs, rhs) = (row(&bf(&[256.0, 1.0, 1.0])), row(&bf(&[1.0; 3])));
    let product = evaluate(Opcode::DotGeneral, &[lhs, rhs], dot_dims(0, 0), &[]);
    assert_eq!(product.to_vec::<bf16>(), bf(&[258.0]));
    let one = bf(&[1.0 + 2f32.powi(-7)]);
    let wide = DotDims {
        lhs_contracting: [0].into_iter().collect(),
        rhs_contracting: [0].into_iter().collect(),
        result: Some(DType::F32),
        ..DotDims::default()
    };
    let product = evaluate(Opcode::DotGeneral, &[row(&one), row(&one)], Attrs::Dot(Box::new(wide)), &[]);
    assert_eq!(product.to_vec::<f32>(), [1.0 + 2f32.powi(-6) + 2f32.powi(-14)]);
}
