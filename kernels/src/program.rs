//! The tile program: what the simulator compiles and runs.
//!
//! A program computes its outputs over one rectangular index space, the [`Domain`]. It is straight-line SSA over
//! *registers*: a register holds one value per point of the domain, or per row, per column or per launch, as its
//! [`Vary`] says. Loads and stores are affine ([`Access`]); nothing else touches memory. The machine that runs it
//! ([`crate::machine`]) cuts the domain into tiles that stay in cache and runs each instruction over a tile as one
//! vector loop, so interpretation costs nothing per element.
//!
//! Extents, offsets and steps are launch parameters: a program is built once per structure and serves every size.
//! No instruction's result depends on how the domain is tiled, split over threads, or on the instruction set;
//! docs/numerics.md states the order of every contraction and reduction.

mod specialize;

use smallvec::SmallVec;

use crate::dtype::DType;
use crate::shape::{Shape, TensorType};

/// An integer known when a program is built, or given at launch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Extent {
    /// Known when the program is built. The planner uses this for 0 and 1 only.
    Fixed(i64),
    /// Launch parameter `n`. As an extent it is at least 2, by the relation pattern.
    Param(u16),
}

impl Extent {
    /// The extent 0.
    pub const ZERO: Extent = Extent::Fixed(0);
    /// The extent 1.
    pub const ONE: Extent = Extent::Fixed(1);

    /// The number for one launch.
    pub fn resolve(self, params: &[i64]) -> i64 {
        match self {
            Extent::Fixed(value) => value,
            Extent::Param(param) => params[usize::from(param)],
        }
    }
}

/// The index space of a program. Axes are numbered through: `outer`, then `rows`, then `cols`.
///
/// `outer` axes are a batch. A tile is a block of rows × columns. Any group may be empty (one index).
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Domain {
    /// Batch axes: every tile lies at one index of them.
    pub outer: SmallVec<[Extent; 4]>,
    /// Axes that are flattened, row-major, into the tile's rows.
    pub rows: SmallVec<[Extent; 4]>,
    /// Axes that are flattened, row-major, into the tile's columns.
    pub cols: SmallVec<[Extent; 4]>,
}

impl Domain {
    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.outer.len() + self.rows.len() + self.cols.len()
    }

    /// The extents of all axes in numbering order.
    pub fn axes(&self) -> impl Iterator<Item = Extent> + '_ {
        self.outer.iter().chain(&self.rows).chain(&self.cols).copied()
    }
}

/// Which axes of the domain the program's reductions run along. All reductions of a program share it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ReduceAlong {
    /// Along the columns, which hold the operand's minor-most axis: 1,024 lanes. Results vary by row.
    Cols,
    /// Along the rows; the minor-most axis is not reduced: 8 lanes. Results vary by column.
    Rows,
}

/// A register.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Reg(pub u16);

/// Which tile axes a register's value changes along; it is the same at all points that differ elsewhere only.
/// A value that changes along `outer` axes only has both flags clear: it is one number per tile.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Vary {
    /// Changes from row to row.
    pub rows: bool,
    /// Changes from column to column.
    pub cols: bool,
}

impl Vary {
    /// One number per tile.
    pub const NONE: Vary = Vary { rows: false, cols: false };
    /// One number per row.
    pub const ROWS: Vary = Vary { rows: true, cols: false };
    /// One number per column.
    pub const COLS: Vary = Vary { rows: false, cols: true };
    /// One number per point.
    pub const BOTH: Vary = Vary { rows: true, cols: true };

    /// Changes along whatever either changes along.
    pub fn join(self, other: Vary) -> Vary {
        Vary { rows: self.rows || other.rows, cols: self.cols || other.cols }
    }
}

/// A register's element type and variation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RegType {
    /// Element type.
    pub dtype: DType,
    /// Tile axes along which the value changes.
    pub vary: Vary,
}

/// A buffer argument: dense, row-major.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct BufferType {
    /// Element type.
    pub dtype: DType,
    /// Extents, outermost first.
    pub shape: SmallVec<[Extent; 4]>,
}

impl BufferType {
    /// The type for one launch.
    pub fn resolve(&self, params: &[i64]) -> TensorType {
        // Extents are never negative: they come from shapes.
        TensorType::new(self.dtype, self.shape.iter().map(|extent| extent.resolve(params) as usize).collect::<Shape>())
    }
}

