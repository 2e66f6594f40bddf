//! One launch: extents known, axes merged, accesses resolved to strides.
//!
//! Axes that every access steps through as if they were one become one, so a contiguous elementwise operation of any
//! rank is a single run, and most others are rows × columns. A program without reductions and contractions does not
//! depend on how its axes are grouped, so there the groups are made anew from what is left after merging.
//!
//! This runs on every launch, ahead of programs that may take a hundred nanoseconds: it allocates nothing for usual
//! ranks and visits each access once.

use smallvec::SmallVec;

use crate::contract::PackedRhs;
use crate::memory::{Block, Footprint, Grid};
use crate::parallel::Parallel;
use crate::program::{Extent, Instr, Program, ReduceAlong, Vary};

use super::Input;
use super::axes::{Axes, Strides, span};
use super::error::RunError;
use super::prepare::{Affine, Prepared, Step};
use super::tiling::{Question, Tiling, Walk, tiling};

/// Multiply-adds of a contraction that take as long as an element operation.
const DOT_WORK: usize = 8;
/// Rows × columns that an outer index should have before more axes are taken into the rows.
const ROOM: usize = 4096;

/// An access with its strides along the launch's axes.
#[derive(Clone, Debug)]
pub(crate) struct View {
    /// Element offset at index 0.
    pub(crate) base: i64,
    /// Strides along [`Grid::outer`].
    pub(crate) outer: Strides,
    /// Strides along [`Grid::rows`].
    pub(crate) rows: Strides,
    /// Strides along [`Grid::cols`].
    pub(crate) cols: Strides,
    /// Tile axes along which it moves in this launch.
    pub(crate) vary: Vary,
    /// Whether it stays in bounds; only a launch over an empty domain may have others.
    pub(crate) readable: bool,
}

/// An overlaid buffer along one axis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed {
    /// Index of coordinate 0.
    pub(crate) low: i64,
    /// Indices from one coordinate to the next.
    pub(crate) step: i64,
    /// Number of coordinates.
    pub(crate) count: i64,
    /// Elements from one coordinate to the next.
    pub(crate) stride: i64,
}

impl Placed {
    /// Along an axis that the buffer has no dimension for, it shows everywhere.
    const EVERYWHERE: Placed = Placed { low: 0, step: 1, count: i64::MAX, stride: 0 };

    /// Offset of what lies at `index`, if something does.
    #[inline(always)]
    pub(crate) fn at(&self, index: usize) -> Option<i64> {
        let from = index as i64 - self.low;
        let hit = from >= 0 && (self.step == 1 || from % self.step == 0);
        let coordinate = if self.step == 1 { from } else { from / self.step };
        (hit && coordinate < self.count).then_some(coordinate * self.stride)
    }
}

/// Where an overlaid buffer lies, per axis of each group.
#[derive(Clone, Debug)]
pub(crate) struct Overlaid {
    /// Offset that axes of one index contribute; `None` where one of them is not covered.
    pub(crate) base: Option<i64>,
    pub(crate) outer: SmallVec<[Placed; 4]>,
    pub(crate) rows: SmallVec<[Placed; 4]>,
    pub(crate) cols: SmallVec<[Placed; 4]>,
}

/// Offsets of a contraction's operands.
#[derive(Debug)]
pub(crate) struct DotViews {
    /// Along the contracted index, in lhs.
    pub(crate) lhs_contract: Vec<i64>,
    /// Along the contracted index, in rhs.
    pub(crate) rhs_contract: Vec<i64>,
    /// Along all columns, in rhs.
    pub(crate) rhs_free: Vec<i64>,
    /// The packed right operand, where there is one outer index.
    pub(crate) shared: Option<PackedRhs>,
}

/// A launch.
#[derive(Debug)]
pub(crate) struct Launch<'l> {
    pub(crate) grid: Grid,
    /// Whether the domain has no points.
    pub(crate) empty: bool,
    pub(crate) walk: Walk,
    pub(crate) threads: usize,
    /// One per [`Prepared::affine`].
    pub(crate) views: SmallVec<[View; 6]>,
    /// Variation of each register in this launch.
    pub(crate) vary: SmallVec<[Vary; 24]>,
    pub(crate) footprints: SmallVec<[Footprint; 2]>,
    /// One per overlay, in program order.
    pub(crate) overlays: SmallVec<[Overlaid; 1]>,
    /// For each gather's component, in program order: the greatest index that does not clamp, and the stride.
    pub(crate) components: SmallVec<[(i64, i64); 1]>,
    pub(crate) dot: Option<DotViews>,
    pub(crate) inputs: &'l [Input<'l>],
    pub(crate) scalars: &'l [u64],
    /// Whether outputs are shared with inputs.
    pub(crate) shared: SmallVec<[bool; 4]>,
}

