//! e^x − 1 and log(1 + x), without the cancellation that their names suggest.
//!
//! # expm1
//!
//! With e^x = 2^k·(1 + r + tail) from the core of the exponential, e^x − 1 = (2^k − 1) + 2^k·r + 2^k·tail. The first sum
//! is formed without error, and for k = 0 it is r itself; tail has a relative error near 2⁻⁵³ and is far smaller. The
//! last sum is rounded to odd.
//!
//! # log1p
//!
//! For √½ − 1 ≤ x < √2 − 1 the argument of the logarithm's core is f = x, exact however small x is. Elsewhere 1 + x is an
//! exact `f64` up to 2²⁸, and beyond it what the sum loses is added back as a quotient: log(y + d) = log y + d/y.

use super::exp::Exponential;
use super::{NAN, canonical, fast_two_sum, log, round_to_odd, two_sum};

/// e^x − 1, correctly rounded. expm1(±0) = ±0, expm1(−inf) = −1; above 88.72… the result is +inf.
#[inline(always)]
#[must_use]
pub fn exponential_minus_one(x: f32) -> f32 {
    let wide = f64::from(x);
    // Beyond these bounds the narrowed result no longer changes.
    let bounded = if wide > 100.0 { 100.0 } else { wide };
    let bounded = if bounded < -30.0 { -30.0 } else { bounded };
    let parts = Exponential::of(bounded);
    let (high, low) = two_sum(parts.scale - 1.0, parts.scale * parts.r);
    let (sum, error) = two_sum(high, low + parts.scale * parts.tail);
    let result = canonical(round_to_odd(sum, error) as f32);
    if x == 0.0 { x } else { result }
}

/// log(1 + x), correctly rounded. log1p(±0) = ±0, log1p(−1) = −inf, log1p(+inf) = +inf, below −1 the canonical NaN.
#[inline(always)]
#[must_use]
pub fn log_plus_one(x: f32) -> f32 {
    let wide = f64::from(x);
    let (sum, lost) = two_sum(1.0, wide);
    let (high, low) = log::parts_of_sum(wide, sum, lost);
    let (sum, error) = fast_two_sum(high, low);
    let finite = round_to_odd(sum, error) as f32;
    let at_most_infinite = if x < f32::INFINITY { finite } else { x };
    let inside = if x > -1.0 { at_most_infinite } else { NAN };
    let result = if x == -1.0 { f32::NEG_INFINITY } else { inside };
    if x == 0.0 { x } else { result }
}
