//! Attributes, by format rather than by op.
//!
//! Together with the operand types they determine the result types ([`infer`](crate::infer)), so shapes that StableHLO
//! text spells only in the result type (`reshape`, `broadcast_in_dim`, `iota`, `convert`) are attributes here. Floats
//! are stored as bits, so `Eq` and `Hash` are honest.

use std::sync::Arc;

use smallvec::SmallVec;
use systole_kernels::program::{Comparison, Order, Precision};
use systole_kernels::{DType, Scalar, Shape, TensorType};

/// Dimension numbers.
pub type Dims = SmallVec<[u32; 4]>;

/// Attributes of a node.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Attrs {
    /// The op has none.
    None,
    /// `constant`: the value.
    Constant(Literal),
    /// `iota`.
    Iota {
        /// Result type.
        ty: TensorType,
        /// Dimension along which the index counts.
        dimension: u32,
    },
    /// `compare`.
    Compare {
        /// Predicate.
        direction: Comparison,
        /// Order of floats.
        order: Order,
    },
    /// `convert`: the result dtype.
    Convert(DType),
    /// `broadcast_in_dim`.
    BroadcastInDim {
        /// Result shape.
        shape: Shape,
        /// For each operand dimension, the result dimension it becomes.
        dimensions: Dims,
    },
    /// `reshape`: the result shape.
    Reshape(Shape),
    /// `transpose`: result dimension `i` is operand dimension `permutation[i]`.
    Transpose(Dims),
    /// `slice`.
    Slice(Box<SliceLimits>),
    /// `reverse`: the dimensions whose order is reversed.
    Reverse(Dims),
    /// `concatenate`: the dimension.
    Concatenate(u32),
    /// `pad`.
    Pad(Box<PadAmounts>),
    /// `reduce`: the dimensions combined away; the body is the node's region.
    Reduce(Dims),
    /// `dot_general`.
    Dot(Box<DotDims>),
    /// `gather`.
    Gather(Box<GatherDims>),
    /// `dynamic_slice`: the extents of the slice.
    DynamicSlice(SmallVec<[i64; 4]>),
}

/// A constant's elements.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Literal {
    /// One element repeated over a type.
    Splat(TensorType, Scalar),
    /// Row-major little-endian elements; bools are bytes 0 and 1.
    Dense(TensorType, Arc<[u8]>),
}

impl Literal {
    /// The type.
    pub fn ty(&self) -> &TensorType {
        match self {
            Literal::Splat(ty, _) | Literal::Dense(ty, _) => ty,
        }
    }

    /// A rank-0 constant.
    pub fn scalar(value: impl Into<Scalar>) -> Self {
        let value = value.into();
        Literal::Splat(TensorType::scalar(value.dtype()), value)
    }
}

/// `slice`: for each dimension, indices `start, start + stride, …` below `limit`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct SliceLimits {
    /// First indices.
    pub start: SmallVec<[i64; 4]>,
    /// Bounds, exclusive.
    pub limit: SmallVec<[i64; 4]>,
    /// Steps, at least 1.
    pub stride: SmallVec<[i64; 4]>,
}

/// `pad`, per dimension.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct PadAmounts {
    /// Elements before the first; negative cuts.
    pub low: SmallVec<[i64; 4]>,
    /// Elements after the last; negative cuts.
    pub high: SmallVec<[i64; 4]>,
    /// Elements between neighbours, at least 0.
    pub interior: SmallVec<[i64; 4]>,
}

/// `dot_general`'s dimension numbers, result dtype and precision. The result has the batching dimensions, then lhs's others, then
/// rhs's others.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct DotDims {
    /// Batching dimensions of lhs.
    pub lhs_batching: Dims,
    /// Batching dimensions of rhs, pairwise with lhs's.
    pub rhs_batching: Dims,
    /// Contracting dimensions of lhs; their order is the order of summation.
    pub lhs_contracting: Dims,
    /// Contracting dimensions of rhs, pairwise with lhs's.
    pub rhs_contracting: Dims,
    /// Result dtype where it is not the operands': `F32` for 16-bit floats, whose sums are then not rounded to them.
    pub result: Option<DType>,
    /// How exact a chip is to be; on the IEEE device it says nothing. Of StableHLO's `precision_config`, which names one for
    /// each operand, the higher: as in XLA, it is a property of the product.
    pub precision: Precision,
}

/// `gather`'s dimension numbers, named as in StableHLO.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
#[allow(missing_docs, reason = "StableHLO's spec defines each of these names")]
pub struct GatherDims {
    pub offset_dims: Dims,
    pub collapsed_slice_dims: Dims,
    pub operand_batching_dims: Dims,
    pub start_indices_batching_dims: Dims,
    pub start_index_map: Dims,
    pub index_vector_dim: u32,
    pub slice_sizes: SmallVec<[i64; 4]>,
    pub indices_are_sorted: bool,
}
