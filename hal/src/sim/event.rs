//! Completion, and the failures that travel with it.
//!
//! The device thread completes one event per launch, so completing must cost a few nanoseconds when nobody waits: one
//! atomic swap. A waiter that has to sleep says so in the state first. A condition variable for the whole device would
//! wake every waiter at every launch; a lock per completion would cost more than many programs.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::{Condvar, Mutex};

use super::queue::Spin;
use crate::device::Event;
use crate::error::HalError;

/// A launch that failed by itself; whatever it poisoned shares it.
#[derive(Debug)]
pub(super) struct Failure {
    /// Number of the launch.
    pub(super) launch: u64,
    /// What happened, with the launch's label.
    pub(super) error: HalError,
    reported: AtomicBool,
}

impl Failure {
    pub(super) fn new(launch: u64, error: HalError) -> Arc<Self> {
        Arc::new(Failure { launch, error, reported: AtomicBool::new(false) })
    }

    /// The error for a caller, who has been told with this.
    pub(super) fn report(&self) -> HalError {
        self.reported.store(true, Ordering::Relaxed);
        self.error.clone()
    }

    /// Whether somebody has been told.
    pub(super) fn is_reported(&self) -> bool {
        self.reported.load(Ordering::Relaxed)
    }
}

const PENDING: u8 = 0;
/// Pending, and somebody sleeps on the condition variable.
const AWAITED: u8 = 1;
const DONE: u8 = 2;

/// An event; pending until [`complete`](Self::complete).
pub(super) struct SimEvent {
    /// The process that runs the device thread.
    process: u32,
    state: AtomicU8,
    failure: OnceLock<Arc<Failure>>,
    lock: Mutex<()>,
    completed: Condvar,
}

impl SimEvent {
    /// An event that the device thread of `process` completes.
    pub(super) fn pending(process: u32) -> Self {
        SimEvent::in_state(PENDING, process)
    }

    pub(super) fn succeeded() -> Self {
        SimEvent::in_state(DONE, 0)
    }

    fn in_state(state: u8, process: u32) -> Self {
        SimEvent {
            process,
            state: AtomicU8::new(state),
            failure: OnceLock::new(),
            lock: Mutex::new(()),
            completed: Condvar::new(),
        }
    }

    /// The failure, once completed with one.
    pub(super) fn failure(&self) -> Option<&Arc<Failure>> {
        self.failure.get()
    }

    /// Blocks until completed.
    pub(super) fn outcome(&self) -> Result<(), &Arc<Failure>> {
        if self.state.load(Ordering::Acquire) != DONE && !Spin::until(|| self.is_ready()) {
            self.sleep();
        }
        self.failure.get().map_or(Ok(()), Err)
    }

    #[cold]
    fn sleep(&self) {
        let mut guard = self.lock.lock();
        // `AWAITED` is set under the lock and `complete` takes the lock when it finds it: either it finds this waiter
        // asleep, or this waiter finds `DONE`.
        let _ = self.state.compare_exchange(PENDING, AWAITED, Ordering::Acquire, Ordering::Acquire);
        while self.state.load(Ordering::Acquire) != DONE {
            self.completed.wait(&mut guard);
        }
    }

    fn complete(&self, failure: Option<Arc<Failure>>) {
        if let Some(failure) = failure {
            self.failure.set(failure).expect("an event completes once: its `Completion` was consumed");
        }
        if self.state.swap(DONE, Ordering::AcqRel) == AWAITED {
            drop(self.lock.lock());
            self.completed.notify_all();
        }
    }
}

/// Whether the device thread that `process` started is a thread of this process.
pub(super) fn check_process(process: u32) -> Result<(), HalError> {
    if process == std::process::id() {
        return Ok(());
    }
    let message = "this process was forked after the device had started, and the device's threads stayed behind; open a \
                   device in the new process";
    Err(HalError::new(crate::ErrorKind::DeviceLost, message))
}

impl Event for SimEvent {
    fn is_ready(&self) -> bool {
        self.state.load(Ordering::Acquire) == DONE
    }

    fn wait(&self) -> Result<(), HalError> {
        if !self.is_ready() {
            // Threads do not survive a fork: in the child nobody would ever complete this.
            check_process(self.process)?;
        }
        self.outcome().map_err(|failure| failure.report())
    }
}

impl fmt::Debug for SimEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.is_ready(), self.failure.get()) {
            (false, _) => "SimEvent(pending)",
            (true, None) => "SimEvent(succeeded)",
            (true, Some(_)) => "SimEvent(failed)",
        })
    }
}

/// The right and the duty to complete an event: consumed by completing it, and dropped unused it completes with a
/// failure, so that nobody waits for ever on a command that was lost (H3).
#[derive(Debug)]
pub(super) struct Completion(Option<Arc<SimEvent>>);

impl Completion {
    pub(super) fn of(event: Arc<SimEvent>) -> Self {
        Completion(Some(event))
    }

    pub(super) fn succeed(mut self) {
        if let Some(event) = self.0.take() {
            event.complete(None);
        }
    }

    pub(super) fn fail(mut self, failure: Arc<Failure>) {
        if let Some(event) = self.0.take() {
            event.complete(Some(failure));
        }
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        if let Some(event) = self.0.take() {
            let error =
                HalError::new(crate::ErrorKind::Internal, "the device thread dropped a command without running it");
            event.complete(Some(Failure::new(u64::MAX, error)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn sleeping_waiters_are_woken_with_one_outcome() {
        for fails in [false, true] {
            let event = Arc::new(SimEvent::pending(std::process::id()));
            let completion = Completion::of(event.clone());
            std::thread::scope(|scope| {
                let waiters: Vec<_> = (0..4).map(|_| scope.spawn(|| event.wait())).collect();
                if fails {
                    completion.fail(Failure::new(0, HalError::new(ErrorKind::Internal, "no")));
                } else {
                    completion.succeed();
                }
                for waiter in waiters {
                    assert_eq!(waiter.join().unwrap().is_err(), fails);
                }
            });
        }
    }

    #[test]
    fn a_lost_completion_fails_its_event() {
        let event = Arc::new(SimEvent::pending(std::process::id()));
        drop(Completion::of(event.clone()));
        assert_eq!(event.wait().unwrap_err().kind(), ErrorKind::Internal);
    }
}
