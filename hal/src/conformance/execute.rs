//! Execution: values, order, donation, refusals.

use smallvec::smallvec;
use systole_kernels::{DType, TensorType};

use super::programs::{
    Runner, add, add_scalar, borrow, copy, donate, download, floats, scale, suited, sum_and_product, upload,
};
use super::{Bench, Case, Checked, Clause, Failed, Options, Tag, ensure, ensure_eq, ensure_kind};
use crate::device::{Arg, Launch};
use crate::error::{ErrorKind, Label};
use crate::sim::{Faults, Gate};

pub(super) const CASES: &[Case] = &[
    Case { name: "execute::computes", clauses: &[Clause::H1, Clause::H10], needs: &[Tag::Values], run: computes },
    Case { name: "execute::every_dtype", clauses: &[Clause::H10], needs: &[Tag::Values], run: every_dtype },
    Case { name: "execute::zero_elements", clauses: &[Clause::H6], needs: &[], run: zero_elements },
    Case { name: "execute::other_shape", clauses: &[Clause::H10], needs: &[Tag::Values], run: other_shape },
    Case { name: "execute::in_order", clauses: &[Clause::H5], needs: &[Tag::Values], run: in_order },
    Case { name: "execute::thousands", clauses: &[Clause::H5], needs: &[Tag::Values], run: thousands },
    Case { name: "execute::two_threads", clauses: &[Clause::H5, Clause::H10], needs: &[Tag::Values], run: two_threads },
    Case { name: "execute::one_buffer_twice", clauses: &[Clause::H1], needs: &[Tag::Values], run: one_buffer_twice },
    Case {
        name: "execute::never_waits",
        clauses: &[Clause::H11],
        needs: &[Tag::Values, Tag::Faults],
        run: never_waits,
    },
    Case { name: "execute::donation_consumes", clauses: &[Clause::H2], needs: &[], run: donation_consumes },
    Case {
        name: "execute::donation_spares_readers",
        clauses: &[Clause::H1, Clause::H2],
        needs: &[Tag::Values],
        run: donation_spares_readers,
    },
    Case { name: "execute::in_place", clauses: &[Clause::H2], needs: &[Tag::Values, Tag::InPlace], run: in_place },
    Case {
        name: "execute::kept_clone_prevents_in_place",
        clauses: &[Clause::H1, Clause::H2],
        needs: &[Tag::Values, Tag::InPlace],
        run: kept_clone_prevents_in_place,
    },
    Case {
        name: "execute::refuses_misfits",
        clauses: &[Clause::H2, Clause::H8, Clause::H10],
        needs: &[],
        run: refuses_misfits,
    },
    Case {
        name: "execute::refuses_double_donation",
        clauses: &[Clause::H2, Clause::H10],
        needs: &[],
        run: refuses_double_donation,
    },
    Case {
        name: "execute::racing_donations",
        clauses: &[Clause::H2, Clause::H10],
        needs: &[Tag::Values],
        run: racing_donations,
    },
];

/// H1, H10: a program computes what it says, at sizes around every vector length.
fn computes(bench: &Bench) -> Checked {
    let device = bench.open()?;
    for n in [1, 2, 3, 15, 16, 17, 1000, 5003] {
        let (a, b): (Vec<f32>, Vec<f32>) = (0..n).map(|i| (i as f32, 0.5 - i as f32 * 2.0)).unzip();
        let program = Runner::new(&device, n, sum_and_product)?;
        let args = [borrow(&upload(&device, &a)?), borrow(&upload(&device, &b)?)];
        let outputs = program.execute(&[], args)?.outputs;
        let sums: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
        let products: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a * b).collect();
        ensure(download(&device, &outputs[0])? == sums, format!("sums of {n} elements"))?;
        ensure(download(&device, &outputs[1])? == products, format!("products of {n} elements"))?;
    }
    Ok(())
}

