//! Functions of single elements. Integers are computed exactly in `i128` and wrapped (N9); floats are rounded once.

use std::cmp::Ordering;

use systole_kernels::program::{Comparison, LaneOp, Order};
use systole_kernels::{DType, Scalar, bf16, f16, numerics};

/// The canonical NaN (N4).
const NAN: f32 = f32::from_bits(0x7fc0_0000);

pub(super) fn unary(op: LaneOp, x: Scalar) -> Scalar {
    match x.dtype() {
        // N5: the sign bit and nothing else, so not by way of f32 either.
        dtype @ (DType::F16 | DType::BF16) if op == LaneOp::Abs => Scalar::from_bits(dtype, x.bits() & 0x7fff),
        dtype @ (DType::F16 | DType::BF16) if op == LaneOp::Negate => Scalar::from_bits(dtype, x.bits() ^ 0x8000),
        // N23
        dtype @ (DType::F16 | DType::BF16) => round(dtype, unary_float(op, float(x))),
        DType::F32 => unary_float(op, float(x)).into(),
        dtype @ (DType::Bool | DType::I32 | DType::U32 | DType::I64) => wrap(dtype, unary_integer(op, integer(x))),
    }
}

/// The result is bool.
pub(super) fn predicate(op: LaneOp, x: Scalar) -> Scalar {
    match (op, x.dtype()) {
        (LaneOp::IsFinite, DType::F16 | DType::BF16 | DType::F32) => float(x).is_finite().into(),
        (op, dtype) => unreachable!("{op:?} does not test a {dtype}"),
    }
}

pub(super) fn binary(op: LaneOp, a: Scalar, b: Scalar) -> Scalar {
    match a.dtype() {
        // N23
        dtype @ (DType::F16 | DType::BF16) => round(dtype, binary_float(op, float(a), float(b))),
        DType::F32 => binary_float(op, float(a), float(b)).into(),
        DType::Bool => binary_bool(op, integer(a) != 0, integer(b) != 0).into(),
        dtype @ (DType::I32 | DType::U32 | DType::I64) => wrap(dtype, binary_integer(op, integer(a), integer(b))),
    }
}

pub(super) fn ternary(op: LaneOp, a: Scalar, b: Scalar, c: Scalar) -> Scalar {
    match op {
        // N22
        LaneOp::Select => {
            if integer(a) != 0 {
                b
            } else {
                c
            }
        }
        // N15
        LaneOp::Clamp => binary(LaneOp::Minimum, binary(LaneOp::Maximum, b, a), c),
        LaneOp::Abs
        | LaneOp::Negate
        | LaneOp::Sign
        | LaneOp::Exponential
        | LaneOp::Log
        | LaneOp::Tanh
        | LaneOp::Logistic
        | LaneOp::Erf
        | LaneOp::ExponentialMinusOne
        | LaneOp::LogPlusOne
        | LaneOp::Sine
        | LaneOp::Cosine
        | LaneOp::Cbrt
        | LaneOp::Sqrt
        | LaneOp::Rsqrt
        | LaneOp::Floor
        | LaneOp::Ceil
        | LaneOp::IsFinite
        | LaneOp::Not
        | LaneOp::Add
        | LaneOp::Subtract
        | LaneOp::Multiply
        | LaneOp::Divide
        | LaneOp::Maximum
        | LaneOp::Minimum
        | LaneOp::Power
        | LaneOp::Remainder
        | LaneOp::Atan2
        | LaneOp::And
        | LaneOp::Or
        | LaneOp::Xor
        | LaneOp::Compare(..)
        | LaneOp::Convert
        | LaneOp::Bitcast
        | LaneOp::ChipConvert => unreachable!("{op:?} does not take three elements"),
    }
}

