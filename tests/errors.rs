//! Misuse and failure: the error names the op, its operand types and the caller's line, and nothing else breaks.

mod refusal;

use expect_test::expect;
use systole::hal::sim::Faults;
use systole::{Axes, Config, DType, Device, Error, Mode, Origin, Result, Stream, Tensor, with_mode};

use refusal::{fails, refused, refused_at};

fn open(config: Config) -> Device {
    Device::open(Config { threads: 1, ..config }).expect("the simulator opens")
}

fn plain() -> Device {
    open(Config::default())
}

fn floats(device: &Device, shape: impl Into<systole::Shape>) -> Tensor {
    let shape = shape.into();
    let elements: Vec<f32> = (0..shape.elements()).map(|at| at as f32).collect();
    Tensor::from_slice(device, &elements, shape).expect("there is memory for it")
}

fn integers(device: &Device, elements: &[i32]) -> Tensor {
    Tensor::from_slice(device, elements, [elements.len()]).expect("there is memory for it")
}

/// Asserts that a device computes and reports no failure.
#[track_caller]
fn works(device: &Device) {
    let x = Tensor::from_slice(device, &[1.0f32, 2.0], [2]).expect("uploads");
    assert_eq!(x.add(&x).and_then(|y| y.exp()?.log()?.to_vec::<f32>()).expect("computes"), [2.0, 4.0]);
    device.synchronize().expect("nothing failed unread");
}

#[test]
fn shapes_that_do_not_fit() -> Result<()> {
    let device = plain();
    let (a, b) = (floats(&device, [2, 3]), floats(&device, [4]));
    let result = a.add(&b);
    let error = refused(
        result,
        expect!["add(tensor<2x3xf32>, tensor<4xf32>): operand shapes [2, 3] and [4] differ in rank: 2 against 1"],
    );
    assert!(error.is_type_error());
    assert_eq!(error.op(), Some(systole::Opcode::Add));
    assert_eq!(error.operands(), [a.ty().clone(), b.ty().clone()]);
    let result = &a - &b;
    refused(
        result,
        expect!["subtract(tensor<2x3xf32>, tensor<4xf32>): operand shapes [2, 3] and [4] differ in rank: 2 against 1"],
    );
    let result = a.matmul(&floats(&device, [4, 2]));
    refused(result, expect!["matmul(tensor<2x3xf32>, tensor<4x2xf32>): inner extents 3 and 4 differ"]);
    let result = a.matmul(&b);
    refused(result, expect!["matmul(tensor<2x3xf32>, tensor<4xf32>): inner extents 3 and 4 differ"]);
    let result = a.reshape([4, 2]);
    refused(result, expect!["reshape(tensor<2x3xf32>): [2, 3] has 6 elements, [4, 2] has 8"]);
    let result = a.broadcast_to([3, 2]);
    refused(
        result,
        expect![
            "broadcast_in_dim(tensor<2x3xf32>): operand dimension 0 has extent 2, which does not broadcast to 3 in dimension 0 of [3, 2]"
        ],
    );
    let result = a.broadcast_to([3]);
    refused(result, expect!["broadcast_to(tensor<2x3xf32>): [2, 3] does not broadcast to [3]"]);
    let result = a.broadcast_in_dim([2, 3, 4], &[0, 0]);
    refused(result, expect!["broadcast_in_dim(tensor<2x3xf32>): broadcast_dimensions [0, 0] names dimension 0 twice"]);
    let result = a.transpose(&[0]);
    refused(result, expect!["transpose(tensor<2x3xf32>): permutation has 1 entries for rank 2"]);
    let result = a.transpose(&[1, 1]);
    refused(result, expect!["transpose(tensor<2x3xf32>): dimension 1 is named twice"]);
    let result = b.t();
    refused(result, expect!["t(tensor<4xf32>): takes rank 2 or more, not 1"]);
    let result = a.slice(&[0, 0], &[2, 4], &[1, 1]);
    refused(result, expect!["slice(tensor<2x3xf32>): 0:4 does not lie within 0:3 in dimension 1 of [2, 3]"]);
    let result = a.slice(&[0, 0], &[2, 3], &[1, 0]);
    refused(result, expect!["slice(tensor<2x3xf32>): the stride of dimension 1 is 0, not at least 1"]);
    let result = a.narrow(2, 0, 1);
    refused(result, expect!["narrow(tensor<2x3xf32>): no dimension 2 in rank 2"]);
    let result = Tensor::concatenate(&[&a, &floats(&device, [2, 2])], 0);
    refused(
        result,
        expect![
            "concatenate(tensor<2x3xf32>, tensor<2x2xf32>): operand shapes [2, 3] and [2, 2] differ in dimension 1, which is not concatenated: 3 against 2"
        ],
    );
    let result = Tensor::concatenate(&[], 0);
    refused(result, expect!["concatenate(): takes at least 1 tensor"]);
    let result = a.pad(&b, &[0, 0], &[0, 0], &[0, 0]);
    refused(result, expect!["pad(tensor<2x3xf32>, tensor<4xf32>): the padding value has shape [4], not a scalar's"]);
    let zero = Tensor::scalar(&device, 0.0f32)?;
    let result = a.pad(&zero, &[0, -4], &[0, 0], &[0, 0]);
    refused(
        result,
        expect![
            "pad(tensor<2x3xf32>, tensor<f32>): extent 3 of dimension 1 with padding -4, 0 and 0 between becomes -1"
        ],
    );
    let result = a.clamp(&b, 1.0);
    refused(
        result,
        expect![
            "clamp(tensor<4xf32>, tensor<2x3xf32>, tensor<f32>): min and operand shapes [4] and [2, 3] differ in rank: 1 against 2"
        ],
    );
    let result = a.take_along_dim(&integers(&device, &[0, 1]), 0);
    refused(
        result,
        expect![
            "take_along_dim(tensor<2x3xf32>, tensor<2xi32>): shapes [2, 3] and [2] must have equal extents but in dimension 0"
        ],
    );
    let result = Tensor::iota(&device, DType::I32, [2, 2], 2);
    refused(result, expect!["iota(): no dimension 2 in rank 2"]);
    let result = Tensor::zeros(&device, DType::F32, [usize::MAX, 2]);
    refused(
        result,
        expect!["constant(): the result tensor<18446744073709551615x2xf32> takes more than 9223372036854775807 bytes"],
    );
    let result = Tensor::from_slice(&device, &[1.0f32, 2.0], [3]);
    refused(result, expect!["from_slice(): 2 elements of f32 do not fill shape [3]"]);
    works(&device);
    assert_eq!(a.sum(..)?.item::<f32>()?, 15.0, "the operands of what failed are as they were");
    Ok(())
}

