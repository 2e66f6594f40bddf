//! Shapes by name: what `reshape`, `transpose`, `slice` and `concatenate` are called for everyday ends.

use smallvec::SmallVec;
use systole_fusion::ir::attrs::Dims;
use systole_fusion::ir::{Attrs, Opcode, Origin};
use systole_kernels::{DType, Shape};

use super::axes::{Axes, dimension, dimensions, resolve};
use super::{record, types};
use crate::error::{Error, Result};
use crate::tensor::Tensor;

impl Tensor {
    /// A new dimension of extent 1, which is `axis` of the result; a negative number counts from its last.
    ///
    /// ```
    /// # use systole::{DType, Device, Tensor};
    /// # fn main() -> systole::Result<()> {
    /// let x = Tensor::zeros(&Device::simulator()?, DType::F32, [2, 3])?;
    /// assert_eq!(x.unsqueeze(0)?.shape()[..], [1, 2, 3]);
    /// assert_eq!(x.unsqueeze(-1)?.shape()[..], [2, 3, 1]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The result has no such dimension.
    #[doc(alias = "expand_dims")]
    #[track_caller]
    pub fn unsqueeze(&self, axis: isize) -> Result<Tensor> {
        let origin = Origin::caller();
        let at = resolve(axis, self.rank() + 1)
            .map_err(|reason| Error::misuse("unsqueeze", types(&[self]), origin, format!("{reason} of the result")))?;
        let mut shape = self.shape().to_vec();
        shape.insert(at, 1);
        self.reshape(shape)
    }

    /// Dimensions of extent 1 removed: those named, or all of them with `..`.
    ///
    /// ```
    /// # use systole::{DType, Device, Tensor};
    /// # fn main() -> systole::Result<()> {
    /// let x = Tensor::zeros(&Device::simulator()?, DType::F32, [1, 2, 1])?;
    /// assert_eq!(x.squeeze(..)?.shape()[..], [2]);
    /// assert_eq!(x.squeeze(-1)?.shape()[..], [1, 2]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// No such dimension, or a named one of another extent.
    #[track_caller]
    pub fn squeeze(&self, axes: impl Axes) -> Result<Tensor> {
        let origin = Origin::caller();
        let named = dimensions("squeeze", self, &axes, &origin)?;
        let other = named.iter().find(|&&at| self.shape()[at as usize] != 1);
        if let Some(&at) = other.filter(|_| !axes.is_all()) {
            let reason = format!("dimension {at} has extent {}, not 1", self.shape()[at as usize]);
            return Err(Error::misuse("squeeze", types(&[self]), origin, reason));
        }
        let kept = |&(at, extent): &(u32, &usize)| *extent != 1 || !named.contains(&at);
        let shape: Shape = (0..).zip(self.shape().iter()).filter(kept).map(|(_, &extent)| extent).collect();
        self.reshape(shape)
    }

    /// Dimensions `first` to `last`, both included, as one; negative numbers count from the last.
    ///
    /// ```
    /// # use systole::{DType, Device, Tensor};
    /// # fn main() -> systole::Result<()> {
    /// let x = Tensor::zeros(&Device::simulator()?, DType::F32, [2, 3, 4])?;
    /// assert_eq!(x.flatten(1, -1)?.shape()[..], [2, 12]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// No such dimension, or the first after the last.
    #[track_caller]
    pub fn flatten(&self, first: isize, last: isize) -> Result<Tensor> {
        let origin = Origin::caller();
        let from = dimension("flatten", self, first, &origin)?;
        let to = dimension("flatten", self, last, &origin)?;
        if from > to {
            let reason = format!("dimension {first} comes after {last}");
            return Err(Error::misuse("flatten", types(&[self]), origin, reason));
        }
        let (before, rest) = self.shape().split_at(from);
        let (merged, after) = rest.split_at(to + 1 - from);
        // One that overflows belongs to no tensor of elements; reshape then says what does not fit.
        let extent = merged.iter().fold(1usize, |product, &extent| product.saturating_mul(extent));
        self.reshape(before.iter().copied().chain([extent]).chain(after.iter().copied()).collect::<Shape>())
    }

