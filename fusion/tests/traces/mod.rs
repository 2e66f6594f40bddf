//! A terse builder of traces for tests, and random traces.

#![allow(dead_code, reason = "each test target needs a part of it")]

pub(crate) mod digits;
pub(crate) mod random;

use systole_fusion::ir::region::{arg_region, monoid_region};
use systole_fusion::ir::{
    Attrs, DotDims, GatherDims, Literal, Opcode, Origin, PadAmounts, SliceLimits, Trace, ValueId,
};
use systole_kernels::program::{Comparison, Extreme, Monoid, Order};
use systole_kernels::{DType, Scalar, Shape, TensorType};

/// Appends ops to a trace.
pub(crate) struct Builder {
    pub(crate) trace: Trace,
    pub(crate) origin: Origin,
}

impl Default for Builder {
    fn default() -> Self {
        Builder { trace: Trace::new(), origin: Origin::Unknown }
    }
}

impl Builder {
    pub(crate) fn new() -> Self {
        Builder::default()
    }

    pub(crate) fn finish(mut self, outputs: &[ValueId]) -> Trace {
        outputs.iter().for_each(|&output| self.trace.output(output));
        self.trace
    }

    pub(crate) fn input(&mut self, shape: &[usize]) -> ValueId {
        self.input_of(DType::F32, shape)
    }

    pub(crate) fn input_of(&mut self, dtype: DType, shape: &[usize]) -> ValueId {
        self.trace.input(TensorType::new(dtype, shape))
    }

    pub(crate) fn shape(&self, value: ValueId) -> Vec<usize> {
        self.trace.ty(value).shape.to_vec()
    }

    pub(crate) fn push(&mut self, op: Opcode, operands: &[ValueId], attrs: Attrs) -> ValueId {
        let pushed = self.trace.push(op, operands.iter().copied(), attrs, [], self.origin.clone());
        pushed.unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) fn op(&mut self, op: Opcode, operands: &[ValueId]) -> ValueId {
        self.push(op, operands, Attrs::None)
    }

    pub(crate) fn number(&mut self, value: impl Into<Scalar>) -> ValueId {
        self.push(Opcode::Constant, &[], Attrs::Constant(Literal::scalar(value)))
    }

    pub(crate) fn iota(&mut self, dtype: DType, shape: &[usize], dimension: u32) -> ValueId {
        self.push(Opcode::Iota, &[], Attrs::Iota { ty: TensorType::new(dtype, shape), dimension })
    }

    pub(crate) fn broadcast(&mut self, value: ValueId, shape: &[usize], dims: &[u32]) -> ValueId {
        let dimensions = dims.iter().copied().collect();
        self.push(Opcode::BroadcastInDim, &[value], Attrs::BroadcastInDim { shape: Shape::from(shape), dimensions })
    }

    /// A number in the shape of another value.
    pub(crate) fn like(&mut self, number: f32, value: ValueId) -> ValueId {
        let shape = self.shape(value);
        let number = self.number(number);
        self.broadcast(number, &shape, &[])
    }

    pub(crate) fn reshape(&mut self, value: ValueId, shape: &[usize]) -> ValueId {
        self.push(Opcode::Reshape, &[value], Attrs::Reshape(Shape::from(shape)))
    }

    pub(crate) fn transpose(&mut self, value: ValueId, permutation: &[u32]) -> ValueId {
        self.push(Opcode::Transpose, &[value], Attrs::Transpose(permutation.iter().copied().collect()))
    }

    pub(crate) fn slice(&mut self, value: ValueId, start: &[i64], limit: &[i64], stride: &[i64]) -> ValueId {
        let list = |list: &[i64]| list.iter().copied().collect();
        let limits = SliceLimits { start: list(start), limit: list(limit), stride: list(stride) };
        self.push(Opcode::Slice, &[value], Attrs::Slice(Box::new(limits)))
    }

    pub(crate) fn concatenate(&mut self, values: &[ValueId], dimension: u32) -> ValueId {
        self.push(Opcode::Concatenate, values, Attrs::Concatenate(dimension))
    }

    pub(crate) fn pad(
        &mut self,
        value: ValueId,
        with: ValueId,
        low: &[i64],
        high: &[i64],
        interior: &[i64],
    ) -> ValueId {
        let list = |list: &[i64]| list.iter().copied().collect();
        let amounts = PadAmounts { low: list(low), high: list(high), interior: list(interior) };
        self.push(Opcode::Pad, &[value, with], Attrs::Pad(Box::new(amounts)))
    }