fn unary_float(op: LaneOp, x: f32) -> f32 {
    match op {
        // N5: these two change or keep the sign bit and nothing else.
        LaneOp::Abs => f32::from_bits(x.to_bits() & 0x7fff_ffff),
        LaneOp::Negate => f32::from_bits(x.to_bits() ^ 0x8000_0000),
        LaneOp::Sign => match x {
            _ if x.is_nan() => NAN,
            _ if x == 0.0 => x,
            _ if x > 0.0 => 1.0,
            _ => -1.0,
        },
        LaneOp::Exponential => canonical(numerics::exponential(x)),
        LaneOp::Log => canonical(numerics::log(x)),
        LaneOp::Tanh => canonical(numerics::tanh(x)),
        LaneOp::Logistic => canonical(numerics::logistic(x)),
        LaneOp::Erf => canonical(numerics::erf(x)),
        LaneOp::ExponentialMinusOne => canonical(numerics::exponential_minus_one(x)),
        LaneOp::LogPlusOne => canonical(numerics::log_plus_one(x)),
        LaneOp::Sine => canonical(numerics::sine(x)),
        LaneOp::Cosine => canonical(numerics::cosine(x)),
        LaneOp::Cbrt => canonical(numerics::cbrt(x)),
        LaneOp::Sqrt => canonical(x.sqrt()),
        LaneOp::Rsqrt => canonical(numerics::rsqrt(x)),
        LaneOp::Floor => canonical(x.floor()),
        LaneOp::Ceil => canonical(x.ceil()),
        LaneOp::Not
        | LaneOp::Add
        | LaneOp::Subtract
        | LaneOp::Multiply
        | LaneOp::Divide
        | LaneOp::Maximum
        | LaneOp::Minimum
        | LaneOp::Power
        | LaneOp::Remainder
        | LaneOp::Atan2
        | LaneOp::And
        | LaneOp::Or
        | LaneOp::Xor
        | LaneOp::Compare(..)
        | LaneOp::Select
        | LaneOp::Clamp
        | LaneOp::Convert
        | LaneOp::Bitcast
        | LaneOp::ChipConvert
        | LaneOp::IsFinite => unreachable!("{op:?} does not take one float"),
    }
}

fn unary_integer(op: LaneOp, x: i128) -> i128 {
    match op {
        LaneOp::Abs => x.abs(),
        LaneOp::Negate => -x,
        LaneOp::Sign => x.signum(),
        LaneOp::Not => !x,
        LaneOp::Exponential
        | LaneOp::Log
        | LaneOp::Tanh
        | LaneOp::Logistic
        | LaneOp::Erf
        | LaneOp::ExponentialMinusOne
        | LaneOp::LogPlusOne
        | LaneOp::Sine
        | LaneOp::Cosine
        | LaneOp::Cbrt
        | LaneOp::Sqrt
        | LaneOp::Rsqrt
        | LaneOp::Floor
        | LaneOp::Ceil
        | LaneOp::IsFinite
        | LaneOp::Add
        | LaneOp::Subtract
        | LaneOp::Multiply
        | LaneOp::Divide
        | LaneOp::Maximum
        | LaneOp::Minimum
        | LaneOp::Power
        | LaneOp::Remainder
        | LaneOp::Atan2
        | LaneOp::And
        | LaneOp::Or
        | LaneOp::Xor
        | LaneOp::Compare(..)
        | LaneOp::Select
        | LaneOp::Clamp
        | LaneOp::Convert
        | LaneOp::Bitcast
        | LaneOp::ChipConvert => unreachable!("{op:?} does not take one integer"),
    }
}

fn binary_float(op: LaneOp, a: f32, b: f32) -> f32 {
    match op {
        LaneOp::Add => canonical(a + b),
        LaneOp::Subtract => canonical(a - b),
        LaneOp::Multiply => canonical(a * b),
        LaneOp::Divide => canonical(a / b),
        // N13: NaN wins; of the zeros the positive one is the larger.
        LaneOp::Maximum => match () {
            () if a.is_nan() || b.is_nan() => NAN,
            () if a == b => f32::from_bits(a.to_bits() & b.to_bits()),
            () if a > b => a,
            () => b,
        },
        LaneOp::Minimum => match () {
            () if a.is_nan() || b.is_nan() => NAN,
            () if a == b => f32::from_bits(a.to_bits() | b.to_bits()),
            () if a < b => a,
            () => b,
        },
        LaneOp::Power => canonical(numerics::power(a, b)),
        LaneOp::Atan2 => canonical(numerics::atan2(a, b)),
        // Exact, with the dividend's sign; NaN for a divisor of zero or an infinite dividend.
        LaneOp::Remainder => canonical(a % b),
        LaneOp::Abs
        | LaneOp::Negate
        | LaneOp::Sign
        | LaneOp::Exponential
        | LaneOp::Log
        | LaneOp::Tanh
        | LaneOp::Logistic
        | LaneOp::Erf
        | LaneOp::ExponentialMinusOne
        | LaneOp::LogPlusOne
        | LaneOp::Sine
        | LaneOp::Cosine
        | LaneOp::Cbrt
        | LaneOp::Sqrt
        | LaneOp::Rsqrt
        | LaneOp::Floor
        | LaneOp::Ceil
        | LaneOp::IsFinite
        | LaneOp::Not
        | LaneOp::And
        | LaneOp::Or
        | LaneOp::Xor
        | LaneOp::Compare(..)
        | LaneOp::Select
        | LaneOp::Clamp
        | LaneOp::Convert
        | LaneOp::Bitcast
        | LaneOp::ChipConvert => unreachable!("{op:?} does not take two floats"),
    }
}

