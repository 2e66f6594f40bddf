//! The simulator and the null device under the conformance suite, and the suite under itself.

use std::collections::BTreeSet;
use std::sync::Arc;

use systole_hal::conformance::{Backend, Clause, Options, Outcome, Report, Tag, cases, run};
use systole_hal::null::NullDevice;
use systole_hal::sim::{Compiler, Profile, SimConfig, SimDevice};
use systole_hal::{DeviceRef, ErrorKind, HalError};

struct Simulator {
    threads: usize,
    compiler: Compiler,
}

impl Backend for Simulator {
    fn name(&self) -> &str {
        "the simulator"
    }

    fn open(&self, options: &Options) -> Result<DeviceRef, HalError> {
        let mut config = SimConfig::new(Profile::Ieee);
        config.threads = self.threads;
        config.compiler = self.compiler;
        config.memory_limit = options.memory_limit.unwrap_or(config.memory_limit);
        config.faults = options.faults.clone();
        SimDevice::open(config)
    }

    fn tags(&self) -> &[Tag] {
        match (self.compiler.threads > 0, self.compiler.static_shapes) {
            (false, false) => &[Tag::Values, Tag::MemoryLimit, Tag::InPlace, Tag::Faults],
            (false, true) => &[Tag::Values, Tag::MemoryLimit, Tag::InPlace, Tag::Faults, Tag::StaticShapes],
            (true, false) => &[Tag::Values, Tag::MemoryLimit, Tag::InPlace, Tag::Faults, Tag::Background],
            (true, true) => {
                &[Tag::Values, Tag::MemoryLimit, Tag::InPlace, Tag::Faults, Tag::Background, Tag::StaticShapes]
            }
        }
    }
}

struct Null {
    unsupported: &'static [&'static str],
    expected_fail: &'static [&'static str],
}

impl Backend for Null {
    fn name(&self) -> &str {
        "the null device"
    }

    fn open(&self, _: &Options) -> Result<DeviceRef, HalError> {
        Ok(NullDevice::open())
    }

    fn tags(&self) -> &[Tag] {
        &[]
    }

    fn unsupported(&self) -> &[&str] {
        self.unsupported
    }

    fn expected_fail(&self) -> &[&str] {
        self.expected_fail
    }
}

struct Absent;

impl Backend for Absent {
    fn name(&self) -> &str {
        "a chip that is not here"
    }

    fn open(&self, _: &Options) -> Result<DeviceRef, HalError> {
        Err(HalError::new(ErrorKind::Unavailable, "no such chip in this machine"))
    }

    fn tags(&self) -> &[Tag] {
        &[]
    }
}

#[allow(clippy::print_stderr, reason = "whoever reads the test log wants to know what was not tested, and why")]
fn print_skips(report: &Report) {
    if let Some(reason) = report.unavailable() {
        eprintln!("skipped: {reason}");
    }
    for (name, outcome) in report.outcomes() {
        if let Outcome::Skipped(reason) = outcome {
            eprintln!("{name} skipped: {reason}");
        }
    }
}

#[test]
fn the_simulator_conforms() {
    for threads in [1, 2] {
        let report = run(Arc::new(Simulator { threads, compiler: Compiler::default() }));
        assert!(report.is_ok(), "{threads} threads: {report}");
    }
}

/// With every kind of compiler it keeps all clauses, and with a slow one no case is left out.
#[test]
fn the_simulator_conforms_with_every_compiler() {
    for (threads, static_shapes) in [(0, true), (1, false), (3, false), (2, true)] {
        let compiler = Compiler { static_shapes, threads, ..Compiler::default() };
        let report = run(Arc::new(Simulator { threads: 2, compiler }));
        assert!(report.is_ok(), "{compiler:?}: {report}");
        if threads > 0 && static_shapes {
            assert_eq!(report.passed(), cases().count(), "this one skips nothing: {report}");
        }
    }
}

#[test]
fn the_null_device_conforms_where_no_value_is_asked() {
    let report = run(Arc::new(Null { unsupported: &[], expected_fail: &[] }));
    assert!(report.is_ok(), "{report}");
    assert!(report.passed() >= 10, "{report}");
    print_skips(&report);
}

