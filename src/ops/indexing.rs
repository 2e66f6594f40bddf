//! Elements chosen by indices that are data.

use systole_fusion::ir::attrs::Dims;
use systole_fusion::ir::{Attrs, GatherDims, Opcode, Origin};
use systole_kernels::Shape;

use super::{record, types};
use crate::error::{Error, Result};
use crate::tensor::Tensor;

impl Tensor {
    /// StableHLO's `gather`: slices at start indices that are data; indices out of range clamp, and are errors in
    /// [`Mode::Debug`](crate::Mode::Debug).
    ///
    /// # Errors
    /// Dimension numbers, slice sizes or index dtype that do not fit.
    #[track_caller]
    pub fn gather(&self, indices: &Tensor, dims: GatherDims) -> Result<Tensor> {
        record(Opcode::Gather, &[self, indices], Attrs::Gather(Box::new(dims)), Origin::caller())
    }

    /// For each point of `indices`, the element of this tensor at that index along `dimension` and at the same point
    /// elsewhere, as `numpy.take_along_axis`. Indices out of range clamp.
    ///
    /// # Errors
    /// Ranks that differ, extents that differ outside `dimension`, or indices of a dtype that is no integer.
    #[track_caller]
    pub fn take_along_dim(&self, indices: &Tensor, dimension: usize) -> Result<Tensor> {
        let origin = Origin::caller();
        if dimension >= self.rank() {
            let reason = format!("no dimension {dimension} in rank {}", self.rank());
            return Err(Error::misuse("take_along_dim", types(&[self, indices]), origin, reason));
        }
        let fits = indices.rank() == self.rank()
            && (0..self.rank()).all(|d| d == dimension || self.shape()[d] == indices.shape()[d]);
        if !fits {
            let reason = format!(
                "shapes {} and {} must have equal extents but in dimension {dimension}",
                self.shape(),
                indices.shape()
            );
            return Err(Error::misuse("take_along_dim", types(&[self, indices]), origin, reason));
        }
        let rank = self.rank() as u32;
        let with_vector: Shape = indices.shape().iter().copied().chain([1]).collect();
        let starts = record(Opcode::Reshape, &[indices], Attrs::Reshape(with_vector), origin.clone())?;
        let others: Dims = (0..rank).filter(|&d| d != dimension as u32).collect();
        let dims = GatherDims {
            offset_dims: Dims::new(),
            collapsed_slice_dims: Dims::from_slice(&[dimension as u32]),
            operand_batching_dims: others.clone(),
            start_indices_batching_dims: others,
            start_index_map: Dims::from_slice(&[dimension as u32]),
            index_vector_dim: rank,
            slice_sizes: std::iter::repeat_n(1, self.rank()).collect(),
            indices_are_sorted: false,
        };
        record(Opcode::Gather, &[self, &starts], Attrs::Gather(Box::new(dims)), origin)
    }
}
