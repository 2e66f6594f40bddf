//! Sentences of one op: any of the table, with attributes drawn from all that its constraints allow.

use smallvec::SmallVec;
use systole_fusion::ir::attrs::Dims;
use systole_fusion::ir::region::{Body, monoid_op};
use systole_fusion::ir::{Attrs, DotDims, GatherDims, OpClass, Opcode, PadAmounts, SliceLimits};
use systole_kernels::contract::contracts;
use systole_kernels::program::{Comparison, Extreme, Monoid, Order, Precision};
use systole_kernels::{DType, Scalar, Shape, TensorType};

use super::builder::Builder;
use crate::program::Handle;

pub(super) const MONOIDS: [Monoid; 6] =
    [Monoid::Add, Monoid::Multiply, Monoid::Maximum, Monoid::Minimum, Monoid::And, Monoid::Or];

const DIRECTIONS: [Comparison; 6] =
    [Comparison::Eq, Comparison::Ne, Comparison::Ge, Comparison::Gt, Comparison::Le, Comparison::Lt];

/// Says one op; gives its result, unless there was no room for it.
pub(super) fn say(b: &mut Builder) -> Option<Handle> {
    let op = *b.random.pick(Opcode::ALL);
    match op.class() {
        OpClass::Source => source(b, op),
        OpClass::Unary | OpClass::Predicate => {
            let operand = b.admitted(op)?;
            b.plain(op, &[operand])
        }
        OpClass::Binary => {
            let lhs = b.admitted(op)?;
            let rhs = partner(b, lhs)?;
            if b.random.chance(50) { b.plain(op, &[lhs, rhs]) } else { b.plain(op, &[rhs, lhs]) }
        }
        OpClass::Compare => {
            let lhs = b.admitted(op)?;
            let rhs = partner(b, lhs)?;
            compare(b, lhs, rhs)
        }
        OpClass::Select => select(b, op),
        OpClass::Convert => {
            let operand = b.admitted(op)?;
            if op == Opcode::BitcastConvert {
                return bitcast(b, operand);
            }
            let dtype = *b.random.pick(&DType::ALL);
            b.convert(operand, dtype)
        }
        OpClass::View | OpClass::Overlay => movement(b, op),
        OpClass::Reduce => {
            let operand = b.admitted(op)?;
            match b.random.below(4) {
                0 => arg_reduce(b, operand),
                1 => reduce_several(b, operand),
                _ => reduce(b, operand),
            }
        }
        OpClass::Contract => {
            let lhs = b.admitted(op)?;
            dot(b, lhs)
        }
        OpClass::Gather if op == Opcode::DynamicSlice => {
            let operand = b.admitted(op)?;
            dynamic_slice(b, operand)
        }
        OpClass::Gather => gather(b),
    }
}

/// Something of the same type: another tensor, or the same one.
fn partner(b: &mut Builder, operand: Handle) -> Option<Handle> {
    if b.random.chance(8) {
        return Some(operand);
    }
    let ty = b.ty(operand).clone();
    b.like(&ty)
}

/// The bits as any dtype of the same width.
fn bitcast(b: &mut Builder, operand: Handle) -> Option<Handle> {
    let size = b.dtype(operand).size();
    let dtypes: Vec<DType> = DType::ALL.into_iter().filter(|dtype| dtype.size() == size).collect();
    let dtype = *b.random.pick(&dtypes);
    b.record(Opcode::BitcastConvert, &[operand], Attrs::Convert(dtype), None)
}

fn source(b: &mut Builder, op: Opcode) -> Option<Handle> {
    let ty = TensorType::new(b.any_dtype(), b.any_shape());
    if op == Opcode::Iota {
        let dtype = *b.random.pick(&DType::ALL[1..]);
        let rank = 1 + b.random.below(4);
        let shape = b.shape_of_rank(rank);
        return b.iota(TensorType::new(dtype, shape));
    }
    match b.random.below(4) {
        0 => b.dense_constant(ty),
        1 => b.any_constant(TensorType::scalar(ty.dtype)),
        _ => b.any_constant(ty),
    }
}

