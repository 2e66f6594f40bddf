//! Streams: where traces are cut, what is found dead, and that neither depends on time or on other threads.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use expect_test::{Expect, expect};
use systole::hal::sim::{Faults, Gate};
use systole::{
    Config, CutReason, DType, Device, FlushReport, Mode, Opcode, Origin, PlanSource, Result, Stream, Tensor, with_mode,
};

fn open(config: Config) -> Device {
    Device::open(config).expect("the simulator opens")
}

/// A device that does not cut before it is asked to.
fn patient() -> Device {
    open(Config { first_window: 1000, window_limit: 1000, threads: 1, ..Config::default() })
}

fn numbers(device: &Device, count: usize) -> Tensor {
    let elements: Vec<f32> = (0..count).map(|at| at as f32 / 8.0).collect();
    Tensor::from_slice(device, &elements, [count]).expect("there is memory for it")
}

/// What a cut is, timing and totals apart.
type CutKey = (u64, u64, CutReason, usize, usize, u64);

fn cut_keys(device: &Device) -> Vec<CutKey> {
    let key =
        |report: FlushReport| (report.stream, report.sequence, report.reason, report.ops, report.outputs, report.key);
    device.reports().into_iter().map(key).collect()
}

/// The cuts as lines: reason (without the place), ops, outputs, launches or none.
fn describe(device: &Device) -> String {
    let line = |report: &FlushReport| {
        let reason = match &report.reason {
            CutReason::OneByOne => String::from("one by one"),
            CutReason::Read(_) => String::from("read"),
            CutReason::Synchronize(_) => String::from("synchronize"),
            CutReason::Flush(_) => String::from("flush"),
            CutReason::Ops(ops) => format!("{ops} ops"),
            CutReason::Bytes(bytes) => format!("{bytes} bytes"),
            CutReason::UsedBy(_) => String::from("used by another stream"),
            CutReason::Closed => String::from("closed"),
        };
        let planned = if report.plan == PlanSource::Nothing { ", nothing planned" } else { "" };
        format!("stream {}: {reason}: {} ops, {} outputs{planned}\n", report.stream, report.ops, report.outputs)
    };
    device.reports().iter().map(line).collect()
}

fn check(device: &Device, expected: Expect) {
    expected.assert_eq(&describe(device));
}

/// Spins for a while that depends on `seed`, giving up the processor now and then.
fn dawdle(seed: u64) {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for _ in 0..(state >> 40) % 400 {
        state ^= state << 13;
        state ^= state >> 7;
        if std::hint::black_box(state).is_multiple_of(64) {
            thread::yield_now();
        }
    }
}

/// A training loop of sorts that gives some of its tensors, pending or not, to two other threads, which drop and clone
/// them at their own pace.
fn eventful(device: &Device, run: u64) -> Result<Vec<f32>> {
    let (gives, takes) = channel::<Tensor>();
    let (lends, borrows) = channel::<Tensor>();
    let dropper = thread::spawn(move || {
        for (tensor, at) in takes.into_iter().zip(0..) {
            dawdle(run * 1000 + at);
            drop(tensor);
        }
    });
    let cloner = thread::spawn(move || {
        for (tensor, at) in borrows.into_iter().zip(500..) {
            dawdle(run * 1000 + at);
            let copies = [tensor.clone(), tensor.clone()];
            drop(tensor);
            dawdle(run * 1000 + 2 * at);
            drop(copies);
        }
    });
    let mut weights = numbers(device, 64);
    let mut read = Vec::new();
    for step in 0..12 {
        dawdle(run + step);
        let scores = weights.mul(0.5)?.add(step as f32)?;
        let shifted = scores.sub(&scores.max_keepdims(-1)?)?;
        lends.send(shifted.clone()).expect("the thread listens");
        let e = shifted.exp()?;
        let softmax = e.div(&e.sum_keepdims(-1)?)?;
        // The only handle goes: whatever the other thread does, the value counts as live up to the next cut.
        gives.send(e).expect("the thread listens");
        let update = softmax.sub(0.015625)?;
        weights = weights.sub(&update)?;
        gives.send(update).expect("the thread listens");
        if step % 3 == 2 {
            read.push(weights.sum(..)?.item::<f32>()?);
        }
        if step == 7 {
            device.flush();
        }
    }
    drop((gives, lends));
    device.synchronize()?;
    dropper.join().expect("dropping does not panic");
    cloner.join().expect("cloning does not panic");
    Ok(read)
}

