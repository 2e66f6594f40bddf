//! Sentences that user programs are made of, and that fusion is about.

use systole_fusion::ir::attrs::Dims;
use systole_fusion::ir::{Attrs, DotDims, Opcode};
use systole_kernels::program::{Comparison, Monoid, Order};
use systole_kernels::{DType, Scalar, Shape, TensorType};

use super::builder::Builder;
use super::ops;
use crate::program::Handle;

/// Says one idiom; gives its result, unless there was no room for all of it.
pub(super) fn say(b: &mut Builder) -> Option<Handle> {
    match b.random.below(16) {
        0 => softmax(b),
        1 => layer_norm(b),
        2 => dense_layer(b),
        3 => siblings(b),
        4 => optimiser(b),
        5 => masked(b),
        6 | 7 => chain(b),
        8 => attention(b),
        9 => rotated_halves(b),
        10 => gradient(b),
        11 => embedding(b),
        12 => integer_mix(b),
        13 => cache(b),
        14 => guard(b),
        _ => reduced_dot(b),
    }
}

/// A float dtype, as often as programs use it.
fn float_dtype(b: &mut Builder) -> DType {
    use DType::{BF16, F16, F32};
    *b.random.pick(&[F32, F32, F32, F32, F32, F32, BF16, BF16, BF16, F16])
}

/// A float tensor of at least `rank` dimensions.
fn floats(b: &mut Builder, rank: usize) -> Option<Handle> {
    let dtype = float_dtype(b);
    if b.random.chance(70)
        && let Some(found) = b.find(|live| live.dtype == dtype && live.rank() >= rank)
    {
        return Some(found);
    }
    let rank = rank.max(1 + b.random.below(3));
    let shape = b.shape_of_rank(rank);
    b.upload(TensorType::new(dtype, shape))
}

/// A scalar of the dtype of `like`.
fn number(b: &mut Builder, like: Handle, value: f64) -> Option<Handle> {
    b.constant(Scalar::from_f64(b.dtype(like), value), [])
}

/// Both at the larger of their shapes.
fn with(b: &mut Builder, op: Opcode, lhs: Handle, rhs: Handle) -> Option<Handle> {
    let (left, right) = (b.shape(lhs), b.shape(rhs));
    let shape = if left.rank() >= right.rank() { left } else { right };
    let (lhs, rhs) = (b.expand(lhs, &shape)?, b.expand(rhs, &shape)?);
    b.plain(op, &[lhs, rhs])
}

/// A reduce over dimension `dim`, broadcast back.
fn spread(b: &mut Builder, operand: Handle, body: Monoid, dim: usize) -> Option<Handle> {
    let dtype = b.dtype(operand);
    let init = b.constant(ops::identity(body, dtype), [])?;
    let reduced =
        b.record(Opcode::Reduce, &[operand, init], Attrs::Reduce(Dims::from_slice(&[dim as u32])), Some(body.into()))?;
    let shape = b.shape(operand);
    let kept: Dims = (0..shape.rank() as u32).filter(|&d| d != dim as u32).collect();
    if b.random.chance(50) {
        return b.broadcast(reduced, shape, kept);
    }
    // As keepdims does it: a reshape to extent 1, then a broadcast of that.
    let with_one: Shape = shape.iter().enumerate().map(|(d, &e)| if d == dim { 1 } else { e }).collect();
    let reshaped = b.record(Opcode::Reshape, &[reduced], Attrs::Reshape(with_one), None)?;
    b.expand(reshaped, &shape)
}

/// The dimension that normalisations run over: mostly the last.
fn normalised(b: &mut Builder, operand: Handle) -> usize {
    let rank = b.rank(operand);
    if b.random.chance(75) { rank - 1 } else { b.random.below(rank) }
}

fn softmax(b: &mut Builder) -> Option<Handle> {
    let x = floats(b, 1)?;
    let dim = normalised(b, x);
    softmax_of(b, x, dim)
}

