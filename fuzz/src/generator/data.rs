//! Elements: ordinary ones, and those that code gets wrong.

use systole_fusion::reference::HostTensor;
use systole_kernels::{DType, Scalar, TensorType};

use super::random::Random;

/// What a tensor's elements are like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Flavour {
    /// Moderate numbers, all different.
    Ordinary,
    /// Small integers: many equal, sums exact.
    Small,
    /// A quarter of them special, the others ordinary.
    Spiced,
    /// Special ones only.
    Special,
    /// Any bits.
    Bits,
    /// One element all over.
    Constant,
}

const FLOATS: [u32; 26] = [
    0x0000_0000, // +0
    0x8000_0000, // -0
    0x3f80_0000, // 1
    0xbf80_0000, // -1
    0x3f00_0000, // 0.5
    0x7f80_0000, // +inf
    0xff80_0000, // -inf
    0x7fc0_0000, // the canonical NaN
    0xffc0_0000, // its negative
    0x7fc1_2345, // a quiet NaN with a payload
    0x7f80_0001, // a signalling NaN
    0xffbf_ffff, // a negative signalling NaN
    0x0000_0001, // the least subnormal
    0x8000_0001, // its negative
    0x007f_ffff, // the largest subnormal
    0x0080_0000, // the least normal
    0x7f7f_ffff, // the largest
    0xff7f_ffff, // its negative
    0x4f00_0000, // 2^31
    0xcf00_0000, // -2^31
    0x4f80_0000, // 2^32
    0x5f00_0000, // 2^63
    0x42b1_7218, // about where exp overflows
    0xc2ce_8ed0, // about where exp underflows
    0x4b80_0001, // an odd integer above 2^24
    0x3f7f_ffff, // just below 1
];

/// The upper halves of the specials above are the specials of bf16; these are those of f16.
const F16S: [u16; 20] = [
    0x0000, // +0
    0x8000, // -0
    0x3c00, // 1
    0xbc00, // -1
    0x3800, // 0.5
    0x7c00, // +inf
    0xfc00, // -inf
    0x7e00, // the canonical NaN
    0xfe00, // its negative
    0x7e55, // a quiet NaN with a payload
    0x7c01, // a signalling NaN
    0xfdff, // a negative signalling NaN
    0x0001, // the least subnormal
    0x8001, // its negative
    0x03ff, // the largest subnormal
    0x0400, // the least normal
    0x7bff, // the largest
    0xfbff, // its negative
    0x6801, // 2050, an even integer where odd ones end
    0x3bff, // just below 1
];

const INTEGERS: [i64; 15] = [
    0,
    1,
    -1,
    2,
    -2,
    31,
    32,
    i32::MIN as i64,
    i32::MAX as i64,
    u32::MAX as i64,
    i64::MIN,
    i64::MAX,
    i64::MIN + 1,
    (1 << 24) + 1,
    (1 << 53) + 1,
];

/// Elements for a tensor of type `ty`.
pub(super) fn data(random: &mut Random, ty: &TensorType) -> HostTensor {
    let flavour = flavour(random);
    let repeated = element(random, ty.dtype, flavour);
    let mut bytes = Vec::with_capacity(ty.byte_len());
    for _ in 0..ty.shape.elements() {
        let element = if flavour == Flavour::Constant { repeated } else { element(random, ty.dtype, flavour) };
        bytes.extend_from_slice(&element.to_le_bytes()[..ty.dtype.size()]);
    }
    HostTensor { ty: ty.clone(), bytes }
}

/// One element, for a constant.
pub(super) fn scalar(random: &mut Random, dtype: DType) -> Scalar {
    let flavour = flavour(random);
    element(random, dtype, flavour)
}

/// Start indices; the one at position `at` is meant for `0..=limit(at)`, and some lie outside where `strays` allows.
pub(super) fn indices(
    random: &mut Random,
    ty: &TensorType,
    strays: bool,
    limit: impl Fn(usize) -> usize,
) -> HostTensor {
    let mut bytes = Vec::with_capacity(ty.byte_len());
    for at in 0..ty.shape.elements() {
        let limit = limit(at) as i64;
        let index = if strays && random.chance(20) {
            Scalar::from_f64(ty.dtype, *random.pick(&[-1.0, limit as f64 + 1.0, -1e18, 1e18]))
        } else {
            Scalar::from_f64(ty.dtype, random.between(0, limit) as f64)
        };
        bytes.extend_from_slice(&index.to_le_bytes()[..ty.dtype.size()]);
    }
    HostTensor { ty: ty.clone(), bytes }
}

fn flavour(random: &mut Random) -> Flavour {
    match random.below(20) {
        0..8 => Flavour::Ordinary,
        8..12 => Flavour::Small,
        12..16 => Flavour::Spiced,
        16 => Flavour::Special,
        17 | 18 => Flavour::Bits,
        _ => Flavour::Constant,
    }
}

fn element(random: &mut Random, dtype: DType, flavour: Flavour) -> Scalar {
    let flavour = match flavour {
        Flavour::Spiced if random.chance(25) => Flavour::Special,
        Flavour::Spiced => Flavour::Ordinary,
        Flavour::Constant if random.chance(50) => Flavour::Special,
        Flavour::Constant => Flavour::Ordinary,
        Flavour::Ordinary | Flavour::Small | Flavour::Special | Flavour::Bits => flavour,
    };
    match (dtype, flavour) {
        (DType::Bool, _) => random.chance(50).into(),
        (_, Flavour::Bits) => Scalar::from_bits(dtype, random.bits()),
        (DType::F16 | DType::BF16 | DType::F32, Flavour::Small) => Scalar::from_i64(dtype, random.between(-4, 4)),
        (DType::F16, Flavour::Special) => Scalar::from_bits(dtype, u64::from(*random.pick(&F16S))),
        // Not of the NaNs whose payload lies below: they would be infinities, and those are in the list.
        (DType::BF16, Flavour::Special) => Scalar::from_bits(dtype, u64::from(*random.pick(&FLOATS) >> 16)),
        (DType::F32, Flavour::Special) => Scalar::from_bits(dtype, u64::from(*random.pick(&FLOATS))),
        (DType::F16 | DType::BF16 | DType::F32, _) => {
            // Uniform in sign, exponent (a few of them) and significand.
            let magnitude = (1.0 + random.unit()) * *random.pick(&[0.03125f32, 0.125, 0.5, 0.5, 1.0, 1.0, 2.0, 8.0]);
            Scalar::from_f64(dtype, f64::from(if random.chance(50) { magnitude } else { -magnitude }))
        }
        (DType::I32 | DType::U32 | DType::I64, Flavour::Special) => {
            Scalar::from_bits(dtype, *random.pick(&INTEGERS) as u64)
        }
        (DType::I32 | DType::U32 | DType::I64, Flavour::Small) => {
            Scalar::from_bits(dtype, random.between(-3, 5) as u64)
        }
        (DType::I32 | DType::U32 | DType::I64, _) => Scalar::from_bits(dtype, random.between(-1000, 1000) as u64),
    }
}
