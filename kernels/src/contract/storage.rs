//! Aligned memory for packed operands.

use bytemuck::{Pod, Zeroable};

/// A cache line: vectors that straddle two are read at half the speed.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// Aligned memory that only grows, so that reuse costs nothing.
#[derive(Default)]
pub(super) struct Storage(Vec<Line>);

impl Storage {
    /// Memory of no length.
    pub(super) const EMPTY: Storage = Storage(Vec::new());

    /// At least `len` elements, holding anything.
    pub(super) fn elements_mut<T: Pod>(&mut self, len: usize) -> &mut [T] {
        let lines = (len * size_of::<T>()).div_ceil(size_of::<Line>());
        if self.0.len() < lines {
            self.0.resize(lines, Line::zeroed());
        }
        bytemuck::cast_slice_mut(&mut self.0)
    }

    /// All elements.
    #[inline]
    pub(super) fn elements<T: Pod>(&self) -> &[T] {
        bytemuck::cast_slice(&self.0)
    }
}
