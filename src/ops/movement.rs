//! Methods that move elements.

use std::borrow::Cow;

use systole_fusion::ir::attrs::Dims;
use systole_fusion::ir::{Attrs, Opcode, Origin, PadAmounts, SliceLimits};
use systole_kernels::Shape;

use super::axes::{Axes, dimension, dimensions, distinct, resolve};
use super::{record, types};
use crate::error::{Error, Result};
use crate::tensor::Tensor;

fn dims(numbers: impl IntoIterator<Item = usize>) -> Dims {
    // A number that does not fit names no dimension; inference reports it.
    numbers.into_iter().map(|number| u32::try_from(number).unwrap_or(u32::MAX)).collect()
}

/// In a shape to [`reshape`](Tensor::reshape) to: the extent that the elements leave for this dimension. NumPy and
/// PyTorch write −1.
pub const REST: usize = usize::MAX;

/// `shape` with the extent that `of` leaves for its [`REST`].
fn with_rest(shape: Shape, of: &Shape) -> Result<Shape, String> {
    let Some(at) = shape.iter().position(|&extent| extent == REST) else { return Ok(shape) };
    let mut extents = shape.to_vec();
    extents[at] = 1;
    if extents.contains(&REST) {
        return Err(String::from("more than one REST"));
    }
    let others = Shape::from(&extents[..]).checked_elements().unwrap_or(usize::MAX);
    let elements = of.elements();
    if others == 0 || !elements.is_multiple_of(others) {
        extents.remove(at);
        return Err(format!("no REST beside {} holds the {elements} elements of {of}", Shape::from(extents)));
    }
    extents[at] = elements / others;
    Ok(Shape::from(extents))
}

impl Tensor {
    /// The same elements in row-major order under another shape, of which one extent may be [`REST`].
    ///
    /// ```
    /// # use systole::{DType, Device, REST, Tensor};
    /// # fn main() -> systole::Result<()> {
    /// let x = Tensor::zeros(&Device::simulator()?, DType::F32, [2, 3, 4])?;
    /// assert_eq!(x.reshape([6, 4])?.shape()[..], [6, 4]);
    /// assert_eq!(x.reshape([2, REST])?.shape()[..], [2, 12]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The shapes differ in their number of elements; [`REST`] twice, or where no extent or any would fit.
    #[doc(alias = "view")]
    #[track_caller]
    pub fn reshape(&self, shape: impl Into<Shape>) -> Result<Tensor> {
        let origin = Origin::caller();
        let shape = with_rest(shape.into(), self.shape())
            .map_err(|reason| Error::misuse("reshape", types(&[self]), origin.clone(), reason))?;
        record(Opcode::Reshape, &[self], Attrs::Reshape(shape), origin)
    }

    /// Dimension `i` of the result is dimension `permutation[i]` of this; negative numbers count from the last.
    ///
    /// # Errors
    /// `permutation` is none of this tensor's dimensions.
    #[doc(alias = "permute")]
    #[track_caller]
    pub fn transpose(&self, permutation: &[isize]) -> Result<Tensor> {
        let origin = Origin::caller();
        let permutation = distinct("transpose", self, permutation, &origin)?;
        record(Opcode::Transpose, &[self], Attrs::Transpose(permutation), origin)
    }

    /// The elements in reversed order along `axes`; negative numbers count from the last dimension.
    ///
    /// # Errors
    /// An axis that is none of this tensor's, or named twice.
    #[doc(alias = "flip")]
    #[track_caller]
    pub fn reverse(&self, axes: impl Axes) -> Result<Tensor> {
        let origin = Origin::caller();
        let dimensions = dimensions("reverse", self, &axes, &origin)?;
        record(Opcode::Reverse, &[self], Attrs::Reverse(dimensions), origin)
    }

    /// The last two dimensions exchanged.
    ///
    /// # Errors
    /// Rank below 2.
    #[track_caller]
    pub fn t(&self) -> Result<Tensor> {
        let origin = Origin::caller();
        let rank = self.rank();
        if rank < 2 {
            let reason = format!("takes rank 2 or more, not {rank}");
            return Err(Error::misuse("t", types(&[self]), origin, reason));
        }
        let permutation = dims((0..rank - 2).chain([rank - 1, rank - 2]));
        record(Opcode::Transpose, &[self], Attrs::Transpose(permutation), origin)
    }