fn softmax_of(b: &mut Builder, x: Handle, dim: usize) -> Option<Handle> {
    let largest = spread(b, x, Monoid::Maximum, dim)?;
    let shifted = b.plain(Opcode::Subtract, &[x, largest])?;
    let e = b.plain(Opcode::Exponential, &[shifted])?;
    let total = spread(b, e, Monoid::Add, dim)?;
    b.plain(Opcode::Divide, &[e, total])
}

fn layer_norm(b: &mut Builder) -> Option<Handle> {
    let x = floats(b, 1)?;
    let dim = normalised(b, x);
    let count = number(b, x, b.shape(x)[dim] as f64)?;
    let sum = spread(b, x, Monoid::Add, dim)?;
    let mean = with(b, Opcode::Divide, sum, count)?;
    let centred = b.plain(Opcode::Subtract, &[x, mean])?;
    let squares = b.plain(Opcode::Multiply, &[centred, centred])?;
    let sum = spread(b, squares, Monoid::Add, dim)?;
    let variance = with(b, Opcode::Divide, sum, count)?;
    let epsilon = number(b, x, 1e-5)?;
    let variance = with(b, Opcode::Add, variance, epsilon)?;
    let scale = b.plain(Opcode::Rsqrt, &[variance])?;
    let normal = b.plain(Opcode::Multiply, &[centred, scale])?;
    if dim + 1 < b.rank(x) || b.random.chance(30) {
        return Some(normal);
    }
    let row = TensorType::new(b.dtype(x), [b.shape(x)[dim]]);
    let gain = b.like(&row)?;
    let scaled = with(b, Opcode::Multiply, normal, gain)?;
    let bias = b.like(&row)?;
    with(b, Opcode::Add, scaled, bias)
}

fn matmul(b: &mut Builder, lhs: Handle, columns: usize) -> Option<Handle> {
    let shape = b.shape(lhs);
    let (&inner, outer) = shape.split_last()?;
    if outer.iter().chain([&inner, &columns]).map(|&extent| extent.max(1)).product::<usize>() > b.dot_work {
        return None;
    }
    let turned = b.random.chance(30);
    let weights = if turned { [columns, inner] } else { [inner, columns] };
    let weights = b.like(&TensorType::new(b.dtype(lhs), weights))?;
    let (weights, contracted) = match b.random.below(4) {
        0 if turned => (b.record(Opcode::Transpose, &[weights], Attrs::Transpose(Dims::from_slice(&[1, 0])), None)?, 0),
        _ => (weights, u32::from(turned)),
    };
    let dims = DotDims {
        lhs_contracting: Dims::from_slice(&[shape.rank() as u32 - 1]),
        rhs_contracting: Dims::from_slice(&[contracted]),
        result: ops::dot_result(b, lhs),
        ..DotDims::default()
    };
    b.record(Opcode::DotGeneral, &[lhs, weights], Attrs::Dot(Box::new(dims)), None)
}

fn activation(b: &mut Builder, x: Handle) -> Option<Handle> {
    match b.random.below(5) {
        0 => {
            let zero = number(b, x, 0.0)?;
            with(b, Opcode::Maximum, x, zero)
        }
        1 => b.plain(Opcode::Tanh, &[x]),
        2 => {
            let gate = b.plain(Opcode::Logistic, &[x])?;
            b.plain(Opcode::Multiply, &[x, gate])
        }
        3 => {
            let (low, high) = (number(b, x, -1.0)?, number(b, x, 6.0)?);
            b.plain(Opcode::Clamp, &[low, x, high])
        }
        _ => Some(x),
    }
}

/// Dot, bias, activation, residual.
fn dense_layer(b: &mut Builder) -> Option<Handle> {
    let mut x = floats(b, 2)?;
    if b.random.chance(20) {
        // A prologue: the operand is computed, converted or scaled.
        let ty = TensorType { dtype: DType::I32, shape: b.shape(x) };
        let other = b.like(&ty)?;
        x = b.convert(other, b.dtype(x))?;
    }
    let columns = b.extent();
    let product = matmul(b, x, columns)?;
    let bias = b.like(&TensorType::new(b.dtype(product), [columns]))?;
    let y = with(b, Opcode::Add, product, bias)?;
    let y = activation(b, y)?;
    if b.random.chance(60) {
        return Some(y);
    }
    let ty = b.ty(y).clone();
    let residual = b.like(&ty)?;
    b.plain(Opcode::Add, &[y, residual])
}

