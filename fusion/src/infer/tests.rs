//! One check per constraint that an op has on its operands.

use expect_test::{Expect, expect};
use systole_kernels::program::{Comparison, Extreme, Monoid, Order};
use systole_kernels::{DType, Scalar, Shape, TensorType};

use super::infer;
use crate::ir::region::monoid_region;
use crate::ir::{Attrs, DotDims, GatherDims, Literal, Opcode, PadAmounts, Region, SliceLimits};

const F32: DType = DType::F32;
const I32: DType = DType::I32;

fn ty(dtype: DType, extents: &[usize]) -> TensorType {
    TensorType::new(dtype, extents)
}

fn check_with(op: Opcode, operands: &[TensorType], attrs: &Attrs, regions: &[Region], expected: &Expect) {
    let operands: Vec<&TensorType> = operands.iter().collect();
    let found = match infer(op, &operands, attrs, regions) {
        Ok(types) => {
            assert_eq!(types.len(), 1);
            types[0].to_string()
        }
        Err(error) => {
            assert_eq!((error.op(), error.operands().len()), (op, operands.len()));
            error.to_string()
        }
    };
    expected.assert_eq(&found);
}

#[allow(clippy::needless_pass_by_value, reason = "reads as a table of cases")]
fn check(op: Opcode, operands: &[TensorType], attrs: Attrs, expected: Expect) {
    check_with(op, operands, &attrs, &[], &expected);
}

#[test]
fn elementwise_ops_take_one_type() {
    let (a, b) = (ty(F32, &[2, 3]), ty(F32, &[2, 4]));
    check(Opcode::Add, &[a.clone(), a.clone()], Attrs::None, expect!["tensor<2x3xf32>"]);
    check(
        Opcode::Add,
        &[a.clone(), b],
        Attrs::None,
        expect![
            "add(tensor<2x3xf32>, tensor<2x4xf32>): operand shapes [2, 3] and [2, 4] differ in dimension 1: 3 against 4"
        ],
    );
    check(
        Opcode::Add,
        &[a.clone(), ty(F32, &[3])],
        Attrs::None,
        expect!["add(tensor<2x3xf32>, tensor<3xf32>): operand shapes [2, 3] and [3] differ in rank: 2 against 1"],
    );
    check(
        Opcode::Add,
        &[a.clone(), ty(I32, &[2, 3])],
        Attrs::None,
        expect!["add(tensor<2x3xf32>, tensor<2x3xi32>): operand dtypes f32 and i32 differ"],
    );
    check(Opcode::Tanh, &[ty(I32, &[2])], Attrs::None, expect!["tanh(tensor<2xi32>): takes a float dtype, not i32"]);
    check(
        Opcode::Abs,
        &[ty(DType::U32, &[2])],
        Attrs::None,
        expect!["abs(tensor<2xui32>): takes a signed integer or float dtype, not u32"],
    );
    check(
        Opcode::And,
        &[a.clone(), a.clone()],
        Attrs::None,
        expect!["and(tensor<2x3xf32>, tensor<2x3xf32>): takes bool or an integer dtype, not f32"],
    );
    check(Opcode::Add, std::slice::from_ref(&a), Attrs::None, expect!["add(tensor<2x3xf32>): takes 2 operands, not 1"]);
    check(Opcode::Tanh, &[], Attrs::None, expect!["tanh(): takes 1 operand, not 0"]);
    check(
        Opcode::Add,
        &[a.clone(), a.clone()],
        Attrs::Concatenate(0),
        expect!["add(tensor<2x3xf32>, tensor<2x3xf32>): concatenate attributes do not fit the op"],
    );
    check_with(
        Opcode::Add,
        &[a.clone(), a],
        &Attrs::None,
        &[monoid_region(Monoid::Add, F32)],
        &expect!["add(tensor<2x3xf32>, tensor<2x3xf32>): takes no regions, not 1"],
    );
}

