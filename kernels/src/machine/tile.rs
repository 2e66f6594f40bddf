//! Registers over one tile, and the instructions that compute them.
//!
//! A register is bound to where its value lies: to one number, to a slot of scratch memory, or, so that nothing is copied,
//! to the part of an input that it was loaded from or of the output that it is stored to. A lane operation is one vector
//! loop where its operands have the result's layout or are one number; operands that vary along fewer axes are taken row
//! by row in wide tiles and spread out in narrow ones.

use std::cell::Cell;
use std::ops::Range;

use smallvec::SmallVec;

use crate::contract::{DotOperand, PackedRhs, dot};
use crate::lanes::{LaneFn, Source};
use crate::memory::{AllocError, Block, Unit, Window, Windows};
use crate::program::{Program, Reg, ReduceAlong, Vary};
use crate::reduce::{COL_LANES, Reducer};
use crate::simd::Isa;

use super::Input;
use super::error::RunError;
use super::launch::{Launch, View};
use super::movement::{self, Along, Laid, Picked, Region};
use super::prepare::{Component, Prepared, Step};

/// Below this width an operand is spread out rather than taken row by row, and strided rows are copied together.
const WIDE: usize = 64;
/// Scratch that a thread keeps between launches.
const KEPT_BYTES: usize = 16 << 20;

/// Where a register's value lies.
#[derive(Clone, Copy, Debug)]
enum Bind {
    Unset,
    /// One number at all points.
    Splat(u64),
    /// Dense, in the register's slot.
    Slot,
    /// In an input, from a byte offset, rows so many bytes apart.
    Input { input: usize, offset: usize, pitch: usize },
    /// In the tile's part of an output.
    Output(usize),
}

/// A thread's scratch memory, kept between launches.
#[derive(Debug, Default)]
pub(crate) struct Worker {
    slots: Vec<Block>,
    binds: Vec<Bind>,
    spread: [Block; 3],
    offsets: Vec<i64>,
    packed: Option<PackedRhs>,
    packed_for: Option<usize>,
}

thread_local! {
    static WORKER: Cell<Option<Box<Worker>>> = const { Cell::new(None) };
}

impl Worker {
    /// Runs `with` with this thread's scratch memory.
    #[inline]
    pub(crate) fn with<R>(with: impl FnOnce(&mut Worker) -> R) -> R {
        // Taken out, so that a launch inside a launch would find none and make its own.
        let mut worker = WORKER.take().unwrap_or_default();
        let result = with(&mut worker);
        let blocks = worker.slots.iter().chain(&worker.spread);
        if blocks.map(Block::len).sum::<usize>() <= KEPT_BYTES {
            WORKER.set(Some(worker));
        }
        result
    }

    /// Makes room for a program's registers and forgets what they were bound to.
    #[inline]
    pub(crate) fn begin(&mut self, prepared: &Prepared) {
        if self.slots.len() < prepared.slots {
            self.slots.resize_with(prepared.slots, Block::default);
        }
        self.binds.clear();
        self.binds.resize(prepared.regs.len(), Bind::Unset);
    }

    /// Forgets what an earlier launch packed.
    pub(crate) fn begin_launch(&mut self) {
        self.packed_for = None;
    }

    /// Storage for a packed operand, if this thread has some.
    pub(crate) fn take_packed(&mut self) -> Option<PackedRhs> {
        self.packed_for = None;
        self.packed.take()
    }

    /// Keeps the storage for the next launch.
    pub(crate) fn put_packed(&mut self, packed: Option<PackedRhs>) {
        self.packed_for = None;
        self.packed = packed;
    }
}

/// A block of at least `bytes` bytes in place of `block`, which is left empty.
#[inline(always)]
fn take(block: &mut Block, bytes: usize) -> Result<Block, AllocError> {
    if block.len() >= bytes { Ok(std::mem::take(block)) } else { Block::new(bytes.max(64).next_power_of_two()) }
}

/// A tile under way.
pub(crate) struct Tile<'t> {
    pub(crate) program: &'t Program,
    pub(crate) prepared: &'t Prepared,
    pub(crate) launch: &'t Launch<'t>,
    pub(crate) isa: Isa,
    pub(crate) worker: &'t mut Worker,
    pub(crate) windows: Windows<'t>,
    pub(crate) outer: usize,
    /// Rows of the tile.
    pub(crate) rows: Range<usize>,
    /// Columns of the tile.
    pub(crate) cols: Range<usize>,
}