fn binary_integer(op: LaneOp, a: i128, b: i128) -> i128 {
    match op {
        LaneOp::Add => a + b,
        LaneOp::Subtract => a - b,
        LaneOp::Multiply => a * b,
        // N10
        LaneOp::Divide => {
            if b == 0 {
                -1
            } else {
                a / b
            }
        }
        LaneOp::Remainder => {
            if b == 0 {
                a
            } else {
                a % b
            }
        }
        LaneOp::Maximum => a.max(b),
        LaneOp::Minimum => a.min(b),
        LaneOp::Power => power(a, b),
        LaneOp::And => a & b,
        LaneOp::Or => a | b,
        LaneOp::Xor => a ^ b,
        LaneOp::Abs
        | LaneOp::Negate
        | LaneOp::Sign
        | LaneOp::Exponential
        | LaneOp::Log
        | LaneOp::Tanh
        | LaneOp::Logistic
        | LaneOp::Erf
        | LaneOp::ExponentialMinusOne
        | LaneOp::LogPlusOne
        | LaneOp::Sine
        | LaneOp::Cosine
        | LaneOp::Cbrt
        | LaneOp::Sqrt
        | LaneOp::Rsqrt
        | LaneOp::Floor
        | LaneOp::Ceil
        | LaneOp::IsFinite
        | LaneOp::Not
        | LaneOp::Compare(..)
        | LaneOp::Select
        | LaneOp::Clamp
        | LaneOp::Convert
        | LaneOp::Bitcast
        | LaneOp::ChipConvert
        | LaneOp::Atan2 => unreachable!("{op:?} does not take two integers"),
    }
}

/// N14
fn binary_bool(op: LaneOp, a: bool, b: bool) -> bool {
    match op {
        LaneOp::Add | LaneOp::Maximum | LaneOp::Or => a || b,
        LaneOp::Multiply | LaneOp::Minimum | LaneOp::And => a && b,
        LaneOp::Xor => a != b,
        LaneOp::Abs
        | LaneOp::Negate
        | LaneOp::Sign
        | LaneOp::Exponential
        | LaneOp::Log
        | LaneOp::Tanh
        | LaneOp::Logistic
        | LaneOp::Erf
        | LaneOp::ExponentialMinusOne
        | LaneOp::LogPlusOne
        | LaneOp::Sine
        | LaneOp::Cosine
        | LaneOp::Cbrt
        | LaneOp::Sqrt
        | LaneOp::Rsqrt
        | LaneOp::Floor
        | LaneOp::Ceil
        | LaneOp::IsFinite
        | LaneOp::Not
        | LaneOp::Subtract
        | LaneOp::Divide
        | LaneOp::Power
        | LaneOp::Remainder
        | LaneOp::Atan2
        | LaneOp::Compare(..)
        | LaneOp::Select
        | LaneOp::Clamp
        | LaneOp::Convert
        | LaneOp::Bitcast
        | LaneOp::ChipConvert => unreachable!("{op:?} does not take two bools"),
    }
}

/// N11. Positive powers are exact modulo 2^64, of which every integer dtype is a part.
fn power(base: i128, exponent: i128) -> i128 {
    if exponent < 0 {
        return match base {
            1 => 1,
            -1 if exponent % 2 == 0 => 1,
            -1 => -1,
            _ => 0,
        };
    }
    let modulus = 1i128 << 64;
    let (mut result, mut square, mut rest) = (1i128, base.rem_euclid(modulus) as u128, exponent);
    while rest > 0 {
        if rest % 2 == 1 {
            result = ((result as u128).wrapping_mul(square) % modulus as u128) as i128;
        }
        square = square.wrapping_mul(square) % modulus as u128;
        rest /= 2;
    }
    result
}

/// N16
pub(super) fn compare(direction: Comparison, order: Order, a: Scalar, b: Scalar) -> bool {
    let ordering = match (a.dtype(), order) {
        (DType::F16 | DType::BF16 | DType::F32, Order::Partial) => float(a).partial_cmp(&float(b)),
        (DType::F16 | DType::BF16 | DType::F32, Order::Total) => Some(total_key(a).cmp(&total_key(b))),
        (DType::Bool | DType::I32 | DType::U32 | DType::I64, Order::Partial | Order::Total) => {
            Some(integer(a).cmp(&integer(b)))
        }
    };
    match direction {
        Comparison::Eq => ordering == Some(Ordering::Equal),
        Comparison::Ne => ordering != Some(Ordering::Equal),
        Comparison::Ge => matches!(ordering, Some(Ordering::Greater | Ordering::Equal)),
        Comparison::Gt => ordering == Some(Ordering::Greater),
        Comparison::Le => matches!(ordering, Some(Ordering::Less | Ordering::Equal)),
        Comparison::Lt => ordering == Some(Ordering::Less),
    }
}

