//! Events.

use super::programs::{Runner, add_scalar, borrow, label, label_text, upload};
use super::{Bench, Case, Checked, Clause, Options, Tag, ensure, ensure_eq, ensure_kind};
use crate::device::EventRef;
use crate::error::{ErrorKind, HalError};
use crate::sim::{Faults, Gate};

pub(super) const CASES: &[Case] = &[
    Case { name: "event::of_an_upload", clauses: &[Clause::H3], needs: &[], run: of_an_upload },
    Case { name: "event::waiters_agree_on_success", clauses: &[Clause::H3], needs: &[], run: waiters_agree_on_success },
    Case {
        name: "event::waiters_agree_on_failure",
        clauses: &[Clause::H3, Clause::H4],
        needs: &[Tag::Faults],
        run: waiters_agree_on_failure,
    },
    Case {
        name: "event::completes_only_then",
        clauses: &[Clause::H3, Clause::H5],
        needs: &[Tag::Faults],
        run: completes_only_then,
    },
    Case {
        name: "event::outlives_everything",
        clauses: &[Clause::H3, Clause::H9],
        needs: &[],
        run: outlives_everything,
    },
    Case {
        name: "event::dropped_while_pending",
        clauses: &[Clause::H9],
        needs: &[Tag::Faults],
        run: dropped_while_pending,
    },
];

/// Waits on several threads at once.
fn wait_together(events: &[EventRef]) -> Vec<Result<(), HalError>> {
    std::thread::scope(|scope| {
        let waiters: Vec<_> = events.iter().map(|event| scope.spawn(|| event.wait())).collect();
        waiters.into_iter().map(|waiter| waiter.join().expect("waiting does not panic")).collect()
    })
}

/// H3: an uploaded buffer is ready, and stays so.
fn of_an_upload(bench: &Bench) -> Checked {
    let device = bench.open()?;
    let buffer = upload(&device, &[1.0])?;
    buffer.ready().wait()?;
    ensure(buffer.ready().is_ready(), "ready after a wait")?;
    Ok(buffer.ready().wait()?)
}

/// H3: everybody who waits for a launch is let through, whichever of its events they hold.
fn waiters_agree_on_success(bench: &Bench) -> Checked {
    let device = bench.open()?;
    let program = Runner::new(&device, 8, add_scalar)?;
    let argument = upload(&device, &[0.0; 8])?;
    for _ in 0..200 {
        let execution = program.execute(&[1.0], [borrow(&argument)])?;
        let events = [execution.done.clone(), execution.done.clone(), execution.outputs[0].ready()];
        wait_together(&events).into_iter().collect::<Result<Vec<_>, _>>()?;
        ensure(events.iter().all(|event| event.is_ready()), "ready after a wait")?;
    }
    Ok(())
}

/// H3, H4: everybody gets the same failure, as often as they ask.
fn waiters_agree_on_failure(bench: &Bench) -> Checked {
    let device = bench.open_with(&Options::faulty(Faults::none().fail_launch(0)))?;
    let program = Runner::new(&device, 8, add_scalar)?;
    let argument = upload(&device, &[0.0; 8])?;
    let execution = program.labelled(&[1.0], [borrow(&argument)], label("first"))?;
    let events = [execution.done.clone(), execution.outputs[0].ready(), execution.done];
    for outcome in wait_together(&events).into_iter().chain(events.iter().map(|event| event.wait())) {
        let error = ensure_kind("wait", outcome, ErrorKind::Internal)?;
        ensure_eq("label", label_text(error.label()).as_deref(), Some("first"))?;
    }
    ensure(events.iter().all(|event| event.is_ready()), "a failed event is complete")
}

/// H3, H5: an event is pending while its launch, or one before it, is.
fn completes_only_then(bench: &Bench) -> Checked {
    let gate = Gate::closed();
    let device = bench.open_with(&Options::faulty(Faults::none().hold_launch(1, &gate)))?;
    let program = Runner::new(&device, 8, add_scalar)?;
    let argument = upload(&device, &[0.0; 8])?;
    let launches = (0..3).map(|_| program.execute(&[1.0], [borrow(&argument)])).collect::<Result<Vec<_>, _>>()?;
    launches[0].done.wait()?;
    for held in &launches[1..] {
        ensure(!held.done.is_ready() && !held.outputs[0].ready().is_ready(), "held at the gate")?;
    }
    gate.open();
    launches[2].done.wait()?;
    ensure(launches[1].done.is_ready(), "launches complete in order")
}

/// H3, H9: an event answers after its buffer and its device have gone, and keeps no memory.
fn outlives_everything(bench: &Bench) -> Checked {
    let device = bench.open()?;
    let program = Runner::new(&device, 8, add_scalar)?;
    // For a compiler in the background a closed device does not wait (H14).
    program.executable.wait()?;
    let execution = program.execute(&[1.0], [borrow(&upload(&device, &[0.0; 8])?)])?;
    drop(execution.outputs);
    ensure_eq("bytes in use", device.memory_stats().in_use, 0)?;
    drop((program, device));
    Ok(execution.done.wait()?)
}

/// H9: dropping a pending event does not wait.
fn dropped_while_pending(bench: &Bench) -> Checked {
    let gate = Gate::closed();
    let device = bench.open_with(&Options::faulty(Faults::none().hold_launch(0, &gate)))?;
    let program = Runner::new(&device, 8, add_scalar)?;
    let execution = program.execute(&[1.0], [borrow(&upload(&device, &[0.0; 8])?)])?;
    drop(execution);
    gate.open();
    Ok(device.synchronize()?)
}
