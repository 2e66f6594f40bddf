//! One small well-typed trace per op and admitted dtype, made from the op table: what every text, verifier and
//! interpreter test walks through.

use systole_fusion::ir::region::{Body, MONOIDS, body_region, monoid_op, monoid_region};
use systole_fusion::ir::{
    Attrs, DotDims, GatherDims, Literal, OpClass, Opcode, Origin, PadAmounts, Region, SliceLimits, Trace, ValueId,
};
use systole_kernels::contract::contracts;
use systole_kernels::program::{Comparison, Extreme, Monoid, Order, Precision};
use systole_kernels::{DType, Scalar, Shape, TensorType};

pub(crate) fn ty(dtype: DType, extents: &[usize]) -> TensorType {
    TensorType::new(dtype, extents)
}

/// A trace whose inputs are the operands of one op, whose result is its output.
pub(crate) fn single(op: Opcode, operands: &[TensorType], attrs: Attrs, regions: &[Region]) -> Trace {
    let mut trace = Trace::new();
    let inputs: Vec<_> = operands.iter().map(|ty| trace.input(ty.clone())).collect();
    trace
        .push(op, inputs, attrs, regions.iter().cloned(), Origin::Unknown)
        .unwrap_or_else(|error| panic!("a sample fits its op: {error}"));
    let results: Vec<ValueId> = trace.nodes()[0].results().collect();
    results.into_iter().for_each(|result| trace.output(result));
    trace
}

/// Reduces of two operands: argmax, argmin, and each operand by itself.
fn several_results(dtype: DType) -> Vec<Trace> {
    let extremes = [Extreme::Greatest, Extreme::Least].into_iter();
    let args = extremes.zip([DType::I32, DType::I64]).map(|(extreme, index)| (Body::Arg(extreme), index));
    let each = Body::Each([Monoid::Maximum, Monoid::Multiply].into_iter().collect());
    args.chain([(each, DType::U32)])
        .map(|(body, other)| {
            let operands = [ty(dtype, &[2, 3]), ty(other, &[2, 3]), ty(dtype, &[]), ty(other, &[])];
            let attrs = Attrs::Reduce([1].into_iter().collect());
            single(Opcode::Reduce, &operands, attrs, &[body_region(&body, &[dtype, other])])
        })
        .collect()
}

/// Traces of that op: every dtype of its row, every form of its attributes that differs in text or meaning.
pub(crate) fn samples(op: Opcode) -> Vec<Trace> {
    DType::ALL
        .into_iter()
        .filter(|&dtype| op.info().dtypes.admits(dtype))
        .flat_map(|dtype| of_dtype(op, dtype))
        .collect()
}

