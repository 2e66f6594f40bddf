//! From launch parameters to [`Resolved`]: axes merged, accesses turned into strides, the cut decided.
//!
//! Axes that every access steps through as if they were one become one, so a contiguous elementwise operation of any
//! rank is a single run, and most others are rows × columns. A program without reductions and contractions does not
//! depend on how its axes are grouped, so there the groups are made anew from what is left after merging.
//!
//! Programs may take a hundred nanoseconds, so this allocates nothing for usual ranks and visits each access once.

use smallvec::SmallVec;

use crate::contract::pays_few;
use crate::memory::{AllocError, BadFootprint, Footprint, Grid, Partition};
use crate::parallel::Parallel;
use crate::program::{Extent, Program, ReduceAlong, Vary};

use super::axes::{Axes, span};
use super::error::RunError;
use super::launch::{Anchor, DotOffsets, Resolved, View, Views};
use super::placement::{Overlaid, components};
use super::prepare::{Affine, Component, Prepared, Step};
use super::tiling::{Question, Tiling, tiling};

/// Multiply-adds of a contraction that take as long as an element operation.
const DOT_WORK: usize = 8;
/// Rows × columns that an outer index should have before more axes are taken into the rows.
const ROOM: usize = 4096;

/// A merged axis: its extent, and the innermost of the axes that it is made of, whose stride is its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Merged {
    pub(crate) extent: usize,
    pub(crate) axis: usize,
    pub(crate) group: Group,
    pinned: bool,
}

/// What an axis counts among; in this order they lie in [`Views`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Group {
    Outer,
    Rows,
    Cols,
    Contract,
}

/// Strides of all accesses along all axes, and the axes' extents.
struct Table {
    extents: SmallVec<[usize; 8]>,
    /// One row of as many strides per access.
    strides: SmallVec<[i64; 48]>,
    bases: SmallVec<[i64; 8]>,
    /// Element counts of the buffers that are accessed.
    elements: SmallVec<[i64; 8]>,
}

impl Table {
    #[inline(always)]
    fn row(&self, access: usize) -> &[i64] {
        let width = self.extents.len();
        &self.strides[access * width..(access + 1) * width]
    }
}

fn length(extent: Extent, params: &[i64]) -> Result<usize, RunError> {
    let value = extent.resolve(params);
    usize::try_from(value).map_err(|_| RunError::arguments(format!("an extent of {value}")))
}

fn uncountable() -> RunError {
    RunError::arguments("more elements than can be counted")
}

