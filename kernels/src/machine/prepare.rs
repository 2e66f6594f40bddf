//! What is known of a program before any launch: kernels looked up, registers given slots, stages, in-place pairs.
//!
//! A register lives in a slot of scratch memory. Registers that vary along all tile axes are large and share slots by
//! liveness in program order, which every stage keeps. The rest are small, may be computed ahead of their turn, and have
//! slots of their own.

use smallvec::SmallVec;

use crate::arg_reduce::ArgReducer;
use crate::contract::Terms;
use crate::lanes::{self, LaneFn};
use crate::program::{Access, DimMap, Extent, IndexComponent, IndexSource, Instr, Placement, Program, Reg, Winner};
use crate::reduce::Reducer;

use super::dataflow::{defined, is_large, last_uses, operands, reg, stores};
use super::sharing::{in_place, laid_onto, may_view};
use super::stages::{Stage, stages};

/// An affine function of the domain point.
#[derive(Clone, Debug)]
pub(crate) enum Affine {
    /// The element offset in a buffer.
    Buffer { buffer: u16, dims: SmallVec<[DimMap; 4]> },
    /// The index along an axis.
    Index { axis: u8 },
}

/// Where a gather's index component is read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pick {
    /// In a buffer; `access` counts among [`Prepared::affine`].
    Memory { access: usize, input: usize },
    /// In a register, once per tile.
    Number(Reg),
}

/// A gather's index component.
#[derive(Clone, Debug)]
pub(crate) struct Component {
    pub(crate) pick: Pick,
    /// The dimension it moves along.
    pub(crate) dim: usize,
    /// Extent of the slice along that dimension.
    pub(crate) slice: Extent,
}

impl Component {
    /// The access by which the index is read, if that is in memory.
    pub(crate) fn access(&self) -> Option<usize> {
        match self.pick {
            Pick::Memory { access, .. } => Some(access),
            Pick::Number(_) => None,
        }
    }
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
        /// The output that it may be laid in, where the background lies there.
        onto: Option<usize>,
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
    ArgReduce {
        dst: Reg,
        values: Reg,
        indices: Reg,
        init: (Reg, Reg),
        reducer: ArgReducer,
        wanted: Winner,
        acc: usize,
    },
    Dot {
        dst: Reg,
        lhs: usize,
        rhs: usize,
        lhs_input: usize,
        rhs_input: usize,
        terms: Terms,
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
            | Step::ArgReduce { dst, .. }
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
    let pairs = in_place(program);
    let (onto, last_uses) = (laid_onto(program, &pairs), last_uses(program));
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
                    may_view: may_view(program, at, last_uses[usize::from(dst.0)], *dst, access.buffer),
                }
            }
            Instr::Gather { dst, access, indices } => Step::Gather {
                dst: *dst,
                access: add(access),
                input: usize::from(access.buffer),
                first: advance(&mut components, indices.len()),
                components: indices.iter().map(|component| prepare_component(component, &mut add)).collect(),
            },
            Instr::Overlay { dst, background, buffer, placement } => Step::Overlay {
                dst: *dst,
                background: *background,
                input: usize::from(*buffer),
                number: advance(&mut overlays, 1),
                placement: placement.clone(),
                onto: onto[at],
            },
            Instr::Scalar { dst, slot } => Step::Scalar { dst: *dst, slot: usize::from(*slot) },
            Instr::Iota { dst, axis } => {
                iotas.push((at, *axis));
                Step::Iota { dst: *dst, access: usize::MAX }
            }
            Instr::Lane { op, dst, args } => {
                let dtypes: SmallVec<[_; 3]> = args.iter().map(|&arg| reg(program, arg).dtype).collect();
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
            Instr::ArgReduce { extreme, wanted, dst, values, indices, init } => {
                accumulators += 1;
                let reducer = ArgReducer::new(*extreme, reg(program, *values).dtype, reg(program, *indices).dtype);
                Step::ArgReduce {
                    dst: *dst,
                    values: *values,
                    indices: *indices,
                    init: *init,
                    reducer: reducer.expect("validation admits integer indices only"),
                    wanted: *wanted,
                    acc: accumulators - 1,
                }
            }
            Instr::Dot { dst, lhs, rhs, precision, mxu } => {
                let (lhs_input, rhs_input) = (usize::from(lhs.buffer), usize::from(rhs.buffer));
                let terms = Terms::new(program.buffers[lhs_input].dtype, *precision, *mxu);
                Step::Dot { dst: *dst, lhs: add(lhs), rhs: add(rhs), lhs_input, rhs_input, terms }
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
        if let Step::Reduce { acc, .. } | Step::ArgReduce { acc, .. } = step {
            *acc += slots;
        }
    }
    Prepared {
        stages: stages(program),
        in_place: pairs,
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

fn prepare_component(component: &IndexComponent, add: &mut impl FnMut(&Access) -> usize) -> Component {
    let pick = match &component.index {
        IndexSource::Memory(index) => Pick::Memory { access: add(index), input: usize::from(index.buffer) },
        IndexSource::Number(number) => Pick::Number(*number),
    };
    Component { pick, dim: usize::from(component.dim), slice: component.slice }
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
    match instr {
        Instr::Lane { op, .. } => op.work(),
        Instr::ArgReduce { .. } => 4,
        Instr::Gather { .. } | Instr::Overlay { .. } => 4,
        Instr::Load { .. } | Instr::Store { .. } | Instr::Reduce { .. } | Instr::Iota { .. } => 1,
        Instr::Scalar { .. } | Instr::Dot { .. } => 0,
    }
}

/// Slots by liveness; how many are shared, and how many there are.
fn assign_slots(program: &Program) -> (Vec<RegPlan>, usize, usize) {
    let mut plans: Vec<RegPlan> =
        program.regs.iter().map(|ty| RegPlan { size: ty.dtype.size(), slot: usize::MAX, output: None }).collect();
    let mut free: Vec<usize> = Vec::new();
    let mut shared = 0;
    let last_uses = last_uses(program);
    for (at, instr) in program.body.iter().enumerate() {
        // The result gets its slot before the operands give theirs back: a loop's result never aliases its sources.
        if let Some(dst) = defined(instr).filter(|&dst| is_large(program, dst)) {
            let slot = free.pop().unwrap_or_else(|| {
                shared += 1;
                shared - 1
            });
            plans[usize::from(dst.0)].slot = slot;
            if last_uses[usize::from(dst.0)].is_none() {
                free.push(slot);
            }
        }
        let mut dead: SmallVec<[Reg; 3]> = operands(instr);
        dead.retain(|&mut operand| is_large(program, operand) && last_uses[usize::from(operand.0)] == Some(at));
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