#[test]
fn compare_select_clamp_convert() {
    let (a, s) = (ty(F32, &[2]), ty(F32, &[]));
    let compare = |order| Attrs::Compare { direction: Comparison::Lt, order };
    check(Opcode::Compare, &[a.clone(), a.clone()], compare(Order::Total), expect!["tensor<2xi1>"]);
    check(
        Opcode::Compare,
        &[ty(I32, &[2]), ty(I32, &[2])],
        compare(Order::Total),
        expect!["compare(tensor<2xi32>, tensor<2xi32>): the total order is one of floats, not of i32"],
    );
    check(Opcode::Select, &[ty(DType::Bool, &[]), a.clone(), a.clone()], Attrs::None, expect!["tensor<2xf32>"]);
    check(Opcode::Select, &[ty(DType::Bool, &[2]), a.clone(), a.clone()], Attrs::None, expect!["tensor<2xf32>"]);
    check(
        Opcode::Select,
        &[ty(DType::Bool, &[3]), a.clone(), a.clone()],
        Attrs::None,
        expect![
            "select(tensor<3xi1>, tensor<2xf32>, tensor<2xf32>): predicate and on_true shapes [3] and [2] differ in dimension 0: 3 against 2"
        ],
    );
    check(
        Opcode::Select,
        &[a.clone(), a.clone(), a.clone()],
        Attrs::None,
        expect!["select(tensor<2xf32>, tensor<2xf32>, tensor<2xf32>): the predicate is f32, not bool"],
    );
    check(
        Opcode::Select,
        &[ty(DType::Bool, &[2]), s.clone(), a.clone()],
        Attrs::None,
        expect![
            "select(tensor<2xi1>, tensor<f32>, tensor<2xf32>): on_true and on_false shapes [] and [2] differ in rank: 0 against 1"
        ],
    );
    check(Opcode::Clamp, &[s.clone(), a.clone(), a.clone()], Attrs::None, expect!["tensor<2xf32>"]);
    check(
        Opcode::Clamp,
        &[ty(F32, &[1]), a.clone(), s.clone()],
        Attrs::None,
        expect![
            "clamp(tensor<1xf32>, tensor<2xf32>, tensor<f32>): min and operand shapes [1] and [2] differ in dimension 0: 1 against 2"
        ],
    );
    check(
        Opcode::Clamp,
        &[s, a.clone(), ty(I32, &[])],
        Attrs::None,
        expect!["clamp(tensor<f32>, tensor<2xf32>, tensor<i32>): operand and max dtypes f32 and i32 differ"],
    );
    check(Opcode::Convert, &[a], Attrs::Convert(DType::Bool), expect!["tensor<2xi1>"]);
}

#[test]
fn sources() {
    check(Opcode::Constant, &[], Attrs::Constant(Literal::scalar(1.0f32)), expect!["tensor<f32>"]);
    check(
        Opcode::Constant,
        &[],
        Attrs::Constant(Literal::Splat(ty(F32, &[2]), Scalar::from(1i32))),
        expect!["constant(): an element of dtype i32 is splat over tensor<2xf32>"],
    );
    check(
        Opcode::Constant,
        &[],
        Attrs::Constant(Literal::Dense(ty(F32, &[2]), vec![0; 7].into())),
        expect!["constant(): 7 bytes are given for tensor<2xf32>"],
    );
    check(Opcode::Iota, &[], Attrs::Iota { ty: ty(I32, &[2, 3]), dimension: 1 }, expect!["tensor<2x3xi32>"]);
    check(
        Opcode::Iota,
        &[],
        Attrs::Iota { ty: ty(I32, &[2, 3]), dimension: 2 },
        expect!["iota(): iota_dimension: 2 is no dimension of rank 2"],
    );
    check(
        Opcode::Iota,
        &[],
        Attrs::Iota { ty: ty(DType::Bool, &[2]), dimension: 0 },
        expect!["iota(): takes an integer or float dtype, not bool"],
    );
    check(
        Opcode::Iota,
        &[],
        Attrs::Iota { ty: ty(I32, &[1 << 31, 1 << 30]), dimension: 0 },
        expect!["iota(): the result tensor<2147483648x1073741824xi32> takes more than 9223372036854775807 bytes"],
    );
    check(
        Opcode::Iota,
        &[],
        Attrs::Iota { ty: ty(I32, &[0, usize::MAX, 2]), dimension: 0 },
        expect!["iota(): the result tensor<0x18446744073709551615x2xi32> takes more than 9223372036854775807 bytes"],
    );
}

