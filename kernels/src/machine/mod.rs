//! The machine that runs tile programs.
//!
//! A [`Machine`] is a program that was validated and prepared once (`validate`, `prepare`, `dataflow`, `stages`,
//! `sharing`). Each launch resolves its parameters to strides (`launch`, `resolve`, `placement`) and decides how to cut
//! the index space (`tiling`). Then threads claim units of it and run the instructions over blocks that stay in cache, one
//! vector loop per instruction (`registers`, `tile`, `movement`, `accumulate`, [`lanes`](crate::lanes),
//! [`reduce`](crate::reduce), [`contract`](crate::contract)).
//!
//! # What keeps the bits
//!
//! Lane operations are functions of single elements. Reductions and contractions keep the contract's order whatever the
//! cut. Work is split over outputs only. So neither tiles, threads, instruction sets nor shared memory can show in a
//! result, and the tests compare them all with a slow interpreter of programs.
//!
//! # What it does not do
//!
//! It fuses and reorders nothing: that was decided when the program was built. It does not look at values, except to
//! clamp the indices of gathers.
//!
//! Rejected: compiling programs to machine code, which would make the first run of each structure wait, for a gain that
//! blocks of a few thousand elements leave no room for; and loops specialised per program, which cannot serve a program
//! that was not known when the crate was compiled.

mod accumulate;
mod arg_reduce;
pub(crate) mod axes;
mod dataflow;
mod error;
mod launch;
pub(crate) mod movement;
mod placement;
mod prepare;
mod registers;
mod resolve;
mod sharing;
mod stages;
mod tile;
mod tiling;
mod validate;

use std::hash::{Hash, Hasher};

use parking_lot::Mutex;

pub use error::{InvalidProgram, RunError};

use crate::contract::PackedRhs;
use crate::memory::{BadFootprint, Block, Outputs};
use crate::parallel::Parallel;
use crate::program::{Program, ReduceAlong};
use crate::simd::{Isa, with_default_float_environment};

use launch::{Launch, Resolved};
use prepare::{Prepared, Step};
use registers::{Tile, Worker};
use stages::Stage;
use tiling::Walk;

/// An input of a launch.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// Memory of its own, aligned to the element's size.
    Bytes(&'a [u8]),
    /// The memory of output `n`, counted from 0 among the outputs, which holds the input's contents when the launch
    /// begins. Input and output must be one of the pairs of [`Machine::in_place`].
    Output(u16),
}

/// A program prepared for one instruction set. One machine serves any number of threads and sizes.
#[derive(Debug)]
pub struct Machine {
    program: Program,
    prepared: Prepared,
    isa: Isa,
    fingerprint: u64,
    /// The arithmetic of the last launch: see `launch`.
    last: Mutex<Option<Box<Resolved>>>,
}

/// Whether a machine can be made of `program`.
///
/// # Errors
/// The first rule of [`program`](crate::program) that it breaks.
pub fn check(program: &Program) -> Result<(), InvalidProgram> {
    validate::validate(program)
}

/// A hash of `program`; equal for equal programs.
pub fn fingerprint(program: &Program) -> u64 {
    let mut hasher = rustc_hash::FxHasher::default();
    program.hash(&mut hasher);
    hasher.finish()
}

/// The pairs of an input and an output (counted from 0 among the outputs) that may be the same memory, because each tile
/// reads there only what it then overwrites. A function of the program, which has passed [`check`].
pub fn in_place(program: &Program) -> Vec<(u16, u16)> {
    sharing::in_place(program)
}

