//! Functions that `numerics` rounds correctly, and powers.
//!
//! Integer powers wrap. A negative exponent gives the truncated quotient 1 / aᵉ of exact numbers, 0 for |a| > 1, and 0 for
//! a = 0 too, as in StableHLO's interpreter and XLA.

use crate::dtype::DType;
use crate::numerics;

use super::sweep::{Binary, Lane, Unary};
use super::table::{cell, dtypes, lanes};
use super::uniform;

lanes! {
    /// eˣ.
    fn exponential(x) { CostlyFloat => numerics::exponential(x); } without Bool, I32, U32, I64
    /// Natural logarithm.
    fn log(x) { CostlyFloat => numerics::log(x); } without Bool, I32, U32, I64
    /// Hyperbolic tangent.
    fn tanh(x) { CostlyFloat => numerics::tanh(x); } without Bool, I32, U32, I64
    /// 1 / (1 + e⁻ˣ).
    fn logistic(x) { CostlyFloat => numerics::logistic(x); } without Bool, I32, U32, I64
    /// The error function.
    fn erf(x) { CostlyFloat => numerics::erf(x); } without Bool, I32, U32, I64
    /// eˣ − 1.
    fn exponential_minus_one(x) { CostlyFloat => numerics::exponential_minus_one(x); } without Bool, I32, U32, I64
    /// log(1 + x).
    fn log_plus_one(x) { CostlyFloat => numerics::log_plus_one(x); } without Bool, I32, U32, I64
    /// Sine.
    fn sine(x) { CostlyFloat => numerics::sine(x); } without Bool, I32, U32, I64
    /// Cosine.
    fn cosine(x) { CostlyFloat => numerics::cosine(x); } without Bool, I32, U32, I64
    /// Cube root.
    fn cbrt(x) { CostlyFloat => numerics::cbrt(x); } without Bool, I32, U32, I64
    /// The angle of the point (b, a).
    fn atan2(a, b) { CostlyFloat => numerics::atan2(a, b); } without Bool, I32, U32, I64
    /// Square root.
    fn sqrt(x) { Float => numerics::sqrt(x); } without Bool, I32, U32, I64
    /// Reciprocal square root.
    fn rsqrt(x) { CostlyFloat => numerics::rsqrt(x); } without Bool, I32, U32, I64
    /// aᵇ.
    fn power(a, b) {
        I32 => if b < 0 { reciprocal_power(a.into(), b & 1 == 1) as i32 } else { power_i64(a.into(), b as u64) as i32 };
        U32 => power_i64(a.into(), b.into()) as u32;
        I64 => if b < 0 { reciprocal_power(a, b & 1 == 1) } else { power_i64(a, b as u64) };
        CostlyFloat => numerics::power(a, b);
    } without Bool
}

/// `base` to the `exponent` modulo 2⁶⁴, by squaring; the low 32 bits are the power modulo 2³² as well.
#[inline(always)]
fn power_i64(base: i64, exponent: u64) -> i64 {
    let (mut square, mut rest, mut power) = (base, exponent, 1i64);
    while rest != 0 {
        if rest & 1 == 1 {
            power = power.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        rest >>= 1;
    }
    power
}

/// 1 / `base`ᵉ, truncated, and 0 for base 0, for an e > 0 that is `odd` or not.
#[inline(always)]
fn reciprocal_power(base: i64, odd: bool) -> i64 {
    match base {
        1 => 1,
        -1 if odd => -1,
        -1 => 1,
        _ => 0,
    }
}