#[test]
fn broadcast_reshape_transpose() {
    let broadcast = |shape: &[usize], dimensions: &[u32]| Attrs::BroadcastInDim {
        shape: Shape::from(shape),
        dimensions: dimensions.iter().copied().collect(),
    };
    let a = [ty(F32, &[1, 3])];
    check(Opcode::BroadcastInDim, &a, broadcast(&[3, 2], &[1, 0]), expect!["tensor<3x2xf32>"]);
    check(
        Opcode::BroadcastInDim,
        &a,
        broadcast(&[2, 4], &[0, 1]),
        expect![
            "broadcast_in_dim(tensor<1x3xf32>): operand dimension 1 has extent 3, which does not broadcast to 4 in dimension 1 of [2, 4]"
        ],
    );
    check(
        Opcode::BroadcastInDim,
        &a,
        broadcast(&[2, 3], &[1]),
        expect!["broadcast_in_dim(tensor<1x3xf32>): broadcast_dimensions has 1 entries for rank 2"],
    );
    check(
        Opcode::BroadcastInDim,
        &a,
        broadcast(&[2, 3], &[1, 1]),
        expect!["broadcast_in_dim(tensor<1x3xf32>): broadcast_dimensions [1, 1] names dimension 1 twice"],
    );
    check(
        Opcode::BroadcastInDim,
        &a,
        broadcast(&[2, 3], &[0, 2]),
        expect!["broadcast_in_dim(tensor<1x3xf32>): broadcast_dimensions: 2 is no dimension of rank 2"],
    );
    check(Opcode::Reshape, &[ty(F32, &[2, 3])], Attrs::Reshape(Shape::from([6, 1])), expect!["tensor<6x1xf32>"]);
    check(
        Opcode::Reshape,
        &[ty(F32, &[2, 3])],
        Attrs::Reshape(Shape::from([5])),
        expect!["reshape(tensor<2x3xf32>): [2, 3] has 6 elements, [5] has 5"],
    );
    check(
        Opcode::Transpose,
        &[ty(F32, &[2, 3])],
        Attrs::Transpose([1, 0].into_iter().collect()),
        expect!["tensor<3x2xf32>"],
    );
    check(
        Opcode::Transpose,
        &[ty(F32, &[2, 3])],
        Attrs::Transpose([1, 1].into_iter().collect()),
        expect!["transpose(tensor<2x3xf32>): permutation [1, 1] names dimension 1 twice"],
    );
}

#[test]
fn slice_concatenate_pad() {
    let slice = |start: i64, limit: i64, stride: i64| {
        Attrs::Slice(Box::new(SliceLimits {
            start: [start].into_iter().collect(),
            limit: [limit].into_iter().collect(),
            stride: [stride].into_iter().collect(),
        }))
    };
    let a = [ty(F32, &[10])];
    check(Opcode::Slice, &a, slice(1, 10, 3), expect!["tensor<3xf32>"]);
    check(Opcode::Slice, &a, slice(5, 5, i64::MAX), expect!["tensor<0xf32>"]);
    check(
        Opcode::Slice,
        &a,
        slice(1, 11, 1),
        expect!["slice(tensor<10xf32>): 1:11 does not lie within 0:10 in dimension 0 of [10]"],
    );
    check(
        Opcode::Slice,
        &a,
        slice(-1, 1, 1),
        expect!["slice(tensor<10xf32>): -1:1 does not lie within 0:10 in dimension 0 of [10]"],
    );
    check(
        Opcode::Slice,
        &a,
        slice(0, 1, 0),
        expect!["slice(tensor<10xf32>): the stride of dimension 0 is 0, not at least 1"],
    );
    check(
        Opcode::Slice,
        &[ty(F32, &[])],
        slice(0, 1, 1),
        expect!["slice(tensor<f32>): start_indices has 1 entries for rank 0"],
    );

    let (x, y) = (ty(F32, &[2, 3]), ty(F32, &[4, 3]));
    check(Opcode::Concatenate, &[x.clone(), y.clone()], Attrs::Concatenate(0), expect!["tensor<6x3xf32>"]);
    check(
        Opcode::Concatenate,
        &[x.clone(), y],
        Attrs::Concatenate(1),
        expect![
            "concatenate(tensor<2x3xf32>, tensor<4x3xf32>): operand shapes [2, 3] and [4, 3] differ in dimension 0, which is not concatenated: 2 against 4"
        ],
    );
    check(Opcode::Concatenate, &[], Attrs::Concatenate(0), expect!["concatenate(): takes at least 1 operand, not 0"]);
    check(
        Opcode::Concatenate,
        &[x],
        Attrs::Concatenate(2),
        expect!["concatenate(tensor<2x3xf32>): dimension: 2 is no dimension of rank 2"],
    );

    let pad = |low: i64, high: i64, interior: i64| {
        Attrs::Pad(Box::new(PadAmounts {
            low: [low].into_iter().collect(),
            high: [high].into_iter().collect(),
            interior: [interior].into_iter().collect(),
        }))
    };
    let (three, none, value) = (ty(F32, &[3]), ty(F32, &[0]), ty(F32, &[]));
    check(Opcode::Pad, &[three.clone(), value.clone()], pad(1, -2, 2), expect!["tensor<6xf32>"]);
    check(Opcode::Pad, &[none, value.clone()], pad(1, 1, 5), expect!["tensor<2xf32>"]);
    check(
        Opcode::Pad,
        &[three.clone(), value.clone()],
        pad(-2, -2, 0),
        expect![
            "pad(tensor<3xf32>, tensor<f32>): extent 3 of dimension 0 with padding -2, -2 and 0 between becomes -1"
        ],
    );
    check(
        Opcode::Pad,
        &[three.clone(), value.clone()],
        pad(0, 0, -1),
        expect!["pad(tensor<3xf32>, tensor<f32>): the interior padding of dimension 0 is -1, not at least 0"],
    );
    check(
        Opcode::Pad,
        &[three.clone(), value],
        pad(i64::MAX, i64::MAX, i64::MAX),
        expect![
            "pad(tensor<3xf32>, tensor<f32>): extent 3 of dimension 0 with padding 9223372036854775807, 9223372036854775807 and 9223372036854775807 between becomes 36893488147419103231"
        ],
    );
    check(
        Opcode::Pad,
        &[three.clone(), three],
        pad(0, 0, 0),
        expect!["pad(tensor<3xf32>, tensor<3xf32>): the padding value has shape [3], not a scalar's"],
    );
}

