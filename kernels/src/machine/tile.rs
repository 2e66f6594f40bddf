//! The instructions that move and compute elements, over one tile.
//!
//! A lane operation is one vector loop where its operands have the result's layout or are one number; operands that vary
//! along fewer axes are taken row by row in wide tiles and spread out in narrow ones.

use smallvec::SmallVec;

use crate::lanes::{LaneFn, Source};
use crate::memory::Block;
use crate::program::{Reg, Vary};
use crate::scalar::Scalar;

use super::Input;
use super::error::RunError;
use super::launch::View;
use super::movement::{self, Laid, Picked, Region};
use super::placement::Overlaid;
use super::prepare::{Component, Pick, Step};
use super::registers::{Bind, Tile, take};

/// Below this width an operand is spread out rather than taken row by row: a copy is cheaper than a call.
const WIDE: usize = 512;
/// Below this width rows that lie apart are copied together rather than visited.
const APART: usize = 64;

impl<'t> Tile<'t> {
    /// Runs a step over the tile; reductions over all of it.
    #[inline]
    pub(crate) fn run(&mut self, at: usize) -> Result<(), RunError> {
        let prepared = self.prepared;
        if self.launch.resolved.empty {
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
            Step::Gather { dst, access, input, first, components } => {
                self.gather(*dst, *access, *input, &self.launch.resolved.components[*first..], components)
            }
            Step::Overlay { dst, background, input, number, onto, .. } => {
                self.overlay((*dst, *background), *input, &self.launch.resolved.overlays[*number], *onto)
            }
            Step::Scalar { dst, slot } => {
                let bits = self.launch.scalars[*slot];
                let bits = Scalar::from_bits(self.program.scalars[*slot], bits).bits();
                self.bind(*dst, Bind::Splat(bits));
                Ok(())
            }
            Step::Iota { dst, access } => {
                let dtype = self.program.regs[usize::from(dst.0)].dtype;
                self.produce(*dst, |tile, out| {
                    movement::iota(dtype, &tile.region(tile.launch.resolved.views.get(*access)), out)
                })
            }
            Step::Lane { dst, kernel, args } => self.lane(*dst, *kernel, args),
            Step::Reduce { dst, src, init, reducer, acc } => self.reduce(*dst, *src, *init, reducer, *acc),
            Step::ArgReduce { .. } => self.arg_reduce(at),
            Step::Dot { dst, lhs, rhs, lhs_input, rhs_input, terms } => {
                self.dot(*dst, (*lhs, *lhs_input), (*rhs, *rhs_input), *terms)
            }
            Step::Store { src, output, .. } => {
                self.store(*src, *output);
                Ok(())
            }
        }
    }

    #[inline]
    fn load(&mut self, dst: Reg, access: usize, input: usize, may_view: bool) -> Result<(), RunError> {
        let launch = self.launch;
        let view = launch.resolved.views.get(access);
        if !view.readable {
            // Nothing of it shows: the domain is empty.
            self.bind(dst, Bind::Splat(0));
            return Ok(());
        }
        match launch.inputs[input] {
            Input::Bytes(bytes) => self.load_at(dst, view, 0, input, bytes),
            Input::Output(output) => self.load_shared(dst, usize::from(output), may_view),
        }
    }

