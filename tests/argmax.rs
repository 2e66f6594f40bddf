//! argmax and argmin through the public methods, in every mode (N26).

use systole::{Config, DType, Device, Element, Mode, Result, Tensor, bf16, with_mode};

/// What argmax and argmin along `axis` give, in every mode, alone and at the end of a chain.
fn check<T: Element>(shape: &[usize], elements: &[T], axis: isize, argmax: &[i32], argmin: &[i32]) -> Result<()> {
    let device = Device::open(Config::default())?;
    for mode in Mode::ALL {
        with_mode(mode, || {
            let x = Tensor::from_slice(&device, elements, shape.to_vec())?;
            assert_eq!(x.argmax(axis)?.to_vec::<i32>()?, argmax, "{mode} argmax of {elements:?}");
            assert_eq!(x.argmin(axis)?.to_vec::<i32>()?, argmin, "{mode} argmin of {elements:?}");
            let kept = x.argmax_keepdims(axis)?;
            assert_eq!(kept.rank(), x.rank());
            assert_eq!(kept.to_vec::<i32>()?, argmax, "{mode}");
            assert_eq!(x.argmin_keepdims(axis)?.add(0)?.to_vec::<i32>()?, argmin, "{mode}");
            Ok(())
        })?;
    }
    Ok(())
}

const NAN: f32 = f32::NAN;
const INF: f32 = f32::INFINITY;

#[test]
fn the_first_of_equal_elements() -> Result<()> {
    check(&[4], &[1.0f32, 3.0, 3.0, 1.0], 0, &[1], &[0])?;
    check(&[2, 3], &[1.0f32, 2.0, 2.0, -5.0, -5.0, -7.0], -1, &[1, 0], &[0, 2])?;
    check(&[2, 3], &[1.0f32, 2.0, 2.0, -5.0, 2.0, -7.0], 0, &[0, 0, 0], &[1, 0, 1])?;
    check(&[3], &[-0.0f32, 0.0, -0.0], 0, &[0], &[0])?;
    check(&[3], &[0.0f32, -0.0, 0.0], 0, &[0], &[0])?;
    check(&[2], &[-INF, -INF], 0, &[0], &[0])?;
    check(&[2], &[INF, INF], 0, &[0], &[0])?;
    check(&[1, 3], &[7i32, 7, i32::MIN], 0, &[0, 0, 0], &[0, 0, 0])?;
    check(&[4], &[i64::MIN, i64::MAX, 1 << 40, i64::MAX], 0, &[1], &[0])?;
    check(&[3], &[5u32, u32::MAX, 0], 0, &[1], &[2])?;
    check(&[3], &[false, true, true], 0, &[1], &[0])?;
    check(&[3], &[bf16::from_f32(1.5), bf16::from_f32(-1.5), bf16::from_f32(1.5)], 0, &[0], &[1])
}

#[test]
fn the_first_nan() -> Result<()> {
    check(&[4], &[1.0, NAN, INF, -NAN], 0, &[1], &[1])?;
    check(&[2, 2], &[NAN, 5.0, 5.0, NAN], 1, &[0, 1], &[0, 1])?;
    // Far apart: the element of the first lane has the higher index.
    let mut row = vec![0.0f32; 3000];
    (row[2048], row[1]) = (NAN, NAN);
    check(&[3000], &row, 0, &[1], &[1])?;
    check(&[3000, 1], &row, 0, &[1], &[1])
}

#[test]
fn of_long_rows_and_columns() -> Result<()> {
    let elements: Vec<f32> = (0..200_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 8) as f32).collect();
    let of = |positions: &mut dyn Iterator<Item = usize>| {
        let (mut most, mut least) = (0, 0);
        let column: Vec<f32> = positions.map(|at| elements[at]).collect();
        for (i, &x) in column.iter().enumerate() {
            most = if x > column[most] { i } else { most };
            least = if x < column[least] { i } else { least };
        }
        (most as i32, least as i32)
    };
    for (rows, cols) in [(2, 100_000), (100_000, 2), (400, 500)] {
        let (across, down): (Vec<_>, Vec<_>) = (
            (0..rows).map(|r| of(&mut (r * cols..(r + 1) * cols))).collect(),
            (0..cols).map(|c| of(&mut (0..rows).map(|r| r * cols + c))).collect(),
        );
        let unzip = |pairs: Vec<(i32, i32)>| -> (Vec<i32>, Vec<i32>) { pairs.into_iter().unzip() };
        let ((most, least), (top, bottom)) = (unzip(across), unzip(down));
        check(&[rows, cols], &elements, 1, &most, &least)?;
        check(&[rows, cols], &elements, 0, &top, &bottom)?;
    }
    Ok(())
}

#[test]
fn what_is_computed_before_is_not_stored() -> Result<()> {
    let device = Device::open(Config::default())?;
    let x = Tensor::from_slice(&device, &[1.0f32, 5.0, -2.0, -9.0, 0.0, 3.0], [2, 3])?;
    device.synchronize()?;
    let before = device.stats().launches;
    let index = x.mul(2.0)?.abs()?.add(1.0)?.argmax(-1)?;
    assert_eq!(index.to_vec::<i32>()?, [1, 0]);
    assert_eq!(device.stats().launches - before, 1, "one program");
    let shifted = index.convert(DType::F32)?.add(0.5)?;
    assert_eq!(shifted.to_vec::<f32>()?, [1.5, 0.5]);
    Ok(())
}
