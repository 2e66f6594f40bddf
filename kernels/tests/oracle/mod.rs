//! What the correctly rounded functions are compared with: CORE-MATH, and for the logistic function, which it lacks,
//! a quotient of its `f64` exponential with double-double arithmetic where that cannot decide.
//!
//! Shared by the test `correct_rounding` and the example `exhaustive`.

use systole_kernels::numerics;

pub(crate) mod operands;

use operands::Random;

/// A visitor of the unary functions, generic so that both sides are inlined into its loops.
pub(crate) trait Visit {
    /// Called once per function with its name, the function and its oracle.
    fn unary(&mut self, name: &'static str, function: impl Fn(f32) -> f32 + Sync, oracle: impl Fn(f32) -> f32 + Sync);
}

/// Show every unary function to the visitor.
pub(crate) fn each_unary(visitor: &mut impl Visit) {
    visitor.unary("exponential", numerics::exponential, core_math::expf);
    visitor.unary("expm1", numerics::exponential_minus_one, core_math::expm1f);
    visitor.unary("log1p", numerics::log_plus_one, core_math::log1pf);
    visitor.unary("cbrt", numerics::cbrt, core_math::cbrtf);
    visitor.unary("sine", numerics::sine, core_math::sinf);
    visitor.unary("cosine", numerics::cosine, core_math::cosf);
    visitor.unary("erf", numerics::erf, core_math::erff);
    visitor.unary("log", numerics::log, core_math::logf);
    visitor.unary("tanh", numerics::tanh, core_math::tanhf);
    visitor.unary("logistic", numerics::logistic, logistic);
    visitor.unary("sqrt", numerics::sqrt, f32::sqrt);
    visitor.unary("rsqrt", numerics::rsqrt, core_math::rsqrtf);
}

/// The bits of an expected value: a NaN is the canonical one.
pub(crate) fn expected_bits(x: f32) -> u32 {
    if x.is_nan() { 0x7fc0_0000 } else { x.to_bits() }
}

/// Draws operands for a function of several arguments, compares and tells of a mismatch.
pub(crate) type Trial = fn(&mut Random) -> Option<String>;

/// The functions of several arguments.
pub(crate) const TRIALS: [(&str, Trial); 4] =
    [("power", power_trial), ("atan2", atan2_trial), ("remainder", remainder_trial), ("fma", fma_trial)];

/// CORE-MATH makes 1 of a quiet NaN to the power 0 and NaN of a signalling one; for us every NaN is the quiet one.
fn power_trial(random: &mut Random) -> Option<String> {
    let (x, y) = random.power();
    let wanted = expected_bits(core_math::powf(numerics::canonical(x), numerics::canonical(y)));
    let got = numerics::power(x, y).to_bits();
    (got != wanted).then(|| format!("power({x:e}, {y:e}) gives {got:#010x}, not {wanted:#010x}"))
}

/// Operands as for a remainder: structured ones among them, and quotients of every size.
fn atan2_trial(random: &mut Random) -> Option<String> {
    let (y, x) = random.remainder();
    let wanted = expected_bits(core_math::atan2f(y, x));
    let got = numerics::atan2(y, x).to_bits();
    (got != wanted).then(|| format!("atan2({y:e}, {x:e}) gives {got:#010x}, not {wanted:#010x}"))
}

/// The oracle is the remainder of two `f64`: exact as well, and an `f32` again.
fn remainder_trial(random: &mut Random) -> Option<String> {
    let (x, y) = random.remainder();
    let wanted = expected_bits((f64::from(x) % f64::from(y)) as f32);
    let got = numerics::remainder(x, y).to_bits();
    (got != wanted).then(|| format!("remainder({x:e}, {y:e}) gives {got:#010x}, not {wanted:#010x}"))
}

/// Any NaN will do for [`numerics::fma`].
fn fma_trial(random: &mut Random) -> Option<String> {
    let (a, b, c) = random.fma();
    let (got, wanted) = (numerics::fma(a, b, c), a.mul_add(b, c));
    (expected_bits(got) != expected_bits(wanted))
        .then(|| format!("fma({a:e}, {b:e}, {c:e}) gives {:#010x}, not {:#010x}", got.to_bits(), wanted.to_bits()))
}

/// The correctly rounded 1/(1 + e^−x).
///
/// With the correctly rounded `f64` e^−|x| the quotient in `f64` has a relative error below 2⁻⁵¹. If both ends of an
/// interval twice that wide narrow to the same `f32`, that is the answer; otherwise [`between`] decides.
pub(crate) fn logistic(x: f32) -> f32 {
    let e = core_math::exp(-f64::from(x).abs());
    let value = if x < 0.0 { e / (1.0 + e) } else { 1.0 / (1.0 + e) };
    let slack = value * 2.0f64.powi(-50);
    let (below, above) = ((value - slack) as f32, (value + slack) as f32);
    if below.to_bits() == above.to_bits() || value.is_nan() { below } else { between(x, below, above) }
}

/// Which of two neighbouring `f32` is nearer to the logistic function of `x`, by double-double arithmetic.
fn between(x: f32, below: f32, above: f32) -> f32 {
    let e = DoubleDouble::exp(-f64::from(x).abs());
    let numerator = if x < 0.0 { e } else { DoubleDouble { high: 1.0, low: 0.0 } };
    let value = numerator.div(e.add(DoubleDouble { high: 1.0, low: 0.0 }));
    let middle = f64::midpoint(f64::from(below), f64::from(above));
    let distance = (value.high - middle) + value.low;
    assert!(distance.abs() > middle * 2.0f64.powi(-90), "double-double cannot decide logistic({x:e})");
    if distance < 0.0 { below } else { above }
}

/// An unevaluated sum of two `f64`, good for about 100 bits.
#[derive(Clone, Copy)]
struct DoubleDouble {
    high: f64,
    low: f64,
}

impl DoubleDouble {
    fn sum(a: f64, b: f64) -> Self {
        let high = a + b;
        let b_part = high - a;
        Self { high, low: (a - (high - b_part)) + (b - b_part) }
    }

    fn add(self, other: Self) -> Self {
        let high = Self::sum(self.high, other.high);
        let low = Self::sum(self.low, other.low);
        let once = Self::sum(high.high, high.low + low.high);
        Self::sum(once.high, once.low + low.low)
    }

    fn mul(self, other: Self) -> Self {
        let high = self.high * other.high;
        let low = self.high.mul_add(other.high, -high) + (self.high * other.low + self.low * other.high);
        Self::sum(high, low)
    }

    fn div(self, other: Self) -> Self {
        let mut quotient = Self { high: self.high / other.high, low: 0.0 };
        for _ in 0..2 {
            let product = quotient.mul(other);
            let rest = self.add(Self { high: -product.high, low: -product.low });
            quotient = quotient.add(Self { high: rest.high / other.high, low: 0.0 });
        }
        quotient
    }

    /// e^x by Taylor's series after taking out a power of two.
    fn exp(x: f64) -> Self {
        const LN_2: DoubleDouble = DoubleDouble { high: std::f64::consts::LN_2, low: 2.319_046_813_846_299_6e-17 };
        let k = (x / LN_2.high).round_ties_even();
        let r = Self { high: x, low: 0.0 }.add(LN_2.mul(Self { high: -k, low: 0.0 }));
        let one = Self { high: 1.0, low: 0.0 };
        let mut sum = one;
        for n in (1..=30).rev() {
            sum = one.add(sum.mul(r).div(Self { high: f64::from(n), low: 0.0 }));
        }
        let scale = 2.0f64.powi(k as i32);
        Self { high: sum.high * scale, low: sum.low * scale }
    }
}
