//! What can go wrong around a model, before its ops are recorded and besides them.

use std::fmt;

/// The result of preparing a model.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure: of the device, or of what a model needs before there is one. The text names the file, address or input.
#[derive(Clone, Debug)]
pub struct Error(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Device(systole::Error),
    Fetch(String),
    Weights(String),
    Input(String),
}

impl Error {
    pub(crate) fn fetch(reason: impl Into<String>) -> Self {
        Error(Kind::Fetch(reason.into()))
    }

    pub(crate) fn weights(reason: impl Into<String>) -> Self {
        Error(Kind::Weights(reason.into()))
    }

    pub(crate) fn input(reason: impl Into<String>) -> Self {
        Error(Kind::Input(reason.into()))
    }

    /// Whether a package could not be had: no network, a file that is not the expected one, no room for it.
    pub fn is_fetch_error(&self) -> bool {
        matches!(self.0, Kind::Fetch(_))
    }

    /// Whether files of weights are damaged, or belong to another model.
    pub fn is_weights_error(&self) -> bool {
        matches!(self.0, Kind::Weights(_))
    }

    /// Whether the model does not take what it was given.
    pub fn is_input_error(&self) -> bool {
        matches!(self.0, Kind::Input(_))
    }

    /// The device's error, where it is one.
    pub fn device(&self) -> Option<&systole::Error> {
        match &self.0 {
            Kind::Device(error) => Some(error),
            Kind::Fetch(_) | Kind::Weights(_) | Kind::Input(_) => None,
        }
    }
}

impl From<systole::Error> for Error {
    fn from(error: systole::Error) -> Self {
        Error(Kind::Device(error))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Device(error) => write!(f, "{error}"),
            Kind::Fetch(reason) | Kind::Weights(reason) | Kind::Input(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.device().map(|error| error as _)
    }
}
