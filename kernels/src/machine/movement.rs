//! Elements moved, none computed: strided reads, transposes, gathers, overlays, index sequences.
//!
//! Everything here writes a dense box, row by row, from offsets that [`Axes`] gives. Elements are moved as integers of
//! their size, so bits are never touched.

use std::ops::Range;

use bytemuck::Pod;
use half::{bf16, f16};

use crate::dtype::DType;
use crate::numerics::{Half, integer_to_odd};

use super::axes::Axes;
use super::placement::Placed;

/// Runs a generic function for the integer type of the element size: `with_cells!(size, T => f::<T>(..))`.
macro_rules! with_cells {
    ($size:expr, $cell:ident => $body:expr) => {
        match $size {
            1 => {
                type $cell = u8;
                $body
            }
            2 => {
                type $cell = u16;
                $body
            }
            4 => {
                type $cell = u32;
                $body
            }
            8 => {
                type $cell = u64;
                $body
            }
            size => unreachable!("no dtype has elements of {size} bytes"),
        }
    };
}

/// Axes with the strides of one access.
#[derive(Clone, Copy)]
pub(crate) struct Along<'a> {
    pub(crate) axes: &'a Axes,
    pub(crate) strides: &'a [i64],
}

impl Along<'_> {
    #[inline(always)]
    pub(crate) fn offset(&self, at: usize) -> i64 {
        self.axes.offset(self.strides, at)
    }

    #[inline(always)]
    pub(crate) fn stride(&self) -> i64 {
        self.axes.inner_stride(self.strides)
    }

    #[inline(always)]
    fn runs(&self, range: Range<usize>, run: impl FnMut(usize, i64, usize)) {
        self.axes.runs(self.strides, range, run);
    }
}

/// A box of a buffer: element (r, c) lies at `base` + row offset + column offset.
#[derive(Clone)]
pub(crate) struct Region<'a> {
    pub(crate) base: i64,
    pub(crate) rows: Along<'a>,
    pub(crate) row_range: Range<usize>,
    pub(crate) cols: Along<'a>,
    pub(crate) col_range: Range<usize>,
}

/// Fills `dst` with the element of `size` bytes whose bits are given.
#[inline(always)]
pub(crate) fn fill(dst: &mut [u8], size: usize, bits: u64) {
    with_cells!(size, Cell => bytemuck::cast_slice_mut::<u8, Cell>(dst).fill(bits as Cell));
}

/// Fills `dst` with copies of `row`.
pub(crate) fn repeat(row: &[u8], dst: &mut [u8]) {
    if row.is_empty() || dst.is_empty() {
        return;
    }
    dst[..row.len()].copy_from_slice(row);
    let mut done = row.len();
    // Twice as much each time, so that narrow rows are not copied one by one.
    while done < dst.len() {
        let (from, to) = dst.split_at_mut(done);
        let len = done.min(to.len());
        to[..len].copy_from_slice(&from[..len]);
        done += len;
    }
}

/// Fills each row of `dst`, of `width` elements, with one element of `column`.
pub(crate) fn widen(column: &[u8], size: usize, width: usize, dst: &mut [u8]) {
    with_cells!(size, Cell => {
        let (column, dst) = (bytemuck::cast_slice::<u8, Cell>(column), bytemuck::cast_slice_mut::<u8, Cell>(dst));
        for (row, &element) in dst.chunks_exact_mut(width.max(1)).zip(column) {
            row.fill(element);
        }
    });
}

/// The bits of the element at byte `offset`.
#[inline(always)]
pub(crate) fn bits_at(bytes: &[u8], size: usize, offset: usize) -> u64 {
    let mut bits = [0; 8];
    match size {
        1 => return u64::from(bytes[offset]),
        2 => bits[..2].copy_from_slice(&bytes[offset..offset + 2]),
        4 => bits[..4].copy_from_slice(&bytes[offset..offset + 4]),
        _ => bits.copy_from_slice(&bytes[offset..offset + 8]),
    }
    u64::from_le_bytes(bits)
}

/// Copies the region to `dst`.
pub(crate) fn read(src: &[u8], size: usize, region: &Region<'_>, dst: &mut [u8]) {
    with_cells!(size, Cell => {
        read_cells::<Cell>(bytemuck::cast_slice(src), region, bytemuck::cast_slice_mut(dst));
    });
}

fn read_cells<T: Pod>(src: &[T], region: &Region<'_>, dst: &mut [T]) {
    let Region { base, rows, row_range, cols, col_range } = region;
    let (row_stride, col_stride) = (rows.stride(), cols.stride());
    let width = col_range.len();
    let by_rows = row_stride == 1 && col_stride != 1 && width > 1 && row_range.len() > 1;
    if by_rows && rows.axes.is_one_run(row_range) && cols.axes.is_one_run(col_range) {
        let start = base + rows.offset(row_range.start) + cols.offset(col_range.start);
        return transpose(src, start, col_stride, row_range.len(), width, dst);
    }
    for (i, row) in row_range.clone().enumerate() {
        let start = base + rows.offset(row);
        let dst = &mut dst[i * width..(i + 1) * width];
        cols.runs(col_range.clone(), |first, offset, len| {
            copy_run(src, start + offset, col_stride, &mut dst[first..first + len]);
        });
    }
}

