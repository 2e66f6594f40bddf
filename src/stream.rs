//! Streams: an ordered sequence of recorded ops on one device.
//!
//! Each thread records into its current stream of a device: one of its own unless [`Stream::enter`] names another. A
//! stream has one recording thread at a time; other threads may use and drop its values at any time. Using a value
//! that is still pending in another stream cuts that stream, as reading it would.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam::queue::SegQueue;
use parking_lot::Mutex;
use smallvec::SmallVec;
use systole_fusion::ir::{Attrs, Opcode, Origin, Region};

use crate::device::{Device, DeviceInner};
use crate::dispatch;
use crate::error::{Error, Result};
use crate::recorder::Recorder;
use crate::report::CutReason;
use crate::tensor::Tensor;
use crate::value::Value;

/// An ordered sequence of recorded ops on one device. Clones are handles to the same stream; when the last is dropped,
/// what is still observed of its pending ops is submitted.
#[derive(Clone)]
pub struct Stream(Arc<Handle>);

/// Counts the user's handles, apart from the references that values keep.
struct Handle(Arc<StreamShared>);

impl Drop for Handle {
    fn drop(&mut self) {
        // While a panic unwinds nothing new is started: a second panic would end the process. Whoever still holds a
        // pending value cuts the stream by reading it.
        if !std::thread::panicking() {
            self.0.cut(CutReason::Closed);
        }
    }
}

pub(crate) struct StreamShared {
    device: Arc<DeviceInner>,
    id: u64,
    recording_thread: AtomicU64,
    recorder: Mutex<Recorder>,
    deferred_drops: SegQueue<Arc<Value>>,
    /// The first failure that nobody has read yet.
    unreported: Mutex<Option<Error>>,
}

impl Stream {
    /// A fresh stream on `device`.
    pub fn new(device: &Device) -> Self {
        Stream(Arc::new(Handle(StreamShared::new(device.inner().clone()))))
    }

    /// The calling thread's current stream on `device`.
    pub fn current(device: &Device) -> Self {
        current(device.inner(), Stream::clone)
    }

    /// The device.
    pub fn device(&self) -> Device {
        Device::from_inner(self.0.0.device.clone())
    }

    /// Number of the stream on its device, in order of creation.
    pub fn id(&self) -> u64 {
        self.0.0.id
    }

    /// Makes this the calling thread's current stream on its device while `body` runs.
    pub fn enter<R>(&self, body: impl FnOnce() -> R) -> R {
        struct Leave(u64);
        impl Drop for Leave {
            fn drop(&mut self) {
                CURRENT.with_borrow_mut(|current| {
                    if let Some(at) = current.iter().rposition(|stream| stream.shared().device.id() == self.0) {
                        current.remove(at);
                    }
                });
            }
        }
        CURRENT.with_borrow_mut(|current| current.push(self.clone()));
        let _leave = Leave(self.0.0.device.id());
        body()
    }

    /// **The embedding seam.** Records one op and gives its results; the typed methods of [`Tensor`] sit on this.
    ///
    /// `origin` is the position that errors will name: a Rust call site, or the front end's own.
    ///
    /// # Errors
    /// Operand types or attributes do not fit the op, or tensors of another device are among the operands. Failures of
    /// the op itself poison its results and surface where they are read.
    pub fn record(
        &self,
        op: Opcode,
        operands: &[&Tensor],
        attrs: Attrs,
        regions: SmallVec<[Region; 1]>,
        origin: Origin,
    ) -> Result<SmallVec<[Tensor; 1]>> {
        dispatch::record(&self.0.0, op, operands, attrs, regions, origin)
    }

    /// Submits what is pending, without waiting for it.
    #[track_caller]
    pub fn flush(&self) {
        self.0.0.cut(CutReason::Flush(Origin::caller()));
    }

    /// Submits what is pending and waits until the device has done everything.
    ///
    /// # Errors
    /// The first failure on this stream that nobody has read.
    #[track_caller]
    pub fn synchronize(&self) -> Result<()> {
        let origin = Origin::caller();
        self.0.0.cut(CutReason::Synchronize(origin.clone()));
        let waited = self.0.0.device.wait(&origin);
        match self.0.0.unreported.lock().take() {
            Some(first) => Err(first),
            None => waited,
        }
    }

    pub(crate) fn shared(&self) -> &Arc<StreamShared> {
        &self.0.0
    }
}

