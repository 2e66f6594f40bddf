//! From a cut trace to submitted launches.
//!
//! The key is looked up; on a miss the plan is built and its programs compiled. Then the plan's steps are submitted in
//! order without waiting: buffers go from slot to slot, a buffer read for the last time is donated when nothing else
//! holds it, and a failed step poisons exactly the slots that depend on it, with the first cause.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use smallvec::SmallVec;
use systole_fusion::canonical::{Difference, PlanKey, canonicalize};
use systole_fusion::ir::{Node, NodeId, Origin, Trace};
use systole_fusion::plan::{self, Plan, Slot, Step};
use systole_hal::{Arg, BufferRef, ErrorKind, EventRef, Launch};

use crate::bound::{self, BoundPlan};
use crate::error::Error;
use crate::recorder::Cut;
use crate::report::{Build, FlushReport, KeyDifference, PlanSource, ProgramReport};
use crate::stream::StreamShared;
use crate::value::{Outcome, Value};

/// The launches of a stream that the device may not have done yet. The device's queue has no bound of its own, so a
/// stream that records faster than the device runs would pile up commands; at the bound the stream waits for the older
/// half, which is no cut and changes no plan.
#[derive(Default)]
pub(crate) struct InFlight {
    /// Each launch's event, with the bytes that its plan moves where it is the plan's first.
    launches: VecDeque<(EventRef, u64)>,
    bytes: u64,
}

impl InFlight {
    /// Launches that a stream may have in flight: milliseconds of work for the smallest, so the device never starves.
    const LIMIT: usize = 1024;

    /// Adds a launch. Besides their number, the bytes of launches in flight are bounded, by the device's memory: a buffer
    /// that was dropped while a queued launch reads it no longer counts there, but the host still holds it.
    fn push(&mut self, stream: &StreamShared, done: EventRef, bytes: u64) {
        self.launches.push_back((done, bytes));
        self.bytes = self.bytes.saturating_add(bytes);
        let limit = stream.device().hal().capabilities().memory_limit;
        if self.launches.len() < InFlight::LIMIT && self.bytes <= limit {
            return;
        }
        let (few, light) = (InFlight::LIMIT / 2, limit / 2);
        while self.launches.len() > few || self.bytes > light {
            let Some((done, bytes)) = self.launches.pop_front() else { return };
            self.bytes -= bytes.min(self.bytes);
            if let Err(error) = done.wait() {
                // Waiting counts as being told, so the failure is kept for whoever synchronizes.
                stream.note_failure(&bound::blame(&error, &Origin::Unknown));
            }
        }
    }
}

/// Runs a cut trace; settles every output.
pub(crate) fn run(stream: &Arc<StreamShared>, cut: Cut) {
    let device = stream.device();
    let _span = tracing::debug_span!("flush", stream = stream.id(), sequence = cut.sequence).entered();
    let ops = cut.trace.nodes().len();
    device.totals.ops.fetch_add(ops as u64, Ordering::Relaxed);
    device.totals.cuts.fetch_add(1, Ordering::Relaxed);
    let mut report = FlushReport {
        stream: stream.id(),
        sequence: cut.sequence,
        reason: cut.reason.clone(),
        ops,
        first: origin_of(cut.trace.nodes().first()),
        last: origin_of(cut.trace.nodes().last()),
        outputs: cut.outputs.len(),
        key: 0,
        plan: PlanSource::Nothing,
        launches: 0,
        bytes_moved: 0,
        peak_bytes: 0,
    };
    if !cut.outputs.is_empty() {
        submit(stream, cut, &mut report);
        device.totals.launches.fetch_add(report.launches as u64, Ordering::Relaxed);
        device.totals.bytes_moved.fetch_add(report.bytes_moved, Ordering::Relaxed);
    }
    tracing::debug!(?report.reason, report.ops, report.launches, ?report.plan, "cut");
    device.report(report);
}

