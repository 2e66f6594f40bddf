//! Reductions and contractions over one tile.

use std::ops::Range;

use crate::contract::{DotOperand, PackedRhs, Terms, dot, dot_few};
use crate::dtype::DType;
use crate::lanes::Source;
use crate::program::{ReduceAlong, Reg};
use crate::reduce::Reducer;
use crate::simd::Isa;

use super::error::RunError;
use super::launch::Resolved;
use super::prepare::Step;
use super::registers::{Tile, take};

impl Tile<'_> {
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

    pub(super) fn reduce(
        &mut self,
        dst: Reg,
        src: Reg,
        init: Reg,
        reducer: &Reducer,
        acc: usize,
    ) -> Result<(), RunError> {
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

    pub(super) fn along(&self) -> ReduceAlong {
        self.program.reduce.expect("validation admits reductions only with a direction")
    }

    pub(super) fn is_dense(&self, reg: Reg, dims: (usize, usize)) -> bool {
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
                    for (row, lanes) in
                        bytes.chunks_exact(bytes.len() / dims.0.max(1)).zip(lanes.chunks_exact_mut(per_row))
                    {
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
        let grid = self.launch.resolved.grid();
        self.produce(dst, |_, out| match along {
            ReduceAlong::Rows => {
                let bytes = reducer.row_acc(out.len() / size);
                reducer.finish_rows(isa, &mut block.bytes_mut()[..bytes], grid.rows.len(), init, out);
            }
            ReduceAlong::Cols => {
                let lanes = block.bytes_mut().chunks_exact_mut(reducer.col_acc(1));
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
            Step::ArgReduce { .. } => self.feed_arg(at),
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
            Step::ArgReduce { .. } => self.finish_arg(at),
            other => unreachable!("only reductions have accumulators, not {other:?}"),
        }
    }

    pub(super) fn dot(
        &mut self,
        dst: Reg,
        (lhs, lhs_input): (usize, usize),
        (rhs, rhs_input): (usize, usize),
        terms: Terms,
    ) -> Result<(), RunError> {
        let launch = self.launch;
        let offsets = launch.resolved.dot_offsets();
        let dtype = self.program.buffers[lhs_input].dtype;
        let result = self.program.regs[usize::from(dst.0)].dtype;
        let isa = self.isa;
        if offsets.few {
            return self.dot_few(dst, (lhs, lhs_input), (rhs, rhs_input));
        }
        let own = match launch.packed {
            Some(_) => None,
            None => Some(self.pack((dtype, terms), rhs, rhs_input)),
        };
        let mut free = std::mem::take(&mut self.worker.offsets);
        let region = self.region(launch.resolved.views.get(lhs));
        free.clear();
        free.extend(self.rows.clone().map(|row| region.base + region.rows.offset(row)));
        let operand = DotOperand { bytes: self.input(lhs_input), free: &free, contract: &offsets.lhs_contract };
        let (packed, cols) = match (&own, launch.packed) {
            (Some(own), _) => (own, 0..self.cols.len()),
            (None, shared) => (shared.expect("the right operand is packed"), self.cols.clone()),
        };
        let produced = self.produce(dst, |_, out| dot(isa, (dtype, result), &operand, packed, cols, out));
        self.worker.offsets = free;
        if own.is_some() {
            self.worker.packed = own;
        }
        produced
    }

    /// The contraction of few rows: these are packed, once per thread, and the right operand is read where it lies.
    fn dot_few(
        &mut self,
        dst: Reg,
        (lhs, lhs_input): (usize, usize),
        (rhs, rhs_input): (usize, usize),
    ) -> Result<(), RunError> {
        let resolved = self.launch.resolved;
        let offsets = resolved.dot_offsets();
        let isa = self.isa;
        let rows = (self.outer, self.rows.clone());
        let packed = match self.worker.packed.take() {
            Some(packed) if self.worker.packed_for.as_ref() == Some(&rows) => packed,
            packed => {
                self.worker.packed_for = Some(rows);
                let region = self.region(resolved.views.get(lhs));
                let free: Vec<i64> = self.rows.clone().map(|row| region.base + region.rows.offset(row)).collect();
                let operand = DotOperand { bytes: self.input(lhs_input), free: &free, contract: &offsets.lhs_contract };
                pack(isa, (DType::F32, Terms::IEEE), &operand, packed)
            }
        };
        let view = resolved.views.get(rhs);
        let base = view.base + resolved.grid().outer.offset(view.outer, self.outer);
        let mut free = std::mem::take(&mut self.worker.offsets);
        free.clear();
        free.extend(offsets.rhs_free[self.cols.clone()].iter().map(|offset| base + offset));
        let operand = DotOperand { bytes: self.input(rhs_input), free: &free, contract: &offsets.rhs_contract };
        let produced = self.produce(dst, |_, out| dot_few(isa, &packed, &operand, out));
        self.worker.offsets = free;
        self.worker.packed = Some(packed);
        produced
    }

    /// This unit's columns of the right operand, packed by this thread and taken out of its scratch memory.
    fn pack(&mut self, factors: (DType, Terms), rhs: usize, input: usize) -> PackedRhs {
        let unit = (self.outer, self.cols.clone());
        let packed = self.worker.packed.take();
        match packed {
            Some(packed) if self.worker.packed_for.as_ref() == Some(&unit) => packed,
            packed => {
                self.worker.packed_for = Some(unit);
                let (resolved, cols) = (self.launch.resolved, self.cols.clone());
                pack_rhs(self.isa, factors, resolved, rhs, (self.outer, cols), self.input(input), packed)
            }
        }
    }
}

/// Packs columns of the right operand at one outer index, in the storage of `packed` if there is some.
pub(super) fn pack_rhs(
    isa: Isa,
    factors: (DType, Terms),
    resolved: &Resolved,
    rhs: usize,
    (outer, cols): (usize, Range<usize>),
    bytes: &[u8],
    packed: Option<PackedRhs>,
) -> PackedRhs {
    let offsets = resolved.dot_offsets();
    let view = resolved.views.get(rhs);
    let base = view.base + resolved.grid().outer.offset(view.outer, outer);
    let moved: Vec<i64>;
    let free = if base == 0 {
        &offsets.rhs_free[cols]
    } else {
        moved = offsets.rhs_free[cols].iter().map(|offset| base + offset).collect();
        &moved
    };
    let operand = DotOperand { bytes, free, contract: &offsets.rhs_contract };
    pack(isa, factors, &operand, packed)
}

/// Packs an operand, in the storage of `packed` if there is some.
fn pack(isa: Isa, (dtype, terms): (DType, Terms), operand: &DotOperand<'_>, packed: Option<PackedRhs>) -> PackedRhs {
    match packed {
        Some(mut packed) => {
            packed.repack(isa, dtype, terms, operand);
            packed
        }
        None => PackedRhs::pack(isa, dtype, terms, operand),
    }
}