/// Resolves a launch with these parameters, of which there are as many as the program takes.
pub(crate) fn resolve(
    program: &Program,
    prepared: &Prepared,
    params: &[i64],
    pool: &dyn Parallel,
) -> Result<Box<Resolved>, RunError> {
    let lens = lens(program, params)?;
    let table = table(program, prepared, params)?;
    let rank = program.domain.rank();
    let free = program.reduce.is_none() && prepared.dot.is_none();
    let mut kept = merge(program, prepared, &table);
    if free {
        regroup(&mut kept);
    }
    let axes = |group: Group| {
        let extents = kept.iter().filter(|axis| axis.group == group).map(|axis| axis.extent).collect();
        Axes::new(extents).ok_or_else(uncountable)
    };
    let (outer, rows, cols) = (axes(Group::Outer)?, axes(Group::Rows)?, axes(Group::Cols)?);
    let points = outer.len().checked_mul(rows.len()).and_then(|points| points.checked_mul(cols.len()));
    let points = points.ok_or_else(uncountable)?;
    let contracted = table.extents[rank..].iter().try_fold(1usize, |len, &extent| len.checked_mul(extent));
    let contracted = contracted.ok_or_else(uncountable)?;

    let mut views = views(&table, &kept, rank, &rows, &cols);
    let mut overlays = SmallVec::new();
    let mut limits = SmallVec::new();
    for step in &prepared.steps {
        match step {
            Step::Gather { access, input, components: parts, .. } => {
                let shape = &program.buffers[*input].shape;
                let parts = parts.iter().map(|part| (part.dim, part.slice));
                let most = components(parts, shape, params, &mut limits);
                let high = reach(&table, *access).map(|(_, high)| high);
                let high = high.zip(most).and_then(|(high, most)| high.checked_add(most));
                views.anchors[*access].readable &= high.is_some_and(|high| high < table.elements[*access]);
            }
            Step::Overlay { input, placement, .. } => {
                overlays.push(Overlaid::new(placement, &program.buffers[*input].shape, params, &kept)?);
            }
            Step::Load { .. }
            | Step::Scalar { .. }
            | Step::Iota { .. }
            | Step::Lane { .. }
            | Step::Reduce { .. }
            | Step::ArgReduce { .. }
            | Step::Dot { .. }
            | Step::Store { .. } => {}
        }
    }
    if points > 0 {
        check_bounds(program, prepared, &views)?;
    }
    let both = Vary { rows: rows.len() != 1, cols: cols.len() != 1 };
    let vary = variation(program, prepared, &views, both);
    let (ahead, by_row) = ahead(prepared, &views, &vary);

    let work = prepared.work + if prepared.dot.is_some() { contracted / DOT_WORK } else { 0 };
    let cut_for = (pool.threads(), pool.grain());
    let threads = if cut_for.0 > 1 && points.saturating_mul(work) >= cut_for.1 { cut_for.0 } else { 1 };
    let Tiling { unit_rows, unit_cols, walk } = tiling(&Question {
        outer: outer.len(),
        rows: rows.len(),
        cols: cols.len(),
        along: program.reduce,
        stages: prepared.stages.iter().filter(|stage| !stage.chunked.is_empty()).count(),
        dot: prepared.dot.map(|_| contracted),
        transposed: free && (0..views.len()).any(|access| is_transposed(&views.get(access))),
        threads,
        registers: prepared.large_slots,
    });
    // Where there is nothing to write the offsets are never looked at, however large the contracted index is.
    let idle = points == 0 && lens[usize::from(program.inputs)..].iter().all(|&len| len == 0);
    let dot = prepared.dot.filter(|_| !idle);
    let dot = dot
        .map(|at| dot_offsets(program, &prepared.steps[at], &views, &kept, contracted, (&rows, &cols)))
        .transpose()?;
    let grid = Grid { outer, rows, cols, unit_rows, unit_cols };
    let output_lens = lens[usize::from(program.inputs)..].iter().copied();
    let partition = Partition::new(grid, footprints(program, prepared, &views).zip(output_lens));
    let partition = partition.map_err(|BadFootprint { output }| {
        let name = &program.name;
        RunError::arguments(format!("`{name}` does not write each element of output {output} once"))
    })?;
    Ok(Box::new(Resolved {
        params: SmallVec::from_slice(params),
        pool: cut_for,
        lens,
        empty: points == 0,
        partition,
        walk,
        threads,
        views,
        vary,
        ahead,
        by_row,
        overlays,
        components: limits,
        dot,
    }))
}

/// Bytes of each buffer.
fn lens(program: &Program, params: &[i64]) -> Result<SmallVec<[usize; 8]>, RunError> {
    let mut lens = SmallVec::new();
    for buffer in &program.buffers {
        let (mut len, mut empty) = (Some(buffer.dtype.size()), false);
        for &extent in &buffer.shape {
            let extent = length(extent, params)?;
            empty |= extent == 0;
            len = len.and_then(|len| len.checked_mul(extent));
        }
        lens.push(if empty { 0 } else { len.filter(|&len| len <= isize::MAX as usize).ok_or_else(uncountable)? });
    }
    Ok(lens)
}

