//! The contract as tests that run against any backend.
//!
//! A suite per object of the contract; each [`Case`] cites the clauses it holds a backend to. Every case gets devices of
//! its own, wrapped in [`Validated`]. The suite is a library function that returns a [`Report`], so that a backend
//! outside this workspace can run it from its own tests.
//!
//! What a backend cannot be asked is said by [`Tag`]s: without [`Tag::Faults`] nobody can make a launch fail on demand.
//! [`Backend::unsupported`] leaves single cases out and [`Backend::expected_fail`] names those that are known to fail;
//! one of these that passes is a failure of the list. A case that hangs or panics has failed and the others still run.
//!
//! No case measures time or sleeps: where one thing must happen while another is pending, the pending launch is held at a
//! [`Gate`](crate::sim::Gate) that the case opens.

mod background;
mod buffer;
mod compile;
mod event;
mod execute;
mod failure;
mod memory;
mod programs;

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use crate::device::DeviceRef;
use crate::error::{ErrorKind, HalError};
use crate::sim::Faults;
use crate::validate::Validated;

/// A clause of the contract, as numbered at the [crate's root](crate).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[allow(missing_docs, reason = "the clauses' text is at the crate's root")]
pub enum Clause {
    H1,
    H2,
    H3,
    H4,
    H5,
    H6,
    H7,
    H8,
    H9,
    H10,
    H11,
    H12,
    H13,
    H14,
    H15,
}

/// What a backend can do beyond the bare contract, as far as cases depend on it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Tag {
    /// It computes.
    Values,
    /// It keeps [`Options::memory_limit`] and accounts to the byte.
    MemoryLimit,
    /// It reuses a donated argument's memory for an elementwise output of the same size and counts that.
    InPlace,
    /// It carries out [`Options::faults`].
    Faults,
    /// It compiles in the background.
    Background,
    /// It compiles for static shapes.
    StaticShapes,
}

/// How a case wants a device.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Bytes of device memory, if it matters.
    pub memory_limit: Option<u64>,
    /// Failures to inject.
    pub faults: Faults,
}

impl Options {
    /// A device with so many bytes.
    pub fn limited(memory_limit: u64) -> Self {
        Options { memory_limit: Some(memory_limit), ..Options::default() }
    }

    /// A device with these failures.
    pub fn faulty(faults: Faults) -> Self {
        Options { faults, ..Options::default() }
    }
}

/// A backend under test.
pub trait Backend: Send + Sync + 'static {
    /// For reports.
    fn name(&self) -> &str;

    /// Opens a fresh device.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] where this machine has no such device: the suite is skipped then.
    fn open(&self, options: &Options) -> Result<DeviceRef, HalError>;

    /// What it can do.
    fn tags(&self) -> &[Tag];

    /// Names of cases that are not run.
    fn unsupported(&self) -> &[&str] {
        &[]
    }

    /// Names of cases that are known to fail.
    fn expected_fail(&self) -> &[&str] {
        &[]
    }
}

/// One test.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Suite and name, e.g. `buffer::round_trip`.
    pub name: &'static str,
    /// Clauses it holds a backend to.
    pub clauses: &'static [Clause],
    /// What the backend needs for it.
    pub needs: &'static [Tag],
    run: fn(&Bench) -> Checked,
}

/// Every case.
pub fn cases() -> impl Iterator<Item = &'static Case> {
    [buffer::CASES, compile::CASES, execute::CASES, event::CASES, memory::CASES, failure::CASES, background::CASES]
        .into_iter()
        .flatten()
}

/// How a case went.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It held.
    Passed,
    /// It did not, for this reason.
    Failed(String),
    /// Not run, for this reason.
    Skipped(String),
    /// It failed, as listed.
    FailedAsExpected,
    /// It passed though listed as failing.
    PassedUnexpectedly,
}

/// How a backend did.
#[derive(Clone, Debug)]
pub struct Report {
    backend: String,
    unavailable: Option<String>,
    outcomes: Vec<(&'static str, Outcome)>,
    strangers: Vec<String>,
}

impl Report {
    /// Why there is no such device on this machine; no case was run then.
    pub fn unavailable(&self) -> Option<&str> {
        self.unavailable.as_deref()
    }

