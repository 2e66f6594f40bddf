//! What is known of a program before any launch: kernels looked up, registers given slots, stages, in-place pairs.
//!
//! # Stages
//!
//! Where the reduced index does not fit a tile, the machine streams it in chunks, once per *stage*: a value is of the
//! stage in which all reductions that it depends on are finished. Values that do not vary along the reduced axes are
//! *resident*: computed once, when their stage begins. The others are recomputed in each stage that needs them.
//!
//! # Slots
//!
//! A register lives in a slot of scratch memory. Registers that vary along all tile axes are large and share slots by
//! liveness in program order, which every stage keeps. The rest are small, may be computed ahead of their turn, and have
//! slots of their own.

use smallvec::SmallVec;

use crate::lanes::{self, LaneFn};
use crate::program::{
    Access, DimMap, Extent, IndexComponent, Instr, Placement, Program, ReduceAlong, Reg, Vary,
};
use crate::reduce::Reducer;

use super::validate::clip;

/// An affine function of the domain point.
#[derive(Clone, Debug)]
pub(crate) enum Affine {
    /// The element offset in a buffer.
    Buffer { buffer: u16, dims: SmallVec<[DimMap; 4]> },
    /// The index along an axis.
    Index { axis: u8 },
}

/// A gather's index component.
#[derive(Clone, Debug)]
pub(crate) struct Component {
    /// Where the index is read, among [`Prepared::affine`].
    pub(crate) access: usize,
    /// The buffer it is read from.
    pub(crate) input: usize,
    /// The dimension it moves along.
    pub(crate) dim: usize,
    /// Extent of the slice along that dimension.
    pub(crate) slice: Extent,
}

/// An instruction with everything looked up. `access` counts among [`Prepared::affine`].
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Load {
        dst: Reg,
        access: usize,
        input: usize,
        may_view: bool,
    },
    /// `first` counts the components of earlier gathers.
    Gather {
        dst: Reg,
        access: usize,
        input: usize,
        first: usize,
        components: SmallVec<[Component; 1]>,
    },
    /// `number` counts the overlays.
    Overlay {
        dst: Reg,
        background: Reg,
        input: usize,
        number: usize,
        placement: SmallVec<[Placement; 4]>,
    },
    Scalar {
        dst: Reg,
        slot: usize,
    },
    Iota {
        dst: Reg,
        access: usize,
    },
    Lane {
        dst: Reg,
        kernel: LaneFn,
        args: SmallVec<[Reg; 3]>,
    },
    Reduce {
        dst: Reg,
        src: Reg,
        init: Reg,
        reducer: Reducer,
        acc: usize,
    },
    Dot {
        dst: Reg,
        lhs: usize,
        rhs: usize,
        lhs_input: usize,
        rhs_input: usize,
    },
    Store {
        src: Reg,
        access: usize,
        output: usize,
    },
}

impl Step {
    /// The register that the step defines.
    pub(crate) fn dst(&self) -> Option<Reg> {
        match *self {
            Step::Load { dst, .. }
            | Step::Gather { dst, .. }
            | Step::Overlay { dst, .. }
            | Step::Scalar { dst, .. }
            | Step::Iota { dst, .. }
            | Step::Lane { dst, .. }
            | Step::Reduce { dst, .. }
            | Step::Dot { dst, .. } => Some(dst),
            Step::Store { .. } => None,
        }
    }
}

/// What is known of a register.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RegPlan {
    /// Bytes of an element.
    pub(crate) size: usize,
    /// Slot.
    pub(crate) slot: usize,
    /// The output that a computed value may be written to at once.
    pub(crate) output: Option<usize>,
}

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

/// A program, prepared.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) affine: Vec<Affine>,
    pub(crate) steps: Vec<Step>,
    pub(crate) regs: Vec<RegPlan>,
    /// Slots of registers and accumulators.
    pub(crate) slots: usize,
    /// How many of them hold tiles that vary along both axes.
    pub(crate) large_slots: usize,
    pub(crate) stages: Vec<Stage>,
    pub(crate) in_place: Vec<(u16, u16)>,
    /// The access that each output is stored by.
    stored: Vec<usize>,
    /// The dot, if there is one.
    pub(crate) dot: Option<usize>,
    /// Domain axes that buffers are laid over, which must stay apart.
    pub(crate) pinned: Vec<u8>,
    /// For each step, whether it may be run ahead of its turn: neither its register nor one that it depends on shares a
    /// slot.
    pub(crate) early: Vec<bool>,
    /// Element operations per point of the domain, roughly; transcendental functions count for several.
    pub(crate) work: usize,
}

