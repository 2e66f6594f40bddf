//! Executables: a checked program and the machine that runs it, which may still be in the making.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::{Condvar, Mutex};
use systole_kernels::machine::{self, Machine};
use systole_kernels::program::Program;

use super::event::check_process;
use crate::background::JobId;
use crate::device::{DeviceId, Executable};
use crate::error::HalError;

/// A compiled program, or one that is being compiled.
pub(super) struct SimExecutable {
    device: DeviceId,
    state: State,
}

#[allow(clippy::large_enum_variant, reason = "nearly every executable is compiled, and is behind an `Arc` already")]
enum State {
    /// Compiled by the thread that asked for it.
    Compiled(Machine),
    /// Given to the background.
    Pending(Pending),
}

struct Pending {
    compilation: Arc<Compilation>,
    job: JobId,
    /// Whether the background knows that launches wait for it.
    wanted: AtomicBool,
    in_place: OnceLock<Vec<(u16, u16)>>,
}

/// A program on its way through the background. Apart from the executable, so that the compiler keeps none alive that
/// nobody can launch any more.
pub(super) struct Compilation {
    program: Program,
    fingerprint: u64,
    /// The process that compiles it.
    process: u32,
    outcome: OnceLock<Result<Machine, HalError>>,
    lock: Mutex<()>,
    settled: Condvar,
}

impl SimExecutable {
    pub(super) fn compiled(device: DeviceId, machine: Machine) -> Self {
        SimExecutable { device, state: State::Compiled(machine) }
    }

    /// An executable that the background completes with `job`.
    pub(super) fn pending(device: DeviceId, compilation: Arc<Compilation>, job: JobId) -> Self {
        let pending = Pending { compilation, job, wanted: AtomicBool::new(false), in_place: OnceLock::new() };
        SimExecutable { device, state: State::Pending(pending) }
    }

    /// The machine, or why there is none; `None` while it is in the making.
    pub(super) fn outcome(&self) -> Option<Result<&Machine, &HalError>> {
        match &self.state {
            State::Compiled(machine) => Some(Ok(machine)),
            State::Pending(pending) => pending.compilation.outcome.get().map(Result::as_ref),
        }
    }

    /// As [`machine::in_place`]. Computed on demand where there is no machine yet: few launches come before it.
    pub(super) fn in_place(&self) -> &[(u16, u16)] {
        match &self.state {
            State::Compiled(machine) => machine.in_place(),
            State::Pending(Pending { compilation, in_place, .. }) => match compilation.outcome.get() {
                Some(Ok(machine)) => machine.in_place(),
                Some(Err(_)) | None => in_place.get_or_init(|| machine::in_place(&compilation.program)),
            },
        }
    }

    /// The job to be preferred, because a launch waits for it; said once.
    pub(super) fn newly_wanted(&self) -> Option<JobId> {
        match &self.state {
            State::Compiled(_) => None,
            State::Pending(Pending { compilation, job, wanted, .. }) => {
                (!compilation.is_settled() && !wanted.swap(true, Ordering::Relaxed)).then_some(*job)
            }
        }
    }
}

impl Compilation {
    /// A program that has passed [`machine::check`].
    pub(super) fn of(program: Program) -> Arc<Self> {
        Arc::new(Compilation {
            fingerprint: machine::fingerprint(&program),
            program,
            process: std::process::id(),
            outcome: OnceLock::new(),
            lock: Mutex::new(()),
            settled: Condvar::new(),
        })
    }

    pub(super) fn program(&self) -> &Program {
        &self.program
    }

    pub(super) fn is_settled(&self) -> bool {
        self.outcome.get().is_some()
    }

    /// Hands over the machine, or the reason why there is none; the first outcome stays.
    pub(super) fn settle(&self, outcome: Result<Machine, HalError>) {
        let guard = self.lock.lock();
        let _ = self.outcome.set(outcome);
        drop(guard);
        self.settled.notify_all();
    }

    fn wait(&self) -> Result<(), HalError> {
        if !self.is_settled() {
            check_process(self.process)?;
            let mut guard = self.lock.lock();
            while !self.is_settled() {
                self.settled.wait(&mut guard);
            }
        }
        match self.outcome.get() {
            Some(Err(error)) => Err(error.clone()),
            Some(Ok(_)) | None => Ok(()),
        }
    }
}

impl Executable for SimExecutable {
    fn device(&self) -> DeviceId {
        self.device
    }

    fn program(&self) -> &Program {
        match &self.state {
            State::Compiled(machine) => machine.program(),
            State::Pending(pending) => &pending.compilation.program,
        }
    }

    fn fingerprint(&self) -> u64 {
        match &self.state {
            State::Compiled(machine) => machine.fingerprint(),
            State::Pending(pending) => pending.compilation.fingerprint,
        }
    }

    fn is_ready(&self) -> bool {
        self.outcome().is_some()
    }

    fn wait(&self) -> Result<(), HalError> {
        match &self.state {
            State::Compiled(_) => Ok(()),
            State::Pending(pending) => pending.compilation.wait(),
        }
    }
}

impl fmt::Debug for SimExecutable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.outcome() {
            None => ", pending",
            Some(Ok(_)) => "",
            Some(Err(_)) => ", failed",
        };
        write!(f, "SimExecutable({}{state})", self.name())
    }
}
