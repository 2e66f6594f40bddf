//! The 16-bit floats: exact widening to `f32`, and rounding to them once.
//!
//! Arithmetic on `f16` and `bf16` is that of `f32` on the widened operands, its result rounded once more
//! (docs/numerics.md, N23). So these few functions are all that the two types add to the arithmetic of the crate. They are
//! branch-free integer code, as everything that runs in a vector loop here. The `half` crate has them too, but calls the
//! processor's instructions where it finds them, which quiet signalling NaNs, and keeps payloads; its types are the host
//! form of the elements, its conversions an oracle for the tests.
//!
//! Widening moves bits: a NaN keeps sign and payload, also a signalling one.
//!
//! # Rounding once
//!
//! The exact value of an `i64` or `f64` cannot go through an `f32` rounded to nearest, or it would be rounded twice. It
//! goes through an `f32` rounded **to odd** ([`to_odd`]), which keeps in its last bit whether anything was cut off. With
//! 24 bits against at most 11 that is enough for the rounding that follows to be that of the exact value.

use half::{bf16, f16};

use crate::simd::Vectorized;

/// A 16-bit float.
pub trait Half: bytemuck::Pod {
    /// The element of these bits.
    fn of_bits(bits: u16) -> Self;
    /// The value, exactly; NaNs keep their bits.
    fn widen(self) -> f32;
    /// The nearest element, ties to even. A NaN must be the canonical one and becomes this type's.
    fn narrow(x: f32) -> Self;
}

impl Half for bf16 {
    #[inline(always)]
    fn of_bits(bits: u16) -> Self {
        bf16::from_bits(bits)
    }

    #[inline(always)]
    fn widen(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }

    #[inline(always)]
    fn narrow(x: f32) -> Self {
        let bits = x.to_bits();
        // The carry out of the fraction is the next exponent, and out of the last exponent infinity. The canonical NaN is a
        // tie of its own: its low bits are clear.
        let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1));
        bf16::from_bits((rounded >> 16) as u16)
    }
}

/// The least normal `f16`, as the bits of an `f32`.
const F16_NORMAL: u32 = 113 << 23;
/// What an exponent of `f16` is short of one of `f32`, in place.
const F16_BIAS: u32 = 112 << 23;

impl Half for f16 {
    #[inline(always)]
    fn of_bits(bits: u16) -> Self {
        f16::from_bits(bits)
    }

    #[inline(always)]
    fn widen(self) -> f32 {
        let bits = u32::from(self.to_bits());
        let sign = (bits & 0x8000) << 16;
        let magnitude = (bits & 0x7fff) << 13;
        let exponent = magnitude & (31 << 23);
        // A subnormal is its fraction in units of the last place of the least normal: exact, and no subnormal f32 is touched.
        let subnormal = f32::from_bits(magnitude + F16_NORMAL) - f32::from_bits(F16_NORMAL);
        let finite = if exponent == 0 { subnormal.to_bits() } else { magnitude + F16_BIAS };
        let magnitude = if exponent == 31 << 23 { magnitude + 2 * F16_BIAS } else { finite };
        f32::from_bits(sign | magnitude)
    }

    #[inline(always)]
    fn narrow(x: f32) -> Self {
        let magnitude = x.to_bits() & 0x7fff_ffff;
        let sign = (x.to_bits() ^ magnitude) >> 16;
        // From 2¹⁶ on all is infinite.
        let normal = magnitude.min(143 << 23);
        let normal = normal.wrapping_sub(F16_BIAS).wrapping_add(0xfff + ((normal >> 13) & 1)) >> 13;
        // Below the least normal the last place is 2⁻²⁴, which is that of ½ in an f32.
        let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
        let finite = if magnitude < F16_NORMAL { subnormal } else { normal };
        let rounded = if magnitude > 0x7f80_0000 { 0x7e00 } else { finite };
        f16::from_bits((sign | rounded) as u16)
    }
}

/// `x` as an `f32`, rounded to odd where it is none: of the two around it, the one whose last bit is set.
#[inline(always)]
#[must_use]
pub fn to_odd(x: f64) -> f32 {
    let nearest = x as f32;
    let bits = nearest.to_bits();
    let back = f64::from(nearest);
    let toward_zero = back.abs() > x.abs();
    let neighbour = if toward_zero { bits.wrapping_sub(1) } else { bits.wrapping_add(1) };
    let inexact = (back > x) | (back < x);
    f32::from_bits(if inexact & (bits & 1 == 0) { neighbour } else { bits })
}

/// `x` as an `f32`, rounded to odd where it is none.
#[inline(always)]
#[must_use]
pub fn integer_to_odd(x: i64) -> f32 {
    let magnitude = x.unsigned_abs();
    // From 2⁵³ on the low 11 bits become one sticky bit: at least 42 bits stay above it, and the rest is exact in an f64.
    let sticky = (magnitude & !0x7ff) | (u64::from(magnitude & 0x7ff != 0) << 11);
    let exact = if magnitude >> 53 == 0 { magnitude } else { sticky };
    let value = to_odd(exact as f64);
    if x < 0 { -value } else { value }
}