impl<'t> Tile<'t> {
    /// The tile that is the whole unit.
    pub(crate) fn new(
        program: &'t Program,
        prepared: &'t Prepared,
        launch: &'t Launch<'t>,
        isa: Isa,
        worker: &'t mut Worker,
        (unit, windows): (Unit, Windows<'t>),
    ) -> Self {
        let Unit { outer, rows, cols } = unit;
        Tile { program, prepared, launch, isa, worker, windows, outer, rows, cols }
    }

    #[inline(always)]
    fn vary(&self, reg: Reg) -> Vary {
        self.launch.vary[usize::from(reg.0)]
    }

    #[inline(always)]
    fn size(&self, reg: Reg) -> usize {
        self.prepared.regs[usize::from(reg.0)].size
    }

    /// Height and width of a value that varies so.
    #[inline(always)]
    fn dims(&self, vary: Vary) -> (usize, usize) {
        (if vary.rows { self.rows.len() } else { 1 }, if vary.cols { self.cols.len() } else { 1 })
    }

    #[inline(always)]
    fn bind(&mut self, reg: Reg, bind: Bind) {
        self.worker.binds[usize::from(reg.0)] = bind;
    }

    fn input(&self, input: usize) -> &'t [u8] {
        match self.launch.inputs[input] {
            Input::Block(block) => block.bytes(),
            Input::Output(_) => unreachable!("only loads read memory that is shared with an output"),
        }
    }

    /// The tile's part of an output, in the output's own rows and columns.
    #[inline(always)]
    fn part(&self, output: usize) -> (Range<usize>, Range<usize>) {
        let Step::Store { access, .. } = self.prepared.steps[self.prepared.stores[output]] else {
            unreachable!("an output is stored by a store");
        };
        let vary = self.launch.views[access].vary;
        (if vary.rows { self.rows.clone() } else { 0..1 }, if vary.cols { self.cols.clone() } else { 0..1 })
    }

