//! Nothing waits for a compiler, with one that is held at a gate: recording and submitting go on, only what depends on a
//! missing program waits, and the bits are those of a device that compiles at once.

use systole::hal::sim::{Compiler, Faults, Gate};
use systole::{Config, CutReason, Device, FlushReport, Mode, PlanSource, Result, Tensor};

/// A device of static shapes that compiles in the background, on more threads than these tests hold at gates.
fn slow(faults: Faults) -> Device {
    open(Config { compiler: Compiler { static_shapes: true, threads: 16, ..Compiler::default() }, faults, ..base() })
}

fn base() -> Config {
    Config { first_window: 1000, window_limit: 1000, threads: 1, validate: true, ..Config::default() }
}

fn open(config: Config) -> Device {
    Device::open(config).expect("the simulator opens")
}

fn numbers(device: &Device, shape: &[usize], seed: usize) -> Tensor {
    let count = shape.iter().product::<usize>();
    let elements: Vec<f32> = (0..count).map(|at| ((at * 37 + seed * 11) % 101) as f32 / 64.0 - 0.75).collect();
    Tensor::from_slice(device, &elements, shape).expect("there is memory for it")
}

fn bits(tensor: &Tensor) -> Result<Vec<u32>> {
    Ok(tensor.to_vec::<f32>()?.into_iter().map(f32::to_bits).collect())
}

/// A layer of a transformer, as its user would write it.
struct Layer {
    projections: [Tensor; 3],
    attended: (Tensor, Tensor),
    widen: (Tensor, Tensor),
    narrow: (Tensor, Tensor),
    norm: (Tensor, Tensor),
}

const HIDDEN: usize = 16;
const HEADS: usize = 2;

impl Layer {
    fn new(device: &Device) -> Self {
        let affine =
            |out: usize, inner: usize, seed| (numbers(device, &[out, inner], seed), numbers(device, &[out], seed + 1));
        Layer {
            projections: [1, 2, 3].map(|seed| numbers(device, &[HIDDEN, HIDDEN], seed)),
            attended: affine(HIDDEN, HIDDEN, 4),
            widen: affine(4 * HIDDEN, HIDDEN, 6),
            narrow: affine(HIDDEN, 4 * HIDDEN, 8),
            norm: (numbers(device, &[HIDDEN], 10), numbers(device, &[HIDDEN], 11)),
        }
    }

    fn run(&self, x: &Tensor) -> Result<Tensor> {
        let [rows, length] = [x.shape()[0], x.shape()[1]];
        let heads = |tensor: Tensor| tensor.reshape([rows, length, HEADS, HIDDEN / HEADS])?.transpose(&[0, 2, 1, 3]);
        let [query, key, value] = self.projections.each_ref().map(|weight| x.linear(weight, None).and_then(heads));
        let values = query?.attention(&key?, &value?, None, None)?.transpose(&[0, 2, 1, 3])?;
        let joined = values.reshape([rows, length, HIDDEN])?;
        let norm = |x: &Tensor| x.layer_norm(Some(&self.norm.0), Some(&self.norm.1), 1e-5);
        let middle = norm(&joined.linear(&self.attended.0, Some(&self.attended.1))?.add(x)?)?;
        let wide = middle.linear(&self.widen.0, Some(&self.widen.1))?.gelu()?;
        norm(&wide.linear(&self.narrow.0, Some(&self.narrow.1))?.add(&middle)?)
    }
}

fn steps(device: &Device, count: usize) -> Result<Vec<Tensor>> {
    let layer = Layer::new(device);
    let run = |step| {
        let y = layer.run(&numbers(device, &[2, 5, HIDDEN], step))?;
        device.flush();
        Ok(y)
    };
    (0..count).map(run).collect()
}

/// What is known about a cut before anything has run.
fn cut_keys(device: &Device) -> Vec<(CutReason, usize, usize, u64)> {
    let key = |report: FlushReport| (report.reason, report.ops, report.outputs, report.key);
    device.reports().into_iter().map(key).collect()
}

