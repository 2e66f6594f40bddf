//! Compiles in the background: launches wait for their programs, and nothing else does.

use super::programs::{Runner, add, add_scalar, borrow, donate, download, label, label_text, scale, upload};
use super::{Bench, Case, Checked, Clause, Options, Tag, ensure, ensure_eq, ensure_kind};
use crate::device::MemoryStats;
use crate::error::ErrorKind;
use crate::sim::{Faults, Gate};

const NEEDS: &[Tag] = &[Tag::Values, Tag::Faults, Tag::Background];

pub(super) const CASES: &[Case] = &[
    Case {
        name: "background::others_overtake",
        clauses: &[Clause::H5, Clause::H14],
        needs: NEEDS,
        run: others_overtake,
    },
    Case {
        name: "background::accounts_at_once",
        clauses: &[Clause::H2, Clause::H12, Clause::H14],
        needs: &[Tag::Values, Tag::Faults, Tag::Background, Tag::MemoryLimit, Tag::InPlace],
        run: accounts_at_once,
    },
    Case {
        name: "background::readers_keep_what_they_wait_with",
        clauses: &[Clause::H1, Clause::H2, Clause::H14],
        needs: NEEDS,
        run: readers_keep_what_they_wait_with,
    },
    Case { name: "background::failed_compile", clauses: &[Clause::H4, Clause::H14], needs: NEEDS, run: failed_compile },
    Case {
        name: "background::earliest_cause",
        clauses: &[Clause::H4, Clause::H8, Clause::H14],
        needs: NEEDS,
        run: earliest_cause,
    },
    Case {
        name: "background::lost_while_compiling",
        clauses: &[Clause::H8, Clause::H14],
        needs: NEEDS,
        run: lost_while_compiling,
    },
    Case {
        name: "background::closing_abandons",
        clauses: &[Clause::H3, Clause::H9, Clause::H14],
        needs: NEEDS,
        run: closing_abandons,
    },
];

/// H5, H14: while a program is being compiled, what depends on it waits, the rest runs, and order does not show.
fn others_overtake(bench: &Bench) -> Checked {
    let gate = Gate::closed();
    let device = bench.open_with(&Options::faulty(Faults::none().hold_compile(1, &gate)))?;
    let (plus, times) = (Runner::new(&device, 4, add_scalar)?, Runner::new(&device, 4, scale)?);
    plus.executable.wait()?;
    let start = upload(&device, &[1.0; 4])?;
    let doubled = times.one(&[2.0], [borrow(&start)])?;
    let after = plus.one(&[1.0], [borrow(&doubled)])?;
    let again = times.one(&[10.0], [borrow(&after)])?;
    let other = plus.one(&[7.0], [donate(start)])?;
    ensure_eq("overtaking", download(&device, &other)?, vec![8.0; 4])?;
    ensure(!times.executable.is_ready(), "the program is held")?;
    ensure(![&doubled, &after, &again].iter().any(|buffer| buffer.ready().is_ready()), "its launches wait")?;
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| device.synchronize());
        gate.open();
        waiter.join().expect("waiting does not panic")
    })?;
    times.executable.wait()?;
    ensure(again.ready().is_ready(), "a synchronize waits for launches that wait")?;
    for (buffer, value) in [(&doubled, 2.0), (&after, 3.0), (&again, 30.0)] {
        ensure_eq("contents", download(&device, buffer)?, vec![value; 4])?;
    }
    Ok(())
}

/// H2, H12, H14: memory and donation do not depend on when a program is compiled.
fn accounts_at_once(bench: &Bench) -> Checked {
    let gate = Gate::closed();
    let options = Options { memory_limit: Some(1000), faults: Faults::none().hold_compile(0, &gate) };
    let device = bench.open_with(&options)?;
    let program = Runner::new(&device, 100, add_scalar)?;
    let first = upload(&device, &[0.0; 100])?;
    let second = program.one(&[1.0], [borrow(&first)])?;
    ensure_kind("a third", program.one(&[1.0], [borrow(&second)]), ErrorKind::OutOfMemory)?;
    drop(first);
    let third = program.one(&[1.0], [borrow(&second)])?;
    drop(second);
    let fourth = program.one(&[1.0], [donate(third.clone())])?;
    ensure(third.is_donated(), "donated at once")?;
    drop(third);
    ensure_eq("memory", device.memory_stats(), MemoryStats { in_use: 400, peak: 800, limit: 1000, live_buffers: 1 })?;
    ensure_eq("launches", device.counters().launches, 0)?;
    gate.open();
    ensure_eq("contents", download(&device, &fourth)?, vec![3.0; 100])
}

/// H1, H2, H14: a launch that waits keeps its arguments as they were, though a later one overtakes it and consumes them.
fn readers_keep_what_they_wait_with(bench: &Bench) -> Checked {
    let gate = Gate::closed();
    let device = bench.open_with(&Options::faulty(Faults::none().hold_compile(1, &gate)))?;
    let (plus, times) = (Runner::new(&device, 4, add_scalar)?, Runner::new(&device, 4, scale)?);
    plus.executable.wait()?;
    let start = upload(&device, &[1.0; 4])?;
    let waits = times.one(&[2.0], [borrow(&start)])?;
    let consumer = plus.one(&[5.0], [donate(start)])?;
    ensure_eq("overtaking", download(&device, &consumer)?, vec![6.0; 4])?;
    gate.open();
    ensure_eq("waiting", download(&device, &waits)?, vec![2.0; 4])
}