#[test]
fn dtypes_that_do_not_fit() -> Result<()> {
    let device = plain();
    let (x, n) = (floats(&device, [2]), integers(&device, &[1, 2]));
    let result = x.add(&n);
    let error = refused(result, expect!["add(tensor<2xf32>, tensor<2xi32>): operand dtypes f32 and i32 differ"]);
    assert!(error.is_type_error());
    let result = n.exp();
    refused(result, expect!["exponential(tensor<2xi32>): takes a float dtype, not i32"]);
    let result = x.and(&x);
    refused(result, expect!["and(tensor<2xf32>, tensor<2xf32>): takes bool or an integer dtype, not f32"]);
    let result = x.all(..);
    refused(
        result,
        expect!["reduce(tensor<2xf32>, tensor<f32>): the body's and takes bool or an integer dtype, not f32"],
    );
    let result = n.mean(..);
    refused(result, expect!["mean(tensor<2xi32>): takes a float dtype, not i32"]);
    let result = x.select(&x, &x);
    refused(result, expect!["select(tensor<2xf32>, tensor<2xf32>, tensor<2xf32>): the predicate is f32, not bool"]);
    let result = x.lt(&n);
    refused(result, expect!["compare(tensor<2xf32>, tensor<2xi32>): operand dtypes f32 and i32 differ"]);
    let result = x.take_along_dim(&x, 0);
    refused(result, expect!["gather(tensor<2xf32>, tensor<2x1xf32>): start indices are f32, not an integer dtype"]);
    let result = Tensor::iota(&device, DType::Bool, [2], 0);
    refused(result, expect!["iota(): takes an integer or float dtype, not bool"]);
    let result = x.dot_general(&n, Default::default());
    refused(result, expect!["dot_general(tensor<2xf32>, tensor<2xi32>): operand dtypes f32 and i32 differ"]);
    let result = Tensor::from_bytes(&device, DType::Bool, &[0, 1, 2], [3]);
    refused(result, expect!["from_bytes(): byte 2 of a bool tensor is 2, not 0 or 1"]);
    // A number takes the tensor's dtype, if it is one of it.
    let result = n.add(1.5);
    refused(result, expect!["add(tensor<2xi32>): 1.5 is no i32, the dtype of the tensor it meets"]);
    let result = n.mul(1i64 << 40);
    refused(result, expect!["mul(tensor<2xi32>): 1099511627776 is no i32, the dtype of the tensor it meets"]);
    assert_eq!(n.add(2.0)?.to_vec::<i32>()?, [3, 4]);
    works(&device);
    Ok(())
}

