//! Indexing as NumPy has it: resolved first, as a value, then recorded.
//!
//! Numbers, ranges and new axes become one `slice`, a `reverse` where a range walks down, and one `reshape`; what changes
//! nothing is not recorded. Tensors among the indices become one `gather` after that. A number beside a tensor counts as
//! a tensor of rank 0, as in NumPy: it decides with it where the tensors' dimensions stand in the result.

use std::borrow::Cow;

use smallvec::SmallVec;
use systole_fusion::ir::attrs::Dims;
use systole_fusion::ir::{Attrs, Opcode, Origin, SliceLimits};
use systole_kernels::{DType, Shape};

use super::axes::dimension;
use super::elementwise::broadcast_shape;
use super::index::{Index, Indices, Span};
use super::indexing::gather_along;
use super::{record, types};
use crate::debug::check_range;
use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// What indices come to on a shape.
#[derive(Default)]
struct Resolved {
    /// The box that is read.
    limits: SliceLimits,
    /// Dimensions of the box whose order is reversed.
    reversed: Dims,
    /// The box's extents without the dimensions that numbers chose from, and with new axes.
    shape: SmallVec<[usize; 4]>,
    /// The tensors, each with the dimension of `shape` that it chooses from and its axis in the indexed tensor.
    tensors: SmallVec<[(usize, usize, Tensor); 2]>,
    /// Where in the result the tensors' dimensions stand.
    place: usize,
}

/// The indices with those that are not written: a range over all of each dimension that no index speaks of.
fn complete(rank: usize, indices: &[Index]) -> Result<SmallVec<[Index; 4]>, String> {
    let spoken = indices.iter().filter(|index| !matches!(index, Index::Ellipsis | Index::NewAxis)).count();
    let rest = rank.checked_sub(spoken).ok_or_else(|| format!("{spoken} indices for rank {rank}"))?;
    let unspoken = std::iter::repeat_n(Index::Span(Span::ALL), rest);
    let mut ellipses = indices.iter().enumerate().filter(|(_, index)| matches!(index, Index::Ellipsis));
    let at = ellipses.next().map_or(indices.len(), |(at, _)| at);
    if ellipses.next().is_some() {
        return Err(String::from("more than one Ellipsis"));
    }
    // An ellipsis stands between its neighbours even where it stands for nothing, so it is kept.
    Ok(indices[..at].iter().cloned().chain(unspoken).chain(indices[at..].iter().cloned()).collect())
}

fn resolve(shape: &Shape, indices: &[Index]) -> Result<Resolved, String> {
    let indices = complete(shape.rank(), indices)?;
    let mut resolved = Resolved::default();
    let mut extents = shape.iter().copied().enumerate();
    let mut next = || extents.next().expect("there are as many indices as dimensions");
    for index in &indices {
        match index {
            Index::Ellipsis => {}
            Index::NewAxis => resolved.shape.push(1),
            Index::Span(span) => {
                let (axis, extent) = next();
                resolved.span(axis, extent, *span)?;
            }
            Index::At(number) => {
                let (axis, extent) = next();
                resolved.number(axis, extent, *number)?;
            }
            Index::Tensor(tensor) => {
                let (axis, extent) = next();
                resolved.tensor(axis, extent, tensor)?;
            }
        }
    }
    let chooses = |index: &Index| matches!(index, Index::At(_) | Index::Tensor(_));
    if let (Some(first), Some(last)) = (indices.iter().position(chooses), indices.iter().rposition(chooses)) {
        let together = indices[first..last].iter().all(chooses);
        let before = indices[..first].iter().filter(|index| !matches!(index, Index::Ellipsis)).count();
        resolved.place = if together { before } else { 0 };
    }
    Ok(resolved)
}

impl Resolved {
    fn limit(&mut self, start: i128, limit: i128, stride: i128) {
        // Within an extent, which is an isize at most; a stride beyond it reads one element, as any other would.
        self.limits.start.push(start as i64);
        self.limits.limit.push(limit as i64);
        self.limits.stride.push(i64::try_from(stride).unwrap_or(i64::MAX));
    }