/// The coordinate along one buffer dimension, as a function of the domain point: `start + step · index(axis)`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct DimMap {
    /// The domain axis that moves along this dimension; `None` stays at `start`.
    /// In the operands of [`Instr::Dot`], numbers from [`Domain::rank`] on mean the axes of [`Program::contract`].
    pub axis: Option<u8>,
    /// Coordinate at index 0.
    pub start: Extent,
    /// Coordinates per index; may be negative.
    pub step: Extent,
}

impl DimMap {
    /// The coordinate is the index along `axis`.
    pub fn along(axis: u8) -> Self {
        DimMap { axis: Some(axis), start: Extent::ZERO, step: Extent::ONE }
    }

    /// The coordinate is 0 (a dimension of extent 1 that is broadcast).
    pub fn fixed() -> Self {
        DimMap { axis: None, start: Extent::ZERO, step: Extent::ONE }
    }
}

/// An affine view of a buffer: one [`DimMap`] per buffer dimension. Every access is in bounds.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Access {
    /// Index into [`Program::buffers`].
    pub buffer: u16,
    /// One map per dimension of the buffer.
    pub dims: SmallVec<[DimMap; 4]>,
}

/// Where a gather's index is read.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum IndexSource {
    /// In a buffer of an integer dtype, point by point.
    Memory(Access),
    /// In a register of an integer dtype that is one number for the whole launch: it varies along no axis, outer ones
    /// included.
    Number(Reg),
}

/// One component of a gather's start index.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct IndexComponent {
    /// Where the component is read.
    pub index: IndexSource,
    /// The dimension of the gathered buffer that it moves along.
    pub dim: u8,
    /// Extent of the slice along `dim`: the component is clamped to `[0, extent(dim) − slice]`, as StableHLO says.
    pub slice: Extent,
}

/// Where coordinate 0 of an overlaid buffer lands along an axis.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Low {
    /// At this index; may be negative.
    At(Extent),
    /// At the number in a register as [`IndexSource::Number`] has it, clamped to
    /// `[0, extent(axis) − extent(buffer dimension)]`, as StableHLO clamps a dynamic start.
    Clamped(Reg),
}

/// Where an overlaid buffer lies inside the register: along buffer dimension `d`, coordinate `c` lands on the index
/// `low[d] + c · (interior[d] + 1)` of its axis. Points between and outside keep the background.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Placement {
    /// The domain axis.
    pub axis: u8,
    /// Index of coordinate 0.
    pub low: Low,
    /// Points skipped between neighbours; at least 0.
    pub interior: Extent,
}

/// How two numbers are compared.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Comparison {
    /// Equal.
    Eq,
    /// Not equal.
    Ne,
    /// Greater or equal.
    Ge,
    /// Greater.
    Gt,
    /// Less or equal.
    Le,
    /// Less.
    Lt,
}

/// How `compare` orders floats: IEEE comparison, or IEEE totalOrder (−NaN < −inf … −0 < +0 … < +NaN).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Order {
    /// IEEE 754 comparison predicates (integers: the usual order).
    Partial,
    /// IEEE 754 totalOrder.
    Total,
}

/// How exact the products of a [`Instr::Dot`] of `f32` are to be on a chip, whose matrix unit takes `bf16`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Precision {
    /// Factors are rounded to `bf16`: one pass.
    #[default]
    Default,
    /// Factors are split in two: three passes, about 16 bits of significand.
    High,
    /// Factors are split in three: six passes, about those of an `f32`.
    Highest,
}

impl Precision {
    /// Each, the least exact first, as it lies in memory.
    pub const ALL: [Precision; 3] = [Precision::Default, Precision::High, Precision::Highest];

    /// StableHLO's name: `DEFAULT`, `HIGH` or `HIGHEST`.
    pub const fn name(self) -> &'static str {
        match self {
            Precision::Default => "DEFAULT",
            Precision::High => "HIGH",
            Precision::Highest => "HIGHEST",
        }
    }
}

/// A chip's matrix unit.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mxu {
    /// 128 rows of 128 multipliers.
    Depth128,
    /// 256 rows of 256 multipliers.
    Depth256,
}

