//! The integer contraction: wrapping sums, in no particular order.

use std::ops::Range;

use bytemuck::Pod;

use crate::simd::{Isa, Vectorized};

use super::chunk::{ChunkRow, fill_chunk, with_chunk};
use super::movement::{Plain, contiguous};
use super::panel::INTEGER_PANEL;
use super::{BLOCK, DotOperand, PackedRhs};

/// An unsigned integer; signed ones wrap to the same bits.
pub(super) trait Wrapping: Pod {
    /// self + a·b.
    fn add_product(self, a: Self, b: Self) -> Self;
    /// self + other.
    fn plus(self, other: Self) -> Self;
}

impl Wrapping for u32 {
    #[inline(always)]
    fn add_product(self, a: u32, b: u32) -> u32 {
        self.wrapping_add(a.wrapping_mul(b))
    }
    #[inline(always)]
    fn plus(self, other: u32) -> u32 {
        self.wrapping_add(other)
    }
}

impl Wrapping for u64 {
    #[inline(always)]
    fn add_product(self, a: u64, b: u64) -> u64 {
        self.wrapping_add(a.wrapping_mul(b))
    }
    #[inline(always)]
    fn plus(self, other: u64) -> u64 {
        self.wrapping_add(other)
    }
}

pub(super) fn dot<T: Wrapping>(isa: Isa, lhs: &DotOperand<'_>, rhs: &PackedRhs, columns: Range<usize>, out: &mut [T]) {
    out.fill(T::zeroed());
    with_chunk(1, |chunk| isa.vectorize(Dot { lhs, rhs, columns, chunk, out }));
}

struct Dot<'a, T> {
    lhs: &'a DotOperand<'a>,
    rhs: &'a PackedRhs,
    columns: Range<usize>,
    chunk: &'a mut [ChunkRow<T>],
    out: &'a mut [T],
}

impl<T: Wrapping> Vectorized for Dot<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Dot { lhs, rhs, columns, chunk, out } = self;
        let elements: &[T] = bytemuck::cast_slice(lhs.bytes);
        let (depth, deep) = (lhs.contract.len(), contiguous(lhs.contract));
        for (free, out) in lhs.free.chunks(1).zip(out.chunks_mut(columns.len())) {
            for start in (0..depth).step_by(BLOCK) {
                let steps = start..depth.min(start + BLOCK);
                fill_chunk(Plain, chunk, elements, free, &lhs.contract[steps.clone()], deep);
                for panel in rhs.panels(columns.clone()) {
                    let mut sums = [T::zeroed(); INTEGER_PANEL];
                    let packed = rhs.rows::<T>(0, panel, steps.clone()).as_chunks::<INTEGER_PANEL>().0;
                    for (&a, b) in chunk[0].iter().zip(packed) {
                        for j in 0..INTEGER_PANEL {
                            sums[j] = sums[j].add_product(a, b[j]);
                        }
                    }
                    let from = panel.start.max(columns.start);
                    let to = (panel.start + panel.columns).min(columns.end);
                    let row = &mut out[from - columns.start..to - columns.start];
                    for (slot, &sum) in row.iter_mut().zip(&sums[from - panel.start..]) {
                        *slot = slot.plus(sum);
                    }
                }
            }
        }
    }
}
