//! Sums, products, quotients, extremes and signs.
//!
//! Integers wrap, and no operand traps: x / 0 is −1 (all bits set), MIN / −1 is MIN, x rem 0 is x, MIN rem −1 is 0.
//! 32-bit quotients are taken in `f64`, which has vector division where integers have none: the exact quotient of two
//! 32-bit integers lies at least 1/|b| below the next integer, more than the rounding can bridge, so truncating the
//! rounded quotient truncates the exact one.
//!
//! `maximum` and `minimum` follow IEEE 754-2019: NaN wins over numbers, and +0 is above −0.

use crate::dtype::DType;
use crate::numerics::{self, NAN, canonical};

use super::rounding::truncated;
use super::sweep::{Binary, Lane, Unary};
use super::table::{cell, dtypes, lanes};
use super::uniform;

lanes! {
    /// Absolute value: clears a float's sign bit, wraps for the least integer.
    fn abs(x) { I32, I64 => x.wrapping_abs(); HalfBits => x & 0x7fff; F32 => f32::from_bits(x.to_bits() & 0x7fff_ffff); } without Bool, U32
    /// Negation: flips a float's sign bit, wraps for integers.
    fn negate(x) {
        I32, U32, I64 => x.wrapping_neg();
        HalfBits => x ^ 0x8000;
        F32 => f32::from_bits(x.to_bits() ^ 0x8000_0000);
    } without Bool
    /// −1, 0 or 1; a float zero keeps its sign.
    fn sign(x) {
        I32 => i32::from(x > 0) - i32::from(x < 0);
        I64 => i64::from(x > 0) - i64::from(x < 0);
        Float => {
            let one = f32::from_bits((x.to_bits() & 0x8000_0000) | 1.0f32.to_bits());
            canonical(if x.abs() > 0.0 { one } else { x })
        };
    } without Bool, U32
    /// Sum; disjunction of truth values.
    fn add(a, b) { Bool => a | b; I32, U32, I64 => a.wrapping_add(b); Float => canonical(a + b); }
    /// Difference.
    fn subtract(a, b) { I32, U32, I64 => a.wrapping_sub(b); Float => canonical(a - b); } without Bool
    /// Product; conjunction of truth values.
    fn multiply(a, b) { Bool => a & b; I32, U32, I64 => a.wrapping_mul(b); Float => canonical(a * b); }
    /// Quotient.
    fn divide(a, b) {
        I32 => quotient_i32(a, b);
        U32 => quotient_u32(a, b);
        I64 => quotient_i64(a, b);
        Float => canonical(a / b);
    } without Bool
    /// Remainder of the truncated quotient, with the dividend's sign.
    fn remainder(a, b) {
        I32 => if b == 0 { a } else { a.wrapping_sub(quotient_i32(a, b).wrapping_mul(b)) };
        U32 => if b == 0 { a } else { a.wrapping_sub(quotient_u32(a, b).wrapping_mul(b)) };
        I64 => if b == 0 { a } else { a.wrapping_rem(b) };
        CostlyFloat => numerics::remainder(a, b);
    } without Bool
    /// The larger; disjunction of truth values.
    fn maximum(a, b) { Bool => a | b; I32, U32, I64 => a.max(b); Float => maximum_f32(a, b); }
    /// The smaller; conjunction of truth values.
    fn minimum(a, b) { Bool => a & b; I32, U32, I64 => a.min(b); Float => minimum_f32(a, b); }
}

#[inline(always)]
fn quotient_i32(a: i32, b: i32) -> i32 {
    let magnitude = truncated((f64::from(a) / f64::from(b)).abs()) as i32;
    // The magnitude of MIN / ±1 is MIN as an i32, and so is its negation.
    let quotient = if a ^ b < 0 { magnitude.wrapping_neg() } else { magnitude };
    if b == 0 { -1 } else { quotient }
}

#[inline(always)]
fn quotient_u32(a: u32, b: u32) -> u32 {
    let quotient = truncated(f64::from(a) / f64::from(b));
    if b == 0 { u32::MAX } else { quotient }
}

#[inline(always)]
fn quotient_i64(a: i64, b: i64) -> i64 {
    if b == 0 { -1 } else { a.wrapping_div(b) }
}

/// Whether either is NaN, tested on the bits: see [`canonical`] for why.
#[inline(always)]
fn unordered(a: f32, b: f32) -> bool {
    let is_nan = |x: f32| x.to_bits() & 0x7fff_ffff > 0x7f80_0000;
    is_nan(a) | is_nan(b)
}

#[inline(always)]
pub(super) fn maximum_f32(a: f32, b: f32) -> f32 {
    let larger = if a > b { a } else { b };
    // Equal numbers have equal bits, but for +0 and −0, whose conjunction is +0.
    let larger = if a == b { f32::from_bits(a.to_bits() & b.to_bits()) } else { larger };
    if unordered(a, b) { NAN } else { larger }
}

#[inline(always)]
pub(super) fn minimum_f32(a: f32, b: f32) -> f32 {
    let smaller = if a < b { a } else { b };
    let smaller = if a == b { f32::from_bits(a.to_bits() | b.to_bits()) } else { smaller };
    if unordered(a, b) { NAN } else { smaller }
}
