//! The angle of a point.
//!
//! atan2(y, x) has 2⁶⁴ arguments, so no exhaustive run settles it, and the whole is computed with sums of two `f64`:
//! the error is below 2⁻⁹⁰ of the result. A result would have to be nearer than that to the middle between two `f32`
//! to be wrong; the nearest ones are those of tiny quotients, where atan q = q − q³/3, and are settled by the sign of
//! what is added.
//!
//! # Reduction
//!
//! q = min(|x|, |y|)/max(|x|, |y|) lies in 0…1. With c the nearest multiple of 1/8 to q,
//! atan q = atan c + atan((q − c)/(1 + q·c)), and the second argument t is below 1/16. atan t = t − t³/3 + … up to t²³; the
//! terms from t⁹ on are small enough for one `f64`. Then the octant: π/2 − a where |y| > |x|, π − a where x < 0, and
//! the sign of y.

use super::double_double::DoubleDouble;
use super::{NAN, fast_two_sum, round_to_odd};

const PI: DoubleDouble = DoubleDouble { high: std::f64::consts::PI, low: 1.224_646_799_147_353_2e-16 };
const HALF_PI: DoubleDouble = DoubleDouble { high: std::f64::consts::FRAC_PI_2, low: 6.123_233_995_736_766e-17 };

/// atan(i/8), i = 0 … 8.
const ARCTANGENTS: [DoubleDouble; 9] = [
    DoubleDouble { high: 0.0, low: 0.0 },
    DoubleDouble { high: 0.124_354_994_546_761_44, low: -3.125_324_142_453_938_3e-18 },
    DoubleDouble { high: 0.244_978_663_126_864_14, low: 1.069_875_561_873_445_1e-17 },
    DoubleDouble { high: 0.358_770_670_270_572_25, low: -2.462_381_558_263_863_5e-17 },
    DoubleDouble { high: 0.463_647_609_000_806_1, low: 2.269_877_745_296_168_7e-17 },
    DoubleDouble { high: 0.558_599_315_343_562_4, low: -5.455_630_548_591_626_4e-18 },
    DoubleDouble { high: 0.643_501_108_793_284_4, low: 1.583_478_505_144_428_6e-17 },
    DoubleDouble { high: 0.718_829_999_621_624_5, low: -2.147_838_844_445_698_3e-17 },
    DoubleDouble { high: std::f64::consts::FRAC_PI_4, low: 3.061_616_997_868_383e-17 },
];

/// The angle of the point (x, y) in −π … π, correctly rounded; signs of zeros count as in IEEE 754's atan2.
#[must_use]
pub fn atan2(y: f32, x: f32) -> f32 {
    if x.is_nan() || y.is_nan() {
        return NAN;
    }
    let (a, b) = (f64::from(y).abs(), f64::from(x).abs());
    let steep = a > b;
    let (small, large) = if steep { (b, a) } else { (a, b) };
    let angle = if small == 0.0 {
        DoubleDouble::new(0.0)
    } else if large.is_infinite() {
        if small.is_infinite() { ARCTANGENTS[8] } else { DoubleDouble::new(0.0) }
    } else {
        arctangent(DoubleDouble::new(small).div(DoubleDouble::new(large)))
    };
    let angle = if steep { HALF_PI.add(angle.neg()) } else { angle };
    let angle = if x.is_sign_negative() { PI.add(angle.neg()) } else { angle };
    let (sum, error) = fast_two_sum(angle.high, angle.low);
    round_to_odd(sum, error).copysign(f64::from(y)) as f32
}

/// atan q for 0 < q ≤ 1.
fn arctangent(q: DoubleDouble) -> DoubleDouble {
    // One more bit than q has says on which side of q the arctangent of a tiny q lies.
    if q.high < 2.0f64.powi(-30) {
        let (high, low) = fast_two_sum(q.high, q.low - q.high * (q.high * q.high) * (1.0 / 3.0));
        return DoubleDouble { high, low };
    }
    let step = (q.high * 8.0).round();
    let c = DoubleDouble::new(-step / 8.0);
    let t = if step == 0.0 { q } else { q.add(c).div(DoubleDouble::ONE.add(q.mul(c.neg()))) };
    let z = t.mul(t);
    // t⁹ and on: 1/9 − z/11 + …
    let tail = (4..=11).rev().fold(0.0, |sum, n| 1.0 / f64::from(2 * n + 1) - sum * z.high);
    let third = DoubleDouble::new(1.0).div(DoubleDouble::new(3.0));
    let fifth = DoubleDouble::new(1.0).div(DoubleDouble::new(5.0));
    let seventh = DoubleDouble::new(1.0).div(DoubleDouble::new(7.0));
    let sum = seventh.add(z.mul(DoubleDouble::new(tail)).neg());
    let sum = fifth.add(z.mul(sum).neg());
    let sum = third.add(z.mul(sum).neg());
    ARCTANGENTS[step as usize].add(t.add(t.mul(z.mul(sum)).neg()))
}
