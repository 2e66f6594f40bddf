//! Device memory: exact, in submission order, and served again after it ran out.

use super::programs::{Runner, add, add_scalar, borrow, donate, download, label, label_text, sum_and_product, upload};
use super::{Bench, Case, Checked, Clause, Options, Tag, ensure, ensure_eq, ensure_kind};
use crate::device::MemoryStats;
use crate::error::{ErrorKind, Shortage};
use crate::sim::{Faults, Gate};

pub(super) const CASES: &[Case] = &[
    Case { name: "memory::counts_bytes", clauses: &[Clause::H12], needs: &[Tag::MemoryLimit], run: counts_bytes },
    Case {
        name: "memory::full_upload",
        clauses: &[Clause::H8, Clause::H12],
        needs: &[Tag::MemoryLimit],
        run: full_upload,
    },
    Case {
        name: "memory::full_launch",
        clauses: &[Clause::H2, Clause::H8, Clause::H12],
        needs: &[Tag::MemoryLimit],
        run: full_launch,
    },
    Case {
        name: "memory::in_place_fits",
        clauses: &[Clause::H2, Clause::H12],
        needs: &[Tag::MemoryLimit, Tag::InPlace, Tag::Values],
        run: in_place_fits,
    },
    Case {
        name: "memory::donation_gives_back",
        clauses: &[Clause::H2, Clause::H12],
        needs: &[Tag::MemoryLimit, Tag::InPlace],
        run: donation_gives_back,
    },
    Case {
        name: "memory::follows_submission",
        clauses: &[Clause::H11, Clause::H12],
        needs: &[Tag::MemoryLimit, Tag::Faults],
        run: follows_submission,
    },
    Case {
        name: "memory::long_queue_stays_small",
        clauses: &[Clause::H12],
        needs: &[Tag::MemoryLimit, Tag::Values],
        run: long_queue_stays_small,
    },
    Case {
        name: "memory::zero_bytes",
        clauses: &[Clause::H6, Clause::H12],
        needs: &[Tag::MemoryLimit],
        run: zero_bytes,
    },
    Case {
        name: "memory::fails_on_demand",
        clauses: &[Clause::H2, Clause::H8],
        needs: &[Tag::Faults],
        run: fails_on_demand,
    },
];

/// H12: bytes and buffers are counted as they come and go.
fn counts_bytes(bench: &Bench) -> Checked {
    let device = bench.open_with(&Options::limited(1 << 20))?;
    let stats = |in_use, peak, live_buffers| MemoryStats { in_use, peak, limit: 1 << 20, live_buffers };
    ensure_eq("at first", device.memory_stats(), stats(0, 0, 0))?;
    let buffer = upload(&device, &[0.0; 25])?;
    ensure_eq("uploaded", device.memory_stats(), stats(100, 100, 1))?;
    let clone = buffer.clone();
    drop(buffer);
    ensure_eq("a clone is left", device.memory_stats(), stats(100, 100, 1))?;
    let program = Runner::new(&device, 25, add)?;
    let sum = program.one(&[], [borrow(&clone), borrow(&clone)])?;
    ensure_eq("launched", device.memory_stats(), stats(200, 200, 2))?;
    drop(clone);
    ensure_eq("argument dropped", device.memory_stats(), stats(100, 200, 1))?;
    drop(sum);
    ensure_eq("all dropped", device.memory_stats(), stats(0, 200, 0))
}

/// H8, H12: the last byte can be had, one more cannot, and the next call is served.
fn full_upload(bench: &Bench) -> Checked {
    let device = bench.open_with(&Options::limited(400))?;
    let most = upload(&device, &[0.0; 90])?;
    let rest = upload(&device, &[0.0; 10])?;
    let error = ensure_kind("one more", upload(&device, &[0.0]), ErrorKind::OutOfMemory)?;
    ensure_eq("numbers", error.shortage(), Some(Shortage { requested: 4, in_use: 400, limit: 400 }))?;
    for number in ["4 bytes", "400 of 400"] {
        ensure(error.message().contains(number), format!("`{error}` says {number}"))?;
    }
    drop(rest);
    let _rest = upload(&device, &[0.0; 10])?;
    ensure_eq("in use", device.memory_stats().in_use, 400)?;
    Ok(device.download(&most, &mut [0; 360])?)
}

/// H2, H8, H12: a launch that does not fit is refused at once, with its label; what was donated is gone and makes room.
fn full_launch(bench: &Bench) -> Checked {
    let device = bench.open_with(&Options::limited(1000))?;
    let program = Runner::new(&device, 100, sum_and_product)?;
    let (a, b) = (upload(&device, &[0.0; 100])?, upload(&device, &[0.0; 100])?);
    let submitted = program.labelled(&[], [borrow(&a), donate(b.clone())], label("both"));
    let error = ensure_kind("two outputs", submitted, ErrorKind::OutOfMemory)?;
    ensure_eq("label", label_text(error.label()).as_deref(), Some("both"))?;
    let shortage = error.shortage().map(|Shortage { in_use, limit, .. }| (in_use, limit));
    ensure_eq("numbers", shortage, Some((800, 1000)))?;
    ensure(b.is_donated() && !a.is_donated(), "donated arguments are consumed, borrowed ones are not")?;
    ensure_eq("in use", device.memory_stats().in_use, 400)?;
    let smaller = Runner::new(&device, 100, add_scalar)?;
    smaller.one(&[1.0], [borrow(&a)])?.ready().wait()?;
    Ok(device.synchronize()?)
}