/// Several readers of one tensor, all of which are kept.
fn siblings(b: &mut Builder) -> Option<Handle> {
    let x = floats(b, 1)?;
    let mut last = x;
    for _ in 0..2 + b.random.below(3) {
        last = match b.random.below(6) {
            0 => ops::reduce(b, x)?,
            1 => ops::compare(b, x, last)?,
            2 => ops::transpose(b, x)?,
            3 => b.plain(Opcode::Multiply, &[x, x])?,
            4 => b.convert(x, DType::I32)?,
            _ => b.plain(Opcode::Sqrt, &[x])?,
        };
        if b.ty(last) != b.ty(x) {
            last = x;
        }
    }
    Some(last)
}

/// A step of Adam on one parameter.
fn optimiser(b: &mut Builder) -> Option<Handle> {
    let parameter = floats(b, 1)?;
    let ty = b.ty(parameter).clone();
    let (gradient, m, v) = (b.like(&ty)?, b.like(&ty)?, b.like(&ty)?);
    let scaled = |b: &mut Builder, x: Handle, factor: f64| {
        let factor = number(b, x, factor)?;
        with(b, Opcode::Multiply, x, factor)
    };
    let (m, step) = (scaled(b, m, 0.9)?, scaled(b, gradient, 0.1)?);
    let m = b.plain(Opcode::Add, &[m, step])?;
    let squares = b.plain(Opcode::Multiply, &[gradient, gradient])?;
    let (v, step) = (scaled(b, v, 0.999)?, scaled(b, squares, 0.001)?);
    let v = b.plain(Opcode::Add, &[v, step])?;
    let root = b.plain(Opcode::Sqrt, &[v])?;
    let epsilon = number(b, root, 1e-8)?;
    let root = with(b, Opcode::Add, root, epsilon)?;
    let update = b.plain(Opcode::Divide, &[m, root])?;
    let update = scaled(b, update, 0.01)?;
    b.plain(Opcode::Subtract, &[parameter, update])
}

/// A causal mask on scores, then softmax.
fn masked(b: &mut Builder) -> Option<Handle> {
    let x = floats(b, 2)?;
    let shape = b.shape(x);
    let index = |b: &mut Builder, dimension: usize| {
        let attrs =
            Attrs::Iota { ty: TensorType { dtype: DType::I32, shape: shape.clone() }, dimension: dimension as u32 };
        b.record(Opcode::Iota, &[], attrs, None)
    };
    let rows = index(b, shape.rank() - 2)?;
    let columns = index(b, shape.rank() - 1)?;
    let attrs = Attrs::Compare { direction: Comparison::Ge, order: Order::Partial };
    let mask = b.record(Opcode::Compare, &[rows, columns], attrs, None)?;
    let far = number(b, x, f64::NEG_INFINITY)?;
    let far = b.expand(far, &shape)?;
    let scores = b.plain(Opcode::Select, &[mask, x, far])?;
    softmax_of(b, scores, shape.rank() - 1)
}

