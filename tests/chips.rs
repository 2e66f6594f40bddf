//! The chips of docs/numerics.md, clause by clause, on devices in every mode: values worked out by hand, and the tables
//! that others measured on a v4.

use systole::{
    Config, DType, Device, DotDims, Element, Mode, Precision, Result, Tensor, bf16, f16, with_mode, with_precision,
};

const CHIPS: [&str; 5] = ["v4", "v5e", "v5p", "v6e", "v7x"];
const NAN: f32 = f32::from_bits(0x7fc0_0000);
/// The least normal number, 2^−126.
const TINY: f32 = f32::MIN_POSITIVE;
/// The largest subnormal.
const SUB: f32 = f32::from_bits(0x007f_ffff);

fn open(profile: &str) -> Device {
    Device::open(Config { profile: profile.to_owned(), ..Config::default() }).expect("the profile opens")
}

/// Holds the result's bits, on each of the profiles, in every mode.
fn check<T: Element>(profiles: &[&str], expected: &[T], compute: impl Fn(&Device) -> Result<Tensor>) {
    let text = |elements: &[T]| -> Vec<String> {
        elements.iter().map(|&element| format!("{:#x} ({element:?})", element.to_scalar().bits())).collect()
    };
    for profile in profiles {
        let device = open(profile);
        for mode in Mode::ALL {
            let found = with_mode(mode, || compute(&device)?.to_vec::<T>()).expect("it runs");
            assert_eq!(text(&found), text(expected), "{profile}, {mode}");
        }
    }
}

fn row<T: Element>(device: &Device, elements: &[T]) -> Result<Tensor> {
    Tensor::from_slice(device, elements, [elements.len()])
}

fn bf(elements: &[f32]) -> Vec<bf16> {
    elements.iter().map(|&x| bf16::from_f32(x)).collect()
}

#[test]
fn n26_arithmetic_reads_and_writes_subnormals_as_zeros() {
    let unary = |xs: &[f32], expected: &[f32], op: fn(&Tensor) -> Result<Tensor>| {
        check(&CHIPS, expected, |device| op(&row(device, xs)?));
    };
    unary(&[SUB, -SUB, TINY], &[0.0, -0.0, TINY], |x| x.mul(1.0));
    unary(&[TINY, -TINY, 2.0 * TINY], &[0.0, -0.0, TINY], |x| x.mul(0.5));
    unary(&[1.5 * TINY], &[0.0], |x| x.sub(TINY));
    unary(&[SUB, -SUB], &[0.0, -0.0], Tensor::sign);
    unary(&[SUB, -SUB], &[0.0, -0.0], Tensor::floor);
    unary(&[SUB, -SUB], &[0.0, -0.0], Tensor::ceil);
    unary(&[SUB, -SUB], &[0.0, -0.0], Tensor::sqrt);
    unary(&[SUB, -SUB], &[f32::INFINITY, -f32::INFINITY], Tensor::rsqrt);
    unary(&[SUB, -SUB], &[-f32::INFINITY; 2], Tensor::log);
    unary(&[-88.0, -87.0], &[0.0, (-87f32).exp()], Tensor::exp);
    unary(&[SUB, -SUB], &[0.0, -0.0], |x| x.maximum(-1.0));
    unary(&[SUB, NAN, f32::from_bits(0xff81_2345)], &[0.0, NAN, NAN], |x| x.clamp(-1.0, 1.0));
    // One after another, so that a fused program has no memory between them: 2⁻¹²⁷ would come back as 2⁻¹²⁶.
    unary(&[TINY], &[0.0], |x| x.mul(0.5)?.mul(2.0));
}

#[test]
fn n26_what_moves_bits_moves_subnormals() {
    let payload = f32::from_bits(0xff81_2345);
    let through = |xs: &[f32], expected: &[f32], op: fn(&Tensor) -> Result<Tensor>| {
        check(&CHIPS, expected, |device| op(&row(device, xs)?));
    };
    through(&[SUB, 0.0, payload], &[-SUB, -0.0, f32::from_bits(0x7f81_2345)], Tensor::neg);
    through(&[-SUB, -0.0], &[SUB, 0.0], Tensor::abs);
    through(&[SUB, payload], &[SUB, payload], |x| x.reshape([2, 1])?.t());
    through(&[SUB, -1.0], &[SUB, -1.0], |x| x.lt(0.0)?.select(x, x));
    check(&CHIPS, &[true, false, true], |device| row(device, &[SUB, 0.0, TINY])?.gt(0.0));
    check(&CHIPS, &[true, false], |device| row(device, &[SUB, NAN])?.is_finite());
}

#[test]
fn n26_bf16_is_flushed_before_it_is_rounded_and_f16_not_at_all() {
    // 255/256 · 2^−126 is halfway to the least normal, and rounds to it unless it is flushed first.
    let below = bf(&[255.0 / 256.0]);
    check(&["ieee"], &[bf16::from_bits(0x0080)], |device| row(device, &below)?.mul(bf16::from_bits(0x0080)));
    check(&CHIPS, &[bf16::from_bits(0)], |device| row(device, &below)?.mul(bf16::from_bits(0x0080)));
    check(&CHIPS, &bf(&[0.0, -0.0]), |device| {
        row(device, &[bf16::from_bits(0x007f), bf16::from_bits(0x8001)])?.mul(bf16::from_f32(1.0))
    });
    let least = f16::from_bits(1);
    check(&CHIPS, &[f16::from_bits(2)], |device| row(device, &[least])?.add(least));
}

