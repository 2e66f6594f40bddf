//! The machine that runs tile programs.
//!
//! placeholder

pub(crate) mod axes;
mod error;
mod validate;
pub(crate) mod movement;

pub use error::{InvalidProgram, RunError};

use smallvec::SmallVec;

use crate::memory::Block;
use crate::parallel::Parallel;
use crate::program::Program;
use crate::shape::{Shape, TensorType};
use crate::simd::Isa;

/// An input of a launch.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// Its own memory.
    Block(&'a Block),
    /// The memory of output `n`, which holds the input's contents; the pair is one of [`Machine::in_place`].
    Output(u16),
}

/// A program prepared for one instruction set.
#[derive(Debug)]
pub struct Machine {
    program: Program,
    isa: Isa,
}

impl Machine {
    /// Prepares `program`.
    ///
    /// # Errors
    /// The program breaks a rule of [`program`](crate::program).
    pub fn new(program: Program, isa: Isa) -> Result<Machine, InvalidProgram> {
        Ok(Machine { program, isa })
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The instruction set.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// A hash of the program; equal for equal programs.
    pub fn fingerprint(&self) -> u64 {
        use std::hash::{Hash, Hasher};
        let mut hasher = rustc_hash::FxHasher::default();
        self.program.hash(&mut hasher);
        hasher.finish()
    }

    /// Pairs of an input and an output (counted from 0 among the outputs) that may be the same memory.
    pub fn in_place(&self) -> &[(u16, u16)] {
        &[]
    }

    /// Types of the outputs for these launch parameters.
    pub fn output_types(&self, params: &[i64]) -> SmallVec<[TensorType; 4]> {
        self.program
            .outputs()
            .iter()
            .map(|buffer| {
                let extents = buffer.shape.iter().map(|extent| usize::try_from(extent.resolve(params)).unwrap_or(0));
                TensorType { dtype: buffer.dtype, shape: Shape::new(extents) }
            })
            .collect()
    }

    /// Runs the program.
    ///
    /// # Errors
    /// Arguments that do not fit the program; no memory left for scratch.
    pub fn run(
        &self,
        _params: &[i64],
        _scalars: &[u64],
        _inputs: &[Input<'_>],
        _outputs: &mut [&mut Block],
        _pool: &dyn Parallel,
    ) -> Result<(), RunError> {
        Err(RunError::arguments("not ready"))
    }
}