/// A number that orders as the bits do, read as sign and magnitude: −0 comes just before +0.
fn total_key(x: Scalar) -> i128 {
    let sign = 1 << (8 * x.dtype().size() - 1);
    let magnitude = i128::from(x.bits() & (sign - 1));
    if x.bits() & sign != 0 { -1 - magnitude } else { magnitude }
}

/// N12
pub(super) fn convert(x: Scalar, to: DType) -> Scalar {
    match (x.dtype(), to) {
        (DType::F16 | DType::BF16 | DType::F32, DType::F16 | DType::BF16 | DType::F32) => round(to, float(x)),
        (DType::F16 | DType::BF16 | DType::F32, DType::Bool) => (float(x) != 0.0).into(),
        // `as` truncates, saturates, and takes NaN to 0.
        (DType::F16 | DType::BF16 | DType::F32, DType::I32) => (float(x) as i32).into(),
        (DType::F16 | DType::BF16 | DType::F32, DType::U32) => (float(x) as u32).into(),
        (DType::F16 | DType::BF16 | DType::F32, DType::I64) => (float(x) as i64).into(),
        (DType::Bool | DType::I32 | DType::U32 | DType::I64, DType::F16 | DType::BF16 | DType::F32) => {
            from_integer(to, integer(x))
        }
        (DType::Bool | DType::I32 | DType::U32 | DType::I64, DType::Bool) => (integer(x) != 0).into(),
        (DType::Bool | DType::I32 | DType::U32 | DType::I64, DType::I32 | DType::U32 | DType::I64) => {
            wrap(to, integer(x))
        }
    }
}

/// N17: an index as an element.
pub(super) fn from_index(dtype: DType, index: usize) -> Scalar {
    match dtype {
        DType::F16 | DType::BF16 | DType::F32 => from_integer(dtype, index as i128),
        DType::Bool | DType::I32 | DType::U32 | DType::I64 => wrap(dtype, index as i128),
    }
}

/// An integer rounded to a float dtype, once.
fn from_integer(dtype: DType, x: i128) -> Scalar {
    // The significand's bits; the value that they hold after rounding is exact in every wider float.
    let bits = match dtype {
        DType::F16 => 11,
        DType::BF16 => 8,
        DType::F32 => 24,
        DType::Bool | DType::I32 | DType::U32 | DType::I64 => unreachable!("an integer is rounded to a float"),
    };
    let magnitude = x.unsigned_abs();
    let place = 1u128 << (128 - magnitude.leading_zeros()).saturating_sub(bits);
    let (kept, cut) = (magnitude / place, magnitude % place);
    let up = 2 * cut > place || (2 * cut == place && kept % 2 == 1);
    let rounded = ((kept + u128::from(up)) * place) as f32;
    round(dtype, if x < 0 { -rounded } else { rounded })
}

/// The value of a float; of a NaN, some NaN.
pub(super) fn float(x: Scalar) -> f32 {
    match x.dtype() {
        DType::F16 => f16::from_bits(x.bits() as u16).to_f32(),
        DType::BF16 => bf16::from_bits(x.bits() as u16).to_f32(),
        DType::F32 => f32::from_bits(x.bits() as u32),
        DType::Bool | DType::I32 | DType::U32 | DType::I64 => unreachable!("a float is read as one"),
    }
}

/// The nearest element of a float dtype, ties to even; of a NaN, the canonical one (N4).
pub(super) fn round(dtype: DType, x: f32) -> Scalar {
    match dtype {
        DType::F16 if x.is_nan() => Scalar::from_bits(dtype, 0x7e00),
        DType::F16 => f16::from_f32(x).into(),
        DType::BF16 if x.is_nan() => Scalar::from_bits(dtype, 0x7fc0),
        DType::BF16 => bf16::from_f32(x).into(),
        DType::F32 => canonical(x).into(),
        DType::Bool | DType::I32 | DType::U32 | DType::I64 => unreachable!("a float is rounded to a float"),
    }
}

/// The value of an integer or bool.
pub(super) fn integer(x: Scalar) -> i128 {
    match x.dtype() {
        DType::Bool => i128::from(x.bits() != 0),
        DType::I32 => i128::from(x.bits() as u32 as i32),
        DType::U32 => i128::from(x.bits() as u32),
        DType::I64 => i128::from(x.bits() as i64),
        DType::F16 | DType::BF16 | DType::F32 => unreachable!("an integer is read as one"),
    }
}

/// The element of an integer dtype or bool whose bits are the value's low bits.
pub(super) fn wrap(dtype: DType, value: i128) -> Scalar {
    Scalar::from_bits(dtype, value as u64)
}

fn canonical(x: f32) -> f32 {
    if x.to_bits() & 0x7fff_ffff > 0x7f80_0000 { NAN } else { x }
}