    /// The register as one dense slice, or as one number; `None` where its rows lie apart.
    #[inline(always)]
    fn whole(&self, reg: Reg) -> Option<Source<'_>> {
        let (height, width) = self.dims(self.vary(reg));
        let size = self.size(reg);
        let bytes = match self.worker.binds[usize::from(reg.0)] {
            Bind::Unset => unreachable!("registers are defined before they are used"),
            Bind::Splat(bits) => return Some(Source::Splat(bits)),
            Bind::Slot => {
                let slot = self.prepared.regs[usize::from(reg.0)].slot;
                &self.worker.slots[slot].bytes()[..height * width * size]
            }
            Bind::Input { input, offset, pitch } => {
                if height > 1 && pitch != width * size {
                    return None;
                }
                &self.input(input)[offset..offset + height * width * size]
            }
            Bind::Output(output) => {
                let (rows, cols) = self.part(output);
                self.bound_window(output).dense(rows, cols)?
            }
        };
        Some(if height * width == 1 { Source::Splat(movement::bits_at(bytes, size, 0)) } else { Source::Slice(bytes) })
    }

    fn bound_window(&self, output: usize) -> &Window<'t> {
        self.windows[output].as_ref().expect("a register is bound to an output only where the tile has a part of it")
    }

    /// The register at row `row` of the tile, counted from 0: its columns, or one number.
    #[inline(always)]
    fn row(&self, reg: Reg, row: usize) -> Source<'_> {
        let vary = self.vary(reg);
        let (size, width) = (self.size(reg), if vary.cols { self.cols.len() } else { 1 });
        let row = if vary.rows { row } else { 0 };
        let bytes = match self.worker.binds[usize::from(reg.0)] {
            Bind::Unset => unreachable!("registers are defined before they are used"),
            Bind::Splat(bits) => return Source::Splat(bits),
            Bind::Slot => {
                let slot = self.prepared.regs[usize::from(reg.0)].slot;
                &self.worker.slots[slot].bytes()[row * width * size..][..width * size]
            }
            Bind::Input { input, offset, pitch } => &self.input(input)[offset + row * pitch..][..width * size],
            Bind::Output(output) => {
                let (rows, cols) = self.part(output);
                let row = rows.start + if rows.len() > 1 { row } else { 0 };
                self.bound_window(output).dense(row..row + 1, cols).expect("rows of a bound output are dense")
            }
        };
        if vary.cols { Source::Slice(bytes) } else { Source::Splat(movement::bits_at(bytes, size, 0)) }
    }

    /// The one number of a register that varies along nothing.
    #[inline(always)]
    fn number(&self, reg: Reg) -> u64 {
        match self.row(reg, 0) {
            Source::Splat(bits) => bits,
            Source::Slice(bytes) => movement::bits_at(bytes, self.size(reg), 0),
        }
    }

    /// The register spread out over `height` × `width` points.
    fn spread(&self, reg: Reg, height: usize, width: usize, dst: &mut [u8]) {
        let size = self.size(reg);
        for row in 0..height {
            let dst = &mut dst[row * width * size..(row + 1) * width * size];
            match self.row(reg, row) {
                Source::Slice(bytes) => dst.copy_from_slice(bytes),
                Source::Splat(bits) => movement::fill(dst, size, bits),
            }
        }
    }

    /// Has `compute` write the register: to its output if the tile's part of that is dense and nobody else reads it, or to
    /// its slot.
    #[inline(always)]
    fn produce(&mut self, dst: Reg, compute: impl FnOnce(&Self, &mut [u8])) -> Result<(), RunError> {
        let plan = self.prepared.regs[usize::from(dst.0)];
        let (height, width) = self.dims(self.vary(dst));
        if let Some(output) = plan.output.filter(|&output| !self.launch.shared[output]) {
            let (rows, cols) = self.part(output);
            if (rows.len(), cols.len()) == (height, width) {
                if let Some(mut window) = self.windows[output].take_if(|window| window.is_dense(&rows, &cols)) {
                    compute(self, window.dense_mut(rows, cols).expect("a dense part is a slice"));
                    self.windows[output] = Some(window);
                    self.bind(dst, Bind::Output(output));
                    return Ok(());
                }
            }
        }
        let bytes = height * width * plan.size;
        let mut block = take(&mut self.worker.slots[plan.slot], bytes)?;
        compute(self, &mut block.bytes_mut()[..bytes]);
        self.worker.slots[plan.slot] = block;
        self.bind(dst, Bind::Slot);
        Ok(())
    }

    /// Runs a step over the tile; reductions over all of it.
    #[inline]
    pub(crate) fn run(&mut self, at: usize) -> Result<(), RunError> {
        let prepared = self.prepared;
        if self.launch.empty {
            // A reduction over nothing: what varies along it has no elements, and nothing to compute them from.
            if let Some(dst) = prepared.steps[at].dst() {
                let (height, width) = self.dims(self.vary(dst));
                if height * width == 0 {
                    self.bind(dst, Bind::Splat(0));
                    return Ok(());
                }
            }
        }
        match &prepared.steps[at] {
            Step::Load { dst, access, input, may_view } => self.load(*dst, *access, *input, *may_view),
            Step::Gather { dst, access, input, components } => self.gather(at, *dst, *access, *input, components),
            Step::Overlay { dst, background, input, .. } => self.overlay(at, *dst, *background, *input),
            Step::Scalar { dst, slot } => {
                let bits = self.launch.scalars[*slot];
                let bits = crate::Scalar::from_bits(self.program.scalars[*slot], bits).bits();
                self.bind(*dst, Bind::Splat(bits));
                Ok(())
            }
            Step::Iota { dst, access } => {
                let dtype = self.program.regs[usize::from(dst.0)].dtype;
                self.produce(*dst, |tile, out| movement::iota(dtype, &tile.region(&tile.launch.views[*access]), out))
            }
            Step::Lane { dst, kernel, args } => self.lane(*dst, *kernel, args),
            Step::Reduce { dst, src, init, reducer, acc } => self.reduce(*dst, *src, *init, reducer, *acc),
            Step::Dot { dst, lhs, rhs, lhs_input, rhs_input } => self.dot(*dst, *lhs, *rhs, *lhs_input, *rhs_input),
            Step::Store { src, output, .. } => {
                self.store(*src, *output);
                Ok(())
            }
        }
    }

    /// The tile's part of what an access reaches, without axes that it does not move along.
    fn region<'v>(&self, view: &'v View) -> Region<'v>
    where
        't: 'v,
    {
        let grid = &self.launch.grid;
        Region {
            base: view.base + grid.outer.offset(&view.outer, self.outer),
            rows: Along { axes: &grid.rows, strides: &view.rows },
            row_range: if view.vary.rows { self.rows.clone() } else { 0..1 },
            cols: Along { axes: &grid.cols, strides: &view.cols },
            col_range: if view.vary.cols { self.cols.clone() } else { 0..1 },
        }
    }

    #[inline]
    fn load(&mut self, dst: Reg, access: usize, input: usize, may_view: bool) -> Result<(), RunError> {
        let launch = self.launch;
        let view = &launch.views[access];
        if !view.readable {
            // Nothing of it shows: the domain is empty.
            self.bind(dst, Bind::Splat(0));
            return Ok(());
        }
        let size = self.size(dst);
        let block = match launch.inputs[input] {
            Input::Block(block) => block,
            Input::Output(output) => return self.load_shared(dst, usize::from(output), may_view),
        };
        let (height, width) = self.dims(view.vary);
        if height == 0 || width == 0 {
            self.bind(dst, Bind::Splat(0));
            return Ok(());
        }
        let region = self.region(view);
        let start = region.base
            + if view.vary.rows { region.rows.offset(self.rows.start) } else { 0 }
            + if view.vary.cols { region.cols.offset(self.cols.start) } else { 0 };
        if height * width == 1 {
            let bits = movement::bits_at(block.bytes(), size, start as usize * size);
            self.bind(dst, Bind::Splat(bits));
            return Ok(());
        }
        let pitch = region.rows.stride();
        let dense_row = width == 1 || (region.cols.stride() == 1 && region.cols.axes.is_one_run(&region.col_range));
        let even_rows = height == 1
            || (region.rows.axes.is_one_run(&region.row_range)
                && (pitch == width as i64 || (pitch > 0 && width >= WIDE)));
        if dense_row && even_rows {
            let (offset, pitch) = (start as usize * size, if height == 1 { 0 } else { pitch as usize * size });
            self.bind(dst, Bind::Input { input, offset, pitch });
            return Ok(());
        }
        self.produce(dst, |_, out| movement::read(block.bytes(), size, &region, out))
    }

    /// Loads from memory that is shared with an output, of which the tile reads exactly the part that it writes.
    fn load_shared(&mut self, dst: Reg, output: usize, may_view: bool) -> Result<(), RunError> {
        let (rows, cols) = self.part(output);
        let window = self.bound_window(output);
        if may_view && (rows.is_empty() || window.dense(rows.start..rows.start + 1, cols.clone()).is_some()) {
            self.bind(dst, Bind::Output(output));
            return Ok(());
        }
        self.produce(dst, |tile, out| tile.bound_window(output).read(rows, cols, out))
    }

    fn gather(
        &mut self,
        at: usize,
        dst: Reg,
        access: usize,
        input: usize,
        components: &[Component],
    ) -> Result<(), RunError> {
        let launch = self.launch;
        let view = &launch.views[access];
        if !view.readable || components.iter().any(|component| !launch.views[component.access].readable) {
            self.bind(dst, Bind::Splat(0));
            return Ok(());
        }
        let vary = self.vary(dst);
        // The result may move along axes that only the indices move along.
        let over_result = |mut region: Region<'t>| {
            region.row_range = if vary.rows { self.rows.clone() } else { 0..1 };
            region.col_range = if vary.cols { self.cols.clone() } else { 0..1 };
            region
        };
        let region = over_result(self.region(view));
        let earlier = self.prepared.steps[..at].iter().map(|step| match step {
            Step::Gather { components, .. } => components.len(),
            _ => 0,
        });
        let resolved = &launch.components[earlier.sum()..];
        let picked: SmallVec<[Picked<'_>; 1]> = components
            .iter()
            .zip(resolved)
            .map(|(component, &(greatest, stride))| {
                let view = &launch.views[component.access];
                Picked {
                    index: self.input(component.input),
                    dtype: self.program.buffers[component.input].dtype,
                    region: over_result(self.region(view)),
                    by_col: view.vary.cols,
                    greatest,
                    stride,
                }
            })
            .collect();
        let (bytes, size) = (self.input(input), self.size(dst));
        self.produce(dst, |_, out| movement::gather(bytes, size, &region, &picked, out))
    }

    fn overlay(&mut self, at: usize, dst: Reg, background: Reg, input: usize) -> Result<(), RunError> {
        let launch = self.launch;
        let earlier = self.prepared.steps[..at].iter().filter(|step| matches!(step, Step::Overlay { .. })).count();
        let overlaid = &launch.overlays[earlier];
        let grid = &launch.grid;
        let outer = grid.outer.indices(self.outer);
        let base = overlaid.outer.iter().zip(outer).try_fold(overlaid.base, |base, (placed, index)| {
            base.map(|base| placed.at(index).map(|offset| base + offset))
        });
        let vary = self.vary(dst);
        let (height, width) = self.dims(vary);
        let laid = base.flatten().map(|base| Laid {
            base,
            rows: (&grid.rows, overlaid.rows.as_slice()),
            row_range: if vary.rows { self.rows.clone() } else { 0..1 },
            cols: (&grid.cols, overlaid.cols.as_slice()),
            col_range: if vary.cols { self.cols.clone() } else { 0..1 },
        });
        let (bytes, size) = (self.input(input), self.size(dst));
        self.produce(dst, |tile, out| {
            tile.spread(background, height, width, out);
            if let Some(laid) = laid {
                movement::overlay(bytes, size, &laid, out);
            }
        })
    }

    #[inline]
    fn lane(&mut self, dst: Reg, kernel: LaneFn, args: &[Reg]) -> Result<(), RunError> {
        let vary = self.vary(dst);
        if vary == Vary::NONE {
            let sources: SmallVec<[Source<'_>; 3]> = args.iter().map(|&arg| Source::Splat(self.number(arg))).collect();
            let mut number = [0u64];
            let size = self.size(dst);
            kernel(self.isa, &mut bytemuck::bytes_of_mut(&mut number)[..size], &sources);
            self.bind(dst, Bind::Splat(number[0]));
            return Ok(());
        }
        let (height, width) = self.dims(vary);
        // Whether an operand is the result's size, or one number; else it has to be spread.
        let fits = |tile: &Self, arg: Reg| match tile.whole(arg) {
            Some(Source::Splat(_)) => true,
            Some(Source::Slice(_)) => tile.dims(tile.vary(arg)) == (height, width),
            None => false,
        };
        if args.iter().all(|&arg| fits(self, arg)) {
            return self.produce(dst, |tile, out| {
                let whole = |&arg: &Reg| tile.whole(arg).expect("an operand that fits is whole");
                let sources: SmallVec<[Source<'_>; 3]> = args.iter().map(whole).collect();
                kernel(tile.isa, out, &sources);
            });
        }
        if width >= WIDE {
            let row_bytes = width * self.size(dst);
            return self.produce(dst, |tile, out| {
                for (row, out) in out.chunks_exact_mut(row_bytes).enumerate() {
                    let sources: SmallVec<[Source<'_>; 3]> = args.iter().map(|&arg| tile.row(arg, row)).collect();
                    kernel(tile.isa, out, &sources);
                }
            });
        }
        let mut blocks = [Block::default(), Block::default(), Block::default()];
        for (n, &arg) in args.iter().enumerate() {
            if !fits(self, arg) {
                let bytes = height * width * self.size(arg);
                blocks[n] = take(&mut self.worker.spread[n], bytes)?;
                self.spread(arg, height, width, &mut blocks[n].bytes_mut()[..bytes]);
            }
        }
        self.produce(dst, |tile, out| {
            let source = |(n, &arg): (usize, &Reg)| match &blocks[n] {
                block if block.is_empty() => tile.whole(arg).expect("an operand that fits is whole"),
                block => Source::Slice(&block.bytes()[..height * width * tile.size(arg)]),
            };
            let sources: SmallVec<[Source<'_>; 3]> = args.iter().enumerate().map(source).collect();
            kernel(tile.isa, out, &sources);
        })?;
        for (kept, block) in self.worker.spread.iter_mut().zip(blocks) {
            if !block.is_empty() {
                *kept = block;
            }
        }
        Ok(())
    }

    /// Has `use_it` read the register as `height` × `width` dense elements.
    fn with_dense<R>(
        &mut self,
        reg: Reg,
        (height, width): (usize, usize),
        use_it: impl FnOnce(&mut Self, Source<'_>) -> R,
    ) -> Result<R, RunError> {
        let bytes = height * width * self.size(reg);
        let mut block = take(&mut self.worker.spread[0], bytes)?;
        self.spread(reg, height, width, &mut block.bytes_mut()[..bytes]);
        let result = use_it(self, Source::Slice(&block.bytes()[..bytes]));
        self.worker.spread[0] = block;
        Ok(result)
    }

    fn reduce(&mut self, dst: Reg, src: Reg, init: Reg, reducer: &Reducer, acc: usize) -> Result<(), RunError> {
        let init = self.number(init);
        let isa = self.isa;
        match self.along() {
            ReduceAlong::Cols => {
                let (height, n) = (self.dims(self.vary(src)).0, self.cols.len());
                if self.is_dense(src, (height, n)) {
                    return self.produce(dst, |tile, out| {
                        if let Some(Source::Slice(bytes)) = tile.whole(src) {
                            reducer.whole_cols(isa, bytes, n, init, out);
                        }
                    });
                }
                self.with_dense(src, (height, n), |tile, source| {
                    tile.produce(dst, |_, out| {
                        if let Source::Slice(bytes) = source {
                            reducer.whole_cols(isa, bytes, n, init, out);
                        }
                    })
                })?
            }
            ReduceAlong::Rows => {
                self.feed(src, reducer, acc)?;
                self.finish(dst, src, init, reducer, acc)
            }
        }
    }

    fn along(&self) -> ReduceAlong {
        self.program.reduce.expect("validation admits reductions only with a direction")
    }

    fn is_dense(&self, reg: Reg, dims: (usize, usize)) -> bool {
        matches!(self.whole(reg), Some(Source::Slice(_))) && self.dims(self.vary(reg)) == dims
    }

    /// Takes the tile into a reduction's accumulator, which starts anew at the first chunk.
    fn feed(&mut self, src: Reg, reducer: &Reducer, acc: usize) -> Result<(), RunError> {
        let vary = self.vary(src);
        let (rows, cols) = (self.rows.clone(), self.cols.clone());
        let (dims, bytes) = match self.along() {
            ReduceAlong::Cols => {
                let height = if vary.rows { rows.len() } else { 1 };
                ((height, cols.len()), reducer.col_acc(height))
            }
            ReduceAlong::Rows => {
                let width = if vary.cols { cols.len() } else { 1 };
                ((rows.len(), width), reducer.row_acc(width))
            }
        };
        let mut block = take(&mut self.worker.slots[acc], bytes)?;
        let lanes = &mut block.bytes_mut()[..bytes];
        let along = self.along();
        let mut feed = |isa: Isa, source: Source<'_>| {
            let Source::Slice(bytes) = source else { return };
            if bytes.is_empty() {
                return;
            }
            match along {
                ReduceAlong::Rows => reducer.feed_rows(isa, lanes, rows.start, bytes, dims.1),
                ReduceAlong::Cols => {
                    let per_row = lanes.len() / dims.0.max(1);
                    for (row, lanes) in bytes.chunks_exact(bytes.len() / dims.0.max(1)).zip(lanes.chunks_exact_mut(per_row)) {
                        reducer.feed_cols(isa, lanes, cols.start, row);
                    }
                }
            }
        };
        if self.is_dense(src, dims) {
            let whole = self.whole(src).expect("the register is dense");
            feed(self.isa, whole);
        } else {
            self.with_dense(src, dims, |tile, source| feed(tile.isa, source))?;
        }
        self.worker.slots[acc] = block;
        Ok(())
    }

    /// The result of a reduction from its accumulator.
    fn finish(&mut self, dst: Reg, src: Reg, init: u64, reducer: &Reducer, acc: usize) -> Result<(), RunError> {
        let mut block = std::mem::take(&mut self.worker.slots[acc]);
        let (isa, size) = (self.isa, self.size(src));
        let along = self.along();
        let grid = &self.launch.grid;
        self.produce(dst, |_, out| match along {
            ReduceAlong::Rows => {
                let bytes = reducer.row_acc(out.len() / size);
                reducer.finish_rows(isa, &mut block.bytes_mut()[..bytes], grid.rows.len(), init, out);
            }
            ReduceAlong::Cols => {
                let lanes = block.bytes_mut().chunks_exact_mut(COL_LANES * size);
                for (out, lanes) in out.chunks_exact_mut(size).zip(lanes) {
                    reducer.finish_cols(isa, lanes, grid.cols.len(), init, out);
                }
            }
        })?;
        self.worker.slots[acc] = block;
        Ok(())
    }

    /// Takes the tile into the accumulator of reduction `at`.
    pub(crate) fn feed_reduction(&mut self, at: usize) -> Result<(), RunError> {
        let prepared = self.prepared;
        match &prepared.steps[at] {
            Step::Reduce { src, reducer, acc, .. } => self.feed(*src, reducer, *acc),
            other => unreachable!("only reductions have accumulators, not {other:?}"),
        }
    }

    /// Defines the result of reduction `at`, all of whose operand has been taken in.
    pub(crate) fn finish_reduction(&mut self, at: usize) -> Result<(), RunError> {
        let prepared = self.prepared;
        match &prepared.steps[at] {
            Step::Reduce { dst, src, init, reducer, acc } => {
                let init = self.number(*init);
                self.finish(*dst, *src, init, reducer, *acc)
            }
            other => unreachable!("only reductions have accumulators, not {other:?}"),
        }
    }

    fn dot(&mut self, dst: Reg, lhs: usize, rhs: usize, lhs_input: usize, rhs_input: usize) -> Result<(), RunError> {
        let launch = self.launch;
        let views = launch.dot.as_ref().expect("a program with a dot resolves its operands");
        let dtype = self.program.regs[usize::from(dst.0)].dtype;
        let isa = self.isa;
        let own = match &views.shared {
            Some(_) => None,
            None => Some(self.pack(dtype, rhs, rhs_input)),
        };
        let mut free = std::mem::take(&mut self.worker.offsets);
        let region = self.region(&launch.views[lhs]);
        free.clear();
        free.extend(self.rows.clone().map(|row| region.base + region.rows.offset(row)));
        let operand = DotOperand { bytes: self.input(lhs_input), free: &free, contract: &views.lhs_contract };
        let cols = self.cols.clone();
        let packed = views.shared.as_ref().or(own.as_ref()).expect("the right operand is packed");
        let produced = self.produce(dst, |_, out| dot(isa, dtype, &operand, packed, cols, out));
        self.worker.offsets = free;
        if own.is_some() {
            self.worker.packed = own;
        }
        produced
    }

    /// The right operand at this outer index, packed by this thread, taken out of its scratch memory.
    fn pack(&mut self, dtype: crate::DType, rhs: usize, input: usize) -> PackedRhs {
        let packed = self.worker.packed.take();
        if let Some(packed) = packed {
            if self.worker.packed_for == Some(self.outer) {
                return packed;
            }
            self.worker.packed_for = Some(self.outer);
            return pack_rhs(self.isa, dtype, self.launch, rhs, self.outer, self.input(input), Some(packed));
        }
        self.worker.packed_for = Some(self.outer);
        pack_rhs(self.isa, dtype, self.launch, rhs, self.outer, self.input(input), None)
    }

    fn store(&mut self, src: Reg, output: usize) {
        if matches!(self.worker.binds[usize::from(src.0)], Bind::Output(bound) if bound == output) {
            // It was computed there.
            return;
        }
        let (rows, cols) = self.part(output);
        let Some(mut window) = self.windows[output].take() else {
            // Another unit writes it.
            return;
        };
        let same = self.dims(self.vary(src)) == (rows.len(), cols.len());
        match (self.whole(src), window.dense_mut(rows.clone(), cols.clone())) {
            (Some(Source::Slice(bytes)), Some(out)) if same => out.copy_from_slice(bytes),
            (Some(Source::Splat(bits)), Some(out)) => movement::fill(out, self.size(src), bits),
            _ => window.write(rows, cols, |row| self.row(src, row)),
        }
        self.windows[output] = Some(window);
    }
}

/// Packs the right operand at one outer index, in the storage of `packed` if there is some.
pub(crate) fn pack_rhs(
    isa: Isa,
    dtype: crate::DType,
    launch: &Launch<'_>,
    rhs: usize,
    outer: usize,
    bytes: &[u8],
    packed: Option<PackedRhs>,
) -> PackedRhs {
    let views = launch.dot.as_ref().expect("a program with a dot resolves its operands");
    let view = &launch.views[rhs];
    let base = view.base + launch.grid.outer.offset(&view.outer, outer);
    let free: Vec<i64> = views.rhs_free.iter().map(|offset| base + offset).collect();
    let operand = DotOperand { bytes, free: &free, contract: &views.rhs_contract };
    match packed {
        Some(mut packed) => {
            packed.repack(isa, dtype, &operand);
            packed
        }
        None => PackedRhs::pack(isa, dtype, &operand),
    }
}