impl Prepared {
    /// The access that an output is stored by.
    #[inline(always)]
    pub(crate) fn stored(&self, output: usize) -> usize {
        self.stored[output]
    }
}

/// Prepares a valid program.
pub(crate) fn prepare(program: &Program) -> Prepared {
    let mut affine = Vec::new();
    let mut add = |access: &Access| {
        affine.push(Affine::Buffer { buffer: access.buffer, dims: access.dims.clone() });
        affine.len() - 1
    };
    let mut steps: Vec<Step> = Vec::with_capacity(program.body.len());
    let mut iotas = Vec::new();
    let (mut accumulators, mut components, mut overlays) = (0, 0, 0);
    for (at, instr) in program.body.iter().enumerate() {
        steps.push(match instr {
            Instr::Load { dst, access } => {
                let input = usize::from(access.buffer);
                Step::Load {
                    dst: *dst,
                    access: add(access),
                    input,
                    may_view: may_view(program, at, *dst, access.buffer),
                }
            }
            Instr::Gather { dst, access, indices } => Step::Gather {
                dst: *dst,
                access: add(access),
                input: usize::from(access.buffer),
                first: advance(&mut components, indices.len()),
                components: indices
                    .iter()
                    .map(|component| prepare_component(component, &mut add))
                    .collect(),
            },
            Instr::Overlay { dst, background, buffer, placement } => Step::Overlay {
                dst: *dst,
                background: *background,
                input: usize::from(*buffer),
                number: advance(&mut overlays, 1),
                placement: placement.clone(),
            },
            Instr::Scalar { dst, slot } => Step::Scalar { dst: *dst, slot: usize::from(*slot) },
            Instr::Iota { dst, axis } => {
                iotas.push((at, *axis));
                Step::Iota { dst: *dst, access: usize::MAX }
            }
            Instr::Lane { op, dst, args } => {
                let dtypes: SmallVec<[_; 3]> =
                    args.iter().map(|&arg| reg(program, arg).dtype).collect();
                let kernel = lanes::kernel(*op, &dtypes, reg(program, *dst).dtype);
                Step::Lane {
                    dst: *dst,
                    kernel: kernel.expect("validation looked the operation up"),
                    args: args.clone(),
                }
            }
            Instr::Reduce { monoid, dst, src, init } => {
                accumulators += 1;
                let reducer = Reducer::new(*monoid, reg(program, *src).dtype);
                let reducer = reducer.expect("validation looked the body up");
                Step::Reduce { dst: *dst, src: *src, init: *init, reducer, acc: accumulators - 1 }
            }
            Instr::Dot { dst, lhs, rhs } => {
                let (lhs_input, rhs_input) = (usize::from(lhs.buffer), usize::from(rhs.buffer));
                Step::Dot { dst: *dst, lhs: add(lhs), rhs: add(rhs), lhs_input, rhs_input }
            }
            Instr::Store { src, access } => {
                let output = usize::from(access.buffer - program.inputs);
                Step::Store { src: *src, access: add(access), output }
            }
        });
    }
    for (at, axis) in iotas {
        affine.push(Affine::Index { axis });
        if let Step::Iota { access, .. } = &mut steps[at] {
            *access = affine.len() - 1;
        }
    }
    let (regs, large_slots, slots) = assign_slots(program);
    for step in &mut steps {
        if let Step::Reduce { acc, .. } = step {
            *acc += slots;
        }
    }
    Prepared {
        stages: stages(program, &steps),
        in_place: in_place(program),
        stored: stored(program, &steps),
        dot: program.body.iter().position(|instr| matches!(instr, Instr::Dot { .. })),
        pinned: pinned(program),
        early: early(program),
        work: program.body.iter().map(work).sum(),
        slots: slots + accumulators,
        large_slots,
        affine,
        steps,
        regs,
    }
}