/// A merged axis: its extent, and the innermost of the axes that it is made of, whose stride is its own.
#[derive(Clone, Copy, Debug)]
struct Merged {
    extent: usize,
    axis: usize,
    group: Group,
    pinned: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Group {
    Outer,
    Rows,
    Cols,
    Contract,
}

/// Strides of all accesses along all axes, and the axes' extents.
struct Table {
    extents: SmallVec<[usize; 8]>,
    /// One row of [`Self::extents`] strides per access.
    strides: SmallVec<[i64; 48]>,
    bases: SmallVec<[i64; 8]>,
    /// Element counts of the buffers that are accessed.
    elements: SmallVec<[i64; 8]>,
}

impl Table {
    fn row(&self, access: usize) -> &[i64] {
        let width = self.extents.len();
        &self.strides[access * width..(access + 1) * width]
    }
}

fn length(extent: Extent, params: &[i64]) -> Result<usize, RunError> {
    let value = extent.resolve(params);
    usize::try_from(value).map_err(|_| RunError::arguments(format!("an extent of {value}")))
}

/// Checks the arguments and resolves the launch.
pub(crate) fn resolve<'l>(
    program: &Program,
    prepared: &Prepared,
    params: &[i64],
    scalars: &'l [u64],
    inputs: &'l [Input<'l>],
    outputs: &[&mut Block],
    pool: &dyn Parallel,
) -> Result<Launch<'l>, RunError> {
    check_counts(program, params, scalars, inputs, outputs)?;
    let shared = check_buffers(program, prepared, params, inputs, outputs)?;
    let table = table(program, prepared, params)?;
    let rank = program.domain.rank();
    let kept = merge(program, prepared, &table);
    let free = program.reduce.is_none() && prepared.dot.is_none();
    let kept = if free { regroup(kept) } else { kept };
    let axes = |group: Group| {
        let extents = kept.iter().filter(|axis| axis.group == group).map(|axis| axis.extent).collect();
        Axes::new(extents).ok_or_else(|| RunError::arguments("more points than can be counted"))
    };
    let (outer, rows, cols) = (axes(Group::Outer)?, axes(Group::Rows)?, axes(Group::Cols)?);
    let points = [outer.len(), rows.len(), cols.len()].iter().try_fold(1usize, |points, &len| points.checked_mul(len));
    let points = points.ok_or_else(|| RunError::arguments("more points than can be counted"))?;

    let mut views = SmallVec::<[View; 6]>::with_capacity(prepared.affine.len());
    for access in 0..prepared.affine.len() {
        let row = table.row(access);
        let strides = |group: Group| -> Strides {
            kept.iter().filter(|axis| axis.group == group).map(|axis| row[axis.axis]).collect()
        };
        let mut view = View {
            base: table.bases[access],
            outer: strides(Group::Outer),
            rows: strides(Group::Rows),
            cols: strides(Group::Cols),
            vary: Vary::NONE,
            readable: true,
        };
        view.vary = Vary { rows: !rows.fixes(&view.rows), cols: !cols.fixes(&view.cols) };
        view.readable = in_bounds(&table, access, rank);
        views.push(view);
    }

    let mut launch = Launch {
        grid: Grid { outer, rows, cols, unit_rows: 1, unit_cols: 1 },
        empty: points == 0,
        walk: Walk::Blocks(1),
        threads: 1,
        views,
        vary: SmallVec::new(),
        footprints: SmallVec::new(),
        overlays: SmallVec::new(),
        components: SmallVec::new(),
        dot: None,
        inputs,
        scalars,
        shared,
    };
    gathers_and_overlays(program, prepared, params, &table, &kept, &mut launch)?;
    if points > 0 {
        check_bounds(program, prepared, &launch)?;
    }
    launch.vary = variation(program, prepared, &launch);
    launch.footprints = footprints(program, prepared, &launch);
    let contracted = table.extents[rank..].iter().try_fold(1usize, |len, &extent| len.checked_mul(extent));
    let contracted = contracted.ok_or_else(|| RunError::arguments("more points than can be counted"))?;
    let work = prepared.work + if prepared.dot.is_some() { contracted / DOT_WORK } else { 0 };
    let threads = pool.threads();
    launch.threads = if threads > 1 && points.saturating_mul(work) >= pool.grain() { threads } else { 1 };
    let Tiling { unit_rows, unit_cols, walk } = tiling(&Question {
        outer: launch.grid.outer.len(),
        rows: launch.grid.rows.len(),
        cols: launch.grid.cols.len(),
        along: program.reduce,
        dot: prepared.dot.is_some(),
        transposed: free && launch.views.iter().any(|view| is_transposed(view)),
        threads: launch.threads,
        registers: prepared.large_slots,
    });
    (launch.grid.unit_rows, launch.grid.unit_cols, launch.walk) = (unit_rows, unit_cols, walk);
    if let Some(at) = prepared.dot {
        launch.dot = Some(dot_views(&prepared.steps[at], &table, &kept, rank, &launch));
    }
    Ok(launch)
}