impl Device {
    /// [`Stream::synchronize`] of the calling thread's current stream.
    ///
    /// # Errors
    /// The first failure on that stream that nobody has read.
    #[track_caller]
    pub fn synchronize(&self) -> Result<()> {
        Stream::current(self).synchronize()
    }

    /// [`Stream::flush`] of the calling thread's current stream.
    #[track_caller]
    pub fn flush(&self) {
        Stream::current(self).flush();
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({} of device {})", self.id(), self.0.0.device.id())
    }
}

impl StreamShared {
    fn new(device: Arc<DeviceInner>) -> Arc<Self> {
        let id = device.next_stream_id();
        let recorder = Mutex::new(Recorder::new(device.config()));
        Arc::new(StreamShared {
            device,
            id,
            recording_thread: AtomicU64::new(thread_id()),
            recorder,
            deferred_drops: SegQueue::new(),
            unreported: Mutex::new(None),
        })
    }

    pub(crate) fn device(&self) -> &Arc<DeviceInner> {
        &self.device
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn recorder(&self) -> &Mutex<Recorder> {
        &self.recorder
    }

    pub(crate) fn is_recorded_by(&self, thread: u64) -> bool {
        self.recording_thread.load(Ordering::Relaxed) == thread
    }

    pub(crate) fn set_recording_thread(&self, thread: u64) {
        self.recording_thread.store(thread, Ordering::Relaxed);
    }

    pub(crate) fn defer_drop(&self, value: Arc<Value>) {
        self.deferred_drops.push(value);
    }

    /// Carries out the drops that other threads made of values that were pending.
    pub(crate) fn drain_deferred_drops(&self) {
        while let Some(value) = self.deferred_drops.pop() {
            value.release_handle();
        }
    }

    /// Ends the pending trace here and submits it.
    pub(crate) fn cut(self: &Arc<Self>, reason: CutReason) {
        let mut recorder = self.recorder.lock();
        recorder.cut(self, reason);
    }

    /// Remembers a failure until somebody reads it.
    pub(crate) fn note_failure(&self, error: &Error) {
        tracing::error!(stream = self.id, %error, "a launch failed");
        self.unreported.lock().get_or_insert_with(|| error.clone());
    }

    /// Forgets a failure that somebody has now read.
    pub(crate) fn mark_reported(&self, error: &Error) {
        let mut unreported = self.unreported.lock();
        if unreported.as_ref().is_some_and(|first| first.is_same_as(error)) {
            *unreported = None;
        }
    }
}

thread_local! {
    /// The streams this thread has made current, the innermost last.
    static CURRENT: RefCell<SmallVec<[Stream; 2]>> = RefCell::new(SmallVec::new());
    static THREAD_ID: u64 = NEXT_THREAD_ID.fetch_add(1, Ordering::Relaxed);
}

static NEXT_THREAD_ID: AtomicU64 = AtomicU64::new(1);

/// A number for the calling thread that no other thread has or will have.
pub(crate) fn thread_id() -> u64 {
    THREAD_ID.try_with(|id| *id).unwrap_or(0)
}

/// Calls `body` with the thread's current stream on `device`, making one where there is none. While the thread's own
/// storage is being torn down there is none to keep, and a stream serves for the one call.
pub(crate) fn current<R>(device: &Arc<DeviceInner>, body: impl FnOnce(&Stream) -> R) -> R {
    let fresh = || Stream(Arc::new(Handle(StreamShared::new(device.clone()))));
    let found = CURRENT.try_with(|current| {
        let mut current = current.borrow_mut();
        if let Some(stream) = current.iter().rev().find(|stream| Arc::ptr_eq(&stream.shared().device, device)) {
            return stream.clone();
        }
        let stream = fresh();
        current.insert(0, stream.clone());
        stream
    });
    body(&found.unwrap_or_else(|_| fresh()))
}

/// Drops the calling thread's own stream on `device`, if it has one.
pub(crate) fn forget(device: &Arc<DeviceInner>) {
    let own = CURRENT.try_with(|current| {
        let mut current = current.borrow_mut();
        // Streams that `enter` has made current belong to their callers, and come after the thread's own.
        let own = current.iter().position(|stream| Arc::ptr_eq(&stream.shared().device, device))?;
        (Arc::strong_count(&current[own].0) == 1).then(|| current.remove(own))
    });
    // Dropped here, with the list no longer borrowed: the drop cuts the stream.
    drop(own);
}