/// H2, H12: an update in place fits into a device that its buffer fills.
fn in_place_fits(bench: &Bench) -> Checked {
    let device = bench.open_with(&Options::limited(4000))?;
    let program = Runner::new(&device, 1000, add_scalar)?;
    let mut buffer = upload(&device, &[0.0; 1000])?;
    for _ in 0..10 {
        buffer = program.one(&[1.0], [donate(buffer)])?;
    }
    ensure_kind("a copy", program.one(&[1.0], [borrow(&buffer)]), ErrorKind::OutOfMemory)?;
    ensure_eq("contents", download(&device, &buffer)?, vec![10.0; 1000])?;
    ensure_eq("memory", device.memory_stats(), MemoryStats { in_use: 4000, peak: 4000, limit: 4000, live_buffers: 1 })
}

/// H2, H12: a donated argument that no output takes over is given back, but the launch needs both.
fn donation_gives_back(bench: &Bench) -> Checked {
    let device = bench.open_with(&Options::limited(1200))?;
    let program = Runner::new(&device, 100, add)?;
    let (a, b) = (upload(&device, &[0.0; 100])?, upload(&device, &[0.0; 100])?);
    let sum = program.one(&[], [donate(a), donate(b)])?;
    ensure_eq("one left", device.memory_stats().in_use, 400)?;
    ensure_eq("one taken over", device.memory_stats().peak, 800)?;
    sum.ready().wait()?;
    ensure_eq("live buffers", device.memory_stats().live_buffers, 1)
}

/// H11, H12: what is counted does not depend on how far the device has got.
fn follows_submission(bench: &Bench) -> Checked {
    let gate = Gate::closed();
    let options = Options { memory_limit: Some(1000), faults: Faults::none().hold_launch(0, &gate) };
    let device = bench.open_with(&options)?;
    let program = Runner::new(&device, 100, add_scalar)?;
    let first = upload(&device, &[0.0; 100])?;
    let second = program.one(&[1.0], [borrow(&first)])?;
    ensure_kind("a third", program.one(&[1.0], [borrow(&second)]), ErrorKind::OutOfMemory)?;
    // The launch that reads it has not run, yet after it the memory is free: in submission order, it is free now.
    drop(first);
    ensure_eq("in use", device.memory_stats().in_use, 400)?;
    let third = program.one(&[1.0], [borrow(&second)])?;
    drop(second);
    let fourth = program.one(&[1.0], [donate(third)])?;
    ensure_eq("in use", device.memory_stats(), MemoryStats { in_use: 400, peak: 800, limit: 1000, live_buffers: 1 })?;
    ensure_eq("launches", device.counters().launches, 0)?;
    gate.open();
    Ok(fourth.ready().wait()?)
}

/// H12: a loop that drops what it has read never needs more than two buffers, however far it runs ahead.
fn long_queue_stays_small(bench: &Bench) -> Checked {
    let device = bench.open_with(&Options::limited(2 * 4096))?;
    let program = Runner::new(&device, 1024, add_scalar)?;
    let mut buffer = upload(&device, &[0.0; 1024])?;
    for _ in 0..2000 {
        buffer = program.one(&[1.0], [borrow(&buffer)])?;
    }
    ensure_eq("peak", device.memory_stats().peak, 2 * 4096)?;
    ensure_eq("contents", download(&device, &buffer)?, vec![2000.0; 1024])
}

/// H6, H12: buffers without elements fit into a full device.
fn zero_bytes(bench: &Bench) -> Checked {
    let device = bench.open_with(&Options::limited(4))?;
    let _full = upload(&device, &[0.0])?;
    let empty = upload(&device, &[])?;
    let program = Runner::new(&device, 0, add_scalar)?;
    let output = program.one(&[1.0], [borrow(&empty)])?;
    output.ready().wait()?;
    ensure_eq("memory", device.memory_stats(), MemoryStats { in_use: 4, peak: 4, limit: 4, live_buffers: 3 })
}

/// H2, H8: an allocation that fails is an out-of-memory like any other.
fn fails_on_demand(bench: &Bench) -> Checked {
    let faults = Faults::none().fail_allocation(1).fail_allocation(4);
    let device = bench.open_with(&Options::faulty(faults))?;
    let program = Runner::new(&device, 4, sum_and_product)?;
    let (a, error) = (upload(&device, &[0.0; 4])?, upload(&device, &[0.0; 4]));
    ensure_kind("second upload", error, ErrorKind::OutOfMemory)?;
    let b = upload(&device, &[0.0; 4])?;
    let submitted = program.execute(&[], [borrow(&a), donate(b.clone())]);
    ensure_kind("second output", submitted, ErrorKind::OutOfMemory)?;
    ensure(b.is_donated(), "donation consumes when memory runs out")?;
    ensure_eq("live buffers", device.memory_stats().live_buffers, 1)?;
    program.execute(&[], [borrow(&a), borrow(&a)])?.done.wait()?;
    Ok(device.synchronize()?)
}