pub(super) fn compare(b: &mut Builder, lhs: Handle, rhs: Handle) -> Option<Handle> {
    let direction = *b.random.pick(&DIRECTIONS);
    let order = if b.dtype(lhs).is_float() && b.random.chance(30) { Order::Total } else { Order::Partial };
    b.record(Opcode::Compare, &[lhs, rhs], Attrs::Compare { direction, order }, None)
}

fn select(b: &mut Builder, op: Opcode) -> Option<Handle> {
    let operand = b.admitted(op)?;
    let ty = b.ty(operand).clone();
    let bound = |b: &mut Builder| if b.random.chance(60) { b.scalar(ty.dtype) } else { b.like(&ty) };
    if op == Opcode::Clamp {
        let (low, high) = (bound(b)?, bound(b)?);
        return b.plain(op, &[low, operand, high]);
    }
    let other = partner(b, operand)?;
    let whole = TensorType { dtype: DType::Bool, shape: ty.shape.clone() };
    let predicate = if b.random.chance(20) { b.scalar(DType::Bool)? } else { b.like(&whole)? };
    b.plain(op, &[predicate, operand, other])
}

fn movement(b: &mut Builder, op: Opcode) -> Option<Handle> {
    let operand = b.admitted(op)?;
    match op {
        Opcode::BroadcastInDim => broadcast(b, operand),
        Opcode::Reshape => reshape(b, operand),
        Opcode::Transpose => transpose(b, operand),
        Opcode::Slice => slice(b, operand),
        Opcode::Reverse => reverse(b, operand),
        Opcode::Concatenate => concatenate(b, operand),
        Opcode::DynamicUpdateSlice => dynamic_update_slice(b, operand),
        _ => pad(b, operand),
    }
}

fn broadcast(b: &mut Builder, operand: Handle) -> Option<Handle> {
    let from = b.shape(operand);
    let rank = (from.rank() + b.random.below(3)).min(5).max(from.rank());
    let mut places: Dims = (0..rank as u32).collect();
    b.random.shuffle(&mut places);
    places.truncate(from.rank());
    if b.random.chance(85) {
        places.sort_unstable();
    }
    let mut shape: Vec<usize> = (0..rank).map(|_| b.extent()).collect();
    for (&place, &extent) in places.iter().zip(from.iter()) {
        if extent != 1 || b.random.chance(30) {
            shape[place as usize] = extent;
        }
    }
    b.broadcast(operand, shape.into(), places)
}

pub(super) fn reshape(b: &mut Builder, operand: Handle) -> Option<Handle> {
    let from = b.shape(operand);
    let shape = match b.random.below(5) {
        // Degenerate: ones come and go.
        0 | 1 => {
            let mut shape: Vec<usize> = from.iter().copied().filter(|&extent| extent != 1).collect();
            for _ in 0..b.random.below(3) {
                let at = b.random.below(shape.len() + 1);
                shape.insert(at, 1);
            }
            shape
        }
        // Neighbours merge.
        2 if from.rank() >= 2 => {
            let at = b.random.below(from.rank() - 1);
            let mut shape = from.to_vec();
            let merged = shape.remove(at + 1);
            shape[at] *= merged;
            shape
        }
        3 => vec![from.elements()],
        // Anything with as many elements.
        _ => {
            let rank = 1 + b.random.below(4);
            let mut shape = vec![1; rank];
            for factor in factors(from.elements()) {
                let at = b.random.below(rank);
                shape[at] *= factor;
            }
            shape
        }
    };
    b.record(Opcode::Reshape, &[operand], Attrs::Reshape(shape.into()), None)
}

