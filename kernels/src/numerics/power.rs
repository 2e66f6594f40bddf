//! x^y and the remainder, the two binary functions of the family.
//!
//! # Power
//!
//! The special cases are those of C99's annex F, which StableHLO follows: x^0 = 1 and 1^y = 1 even for NaN,
//! (−1)^±inf = 1, a negative x to a power that is no integer is NaN. What is left is |x|^y for finite |x| > 0 and y ≠ 0,
//! with the sign of x if y is odd. Three steps, each taken only if the one before did not decide:
//!
//! 1. **Quick**, in `f64`: log|x| as an exact high part and a low part with error below 2⁻⁵⁵ (`log.rs`), times y with
//!    the high part split so that the products are exact, then the core of `exp.rs`. As |y·log|x|| < 110, the relative
//!    error of the result is below 2⁻⁴⁶. If the result enlarged and reduced by 2⁻⁴⁵ narrows to the same `f32`, that is it;
//!    about one argument in a million goes on.
//! 2. **Exact**: an x^y that lies exactly between two `f32` has at most 25 significant bits. Let x = m·2^E with m odd.
//!    For m = 1 the power is 2^(E·y). For m ≥ 3 and y = n/2^j in lowest terms it must be that y > 0, m = t^(2^j), 2^j
//!    divides E and the power is t^n·2^(E·n/2^j), where t^n < 2²⁵ and so n ≤ 15. Integers decide all that, and the
//!    narrowing of the exact power to `f32` is correct by definition.
//! 3. **Double-double**: the same formula with Taylor's series and 2⁻⁹² relative error, rounded to odd. The power is not
//!    exactly between two `f32` here. How near it may come is not known by proof; that a pair among the some 2⁶⁰ comes
//!    nearer than 2⁻⁹² has a chance of about 2⁻⁸.
//!
//! # Remainder
//!
//! x − y·trunc(x/y) is always an `f32`, so there is nothing to round: Rust's `%` is exact by definition.

use super::double_double::DoubleDouble;
use super::exp::Exponential;
use super::{NAN, canonical, fast_two_sum, log, round_to_odd};

/// x^y, correctly rounded, with the special cases of IEEE 754's `pow`.
#[must_use]
pub fn power(x: f32, y: f32) -> f32 {
    if y == 0.0 || x == 1.0 {
        return 1.0;
    }
    if x.is_nan() || y.is_nan() {
        return NAN;
    }
    let parity = Parity::of(y);
    let negative = x.is_sign_negative() && parity == Parity::Odd;
    let magnitude = x.abs();
    let result = if magnitude == 0.0 || magnitude == f32::INFINITY || y.is_infinite() {
        extreme(magnitude, y)
    } else if x < 0.0 && parity == Parity::Fraction {
        return NAN;
    } else {
        finite(magnitude, y)
    };
    if negative { -result } else { result }
}

/// The remainder of x/y with the sign of x: x − y·trunc(x/y), exactly.
///
/// It is the canonical NaN if x is infinite, y is zero or either is NaN; x itself if y is infinite.
#[inline(always)]
#[must_use]
pub fn remainder(x: f32, y: f32) -> f32 {
    canonical(x % y)
}

/// What the sign of a power depends on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Parity {
    Fraction,
    Odd,
    /// Also the infinities.
    Even,
}

impl Parity {
    fn of(y: f32) -> Self {
        let exponent = (y.to_bits() >> 23 & 0xff) as i32 - 127;
        let significand = y.to_bits() & 0x7f_ffff | 0x80_0000;
        match exponent {
            ..0 => Self::Fraction,
            0..=23 if significand << (8 + exponent) << 1 != 0 => Self::Fraction,
            0..=23 if significand >> (23 - exponent) & 1 == 1 => Self::Odd,
            _ => Self::Even,
        }
    }
}

/// `magnitude`^y where the magnitude is 0 or infinite or y is infinite.
fn extreme(magnitude: f32, y: f32) -> f32 {
    if magnitude == 1.0 {
        1.0
    } else if (magnitude > 1.0) == (y > 0.0) {
        f32::INFINITY
    } else {
        0.0
    }
}

