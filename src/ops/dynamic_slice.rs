//! Boxes of a tensor at starts that are data.
//!
//! A start is a scalar tensor, or a number, which becomes a scalar of the program and not a part of its structure: a
//! loop over positions builds nothing after its first round.

use std::borrow::Cow;

use smallvec::SmallVec;
use systole_fusion::ir::{Attrs, Opcode, Origin};
use systole_kernels::{DType, Shape};

use super::{Operand, record, types};
use crate::error::Result;
use crate::tensor::Tensor;

impl Tensor {
    /// The box of extents `sizes` that begins at `starts`: one start for each dimension, all of one integer dtype; Rust
    /// numbers become i64. A start that leaves no room for the box is clamped to one that does, as StableHLO says, and is
    /// an error in [`Mode::Debug`](crate::Mode::Debug).
    ///
    /// A new start builds no new program.
    ///
    /// ```
    /// # use systole::{Device, Tensor};
    /// # fn main() -> systole::Result<()> {
    /// let device = Device::simulator()?;
    /// let x = Tensor::from_slice(&device, &[1i32, 2, 3, 4, 5, 6], [2, 3])?;
    /// assert_eq!(x.dynamic_slice(&[0i64, 1], [2, 2])?.to_vec::<i32>()?, [2, 3, 5, 6]);
    /// let (row, column) = (Tensor::scalar(&device, 1i32)?, Tensor::scalar(&device, 0i32)?);
    /// assert_eq!(x.dynamic_slice(&[&row, &column], [1, 3])?.to_vec::<i32>()?, [4, 5, 6]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Not one start and one size per dimension, starts that are no integer scalars of one dtype, or a size that exceeds
    /// the extent.
    #[track_caller]
    pub fn dynamic_slice(&self, starts: &[impl Operand], sizes: impl Into<Shape>) -> Result<Tensor> {
        let origin = Origin::caller();
        let sizes = sizes.into().iter().map(|&size| i64::try_from(size).unwrap_or(i64::MAX)).collect();
        let starts = start_indices("dynamic_slice", self, starts, &origin)?;
        let operands: SmallVec<[&Tensor; 6]> = std::iter::once(self).chain(&starts).collect();
        record(Opcode::DynamicSlice, &operands, Attrs::DynamicSlice(sizes), origin)
    }

    /// This tensor with the box that begins at `starts` exchanged for `update`; starts as in
    /// [`dynamic_slice`](Self::dynamic_slice).
    ///
    /// ```
    /// # use systole::{Device, Tensor};
    /// # fn main() -> systole::Result<()> {
    /// let device = Device::simulator()?;
    /// let cache = Tensor::zeros(&device, systole::DType::F32, [3, 2])?;
    /// let row = Tensor::from_slice(&device, &[1.5f32, 2.5], [1, 2])?;
    /// let cache = cache.dynamic_update_slice(&row, &[1i64, 0])?;
    /// assert_eq!(cache.to_vec::<f32>()?, [0.0, 0.0, 1.5, 2.5, 0.0, 0.0]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Not one start per dimension, starts that are no integer scalars of one dtype, an update of another rank or dtype,
    /// or one that exceeds this tensor's extents.
    #[track_caller]
    pub fn dynamic_update_slice(&self, update: &Tensor, starts: &[impl Operand]) -> Result<Tensor> {
        let origin = Origin::caller();
        let starts = start_indices("dynamic_update_slice", self, starts, &origin)?;
        let operands: SmallVec<[&Tensor; 6]> = [self, update].into_iter().chain(&starts).collect();
        record(Opcode::DynamicUpdateSlice, &operands, Attrs::None, origin)
    }
}

/// The starts as tensors.
fn start_indices<S: Operand>(
    method: &'static str,
    tensor: &Tensor,
    starts: &[S],
    origin: &Origin,
) -> Result<SmallVec<[Tensor; 4]>> {
    let device = tensor.value().stream().device();
    let start = |start: &S| {
        let given = start.given().to_tensor(device, DType::I64, origin).map(Cow::into_owned);
        given.map_err(|error| error.in_call(method, types(&[tensor])))
    };
    starts.iter().map(start).collect()
}