/// The loop that widens `src` to `dst`.
pub(crate) struct Widen<'a, H> {
    pub(crate) src: &'a [H],
    pub(crate) dst: &'a mut [f32],
}

impl<H: Half> Vectorized for Widen<'_, H> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        for (dst, src) in self.dst.iter_mut().zip(self.src) {
            *dst = src.widen();
        }
    }
}

/// The loop that rounds `src` to `dst`.
pub(crate) struct Narrow<'a, H> {
    pub(crate) src: &'a [f32],
    pub(crate) dst: &'a mut [H],
}

impl<H: Half> Vectorized for Narrow<'_, H> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        for (dst, &src) in self.dst.iter_mut().zip(self.src) {
            *dst = H::narrow(src);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::canonical;

    #[test]
    fn every_half_widens_to_its_value_and_back() {
        for bits in 0..=u16::MAX {
            let (b, f) = (bf16::from_bits(bits), f16::from_bits(bits));
            assert_eq!(b.widen().to_bits(), u32::from(bits) << 16);
            if f.is_nan() {
                let payload = u32::from(bits & 0x3ff) << 13;
                assert_eq!(f.widen().to_bits(), (u32::from(bits & 0x8000) << 16) | 0x7f80_0000 | payload);
                assert_eq!(f16::narrow(canonical(f.widen())).to_bits(), 0x7e00);
            } else {
                assert_eq!(f.widen().to_bits(), f.to_f32().to_bits());
                assert_eq!(f16::narrow(f.widen()).to_bits(), bits);
            }
            let same = if b.is_nan() { 0x7fc0 } else { bits };
            assert_eq!(bf16::narrow(canonical(b.widen())).to_bits(), same);
        }
    }

    /// All that lies on, and just beside, the points where the result changes, and a sample of the rest.
    #[test]
    fn narrowing_is_to_nearest_even() {
        let around = (0..=u16::MAX).flat_map(|bits| {
            let wide = [bf16::from_bits(bits).widen(), f16::from_bits(bits).widen()].map(f32::to_bits);
            let halves = wide.map(|wide| [0, 0x800, 0x1000, 0x4000, 0x8000].map(|step| wide.wrapping_add(step)));
            halves.into_iter().flatten().flat_map(|bits| [bits.wrapping_sub(1), bits, bits.wrapping_add(1)])
        });
        let sample = (0..1u32 << 22).map(|i| i.wrapping_mul(0x9e37_79b1));
        for x in around.chain(sample).map(f32::from_bits).map(canonical) {
            let expected = if x.is_nan() { [0x7fc0, 0x7e00] } else { [bf16::from_f32(x).to_bits(), f16_by_steps(x)] };
            assert_eq!([bf16::narrow(x).to_bits(), f16::narrow(x).to_bits()], expected, "{x:e}");
        }
    }

    /// The nearest `f16` by its definition: the last place, then rounding in `f64`, where all of it is exact.
    fn f16_by_steps(x: f32) -> u16 {
        let sign = ((x.to_bits() >> 31) as u16) << 15;
        let magnitude = f64::from(x.abs());
        let exponent = ((x.to_bits() >> 23) & 0xff).saturating_sub(127).min(40) as i32;
        let exponent = if magnitude < 1.0 { (magnitude.log2().floor() as i32).max(-14) } else { exponent };
        let place = 2f64.powi(exponent - 10);
        let rounded = (magnitude / place).round_ties_even() * place;
        sign | if rounded >= 65536.0 { 0x7c00 } else { f16::from_f64(rounded).to_bits() }
    }

    #[test]
    fn integers_round_once() {
        // An f32 rounds each of these to a tie of bf16, which then goes the wrong way.
        for (x, expected) in [
            (0x0101_0001, 0x0102_0000i64),
            (-0x0101_0001, -0x0102_0000),
            (0x0102_ffff, 0x0102_0000),
            (0x0101_0000_0000_0001, 0x0102_0000_0000_0000),
            (0x0100_ffff_ffff_ffff, 0x0100_0000_0000_0000),
            (i64::MIN, i64::MIN),
        ] {
            assert_eq!(bf16::narrow(integer_to_odd(x)).widen(), expected as f32, "{x:#x}");
        }
        for x in (-70_000..70_000).chain([i64::MAX, i64::MIN]) {
            assert_eq!(f16::narrow(integer_to_odd(x)).to_bits(), f16_by_steps(x as f32), "{x}");
        }
    }

    #[test]
    fn rounding_to_odd_keeps_the_side() {
        let ulp = f64::from(f32::EPSILON);
        for (x, bits) in [
            (1.0, 0x3f80_0000),
            (1.0 + ulp / 8.0, 0x3f80_0001),
            (1.0 - ulp / 8.0, 0x3f7f_ffff),
            (1.0 + 0.9 * ulp, 0x3f80_0001),
            (1.0 + 1.5 * ulp, 0x3f80_0001),
            (1e300, 0x7f7f_ffff),
            (-1e300, 0xff7f_ffff),
            (1e-300, 1),
            (-0.0, 0x8000_0000),
            (f64::INFINITY, 0x7f80_0000),
        ] {
            assert_eq!(to_odd(x).to_bits(), bits, "{x:e}");
        }
    }
}
