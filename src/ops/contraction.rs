//! Products summed over contracted dimensions.

use systole_fusion::ir::attrs::Dims;
use systole_fusion::ir::{Attrs, DotDims, Opcode, Origin};
use systole_kernels::Shape;

use super::elementwise::broadcast_shape;
use super::{record, types};
use crate::error::{Error, Result};
use crate::tensor::Tensor;

impl Tensor {
    /// StableHLO's `dot_general`: batching dimensions, then this tensor's other dimensions, then `rhs`'s. Each sum
    /// follows the order of docs/numerics.md, so a row's bits do not depend on the rest of the batch. f16 and bf16 are
    /// summed in f32, and [`DotDims::result`] can ask for these sums as they are.
    ///
    /// # Errors
    /// Dimension numbers or extents that do not fit.
    #[track_caller]
    pub fn dot_general(&self, rhs: &Tensor, dims: DotDims) -> Result<Tensor> {
        let result = dims.result.filter(|&dtype| dtype != self.dtype());
        let dims = DotDims { result, ..dims };
        record(Opcode::DotGeneral, &[self, rhs], Attrs::Dot(Box::new(dims)), Origin::caller())
    }

    /// Matrix product over the last dimension of this and the second-to-last of `rhs`; dimensions before them are a
    /// batch and broadcast as in NumPy.
    ///
    /// # Errors
    /// Rank below 2, inner extents that differ, or batches that do not broadcast.
    #[track_caller]
    pub fn matmul(&self, rhs: &Tensor) -> Result<Tensor> {
        let origin = Origin::caller();
        let mismatch = |what: &str| Error::misuse("matmul", types(&[self, rhs]), origin.clone(), what);
        let ([.., _, inner], [.., rhs_inner, _]) = (&self.shape()[..], &rhs.shape()[..]) else {
            return Err(mismatch("both need rank 2 or more"));
        };
        if inner != rhs_inner {
            return Err(mismatch(&format!("inner extents {inner} and {rhs_inner} differ")));
        }
        let (lhs_batch, lhs_matrix) = self.shape().split_at(self.rank() - 2);
        let (rhs_batch, rhs_matrix) = rhs.shape().split_at(rhs.rank() - 2);
        let batch =
            broadcast_shape(lhs_batch, rhs_batch).ok_or_else(|| mismatch("the batch dimensions do not broadcast"))?;
        let with_batch = |matrix: &[usize]| batch.iter().chain(matrix).copied().collect::<Shape>();
        let lhs = self.broadcast_from(&with_batch(lhs_matrix), &origin)?;
        let rhs = rhs.broadcast_from(&with_batch(rhs_matrix), &origin)?;
        let rank = batch.rank() as u32;
        let batching: Dims = (0..rank).collect();
        let dims = DotDims {
            lhs_batching: batching.clone(),
            rhs_batching: batching,
            lhs_contracting: Dims::from_slice(&[rank + 1]),
            rhs_contracting: Dims::from_slice(&[rank]),
            ..DotDims::default()
        };
        record(Opcode::DotGeneral, &[&lhs, &rhs], Attrs::Dot(Box::new(dims)), origin)
    }
}
