//! The pending trace of one stream, and when it is cut.
//!
//! The recorder appends; it never waits and never looks at anything but what was recorded here. A cut follows from
//! program order alone: a read, a synchronize, a flush, the bound on ops, the bound on bytes, or a mode that runs ops
//! one by one. Windows start small, so that the device starts early, and double with each cut but the last kind.

use std::sync::Arc;

use smallvec::SmallVec;
use systole_fusion::ir::{Attrs, Opcode, Origin, Region, Trace, ValueId};
use systole_kernels::TensorType;

use crate::config::{Config, Mode};
use crate::executor::{self, InFlight};
use crate::report::CutReason;
use crate::stream::{StreamShared, thread_id};
use crate::tensor::Tensor;
use crate::value::Value;

pub(crate) struct Recorder {
    trace: Trace,
    /// The values of the trace's inputs, in order.
    inputs: Vec<Arc<Value>>,
    /// The values of the trace's results, in order of definition.
    results: Vec<(ValueId, Arc<Value>)>,
    /// The values of the trace's outputs; filled by a cut, and kept for its storage.
    outputs: Vec<Arc<Value>>,
    in_flight: InFlight,
    /// Number of the pending trace; cuts so far.
    epoch: u32,
    window: usize,
    window_limit: usize,
    bytes: u64,
    bytes_limit: u64,
}

/// A pending trace that was cut off, with the values that stand at its ends.
pub(crate) struct Cut<'a> {
    pub(crate) trace: &'a Trace,
    /// The executor takes the inputs out, so that it can give up the last reference to one.
    pub(crate) inputs: &'a mut Vec<Arc<Value>>,
    pub(crate) outputs: &'a [Arc<Value>],
    pub(crate) in_flight: &'a mut InFlight,
    pub(crate) reason: CutReason,
    pub(crate) sequence: u64,
}

impl Recorder {
    pub(crate) fn new(config: &Config) -> Self {
        Recorder {
            trace: Trace::new(),
            inputs: Vec::new(),
            results: Vec::new(),
            outputs: Vec::new(),
            in_flight: InFlight::default(),
            epoch: 0,
            window: config.first_window.clamp(1, config.window_limit.max(1)),
            window_limit: config.window_limit.max(1),
            bytes: 0,
            bytes_limit: config.pending_bytes,
        }
    }

    /// Appends an op whose result types are known to fit, and cuts where a bound is met.
    #[expect(
        clippy::too_many_arguments,
        reason = "a node has these parts; a struct for one call would only rename them"
    )]
    pub(crate) fn append(
        &mut self,
        stream: &Arc<StreamShared>,
        mode: Mode,
        op: Opcode,
        operands: &[&Tensor],
        attrs: Attrs,
        regions: SmallVec<[Region; 1]>,
        types: SmallVec<[TensorType; 1]>,
        origin: Origin,
    ) -> SmallVec<[Tensor; 1]> {
        stream.set_recording_thread(thread_id());
        if mode != Mode::Fused && !self.trace.nodes().is_empty() {
            self.cut(stream, CutReason::OneByOne);
        }
        let operands: SmallVec<[ValueId; 3]> =
            operands.iter().map(|tensor| self.operand(stream, tensor.value())).collect();
        self.bytes = types.iter().fold(self.bytes, |bytes, ty| bytes.saturating_add(ty.byte_len() as u64));
        let first = self.trace.push_inferred(op, operands, attrs, regions, types.clone(), origin);
        let results = types
            .into_iter()
            .zip(first.0..)
            .map(|(ty, id)| {
                let value = Value::pending(ty, stream.clone(), self.epoch, ValueId(id));
                self.results.push((ValueId(id), value.clone()));
                Tensor::from_value(value)
            })
            .collect();
        let ops = self.trace.nodes().len();
        if mode != Mode::Fused {
            self.cut(stream, CutReason::OneByOne);
        } else if ops >= self.window {
            self.cut(stream, CutReason::Ops(ops));
        } else if self.bytes >= self.bytes_limit {
            self.cut(stream, CutReason::Bytes(self.bytes));
        }
        results
    }

    /// The id of a value in the pending trace; a value from outside becomes an input.
    fn operand(&mut self, stream: &Arc<StreamShared>, value: &Arc<Value>) -> ValueId {
        let at_home = Arc::ptr_eq(value.stream(), stream);
        let known = if at_home {
            value.position(self.epoch)
        } else {
            // Inputs from other streams are few; their own position belongs to their own stream.
            self.inputs.iter().position(|input| Arc::ptr_eq(input, value)).map(|at| self.trace.inputs()[at])
        };
        known.unwrap_or_else(|| {
            let id = self.trace.input(value.ty().clone());
            self.bytes = self.bytes.saturating_add(value.ty().byte_len() as u64);
            self.inputs.push(value.clone());
            if at_home {
                value.set_position(self.epoch, id);
            }
            id
        })
    }

    /// Ends the pending trace and hands it to the executor. Values that nobody observes any more are not computed.
    pub(crate) fn cut(&mut self, stream: &Arc<StreamShared>, reason: CutReason) {
        if self.trace.nodes().is_empty() {
            stream.drain_deferred_drops();
            return;
        }
        for (id, value) in self.results.drain(..) {
            if value.is_observed() {
                self.trace.output(id);
                self.outputs.push(value);
            }
        }
        if reason != CutReason::OneByOne {
            self.window = self.window.saturating_mul(2).min(self.window_limit);
        }
        let sequence = u64::from(self.epoch);
        // The all-ones epoch marks values that never stood in a trace.
        self.epoch = (self.epoch + 1) % u32::MAX;
        self.bytes = 0;
        executor::run(
            stream,
            Cut {
                trace: &self.trace,
                inputs: &mut self.inputs,
                outputs: &self.outputs,
                in_flight: &mut self.in_flight,
                reason,
                sequence,
            },
        );
        self.trace.clear();
        self.inputs.clear();
        self.outputs.clear();
        stream.drain_deferred_drops();
    }
}