    fn span(&mut self, axis: usize, extent: usize, span: Span) -> Result<(), String> {
        let (start, length, step) = span.resolve(extent).ok_or_else(|| format!("the step along axis {axis} is 0"))?;
        let last = start + step * (length - 1).max(0);
        match (length, step) {
            (0, _) => self.limit(0, 0, 1),
            (_, 1..) => self.limit(start, last + 1, step),
            (_, _) => {
                self.limit(last, start + 1, -step);
                if length > 1 {
                    self.reversed.push(self.limits.start.len() as u32 - 1);
                }
            }
        }
        self.shape.push(length as usize);
        Ok(())
    }

    fn number(&mut self, axis: usize, extent: usize, number: i128) -> Result<(), String> {
        let at = if number < 0 { number + extent as i128 } else { number };
        if !(0..extent as i128).contains(&at) {
            return Err(format!("index {number} is out of range for axis {axis}, whose extent is {extent}"));
        }
        self.limit(at, at + 1, 1);
        Ok(())
    }

    fn tensor(&mut self, axis: usize, extent: usize, tensor: &Tensor) -> Result<(), String> {
        if tensor.dtype() == DType::Bool {
            return Err(format!(
                "the index of axis {axis} is a bool mask, whose result has a shape that only its elements know; choose \
                 with `select` instead"
            ));
        }
        if !tensor.dtype().is_integer() {
            return Err(format!("the index of axis {axis} is {}, not of an integer dtype", tensor.dtype()));
        }
        if extent == 0 && tensor.shape().elements() > 0 {
            return Err(format!("there is nothing to choose from along axis {axis}, whose extent is 0"));
        }
        self.limit(0, extent as i128, 1);
        self.tensors.push((self.shape.len(), axis, tensor.clone()));
        self.shape.push(extent);
        Ok(())
    }
}

/// The index with negative numbers counted from the end of `extent`.
#[track_caller]
fn from_the_end(index: &Tensor, extent: usize) -> Result<Cow<'_, Tensor>> {
    if !index.dtype().is_signed() {
        return Ok(Cow::Borrowed(index));
    }
    let index = if i32::try_from(extent).is_ok() { index.clone() } else { index.convert(DType::I64)? };
    index.lt(0)?.select(index.add(extent as i64)?, &index).map(Cow::Owned)
}

impl Tensor {
    /// Elements by index, as NumPy's `x[…]`: a number, a range, [`stride`](crate::stride),
    /// [`Ellipsis`](crate::Ellipsis), [`NewAxis`](crate::NewAxis), a tensor of integers, or a tuple of these, one for
    /// each dimension from the first on; dimensions that no index speaks of are kept whole.
    ///
    /// * A **number** chooses along a dimension, which goes. Negative ones count from the end; one out of range is an
    ///   error.
    /// * A **range** keeps a dimension. Bounds may be negative, and what lies outside is cut off, as in NumPy.
    /// * **Tensors** broadcast together. Their dimensions stand where the first of them stands, or first in the result if
    ///   ranges lie between them; a number beside a tensor counts as one of them. Negative elements count from the end.
    ///   What is out of range then clamps, and is an error in [`Mode::Debug`](crate::Mode::Debug).
    ///
    /// The bounds are numbers of the program, not of its structure: a loop over positions builds nothing after its first
    /// rounds.
    ///
    /// ```
    /// # use systole::{DType, Device, Ellipsis, NewAxis, Tensor};
    /// # fn main() -> systole::Result<()> {
    /// let device = Device::simulator()?;
    /// let x = Tensor::iota(&device, DType::I32, [12], 0)?.reshape([3, 4])?; // rows 0–3, 4–7, 8–11
    /// assert_eq!(x.i((1, -1))?.item::<i32>()?, 7);
    /// assert_eq!(x.i((.., 1..3))?.to_vec::<i32>()?, [1, 2, 5, 6, 9, 10]);
    /// assert_eq!(x.i((-2.., 0))?.to_vec::<i32>()?, [4, 8]);
    /// assert_eq!(x.i((Ellipsis, NewAxis, 0))?.shape()[..], [3, 1]);
    ///
    /// let rows = Tensor::from_slice(&device, &[2i32, 0], [2])?;
    /// assert_eq!(x.i(&rows)?.to_vec::<i32>()?, [8, 9, 10, 11, 0, 1, 2, 3]);
    /// assert_eq!(x.i((&rows, -1))?.to_vec::<i32>()?, [11, 3]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// More indices than dimensions, more than one ellipsis, a number out of range, a step of 0, a tensor that is not of
    /// an integer dtype, or tensors whose shapes do not broadcast.
    #[track_caller]
    pub fn i(&self, indices: impl Indices) -> Result<Tensor> {
        self.indexed("i", &indices.indices())
    }

