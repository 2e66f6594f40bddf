//! The natural logarithm.
//!
//! # Reduction
//!
//! x = 2^e·m with √½ ≤ m < √2, taken from the bits of the `f64`. With f = m − 1 (exact) and s = f/(2 + f),
//! log m = log((1 + s)/(1 − s)), |s| < 0.1716.
//!
//! # Polynomial
//!
//! log((1 + s)/(1 − s)) = 2s + s³·p(s²) with p the interpolant at 7 Chebyshev points of [0, 0.02944]; relative
//! error below 2⁻⁵⁷. As 2s = f − s·f, this is f − (f²/2 − s·(f²/2 + s²·p)), in which the leading f is exact.
//!
//! # Putting together
//!
//! log x = (e·high + f) + (e·low − (f²/2 − s·(…))), with ln 2 = high + low and 42 bits in high. Both e·high and
//! e·high + f are exact: multiples of 2⁻⁴² below 2⁷. The second bracket is below 0.1 and carries all the error, about
//! 2⁻⁵⁶; the sum of the two is formed without error and rounded to odd.

use super::{LN_2_HIGH, LN_2_LOW, NAN, fast_two_sum, round_to_odd};

/// The bits of √½, rounded down.
const SQRT_HALF: u64 = 0x3fe6_a09e_667f_3bcc;
const ONE: u64 = 0x3ff0_0000_0000_0000;
const FRACTION: u64 = (1 << 52) - 1;
/// 2⁵²: the bits of 2⁵² + i for 0 ≤ i < 2⁵² are these bits or i.
const TWO_52: f64 = 4_503_599_627_370_496.0;

/// The natural logarithm of x, correctly rounded.
///
/// log(±0) = −inf, log(+inf) = +inf, log(x) for x < 0 is the canonical NaN.
#[inline(always)]
#[must_use]
pub fn log(x: f32) -> f32 {
    let (high, low) = parts(f64::from(x));
    let (sum, error) = fast_two_sum(high, low);
    let finite = round_to_odd(sum, error) as f32;
    let at_most_infinite = if x < f32::INFINITY { finite } else { x };
    let positive = if x > 0.0 { at_most_infinite } else { NAN };
    if x == 0.0 { f32::NEG_INFINITY } else { positive }
}

/// log x as an exact part of at most 49 bits and the rest, whose error is below 2⁻⁵⁵ and below 2⁻⁵³ of the whole.
///
/// For finite x > 0 that is a normal number; for any other x the two parts mean nothing.
#[inline(always)]
pub(super) fn parts(x: f64) -> (f64, f64) {
    let (exponent, f) = reduce(x);
    let bend = bend(f);
    (exponent * LN_2_HIGH + f, exponent * LN_2_LOW - bend)
}

/// As [`parts`], of 1 + x, given that sum rounded and what the rounding lost. Where the sum needs no reduction, x is
/// what the logarithm bends from, exactly.
#[inline(always)]
pub(super) fn parts_of_sum(x: f64, sum: f64, lost: f64) -> (f64, f64) {
    let (exponent, f) = reduce(sum);
    let f = if exponent == 0.0 { x } else { f };
    let correction = if exponent == 0.0 { 0.0 } else { lost / sum };
    (exponent * LN_2_HIGH + f, exponent * LN_2_LOW + (correction - bend(f)))
}

/// f − log(1 + f), for √½ ≤ 1 + f < √2.
#[inline(always)]
fn bend(f: f64) -> f64 {
    let s = f / (2.0 + f);
    let z = s * s;
    let half_square = 0.5 * f * f;
    half_square - s * (half_square + z * quotient(z))
}

/// The integer e and f = m − 1 with x = 2^e·m and √½ ≤ m < √2.
#[inline(always)]
pub(super) fn reduce(x: f64) -> (f64, f64) {
    let shifted = x.to_bits().wrapping_add(ONE - SQRT_HALF);
    let exponent = f64::from_bits((shifted >> 52) | TWO_52.to_bits()) - (TWO_52 + 1023.0);
    let m = f64::from_bits((shifted & FRACTION).wrapping_add(SQRT_HALF));
    (exponent, m - 1.0)
}

/// (log((1 + s)/(1 − s)) − 2s)/s³, where z = s².
#[inline(always)]
fn quotient(z: f64) -> f64 {
    const P: [f64; 7] = [
        0.666_666_666_666_667,
        0.399_999_999_998_995_05,
        0.285_714_286_259_760_14,
        0.222_222_111_347_085_92,
        0.181_828_891_315_632_04,
        0.153_317_213_910_957_7,
        0.146_164_522_740_621_86,
    ];
    let square = z * z;
    let low = (P[0] + P[1] * z) + (P[2] + P[3] * z) * square;
    let high = (P[4] + P[5] * z) + P[6] * square;
    low + high * (square * square)
}
