//! Traces without numbers: what planning sees.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use systole_kernels::DType;
use systole_kernels::program::{BufferType, Comparison, Extent, Extreme, Monoid, Order, Winner};

use super::words::{Extents, Reader, Writer};
use super::{GroupKey, KeyedGroup, PlanKey};
use crate::ir::attrs::Dims;
use crate::ir::{DotDims, GatherDims, Opcode, ValueId};

/// A trace whose extents and other numbers are launch parameters and scalars.
///
/// Values are numbered through: input `i` is value `i`, the result of node `n` is value `inputs.len() + n`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SymbolicTrace {
    /// Inputs.
    pub inputs: Vec<SymbolicInput>,
    /// Nodes in program order.
    pub nodes: Vec<SymbolicNode>,
    /// Outputs, in order; a value may occur twice.
    pub outputs: Vec<ValueId>,
    /// Number of launch parameters.
    pub params: u16,
    /// Dtypes of the launch scalars.
    pub scalars: Vec<DType>,
}

/// An input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SymbolicInput {
    /// Type.
    pub ty: BufferType,
    /// Nobody but this trace will read the input again.
    pub donatable: bool,
}

/// A node. It has one result: an op with several is as many nodes, each with the operands that it needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SymbolicNode {
    /// The op.
    pub op: Opcode,
    /// Operands.
    pub operands: SmallVec<[ValueId; 3]>,
    /// Attributes, where the result type does not say it all.
    pub attrs: SymbolicAttrs,
    /// Result type.
    pub ty: BufferType,
}

/// [`Attrs`](crate::ir::Attrs) without numbers, and without what the result type says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SymbolicAttrs {
    /// Nothing beyond the result type.
    None,
    /// `constant`: the element is this launch scalar.
    Splat(u16),
    /// `iota`: the dimension along which the index counts.
    Iota(u32),
    /// `compare`.
    Compare(Comparison, Order),
    /// `broadcast_in_dim`: for each operand dimension, the result dimension it becomes.
    BroadcastInDim(Dims),
    /// `transpose`: the permutation.
    Transpose(Dims),
    /// `slice`; the limits follow from the result type.
    Slice {
        /// First indices.
        start: SmallVec<[Extent; 4]>,
        /// Steps: 1, or a parameter.
        stride: SmallVec<[Extent; 4]>,
    },
    /// `reverse`.
    Reverse {
        /// The dimensions.
        dimensions: Dims,
        /// Their last indices; 0 for extents of 0 and 1.
        last: SmallVec<[Extent; 4]>,
    },
    /// `concatenate`.
    Concatenate {
        /// The dimension.
        dimension: u32,
        /// Where operands 1, 2, … begin.
        offsets: SmallVec<[Extent; 4]>,
    },
    /// `pad`; the amounts after the last element follow from the result type.
    Pad {
        /// Elements before the first.
        low: SmallVec<[Extent; 4]>,
        /// Elements between neighbours: 0, or a parameter.
        interior: SmallVec<[Extent; 4]>,
    },
    /// `reduce`: body and dimensions combined away.
    Reduce(Monoid, Dims),
    /// `reduce` of values and indices by argmax or argmin: which half of the winning pair this is, and the dimensions.
    ArgReduce(Extreme, Winner, Dims),
    /// `dot_general`.
    Dot(Box<DotDims>),
    /// `gather`; `slice_sizes` of the dimension numbers is empty, the sizes stand beside it.
    Gather(Box<GatherDims>, SmallVec<[Extent; 4]>),
}

impl SymbolicNode {
    /// The dimensions that a reduction combines away.
    pub fn reduced(&self) -> Option<&Dims> {
        match &self.attrs {
            SymbolicAttrs::Reduce(_, dims) | SymbolicAttrs::ArgReduce(_, _, dims) => Some(dims),
            SymbolicAttrs::None
            | SymbolicAttrs::Splat(_)
            | SymbolicAttrs::Iota(_)
            | SymbolicAttrs::Compare(..)
            | SymbolicAttrs::BroadcastInDim(_)
            | SymbolicAttrs::Transpose(_)
            | SymbolicAttrs::Slice { .. }
            | SymbolicAttrs::Reverse { .. }
            | SymbolicAttrs::Concatenate { .. }
            | SymbolicAttrs::Pad { .. }
            | SymbolicAttrs::Dot(_)
            | SymbolicAttrs::Gather(..) => None,
        }
    }
}

impl SymbolicTrace {
    /// A value's type.
    pub fn ty(&self, value: ValueId) -> &BufferType {
        match self.producer(value) {
            None => &self.inputs[value.index()].ty,
            Some(node) => &self.nodes[node].ty,
        }
    }

