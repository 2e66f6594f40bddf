//! A plan's launches, submitted in order.
//!
//! Buffers go from slot to slot; one that is read for the last time is donated when nothing else holds it; a failed step
//! poisons exactly the slots that depend on it, with the first cause.
//!
//! **Nothing waits for a compiler.** A program that the device does not have is given to its compiler. Where that works
//! in the background, the ops of a fused group run one by one until the group's program is there, and a lone op's launch
//! is submitted all the same: it waits on the device, with what depends on it and nothing else. A group runs op by op too
//! where the compiler does not take its program, and where there is no memory for it. The bits are the same either way,
//! and neither cuts nor keys know which way was taken. A group whose ops would not find memory one by one is submitted
//! fused, and waits: whether a program fits must not depend on how fast it is compiled.

use std::sync::Arc;

use smallvec::SmallVec;
use systole_fusion::ir::{NodeId, Origin, Trace};
use systole_fusion::plan::{self, Plan, Slot, Step};
use systole_hal::{Arg, BufferRef, ErrorKind, ExecutableRef, HalError, Label, Launch};

use crate::bound::{self, BoundPlan};
use crate::error::Error;
use crate::executor::{InFlight, node_of, origin_of};
use crate::report::{CompileReport, FlushReport};
use crate::stream::StreamShared;
use crate::value::Outcome;

/// A plan under way.
pub(crate) struct Submission<'a> {
    pub(crate) stream: &'a StreamShared,
    pub(crate) trace: &'a Trace,
    pub(crate) bound: &'a Arc<BoundPlan>,
    /// The nodes of the trace's own plan that this plan's nodes are, where the plan is for a part of the trace only.
    pub(crate) part_of: Option<&'a [NodeId]>,
    pub(crate) slots: Slots,
    pub(crate) in_flight: &'a mut InFlight,
    /// Bytes that the plan moves, until its first launch is in flight.
    pub(crate) bytes: u64,
    /// The launches whose programs were given to the compiler.
    pub(crate) new: SmallVec<[usize; 8]>,
    pub(crate) report: &'a mut FlushReport,
}