fn of_dtype(op: Opcode, dtype: DType) -> Vec<Trace> {
    let (matrix, scalar) = (ty(dtype, &[2, 3]), ty(dtype, &[]));
    let one = |operands: &[TensorType], attrs: Attrs| vec![single(op, operands, attrs, &[])];
    match op.class() {
        OpClass::Source if op == Opcode::Constant => constants(dtype),
        OpClass::Source => one(&[], Attrs::Iota { ty: matrix, dimension: 1 }),
        OpClass::Unary | OpClass::Predicate => one(&[matrix], Attrs::None),
        OpClass::Binary => one(&[matrix.clone(), matrix], Attrs::None),
        OpClass::Compare => {
            let orders: &[Order] = if dtype.is_float() { &[Order::Partial, Order::Total] } else { &[Order::Partial] };
            let directions =
                [Comparison::Eq, Comparison::Ne, Comparison::Ge, Comparison::Gt, Comparison::Le, Comparison::Lt];
            let forms = orders.iter().flat_map(|&order| directions.map(|direction| (direction, order)));
            forms
                .map(|(direction, order)| {
                    single(op, &[matrix.clone(), matrix.clone()], Attrs::Compare { direction, order }, &[])
                })
                .collect()
        }
        OpClass::Select if op == Opcode::Select => [ty(DType::Bool, &[]), ty(DType::Bool, &[2, 3])]
            .into_iter()
            .map(|pred| single(op, &[pred, matrix.clone(), matrix.clone()], Attrs::None, &[]))
            .collect(),
        OpClass::Select => [(&scalar, &scalar), (&matrix, &scalar), (&matrix, &matrix)]
            .into_iter()
            .map(|(min, max)| single(op, &[min.clone(), matrix.clone(), max.clone()], Attrs::None, &[]))
            .collect(),
        OpClass::Convert => {
            let admitted = |to: &DType| op == Opcode::Convert || to.size() == dtype.size();
            let dtypes = DType::ALL.into_iter().filter(admitted);
            dtypes.flat_map(|to| one(std::slice::from_ref(&matrix), Attrs::Convert(to))).collect()
        }
        OpClass::View | OpClass::Overlay => movements(op, dtype),
        OpClass::Reduce => MONOIDS
            .into_iter()
            .filter(|&monoid| monoid_op(monoid).info().dtypes.admits(dtype))
            .flat_map(|monoid| {
                let dims = [vec![], vec![0], vec![1, 0]];
                let operands = [matrix.clone(), scalar.clone()];
                dims.map(|dims| {
                    let attrs = Attrs::Reduce(dims.into_iter().collect());
                    single(op, &operands, attrs, &[monoid_region(monoid, dtype)])
                })
            })
            .chain(several_results(dtype))
            .collect(),
        OpClass::Contract => [
            (
                vec![2, 3],
                vec![3, 4],
                DotDims {
                    lhs_contracting: [1].into_iter().collect(),
                    rhs_contracting: [0].into_iter().collect(),
                    ..DotDims::default()
                },
            ),
            (
                vec![5, 2, 3],
                vec![3, 4, 5],
                DotDims {
                    lhs_batching: [0].into_iter().collect(),
                    rhs_batching: [2].into_iter().collect(),
                    lhs_contracting: [2].into_iter().collect(),
                    rhs_contracting: [0].into_iter().collect(),
                    result: Some(DType::F32).filter(|&wide| wide != dtype && contracts(dtype, wide)),
                    precision: Precision::High,
                },
            ),
            (vec![2], vec![3], DotDims::default()),
        ]
        .into_iter()
        .map(|(lhs, rhs, dims)| single(op, &[ty(dtype, &lhs), ty(dtype, &rhs)], Attrs::Dot(Box::new(dims)), &[]))
        .collect(),
        OpClass::Gather if op == Opcode::DynamicSlice => {
            let starts = [ty(DType::U32, &[]), ty(DType::U32, &[])];
            let slice = |operand: TensorType, starts: &[TensorType], sizes: &[i64]| {
                let operands: Vec<TensorType> = [&[operand], starts].concat();
                single(op, &operands, Attrs::DynamicSlice(sizes.iter().copied().collect()), &[])
            };
            vec![slice(matrix, &starts, &[1, 3]), slice(scalar, &[], &[])]
        }
        OpClass::Gather => gathers(dtype),
    }
}

fn constants(dtype: DType) -> Vec<Trace> {
    let mut literals = vec![
        Literal::Splat(ty(dtype, &[]), Scalar::from_f64(dtype, 1.0)),
        Literal::Splat(ty(dtype, &[2, 3]), Scalar::from_bits(dtype, u64::MAX)),
        Literal::Dense(ty(dtype, &[2, 0]), Vec::new().into()),
    ];
    for extents in [&[2, 3][..], &[3, 1, 2], &[7, 23]] {
        let ty = ty(dtype, extents);
        let bytes =
            (0..ty.byte_len()).map(|i| if dtype == DType::Bool { (i % 3 == 0).into() } else { (i * 97 % 251) as u8 });
        literals.push(Literal::Dense(ty.clone(), bytes.collect()));
    }
    literals.into_iter().map(|literal| single(Opcode::Constant, &[], Attrs::Constant(literal), &[])).collect()
}