fn table(program: &Program, prepared: &Prepared, params: &[i64]) -> Result<Table, RunError> {
    let mut extents = SmallVec::new();
    for extent in program.domain.axes().chain(program.contract.iter().copied()) {
        extents.push(length(extent, params)?);
    }
    let width = extents.len();
    let mut table = Table { extents, strides: SmallVec::new(), bases: SmallVec::new(), elements: SmallVec::new() };
    table.strides.resize(prepared.affine.len() * width, 0);
    for (access, affine) in prepared.affine.iter().enumerate() {
        let row = &mut table.strides[access * width..(access + 1) * width];
        let (mut base, mut stride, mut elements) = (0i64, 1i64, 1i64);
        match affine {
            Affine::Index { axis } => {
                row[usize::from(*axis)] = 1;
                elements = i64::MAX;
            }
            Affine::Buffer { buffer, dims } => {
                let shape = &program.buffers[usize::from(*buffer)].shape;
                for (dim, extent) in dims.iter().zip(shape).rev() {
                    base = base.wrapping_add(dim.start.resolve(params).wrapping_mul(stride));
                    if let Some(axis) = dim.axis {
                        let step = dim.step.resolve(params).wrapping_mul(stride);
                        row[usize::from(axis)] = row[usize::from(axis)].wrapping_add(step);
                    }
                    let extent = extent.resolve(params);
                    elements = elements.wrapping_mul(extent);
                    // Whether an access moves along an axis does not depend on another dimension being empty.
                    stride = stride.wrapping_mul(extent.max(1));
                }
            }
        }
        table.bases.push(base);
        table.elements.push(elements);
    }
    Ok(table)
}

/// Merges the axes that every access steps through as if they were one. Axes of one index go.
fn merge(program: &Program, prepared: &Prepared, table: &Table) -> SmallVec<[Merged; 6]> {
    let domain = &program.domain;
    let (outer, rows, rank) = (domain.outer.len(), domain.outer.len() + domain.rows.len(), domain.rank());
    let free = program.reduce.is_none() && prepared.dot.is_none();
    let mut kept = SmallVec::<[Merged; 6]>::new();
    for (axis, &extent) in table.extents.iter().enumerate() {
        if extent == 1 {
            continue;
        }
        let group = match axis {
            _ if axis >= rank => Group::Contract,
            _ if axis >= rows => Group::Cols,
            _ if axis >= outer => Group::Rows,
            _ => Group::Outer,
        };
        let pinned = prepared.pinned.contains(&(axis as u8));
        if let Some(last) = kept.last_mut() {
            let together = (free || last.group == group) && !pinned && !last.pinned && extent != 0 && last.extent != 0;
            let as_one = |access| {
                let row = table.row(access);
                row[axis].checked_mul(extent as i64) == Some(row[last.axis])
            };
            if together
                && (0..prepared.affine.len()).all(as_one)
                && let Some(product) = last.extent.checked_mul(extent)
            {
                *last = Merged { extent: product, axis, ..*last };
                continue;
            }
        }
        kept.push(Merged { extent, axis, group, pinned });
    }
    kept
}

/// The innermost axis becomes the columns, those before it rows until a tile is full, the rest a batch.
fn regroup(kept: &mut [Merged]) {
    let mut room = 1usize;
    let mut outer = false;
    for (from_last, axis) in kept.iter_mut().rev().enumerate() {
        // Once an axis is outer, so are all before it, also where an extent of 0 makes `room` shrink.
        outer |= from_last > 1 && room >= ROOM;
        axis.group = match from_last {
            0 => Group::Cols,
            _ if outer => Group::Outer,
            _ => Group::Rows,
        };
        room = room.saturating_mul(axis.extent);
    }
}

