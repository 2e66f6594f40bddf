//! The registers of one tile.
//!
//! A register is bound to where its value lies: to one number, to a slot of scratch memory, or, so that nothing is copied,
//! to the part of an input that it was loaded from or of the output that it is stored to.

use std::cell::Cell;
use std::ops::Range;

use crate::contract::PackedRhs;
use crate::dtype::DType;
use crate::lanes::Source;
use crate::memory::{AllocError, Block, Unit, Window, Windows};
use crate::program::{Program, Reg, Vary};
use crate::simd::Isa;

use super::Input;
use super::error::RunError;
use super::launch::{Launch, View};
use super::movement::{self, Along, Region};
use super::prepare::Prepared;

/// Scratch that a thread keeps between launches.
const KEPT_BYTES: usize = 16 << 20;

/// Where a register's value lies.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bind {
    Unset,
    /// One number at all points.
    Splat(u64),
    /// Dense, in the register's slot.
    Slot,
    /// In an input, from a byte offset, rows so many bytes apart.
    Input {
        input: usize,
        offset: usize,
        pitch: usize,
    },
    /// In the tile's part of an output.
    Output(usize),
}

/// A thread's scratch memory, kept between launches.
#[derive(Debug, Default)]
pub(crate) struct Worker {
    pub(super) slots: Vec<Block>,
    pub(super) binds: Vec<Bind>,
    /// Operands spread out.
    pub(super) spread: [Block; 3],
    /// Offsets of a contraction's rows.
    pub(super) offsets: Vec<i64>,
    /// A packed right operand, and the outer index and columns that it is of.
    pub(super) packed: Option<PackedRhs>,
    pub(super) packed_for: Option<(usize, Range<usize>)>,
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

    /// Keeps the storage of a packed operand of so many bytes for the next launch.
    pub(crate) fn put_packed(&mut self, packed: PackedRhs, bytes: usize) {
        self.packed_for = None;
        self.packed = (bytes <= KEPT_BYTES).then_some(packed);
    }
}

/// A block of at least `bytes` bytes in place of `block`, which is left empty.
#[inline(always)]
pub(super) fn take(block: &mut Block, bytes: usize) -> Result<Block, AllocError> {
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
    pub(super) fn vary(&self, reg: Reg) -> Vary {
        self.launch.resolved.vary[usize::from(reg.0)]
    }

    #[inline(always)]
    pub(super) fn size(&self, reg: Reg) -> usize {
        self.prepared.regs[usize::from(reg.0)].size
    }

    /// Height and width of a value that varies so.
    #[inline(always)]
    pub(super) fn dims(&self, vary: Vary) -> (usize, usize) {
        (if vary.rows { self.rows.len() } else { 1 }, if vary.cols { self.cols.len() } else { 1 })
    }

    #[inline(always)]
    pub(super) fn bind(&mut self, reg: Reg, bind: Bind) {
        self.worker.binds[usize::from(reg.0)] = bind;
    }

    pub(super) fn input(&self, input: usize) -> &'t [u8] {
        match self.launch.inputs[input] {
            Input::Bytes(bytes) => bytes,
            Input::Output(_) => {
                unreachable!("only loads read memory that is shared with an output")
            }
        }
    }

    /// The tile's part of an output, in the output's own rows and columns.
    #[inline(always)]
    pub(super) fn part(&self, output: usize) -> (Range<usize>, Range<usize>) {
        let vary = self.launch.resolved.views.anchors[self.prepared.stored(output)].vary;
        (if vary.rows { self.rows.clone() } else { 0..1 }, if vary.cols { self.cols.clone() } else { 0..1 })
    }

    /// The register as one dense slice, or as one number; `None` where its rows lie apart.
    #[inline(always)]
    pub(super) fn whole(&self, reg: Reg) -> Option<Source<'_>> {
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

    pub(super) fn bound_window(&self, output: usize) -> &Window<'t> {
        self.windows[output].as_ref().expect("a register is bound to an output only where the tile has a part of it")
    }

    /// The register at row `row` of the tile, counted from 0: its columns, or one number.
    #[inline(always)]
    pub(super) fn row(&self, reg: Reg, row: usize) -> Source<'_> {
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
    pub(super) fn number(&self, reg: Reg) -> u64 {
        match self.row(reg, 0) {
            Source::Splat(bits) => bits,
            Source::Slice(bytes) => movement::bits_at(bytes, self.size(reg), 0),
        }
    }

    /// The number of an integer register that varies along nothing, as an index.
    pub(super) fn index(&self, reg: Reg) -> i64 {
        let bits = self.number(reg);
        match self.program.regs[usize::from(reg.0)].dtype {
            DType::I32 => i64::from(bits as u32 as i32),
            DType::U32 | DType::I64 => bits as i64,
            DType::Bool | DType::F16 | DType::BF16 | DType::F32 => {
                unreachable!("validation admits integer indices only")
            }
        }
    }

    /// The register spread out over `height` × `width` points.
    pub(super) fn spread(&self, reg: Reg, height: usize, width: usize, dst: &mut [u8]) {
        let (size, vary) = (self.size(reg), self.vary(reg));
        match self.whole(reg) {
            Some(Source::Splat(bits)) => return movement::fill(dst, size, bits),
            Some(Source::Slice(bytes)) if vary.cols && !vary.rows => {
                return movement::repeat(bytes, dst);
            }
            Some(Source::Slice(bytes)) if vary.rows && !vary.cols => {
                return movement::widen(bytes, size, width, dst);
            }
            _ => {}
        }
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
    pub(super) fn produce(&mut self, dst: Reg, compute: impl FnOnce(&Self, &mut [u8])) -> Result<(), RunError> {
        let plan = self.prepared.regs[usize::from(dst.0)];
        let (height, width) = self.dims(self.vary(dst));
        if let Some(output) = plan.output.filter(|&output| !self.launch.shared[output]) {
            let (rows, cols) = self.part(output);
            if (rows.len(), cols.len()) == (height, width)
                && let Some(mut window) = self.windows[output].take_if(|window| window.is_dense(&rows, &cols))
            {
                compute(self, window.dense_mut(rows, cols).expect("a dense part is a slice"));
                self.windows[output] = Some(window);
                self.bind(dst, Bind::Output(output));
                return Ok(());
            }
        }
        let bytes = height * width * plan.size;
        let mut block = take(&mut self.worker.slots[plan.slot], bytes)?;
        compute(self, &mut block.bytes_mut()[..bytes]);
        self.worker.slots[plan.slot] = block;
        self.bind(dst, Bind::Slot);
        Ok(())
    }

    /// The tile's part of what an access reaches, without axes that it does not move along.
    pub(super) fn region(&self, view: View<'t>) -> Region<'t> {
        let grid = self.launch.resolved.grid();
        Region {
            base: view.base + grid.outer.offset(view.outer, self.outer),
            rows: Along { axes: &grid.rows, strides: view.rows },
            row_range: if view.vary.rows { self.rows.clone() } else { 0..1 },
            cols: Along { axes: &grid.cols, strides: view.cols },
            col_range: if view.vary.cols { self.cols.clone() } else { 0..1 },
        }
    }
}