/// H14 as a user has it: with no program compiled at all everything is recorded and submitted, and nothing done. When
/// the compiler gets to work, every step is right from the first on, and the fused programs are taken.
#[test]
fn a_layer_is_submitted_before_any_program_is_compiled() -> Result<()> {
    let strict = open(Config { mode: Mode::Strict, ..base() });
    let expected: Vec<_> = steps(&strict, 3)?.iter().map(bits).collect::<Result<_>>()?;

    let gate = Gate::closed();
    let device = slow(Faults::none().hold_compiles(|_| true, &gate));
    let outputs = steps(&device, 3)?;
    let cold = device.stats();
    assert!(outputs.iter().all(|output| !output.is_ready()), "there is no program to make them");
    let reports = device.reports();
    assert!(reports.iter().all(|report| report.op_by_op > 0 && report.waiting == report.launches), "{reports:?}");
    assert!(reports[0].compiled.len() > 20 && reports[1..].iter().all(|report| report.compiled.is_empty()));
    assert!(reports[0].compiled.iter().all(|compile| compile.extents.is_some()), "{:?}", reports[0].compiled);
    assert_eq!(cold.programs.builds, reports[0].compiled.len() as u64, "every program for some extents is a build");
    assert_eq!(cold.compiling, cold.programs.builds);
    assert_eq!(cold.waiting, cold.launches);

    gate.open();
    for (output, expected) in outputs.iter().zip(&expected) {
        assert_eq!(&bits(output)?, expected);
    }
    // The fused programs, which nobody waits for, may still be on their way.
    until_compiled(&device);
    let before = device.stats();
    let again = steps(&device, 3)?;
    for (output, expected) in again.iter().zip(&expected) {
        assert_eq!(&bits(output)?, expected);
    }
    let after = device.stats();
    assert_eq!((after.op_by_op, after.waiting), (before.op_by_op, before.waiting), "all run fused, and none waits");
    assert_eq!(after.programs.builds, before.programs.builds);
    let fused = device.reports().last().expect("a cut was made").launches;
    assert!(fused * 3 < reports[0].launches, "{fused} launches instead of {}", reports[0].launches);
    Ok(())
}

fn until_compiled(device: &Device) {
    while device.stats().compiling > 0 {
        std::thread::yield_now();
    }
}

/// Cuts and keys are those of a device whose compiler is always done (A4).
#[test]
fn cuts_and_keys_know_nothing_of_compilers() -> Result<()> {
    let config = || Config { first_window: 8, window_limit: 32, ..base() };
    let plain = open(config());
    steps(&plain, 2)?;
    let gate = Gate::closed();
    let faults = Faults::none().hold_compiles(|_| true, &gate);
    let slow = open(Config {
        compiler: Compiler { static_shapes: true, threads: 1, ..Compiler::default() },
        faults,
        ..config()
    });
    steps(&slow, 2)?;
    assert!(slow.stats().waiting > 0);
    assert_eq!(cut_keys(&plain), cut_keys(&slow));
    Ok(())
}

/// Where one op's program is missing, that op waits with what depends on it; everything else is done.
#[test]
fn only_dependants_wait() -> Result<()> {
    let gate = Gate::closed();
    let faults =
        Faults::none().hold_compiles(|program| program.name.contains('+') || program.name == "exponential", &gate);
    let device = slow(faults);
    let x = numbers(&device, &[4, 8], 0);
    // One fused program would be their sum; one by one, all but the exponential can run.
    let (tripled, halved) = (x.mul(3.0)?.add(1.0)?, x.mul(0.5)?.tanh()?);
    let waits = halved.exp()?.neg()?;
    let after = waits.add(&tripled)?;
    device.flush();
    assert_eq!(tripled.to_vec::<f32>()?[0], x.to_vec::<f32>()?[0] * 3.0 + 1.0);
    assert!(halved.to_vec::<f32>()?[0] < 0.0);
    let apart = numbers(&device, &[3], 1).abs()?;
    assert_eq!(apart.to_vec::<f32>()?.len(), 3);
    assert!(!waits.is_ready() && !after.is_ready());
    let report = &device.reports()[0];
    // The exponential alone has no program in the end; others may have had none when they were submitted.
    assert!(report.op_by_op >= 1 && report.waiting >= 1, "{report:?}");
    gate.open();
    let plain = open(base());
    let x = numbers(&plain, &[4, 8], 0);
    let expected = x.mul(0.5)?.tanh()?.exp()?.neg()?.add(&x.mul(3.0)?.add(1.0)?)?;
    assert_eq!(bits(&after)?, bits(&expected)?);
    Ok(())
}