impl Mxu {
    /// Products that one accumulator chain takes.
    pub const fn depth(self) -> usize {
        match self {
            Mxu::Depth128 => 128,
            Mxu::Depth256 => 256,
        }
    }
}

/// An operation on single elements. Operand and result dtypes are those of the registers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs, reason = "named and defined as StableHLO names and defines them; docs/numerics.md has the rest")]
pub enum LaneOp {
    Abs,
    Negate,
    Sign,
    Exponential,
    Log,
    Tanh,
    Logistic,
    Erf,
    ExponentialMinusOne,
    LogPlusOne,
    Sine,
    Cosine,
    Cbrt,
    Sqrt,
    Rsqrt,
    Floor,
    Ceil,
    /// To bool.
    IsFinite,
    Not,
    Add,
    Subtract,
    Multiply,
    Divide,
    Maximum,
    Minimum,
    Power,
    Remainder,
    Atan2,
    And,
    Or,
    Xor,
    Compare(Comparison, Order),
    /// `(pred, on_true, on_false)`.
    Select,
    /// `(min, operand, max)`.
    Clamp,
    Convert,
    /// The bits, as a dtype of the same width.
    Bitcast,
    /// `Convert` as a chip does it, by the measured tables: subnormals are flushed, but pass from `BF16` to `F32`, and NaN
    /// is the greatest `I32`. From a dtype to itself it is what arithmetic does where it reads and writes.
    ChipConvert,
}

impl LaneOp {
    /// Roughly how many simple operations an element takes: what decides on threads and on computing again.
    pub fn work(self) -> usize {
        match self {
            LaneOp::Exponential
            | LaneOp::ExponentialMinusOne
            | LaneOp::Log
            | LaneOp::LogPlusOne
            | LaneOp::Tanh
            | LaneOp::Logistic
            | LaneOp::Cbrt
            | LaneOp::Rsqrt => 8,
            LaneOp::Erf => 12,
            LaneOp::Power | LaneOp::Remainder | LaneOp::Sine | LaneOp::Cosine => 30,
            LaneOp::Atan2 => 100,
            LaneOp::Divide | LaneOp::Sqrt => 2,
            LaneOp::Abs
            | LaneOp::Negate
            | LaneOp::Sign
            | LaneOp::Floor
            | LaneOp::Ceil
            | LaneOp::IsFinite
            | LaneOp::Not
            | LaneOp::Add
            | LaneOp::Subtract
            | LaneOp::Multiply
            | LaneOp::Maximum
            | LaneOp::Minimum
            | LaneOp::And
            | LaneOp::Or
            | LaneOp::Xor
            | LaneOp::Compare(..)
            | LaneOp::Select
            | LaneOp::Clamp
            | LaneOp::Convert
            | LaneOp::Bitcast
            | LaneOp::ChipConvert => 1,
        }
    }
}

/// The bodies that a fused reduction knows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs, reason = "named as StableHLO's binary ops")]
pub enum Monoid {
    Add,
    Multiply,
    Maximum,
    Minimum,
    And,
    Or,
}

/// What an arg-reduction looks for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Extreme {
    /// The greatest value: argmax.
    Greatest,
    /// The least value: argmin.
    Least,
}

/// Which half of an arg-reduction's winning pair is meant.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Winner {
    /// Its value.
    Value,
    /// Its index.
    Index,
}

