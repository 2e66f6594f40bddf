//! Failures: they poison what depends on them, name their cause, and leave the rest alone.

use super::programs::{Runner, add, add_scalar, borrow, donate, download, label, label_text, suited, upload};
use super::{Bench, Case, Checked, Clause, Options, Tag, ensure, ensure_eq, ensure_kind};
use crate::device::{BufferRef, DeviceRef};
use crate::error::{ErrorKind, HalError};
use crate::sim::{Faults, Gate};

pub(super) const CASES: &[Case] = &[
    Case {
        name: "failure::poisons_dependants",
        clauses: &[Clause::H4],
        needs: &[Tag::Values, Tag::Faults],
        run: poisons_dependants,
    },
    Case { name: "failure::earliest_cause", clauses: &[Clause::H4], needs: &[Tag::Faults], run: earliest_cause },
    Case {
        name: "failure::of_a_panic",
        clauses: &[Clause::H4, Clause::H8],
        needs: &[Tag::Values, Tag::Faults],
        run: of_a_panic,
    },
    Case {
        name: "failure::consumes_donations",
        clauses: &[Clause::H2],
        needs: &[Tag::Faults],
        run: consumes_donations,
    },
    Case { name: "failure::gives_memory_back", clauses: &[Clause::H12], needs: &[Tag::Faults], run: gives_memory_back },
    Case {
        name: "failure::synchronize_reports_once",
        clauses: &[Clause::H8],
        needs: &[Tag::Faults],
        run: synchronize_reports_once,
    },
    Case {
        name: "failure::synchronize_skips_the_known",
        clauses: &[Clause::H4, Clause::H8],
        needs: &[Tag::Faults],
        run: synchronize_skips_the_known,
    },
    Case {
        name: "failure::device_lost",
        clauses: &[Clause::H4, Clause::H8, Clause::H9],
        needs: &[Tag::Faults],
        run: device_lost,
    },
    Case {
        name: "failure::delays_change_nothing",
        clauses: &[Clause::H5, Clause::H12],
        needs: &[Tag::Values, Tag::Faults],
        run: delays_change_nothing,
    },
];

/// The failure that `buffer` gives when it is read, and the text of its label.
fn read_failure(device: &DeviceRef, buffer: &BufferRef, kind: ErrorKind) -> Checked<(HalError, Option<String>)> {
    let error = ensure_kind("download", download(device, buffer), kind)?;
    let text = label_text(error.label());
    Ok((error, text))
}

/// H4: along a chain every buffer fails with the cause, and what does not depend on it is computed.
fn poisons_dependants(bench: &Bench) -> Checked {
    let device = bench.open_with(&Options::faulty(Faults::none().fail_launch(2)))?;
    let program = Runner::new(&device, 4, add_scalar)?;
    let start = upload(&device, &[0.0; 4])?;
    let mut chain = vec![start.clone()];
    for n in 0..6 {
        let next = program.labelled(&[1.0], [borrow(&chain[n])], label(&format!("launch {n}")))?;
        chain.push(next.outputs[0].clone());
    }
    let unrelated = program.one(&[5.0], [borrow(&start)])?;
    for (n, good) in chain.iter().enumerate().take(3) {
        ensure_eq("before", download(&device, good)?, vec![n as f32; 4])?;
    }
    for poisoned in &chain[3..] {
        let (_, text) = read_failure(&device, poisoned, ErrorKind::Internal)?;
        ensure_eq("label", text.as_deref(), Some("launch 2"))?;
        ensure_kind("event", poisoned.ready().wait(), ErrorKind::Internal)?;
    }
    // Also for launches that are submitted once the failure is known.
    let late = program.labelled(&[1.0], [borrow(&chain[6])], label("late"))?;
    let error = ensure_kind("late", late.done.wait(), ErrorKind::Internal)?;
    ensure_eq("label", label_text(error.label()).as_deref(), Some("launch 2"))?;
    ensure_eq("unrelated", download(&device, &unrelated)?, vec![5.0; 4])?;
    ensure_eq("start", download(&device, &start)?, vec![0.0; 4])
}

/// H4: where two failures meet, the launch submitted first is blamed, whatever the order of the arguments.
fn earliest_cause(bench: &Bench) -> Checked {
    let device = bench.open_with(&Options::faulty(Faults::none().fail_launch(0).fail_launch(1)))?;
    let (plus, both) = (Runner::new(&device, 4, add_scalar)?, Runner::new(&device, 4, add)?);
    let start = upload(&device, &[0.0; 4])?;
    let failing = |text: &str| plus.labelled(&[1.0], [borrow(&start)], label(text));
    let (first, second) = (failing("first")?.outputs.remove(0), failing("second")?.outputs.remove(0));
    for args in [[borrow(&first), borrow(&second)], [borrow(&second), borrow(&first)]] {
        let (_, text) = read_failure(&device, &both.one(&[], args)?, ErrorKind::Internal)?;
        ensure_eq("label", text.as_deref(), Some("first"))?;
    }
    Ok(())
}

/// H4, H8: a program that panics is a failed launch like any other.
fn of_a_panic(bench: &Bench) -> Checked {
    let device = bench.open_with(&Options::faulty(Faults::none().panic_launch(1)))?;
    let program = Runner::new(&device, 4, add_scalar)?;
    let first = program.one(&[1.0], [borrow(&upload(&device, &[0.0; 4])?)])?;
    let panics = program.labelled(&[1.0], [borrow(&first)], label("panics"))?;
    let after = program.one(&[1.0], [borrow(&panics.outputs[0])])?;
    let (_, text) = read_failure(&device, &after, ErrorKind::Internal)?;
    ensure_eq("label", text.as_deref(), Some("panics"))?;
    let good = program.one(&[1.0], [donate(first)])?;
    ensure_eq("contents", download(&device, &good)?, vec![2.0; 4])?;
    Ok(device.synchronize()?)
}