fn views(table: &Table, kept: &[Merged], rank: usize, rows: &Axes, cols: &Axes) -> Views {
    let count = |group: Group| kept.iter().filter(|axis| axis.group == group).count();
    let starts_rows = count(Group::Outer);
    let starts_cols = starts_rows + count(Group::Rows);
    let starts_contract = starts_cols + count(Group::Cols);
    let mut views = Views {
        anchors: SmallVec::new(),
        strides: SmallVec::new(),
        splits: [starts_rows, starts_cols, starts_contract, kept.len()],
    };
    for access in 0..table.bases.len() {
        let row = table.row(access);
        let start = views.strides.len();
        for axis in kept {
            views.strides.push(row[axis.axis]);
        }
        let own = &views.strides[start..];
        let vary = Vary {
            rows: !rows.fixes(&own[starts_rows..starts_cols]),
            cols: !cols.fixes(&own[starts_cols..starts_contract]),
        };
        let readable = in_bounds(table, access, rank);
        views.anchors.push(Anchor { base: table.bases[access], vary, readable });
    }
    views
}

/// The least and greatest offset of an access over the whole domain; where the domain is empty, at index 0 of the empty
/// axes. `None` where it overflows.
fn reach(table: &Table, access: usize) -> Option<(i64, i64)> {
    let axes = table.extents.iter().zip(table.row(access)).filter(|&(&extent, &stride)| extent > 1 && stride != 0);
    span(table.bases[access], axes)
}

/// Whether an access stays in its buffer. A contraction over nothing reads nothing.
fn in_bounds(table: &Table, access: usize, rank: usize) -> bool {
    let idle = table.extents[rank..].contains(&0) && table.row(access)[rank..].iter().any(|&stride| stride != 0);
    idle || reach(table, access).is_some_and(|(low, high)| low >= 0 && high < table.elements[access])
}

fn check_bounds(program: &Program, prepared: &Prepared, views: &Views) -> Result<(), RunError> {
    if views.anchors.iter().all(|anchor| anchor.readable) {
        return Ok(());
    }
    let reads = |at: usize, access: usize| {
        if views.anchors[access].readable {
            return Ok(());
        }
        Err(RunError::arguments(format!("instruction {at} of `{}` leaves its buffer", program.name)))
    };
    for (at, step) in prepared.steps.iter().enumerate() {
        match step {
            Step::Load { access, .. } => reads(at, *access)?,
            Step::Gather { access, components, .. } => {
                reads(at, *access)?;
                components.iter().filter_map(Component::access).try_for_each(|access| reads(at, access))?;
            }
            Step::Dot { lhs, rhs, .. } => {
                reads(at, *lhs)?;
                reads(at, *rhs)?;
            }
            // A store's bounds are the partition's to check.
            Step::Overlay { .. }
            | Step::Scalar { .. }
            | Step::Iota { .. }
            | Step::Lane { .. }
            | Step::Reduce { .. }
            | Step::ArgReduce { .. }
            | Step::Store { .. } => {}
        }
    }
    Ok(())
}

/// Whether an access runs along memory by rows.
fn is_transposed(view: &View<'_>) -> bool {
    let (row, col) = (view.rows.last().copied().unwrap_or(0), view.cols.last().copied().unwrap_or(0));
    row != 0 && col != 0 && row.unsigned_abs() < col.unsigned_abs()
}

/// Along what each register varies in this launch.
fn variation(program: &Program, prepared: &Prepared, views: &Views, both: Vary) -> SmallVec<[Vary; 16]> {
    let mut vary = SmallVec::<[Vary; 16]>::new();
    vary.resize(program.regs.len(), Vary::NONE);
    let reduced = |along: Vary| match program.reduce {
        Some(ReduceAlong::Cols) => Vary { cols: false, ..along },
        Some(ReduceAlong::Rows) | None => Vary { rows: false, ..along },
    };
    for step in &prepared.steps {
        let along = match step {
            Step::Load { access, .. } | Step::Iota { access, .. } => views.anchors[*access].vary,
            Step::Gather { access, components, .. } => components
                .iter()
                .filter_map(Component::access)
                .fold(views.anchors[*access].vary, |vary, own| vary.join(views.anchors[own].vary)),
            Step::Overlay { .. } | Step::Dot { .. } => both,
            Step::Scalar { .. } => Vary::NONE,
            Step::Lane { args, .. } => args.iter().fold(Vary::NONE, |along, arg| along.join(vary[usize::from(arg.0)])),
            Step::Reduce { src, .. } => reduced(vary[usize::from(src.0)]),
            Step::ArgReduce { values, indices, .. } => {
                reduced(vary[usize::from(values.0)].join(vary[usize::from(indices.0)]))
            }
            Step::Store { .. } => continue,
        };
        if let Some(dst) = step.dst() {
            vary[usize::from(dst.0)] = along;
        }
    }
    vary
}