/// One instruction; each defines its register once, before any use.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Instr {
    /// Read a buffer.
    Load {
        /// Result.
        dst: Reg,
        /// What is read.
        access: Access,
    },
    /// Read a buffer at coordinates that come from other buffers, on top of an affine view.
    Gather {
        /// Result.
        dst: Reg,
        /// The affine part: dimensions moved by an index component carry the offset within the slice.
        access: Access,
        /// Components, each clamped, then added to the coordinate along its dimension.
        indices: SmallVec<[IndexComponent; 1]>,
    },
    /// `background`, with a buffer laid over it (pad, concatenate, dynamic_update_slice). `dst` has the background's dtype, varies along both.
    Overlay {
        /// Result.
        dst: Reg,
        /// What shows where the buffer does not reach.
        background: Reg,
        /// Index into [`Program::buffers`].
        buffer: u16,
        /// One placement per buffer dimension.
        placement: SmallVec<[Placement; 4]>,
    },
    /// Launch scalar `slot`.
    Scalar {
        /// Result; varies along nothing.
        dst: Reg,
        /// Index into [`Program::scalars`].
        slot: u16,
    },
    /// The index along a domain axis, converted to the register's dtype (integers wrap, floats round to nearest even).
    Iota {
        /// Result.
        dst: Reg,
        /// Domain axis.
        axis: u8,
    },
    /// An operation on elements.
    Lane {
        /// Operation.
        op: LaneOp,
        /// Result.
        dst: Reg,
        /// Operands, as many as the operation takes.
        args: SmallVec<[Reg; 3]>,
    },
    /// Reduce along [`Program::reduce`], in the order of docs/numerics.md, `init` combined once, last.
    Reduce {
        /// Body.
        monoid: Monoid,
        /// Result: [`Vary::ROWS`] or [`Vary::COLS`] (whatever is left of it).
        dst: Reg,
        /// Operand.
        src: Reg,
        /// Initial value, a register that varies along nothing.
        init: Reg,
    },
    /// Find the first of pairs of a value and an index along [`Program::reduce`], in the order of docs/numerics.md.
    ArgReduce {
        /// What is looked for.
        extreme: Extreme,
        /// What is wanted of the pair that is found.
        wanted: Winner,
        /// Result: [`Vary::ROWS`] or [`Vary::COLS`] (whatever is left of the operands'), of the wanted half's dtype.
        dst: Reg,
        /// Values.
        values: Reg,
        /// An integer beside each value.
        indices: Reg,
        /// A further pair, of registers that vary along nothing.
        init: (Reg, Reg),
    },
    /// Contraction over [`Program::contract`] (flattened row-major): `lhs` varies along rows, `rhs` along columns, both
    /// along outer axes; `dst` varies along both. Order and roundings as in docs/numerics.md. `dst` has the operands'
    /// dtype, or `F32` where that is a 16-bit float; by a matrix unit floats give `F32`.
    Dot {
        /// Result.
        dst: Reg,
        /// Left operand.
        lhs: Access,
        /// Right operand.
        rhs: Access,
        /// How exact a matrix unit is to be.
        precision: Precision,
        /// The matrix unit; `None` on the IEEE device, which takes factors as they are.
        mxu: Option<Mxu>,
    },
    /// Write a buffer. Every element of every output buffer is written exactly once over the domain.
    Store {
        /// What is written.
        src: Reg,
        /// Where.
        access: Access,
    },
}

/// A tile program.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Program {
    /// For reports: the ops it runs, joined by `+`.
    pub name: String,
    /// Number of launch parameters.
    pub params: u16,
    /// Dtypes of the launch scalars.
    pub scalars: Vec<DType>,
    /// Buffer arguments: `inputs` of them, then the outputs.
    pub buffers: Vec<BufferType>,
    /// Number of input buffers.
    pub inputs: u16,
    /// Index space.
    pub domain: Domain,
    /// Direction of the reductions; `None` where there are none.
    pub reduce: Option<ReduceAlong>,
    /// Contracted axes of the one [`Instr::Dot`], outermost first; empty without one (or with an outer product).
    pub contract: SmallVec<[Extent; 2]>,
    /// Registers.
    pub regs: Vec<RegType>,
    /// Instructions, in order.
    pub body: Vec<Instr>,
}

impl Program {
    /// The output buffers' types.
    pub fn outputs(&self) -> &[BufferType] {
        &self.buffers[usize::from(self.inputs)..]
    }

    /// Types of the outputs for these launch parameters. A negative extent, which no launch may have, counts as 0.
    ///
    /// # Panics
    /// Where there are fewer parameters than [`params`](Self::params).
    pub fn output_types(&self, params: &[i64]) -> SmallVec<[TensorType; 4]> {
        let outputs = self.outputs().iter();
        outputs
            .map(|buffer| {
                let extents = buffer.shape.iter().map(|extent| usize::try_from(extent.resolve(params)).unwrap_or(0));
                TensorType { dtype: buffer.dtype, shape: Shape::new(extents) }
            })
            .collect()
    }
}