    /// Two dimensions exchanged; negative numbers count from the last. (The last two: [`t`](Self::t).)
    ///
    /// ```
    /// # use systole::{DType, Device, Tensor};
    /// # fn main() -> systole::Result<()> {
    /// let x = Tensor::zeros(&Device::simulator()?, DType::F32, [2, 3, 4])?;
    /// assert_eq!(x.swap_axes(0, -1)?.shape()[..], [4, 3, 2]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// No such dimension.
    #[doc(alias = "transpose")]
    #[track_caller]
    pub fn swap_axes(&self, first: isize, second: isize) -> Result<Tensor> {
        let origin = Origin::caller();
        let a = dimension("swap_axes", self, first, &origin)?;
        let b = dimension("swap_axes", self, second, &origin)?;
        let mut permutation: Dims = (0..self.rank() as u32).collect();
        permutation.swap(a, b);
        record(Opcode::Transpose, &[self], Attrs::Transpose(permutation), origin)
    }

    /// Tensors of one shape along a new dimension, which is `axis` of the result; a negative number counts from its
    /// last.
    ///
    /// ```
    /// # use systole::{Device, Tensor};
    /// # fn main() -> systole::Result<()> {
    /// let device = Device::simulator()?;
    /// let (x, y) = (Tensor::full(&device, 1i32, [2])?, Tensor::full(&device, 2i32, [2])?);
    /// assert_eq!(Tensor::stack(&[&x, &y], 0)?.to_vec::<i32>()?, [1, 1, 2, 2]);
    /// assert_eq!(Tensor::stack(&[&x, &y], -1)?.to_vec::<i32>()?, [1, 2, 1, 2]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// No tensors or more than 4096, shapes or dtypes that differ, or no such dimension of the result.
    #[track_caller]
    pub fn stack(tensors: &[&Tensor], axis: isize) -> Result<Tensor> {
        let origin = Origin::caller();
        let misuse = |reason| Error::misuse("stack", types(tensors), origin.clone(), reason);
        let Some(first) = tensors.first() else {
            return Err(misuse(String::from("takes at least 1 tensor")));
        };
        let at = resolve(axis, first.rank() + 1).map_err(|reason| misuse(format!("{reason} of the result")))?;
        if let Some(other) = tensors.iter().find(|tensor| tensor.shape() != first.shape()) {
            return Err(misuse(format!("shapes {} and {} differ", first.shape(), other.shape())));
        }
        let mut raised = SmallVec::<[Tensor; 4]>::new();
        for tensor in tensors {
            raised.push(tensor.unsqueeze(at as isize)?);
        }
        Tensor::concatenate(&raised.iter().collect::<SmallVec<[&Tensor; 4]>>(), at as isize)
    }

    /// Parts of the given extents, one after another along `axis`; a negative number counts from the last.
    ///
    /// ```
    /// # use systole::{DType, Device, Tensor};
    /// # fn main() -> systole::Result<()> {
    /// let x = Tensor::iota(&Device::simulator()?, DType::I32, [5], 0)?;
    /// let [head, tail] = &x.split(&[2, 3], 0)?[..] else { unreachable!() };
    /// assert_eq!(head.to_vec::<i32>()?, [0, 1]);
    /// assert_eq!(tail.to_vec::<i32>()?, [2, 3, 4]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// No such axis, or extents that do not sum to its own.
    #[track_caller]
    pub fn split(&self, extents: &[usize], axis: isize) -> Result<Vec<Tensor>> {
        let origin = Origin::caller();
        let dimension = dimension("split", self, axis, &origin)?;
        let whole = self.shape()[dimension];
        if extents.iter().try_fold(0usize, |sum, &extent| sum.checked_add(extent)) != Some(whole) {
            let reason = format!("{extents:?} do not sum to {whole}, the extent of axis {axis}");
            return Err(Error::misuse("split", types(&[self]), origin, reason));
        }
        let mut start = 0;
        let mut parts = Vec::with_capacity(extents.len());
        for &extent in extents {
            parts.push(self.narrowed_to(dimension, start, extent, origin.clone())?);
            start += extent;
        }
        Ok(parts)
    }