/// H10: every dtype passes through a program.
fn every_dtype(bench: &Bench) -> Checked {
    let device = bench.open()?;
    for dtype in DType::ALL {
        let ty = TensorType::new(dtype, [37]);
        let bytes: Vec<u8> = (0..ty.byte_len()).map(|n| (n % 2) as u8).collect();
        let program = Runner::new(&device, 37, |n| copy(n, dtype))?;
        let output = program.one(&[], [borrow(&device.upload(&ty, &bytes)?)])?;
        ensure_eq("type", output.ty(), &ty)?;
        let mut back = vec![0xa5; bytes.len()];
        device.download(&output, &mut back)?;
        ensure(back == bytes, format!("{ty} came out changed"))?;
    }
    Ok(())
}

/// H6: a launch over nothing is a launch; its buffers may be donated and read.
fn zero_elements(bench: &Bench) -> Checked {
    let device = bench.open()?;
    let program = Runner::new(&device, 0, add)?;
    let (a, b) = (upload(&device, &[])?, upload(&device, &[])?);
    let sum = program.one(&[], [borrow(&a), donate(b)])?;
    let again = program.one(&[], [donate(a), donate(sum)])?;
    ensure_eq("type", again.ty(), &floats(0))?;
    ensure_eq("contents", download(&device, &again)?, vec![])?;
    Ok(device.synchronize()?)
}

/// H10: a program may read a buffer under another shape of the same size.
fn other_shape(bench: &Bench) -> Checked {
    let device = bench.open()?;
    let program = Runner::new(&device, 6, scale)?;
    let bytes: Vec<u8> = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0].iter().flat_map(|value| value.to_ne_bytes()).collect();
    let matrix = device.upload(&TensorType::new(DType::F32, [2, 3]), &bytes)?;
    let output = program.one(&[2.0], [borrow(&matrix)])?;
    ensure_eq("contents", download(&device, &output)?, vec![2.0, 4.0, 6.0, 8.0, 10.0, 12.0])
}

/// H5: launches that do not commute.
fn in_order(bench: &Bench) -> Checked {
    let device = bench.open()?;
    let (plus, times) = (Runner::new(&device, 3, add_scalar)?, Runner::new(&device, 3, scale)?);
    let (mut value, mut buffer) = (1.0f32, upload(&device, &[1.0; 3])?);
    for n in 0..500 {
        let donated = n % 3 == 0;
        let arg = |buffer| if donated { Arg::Donated(buffer) } else { Arg::Borrowed(buffer) };
        (value, buffer) = if n % 2 == 0 {
            (value + 1.0, plus.one(&[1.0], [arg(buffer)])?)
        } else {
            (value * 0.5, times.one(&[0.5], [arg(buffer)])?)
        };
    }
    ensure_eq("contents", download(&device, &buffer)?, vec![value; 3])
}

/// H5: a long queue of small launches.
fn thousands(bench: &Bench) -> Checked {
    let device = bench.open()?;
    let program = Runner::new(&device, 1, add_scalar)?;
    let mut buffer = upload(&device, &[0.0])?;
    for _ in 0..20_000 {
        buffer = program.one(&[1.0], [donate(buffer)])?;
    }
    ensure_eq("contents", download(&device, &buffer)?, vec![20_000.0])?;
    ensure_eq("launches", device.counters().launches, 20_000)?;
    ensure_eq("live buffers", device.memory_stats().live_buffers.min(1), device.memory_stats().live_buffers)
}

/// H5, H10: two threads submit chains to one device, and each sees its own in order.
fn two_threads(bench: &Bench) -> Checked {
    let device = bench.open()?;
    let chain = |start: f32| -> Checked {
        let program = Runner::new(&device, 33, add_scalar)?;
        let mut buffer = upload(&device, &[start; 33])?;
        for n in 0..1500 {
            let arg = if n % 2 == 0 { donate(buffer) } else { borrow(&buffer) };
            buffer = program.one(&[1.0], [arg])?;
        }
        ensure_eq("contents", download(&device, &buffer)?, vec![start + 1500.0; 33])
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| chain(1e6));
        chain(0.0)?;
        other.join().map_err(|_| Failed("the other thread panicked".into()))?
    })?;
    ensure_eq("launches", device.counters().launches, 3000)
}

