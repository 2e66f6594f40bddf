//! Buffers: moving data, life and death.

use systole_kernels::{DType, TensorType};

use super::programs::{Runner, add_scalar, borrow, donate, download, upload};
use super::{Bench, Case, Checked, Clause, Options, Tag, ensure, ensure_eq, ensure_kind};
use crate::error::ErrorKind;
use crate::sim::{Faults, Gate};

pub(super) const CASES: &[Case] = &[
    Case { name: "buffer::round_trip", clauses: &[Clause::H1], needs: &[Tag::Values], run: round_trip },
    Case { name: "buffer::zero_elements", clauses: &[Clause::H6], needs: &[], run: zero_elements },
    Case { name: "buffer::upload_copies", clauses: &[Clause::H1], needs: &[Tag::Values], run: upload_copies },
    Case { name: "buffer::never_changes", clauses: &[Clause::H1], needs: &[Tag::Values], run: never_changes },
    Case { name: "buffer::wrong_length", clauses: &[Clause::H8, Clause::H10], needs: &[], run: wrong_length },
    Case { name: "buffer::of_another_device", clauses: &[Clause::H8, Clause::H10], needs: &[], run: of_another_device },
    Case {
        name: "buffer::dropped_while_pending",
        clauses: &[Clause::H9],
        needs: &[Tag::Faults],
        run: dropped_while_pending,
    },
    Case { name: "buffer::imported_is_read", clauses: &[Clause::H13], needs: &[Tag::Values], run: imported_is_read },
    Case {
        name: "buffer::imported_is_not_written",
        clauses: &[Clause::H13],
        needs: &[Tag::Values],
        run: imported_is_not_written,
    },
    Case {
        name: "buffer::imported_owner_is_released",
        clauses: &[Clause::H13],
        needs: &[],
        run: imported_owner_is_released,
    },
    Case {
        name: "buffer::imported_is_accounted",
        clauses: &[Clause::H12, Clause::H13],
        needs: &[Tag::MemoryLimit],
        run: imported_is_accounted,
    },
    Case {
        name: "buffer::export_keeps_its_value",
        clauses: &[Clause::H13],
        needs: &[Tag::Values],
        run: export_keeps_its_value,
    },
    Case { name: "buffer::dropped_elsewhere", clauses: &[Clause::H9], needs: &[], run: dropped_elsewhere },
    Case { name: "buffer::outlives_its_device", clauses: &[Clause::H9], needs: &[], run: outlives_its_device },
];

/// H1: what goes up comes down, for every dtype and awkward sizes.
fn round_trip(bench: &Bench) -> Checked {
    let device = bench.open()?;
    for dtype in DType::ALL {
        for shape in [&[][..], &[1], &[7], &[3, 5], &[2, 1, 4], &[262_147]] {
            let ty = TensorType::new(dtype, shape);
            let modulus = if dtype == DType::Bool { 2 } else { 251 };
            let bytes: Vec<u8> = (0..ty.byte_len()).map(|n| (n % modulus) as u8).collect();
            let buffer = device.upload(&ty, &bytes)?;
            ensure_eq("type", buffer.ty(), &ty)?;
            let mut back = vec![0xa5; bytes.len()];
            device.download(&buffer, &mut back)?;
            ensure(back == bytes, format!("{ty} came back changed"))?;
        }
    }
    Ok(())
}

/// H6: a buffer without elements goes up and down.
fn zero_elements(bench: &Bench) -> Checked {
    let device = bench.open()?;
    for shape in [&[0][..], &[2, 0, 3], &[0, 0]] {
        let buffer = device.upload(&TensorType::new(DType::F32, shape), &[])?;
        buffer.ready().wait()?;
        device.download(&buffer, &mut [])?;
    }
    Ok(())
}

/// H1: the host's bytes may change as soon as `upload` has returned.
fn upload_copies(bench: &Bench) -> Checked {
    let device = bench.open()?;
    let mut bytes = vec![1; 64];
    let buffer = device.upload(&TensorType::new(DType::F32, [16]), &bytes)?;
    bytes.fill(2);
    device.download(&buffer, &mut bytes)?;
    ensure_eq("contents", bytes, vec![1; 64])
}