/// Prime factors; those of 0 are 0 and 3, say.
fn factors(mut number: usize) -> Vec<usize> {
    if number == 0 {
        return vec![0, 3];
    }
    let mut factors = Vec::new();
    let mut candidate = 2;
    while candidate * candidate <= number {
        while number.is_multiple_of(candidate) {
            factors.push(candidate);
            number /= candidate;
        }
        candidate += 1;
    }
    if number > 1 {
        factors.push(number);
    }
    factors
}

pub(super) fn transpose(b: &mut Builder, operand: Handle) -> Option<Handle> {
    let mut permutation: Dims = (0..b.rank(operand) as u32).collect();
    b.random.shuffle(&mut permutation);
    b.record(Opcode::Transpose, &[operand], Attrs::Transpose(permutation), None)
}

pub(super) fn slice(b: &mut Builder, operand: Handle) -> Option<Handle> {
    let mut limits = SliceLimits::default();
    for &extent in b.shape(operand).iter() {
        let extent = extent as i64;
        let (start, limit) = if b.random.chance(30) {
            (0, extent)
        } else {
            let start = b.random.between(0, extent);
            (start, b.random.between(start, extent))
        };
        // An empty slice now and then; most keep something.
        let (start, limit) = if start == limit && b.random.chance(85) { (0, extent) } else { (start, limit) };
        limits.start.push(start);
        limits.limit.push(limit);
        limits.stride.push(if b.random.chance(70) { 1 } else { b.random.between(1, 4) });
    }
    b.record(Opcode::Slice, &[operand], Attrs::Slice(Box::new(limits)), None)
}

fn reverse(b: &mut Builder, operand: Handle) -> Option<Handle> {
    let mut dimensions: Dims = (0..b.rank(operand) as u32).filter(|_| b.random.chance(60)).collect();
    b.random.shuffle(&mut dimensions);
    b.record(Opcode::Reverse, &[operand], Attrs::Reverse(dimensions), None)
}

/// Starts for a box of those extents in `operand`, one scalar each: constants, uploads, or computed ones.
fn starts(b: &mut Builder, operand: Handle, sizes: &[usize]) -> Option<Vec<Handle>> {
    let dtype = index_dtype(b);
    let shape = b.shape(operand);
    let mut starts = Vec::new();
    for (&extent, &size) in shape.iter().zip(sizes) {
        let limit = extent - size;
        let computed = b.find(|live| *live == TensorType::scalar(dtype));
        starts.push(match computed {
            Some(found) if b.random.chance(30) => {
                let low = b.constant(Scalar::from_f64(dtype, 0.0), [])?;
                let high = b.constant(Scalar::from_f64(dtype, limit as f64), [])?;
                b.plain(Opcode::Clamp, &[low, found, high])?
            }
            Some(_) | None if b.random.chance(60) => {
                let start = b.random.between(0, limit as i64);
                b.constant(Scalar::from_i64(dtype, start), [])?
            }
            Some(_) | None => b.upload_indices(TensorType::scalar(dtype), 1, &[limit])?,
        });
    }
    Some(starts)
}

/// Extents of a box within `shape`: whole dimensions, single indices, and anything between.
fn box_within(b: &mut Builder, shape: &Shape) -> Vec<usize> {
    let size = |&extent: &usize| match b.random.below(10) {
        0..4 => extent,
        4..7 => extent.min(1),
        _ => b.random.between(0, extent as i64) as usize,
    };
    shape.iter().map(size).collect()
}

pub(super) fn dynamic_slice(b: &mut Builder, operand: Handle) -> Option<Handle> {
    let shape = b.shape(operand);
    let sizes = box_within(b, &shape);
    let mut operands = vec![operand];
    operands.extend(starts(b, operand, &sizes)?);
    let sizes = sizes.into_iter().map(|size| size as i64).collect();
    b.record(Opcode::DynamicSlice, &operands, Attrs::DynamicSlice(sizes), None)
}

