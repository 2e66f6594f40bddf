//! Which inputs may lie in the memory of which outputs: a pure function of the program.

use crate::program::{Extent, IndexComponent, IndexSource, Instr, Program, ReduceAlong, Reg};

use super::dataflow::{defined, is_large, last_uses, operands, reg_stages, stores};

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
/// `last` is the last reader, if there is one.
pub(super) fn may_view(program: &Program, load: usize, last: Option<usize>, dst: Reg, buffer: u16) -> bool {
    let buffer = &program.buffers[usize::from(buffer)];
    let store = program.body.iter().position(|instr| match instr {
        Instr::Store { access, .. } => program.buffers[usize::from(access.buffer)] == *buffer,
        _ => false,
    });
    is_large(program, dst) && store.is_none_or(|store| last.unwrap_or(load) < store)
}

/// For each instruction the output in whose memory it may be laid, should the background lie there already. That holds
/// for overlays one over the other, from a load to a store: nobody else reads what they give, so that the store finds it
/// in place, and nobody reads the memory after the first of them.
pub(super) fn laid_onto(program: &Program, pairs: &[(u16, u16)]) -> Vec<Option<usize>> {
    let mut laid = vec![None; program.body.len()];
    if program.reduce.is_some() {
        return laid;
    }
    let (readers, last_uses) = (sole_readers(program), last_uses(program));
    let overlaid = |instr: &Instr| match instr {
        &Instr::Overlay { dst, background, .. } => Some((dst, background)),
        Instr::Load { .. }
        | Instr::Gather { .. }
        | Instr::Scalar { .. }
        | Instr::Iota { .. }
        | Instr::Lane { .. }
        | Instr::Reduce { .. }
        | Instr::ArgReduce { .. }
        | Instr::Dot { .. }
        | Instr::Store { .. } => None,
    };
    for instr in &program.body {
        let Instr::Load { dst, access } = instr else { continue };
        let (mut value, mut chain) = (*dst, Vec::new());
        let stored = loop {
            let Some(reader) = readers[usize::from(value.0)] else { break None };
            match (&program.body[reader], overlaid(&program.body[reader])) {
                (Instr::Store { access, .. }, _) => break Some(access.buffer - program.inputs),
                (_, Some((above, background))) if background == value => {
                    chain.push(reader);
                    value = above;
                }
                _ => break None,
            }
        };
        let (Some(output), Some(&first)) = (stored, chain.first()) else { continue };
        let read_later = |instr: &Instr| match instr {
            Instr::Load { dst, access: other } => {
                other.buffer == access.buffer && last_uses[usize::from(dst.0)].is_some_and(|last| last > first)
            }
            // What may share memory is loaded and nothing else.
            Instr::Gather { .. }
            | Instr::Overlay { .. }
            | Instr::Scalar { .. }
            | Instr::Iota { .. }
            | Instr::Lane { .. }
            | Instr::Reduce { .. }
            | Instr::ArgReduce { .. }
            | Instr::Dot { .. }
            | Instr::Store { .. } => false,
        };
        if pairs.contains(&(access.buffer, output)) && !program.body.iter().any(read_later) {
            chain.into_iter().for_each(|overlay| laid[overlay] = Some(usize::from(output)));
        }
    }
    laid
}

/// For each register the one instruction that reads it, where it is one.
fn sole_readers(program: &Program) -> Vec<Option<usize>> {
    let mut readers = vec![None; program.regs.len()];
    let mut several = vec![false; program.regs.len()];
    for (at, instr) in program.body.iter().enumerate() {
        for reg in operands(instr) {
            let reader = &mut readers[usize::from(reg.0)];
            several[usize::from(reg.0)] |= reader.is_some_and(|other| other != at);
            *reader = Some(at);
        }
    }
    readers.into_iter().zip(several).map(|(reader, several)| reader.filter(|_| !several)).collect()
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

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;
    use crate::DType;
    use crate::program::{Access, BufferType, DimMap, Domain, LaneOp, Low, Placement, RegType, Vary};

    /// A row of `n` elements with parts laid over it, one after another; `also` says what else is made of the row.
    fn updates(parts: u16, also: impl Fn(&mut Program)) -> Program {
        let buffer = |extent| BufferType { dtype: DType::F32, shape: smallvec![extent] };
        let access = |buffer| Access { buffer, dims: smallvec![DimMap::along(0)] };
        let reg = RegType { dtype: DType::F32, vary: Vary::BOTH };
        let mut body = vec![Instr::Load { dst: Reg(0), access: access(0) }];
        for part in 1..=parts {
            let placement = smallvec![Placement { axis: 0, low: Low::At(Extent::Param(1)), interior: Extent::ZERO }];
            body.push(Instr::Overlay { dst: Reg(part), background: Reg(part - 1), buffer: part, placement });
        }
        body.push(Instr::Store { src: Reg(parts), access: access(parts + 1) });
        let mut buffers = vec![buffer(Extent::Param(0))];
        buffers.extend((0..parts).map(|_| buffer(Extent::Param(2))));
        buffers.push(buffer(Extent::Param(0)));
        let mut program = Program {
            name: String::from("updates"),
            params: 3,
            scalars: Vec::new(),
            inputs: parts + 1,
            buffers,
            domain: Domain { cols: smallvec![Extent::Param(0)], ..Domain::default() },
            reduce: None,
            contract: smallvec![],
            regs: vec![reg; usize::from(parts) + 1],
            body,
        };
        also(&mut program);
        super::super::Machine::new(program.clone(), crate::simd::Isa::PORTABLE).expect("a valid program");
        program
    }

    fn laid(program: &Program) -> Vec<Option<usize>> {
        laid_onto(program, &in_place(program))
    }

    #[test]
    fn an_update_of_memory_that_may_be_overwritten_is_laid_there() {
        assert_eq!(laid(&updates(1, |_| {})), [None, Some(0), None]);
        assert_eq!(laid(&updates(2, |_| {})), [None, Some(0), Some(0), None], "one over the other");
    }

    #[test]
    fn what_is_read_again_is_kept() {
        // The sum of old and new is another output.
        let sum_of = |old: u16| {
            move |program: &mut Program| {
                let reg = Reg(program.regs.len() as u16);
                program.regs.push(program.regs[0]);
                let buffer = program.buffers.len() as u16;
                program.buffers.push(program.buffers[0].clone());
                program.body.push(Instr::Lane { op: LaneOp::Add, dst: reg, args: smallvec![Reg(old), Reg(old)] });
                let access = Access { buffer, dims: smallvec![DimMap::along(0)] };
                program.body.push(Instr::Store { src: reg, access });
            }
        };
        assert!(laid(&updates(1, sum_of(0))).iter().all(Option::is_none), "the background");
        assert!(laid(&updates(1, sum_of(1))).iter().all(Option::is_none), "the result");
    }
}