/// H1: neither reading a buffer nor donating what was computed from it changes it.
fn never_changes(bench: &Bench) -> Checked {
    let device = bench.open()?;
    let program = Runner::new(&device, 5, add_scalar)?;
    let buffer = upload(&device, &[1.0; 5])?;
    for _ in 0..50 {
        let derived = program.one(&[1.0], [borrow(&buffer)])?;
        let _ = program.one(&[1.0], [donate(derived)])?;
    }
    ensure_eq("contents", download(&device, &buffer)?, vec![1.0; 5])
}

/// H8, H10: bytes of another length are refused.
fn wrong_length(bench: &Bench) -> Checked {
    let device = bench.open()?;
    let ty = TensorType::new(DType::I64, [3]);
    for len in [0, 8, 23, 25] {
        ensure_kind("upload", device.upload(&ty, &vec![0; len]), ErrorKind::InvalidProgram)?;
    }
    let buffer = device.upload(&ty, &[0; 24])?;
    for len in [0, 8, 23, 25] {
        ensure_kind("download", device.download(&buffer, &mut vec![0; len]), ErrorKind::InvalidProgram)?;
    }
    Ok(device.download(&buffer, &mut [0; 24])?)
}

/// H8, H10: a device refuses another's buffers and executables.
fn of_another_device(bench: &Bench) -> Checked {
    let (here, there) = (bench.open()?, bench.open()?);
    let foreign = upload(&there, &[1.0; 4])?;
    ensure_kind("download", here.download(&foreign, &mut [0; 16]), ErrorKind::InvalidProgram)?;
    let program = Runner::new(&here, 4, add_scalar)?;
    ensure_kind("borrowed", program.one(&[1.0], [borrow(&foreign)]), ErrorKind::InvalidProgram)?;
    ensure_kind("donated", program.one(&[1.0], [donate(foreign.clone())]), ErrorKind::InvalidProgram)?;
    ensure(!foreign.is_donated(), "a refused call leaves its arguments")?;
    let own = upload(&here, &[1.0; 4])?;
    let elsewhere = Runner::new(&there, 4, add_scalar)?;
    ensure_kind("program", elsewhere.one(&[1.0], [borrow(&own)]), ErrorKind::InvalidProgram)?;
    let _ = program.one(&[1.0], [borrow(&own)])?;
    Ok(())
}

/// H9: dropping does not wait for the launches that use the buffer.
fn dropped_while_pending(bench: &Bench) -> Checked {
    let gate = Gate::closed();
    let device = bench.open_with(&Options::faulty(Faults::none().hold_launch(0, &gate)))?;
    let program = Runner::new(&device, 4, add_scalar)?;
    let argument = upload(&device, &[1.0; 4])?;
    let output = program.one(&[1.0], [borrow(&argument)])?;
    let kept = program.one(&[1.0], [borrow(&output)])?;
    drop(argument);
    std::thread::scope(|scope| scope.spawn(|| drop(output)).join().expect("dropping a buffer does not panic"));
    ensure(!kept.ready().is_ready(), "the first launch is held")?;
    gate.open();
    ensure_eq("contents", download(&device, &kept)?, vec![3.0; 4])
}

/// H9: handles may be dropped on any thread while others submit.
fn dropped_elsewhere(bench: &Bench) -> Checked {
    let device = bench.open()?;
    let program = Runner::new(&device, 64, add_scalar)?;
    let (handles, received) = std::sync::mpsc::channel();
    std::thread::scope(|scope| -> Checked {
        scope.spawn(move || received.into_iter().for_each(drop));
        let mut current = upload(&device, &[0.0; 64])?;
        for _ in 0..2000 {
            let next = program.one(&[1.0], [borrow(&current)])?;
            handles.send(std::mem::replace(&mut current, next)).expect("the receiver lives until the channel closes");
        }
        drop(handles);
        current.ready().wait()?;
        Ok(())
    })?;
    Ok(device.synchronize()?)
}

/// H9: a device drains its queue and goes; buffers stay droppable, events answer.
fn outlives_its_device(bench: &Bench) -> Checked {
    let device = bench.open()?;
    let program = Runner::new(&device, 4, add_scalar)?;
    // For a compiler in the background a closed device does not wait (H14).
    program.executable.wait()?;
    let mut buffers = vec![upload(&device, &[0.0; 4])?];
    for n in 0..100 {
        buffers.push(program.one(&[1.0], [borrow(&buffers[n])])?);
    }
    drop((program, device));
    buffers.iter().try_for_each(|buffer| buffer.ready().wait())?;
    Ok(())
}