pub(super) fn dynamic_update_slice(b: &mut Builder, operand: Handle) -> Option<Handle> {
    let ty = b.ty(operand).clone();
    let shape = Shape::from(box_within(b, &ty.shape));
    let update = b.like(&TensorType { dtype: ty.dtype, shape: shape.clone() })?;
    let mut operands = vec![operand, update];
    operands.extend(starts(b, operand, &shape)?);
    b.plain(Opcode::DynamicUpdateSlice, &operands)
}

fn concatenate(b: &mut Builder, operand: Handle) -> Option<Handle> {
    let mut ty = b.ty(operand).clone();
    let mut operands = vec![operand];
    if ty.rank() == 0 {
        // Scalars stack once they have a dimension.
        operands[0] = b.record(Opcode::Reshape, &[operand], Attrs::Reshape([1].into()), None)?;
        ty.shape = [1].into();
    }
    let dimension = b.random.below(ty.rank());
    for _ in 0..b.random.below(4) {
        if b.random.chance(15) {
            operands.push(operands[0]);
            continue;
        }
        let mut shape = ty.shape.to_vec();
        if b.random.chance(60) {
            shape[dimension] = b.extent();
        }
        operands.push(b.like(&TensorType::new(ty.dtype, shape))?);
    }
    b.random.shuffle(&mut operands);
    b.record(Opcode::Concatenate, &operands, Attrs::Concatenate(dimension as u32), None)
}

fn pad(b: &mut Builder, operand: Handle) -> Option<Handle> {
    let value = b.scalar(b.dtype(operand))?;
    let mut amounts = PadAmounts::default();
    for &extent in b.shape(operand).iter() {
        let extent = extent as i64;
        let interior = if b.random.chance(25) { b.random.between(1, 3) } else { 0 };
        let inside = extent + (extent - 1).max(0) * interior;
        let low = if b.random.chance(40) { 0 } else { b.random.between(-2, 3).max(-inside) };
        let high = if b.random.chance(40) { 0 } else { b.random.between(-2, 3).max(-inside - low.min(inside)) };
        amounts.low.push(low);
        amounts.high.push(high.max(-inside - low));
        amounts.interior.push(interior);
    }
    b.record(Opcode::Pad, &[operand, value], Attrs::Pad(Box::new(amounts)), None)
}

/// A reduce with any body that the dtype has, over any dimensions.
pub(super) fn reduce(b: &mut Builder, operand: Handle) -> Option<Handle> {
    let dtype = b.dtype(operand);
    let body = monoid(b, dtype);
    let dimensions = reduced(b, operand);
    let init = if b.random.chance(70) { b.constant(identity(body, dtype), []) } else { b.scalar(dtype) }?;
    b.record(Opcode::Reduce, &[operand, init], Attrs::Reduce(dimensions), Some(body.into()))
}

fn monoid(b: &mut Builder, dtype: DType) -> Monoid {
    let bodies: Vec<Monoid> =
        MONOIDS.into_iter().filter(|&monoid| monoid_op(monoid).info().dtypes.admits(dtype)).collect();
    *b.random.pick(&bodies)
}

/// Any dimensions.
fn reduced(b: &mut Builder, operand: Handle) -> Dims {
    let rank = b.rank(operand) as u32;
    let mut dimensions: Dims = match b.random.below(6) {
        0 | 1 if rank > 0 => Dims::from_slice(&[rank - 1]),
        2 => (0..rank).collect(),
        3 if rank > 1 => (0..rank - 1).collect(),
        _ => (0..rank).filter(|_| b.random.chance(50)).collect(),
    };
    if b.random.chance(15) {
        b.random.shuffle(&mut dimensions);
    }
    dimensions
}

