//! Memory that several threads touch: buffers, disjoint parts of outputs, and borrows lent to worker threads.
//!
//! This is the crate's one module with `unsafe` outside [`simd`](crate::simd); its API is safe. Three things live here:
//!
//! - [`Block`]: an aligned, always initialised buffer whose allocation can fail without ending the process.
//! - `Partition`, `Outputs`, `Window`: outputs cut into units of work. A thread *claims* a unit and gets windows through
//!   which it alone can reach that unit's part of each output. Three facts make this sound: the map from index space to
//!   output elements is checked to be one to one when a `Partition` is made, units are disjoint boxes of the index space,
//!   and an atomic counter gives each unit out once. Nothing rests on the program, its planner or the thread pool being
//!   right. Rejected: slices handed out by offset, whose disjointness only the caller could know, and
//!   splitting outputs into byte intervals, which column blocks and transposed stores do not have.
//! - `lend`: a borrowed closure that long-lived threads may call until `lend` returns, which a thread pool needs and safe
//!   Rust cannot say.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Thread;

use smallvec::SmallVec;

use crate::lanes::Source;
use crate::machine::axes::{Axes, Strides, span};

/// Alignment of a block: a cache line, and the widest vector register.
const ALIGN: usize = 64;

/// Alignment up to which the system's zeroed allocation is lazy; a block makes up the rest itself.
const SYSTEM_ALIGN: usize = 16;

/// Host memory for a block could not be had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AllocError {
    bytes: usize,
}

impl AllocError {
    /// `bytes` were asked for.
    pub(crate) fn new(bytes: usize) -> Self {
        AllocError { bytes }
    }

    /// How many bytes were asked for.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl fmt::Display for AllocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the host has no {} bytes of memory left", self.bytes)
    }
}

impl std::error::Error for AllocError {}

#[repr(align(64))]
struct Line;

/// An owned buffer of bytes, aligned to 64, zero at first.
///
/// The memory is initialised from the start, so no read of it is ever undefined. Large blocks cost nothing for that: the
/// system's fresh pages are zero.
pub struct Block {
    /// First byte, aligned.
    data: NonNull<u8>,
    len: usize,
    /// What to free; `None` for an empty block.
    allocation: Option<(NonNull<u8>, Layout)>,
}

// SAFETY: a block owns its memory, like `Box<[u8]>`.
unsafe impl Send for Block {}
// SAFETY: as above; a shared block is only read.
unsafe impl Sync for Block {}

impl Block {
    /// `len` zero bytes.
    ///
    /// # Errors
    /// The host has no memory left; the process goes on.
    pub fn new(len: usize) -> Result<Block, AllocError> {
        if len == 0 {
            return Ok(Block { data: NonNull::<Line>::dangling().cast(), len, allocation: None });
        }
        let out_of_memory = AllocError { bytes: len };
        let size = len.checked_add(ALIGN - SYSTEM_ALIGN).ok_or(out_of_memory)?;
        let layout = Layout::from_size_align(size, SYSTEM_ALIGN).map_err(|_| out_of_memory)?;
        // SAFETY: the layout has a non-zero size.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(out_of_memory)?;
        let skip = start.align_offset(ALIGN);
        // SAFETY: `start` is aligned to 16, so `skip` is at most 48 and the block ends within the allocation.
        let data = unsafe { start.add(skip) };
        Ok(Block { data, len, allocation: Some((start, layout)) })
    }