#[test]
fn bits_of_another_width() -> Result<()> {
    let device = plain();
    let result = floats(&device, [2]).bitcast_convert(DType::BF16);
    refused(result, expect!["bitcast_convert(tensor<2xf32>): f32 and bf16 differ in width: 4 against 2 bytes"]);
    works(&device);
    Ok(())
}

#[test]
fn dimensions_that_are_not_there() -> Result<()> {
    fn sum(x: &Tensor, axes: impl Axes) -> Result<Tensor> {
        x.sum(axes)
    }
    let device = plain();
    let x = floats(&device, [2, 3]);
    let result = x.sum(2);
    refused(result, expect!["sum(tensor<2x3xf32>): no dimension 2 in rank 2"]);
    let result = x.max_keepdims(-3);
    refused(result, expect!["max_keepdims(tensor<2x3xf32>): no dimension -3 in rank 2"]);
    let result = x.mean([0, -2]);
    refused(result, expect!["mean(tensor<2x3xf32>): dimension -2 is named twice"]);
    let result = Tensor::concatenate(&[&x], 2);
    refused(result, expect!["concatenate(tensor<2x3xf32>): no dimension 2 in rank 2"]);
    let result = x.narrow(5, 0, 0);
    refused(result, expect!["narrow(tensor<2x3xf32>): no dimension 5 in rank 2"]);
    assert_eq!(sum(&x, [1, 0])?.item::<f32>()?, 15.0);
    works(&device);
    Ok(())
}

#[test]
fn argmax_of_nothing() -> Result<()> {
    let device = plain();
    let empty = floats(&device, [2, 0]);
    let result = empty.argmax(-1);
    refused(result, expect!["argmax(tensor<2x0xf32>): dimension -1 has no elements"]);
    let result = floats(&device, [2, 3]).argmin_keepdims(2);
    refused(result, expect!["argmin_keepdims(tensor<2x3xf32>): no dimension 2 in rank 2"]);
    // Nothing to look at where no result is wanted.
    assert_eq!(empty.argmin(0)?.to_vec::<i32>()?, [0i32; 0]);
    works(&device);
    Ok(())
}

#[test]
fn tensors_of_two_devices() -> Result<()> {
    let (here, there) = (plain(), plain());
    let (a, b) = (floats(&here, [2]), floats(&there, [2]));
    let error = fails(a.add(&b));
    assert!(error.is_device_mismatch());
    assert_eq!(error.op(), Some(systole::Opcode::Add));
    let text = error.to_string();
    assert!(text.contains("add(tensor<2xf32>, tensor<2xf32>)") && text.contains(file!()), "{text}");
    for device in [&here, &there] {
        assert!(text.contains(&format!("{device:?}")), "{text} names {device:?}");
        works(device);
    }
    let stream = Stream::new(&there);
    let seam = stream.record(systole::Opcode::Negate, &[&a], systole::Attrs::None, Default::default(), Origin::Unknown);
    assert!(fails(seam).is_device_mismatch(), "a stream takes tensors of its own device only");
    assert_eq!(a.add(&a)?.to_vec::<f32>()?, [0.0, 2.0]);
    Ok(())
}