/// The steps that may run once, ahead of a unit's rows, because nothing of theirs changes from row to row; and the rest.
fn ahead(prepared: &Prepared, views: &Views, vary: &[Vary]) -> (SmallVec<[u16; 16]>, SmallVec<[u16; 16]>) {
    let (mut ahead, mut by_row) = (SmallVec::new(), SmallVec::new());
    for (at, step) in prepared.steps.iter().enumerate() {
        let rows = match step {
            Step::Store { access, .. } => views.anchors[*access].vary.rows,
            Step::Load { dst, .. }
            | Step::Gather { dst, .. }
            | Step::Overlay { dst, .. }
            | Step::Scalar { dst, .. }
            | Step::Iota { dst, .. }
            | Step::Lane { dst, .. }
            | Step::Reduce { dst, .. }
            | Step::ArgReduce { dst, .. }
            | Step::Dot { dst, .. } => vary[usize::from(dst.0)].rows,
        };
        let list = if rows || !prepared.early[at] { &mut by_row } else { &mut ahead };
        list.push(at as u16);
    }
    (ahead, by_row)
}

fn footprints<'a>(
    program: &'a Program,
    prepared: &'a Prepared,
    views: &'a Views,
) -> impl Iterator<Item = Footprint> + 'a {
    program.outputs().iter().enumerate().map(|(output, buffer)| {
        let view = views.get(prepared.stored(output));
        Footprint {
            size: buffer.dtype.size(),
            base: view.base,
            outer: SmallVec::from_slice(view.outer),
            rows: SmallVec::from_slice(view.rows),
            cols: SmallVec::from_slice(view.cols),
        }
    })
}

/// The offsets of a contraction's operands.
fn dot_offsets(
    program: &Program,
    step: &Step,
    views: &Views,
    kept: &[Merged],
    contracted: usize,
    (rows, cols): (&Axes, &Axes),
) -> Result<DotOffsets, RunError> {
    let Step::Dot { lhs, rhs, rhs_input, terms, .. } = *step else {
        unreachable!("the dot of a program is a dot, not {step:?}");
    };
    let extents = kept.iter().filter(|axis| axis.group == Group::Contract).map(|axis| axis.extent).collect();
    let axes = Axes::new(extents).expect("the contracted index was counted");
    debug_assert_eq!(axes.len(), contracted, "merging keeps the number of indices");
    let lhs_contract = offsets(&axes, views.get(lhs).contract)?;
    let rhs_contract = offsets(&axes, views.get(rhs).contract)?;
    let rhs_free = offsets(cols, views.get(rhs).cols)?;
    let few = pays_few((program.buffers[rhs_input].dtype, terms), rows.len(), &rhs_free, &rhs_contract);
    Ok(DotOffsets { lhs_contract, rhs_contract, rhs_free, few })
}

/// Offsets at every index.
fn offsets(axes: &Axes, strides: &[i64]) -> Result<Vec<i64>, RunError> {
    let mut all = Vec::new();
    all.try_reserve_exact(axes.len()).map_err(|_| AllocError::new(axes.len().saturating_mul(size_of::<i64>())))?;
    let inner = axes.inner_stride(strides);
    axes.runs(strides, 0..axes.len(), |_, offset, len| all.extend((0..len as i64).map(|k| offset + k * inner)));
    Ok(all)
}