/// H4, H14: a program that cannot be compiled fails its launches, each under its own label, and what depends on them.
fn failed_compile(bench: &Bench) -> Checked {
    let gate = Gate::closed();
    let device = bench.open_with(&Options::faulty(Faults::none().hold_compile(1, &gate).fail_compile(1)))?;
    let (plus, times) = (Runner::new(&device, 4, add_scalar)?, Runner::new(&device, 4, scale)?);
    plus.executable.wait()?;
    let start = upload(&device, &[1.0; 4])?;
    let failing = |text: &str| times.labelled(&[2.0], [borrow(&start)], label(text));
    let early = failing("early")?.outputs.remove(0);
    let dependent = plus.one(&[1.0], [borrow(&early)])?;
    gate.open();
    ensure_kind("executable", times.executable.wait(), ErrorKind::Unsupported)?;
    let late = failing("late")?.outputs.remove(0);
    for (buffer, text) in [(&early, "early"), (&dependent, "early"), (&late, "late")] {
        let error = ensure_kind("download", download(&device, buffer), ErrorKind::Unsupported)?;
        ensure_eq("label", label_text(error.label()).as_deref(), Some(text))?;
        ensure(error.message().contains("scale"), format!("`{error}` names the program"))?;
    }
    ensure_eq("unrelated", download(&device, &plus.one(&[1.0], [borrow(&start)])?)?, vec![2.0; 4])?;
    Ok(device.synchronize()?)
}

/// H4, H8, H14: where failures meet or are told, the launch submitted first comes first, though it failed last.
fn earliest_cause(bench: &Bench) -> Checked {
    let gate = Gate::closed();
    let faults = Faults::none().hold_compile(1, &gate).fail_compile(1).fail_launch(1).fail_launch(2);
    let device = bench.open_with(&Options::faulty(faults))?;
    let (plus, times) = (Runner::new(&device, 4, add_scalar)?, Runner::new(&device, 4, scale)?);
    plus.executable.wait()?;
    let both = Runner::new(&device, 4, add)?;
    let start = upload(&device, &[1.0; 4])?;
    let first = times.labelled(&[2.0], [borrow(&start)], label("first"))?.outputs.remove(0);
    let second = plus.labelled(&[1.0], [borrow(&start)], label("second"))?;
    let third = plus.labelled(&[1.0], [borrow(&start)], label("third"))?;
    ensure_kind("third", third.done.wait(), ErrorKind::Internal)?;
    let met = both.one(&[], [borrow(&second.outputs[0]), borrow(&first)])?;
    gate.open();
    let mut told = ensure_kind("synchronize", device.synchronize(), ErrorKind::Unsupported)?;
    ensure_eq("label", label_text(told.label()).as_deref(), Some("first"))?;
    told = ensure_kind("synchronize", device.synchronize(), ErrorKind::Internal)?;
    ensure_eq("label", label_text(told.label()).as_deref(), Some("second"))?;
    let error = ensure_kind("met", download(&device, &met), ErrorKind::Unsupported)?;
    ensure_eq("label", label_text(error.label()).as_deref(), Some("first"))?;
    Ok(device.synchronize()?)
}

/// H8, H14: a device lost by one compile fails the launches that wait for another, which is never finished.
fn lost_while_compiling(bench: &Bench) -> Checked {
    let (gate, never) = (Gate::closed(), Gate::closed());
    let faults = Faults::none().hold_compile(0, &gate).lose_device_at_compile(0).hold_compile(1, &never);
    let device = bench.open_with(&Options::faulty(faults))?;
    let (times, plus) = (Runner::new(&device, 4, scale)?, Runner::new(&device, 4, add_scalar)?);
    let start = upload(&device, &[1.0; 4])?;
    let loses = times.one(&[2.0], [borrow(&start)])?;
    let waits = plus.one(&[1.0], [borrow(&start)])?;
    gate.open();
    for buffer in [&waits, &loses] {
        ensure_kind("event", buffer.ready().wait(), ErrorKind::DeviceLost)?;
    }
    ensure_kind("compile", times.executable.wait(), ErrorKind::DeviceLost)?;
    ensure_kind("execute", plus.one(&[1.0], [borrow(&start)]), ErrorKind::DeviceLost)?;
    ensure_kind("synchronize", device.synchronize(), ErrorKind::DeviceLost)?;
    drop((plus, device));
    never.open();
    Ok(())
}

/// H3, H9, H14: closing a device runs what can run and fails what would wait for a compiler; it does not wait itself.
fn closing_abandons(bench: &Bench) -> Checked {
    let gate = Gate::closed();
    let device = bench.open_with(&Options::faulty(Faults::none().hold_compile(1, &gate)))?;
    let (plus, times) = (Runner::new(&device, 4, add_scalar)?, Runner::new(&device, 4, scale)?);
    plus.executable.wait()?;
    let start = upload(&device, &[1.0; 4])?;
    let waits = times.labelled(&[2.0], [borrow(&start)], label("waits"))?;
    let dependent = plus.one(&[1.0], [borrow(&waits.outputs[0])])?;
    let other = plus.one(&[1.0], [borrow(&start)])?;
    drop((device, plus, times));
    other.ready().wait()?;
    for event in [waits.done, dependent.ready()] {
        let error = ensure_kind("abandoned", event.wait(), ErrorKind::Unavailable)?;
        ensure_eq("label", label_text(error.label()).as_deref(), Some("waits"))?;
    }
    gate.open();
    Ok(())
}