#[test]
fn reading_as_what_it_is_not() -> Result<()> {
    let device = plain();
    let x = floats(&device, [2, 2]);
    let result = x.to_vec::<i32>();
    refused(result, expect!["to_vec(tensor<2x2xf32>): elements are f32, not i32"]);
    let result = x.item::<f32>();
    refused(result, expect!["item(tensor<2x2xf32>): takes 1 element, not 4"]);
    let result = x.sum(..)?.item::<bool>();
    refused(result, expect!["to_vec(tensor<f32>): elements are f32, not bool"]);
    let result = floats(&device, [0]).item::<f32>();
    refused(result, expect!["item(tensor<0xf32>): takes 1 element, not 0"]);
    assert_eq!(x.sum(..)?.item::<f32>()?, 6.0);
    works(&device);
    Ok(())
}

#[test]
fn names_that_are_not_known() {
    let unknown = || Config { profile: String::from("v99"), ..Config::default() };
    let result = Device::open(unknown());
    let error = refused(result, expect!["unknown profile `v99` (known: ieee, v4, v5e, v5p, v6e, v7x)"]);
    assert!(error.is_argument_error());
    let result = Device::open(Config { threads: 0, ..Config::default() });
    let error = refused(result, expect!["a device has 1 to 1024 threads, not 0"]);
    assert!(error.is_argument_error());
    expect!["unknown mode `lazy`: the modes are debug, strict and fused"]
        .assert_eq(&"lazy".parse::<Mode>().expect_err("no mode"));
    for mode in Mode::ALL {
        assert_eq!(mode.name().parse(), Ok(mode));
    }
    assert!(Device::profiles().contains(&"ieee"));
}

#[test]
fn indices_out_of_range_are_errors_in_debug_mode() -> Result<()> {
    let device = plain();
    let x = floats(&device, [3]);
    let indices = integers(&device, &[0, 2, 3, -1]);
    device.set_mode(Mode::Debug);
    let result = x.take_along_dim(&indices, 0);
    let error = refused(
        result,
        expect!["take_along_dim(tensor<3xf32>, tensor<4xi32>): index 3 (element 2 of shape [4]) is outside 0..=2"],
    );
    device.set_mode(Mode::Fused);
    assert!(error.is_argument_error());
    let (table, ids) = (floats(&device, [3, 1]), integers(&device, &[7]));
    let (from_the_end, labels) = (integers(&device, &[-5]), integers(&device, &[0, 0, 1]));
    let no_classes = Tensor::zeros(&device, DType::F32, [1, 0])?;
    device.set_mode(Mode::Debug);
    let result = table.embedding(&ids);
    refused(
        result,
        expect!["embedding(tensor<3x1xf32>, tensor<1xi32>): id 7 (element 0 of shape [1]) is outside 0..=2"],
    );
    let result = x.take(0, &from_the_end);
    refused(result, expect!["take(tensor<3xf32>, tensor<1xi32>): index -5 (element 0 of shape [1]) is outside -3..=2"]);
    let result = table.cross_entropy(&labels);
    refused(
        result,
        expect!["cross_entropy(tensor<3x1xf32>, tensor<3xi32>): label 1 (element 2 of shape [3]) is outside 0..=0"],
    );
    let result = no_classes.cross_entropy(&ids);
    refused(result, expect!["cross_entropy(tensor<1x0xf32>, tensor<1xi32>): there are labels, and no classes"]);
    device.set_mode(Mode::Fused);
    assert!(x.take(0, &integers(&device, &[-3, 2]))?.to_vec::<f32>().is_ok());
    for mode in Mode::ALL {
        let within = integers(&device, &[2, 0]);
        assert_eq!(with_mode(mode, || x.take_along_dim(&within, 0)?.to_vec::<f32>())?, [2.0, 0.0]);
    }
    for mode in [Mode::Strict, Mode::Fused] {
        let clamped = with_mode(mode, || x.take_along_dim(&indices, 0)?.to_vec::<f32>())?;
        assert_eq!(clamped, [0.0, 2.0, 2.0, 0.0], "{mode} clamps");
    }
    works(&device);
    Ok(())
}

