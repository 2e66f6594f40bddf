//! Launches that the device thread cannot run yet, because a program is still being compiled.
//!
//! A launch is parked if its program is not there, or an argument is made by a parked launch. Launches that depend on
//! neither overtake; buffers never change, so nobody can tell (H5). Each keeps the number that it was submitted under,
//! and parked launches run in that order once they can, so that failures meet in the order of submission as well (H4).
//!
//! Parked launches are looked through whenever a compile ends, not when a launch does: what became of an argument is
//! known as soon as its launch has run, and producers stand before their consumers here.

use std::collections::VecDeque;

use systole_kernels::parallel::Parallel;

use super::compiler::abandoned;
use super::device::Core;
use super::event::{Completion, Failure};
use super::launch::Submission;
use crate::device::{Event, Executable};

/// Launches that wait, and the marks behind them.
#[derive(Default)]
pub(super) struct Parked {
    /// In order of submission.
    launches: VecDeque<(u64, Submission)>,
    /// Each completes when no launch below its number is left.
    marks: VecDeque<(u64, Completion)>,
}

impl Parked {
    pub(super) fn is_empty(&self) -> bool {
        self.launches.is_empty()
    }

    /// Whether launch `submission`, the next, may run at once.
    pub(super) fn lets_pass(&self, submission: &Submission, core: &Core) -> bool {
        self.is_empty() && submission.executable.is_ready() || can_run(submission, core)
    }

    /// Keeps a launch for later.
    pub(super) fn park(&mut self, number: u64, submission: Submission) {
        tracing::debug!(program = submission.executable.name(), number, "a launch waits for its program");
        self.launches.push_back((number, submission));
    }

    /// Completes `mark` once every launch below `number` has.
    pub(super) fn mark(&mut self, number: u64, mark: Completion) {
        if self.is_empty() {
            mark.succeed();
        } else {
            self.marks.push_back((number, mark));
        }
    }

    /// Runs what can run now, in order.
    pub(super) fn run(&mut self, core: &Core, pool: &dyn Parallel) {
        for (number, submission) in std::mem::take(&mut self.launches) {
            if can_run(&submission, core) {
                submission.run(core, pool, number);
            } else {
                self.launches.push_back((number, submission));
            }
        }
        let first = self.launches.front().map_or(u64::MAX, |(number, _)| *number);
        while let Some((_, mark)) = self.marks.pop_front_if(|(number, _)| *number <= first) {
            mark.succeed();
        }
    }

    /// Runs what can run, and fails what would have to wait for a compiler.
    pub(super) fn abandon(&mut self, core: &Core, pool: &dyn Parallel) {
        for (number, submission) in std::mem::take(&mut self.launches) {
            if can_run(&submission, core) {
                submission.run(core, pool, number);
            } else {
                let error = abandoned(submission.executable.name()).with_label(&submission.label);
                submission.fail(Failure::new(number, error));
            }
        }
        self.run(core, pool);
    }
}

/// Whether running it would not wait: on a lost device nothing does, everything fails.
fn can_run(submission: &Submission, core: &Core) -> bool {
    core.lost().is_some()
        || submission.executable.is_ready() && submission.args.iter().all(|arg| arg.event().is_ready())
}
