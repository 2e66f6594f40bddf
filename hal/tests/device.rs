//! What is the simulator's own, beyond the contract that every backend keeps.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use expect_test::{Expect, expect};
use smallvec::{SmallVec, smallvec};
use systole_hal::sim::{Faults, Gate, HostMemory, SimConfig, SimDevice};
use systole_hal::{Arg, BackendKind, BufferRef, DeviceRef, ErrorKind, ExecutableRef, HalError, Label, Launch};
use systole_kernels::program::{
    Access, BufferType, DimMap, Domain, Extent, Instr, LaneOp, Program, Reg, RegType, Vary,
};
use systole_kernels::simd::Isa;
use systole_kernels::{DType, TensorType};

/// `(x; s) -> x · s` along one axis of at least two elements.
fn scale() -> Program {
    let buffer = BufferType { dtype: DType::F32, shape: smallvec![Extent::Param(0)] };
    let access = |buffer| Access { buffer, dims: smallvec![DimMap::along(0)] };
    let register = |vary| RegType { dtype: DType::F32, vary };
    Program {
        name: "scale".into(),
        params: 1,
        scalars: vec![DType::F32],
        buffers: vec![buffer.clone(), buffer],
        inputs: 1,
        domain: Domain { cols: smallvec![Extent::Param(0)], ..Domain::default() },
        reduce: None,
        contract: SmallVec::new(),
        regs: vec![register(Vary::COLS), register(Vary::NONE), register(Vary::COLS)],
        body: vec![
            Instr::Load { dst: Reg(0), access: access(0) },
            Instr::Scalar { dst: Reg(1), slot: 0 },
            Instr::Lane { op: LaneOp::Multiply, dst: Reg(2), args: smallvec![Reg(0), Reg(1)] },
            Instr::Store { src: Reg(2), access: access(1) },
        ],
    }
}

struct Rig {
    device: DeviceRef,
    executable: ExecutableRef,
}

impl Rig {
    fn new(config: SimConfig) -> Rig {
        let device = SimDevice::open(config).unwrap();
        let executable = device.compile(scale()).unwrap();
        Rig { device, executable }
    }

    fn plain() -> Rig {
        Rig::new(SimConfig { threads: 1, ..SimConfig::default() })
    }

    fn faulty(faults: Faults) -> Rig {
        Rig::new(SimConfig { threads: 1, faults, ..SimConfig::default() })
    }

    fn upload(&self, values: &[f32]) -> BufferRef {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
        self.device.upload(&TensorType::new(DType::F32, [values.len()]), &bytes).unwrap()
    }

    fn scale(&self, by: f32, arg: Arg, label: Label) -> Result<BufferRef, HalError> {
        let n = (arg.buffer().ty().byte_len() / 4) as i64;
        let launch = Launch { params: &[n], scalars: &[u64::from(by.to_bits())], args: smallvec![arg], label };
        Ok(self.device.execute(&self.executable, launch)?.outputs.remove(0))
    }

    fn download(&self, buffer: &BufferRef) -> Vec<u8> {
        let mut bytes = vec![0; buffer.ty().byte_len()];
        self.device.download(buffer, &mut bytes).unwrap();
        bytes
    }

    fn host_memory(&self) -> HostMemory {
        let any: &dyn Any = &*self.device;
        any.downcast_ref::<SimDevice>().unwrap().host_memory()
    }
}

fn check<T>(outcome: Result<T, HalError>, message: Expect) {
    message.assert_eq(&outcome.err().map_or("no error".into(), |error| error.to_string()));
}

#[test]
fn a_device_says_what_it_is() {
    let device = SimDevice::open(SimConfig { threads: 2, isa: Some(Isa::PORTABLE), ..SimConfig::default() }).unwrap();
    let capabilities = device.capabilities();
    assert_eq!(capabilities.backend, BackendKind::Simulator);
    assert_eq!(capabilities.name, "simulated TPU (ieee)");
    assert_eq!((capabilities.memory_limit, capabilities.threads), (16 << 30, 2));
    assert_eq!(capabilities.isa, "portable");
}

#[test]
fn a_device_without_threads_is_refused() {
    check(
        SimDevice::open(SimConfig { threads: 0, ..SimConfig::default() }),
        expect!["unsupported: a simulated device needs at least one thread"],
    );
}

#[test]
fn donated_memory_is_reused_and_nothing_else_allocated() {
    let rig = Rig::plain();
    let mut buffer = rig.upload(&[1.0; 1000]);
    let before = rig.host_memory();
    for _ in 0..100 {
        buffer = rig.scale(1.0, Arg::Donated(buffer), Label::none()).unwrap();
    }
    buffer.ready().wait().unwrap();
    assert_eq!(rig.host_memory(), before, "no block was asked for");
    assert_eq!(rig.device.counters().in_place, 100);
}

#[test]
fn borrowed_memory_is_recycled() {
    let rig = Rig::plain();
    let mut buffer = rig.upload(&[1.0; 1000]);
    for _ in 0..100 {
        // One launch in flight at a time: which blocks are free when the next one runs is then no question of timing.
        buffer = rig.scale(1.0, Arg::Borrowed(buffer), Label::none()).unwrap();
        buffer.ready().wait().unwrap();
    }
    let memory = rig.host_memory();
    assert_eq!((memory.allocated, memory.recycled), (2, 99));
    assert_eq!(rig.device.counters().in_place, 0);
    drop(buffer);
    assert_eq!(rig.host_memory().held, 0);
}

