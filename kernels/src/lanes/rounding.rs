//! Rounding to integers.
//!
//! Baseline x86-64 has no instruction for it and `f32::floor` would be a library call per element. Adding and taking
//! away 2²³ rounds a smaller magnitude to the nearest integer, as the unit in the last place is 1 there; one comparison
//! then finds the results that went the wrong way. The result's sign is the operand's in every case, −0 included.
//! The same with 2⁵² takes an `f64` to a 32-bit integer, where LLVM leaves saturating casts scalar.

use crate::dtype::DType;
use crate::numerics::canonical;

use super::sweep::{Lane, Unary};
use super::table::{cell, dtypes, lanes};
use super::uniform;

lanes! {
    /// The largest integer not above the operand.
    fn floor(x) {
        Float => {
            let nearest = nearest(x);
            settle(x, nearest - if nearest > x { 1.0 } else { 0.0 })
        };
    } without Bool, I32, U32, I64
    /// The smallest integer not below the operand.
    fn ceil(x) {
        Float => {
            let nearest = nearest(x);
            settle(x, nearest + if nearest < x { 1.0 } else { 0.0 })
        };
    } without Bool, I32, U32, I64
}

/// From here on every `f32` is an integer.
const INTEGERS: f32 = 8_388_608.0;

/// The integer nearest to `x`, for |x| < 2²³.
#[inline(always)]
fn nearest(x: f32) -> f32 {
    ((x.abs() + INTEGERS) - INTEGERS).copysign(x)
}

/// `rounded` with the sign of `x`, or `x` itself where it is an integer by its size, infinite or NaN.
#[inline(always)]
fn settle(x: f32, rounded: f32) -> f32 {
    canonical(if x.abs() < INTEGERS { rounded.copysign(x) } else { x })
}

/// The integer part of `x`, for 0 ≤ x < 2³²; anything for other numbers.
#[inline(always)]
pub(super) fn truncated(x: f64) -> u32 {
    /// From here to twice it, the low bits of an `f64` are those of the integer it is.
    const INTEGERS: f64 = 4_503_599_627_370_496.0;
    let shifted = x + INTEGERS;
    let above = shifted - INTEGERS > x;
    (shifted.to_bits() as u32).wrapping_sub(u32::from(above))
}
