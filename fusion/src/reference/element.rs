//! Functions of single elements. Integers are computed exactly in `i128` and wrapped (N9); floats are rounded once.

use std::cmp::Ordering;

use systole_kernels::program::{Comparison, LaneOp, Order};
use systole_kernels::{DType, Scalar, numerics};

/// The canonical NaN (N4).
const NAN: f32 = f32::from_bits(0x7fc0_0000);

pub(super) fn unary(op: LaneOp, x: Scalar) -> Scalar {
    match x.dtype() {
        DType::F32 => unary_float(op, float(x)).into(),
        dtype @ (DType::Bool | DType::I32 | DType::U32 | DType::I64) => wrap(dtype, unary_integer(op, integer(x))),
    }
}

pub(super) fn binary(op: LaneOp, a: Scalar, b: Scalar) -> Scalar {
    match a.dtype() {
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
        | LaneOp::Sqrt
        | LaneOp::Rsqrt
        | LaneOp::Floor
        | LaneOp::Ceil
        | LaneOp::Not
        | LaneOp::Add
        | LaneOp::Subtract
        | LaneOp::Multiply
        | LaneOp::Divide
        | LaneOp::Maximum
        | LaneOp::Minimum
        | LaneOp::Power
        | LaneOp::Remainder
        | LaneOp::And
        | LaneOp::Or
        | LaneOp::Xor
        | LaneOp::Compare(..)
        | LaneOp::Convert => unreachable!("{op:?} does not take three elements"),
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
        | LaneOp::And
        | LaneOp::Or
        | LaneOp::Xor
        | LaneOp::Compare(..)
        | LaneOp::Select
        | LaneOp::Clamp
        | LaneOp::Convert => unreachable!("{op:?} does not take one float"),
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
        | LaneOp::Sqrt
        | LaneOp::Rsqrt
        | LaneOp::Floor
        | LaneOp::Ceil
        | LaneOp::Add
        | LaneOp::Subtract
        | LaneOp::Multiply
        | LaneOp::Divide
        | LaneOp::Maximum
        | LaneOp::Minimum
        | LaneOp::Power
        | LaneOp::Remainder
        | LaneOp::And
        | LaneOp::Or
        | LaneOp::Xor
        | LaneOp::Compare(..)
        | LaneOp::Select
        | LaneOp::Clamp
        | LaneOp::Convert => unreachable!("{op:?} does not take one integer"),
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
        // Exact, with the dividend's sign; NaN for a divisor of zero or an infinite dividend.
        LaneOp::Remainder => canonical(a % b),
        LaneOp::Abs
        | LaneOp::Negate
        | LaneOp::Sign
        | LaneOp::Exponential
        | LaneOp::Log
        | LaneOp::Tanh
        | LaneOp::Logistic
        | LaneOp::Sqrt
        | LaneOp::Rsqrt
        | LaneOp::Floor
        | LaneOp::Ceil
        | LaneOp::Not
        | LaneOp::And
        | LaneOp::Or
        | LaneOp::Xor
        | LaneOp::Compare(..)
        | LaneOp::Select
        | LaneOp::Clamp
        | LaneOp::Convert => unreachable!("{op:?} does not take two floats"),
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
        | LaneOp::Sqrt
        | LaneOp::Rsqrt
        | LaneOp::Floor
        | LaneOp::Ceil
        | LaneOp::Not
        | LaneOp::Compare(..)
        | LaneOp::Select
        | LaneOp::Clamp
        | LaneOp::Convert => unreachable!("{op:?} does not take two integers"),
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
        | LaneOp::Sqrt
        | LaneOp::Rsqrt
        | LaneOp::Floor
        | LaneOp::Ceil
        | LaneOp::Not
        | LaneOp::Subtract
        | LaneOp::Divide
        | LaneOp::Power
        | LaneOp::Remainder
        | LaneOp::Compare(..)
        | LaneOp::Select
        | LaneOp::Clamp
        | LaneOp::Convert => unreachable!("{op:?} does not take two bools"),
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
        (DType::F32, Order::Partial) => float(a).partial_cmp(&float(b)),
        (DType::F32, Order::Total) => Some(total_key(a).cmp(&total_key(b))),
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
    let bits = x.bits() as u32;
    let magnitude = i128::from(bits & 0x7fff_ffff);
    if bits >> 31 == 1 { -1 - magnitude } else { magnitude }
}

/// N12
pub(super) fn convert(x: Scalar, to: DType) -> Scalar {
    match (x.dtype(), to) {
        (DType::F32, DType::F32) => canonical(float(x)).into(),
        (DType::F32, DType::Bool) => (float(x) != 0.0).into(),
        // `as` truncates, saturates, and takes NaN to 0.
        (DType::F32, DType::I32) => (float(x) as i32).into(),
        (DType::F32, DType::U32) => (float(x) as u32).into(),
        (DType::F32, DType::I64) => (float(x) as i64).into(),
        // `as` rounds to nearest, ties to even.
        (DType::Bool | DType::I32 | DType::U32 | DType::I64, DType::F32) => (integer(x) as f32).into(),
        (DType::Bool | DType::I32 | DType::U32 | DType::I64, DType::Bool) => (integer(x) != 0).into(),
        (DType::Bool | DType::I32 | DType::U32 | DType::I64, DType::I32 | DType::U32 | DType::I64) => {
            wrap(to, integer(x))
        }
    }
}

/// N17: an index as an element.
pub(super) fn from_index(dtype: DType, index: usize) -> Scalar {
    match dtype {
        DType::F32 => (index as f32).into(),
        DType::Bool | DType::I32 | DType::U32 | DType::I64 => wrap(dtype, index as i128),
    }
}

/// The value of a float.
pub(super) fn float(x: Scalar) -> f32 {
    assert!(x.dtype().is_float(), "a float is read as one");
    f32::from_bits(x.bits() as u32)
}

/// The value of an integer or bool.
pub(super) fn integer(x: Scalar) -> i128 {
    match x.dtype() {
        DType::Bool => i128::from(x.bits() != 0),
        DType::I32 => i128::from(x.bits() as u32 as i32),
        DType::U32 => i128::from(x.bits() as u32),
        DType::I64 => i128::from(x.bits() as i64),
        DType::F32 => unreachable!("an integer is read as one"),
    }
}

/// The element of an integer dtype or bool whose bits are the value's low bits.
pub(super) fn wrap(dtype: DType, value: i128) -> Scalar {
    Scalar::from_bits(dtype, value as u64)
}

pub(super) fn canonical(x: f32) -> f32 {
    if x.to_bits() & 0x7fff_ffff > 0x7f80_0000 { NAN } else { x }
}