    pub(crate) fn compare(&mut self, direction: Comparison, lhs: ValueId, rhs: ValueId) -> ValueId {
        self.push(Opcode::Compare, &[lhs, rhs], Attrs::Compare { direction, order: Order::Partial })
    }

    pub(crate) fn convert(&mut self, value: ValueId, dtype: DType) -> ValueId {
        self.push(Opcode::Convert, &[value], Attrs::Convert(dtype))
    }

    pub(crate) fn reduce_from(&mut self, monoid: Monoid, value: ValueId, init: ValueId, dims: &[u32]) -> ValueId {
        let dtype = self.trace.ty(value).dtype;
        let attrs = Attrs::Reduce(dims.iter().copied().collect());
        let region = monoid_region(monoid, dtype);
        let pushed = self.trace.push(Opcode::Reduce, [value, init], attrs, [region], self.origin.clone());
        pushed.unwrap_or_else(|error| panic!("{error}"))
    }

    /// argmax or argmin along one dimension: the value and the index.
    pub(crate) fn arg_reduce(&mut self, extreme: Extreme, value: ValueId, dim: u32) -> [ValueId; 2] {
        let ty = self.trace.ty(value).clone();
        let index = TensorType { dtype: DType::I32, shape: ty.shape };
        let iota = self.push(Opcode::Iota, &[], Attrs::Iota { ty: index, dimension: dim });
        let first = self.number(Scalar::from_f64(ty.dtype, 0.0));
        let zero = self.number(0i32);
        let attrs = Attrs::Reduce([dim].into_iter().collect());
        let region = arg_region(extreme, ty.dtype, DType::I32);
        let operands = [value, iota, first, zero];
        let pushed = self.trace.push(Opcode::Reduce, operands, attrs, [region], self.origin.clone());
        let value = pushed.unwrap_or_else(|error| panic!("{error}"));
        [value, ValueId(value.0 + 1)]
    }

    pub(crate) fn sum(&mut self, value: ValueId, dims: &[u32]) -> ValueId {
        let zero = self.number(0f32);
        self.reduce_from(Monoid::Add, value, zero, dims)
    }

    pub(crate) fn maximum_of(&mut self, value: ValueId, dims: &[u32]) -> ValueId {
        let least = self.number(f32::NEG_INFINITY);
        self.reduce_from(Monoid::Maximum, value, least, dims)
    }

    pub(crate) fn dot(&mut self, lhs: ValueId, rhs: ValueId, contract: [u32; 2]) -> ValueId {
        self.dot_general(lhs, rhs, [&[], &[]], [&contract[..1], &contract[1..]])
    }

    pub(crate) fn dot_general(
        &mut self,
        lhs: ValueId,
        rhs: ValueId,
        batch: [&[u32]; 2],
        contract: [&[u32]; 2],
    ) -> ValueId {
        let list = |list: &[u32]| list.iter().copied().collect();
        let dims = DotDims {
            lhs_batching: list(batch[0]),
            rhs_batching: list(batch[1]),
            lhs_contracting: list(contract[0]),
            rhs_contracting: list(contract[1]),
            ..DotDims::default()
        };
        self.push(Opcode::DotGeneral, &[lhs, rhs], Attrs::Dot(Box::new(dims)))
    }

    /// Slices of `operand` along `axis` at the indices.
    pub(crate) fn take(&mut self, operand: ValueId, indices: ValueId, axis: u32) -> ValueId {
        let shape = self.shape(operand);
        let batch = self.shape(indices).len() as u32;
        let rank = shape.len() as u32;
        let sizes = shape.iter().enumerate().map(|(dim, &extent)| if dim as u32 == axis { 1 } else { extent as i64 });
        // Offsets before the axis come first, then the indices, then the other offsets.
        let dims = GatherDims {
            offset_dims: (0..axis).chain((axis + 1..rank).map(|dim| dim - 1 + batch)).collect(),
            collapsed_slice_dims: [axis].into_iter().collect(),
            start_index_map: [axis].into_iter().collect(),
            index_vector_dim: batch,
            slice_sizes: sizes.collect(),
            ..GatherDims::default()
        };
        self.push(Opcode::Gather, &[operand, indices], Attrs::Gather(Box::new(dims)))
    }
}