/// Two or three operands of one shape, each with a body of its own; one of the results is kept.
fn reduce_several(b: &mut Builder, operand: Handle) -> Option<Handle> {
    let shape = b.shape(operand).clone();
    let mut operands = vec![operand];
    for _ in 0..1 + b.random.below(2) {
        let dtype = b.any_dtype();
        operands.push(b.like(&TensorType { dtype, shape: shape.clone() })?);
    }
    let count = operands.len();
    let mut monoids = SmallVec::new();
    for at in 0..count {
        let dtype = b.dtype(operands[at]);
        monoids.push(monoid(b, dtype));
        operands.push(b.scalar(dtype)?);
    }
    let dimensions = reduced(b, operand);
    let picked = b.random.below(count) as u32;
    b.record_picked(Opcode::Reduce, &operands, Attrs::Reduce(dimensions), Some(Body::Each(monoids)), picked)
}

/// argmax or argmin, usually of an index that counts along one dimension; the value or the index is kept.
pub(super) fn arg_reduce(b: &mut Builder, operand: Handle) -> Option<Handle> {
    let shape = b.shape(operand).clone();
    let dtype = *b.random.pick(&[DType::I32, DType::I32, DType::I64, DType::U32]);
    let ty = TensorType { dtype, shape };
    let (indices, dimensions) = if ty.rank() > 0 && b.random.chance(75) {
        let dimension = b.random.below(ty.rank()) as u32;
        let indices = b.record(Opcode::Iota, &[], Attrs::Iota { ty, dimension }, None)?;
        (indices, Dims::from_slice(&[dimension]))
    } else {
        (b.like(&ty)?, reduced(b, operand))
    };
    let extreme = *b.random.pick(&[Extreme::Greatest, Extreme::Least]);
    let usual = match extreme {
        Extreme::Greatest => Monoid::Maximum,
        Extreme::Least => Monoid::Minimum,
    };
    let value = b.dtype(operand);
    let init = if b.random.chance(70) { b.constant(identity(usual, value), []) } else { b.scalar(value) }?;
    let first = if b.random.chance(70) { b.constant(Scalar::from_f64(dtype, 0.0), []) } else { b.scalar(dtype) }?;
    let picked = u32::from(b.random.chance(75));
    let operands = [operand, indices, init, first];
    b.record_picked(Opcode::Reduce, &operands, Attrs::Reduce(dimensions), Some(Body::Arg(extreme)), picked)
}

/// The element that changes nothing, for all bodies but a float sum, which usually starts from +0.
pub(super) fn identity(body: Monoid, dtype: DType) -> Scalar {
    match body {
        Monoid::Add | Monoid::Or => Scalar::from_f64(dtype, 0.0),
        Monoid::Multiply => Scalar::from_f64(dtype, 1.0),
        Monoid::And => Scalar::from_bits(dtype, u64::MAX),
        // Converting saturates, so that infinities are the extremes of every dtype; of bool, true is.
        Monoid::Maximum if dtype == DType::Bool => false.into(),
        Monoid::Maximum => Scalar::from_f64(dtype, f64::NEG_INFINITY),
        Monoid::Minimum => Scalar::from_f64(dtype, f64::INFINITY),
    }
}

/// A dot_general of any form: each of lhs's dimensions is batching, contracting or free.
pub(super) fn dot(b: &mut Builder, lhs: Handle) -> Option<Handle> {
    let shape = b.shape(lhs);
    // Rhs's dimensions before they are shuffled: extent, and which of lhs's dimensions it is paired with.
    let mut rhs_dims: Vec<(usize, Option<u32>)> = Vec::new();
    let (mut batching, mut contracting) = (Dims::new(), Dims::new());
    let mut work = 1;
    for (dim, &extent) in (0..).zip(shape.iter()) {
        work *= extent.max(1);
        match b.random.below(10) {
            0..2 => batching.push(dim),
            2..6 => contracting.push(dim),
            _ => continue,
        }
        rhs_dims.push((extent, Some(dim)));
    }
    for _ in 0..b.random.below(3) {
        let extent = b.extent();
        work *= extent.max(1);
        rhs_dims.push((extent, None));
    }
    if work > b.dot_work {
        return None;
    }
    b.random.shuffle(&mut rhs_dims);
    b.random.shuffle(&mut contracting);
    b.random.shuffle(&mut batching);
    let rhs_shape: Shape = rhs_dims.iter().map(|&(extent, _)| extent).collect();
    let partners = |dims: &Dims| -> Dims {
        let place = |dim: &u32| rhs_dims.iter().position(|&(_, paired)| paired == Some(*dim));
        dims.iter().map(|dim| place(dim).expect("a paired dimension is one of rhs's") as u32).collect()
    };
    let dims = DotDims {
        rhs_batching: partners(&batching),
        rhs_contracting: partners(&contracting),
        lhs_batching: batching,
        lhs_contracting: contracting,
        result: dot_result(b, lhs),
        precision: precision(b),
    };
    let rhs = b.like(&TensorType { dtype: b.dtype(lhs), shape: rhs_shape })?;
    b.record(Opcode::DotGeneral, &[lhs, rhs], Attrs::Dot(Box::new(dims)), None)
}