#[test]
fn an_absent_device_is_skipped_with_its_reason() {
    let report = run(Arc::new(Absent));
    print_skips(&report);
    assert!(report.is_ok() && report.outcomes().is_empty());
    assert_eq!(report.unavailable(), Some("no such chip in this machine"));
}

#[test]
fn wrong_lists_are_failures() {
    let outcome = |report: &Report, name| report.outcomes().iter().find(|found| found.0 == name).unwrap().1.clone();

    let report = run(Arc::new(Null { unsupported: &[], expected_fail: &["buffer::zero_elements"] }));
    assert!(!report.is_ok(), "an unexpected pass is a failure");
    assert_eq!(outcome(&report, "buffer::zero_elements"), Outcome::PassedUnexpectedly);

    let report = run(Arc::new(Null { unsupported: &["buffer::zero_elements"], expected_fail: &[] }));
    assert!(report.is_ok(), "{report}");
    assert!(matches!(outcome(&report, "buffer::zero_elements"), Outcome::Skipped(_)));

    let report = run(Arc::new(Null { unsupported: &["buffer::no_such_case"], expected_fail: &[] }));
    assert!(!report.is_ok(), "a list that names no case is a failure");
}

#[test]
fn a_backend_that_lies_fails() {
    struct Liar;
    impl Backend for Liar {
        fn name(&self) -> &str {
            "a null device that claims to compute"
        }
        fn open(&self, _: &Options) -> Result<DeviceRef, HalError> {
            Ok(NullDevice::open())
        }
        fn tags(&self) -> &[Tag] {
            &[Tag::Values]
        }
        fn expected_fail(&self) -> &[&str] {
            &["buffer::round_trip"]
        }
    }
    let report = run(Arc::new(Liar));
    assert!(!report.is_ok());
    let failed = report.outcomes().iter().filter(|(_, outcome)| matches!(outcome, Outcome::Failed(_))).count();
    assert!(failed >= 10, "{report}");
    assert!(report.outcomes().contains(&("buffer::round_trip", Outcome::FailedAsExpected)), "{report}");
}

/// Every clause written at the crate's root is held by a case, and no case cites one that is not written.
#[test]
fn every_clause_is_tested() {
    let root = include_str!("../src/lib.rs");
    let written: BTreeSet<String> = root
        .lines()
        .filter_map(|line| line.trim_start_matches(['/', '!', ' ']).strip_prefix("- **"))
        .filter_map(|line| Some(line.split_once("**")?.0.to_owned()))
        .collect();
    let cited: BTreeSet<String> = cases().flat_map(|case| case.clauses).map(|clause| format!("{clause:?}")).collect();
    assert_eq!(written, cited);
    assert_eq!(written.len(), 15);
    assert!(written.contains(&format!("{:?}", Clause::H15)));
}

/// What a case cites in its table row, its documentation explains.
#[test]
fn cases_say_which_clauses_they_hold() {
    let sources = [
        include_str!("../src/conformance/buffer.rs"),
        include_str!("../src/conformance/background.rs"),
        include_str!("../src/conformance/compile.rs"),
        include_str!("../src/conformance/event.rs"),
        include_str!("../src/conformance/execute.rs"),
        include_str!("../src/conformance/failure.rs"),
        include_str!("../src/conformance/memory.rs"),
    ];
    for case in cases() {
        let (suite, function) = case.name.split_once("::").unwrap();
        let clauses: Vec<String> = case.clauses.iter().map(|clause| format!("{clause:?}")).collect();
        let documented = format!("/// {}: ", clauses.join(", "));
        let heading = format!("fn {function}(bench: &Bench)");
        let found = sources.iter().any(|source| {
            let lines: Vec<&str> = source.lines().collect();
            let at = lines.iter().position(|line| line.starts_with(&heading));
            source.contains(&format!("\"{suite}::{function}\""))
                && at.is_some_and(|at| lines[at - 1].starts_with(&documented))
        });
        assert!(found, "{}: its documentation begins with `{documented}`", case.name);
    }
}
