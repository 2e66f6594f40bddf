//! Sine and cosine.
//!
//! # Reduction
//!
//! x = k·π/2 + r with |r| ≤ π/4, r as a sum of two `f64`.
//!
//! * |x| < 2²⁰: π/2 in three parts, of which the first two have 33 bits: their products with k are exact, so are the
//!   differences that cancel, and r has an absolute error far below 2⁻⁸⁰. The `f32` nearest to a multiple of π/2 in
//!   this range is 2⁻³⁰ or so away from it.
//! * beyond: x = m·2^e with a 24-bit integer m. Of the places of 2/π those that give multiples of four quadrants do not
//!   matter, and the 128 after them decide: one product of integers (Payne and Hanek, 1983). Its fraction goes to a sum
//!   of two `f64`, times π/2.
//!
//! # Polynomials
//!
//! sin r = r + r³·s(r²), cos r = 1 − r²/2 + r⁴·c(r²); s and c interpolate at 8 and 7 Chebyshev points of [0, π²/16];
//! errors below 2⁻⁵⁶ and 2⁻⁵⁸. The low part of r enters as low·cos r, −low·sin r. The last sum is formed without error
//! and rounded to odd.

use super::double_double::{DoubleDouble, two_product};
use super::{NAN, ROUND, fast_two_sum, round_to_odd, two_sum};

const TWO_OVER_PI: f64 = std::f64::consts::FRAC_2_PI;
/// π/2 in three parts.
const HALF_PI: [f64; 3] = [1.570_796_326_734_125_6, 6.077_100_506_303_966e-11, 2.022_266_248_795_950_6e-21];
/// π/2 as a sum of two.
const HALF_PI_HIGH: f64 = std::f64::consts::FRAC_PI_2;
const HALF_PI_LOW: f64 = 6.123_233_995_736_766e-17;

/// The bits of 2/π after the point.
const TWO_OVER_PI_WORDS: [u32; 9] = [
    0xa2f9_836e,
    0x4e44_1529,
    0xfc27_57d1,
    0xf534_ddc0,
    0xdb62_9599,
    0x3c43_9041,
    0xfe51_63ab,
    0xdebb_c561,
    0xb724_6e3a,
];

/// sin x, correctly rounded. sin(±0) = ±0; of infinities the canonical NaN.
#[must_use]
pub fn sine(x: f32) -> f32 {
    if x == 0.0 { x } else { quadrant(x, 0) }
}

/// cos x, correctly rounded. cos(±0) = 1; of infinities the canonical NaN.
#[must_use]
pub fn cosine(x: f32) -> f32 {
    quadrant(x, 1)
}

/// sin(x + turns·π/2).
#[inline(always)]
fn quadrant(x: f32, turns: u32) -> f32 {
    if !x.is_finite() {
        return NAN;
    }
    let wide = f64::from(x);
    let (k, high, low) = if wide.abs() < 1_048_576.0 { reduce_near(wide) } else { reduce_far(x) };
    let k = k.wrapping_add(turns);
    let (sum, error) = if k & 1 == 0 { sine_parts(high, low) } else { cosine_parts(high, low) };
    let result = round_to_odd(sum, error);
    (if k & 2 == 0 { result } else { -result }) as f32
}

/// The quadrant and the rest, as a sum of two.
#[inline(always)]
fn reduce_near(x: f64) -> (u32, f64, f64) {
    let shifted = x * TWO_OVER_PI + ROUND;
    let k = shifted - ROUND;
    let (high, low) = two_sum(x - k * HALF_PI[0], -(k * HALF_PI[1]));
    let (high, rest) = two_sum(high, low - k * HALF_PI[2]);
    (shifted.to_bits() as u32, high, rest)
}

/// As [`reduce_near`], for finite |x| ≥ 2²⁰.
fn reduce_far(x: f32) -> (u32, f64, f64) {
    let bits = x.to_bits();
    let m = u128::from((bits & 0x007f_ffff) | 0x0080_0000);
    // |x| = m·2^e with −3 ≤ e ≤ 104. The places of 2/π up to e − 2 give multiples of four quadrants with m, so the product
    // with the 128 places after them, in units of 2⁻¹²⁶ quadrants, wraps where it should.
    let e = (bits >> 23 & 0xff) as i32 - 150;
    let product = m.wrapping_mul(places_of_two_over_pi(e - 2));
    let fraction = product << 2;
    // Rounded to the nearest quadrant: as a signed number the fraction lies in −½ … ½.
    let k = ((product >> 126) as u32).wrapping_add((fraction >> 127) as u32);
    let magnitude = (fraction as i128).unsigned_abs();
    let sign = if fraction >> 127 == 0 { 1.0 } else { -1.0 };
    // At most some 30 leading places are zero, so the first 106 places hold 75 that count.
    let part = |from: u32, scale: f64| ((magnitude >> from) as u64 & ((1 << 53) - 1)) as f64 * scale;
    let (high, low) = fast_two_sum(part(75, sign * 2.0f64.powi(-53)), part(22, sign * 2.0f64.powi(-106)));
    let rest = DoubleDouble { high, low }.mul(DoubleDouble { high: HALF_PI_HIGH, low: HALF_PI_LOW });
    if x < 0.0 { (k.wrapping_neg(), -rest.high, -rest.low) } else { (k, rest.high, rest.low) }
}

/// The 128 places of 2/π after the first `skipped`, of which there may be up to 32 before the point.
fn places_of_two_over_pi(skipped: i32) -> u128 {
    let from = (skipped + 32) as usize;
    let word = |at: usize| if at == 0 { 0 } else { u128::from(TWO_OVER_PI_WORDS[at - 1]) };
    let (first, shift) = (from / 32, from % 32);
    let four = (first..first + 4).fold(0, |places, at| places << 32 | word(at));
    // The fifth word fills up from below what the shift leaves free.
    four << shift | word(first + 4) << shift >> 32
}

/// sin(high + low), |high| ≤ π/4, as a sum of two.
#[inline(always)]
fn sine_parts(high: f64, low: f64) -> (f64, f64) {
    const S: [f64; 8] = [
        -0.166_666_666_666_666_66,
        0.008_333_333_333_333_333,
        -0.000_198_412_698_412_698_39,
        2.755_731_922_398_11e-6,
        -2.505_210_838_239_002_3e-8,
        1.605_904_278_108_304e-10,
        -7.646_961_351_709_209e-13,
        2.791_244_224_137_740_3e-15,
    ];
    let z = high * high;
    let cube = high * z * S.iter().rev().fold(0.0, |sum, s| sum * z + s);
    fast_two_sum(high, cube + low * (1.0 - 0.5 * z))
}

/// cos(high + low), |high| ≤ π/4, as a sum of two.
#[inline(always)]
fn cosine_parts(high: f64, low: f64) -> (f64, f64) {
    const C: [f64; 7] = [
        0.041_666_666_666_666_664,
        -0.001_388_888_888_888_888_7,
        2.480_158_730_158_464_5e-5,
        -2.755_731_922_140_281_4e-7,
        2.087_675_579_107_700_6e-9,
        -1.147_046_088_706_815_8e-11,
        4.745_871_870_105_094e-14,
    ];
    let (z, lost) = two_product(high, high);
    let fourth = z * z * C.iter().rev().fold(0.0, |sum, c| sum * z + c);
    let (one_less, rest) = fast_two_sum(1.0, -0.5 * z);
    fast_two_sum(one_less, rest + (fourth - 0.5 * lost - high * low))
}