/// H1: one buffer as both arguments.
fn one_buffer_twice(bench: &Bench) -> Checked {
    let device = bench.open()?;
    let program = Runner::new(&device, 2, add)?;
    let buffer = upload(&device, &[1.0, 2.0])?;
    let sum = program.one(&[], [borrow(&buffer), borrow(&buffer)])?;
    ensure_eq("contents", download(&device, &sum)?, vec![2.0, 4.0])
}

/// H11: with the first launch held, everything else goes on.
fn never_waits(bench: &Bench) -> Checked {
    let gate = Gate::closed();
    let device = bench.open_with(&Options::faulty(Faults::none().hold_launch(0, &gate)))?;
    let program = Runner::new(&device, 4, add_scalar)?;
    let mut buffer = upload(&device, &[0.0; 4])?;
    for _ in 0..3000 {
        buffer = program.one(&[1.0], [donate(buffer)])?;
    }
    let uploaded = upload(&device, &[7.0; 4])?;
    ensure(uploaded.ready().is_ready(), "an upload completes while launches are queued")?;
    ensure_eq("uploaded", download(&device, &uploaded)?, vec![7.0; 4])?;
    device.compile(suited(&device, scale(4), 4))?;
    ensure_eq("launches", device.counters().launches, 0)?;
    gate.open();
    ensure_eq("contents", download(&device, &buffer)?, vec![3000.0; 4])
}

/// H2: a donated buffer is gone for whoever kept it.
fn donation_consumes(bench: &Bench) -> Checked {
    let device = bench.open()?;
    let program = Runner::new(&device, 4, add_scalar)?;
    let kept = upload(&device, &[0.0; 4])?;
    ensure(!kept.is_donated(), "fresh")?;
    let output = program.one(&[1.0], [donate(kept.clone())])?;
    ensure(kept.is_donated(), "donated")?;
    for error in [
        ensure_kind("download", device.download(&kept, &mut [0; 16]), ErrorKind::InvalidProgram)?,
        ensure_kind("borrowed", program.one(&[1.0], [borrow(&kept)]), ErrorKind::InvalidProgram)?,
        ensure_kind("donated", program.one(&[1.0], [donate(kept.clone())]), ErrorKind::InvalidProgram)?,
    ] {
        ensure(error.message().contains("tensor<4xf32>"), format!("`{error}` names the buffer"))?;
    }
    output.ready().wait()?;
    ensure(!output.is_donated(), "the output is a buffer of its own")
}

/// H1, H2: donation never disturbs launches that were submitted before and read the same buffer.
fn donation_spares_readers(bench: &Bench) -> Checked {
    let device = bench.open()?;
    let program = Runner::new(&device, 100, add_scalar)?;
    for _ in 0..100 {
        let buffer = upload(&device, &[1.0; 100])?;
        let early = program.one(&[10.0], [borrow(&buffer)])?;
        let late = program.one(&[100.0], [donate(buffer)])?;
        ensure(download(&device, &late)? == [101.0; 100], "the donor's output")?;
        ensure(download(&device, &early)? == [11.0; 100], "the reader's output")?;
    }
    Ok(())
}

/// H2: an elementwise output takes over a donated argument's memory.
fn in_place(bench: &Bench) -> Checked {
    let device = bench.open()?;
    let program = Runner::new(&device, 100, add_scalar)?;
    let mut buffer = upload(&device, &[0.0; 100])?;
    for _ in 0..50 {
        buffer = program.one(&[1.0], [donate(buffer)])?;
    }
    ensure_eq("contents", download(&device, &buffer)?, vec![50.0; 100])?;
    ensure_eq("taken over", device.counters().in_place, 50)?;
    ensure_eq("peak", device.memory_stats().peak, 400)?;
    // Two arguments for two outputs, one of them borrowed.
    let pair = Runner::new(&device, 100, sum_and_product)?;
    let other = upload(&device, &[2.0; 100])?;
    let outputs = pair.execute(&[], [donate(buffer), borrow(&other)])?.outputs;
    ensure_eq("sums", download(&device, &outputs[0])?, vec![52.0; 100])?;
    ensure_eq("products", download(&device, &outputs[1])?, vec![100.0; 100])?;
    ensure_eq("borrowed", download(&device, &other)?, vec![2.0; 100])
}

