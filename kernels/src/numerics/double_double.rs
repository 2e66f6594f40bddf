//! Unevaluated sums of two `f64`: about 104 bits, for the rare arguments that 53 cannot decide.
//!
//! Products are split by Veltkamp's method, so no fused multiply-add is needed. Nothing here is meant for numbers near
//! the ends of the range of an `f64`.

use super::{fast_two_sum, two_sum};

/// `high + low` with |`low`| at most half the last place of `high`. The relative error of each operation is below 2⁻¹⁰⁰.
#[derive(Clone, Copy)]
pub(super) struct DoubleDouble {
    pub(super) high: f64,
    pub(super) low: f64,
}

impl DoubleDouble {
    pub(super) const LN_2: Self = Self { high: std::f64::consts::LN_2, low: 2.319_046_813_846_299_6e-17 };
    pub(super) const ONE: Self = Self { high: 1.0, low: 0.0 };

    pub(super) fn new(x: f64) -> Self {
        Self { high: x, low: 0.0 }
    }

    pub(super) fn add(self, other: Self) -> Self {
        let (high, rest) = two_sum(self.high, other.high);
        let (low, rest_of_low) = two_sum(self.low, other.low);
        let (high, rest) = fast_two_sum(high, rest + low);
        let (high, low) = fast_two_sum(high, rest + rest_of_low);
        Self { high, low }
    }

    pub(super) fn neg(self) -> Self {
        Self { high: -self.high, low: -self.low }
    }

    pub(super) fn mul(self, other: Self) -> Self {
        let (high, rest) = two_product(self.high, other.high);
        let (high, low) = fast_two_sum(high, rest + (self.high * other.low + self.low * other.high));
        Self { high, low }
    }

    pub(super) fn div(self, other: Self) -> Self {
        let first = self.high / other.high;
        let rest = self.add(other.mul(Self::new(-first)));
        let second = rest.high / other.high;
        let rest = rest.add(other.mul(Self::new(-second)));
        let (high, low) = fast_two_sum(first, second);
        Self { high, low }.add(Self::new(rest.high / other.high))
    }
}

/// The exact product as the rounded product and what the rounding lost (Dekker).
pub(super) fn two_product(a: f64, b: f64) -> (f64, f64) {
    let product = a * b;
    let (a_high, a_low) = halves(a);
    let (b_high, b_low) = halves(b);
    (product, a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low))
}

/// `x` as the sum of two numbers of at most 26 bits each (Veltkamp).
fn halves(x: f64) -> (f64, f64) {
    let scaled = x * 134_217_729.0; // 2²⁷ + 1
    let high = scaled - (scaled - x);
    (high, x - high)
}