    /// A copy of `bytes`.
    ///
    /// # Errors
    /// The host has no memory left.
    pub fn from_bytes(bytes: &[u8]) -> Result<Block, AllocError> {
        let mut block = Block::new(bytes.len())?;
        block.bytes_mut().copy_from_slice(bytes);
        Ok(block)
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The most bytes that [`resize`](Self::resize) can make it: what it was made with.
    pub fn capacity(&self) -> usize {
        self.allocation.map_or(0, |(_, layout)| layout.size() - (ALIGN - SYSTEM_ALIGN))
    }

    /// Makes it `len` bytes long without moving it, so that one block can serve buffers of different sizes in turn. All
    /// bytes up to the capacity are initialised; those gained hold whatever they held last.
    ///
    /// # Panics
    /// `len` is above the capacity.
    pub fn resize(&mut self, len: usize) {
        assert!(len <= self.capacity(), "a block of {} bytes cannot hold {len}", self.capacity());
        self.len = len;
    }

    /// The bytes.
    #[inline(always)]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `data` points to `len` initialised bytes that live as long as `self`.
        unsafe { std::slice::from_raw_parts(self.data.as_ptr(), self.len) }
    }

    /// The bytes.
    #[inline(always)]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.data.as_ptr(), self.len) }
    }
}

impl Default for Block {
    /// An empty block.
    fn default() -> Self {
        Block { data: NonNull::<Line>::dangling().cast(), len: 0, allocation: None }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if let Some((start, layout)) = self.allocation {
            // SAFETY: `start` came from the global allocator with this layout and is freed once.
            unsafe { dealloc(start.as_ptr(), layout) };
        }
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Block({} bytes)", self.len)
    }
}

/// A launch's index space, and how it is cut into units of work.
#[derive(Debug)]
pub(crate) struct Grid {
    /// Batch axes; a unit lies at one index of them.
    pub(crate) outer: Axes,
    /// Row axes.
    pub(crate) rows: Axes,
    /// Column axes.
    pub(crate) cols: Axes,
    /// Rows of a unit; the last may have fewer. At least 1.
    pub(crate) unit_rows: usize,
    /// Columns of a unit; the last may have fewer. At least 1.
    pub(crate) unit_cols: usize,
}

/// A box of the index space that one thread computes.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    /// Flat index along the outer axes.
    pub(crate) outer: usize,
    /// Its rows.
    pub(crate) rows: Range<usize>,
    /// Its columns.
    pub(crate) cols: Range<usize>,
}

impl Grid {
    /// Number of units. A domain without rows or columns still has one unit per outer index, with an empty range: a
    /// reduction over nothing has a result.
    pub(crate) fn units(&self) -> usize {
        self.outer.len() * self.row_units() * self.col_units()
    }

    fn row_units(&self) -> usize {
        self.rows.len().div_ceil(self.unit_rows).max(1)
    }

    fn col_units(&self) -> usize {
        self.cols.len().div_ceil(self.unit_cols).max(1)
    }

    /// Unit `n`: distinct `n` give boxes that share no index, as mixed-radix digits are distinct.
    fn unit(&self, n: usize) -> Unit {
        let (n, col) = (n / self.col_units(), n % self.col_units());
        let (outer, row) = (n / self.row_units(), n % self.row_units());
        let part = |at: usize, size: usize, len: usize| at * size..((at + 1) * size).min(len);
        Unit {
            outer,
            rows: part(row, self.unit_rows, self.rows.len()),
            cols: part(col, self.unit_cols, self.cols.len()),
        }
    }
}

/// Where an output's elements lie in the index space, in elements of the output.
#[derive(Debug)]
pub(crate) struct Footprint {
    /// Bytes of an element.
    pub(crate) size: usize,
    /// Offset at index 0.
    pub(crate) base: i64,
    /// Strides along [`Grid::outer`].
    pub(crate) outer: Strides,
    /// Strides along [`Grid::rows`].
    pub(crate) rows: Strides,
    /// Strides along [`Grid::cols`].
    pub(crate) cols: Strides,
}

/// A footprint that does not cover its output, each element once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BadFootprint {
    /// Number of the output.
    pub(crate) output: usize,
}

/// A grid with the footprints of outputs, each checked to map the index space onto its output one to one, apart from
/// groups of axes along which it does not move at all: those are written at index 0 only.
#[derive(Debug)]
pub(crate) struct Partition {
    grid: Grid,
    units: usize,
    targets: SmallVec<[Target; 2]>,
}