/// Copies a run of elements that lie `stride` apart.
#[inline(always)]
fn copy_run<T: Pod>(src: &[T], start: i64, stride: i64, dst: &mut [T]) {
    match stride {
        1 => dst.copy_from_slice(&src[start as usize..start as usize + dst.len()]),
        0 => dst.fill(src[start as usize]),
        // Reversed.
        -1 => {
            let Some(last) = dst.len().checked_sub(1) else { return };
            let run = &src[start as usize - last..=start as usize];
            for (dst, &element) in dst.iter_mut().zip(run.iter().rev()) {
                *dst = element;
            }
        }
        _ => {
            for (k, dst) in dst.iter_mut().enumerate() {
                *dst = src[(start + k as i64 * stride) as usize];
            }
        }
    }
}

/// Side of the pieces that a transpose is made of.
const PIECE: usize = 8;

/// Copies `height` × `width` elements whose columns are runs in memory, `col_stride` apart.
fn transpose<T: Pod>(src: &[T], start: i64, col_stride: i64, height: usize, width: usize, dst: &mut [T]) {
    let column = |c: usize| &src[(start + c as i64 * col_stride) as usize..][..height];
    let mut left = 0;
    while left + PIECE <= width {
        let columns: [&[T]; PIECE] = std::array::from_fn(|c| column(left + c));
        let mut top = 0;
        while top + PIECE <= height {
            let piece: [[T; PIECE]; PIECE] =
                std::array::from_fn(|c| columns[c][top..top + PIECE].try_into().expect("a piece of the column"));
            for r in 0..PIECE {
                let row: &mut [T; PIECE] =
                    (&mut dst[(top + r) * width + left..][..PIECE]).try_into().expect("a piece of the row");
                *row = std::array::from_fn(|c| piece[c][r]);
            }
            top += PIECE;
        }
        for r in top..height {
            for c in 0..PIECE {
                dst[r * width + left + c] = columns[c][r];
            }
        }
        left += PIECE;
    }
    for c in left..width {
        for (r, &element) in column(c).iter().enumerate() {
            dst[r * width + c] = element;
        }
    }
}

/// One component of a gather: where its index is read, how it clamps, and what a step of it adds to the offset.
pub(crate) struct Picked<'a> {
    pub(crate) index: &'a [u8],
    pub(crate) dtype: DType,
    pub(crate) region: Region<'a>,
    pub(crate) by_col: bool,
    pub(crate) greatest: i64,
    pub(crate) stride: i64,
}

impl Picked<'_> {
    /// What the component adds to the offset at this row and column.
    #[inline(always)]
    fn offset(&self, row: usize, col: usize) -> i64 {
        let at = self.region.base + self.region.rows.offset(row) + self.region.cols.offset(col);
        let at = at as usize;
        let index = match self.dtype {
            DType::I32 => i64::from(bytemuck::cast_slice::<u8, i32>(self.index)[at]),
            DType::U32 => i64::from(bytemuck::cast_slice::<u8, u32>(self.index)[at]),
            DType::I64 => bytemuck::cast_slice::<u8, i64>(self.index)[at],
            DType::Bool | DType::F16 | DType::BF16 | DType::F32 => {
                unreachable!("validation admits integer indices only")
            }
        };
        index.clamp(0, self.greatest) * self.stride
    }
}

/// Gathers the region, moved at each point by its components, to `dst`.
pub(crate) fn gather(src: &[u8], size: usize, region: &Region<'_>, components: &[Picked<'_>], dst: &mut [u8]) {
    with_cells!(size, Cell => {
        gather_cells::<Cell>(bytemuck::cast_slice(src), region, components, bytemuck::cast_slice_mut(dst));
    });
}

fn gather_cells<T: Pod>(src: &[T], region: &Region<'_>, components: &[Picked<'_>], dst: &mut [T]) {
    let Region { base, rows, row_range, cols, col_range } = region;
    let (width, stride) = (col_range.len(), cols.stride());
    let by_col = components.iter().any(|component| component.by_col);
    for (i, row) in row_range.clone().enumerate() {
        let whole_row = |component: &&Picked<'_>| !component.by_col;
        let moved: i64 = components.iter().filter(whole_row).map(|component| component.offset(row, 0)).sum();
        let start = base + rows.offset(row) + moved;
        let dst = &mut dst[i * width..(i + 1) * width];
        cols.runs(col_range.clone(), |first, offset, len| {
            let dst = &mut dst[first..first + len];
            if !by_col {
                return copy_run(src, start + offset, stride, dst);
            }
            for (k, dst) in dst.iter_mut().enumerate() {
                let col = col_range.start + first + k;
                let own = components.iter().filter(|component| component.by_col);
                let moved: i64 = own.map(|component| component.offset(row, col)).sum();
                *dst = src[(start + offset + k as i64 * stride + moved) as usize];
            }
        });
    }
}