impl Machine {
    /// Prepares `program`.
    ///
    /// # Errors
    /// The program breaks a rule of [`program`](crate::program).
    pub fn new(program: Program, isa: Isa) -> Result<Machine, InvalidProgram> {
        check(&program)?;
        let prepared = prepare::prepare(&program);
        let fingerprint = fingerprint(&program);
        Ok(Machine { program, prepared, isa, fingerprint, last: Mutex::new(None) })
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The instruction set it runs on.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// The program's [`fingerprint`].
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// The program's [`in_place`] pairs.
    pub fn in_place(&self) -> &[(u16, u16)] {
        &self.prepared.in_place
    }

    /// Runs the program: `inputs` and `outputs` are dense, row-major, of exactly the bytes that their types take.
    ///
    /// # Errors
    /// Arguments that do not fit the program, or no memory left for scratch; outputs then hold unspecified values.
    pub fn run(
        &self,
        params: &[i64],
        scalars: &[u64],
        inputs: &[Input<'_>],
        outputs: &mut [&mut Block],
        pool: &dyn Parallel,
    ) -> Result<(), RunError> {
        with_default_float_environment(|| {
            launch::check_counts(&self.program, params, scalars, inputs, outputs)?;
            let last = self.last.lock().take().filter(|last| last.is_for(params, pool));
            let resolved = match last {
                Some(last) => last,
                None => resolve::resolve(&self.program, &self.prepared, params, pool)?,
            };
            let done = self.launch(&resolved, scalars, inputs, outputs, pool);
            if resolved.is_small() {
                *self.last.lock() = Some(resolved);
            }
            done
        })
    }

    fn launch(
        &self,
        resolved: &Resolved,
        scalars: &[u64],
        inputs: &[Input<'_>],
        outputs: &mut [&mut Block],
        pool: &dyn Parallel,
    ) -> Result<(), RunError> {
        let mut launch = Launch::new(&self.prepared, resolved, scalars, inputs, outputs)?;
        if resolved.empty && outputs.iter().all(|output| output.is_empty()) {
            return Ok(());
        }
        let Some((packed, bytes)) = self.pack_shared(&launch) else {
            return self.run_units(&launch, outputs, pool);
        };
        launch.packed = Some(&packed);
        let done = self.run_units(&launch, outputs, pool);
        Worker::with(|worker| worker.put_packed(packed, bytes));
        done
    }

    /// Packs the right operand of a contraction that has one outer index for all units, with its size; or nothing, where
    /// each unit has all rows of its columns and so packs what no other needs.
    fn pack_shared(&self, launch: &Launch<'_>) -> Option<(PackedRhs, usize)> {
        let &Step::Dot { rhs, rhs_input, terms, .. } = &self.prepared.steps[self.prepared.dot?] else {
            unreachable!("the dot of a program is a dot");
        };
        let Input::Bytes(bytes) = launch.inputs[rhs_input] else {
            unreachable!("an operand of a dot does not share memory with an output");
        };
        let grid = launch.resolved.grid();
        if grid.outer.len() != 1 || grid.unit_rows >= grid.rows.len() || launch.resolved.dot_offsets().few {
            return None;
        }
        let dtype = self.program.buffers[rhs_input].dtype;
        let storage = Worker::with(Worker::take_packed);
        let packed = accumulate::pack_rhs(
            self.isa,
            (dtype, terms),
            launch.resolved,
            rhs,
            (0, 0..grid.cols.len()),
            bytes,
            storage,
        );
        Some((packed, bytes.len()))
    }

    fn run_units(&self, launch: &Launch<'_>, outputs: &mut [&mut Block], pool: &dyn Parallel) -> Result<(), RunError> {
        let partition = &launch.resolved.partition;
        let outputs = Outputs::new(partition, outputs).map_err(|BadFootprint { output }| {
            RunError::arguments(format!("output {output} has not the size that `{}` writes", self.program.name))
        })?;
        let failure = Mutex::new(None);
        let work = || {
            with_default_float_environment(|| {
                Worker::with(|worker| {
                    worker.begin_launch();
                    while let Some(claimed) = outputs.claim() {
                        worker.begin(&self.prepared);
                        let tile = Tile::new(&self.program, &self.prepared, launch, self.isa, worker, claimed);
                        if let Err(error) = self.run_unit(tile) {
                            failure.lock().get_or_insert(error);
                            break;
                        }
                    }
                });
            });
        };
        let threads = launch.resolved.threads.min(partition.units());
        if threads > 1 {
            pool.run(threads, &|_| work());
        }
        // All of it with one thread, and what a pool left over otherwise.
        if failure.lock().is_none() {
            work();
        }
        failure.into_inner().map_or(Ok(()), Err)
    }

    fn run_unit(&self, tile: Tile<'_>) -> Result<(), RunError> {
        match tile.launch.resolved.walk {
            Walk::Blocks(rows) => self.in_blocks(tile, rows),
            Walk::Stream(chunk) => self.streamed(tile, chunk),
        }
    }

    /// Walks a unit in blocks of rows. What does not vary from row to row is computed once, ahead of them.
    fn in_blocks(&self, mut tile: Tile<'_>, block: usize) -> Result<(), RunError> {
        let unit = tile.rows.clone();
        if unit.len() <= 1 || self.program.reduce == Some(ReduceAlong::Rows) {
            return (0..self.prepared.steps.len()).try_for_each(|at| tile.run(at));
        }
        let resolved = tile.launch.resolved;
        for &at in &resolved.ahead {
            tile.run(usize::from(at))?;
        }
        for start in unit.clone().step_by(block) {
            tile.rows = start..(start + block).min(unit.end);
            for &at in &resolved.by_row {
                tile.run(usize::from(at))?;
            }
        }
        Ok(())
    }

    /// Streams the reduced index in chunks, once per stage.
    fn streamed(&self, mut tile: Tile<'_>, chunk: usize) -> Result<(), RunError> {
        let along = self.program.reduce.expect("only reductions stream");
        let (rows, cols) = (tile.rows.clone(), tile.cols.clone());
        for Stage { resident, chunked, reductions } in &self.prepared.stages {
            (tile.rows, tile.cols) = (rows.clone(), cols.clone());
            for &at in resident {
                tile.run(at)?;
            }
            if chunked.is_empty() {
                continue;
            }
            let reduced = match along {
                ReduceAlong::Cols => cols.clone(),
                ReduceAlong::Rows => rows.clone(),
            };
            for start in reduced.clone().step_by(chunk) {
                let part = start..(start + chunk).min(reduced.end);
                match along {
                    ReduceAlong::Cols => tile.cols = part,
                    ReduceAlong::Rows => tile.rows = part,
                }
                for &at in chunked {
                    if reductions.contains(&at) { tile.feed_reduction(at)? } else { tile.run(at)? }
                }
            }
            (tile.rows, tile.cols) = (rows.clone(), cols.clone());
            for &at in reductions {
                tile.finish_reduction(at)?;
            }
        }
        Ok(())
    }
}