impl Submission<'_> {
    /// Submits the whole plan.
    pub(crate) fn run(&mut self, params: &[i64], scalars: &[u64]) {
        let bound = self.bound;
        let mut launches = 0;
        for step in bound.plan.steps() {
            match step {
                Step::Alias { from, to, dead, .. } => {
                    self.slots.alias(*from, *to);
                    self.slots.clear(dead);
                }
                Step::Launch(launch) => {
                    self.launch(launches, launch, params, scalars);
                    self.slots.clear(&launch.dead);
                    launches += 1;
                }
            }
        }
    }

    /// Submits launch number `at` of the plan, or its ops one by one; a failure poisons its outputs.
    fn launch(&mut self, at: usize, launch: &plan::Launch, params: &[i64], scalars: &[u64]) {
        let args = match self.slots.args(launch) {
            Ok(args) => args,
            Err(cause) => {
                launch.outputs.iter().for_each(|&slot| self.slots.set(slot, Err(cause.clone())));
                return;
            }
        };
        let params: SmallVec<[i64; 16]> = launch.params.iter().map(|&param| params[usize::from(param)]).collect();
        let scalars: SmallVec<[u64; 8]> = launch.scalars.iter().map(|&scalar| scalars[usize::from(scalar)]).collect();
        let executable = match self.executable(at, launch, &params) {
            Ok(executable) => executable,
            Err(error) if error.kind() == ErrorKind::Unsupported && self.is_divisible(launch) => {
                return self.op_by_op(at, launch, buffers(args), &params, &scalars);
            }
            Err(error) => return self.fail(launch, &error.with_label(&self.label(at, launch))),
        };
        match Readiness::of(&executable) {
            Readiness::Ready => {}
            Readiness::Unsupported if self.is_divisible(launch) => {
                return self.op_by_op(at, launch, buffers(args), &params, &scalars);
            }
            Readiness::Pending if self.is_divisible(launch) && self.has_room_op_by_op(at, launch, &args, &params) => {
                return self.op_by_op(at, launch, buffers(args), &params, &scalars);
            }
            Readiness::Pending => {
                tracing::info!(program = %launch.name, "a launch waits for its program to be compiled");
                self.report.waiting += 1;
            }
            // The launch fails with the compiler's error.
            Readiness::Unsupported => {}
        }
        // Arguments for another try, op by op, should there be no memory for this one; donated ones would be gone.
        let again: Option<SmallVec<[BufferRef; 8]>> =
            self.is_divisible(launch).then(|| args.iter().map(lent).collect::<Option<_>>()).flatten();
        let label = self.label(at, launch);
        let own_params = if executable.program().params == 0 { &[] } else { &*params };
        let arguments = Launch { params: own_params, scalars: &scalars, args, label };
        match self.stream.device().hal().execute(&executable, arguments) {
            Ok(execution) => {
                self.report.launches += 1;
                self.in_flight.push(self.stream, execution.done, std::mem::take(&mut self.bytes));
                for (&slot, buffer) in launch.outputs.iter().zip(execution.outputs) {
                    self.slots.set(slot, Ok(buffer));
                }
            }
            Err(error) => match again {
                Some(args) if error.kind() == ErrorKind::OutOfMemory => {
                    self.op_by_op(at, launch, args, &params, &scalars);
                }
                Some(_) | None => self.fail(launch, &error),
            },
        }
    }

    /// The launch's executable, which may still be compiled; asked for if the device does not have it.
    fn executable(&mut self, at: usize, launch: &plan::Launch, params: &[i64]) -> Result<ExecutableRef, HalError> {
        let device = self.stream.device();
        let (executable, new) = self.bound.executable(at, launch, params, device.hal(), &device.programs)?;
        if new {
            self.new.push(at);
            self.report.compiled.push(CompileReport {
                name: launch.name.clone(),
                extents: device.hal().capabilities().static_shapes.then(|| params.to_vec()),
                origin: origin_of(launch.nodes.last().and_then(|&node| node_of(self.trace, self.node_id(node)))),
            });
        }
        Ok(executable)
    }

    /// Whether the launch is of several ops that can run one by one instead.
    fn is_divisible(&self, launch: &plan::Launch) -> bool {
        self.part_of.is_none() && launch.nodes.len() > 1
    }

    /// Whether the launch's ops can run one by one in the memory that is free. Where they cannot, what waits for nothing
    /// but the fused program's compiler must not fail for want of memory.
    fn has_room_op_by_op(&self, at: usize, launch: &plan::Launch, args: &[Arg], params: &[i64]) -> bool {
        let held: u64 = args.iter().map(|arg| arg.buffer().ty().byte_len() as u64).sum();
        let peak = self.bound.op_by_op(at, launch, &self.stream.device().parts).plan.peak_bytes(params);
        let memory = self.stream.device().hal().memory_stats();
        peak.saturating_sub(held) <= memory.limit.saturating_sub(memory.in_use)
    }

    /// Runs the ops of a launch one by one: of what cannot be had at once, memory or programs, only so much is then
    /// wanting as each of them needs, and what depends on it waits or fails alone.
    fn op_by_op(
        &mut self,
        at: usize,
        launch: &plan::Launch,
        args: SmallVec<[BufferRef; 8]>,
        params: &[i64],
        scalars: &[u64],
    ) {
        tracing::debug!(program = %launch.name, "a fused program cannot run now: its ops run one by one");
        self.report.op_by_op += 1;
        let bound = self.bound.op_by_op(at, launch, &self.stream.device().parts);
        let mut part = Submission {
            stream: self.stream,
            trace: self.trace,
            bound,
            part_of: Some(&launch.nodes),
            slots: Slots::new(&bound.plan, args.into_iter().map(|buffer| Some(Ok(buffer)))),
            in_flight: self.in_flight,
            bytes: std::mem::take(&mut self.bytes),
            new: SmallVec::new(),
            report: self.report,
        };
        part.run(params, scalars);
        let outcomes: SmallVec<[Outcome; 4]> =
            bound.plan.outputs().iter().map(|&slot| part.slots.outcome(slot)).collect();
        launch.outputs.iter().zip(outcomes).for_each(|(&slot, outcome)| self.slots.set(slot, outcome));
    }

    /// The label of a launch of this plan.
    fn label(&self, at: usize, launch: &plan::Launch) -> Label {
        let output = *launch.output_nodes.first().expect("a launch computes something");
        bound::label(self.trace, self.bound, at, self.node_id(output))
    }

    /// The node of the trace's own plan that a node of this plan is.
    fn node_id(&self, node: NodeId) -> NodeId {
        self.part_of.map_or(node, |nodes| nodes[node.index()])
    }

    fn fail(&mut self, launch: &plan::Launch, error: &HalError) {
        let error = bound::blame(error, &Origin::Unknown);
        self.stream.note_failure(&error);
        launch.outputs.iter().for_each(|&slot| self.slots.set(slot, Err(error.clone())));
    }
}