fn check_counts(
    program: &Program,
    params: &[i64],
    scalars: &[u64],
    inputs: &[Input<'_>],
    outputs: &[&mut Block],
) -> Result<(), RunError> {
    let counts = [
        ("parameters", params.len(), usize::from(program.params)),
        ("scalars", scalars.len(), program.scalars.len()),
        ("inputs", inputs.len(), usize::from(program.inputs)),
        ("outputs", outputs.len(), program.outputs().len()),
    ];
    for (what, given, expected) in counts {
        if given != expected {
            return Err(RunError::arguments(format!("{given} {what} where `{}` takes {expected}", program.name)));
        }
    }
    Ok(())
}

/// Checks the sizes of buffers and which of them are shared; says for each output whether it is.
fn check_buffers(
    program: &Program,
    prepared: &Prepared,
    params: &[i64],
    inputs: &[Input<'_>],
    outputs: &[&mut Block],
) -> Result<SmallVec<[bool; 4]>, RunError> {
    let mut shared: SmallVec<[bool; 4]> = outputs.iter().map(|_| false).collect();
    for (n, buffer) in program.buffers.iter().enumerate() {
        let mut len = Some(buffer.dtype.size());
        let mut empty = false;
        for &extent in &buffer.shape {
            let extent = length(extent, params)?;
            empty |= extent == 0;
            len = len.and_then(|len| len.checked_mul(extent));
        }
        let len = if empty { Some(0) } else { len };
        let given = match inputs.get(n) {
            None => outputs[n - inputs.len()].len(),
            Some(Input::Block(block)) => block.len(),
            Some(Input::Output(output)) => {
                if !prepared.in_place.contains(&(n as u16, *output)) {
                    return Err(RunError::arguments(format!("input {n} cannot share memory with output {output}")));
                }
                shared[usize::from(*output)] = true;
                outputs[usize::from(*output)].len()
            }
        };
        if len != Some(given) {
            let expected = len.map_or_else(|| String::from("more"), |len| len.to_string());
            return Err(RunError::arguments(format!("buffer {n} has {given} bytes where {expected} are needed")));
        }
    }
    Ok(shared)
}

fn table(program: &Program, prepared: &Prepared, params: &[i64]) -> Result<Table, RunError> {
    let mut extents = SmallVec::new();
    for extent in program.domain.axes().chain(program.contract.iter().copied()) {
        extents.push(length(extent, params)?);
    }
    let width = extents.len();
    let mut table =
        Table { extents, strides: SmallVec::new(), bases: SmallVec::new(), elements: SmallVec::new() };
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
            if together && (0..prepared.affine.len()).all(as_one) {
                if let Some(product) = last.extent.checked_mul(extent) {
                    *last = Merged { extent: product, axis, ..*last };
                    continue;
                }
            }
        }
        kept.push(Merged { extent, axis, group, pinned });
    }
    kept
}