#[test]
fn reduces_of_several_operands() {
    use crate::ir::region::{Body, arg_region, body_region};
    let argmax = [arg_region(Extreme::Greatest, F32, I32)];
    let attrs = Attrs::Reduce([1].into_iter().collect());
    let operands = [ty(F32, &[2, 3]), ty(I32, &[2, 3]), ty(F32, &[]), ty(I32, &[])];
    let results = |operands: &[TensorType], regions: &[Region]| {
        let types: Vec<&TensorType> = operands.iter().collect();
        infer(Opcode::Reduce, &types, &attrs, regions).map(|results| results.to_vec())
    };
    assert_eq!(results(&operands, &argmax), Ok(vec![ty(F32, &[2]), ty(I32, &[2])]));
    let each = Body::Each([Monoid::Add, Monoid::And].into_iter().collect());
    assert_eq!(results(&operands, &[body_region(&each, &[F32, I32])]), Ok(vec![ty(F32, &[2]), ty(I32, &[2])]));

    let check = |operands: &[TensorType], regions: &[Region], expected: Expect| {
        expected.assert_eq(&results(operands, regions).expect_err("does not fit").to_string());
    };
    check(
        &operands[..3],
        &argmax,
        expect![
            "reduce(tensor<2x3xf32>, tensor<2x3xi32>, tensor<f32>): takes operands and as many initial values, not 3 operands"
        ],
    );
    check(
        &[ty(F32, &[2, 3]), ty(I32, &[3, 2]), ty(F32, &[]), ty(I32, &[])],
        &argmax,
        expect![
            "reduce(tensor<2x3xf32>, tensor<3x2xi32>, tensor<f32>, tensor<i32>): operand shapes [2, 3] and [3, 2] differ in dimension 0: 2 against 3"
        ],
    );
    check(
        &[ty(F32, &[2, 3]), ty(F32, &[2, 3]), ty(F32, &[]), ty(F32, &[])],
        &argmax,
        expect![
            "reduce(tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>, tensor<f32>): the body combines i32 elements, the operand has f32"
        ],
    );
    check(
        &operands,
        &[monoid_region(Monoid::Add, F32)],
        expect![
            "reduce(tensor<2x3xf32>, tensor<2x3xi32>, tensor<f32>, tensor<i32>): the body combines 1 operand, not 2"
        ],
    );
    check(&[], &argmax, expect!["reduce(): takes operands and as many initial values, not 0 operands"]);
}