/// The count, which then goes up by `by`.
fn advance(count: &mut usize, by: usize) -> usize {
    *count += by;
    *count - by
}

fn prepare_component(
    component: &IndexComponent,
    add: &mut impl FnMut(&Access) -> usize,
) -> Component {
    Component {
        access: add(&component.index),
        input: usize::from(component.index.buffer),
        dim: usize::from(component.dim),
        slice: component.slice,
    }
}

fn reg(program: &Program, reg: Reg) -> crate::program::RegType {
    program.regs[usize::from(reg.0)]
}

/// Variation as declared, without axes that have one index.
fn vary(program: &Program, at: Reg) -> Vary {
    clip(&program.domain, reg(program, at).vary)
}

/// Whether a register varies along all tile axes, as far as there are some.
fn is_large(program: &Program, reg: Reg) -> bool {
    let most = clip(&program.domain, Vary::BOTH);
    most != Vary::NONE && vary(program, reg) == most
}

/// The registers that an instruction reads.
fn operands(instr: &Instr) -> SmallVec<[Reg; 3]> {
    match instr {
        Instr::Load { .. }
        | Instr::Gather { .. }
        | Instr::Scalar { .. }
        | Instr::Iota { .. }
        | Instr::Dot { .. } => SmallVec::new(),
        Instr::Overlay { background, .. } => SmallVec::from_slice(&[*background]),
        Instr::Lane { args, .. } => args.clone(),
        Instr::Reduce { src, init, .. } => SmallVec::from_slice(&[*src, *init]),
        Instr::Store { src, .. } => SmallVec::from_slice(&[*src]),
    }
}

fn defined(instr: &Instr) -> Option<Reg> {
    match *instr {
        Instr::Load { dst, .. }
        | Instr::Gather { dst, .. }
        | Instr::Overlay { dst, .. }
        | Instr::Scalar { dst, .. }
        | Instr::Iota { dst, .. }
        | Instr::Lane { dst, .. }
        | Instr::Reduce { dst, .. }
        | Instr::Dot { dst, .. } => Some(dst),
        Instr::Store { .. } => None,
    }
}

/// The instruction that last reads a register.
fn last_use(program: &Program, reg: Reg) -> Option<usize> {
    program.body.iter().rposition(|instr| operands(instr).contains(&reg))
}

/// Whether a loaded register may be read from its buffer when the buffer shares an output's memory: only if the last
/// reader comes before anything is stored there. Registers that are computed ahead of their turn are always copied.
fn may_view(program: &Program, load: usize, dst: Reg, buffer: u16) -> bool {
    let buffer = &program.buffers[usize::from(buffer)];
    let store = program.body.iter().position(|instr| match instr {
        Instr::Store { access, .. } => program.buffers[usize::from(access.buffer)] == *buffer,
        _ => false,
    });
    let last = last_use(program, dst).unwrap_or(load);
    is_large(program, dst) && store.is_none_or(|store| last < store)
}

fn stores(program: &Program) -> Vec<usize> {
    let store_of = |output: usize| {
        let buffer = usize::from(program.inputs) + output;
        program.body.iter().position(|instr| matches!(instr, Instr::Store { access, .. } if usize::from(access.buffer) == buffer))
    };
    (0..program.outputs().len())
        .map(|output| store_of(output).expect("validation found every output stored"))
        .collect()
}

fn stored(program: &Program, steps: &[Step]) -> Vec<usize> {
    let access_of = |store: usize| match steps[store] {
        Step::Store { access, .. } => access,
        ref other => unreachable!("an output is stored by a store, not {other:?}"),
    };
    stores(program).into_iter().map(access_of).collect()
}

fn pinned(program: &Program) -> Vec<u8> {
    let mut pinned = Vec::new();
    for instr in &program.body {
        if let Instr::Overlay { placement, .. } = instr {
            pinned.extend(placement.iter().map(|place| place.axis));
        }
    }
    pinned
}