/// The innermost axis becomes the columns, those before it rows until a tile is full, the rest a batch.
fn regroup(mut kept: SmallVec<[Merged; 6]>) -> SmallVec<[Merged; 6]> {
    let mut room = 1usize;
    for (from_last, axis) in kept.iter_mut().rev().enumerate() {
        axis.group = match from_last {
            0 => Group::Cols,
            1 => Group::Rows,
            _ if room < ROOM => Group::Rows,
            _ => Group::Outer,
        };
        room = room.saturating_mul(axis.extent);
    }
    // Rows must be neighbours: once an axis is outer, so are all before it, which the growing `room` sees to, unless an
    // extent of 0 makes it shrink.
    let mut outer = false;
    for axis in kept.iter_mut().rev() {
        outer |= axis.group == Group::Outer;
        if outer {
            axis.group = Group::Outer;
        }
    }
    kept
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

fn check_bounds(program: &Program, prepared: &Prepared, launch: &Launch<'_>) -> Result<(), RunError> {
    let reads = |at: usize, access: usize| {
        if launch.views[access].readable {
            return Ok(());
        }
        Err(RunError::arguments(format!("instruction {at} of `{}` leaves its buffer", program.name)))
    };
    for (at, step) in prepared.steps.iter().enumerate() {
        match step {
            Step::Load { access, .. } | Step::Gather { access, .. } => reads(at, *access)?,
            Step::Dot { lhs, rhs, .. } => {
                reads(at, *lhs)?;
                reads(at, *rhs)?;
            }
            Step::Overlay { .. }
            | Step::Scalar { .. }
            | Step::Iota { .. }
            | Step::Lane { .. }
            | Step::Reduce { .. }
            | Step::Store { .. } => {}
        }
        if let Step::Gather { components, .. } = step {
            for component in components {
                reads(at, component.access)?;
            }
        }
    }
    Ok(())
}

/// Whether an access runs along memory by rows.
fn is_transposed(view: &View) -> bool {
    let (row, col) = (view.rows.last().copied().unwrap_or(0), view.cols.last().copied().unwrap_or(0));
    row != 0 && col != 0 && row.unsigned_abs() < col.unsigned_abs()
}

fn variation(program: &Program, prepared: &Prepared, launch: &Launch<'_>) -> SmallVec<[Vary; 24]> {
    let both = Vary { rows: launch.grid.rows.len() != 1, cols: launch.grid.cols.len() != 1 };
    let mut vary = SmallVec::new();
    vary.resize(program.regs.len(), Vary::NONE);
    let mut components = 0;
    for step in &prepared.steps {
        let along = match step {
            Step::Load { access, .. } | Step::Iota { access, .. } => launch.views[*access].vary,
            Step::Gather { access, components: own, .. } => {
                components += own.len();
                own.iter().fold(launch.views[*access].vary, |vary, own| vary.join(launch.views[own.access].vary))
            }
            Step::Overlay { .. } | Step::Dot { .. } => both,
            Step::Scalar { .. } => Vary::NONE,
            Step::Lane { args, .. } => {
                args.iter().fold(Vary::NONE, |along, arg| along.join(vary[usize::from(arg.0)]))
            }
            Step::Reduce { src, .. } => {
                let along: Vary = vary[usize::from(src.0)];
                match program.reduce {
                    Some(ReduceAlong::Cols) => Vary { cols: false, ..along },
                    Some(ReduceAlong::Rows) | None => Vary { rows: false, ..along },
                }
            }
            Step::Store { .. } => continue,
        };
        if let Some(dst) = step.dst() {
            vary[usize::from(dst.0)] = along;
        }
    }
    debug_assert_eq!(components, launch.components.len(), "every gather component was resolved");
    vary
}

fn footprints(program: &Program, prepared: &Prepared, launch: &Launch<'_>) -> SmallVec<[Footprint; 2]> {
    let footprint = |(buffer, &store): (&crate::program::BufferType, &usize)| match &prepared.steps[store] {
        Step::Store { access, .. } => {
            let view = &launch.views[*access];
            Footprint {
                size: buffer.dtype.size(),
                base: view.base,
                outer: view.outer.clone(),
                rows: view.rows.clone(),
                cols: view.cols.clone(),
            }
        }
        other => unreachable!("an output is stored by a store, not by {other:?}"),
    };
    program.outputs().iter().zip(&prepared.stores).map(footprint).collect()
}

/// Resolves what gathers clamp to and where overlays lie.
fn gathers_and_overlays(
    program: &Program,
    prepared: &Prepared,
    params: &[i64],
    table: &Table,
    kept: &[Merged],
    launch: &mut Launch<'_>,
) -> Result<(), RunError> {
    for (step, instr) in prepared.steps.iter().zip(&program.body) {
        match (step, instr) {
            (Step::Gather { access, input, components, .. }, Instr::Gather { .. }) => {
                let shape = &program.buffers[*input].shape;
                let mut most = reach(table, *access).map(|(_, high)| high);
                for component in components {
                    let inner = &shape[component.dim + 1..];
                    let stride = inner.iter().fold(1i64, |stride, extent| stride.wrapping_mul(extent.resolve(params)));
                    let greatest = shape[component.dim].resolve(params) - component.slice.resolve(params);
                    let along = greatest.checked_mul(stride).filter(|_| greatest >= 0);
                    most = most.zip(along).and_then(|(most, along)| most.checked_add(along));
                    launch.components.push((greatest, stride));
                }
                let view = &mut launch.views[*access];
                view.readable &= most.is_some_and(|most| most < table.elements[*access]);
            }
            (Step::Overlay { input, placement, .. }, Instr::Overlay { .. }) => {
                let everywhere = |group: Group| -> SmallVec<[Placed; 4]> {
                    kept.iter().filter(|axis| axis.group == group).map(|_| Placed::EVERYWHERE).collect()
                };
                let mut overlaid = Overlaid {
                    base: Some(0),
                    outer: everywhere(Group::Outer),
                    rows: everywhere(Group::Rows),
                    cols: everywhere(Group::Cols),
                };
                let mut stride = 1i64;
                for (place, extent) in placement.iter().zip(&program.buffers[*input].shape).rev() {
                    let count = extent.resolve(params);
                    let interior = place.interior.resolve(params);
                    if interior < 0 {
                        return Err(RunError::arguments(format!("interior padding of {interior}")));
                    }
                    let low = place.low.resolve(params);
                    let placed = Placed { low, step: interior.saturating_add(1), count, stride };
                    let axis = usize::from(place.axis);
                    match kept.iter().find(|kept| kept.axis == axis) {
                        None if table.extents[axis] == 1 => {
                            overlaid.base = overlaid.base.zip(placed.at(0)).map(|(base, offset)| base + offset);
                        }
                        None => unreachable!("the axes of an overlay are not merged"),
                        Some(found) => {
                            let position = kept
                                .iter()
                                .filter(|other| other.group == found.group)
                                .position(|other| other.axis == axis)
                                .expect("the axis is in its group");
                            match found.group {
                                Group::Outer => overlaid.outer[position] = placed,
                                Group::Rows => overlaid.rows[position] = placed,
                                Group::Cols => overlaid.cols[position] = placed,
                                Group::Contract => unreachable!("an overlay lies in the domain"),
                            }
                        }
                    }
                    stride = stride.wrapping_mul(count);
                }
                launch.overlays.push(overlaid);
            }
            _ => {}
        }
    }
    Ok(())
}

/// The offsets of a contraction's operands.
fn dot_views(step: &Step, table: &Table, kept: &[Merged], rank: usize, launch: &Launch<'_>) -> DotViews {
    let Step::Dot { lhs, rhs, .. } = *step else {
        unreachable!("the dot of a program is a dot, not {step:?}");
    };
    let extents: SmallVec<[usize; 4]> =
        kept.iter().filter(|axis| axis.group == Group::Contract).map(|axis| axis.extent).collect();
    // Where an axis has no index nothing is read, and the others do not matter.
    let none = table.extents[rank..].contains(&0);
    let contracted = |access: usize| {
        let row = table.row(access);
        let strides: Strides =
            kept.iter().filter(|axis| axis.group == Group::Contract).map(|axis| row[axis.axis]).collect();
        if none { Vec::new() } else { offsets(&Axes::new(extents.clone()).expect("the work was counted"), &strides, 0) }
    };
    DotViews {
        lhs_contract: contracted(lhs),
        rhs_contract: contracted(rhs),
        rhs_free: offsets(&launch.grid.cols, &launch.views[rhs].cols, 0),
        shared: None,
    }
}

/// Offsets at every index, from `base`.
fn offsets(axes: &Axes, strides: &[i64], base: i64) -> Vec<i64> {
    let mut all = Vec::with_capacity(axes.len());
    let inner = axes.inner_stride(strides);
    axes.runs(strides, 0..axes.len(), |_, offset, len| {
        all.extend((0..len as i64).map(|k| base + offset + k * inner));
    });
    all
}