#[test]
fn reduce() {
    let dims = |dims: &[u32]| Attrs::Reduce(dims.iter().copied().collect());
    let sum = [monoid_region(Monoid::Add, F32)];
    let operands = [ty(F32, &[2, 3, 4]), ty(F32, &[])];
    let check = |operands: &[TensorType], attrs: Attrs, regions: &[Region], expected: Expect| {
        check_with(Opcode::Reduce, operands, &attrs, regions, &expected);
    };
    check(&operands, dims(&[2, 0]), &sum, expect!["tensor<3xf32>"]);
    check(&operands, dims(&[]), &sum, expect!["tensor<2x3x4xf32>"]);
    check(
        &operands,
        dims(&[3]),
        &sum,
        expect!["reduce(tensor<2x3x4xf32>, tensor<f32>): dimensions: 3 is no dimension of rank 3"],
    );
    check(
        &operands,
        dims(&[1, 1]),
        &sum,
        expect!["reduce(tensor<2x3x4xf32>, tensor<f32>): dimensions [1, 1] names dimension 1 twice"],
    );
    check(&operands, dims(&[0]), &[], expect!["reduce(tensor<2x3x4xf32>, tensor<f32>): takes 1 region, not 0"]);
    check(
        &operands,
        dims(&[0]),
        &[monoid_region(Monoid::Add, I32)],
        expect!["reduce(tensor<2x3x4xf32>, tensor<f32>): the body combines i32 elements, the operand has f32"],
    );
    check(
        &operands,
        dims(&[0]),
        &[monoid_region(Monoid::And, F32)],
        expect!["reduce(tensor<2x3x4xf32>, tensor<f32>): the body's and takes bool or an integer dtype, not f32"],
    );
    check(
        &operands,
        dims(&[0]),
        &[Region::default()],
        expect![
            "reduce(tensor<2x3x4xf32>, tensor<f32>): the body is not one add, multiply, maximum, minimum, and, or of its two scalar arguments"
        ],
    );
    check(
        &[ty(F32, &[2]), ty(F32, &[1])],
        dims(&[0]),
        &sum,
        expect!["reduce(tensor<2xf32>, tensor<1xf32>): the initial value has shape [1], not a scalar's"],
    );
    check(
        &[ty(F32, &[2]), ty(I32, &[])],
        dims(&[0]),
        &sum,
        expect!["reduce(tensor<2xf32>, tensor<i32>): operand and initial value dtypes f32 and i32 differ"],
    );
    check(
        &[ty(F32, &[2]), ty(F32, &[2]), ty(F32, &[]), ty(F32, &[])],
        dims(&[0]),
        &sum,
        expect!["reduce(tensor<2xf32>, tensor<2xf32>, tensor<f32>, tensor<f32>): the body combines 1 operand, not 2"],
    );
}

#[test]
fn dot_general() {
    let dims = |lb: &[u32], rb: &[u32], lc: &[u32], rc: &[u32]| {
        let dims = |dims: &[u32]| dims.iter().copied().collect();
        Attrs::Dot(Box::new(DotDims {
            lhs_batching: dims(lb),
            rhs_batching: dims(rb),
            lhs_contracting: dims(lc),
            rhs_contracting: dims(rc),
            ..DotDims::default()
        }))
    };
    let operands = [ty(F32, &[5, 2, 3]), ty(F32, &[3, 4, 5])];
    check(Opcode::DotGeneral, &operands, dims(&[0], &[2], &[2], &[0]), expect!["tensor<5x2x4xf32>"]);
    check(Opcode::DotGeneral, &operands, dims(&[], &[], &[], &[]), expect!["tensor<5x2x3x3x4x5xf32>"]);
    check(
        Opcode::DotGeneral,
        &operands,
        dims(&[], &[], &[1], &[0]),
        expect![
            "dot_general(tensor<5x2x3xf32>, tensor<3x4x5xf32>): contracting dimension 1 of [5, 2, 3] and 0 of [3, 4, 5] differ: 2 against 3"
        ],
    );
    check(
        Opcode::DotGeneral,
        &operands,
        dims(&[0], &[], &[2], &[0]),
        expect!["dot_general(tensor<5x2x3xf32>, tensor<3x4x5xf32>): lhs has 1 batching dimensions, rhs has 0"],
    );
    check(
        Opcode::DotGeneral,
        &operands,
        dims(&[0], &[2], &[0], &[2]),
        expect![
            "dot_general(tensor<5x2x3xf32>, tensor<3x4x5xf32>): dimension 0 of lhs is both batching and contracting"
        ],
    );
    check(
        Opcode::DotGeneral,
        &operands,
        dims(&[], &[], &[9], &[0]),
        expect![
            "dot_general(tensor<5x2x3xf32>, tensor<3x4x5xf32>): lhs_contracting_dimensions: 9 is no dimension of rank 3"
        ],
    );
    check(
        Opcode::DotGeneral,
        &[ty(DType::Bool, &[2]), ty(DType::Bool, &[2])],
        dims(&[], &[], &[0], &[0]),
        expect!["dot_general(tensor<2xi1>, tensor<2xi1>): takes an integer or float dtype, not bool"],
    );
    let to = |result: DType| Attrs::Dot(Box::new(DotDims { result: Some(result), ..DotDims::default() }));
    let halves = [ty(DType::BF16, &[2]), ty(DType::BF16, &[3])];
    check(Opcode::DotGeneral, &halves, to(F32), expect!["tensor<2x3xf32>"]);
    check(
        Opcode::DotGeneral,
        &halves,
        to(DType::BF16),
        expect![
            "dot_general(tensor<2xbf16>, tensor<3xbf16>): the result is named bf16 as the operands are: leave it out"
        ],
    );
    check(
        Opcode::DotGeneral,
        &halves,
        to(DType::F16),
        expect!["dot_general(tensor<2xbf16>, tensor<3xbf16>): the product of bf16 has no result of dtype f16"],
    );
}

