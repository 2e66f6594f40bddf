//! Moving operands into the layouts that the loops read: runs and transpositions, by vectors where they pay.
//!
//! Packing costs a pass over each operand, and for a few rows as much as the products themselves. Calls to `memcpy` for
//! 40 or 128 bytes at a time and element-wise transposition both show; these do not.

use bytemuck::{Pod, Zeroable};
use half::{bf16, f16};

use crate::numerics::Half;
use crate::simd::Vectors;

/// How elements of type `S` are moved to where they are multiplied, as elements of type `T`.
pub(super) trait Movement<S: Pod, T: Pod>: Copy {
    /// One element.
    fn element(self, from: S) -> T;

    /// Copies `len` elements from the start of `from` to the start of `to`. Further elements of `to` become anything.
    fn copy(self, to: &mut [T], from: &[S], len: usize);

    /// `to[t · stride + i] = line(i)[t]` for the `count` lines of `len` elements.
    fn transpose<'a>(self, to: &mut [T], stride: usize, line: impl Fn(usize) -> &'a [S], count: usize, len: usize)
    where
        S: 'a;
}

/// Element by element, or as LLVM sees fit.
#[derive(Clone, Copy)]
pub(super) struct Plain;

impl<T: Pod> Movement<T, T> for Plain {
    #[inline(always)]
    fn element(self, from: T) -> T {
        from
    }

    #[inline(always)]
    fn copy(self, to: &mut [T], from: &[T], len: usize) {
        to[..len].copy_from_slice(&from[..len]);
    }

    #[inline(always)]
    fn transpose<'a>(self, to: &mut [T], stride: usize, line: impl Fn(usize) -> &'a [T], count: usize, len: usize)
    where
        T: 'a,
    {
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

/// A float that is multiplied as an `f32`.
pub(super) trait Factor: Pod {
    /// Its value; NaNs stay NaNs.
    fn widen(self) -> f32;

    /// The values of a register's worth of elements.
    #[inline(always)]
    fn load<V: Vectors>(vectors: V, from: &[Self]) -> V::F32 {
        let mut array = V::Array::zeroed();
        for (slot, &element) in bytemuck::cast_slice_mut(bytemuck::bytes_of_mut(&mut array)).iter_mut().zip(from) {
            *slot = element.widen();
        }
        vectors.load(&array)
    }
}

impl Factor for f32 {
    #[inline(always)]
    fn widen(self) -> f32 {
        self
    }

    #[inline(always)]
    fn load<V: Vectors>(vectors: V, from: &[f32]) -> V::F32 {
        vectors.load(bytemuck::from_bytes(bytemuck::cast_slice(from)))
    }
}

impl Factor for f16 {
    #[inline(always)]
    fn widen(self) -> f32 {
        Half::widen(self)
    }
}

impl Factor for bf16 {
    #[inline(always)]
    fn widen(self) -> f32 {
        Half::widen(self)
    }
}

impl<S: Factor, V: Vectors> Movement<S, f32> for Wide<V> {
    #[inline(always)]
    fn element(self, from: S) -> f32 {
        from.widen()
    }

    #[inline(always)]
    fn copy(self, to: &mut [f32], from: &[S], len: usize) {
        for start in (0..len).step_by(V::LANES) {
            let piece = start..start + V::LANES;
            // Elements past `len` are copied as well where there are any, rather than counted.
            match (to.get_mut(piece.clone()), from.get(piece)) {
                (Some(to), Some(from)) => {
                    self.0.store(S::load(self.0, from), bytemuck::from_bytes_mut(bytemuck::cast_slice_mut(to)));
                }
                _ => to[start..len].iter_mut().zip(&from[start..len]).for_each(|(to, from)| *to = from.widen()),
            }
        }
    }

    #[inline(always)]
    fn transpose<'a>(self, to: &mut [f32], stride: usize, line: impl Fn(usize) -> &'a [S], count: usize, len: usize)
    where
        S: 'a,
    {
        // Two squares of each line at a time: a cache line of it, which may be gone from the cache by the next visit.
        for band in (0..len).step_by(2 * SQUARE) {
            for first in (0..count).step_by(SQUARE) {
                for start in (band..len.min(band + 2 * SQUARE)).step_by(SQUARE) {
                    if start + SQUARE <= len && first + SQUARE <= count {
                        let mut piece = [S::zeroed(); SQUARE * SQUARE];
                        for (i, row) in piece.chunks_exact_mut(SQUARE).enumerate() {
                            row.copy_from_slice(&line(first + i)[start..start + SQUARE]);
                        }
                        // All at once: eight at a time LLVM would widen one by one.
                        let mut square = [[0.0; SQUARE]; SQUARE];
                        for (slot, element) in square.as_flattened_mut().iter_mut().zip(&piece) {
                            *slot = element.widen();
                        }
                        let square = self.0.transpose(&square);
                        let to = &mut to[start * stride..];
                        for (t, row) in square.iter().enumerate() {
                            to[t * stride + first..][..SQUARE].copy_from_slice(row);
                        }
                    } else {
                        for i in first..count.min(first + SQUARE) {
                            for (t, &element) in line(i)[..len].iter().enumerate().skip(start).take(SQUARE) {
                                to[t * stride + i] = element.widen();
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