    /// This tensor's dimension `i` placed as dimension `dimensions[i]` of `shape`; other dimensions, and those of
    /// extent 1, repeat. Negative numbers count from the last dimension of `shape`.
    ///
    /// # Errors
    /// Extents that neither match nor are 1, or dimensions that are not in the shape or named twice.
    #[track_caller]
    pub fn broadcast_in_dim(&self, shape: impl Into<Shape>, dimensions: &[isize]) -> Result<Tensor> {
        let origin = Origin::caller();
        let shape = shape.into();
        let dimensions = dimensions
            .iter()
            .map(|&number| resolve(number, shape.rank()))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|reason| Error::misuse("broadcast_in_dim", types(&[self]), origin.clone(), reason))?;
        let attrs = Attrs::BroadcastInDim { shape, dimensions: dims(dimensions) };
        record(Opcode::BroadcastInDim, &[self], attrs, origin)
    }

    /// Broadcast to `shape` as NumPy does: aligned at the last dimension.
    ///
    /// # Errors
    /// Extents that neither match nor are 1.
    #[doc(alias = "expand")]
    #[track_caller]
    pub fn broadcast_to(&self, shape: impl Into<Shape>) -> Result<Tensor> {
        let origin = Origin::caller();
        let shape = shape.into();
        if shape.rank() < self.rank() {
            let reason = format!("{} does not broadcast to {shape}", self.shape());
            return Err(Error::misuse("broadcast_to", types(&[self]), origin, reason));
        }
        Ok(self.broadcast_from(&shape, &origin)?.into_owned())
    }

    /// This tensor at `shape`, whose rank is at least its own.
    pub(super) fn broadcast_from(&self, shape: &Shape, origin: &Origin) -> Result<Cow<'_, Tensor>> {
        if self.shape() == shape {
            return Ok(Cow::Borrowed(self));
        }
        let attrs =
            Attrs::BroadcastInDim { shape: shape.clone(), dimensions: dims(shape.rank() - self.rank()..shape.rank()) };
        record(Opcode::BroadcastInDim, &[self], attrs, origin.clone()).map(Cow::Owned)
    }

    /// The box of indices `start[d], start[d] + stride[d], …` below `limit[d]` in each dimension.
    ///
    /// # Errors
    /// Lengths that are not the rank, or `0 <= start <= limit <= extent` and `stride >= 1` broken somewhere.
    #[track_caller]
    pub fn slice(&self, start: &[usize], limit: &[usize], stride: &[usize]) -> Result<Tensor> {
        let limits = SliceLimits { start: signed(start), limit: signed(limit), stride: signed(stride) };
        record(Opcode::Slice, &[self], Attrs::Slice(Box::new(limits)), Origin::caller())
    }

    /// `length` indices from `start` on along one axis, all of the others. A negative `axis` counts from the last.
    ///
    /// # Errors
    /// No such axis, or `start + length` exceeds its extent.
    #[track_caller]
    pub fn narrow(&self, axis: isize, start: usize, length: usize) -> Result<Tensor> {
        let origin = Origin::caller();
        let dimension = dimension("narrow", self, axis, &origin)?;
        let extent = self.shape()[dimension];
        if start.checked_add(length).is_none_or(|limit| limit > extent) {
            let reason =
                format!("{length} indices from {start} on do not lie within axis {axis}, whose extent is {extent}");
            return Err(Error::misuse("narrow", types(&[self]), origin, reason));
        }
        self.narrowed_to(dimension, start, length, origin)
    }

    /// `length` indices from `start` on along a dimension that has them.
    pub(super) fn narrowed_to(&self, dimension: usize, start: usize, length: usize, origin: Origin) -> Result<Tensor> {
        let mut limits = SliceLimits {
            start: std::iter::repeat_n(0, self.rank()).collect(),
            limit: signed(self.shape()),
            stride: std::iter::repeat_n(1, self.rank()).collect(),
        };
        limits.start[dimension] = start as i64;
        limits.limit[dimension] = (start + length) as i64;
        record(Opcode::Slice, &[self], Attrs::Slice(Box::new(limits)), origin)
    }

    /// `value` (a scalar tensor) around and between the elements; negative `low` and `high` cut.
    ///
    /// # Errors
    /// Lengths that are not the rank, a negative `interior`, a negative extent, or a `value` of another dtype or rank.
    #[track_caller]
    pub fn pad(&self, value: &Tensor, low: &[i64], high: &[i64], interior: &[i64]) -> Result<Tensor> {
        let amounts = PadAmounts {
            low: low.iter().copied().collect(),
            high: high.iter().copied().collect(),
            interior: interior.iter().copied().collect(),
        };
        record(Opcode::Pad, &[self, value], Attrs::Pad(Box::new(amounts)), Origin::caller())
    }

    /// The tensors one after another along `axis`; a negative one counts from the last.
    ///
    /// # Errors
    /// No tensors or more than 4096, no such axis, or shapes and dtypes that differ elsewhere.
    #[doc(alias = "cat")]
    #[track_caller]
    pub fn concatenate(tensors: &[&Tensor], axis: isize) -> Result<Tensor> {
        let origin = Origin::caller();
        let Some(first) = tensors.first() else {
            return Err(Error::misuse("concatenate", Vec::new(), origin, "takes at least 1 tensor"));
        };
        let dimension = resolve(axis, first.rank())
            .map_err(|reason| Error::misuse("concatenate", types(tensors), origin.clone(), reason))?;
        record(Opcode::Concatenate, tensors, Attrs::Concatenate(dimension as u32), origin)
    }
}

/// Host extents as the signed numbers of attributes; one too large for them fits no shape, and inference says so.
fn signed<C: FromIterator<i64>>(numbers: &[usize]) -> C {
    numbers.iter().map(|&number| i64::try_from(number).unwrap_or(i64::MAX)).collect()
}
