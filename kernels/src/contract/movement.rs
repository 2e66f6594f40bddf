//! Moving operands into the layouts that the loops read: runs and transpositions, by vectors where they pay.
//!
//! Packing costs a pass over each operand, and for a few rows as much as the products themselves. Calls to `memcpy` for
//! 40 or 128 bytes at a time and element-wise transposition both show; these do not.

use bytemuck::Pod;

use crate::simd::Vectors;

/// How elements are moved.
pub(super) trait Movement<T: Pod>: Copy {
    /// Copies `len` elements from the start of `from` to the start of `to`. Further elements of `to` become anything.
    fn copy(self, to: &mut [T], from: &[T], len: usize);

    /// `to[t · stride + i] = line(i)[t]` for the `count` lines of `len` elements.
    fn transpose<'a>(self, to: &mut [T], stride: usize, line: impl Fn(usize) -> &'a [T], count: usize, len: usize);
}

/// Element by element, or as LLVM sees fit.
#[derive(Clone, Copy)]
pub(super) struct Plain;

impl<T: Pod> Movement<T> for Plain {
    #[inline(always)]
    fn copy(self, to: &mut [T], from: &[T], len: usize) {
        to[..len].copy_from_slice(&from[..len]);
    }

    #[inline(always)]
    fn transpose<'a>(self, to: &mut [T], stride: usize, line: impl Fn(usize) -> &'a [T], count: usize, len: usize) {
        for i in 0..count {
            to[i..].iter_mut().step_by(stride).zip(&line(i)[..len]).for_each(|(slot, &element)| *slot = element);
        }
    }
}

/// By the vectors of an instruction set.
#[derive(Clone, Copy)]
pub(super) struct Wide<V>(pub(super) V);

/// Rows and columns of a square that is transposed in registers.
const SQUARE: usize = 8;

impl<V: Vectors> Movement<f32> for Wide<V> {
    #[inline(always)]
    fn copy(self, to: &mut [f32], from: &[f32], len: usize) {
        for start in (0..len).step_by(V::LANES) {
            let piece = start..start + V::LANES;
            // Elements past `len` are copied as well where there are any, rather than counted.
            match (to.get_mut(piece.clone()), from.get(piece)) {
                (Some(to), Some(from)) => {
                    let from: &V::Array = bytemuck::from_bytes(bytemuck::cast_slice(from));
                    self.0.store(self.0.load(from), bytemuck::from_bytes_mut(bytemuck::cast_slice_mut(to)));
                }
                _ => to[start..len].copy_from_slice(&from[start..len]),
            }
        }
    }

    #[inline(always)]
    fn transpose<'a>(self, to: &mut [f32], stride: usize, line: impl Fn(usize) -> &'a [f32], count: usize, len: usize) {
        // Two squares of each line at a time: a cache line of it, which may be gone from the cache by the next visit.
        for band in (0..len).step_by(2 * SQUARE) {
            for first in (0..count).step_by(SQUARE) {
                for start in (band..len.min(band + 2 * SQUARE)).step_by(SQUARE) {
                    if start + SQUARE <= len && first + SQUARE <= count {
                        let mut square = [[0.0; SQUARE]; SQUARE];
                        for (i, row) in square.iter_mut().enumerate() {
                            *row = *line(first + i)[start..].first_chunk().expect("a square lies within its lines");
                        }
                        let square = self.0.transpose(&square);
                        let to = &mut to[start * stride..];
                        for (t, row) in square.iter().enumerate() {
                            to[t * stride + first..][..SQUARE].copy_from_slice(row);
                        }
                    } else {
                        for i in first..count.min(first + SQUARE) {
                            for (t, &element) in line(i)[..len].iter().enumerate().skip(start).take(SQUARE) {
                                to[t * stride + i] = element;
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Whether each offset is one above the one before.
#[inline(always)]
pub(super) fn contiguous(offsets: &[i64]) -> bool {
    let Some(&first) = offsets.first() else { return true };
    let broken = offsets.iter().zip(first..).fold(false, |broken, (&offset, next)| broken | (offset != next));
    !broken
}

/// The position of an element.
///
/// # Panics
/// Where it lies before the buffer.
#[inline(always)]
pub(super) fn position(offset: i64) -> usize {
    usize::try_from(offset).expect("offsets of a dot operand lie within its buffer")
}
