//! The square root and its reciprocal.
//!
//! IEEE 754 fixes the square root and every machine has it. The reciprocal 1/√x is formed in `f64` from two correctly
//! rounded operations, relative error below 2⁻⁵²; it depends, apart from a power of two, only on the 24 bits of x and
//! the parity of its exponent, so it is settled by 2²⁴ cases. No result is subnormal, and only even powers of two
//! have an exact result.

use super::canonical;

/// √x, correctly rounded. √(−0) = −0, √x for x < 0 is the canonical NaN.
#[inline(always)]
#[must_use]
pub fn sqrt(x: f32) -> f32 {
    canonical(x.sqrt())
}

/// 1/√x, correctly rounded.
///
/// rsqrt(+0) = +inf, rsqrt(−0) = −inf, rsqrt(+inf) = +0, rsqrt(x) for x < 0 is the canonical NaN.
#[inline(always)]
#[must_use]
pub fn rsqrt(x: f32) -> f32 {
    // √(−0) = −0, so both zeros come out right by themselves.
    canonical((1.0 / f64::from(x).sqrt()) as f32)
}