fn submit(stream: &Arc<StreamShared>, cut: Cut, report: &mut FlushReport) {
    let device = stream.device();
    let Cut { trace, inputs, outputs, in_flight, .. } = cut;
    // Whether an input may really be reused is decided per launch, by who else holds it: were it part of the key,
    // another thread's drop could change which plan runs.
    let donatable: SmallVec<[bool; 32]> = SmallVec::from_elem(true, inputs.len());
    let prepared = canonicalize(trace, &donatable).map_err(|unsupported| {
        let node = unsupported.node().map(|node| trace.node(node));
        let operands = node.map_or(Vec::new(), |node| node.operands.iter().map(|&id| trace.ty(id).clone()).collect());
        Error::unsupported(node.map(|node| node.op), operands, origin_of(node), unsupported.to_string())
    });
    let prepared = prepared.and_then(|keyed| {
        report.key = keyed.key.hash64();
        let bound = device
            .plans
            .get_or_try_build(&keyed.key, || BoundPlan::build(&keyed.key, true, device.hal(), &device.programs))
            .map_err(|error| bound::blame(&error, &origin_of(trace.nodes().last())))?;
        Ok((keyed, bound))
    });
    let (keyed, (bound, built)) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            stream.note_failure(&error);
            outputs.iter().for_each(|value| value.settle(Err(error.clone())));
            return;
        }
    };
    report.plan = if built {
        PlanSource::Built(Arc::new(explain_build(trace, &bound, device.plans.nearest(&keyed.key))))
    } else {
        PlanSource::Cached
    };
    report.bytes_moved = bound.plan.bytes_moved(&keyed.params);
    report.peak_bytes = bound.plan.peak_bytes(&keyed.params);
    let mut submission = Submission {
        stream,
        trace,
        bound: &bound,
        part_of: None,
        slots: Slots::new(&bound.plan, inputs.drain(..).map(take_input)),
        in_flight,
        bytes_moved: report.bytes_moved,
        launched: 0,
    };
    submission.run(&keyed.params, &keyed.scalars);
    report.launches = submission.launched;
    for (value, slot) in outputs.iter().zip(bound.plan.outputs()) {
        value.settle(submission.slots.outcome(*slot));
    }
}

fn origin_of(node: Option<&Node>) -> Origin {
    node.map_or(Origin::Unknown, |node| node.origin.clone())
}

/// The node of a trace whose result a node of its plan is.
fn node_of(trace: &Trace, planned: NodeId) -> Option<&Node> {
    trace.node_of_result(planned.index()).map(|node| trace.node(node))
}

/// Why a plan for `trace` was built, and what that took.
fn explain_build(trace: &Trace, bound: &BoundPlan, nearest: Option<(PlanKey, Difference)>) -> Build {
    let programs = bound.plan.launches().zip(&bound.new).map(|(launch, &new)| ProgramReport {
        name: launch.name.clone(),
        new,
        origin: origin_of(launch.nodes.last().and_then(|&node| node_of(trace, node))),
    });
    let difference = nearest.map(|(_, part)| {
        let node = part.node().and_then(|node| node_of(trace, node));
        KeyDifference { origin: node.map(|node| node.origin.clone()), part }
    });
    Build { programs: programs.collect(), difference }
}

/// A plan under way.
struct Submission<'a> {
    stream: &'a StreamShared,
    trace: &'a Trace,
    bound: &'a Arc<BoundPlan>,
    /// The nodes of the trace's own plan that this plan's nodes are, where the plan is for a part of the trace only.
    part_of: Option<&'a [NodeId]>,
    slots: Slots,
    in_flight: &'a mut InFlight,
    bytes_moved: u64,
    launched: usize,
}