#[derive(Debug)]
struct Target {
    footprint: Footprint,
    /// Bytes of the output.
    len: usize,
    /// Whether it moves along the outer axes, the rows and the columns.
    moves: [bool; 3],
}

impl Partition {
    /// Checks the footprints, each given with the bytes of its output.
    pub(crate) fn new(
        grid: Grid,
        footprints: impl IntoIterator<Item = (Footprint, usize)>,
    ) -> Result<Self, BadFootprint> {
        let mut targets = SmallVec::new();
        for (output, (footprint, len)) in footprints.into_iter().enumerate() {
            let moves = bijection(&grid, &footprint, len).ok_or(BadFootprint { output })?;
            targets.push(Target { footprint, len, moves });
        }
        Ok(Partition { units: grid.units(), grid, targets })
    }

    /// The index space.
    #[inline(always)]
    pub(crate) fn grid(&self) -> &Grid {
        &self.grid
    }

    /// Number of units.
    pub(crate) fn units(&self) -> usize {
        self.units
    }
}

/// The outputs of a launch, given out unit by unit.
pub(crate) struct Outputs<'a> {
    partition: &'a Partition,
    /// First byte of each.
    data: SmallVec<[NonNull<u8>; 4]>,
    next: AtomicUsize,
    _blocks: PhantomData<&'a mut [Block]>,
}

// SAFETY: the pointers are only used through windows, which reach disjoint elements (see `Window`).
unsafe impl Sync for Outputs<'_> {}

/// One window per output; `None` where another unit writes what the output has of this one.
pub(crate) type Windows<'a> = SmallVec<[Option<Window<'a>>; 4]>;

impl<'a> Outputs<'a> {
    /// The outputs of `partition`, which have the sizes that it was made for.
    pub(crate) fn new(partition: &'a Partition, blocks: &'a mut [&mut Block]) -> Result<Self, BadFootprint> {
        assert_eq!(blocks.len(), partition.targets.len(), "every output has one footprint");
        for (output, (block, target)) in blocks.iter().zip(&partition.targets).enumerate() {
            if block.len() != target.len {
                return Err(BadFootprint { output });
            }
        }
        let data = blocks.iter_mut().map(|block| block.data).collect();
        Ok(Outputs { partition, data, next: AtomicUsize::new(0), _blocks: PhantomData })
    }

    /// The next unit that nobody has claimed, and exclusive access to its part of the outputs.
    pub(crate) fn claim(&self) -> Option<(Unit, Windows<'_>)> {
        // Stops counting at the end, so that repeated calls cannot wrap around and give a unit out twice.
        let units = self.partition.units;
        if self.next.load(Ordering::Relaxed) >= units {
            return None;
        }
        let n = self.next.fetch_add(1, Ordering::Relaxed);
        if n >= units {
            return None;
        }
        let unit = self.partition.grid.unit(n);
        let mut windows = SmallVec::new();
        for (target, &data) in self.partition.targets.iter().zip(&self.data) {
            windows.push(self.window(target, data, &unit));
        }
        Some((unit, windows))
    }

