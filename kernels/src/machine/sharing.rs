//! Which inputs may lie in the memory of which outputs: a pure function of the program.

use crate::program::{Extent, IndexComponent, IndexSource, Instr, Program, ReduceAlong, Reg};

use super::dataflow::{defined, is_large, last_use, operands, reg_stages, stores};

/// The pairs of [`Machine::in_place`](super::Machine::in_place).
pub(super) fn in_place(program: &Program) -> Vec<(u16, u16)> {
    let mut pairs = Vec::new();
    for input in 0..program.inputs {
        for (output, &store) in stores(program).iter().enumerate() {
            if may_share(program, input, store) {
                pairs.push((input, output as u16));
            }
        }
    }
    pairs
}

/// Whether `input` may lie in the memory that instruction `store` writes: whatever is read there is read by the tile
/// that writes it, and before it is written.
fn may_share(program: &Program, input: u16, store: usize) -> bool {
    let Instr::Store { src, access: stored } = &program.body[store] else {
        return false;
    };
    if program.buffers[usize::from(input)] != program.buffers[usize::from(stored.buffer)] {
        return false;
    }
    // Tiles differ along every axis but the reduced ones; if the store stands still along one of those, other tiles
    // could read what this one has overwritten.
    let (outer, rows) = (program.domain.outer.len(), program.domain.outer.len() + program.domain.rows.len());
    for (axis, extent) in program.domain.axes().enumerate() {
        let exempt = match program.reduce {
            Some(ReduceAlong::Cols) => axis >= rows,
            Some(ReduceAlong::Rows) => (outer..rows).contains(&axis),
            None => false,
        };
        let moves = stored.dims.iter().any(|dim| dim.axis.map(usize::from) == Some(axis) && dim.step != Extent::ZERO);
        if !(exempt || moves || extent == Extent::ONE) {
            return false;
        }
    }
    let stages = reg_stages(program);
    let needs = latest_needs(program, &stages);
    let written = stages[usize::from(src.0)];
    program.body.iter().enumerate().all(|(at, instr)| match instr {
        // A stage after the store would read it again.
        Instr::Load { dst, access } if access.buffer == input => {
            access.dims == stored.dims && at < store && needs[usize::from(dst.0)] <= written
        }
        Instr::Load { .. } | Instr::Lane { .. } | Instr::Scalar { .. } | Instr::Iota { .. } => true,
        Instr::Reduce { .. } | Instr::ArgReduce { .. } | Instr::Store { .. } => true,
        Instr::Overlay { buffer, .. } => *buffer != input,
        Instr::Gather { access, indices, .. } => {
            let in_it = |component: &IndexComponent| match &component.index {
                IndexSource::Memory(index) => index.buffer == input,
                IndexSource::Number(_) => false,
            };
            access.buffer != input && !indices.iter().any(in_it)
        }
        Instr::Dot { lhs, rhs, .. } => lhs.buffer != input && rhs.buffer != input,
    })
}

/// Whether a loaded register may be read from its buffer when the buffer shares an output's memory: only if the last
/// reader comes before anything is stored there. Registers that are computed ahead of their turn are always copied.
pub(super) fn may_view(program: &Program, load: usize, dst: Reg, buffer: u16) -> bool {
    let buffer = &program.buffers[usize::from(buffer)];
    let store = program.body.iter().position(|instr| match instr {
        Instr::Store { access, .. } => program.buffers[usize::from(access.buffer)] == *buffer,
        _ => false,
    });
    let last = last_use(program, dst).unwrap_or(load);
    is_large(program, dst) && store.is_none_or(|store| last < store)
}

/// For each register the last stage that reads it: that of the last reduction or store which it goes into.
fn latest_needs(program: &Program, stages: &[usize]) -> Vec<usize> {
    let mut needs = vec![0; program.regs.len()];
    for instr in program.body.iter().rev() {
        let operands = operands(instr);
        let ready = operands.iter().map(|operand| stages[usize::from(operand.0)]).max().unwrap_or(0);
        let need = match (instr, defined(instr)) {
            // The result of a reduction is kept, so its operands are done with.
            (Instr::Reduce { .. } | Instr::ArgReduce { .. }, _) | (_, None) => ready,
            (_, Some(dst)) => ready.max(needs[usize::from(dst.0)]),
        };
        for operand in operands {
            let slot = &mut needs[usize::from(operand.0)];
            *slot = need.max(*slot);
        }
    }
    needs
}
