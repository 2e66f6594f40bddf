//! Ops that move elements, through the public methods, in every mode; and what a new position costs.

use expect_test::{Expect, expect};
use systole::{
    Attrs, Config, DType, Device, GatherDims, Mode, Opcode, Origin, Result, Stream, Tensor, bf16, with_mode,
};

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
fn bits_survive_a_bitcast() -> Result<()> {
    let device = open();
    // Quiet and signalling NaNs with payloads, a subnormal, both zeros.
    let words = [0x7fc0_1234u32, 0xffa0_0001, 1, 0x8000_0000, 0, 0x3f80_0000];
    let halves: Vec<bf16> = [0x7f81u16, 0xffff, 1, 0x8000].into_iter().map(bf16::from_bits).collect();
    for mode in Mode::ALL {
        with_mode(mode, || {
            let x = Tensor::from_slice(&device, &words, [2, 3])?;
            let floats = x.bitcast_convert(DType::F32)?;
            assert_eq!(floats.bitcast_convert(DType::U32)?.to_vec::<u32>()?, words, "{mode}");
            assert_eq!(floats.to_vec::<f32>()?.iter().map(|x| x.to_bits()).collect::<Vec<_>>(), words, "{mode}");
            // Amid others: the absolute value by its bits.
            let mask = Tensor::full(&device, 0x7fff_ffffu32, [2, 3])?;
            let magnitude = floats.bitcast_convert(DType::U32)?.and(&mask)?.bitcast_convert(DType::F32)?.mul(2.0)?;
            assert_eq!(magnitude.narrow(0, 1, 1)?.to_vec::<f32>()?, [0.0, 0.0, 2.0], "{mode}");
            let narrow = Tensor::from_slice(&device, &halves, [4])?.bitcast_convert(DType::F16)?;
            let back = narrow.bitcast_convert(DType::BF16)?.to_vec::<bf16>()?;
            assert!(back.iter().map(|x| x.to_bits()).eq(halves.iter().map(|x| x.to_bits())), "{mode}");
            Ok(())
        })?;
    }
    Ok(())
}

/// A collapsed slice of no elements is right where the result has none either, also of an operand without elements.
#[test]
fn gathers_of_nothing() -> Result<()> {
    let device = open();
    let dims = GatherDims {
        offset_dims: [1].into_iter().collect(),
        collapsed_slice_dims: [0].into_iter().collect(),
        start_index_map: [0].into_iter().collect(),
        index_vector_dim: 1,
        slice_sizes: [0, 2].into_iter().collect(),
        ..GatherDims::default()
    };
    let gather = |operand: &Tensor, indices: &Tensor| -> Result<Tensor> {
        let attrs = Attrs::Gather(Box::new(dims.clone()));
        let origin = Origin::Named("here".into());
        let mut results = Stream::current(&device).record(
            Opcode::Gather,
            &[operand, indices],
            attrs,
            std::iter::empty().collect(),
            origin,
        )?;
        Ok(results.remove(0))
    };
    let none = Tensor::from_slice(&device, &[0i32; 0], [0])?;
    let some = Tensor::from_slice(&device, &[7i32, 0], [2])?;
    for mode in Mode::ALL {
        with_mode(mode, || {
            for rows in [0, 3] {
                let table = numbers(&device, &[rows, 2])?;
                assert_eq!(gather(&table, &none)?.add(1.0)?.to_vec::<f32>()?, [0.0; 0], "{mode}");
                let refused = gather(&table, &some).expect_err("a row of none");
                assert!(refused.to_string().contains("slice size 0 in dimension 0"), "{refused}");
            }
            Ok(())
        })?;
    }
    Ok(())
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

/// Each operand used to be looked for in all others, which took seconds for hundreds of them.
#[test]
fn thousands_of_operands_are_concatenated() -> Result<()> {
    for mode in Mode::ALL {
        let device = Device::open(Config { mode, ..Config::default() })?;
        let numbers: Vec<i32> = (0..4000).collect();
        let parts =
            numbers.iter().map(|number| Tensor::from_slice(&device, &[*number], [1])).collect::<Result<Vec<_>>>()?;
        let whole = Tensor::concatenate(&parts.iter().collect::<Vec<_>>(), 0)?;
        assert_eq!(whole.to_vec::<i32>()?, numbers, "{mode}");
        let again = Tensor::stack(&vec![&parts[7]; 4000], 1)?;
        assert_eq!(again.to_vec::<i32>()?, [7; 4000], "{mode}");
    }
    Ok(())
}