/// A group whose program the compiler refuses runs op by op for good; an op whose program it refuses fails, with what
/// depends on it and nothing else, naming op and line.
#[test]
fn a_program_that_cannot_be_compiled_fails_its_dependants_only() -> Result<()> {
    for threads in [0, 2] {
        let compiler = Compiler { static_shapes: true, threads, ..Compiler::default() };
        let faults = Faults::none().fail_compiles(|program| program.name.contains("exponential"));
        let device = open(Config { compiler, faults, ..base() });
        let x = numbers(&device, &[4, 8], 0);
        let healthy = x.mul(3.0)?.add(1.0)?;
        let (failing, line) = (x.exp(), line!());
        let failing = failing?;
        let dependant = failing.neg()?.add(&healthy)?;
        device.flush();
        assert_eq!(healthy.to_vec::<f32>()?[0], x.to_vec::<f32>()?[0] * 3.0 + 1.0);
        let error = dependant.to_vec::<f32>().expect_err("it has no program");
        assert_eq!(error.op(), Some(systole::Opcode::Exponential), "{error}");
        assert!(error.to_string().contains("failure to compile `exponential`"), "{error}");
        let systole::Origin::Caller(location) = error.origin() else { panic!("{error:?}") };
        assert_eq!((location.file(), location.line()), (file!(), line));
        assert_eq!(failing.to_vec::<f32>().expect_err("it has no program").to_string(), error.to_string());

        let faults = Faults::none().fail_compiles(|program| program.name.contains("exponential+"));
        let device = open(Config { compiler, faults, ..base() });
        for round in 0..3 {
            let x = numbers(&device, &[4, 8], 0);
            let y = x.exp()?.add(1.0)?;
            assert_eq!(y.to_vec::<f32>()?[0], x.exp()?.to_vec::<f32>()?[0] + 1.0, "round {round}");
            until_compiled(&device);
            assert_eq!(device.reports().iter().filter(|report| report.op_by_op > 0).count(), round + 1);
        }
        device.synchronize()?;
    }
    Ok(())
}

/// What fits into memory when it is compiled fits before: a group whose ops do not find room one by one waits.
#[test]
fn memory_does_not_depend_on_the_compiler() -> Result<()> {
    let gate = Gate::closed();
    let faults = Faults::none().hold_compiles(|_| true, &gate);
    let compiler = Compiler { static_shapes: true, threads: 2, ..Compiler::default() };
    // Room for the operand, the result, and not for what lies between.
    let device = open(Config { compiler, faults, memory_limit: Some(2 * 4096 + 100), ..base() });
    let x = numbers(&device, &[1024], 0);
    let y = x.mul(3.0)?.add(1.0)?.tanh()?.mul(&x)?;
    device.flush();
    let report = &device.reports()[0];
    assert_eq!((report.op_by_op, report.waiting, report.launches), (0, 1, 1));
    gate.open();
    let plain = open(base());
    let x = numbers(&plain, &[1024], 0);
    assert_eq!(bits(&y)?, bits(&x.mul(3.0)?.add(1.0)?.tanh()?.mul(&x)?)?);
    Ok(())
}

/// A device is closed without waiting for a compiler, whoever holds what (H14).
#[test]
fn a_device_closes_while_programs_are_compiled() -> Result<()> {
    let gate = Gate::closed();
    let device = slow(Faults::none().hold_compiles(|_| true, &gate));
    let outputs = steps(&device, 2)?;
    drop((outputs, device));
    gate.open();
    Ok(())
}

/// A new extent is a new program where shapes are static, and no new plan; the programs kept are bounded.
#[test]
fn exact_programs_are_builds_and_bounded() -> Result<()> {
    let compiler = Compiler { static_shapes: true, ..Compiler::default() };
    let device = open(Config { compiler, plan_capacity: 4, ..base() });
    for extent in 2..40 {
        let x = numbers(&device, &[extent], 0);
        assert_eq!(x.mul(2.0)?.sub(1.0)?.to_vec::<f32>()?[0], x.to_vec::<f32>()?[0] * 2.0 - 1.0);
    }
    let reports = device.reports();
    let built = reports.iter().filter(|report| matches!(report.plan, PlanSource::Built(_))).count();
    assert_eq!(built, 1);
    let compiled: Vec<_> = reports.iter().flat_map(|report| &report.compiled).map(ToString::to_string).collect();
    assert_eq!(compiled.len(), 38);
    assert_eq!(compiled[3], "multiply+subtract for [5]");
    let stats = device.stats().programs;
    assert_eq!((stats.builds, stats.evictions, stats.entries), (38, 22, 16));
    Ok(())
}
