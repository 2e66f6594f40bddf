//! A submitted launch, and running it on the device thread.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Instant;

use smallvec::SmallVec;
use systole_kernels::machine::Input;
use systole_kernels::memory::Block;
use systole_kernels::parallel::Parallel;

use super::buffer::{Contents, Storage};
use super::device::Core;
use super::event::{Completion, Failure};
use super::executable::SimExecutable;
use super::fault::Effect;
use crate::device::Executable as _;
use crate::error::{ErrorKind, HalError, Label};

/// What is left of `execute` once the caller's thread has done its part.
pub(super) struct Submission {
    pub(super) executable: Arc<SimExecutable>,
    pub(super) params: SmallVec<[i64; 8]>,
    pub(super) scalars: SmallVec<[u64; 4]>,
    pub(super) args: SmallVec<[Arc<Storage>; 8]>,
    /// Pairs of (argument, output): the output takes over the argument's block, if nobody else can see it.
    pub(super) takeovers: SmallVec<[(u16, u16); 4]>,
    pub(super) outputs: SmallVec<[Arc<Storage>; 4]>,
    pub(super) done: Completion,
    pub(super) label: Label,
}

/// A block for each output, all there once the program runs.
type Blocks = SmallVec<[Option<Block>; 4]>;

impl Submission {
    /// Runs it, or fails it, as launch `number`. The storages that it held are released before its event completes, so
    /// that who waits for the event sees the memory given back.
    pub(super) fn run(mut self, core: &Core, pool: &dyn Parallel, number: u64) {
        let outcome = match self.earlier_failure(core) {
            Some(failure) => Err(failure),
            None => self.attempt(core, pool, number).map_err(|error| {
                let failure = Failure::new(number, error.with_label(&self.label));
                core.note_failure(&failure);
                failure
            }),
        };
        match outcome {
            Ok(blocks) => {
                self.args.clear();
                for (storage, block) in self.outputs.drain(..).zip(blocks.into_iter().flatten()) {
                    storage.fill(Contents::Block(block));
                }
                self.done.succeed();
            }
            Err(failure) => self.fail(failure),
        }
    }

    /// Fails it without running it.
    pub(super) fn fail(mut self, failure: Arc<Failure>) {
        self.args.clear();
        self.outputs.clear();
        self.done.fail(failure);
    }

    /// The failure that keeps this from running: the device's, or the earliest among the arguments (H4).
    fn earlier_failure(&self, core: &Core) -> Option<Arc<Failure>> {
        let of_device = core.lost();
        of_device.or_else(|| self.args.iter().filter_map(|arg| arg.event().failure()).min_by_key(|f| f.launch)).cloned()
    }

    fn attempt(&mut self, core: &Core, pool: &dyn Parallel, number: u64) -> Result<Blocks, HalError> {
        let effect = core.faults().map_or(Effect::None, |plan| {
            let fault = plan.launch(number);
            if let Some(gate) = fault.hold {
                gate.pass();
            }
            if !fault.delay.is_zero() {
                std::thread::sleep(fault.delay);
            }
            fault.effect
        });
        let name = self.executable.name();
        match effect {
            Effect::None | Effect::Panic => {}
            Effect::Fail => {
                return Err(HalError::new(
                    ErrorKind::Internal,
                    format!("injected failure of launch {number} (`{name}`)"),
                ));
            }
            Effect::LoseDevice => {
                let message = format!("the device was lost at launch {number} (`{name}`)");
                return Err(HalError::new(ErrorKind::DeviceLost, message));
            }
        }
        let _span = tracing::trace_span!("launch", program = name, number).entered();
        self.compute(core, pool, effect == Effect::Panic)
    }

    fn compute(&mut self, core: &Core, pool: &dyn Parallel, panics: bool) -> Result<Blocks, HalError> {
        let machine = match self.executable.outcome() {
            Some(Ok(machine)) => machine,
            Some(Err(error)) => return Err(error.clone()),
            None => unreachable!("a launch is parked until its program is compiled"),
        };
        let memory = &core.memory().blocks;
        let name = &*machine.program().name;
        let give_up = |blocks: Blocks, kind, message| {
            blocks.into_iter().flatten().for_each(|block| memory.give(block));
            Err(HalError::new(kind, message))
        };

        let mut reused: SmallVec<[(u16, u16); 4]> = SmallVec::new();
        let mut blocks: Blocks = self.outputs.iter().map(|_| None).collect();
        for &(arg, output) in &self.takeovers {
            if let Some(block) = Storage::take_if_unshared(&mut self.args[usize::from(arg)]) {
                blocks[usize::from(output)] = Some(block);
                reused.push((arg, output));
            }
        }
        for output in 0..blocks.len() {
            if blocks[output].is_none() {
                match memory.take(self.outputs[output].bytes()) {
                    Ok(block) => blocks[output] = Some(block),
                    // The simulated device has room, the ledger said so; the host that simulates it has none.
                    Err(error) => {
                        return give_up(blocks, ErrorKind::OutOfMemory, format!("`{name}`: {error}"));
                    }
                }
            }
        }

        let inputs: SmallVec<[Input<'_>; 8]> = (0u16..)
            .zip(&self.args)
            .map(|(arg, storage)| match reused.iter().find(|pair| pair.0 == arg) {
                Some(&(_, output)) => Input::Output(output),
                None => Input::Bytes(storage.contents()),
            })
            .collect();
        let started = core.kernel_timing().then(Instant::now);
        let outcome = {
            let mut outputs: SmallVec<[&mut Block; 4]> = blocks.iter_mut().flatten().collect();
            catch_unwind(AssertUnwindSafe(|| {
                if panics {
                    resume_unwind(Box::new("injected panic"));
                }
                machine.run(&self.params, &self.scalars, &inputs, &mut outputs, pool)
            }))
        };
        core.note_launch(reused.len() as u64, started.map(|started| started.elapsed()));
        match outcome {
            Ok(Ok(())) => Ok(blocks),
            Ok(Err(error)) => {
                let of_host = error.out_of_memory().is_some();
                let kind = if of_host { ErrorKind::OutOfMemory } else { ErrorKind::InvalidProgram };
                give_up(blocks, kind, format!("`{name}`: {error}"))
            }
            Err(panic) => {
                give_up(blocks, ErrorKind::Internal, format!("`{name}` panicked: {}", panic_message(&*panic)))
            }
        }
    }
}

/// What a panic said.
pub(super) fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
