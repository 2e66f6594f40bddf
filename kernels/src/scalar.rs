//! One element with its dtype, stored as bits.

use half::{bf16, f16};

use crate::dtype::DType;
use crate::numerics::{Half, canonical, integer_to_odd, to_odd};

/// One element. Equality and hash are those of the bits, so a NaN equals itself and −0 differs from +0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Scalar {
    dtype: DType,
    bits: u64,
}

impl Scalar {
    /// The element of type `dtype` whose little-endian bytes are the low bytes of `bits`.
    pub const fn from_bits(dtype: DType, bits: u64) -> Self {
        let mask = match dtype.size() {
            1 => 1,
            2 => 0xffff,
            4 => 0xffff_ffff,
            _ => u64::MAX,
        };
        Scalar { dtype, bits: bits & mask }
    }

    /// The element of type `dtype` whose little-endian bytes these are.
    ///
    /// # Panics
    /// There are not [`DType::size`] bytes.
    pub fn from_le_bytes(dtype: DType, bytes: &[u8]) -> Self {
        let mut bits = [0; 8];
        bits[..dtype.size()].copy_from_slice(bytes);
        Scalar::from_bits(dtype, u64::from_le_bytes(bits))
    }

    /// Element type.
    pub const fn dtype(self) -> DType {
        self.dtype
    }

    /// The bits, zero-extended to 64.
    pub const fn bits(self) -> u64 {
        self.bits
    }

    /// The bits of a signed integer, sign-extended.
    pub const fn sign_extended(self) -> i64 {
        let unused = 64 - 8 * self.dtype.size() as u32;
        ((self.bits << unused) as i64) >> unused
    }

    /// The little-endian bytes, of which the first [`DType::size`] count.
    pub const fn to_le_bytes(self) -> [u8; 8] {
        self.bits.to_le_bytes()
    }

    /// The element of type `dtype` nearest to `value`, rounded once: integers truncate and saturate, `Bool` is `value != 0`.
    pub fn from_f64(dtype: DType, value: f64) -> Self {
        match dtype {
            DType::Bool => (value != 0.0).into(),
            DType::I32 => (value as i32).into(),
            DType::U32 => (value as u32).into(),
            DType::I64 => (value as i64).into(),
            DType::F16 => f16::narrow(canonical(to_odd(value))).into(),
            DType::BF16 => bf16::narrow(canonical(to_odd(value))).into(),
            DType::F32 => (value as f32).into(),
        }
    }

    /// The element of type `dtype` nearest to `value`, rounded once: integers wrap, `Bool` is `value != 0`.
    pub fn from_i64(dtype: DType, value: i64) -> Self {
        match dtype {
            DType::Bool => (value != 0).into(),
            DType::I32 => (value as i32).into(),
            DType::U32 => (value as u32).into(),
            DType::I64 => value.into(),
            DType::F16 => f16::narrow(integer_to_odd(value)).into(),
            DType::BF16 => bf16::narrow(integer_to_odd(value)).into(),
            DType::F32 => (value as f32).into(),
        }
    }

    /// The value as `f64`; exact for every dtype but large `I64`.
    pub fn to_f64(self) -> f64 {
        match self.dtype {
            DType::Bool => self.bits as f64,
            DType::I32 => f64::from(self.bits as u32 as i32),
            DType::U32 => f64::from(self.bits as u32),
            DType::I64 => self.bits as i64 as f64,
            DType::F16 => f64::from(f16::from_bits(self.bits as u16).widen()),
            DType::BF16 => f64::from(bf16::from_bits(self.bits as u16).widen()),
            DType::F32 => f64::from(f32::from_bits(self.bits as u32)),
        }
    }
}

impl From<bool> for Scalar {
    fn from(value: bool) -> Self {
        Scalar::from_bits(DType::Bool, u64::from(value))
    }
}

impl From<i32> for Scalar {
    fn from(value: i32) -> Self {
        Scalar::from_bits(DType::I32, u64::from(value as u32))
    }
}

impl From<u32> for Scalar {
    fn from(value: u32) -> Self {
        Scalar::from_bits(DType::U32, u64::from(value))
    }
}

impl From<i64> for Scalar {
    fn from(value: i64) -> Self {
        Scalar::from_bits(DType::I64, value as u64)
    }
}

impl From<f16> for Scalar {
    fn from(value: f16) -> Self {
        Scalar::from_bits(DType::F16, u64::from(value.to_bits()))
    }
}

impl From<bf16> for Scalar {
    fn from(value: bf16) -> Self {
        Scalar::from_bits(DType::BF16, u64::from(value.to_bits()))
    }
}

impl From<f32> for Scalar {
    fn from(value: f32) -> Self {
        Scalar::from_bits(DType::F32, u64::from(value.to_bits()))
    }
}

/// A Rust type that is the host form of a dtype.
pub trait Element: bytemuck::NoUninit + Default + PartialEq + std::fmt::Debug + Send + Sync + 'static {
    /// The dtype.
    const DTYPE: DType;
    /// The element as a [`Scalar`].
    fn to_scalar(self) -> Scalar;
    /// The element whose bits `scalar` holds; `scalar` has dtype [`Self::DTYPE`].
    fn from_scalar(scalar: Scalar) -> Self;
}

macro_rules! element {
    ($($ty:ty, $dtype:ident, |$bits:ident| $from:expr;)*) => {$(
        impl Element for $ty {
            const DTYPE: DType = DType::$dtype;
            fn to_scalar(self) -> Scalar {
                self.into()
            }
            fn from_scalar(scalar: Scalar) -> Self {
                let $bits = scalar.bits();
                $from
            }
        }
    )*};
}

element! {
    bool, Bool, |bits| bits != 0;
    i32, I32, |bits| bits as u32 as i32;
    u32, U32, |bits| bits as u32;
    i64, I64, |bits| bits as i64;
    f16, F16, |bits| f16::from_bits(bits as u16);
    bf16, BF16, |bits| bf16::from_bits(bits as u16);
    f32, F32, |bits| f32::from_bits(bits as u32);
}
