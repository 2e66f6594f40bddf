//! Several axes flattened row-major into one index, and the affine offsets of a buffer along them.
//!
//! [`Axes`] holds the extents, which everything in a launch shares; each access brings its own strides. `memory` builds
//! on this arithmetic when it hands out disjoint parts of an output: see [`Axes::offset`] for what it relies on.

use std::ops::Range;

use smallvec::SmallVec;

/// Elements per index of each axis.
pub(crate) type Strides = SmallVec<[i64; 4]>;

/// Axes flattened row-major into one index below [`Axes::len`].
#[derive(Clone, Debug)]
pub(crate) struct Axes {
    extents: SmallVec<[usize; 4]>,
    len: usize,
}

impl Axes {
    /// Axes of these extents, outermost first; `None` where their product overflows.
    pub(crate) fn new(extents: SmallVec<[usize; 4]>) -> Option<Self> {
        let len = if extents.contains(&0) {
            0
        } else {
            extents.iter().try_fold(1usize, |len, &extent| len.checked_mul(extent))?
        };
        (len <= isize::MAX as usize).then_some(Axes { extents, len })
    }

    /// Number of indices.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The extents.
    #[inline(always)]
    pub(crate) fn extents(&self) -> &[usize] {
        &self.extents
    }

    /// Whether an access with these strides is the same at every index.
    #[inline(always)]
    pub(crate) fn fixes(&self, strides: &[i64]) -> bool {
        self.extents.iter().zip(strides).all(|(&extent, &stride)| extent == 1 || stride == 0)
    }

    /// The stride between neighbours along the innermost axis; 1 where there is no axis, so that a lone element counts
    /// as contiguous.
    #[inline(always)]
    pub(crate) fn inner_stride(&self, strides: &[i64]) -> i64 {
        strides.last().copied().unwrap_or(1)
    }

    /// The offset at flat index `at`: the sum over the axes of (index along the axis) · stride, where the indices are
    /// those of the row-major decomposition of `at`, each below its extent when `at` is below [`Axes::len`].
    #[inline(always)]
    pub(crate) fn offset(&self, strides: &[i64], at: usize) -> i64 {
        match (self.extents.as_slice(), strides) {
            ([], _) => 0,
            ([_], [stride]) => at as i64 * stride,
            (extents, strides) => offset_of_many(extents, strides, at),
        }
    }

    /// The flat range cut into runs along the innermost axis: calls `run` with the position of each in the range, its
    /// offset and its length.
    #[inline(always)]
    pub(crate) fn runs(&self, strides: &[i64], range: Range<usize>, mut run: impl FnMut(usize, i64, usize)) {
        if range.is_empty() {
            return;
        }
        match (self.extents.as_slice(), strides) {
            ([], _) => run(0, 0, range.len()),
            ([_], [stride]) => run(0, range.start as i64 * stride, range.len()),
            (extents, strides) => {
                // As in `offset_of_many`: what does not move along these axes is at their start, also if one has no index.
                let inner = extents.last().map_or(1, |&extent| extent.max(1));
                let mut at = range.start;
                while at < range.end {
                    let len = (inner - at % inner).min(range.end - at);
                    run(at - range.start, offset_of_many(extents, strides, at), len);
                    at += len;
                }
            }
        }
    }

    /// Whether `range` lies in one run of the innermost axis.
    #[inline(always)]
    pub(crate) fn is_one_run(&self, range: &Range<usize>) -> bool {
        match self.extents.as_slice() {
            [] | [_] => true,
            [.., inner] => {
                let inner = inner.max(&1);
                range.is_empty() || range.start / inner == (range.end - 1) / inner
            }
        }
    }

    /// The index along each axis at flat index `at`.
    pub(crate) fn indices(&self, mut at: usize) -> SmallVec<[usize; 4]> {
        let mut indices: SmallVec<[usize; 4]> = self.extents.iter().map(|_| 0).collect();
        for (index, &extent) in indices.iter_mut().zip(&self.extents).rev() {
            *index = at % extent.max(1);
            at /= extent.max(1);
        }
        indices
    }
}

/// The least and the greatest offset over these extents, none of which is 0; `None` where the arithmetic overflows.
pub(crate) fn span<'a>(base: i64, axes: impl IntoIterator<Item = (&'a usize, &'a i64)>) -> Option<(i64, i64)> {
    axes.into_iter().try_fold((base, base), |(low, high), (&extent, &stride)| {
        let reach = i64::try_from(extent).ok()?.checked_sub(1)?.checked_mul(stride)?;
        Some(if reach < 0 { (low.checked_add(reach)?, high) } else { (low, high.checked_add(reach)?) })
    })
}

fn offset_of_many(extents: &[usize], strides: &[i64], mut at: usize) -> i64 {
    let mut offset = 0;
    for (&extent, &stride) in extents.iter().zip(strides).rev() {
        // Where an extent is 0 there is no index but this function is still asked for that of the start.
        let extent = extent.max(1);
        offset += (at % extent) as i64 * stride;
        at /= extent;
    }
    offset
}

#[cfg(test)]
mod tests {
    use super::*;
    use smallvec::smallvec;

    #[test]
    fn runs_visit_what_offset_says() {
        let axes = Axes::new(smallvec![3, 4, 5]).unwrap();
        let strides = [100, -7, 3];
        for start in 0..axes.len() {
            for end in start..=axes.len() {
                let mut seen = Vec::new();
                axes.runs(&strides, start..end, |at, offset, len| {
                    assert_eq!(at, seen.len());
                    seen.extend((0..len).map(|i| offset + i as i64 * axes.inner_stride(&strides)));
                });
                assert_eq!(seen, (start..end).map(|at| axes.offset(&strides, at)).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn the_start_of_empty_axes_has_an_offset() {
        let axes = Axes::new(smallvec![2, 3, 0]).unwrap();
        let mut seen = Vec::new();
        axes.runs(&[0, 0, 0], 0..1, |at, offset, len| seen.push((at, offset, len)));
        assert_eq!(seen, [(0, 0, 1)]);
        assert!(axes.is_one_run(&(0..1)));
        assert_eq!(axes.offset(&[0, 0, 0], 0), 0);
    }

    #[test]
    fn span_bounds_every_offset() {
        let axes = Axes::new(smallvec![3, 4]).unwrap();
        let strides = [-10, 2];
        let (low, high) = span(50, axes.extents().iter().zip(&strides)).unwrap();
        let offsets: Vec<_> = (0..axes.len()).map(|at| 50 + axes.offset(&strides, at)).collect();
        assert_eq!((low, high), (*offsets.iter().min().unwrap(), *offsets.iter().max().unwrap()));
    }

    #[test]
    fn products_that_overflow_are_refused() {
        assert!(Axes::new(smallvec![usize::MAX, 2]).is_none());
        assert_eq!(Axes::new(smallvec![usize::MAX, 2, 0]).map(|axes| axes.len()), Some(0));
    }
}
