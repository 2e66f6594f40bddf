//! Axes as users name them: signed, negative ones counted from the end, `..` for all of them.

use std::ops::RangeFull;

use smallvec::{SmallVec, smallvec};
use systole_fusion::ir::Origin;
use systole_fusion::ir::attrs::Dims;

use super::types;
use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// Dimensions to reduce: one number, several, or `..` for all. Negative numbers count from the last.
pub trait Axes {
    /// The numbers for a tensor of `rank` dimensions, as the user gave them.
    fn numbers(&self, rank: usize) -> SmallVec<[isize; 4]>;

    /// Whether this is `..`.
    fn is_all(&self) -> bool {
        false
    }
}

impl Axes for RangeFull {
    fn numbers(&self, rank: usize) -> SmallVec<[isize; 4]> {
        (0..rank as isize).collect()
    }

    fn is_all(&self) -> bool {
        true
    }
}

impl Axes for isize {
    fn numbers(&self, _rank: usize) -> SmallVec<[isize; 4]> {
        smallvec![*self]
    }
}

impl<const N: usize> Axes for [isize; N] {
    fn numbers(&self, _rank: usize) -> SmallVec<[isize; 4]> {
        self.iter().copied().collect()
    }
}

impl Axes for &[isize] {
    fn numbers(&self, _rank: usize) -> SmallVec<[isize; 4]> {
        self.iter().copied().collect()
    }
}

/// The dimension that `number` names in `rank` dimensions, or why it names none.
pub(super) fn resolve(number: isize, rank: usize) -> Result<usize, String> {
    let dimension = if number < 0 { number.saturating_add(rank as isize) } else { number };
    usize::try_from(dimension)
        .ok()
        .filter(|&dimension| dimension < rank)
        .ok_or_else(|| format!("no dimension {number} in rank {rank}"))
}

/// The dimension of `tensor` that `number` names in a call of `method`.
pub(super) fn dimension(method: &'static str, tensor: &Tensor, number: isize, origin: &Origin) -> Result<usize> {
    resolve(number, tensor.rank()).map_err(|reason| Error::misuse(method, types(&[tensor]), origin.clone(), reason))
}

/// The dimensions of `tensor` that `numbers` name, in their order; a repeated one is an error.
pub(super) fn distinct(method: &'static str, tensor: &Tensor, numbers: &[isize], origin: &Origin) -> Result<Dims> {
    let mut found = Dims::new();
    for &number in numbers {
        let dimension = dimension(method, tensor, number, origin)? as u32;
        if found.contains(&dimension) {
            let reason = format!("dimension {number} is named twice");
            return Err(Error::misuse(method, types(&[tensor]), origin.clone(), reason));
        }
        found.push(dimension);
    }
    Ok(found)
}

/// The dimensions of `tensor` that `axes` name, ascending.
pub(super) fn dimensions(method: &'static str, tensor: &Tensor, axes: &impl Axes, origin: &Origin) -> Result<Dims> {
    let mut found = distinct(method, tensor, &axes.numbers(tensor.rank()), origin)?;
    found.sort_unstable();
    Ok(found)
}