/// Runs `body` on a device of each mode with these faults.
fn in_each_mode(faults: &Faults, body: impl Fn(&Device, Mode) -> Result<()>) -> Result<()> {
    for mode in Mode::ALL {
        body(&open(Config { mode, faults: faults.clone(), ..Config::default() }), mode)?;
    }
    Ok(())
}

#[test]
fn a_failed_launch_names_its_op_and_fails_its_dependants_only() -> Result<()> {
    // The second launch fails in every mode: shapes apart, the two have nothing in common, so nothing fuses them.
    in_each_mode(&Faults::none().fail_launch(1), |device, mode| {
        if mode == Mode::Debug {
            return Ok(());
        }
        let (x, w) = (floats(device, [3]), floats(device, [2, 2]));
        let healthy = x.neg()?;
        let (failing, line) = (w.exp(), line!());
        let failing = failing?;
        let dependant = failing.add(1.0)?.sum(..)?;
        device.flush();
        assert_eq!(healthy.to_vec::<f32>()?, [-0.0, -1.0, -2.0], "{mode}");
        let error = fails(failing.to_vec::<f32>());
        let expected = match mode {
            Mode::Debug | Mode::Strict => {
                expect!["exponential(tensor<2x2xf32>): internal error: injected failure of launch 1 (`exponential`)"]
            }
            Mode::Fused => expect![
                "exponential(tensor<2x2xf32>): internal error: injected failure of launch 1 (`exponential+add+reduce`), in the fused program exponential+add+reduce"
            ],
        };
        refused_at(&error, line, expected);
        assert_eq!(error.op(), Some(systole::Opcode::Exponential));
        assert_eq!(error.operands(), [w.ty().clone()]);
        let again = fails(dependant.to_vec::<f32>());
        assert_eq!(again.to_string(), error.to_string(), "{mode}: a dependant has the same cause");
        // What is recorded on a failed value afterwards fails alike, when it is read.
        let later = failing.mul(2.0)?;
        assert_eq!(fails(later.to_vec::<f32>()).to_string(), error.to_string(), "{mode}");
        assert_eq!(x.add(1.0)?.to_vec::<f32>()?, [1.0, 2.0, 3.0], "{mode}");
        assert_eq!(w.exp()?.to_vec::<f32>()?[0], 1.0, "{mode}: once more, it succeeds");
        works(device);
        Ok(())
    })
}

#[test]
fn debug_mode_gives_a_failure_to_the_call_itself() -> Result<()> {
    let device = open(Config { mode: Mode::Debug, faults: Faults::none().fail_launch(1), ..Config::default() });
    let x = floats(&device, [3]);
    let y = x.neg()?;
    let result = y.exp();
    refused(
        result,
        expect!["exponential(tensor<3xf32>): internal error: injected failure of launch 1 (`exponential`)"],
    );
    assert_eq!(y.exp()?.to_vec::<f32>()?[0], 1.0);
    works(&device);
    Ok(())
}

#[test]
fn a_failed_fused_program_names_an_op_of_its_own() -> Result<()> {
    let device = open(Config { faults: Faults::none().fail_launch(0), ..Config::default() });
    let x = floats(&device, [2, 2]);
    let first = line!();
    let shifted = x.add(1.0)?;
    let grown = shifted.exp()?;
    let small = grown.neg()?;
    let last = line!();
    drop((shifted, grown));
    let error = fails(small.to_vec::<f32>());
    let report = device.reports().pop().expect("the read cut");
    assert_eq!(report.launches, 1, "all of it is one program");
    let Origin::Caller(location) = error.origin() else { panic!("{error:?}") };
    assert!(location.file() == file!() && (first..last).contains(&location.line()), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("in the fused program") && text.contains("add+exponential+negate"), "{text}");
    works(&device);
    Ok(())
}