#[test]
fn a_failed_launch_returns_its_memory() {
    let rig = Rig::faulty(Faults::none().panic_launch(0).fail_launch(1));
    let buffer = rig.upload(&[1.0; 1000]);
    for _ in 0..2 {
        let output = rig.scale(2.0, Arg::Borrowed(buffer.clone()), Label::none()).unwrap();
        assert_eq!(output.ready().wait().unwrap_err().kind(), ErrorKind::Internal);
    }
    let output = rig.scale(2.0, Arg::Donated(buffer), Label::none()).unwrap();
    assert_eq!(rig.download(&output), [2.0f32.to_ne_bytes(); 1000].concat());
    drop(output);
    assert_eq!((rig.host_memory().held, rig.device.memory_stats().in_use), (0, 0));
}

#[test]
fn busy_time_is_counted_when_asked_for() {
    for kernel_timing in [false, true] {
        let rig = Rig::new(SimConfig { threads: 1, kernel_timing, ..SimConfig::default() });
        let buffer = rig.upload(&[1.0; 100_000]);
        rig.scale(2.0, Arg::Donated(buffer), Label::none()).unwrap().ready().wait().unwrap();
        assert_eq!(rig.device.counters().busy > Duration::ZERO, kernel_timing);
    }
}

#[test]
fn instruction_sets_and_threads_give_the_same_bits() {
    let values: Vec<f32> = (0..5000).map(|n| 1.0 / (n as f32 - 2500.3)).collect();
    let run = |config| {
        let rig = Rig::new(config);
        let buffer = rig.upload(&values);
        let output = rig.scale(1.1, Arg::Borrowed(buffer), Label::none()).unwrap();
        rig.download(&output)
    };
    let expected = values.iter().flat_map(|value| (value * 1.1).to_ne_bytes()).collect::<Vec<u8>>();
    for isa in Isa::available() {
        for threads in [1, 2] {
            let config = SimConfig { threads, isa: Some(isa), ..SimConfig::default() };
            assert!(run(config) == expected, "{isa}, {threads} threads");
        }
    }
}

/// Without [`systole_hal::Validated`] misuse is still an error, and the ledger stays right.
#[test]
fn misuse_without_validation_is_an_error() {
    let (rig, other) = (Rig::plain(), Rig::plain());
    let kept = rig.upload(&[1.0; 4]);
    let foreign = other.upload(&[1.0; 4]);
    check(
        rig.scale(1.0, Arg::Borrowed(foreign.clone()), Label::none()),
        expect!["invalid program: the buffer tensor<4xf32> belongs to another device"],
    );
    check(
        rig.device.execute(
            &other.executable,
            Launch { params: &[4], scalars: &[0], args: smallvec![], label: Label::none() },
        ),
        expect!["invalid program: the executable `scale` belongs to another device"],
    );
    check(
        rig.device
            .execute(&rig.executable, Launch { params: &[4], scalars: &[0], args: smallvec![], label: Label::none() }),
        expect!["invalid program: `scale` got other numbers of arguments than it takes"],
    );
    rig.scale(1.0, Arg::Donated(kept.clone()), Label::none()).unwrap().ready().wait().unwrap();
    check(
        rig.scale(1.0, Arg::Borrowed(kept.clone()), Label::none()),
        expect!["invalid program: the buffer tensor<4xf32> was donated to an earlier launch"],
    );
    check(
        rig.device.download(&kept, &mut [0; 16]),
        expect!["invalid program: the buffer tensor<4xf32> was donated to an earlier launch"],
    );
    drop((kept, foreign));
    assert_eq!(rig.device.memory_stats().in_use, 0);
    assert_eq!(other.device.memory_stats().in_use, 0);
}

#[test]
fn out_of_memory_says_by_how_much() {
    let rig = Rig::new(SimConfig { threads: 1, memory_limit: 100, ..SimConfig::default() });
    let buffer = rig.upload(&[0.0; 20]);
    check(
        rig.device.upload(&TensorType::new(DType::I64, [3]), &[0; 24]),
        expect!["out of memory: no memory to upload tensor<3xi64>: 24 bytes requested, 80 of 100 bytes in use"],
    );
    check(
        rig.scale(1.0, Arg::Borrowed(buffer), Label::none()),
        expect!["out of memory: no memory for the outputs of `scale`: 80 bytes requested, 80 of 100 bytes in use"],
    );
}

/// A label may own the last handle of the device that is to drop it.
#[test]
fn the_device_thread_may_drop_the_device() {
    let gate = Gate::closed();
    let rig = Rig::faulty(Faults::none().hold_launch(0, &gate));
    let buffer = rig.upload(&[1.0; 4]);
    let label = Label::new(Arc::new(rig.device.clone()));
    let output = rig.scale(2.0, Arg::Donated(buffer), label).unwrap();
    drop(rig);
    gate.open();
    output.ready().wait().unwrap();
}

#[test]
fn handles_print_their_state() {
    let gate = Gate::closed();
    let rig = Rig::faulty(Faults::none().hold_launch(0, &gate).fail_launch(1));
    let done = rig.upload(&[1.0; 4]);
    let held = rig.scale(2.0, Arg::Borrowed(done.clone()), Label::none()).unwrap();
    let failed = rig.scale(2.0, Arg::Borrowed(held.clone()), Label::none()).unwrap();
    expect!["SimBuffer(tensor<4xf32>, SimEvent(succeeded))"].assert_eq(&format!("{done:?}"));
    expect!["SimBuffer(tensor<4xf32>, SimEvent(pending))"].assert_eq(&format!("{held:?}"));
    gate.open();
    failed.ready().wait().unwrap_err();
    expect!["SimBuffer(tensor<4xf32>, SimEvent(failed))"].assert_eq(&format!("{failed:?}"));
    expect!["SimExecutable(scale)"].assert_eq(&format!("{:?}", rig.executable));
}
