//! Clause 2 of the numerics contract: `f32` functions are correctly rounded, and every NaN they make is the canonical one.
//!
//! This is the quick part: all exponents, many significands, the inputs known to be hard. `--example exhaustive` is the
//! complete one.

mod oracle;

use oracle::operands::Random;
use oracle::{Visit, expected_bits};

/// Inputs whose exact result lies nearest to the middle between two `f32`: within 2⁻⁵² of it, relatively.
/// Found with CORE-MATH's `f64` functions over all inputs; for the logistic function a part of the small multiples of
/// 2⁻²³, where ½ + x/4 is the middle.
const HARD: [(&str, &[u32]); 5] = [
    ("exponential", &[0xc169_12cd, 0xbbf0_edf1, 0x377e_ff81]),
    (
        "log",
        &[
            0x1f11_6ab8,
            0x3c41_3d3a,
            0x4117_8feb,
            0x4c5d_65a5,
            0x4d60_4ebe,
            0x65d8_90d3,
            0x66a8_c860,
            0x6f31_a8ec,
            0x0dc8_bba4,
            0x111c_87f8,
            0x2c4c_24b7,
            0x38dc_be38,
            0x3bf8_6ef0,
            0x4665_a9a6,
            0x5ee8_984e,
            0x79e7_ec37,
        ],
    ),
    ("tanh", &[]),
    (
        "logistic",
        &[
            0x3400_0000,
            0x34c0_0000,
            0x3520_0000,
            0x3560_0000,
            0x3590_0000,
            0x35b0_0000,
            0x35d0_0000,
            0x35f0_0000,
            0x3608_0000,
            0x3618_0000,
            0x3628_0000,
            0x3638_0000,
            0xb380_0000,
            0xb440_0000,
            0xb4a0_0000,
            0xb4e0_0000,
        ],
    ),
    ("rsqrt", &[0x3f3a_18e3]),
];

struct Check {
    inputs: u64,
}

impl Visit for Check {
    fn unary(&mut self, name: &'static str, function: impl Fn(f32) -> f32 + Sync, oracle: impl Fn(f32) -> f32 + Sync) {
        let mut check = |bits: u32| {
            let x = f32::from_bits(bits);
            let (got, wanted) = (function(x).to_bits(), expected_bits(oracle(x)));
            assert_eq!(got, wanted, "{name}({x:e} = {bits:#010x}) gives {got:#010x}, not {wanted:#010x}");
            self.inputs += 1;
        };
        for sign_and_exponent in 0..512u32 {
            let first = sign_and_exponent << 23;
            // The ends of the binade, then an odd stride that meets every residue.
            (0..64).for_each(|i| check(first + i));
            (0..64).for_each(|i| check(first + 0x7f_ffff - i));
            (0..0x80_0000).step_by(1031).for_each(|i| check(first + i));
        }
        for (_, hard) in HARD.iter().filter(|(of, _)| *of == name) {
            for bits in hard.iter().flat_map(|bits| bits - 8..=bits + 8) {
                check(bits);
                check(bits ^ 0x8000_0000);
            }
        }
    }
}

#[test]
fn unary_functions_round_correctly() {
    let mut check = Check { inputs: 0 };
    oracle::each_unary(&mut check);
    assert!(check.inputs > 6 * 4_000_000);
}

#[test]
fn functions_of_several_arguments_round_correctly() {
    for (name, trial) in oracle::TRIALS {
        let mut random = Random(0);
        for i in 0..4_000_000 {
            if let Some(mismatch) = trial(&mut random) {
                panic!("{name}, trial {i}: {mismatch}");
            }
        }
    }
}

/// The small multiples of 2⁻²⁴ put the logistic function's linear part on the middle between two results, all of them.
#[test]
fn logistic_is_decided_by_its_cubic_term() {
    for multiple in 1..1 << 16 {
        for x in [multiple as f32 * 2.0f32.powi(-24), multiple as f32 * -(2.0f32.powi(-24))] {
            assert_eq!(systole_kernels::numerics::logistic(x).to_bits(), oracle::logistic(x).to_bits(), "x = {x:e}");
        }
    }
}

#[test]
fn special_values() {
    use systole_kernels::numerics::{NAN, canonical, exponential, log, logistic, power, remainder, rsqrt, sqrt, tanh};
    const INF: f32 = f32::INFINITY;
    let cases: [(f32, f32); 35] = [
        (exponential(-INF), 0.0),
        (exponential(INF), INF),
        (exponential(-0.0), 1.0),
        (exponential(-103.98), 0.0),
        (exponential(-103.97), f32::from_bits(1)),
        (log(-0.0), -INF),
        (log(0.0), -INF),
        (log(1.0), 0.0),
        (log(INF), INF),
        (log(-INF), NAN),
        (log(-1.0), NAN),
        (tanh(-0.0), -0.0),
        (tanh(-INF), -1.0),
        (tanh(f32::from_bits(0x8000_0001)), f32::from_bits(0x8000_0001)),
        (logistic(INF), 1.0),
        (logistic(-INF), 0.0),
        (logistic(-0.0), 0.5),
        (sqrt(-0.0), -0.0),
        (sqrt(-1.0), NAN),
        (sqrt(f32::from_bits(0xffc0_1234)), NAN),
        (rsqrt(-0.0), -INF),
        (rsqrt(0.0), INF),
        (rsqrt(INF), 0.0),
        (rsqrt(-1.0), NAN),
        (power(f32::NAN, -0.0), 1.0),
        (power(1.0, f32::NAN), 1.0),
        (power(-1.0, -INF), 1.0),
        (power(-0.0, -3.0), -INF),
        (power(-0.0, 2.0), 0.0),
        (power(-INF, 3.0), -INF),
        (power(-8.0, 0.333_333_34), NAN),
        (power(2.0, -150.0), 0.0),
        (power(-0.5, 149.0), f32::from_bits(0x8000_0001)),
        (remainder(-6.0, 3.0), -0.0),
        (canonical(f32::from_bits(0xff80_0001)), NAN),
    ];
    for (i, (got, wanted)) in cases.into_iter().enumerate() {
        assert_eq!(got.to_bits(), wanted.to_bits(), "case {i}: {got:e}, not {wanted:e}");
    }
}
