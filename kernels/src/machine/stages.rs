//! The stages of a program whose reduced index is streamed.
//!
//! Where the reduced index does not fit a tile, the machine streams it in chunks, once per *stage*: a value is of the
//! stage in which all reductions that it depends on are finished. Values that do not vary along the reduced axes are
//! *resident*: computed once, when their stage begins. The others are recomputed in each stage that needs them.

use crate::program::{Instr, Program};

use super::dataflow::{is_reduction, moves_reduced, operands, reduced, reg_stages, vary};

/// The steps of one stage, by number, in program order.
#[derive(Clone, Default, Debug)]
pub(crate) struct Stage {
    /// Run once, when the stage begins.
    pub(crate) resident: Vec<usize>,
    /// Run for each chunk.
    pub(crate) chunked: Vec<usize>,
    /// The reductions that end with the stage, among `chunked`.
    pub(crate) reductions: Vec<usize>,
}

pub(super) fn stages(program: &Program) -> Vec<Stage> {
    if program.reduce.is_none() {
        return Vec::new();
    }
    let reg_stage = reg_stages(program);
    let last = reg_stage.iter().copied().max().unwrap_or(0);
    let mut stages = vec![Stage::default(); last + 1];
    let ready =
        |instr: &Instr| operands(instr).iter().map(|operand| reg_stage[usize::from(operand.0)]).max().unwrap_or(0);
    for (at, instr) in program.body.iter().enumerate() {
        let chunked = match instr {
            Instr::Store { access, .. } => moves_reduced(program, access),
            // A reduction is fed chunk by chunk; its result is made when the chunks have passed.
            Instr::Reduce { .. } | Instr::ArgReduce { .. } => true,
            Instr::Load { dst, .. }
            | Instr::Gather { dst, .. }
            | Instr::Overlay { dst, .. }
            | Instr::Scalar { dst, .. }
            | Instr::Iota { dst, .. }
            | Instr::Lane { dst, .. }
            | Instr::Dot { dst, .. } => reduced(program, vary(program, *dst)),
        };
        if !chunked {
            stages[ready(instr)].resident.push(at);
        }
    }
    for (s, stage) in stages.iter_mut().enumerate() {
        // Backward from what the stage is for: its reductions and its stores.
        let mut wanted = vec![false; program.regs.len()];
        for (at, instr) in program.body.iter().enumerate().rev() {
            let needed = match instr {
                Instr::Reduce { .. } | Instr::ArgReduce { .. } => ready(instr) == s,
                Instr::Store { access, .. } => ready(instr) == s && moves_reduced(program, access),
                Instr::Load { dst, .. }
                | Instr::Gather { dst, .. }
                | Instr::Overlay { dst, .. }
                | Instr::Scalar { dst, .. }
                | Instr::Iota { dst, .. }
                | Instr::Lane { dst, .. }
                | Instr::Dot { dst, .. } => wanted[usize::from(dst.0)] && reduced(program, vary(program, *dst)),
            };
            if needed {
                stage.chunked.push(at);
                for operand in operands(instr) {
                    wanted[usize::from(operand.0)] = true;
                }
            }
        }
        stage.chunked.reverse();
        stage.reductions = stage.chunked.iter().copied().filter(|&at| is_reduction(&program.body[at])).collect();
    }
    stages
}