#[test]
fn a_hundred_runs_with_delays_and_foreign_drops_cut_alike() {
    let run = |number: u64| {
        let faults = match number {
            0 => Faults::none(),
            _ => Faults::none().random_delays(number, 3, Duration::from_micros(300)),
        };
        let device = open(Config { first_window: 5, window_limit: 20, threads: 1, faults, ..Config::default() });
        // On a thread of its own, so that its current stream is fresh.
        let read = thread::scope(|scope| {
            let running = scope.spawn(|| eventful(&device, number).expect("the program runs"));
            running.join().expect("the program does not panic")
        });
        (cut_keys(&device), read.into_iter().map(f32::to_bits).collect::<Vec<_>>())
    };
    let (cuts, read) = run(0);
    assert!(cuts.len() > 8, "{cuts:?}");
    assert!(cuts.iter().any(|cut| matches!(cut.2, CutReason::Ops(_))));
    assert!(cuts.iter().any(|cut| matches!(cut.2, CutReason::Read(_))));
    assert!(cuts.iter().all(|cut| cut.5 != 0), "every trace was planned");
    for number in 1..=100 {
        let (other_cuts, other_read) = run(number);
        assert_eq!(other_cuts, cuts, "cuts of run {number}");
        assert_eq!(other_read, read, "results of run {number}");
    }
}

#[test]
fn cuts_do_not_depend_on_what_the_cache_holds() -> Result<()> {
    let device = open(Config { first_window: 5, window_limit: 20, threads: 1, ..Config::default() });
    let run = || {
        let before = device.reports().len();
        Stream::new(&device).enter(|| eventful(&device, 3)).expect("the program runs");
        let of_run = |cut: CutKey| (cut.1, cut.2, cut.3, cut.4, cut.5);
        cut_keys(&device).into_iter().skip(before).map(of_run).collect::<Vec<_>>()
    };
    let cold = run();
    let builds = device.stats().plans.builds;
    assert_eq!(run(), cold);
    assert_eq!(device.stats().plans.builds, builds, "the second run builds nothing");
    device.clear_caches();
    assert_eq!(run(), cold);
    assert!(device.stats().plans.builds > builds, "a cleared cache builds again");
    Ok(())
}

#[test]
fn dead_values_are_not_computed() -> Result<()> {
    let moved = |with_dead: bool| -> Result<(u64, Vec<f32>)> {
        let device = patient();
        let x = numbers(&device, 4096);
        if with_dead {
            let y = x.exp()?;
            let dead = y.mul(&y)?.sum(..)?;
            drop((y, dead));
        }
        let z = x.add(1.0)?;
        let read = z.to_vec::<f32>()?;
        let report = device.reports().pop().expect("the read cut");
        assert_eq!(report.outputs, 1);
        Ok((report.bytes_moved, read))
    };
    let (alone, expected) = moved(false)?;
    let (beside_dead, read) = moved(true)?;
    assert_eq!(alone, 2 * 4 * 4096, "one tensor read, one written");
    assert_eq!(beside_dead, alone);
    assert_eq!(read, expected);
    Ok(())
}