impl Submission<'_> {
    fn run(&mut self, params: &[i64], scalars: &[u64]) {
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

    /// Submits launch number `at` of the plan; a failure poisons its outputs.
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
        // Arguments for another try, op by op, should there be no memory for this one; donated ones would be gone.
        let again: Option<SmallVec<[BufferRef; 8]>> = (self.part_of.is_none() && launch.nodes.len() > 1)
            .then(|| args.iter().map(lent).collect::<Option<_>>())
            .flatten();
        let output = *launch.output_nodes.first().expect("a launch computes something");
        let node = self.part_of.map_or(output, |nodes| nodes[output.index()]);
        let label = bound::label(self.trace, self.bound, at, node);
        let arguments = Launch { params: &params, scalars: &scalars, args, label };
        match self.stream.device().hal().execute(&self.bound.executables[at], arguments) {
            Ok(execution) => {
                self.launched += 1;
                let bytes = if at == 0 { self.bytes_moved } else { 0 };
                self.in_flight.push(self.stream, execution.done, bytes);
                for (&slot, buffer) in launch.outputs.iter().zip(execution.outputs) {
                    self.slots.set(slot, Ok(buffer));
                }
            }
            Err(error) => match again {
                Some(args) if error.kind() == ErrorKind::OutOfMemory => self.split(launch, args, &params, &scalars),
                Some(_) | None => self.fail(launch, bound::blame(&error, &Origin::Unknown)),
            },
        }
    }

    /// Runs a group op by op after all, so that what there is no memory for fails alone, with what depends on it.
    fn split(&mut self, launch: &plan::Launch, args: SmallVec<[BufferRef; 8]>, params: &[i64], scalars: &[u64]) {
        let device = self.stream.device();
        tracing::debug!(name = %launch.name, "no memory for a fused program: it runs op by op");
        let bound = match BoundPlan::build(launch.group.as_ref(), false, device.hal(), &device.programs) {
            Ok(bound) => Arc::new(bound),
            Err(error) => return self.fail(launch, bound::blame(&error, &Origin::Unknown)),
        };
        let mut part = Submission {
            stream: self.stream,
            trace: self.trace,
            bound: &bound,
            part_of: Some(&launch.nodes),
            slots: Slots::new(&bound.plan, args.into_iter().map(|buffer| Some(Ok(buffer)))),
            in_flight: self.in_flight,
            bytes_moved: 0,
            launched: 0,
        };
        part.run(params, scalars);
        let outcomes: SmallVec<[Outcome; 4]> =
            bound.plan.outputs().iter().map(|&slot| part.slots.outcome(slot)).collect();
        self.launched += part.launched;
        launch.outputs.iter().zip(outcomes).for_each(|(&slot, outcome)| self.slots.set(slot, outcome));
    }

    fn fail(&mut self, launch: &plan::Launch, error: Error) {
        self.stream.note_failure(&error);
        launch.outputs.iter().for_each(|&slot| self.slots.set(slot, Err(error.clone())));
    }
}

fn lent(arg: &Arg) -> Option<BufferRef> {
    match arg {
        Arg::Borrowed(buffer) => Some(buffer.clone()),
        Arg::Donated(_) => None,
    }
}

/// The buffers of a plan under way.
struct Slots(SmallVec<[Option<Outcome>; 32]>);

impl Slots {
    fn new(plan: &Plan, inputs: impl Iterator<Item = Option<Outcome>>) -> Self {
        let mut slots: SmallVec<[Option<Outcome>; 32]> = inputs.collect();
        slots.resize(plan.slot_count(), None);
        Slots(slots)
    }

    fn set(&mut self, slot: Slot, outcome: Outcome) {
        self.0[slot.index()] = Some(outcome);
    }

    fn outcome(&self, slot: Slot) -> Outcome {
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

/// An input's buffer. A value that nobody observes any more gives up its own reference, so that its last reader can
/// have the memory.
fn take_input(value: Arc<Value>) -> Option<Outcome> {
    if value.is_observed() {
        return value.outcome().cloned();
    }
    match Arc::try_unwrap(value) {
        Ok(value) => value.into_outcome(),
        Err(shared) => shared.outcome().cloned(),
    }
}
