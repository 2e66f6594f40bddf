//! The contraction of floats, in `f32`.
//!
//! The tile is [`Vectors::ACCUMULATORS`] registers: rows × 2 registers over a full panel, rows × 1 over a half one. With
//! fewer rows left, smaller tiles finish; every size runs the same chain per element.

use std::borrow::Borrow;
use std::cell::Cell;
use std::ops::Range;

use bytemuck::Zeroable;

use crate::numerics::{self, Half, Narrow};
use crate::simd::{Isa, OverVectors, Vectors};

use super::chunk::{ChunkRow, fill_chunk, with_chunk};
use super::movement::{Factor, Movement, Wide, contiguous, position};
use super::panel::Panel;
use super::storage::Storage;
use super::{BLOCK, DotOperand, PackedRhs};

/// Rows whose block is copied to scratch at a time: the panels of `rhs` are read once per so many rows. A multiple of
/// every tile's rows.
pub(super) const CHUNK: usize = 48;

/// With the `f32` sums as the result; of part `part` of `rhs`, in blocks as `rhs` was packed for.
pub(super) fn dot<S: Factor>(
    isa: Isa,
    lhs: &DotOperand<'_>,
    rhs: &PackedRhs,
    part: usize,
    columns: Range<usize>,
    out: &mut [f32],
) {
    if lhs.contract.is_empty() {
        out.fill(0.0);
        return;
    }
    let elements: &[S] = bytemuck::cast_slice(lhs.bytes);
    with_chunk(CHUNK.min(lhs.free.len()), |chunk| {
        isa.with_vectors(Dot { elements, lhs, rhs, part, columns, chunk, out });
    });
}

/// With the sums rounded to the operands' dtype as the result.
pub(super) fn narrowed<H: Factor + Half>(
    isa: Isa,
    lhs: &DotOperand<'_>,
    rhs: &PackedRhs,
    columns: Range<usize>,
    out: &mut [H],
) {
    let width = columns.len();
    with_sums(CHUNK.min(lhs.free.len()) * width, |sums| {
        for (free, out) in lhs.free.chunks(CHUNK).zip(out.chunks_mut(CHUNK * width)) {
            let sums = &mut sums[..out.len()];
            dot::<H>(isa, &DotOperand { free, ..*lhs }, rhs, 0, columns.clone(), sums);
            isa.vectorize(Narrow { src: sums, dst: out });
        }
    });
}

/// With the operands exchanged: `lhs` is packed, and the columns of `rhs` are taken as rows, a chunk at a time.
pub(super) fn few(isa: Isa, lhs: &PackedRhs, rhs: &DotOperand<'_>, out: &mut [f32]) {
    let (rows, columns) = (lhs.columns(), rhs.free.len());
    if rhs.contract.is_empty() {
        out.fill(0.0);
        return;
    }
    let elements: &[f32] = bytemuck::cast_slice(rhs.bytes);
    let chunk = CHUNK.min(columns);
    with_sums(chunk * rows, |sums| {
        with_chunk(chunk, |chunk| {
            for (free, start) in rhs.free.chunks(CHUNK).zip((0..).step_by(CHUNK)) {
                let sums = &mut sums[..free.len() * rows];
                isa.with_vectors(Few { elements, rhs: &DotOperand { free, ..*rhs }, lhs, chunk, sums });
                isa.with_vectors(Turn { sums, rows, out: &mut out[start..], stride: columns });
            }
        });
    });
}

/// Some columns of the right operand against the packed rows of the left one.
///
/// Blocks that are runs of memory are read where they lie: a copy for one panel or two would cost as much as the products.
struct Few<'a> {
    elements: &'a [f32],
    rhs: &'a DotOperand<'a>,
    lhs: &'a PackedRhs,
    chunk: &'a mut [ChunkRow<f32>],
    sums: &'a mut [f32],
}

