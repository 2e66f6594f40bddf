//! The cube root.
//!
//! |x| = 2^3k·m with ½ ≤ m < 4, by an exponent found as x's exponent divided by three and rounded. A polynomial of 6
//! coefficients (interpolant of ∛m at the Chebyshev points of [½, 4]) gives 9 bits, and two of Halley's steps
//! y·(y³ + 2m)/(2y³ + m) triple them twice. A cube root of an `f32` is never the middle between two `f32` (its cube
//! would have too many bits), so narrowing the `f64` decides.

use super::{ROUND, canonical};

/// The exponent of an `f64` with value v is these bits, shifted.
const TWO_52: f64 = 4_503_599_627_370_496.0;
const FRACTION: u64 = (1 << 52) - 1;
const ONE: u64 = 0x3ff0_0000_0000_0000;

const GUESS: [f64; 6] = [
    0.482_915_114_988_636_4,
    0.775_941_216_087_856_5,
    -0.355_959_150_189_399_1,
    0.115_890_796_116_866_7,
    -0.020_279_205_113_045_675,
    0.001_436_345_210_917_581_7,
];

/// ∛x, correctly rounded, with the sign of x. cbrt(±0) = ±0, cbrt(±inf) = ±inf.
#[inline(always)]
#[must_use]
pub fn cbrt(x: f32) -> f32 {
    let wide = f64::from(x);
    let bits = wide.to_bits() & (u64::MAX >> 1);
    // x = 2^e·f with 1 ≤ f < 2; k is the integer nearest to e/3, so that e − 3k is −1, 0 or 1.
    let e = f64::from_bits((bits >> 52) | TWO_52.to_bits()) - (TWO_52 + 1023.0);
    let k = (e * (1.0 / 3.0) + ROUND) - ROUND;
    let m = f64::from_bits((bits & FRACTION) | ONE) * power_of_two(e - 3.0 * k);
    let square = m * m;
    let guess = (GUESS[0] + GUESS[1] * m) + (GUESS[2] + GUESS[3] * m) * square;
    let guess = guess + (GUESS[4] + GUESS[5] * m) * (square * square);
    let root = halley(halley(guess, m), m);
    let result = (root * power_of_two(k)).copysign(wide) as f32;
    let finite = x.is_finite() & (x != 0.0);
    canonical(if finite { result } else { x })
}

/// One step from `y` towards the cube root of `m`.
#[inline(always)]
fn halley(y: f64, m: f64) -> f64 {
    let cube = y * y * y;
    y + y * ((m - cube) / (2.0 * cube + m))
}

/// 2^k for an integer |k| < 1022.
#[inline(always)]
fn power_of_two(k: f64) -> f64 {
    f64::from_bits(((k + ROUND).to_bits() << 52).wrapping_add(ONE))
}