fn early(program: &Program) -> Vec<bool> {
    let mut regs = vec![false; program.regs.len()];
    let early = |instr: &Instr| {
        let early = operands(instr).iter().all(|operand| regs[usize::from(operand.0)]);
        match defined(instr) {
            Some(dst) => {
                let early = early && !is_large(program, dst);
                regs[usize::from(dst.0)] = early;
                early
            }
            None => early,
        }
    };
    program.body.iter().map(early).collect()
}

/// Element operations of an instruction, roughly.
fn work(instr: &Instr) -> usize {
    use crate::program::LaneOp;
    match instr {
        Instr::Lane { op, .. } => match op {
            LaneOp::Exponential | LaneOp::Log | LaneOp::Tanh | LaneOp::Logistic | LaneOp::Rsqrt => {
                8
            }
            LaneOp::Power | LaneOp::Remainder => 30,
            LaneOp::Divide | LaneOp::Sqrt => 2,
            LaneOp::Abs
            | LaneOp::Negate
            | LaneOp::Sign
            | LaneOp::Floor
            | LaneOp::Ceil
            | LaneOp::Not
            | LaneOp::Add
            | LaneOp::Subtract
            | LaneOp::Multiply
            | LaneOp::Maximum
            | LaneOp::Minimum
            | LaneOp::And
            | LaneOp::Or
            | LaneOp::Xor
            | LaneOp::Compare(..)
            | LaneOp::Select
            | LaneOp::Clamp
            | LaneOp::Convert => 1,
        },
        Instr::Gather { .. } | Instr::Overlay { .. } => 4,
        Instr::Load { .. } | Instr::Store { .. } | Instr::Reduce { .. } | Instr::Iota { .. } => 1,
        Instr::Scalar { .. } | Instr::Dot { .. } => 0,
    }
}

/// Slots by liveness; how many are shared, and how many there are.
fn assign_slots(program: &Program) -> (Vec<RegPlan>, usize, usize) {
    let mut plans: Vec<RegPlan> = program
        .regs
        .iter()
        .map(|ty| RegPlan { size: ty.dtype.size(), slot: usize::MAX, output: None })
        .collect();
    let mut free: Vec<usize> = Vec::new();
    let mut shared = 0;
    for (at, instr) in program.body.iter().enumerate() {
        // The result gets its slot before the operands give theirs back: a loop's result never aliases its sources.
        if let Some(dst) = defined(instr).filter(|&dst| is_large(program, dst)) {
            let slot = free.pop().unwrap_or_else(|| {
                shared += 1;
                shared - 1
            });
            plans[usize::from(dst.0)].slot = slot;
            if last_use(program, dst).is_none() {
                free.push(slot);
            }
        }
        let mut dead: SmallVec<[Reg; 3]> = operands(instr);
        dead.retain(|&mut operand| {
            is_large(program, operand) && last_use(program, operand) == Some(at)
        });
        dead.sort();
        dead.dedup();
        free.extend(dead.iter().map(|operand| plans[usize::from(operand.0)].slot));
    }
    let mut slots = shared;
    for plan in plans.iter_mut().filter(|plan| plan.slot == usize::MAX) {
        plan.slot = slots;
        slots += 1;
    }
    for instr in &program.body {
        if let Instr::Store { src, access } = instr {
            let output = usize::from(access.buffer - program.inputs);
            plans[usize::from(src.0)].output.get_or_insert(output);
        }
    }
    (plans, shared, slots)
}

/// The tile axis that reductions run along.
fn reduced(program: &Program, vary: Vary) -> bool {
    match program.reduce {
        Some(ReduceAlong::Cols) => vary.cols,
        Some(ReduceAlong::Rows) => vary.rows,
        None => false,
    }
}

/// Whether an access moves along the reduced axes.
fn moves_reduced(program: &Program, access: &Access) -> bool {
    reduced(program, movement(program, access))
}

/// Tile axes along which an access may move.
fn movement(program: &Program, access: &Access) -> Vary {
    let (outer, rows) =
        (program.domain.outer.len(), program.domain.outer.len() + program.domain.rows.len());
    let axes = access
        .dims
        .iter()
        .filter(|dim| dim.step != Extent::ZERO)
        .filter_map(|dim| dim.axis)
        .map(usize::from);
    let vary = axes.fold(Vary::NONE, |vary, axis| {
        vary.join(Vary { rows: (outer..rows).contains(&axis), cols: axis >= rows })
    });
    clip(&program.domain, vary)
}