/// H2: what a failing launch was given is gone.
fn consumes_donations(bench: &Bench) -> Checked {
    let device = bench.open_with(&Options::faulty(Faults::none().fail_launch(0)))?;
    let program = Runner::new(&device, 4, add_scalar)?;
    let kept = upload(&device, &[0.0; 4])?;
    let output = program.one(&[1.0], [donate(kept.clone())])?;
    ensure_kind("output", output.ready().wait(), ErrorKind::Internal)?;
    ensure(kept.is_donated(), "donated")?;
    ensure_kind("download", download(&device, &kept), ErrorKind::InvalidProgram)?;
    drop((kept, output));
    ensure_eq("in use", device.memory_stats().in_use, 0)
}

/// H12: failed and poisoned buffers are counted like others, until they are dropped.
fn gives_memory_back(bench: &Bench) -> Checked {
    let device = bench.open_with(&Options::faulty(Faults::none().fail_launch(0)))?;
    let program = Runner::new(&device, 4, add_scalar)?;
    let start = upload(&device, &[0.0; 4])?;
    let failed = program.one(&[1.0], [borrow(&start)])?;
    let poisoned = program.one(&[1.0], [borrow(&failed)])?;
    ensure_kind("poisoned", poisoned.ready().wait(), ErrorKind::Internal)?;
    ensure_eq("live buffers", device.memory_stats().live_buffers, 3)?;
    drop((start, failed, poisoned));
    ensure_eq("live buffers", device.memory_stats().live_buffers, 0)
}

/// H8: failures that nobody looked at come out of `synchronize`, earliest first, each once.
fn synchronize_reports_once(bench: &Bench) -> Checked {
    let device = bench.open_with(&Options::faulty(Faults::none().fail_launch(0).fail_launch(4)))?;
    let program = Runner::new(&device, 4, add_scalar)?;
    let start = upload(&device, &[0.0; 4])?;
    for text in ["first", "good", "third"] {
        let dropped = program.labelled(&[1.0], [borrow(&start)], label(text))?;
        program.one(&[1.0], [borrow(&dropped.outputs[0])])?;
    }
    for text in ["first", "third"] {
        let error = ensure_kind("synchronize", device.synchronize(), ErrorKind::Internal)?;
        ensure_eq("label", label_text(error.label()).as_deref(), Some(text))?;
    }
    device.synchronize()?;
    program.one(&[1.0], [borrow(&start)])?.ready().wait()?;
    Ok(device.synchronize()?)
}

/// H4, H8: who was told, be it through a dependant, is not told again.
fn synchronize_skips_the_known(bench: &Bench) -> Checked {
    let device = bench.open_with(&Options::faulty(Faults::none().fail_launch(0)))?;
    let program = Runner::new(&device, 4, add_scalar)?;
    let failed = program.one(&[1.0], [borrow(&upload(&device, &[0.0; 4])?)])?;
    let poisoned = program.one(&[1.0], [borrow(&failed)])?;
    read_failure(&device, &poisoned, ErrorKind::Internal)?;
    Ok(device.synchronize()?)
}

/// H4, H8, H9: a lost device fails what it had and every later call alike; nobody hangs.
fn device_lost(bench: &Bench) -> Checked {
    let gate = Gate::closed();
    let faults = Faults::none().hold_launch(1, &gate).lose_device(1);
    let device = bench.open_with(&Options::faulty(faults))?;
    let program = Runner::new(&device, 4, add_scalar)?;
    let start = upload(&device, &[0.0; 4])?;
    let good = program.one(&[1.0], [borrow(&start)])?;
    good.ready().wait()?;
    let lost = program.labelled(&[1.0], [borrow(&start)], label("lost"))?;
    let queued = program.one(&[1.0], [borrow(&start)])?;
    gate.open();
    for event in [&lost.done, &queued.ready()] {
        let error = ensure_kind("event", event.wait(), ErrorKind::DeviceLost)?;
        ensure_eq("label", label_text(error.label()).as_deref(), Some("lost"))?;
    }
    for _ in 0..2 {
        ensure_kind("upload", upload(&device, &[0.0]), ErrorKind::DeviceLost)?;
        ensure_kind("download", download(&device, &good), ErrorKind::DeviceLost)?;
        ensure_kind("compile", device.compile(suited(&device, add(4), 4)), ErrorKind::DeviceLost)?;
        ensure_kind("execute", program.one(&[1.0], [borrow(&start)]), ErrorKind::DeviceLost)?;
        ensure_kind("synchronize", device.synchronize(), ErrorKind::DeviceLost)?;
    }
    good.ready().wait()?;
    drop((start, good, lost, queued));
    ensure_eq("in use", device.memory_stats().in_use, 0)
}

/// H5, H12: delays change neither values nor memory.
fn delays_change_nothing(bench: &Bench) -> Checked {
    let run = |faults| -> Checked<_> {
        let device = bench.open_with(&Options::faulty(faults))?;
        let program = Runner::new(&device, 64, add_scalar)?;
        let mut buffer = upload(&device, &[0.0; 64])?;
        for n in 0..300 {
            let arg = if n % 3 == 0 { borrow(&buffer) } else { donate(buffer) };
            buffer = program.one(&[n as f32], [arg])?;
        }
        Ok((download(&device, &buffer)?, device.memory_stats(), device.counters().launches))
    };
    let plain = run(Faults::none())?;
    for seed in 0..4 {
        let delays = Faults::none().random_delays(seed, 8, std::time::Duration::from_micros(200));
        ensure(run(delays)? == plain, format!("seed {seed} changed something"))?;
    }
    Ok(())
}
