//! The progress bar: on stderr, where that is a terminal, and gone when the work is done or interrupted.

use std::io::{self, IsTerminal};

use indicatif::{ProgressBar, ProgressStyle};

/// Exit status after an interrupt, as shells give it to what SIGINT ended.
const INTERRUPTED: i32 = 130;

/// A bar over a known number of steps; draws nothing where stderr is no terminal.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    pub(crate) fn start(steps: usize) -> Self {
        if !io::stderr().is_terminal() {
            return Progress(ProgressBar::hidden());
        }
        let style = ProgressStyle::with_template("{msg:>7} {bar:40} {pos}/{len} steps")
            .expect("the template is well-formed")
            .progress_chars("━╸ ");
        let bar = ProgressBar::new(steps as u64).with_style(style);
        let interrupted = bar.clone();
        // Without a handler an interrupt still ends the process; it only leaves the bar behind.
        let _ = ctrlc::set_handler(move || {
            interrupted.finish_and_clear();
            std::process::exit(INTERRUPTED);
        });
        Progress(bar)
    }

    /// So many more steps are done, of what `label` names.
    pub(crate) fn advance(&self, label: &'static str, steps: usize) {
        self.0.set_message(label);
        self.0.inc(steps as u64);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