#[test]
fn a_trace_of_dead_values_launches_nothing() -> Result<()> {
    let device = patient();
    let x = numbers(&device, 16);
    drop(x.exp()?.neg()?);
    device.synchronize()?;
    check(
        &device,
        expect![[r#"
        stream 0: synchronize: 2 ops, 0 outputs, nothing planned
    "#]],
    );
    assert_eq!(device.stats().launches, 0);
    assert_eq!(device.reports()[0].key, 0);
    Ok(())
}

#[test]
fn a_clone_keeps_a_value_alive() -> Result<()> {
    let device = patient();
    let y = numbers(&device, 8).exp()?;
    let clone = y.clone();
    drop(y);
    device.flush();
    assert_eq!(device.reports()[0].outputs, 1);
    assert_eq!(clone.to_vec::<f32>()?[0], 1.0);
    assert_eq!(device.reports().len(), 1, "reading what was flushed cuts nothing");
    Ok(())
}

#[test]
fn a_drop_on_another_thread_counts_from_the_next_cut() -> Result<()> {
    let device = patient();
    let x = numbers(&device, 1024);
    let in_use = device.stats().memory.in_use;
    let (here, elsewhere) = (x.exp()?, x.neg()?);
    let and_here = x.abs()?;
    thread::spawn(move || drop(elsewhere)).join().expect("dropping does not panic");
    drop(and_here);
    device.flush();
    check(
        &device,
        expect![[r#"
        stream 0: flush: 3 ops, 2 outputs
    "#]],
    );
    device.synchronize()?;
    assert_eq!(device.stats().memory.in_use, in_use + 4096, "what was dropped elsewhere is given back after the cut");
    // Once settled, a drop on any thread gives the memory back at once.
    thread::spawn(move || drop(here)).join().expect("dropping does not panic");
    assert_eq!(device.stats().memory.in_use, in_use);
    Ok(())
}

#[test]
fn a_pending_value_used_by_another_stream_is_cut_off_there() -> Result<()> {
    let device = patient();
    let (first, second) = (Stream::new(&device), Stream::new(&device));
    let x = numbers(&device, 4);
    let (y, unrelated) = first.enter(|| Ok::<_, systole::Error>((x.add(1.0)?, x.mul(3.0)?)))?;
    let (z, line) = second.enter(|| (y.mul(2.0), line!()));
    let z = z?;
    let reports = device.reports();
    assert_eq!(reports.len(), 1, "the stream that uses the value is not cut");
    assert_eq!((reports[0].stream, reports[0].outputs), (first.id(), 2));
    let CutReason::UsedBy(Origin::Caller(location)) = &reports[0].reason else { panic!("{:?}", reports[0].reason) };
    assert_eq!((location.file(), location.line()), (file!(), line));
    assert_eq!(z.to_vec::<f32>()?, [2.0, 2.25, 2.5, 2.75]);
    assert_eq!(unrelated.to_vec::<f32>()?, [0.0, 0.375, 0.75, 1.125]);
    // Settled values cross without a cut, also as operands on both sides.
    let w = first.enter(|| z.add(&y))?;
    assert_eq!(w.to_vec::<f32>()?, [3.0, 3.375, 3.75, 4.125]);
    check(
        &device,
        expect![[r#"
        stream 0: used by another stream: 6 ops, 2 outputs
        stream 1: read: 3 ops, 1 outputs
        stream 0: read: 1 ops, 1 outputs
    "#]],
    );
    Ok(())
}

#[test]
fn threads_record_into_streams_of_their_own() {
    const THREADS: usize = 6;
    let device = open(Config { first_window: 7, window_limit: 14, report_capacity: 100_000, ..Config::default() });
    let shared = Arc::new(numbers(&device, 100));
    let results: Vec<Vec<u32>> = thread::scope(|scope| {
        let work = |_| {
            let (device, shared) = (device.clone(), shared.clone());
            scope.spawn(move || -> Result<Vec<u32>> {
                let mut x = shared.mul(1.5)?;
                for step in 0..40 {
                    let normal = x.sub(&x.mean(..)?)?;
                    x = normal.tanh()?.add(&*shared)?.mul(0.5 + step as f32 / 64.0)?;
                    if step % 16 == 15 {
                        device.synchronize()?;
                    }
                }
                Ok(x.to_vec::<f32>()?.into_iter().map(f32::to_bits).collect())
            })
        };
        let threads: Vec<_> = (0..THREADS).map(work).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic").expect("no error")).collect()
    });
    assert!(results.iter().all(|result| *result == results[0]));
    let mut streams: std::collections::BTreeMap<u64, Vec<_>> = Default::default();
    for cut in cut_keys(&device) {
        streams.entry(cut.0).or_default().push((cut.1, cut.2, cut.3, cut.4, cut.5));
    }
    let streams: Vec<_> = streams.into_values().collect();
    assert_eq!(streams.len(), THREADS);
    assert!(streams.iter().all(|cuts| *cuts == streams[0]));
    let mut keys: Vec<u64> = streams[0].iter().map(|cut| cut.4).collect();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(device.stats().plans.builds, keys.len() as u64, "each key is built once, whoever comes first");
}

#[test]
fn a_pending_value_may_be_read_by_many_threads() -> Result<()> {
    let device = patient();
    let y = numbers(&device, 64).mul(2.0)?;
    let expected: Vec<f32> = (0..64).map(|at| at as f32 / 4.0).collect();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                assert_eq!(y.to_vec::<f32>().expect("reads"), expected);
                let z = y.add(1.0).expect("records");
                assert_eq!(z.to_vec::<f32>().expect("reads")[4], 2.0);
            });
        }
    });
    let home = Stream::current(&device).id();
    let cuts = device.reports().iter().filter(|report| report.stream == home).count();
    assert_eq!(cuts, 1, "one of them cut the stream, the others found it cut");
    Ok(())
}

#[test]
fn windows_grow_with_each_cut_at_the_bound() -> Result<()> {
    let device = open(Config { first_window: 4, window_limit: 16, threads: 1, ..Config::default() });
    let mut x = numbers(&device, 8);
    for at in 0..64 {
        x = x.abs()?;
        if at == 5 {
            // A read is no cut at the bound: the next window stays 8.
            x.to_vec::<f32>()?;
        }
    }
    check(
        &device,
        expect![[r#"
        stream 0: 4 ops: 4 ops, 2 outputs
        stream 0: read: 2 ops, 1 outputs
        stream 0: 16 ops: 16 ops, 2 outputs
        stream 0: 16 ops: 16 ops, 2 outputs
        stream 0: 16 ops: 16 ops, 2 outputs
    "#]],
    );
    let by_default = open(Config { threads: 1, ..Config::default() });
    let mut x = numbers(&by_default, 8);
    for _ in 0..1600 {
        x = x.abs()?;
    }
    check(
        &by_default,
        expect![[r#"
            stream 0: 32 ops: 32 ops, 2 outputs
            stream 0: 64 ops: 64 ops, 2 outputs
            stream 0: 128 ops: 128 ops, 2 outputs
            stream 0: 256 ops: 256 ops, 2 outputs
            stream 0: 256 ops: 256 ops, 2 outputs
            stream 0: 256 ops: 256 ops, 2 outputs
            stream 0: 256 ops: 256 ops, 2 outputs
            stream 0: 256 ops: 256 ops, 2 outputs
        "#]],
    );
    Ok(())
}

#[test]
fn a_trace_is_bounded_in_bytes() -> Result<()> {
    let device = open(Config { pending_bytes: 10_000, threads: 1, ..Config::default() });
    let mut x = numbers(&device, 600);
    for _ in 0..9 {
        x = x.abs()?;
    }
    check(
        &device,
        expect![[r#"
        stream 0: 12000 bytes: 4 ops, 2 outputs
        stream 0: 12000 bytes: 4 ops, 2 outputs
    "#]],
    );
    assert_eq!(x.to_vec::<f32>()?[8], 1.0);
    Ok(())
}

#[test]
fn a_dropped_stream_submits_what_is_observed() -> Result<()> {
    let device = patient();
    let x = numbers(&device, 4);
    let stream = Stream::new(&device);
    let (kept, dead) = stream.enter(|| Ok::<_, systole::Error>((x.add(1.0)?, x.exp()?)))?;
    drop(dead);
    let clone = stream.clone();
    drop(stream);
    assert!(device.reports().is_empty(), "one handle is left");
    drop(clone);
    check(
        &device,
        expect![[r#"
        stream 1: closed: 4 ops, 1 outputs
    "#]],
    );
    assert_eq!(kept.to_vec::<f32>()?, [1.0, 1.125, 1.25, 1.375]);
    // A value outlives its stream, and can be used in another.
    assert_eq!(kept.mul(2.0)?.to_vec::<f32>()?, [2.0, 2.25, 2.5, 2.75]);
    Ok(())
}

#[test]
fn a_value_of_a_stream_that_ended_in_a_panic_can_be_read() -> Result<()> {
    let device = patient();
    let x = numbers(&device, 4);
    let kept = std::sync::Mutex::new(None);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let stream = Stream::new(&device);
        *kept.lock().expect("nobody panics here") = Some(stream.enter(|| x.add(1.0)));
        panic!("with an op pending");
    }));
    assert!(panicked.is_err());
    assert!(device.reports().is_empty(), "nothing is started while a panic unwinds");
    let y = kept.into_inner().expect("nobody panicked while holding it").expect("recorded")?;
    assert_eq!(y.to_vec::<f32>()?, [1.0, 1.125, 1.25, 1.375]);
    Ok(())
}

#[test]
fn a_thread_that_ends_submits_what_is_observed() -> Result<()> {
    let device = patient();
    let x = numbers(&device, 4);
    let y = thread::scope(|scope| scope.spawn(|| x.add(1.0)).join().expect("no panic"))?;
    check(
        &device,
        expect![[r#"
        stream 1: closed: 3 ops, 1 outputs
    "#]],
    );
    assert_eq!(y.to_vec::<f32>()?, [1.0, 1.125, 1.25, 1.375]);
    Ok(())
}

#[test]
fn a_steady_loop_builds_nothing_once_warm() -> Result<()> {
    let device = open(Config { threads: 1, ..Config::default() });
    let inputs = Tensor::from_slice(&device, &[0.25f32; 32 * 16], [32, 16])?;
    let mut weights = Tensor::from_slice(&device, &[0.5f32; 16 * 8], [16, 8])?;
    let mut builds = Vec::new();
    for step in 0..10 {
        let hidden = inputs.matmul(&weights)?.tanh()?;
        let e = hidden.exp()?;
        let softmax = e.div(&e.sum_keepdims(-1)?)?;
        let gradient = inputs.t()?.matmul(&softmax.sub(0.125)?)?;
        // A learning rate that changes is an argument, not another plan.
        weights = weights.sub(&gradient.mul(0.1 / (step as f32 + 1.0))?)?;
        device.flush();
        let stats = device.stats();
        builds.push((stats.plans.builds, stats.programs.builds));
    }
    device.synchronize()?;
    assert!(builds[0].0 > 0);
    assert_eq!(builds[1..], [builds[1]; 9], "from the second step on every plan is known");
    assert!(device.stats().plans.hits >= 8);
    Ok(())
}

#[test]
fn other_extents_are_not_another_plan() -> Result<()> {
    let device = open(Config { threads: 1, ..Config::default() });
    let run = |rows: usize, columns: usize| -> Result<Vec<f32>> {
        let x = Tensor::from_slice(&device, &vec![0.5f32; rows * columns], [rows, columns])?;
        let e = x.exp()?;
        e.div(&e.sum_keepdims(-1)?)?.to_vec::<f32>()
    };
    assert!(run(5, 7)?.iter().all(|&share| share == 1.0 / 7.0));
    let builds = device.stats().plans.builds;
    assert_eq!(run(300, 4)?, vec![0.25; 1200]);
    assert_eq!(run(2, 1024)?, vec![1.0 / 1024.0; 2048]);
    assert_eq!(device.stats().plans.builds, builds);
    // Extents that are equal by chance are nothing special; an extent of 1 is.
    run(7, 7)?;
    assert_eq!(device.stats().plans.builds, builds);
    run(1, 7)?;
    assert_eq!(device.stats().plans.builds, builds + 1);
    Ok(())
}

#[test]
fn a_change_of_mode_cuts() -> Result<()> {
    let device = patient();
    let x = numbers(&device, 4);
    let y = x.add(1.0)?;
    let z = with_mode(Mode::Strict, || y.abs())?;
    let w = z.neg()?;
    assert_eq!(w.to_vec::<f32>()?, [-1.0, -1.125, -1.25, -1.375]);
    check(
        &device,
        expect![[r#"
        stream 0: one by one: 3 ops, 1 outputs
        stream 0: one by one: 1 ops, 1 outputs
        stream 0: read: 1 ops, 1 outputs
    "#]],
    );
    device.set_mode(Mode::Debug);
    assert_eq!(device.mode(), Mode::Debug);
    let before = device.reports().len();
    let v = w.abs()?;
    assert_eq!(device.reports().len(), before + 1, "debug mode runs at once");
    assert_eq!(v.to_vec::<f32>()?[0], 1.0);
    Ok(())
}

#[test]
fn current_streams_nest() -> Result<()> {
    let (device, other) = (patient(), patient());
    let home = Stream::current(&device);
    let (a, b) = (Stream::new(&device), Stream::new(&device));
    let elsewhere = Stream::new(&other);
    let id = || Stream::current(&device).id();
    a.enter(|| {
        assert_eq!(id(), a.id());
        elsewhere.enter(|| {
            assert_eq!(Stream::current(&other).id(), elsewhere.id());
            b.enter(|| assert_eq!(id(), b.id()));
            assert_eq!(id(), a.id());
        });
        assert_eq!(id(), a.id());
    });
    let panicked =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| a.enter(|| panic!("leaves it by unwinding"))));
    assert!(panicked.is_err());
    assert_eq!(id(), home.id());
    Ok(())
}

#[test]
fn recording_flushing_and_dropping_never_wait_for_the_device() -> Result<()> {
    let gate = Gate::closed();
    let faults = Faults::none().hold_launch(0, &gate);
    let device = open(Config { faults, threads: 1, ..Config::default() });
    let x = numbers(&device, 256);
    let mut y = x.add(1.0)?;
    // Were any of this to wait for the launch that is held, the test would never end.
    for _ in 0..50 {
        y = y.mul(1.0)?.abs()?;
        device.flush();
        drop(y.exp()?);
    }
    let copy = y.clone();
    thread::spawn(move || drop(copy)).join().expect("dropping does not panic");
    let launches = device.stats().launches;
    assert!(launches >= 50, "{launches} launches are queued");
    gate.open();
    assert_eq!(y.to_vec::<f32>()?[8], 2.0);
    Ok(())
}

#[test]
fn the_seam_records_with_the_front_ends_origin() -> Result<()> {
    let device = patient();
    let stream = Stream::new(&device);
    let x = numbers(&device, 4);
    let origin = Origin::Named("model.py:12".into());
    let y = stream
        .record(Opcode::Negate, &[&x], systole::Attrs::None, Default::default(), origin.clone())?
        .pop()
        .expect("negate has one result");
    assert_eq!((y.dtype(), y.shape().to_vec()), (DType::F32, vec![4]));
    let error = stream
        .record(Opcode::Not, &[&y], systole::Attrs::None, Default::default(), origin.clone())
        .expect_err("not takes no floats");
    assert_eq!(*error.origin(), origin);
    assert_eq!(y.to_vec::<f32>()?, [-0.0, -0.125, -0.25, -0.375]);
    Ok(())
}

/// The device's queue has no bound; a stream waits for the older half of its launches at its own. The wait is told of
/// failures, which must still reach whoever synchronizes.
#[test]
fn a_long_run_is_bounded_and_loses_no_failure() -> Result<()> {
    let config = Config { mode: Mode::Strict, faults: Faults::none().fail_launch(5), ..Config::default() };
    let device = Device::open(config)?;
    let x = Tensor::from_slice(&device, &[1.0f32], [1])?;
    let mut total = x.clone();
    for _ in 0..8 {
        drop(x.neg()?); // among these is the launch that fails
    }
    for _ in 0..3000 {
        total = total.add(&x)?;
    }
    assert_eq!(total.to_vec::<f32>()?, [3001.0]);
    let error = device.synchronize().expect_err("the failed launch was not reported");
    assert_eq!(error.op(), Some(Opcode::Negate), "{error}");
    device.synchronize()
}