    /// Loads what a view reaches that is moved by so many elements.
    #[inline(always)]
    fn load_at(&mut self, dst: Reg, view: View<'t>, moved: i64, input: usize, bytes: &'t [u8]) -> Result<(), RunError> {
        let size = self.size(dst);
        let (height, width) = self.dims(view.vary);
        if height == 0 || width == 0 {
            self.bind(dst, Bind::Splat(0));
            return Ok(());
        }
        let mut region = self.region(view);
        region.base += moved;
        let start = region.base
            + if view.vary.rows { region.rows.offset(self.rows.start) } else { 0 }
            + if view.vary.cols { region.cols.offset(self.cols.start) } else { 0 };
        if height * width == 1 {
            let bits = movement::bits_at(bytes, size, start as usize * size);
            self.bind(dst, Bind::Splat(bits));
            return Ok(());
        }
        let pitch = region.rows.stride();
        let dense_row = width == 1 || (region.cols.stride() == 1 && region.cols.axes.is_one_run(&region.col_range));
        let even_rows = height == 1
            || (region.rows.axes.is_one_run(&region.row_range)
                && (pitch == width as i64 || (pitch > 0 && width >= APART)));
        if dense_row && even_rows {
            let (offset, pitch) = (start as usize * size, if height == 1 { 0 } else { pitch as usize * size });
            self.bind(dst, Bind::Input { input, offset, pitch });
            return Ok(());
        }
        self.produce(dst, |_, out| movement::read(bytes, size, &region, out))
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
        dst: Reg,
        access: usize,
        input: usize,
        limits: &[(i64, i64)],
        components: &[Component],
    ) -> Result<(), RunError> {
        let launch = self.launch;
        let view = launch.resolved.views.get(access);
        let unreadable = |access: usize| !launch.resolved.views.anchors[access].readable;
        if !view.readable || components.iter().filter_map(Component::access).any(unreadable) {
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
        // What is one number for the whole launch moves all of it.
        let mut moved = 0;
        let mut picked: SmallVec<[Picked<'_>; 1]> = SmallVec::new();
        for (component, &(greatest, stride)) in components.iter().zip(limits) {
            match component.pick {
                Pick::Number(number) => moved += self.index(number).clamp(0, greatest) * stride,
                Pick::Memory { access, input } => {
                    let view = launch.resolved.views.get(access);
                    picked.push(Picked {
                        index: self.input(input),
                        dtype: self.program.buffers[input].dtype,
                        region: over_result(self.region(view)),
                        by_col: view.vary.cols,
                        greatest,
                        stride,
                    });
                }
            }
        }
        if picked.is_empty() {
            return self.load_at(dst, view, moved, input, self.input(input));
        }
        let mut region = over_result(self.region(view));
        region.base += moved;
        let (bytes, size) = (self.input(input), self.size(dst));
        self.produce(dst, |_, out| movement::gather(bytes, size, &region, &picked, out))
    }

    /// Lays an input over a register. Where that lies in the output's memory, nothing else is written.
    fn overlay(
        &mut self,
        (dst, background): (Reg, Reg),
        input: usize,
        overlaid: &Overlaid,
        onto: Option<usize>,
    ) -> Result<(), RunError> {
        let grid = self.launch.resolved.grid();
        let overlaid = overlaid.moved(|number| self.index(number));
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
        let lies_in = |bound: usize| match self.worker.binds[usize::from(background.0)] {
            Bind::Output(output) => output == bound,
            Bind::Unset | Bind::Splat(_) | Bind::Slot | Bind::Input { .. } => false,
        };
        if let Some(output) = onto.filter(|&output| lies_in(output)) {
            let mut window = self.windows[output].take().expect("a register is bound to a part that the tile has");
            if let Some(laid) = laid {
                let (rows, cols) = self.part(output);
                if let Some(out) = window.dense_mut(rows.clone(), cols.clone()) {
                    movement::overlay(bytes, size, &laid, out);
                    self.windows[output] = Some(window);
                    self.bind(dst, Bind::Output(output));
                    return Ok(());
                }
                for (row, at) in laid.row_range.clone().zip(rows) {
                    let laid = Laid { row_range: row..row + 1, col_range: laid.col_range.clone(), ..laid };
                    let part = window.dense_mut(at..at + 1, cols.clone());
                    movement::overlay(bytes, size, &laid, part.expect("rows of a bound output are dense"));
                }
            }
            self.windows[output] = Some(window);
            self.bind(dst, Bind::Output(output));
            return Ok(());
        }
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
