//! From a cut trace to submitted launches.
//!
//! The key is looked up; on a miss the plan is built. Then the plan's steps are submitted in order without waiting
//! (module `submission`), and every output is settled with a buffer, whose contents may be on their way, or a failure.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use smallvec::SmallVec;
use systole_fusion::canonical::{Difference, PlanKey, canonicalize};
use systole_fusion::ir::{Node, NodeId, Origin, Trace};
use systole_fusion::plan::Plan;
use systole_hal::EventRef;

use crate::bound;
use crate::error::Error;
use crate::recorder::Cut;
use crate::report::{Build, FlushReport, KeyDifference, PlanSource, ProgramReport};
use crate::stream::StreamShared;
use crate::submission::{Slots, Submission};
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
    /// As many where launches may wait for a compiler, so that the stream does not: a second of recording the smallest.
    const LIMIT_COMPILING: usize = 64 << 10;

    /// Adds a launch. Besides their number, the bytes of launches in flight are bounded, by the device's memory: a buffer
    /// that was dropped while a queued launch reads it no longer counts there, but the host still holds it.
    pub(crate) fn push(&mut self, stream: &StreamShared, done: EventRef, bytes: u64) {
        self.launches.push_back((done, bytes));
        self.bytes = self.bytes.saturating_add(bytes);
        let capabilities = stream.device().hal().capabilities();
        let most = if capabilities.background_compiles { InFlight::LIMIT_COMPILING } else { InFlight::LIMIT };
        let heaviest = capabilities.memory_limit;
        if self.launches.len() < most && self.bytes <= heaviest {
            return;
        }
        tracing::debug!(launches = self.launches.len(), self.bytes, "the stream waits for the device");
        let (few, light) = (most / 2, heaviest / 2);
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
        compiled: Vec::new(),
        op_by_op: 0,
        waiting: 0,
        bytes_moved: 0,
        peak_bytes: 0,
    };
    if !cut.outputs.is_empty() {
        submit(stream, cut, &mut report);
    }
    let add = |total: &AtomicU64, more: u64| total.fetch_add(more, Ordering::Relaxed);
    add(&device.totals.cuts, 1);
    add(&device.totals.ops, ops as u64);
    add(&device.totals.launches, report.launches as u64);
    add(&device.totals.op_by_op, report.op_by_op as u64);
    add(&device.totals.waiting, report.waiting as u64);
    add(&device.totals.bytes_moved, report.bytes_moved);
    tracing::debug!(?report.reason, report.ops, report.launches, ?report.plan, "cut");
    device.report(report);
}

fn submit(stream: &Arc<StreamShared>, cut: Cut, report: &mut FlushReport) {
    let device = stream.device();
    let Cut { trace, inputs, outputs, in_flight, .. } = cut;
    // Whether an input may really be reused is decided per launch, by who else holds it: were it part of the key,
    // another thread's drop could change which plan runs.
    let donatable: SmallVec<[bool; 32]> = SmallVec::from_elem(true, inputs.len());
    let keyed = match canonicalize(trace, &donatable) {
        Ok(keyed) => keyed,
        Err(unsupported) => {
            let node = unsupported.node().map(|node| trace.node(node));
            let operands =
                node.map_or(Vec::new(), |node| node.operands.iter().map(|&id| trace.ty(id).clone()).collect());
            let error =
                Error::unsupported(node.map(|node| node.op), operands, origin_of(node), unsupported.to_string());
            stream.note_failure(&error);
            outputs.iter().for_each(|value| value.settle(Err(error.clone())));
            return;
        }
    };
    report.key = keyed.key.hash64();
    let (bound, built) = bound::planned(&keyed.key, &device.plans, true);
    report.bytes_moved = bound.plan.bytes_moved(&keyed.params);
    report.peak_bytes = bound.plan.peak_bytes(&keyed.params);
    let mut submission = Submission {
        stream,
        trace,
        bound: &bound,
        part_of: None,
        slots: Slots::new(&bound.plan, inputs.drain(..).map(take_input)),
        in_flight,
        bytes: report.bytes_moved,
        new: SmallVec::new(),
        report,
    };
    submission.run(&keyed.params, &keyed.scalars);
    let Submission { slots, new, .. } = submission;
    for (value, slot) in outputs.iter().zip(bound.plan.outputs()) {
        value.settle(slots.outcome(*slot));
    }
    report.plan = if built {
        PlanSource::Built(Arc::new(explain_build(trace, &bound.plan, &new, device.plans.nearest(&keyed.key))))
    } else {
        PlanSource::Cached
    };
}

pub(crate) fn origin_of(node: Option<&Node>) -> Origin {
    node.map_or(Origin::Unknown, |node| node.origin.clone())
}

/// The node of a trace whose result a node of its plan is.
pub(crate) fn node_of(trace: &Trace, planned: NodeId) -> Option<&Node> {
    trace.node_of_result(planned.index()).map(|node| trace.node(node))
}

/// Why a plan for `trace` was built, and what that took; `new` are the numbers of the launches whose programs were new.
fn explain_build(trace: &Trace, plan: &Plan, new: &[usize], nearest: Option<(PlanKey, Difference)>) -> Build {
    let programs = plan.launches().enumerate().map(|(at, launch)| ProgramReport {
        name: launch.name.clone(),
        new: new.contains(&at),
        origin: origin_of(launch.nodes.last().and_then(|&node| node_of(trace, node))),
    });
    let difference = nearest.map(|(_, part)| {
        let node = part.node().and_then(|node| node_of(trace, node));
        KeyDifference { origin: node.map(|node| node.origin.clone()), part }
    });
    Build { programs: programs.collect(), difference }
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
