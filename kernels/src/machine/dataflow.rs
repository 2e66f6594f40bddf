//! Questions about a program's registers: who defines and reads them, along what they vary, when they are ready.

use smallvec::SmallVec;

use crate::program::{Access, Extent, IndexSource, Instr, Low, Program, ReduceAlong, Reg, RegType, Vary};

use super::validate::clip;

pub(super) fn reg(program: &Program, reg: Reg) -> RegType {
    program.regs[usize::from(reg.0)]
}

/// Variation as declared, without axes that have one index.
pub(super) fn vary(program: &Program, at: Reg) -> Vary {
    clip(&program.domain, reg(program, at).vary)
}

/// Whether a register varies along all tile axes, as far as there are some.
pub(super) fn is_large(program: &Program, reg: Reg) -> bool {
    let most = clip(&program.domain, Vary::BOTH);
    most != Vary::NONE && vary(program, reg) == most
}

/// The registers that an instruction reads.
pub(super) fn operands(instr: &Instr) -> SmallVec<[Reg; 3]> {
    match instr {
        Instr::Load { .. } | Instr::Scalar { .. } | Instr::Iota { .. } | Instr::Dot { .. } => SmallVec::new(),
        Instr::Gather { indices, .. } => {
            let numbers = indices.iter().filter_map(|component| match component.index {
                IndexSource::Number(number) => Some(number),
                IndexSource::Memory(_) => None,
            });
            numbers.collect()
        }
        Instr::Overlay { background, placement, .. } => {
            let numbers = placement.iter().filter_map(|place| match place.low {
                Low::Clamped(number) => Some(number),
                Low::At(_) => None,
            });
            std::iter::once(*background).chain(numbers).collect()
        }
        Instr::Lane { args, .. } => args.clone(),
        Instr::Reduce { src, init, .. } => SmallVec::from_slice(&[*src, *init]),
        Instr::ArgReduce { values, indices, init, .. } => SmallVec::from_slice(&[*values, *indices, init.0, init.1]),
        Instr::Store { src, .. } => SmallVec::from_slice(&[*src]),
    }
}

pub(super) fn defined(instr: &Instr) -> Option<Reg> {
    match *instr {
        Instr::Load { dst, .. }
        | Instr::Gather { dst, .. }
        | Instr::Overlay { dst, .. }
        | Instr::Scalar { dst, .. }
        | Instr::Iota { dst, .. }
        | Instr::Lane { dst, .. }
        | Instr::Reduce { dst, .. }
        | Instr::ArgReduce { dst, .. }
        | Instr::Dot { dst, .. } => Some(dst),
        Instr::Store { .. } => None,
    }
}

/// Whether an instruction combines along the reduced axes.
pub(super) fn is_reduction(instr: &Instr) -> bool {
    match instr {
        Instr::Reduce { .. } | Instr::ArgReduce { .. } => true,
        Instr::Load { .. }
        | Instr::Gather { .. }
        | Instr::Overlay { .. }
        | Instr::Scalar { .. }
        | Instr::Iota { .. }
        | Instr::Lane { .. }
        | Instr::Dot { .. }
        | Instr::Store { .. } => false,
    }
}

/// For each register the instruction that last reads it.
pub(super) fn last_uses(program: &Program) -> Vec<Option<usize>> {
    let mut uses = vec![None; program.regs.len()];
    for (at, instr) in program.body.iter().enumerate() {
        operands(instr).iter().for_each(|operand| uses[usize::from(operand.0)] = Some(at));
    }
    uses
}

/// The tile axis that reductions run along.
pub(super) fn reduced(program: &Program, vary: Vary) -> bool {
    match program.reduce {
        Some(ReduceAlong::Cols) => vary.cols,
        Some(ReduceAlong::Rows) => vary.rows,
        None => false,
    }
}

/// Tile axes along which an access may move.
pub(super) fn movement(program: &Program, access: &Access) -> Vary {
    let (outer, rows) = (program.domain.outer.len(), program.domain.outer.len() + program.domain.rows.len());
    let axes = access.dims.iter().filter(|dim| dim.step != Extent::ZERO).filter_map(|dim| dim.axis).map(usize::from);
    let vary =
        axes.fold(Vary::NONE, |vary, axis| vary.join(Vary { rows: (outer..rows).contains(&axis), cols: axis >= rows }));
    clip(&program.domain, vary)
}

/// Whether an access moves along the reduced axes.
pub(super) fn moves_reduced(program: &Program, access: &Access) -> bool {
    reduced(program, movement(program, access))
}

pub(super) fn reg_stages(program: &Program) -> Vec<usize> {
    let mut stages = vec![0; program.regs.len()];
    for instr in &program.body {
        let ready = operands(instr).iter().map(|operand| stages[usize::from(operand.0)]).max().unwrap_or(0);
        if let Some(dst) = defined(instr) {
            stages[usize::from(dst.0)] = ready + usize::from(is_reduction(instr));
        }
    }
    stages
}

pub(super) fn stores(program: &Program) -> Vec<usize> {
    let store_of = |output: usize| {
        let buffer = usize::from(program.inputs) + output;
        program
            .body
            .iter()
            .position(|instr| matches!(instr, Instr::Store { access, .. } if usize::from(access.buffer) == buffer))
    };
    (0..program.outputs().len()).map(|output| store_of(output).expect("validation found every output stored")).collect()
}