    fn window(&self, target: &'a Target, data: NonNull<u8>, unit: &Unit) -> Option<Window<'_>> {
        let Target { footprint, moves: [moves_outer, moves_rows, moves_cols], .. } = target;
        let grid = &self.partition.grid;
        let part = |moves: bool, range: &Range<usize>| match (moves, range.start) {
            (true, _) => Some(range.clone()),
            (false, 0) => Some(0..1),
            (false, _) => None,
        };
        if !moves_outer && unit.outer > 0 {
            return None;
        }
        Some(Window {
            data,
            size: footprint.size,
            base: footprint.base + grid.outer.offset(&footprint.outer, unit.outer),
            rows: &grid.rows,
            row_strides: &footprint.rows,
            cols: &grid.cols,
            col_strides: &footprint.cols,
            row_range: part(*moves_rows, &unit.rows)?,
            col_range: part(*moves_cols, &unit.cols)?,
            _exclusive: PhantomData,
        })
    }
}

/// Whether each element of a buffer of `bytes` bytes is hit exactly once; if so, which groups of axes the footprint
/// moves along.
fn bijection(grid: &Grid, footprint: &Footprint, bytes: usize) -> Option<[bool; 3]> {
    let groups = [(&grid.outer, &footprint.outer), (&grid.rows, &footprint.rows), (&grid.cols, &footprint.cols)];
    let mut axes = SmallVec::<[(usize, i64); 8]>::new();
    let mut moves = [false; 3];
    for (moves, (group, strides)) in moves.iter_mut().zip(groups) {
        if strides.len() != group.extents().len() {
            return None;
        }
        if !group.fixes(strides) {
            *moves = true;
            axes.extend(
                group.extents().iter().copied().zip(strides.iter().copied()).filter(|&(extent, _)| extent != 1),
            );
        }
    }
    let elements = axes.iter().try_fold(1usize, |product, &(extent, _)| product.checked_mul(extent))?;
    if elements.checked_mul(footprint.size)? != bytes {
        return None;
    }
    if elements == 0 {
        return Some(moves);
    }
    // As many points as elements, all in bounds: onto if one to one. One to one if each stride steps over all that the
    // smaller ones can reach.
    let (low, high) = span(footprint.base, axes.iter().map(|(extent, stride)| (extent, stride)))?;
    if low < 0 || high >= elements as i64 {
        return None;
    }
    axes.sort_unstable_by_key(|&(_, stride)| stride.unsigned_abs());
    let mut reach = 0u64;
    for &(extent, stride) in &axes {
        if stride.unsigned_abs() <= reach {
            return None;
        }
        reach += (extent as u64 - 1) * stride.unsigned_abs();
    }
    // An index space that is empty elsewhere has no unit to write them.
    (grid.units() > 0).then_some(moves)
}

/// Exclusive access to one unit's part of one output.
///
/// Rows and columns are named by their flat index in the launch; a group along which the output does not move has the
/// one index 0.
pub(crate) struct Window<'a> {
    data: NonNull<u8>,
    size: usize,
    base: i64,
    rows: &'a Axes,
    row_strides: &'a [i64],
    cols: &'a Axes,
    col_strides: &'a [i64],
    row_range: Range<usize>,
    col_range: Range<usize>,
    _exclusive: PhantomData<&'a mut [u8]>,
}

// SAFETY of every access through a window. `bijection` showed that within the index space, groups without movement
// pinned to 0, distinct indices are distinct elements inside the block. `Axes::offset` decomposes flat indices below
// `Axes::len` into such indices, and `check` refuses any other. A window's ranges lie in its unit's box, boxes are
// disjoint, each unit is claimed once, and a group without movement is given to the unit that holds its index 0 only. So
// no two windows reach the same element, and within one the borrow of `self` decides between one writer and readers.
// The block itself is borrowed exclusively for as long as windows live, is initialised, and is aligned to 64, so
// elements, whose size divides 64, are aligned.