/// x^y for finite x > 0 and finite y ≠ 0.
fn finite(x: f32, y: f32) -> f32 {
    let (log_high, log_low) = log::parts(f64::from(x));
    let wide_y = f64::from(y);
    let leading = f64::from_bits(log_high.to_bits() & !0 << 29);
    let (high, low) = fast_two_sum(wide_y * leading, wide_y * (log_high - leading) + wide_y * log_low);
    if high > 100.0 {
        return f32::INFINITY;
    }
    if high < -110.0 {
        return 0.0;
    }
    let parts = Exponential::of(high);
    let (one, rest) = fast_two_sum(1.0, parts.r);
    let rest = rest + parts.tail + low * (one + parts.tail);
    let slack = one * (1.0 / (1u64 << 45) as f64);
    let below = ((one + (rest - slack)) * parts.scale) as f32;
    let above = ((one + (rest + slack)) * parts.scale) as f32;
    if below.to_bits() == above.to_bits() { below } else { slow(x, y) }
}

#[cold]
fn slow(x: f32, y: f32) -> f32 {
    match exact(x, y) {
        Some(power) => power as f32,
        None => {
            let log = log_double(f64::from(x)).mul(DoubleDouble::new(f64::from(y)));
            let (power, scale) = exponential_double(log);
            (round_to_odd(power.high, power.low) * scale) as f32
        }
    }
}

/// x^y if it is a number of few bits, as step 2 above.
fn exact(x: f32, y: f32) -> Option<f64> {
    let (mut base, mut exponent) = odd_part(x);
    let (numerator, scale) = odd_part(y.abs());
    if base == 1 {
        let power = f64::from(exponent) * f64::from(y);
        let whole = power as i32;
        return (f64::from(whole) == power).then(|| power_of_two(whole))?;
    }
    if y < 0.0 || numerator > 15 || scale > 3 {
        return None;
    }
    for _ in scale..0 {
        let root = base.isqrt();
        if root * root != base || exponent % 2 != 0 {
            return None;
        }
        base = root;
        exponent /= 2;
    }
    let times = numerator << scale.max(0);
    let odd = u64::from(base).checked_pow(times).filter(|odd| *odd < 1 << 53)?;
    Some(odd as f64 * power_of_two(exponent * times as i32)?)
}

/// A finite x > 0 as an odd integer below 2²⁴ and a power of two.
fn odd_part(x: f32) -> (u32, i32) {
    let field = x.to_bits() >> 23;
    let fraction = x.to_bits() & 0x7f_ffff;
    let significand = if field == 0 { fraction } else { fraction | 0x80_0000 };
    let zeros = significand.trailing_zeros();
    (significand >> zeros, field.max(1) as i32 - 150 + zeros as i32)
}

/// 2^k, unless it is far from every `f32`.
fn power_of_two(k: i32) -> Option<f64> {
    (-1000..1000).contains(&k).then(|| f64::from_bits(((1023 + k) as u64) << 52))
}

/// The natural logarithm by the series of log((1 + s)/(1 − s)); s² < 0.0295, so 22 terms leave less than 2⁻¹¹⁰.
fn log_double(x: f64) -> DoubleDouble {
    let (exponent, f) = log::reduce(x);
    let s = DoubleDouble::new(f).div(DoubleDouble::new(2.0 + f));
    let square = s.mul(s);
    let mut sum = DoubleDouble::new(0.0);
    for term in (0..22u32).rev() {
        sum = sum.mul(square).add(DoubleDouble::ONE.div(DoubleDouble::new(f64::from(2 * term + 1))));
    }
    DoubleDouble::LN_2.mul(DoubleDouble::new(exponent)).add(s.add(s).mul(sum))
}

/// e^x as a number near 1 and a power of two, for |x| < 700; 26 terms of the series at ln 2/2 leave less than 2⁻¹³⁰.
fn exponential_double(x: DoubleDouble) -> (DoubleDouble, f64) {
    let Exponential { k, scale, .. } = Exponential::of(x.high);
    let r = x.add(DoubleDouble::LN_2.mul(DoubleDouble::new(-k)));
    let mut sum = DoubleDouble::ONE;
    for n in (1..=26).rev() {
        sum = sum.mul(r).div(DoubleDouble::new(f64::from(n))).add(DoubleDouble::ONE);
    }
    (sum, scale)
}