/// Host memory that starts `skip` bytes into its allocation.
struct Lent {
    bytes: Vec<u8>,
    skip: usize,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[self.skip..]
    }
}

/// Floats 0, 1, 2, … as host memory, `skip` bytes off its start.
fn lend(count: usize, skip: usize) -> std::sync::Arc<Lent> {
    let mut bytes = vec![0; skip];
    bytes.extend((0..count).flat_map(|n| (n as f32).to_ne_bytes()));
    std::sync::Arc::new(Lent { bytes, skip })
}

/// H13: a launch reads imported memory, however it is aligned; an export of it shows the same.
fn imported_is_read(bench: &Bench) -> Checked {
    let device = bench.open()?;
    let ty = TensorType::new(DType::F32, [100]);
    for skip in 0..4 {
        let memory = lend(100, skip);
        let expected = memory.bytes[skip..].to_vec();
        let buffer = device.import(&ty, memory)?;
        ensure_eq("type", buffer.ty(), &ty)?;
        let sum = Runner::new(&device, 100, add_scalar)?.one(&[1.0], [borrow(&buffer)])?;
        let sums: Vec<f32> = (0..100).map(|n| n as f32 + 1.0).collect();
        ensure_eq("sums", &download(&device, &sum)?, &sums)?;
        ensure((*device.export(&buffer)?).as_ref() == expected, "the export shows something else")?;
    }
    let wrong = device.import(&TensorType::new(DType::F32, [99]), lend(100, 0));
    ensure_kind("99 floats imported as 100", wrong, ErrorKind::InvalidProgram)?;
    Ok(())
}

/// H13: donating an imported buffer does not let a launch write into the host's memory.
fn imported_is_not_written(bench: &Bench) -> Checked {
    let device = bench.open()?;
    let memory = lend(100, 0);
    let before = memory.bytes.clone();
    let buffer = device.import(&TensorType::new(DType::F32, [100]), memory.clone())?;
    Runner::new(&device, 100, add_scalar)?.one(&[1.0], [donate(buffer)])?.ready().wait()?;
    ensure(memory.bytes == before, "the host's memory was written")
}

/// H13: the owner goes with the last that needs it.
fn imported_owner_is_released(bench: &Bench) -> Checked {
    let device = bench.open()?;
    let memory = lend(100, 0);
    let buffer = device.import(&TensorType::new(DType::F32, [100]), memory.clone())?;
    let sum = Runner::new(&device, 100, add_scalar)?.one(&[1.0], [borrow(&buffer)])?;
    let export = device.export(&buffer)?;
    sum.ready().wait()?;
    drop(buffer);
    drop(export);
    device.synchronize()?;
    ensure_eq("owners", &std::sync::Arc::strong_count(&memory), &1)
}

/// H12, H13: imported bytes count while a buffer holds them.
fn imported_is_accounted(bench: &Bench) -> Checked {
    let device = bench.open_with(&Options::limited(1000))?;
    let ty = TensorType::new(DType::F32, [200]);
    let buffer = device.import(&ty, lend(200, 0))?;
    ensure_eq("bytes in use", &device.memory_stats().in_use, &800)?;
    ensure_kind("a second import", device.import(&ty, lend(200, 0)), ErrorKind::OutOfMemory)?;
    drop(buffer);
    ensure_eq("bytes in use", &device.memory_stats().in_use, &0)
}

/// H13: while an export is held, its memory is reused by no launch, not even one that its buffer is donated to.
fn export_keeps_its_value(bench: &Bench) -> Checked {
    let device = bench.open()?;
    let buffer = upload(&device, &[1.0; 64])?;
    let export = device.export(&buffer)?;
    let before = (*export).as_ref().to_vec();
    let runner = Runner::new(&device, 64, add_scalar)?;
    let sum = runner.one(&[1.0], [donate(buffer)])?;
    runner.one(&[1.0], [borrow(&sum)])?.ready().wait()?;
    ensure((*export).as_ref() == before, "the export changed")
}