#[test]
fn gather() {
    let dims = GatherDims {
        offset_dims: [3, 4].into_iter().collect(),
        collapsed_slice_dims: [1].into_iter().collect(),
        operand_batching_dims: [0].into_iter().collect(),
        start_indices_batching_dims: [1].into_iter().collect(),
        start_index_map: [2, 1].into_iter().collect(),
        index_vector_dim: 3,
        slice_sizes: [1, 1, 2, 2].into_iter().collect(),
        indices_are_sorted: false,
    };
    let operands = [ty(I32, &[2, 3, 4, 2]), ty(DType::I64, &[2, 2, 3, 2])];
    let check = |edit: &dyn Fn(&mut GatherDims), expected: Expect| {
        let mut dims = dims.clone();
        edit(&mut dims);
        check(Opcode::Gather, &operands, Attrs::Gather(Box::new(dims)), expected);
    };
    check(&|_| {}, expect!["tensor<2x2x3x2x2xi32>"]);
    check(
        &|d| d.slice_sizes[1] = 0,
        expect![
            "gather(tensor<2x3x4x2xi32>, tensor<2x2x3x2xi64>): slice size 0 in dimension 1, which is collapsed or batching, leaves nothing for the result [2, 2, 3, 2, 2]"
        ],
    );
    check(
        &|d| d.slice_sizes[0] = 0,
        expect![
            "gather(tensor<2x3x4x2xi32>, tensor<2x2x3x2xi64>): slice size 0 in dimension 0, which is collapsed or batching, leaves nothing for the result [2, 2, 3, 2, 2]"
        ],
    );
    // Nothing is left of a slice that nobody has.
    check(&|d| d.slice_sizes = [1, 0, 0, 2].into_iter().collect(), expect!["tensor<2x2x3x0x2xi32>"]);
    check(&|d| d.offset_dims = [0, 2].into_iter().collect(), expect!["tensor<2x2x2x2x3xi32>"]);
    check(
        &|d| d.offset_dims = [4, 3].into_iter().collect(),
        expect!["gather(tensor<2x3x4x2xi32>, tensor<2x2x3x2xi64>): offset_dims [4, 3] do not ascend"],
    );
    check(
        &|d| d.offset_dims = [3, 5].into_iter().collect(),
        expect!["gather(tensor<2x3x4x2xi32>, tensor<2x2x3x2xi64>): offset_dims: 5 is no dimension of rank 5"],
    );
    check(
        &|d| d.offset_dims.clear(),
        expect![
            "gather(tensor<2x3x4x2xi32>, tensor<2x2x3x2xi64>): 0 offset, 1 collapsed and 1 batching dimensions do not add up to the operand's rank 4"
        ],
    );
    check(
        &|d| d.collapsed_slice_dims[0] = 0,
        expect![
            "gather(tensor<2x3x4x2xi32>, tensor<2x2x3x2xi64>): dimension 0 is both in collapsed_slice_dims and in operand_batching_dims"
        ],
    );
    check(
        &|d| d.start_indices_batching_dims[0] = 2,
        expect![
            "gather(tensor<2x3x4x2xi32>, tensor<2x2x3x2xi64>): batching dimension 0 of [2, 3, 4, 2] and 2 of [2, 2, 3, 2] differ: 2 against 3"
        ],
    );
    check(
        &|d| d.start_indices_batching_dims[0] = 3,
        expect![
            "gather(tensor<2x3x4x2xi32>, tensor<2x2x3x2xi64>): index_vector_dim 3 is in start_indices_batching_dims"
        ],
    );
    check(
        &|d| d.start_indices_batching_dims.clear(),
        expect![
            "gather(tensor<2x3x4x2xi32>, tensor<2x2x3x2xi64>): the operand has 1 batching dimensions, start indices have 0"
        ],
    );
    check(
        &|d| d.start_index_map[0] = 0,
        expect![
            "gather(tensor<2x3x4x2xi32>, tensor<2x2x3x2xi64>): dimension 0 is both in start_index_map and in operand_batching_dims"
        ],
    );
    check(
        &|d| d.start_index_map.truncate(1),
        expect![
            "gather(tensor<2x3x4x2xi32>, tensor<2x2x3x2xi64>): start_index_map has 1 entries, an index vector of [2, 2, 3, 2] has 2"
        ],
    );
    check(
        &|d| d.index_vector_dim = 5,
        expect![
            "gather(tensor<2x3x4x2xi32>, tensor<2x2x3x2xi64>): index_vector_dim 5 exceeds the rank of start indices [2, 2, 3, 2]"
        ],
    );
    check(
        &|d| d.slice_sizes[2] = 5,
        expect![
            "gather(tensor<2x3x4x2xi32>, tensor<2x2x3x2xi64>): slice size 5 in dimension 2 does not lie within 0 and the extent 4 of [2, 3, 4, 2]"
        ],
    );
    check(
        &|d| d.slice_sizes[1] = 2,
        expect![
            "gather(tensor<2x3x4x2xi32>, tensor<2x2x3x2xi64>): slice size 2 in dimension 1, which is collapsed or batching, exceeds 1"
        ],
    );
    check(
        &|d| d.slice_sizes.truncate(3),
        expect!["gather(tensor<2x3x4x2xi32>, tensor<2x2x3x2xi64>): slice_sizes has 3 entries for rank 4"],
    );
}