    /// At most `count` parts along `axis`, all as long as the first but for the last, which may be shorter: as PyTorch
    /// divides. A negative axis counts from the last.
    ///
    /// ```
    /// # use systole::{DType, Device, Tensor};
    /// # fn main() -> systole::Result<()> {
    /// let x = Tensor::zeros(&Device::simulator()?, DType::F32, [2, 7])?;
    /// let extents: Vec<usize> = x.chunk(3, -1)?.iter().map(|part| part.shape()[1]).collect();
    /// assert_eq!(extents, [3, 3, 1]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// No such axis, or no parts.
    #[track_caller]
    pub fn chunk(&self, count: usize, axis: isize) -> Result<Vec<Tensor>> {
        let origin = Origin::caller();
        let extent = self.shape()[dimension("chunk", self, axis, &origin)?];
        if count == 0 {
            return Err(Error::misuse("chunk", types(&[self]), origin, "0 parts hold nothing"));
        }
        let length = extent.div_ceil(count).max(1);
        let starts = (0..extent.max(1)).step_by(length);
        let extents: Vec<usize> = starts.map(|start| length.min(extent - start)).collect();
        self.split(&extents, axis)
    }

    /// This tensor repeated `counts[d]` times along each dimension `d`, as `numpy.tile`; dimensions that are missing on
    /// either side count as 1, from the front.
    ///
    /// ```
    /// # use systole::{Device, Tensor};
    /// # fn main() -> systole::Result<()> {
    /// let x = Tensor::from_slice(&Device::simulator()?, &[1i32, 2], [2])?;
    /// assert_eq!(x.tile(&[2])?.to_vec::<i32>()?, [1, 2, 1, 2]);
    /// assert_eq!(x.tile(&[2, 1])?.shape()[..], [2, 2]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The result is too large to address.
    #[doc(alias = "repeat")]
    #[track_caller]
    pub fn tile(&self, counts: &[usize]) -> Result<Tensor> {
        let rank = self.rank().max(counts.len());
        let from_front =
            |numbers: &[usize], at: usize| (at + numbers.len()).checked_sub(rank).map_or(1, |at| numbers[at]);
        let pairs = || (0..rank).map(|at| (from_front(counts, at), from_front(self.shape(), at)));
        let spread: Shape = pairs().flat_map(|(count, extent)| [count, extent]).collect();
        let kept: Vec<isize> = (rank - self.rank()..rank).map(|at| 2 * at as isize + 1).collect();
        let whole: Shape = pairs().map(|(count, extent)| count.saturating_mul(extent)).collect();
        self.broadcast_in_dim(spread, &kept)?.reshape(whole)
    }

    /// The last two dimensions' elements up to the `diagonal`-th right of the main diagonal, zeros (`false`) beyond:
    /// `ones.tril(0)` lets a position see those up to itself.
    ///
    /// ```
    /// # use systole::{DType, Device, Tensor};
    /// # fn main() -> systole::Result<()> {
    /// let seen = Tensor::ones(&Device::simulator()?, DType::Bool, [2, 3])?.tril(0)?;
    /// assert_eq!(seen.to_vec::<bool>()?, [true, false, false, true, true, false]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Rank below 2.
    #[track_caller]
    pub fn tril(&self, diagonal: i64) -> Result<Tensor> {
        let (rows, columns) = self.grid("tril")?;
        columns.le(rows.add(diagonal)?)?.select(self, 0)
    }

    /// The last two dimensions' elements from the `diagonal`-th right of the main diagonal on, zeros (`false`) before.
    ///
    /// ```
    /// # use systole::{Device, Tensor};
    /// # fn main() -> systole::Result<()> {
    /// let x = Tensor::full(&Device::simulator()?, 1.5f32, [2, 2])?;
    /// assert_eq!(x.triu(1)?.to_vec::<f32>()?, [0.0, 1.5, 0.0, 0.0]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Rank below 2.
    #[track_caller]
    pub fn triu(&self, diagonal: i64) -> Result<Tensor> {
        let (rows, columns) = self.grid("triu")?;
        columns.ge(rows.add(diagonal)?)?.select(self, 0)
    }

    /// Row and column numbers of the last two dimensions.
    #[track_caller]
    fn grid(&self, method: &'static str) -> Result<(Tensor, Tensor)> {
        let [.., rows, columns] = self.shape()[..] else {
            let reason = format!("takes rank 2 or more, not {}", self.rank());
            return Err(Error::misuse(method, types(&[self]), Origin::caller(), reason));
        };
        let device = self.device();
        let shape = [rows, columns];
        Ok((Tensor::iota(&device, DType::I64, shape, 0)?, Tensor::iota(&device, DType::I64, shape, 1)?))
    }
}
