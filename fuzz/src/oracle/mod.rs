//! Whether a program gives the same bits however it is run.
//!
//! The reference interpreter says what every tensor of the program holds. The program then runs on devices: in debug,
//! strict and fused mode, on several setups, in fused mode twice, so that the second run meets the plans of the first.
//! Every tensor that it reads, and all that are live at its end, must have the reference's bits; no step may fail, but
//! for a gather with an index out of range, which debug mode must refuse.
//!
//! Executors are not compared with each other but each with the reference: a bug that all share is found too.

mod coverage;
mod expectation;
mod mismatch;
mod setup;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::panic::{AssertUnwindSafe, catch_unwind};

use systole::{Mode, Stream, Tensor, with_mode};
use systole_fusion::reference::HostTensor;
use systole_kernels::Scalar;
use systole_kernels::arithmetic::Arithmetic;

pub use coverage::Coverage;
pub use mismatch::{Executor, Mismatch, Problem};
pub use setup::{Devices, Setup};

use crate::minimize::minimize;
use crate::program::{Handle, Program, Step, origin, regions};
use expectation::Expectation;

/// What each mode is run: fused twice, so that the second run finds plans.
const RUNS: [(Mode, usize); 4] = [(Mode::Debug, 1), (Mode::Strict, 1), (Mode::Fused, 1), (Mode::Fused, 2)];

/// Runs a program on the reference and on each setup, and compares.
///
/// # Errors
/// Some executor gets it wrong.
pub fn check(program: &Program, setups: &[Setup], devices: &Devices) -> Result<Coverage, Box<Mismatch>> {
    let mismatch = |executor: Option<Executor>, problem: Problem| {
        Box::new(Mismatch { program: program.clone(), executor, problem })
    };
    let expect = |arithmetic: Arithmetic| match quietly(|| Expectation::of(program, arithmetic)) {
        Ok(expectation) => expectation.map_err(|error| mismatch(None, Problem::Reference(error))),
        Err(message) => Err(mismatch(None, Problem::Reference(format!("panicked: {message}")))),
    };
    let mut expectations: HashMap<Arithmetic, Expectation> = HashMap::new();
    for arithmetic in setups.iter().map(|setup| setup.profile.arithmetic()).chain([Arithmetic::Ieee]) {
        if let Entry::Vacant(entry) = expectations.entry(arithmetic) {
            entry.insert(expect(arithmetic)?);
        }
    }
    let mut coverage = Coverage::default();
    coverage.count_program(&expectations[&Arithmetic::Ieee].straight.trace);
    let mut fused = false;
    for &setup in setups {
        let expectation = &expectations[&setup.profile.arithmetic()];
        for (mode, run) in RUNS {
            let executor = Some(Executor { mode, setup, run });
            let ran = quietly(|| run_once(program, expectation, mode, setup, devices, &mut coverage));
            fused |= match ran {
                Ok(outcome) => outcome.map_err(|problem| mismatch(executor, *problem))?,
                Err(message) => return Err(mismatch(executor, Problem::Panicked(message))),
            };
        }
    }
    coverage.fused_programs += u64::from(fused);
    Ok(coverage)
}

/// A smaller program that still goes wrong, on devices of its own: with their caches cold, unless `mismatch` needs
/// what other programs left in them, in which case it is given back as it is.
pub fn cut_down(mismatch: Box<Mismatch>) -> Box<Mismatch> {
    let setups: Vec<Setup> = match mismatch.executor {
        Some(executor) => vec![executor.setup],
        None => Vec::new(),
    };
    let mut last = None;
    let mut fails = |candidate: &Program| {
        // A panic or a failed device may leave anything behind, so each attempt has its own.
        if candidate.straighten().is_err() {
            return false;
        }
        match check(candidate, &setups, &Devices::new()) {
            Ok(_) => false,
            Err(found) => {
                last = Some(found);
                true
            }
        }
    };
    if !fails(&mismatch.program) {
        return mismatch;
    }
    let arithmetic = mismatch.executor.map_or(Arithmetic::Ieee, |executor| executor.setup.profile.arithmetic());
    let values = |program: &Program| Expectation::of(program, arithmetic).ok().map(Expectation::into_values);
    let small = minimize(&mismatch.program, values, &mut fails);
    // The last failing attempt is the one that `minimize` kept.
    let mut found = last.expect("the program failed at least once");
    found.program.name.clone_from(&small.name);
    found
}