#[test]
fn every_op_rejects_every_foreign_format_and_any_operands() {
    let formats = [
        Attrs::None,
        Attrs::Constant(Literal::scalar(1.0f32)),
        Attrs::Iota { ty: ty(F32, &[3]), dimension: 0 },
        Attrs::Compare { direction: Comparison::Eq, order: Order::Partial },
        Attrs::Convert(I32),
        Attrs::BroadcastInDim { shape: Shape::from([2, 3]), dimensions: [7].into_iter().collect() },
        Attrs::Reshape(Shape::from([usize::MAX, 2])),
        Attrs::Transpose([1, 0].into_iter().collect()),
        Attrs::Slice(Box::default()),
        Attrs::Concatenate(u32::MAX),
        Attrs::Pad(Box::default()),
        Attrs::Reduce([u32::MAX].into_iter().collect()),
        Attrs::Dot(Box::default()),
        Attrs::Gather(Box::default()),
    ];
    let types = [ty(F32, &[2, 3]), ty(I32, &[]), ty(DType::Bool, &[0]), ty(F32, &[usize::MAX; 3])];
    let regions = [Region::default()];
    for &op in Opcode::ALL {
        let mut accepted = std::collections::BTreeSet::new();
        for (i, attrs) in formats.iter().enumerate() {
            for count in 0..4 {
                for shift in 0..types.len() {
                    let operands: Vec<&TensorType> = (0..count).map(|i| &types[(i + shift) % types.len()]).collect();
                    for regions in [&[][..], &regions[..]] {
                        if infer(op, &operands, attrs, regions).is_ok() {
                            accepted.insert(i);
                        }
                    }
                }
            }
        }
        assert!(accepted.len() <= 1, "{op} accepts several attribute formats: {accepted:?}");
    }
}

#[test]
fn reverse() {
    let attrs = |dims: &[u32]| Attrs::Reverse(dims.iter().copied().collect());
    let matrix = [ty(F32, &[2, 3])];
    check(Opcode::Reverse, &matrix, attrs(&[1, 0]), expect!["tensor<2x3xf32>"]);
    check(Opcode::Reverse, &matrix, attrs(&[]), expect!["tensor<2x3xf32>"]);
    check(
        Opcode::Reverse,
        &matrix,
        attrs(&[1, 1]),
        expect!["reverse(tensor<2x3xf32>): dimensions [1, 1] names dimension 1 twice"],
    );
    check(
        Opcode::Reverse,
        &matrix,
        attrs(&[2]),
        expect!["reverse(tensor<2x3xf32>): dimensions: 2 is no dimension of rank 2"],
    );
}