    /// Each case's name and outcome.
    pub fn outcomes(&self) -> &[(&'static str, Outcome)] {
        &self.outcomes
    }

    /// Whether nothing is wrong with the backend or its lists.
    pub fn is_ok(&self) -> bool {
        self.strangers.is_empty()
            && self.outcomes.iter().all(|(_, outcome)| match outcome {
                Outcome::Passed | Outcome::Skipped(_) | Outcome::FailedAsExpected => true,
                Outcome::Failed(_) | Outcome::PassedUnexpectedly => false,
            })
    }

    /// Number of cases that passed.
    pub fn passed(&self) -> usize {
        self.outcomes.iter().filter(|(_, outcome)| *outcome == Outcome::Passed).count()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "conformance of {}", self.backend)?;
        if let Some(reason) = &self.unavailable {
            return writeln!(f, "  skipped: {reason}");
        }
        for (name, outcome) in &self.outcomes {
            match outcome {
                Outcome::Passed => writeln!(f, "  {name}: passed")?,
                Outcome::Failed(reason) => writeln!(f, "  {name}: FAILED: {reason}")?,
                Outcome::Skipped(reason) => writeln!(f, "  {name}: skipped: {reason}")?,
                Outcome::FailedAsExpected => writeln!(f, "  {name}: failed as expected")?,
                Outcome::PassedUnexpectedly => writeln!(f, "  {name}: PASSED though listed as failing")?,
            }
        }
        for name in &self.strangers {
            writeln!(f, "  {name}: NO SUCH CASE, though the backend lists it")?;
        }
        Ok(())
    }
}

/// Runs every case against `backend`.
pub fn run(backend: Arc<dyn Backend>) -> Report {
    let mut report =
        Report { backend: backend.name().to_owned(), unavailable: None, outcomes: Vec::new(), strangers: Vec::new() };
    if let Err(error) = backend.open(&Options::default()).map(drop)
        && error.kind() == ErrorKind::Unavailable
    {
        report.unavailable = Some(error.message().to_owned());
        return report;
    }
    for listed in backend.unsupported().iter().chain(backend.expected_fail()) {
        if !cases().any(|case| case.name == *listed) {
            report.strangers.push((*listed).to_owned());
        }
    }
    for case in cases() {
        report.outcomes.push((case.name, run_case(&backend, case)));
    }
    report
}

fn run_case(backend: &Arc<dyn Backend>, case: &'static Case) -> Outcome {
    if backend.unsupported().contains(&case.name) {
        return Outcome::Skipped("the backend lists it as unsupported".into());
    }
    if let Some(tag) = case.needs.iter().find(|tag| !backend.tags().contains(tag)) {
        return Outcome::Skipped(format!("the backend lacks {tag:?}"));
    }
    match (attempt(backend.clone(), case), backend.expected_fail().contains(&case.name)) {
        (Ok(()), false) => Outcome::Passed,
        (Ok(()), true) => Outcome::PassedUnexpectedly,
        (Err(_), true) => Outcome::FailedAsExpected,
        (Err(reason), false) => Outcome::Failed(reason),
    }
}

/// Long enough for any case on a loaded machine; only a backend that hangs gets there.
const HUNG: Duration = Duration::from_secs(120);

fn attempt(backend: Arc<dyn Backend>, case: &'static Case) -> Result<(), String> {
    let (finished, outcome) = channel();
    std::thread::spawn(move || {
        let bench = Bench { backend };
        // Nobody listens any more where the case took too long.
        let _ = finished.send((case.run)(&bench));
    });
    match outcome.recv_timeout(HUNG) {
        Ok(checked) => checked.map_err(|failed| failed.0),
        Err(RecvTimeoutError::Disconnected) => Err("it panicked".into()),
        Err(RecvTimeoutError::Timeout) => Err(format!("it hung for {HUNG:?}")),
    }
}

/// What a case works with.
struct Bench {
    backend: Arc<dyn Backend>,
}

impl Bench {
    fn open(&self) -> Result<DeviceRef, Failed> {
        self.open_with(&Options::default())
    }

    fn open_with(&self, options: &Options) -> Result<DeviceRef, Failed> {
        Ok(Arc::new(Validated::new(self.backend.open(options)?)))
    }
}

/// Why a case failed.
#[derive(Debug)]
struct Failed(String);

type Checked<T = ()> = Result<T, Failed>;

impl From<HalError> for Failed {
    fn from(error: HalError) -> Self {
        Failed(format!("unexpected error: {error}"))
    }
}

fn ensure(holds: bool, what: impl Into<String>) -> Checked {
    if holds { Ok(()) } else { Err(Failed(what.into())) }
}

fn ensure_eq<T: PartialEq + fmt::Debug>(what: &str, found: T, expected: T) -> Checked {
    ensure(found == expected, format!("{what}: found {found:?}, expected {expected:?}"))
}

fn ensure_kind<T>(what: &str, outcome: Result<T, HalError>, expected: ErrorKind) -> Checked<HalError> {
    match outcome {
        Ok(_) => Err(Failed(format!("{what}: succeeded, expected {expected}"))),
        Err(error) if error.kind() == expected => Ok(error),
        Err(error) => Err(Failed(format!("{what}: found `{error}`, expected {expected}"))),
    }
}