impl OverVectors for Few<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vectors>(self, vectors: V) {
        let Few { elements, rhs, lhs, chunk, sums } = self;
        let (free, contract, rows) = (rhs.free, rhs.contract, 0..lhs.columns());
        let deep = contiguous(contract);
        for start in (0..contract.len()).step_by(BLOCK) {
            let steps = start..contract.len().min(start + BLOCK);
            if deep && steps.len() == BLOCK {
                let mut blocks = [&[0.0; BLOCK]; CHUNK];
                for (block, &offset) in blocks.iter_mut().zip(free) {
                    let run = &elements[position(offset + contract[start])..];
                    *block = run.first_chunk().expect("a column of a dot operand lies within its buffer");
                }
                across(vectors, &blocks[..free.len()], (lhs, 0), rows.clone(), steps, sums);
            } else {
                fill_chunk(Wide(vectors), chunk, elements, free, &contract[steps.clone()], deep);
                across(vectors, &chunk[..free.len()], (lhs, 0), rows.clone(), steps, sums);
            }
        }
    }
}

/// Writes sums, a row of them per column of the output, where they belong.
struct Turn<'a> {
    sums: &'a [f32],
    rows: usize,
    out: &'a mut [f32],
    stride: usize,
}

impl OverVectors for Turn<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vectors>(self, vectors: V) {
        let Turn { sums, rows, out, stride } = self;
        let line = |column: usize| &sums[column * rows..][..rows];
        Movement::<f32, f32>::transpose(Wide(vectors), out, stride, line, sums.len() / rows, rows);
    }
}

/// Runs `work` with scratch of this thread for `len` sums. What they hold is anything.
pub(super) fn with_sums<R>(len: usize, work: impl FnOnce(&mut [f32]) -> R) -> R {
    thread_local! {
        static SCRATCH: Cell<Storage> = const { Cell::new(Storage::EMPTY) };
    }
    let mut storage = SCRATCH.take();
    let result = work(&mut storage.elements_mut(len)[..len]);
    SCRATCH.set(storage);
    result
}

struct Dot<'a, S> {
    elements: &'a [S],
    lhs: &'a DotOperand<'a>,
    rhs: &'a PackedRhs,
    part: usize,
    columns: Range<usize>,
    chunk: &'a mut [ChunkRow<f32>],
    out: &'a mut [f32],
}

impl<S: Factor> OverVectors for Dot<'_, S> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vectors>(self, vectors: V) {
        let Dot { elements, lhs, rhs, part, columns, chunk, out } = self;
        let (depth, deep, block) = (lhs.contract.len(), contiguous(lhs.contract), rhs.terms().block());
        for (free, out) in lhs.free.chunks(CHUNK).zip(out.chunks_mut(CHUNK * columns.len())) {
            for start in (0..depth).step_by(block) {
                let steps = start..depth.min(start + block);
                fill_chunk(Wide(vectors), chunk, elements, free, &lhs.contract[steps.clone()], deep);
                across(vectors, &chunk[..free.len()], (rhs, part), columns.clone(), steps, out);
            }
        }
    }
}

/// Runs a block of some rows, their elements at `steps`, over the panels of part `part` of `rhs`.
#[inline(always)]
fn across<V: Vectors, R: Borrow<[f32; L]>, const L: usize>(
    vectors: V,
    rows: &[R],
    (rhs, part): (&PackedRhs, usize),
    columns: Range<usize>,
    steps: Range<usize>,
    out: &mut [f32],
) {
    for panel in rhs.panels(columns.clone()) {
        let packed = rhs.rows::<f32>(part, panel, steps.clone());
        let target = Target::new(&columns, panel, steps.start == 0, steps.end == rhs.depth());
        if panel.width == 2 * V::LANES {
            walk::<V, R, L, 2>(vectors, rows, bytemuck::cast_slice(packed), out, target);
        } else {
            walk::<V, R, L, 1>(vectors, rows, bytemuck::cast_slice(packed), out, target);
        }
    }
}

/// Where a tile's values go.
#[derive(Clone, Copy)]
struct Target {
    /// Elements of an output row.
    stride: usize,
    /// Index within an output row of the first element.
    column: usize,
    /// Elements per row.
    width: usize,
    /// Columns of the panel before those wanted.
    skip: usize,
    /// Whether this is the first block, whose value starts the sum.
    first: bool,
    /// Whether this is the last block, after which the sum is the result.
    last: bool,
}