/// A chain of elementwise ops with converts and broadcasts on the way.
fn chain(b: &mut Builder) -> Option<Handle> {
    const UNARY: [Opcode; 18] = [
        Opcode::Abs,
        Opcode::Negate,
        Opcode::Sign,
        Opcode::Exponential,
        Opcode::Log,
        Opcode::Tanh,
        Opcode::Logistic,
        Opcode::Erf,
        Opcode::ExponentialMinusOne,
        Opcode::LogPlusOne,
        Opcode::Sine,
        Opcode::Cosine,
        Opcode::Cbrt,
        Opcode::Sqrt,
        Opcode::Rsqrt,
        Opcode::Floor,
        Opcode::Ceil,
        Opcode::Not,
    ];
    const BINARY: [Opcode; 12] = [
        Opcode::Add,
        Opcode::Subtract,
        Opcode::Multiply,
        Opcode::Divide,
        Opcode::Maximum,
        Opcode::Minimum,
        Opcode::Power,
        Opcode::Remainder,
        Opcode::Atan2,
        Opcode::And,
        Opcode::Or,
        Opcode::Xor,
    ];
    let mut x = match b.find(|_| true) {
        Some(found) => found,
        None => floats(b, 1)?,
    };
    for _ in 0..2 + b.random.below(7) {
        let ty = b.ty(x).clone();
        x = match b.random.below(10) {
            0..3 => {
                let op = *b.random.pick(&UNARY);
                if !op.info().dtypes.admits(ty.dtype) {
                    continue;
                }
                b.plain(op, &[x])?
            }
            3..7 => {
                let op = *b.random.pick(&BINARY);
                if !op.info().dtypes.admits(ty.dtype) {
                    continue;
                }
                let y = if b.random.chance(30) {
                    let scalar = b.scalar(ty.dtype)?;
                    b.expand(scalar, &ty.shape)?
                } else {
                    b.like(&ty)?
                };
                b.plain(op, &[x, y])?
            }
            7 => {
                let dtype = b.any_dtype();
                b.convert(x, dtype)?
            }
            8 => {
                let low = b.scalar(ty.dtype)?;
                let high = b.scalar(ty.dtype)?;
                b.plain(Opcode::Clamp, &[low, x, high])?
            }
            _ => {
                let mask = b.like(&TensorType { dtype: DType::Bool, shape: ty.shape.clone() })?;
                let other = b.like(&ty)?;
                b.plain(Opcode::Select, &[mask, x, other])?
            }
        };
    }
    Some(x)
}

/// Scores of queries and keys, softmax, values.
fn attention(b: &mut Builder) -> Option<Handle> {
    let (heads, positions, width) = (b.some_extent().min(4), b.some_extent(), b.some_extent());
    if heads * positions * positions * width > b.dot_work {
        return None;
    }
    let ty = TensorType::new(float_dtype(b), [heads, positions, width]);
    let (query, key, value) = (b.like(&ty)?, b.like(&ty)?, b.like(&ty)?);
    let batched = |lhs: u32, rhs: u32| {
        Attrs::Dot(Box::new(DotDims {
            lhs_batching: Dims::from_slice(&[0]),
            rhs_batching: Dims::from_slice(&[0]),
            lhs_contracting: Dims::from_slice(&[lhs]),
            rhs_contracting: Dims::from_slice(&[rhs]),
            ..DotDims::default()
        }))
    };
    let scores = b.record(Opcode::DotGeneral, &[query, key], batched(2, 2), None)?;
    let scale = number(b, scores, (width as f64).sqrt().recip())?;
    let scores = with(b, Opcode::Multiply, scores, scale)?;
    let weights = softmax_of(b, scores, 2)?;
    b.record(Opcode::DotGeneral, &[weights, value], batched(2, 1), None)
}

/// Halves exchanged and one negated, as rotary embeddings do; padding and slicing beside it.
fn rotated_halves(b: &mut Builder) -> Option<Handle> {
    let x = floats(b, 1)?;
    let left = ops::slice(b, x)?;
    let right = b.plain(Opcode::Negate, &[left])?;
    let dimension = b.random.below(b.rank(x)) as u32;
    let operands = if b.random.chance(50) { [right, left] } else { [left, left] };
    let joined = b.record(Opcode::Concatenate, &operands, Attrs::Concatenate(dimension), None)?;
    let ty = b.ty(joined).clone();
    let other = b.like(&ty)?;
    let product = b.plain(Opcode::Multiply, &[joined, other])?;
    if b.random.chance(50) { ops::reshape(b, product) } else { Some(product) }
}

