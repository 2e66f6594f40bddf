//! The right operand, packed into panels.

use std::fmt;
use std::ops::Range;

use bytemuck::Pod;
use half::{bf16, f16};

use crate::dtype::DType;
use crate::simd::{Isa, OverVectors, Vectorized, Vectors};

use super::DotOperand;
use super::movement::{Factor, Movement, Plain, Wide, contiguous, position};
use super::storage::Storage;
use super::terms::Terms;

/// Columns of an integer panel: so many that LLVM vectorises the loop over them instead of unrolling it first.
pub(super) const INTEGER_PANEL: usize = 64;

/// A right operand, packed: panels of columns, each with its elements in ascending k, columns side by side.
/// 16-bit floats are widened. For a chip there are several such layouts one after another, a part of the
/// elements in each.
///
/// Where columns are left that do not fill a panel, the last one is padded; if they fit half a panel, it is half as
/// wide. The padding holds anything: its columns are computed and dropped, and no element depends on another column.
pub struct PackedRhs {
    isa: Isa,
    dtype: DType,
    terms: Terms,
    columns: usize,
    depth: usize,
    storage: Storage,
}

/// Where a panel lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Panel {
    /// Its first column.
    pub(super) start: usize,
    /// Columns that are the operand's.
    pub(super) columns: usize,
    /// Columns with the padding.
    pub(super) width: usize,
}

impl PackedRhs {
    /// Packs `rhs`.
    ///
    /// # Panics
    /// Where an offset lies outside the buffer, or `dtype` is `Bool`.
    pub fn pack(isa: Isa, dtype: DType, terms: Terms, rhs: &DotOperand<'_>) -> PackedRhs {
        let mut packed = PackedRhs { isa, dtype, terms, columns: 0, depth: 0, storage: Storage::default() };
        packed.repack(isa, dtype, terms, rhs);
        packed
    }

    /// Packs `rhs` in place of what was packed, reusing the storage.
    ///
    /// # Panics
    /// Where an offset lies outside the buffer, or `dtype` is `Bool`.
    pub fn repack(&mut self, isa: Isa, dtype: DType, terms: Terms, rhs: &DotOperand<'_>) {
        (self.isa, self.dtype, self.terms) = (isa, dtype, terms);
        (self.columns, self.depth) = (rhs.free.len(), rhs.contract.len());
        match dtype {
            DType::F16 => self.fill::<f16, f32>(rhs, |fill| isa.with_vectors(fill)),
            DType::BF16 => self.fill::<bf16, f32>(rhs, |fill| isa.with_vectors(fill)),
            DType::F32 => self.fill::<f32, f32>(rhs, |fill| isa.with_vectors(fill)),
            DType::I32 | DType::U32 => self.fill::<u32, u32>(rhs, |fill| isa.vectorize(fill)),
            DType::I64 => self.fill::<u64, u64>(rhs, |fill| isa.vectorize(fill)),
            DType::Bool => panic!("contraction is not defined on bool; inference rejects it"),
        }
        if !terms.whole() {
            let len = terms.parts() * self.part_len();
            terms.cut(isa, &mut self.storage.elements_mut(len)[..len]);
        }
    }

    /// How factors are taken and summed.
    pub(super) fn terms(&self) -> Terms {
        self.terms
    }

    /// Number of columns, the operand's free extent.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Number of steps, the operand's contracted extent.
    pub(super) fn depth(&self) -> usize {
        self.depth
    }

    /// Columns of a panel: [`dot`](super::dot) computes whole panels, so ranges should start at multiples.
    pub fn panel(&self) -> usize {
        match self.dtype {
            DType::F16 | DType::BF16 | DType::F32 => 2 * self.isa.f32_lanes(),
            DType::Bool | DType::I32 | DType::U32 | DType::I64 => INTEGER_PANEL,
        }
    }