/// H1, H2: a handle that somebody kept means that somebody may be reading it at this moment.
fn kept_clone_prevents_in_place(bench: &Bench) -> Checked {
    let device = bench.open()?;
    let program = Runner::new(&device, 100, add_scalar)?;
    let kept = upload(&device, &[0.0; 100])?;
    let output = program.one(&[1.0], [donate(kept.clone())])?;
    ensure_eq("contents", download(&device, &output)?, vec![1.0; 100])?;
    ensure_eq("taken over", device.counters().in_place, 0)
}

/// H2, H8, H10: arguments that do not fit are refused, consume nothing, and the device goes on.
fn refuses_misfits(bench: &Bench) -> Checked {
    let device = bench.open()?;
    let program = Runner::new(&device, 4, add_scalar)?;
    let good = upload(&device, &[0.0; 4])?;
    let short = upload(&device, &[0.0; 3])?;
    let integers = device.upload(&TensorType::new(DType::I32, [4]), &[0; 16])?;
    let refused = |what: &str, outcome| ensure_kind(what, outcome, ErrorKind::InvalidProgram);
    refused("too few buffers", program.execute(&[1.0], []))?;
    refused("too many buffers", program.execute(&[1.0], [borrow(&good), borrow(&good)]))?;
    refused("too few scalars", program.execute(&[], [borrow(&good)]))?;
    refused("too many scalars", program.execute(&[1.0, 2.0], [borrow(&good)]))?;
    refused("too small a buffer", program.execute(&[1.0], [borrow(&short)]))?;
    refused("another dtype", program.execute(&[1.0], [borrow(&integers)]))?;
    refused("donated misfit", program.execute(&[1.0], [donate(short.clone())]))?;
    ensure(!short.is_donated(), "a refused call leaves its arguments")?;
    let fitting = usize::from(program.executable.program().params);
    for params in [&[][..], &[4, 4], &[-4], &[i64::MAX], &[5]] {
        if params.is_empty() && fitting == 0 {
            continue;
        }
        let launch = Launch { params, scalars: &[0], args: smallvec![borrow(&good)], label: Label::none() };
        refused("launch parameters", device.execute(&program.executable, launch))?;
    }
    program.one(&[1.0], [borrow(&good)])?.ready().wait()?;
    Ok(device.synchronize()?)
}

/// H2, H10: a donated buffer is no other argument.
fn refuses_double_donation(bench: &Bench) -> Checked {
    let device = bench.open()?;
    let program = Runner::new(&device, 4, add)?;
    let buffer = upload(&device, &[0.0; 4])?;
    let twice = [donate(buffer.clone()), donate(buffer.clone())];
    ensure_kind("donated twice", program.execute(&[], twice), ErrorKind::InvalidProgram)?;
    for args in [[donate(buffer.clone()), borrow(&buffer)], [borrow(&buffer), donate(buffer.clone())]] {
        ensure_kind("donated and borrowed", program.execute(&[], args), ErrorKind::InvalidProgram)?;
    }
    ensure(!buffer.is_donated(), "a refused call leaves its arguments")
}

/// H2, H10: of two threads that donate one buffer at once, one succeeds.
fn racing_donations(bench: &Bench) -> Checked {
    let device = bench.open()?;
    let program = Runner::new(&device, 4, add_scalar)?;
    for _ in 0..500 {
        let buffer = upload(&device, &[1.0; 4])?;
        let attempt = || program.one(&[1.0], [donate(buffer.clone())]);
        let outcomes = std::thread::scope(|scope| {
            let other = scope.spawn(attempt);
            [attempt(), other.join().expect("submitting does not panic")]
        });
        ensure_eq("successes", outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1)?;
        for outcome in outcomes {
            match outcome {
                Ok(output) => ensure_eq("contents", download(&device, &output)?, vec![2.0; 4])?,
                Err(error) => ensure_eq("kind", error.kind(), ErrorKind::InvalidProgram)?,
            }
        }
    }
    ensure_eq("bytes in use", device.memory_stats().in_use, 0)
}