    /// The slices of this tensor at `indices` along `axis`, in whose place the indices' dimensions stand; negative
    /// indices count from the end, and so does a negative axis. Out of range, they clamp as in [`i`](Self::i).
    ///
    /// ```
    /// # use systole::{Device, Tensor};
    /// # fn main() -> systole::Result<()> {
    /// let device = Device::simulator()?;
    /// let x = Tensor::from_slice(&device, &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3])?;
    /// let columns = Tensor::from_slice(&device, &[-1i32, 0], [2])?;
    /// assert_eq!(x.take(1, &columns)?.to_vec::<f32>()?, [3.0, 1.0, 6.0, 4.0]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// No such axis, or indices that are not of an integer dtype.
    #[doc(alias = "index_select")]
    #[track_caller]
    pub fn take(&self, axis: isize, indices: &Tensor) -> Result<Tensor> {
        let dimension = dimension("take", self, axis, &Origin::caller())?;
        let mut all: SmallVec<[Index; 4]> = std::iter::repeat_n(Index::Span(Span::ALL), dimension).collect();
        all.push(Index::Tensor(indices.clone()));
        self.indexed("take", &all)
    }

    #[track_caller]
    fn indexed(&self, method: &'static str, indices: &[Index]) -> Result<Tensor> {
        let origin = Origin::caller();
        let misuse = |reason| {
            let tensors = indices.iter().filter_map(|index| match index {
                Index::Tensor(tensor) => Some(tensor),
                Index::At(_) | Index::Span(_) | Index::Ellipsis | Index::NewAxis => None,
            });
            let operands: SmallVec<[&Tensor; 4]> = std::iter::once(self).chain(tensors).collect();
            Error::misuse(method, types(&operands), origin.clone(), reason)
        };
        let Resolved { limits, reversed, shape, tensors, place } = resolve(self.shape(), indices).map_err(misuse)?;
        let mut common = Some(Shape::scalar());
        for (_, _, tensor) in &tensors {
            common = common.and_then(|shape| broadcast_shape(&shape, tensor.shape()));
        }
        let Some(common) = common else {
            return Err(misuse(String::from("the indices' shapes do not broadcast")));
        };

        for (_, axis, tensor) in &tensors {
            let extent = self.shape()[*axis] as i128;
            check_range(method, &[self, tensor], ("index", tensor), -extent..extent, &origin)?;
        }
        let mut result = self.clone();
        if limits.start.iter().any(|&start| start > 0)
            || limits.limit.iter().zip(self.shape().iter()).any(|(&limit, &extent)| limit < extent as i64)
            || limits.stride.iter().any(|&stride| stride > 1)
        {
            result = record(Opcode::Slice, &[&result], Attrs::Slice(Box::new(limits)), origin.clone())?;
        }
        if !reversed.is_empty() {
            result = record(Opcode::Reverse, &[&result], Attrs::Reverse(reversed), origin.clone())?;
        }
        if result.shape()[..] != shape[..] {
            result = result.reshape(&shape[..])?;
        }
        if tensors.is_empty() {
            return Ok(result);
        }
        let same = tensors.iter().all(|(_, _, tensor)| tensor.dtype() == tensors[0].2.dtype());
        let mut starts = SmallVec::<[Tensor; 2]>::new();
        for (_, axis, tensor) in &tensors {
            let start = from_the_end(tensor, self.shape()[*axis])?;
            let start =
                if same && start.dtype() == tensor.dtype() { start } else { Cow::Owned(start.convert(DType::I64)?) };
            starts.push(start.broadcast_from(&common, &origin)?.into_owned());
        }
        let dimensions: SmallVec<[usize; 2]> = tensors.iter().map(|&(dimension, _, _)| dimension).collect();
        gather_along(&result, &dimensions, &starts, place)
    }
}