/// What backward passes do: the mask of a relu, a dot over the batch, a sum over it.
fn gradient(b: &mut Builder) -> Option<Handle> {
    let x = floats(b, 2)?;
    let ty = b.ty(x).clone();
    let upstream = b.like(&ty)?;
    let zero = number(b, x, 0.0)?;
    let zeros = b.expand(zero, &ty.shape)?;
    let attrs = Attrs::Compare { direction: Comparison::Gt, order: Order::Partial };
    let alive = b.record(Opcode::Compare, &[x, zeros], attrs, None)?;
    let through = b.plain(Opcode::Select, &[alive, upstream, zeros])?;
    let last = ty.rank() as u32 - 1;
    let batch: Dims = (0..last).collect();
    if ty.shape.elements() * ty.shape[last as usize] <= b.dot_work {
        let dims = DotDims { lhs_contracting: batch.clone(), rhs_contracting: batch.clone(), ..DotDims::default() };
        b.record(Opcode::DotGeneral, &[x, through], Attrs::Dot(Box::new(dims)), None)?;
    }
    b.record(Opcode::Reduce, &[through, zero], Attrs::Reduce(batch), Some(Monoid::Add.into()))
}

/// Rows of a table, scaled and summed.
fn embedding(b: &mut Builder) -> Option<Handle> {
    let table = floats(b, 2)?;
    if b.shape(table)[0] == 0 {
        return None;
    }
    let rows = ops::rows(b, table)?;
    let factor = number(b, rows, 0.5)?;
    let scaled = with(b, Opcode::Multiply, rows, factor)?;
    if b.random.chance(50) { ops::reduce(b, scaled) } else { Some(scaled) }
}

/// A cache that is written at positions and read whole, as generation does.
fn cache(b: &mut Builder) -> Option<Handle> {
    let mut cache = floats(b, 2)?;
    for _ in 0..1 + b.random.below(3) {
        cache = ops::dynamic_update_slice(b, cache)?;
        if b.random.chance(30) {
            cache = activation(b, cache)?;
        }
    }
    let read = if b.random.chance(40) { ops::dynamic_slice(b, cache)? } else { cache };
    let factor = number(b, read, 0.5)?;
    let scaled = with(b, Opcode::Multiply, read, factor)?;
    if b.random.chance(50) { ops::reduce(b, scaled) } else { Some(scaled) }
}

/// Overflow cut off, as training in 16 bits does before it steps.
fn guard(b: &mut Builder) -> Option<Handle> {
    let x = floats(b, 1)?;
    let ty = b.ty(x).clone();
    let other = b.like(&ty)?;
    let x = b.plain(Opcode::Multiply, &[x, other])?;
    let finite = b.plain(Opcode::IsFinite, &[x])?;
    let zero = number(b, x, 0.0)?;
    let zeros = b.expand(zero, &ty.shape)?;
    b.plain(Opcode::Select, &[finite, x, zeros])
}

/// A hash of integers: wrapping arithmetic between bit operations.
fn integer_mix(b: &mut Builder) -> Option<Handle> {
    let dtype = *b.random.pick(&[DType::I32, DType::U32, DType::I64]);
    let mut x = match b.find(|live| live.dtype == dtype) {
        Some(found) => found,
        None => {
            let shape = b.any_shape();
            b.upload(TensorType::new(dtype, shape))?
        }
    };
    let ty = b.ty(x).clone();
    for _ in 0..2 + b.random.below(4) {
        let op = *b.random.pick(&[
            Opcode::Multiply,
            Opcode::Xor,
            Opcode::Add,
            Opcode::And,
            Opcode::Or,
            Opcode::Divide,
            Opcode::Remainder,
            Opcode::Power,
        ]);
        let y = if b.random.chance(25) { x } else { b.like(&ty)? };
        x = b.plain(op, &[x, y])?;
    }
    Some(x)
}

/// A dot of any form with something after it.
fn reduced_dot(b: &mut Builder) -> Option<Handle> {
    let x = floats(b, 1)?;
    let product = ops::dot(b, x)?;
    let y = activation(b, product)?;
    if b.random.chance(60) { ops::reduce(b, y) } else { Some(y) }
}
