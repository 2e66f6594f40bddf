//! Ops that move elements, through the public methods, in every mode; and what a new position costs.

use expect_test::{Expect, expect};
use systole::{Config, DType, Device, Mode, Result, Tensor, with_mode};

fn open() -> Device {
    Device::open(Config::default()).expect("a simulator opens")
}

fn numbers(device: &Device, shape: &[usize]) -> Result<Tensor> {
    let count: usize = shape.iter().product();
    let elements: Vec<f32> = (0..count).map(|i| i as f32).collect();
    Tensor::from_slice(device, &elements, shape.to_vec())
}

/// Compares what `body` gives in every mode.
#[allow(clippy::needless_pass_by_value, reason = "reads as a table of cases")]
fn check(body: impl Fn(&Device) -> Result<Tensor>, expected: &[f32]) -> Result<()> {
    let device = open();
    for mode in Mode::ALL {
        let found = with_mode(mode, || body(&device)?.to_vec::<f32>())?;
        assert_eq!(found, expected, "{mode}");
    }
    Ok(())
}

#[test]
fn reverse() -> Result<()> {
    check(|d| numbers(d, &[2, 3])?.reverse(-1), &[2.0, 1.0, 0.0, 5.0, 4.0, 3.0])?;
    check(|d| numbers(d, &[2, 3])?.reverse(..)?.neg(), &[-5.0, -4.0, -3.0, -2.0, -1.0, -0.0])?;
    check(|d| numbers(d, &[1, 3])?.reverse([0])?.add(1.0), &[1.0, 2.0, 3.0])?;
    check(|d| numbers(d, &[0, 3])?.reverse(..)?.add(1.0), &[])?;
    // Of a slice, of a transpose, of a sequence; under a sum.
    check(|d| numbers(d, &[3, 3])?.narrow(0, 1, 2)?.reverse([0, 1])?.mul(2.0), &[16.0, 14.0, 12.0, 10.0, 8.0, 6.0])?;
    check(|d| numbers(d, &[2, 3])?.transpose(&[1, 0])?.reverse(0)?.mul(2.0), &[4.0, 10.0, 2.0, 8.0, 0.0, 6.0])?;
    check(|d| Tensor::iota(d, DType::F32, [4], 0)?.reverse(0)?.mul(2.0), &[6.0, 4.0, 2.0, 0.0])?;
    check(|d| numbers(d, &[2, 2])?.reverse(1)?.sum(0), &[4.0, 2.0])
}

#[test]
fn dynamic_slices() -> Result<()> {
    check(|d| numbers(d, &[3, 4])?.dynamic_slice(&[1i64, 2], [2, 2]), &[6.0, 7.0, 10.0, 11.0])?;
    // With what is computed around it.
    check(|d| numbers(d, &[3, 4])?.add(1.0)?.dynamic_slice(&[0i32, 1], [3, 2])?.mul(2.0)?.sum(0), &[36.0, 42.0])?;
    check(
        |d| {
            let start = Tensor::scalar(d, 1i32)?.add(1)?;
            numbers(d, &[4, 2])?.dynamic_slice(&[&start, &Tensor::scalar(d, 0i32)?], [1, 2])
        },
        &[4.0, 5.0],
    )?;
    check(|d| numbers(d, &[])?.dynamic_slice(&[0i64; 0], [])?.add(1.0), &[1.0])
}

#[test]
fn dynamic_updates() -> Result<()> {
    let minus = |d: &Device, shape: &[usize]| numbers(d, shape)?.add(1.0)?.neg();
    let update = |x: Tensor, update: Tensor, starts: [i64; 2]| x.dynamic_update_slice(&update, &starts);
    check(|d| update(numbers(d, &[3, 2])?, minus(d, &[1, 2])?, [1, 0]), &[0.0, 1.0, -1.0, -2.0, 4.0, 5.0])?;
    check(|d| update(numbers(d, &[2, 3])?.mul(2.0)?, minus(d, &[2, 1])?, [0, 2])?.sum(-1), &[1.0, 12.0])?;
    check(|d| update(Tensor::zeros(d, DType::F32, [1, 2])?, minus(d, &[1, 2])?, [0, 0]), &[-1.0, -2.0])?;
    check(|d| update(numbers(d, &[2, 2])?, minus(d, &[0, 2])?, [1, 0]), &[0.0, 1.0, 2.0, 3.0])
}

#[test]
fn a_new_position_builds_nothing() -> Result<()> {
    let device = open();
    let mut cache = Tensor::zeros(&device, DType::F32, [64, 8])?;
    let mut built = Vec::new();
    for position in 0..64i64 {
        let row = numbers(&device, &[1, 8])?.add(position as f32)?;
        cache = cache.dynamic_update_slice(&row, &[position, 0])?;
        let first = (position / 2).max(1);
        let read = cache.dynamic_slice(&[first, 0], [2, 8])?.sum(..)?.item::<f32>()?;
        let expected: f32 = (first..first + 2).filter(|&at| at <= position).map(|at| 28.0 + 8.0 * at as f32).sum();
        assert_eq!(read, expected, "position {position}");
        let stats = device.stats();
        built.push((stats.plans.builds, stats.programs.builds));
    }
    assert!(built[2..].iter().all(|&now| now == built[2]), "{built:?}");
    Ok(())
}

#[allow(clippy::needless_pass_by_value, reason = "reads as a table of cases")]
fn reported(result: Result<Tensor>, expected: Expect) {
    let text = result.expect_err("a start out of range").to_string();
    expected.assert_eq(text.split(" (at ").next().unwrap_or_default());
}

#[test]
fn starts_out_of_range_clamp_and_are_reported() -> Result<()> {
    let device = open();
    let x = numbers(&device, &[3, 2])?;
    let slice = || x.dynamic_slice(&[2i64, 0], [2, 2]);
    let update = || x.dynamic_update_slice(&numbers(&device, &[1, 2])?, &[0i64, -1]);
    for mode in [Mode::Strict, Mode::Fused] {
        assert_eq!(with_mode(mode, || slice()?.to_vec::<f32>())?, [2.0, 3.0, 4.0, 5.0]);
        assert_eq!(with_mode(mode, || update()?.to_vec::<f32>())?, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    }
    with_mode(Mode::Debug, || {
        reported(
            slice(),
            expect![
                "dynamic_slice(tensor<3x2xf32>, tensor<i64>, tensor<i64>): start index 2 is outside 0..=1 of dimension 0"
            ],
        );
        reported(
            update(),
            expect![
                "dynamic_update_slice(tensor<3x2xf32>, tensor<1x2xf32>, tensor<i64>, tensor<i64>): start index -1 is outside 0..=0 of dimension 1"
            ],
        );
    });
    reported(
        x.dynamic_slice(&[0.5f64, 1.0], [1, 1]),
        expect!["dynamic_slice(tensor<3x2xf32>): 0.5 is no i64, the dtype of the tensor it meets"],
    );
    reported(x.reverse([0, 2]), expect!["reverse(tensor<3x2xf32>): no dimension 2 in rank 2"]);
    Ok(())
}
