//! Correctly rounded `f32` functions, the same bits on every machine.
//!
//! `docs/numerics.md` asks that an `f32` transcendental be the exact value rounded once, to nearest even. These are
//! the scalar sources of that promise; the vector kernels inline them in a loop and leave the rest to the compiler.
//!
//! # One shape for all
//!
//! Every unary function here is straight-line code on `f64`: widen the argument, reduce it, evaluate a polynomial, put
//! the parts together, narrow once. There is no branch, no table, no call and no float-to-integer cast, only values
//! picked by `if`, which compile to blends, so a loop over an array becomes vector code under any `target_feature`.
//!
//! There is no fused multiply-add either. Addition, subtraction, multiplication, division and square root of `f64` are
//! fixed by IEEE 754 to the last bit, and Rust never contracts or reorders them. A function built from these alone
//! gives one result per input whatever the instruction set or vector width. Therefore **one exhaustive run on one
//! machine is a proof for all machines**: `cargo run --release -p systole-kernels --example exhaustive` compares all
//! 2³² inputs with an independent oracle.
//!
//! # Why narrowing an `f64` is enough
//!
//! An `f64` has 29 bits more than an `f32`. If the `f64` value is wrong by less than its own last place, the narrowed
//! result is wrong only where the exact value lies within 2⁻²⁹ of the middle between two `f32`, relative to their
//! distance. Over the inputs of one function that is a handful of cases at most. Two measures leave none:
//!
//! * The last addition is done without error as `high + low` and rounded **to odd** (`round_to_odd`): a sticky last
//!   bit keeps the side of the middle on which the exact value lies, so the two roundings act as one.
//! * The parts before it are arranged so that what is uncertain is far smaller than the last place of the sum.
//!
//! What remains is a matter of fact and not of estimate, and the exhaustive run settles it.
//!
//! # NaN, zeros, infinities, subnormals
//!
//! Every NaN result of the public functions is the one canonical quiet NaN, [`NAN`] (only [`fma()`] leaves that to its
//! caller). Every subnormal `f32` is a normal `f64`, so subnormal arguments and results need no code of their own.
//!
//! # Where the coefficients come from
//!
//! Each polynomial interpolates its function at the Chebyshev points of its interval (`n` coefficients:
//! `(a+b)/2 + (b-a)/2·cos(π(2i+1)/2n)`, `i = 0..n`), solved with 60 digits in mpmath, and rounded to nearest `f64`.
//! That is within a small factor of the best polynomial, and anyone can compute it again from the line that names the
//! function, the interval and `n`.

mod atan2;
mod cbrt;
mod double_double;
mod erf;
mod exp;
mod expm1;
mod fma;
mod log;
mod narrow;
mod power;
mod root;
mod tanh;
mod trigonometric;

pub use atan2::atan2;
pub use cbrt::cbrt;
pub use erf::erf;
pub use exp::exponential;
pub use expm1::{exponential_minus_one, log_plus_one};
pub use fma::fma;
pub use log::log;
pub use narrow::{Half, integer_to_odd, to_odd};
pub(crate) use narrow::{Narrow, Widen};
pub use power::{power, remainder};
pub use root::{rsqrt, sqrt};
pub use tanh::{logistic, tanh};
pub use trigonometric::{cosine, sine};

/// The canonical quiet NaN, `0x7fc00000`: the only NaN that arithmetic makes.
pub const NAN: f32 = f32::from_bits(0x7fc0_0000);

/// `x`, or the canonical [`NAN`] if `x` is any NaN.
///
/// The test is on the bits. A floating-point comparison would say the same, but compilers may forget which NaN is
/// meant: LLVM 22 takes `if y.is_nan() { NAN } else { y }` with `y = x.sqrt()` for `x.sqrt()` itself when it generates
/// x86 code, so that √−1 keeps its sign bit and a NaN its payload.
#[inline(always)]
#[must_use]
pub fn canonical(x: f32) -> f32 {
    let bits = x.to_bits();
    f32::from_bits(if bits & 0x7fff_ffff > 0x7f80_0000 { 0x7fc0_0000 } else { bits })
}

/// `x` as a chip's arithmetic reads and writes it: zero of its sign where it is subnormal, the canonical [`NAN`] where it
/// is any NaN.
///
/// By explicit arithmetic on the bits: the control register's flush modes differ from machine to machine, and what they
/// were at entry must not matter.
#[inline(always)]
#[must_use]
pub fn flushed(x: f32) -> f32 {
    let bits = x.to_bits();
    let normal = if bits & 0x7f80_0000 == 0 { bits & 0x8000_0000 } else { bits };
    f32::from_bits(if bits & 0x7fff_ffff > 0x7f80_0000 { 0x7fc0_0000 } else { normal })
}

/// 1.5·2⁵²: adding it to an `f64` of magnitude below 2⁵¹ rounds that to an integer (to nearest, ties to even) and
/// leaves the integer in the low bits, in two's complement.
const ROUND: f64 = 6_755_399_441_055_744.0;

/// The leading 42 bits of ln 2: its product with an integer below 2¹¹ is exact.
const LN_2_HIGH: f64 = f64::from_bits(0x3fe6_2e42_fefa_3800);
/// ln 2 − `LN_2_HIGH`.
const LN_2_LOW: f64 = f64::from_bits(0x3d2e_f357_93c7_6730);

/// The exact sum `a + b` as the rounded sum and what the rounding lost, for |a| ≥ |b| or a = 0 (Dekker).
#[inline(always)]
fn fast_two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    (sum, b - (sum - a))
}

/// The exact sum `a + b` as the rounded sum and what the rounding lost, for any two finite numbers (Knuth).
#[inline(always)]
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let b_part = sum - a;
    let a_part = sum - b_part;
    (sum, (a - a_part) + (b - b_part))
}

/// The exact value `sum + error` rounded to odd, where `sum` is it rounded to nearest.
///
/// Of the two `f64` around an inexact value this is the one whose last bit is set. Rounding it again to a format at
/// least two bits narrower gives what one rounding of the exact value would give (Boldo and Melquiond, 2008).
/// A NaN `error`, from an infinite sum, changes nothing.
#[inline(always)]
fn round_to_odd(sum: f64, error: f64) -> f64 {
    let bits = sum.to_bits();
    // −1 where the error points toward zero, +1 where it points away; it matters only if the last bit is clear.
    let toward_zero = ((bits ^ error.to_bits()) >> 63).wrapping_neg();
    let neighbour = bits.wrapping_add(toward_zero | 1);
    let inexact = error.abs() > 0.0;
    let even = bits & 1 == 0;
    f64::from_bits(if inexact & even { neighbour } else { bits })
}