/// The program's reads, compared one by one; whether a launch ran several ops.
fn run_once(
    program: &Program,
    expectation: &Expectation,
    mode: Mode,
    setup: Setup,
    devices: &Devices,
    coverage: &mut Coverage,
) -> Result<bool, Box<Problem>> {
    let failed =
        |step: Option<usize>| move |error: systole::Error| Box::new(Problem::Failed { step, error: error.to_string() });
    let device = devices.device(setup).map_err(failed(Some(0)))?;
    let mut run = Run { streams: vec![Stream::new(&device)], current: 0, tensors: HashMap::new() };
    let mut compared = (0, 0);
    let mut compare = |step: Option<usize>, handle: Handle, tensor: &Tensor| {
        let found = tensor.to_bytes().map_err(failed(step))?;
        let expected = expectation.value(handle);
        compared = (compared.0 + 1, compared.1 + expected.ty.shape.elements());
        compare_bits(step, handle, expectation, &found)
    };
    coverage.runs += 1;
    let ids = with_mode(mode, || {
        for (at, step) in program.steps.iter().enumerate() {
            let refused = mode == Mode::Debug && expectation.stray == Some(at);
            match step {
                Step::Read(handle) => compare(Some(at), *handle, &run.tensors[handle])?,
                step => match run.take(at, step, devices) {
                    Ok(()) if refused => return Err(Box::new(Problem::Unchecked { step: at })),
                    Ok(()) => {}
                    Err(error) if refused && error.is_argument_error() => {
                        coverage.strays += 1;
                        return Ok(Vec::new());
                    }
                    Err(error) => return Err(failed(Some(at))(error)),
                },
            }
        }
        // Half of the programs drop their streams with ops pending; values outlive them.
        let ids: Vec<u64> = run.streams.iter().map(Stream::id).collect();
        if program.steps.len() % 2 == 1 {
            run.streams.clear();
        }
        let mut live: Vec<Handle> = run.tensors.keys().copied().collect();
        live.sort_unstable();
        for handle in live {
            compare(None, handle, &run.tensors[&handle])?;
        }
        Ok(ids)
    })?;
    coverage.tensors += compared.0;
    coverage.elements += compared.1 as u64;
    let reports = if mode == Mode::Fused { device.reports() } else { Vec::new() };
    Ok(coverage.count_cuts(reports.iter().filter(|report| ids.contains(&report.stream))))
}

fn compare_bits(
    step: Option<usize>,
    handle: Handle,
    expectation: &Expectation,
    found: &[u8],
) -> Result<(), Box<Problem>> {
    let expected = expectation.value(handle);
    if found == expected.bytes {
        return Ok(());
    }
    if found.len() != expected.bytes.len() {
        return Err(Box::new(Problem::Length { handle, expected: expected.bytes.len(), found: found.len() }));
    }
    let found = HostTensor { ty: expected.ty.clone(), bytes: found.to_vec() };
    let pairs: Vec<(Scalar, Scalar)> = expected.scalars().into_iter().zip(found.scalars()).collect();
    // A bool byte that is neither 0 nor 1 differs as a byte only.
    let differs = |at: usize| {
        let size = expected.ty.dtype.size();
        expected.bytes[at * size..(at + 1) * size] != found.bytes[at * size..(at + 1) * size]
    };
    let element = (0..pairs.len()).find(|&at| differs(at)).expect("unequal bytes of equal length differ somewhere");
    Err(Box::new(Problem::Bits {
        step,
        handle,
        ty: expected.ty.clone(),
        op: expectation.maker(handle),
        element,
        differing: (0..pairs.len()).filter(|&at| differs(at)).count(),
        expected: pairs[element].0,
        found: pairs[element].1,
    }))
}

/// A program under way on a device.
struct Run {
    streams: Vec<Stream>,
    current: usize,
    tensors: HashMap<Handle, Tensor>,
}

impl Run {
    /// Takes one step that reads nothing.
    fn take(&mut self, at: usize, step: &Step, devices: &Devices) -> systole::Result<()> {
        let stream = &self.streams[self.current];
        match step {
            Step::Upload { result, data } => {
                let HostTensor { ty, bytes } = data;
                let device = stream.device();
                let tensor = stream.enter(|| Tensor::from_bytes(&device, ty.dtype, bytes, ty.shape.clone()))?;
                self.tensors.insert(*result, tensor);
            }
            Step::Record { result, op, operands, attrs, body, picked } => {
                let operands: Vec<&Tensor> = operands.iter().map(|handle| &self.tensors[handle]).collect();
                let types: Vec<_> = operands.iter().map(|tensor| tensor.ty()).collect();
                let regions = regions(body.as_ref(), &types);
                let results =
                    stream.record(*op, &operands, attrs.clone(), regions.into_iter().collect(), origin(at))?;
                let kept = results.into_iter().nth(*picked as usize);
                self.tensors.insert(*result, kept.expect("a program picks a result that the op has"));
            }
            Step::Clone { result, of } => {
                let clone = self.tensors[of].clone();
                self.tensors.insert(*result, clone);
            }
            Step::Drop { handle, elsewhere } => {
                let tensor = self.tensors.remove(handle).expect("a program drops live handles");
                if *elsewhere {
                    devices.drop_elsewhere(tensor);
                }
            }
            Step::Read(handle) => {
                self.tensors[handle].to_bytes()?;
            }
            Step::Flush => stream.flush(),
            Step::Synchronize => stream.synchronize()?,
            Step::Enter(number) => {
                self.current = usize::from(*number);
                while self.streams.len() <= self.current {
                    self.streams.push(Stream::new(&self.streams[0].device()));
                }
            }
        }
        Ok(())
    }
}

/// Runs `body`; the message, if it panics.
fn quietly<R>(body: impl FnOnce() -> R) -> Result<R, String> {
    // What a panic leaves half-done is not looked at again.
    catch_unwind(AssertUnwindSafe(body)).map_err(|payload| match payload.downcast::<String>() {
        Ok(message) => *message,
        Err(payload) => match payload.downcast::<&str>() {
            Ok(message) => (*message).to_owned(),
            Err(_) => String::from("no message"),
        },
    })
}
