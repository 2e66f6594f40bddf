//! What can go wrong, told with the op, the operand types and the user's line.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use systole_fusion::infer::TypeError;
use systole_fusion::ir::{Opcode, Origin};
use systole_hal::{ErrorKind, HalError};
use systole_kernels::TensorType;

/// The crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure: what happened, to which op, on which operands, recorded where. Cheap to clone; a poisoned value hands the
/// same error to everything that depends on it, so the *first* cause is what a reader sees.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

struct Inner {
    kind: Kind,
    op: Option<Opcode>,
    /// The method that was called, where its misuse was found before there was an op.
    method: Option<&'static str>,
    operands: Vec<TensorType>,
    origin: Origin,
    reason: String,
    /// The file that could not be read or written.
    path: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Type,
    Argument,
    File,
    DeviceMismatch,
    OutOfMemory,
    DeviceLost,
    Unsupported,
    Unavailable,
    Internal,
}

impl Inner {
    fn new(kind: Kind, origin: Origin, reason: impl Into<String>) -> Self {
        Inner { kind, op: None, method: None, operands: Vec::new(), origin, reason: reason.into(), path: None }
    }

    // No `From`: with a second conversion into it, `?` could not tell which error a closure's `Ok(())` is to have.
    fn raise(self) -> Error {
        Error(Arc::new(self))
    }
}

impl Error {
    fn of_op(
        kind: Kind,
        op: Option<Opcode>,
        operands: Vec<TensorType>,
        origin: Origin,
        reason: impl Into<String>,
    ) -> Self {
        Inner { op, operands, ..Inner::new(kind, origin, reason) }.raise()
    }

    pub(crate) fn from_type(error: &TypeError, origin: Origin) -> Self {
        Error::of_op(Kind::Type, Some(error.op()), error.operands().to_vec(), origin, error.reason())
    }

    pub(crate) fn argument(origin: Origin, reason: impl Into<String>) -> Self {
        Inner::new(Kind::Argument, origin, reason).raise()
    }

    /// A file that is not what a call needs; the reason names it.
    #[cfg(feature = "files")]
    pub(crate) fn file(path: &Path, origin: Origin, reason: impl Into<String>) -> Self {
        Inner { path: Some(path.to_path_buf()), ..Inner::new(Kind::File, origin, reason) }.raise()
    }

    /// A method called on tensors that it does not suit.
    pub(crate) fn misuse(
        method: &'static str,
        operands: Vec<TensorType>,
        origin: Origin,
        reason: impl Into<String>,
    ) -> Self {
        Inner { method: Some(method), operands, ..Inner::new(Kind::Argument, origin, reason) }.raise()
    }

    /// An argument's error, once it is known whose argument it is.
    #[must_use]
    pub(crate) fn in_call(self, method: &'static str, operands: Vec<TensorType>) -> Self {
        let Inner { kind, op, method: known, origin, reason, .. } = &*self.0;
        if *kind != Kind::Argument || op.is_some() || known.is_some() {
            return self;
        }
        Error::misuse(method, operands, origin.clone(), reason.clone())
    }

    pub(crate) fn device_mismatch(op: Opcode, operands: Vec<TensorType>, origin: Origin, reason: String) -> Self {
        Error::of_op(Kind::DeviceMismatch, Some(op), operands, origin, reason)
    }

    pub(crate) fn host_out_of_memory(ty: &TensorType, origin: Origin) -> Self {
        Inner::new(Kind::OutOfMemory, origin, format!("the host has no memory to read {ty}")).raise()
    }

    pub(crate) fn unsupported(op: Option<Opcode>, operands: Vec<TensorType>, origin: Origin, reason: String) -> Self {
        Error::of_op(Kind::Unsupported, op, operands, origin, reason)
    }

    pub(crate) fn check(op: Opcode, operands: Vec<TensorType>, origin: Origin, reason: String) -> Self {
        Error::of_op(Kind::Argument, Some(op), operands, origin, reason)
    }

    pub(crate) fn from_hal(error: &HalError, op: Option<Opcode>, operands: Vec<TensorType>, origin: Origin) -> Self {
        let kind = match error.kind() {
            ErrorKind::OutOfMemory => Kind::OutOfMemory,
            ErrorKind::Unsupported => Kind::Unsupported,
            ErrorKind::DeviceLost => Kind::DeviceLost,
            ErrorKind::Unavailable => Kind::Unavailable,
            ErrorKind::InvalidProgram | ErrorKind::Internal => Kind::Internal,
        };
        Error::of_op(kind, op, operands, origin, error.to_string())
    }

    /// The op that failed, where an op did.
    pub fn op(&self) -> Option<Opcode> {
        self.0.op
    }

    /// The op that failed, or the method whose misuse was found before there was an op, as errors print it.
    pub fn call(&self) -> Option<&'static str> {
        self.0.op.map(Opcode::mnemonic).or(self.0.method)
    }

    /// The types of that op's operands, or those of the tensors that the method was called on.
    pub fn operands(&self) -> &[TensorType] {
        &self.0.operands
    }

    /// Where in the user's program the failing call was made.
    pub fn origin(&self) -> &Origin {
        &self.0.origin
    }

    /// What happened, in words and values.
    pub fn reason(&self) -> &str {
        &self.0.reason
    }

    /// Whether shapes, dtypes or attributes do not fit the op.
    pub fn is_type_error(&self) -> bool {
        self.0.kind == Kind::Type
    }

    /// Whether an argument is wrong by itself: an unknown name, a length that does not match, an index out of range.
    pub fn is_argument_error(&self) -> bool {
        self.0.kind == Kind::Argument
    }

    /// Whether a file could not be read or written, is damaged, or does not hold what was asked of it.
    pub fn is_file_error(&self) -> bool {
        self.0.kind == Kind::File
    }

    /// The file, where it is a file's error.
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// Whether tensors of different devices met in one op.
    pub fn is_device_mismatch(&self) -> bool {
        self.0.kind == Kind::DeviceMismatch
    }

    /// Whether the device's memory limit would have been exceeded.
    pub fn is_out_of_memory(&self) -> bool {
        self.0.kind == Kind::OutOfMemory
    }

    /// Whether the device is gone.
    pub fn is_device_lost(&self) -> bool {
        self.0.kind == Kind::DeviceLost
    }

    /// Whether this is the same failure as `other`: a poisoned value and its cause are.
    pub fn is_same_as(&self, other: &Error) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Operand types that an error spells out.
const SHOWN_OPERANDS: usize = 8;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { operands, origin, reason, .. } = &*self.0;
        if let Some(call) = self.call() {
            write!(f, "{call}(")?;
            for (i, ty) in operands.iter().take(SHOWN_OPERANDS).enumerate() {
                write!(f, "{}{ty}", if i > 0 { ", " } else { "" })?;
            }
            if operands.len() > SHOWN_OPERANDS {
                write!(f, ", … {} more", operands.len() - SHOWN_OPERANDS)?;
            }
            f.write_str("): ")?;
        }
        f.write_str(reason)?;
        match origin {
            Origin::Unknown => Ok(()),
            Origin::Caller(_) | Origin::Named(_) => write!(f, " (at {origin})"),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({:?}: {self})", self.0.kind)
    }
}

impl std::error::Error for Error {}