#[test]
fn a_failure_that_nobody_reads_surfaces_at_the_next_synchronize() -> Result<()> {
    in_each_mode(&Faults::none().fail_launch(0), |device, mode| {
        if mode == Mode::Debug {
            return Ok(());
        }
        let x = floats(device, [3]);
        let (failing, line) = (x.exp(), line!());
        let failing = failing?;
        device.flush();
        drop(failing);
        let error = fails(device.synchronize());
        let expected = match mode {
            Mode::Debug | Mode::Strict => {
                expect!["exponential(tensor<3xf32>): internal error: injected failure of launch 0 (`exponential`)"]
            }
            Mode::Fused => {
                expect!["exponential(tensor<3xf32>): internal error: injected failure of launch 0 (`exponential`)"]
            }
        };
        refused_at(&error, line, expected);
        device.synchronize()?;
        works(device);
        Ok(())
    })
}

#[test]
fn a_failure_that_was_read_does_not_surface_again() -> Result<()> {
    in_each_mode(&Faults::none().fail_launch(0), |device, mode| {
        let x = floats(device, [3]);
        let read = x.exp().and_then(|y| y.to_vec::<f32>());
        assert!(read.is_err(), "{mode}");
        device.synchronize()?;
        works(device);
        Ok(())
    })
}

#[test]
fn a_panic_in_a_program_is_an_error_like_any_other() -> Result<()> {
    in_each_mode(&Faults::none().panic_launch(0), |device, mode| {
        let x = floats(device, [3]);
        let error = fails(x.exp().and_then(|y| y.to_vec::<f32>()));
        assert_eq!(error.op(), Some(systole::Opcode::Exponential), "{mode}: {error}");
        assert!(error.to_string().contains("panicked"), "{mode}: {error}");
        works(device);
        Ok(())
    })
}

#[test]
fn a_program_that_does_not_compile_fails_what_it_computes() -> Result<()> {
    in_each_mode(&Faults::none().fail_compile(0), |device, mode| {
        let x = floats(device, [3]);
        let read = |x: &Tensor| x.exp()?.to_vec::<f32>();
        let error = fails(read(&x));
        let Origin::Caller(location) = error.origin() else { panic!("{mode}: {error:?}") };
        assert_eq!(location.file(), file!(), "{mode}");
        // A build that fails is not kept: the next one succeeds.
        assert_eq!(read(&x)?[0], 1.0, "{mode}");
        works(device);
        Ok(())
    })
}

#[test]
fn a_lost_device_fails_every_call_and_none_hangs() -> Result<()> {
    in_each_mode(&Faults::none().lose_device(0), |device, mode| {
        let x = floats(device, [3]);
        let error = fails(x.exp().and_then(|y| y.to_vec::<f32>()));
        assert!(error.is_device_lost(), "{mode}: {error}");
        assert!(fails(Tensor::from_slice(device, &[1.0f32], [1])).is_device_lost(), "{mode}");
        assert!(fails(x.neg().and_then(|y| y.to_vec::<f32>())).is_device_lost(), "{mode}");
        assert!(fails(device.synchronize()).is_device_lost(), "{mode}");
        works(&plain());
        Ok(())
    })
}

/// A device of 64 KiB that does not cut before it is asked to.
fn small(mode: Mode) -> Device {
    open(Config { mode, memory_limit: Some(64 << 10), first_window: 1000, window_limit: 1000, ..Config::default() })
}