impl Window<'_> {
    #[inline(always)]
    fn check(&self, rows: &Range<usize>, cols: &Range<usize>) {
        let within = |part: &Range<usize>, whole: &Range<usize>| {
            part.start <= part.end && whole.start <= part.start && part.end <= whole.end
        };
        assert!(
            within(rows, &self.row_range) && within(cols, &self.col_range),
            "a unit reaches only its own part of an output"
        );
    }

    /// Offset and length of the box, where its elements lie one after another, row by row.
    #[inline(always)]
    fn dense_span(&self, rows: &Range<usize>, cols: &Range<usize>) -> Option<(usize, usize)> {
        self.check(rows, cols);
        let (height, width) = (rows.len(), cols.len());
        if height == 0 || width == 0 {
            return Some((0, 0));
        }
        let along_cols = width == 1 || (self.cols.inner_stride(self.col_strides) == 1 && self.cols.is_one_run(cols));
        let along_rows =
            height == 1 || (self.rows.inner_stride(self.row_strides) == width as i64 && self.rows.is_one_run(rows));
        (along_cols && along_rows).then(|| {
            let offset = self.offset(rows.start) + self.cols.offset(self.col_strides, cols.start);
            (offset as usize * self.size, height * width * self.size)
        })
    }

    /// Offset of a row's column 0, in elements; `row` is in range.
    #[inline(always)]
    fn offset(&self, row: usize) -> i64 {
        self.base + self.rows.offset(self.row_strides, row)
    }

    /// Whether the box's elements lie one after another, row by row.
    #[inline(always)]
    pub(crate) fn is_dense(&self, rows: &Range<usize>, cols: &Range<usize>) -> bool {
        self.dense_span(rows, cols).is_some()
    }

    /// The box as one slice, where its elements lie one after another, row by row.
    #[inline(always)]
    pub(crate) fn dense(&self, rows: Range<usize>, cols: Range<usize>) -> Option<&[u8]> {
        let (offset, len) = self.dense_span(&rows, &cols)?;
        // SAFETY: see above; the span holds the box's elements and nothing else.
        Some(unsafe { std::slice::from_raw_parts(self.data.as_ptr().add(offset), len) })
    }

    /// The box as one slice, where its elements lie one after another, row by row.
    #[inline(always)]
    pub(crate) fn dense_mut(&mut self, rows: Range<usize>, cols: Range<usize>) -> Option<&mut [u8]> {
        let (offset, len) = self.dense_span(&rows, &cols)?;
        // SAFETY: as in `dense`, and `self` is borrowed exclusively.
        Some(unsafe { std::slice::from_raw_parts_mut(self.data.as_ptr().add(offset), len) })
    }

    /// Writes the box; `row` gives the source of each of its rows, counted from 0: as many elements as columns, or one
    /// for all.
    pub(crate) fn write<'s>(
        &mut self,
        rows: Range<usize>,
        cols: Range<usize>,
        mut row: impl FnMut(usize) -> Source<'s>,
    ) {
        self.check(&rows, &cols);
        let (size, stride) = (self.size, self.cols.inner_stride(self.col_strides));
        for (i, at) in rows.enumerate() {
            let source = row(i);
            if let Source::Slice(bytes) = source {
                assert_eq!(bytes.len(), cols.len() * size, "a stored row has the window's width");
            }
            let start = self.offset(at);
            self.cols.runs(self.col_strides, cols.clone(), |first, offset, len| {
                let source = match source {
                    Source::Slice(bytes) => Source::Slice(&bytes[first * size..][..len * size]),
                    Source::Splat(bits) => Source::Splat(bits),
                };
                let offset = (start + offset) as usize * size;
                if stride == 1 || len == 1 {
                    // SAFETY: see above; `len` neighbours in the box, and `self` is borrowed exclusively.
                    let run = unsafe { std::slice::from_raw_parts_mut(self.data.as_ptr().add(offset), len * size) };
                    match source {
                        Source::Slice(bytes) => run.copy_from_slice(bytes),
                        Source::Splat(bits) => crate::machine::movement::fill(run, size, bits),
                    }
                } else {
                    for k in 0..len {
                        // SAFETY: see above; each is an aligned element in the box.
                        unsafe {
                            let element =
                                self.data.as_ptr().add(offset).offset(k as isize * stride as isize * size as isize);
                            match (size, source) {
                                (1, Source::Slice(bytes)) => element.write(bytes[k]),
                                (4, Source::Slice(bytes)) => {
                                    element
                                        .cast::<[u8; 4]>()
                                        .write(bytes[k * 4..][..4].try_into().expect("four bytes"));
                                }
                                (_, Source::Slice(bytes)) => {
                                    std::ptr::copy_nonoverlapping(bytes[k * size..][..size].as_ptr(), element, size);
                                }
                                (_, Source::Splat(bits)) => {
                                    std::ptr::copy_nonoverlapping(bits.to_le_bytes()[..size].as_ptr(), element, size);
                                }
                            }
                        }
                    }
                }
            });
        }
    }

    /// Copies the box to `dst`, dense, row by row.
    pub(crate) fn read(&self, rows: Range<usize>, cols: Range<usize>, dst: &mut [u8]) {
        self.check(&rows, &cols);
        let (size, stride, width) = (self.size, self.cols.inner_stride(self.col_strides), cols.len());
        assert_eq!(dst.len(), rows.len() * width * size, "a copy of a window has its size");
        for (i, at) in rows.enumerate() {
            let start = self.offset(at);
            self.cols.runs(self.col_strides, cols.clone(), |first, offset, len| {
                let run = &mut dst[(i * width + first) * size..][..len * size];
                for (k, element) in run.chunks_exact_mut(size).enumerate() {
                    let offset = (start + offset + k as i64 * stride) as usize * size;
                    // SAFETY: see above; an element of the box.
                    let source = unsafe { std::slice::from_raw_parts(self.data.as_ptr().add(offset), size) };
                    element.copy_from_slice(source);
                }
            });
        }
    }
}

