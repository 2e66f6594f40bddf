//! Compilation.

use std::sync::Arc;

use systole_kernels::DType;
use systole_kernels::program::Program;

use super::programs::{Runner, add, add_scalar, borrow, broken, copy, download, scale, suited, upload};
use super::{Bench, Case, Checked, Clause, Options, Tag, ensure, ensure_eq, ensure_kind};
use crate::device::{DeviceRef, ExecutableRef};
use crate::error::{ErrorKind, HalError};
use crate::sim::Faults;

pub(super) const CASES: &[Case] = &[
    Case { name: "compile::fingerprints", clauses: &[Clause::H7], needs: &[], run: fingerprints },
    Case { name: "compile::keeps_the_program", clauses: &[Clause::H7], needs: &[], run: keeps_the_program },
    Case {
        name: "compile::refuses_nonsense",
        clauses: &[Clause::H8, Clause::H10],
        needs: &[Tag::Values],
        run: refuses_nonsense,
    },
    Case {
        name: "compile::from_many_threads",
        clauses: &[Clause::H7, Clause::H10],
        needs: &[],
        run: from_many_threads,
    },
    Case { name: "compile::fails_on_demand", clauses: &[Clause::H8], needs: &[Tag::Faults], run: fails_on_demand },
    Case {
        name: "compile::outlives_its_handle",
        clauses: &[Clause::H9],
        needs: &[Tag::Values],
        run: outlives_its_handle,
    },
    Case {
        name: "compile::refuses_parameters",
        clauses: &[Clause::H8, Clause::H15],
        needs: &[Tag::StaticShapes],
        run: refuses_parameters,
    },
];

/// Compiles a program made for four elements, and waits until it is.
fn compile(device: &DeviceRef, program: Program) -> Result<ExecutableRef, HalError> {
    let executable = device.compile(suited(device, program, 4))?;
    executable.wait()?;
    Ok(executable)
}

/// H7: equal programs have equal fingerprints, on another device too, and different ones do not.
fn fingerprints(bench: &Bench) -> Checked {
    let (device, other) = (bench.open()?, bench.open()?);
    let first = compile(&device, add(4))?.fingerprint();
    ensure_eq("same program", compile(&device, add(4))?.fingerprint(), first)?;
    let wider = device.compile(suited(&device, add(5), 5))?.fingerprint();
    ensure_eq("another size is another program", wider != first, device.capabilities().static_shapes)?;
    ensure_eq("another device", compile(&other, add(4))?.fingerprint(), first)?;
    ensure(compile(&device, add_scalar(4))?.fingerprint() != first, "another program has another fingerprint")?;
    ensure(device.compile(add(1))?.fingerprint() != first, "another pattern of extents is another program")
}

/// H7: an executable knows what it came from.
fn keeps_the_program(bench: &Bench) -> Checked {
    let device = bench.open()?;
    let executable = compile(&device, scale(4))?;
    ensure_eq("program", executable.program(), &suited(&device, scale(4), 4))?;
    ensure(executable.is_ready(), "ready after a wait")?;
    ensure_eq("name", executable.name(), "scale")?;
    ensure_eq("device", executable.device(), device.id())?;
    ensure_eq("compiles", device.counters().compiles, 1)
}

/// H8, H10: a program that breaks the rules is an error, and the next one compiles.
fn refuses_nonsense(bench: &Bench) -> Checked {
    let device = bench.open()?;
    ensure_kind("undefined register", device.compile(suited(&device, broken(), 4)), ErrorKind::InvalidProgram)?;
    let mut inputs = suited(&device, add(4), 4);
    inputs.inputs = 9;
    ensure_kind("too many inputs", device.compile(inputs), ErrorKind::InvalidProgram)?;
    compile(&device, add(4))?;
    Ok(())
}

/// H7, H10: several threads may compile at once.
fn from_many_threads(bench: &Bench) -> Checked {
    let device = bench.open()?;
    let fifty = || (0..50).map(|_| Ok(compile(&device, add(4))?.fingerprint())).collect::<Result<Vec<_>, HalError>>();
    let fingerprints = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(fifty)).collect();
        let compiled = threads.into_iter().map(|thread| thread.join().expect("compiling does not panic"));
        compiled.collect::<Result<Vec<_>, HalError>>()
    })?;
    ensure(fingerprints.iter().flatten().all(|print| *print == fingerprints[0][0]), "all equal")?;
    ensure_eq("compiles", device.counters().compiles, 150)
}

/// H8: a compilation that fails leaves the device as it was.
fn fails_on_demand(bench: &Bench) -> Checked {
    let device = bench.open_with(&Options::faulty(Faults::none().fail_compile(1)))?;
    compile(&device, add(4))?;
    ensure_kind("second", compile(&device, add(4)), ErrorKind::Unsupported)?;
    compile(&device, add(4))?;
    ensure_eq("compiles", device.counters().compiles, 2)
}

/// H9: a program that is still queued survives its last handle.
fn outlives_its_handle(bench: &Bench) -> Checked {
    let device = bench.open()?;
    let program = Runner::new(&device, 3, |n| copy(n, DType::F32))?;
    let output = program.one(&[], [borrow(&upload(&device, &[1.0, 2.0, 3.0])?)])?;
    let watch = Arc::downgrade(&program.executable);
    drop(program);
    ensure_eq("contents", download(&device, &output)?, vec![1.0, 2.0, 3.0])?;
    device.synchronize()?;
    ensure(watch.upgrade().is_none(), "nothing keeps an executable that nobody can launch")
}

/// H8, H15: where shapes are static, a program that leaves one open is refused with its name, and the next one compiles.
fn refuses_parameters(bench: &Bench) -> Checked {
    let device = bench.open()?;
    let error = ensure_kind("a parameter", device.compile(scale(4)), ErrorKind::Unsupported)?;
    ensure(error.message().contains("`scale`"), format!("`{error}` names the program"))?;
    compile(&device, scale(4))?;
    Ok(())
}