    /// Stops a call that would read panels of another layout.
    pub(super) fn assert_packed_for(&self, isa: Isa, dtype: DType, depth: usize) {
        assert!(
            self.isa == isa && self.dtype == dtype && self.depth == depth,
            "a packed operand is used as it was packed: {self:?}, not {dtype} for {isa} of depth {depth}"
        );
    }

    /// The panels that hold some of `columns`, in order.
    #[inline]
    pub(super) fn panels(&self, columns: Range<usize>) -> impl Iterator<Item = Panel> + use<> {
        let (all, full, halves) = (self.columns, self.panel(), self.dtype.is_float());
        let first = columns.start - columns.start % full;
        (first..columns.end).step_by(full).map(move |start| {
            let columns = (all - start).min(full);
            Panel { start, columns, width: if halves && columns <= full / 2 { full / 2 } else { full } }
        })
    }

    /// The rows `steps` of a panel of a part: `steps.len() × panel.width` elements.
    #[inline(always)]
    pub(super) fn rows<T: Pod>(&self, part: usize, panel: Panel, steps: Range<usize>) -> &[T] {
        let base = part * self.part_len() + panel.start * self.depth;
        &self.storage.elements()[base + steps.start * panel.width..base + steps.end * panel.width]
    }

    /// Elements of the panels, padding included.
    #[inline(always)]
    fn part_len(&self) -> usize {
        match self.columns {
            0 => 0,
            columns => {
                let last = self.panels(columns - 1..columns).next().expect("the last column lies in a panel");
                (last.start + last.width) * self.depth
            }
        }
    }

    fn fill<S: Pod, T: Pod>(&mut self, rhs: &DotOperand<'_>, fill: impl FnOnce(Fill<'_, '_, S, T>)) {
        let len = self.part_len();
        if len > 0 {
            let mut storage = std::mem::take(&mut self.storage);
            // All parts at once: growing later would move what was filled.
            let packed = &mut storage.elements_mut::<T>(self.terms.parts() * len)[..len];
            fill(Fill { elements: bytemuck::cast_slice(rhs.bytes), rhs, layout: self, packed });
            self.storage = storage;
        }
    }
}

impl fmt::Debug for PackedRhs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}×{} {} for {}", self.depth, self.columns, self.dtype, self.isa)
    }
}

/// Filling the panels of a layout.
struct Fill<'a, 'b, S, T> {
    elements: &'a [S],
    rhs: &'a DotOperand<'b>,
    layout: &'a PackedRhs,
    packed: &'a mut [T],
}

impl<S: Factor> OverVectors for Fill<'_, '_, S, f32> {
    type Output = ();
    #[inline(always)]
    fn run<V: Vectors>(self, vectors: V) {
        self.with(Wide(vectors));
    }
}

impl Vectorized for Fill<'_, '_, u32, u32> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        self.with(Plain);
    }
}

impl Vectorized for Fill<'_, '_, u64, u64> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        self.with(Plain);
    }
}

impl<S: Pod, T: Pod> Fill<'_, '_, S, T> {
    #[inline(always)]
    fn with(self, movement: impl Movement<S, T>) {
        let Fill { elements, rhs, layout, packed } = self;
        let (depth, deep) = (layout.depth, contiguous(rhs.contract));
        for panel in layout.panels(0..layout.columns) {
            let free = &rhs.free[panel.start..panel.start + panel.columns];
            let packed = &mut packed[panel.start * depth..][..panel.width * depth];
            if contiguous(free) {
                for (row, &step) in packed.chunks_exact_mut(panel.width).zip(rhs.contract) {
                    movement.copy(row, &elements[position(free[0] + step)..], free.len());
                }
            } else if deep {
                let column = |j: usize| &elements[position(free[j] + rhs.contract[0])..][..depth];
                movement.transpose(packed, panel.width, column, free.len(), depth);
            } else {
                for (row, &step) in packed.chunks_exact_mut(panel.width).zip(rhs.contract) {
                    for (slot, &offset) in row.iter_mut().zip(free) {
                        *slot = movement.element(elements[position(offset + step)]);
                    }
                }
            }
        }
    }
}
