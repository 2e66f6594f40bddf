//! The fused multiply-add from plain arithmetic.
//!
//! The dot contract is a chain of exact a·b + acc, each rounded once. Where the machine has the instruction the kernels
//! use it; this function gives the same bits where it has not, in code the compiler turns into vectors.
//!
//! The product of two `f32` has at most 48 bits and its exponent lies well inside that of an `f64`, so it is exact.
//! Adding c rounds once, and the lost part is found without error by [`two_sum`]. Rounding to `f32` straight from the
//! rounded sum would round twice, which is wrong when the `f64` sum falls on the middle of two `f32` while the exact one
//! does not. Rounding the sum to odd keeps it off the middle, and as 53 ≥ 24 + 2 the second rounding is then that of
//! the exact value, for subnormal results too, since they only have fewer bits.
//!
//! Infinities and NaN pass through: their lost part is NaN or zero and so changes nothing.

use super::{round_to_odd, two_sum};

/// a·b + c rounded once, the bits of `f32::mul_add` on any machine. A NaN result is some NaN.
#[inline(always)]
#[must_use]
pub fn fma(a: f32, b: f32, c: f32) -> f32 {
    let product = f64::from(a) * f64::from(b);
    let (sum, error) = two_sum(product, f64::from(c));
    round_to_odd(sum, error) as f32
}
