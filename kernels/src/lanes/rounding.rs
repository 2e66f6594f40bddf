//! Rounding to integers.
//!
//! Baseline x86-64 has no instruction for it and `f32::floor` would be a library call per element. Adding and taking
//! away 2²³ rounds a smaller magnitude to the nearest integer, as the unit in the last place is 1 there; one comparison
//! then finds the results that went the wrong way. The result's sign is the operand's in every case, −0 included.

use crate::dtype::DType;
use crate::numerics::canonical;

use super::sweep::{Lane, Unary};
use super::table::{cell, lanes};
use super::uniform;

lanes! {
    /// The largest integer not above the operand.
    fn floor(x) {
        F32 => {
            let nearest = nearest(x);
            settle(x, nearest - if nearest > x { 1.0 } else { 0.0 })
        };
    } without Bool, I32, U32, I64
    /// The smallest integer not below the operand.
    fn ceil(x) {
        F32 => {
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
