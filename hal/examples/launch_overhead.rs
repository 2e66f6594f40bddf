//! What a launch costs beyond its kernel: a one-element addition, very often.
//!
//! `cargo run --release -p systole-hal --example launch_overhead`
//!
//! The caller's side is measured with the device held at its first launch, the device's side as the time it then takes
//! to drain its queue, and both together as a chain of donated updates that runs freely.

#![allow(clippy::print_stdout, reason = "printing is what this program is for")]

use std::time::{Duration, Instant};

use smallvec::{SmallVec, smallvec};
use systole_hal::sim::{Faults, Gate, SimConfig, SimDevice};
use systole_hal::{Arg, BufferRef, DeviceRef, ExecutableRef, HalError, Label, Launch};
use systole_kernels::machine::{Input, Machine};
use systole_kernels::memory::Block;
use systole_kernels::parallel::Inline;
use systole_kernels::program::{
    Access, BufferType, DimMap, Domain, Extent, Instr, LaneOp, Program, Reg, RegType, Vary,
};
use systole_kernels::simd::Isa;
use systole_kernels::{DType, TensorType};

const BATCH: u32 = 500;
const BATCHES: u32 = 200;

/// `x + s` on one element.
fn program() -> Program {
    let buffer = BufferType { dtype: DType::F32, shape: smallvec![Extent::ONE] };
    let access = |buffer| Access { buffer, dims: smallvec![DimMap::along(0)] };
    let register = |vary| RegType { dtype: DType::F32, vary };
    Program {
        name: "add".into(),
        params: 0,
        scalars: vec![DType::F32],
        buffers: vec![buffer.clone(), buffer],
        inputs: 1,
        domain: Domain { cols: smallvec![Extent::ONE], ..Domain::default() },
        reduce: None,
        contract: SmallVec::new(),
        regs: vec![register(Vary::COLS), register(Vary::NONE), register(Vary::COLS)],
        body: vec![
            Instr::Load { dst: Reg(0), access: access(0) },
            Instr::Scalar { dst: Reg(1), slot: 0 },
            Instr::Lane { op: LaneOp::Add, dst: Reg(2), args: smallvec![Reg(0), Reg(1)] },
            Instr::Store { src: Reg(2), access: access(1) },
        ],
    }
}

fn open(faults: Faults) -> Result<(DeviceRef, ExecutableRef, BufferRef), HalError> {
    let device = SimDevice::open(SimConfig { threads: 1, faults, ..SimConfig::default() })?;
    let executable = device.compile(program())?;
    let buffer = device.upload(&TensorType::new(DType::F32, [1]), &[0; 4])?;
    Ok((device, executable, buffer))
}

fn step(device: &DeviceRef, executable: &ExecutableRef, arg: Arg) -> Result<BufferRef, HalError> {
    let scalars = [u64::from(1.0f32.to_bits())];
    let launch = Launch { params: &[], scalars: &scalars, args: smallvec![arg], label: Label::none() };
    Ok(device.execute(executable, launch)?.outputs.remove(0))
}

/// The best of many short runs: the machine does other things as well.
#[derive(Default)]
struct Best(Option<Duration>);

impl Best {
    fn take(&mut self, run: Duration) {
        self.0 = Some(self.0.map_or(run, |best| best.min(run)));
    }

    fn report(&self, what: &str) {
        let nanos = self.0.unwrap_or_default().as_nanos();
        println!("{what:<44} {:>8.1} ns per launch", nanos as f64 / f64::from(BATCH));
    }
}

fn kernel_alone() -> Best {
    let machine = Machine::new(program(), Isa::best()).expect("the program is valid");
    let (input, mut output) = (Block::new(4).expect("memory"), Block::new(4).expect("memory"));
    let mut best = Best::default();
    for _ in 0..BATCHES {
        let start = Instant::now();
        for _ in 0..BATCH {
            let inputs = [Input::Bytes(input.bytes())];
            machine.run(&[], &[0], &inputs, &mut [&mut output], &Inline).expect("the arguments fit");
        }
        best.take(start.elapsed());
    }
    best
}

fn main() -> Result<(), HalError> {
    println!("{BATCHES} batches of {BATCH} launches, the best of them");
    kernel_alone().report("the kernel alone");
    for donated in [false, true] {
        let how = if donated { "donated" } else { "borrowed" };
        let arg = |buffer| if donated { Arg::Donated(buffer) } else { Arg::Borrowed(buffer) };

        // Each batch begins with a launch that is held until all are submitted.
        let gates: Vec<Gate> = (0..BATCHES).map(|_| Gate::closed()).collect();
        let plan =
            gates.iter().zip(0..).fold(Faults::none(), |plan, (gate, n)| plan.hold_launch(n * u64::from(BATCH), gate));
        let (device, executable, mut buffer) = open(plan)?;
        let (mut caller, mut drain) = (Best::default(), Best::default());
        for gate in &gates {
            let start = Instant::now();
            for _ in 0..BATCH {
                buffer = step(&device, &executable, arg(buffer))?;
            }
            caller.take(start.elapsed());
            let start = Instant::now();
            gate.open();
            device.synchronize()?;
            drain.take(start.elapsed());
        }
        caller.report(&format!("caller, device held ({how})"));
        drain.report(&format!("device, caller waiting ({how})"));

        let (device, executable, mut buffer) = open(Faults::none())?;
        let (mut caller, mut both) = (Best::default(), Best::default());
        for _ in 0..BATCHES {
            let start = Instant::now();
            for _ in 0..BATCH {
                buffer = step(&device, &executable, arg(buffer))?;
            }
            caller.take(start.elapsed());
            device.synchronize()?;
            both.take(start.elapsed());
        }
        caller.report(&format!("caller, device running ({how})"));
        both.report(&format!("both, to the end ({how})"));
        let mut bytes = [0; 4];
        device.download(&buffer, &mut bytes)?;
        assert_eq!(f32::from_ne_bytes(bytes), (BATCH * BATCHES) as f32, "each launch ran once");
    }
    Ok(())
}