/// A closure that was lent to this thread; the lender waits until it is dropped.
pub(crate) struct Loan {
    task: *const (dyn Fn(usize) + Sync + 'static),
    ledger: Arc<Ledger>,
}

struct Ledger {
    /// Loans alive.
    loans: AtomicUsize,
    lender: Thread,
}

// SAFETY: the closure is `Sync`, and `lend` keeps it alive while there are loans.
unsafe impl Send for Loan {}
// SAFETY: as above.
unsafe impl Sync for Loan {}

impl Loan {
    /// Calls the closure.
    pub(crate) fn call(&self, index: usize) {
        // SAFETY: `lend` does not return, nor unwind, before this loan is dropped.
        unsafe { (*self.task)(index) }
    }
}

impl Clone for Loan {
    fn clone(&self) -> Self {
        self.ledger.loans.fetch_add(1, Ordering::Relaxed);
        Loan { task: self.task, ledger: Arc::clone(&self.ledger) }
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        // Release: what the closure did happens before the lender goes on.
        if self.ledger.loans.fetch_sub(1, Ordering::Release) == 1 {
            self.ledger.lender.unpark();
        }
    }
}

/// Runs `with` with a loan of `task` that it may clone and pass to other threads, and returns when all are dropped.
pub(crate) fn lend<'t, R>(task: &'t (dyn Fn(usize) + Sync + 't), with: impl FnOnce(Loan) -> R) -> R {
    /// Waits, also when `with` unwinds.
    struct Settle(Arc<Ledger>);
    impl Drop for Settle {
        fn drop(&mut self) {
            // Borrowers are mostly about to finish; a short spin saves the system call.
            for _ in 0..256 {
                if self.0.loans.load(Ordering::Acquire) == 0 {
                    return;
                }
                std::hint::spin_loop();
            }
            while self.0.loans.load(Ordering::Acquire) != 0 {
                std::thread::park();
            }
        }
    }
    let ledger = Arc::new(Ledger { loans: AtomicUsize::new(1), lender: std::thread::current() });
    let _settle = Settle(Arc::clone(&ledger));
    let task: *const (dyn Fn(usize) + Sync + 't) = task;
    // SAFETY: only the lifetime changes; `Settle` keeps this call from ending while a loan could use the pointer.
    let task = unsafe {
        std::mem::transmute::<*const (dyn Fn(usize) + Sync + 't), *const (dyn Fn(usize) + Sync + 'static)>(task)
    };
    with(Loan { task, ledger })
}