    /// The index of the node that defines `value`, unless it is an input.
    pub fn producer(&self, value: ValueId) -> Option<usize> {
        value.index().checked_sub(self.inputs.len())
    }

    /// The result of the node with that index.
    pub fn result(&self, node: usize) -> ValueId {
        ValueId((self.inputs.len() + node) as u32)
    }

    /// The canonical key of a part of this trace: `nodes` (indices, ascending), which read `inputs` and each other, and
    /// of whose results `outputs` are kept. Of these nodes, those among `numbers` are written as constants of the scalar
    /// beside them, whatever they are: views of a constant are. Parameters and scalars are numbered anew by first
    /// appearance.
    pub fn cut(&self, nodes: &[u32], numbers: &[(u32, u16)], inputs: &[ValueId], outputs: &[ValueId]) -> KeyedGroup {
        let mut renumber = Renumber { params: Vec::new(), known: FxHashMap::default(), scalars: Vec::new() };
        let mut positions: FxHashMap<ValueId, u32> = inputs.iter().copied().zip(0..).collect();
        let mut writer = Writer::with_capacity(8 + 2 * inputs.len() + 10 * nodes.len());
        writer.header(inputs.len(), nodes.len(), outputs.len());
        for &input in inputs {
            write_ty(&mut writer, self.ty(input), false, &mut renumber);
        }
        for (&node, number) in nodes.iter().zip(inputs.len() as u32..) {
            let SymbolicNode { op, operands, attrs, ty } = &self.nodes[node as usize];
            if let Some(&(_, scalar)) = numbers.iter().find(|(number, _)| *number == node) {
                writer.node(Opcode::Constant, std::iter::empty());
                write_ty(&mut writer, ty, false, &mut renumber);
                write_attrs(&mut writer, &SymbolicAttrs::Splat(scalar), &mut renumber);
            } else {
                writer.node(*op, operands.iter().map(|operand| positions[operand]));
                write_ty(&mut writer, ty, false, &mut renumber);
                write_attrs(&mut writer, attrs, &mut renumber);
            }
            positions.insert(self.result(node as usize), number);
        }
        for output in outputs {
            writer.word(positions[output]);
        }
        let words = writer.finish(renumber.params.len(), renumber.scalars.len());
        KeyedGroup { key: GroupKey(PlanKey::new(&words)), params: renumber.params, scalars: renumber.scalars }
    }
}

/// From the numbering of a trace to that of a part of it.
struct Renumber {
    params: Vec<u16>,
    known: FxHashMap<u16, u16>,
    scalars: Vec<u16>,
}

impl Renumber {
    fn extent(&mut self, extent: Extent) -> Extent {
        let Extent::Param(param) = extent else {
            return extent;
        };
        let next = self.params.len() as u16;
        let number = *self.known.entry(param).or_insert(next);
        if number == next {
            self.params.push(param);
        }
        Extent::Param(number)
    }
}

fn write_ty(writer: &mut Writer, ty: &BufferType, flag: bool, renumber: &mut Renumber) {
    writer.ty(ty.dtype, flag, ty.shape.iter().map(|&extent| renumber.extent(extent)));
}

fn write_attrs(writer: &mut Writer, attrs: &SymbolicAttrs, renumber: &mut Renumber) {
    let mut extents = |writer: &mut Writer, extents: &[Extent]| {
        writer.extents(extents.iter().map(|&extent| renumber.extent(extent)));
    };
    match attrs {
        SymbolicAttrs::None => {}
        SymbolicAttrs::Splat(scalar) => renumber.scalars.push(*scalar),
        SymbolicAttrs::Iota(dimension) => writer.word(*dimension),
        SymbolicAttrs::Compare(direction, order) => writer.compare(*direction, *order),
        SymbolicAttrs::BroadcastInDim(dims) | SymbolicAttrs::Transpose(dims) => writer.dims(dims),
        SymbolicAttrs::Slice { start, stride } => {
            extents(writer, start);
            extents(writer, stride);
        }
        SymbolicAttrs::Reverse { dimensions, last } => {
            writer.word(dimensions.len() as u32);
            writer.dims(dimensions);
            extents(writer, last);
        }
        SymbolicAttrs::Concatenate { dimension, offsets } => {
            writer.word(*dimension);
            extents(writer, offsets);
        }
        SymbolicAttrs::Pad { low, interior } => {
            extents(writer, low);
            extents(writer, interior);
        }
        SymbolicAttrs::Reduce(monoid, dims) => writer.reduce(*monoid, dims),
        SymbolicAttrs::ArgReduce(extreme, winner, dims) => writer.arg_reduce(*extreme, *winner, dims),
        SymbolicAttrs::Dot(dims) => writer.dot(dims),
        SymbolicAttrs::Gather(dims, sizes) => {
            writer.gather(dims);
            extents(writer, sizes);
        }
    }
}