#[test]
fn memory_that_runs_out_comes_back() -> Result<()> {
    for mode in Mode::ALL {
        let device = small(mode);
        let x = floats(&device, [4096]);
        let kept = x.neg()?;
        let half = kept.abs()?;
        device.flush();
        // 48 of 64 KiB are held, so a result of 32 is too much.
        let wide = half.reshape([1, 4096])?;
        let (attempt, line) = (wide.broadcast_to([2, 4096]).and_then(|wide| wide.exp()), line!());
        let error = match attempt {
            Ok(y) => {
                device.flush();
                let healthy = x.slice(&[0], &[2], &[1])?;
                let error = fails(y.to_vec::<f32>());
                assert!(fails(y.neg()?.to_vec::<f32>()).is_same_as(&error), "{mode}: a dependant has the same cause");
                assert_eq!(healthy.to_vec::<f32>()?, [0.0, 1.0], "{mode}");
                error
            }
            Err(error) => error,
        };
        assert!(error.is_out_of_memory(), "{mode}: {error}");
        let Origin::Caller(location) = error.origin() else { panic!("{mode}: {error:?}") };
        assert_eq!((location.file(), location.line()), (file!(), line), "{mode}");
        assert!(error.op().is_some() && !error.operands().is_empty(), "{mode}: {error}");
        let text = error.to_string();
        assert!(text.contains("32768 bytes requested, 49152 of 65536 bytes in use"), "{mode}: {text}");
        drop((kept, half));
        assert_eq!(wide.to_vec::<f32>()?[2], 2.0, "{mode}: an alias keeps the memory");
        drop(wide);
        let y = x.reshape([1, 4096])?.broadcast_to([2, 4096])?;
        assert_eq!(y.to_vec::<f32>()?[4097], 1.0, "{mode}: with memory given back it succeeds");
        drop(y);
        works(&device);
    }
    Ok(())
}

#[test]
fn an_upload_without_room_is_an_error_at_its_line() -> Result<()> {
    let device = small(Mode::Fused);
    let x = floats(&device, [8192]);
    let elements = [0.0f32; 8200];
    let result = Tensor::from_slice(&device, &elements, [8200]);
    let error = refused(
        result,
        expect![
            "out of memory: no memory to upload tensor<8200xf32>: 32800 bytes requested, 32768 of 65536 bytes in use"
        ],
    );
    assert!(error.is_out_of_memory());
    drop(x);
    assert_eq!(Tensor::from_slice(&device, &elements, [8200])?.shape().elements(), 8200);
    works(&device);
    Ok(())
}

#[test]
fn a_refused_buffer_fails_one_op_in_the_middle() -> Result<()> {
    // Allocations: two uploads, then one result after another; the second result is refused.
    let faults = Faults::none().fail_allocation(3);
    let device = open(Config { mode: Mode::Strict, faults, ..Config::default() });
    let (x, w) = (floats(&device, [3]), floats(&device, [3]));
    let first = x.exp()?;
    let (second, line) = (first.neg(), line!());
    let second = second?;
    let third = w.add(&w)?;
    let error = fails(second.to_vec::<f32>());
    assert!(error.is_out_of_memory());
    refused_at(
        &error,
        line,
        expect![
            "negate(tensor<3xf32>): out of memory: no memory for the outputs of `negate`: 12 bytes requested, 36 of 17179869184 bytes in use"
        ],
    );
    assert_eq!(third.to_vec::<f32>()?, [0.0, 2.0, 4.0]);
    assert_eq!(first.to_vec::<f32>()?[0], 1.0);
    works(&device);
    Ok(())
}

#[test]
fn an_error_can_be_kept_shared_and_shown() {
    fn is_error<T: std::error::Error + Send + Sync + Clone + 'static>() {}
    is_error::<Error>();
    let device = plain();
    let error = fails(floats(&device, [2]).add(floats(&device, [3])));
    let copy = error.clone();
    assert!(copy.is_same_as(&error));
    assert!(format!("{error:?}").contains(&error.to_string()));
    let other = fails(floats(&device, [2]).add(floats(&device, [3])));
    assert!(!other.is_same_as(&error));
}

/// What the host cannot hold is an error of the read; the failure of the value itself comes first.
#[test]
fn reads_that_the_host_cannot_hold() -> Result<()> {
    let device = Device::open(Config { memory_limit: Some(u64::MAX), ..Config::default() })?;
    let huge = Tensor::full(&device, 1.0f32, [1 << 50])?;
    let error = fails(huge.to_vec::<f32>());
    assert!(error.is_out_of_memory(), "{error}");
    works(&device);
    Ok(())
}