fn movements(op: Opcode, dtype: DType) -> Vec<Trace> {
    let (matrix, scalar) = (ty(dtype, &[2, 3]), ty(dtype, &[]));
    if op == Opcode::Reshape {
        return vec![
            single(op, std::slice::from_ref(&matrix), Attrs::Reshape(Shape::from([3, 2, 1])), &[]),
            single(op, std::slice::from_ref(&matrix), Attrs::Reshape(Shape::from([2, 3])), &[]),
        ];
    }
    if op == Opcode::Transpose {
        return vec![single(op, &[matrix], Attrs::Transpose([1, 0].into_iter().collect()), &[])];
    }
    if op == Opcode::Slice {
        let limits = SliceLimits {
            start: [0, 1].into_iter().collect(),
            limit: [2, 3].into_iter().collect(),
            stride: [1, 2].into_iter().collect(),
        };
        return vec![single(op, &[matrix], Attrs::Slice(Box::new(limits)), &[])];
    }
    if op == Opcode::Reverse {
        return [vec![1], vec![1, 0], vec![]]
            .map(|dims| {
                let attrs = Attrs::Reverse(dims.into_iter().collect());
                single(op, std::slice::from_ref(&matrix), attrs, &[])
            })
            .into();
    }
    if op == Opcode::DynamicUpdateSlice {
        let start = ty(DType::I64, &[]);
        return vec![
            single(op, &[matrix, ty(dtype, &[1, 3]), start.clone(), start], Attrs::None, &[]),
            single(op, &[scalar.clone(), scalar], Attrs::None, &[]),
        ];
    }
    if op == Opcode::Concatenate {
        return vec![
            single(op, &[matrix.clone(), ty(dtype, &[2, 1]), ty(dtype, &[2, 0])], Attrs::Concatenate(1), &[]),
            single(op, &[matrix], Attrs::Concatenate(0), &[]),
        ];
    }
    if op == Opcode::Pad {
        let amounts = PadAmounts {
            low: [1, -1].into_iter().collect(),
            high: [-1, 2].into_iter().collect(),
            interior: [0, 1].into_iter().collect(),
        };
        return vec![single(op, &[matrix, scalar], Attrs::Pad(Box::new(amounts)), &[])];
    }
    assert_eq!(op, Opcode::BroadcastInDim, "a movement op without a sample");
    [(scalar, vec![4], vec![]), (ty(dtype, &[1, 3]), vec![3, 2], vec![1, 0]), (matrix, vec![4, 2, 3], vec![1, 2])]
        .into_iter()
        .map(|(operand, shape, dimensions)| {
            let attrs =
                Attrs::BroadcastInDim { shape: Shape::from(shape), dimensions: dimensions.into_iter().collect() };
            single(op, &[operand], attrs, &[])
        })
        .collect()
}

fn gathers(dtype: DType) -> Vec<Trace> {
    let take = GatherDims {
        offset_dims: [1].into_iter().collect(),
        collapsed_slice_dims: [0].into_iter().collect(),
        start_index_map: [0].into_iter().collect(),
        index_vector_dim: 1,
        slice_sizes: [1, 3].into_iter().collect(),
        ..GatherDims::default()
    };
    let batched = GatherDims {
        offset_dims: [3, 4].into_iter().collect(),
        collapsed_slice_dims: [1].into_iter().collect(),
        operand_batching_dims: [0].into_iter().collect(),
        start_indices_batching_dims: [1].into_iter().collect(),
        start_index_map: [2, 1].into_iter().collect(),
        index_vector_dim: 3,
        slice_sizes: [1, 1, 2, 2].into_iter().collect(),
        indices_are_sorted: true,
    };
    let gather = |operand: &[usize], indices: TensorType, dims: GatherDims| {
        single(Opcode::Gather, &[ty(dtype, operand), indices], Attrs::Gather(Box::new(dims)), &[])
    };
    vec![gather(&[5, 3], ty(DType::I32, &[4, 1]), take), gather(&[2, 3, 4, 2], ty(DType::I64, &[2, 2, 3, 2]), batched)]
}