#[test]
fn n26_sums_are_flushed_at_their_edges_only() {
    let sum = |elements: &[f32], expected: f32| {
        check(&CHIPS, &[expected], |device| row(device, elements)?.sum(0));
    };
    sum(&[SUB; 4], 0.0);
    sum(&[1.5 * TINY, -TINY], 0.0);
    // Two halves of the least normal, in the tree.
    sum(&[1.5 * TINY, 1.5 * TINY, -TINY, -TINY], TINY);
    check(&CHIPS, &[-0.0f32], |device| row(device, &[-SUB, -SUB])?.max(0));
    check(&CHIPS, &bf(&[0.0]), |device| row(device, &[bf16::from_bits(0x0100), bf16::from_bits(0x80ff)])?.sum(0));
}

#[test]
fn n27_subnormals_and_zeros_are_alike_to_argmax() {
    check(&["ieee"], &[1i32], |device| row(device, &[0.0, SUB, -1.0])?.argmax(0));
    check(&CHIPS, &[0i32], |device| row(device, &[0.0, SUB, -1.0])?.argmax(0));
    check(&CHIPS, &[1i32], |device| row(device, &[TINY, -SUB, 0.0])?.argmin(0));
}

/// The inner product of two vectors.
fn inner<T: Element>(device: &Device, precision: Precision, a: &[T], b: &[T]) -> Result<Tensor> {
    with_precision(precision, || row(device, a)?.matmul(&row(device, b)?))
}

#[test]
fn n27_factors_are_bf16_by_precision() {
    let dot = |a: &[f32], b: &[f32], expected: [f32; 3]| {
        for (precision, expected) in Precision::ALL.into_iter().zip(expected) {
            check(&CHIPS, &[expected], |device| inner(device, precision, a, b));
        }
    };
    let [p8, p10, p20] = [-8, -10, -20].map(|exponent| 2f32.powi(exponent));
    // To nearest, ties to even.
    dot(&[1.0 + p8], &[1.0], [1.0, 1.0 + p8, 1.0 + p8]);
    dot(&[1.0 + 3.0 * p8], &[1.0], [1.0 + 4.0 * p8, 1.0 + 3.0 * p8, 1.0 + 3.0 * p8]);
    // The product of the lesser parts is HIGHEST's alone, and so is the third part.
    dot(&[1.0 + p10], &[1.0 + p10], [1.0, 1.0 + 2.0 * p10, 1.0 + 2.0 * p10 + p20]);
    dot(&[1.0 + p10 + p20], &[1.0], [1.0, 1.0 + p10, 1.0 + p10 + p20]);
    dot(&[1.0], &[1.0 + p10 + p20], [1.0, 1.0 + p10, 1.0 + p10 + p20]);
    // Parts of an infinity are NaN, and do not spoil it.
    dot(&[f32::INFINITY], &[1.0 + p10], [f32::INFINITY; 3]);
    // Rounded up, the lesser part of two makes it infinite.
    dot(&[f32::MAX], &[1.0], [f32::INFINITY, f32::INFINITY, f32::MAX]);
    dot(&[f32::INFINITY], &[0.0], [NAN; 3]);
    dot(&[f32::from_bits(0xff80_0001)], &[1.0], [NAN; 3]);
    // Flushed as it is read and written, not on the way.
    dot(&[SUB], &[2f32.powi(100)], [0.0; 3]);
    dot(&[TINY], &[0.5], [0.0; 3]);
    dot(&[TINY, TINY], &[0.5, 0.5], [TINY; 3]);
    dot(&[], &[], [0.0; 3]);
}

#[test]
fn n27_chains_are_as_long_as_the_unit_is_deep() {
    // 2^24 swallows the ones of its own chain.
    let mut ones = vec![1.0f32; 512];
    ones[0] = 2f32.powi(24);
    for (profiles, counted) in [(&["ieee", "v4", "v5e", "v5p"][..], 384.0), (&["v6e", "v7x"][..], 256.0)] {
        for precision in Precision::ALL {
            check(profiles, &[2f32.powi(24) + counted], |device| inner(device, precision, &ones, &[1.0; 512]));
        }
    }
}