/// The trace that the words of a key describe.
pub(super) fn decode(words: &[u32]) -> SymbolicTrace {
    let mut reader = Reader::new(words);
    let [params, _, inputs, nodes, outputs] = reader.header();
    let mut trace = SymbolicTrace { params: params as u16, ..SymbolicTrace::default() };
    for _ in 0..inputs {
        let (ty, donatable) = reader.ty();
        trace.inputs.push(SymbolicInput { ty, donatable });
    }
    for _ in 0..nodes {
        let (op, operands) = reader.node();
        let operands: SmallVec<[ValueId; 3]> = operands.into_iter().map(ValueId).collect();
        let (ty, _) = reader.ty();
        let attrs = read_attrs(&mut reader, &mut trace, op, &operands, &ty);
        trace.nodes.push(SymbolicNode { op, operands, attrs, ty });
    }
    trace.outputs.extend((0..outputs).map(|_| ValueId(reader.word())));
    trace
}

fn read_attrs(
    reader: &mut Reader<'_>,
    trace: &mut SymbolicTrace,
    op: Opcode,
    operands: &[ValueId],
    ty: &BufferType,
) -> SymbolicAttrs {
    let operand_rank = |i: usize| trace.ty(operands[i]).shape.len();
    match op {
        Opcode::Constant => {
            trace.scalars.push(ty.dtype);
            SymbolicAttrs::Splat((trace.scalars.len() - 1) as u16)
        }
        Opcode::Iota => SymbolicAttrs::Iota(reader.word()),
        Opcode::Compare => {
            let (direction, order) = reader.compare();
            SymbolicAttrs::Compare(direction, order)
        }
        Opcode::BroadcastInDim => SymbolicAttrs::BroadcastInDim(reader.dims(operand_rank(0))),
        Opcode::Transpose => SymbolicAttrs::Transpose(reader.dims(operand_rank(0))),
        Opcode::Slice => {
            let rank = operand_rank(0);
            SymbolicAttrs::Slice { start: reader.extents(rank), stride: reader.extents(rank) }
        }
        Opcode::Reverse => {
            let count = reader.word() as usize;
            SymbolicAttrs::Reverse { dimensions: reader.dims(count), last: reader.extents(count) }
        }
        Opcode::Concatenate => {
            SymbolicAttrs::Concatenate { dimension: reader.word(), offsets: reader.extents(operands.len() - 1) }
        }
        Opcode::Pad => {
            let rank = operand_rank(0);
            SymbolicAttrs::Pad { low: reader.extents(rank), interior: reader.extents(rank) }
        }
        Opcode::Reduce if operands.len() == 4 => {
            let (extreme, winner, dims) = reader.arg_reduce();
            SymbolicAttrs::ArgReduce(extreme, winner, dims)
        }
        Opcode::Reduce => {
            let (monoid, dims) = reader.reduce();
            SymbolicAttrs::Reduce(monoid, dims)
        }
        Opcode::DotGeneral => SymbolicAttrs::Dot(Box::new(reader.dot())),
        Opcode::Gather => {
            let rank = operand_rank(0);
            let dims = reader.gather();
            let sizes: Extents = reader.extents(rank);
            SymbolicAttrs::Gather(Box::new(dims), sizes)
        }
        Opcode::Reshape
        | Opcode::DynamicSlice
        | Opcode::DynamicUpdateSlice
        | Opcode::Convert
        | Opcode::BitcastConvert
        | Opcode::Select
        | Opcode::Clamp
        | Opcode::Abs
        | Opcode::Negate
        | Opcode::Sign
        | Opcode::Exponential
        | Opcode::Log
        | Opcode::Tanh
        | Opcode::Logistic
        | Opcode::Erf
        | Opcode::ExponentialMinusOne
        | Opcode::LogPlusOne
        | Opcode::Sine
        | Opcode::Cosine
        | Opcode::Cbrt
        | Opcode::Sqrt
        | Opcode::Rsqrt
        | Opcode::Floor
        | Opcode::Ceil
        | Opcode::IsFinite
        | Opcode::Not
        | Opcode::Add
        | Opcode::Subtract
        | Opcode::Multiply
        | Opcode::Divide
        | Opcode::Maximum
        | Opcode::Minimum
        | Opcode::Power
        | Opcode::Remainder
        | Opcode::Atan2
        | Opcode::And
        | Opcode::Or
        | Opcode::Xor => SymbolicAttrs::None,
    }
}