impl Target {
    #[inline(always)]
    fn new(columns: &Range<usize>, panel: Panel, first: bool, last: bool) -> Self {
        let start = panel.start.max(columns.start);
        let end = (panel.start + panel.columns).min(columns.end);
        Target {
            stride: columns.len(),
            column: start - columns.start,
            width: end - start,
            skip: start - panel.start,
            first,
            last,
        }
    }
}

/// Runs tiles down the rows of a chunk, the largest that fit the registers and the rows left.
#[inline(always)]
fn walk<V: Vectors, R: Borrow<[f32; L]>, const L: usize, const N: usize>(
    vectors: V,
    rows: &[R],
    panel: &[[V::Array; N]],
    out: &mut [f32],
    target: Target,
) {
    let (mut rows, mut out) = (rows, out);
    while !rows.is_empty() {
        let done = match rows.len() {
            12.. if V::ACCUMULATORS >= 24 => tile::<V, R, L, 12, N>(vectors, rows, panel, out, target),
            8.. if V::ACCUMULATORS >= 24 => tile::<V, R, L, 8, N>(vectors, rows, panel, out, target),
            6.. if V::ACCUMULATORS >= 12 => tile::<V, R, L, 6, N>(vectors, rows, panel, out, target),
            4.. => tile::<V, R, L, 4, N>(vectors, rows, panel, out, target),
            2.. => tile::<V, R, L, 2, N>(vectors, rows, panel, out, target),
            _ => tile::<V, R, L, 1, N>(vectors, rows, panel, out, target),
        };
        rows = &rows[done..];
        out = &mut out[done * target.stride..];
    }
}

/// One block of `M` rows × `N` registers. Returns `M`.
#[inline(always)]
fn tile<V: Vectors, R: Borrow<[f32; L]>, const L: usize, const M: usize, const N: usize>(
    vectors: V,
    rows: &[R],
    panel: &[[V::Array; N]],
    out: &mut [f32],
    target: Target,
) -> usize {
    let rows: &[R; M] = rows.first_chunk().expect("a tile is no taller than the rows left");
    let rows: [&[f32; L]; M] = rows.each_ref().map(Borrow::borrow);
    let mut sums = [[vectors.splat(0.0); N]; M];
    for (k, step) in (0..L).zip(panel) {
        let mut b = [vectors.splat(0.0); N];
        for n in 0..N {
            b[n] = vectors.load(&step[n]);
        }
        for m in 0..M {
            let a = vectors.splat(rows[m][k]);
            for n in 0..N {
                sums[m][n] = vectors.mul_add(a, b[n], sums[m][n]);
            }
        }
    }
    if target.width == N * V::LANES {
        for m in 0..M {
            let row = &mut out[m * target.stride + target.column..][..N * V::LANES];
            let slots: &mut [V::Array] = bytemuck::cast_slice_mut(row);
            for n in 0..N {
                let mut value = sums[m][n];
                if !target.first {
                    value = vectors.add(vectors.load(&slots[n]), value);
                }
                if target.last {
                    value = vectors.canonical(value);
                }
                vectors.store(value, &mut slots[n]);
            }
        }
    } else {
        let mut values = [[V::Array::zeroed(); N]; M];
        for m in 0..M {
            for n in 0..N {
                vectors.store(sums[m][n], &mut values[m][n]);
            }
        }
        for m in 0..M {
            let row = &mut out[m * target.stride + target.column..][..target.width];
            settle(row, &bytemuck::cast_slice(&values[m])[target.skip..], target);
        }
    }
    M
}

/// Adds a block's values to part of an output row.
#[inline(always)]
fn settle(row: &mut [f32], values: &[f32], target: Target) {
    for (slot, &value) in row.iter_mut().zip(values) {
        let sum = if target.first { value } else { *slot + value };
        *slot = if target.last { numerics::canonical(sum) } else { sum };
    }
}