/// How far a program is.
enum Readiness {
    /// A launch of it runs at once, or fails at once for a reason that is no want of a program.
    Ready,
    /// It is being compiled.
    Pending,
    /// The compiler does not take it.
    Unsupported,
}

impl Readiness {
    fn of(executable: &ExecutableRef) -> Self {
        if !executable.is_ready() {
            return Readiness::Pending;
        }
        match executable.wait() {
            Err(error) if error.kind() == ErrorKind::Unsupported => Readiness::Unsupported,
            Ok(()) | Err(_) => Readiness::Ready,
        }
    }
}

fn buffers(args: SmallVec<[Arg; 8]>) -> SmallVec<[BufferRef; 8]> {
    args.into_iter().map(|arg| arg.buffer().clone()).collect()
}

fn lent(arg: &Arg) -> Option<BufferRef> {
    match arg {
        Arg::Borrowed(buffer) => Some(buffer.clone()),
        Arg::Donated(_) => None,
    }
}

/// The buffers of a plan under way.
pub(crate) struct Slots(SmallVec<[Option<Outcome>; 32]>);

impl Slots {
    pub(crate) fn new(plan: &Plan, inputs: impl Iterator<Item = Option<Outcome>>) -> Self {
        let mut slots: SmallVec<[Option<Outcome>; 32]> = inputs.collect();
        slots.resize(plan.slot_count(), None);
        Slots(slots)
    }

    fn set(&mut self, slot: Slot, outcome: Outcome) {
        self.0[slot.index()] = Some(outcome);
    }

    pub(crate) fn outcome(&self, slot: Slot) -> Outcome {
        self.0[slot.index()].clone().expect("a plan fills a slot before it is used")
    }

    fn alias(&mut self, from: Slot, to: Slot) {
        self.0[to.index()] = self.0[from.index()].clone();
    }

    /// Lets go of values that no later step reads.
    fn clear(&mut self, dead: &[Slot]) {
        dead.iter().for_each(|slot| self.0[slot.index()] = None);
    }

    /// The arguments of a launch, or the first cause among failed ones.
    fn args(&mut self, launch: &plan::Launch) -> Result<SmallVec<[Arg; 8]>, Error> {
        let argument = |input: &plan::SlotUse| {
            if !input.last_use {
                return self.outcome(input.slot).map(Arg::Borrowed);
            }
            let outcome = self.0[input.slot.index()].take().expect("a slot is taken at its last use only");
            // What a tensor, another slot or another trace still holds can be read again, so it is only lent.
            outcome.map(
                |buffer| {
                    if Arc::strong_count(&buffer) == 1 { Arg::Donated(buffer) } else { Arg::Borrowed(buffer) }
                },
            )
        };
        launch.inputs.iter().map(argument).collect()
    }
}
