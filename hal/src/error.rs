//! Device errors.
//!
//! One struct for every backend: a [kind](ErrorKind) to act on, a message to read, the [`Label`] of the launch that
//! failed first, and the numbers of an out-of-memory. Cloning is cheap, because a poisoned value hands its error to
//! everything that depends on it.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// What went wrong, as far as a caller can act on it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ErrorKind {
    /// The device's memory limit would be exceeded; nothing was changed.
    OutOfMemory,
    /// The device cannot run this program or type.
    Unsupported,
    /// The call or program breaks the contract: a bug in the caller.
    InvalidProgram,
    /// The device is gone; every later call fails alike.
    DeviceLost,
    /// No such device or plugin here.
    Unavailable,
    /// A bug in the backend.
    Internal,
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ErrorKind::OutOfMemory => "out of memory",
            ErrorKind::Unsupported => "unsupported",
            ErrorKind::InvalidProgram => "invalid program",
            ErrorKind::DeviceLost => "device lost",
            ErrorKind::Unavailable => "unavailable",
            ErrorKind::Internal => "internal error",
        })
    }
}

/// Whatever the caller wants back when a launch turns out to have failed: it travels with the launch and comes back in
/// the error, unread by the device. The runtime puts the recorded origins there.
#[derive(Clone, Default)]
pub struct Label(Option<Arc<dyn Any + Send + Sync>>);

impl Label {
    /// A label that carries `value`.
    pub fn new<T: Any + Send + Sync>(value: Arc<T>) -> Self {
        Label(Some(value))
    }

    /// No label.
    pub const fn none() -> Self {
        Label(None)
    }

    /// The value, where the label carries a `T`.
    pub fn downcast<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.0.clone()?.downcast().ok()
    }
}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Label(..)" } else { "Label(none)" })
    }
}

/// A device error: kind, message, and the label of the launch that failed first.
#[derive(Clone, Debug)]
pub struct HalError {
    kind: ErrorKind,
    message: Arc<str>,
    label: Label,
    shortage: Option<Shortage>,
}

/// The numbers behind an [`ErrorKind::OutOfMemory`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Shortage {
    /// Bytes that the call needed on top of what was held.
    pub requested: u64,
    /// Bytes held when it asked.
    pub in_use: u64,
    /// The device's limit.
    pub limit: u64,
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shortage { requested, in_use, limit } = self;
        write!(f, "{requested} bytes requested, {in_use} of {limit} bytes in use")
    }
}

impl HalError {
    /// An error without a label.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        HalError { kind, message: message.into().into(), label: Label::none(), shortage: None }
    }

    /// The device's memory limit would be exceeded by `what`.
    pub fn out_of_memory(what: impl fmt::Display, shortage: Shortage) -> Self {
        let error = HalError::new(ErrorKind::OutOfMemory, format!("{what}: {shortage}"));
        HalError { shortage: Some(shortage), ..error }
    }

    /// The same error, blamed on the launch that carried `label`; an error that has one keeps it.
    #[must_use]
    pub fn with_label(mut self, label: &Label) -> Self {
        if self.label.0.is_none() {
            self.label = label.clone();
        }
        self
    }

    /// The kind.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What happened, in words.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What was asked and what there was, for an [`ErrorKind::OutOfMemory`].
    pub fn shortage(&self) -> Option<Shortage> {
        self.shortage
    }

    /// Label of the launch that failed first.
    pub fn label(&self) -> &Label {
        &self.label
    }
}

impl fmt::Display for HalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.message)
    }
}

impl std::error::Error for HalError {}
