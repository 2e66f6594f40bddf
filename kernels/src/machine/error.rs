//! What can be wrong with a program or a launch.

use std::fmt;

use crate::memory::AllocError;

/// A program that breaks a rule of [`program`](crate::program).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InvalidProgram {
    program: String,
    instr: Option<usize>,
    reason: String,
}

impl InvalidProgram {
    pub(crate) fn new(program: &str, instr: Option<usize>, reason: String) -> Self {
        InvalidProgram { program: program.to_owned(), instr, reason }
    }

    /// The program's name.
    pub fn program(&self) -> &str {
        &self.program
    }

    /// The instruction that breaks the rule, counted from 0; `None` where it is a declaration.
    pub fn instr(&self) -> Option<usize> {
        self.instr
    }

    /// Which rule, in words and values.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl fmt::Display for InvalidProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "program `{}`", self.program)?;
        if let Some(instr) = self.instr {
            write!(f, ", instruction {instr}")?;
        }
        write!(f, ": {}", self.reason)
    }
}

impl std::error::Error for InvalidProgram {}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Kind {
    Arguments(String),
    Memory(AllocError),
}

/// A launch that could not run. Its outputs hold unspecified values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunError(Kind);

impl RunError {
    pub(crate) fn arguments(reason: impl Into<String>) -> Self {
        RunError(Kind::Arguments(reason.into()))
    }

    /// Bytes of scratch memory that the host did not have; `None` where the arguments do not fit the program.
    pub fn out_of_memory(&self) -> Option<usize> {
        match &self.0 {
            Kind::Arguments(_) => None,
            Kind::Memory(error) => Some(error.bytes()),
        }
    }
}

impl From<AllocError> for RunError {
    fn from(error: AllocError) -> Self {
        RunError(Kind::Memory(error))
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Arguments(reason) => f.write_str(reason),
            Kind::Memory(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RunError {}
