//! The compiler that a simulated device plays.
//!
//! The simulator's own compiler takes any shapes and a few microseconds. Real ones, XLA behind PJRT, take one set of
//! shapes and seconds. [`Compiler`] makes the simulator behave like them, so that everything which must hold with such a
//! compiler is tested without one: shapes written into each program, compiles that take their time, launches that wait
//! for them in the queue while others overtake (H14, H15).
//!
//! What is checked when: that a program is well-formed, and has no launch parameters where it may have none, on the
//! thread that asks; everything else by the compiler, wherever it runs.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use systole_kernels::machine::{self, Machine};
use systole_kernels::program::Program;

use super::device::Core;
use super::event::Failure;
use super::executable::{Compilation, SimExecutable};
use super::fault::{CompileEffect, CompileFault};
use super::launch::panic_message;
use crate::background::{Background, Job};
use crate::error::{ErrorKind, HalError};

/// What kind of compiler a simulated device has. The default is the simulator's own: any shapes, at once, on the thread
/// that asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Compiler {
    /// Whether programs with launch parameters are refused: each set of extents is a program of its own then.
    pub static_shapes: bool,
    /// How long a compile takes, besides what the simulator needs.
    pub delay: Duration,
    /// Threads that compile in the background; with none, the thread that asks compiles, and waits for it.
    pub threads: usize,
}

impl Compiler {
    /// A compiler like those of real TPUs: static shapes, so much time per program, four threads in the background.
    pub fn slow(delay: Duration) -> Self {
        Compiler { static_shapes: true, delay, threads: 4 }
    }

    /// Checks what the thread that asks can check.
    pub(super) fn check(self, program: &Program) -> Result<(), HalError> {
        if self.static_shapes && program.params > 0 {
            let message = format!(
                "`{}` takes {} launch parameters, and this device compiles for static shapes: write them in with \
                 `Program::specialize`",
                program.name, program.params
            );
            return Err(HalError::new(ErrorKind::Unsupported, message));
        }
        machine::check(program)
            .map_err(|error| HalError::new(ErrorKind::InvalidProgram, format!("`{}`: {error}", program.name)))
    }

    /// Compiles on this thread.
    pub(super) fn compile(self, core: &Core, program: Program, fault: CompileFault) -> Result<Machine, HalError> {
        let _span = tracing::debug_span!("compile", program = %program.name).entered();
        if let Some(gate) = fault.hold {
            gate.pass();
        }
        if !self.delay.is_zero() {
            std::thread::sleep(self.delay);
        }
        core.alive()?;
        match fault.effect {
            CompileEffect::None => {}
            CompileEffect::Fail => {
                let message = format!("injected failure to compile `{}`", program.name);
                return Err(HalError::new(ErrorKind::Unsupported, message));
            }
            CompileEffect::LoseDevice => {
                let message = format!("the device was lost while it compiled `{}`", program.name);
                let error = HalError::new(ErrorKind::DeviceLost, message);
                core.note_failure(&Failure::new(u64::MAX, error.clone()));
                return Err(error);
            }
        }
        let name = program.name.clone();
        let machine = Machine::new(core.arithmetic().rewrite(program), core.isa())
            .map_err(|error| HalError::new(ErrorKind::InvalidProgram, format!("`{name}`: {error}")))?;
        core.compiles.fetch_add(1, Ordering::Relaxed);
        Ok(machine)
    }

    /// Gives a program to the background.
    pub(super) fn compile_later(
        self,
        core: &Arc<Core>,
        background: &Background<CompileJob>,
        program: Program,
        fault: CompileFault,
    ) -> Result<SimExecutable, HalError> {
        let compilation = Compilation::of(program);
        let job = CompileJob { compiler: self, core: core.clone(), compilation: compilation.clone(), fault };
        let job = background.submit(job).map_err(|error| {
            HalError::new(ErrorKind::Unavailable, format!("no thread to compile in the background: {error}"))
        })?;
        Ok(SimExecutable::pending(core.id(), compilation, job))
    }
}

/// A compile in the background. However it ends, whoever waits for it is told.
pub(super) struct CompileJob {
    compiler: Compiler,
    core: Arc<Core>,
    compilation: Arc<Compilation>,
    fault: CompileFault,
}

impl Job for CompileJob {
    fn run(mut self) {
        // The job alone has it: neither a launch nor anybody who could make one waits.
        if Arc::strong_count(&self.compilation) == 1 {
            return;
        }
        let program = self.compilation.program().clone();
        let name = program.name.clone();
        let fault = std::mem::take(&mut self.fault);
        let compile = AssertUnwindSafe(|| self.compiler.compile(&self.core, program, fault));
        let outcome = catch_unwind(compile).unwrap_or_else(|panic| {
            let message = format!("compiling `{name}` panicked: {}", panic_message(&*panic));
            Err(HalError::new(ErrorKind::Internal, message))
        });
        if let Err(error) = &outcome {
            tracing::warn!(program = %name, %error, "compile failed");
        }
        self.compilation.settle(outcome);
    }
}

impl Drop for CompileJob {
    fn drop(&mut self) {
        if !self.compilation.is_settled() {
            self.compilation.settle(Err(abandoned(&self.compilation.program().name)));
        }
        self.core.wake();
    }
}

/// Why a program that was still to be compiled never was.
pub(super) fn abandoned(name: &str) -> HalError {
    HalError::new(ErrorKind::Unavailable, format!("the device was closed before `{name}` was compiled"))
}
