//! Tensors as text: the very strings that NumPy 2 prints for the same arrays, and what cannot be printed.

#![allow(clippy::excessive_precision, reason = "the numbers are those that NumPy was given")]

use systole::hal::sim::Faults;
use systole::{Config, Device, Element, Tensor};

fn check<T: Element>(elements: &[T], shape: &[usize], expected: &str) {
    let device = Device::simulator().expect("the simulator opens");
    let tensor = Tensor::from_slice(&device, elements, shape.to_vec()).expect("the elements fill the shape");
    assert_eq!(tensor.to_string(), expected);
}

#[test]
fn arrays_are_printed_as_numpy_prints_them() {
    // floats
    check::<f32>(&[1.0, 2.5, 3.0], &[3], r"[1.  2.5 3. ]");
    // matrix
    check::<f32>(
        &[1.0, -2.5, 3.0, 4.0, 5.0, 600.125],
        &[2, 3],
        r"[[  1.     -2.5     3.   ]
 [  4.      5.    600.125]]",
    );
    // thirds
    check::<f32>(&[0.3333333333333333, 0.6666666666666666, 1.0], &[3], r"[0.33333334 0.6666667  1.        ]");
    // tiny
    check::<f32>(&[1e-05, 1.5, 2.0], &[3], r"[1.0e-05 1.5e+00 2.0e+00]");
    // huge
    check::<f32>(&[100000000.0, 1.0], &[2], r"[1.e+08 1.e+00]");
    // apart
    check::<f32>(&[1000.5, 0.25, 3.0], &[3], r"[1.0005e+03 2.5000e-01 3.0000e+00]");
    // special
    check::<f32>(&[1.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY], &[4], r"[  1.  nan  inf -inf]");
    // only special
    check::<f32>(&[f32::NAN, f32::INFINITY], &[2], r"[nan inf]");
    // special exponential
    check::<f32>(&[1e-10, f32::NAN, 20000000000.0], &[3], r"[1.e-10    nan 2.e+10]");
    // negative zero
    check::<f32>(&[-0.0, 0.0], &[2], r"[-0.  0.]");
    // integers
    check::<i32>(
        &[1, -20, 300, 4],
        &[2, 2],
        r"[[  1 -20]
 [300   4]]",
    );
    // bools
    check::<bool>(
        &[true, false, false, true],
        &[2, 2],
        r"[[ True False]
 [False  True]]",
    );
    // cube
    check(
        &(0..8).collect::<Vec<i64>>(),
        &[2, 2, 2],
        r"[[[0 1]
  [2 3]]

 [[4 5]
  [6 7]]]",
    );
    // long
    check(
        &(0..30).collect::<Vec<i32>>(),
        &[30],
        r"[ 0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16 17 18 19 20 21 22 23
 24 25 26 27 28 29]",
    );
    // longer
    check(&(0..1200).collect::<Vec<i32>>(), &[1200], r"[   0    1    2 ... 1197 1198 1199]");
    // wide
    check(
        &(0..1600).map(|i| i as f32 / 8.0).collect::<Vec<f32>>(),
        &[40, 40],
        r"[[0.00000e+00 1.25000e-01 2.50000e-01 ... 4.62500e+00 4.75000e+00
  4.87500e+00]
 [5.00000e+00 5.12500e+00 5.25000e+00 ... 9.62500e+00 9.75000e+00
  9.87500e+00]
 [1.00000e+01 1.01250e+01 1.02500e+01 ... 1.46250e+01 1.47500e+01
  1.48750e+01]
 ...
 [1.85000e+02 1.85125e+02 1.85250e+02 ... 1.89625e+02 1.89750e+02
  1.89875e+02]
 [1.90000e+02 1.90125e+02 1.90250e+02 ... 1.94625e+02 1.94750e+02
  1.94875e+02]
 [1.95000e+02 1.95125e+02 1.95250e+02 ... 1.99625e+02 1.99750e+02
  1.99875e+02]]",
    );
    // empty
    check::<f32>(&[], &[0, 3], r"[]");
    // scalar
    check::<f32>(&[0.1], &[], r"0.1");
    // whole scalar
    check::<f32>(&[3.0], &[], r"3.0");
    // tiny scalar
    check::<f32>(&[1.5e-07], &[], r"1.5e-07");
    // integer scalar
    check::<i32>(&[-7], &[], r"-7");
    // rank 4
    check(
        &(0..8).collect::<Vec<i32>>(),
        &[2, 1, 2, 2],
        r"[[[[0 1]
   [2 3]]]


 [[[4 5]
   [6 7]]]]",
    );
    // many digits
    check::<f32>(&[0.123456789, 12.3456789, 0.00123456789], &[3], r"[1.2345679e-01 1.2345679e+01 1.2345678e-03]");
}

#[test]
fn printing_computes_and_debugging_does_not() -> systole::Result<()> {
    let device = Device::simulator()?;
    let x = Tensor::from_slice(&device, &[1.0f32, 4.0], [2])?.sqrt()?;
    assert_eq!(format!("{x:?}"), "Tensor(tensor<2xf32>, pending)");
    assert_eq!(x.to_string(), "[1. 2.]");
    assert_eq!(format!("{x:?}"), "Tensor(tensor<2xf32>,\n[1. 2.])");
    Ok(())
}

#[test]
fn a_failed_value_prints_its_error() -> systole::Result<()> {
    let device = Device::open(Config { faults: Faults::none().fail_launch(0), ..Config::default() })?;
    let x = Tensor::from_slice(&device, &[1.0f32, 4.0], [2])?.sqrt()?;
    let text = x.to_string();
    assert!(text.starts_with("<failed: sqrt(tensor<2xf32>): ") && text.contains("tests/print.rs:"), "{text}");
    Ok(())
}
