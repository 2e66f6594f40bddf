//! What went wrong with a program.

use std::fmt;

use systole::Mode;
use systole_fusion::ir::Opcode;
use systole_kernels::{Scalar, TensorType};

use super::setup::Setup;
use crate::program::{Handle, Program};
use crate::text;

/// A program that some executor ran wrong: which, where, and the program itself.
#[derive(Clone, Debug)]
pub struct Mismatch {
    pub(super) program: Program,
    pub(super) executor: Option<Executor>,
    pub(super) problem: Problem,
}

/// Which way of running the program went wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Executor {
    /// Mode.
    pub mode: Mode,
    /// Device.
    pub setup: Setup,
    /// Which run of the program on this device in this mode: the second meets the first one's plans.
    pub run: usize,
}

/// What it did.
#[derive(Clone, PartialEq, Debug)]
pub enum Problem {
    /// A tensor that was read has other elements.
    Bits {
        /// The step that read it; the end of the program where `None`.
        step: Option<usize>,
        /// The handle read.
        handle: Handle,
        /// Its type.
        ty: TensorType,
        /// The step and op that made it, unless it was uploaded.
        op: Option<(usize, Opcode)>,
        /// The first element that differs.
        element: usize,
        /// How many do.
        differing: usize,
        /// What the reference says.
        expected: Scalar,
        /// What was read.
        found: Scalar,
    },
    /// The tensor has another length.
    Length {
        /// The handle read.
        handle: Handle,
        /// Bytes expected.
        expected: usize,
        /// Bytes found.
        found: usize,
    },
    /// A step failed that must not.
    Failed {
        /// The step, or the end of the program.
        step: Option<usize>,
        /// How.
        error: String,
    },
    /// Debug mode let an index out of range pass.
    Unchecked {
        /// The step.
        step: usize,
    },
    /// A panic, on the calling thread.
    Panicked(String),
    /// The reference could not run the program.
    Reference(String),
}

impl Mismatch {
    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Who got it wrong; `None` for the reference itself.
    pub fn executor(&self) -> Option<Executor> {
        self.executor
    }

    /// What was wrong.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }
}

impl fmt::Display for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} mode on {}, run {}", self.mode, self.setup, self.run)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = |step: &Option<usize>| match step {
            Some(step) => format!("step {step}"),
            None => String::from("the end"),
        };
        match self {
            Problem::Bits { step, handle, ty, op, element, differing, expected, found } => {
                let digits = 2 * ty.dtype.size();
                let maker = match op {
                    Some((step, op)) => format!("{op}, step {step}"),
                    None => String::from("uploaded"),
                };
                write!(
                    f,
                    "{handle} ({ty}, {maker}), read at {}: {differing} elements differ, first element {element}: \
                     {:0digits$x} ({}) expected, {:0digits$x} ({}) found",
                    place(step),
                    expected.bits(),
                    expected.to_f64(),
                    found.bits(),
                    found.to_f64(),
                )
            }
            Problem::Length { handle, expected, found } => {
                write!(f, "{handle} has {found} bytes, not {expected}")
            }
            Problem::Failed { step, error } => write!(f, "failed at {}: {error}", place(step)),
            Problem::Unchecked { step } => write!(f, "step {step}: an index out of range went unnoticed"),
            Problem::Panicked(message) => write!(f, "panicked: {message}"),
            Problem::Reference(error) => write!(f, "the reference interpreter: {error}"),
        }
    }
}

/// Executor and problem in comments, then the program: a text that can be parsed and run again.
impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let executor = self.executor.map_or(String::new(), |executor| format!("{executor}: "));
        for line in format!("{executor}{}", self.problem).lines() {
            writeln!(f, "//| {line}")?;
        }
        match self.program.straighten() {
            Ok(_) => f.write_str(&text::print(&self.program)),
            Err(error) => write!(f, "no program: {error}: {:?}", self.program),
        }
    }
}

impl std::error::Error for Mismatch {}
