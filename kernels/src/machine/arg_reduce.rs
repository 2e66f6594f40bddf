//! Arg-reductions over one tile: two registers in, one out.
//!
//! Along columns, a register of indices that is the same in every row is read once for all of them.

use crate::arg_reduce::{ArgReducer, Rows};
use crate::lanes::Source;
use crate::memory::Block;
use crate::program::{ReduceAlong, Reg, Winner};

use super::error::RunError;
use super::prepare::Step;
use super::registers::{Tile, take};

/// An arg-reduction step.
struct Search<'p> {
    dst: Reg,
    values: Reg,
    indices: Reg,
    init: (Reg, Reg),
    reducer: &'p ArgReducer,
    wanted: Winner,
    acc: usize,
}

impl<'t> Tile<'t> {
    fn search(&self, at: usize) -> Search<'t> {
        match &self.prepared.steps[at] {
            &Step::ArgReduce { dst, values, indices, init, ref reducer, wanted, acc } => {
                Search { dst, values, indices, init, reducer, wanted, acc }
            }
            other => unreachable!("the step is an arg-reduction, not {other:?}"),
        }
    }

    /// Runs arg-reduction `at` over all of what it reduces.
    pub(super) fn arg_reduce(&mut self, at: usize) -> Result<(), RunError> {
        if self.along() == ReduceAlong::Rows {
            self.feed_arg(at)?;
            return self.finish_arg(at);
        }
        let Search { dst, values, indices, init, reducer, wanted, .. } = self.search(at);
        let width = self.cols.len();
        let heights = (self.dims(self.vary(values)).0, self.dims(self.vary(indices)).0);
        let height = heights.0.max(heights.1);
        let (isa, init) = (self.isa, (self.number(init.0), self.number(init.1)));
        let spread = [self.spread_out(values, (height, width), 0)?, self.spread_out(indices, (heights.1, width), 1)?];
        let produced = self.produce(dst, |tile, out| {
            let values = tile.elements(values, (height, width), &spread[0]);
            let indices = tile.elements(indices, (heights.1, width), &spread[1]);
            reducer.whole_cols(isa, Rows { values, indices, width }, init, wanted, out);
        });
        self.put_back(spread);
        produced
    }

    /// Takes the tile into arg-reduction `at`'s accumulator, which starts anew at the first chunk.
    pub(super) fn feed_arg(&mut self, at: usize) -> Result<(), RunError> {
        let Search { values, indices, reducer, acc, .. } = self.search(at);
        let vary = self.vary(values).join(self.vary(indices));
        let (rows, cols) = (self.rows.clone(), self.cols.clone());
        let along = self.along();
        let (dims, bytes, first) = match along {
            ReduceAlong::Cols => {
                let height = if vary.rows { rows.len() } else { 1 };
                ((height, cols.len()), reducer.col_acc(height), cols.start == 0)
            }
            ReduceAlong::Rows => {
                let width = if vary.cols { cols.len() } else { 1 };
                ((rows.len(), width), reducer.row_acc(width), rows.start == 0)
            }
        };
        let mut block = take(&mut self.worker.slots[acc], bytes)?;
        let lanes = &mut block.bytes_mut()[..bytes];
        let spread = [self.spread_out(values, dims, 0)?, self.spread_out(indices, dims, 1)?];
        let isa = self.isa;
        let (value_size, index_size) = (self.size(values), self.size(indices));
        let values = self.elements(values, dims, &spread[0]);
        let indices = self.elements(indices, dims, &spread[1]);
        match along {
            ReduceAlong::Rows => {
                if first {
                    reducer.reset_rows(lanes, dims.1);
                }
                reducer.feed_rows(isa, lanes, values, indices, dims.1);
            }
            ReduceAlong::Cols => {
                for (row, lanes) in lanes.chunks_exact_mut(reducer.col_acc(1)).enumerate() {
                    if first {
                        reducer.reset_cols(lanes);
                    }
                    let (value_pitch, index_pitch) = (dims.1 * value_size, dims.1 * index_size);
                    let values = &values[row * value_pitch..(row + 1) * value_pitch];
                    let indices = &indices[row * index_pitch..(row + 1) * index_pitch];
                    reducer.feed_cols(isa, lanes, values, indices);
                }
            }
        }
        self.put_back(spread);
        self.worker.slots[acc] = block;
        Ok(())
    }

    /// The result of arg-reduction `at` from its accumulator.
    pub(super) fn finish_arg(&mut self, at: usize) -> Result<(), RunError> {
        let Search { dst, values, indices, init, reducer, wanted, acc } = self.search(at);
        let vary = self.vary(values).join(self.vary(indices));
        let (isa, init) = (self.isa, (self.number(init.0), self.number(init.1)));
        let along = self.along();
        let grid = self.launch.resolved.grid();
        let (bytes, fed) = match along {
            ReduceAlong::Cols => (reducer.col_acc(if vary.rows { self.rows.len() } else { 1 }), grid.cols.len() > 0),
            ReduceAlong::Rows => (reducer.row_acc(if vary.cols { self.cols.len() } else { 1 }), grid.rows.len() > 0),
        };
        let size = self.size(dst);
        let mut block = take(&mut self.worker.slots[acc], bytes)?;
        let lanes = &mut block.bytes_mut()[..bytes];
        let produced = self.produce(dst, |_, out| match along {
            ReduceAlong::Rows => {
                if !fed {
                    reducer.reset_rows(lanes, out.len() / size);
                }
                reducer.finish_rows(isa, lanes, init, wanted, out);
            }
            ReduceAlong::Cols => {
                for (out, lanes) in out.chunks_exact_mut(size).zip(lanes.chunks_exact_mut(reducer.col_acc(1))) {
                    if !fed {
                        reducer.reset_cols(lanes);
                    }
                    reducer.finish_cols(isa, lanes, init, wanted, out);
                }
            }
        });
        self.worker.slots[acc] = block;
        produced
    }

    /// The register spread out over `dims`, in scratch block `number`, where it does not lie so; that block otherwise.
    fn spread_out(&mut self, reg: Reg, dims: (usize, usize), number: usize) -> Result<Block, RunError> {
        if self.is_dense(reg, dims) {
            return Ok(std::mem::take(&mut self.worker.spread[number]));
        }
        let bytes = dims.0 * dims.1 * self.size(reg);
        let mut block = take(&mut self.worker.spread[number], bytes)?;
        self.spread(reg, dims.0, dims.1, &mut block.bytes_mut()[..bytes]);
        Ok(block)
    }

    fn put_back(&mut self, spread: [Block; 2]) {
        let [values, indices] = spread;
        (self.worker.spread[0], self.worker.spread[1]) = (values, indices);
    }

    /// The register's elements over `dims`: where it lies, or in the block that it was spread out to.
    fn elements<'a>(&'a self, reg: Reg, dims: (usize, usize), spread: &'a Block) -> &'a [u8] {
        let bytes = dims.0 * dims.1 * self.size(reg);
        match self.whole(reg) {
            Some(Source::Slice(whole)) if self.is_dense(reg, dims) => whole,
            Some(_) | None => &spread.bytes()[..bytes],
        }
    }
}