/// Any, the default most often.
pub(super) fn precision(b: &mut Builder) -> Precision {
    if b.random.chance(60) { Precision::Default } else { *b.random.pick(&Precision::ALL) }
}

/// Now and then the sums of 16-bit floats as they are.
pub(super) fn dot_result(b: &mut Builder, lhs: Handle) -> Option<DType> {
    let wide = DType::F32;
    (b.dtype(lhs) != wide && contracts(b.dtype(lhs), wide) && b.random.chance(40)).then_some(wide)
}

fn gather(b: &mut Builder) -> Option<Handle> {
    let operand = b.admitted(Opcode::Gather)?;
    match b.random.below(4) {
        0 if b.rank(operand) > 0 => take_along(b, operand),
        1 if b.shape(operand).first().is_some_and(|&extent| extent > 0) => rows(b, operand),
        _ => general_gather(b, operand),
    }
}

fn index_dtype(b: &mut Builder) -> DType {
    *b.random.pick(&[DType::I32, DType::I32, DType::U32, DType::I64])
}

/// One element per point of the indices, along one dimension.
fn take_along(b: &mut Builder, operand: Handle) -> Option<Handle> {
    let shape = b.shape(operand);
    let rank = shape.rank() as u32;
    let dimension = b.random.below(shape.rank());
    if shape[dimension] == 0 {
        return None;
    }
    let mut indices = shape.to_vec();
    indices[dimension] = b.extent();
    indices.push(1);
    let ty = TensorType::new(index_dtype(b), indices);
    let starts = b.upload_indices(ty, 1, &[shape[dimension] - 1])?;
    let others: Dims = (0..rank).filter(|&d| d != dimension as u32).collect();
    let dims = GatherDims {
        collapsed_slice_dims: Dims::from_slice(&[dimension as u32]),
        operand_batching_dims: others.clone(),
        start_indices_batching_dims: others,
        start_index_map: Dims::from_slice(&[dimension as u32]),
        index_vector_dim: rank,
        // A batching dimension of extent 0 has nothing to slice.
        slice_sizes: shape.iter().map(|&extent| extent.min(1) as i64).collect(),
        ..GatherDims::default()
    };
    b.record(Opcode::Gather, &[operand, starts], Attrs::Gather(Box::new(dims)), None)
}

