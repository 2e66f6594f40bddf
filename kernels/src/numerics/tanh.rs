//! The two saturating functions: hyperbolic tangent and logistic.
//!
//! Both are one quotient away from m = e^±t − 1, which the core of the exponential gives with small *relative* error
//! also near zero. For k = 0 that is r + r²·q itself; otherwise m = 2^k·(e^r − 1) + (2^k − 1), a sum of an exact number
//! and one of smaller magnitude, never near cancellation.
//!
//! # tanh
//!
//! With m = e^(2|x|) − 1:
//!
//! * |x| < ½: tanh|x| = m/(m + 2);
//! * otherwise: tanh|x| = 1 − 2/(m + 2), where the quotient is small and so is its error.
//!
//! # logistic
//!
//! With e = e^−|x| and m = e − 1, so that 1 + e = 2 + m:
//!
//! * |x| < 1: ½ ± ½·(−m)/(2 + m). Near zero logistic(x) = ½ + x/4 − x³/48 + …, and ½ + x/4 is the exact middle of two
//!   `f32` for many small x. The cubic term, far below the last place of an `f64`, decides, and only the sum rounded to
//!   odd sees it;
//! * otherwise e/(1 + e) for x < 0 and 1 − e/(1 + e) for x > 0.
//!
//! Each is written as base ± numerator/denominator with base 0, ½ or 1, so one division serves all cases; the sum is
//! formed without error and rounded to odd. The quotient's relative error is below 2⁻⁵¹.

use super::exp::Exponential;
use super::{canonical, fast_two_sum, round_to_odd};

/// tanh x, correctly rounded. tanh(±0) = ±0, tanh(±inf) = ±1.
#[inline(always)]
#[must_use]
pub fn tanh(x: f32) -> f32 {
    let wide = f64::from(x);
    let magnitude = wide.abs();
    // 1 − tanh 16 is below 2⁻⁴⁵: an f32 cannot tell it from 0.
    let magnitude = if magnitude > 16.0 { 16.0 } else { magnitude };
    let parts = Exponential::of(magnitude + magnitude);
    let scaled = parts.scale * parts.minus_one_unscaled();
    let minus_one = scaled + (parts.scale - 1.0);
    let plus_one = scaled + (parts.scale + 1.0);
    let small = magnitude < 0.5;
    let quotient = (if small { minus_one } else { -2.0 }) / plus_one;
    let base = if small { 0.0 } else { 1.0 };
    let (sum, error) = fast_two_sum(base, quotient);
    canonical(round_to_odd(sum, error).copysign(wide) as f32)
}

/// The logistic function 1/(1 + e^−x), correctly rounded. Subnormal below −87.33…, +0 below −103.97…
#[inline(always)]
#[must_use]
pub fn logistic(x: f32) -> f32 {
    let wide = f64::from(x);
    let magnitude = wide.abs();
    let magnitude = if magnitude > 110.0 { 110.0 } else { magnitude };
    let parts = Exponential::of(-magnitude);
    let scaled = parts.scale * parts.minus_one_unscaled();
    let minus_one = scaled + (parts.scale - 1.0);
    let small = magnitude < 1.0;
    let negative = wide < 0.0;
    let quotient = (if small { -0.5 * minus_one } else { scaled + parts.scale }) / (2.0 + minus_one);
    let far_base = if negative { 0.0 } else { 1.0 };
    let base = if small { 0.5 } else { far_base };
    let toward_zero = small ^ negative;
    let (sum, error) = fast_two_sum(base, if toward_zero { quotient } else { -quotient });
    canonical(round_to_odd(sum, error) as f32)
}