fn reg_stages(program: &Program) -> Vec<usize> {
    let mut stages = vec![0; program.regs.len()];
    for instr in &program.body {
        let ready =
            operands(instr).iter().map(|operand| stages[usize::from(operand.0)]).max().unwrap_or(0);
        if let Some(dst) = defined(instr) {
            stages[usize::from(dst.0)] = ready + usize::from(matches!(instr, Instr::Reduce { .. }));
        }
    }
    stages
}

fn stages(program: &Program, steps: &[Step]) -> Vec<Stage> {
    if program.reduce.is_none() {
        return Vec::new();
    }
    let reg_stage = reg_stages(program);
    let last = reg_stage.iter().copied().max().unwrap_or(0);
    let mut stages = vec![Stage::default(); last + 1];
    let ready = |instr: &Instr| {
        operands(instr).iter().map(|operand| reg_stage[usize::from(operand.0)]).max().unwrap_or(0)
    };
    for (at, instr) in program.body.iter().enumerate() {
        let chunked = match instr {
            Instr::Store { access, .. } => moves_reduced(program, access),
            // A reduction is fed chunk by chunk; its result is made when the chunks have passed.
            Instr::Reduce { .. } => true,
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
                Instr::Reduce { .. } => ready(instr) == s,
                Instr::Store { access, .. } => ready(instr) == s && moves_reduced(program, access),
                Instr::Load { dst, .. }
                | Instr::Gather { dst, .. }
                | Instr::Overlay { dst, .. }
                | Instr::Scalar { dst, .. }
                | Instr::Iota { dst, .. }
                | Instr::Lane { dst, .. }
                | Instr::Dot { dst, .. } => {
                    wanted[usize::from(dst.0)] && reduced(program, vary(program, *dst))
                }
            };
            if needed {
                stage.chunked.push(at);
                for operand in operands(instr) {
                    wanted[usize::from(operand.0)] = true;
                }
            }
        }
        stage.chunked.reverse();
        stage.reductions = stage
            .chunked
            .iter()
            .copied()
            .filter(|&at| matches!(steps[at], Step::Reduce { .. }))
            .collect();
    }
    stages
}

/// The pairs of [`Machine::in_place`](super::Machine::in_place).
fn in_place(program: &Program) -> Vec<(u16, u16)> {
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
    let (outer, rows) =
        (program.domain.outer.len(), program.domain.outer.len() + program.domain.rows.len());
    for (axis, extent) in program.domain.axes().enumerate() {
        let exempt = match program.reduce {
            Some(ReduceAlong::Cols) => axis >= rows,
            Some(ReduceAlong::Rows) => (outer..rows).contains(&axis),
            None => false,
        };
        let moves = stored
            .dims
            .iter()
            .any(|dim| dim.axis.map(usize::from) == Some(axis) && dim.step != Extent::ZERO);
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
        Instr::Reduce { .. } | Instr::Store { .. } => true,
        Instr::Overlay { buffer, .. } => *buffer != input,
        Instr::Gather { access, indices, .. } => {
            access.buffer != input
                && indices.iter().all(|component| component.index.buffer != input)
        }
        Instr::Dot { lhs, rhs, .. } => lhs.buffer != input && rhs.buffer != input,
    })
}

/// For each register the last stage that reads it: that of the last reduction or store which it goes into.
fn latest_needs(program: &Program, stages: &[usize]) -> Vec<usize> {
    let mut needs = vec![0; program.regs.len()];
    for instr in program.body.iter().rev() {
        let operands = operands(instr);
        let ready =
            operands.iter().map(|operand| stages[usize::from(operand.0)]).max().unwrap_or(0);
        let need = match (instr, defined(instr)) {
            // The result of a reduction is kept, so its operands are done with.
            (Instr::Reduce { .. }, _) | (_, None) => ready,
            (_, Some(dst)) => ready.max(needs[usize::from(dst.0)]),
        };
        for operand in operands {
            let slot = &mut needs[usize::from(operand.0)];
            *slot = need.max(*slot);
        }
    }
    needs
}