/// Where an overlaid buffer lies inside a box.
pub(crate) struct Laid<'a> {
    /// Offset of the buffer's part at this tile's outer index.
    pub(crate) base: i64,
    pub(crate) rows: (&'a Axes, &'a [Placed]),
    pub(crate) row_range: Range<usize>,
    pub(crate) cols: (&'a Axes, &'a [Placed]),
    pub(crate) col_range: Range<usize>,
}

/// Lays a buffer over `dst`, which holds the background.
pub(crate) fn overlay(src: &[u8], size: usize, laid: &Laid<'_>, dst: &mut [u8]) {
    with_cells!(size, Cell => {
        overlay_cells::<Cell>(bytemuck::cast_slice(src), laid, bytemuck::cast_slice_mut(dst));
    });
}

fn overlay_cells<T: Pod>(src: &[T], laid: &Laid<'_>, dst: &mut [T]) {
    let width = laid.col_range.len();
    for (i, row) in laid.row_range.clone().enumerate() {
        if let Some(offset) = covered(laid.rows.0, laid.rows.1, row) {
            overlay_row(src, laid.base + offset, laid.cols, &laid.col_range, &mut dst[i * width..(i + 1) * width]);
        }
    }
}

/// Offset of what lies at a flat index, if something does.
fn covered(axes: &Axes, placed: &[Placed], at: usize) -> Option<i64> {
    match placed {
        [] => Some(0),
        [one] => one.at(at),
        many => {
            many.iter().zip(axes.indices(at)).try_fold(0, |offset, (placed, index)| Some(offset + placed.at(index)?))
        }
    }
}

fn overlay_row<T: Pod>(src: &[T], base: i64, cols: (&Axes, &[Placed]), range: &Range<usize>, dst: &mut [T]) {
    let (axes, placed) = cols;
    let Some((inner, outer)) = placed.split_last() else {
        if let [dst] = dst {
            *dst = src[base as usize];
        }
        return;
    };
    let extent = *axes.extents().last().expect("there is an innermost axis");
    let mut at = range.start;
    while at < range.end {
        let indices = axes.indices(at);
        let (&index, others) = indices.split_last().expect("there is an innermost axis");
        let len = (extent - index).min(range.end - at);
        let shown =
            outer.iter().zip(others).try_fold(base, |offset, (placed, &index)| Some(offset + placed.at(index)?));
        if let Some(start) = shown {
            let first = at - range.start;
            lay_run(src, start, inner, index, &mut dst[first..first + len]);
        }
        at += len;
    }
}

/// Lays coordinates over a run that starts at `index` along their axis.
fn lay_run<T: Pod>(src: &[T], start: i64, placed: &Placed, index: usize, dst: &mut [T]) {
    let &Placed { low, step, count, stride } = placed;
    let from = index as i64;
    // The first coordinate at or after `from`, and the first at or after the end.
    let coordinate = |at: i64| if at <= low { 0 } else { (at - low - 1) / step + 1 };
    let (first, end) = (coordinate(from), coordinate(from + dst.len() as i64).min(count));
    if first >= end {
        return;
    }
    let at = (low + first * step - from) as usize;
    if step == 1 {
        copy_run(src, start + first * stride, stride, &mut dst[at..at + (end - first) as usize]);
    } else {
        for (dst, coordinate) in dst[at..].iter_mut().step_by(step as usize).zip(first..end) {
            *dst = src[(start + coordinate * stride) as usize];
        }
    }
}

/// Writes the index at each point of a region, converted to `dtype`.
pub(crate) fn iota(dtype: DType, region: &Region<'_>, dst: &mut [u8]) {
    match dtype {
        DType::I32 => indices(region, bytemuck::cast_slice_mut::<u8, i32>(dst), |index| index as i32),
        DType::U32 => indices(region, bytemuck::cast_slice_mut::<u8, u32>(dst), |index| index as u32),
        DType::I64 => indices(region, bytemuck::cast_slice_mut::<u8, i64>(dst), |index| index),
        DType::F16 => {
            indices(region, bytemuck::cast_slice_mut::<u8, f16>(dst), |index| f16::narrow(integer_to_odd(index)))
        }
        DType::BF16 => {
            indices(region, bytemuck::cast_slice_mut::<u8, bf16>(dst), |index| bf16::narrow(integer_to_odd(index)));
        }
        DType::F32 => indices(region, bytemuck::cast_slice_mut::<u8, f32>(dst), |index| index as f32),
        DType::Bool => unreachable!("validation admits no iota of bools"),
    }
}

fn indices<T>(region: &Region<'_>, dst: &mut [T], convert: impl Fn(i64) -> T) {
    let Region { base, rows, row_range, cols, col_range } = region;
    let (width, stride) = (col_range.len(), cols.stride());
    for (i, row) in row_range.clone().enumerate() {
        let start = base + rows.offset(row);
        let dst = &mut dst[i * width..(i + 1) * width];
        cols.runs(col_range.clone(), |first, offset, len| {
            for (k, dst) in dst[first..first + len].iter_mut().enumerate() {
                *dst = convert(start + offset + k as i64 * stride);
            }
        });
    }
}