#[test]
fn empty_tensors_with_large_extents() -> Result<()> {
    let device = plain();
    let x = Tensor::from_slice::<f32>(&device, &[], [0, 1 << 34])?;
    let y = Tensor::from_slice::<f32>(&device, &[], [1 << 34, 0])?;
    assert!(x.matmul(&y)?.to_vec::<f32>()?.is_empty());
    assert!(fails(Tensor::from_slice::<f32>(&device, &[], [usize::MAX, 0])).is_argument_error());
    let sixty_five = Tensor::from_slice(&device, &[1.0f32], vec![1; 65]);
    assert!(fails(sixty_five).is_argument_error());
    assert!(fails(Tensor::full(&device, 1.0f32, [1])?.reshape(vec![1; 65])).is_type_error());
    let mean = Tensor::from_slice::<f32>(&device, &[], [1 << 20, 1 << 20, 0])?.mean(..)?;
    assert!(mean.item::<f32>()?.is_nan(), "a mean of nothing is 0 / 0");
    works(&device);
    Ok(())
}

#[test]
fn numbers_meet_tensors_exactly() -> Result<()> {
    let device = plain();
    let n = (1i64 << 60) + (1 << 36) + 1;
    let zero = Tensor::scalar(&device, 0.0f32)?;
    assert_eq!(zero.add(n)?.item::<f32>()?, n as f32);
    let count = Tensor::scalar(&device, 0i64)?;
    assert_eq!(count.add(-4.0)?.item::<i64>()?, -4);
    for number in [9_223_372_036_854_775_808.0, 0.5, f64::NAN, f64::INFINITY] {
        assert!(fails(count.add(number)).is_argument_error(), "{number} is no i64");
    }
    Ok(())
}

#[test]
fn settings_without_measure() -> Result<()> {
    for threads in [0, 1025, usize::MAX] {
        assert!(fails(Device::open(Config { threads, ..Config::default() })).is_argument_error());
    }
    let unbounded = Config { window_limit: usize::MAX, pending_bytes: u64::MAX, ..Config::default() };
    let device = Device::open(unbounded)?;
    let mut x = Tensor::scalar(&device, 0.0f32)?;
    for _ in 0..80 {
        x = x.add(1.0)?;
        device.flush();
    }
    assert_eq!(x.item::<f32>()?, 80.0);
    let kept = device.reports();
    x.add(1.0)?.add(1.0)?.item::<f32>()?;
    assert_eq!(device.reports().len(), kept.len() + 1, "a window without limit cuts nothing by itself");
    Ok(())
}

/// With the last handle of a device goes what the thread kept for it; a tensor alone keeps it working.
#[test]
fn a_device_ends_with_its_last_handle() -> Result<()> {
    let device = plain();
    let x = floats(&device, [2]).add(1.0)?;
    drop(device);
    assert_eq!(x.add(1.0)?.to_vec::<f32>()?.len(), 2);
    let device = x.device();
    works(&device);
    drop((x, device));
    // Every device has a thread of its own, named after what it is.
    #[cfg(target_os = "linux")]
    {
        let device_threads = || {
            let tasks = std::fs::read_dir("/proc/self/task").expect("Linux lists a process's threads");
            let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
            tasks.flatten().map(name).filter(|name| name.starts_with("systole-device")).count()
        };
        for _ in 0..64 {
            let device = plain();
            assert_eq!(floats(&device, [2]).add(1.0)?.to_vec::<f32>()?.len(), 2);
        }
        assert!(device_threads() < 64, "{} devices are still open", device_threads());
    }
    Ok(())
}

/// A fused program that finds no memory runs op by op after all, so that only what needs too much fails.
#[test]
fn without_memory_only_what_needs_it_fails() -> Result<()> {
    let device = Device::open(Config { memory_limit: Some(4696), ..Config::default() })?;
    let x = Tensor::iota(&device, DType::F32, [1024], 0)?;
    let sum = x.sum(..)?;
    let (twice, line) = (x.mul(2.0)?, line!());
    assert_eq!(sum.item::<f32>()?, 523_776.0);
    let error = fails(twice.to_vec::<f32>());
    assert!(error.is_out_of_memory(), "{error}");
    // The multiply, or the broadcast of its number: both stand on the user's line.
    let Origin::Caller(location) = error.origin() else { panic!("no place in {error:?}") };
    assert_eq!(location.line(), line);
    assert_eq!(x.to_vec::<f32>()?[1023], 1023.0);
    Ok(())
}
