//! Products summed over contracted dimensions.

use smallvec::SmallVec;
use systole_fusion::ir::attrs::Dims;
use systole_fusion::ir::{Attrs, DotDims, Opcode, Origin};
use systole_kernels::Shape;

use super::elementwise::broadcast_shape;
use super::{record, types};
use crate::dispatch::precision;
use crate::error::{Error, Result};
use crate::tensor::Tensor;

impl Tensor {
    /// StableHLO's `dot_general`: batching dimensions, then this tensor's other dimensions, then `rhs`'s. Each sum
    /// follows the order of docs/numerics.md, so a row's bits do not depend on the rest of the batch. f16 and bf16 are
    /// summed in f32, and [`DotDims::result`] can ask for these sums as they are. On a chip factors of f32 are rounded to
    /// bf16, unless [`DotDims::precision`] or [`with_precision`](crate::with_precision) asks for more.
    ///
    /// # Errors
    /// Dimension numbers or extents that do not fit.
    #[track_caller]
    pub fn dot_general(&self, rhs: &Tensor, dims: DotDims) -> Result<Tensor> {
        let result = dims.result.filter(|&dtype| dtype != self.dtype());
        let dims = DotDims { result, precision: dims.precision.max(precision()), ..dims };
        record(Opcode::DotGeneral, &[self, rhs], Attrs::Dot(Box::new(dims)), Origin::caller())
    }

    /// Matrix product as in NumPy: over the last dimension of this and the second-to-last of `rhs`; dimensions before
    /// those are a batch and broadcast. A vector (rank 1) is a row on the left and a column on the right, and its missing
    /// dimension is missing from the result too: two vectors give their inner product.
    ///
    /// ```
    /// # use systole::{Device, Tensor};
    /// # fn main() -> systole::Result<()> {
    /// let device = Device::simulator()?;
    /// let a = Tensor::from_slice(&device, &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3])?;
    /// let v = Tensor::from_slice(&device, &[1.0f32, 0.0, -1.0], [3])?;
    /// assert_eq!(a.matmul(&a.t()?)?.to_vec::<f32>()?, [14.0, 32.0, 32.0, 77.0]);
    /// assert_eq!(a.matmul(&v)?.to_vec::<f32>()?, [-2.0, -2.0]);
    /// assert_eq!(v.matmul(&v)?.item::<f32>()?, 2.0);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Rank 0, inner extents or dtypes that differ, or batches that do not broadcast.
    #[track_caller]
    pub fn matmul(&self, rhs: &Tensor) -> Result<Tensor> {
        let origin = Origin::caller();
        let mismatch = |what: String| Err(Error::misuse("matmul", types(&[self, rhs]), origin.clone(), what));
        let (rank, rhs_rank) = (self.rank(), rhs.rank());
        if rank == 0 || rhs_rank == 0 {
            return mismatch(String::from("both need rank 1 or more"));
        }
        let rhs_inner = rhs_rank.saturating_sub(2);
        let inner = (self.shape()[rank - 1], rhs.shape()[rhs_inner]);
        if inner.0 != inner.1 {
            return mismatch(format!("inner extents {} and {} differ", inner.0, inner.1));
        }
        // Without a batch on the right, the left one is no batch of products, but rows of one.
        if rank == 1 || rhs_rank <= 2 {
            return contract(self, rank - 1, rhs, rhs_inner, 0, origin);
        }
        let (lhs_batch, lhs_matrix) = self.shape().split_at(rank - 2);
        let (rhs_batch, rhs_matrix) = rhs.shape().split_at(rhs_rank - 2);
        let Some(batch) = broadcast_shape(lhs_batch, rhs_batch) else {
            return mismatch(String::from("the batch dimensions do not broadcast"));
        };
        let with_batch = |matrix: &[usize]| batch.iter().chain(matrix).copied().collect::<Shape>();
        let lhs = self.broadcast_from(&with_batch(lhs_matrix), &origin)?;
        let rhs = rhs.broadcast_from(&with_batch(rhs_matrix), &origin)?;
        contract(&lhs, batch.rank() + 1, &rhs, batch.rank(), batch.rank(), origin)
    }

    /// x · weightᵀ + bias over the last dimension, with a weight [out, in] as PyTorch keeps it: of x [.., in] a result
    /// [.., out]. The weight is contracted where it lies, not transposed.
    ///
    /// ```
    /// # use systole::{Device, Tensor};
    /// # fn main() -> systole::Result<()> {
    /// let device = Device::simulator()?;
    /// let x = Tensor::from_slice(&device, &[1.0f32, 2.0], [1, 2])?;
    /// let weight = Tensor::from_slice(&device, &[1.0f32, 0.0, 0.0, 1.0, 3.0, 4.0], [3, 2])?;
    /// let bias = Tensor::full(&device, 0.5f32, [3])?;
    /// assert_eq!(x.linear(&weight, Some(&bias))?.to_vec::<f32>()?, [1.5, 2.5, 11.5]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// x of rank 0, a weight whose rank is not 2 or whose last extent is not that of x, a bias that is not of shape
    /// \[out\], or dtypes that differ.
    #[track_caller]
    pub fn linear(&self, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
        let origin = Origin::caller();
        let operands: SmallVec<[&Tensor; 3]> = [self, weight].into_iter().chain(bias).collect();
        let misuse = |reason: String| Err(Error::misuse("linear", types(&operands), origin.clone(), reason));
        let Some(&width) = self.shape().last() else {
            return misuse(String::from("takes rank 1 or more, not 0"));
        };
        let [out, inputs] = weight.shape()[..] else {
            return misuse(format!("the weight has rank {}, not 2", weight.rank()));
        };
        if inputs != width {
            return misuse(format!("the weight takes {inputs} inputs, the last dimension has {width}"));
        }
        if let Some(bias) = bias.filter(|bias| bias.shape()[..] != [out]) {
            return misuse(format!("the bias has shape {}, not [{out}]", bias.shape()));
        }
        for (name, parameter) in [("weight", Some(weight)), ("bias", bias)] {
            if let Some(parameter) = parameter.filter(|parameter| parameter.dtype() != self.dtype()) {
                return misuse(format!("the {name} is {}, not {}", parameter.dtype(), self.dtype()));
            }
        }
        let product = contract(self, self.rank() - 1, weight, 1, 0, origin)?;
        match bias {
            Some(bias) => product.add(bias),
            None => Ok(product),
        }
    }
}

/// Products summed over one dimension of each, in a batch of the first `batch` dimensions of both.
pub(super) fn contract(
    lhs: &Tensor,
    lhs_dimension: usize,
    rhs: &Tensor,
    rhs_dimension: usize,
    batch: usize,
    origin: Origin,
) -> Result<Tensor> {
    let batching: Dims = (0..batch as u32).collect();
    let dims = DotDims {
        lhs_batching: batching.clone(),
        rhs_batching: batching,
        lhs_contracting: Dims::from_slice(&[lhs_dimension as u32]),
        rhs_contracting: Dims::from_slice(&[rhs_dimension as u32]),
        precision: precision(),
        ..DotDims::default()
    };
    record(Opcode::DotGeneral, &[lhs, rhs], Attrs::Dot(Box::new(dims)), origin)
}