/// Rows of a table, as an embedding does; the indices may have been computed.
pub(super) fn rows(b: &mut Builder, table: Handle) -> Option<Handle> {
    let shape = b.shape(table);
    let computed = b.find(|live| live.dtype.is_integer() && live.rank() <= 2 && live.shape.elements() <= 64);
    let indices = match computed {
        Some(found) if b.random.chance(50) => {
            let dtype = b.dtype(found);
            let low = b.constant(Scalar::from_f64(dtype, 0.0), [])?;
            let high = b.constant(Scalar::from_f64(dtype, (shape[0] - 1) as f64), [])?;
            b.plain(Opcode::Clamp, &[low, found, high])?
        }
        Some(_) | None => {
            let rank = b.random.below(3);
            let ty = TensorType::new(index_dtype(b), b.shape_of_rank(rank));
            b.upload_indices(ty, 1, &[shape[0] - 1])?
        }
    };
    let batch = b.rank(indices) as u32;
    let mut slice_sizes: SmallVec<[i64; 4]> = shape.iter().map(|&extent| extent as i64).collect();
    slice_sizes[0] = 1;
    let dims = GatherDims {
        offset_dims: (batch..batch + shape.rank() as u32 - 1).collect(),
        collapsed_slice_dims: Dims::from_slice(&[0]),
        start_index_map: Dims::from_slice(&[0]),
        index_vector_dim: batch,
        slice_sizes,
        ..GatherDims::default()
    };
    b.record(Opcode::Gather, &[table, indices], Attrs::Gather(Box::new(dims)), None)
}

/// A gather of any form: each operand dimension is batching, collapsed or kept, and indexed or not.
fn general_gather(b: &mut Builder, operand: Handle) -> Option<Handle> {
    let shape = b.shape(operand);
    let mut dims = GatherDims::default();
    // The batch dimensions of the indices: extent, and the operand's dimension that a batching one pairs with.
    let mut batch: Vec<(usize, Option<u32>)> = Vec::new();
    for (dim, &extent) in (0..).zip(shape.iter()) {
        let role = b.random.below(10);
        // What is collapsed has a slice of one element, so there must be one.
        if role < 2 {
            batch.push((extent, Some(dim)));
            dims.operand_batching_dims.push(dim);
            dims.slice_sizes.push(extent.min(1) as i64);
            continue;
        }
        if role < 5 && extent > 0 {
            dims.collapsed_slice_dims.push(dim);
            dims.slice_sizes.push(1);
        } else {
            dims.slice_sizes.push(if b.random.chance(50) { extent as i64 } else { b.random.between(0, extent as i64) });
        }
        if b.random.chance(60) {
            dims.start_index_map.push(dim);
        }
    }
    for _ in 0..b.random.below(3) {
        batch.push((b.extent(), None));
    }
    b.random.shuffle(&mut batch);
    b.random.shuffle(&mut dims.start_index_map);
    let components = dims.start_index_map.len();
    let vector_dim = if components == 1 && b.random.chance(40) { batch.len() } else { b.random.below(batch.len() + 1) };
    let absent = vector_dim == batch.len() && components == 1 && b.random.chance(50);
    let place = |dim: u32| {
        let at = batch.iter().position(|&(_, paired)| paired == Some(dim)).expect("a batching dimension is placed");
        (at + usize::from(!absent && at >= vector_dim)) as u32
    };
    dims.start_indices_batching_dims = dims.operand_batching_dims.iter().map(|&dim| place(dim)).collect();
    let mut extents: Vec<usize> = batch.iter().map(|&(extent, _)| extent).collect();
    if !absent {
        extents.insert(vector_dim, components);
    }
    dims.index_vector_dim = vector_dim as u32;
    // Offset dimensions lie anywhere among the result's.
    let offsets = shape.rank() - dims.collapsed_slice_dims.len() - dims.operand_batching_dims.len();
    let mut places: Dims = (0..(batch.len() + offsets) as u32).collect();
    b.random.shuffle(&mut places);
    places.truncate(offsets);
    places.sort_unstable();
    dims.offset_dims = places;

    let limits: Vec<usize> =
        dims.start_index_map.iter().map(|&dim| shape[dim as usize] - dims.slice_sizes[dim as usize] as usize).collect();
    let inner: usize = extents.iter().skip(vector_dim + 1).product();
    let limits = if limits.is_empty() { vec![0] } else { limits };
    let ty = TensorType::new(index_dtype(b), extents);
    let starts = b.upload_indices(ty, inner, &limits)?;
    b.record(Opcode::Gather, &[operand, starts], Attrs::Gather(Box::new(dims)), None)
}