#[test]
fn n27_precision_is_for_factors_that_are_no_bf16() {
    let x = bf16::from_bits(0x3f81);
    for precision in Precision::ALL {
        check(&CHIPS, &bf(&[1.015_625]), |device| inner(device, precision, &[x], &[x]));
        check(&["ieee"], &[1.0 + 2f32.powi(-9) + 2f32.powi(-20)], |device| {
            inner(device, precision, &[1.0 + 2f32.powi(-10)], &[1.0 + 2f32.powi(-10)])
        });
        check(&CHIPS, &[35i32], |device| inner(device, precision, &[3, 4], &[5, 5]));
    }
    // f16 has three bits more.
    let y = f16::from_f32(1.0 + 2f32.powi(-10));
    let one = f16::from_f32(1.0);
    check(&CHIPS, &[one], |device| inner(device, Precision::Default, &[y], &[one]));
    check(&CHIPS, &[y], |device| inner(device, Precision::High, &[y], &[one]));
    // Sums as they are.
    let wide = || DotDims {
        lhs_contracting: [0].into_iter().collect(),
        rhs_contracting: [0].into_iter().collect(),
        result: Some(DType::F32),
        ..DotDims::default()
    };
    check(&CHIPS, &[1.0 + 2f32.powi(-6) + 2f32.powi(-14)], |device| {
        row(device, &[x])?.dot_general(&row(device, &[x])?, wide())
    });
}

/// A row of a matrix product does not depend on the others, nor on their number.
#[test]
fn n27_a_row_alone_has_the_bits_that_it_has_in_a_batch() -> Result<()> {
    let number = |i: usize| ((i * 7919 % 2003) as f32 - 1000.0) / 317.0;
    let a: Vec<f32> = (0..40 * 300).map(number).collect();
    let b: Vec<f32> = (0..300 * 24).map(|i| number(i + 5)).collect();
    for profile in ["v5e", "v6e"] {
        let device = open(profile);
        let b = Tensor::from_slice(&device, &b, [300, 24])?;
        for precision in Precision::ALL {
            with_precision(precision, || -> Result<()> {
                let all = Tensor::from_slice(&device, &a, [40, 300])?.matmul(&b)?.to_vec::<f32>()?;
                for row in [0, 17, 39] {
                    let alone = Tensor::from_slice(&device, &a[row * 300..][..300], [1, 300])?.matmul(&b)?;
                    assert_eq!(alone.to_vec::<f32>()?, all[row * 24..][..24], "{profile}, {precision:?}, row {row}");
                }
                Ok(())
            })?;
        }
    }
    Ok(())
}

/// github.com/ayaka14732/pallas-tpu-tutorial, chapter01/05_dtype_conversion: bits in, bits out, as measured on a v4.
#[test]
fn n28_converts_follow_the_measured_tables() {
    let to_bf16 = [
        (0x3f80_8000, 0x3f80),
        (0x3f81_8000, 0x3f82),
        (0x3f80_8001, 0x3f81),
        (0x7f7f_ffff, 0x7f80),
        (0x007f_ffff, 0x0000),
        (0x807f_ffff, 0x8000),
        (0x0000_0001, 0x0000),
        (0x8000_0000, 0x8000),
        (0x0080_0000, 0x0080),
        (0x7fc0_0000, 0x7fc0),
        (0xffc0_0000, 0x7fc0),
        (0x7f80_0001, 0x7fc0),
        (0xff80_0000, 0xff80),
    ];
    let wide = to_bf16.map(|(from, _)| f32::from_bits(from));
    check(&CHIPS, &to_bf16.map(|(_, to)| bf16::from_bits(to)), |device| row(device, &wide)?.convert(DType::BF16));

    let to_f32 = [(0x0001, 0x0001_0000), (0x807f, 0x807f_0000), (0x7f81, 0x7f81_0000), (0xffc1, 0xffc1_0000)];
    let narrow = to_f32.map(|(from, _)| bf16::from_bits(from));
    check(&CHIPS, &to_f32.map(|(_, to)| f32::from_bits(to)), |device| row(device, &narrow)?.convert(DType::F32));

    let to_i32 = [
        (2.9, 2),
        (-2.9, -2),
        (3e9, i32::MAX),
        (-3e9, i32::MIN),
        (f32::INFINITY, i32::MAX),
        (-f32::INFINITY, i32::MIN),
        (NAN, i32::MAX),
        (-NAN, i32::MAX),
        (SUB, 0),
    ];
    let floats = to_i32.map(|(from, _)| from);
    check(&CHIPS, &to_i32.map(|(_, to)| to), |device| row(device, &floats)?.convert(DType::I32));

    check(&CHIPS, &[16_777_216.0f32, 16_777_220.0], |device| {
        row(device, &[16_777_217i32, 16_777_219])?.convert(DType::F32)
    });
    check(&CHIPS, &[false, true], |device| row(device, &[SUB, TINY])?.convert(DType::Bool));
    check(&["ieee"], &[true, true], |device| row(device, &[SUB, TINY])?.convert(DType::Bool));
}

#[test]
fn every_profile_has_its_chips_memory() {
    let gib = |profile: &str| open(profile).capabilities().memory_limit >> 30;
    assert_eq!(Device::profiles(), ["ieee", "v4", "v5e", "v5p", "v6e", "v7x"]);
    assert_eq!(CHIPS.map(gib), [32, 16, 95, 32, 96]);
    let error = Tensor::zeros(&open("v5e"), DType::F32, [5, 1 << 30]).and_then(|x| x.add(1.0)?.to_vec::<f32>());
    let message = error.expect_err("20 GiB do not fit into 16").to_string();
    assert!(message.contains("memory"), "{message}");
}
