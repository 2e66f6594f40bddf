//! A value of the program: pending in a trace, scheduled on the device, or failed.
//!
//! **Handles** count the user's [`Tensor`](crate::Tensor)s, not the runtime's references: a pending value without
//! handles is work that nobody observes. A drop on the stream's recording thread counts at once. A drop elsewhere of a
//! value that is still pending is *deferred* to the stream's next cut, so that what a cut computes depends on the
//! recording thread's program order alone, however threads are scheduled.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use once_cell::sync::OnceCell;
use systole_fusion::ir::ValueId;
use systole_hal::BufferRef;
use systole_kernels::TensorType;

use crate::error::Error;
use crate::stream::{self, StreamShared};

/// What became of a value once its trace was cut: a buffer whose contents may still be on their way, or the first cause
/// of a failure.
pub(crate) type Outcome = Result<BufferRef, Error>;

pub(crate) struct Value {
    ty: TensorType,
    stream: Arc<StreamShared>,
    handles: AtomicUsize,
    outcome: OnceCell<Outcome>,
    /// Where the value stands in its own stream's pending trace: epoch in the upper half, `ValueId` in the lower.
    position: AtomicU64,
}

impl Value {
    /// A value that stands at `id` in the pending trace `epoch` of `stream`; one handle exists.
    pub(crate) fn pending(ty: TensorType, stream: Arc<StreamShared>, epoch: u32, id: ValueId) -> Arc<Self> {
        let value =
            Value { ty, stream, handles: AtomicUsize::new(1), outcome: OnceCell::new(), position: AtomicU64::new(0) };
        value.set_position(epoch, id);
        Arc::new(value)
    }

    /// A value that is there or has failed; one handle exists.
    pub(crate) fn settled(ty: TensorType, stream: Arc<StreamShared>, outcome: Outcome) -> Arc<Self> {
        Arc::new(Value {
            ty,
            stream,
            handles: AtomicUsize::new(1),
            outcome: OnceCell::with_value(outcome),
            position: AtomicU64::new(u64::MAX),
        })
    }

    pub(crate) fn ty(&self) -> &TensorType {
        &self.ty
    }

    pub(crate) fn stream(&self) -> &Arc<StreamShared> {
        &self.stream
    }

    /// The outcome, unless the value is still pending.
    pub(crate) fn outcome(&self) -> Option<&Outcome> {
        self.outcome.get()
    }

    /// Settles a pending value.
    pub(crate) fn settle(&self, outcome: Outcome) {
        let first = self.outcome.set(outcome).is_ok();
        debug_assert!(first, "a value is settled by the one cut that ends its trace");
    }

    /// Gives up the buffer of a value that nothing else refers to.
    pub(crate) fn into_outcome(self) -> Option<Outcome> {
        self.outcome.into_inner()
    }

    /// The place in the home stream's pending trace, if it is of this epoch.
    pub(crate) fn position(&self, epoch: u32) -> Option<ValueId> {
        let position = self.position.load(Ordering::Relaxed);
        ((position >> 32) as u32 == epoch).then_some(ValueId(position as u32))
    }

    pub(crate) fn set_position(&self, epoch: u32, id: ValueId) {
        self.position.store(u64::from(epoch) << 32 | u64::from(id.0), Ordering::Relaxed);
    }

    pub(crate) fn is_observed(&self) -> bool {
        self.handles.load(Ordering::Acquire) > 0
    }

    pub(crate) fn add_handle(&self) {
        self.handles.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn release_handle(&self) {
        self.handles.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Drops one handle; never blocks.
pub(crate) fn drop_handle(value: &Arc<Value>) {
    if value.outcome.get().is_some() || value.stream.is_recorded_by(stream::thread_id()) {
        value.release_handle();
    } else {
        value.stream.defer_drop(value.clone());
    }
}