#[test]
fn slices_at_starts_that_are_data() {
    let (matrix, at, wide) = (ty(F32, &[4, 3]), ty(I32, &[]), ty(DType::I64, &[]));
    let sizes = |sizes: &[i64]| Attrs::DynamicSlice(sizes.iter().copied().collect());
    let slice = |starts: &[&TensorType], attrs: Attrs, expected: Expect| {
        let operands: Vec<TensorType> = std::iter::once(&matrix).chain(starts.iter().copied()).cloned().collect();
        check(Opcode::DynamicSlice, &operands, attrs, expected);
    };
    slice(&[&at, &at], sizes(&[2, 0]), expect!["tensor<2x0xf32>"]);
    check(Opcode::DynamicSlice, &[ty(F32, &[])], sizes(&[]), expect!["tensor<f32>"]);
    slice(
        &[&at],
        sizes(&[2, 1]),
        expect!["dynamic_slice(tensor<4x3xf32>, tensor<i32>): start_indices has 1 entries for rank 2"],
    );
    slice(
        &[&at, &wide],
        sizes(&[2, 1]),
        expect!["dynamic_slice(tensor<4x3xf32>, tensor<i32>, tensor<i64>): start indices' dtypes i32 and i64 differ"],
    );
    slice(
        &[&ty(I32, &[1]), &at],
        sizes(&[2, 1]),
        expect![
            "dynamic_slice(tensor<4x3xf32>, tensor<1xi32>, tensor<i32>): a start index has shape [1], not a scalar's"
        ],
    );
    slice(
        &[&ty(F32, &[]), &ty(F32, &[])],
        sizes(&[2, 1]),
        expect![
            "dynamic_slice(tensor<4x3xf32>, tensor<f32>, tensor<f32>): start indices are f32, not an integer dtype"
        ],
    );
    slice(
        &[&at, &at],
        sizes(&[2]),
        expect!["dynamic_slice(tensor<4x3xf32>, tensor<i32>, tensor<i32>): slice_sizes has 1 entries for rank 2"],
    );
    slice(
        &[&at, &at],
        sizes(&[5, -1]),
        expect![
            "dynamic_slice(tensor<4x3xf32>, tensor<i32>, tensor<i32>): slice size 5 in dimension 0 does not lie within 0 and the extent 4 of [4, 3]"
        ],
    );
    check(
        Opcode::DynamicSlice,
        &[],
        sizes(&[]),
        expect!["dynamic_slice(): takes an operand and a start index for each of its dimensions, not 0 operands"],
    );

    let update = |update: TensorType, starts: &[&TensorType], expected: Expect| {
        let operands: Vec<TensorType> = [&matrix, &update].into_iter().chain(starts.iter().copied()).cloned().collect();
        check(Opcode::DynamicUpdateSlice, &operands, Attrs::None, expected);
    };
    update(ty(F32, &[1, 3]), &[&wide, &wide], expect!["tensor<4x3xf32>"]);
    update(
        ty(I32, &[1, 3]),
        &[&wide, &wide],
        expect![
            "dynamic_update_slice(tensor<4x3xf32>, tensor<1x3xi32>, tensor<i64>, tensor<i64>): operand and update dtypes f32 and i32 differ"
        ],
    );
    update(
        ty(F32, &[3]),
        &[&wide],
        expect![
            "dynamic_update_slice(tensor<4x3xf32>, tensor<3xf32>, tensor<i64>): operand shape [4, 3] and update shape [3] differ in rank"
        ],
    );
    update(
        ty(F32, &[1, 4]),
        &[&wide, &wide],
        expect![
            "dynamic_update_slice(tensor<4x3xf32>, tensor<1x4xf32>, tensor<i64>, tensor<i64>): update shape [1, 4] exceeds operand shape [4, 3] in dimension 1: 4 against 3"
        ],
    );
    update(
        ty(F32, &[1, 3]),
        &[&wide],
        expect![
            "dynamic_update_slice(tensor<4x3xf32>, tensor<1x3xf32>, tensor<i64>): start_indices has 1 entries for rank 2"
        ],
    );
    check(
        Opcode::DynamicUpdateSlice,
        std::slice::from_ref(&matrix),
        Attrs::None,
        expect![
            "dynamic_update_slice(tensor<4x3xf32>): takes an operand, an update, and a start index for each dimension, not 1 operands"
        ],
    );
}
