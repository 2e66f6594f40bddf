//! Lane functions: every operation, dtype and instruction set against scalar definitions written out here.

use systole_kernels::lanes::{LaneFn, Source, eval, kernel};
use systole_kernels::numerics;
use systole_kernels::program::{Comparison, LaneOp, Order};
use systole_kernels::simd::Isa;
use systole_kernels::{DType, Scalar, bf16, f16};

const UNARY: [LaneOp; 22] = [
    LaneOp::Abs,
    LaneOp::Negate,
    LaneOp::Sign,
    LaneOp::Exponential,
    LaneOp::Log,
    LaneOp::Tanh,
    LaneOp::Logistic,
    LaneOp::Erf,
    LaneOp::ExponentialMinusOne,
    LaneOp::LogPlusOne,
    LaneOp::Sine,
    LaneOp::Cosine,
    LaneOp::Cbrt,
    LaneOp::Sqrt,
    LaneOp::Rsqrt,
    LaneOp::Floor,
    LaneOp::Ceil,
    LaneOp::IsFinite,
    LaneOp::Not,
    LaneOp::Convert,
    LaneOp::Bitcast,
    LaneOp::ChipConvert,
];

const ARITHMETIC: [LaneOp; 12] = [
    LaneOp::Add,
    LaneOp::Subtract,
    LaneOp::Multiply,
    LaneOp::Divide,
    LaneOp::Maximum,
    LaneOp::Minimum,
    LaneOp::Power,
    LaneOp::Remainder,
    LaneOp::Atan2,
    LaneOp::And,
    LaneOp::Or,
    LaneOp::Xor,
];

const COMPARISONS: [Comparison; 6] =
    [Comparison::Eq, Comparison::Ne, Comparison::Ge, Comparison::Gt, Comparison::Le, Comparison::Lt];

fn binary() -> Vec<LaneOp> {
    let compare = COMPARISONS
        .into_iter()
        .flat_map(|comparison| [Order::Partial, Order::Total].map(|order| LaneOp::Compare(comparison, order)));
    ARITHMETIC.into_iter().chain(compare).collect()
}

fn canonical(x: f32) -> f32 {
    if x.is_nan() { f32::from_bits(0x7fc0_0000) } else { x }
}

/// A value of one element, for the definitions below.
#[derive(Clone, Copy)]
enum Value {
    Bool(bool),
    I32(i32),
    U32(u32),
    I64(i64),
    F16(f16),
    BF16(bf16),
    F32(f32),
}
use Value::{BF16, Bool, F16, F32, I32, I64, U32};

/// `x` rounded to `dtype`, a float type; a NaN becomes the canonical one.
fn rounded(x: f32, dtype: DType) -> Value {
    match dtype {
        DType::F16 => F16(if x.is_nan() { f16::from_bits(0x7e00) } else { f16::from_f32(x) }),
        DType::BF16 => BF16(if x.is_nan() { bf16::from_bits(0x7fc0) } else { bf16::from_f32(x) }),
        DType::F32 => F32(canonical(x)),
        DType::Bool | DType::I32 | DType::U32 | DType::I64 => panic!("{dtype} is no float"),
    }
}

/// A 16-bit float as an `f32`; a NaN becomes some NaN.
fn widened(x: Value) -> Option<f32> {
    match x {
        F16(x) => Some(x.to_f32()),
        BF16(x) => Some(x.to_f32()),
        Bool(_) | I32(_) | U32(_) | I64(_) | F32(_) => None,
    }
}

fn value(scalar: Scalar) -> Value {
    let bits = scalar.bits();
    match scalar.dtype() {
        DType::Bool => Bool(bits == 1),
        DType::I32 => I32(bits as u32 as i32),
        DType::U32 => U32(bits as u32),
        DType::I64 => I64(bits as i64),
        DType::F16 => F16(f16::from_bits(bits as u16)),
        DType::BF16 => BF16(bf16::from_bits(bits as u16)),
        DType::F32 => F32(f32::from_bits(bits as u32)),
    }
}

fn scalar(value: Value) -> Scalar {
    match value {
        Bool(x) => x.into(),
        I32(x) => x.into(),
        U32(x) => x.into(),
        I64(x) => x.into(),
        F16(x) => x.into(),
        BF16(x) => x.into(),
        F32(x) => x.into(),
    }
}

/// The definitions, one element at a time, by the plainest means. `None` where the operation does not admit the dtype.
fn define_unary(op: LaneOp, x: Value, result: DType) -> Option<Value> {
    if op == LaneOp::Convert {
        return Some(convert(x, result));
    }
    if op == LaneOp::Bitcast {
        let x = scalar(x);
        return (x.dtype().size() == result.size()).then(|| value(Scalar::from_bits(result, x.bits())));
    }
    if op == LaneOp::ChipConvert {
        return Some(chip_convert(x, result));
    }
    if let Some(wide) = widened(x).filter(|_| !matches!(op, LaneOp::Abs | LaneOp::Negate | LaneOp::IsFinite)) {
        let F32(y) = define_unary(op, F32(wide), DType::F32)? else { return None };
        return (scalar(x).dtype() == result).then(|| rounded(y, result));
    }
    let value = match (op, x) {
        (LaneOp::Abs, F16(x)) => F16(f16::from_bits(x.to_bits() << 1 >> 1)),
        (LaneOp::Abs, BF16(x)) => BF16(bf16::from_bits(x.to_bits() << 1 >> 1)),
        (LaneOp::Negate, F16(x)) => F16(f16::from_bits(x.to_bits() ^ (1 << 15))),
        (LaneOp::Negate, BF16(x)) => BF16(bf16::from_bits(x.to_bits() ^ (1 << 15))),
        (LaneOp::Abs, I32(x)) => I32(if x < 0 { 0i32.wrapping_sub(x) } else { x }),
        (LaneOp::Abs, I64(x)) => I64(if x < 0 { 0i64.wrapping_sub(x) } else { x }),
        (LaneOp::Abs, F32(x)) => F32(f32::from_bits(x.to_bits() << 1 >> 1)),
        (LaneOp::Negate, I32(x)) => I32(0i32.wrapping_sub(x)),
        (LaneOp::Negate, U32(x)) => U32(0u32.wrapping_sub(x)),
        (LaneOp::Negate, I64(x)) => I64(0i64.wrapping_sub(x)),
        (LaneOp::Negate, F32(x)) => F32(f32::from_bits(x.to_bits() ^ (1 << 31))),
        (LaneOp::Sign, I32(x)) => I32(x.signum()),
        (LaneOp::Sign, I64(x)) => I64(x.signum()),
        (LaneOp::Sign, F32(x)) => F32(if x == 0.0 { x } else { canonical(x.signum()) }),
        (LaneOp::Exponential, F32(x)) => F32(numerics::exponential(x)),
        (LaneOp::Log, F32(x)) => F32(numerics::log(x)),
        (LaneOp::Tanh, F32(x)) => F32(numerics::tanh(x)),
        (LaneOp::Logistic, F32(x)) => F32(numerics::logistic(x)),
        (LaneOp::Erf, F32(x)) => F32(numerics::erf(x)),
        (LaneOp::ExponentialMinusOne, F32(x)) => F32(numerics::exponential_minus_one(x)),
        (LaneOp::LogPlusOne, F32(x)) => F32(numerics::log_plus_one(x)),
        (LaneOp::Sine, F32(x)) => F32(numerics::sine(x)),
        (LaneOp::Cosine, F32(x)) => F32(numerics::cosine(x)),
        (LaneOp::Cbrt, F32(x)) => F32(numerics::cbrt(x)),
        (LaneOp::IsFinite, F16(x)) => Bool(x.is_finite()),
        (LaneOp::IsFinite, BF16(x)) => Bool(x.is_finite()),
        (LaneOp::IsFinite, F32(x)) => Bool(x.is_finite()),
        (LaneOp::Sqrt, F32(x)) => F32(numerics::sqrt(x)),
        (LaneOp::Rsqrt, F32(x)) => F32(numerics::rsqrt(x)),
        (LaneOp::Floor, F32(x)) => F32(canonical(x.floor())),
        (LaneOp::Ceil, F32(x)) => F32(canonical(x.ceil())),
        (LaneOp::Not, Bool(x)) => Bool(!x),
        (LaneOp::Not, I32(x)) => I32(!x),
        (LaneOp::Not, U32(x)) => U32(!x),
        (LaneOp::Not, I64(x)) => I64(!x),
        _ => return None,
    };
    (scalar(value).dtype() == result).then_some(value)
}

fn convert(x: Value, result: DType) -> Value {
    // Every integer here fits i128, and every float is exact in f64.
    let integer: i128 = match x {
        Bool(x) => x.into(),
        I32(x) => x.into(),
        U32(x) => x.into(),
        I64(x) => x.into(),
        F16(_) | BF16(_) => return convert(F32(widened(x).expect("a 16-bit float")), result),
        F32(x) => {
            let saturate = |low: i128, high: i128| {
                if x.is_nan() { 0 } else { (f64::from(x).trunc().clamp(-1e30, 1e30) as i128).clamp(low, high) }
            };
            match result {
                DType::Bool => (x != 0.0).into(),
                DType::I32 => saturate(i32::MIN.into(), i32::MAX.into()),
                DType::U32 => saturate(0, u32::MAX.into()),
                DType::I64 => saturate(i64::MIN.into(), i64::MAX.into()),
                DType::F16 | DType::BF16 | DType::F32 => return rounded(x, result),
            }
        }
    };
    match result {
        DType::Bool => Bool(integer != 0),
        DType::I32 => I32(integer as i32),
        DType::U32 => U32(integer as u32),
        DType::I64 => I64(integer as i64),
        DType::F16 => F16(f16::from_f64(cut(integer, 11))),
        DType::BF16 => BF16(bf16::from_f64(cut(integer, 8))),
        DType::F32 => F32(integer as f32),
    }
}

/// N29: `convert` of an operand that is flushed, but for what the measured tables say.
fn chip_convert(x: Value, result: DType) -> Value {
    let number = match x {
        BF16(x) if result == DType::F32 => return F32(f32::from_bits(u32::from(x.to_bits()) << 16)),
        F16(x) => x.to_f32(),
        BF16(x) => x.to_f32(),
        F32(x) => x,
        Bool(_) | I32(_) | U32(_) | I64(_) => return convert(x, result),
    };
    match result {
        DType::I32 if number.is_nan() => I32(i32::MAX),
        _ if number.is_subnormal() => convert(F32(0.0f32.copysign(number)), result),
        _ => convert(F32(number), result),
    }
}

/// An integer rounded to so many bits, ties to even.
fn cut(x: i128, bits: u32) -> f64 {
    let magnitude = x.unsigned_abs();
    let place = 1u128 << (128 - magnitude.leading_zeros()).saturating_sub(bits);
    let (quotient, rest) = (magnitude / place, magnitude % place);
    let up = 2 * rest > place || (2 * rest == place && quotient % 2 == 1);
    (quotient + u128::from(up)) as f64 * place as f64 * x.signum() as f64
}

/// a ÷ b of integers in `low..=high`, before wrapping: truncated, and −1 for b = 0.
fn quotient(a: i128, b: i128) -> i128 {
    if b == 0 { -1 } else { a / b }
}

fn remainder(a: i128, b: i128) -> i128 {
    if b == 0 { a } else { a % b }
}

/// aᵇ modulo 2⁶⁴ in the low bits, or the truncated quotient for a negative exponent.
fn power(a: i128, b: i128) -> i128 {
    if b < 0 {
        return match a {
            1 => 1,
            -1 => [1, -1][(b & 1) as usize],
            _ => 0,
        };
    }
    let (mut result, mut square, mut rest) = (1u64, a as u64, b as u64);
    while rest > 0 {
        if rest % 2 == 1 {
            result = result.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        rest /= 2;
    }
    result.into()
}

fn integers(op: LaneOp, a: i128, b: i128) -> Option<i128> {
    Some(match op {
        LaneOp::Add => a + b,
        LaneOp::Subtract => a - b,
        LaneOp::Multiply => a * b,
        LaneOp::Divide => quotient(a, b),
        LaneOp::Maximum => a.max(b),
        LaneOp::Minimum => a.min(b),
        LaneOp::Power => power(a, b),
        LaneOp::Remainder => remainder(a, b),
        LaneOp::And => a & b,
        LaneOp::Or => a | b,
        LaneOp::Xor => a ^ b,
        _ => return None,
    })
}

fn floats(op: LaneOp, a: f32, b: f32) -> Option<f32> {
    let ordered = |larger: bool| {
        if a.is_nan() || b.is_nan() {
            f32::NAN
        } else if a == 0.0 && b == 0.0 {
            // The positive zero is the larger.
            if a.is_sign_positive() == larger { a } else { b }
        } else if (a > b) == larger {
            a
        } else {
            b
        }
    };
    Some(canonical(match op {
        LaneOp::Add => a + b,
        LaneOp::Subtract => a - b,
        LaneOp::Multiply => a * b,
        LaneOp::Divide => a / b,
        LaneOp::Maximum => ordered(true),
        LaneOp::Minimum => ordered(false),
        LaneOp::Power => numerics::power(a, b),
        LaneOp::Atan2 => numerics::atan2(a, b),
        LaneOp::Remainder => numerics::remainder(a, b),
        _ => return None,
    }))
}

fn holds<T: PartialOrd>(comparison: Comparison, a: T, b: T) -> bool {
    match comparison {
        Comparison::Eq => a == b,
        Comparison::Ne => a != b,
        Comparison::Ge => a >= b,
        Comparison::Gt => a > b,
        Comparison::Le => a <= b,
        Comparison::Lt => a < b,
    }
}

fn define_binary(op: LaneOp, a: Value, b: Value, result: DType) -> Option<Value> {
    if let LaneOp::Compare(comparison, order) = op {
        let value = match (a, b) {
            (Bool(a), Bool(b)) => holds(comparison, a, b),
            (I32(a), I32(b)) => holds(comparison, a, b),
            (U32(a), U32(b)) => holds(comparison, a, b),
            (I64(a), I64(b)) => holds(comparison, a, b),
            (F16(a), F16(b)) => match order {
                Order::Partial => holds(comparison, a.to_f32(), b.to_f32()),
                Order::Total => holds(comparison, a.total_cmp(&b) as i8, 0),
            },
            (BF16(a), BF16(b)) => match order {
                Order::Partial => holds(comparison, a.to_f32(), b.to_f32()),
                Order::Total => holds(comparison, a.total_cmp(&b) as i8, 0),
            },
            (F32(a), F32(b)) => match order {
                Order::Partial => holds(comparison, a, b),
                Order::Total => holds(comparison, a.total_cmp(&b) as i8, 0),
            },
            _ => return None,
        };
        return (result == DType::Bool).then_some(Bool(value));
    }
    let value = match (a, b) {
        (Bool(a), Bool(b)) => Bool(match op {
            LaneOp::Add | LaneOp::Maximum | LaneOp::Or => a || b,
            LaneOp::Multiply | LaneOp::Minimum | LaneOp::And => a && b,
            LaneOp::Xor => a != b,
            _ => return None,
        }),
        (I32(a), I32(b)) => I32(integers(op, a.into(), b.into())? as i32),
        (U32(a), U32(b)) => U32(integers(op, a.into(), b.into())? as u32),
        (I64(a), I64(b)) => I64(integers(op, a.into(), b.into())? as i64),
        (F16(a), F16(b)) => rounded(floats(op, a.to_f32(), b.to_f32())?, DType::F16),
        (BF16(a), BF16(b)) => rounded(floats(op, a.to_f32(), b.to_f32())?, DType::BF16),
        (F32(a), F32(b)) => F32(floats(op, a, b)?),
        _ => return None,
    };
    (scalar(value).dtype() == result).then_some(value)
}

fn define_ternary(op: LaneOp, a: Value, b: Value, c: Value, result: DType) -> Option<Value> {
    match op {
        LaneOp::Select => {
            let Bool(predicate) = a else { return None };
            let uniform = scalar(b).dtype() == result && scalar(c).dtype() == result;
            uniform.then_some(if predicate { b } else { c })
        }
        LaneOp::Clamp => {
            let larger = define_binary(LaneOp::Maximum, b, a, result)?;
            define_binary(LaneOp::Minimum, larger, c, result)
        }
        _ => None,
    }
}

fn define(op: LaneOp, operands: &[Scalar], result: DType) -> Option<Scalar> {
    let defined = match *operands {
        [a] => define_unary(op, value(a), result),
        [a, b] => define_binary(op, value(a), value(b), result),
        [a, b, c] => define_ternary(op, value(a), value(b), value(c), result),
        _ => None,
    };
    defined.map(scalar)
}

/// Elements that matter, then `random` more of random bits.
fn elements(dtype: DType, random: usize) -> Vec<Scalar> {
    const FLOATS: [u32; 54] = [
        0x0000_0000,
        0x8000_0000,
        0x0000_0001,
        0x8000_0001,
        0x007f_ffff,
        0x807f_ffff,
        0x0080_0000,
        0x8080_0000,
        0x3f80_0000,
        0xbf80_0000,
        0x3f00_0000,
        0xbf00_0000,
        0x3eff_ffff,
        0xbeff_ffff,
        0x3f7f_ffff,
        0xbf7f_ffff,
        0x3f80_0001,
        0x3fc0_0000,
        0xbfc0_0000,
        0x4020_0000,
        0xc020_0000,
        0x4049_0fdb,
        0xc049_0fdb,
        0x42b1_7218,
        0xc2cf_f1b5,
        0x4aff_ffff,
        0xcaff_ffff,
        0x4b00_0000,
        0xcb00_0000,
        0x4b00_0001,
        0x4b7f_ffff,
        0x4b80_0001,
        0x4eff_ffff,
        0x4f00_0000,
        0xceff_ffff,
        0xcf00_0000,
        0xcf00_0001,
        0x4f7f_ffff,
        0x4f80_0000,
        0x5eff_ffff,
        0x5f00_0000,
        0xdf00_0000,
        0xdf00_0001,
        0x7f7f_ffff,
        0xff7f_ffff,
        0x7f80_0000,
        0xff80_0000,
        0x7fc0_0000,
        0xffc0_0000,
        0x7f80_0001,
        0xff80_0001,
        0x7fff_ffff,
        0xffff_ffff,
        0x7fc1_2345,
    ];
    const INTEGERS: [i64; 30] = [
        0,
        1,
        -1,
        2,
        -2,
        3,
        -3,
        7,
        -7,
        10,
        31,
        32,
        33,
        63,
        64,
        46_341,
        65_536,
        -65_536,
        16_777_217,
        0x7fff_ffff,
        -0x8000_0000,
        -0x7fff_ffff,
        0x8000_0000,
        0xffff_ffff,
        0x1_0000_0000,
        -0x1_0000_0000,
        i64::MAX,
        i64::MIN,
        i64::MIN + 1,
        0x7fff_ff80_0000_0001,
    ];
    /// Ones, the ends of the normal and subnormal numbers, infinities, NaNs of each kind; the signs follow.
    const F16S: [u16; 14] =
        [0, 1, 0x03ff, 0x0400, 0x37ff, 0x3800, 0x3c00, 0x3c01, 0x3e00, 0x7bff, 0x7c00, 0x7c01, 0x7e00, 0x7fff];
    const BF16S: [u16; 14] =
        [0, 1, 0x007f, 0x0080, 0x3eff, 0x3f00, 0x3f80, 0x3f81, 0x4b00, 0x7f7f, 0x7f80, 0x7f81, 0x7fc0, 0x7fff];
    let mut state = 0x9e37_79b9_7f4a_7c15 ^ dtype as u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state ^ (state >> 31)
    };
    let mut all: Vec<u64> = match dtype {
        DType::Bool => vec![0, 1],
        DType::F16 => F16S.into_iter().flat_map(|bits| [bits, bits | 0x8000]).map(u64::from).collect(),
        DType::BF16 => BF16S.into_iter().flat_map(|bits| [bits, bits | 0x8000]).map(u64::from).collect(),
        DType::F32 => FLOATS.map(u64::from).to_vec(),
        DType::I32 | DType::U32 | DType::I64 => INTEGERS.map(|x| x as u64).to_vec(),
    };
    all.extend((0..random).map(|_| next()));
    all.into_iter().map(|bits| Scalar::from_bits(dtype, bits)).collect()
}

/// A buffer of elements, aligned for any dtype.
struct Buffer {
    words: Vec<u64>,
    len: usize,
    dtype: DType,
}

impl Buffer {
    fn new(dtype: DType, elements: &[Scalar]) -> Self {
        let size = dtype.size();
        let mut buffer = Buffer { words: vec![0; (elements.len() * size).div_ceil(8)], len: elements.len(), dtype };
        for (slot, element) in buffer.bytes_mut().chunks_exact_mut(size).zip(elements) {
            slot.copy_from_slice(&element.to_le_bytes()[..size]);
        }
        buffer
    }

    fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.len * self.dtype.size()]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.words)[..self.len * self.dtype.size()]
    }

    fn elements(&self) -> Vec<Scalar> {
        let widen = |chunk: &[u8]| chunk.iter().rev().fold(0u64, |bits, &byte| bits << 8 | u64::from(byte));
        self.bytes().chunks_exact(self.dtype.size()).map(|chunk| Scalar::from_bits(self.dtype, widen(chunk))).collect()
    }
}

/// An operand of a test: an element per element of the result, or one for all.
#[derive(Clone)]
enum Operand {
    Each(Vec<Scalar>),
    All(Scalar),
}

impl Operand {
    fn at(&self, index: usize) -> Scalar {
        match self {
            Operand::Each(elements) => elements[index],
            Operand::All(element) => *element,
        }
    }
}

/// Runs `op` over `len` elements on every instruction set and compares with the definition.
fn check(op: LaneOp, operands: &[Operand], result: DType, len: usize) {
    let dtypes: Vec<DType> = operands
        .iter()
        .map(|operand| match operand {
            Operand::Each(elements) => elements[0].dtype(),
            Operand::All(element) => element.dtype(),
        })
        .collect();
    let lane: LaneFn = kernel(op, &dtypes, result).expect("the operation is defined on these dtypes");
    let buffers: Vec<Buffer> = operands
        .iter()
        .zip(&dtypes)
        .map(|(operand, &dtype)| match operand {
            Operand::Each(elements) => Buffer::new(dtype, &elements[..len]),
            Operand::All(_) => Buffer::new(dtype, &[]),
        })
        .collect();
    let sources: Vec<Source<'_>> = operands
        .iter()
        .zip(&buffers)
        .map(|(operand, buffer)| match operand {
            Operand::Each(_) => Source::Slice(buffer.bytes()),
            Operand::All(element) => Source::Splat(element.bits()),
        })
        .collect();
    let at = |i: usize| -> Vec<Scalar> { operands.iter().map(|operand| operand.at(i)).collect() };
    let defined = |i: usize| define(op, &at(i), result).expect("the operation is defined on these dtypes");
    let expected: Vec<Scalar> = (0..len).map(defined).collect();
    for isa in Isa::available() {
        let mut out = Buffer::new(result, &vec![Scalar::from_bits(result, 0); len]);
        lane(isa, out.bytes_mut(), &sources);
        for (i, (got, expected)) in out.elements().into_iter().zip(&expected).enumerate() {
            assert_eq!(got, *expected, "{op:?} of {:x?} at {i} of {len} on {isa}", at(i));
        }
        // A byte that is neither 0 nor 1 would pass the comparison above, which looks at one bit.
        assert!(result != DType::Bool || out.bytes().iter().all(|&byte| byte < 2), "{op:?} stores 0 or 1");
    }
}

/// All tuples of elements, as columns.
fn product(lists: &[Vec<Scalar>]) -> Vec<Vec<Scalar>> {
    let total: usize = lists.iter().map(Vec::len).product();
    let mut stride = total;
    lists
        .iter()
        .map(|list| {
            stride /= list.len();
            (0..total).map(|i| list[i / stride % list.len()]).collect()
        })
        .collect()
}

/// Dtypes of operands and result on which `op` is defined, of all there are.
fn signatures(op: LaneOp, arity: usize) -> Vec<(Vec<DType>, DType)> {
    let count = DType::ALL.len().pow(arity as u32 + 1);
    let all = (0..count).map(|code| {
        let digit = |place: usize| DType::ALL[code / DType::ALL.len().pow(place as u32) % DType::ALL.len()];
        ((1..=arity).map(digit).collect::<Vec<_>>(), digit(0))
    });
    all.filter(|(operands, result)| {
        let zeros: Vec<Scalar> = operands.iter().map(|&dtype| Scalar::from_bits(dtype, 0)).collect();
        let defined = define(op, &zeros, *result).is_some();
        assert_eq!(kernel(op, operands, *result).is_some(), defined, "{op:?} of {operands:?} to {result}");
        assert_eq!(eval(op, &zeros, *result).is_some(), defined, "{op:?} of {operands:?} to {result}");
        defined
    })
    .collect()
}

#[test]
fn unary_operations_follow_their_definitions() {
    for op in UNARY {
        for (dtypes, result) in signatures(op, 1) {
            let elements = match dtypes[0] {
                // All there are, past a whole number of blocks.
                dtype @ (DType::F16 | DType::BF16) => {
                    (0..0x1_0001).map(|bits| Scalar::from_bits(dtype, bits)).collect()
                }
                dtype @ (DType::Bool | DType::I32 | DType::U32 | DType::I64 | DType::F32) => elements(dtype, 4001),
            };
            check(op, &[Operand::Each(elements.clone())], result, elements.len());
            for &element in &elements[..elements.len().min(60)] {
                check(op, &[Operand::All(element)], result, 3);
            }
        }
    }
}

#[test]
fn binary_operations_follow_their_definitions() {
    for op in binary() {
        for (dtypes, result) in signatures(op, 2) {
            // Power is slow and its own tests go deeper.
            let random = if matches!(op, LaneOp::Power | LaneOp::Atan2) { 5 } else { 29 };
            let lists: Vec<Vec<Scalar>> = dtypes.iter().map(|&dtype| elements(dtype, random)).collect();
            let columns = product(&lists);
            let operands: Vec<Operand> = columns.iter().cloned().map(Operand::Each).collect();
            check(op, &operands, result, columns[0].len());
            for &element in &lists[0] {
                let len = lists[1].len();
                check(op, &[Operand::All(element), Operand::Each(lists[1].clone())], result, len);
                check(op, &[Operand::Each(lists[1].clone()), Operand::All(element)], result, len);
                check(op, &[Operand::All(element), Operand::All(lists[1][len / 2])], result, 1);
            }
        }
    }
}

#[test]
fn ternary_operations_follow_their_definitions() {
    for op in [LaneOp::Select, LaneOp::Clamp] {
        for (dtypes, result) in signatures(op, 3) {
            let lists: Vec<Vec<Scalar>> = dtypes.iter().map(|&dtype| elements(dtype, 3)).collect();
            let operands: Vec<Operand> = product(&lists).into_iter().map(Operand::Each).collect();
            let len = lists.iter().map(Vec::len).product();
            check(op, &operands, result, len);
            // Each set of operands that are one for all.
            for mask in 1..8 {
                let mixed: Vec<Operand> = operands
                    .iter()
                    .enumerate()
                    .map(
                        |(i, operand)| {
                            if mask >> i & 1 == 1 { Operand::All(operand.at(len / 3)) } else { operand.clone() }
                        },
                    )
                    .collect();
                check(op, &mixed, result, len.min(1003));
            }
        }
    }
}

#[test]
fn any_length_is_computed_in_full() {
    for (op, dtypes, result) in [
        (LaneOp::Add, vec![DType::F32; 2], DType::F32),
        (LaneOp::Multiply, vec![DType::BF16; 2], DType::BF16),
        (LaneOp::Power, vec![DType::F16; 2], DType::F16),
        (LaneOp::Compare(Comparison::Lt, Order::Partial), vec![DType::I64; 2], DType::Bool),
        (LaneOp::Clamp, vec![DType::I32; 3], DType::I32),
        (LaneOp::Convert, vec![DType::Bool], DType::I64),
    ] {
        for len in (0..140).chain([191, 192, 193, 511, 512, 513, 1024]) {
            let operands: Vec<Operand> = dtypes.iter().map(|&dtype| Operand::Each(elements(dtype, 1024))).collect();
            check(op, &operands, result, len);
        }
    }
}

#[test]
fn eval_computes_what_the_loops_compute() {
    for op in UNARY {
        for (dtypes, result) in signatures(op, 1) {
            for x in elements(dtypes[0], 50) {
                assert_eq!(eval(op, &[x], result), define(op, &[x], result), "{op:?} of {x:?}");
            }
        }
    }
    for op in binary() {
        for (dtypes, result) in signatures(op, 2) {
            for a in elements(dtypes[0], 0) {
                for b in elements(dtypes[1], 0) {
                    assert_eq!(eval(op, &[a, b], result), define(op, &[a, b], result), "{op:?} of {a:?}, {b:?}");
                }
            }
        }
    }
}

#[test]
fn wrong_numbers_of_operands_have_no_lane_function() {
    for arity in [0, 1, 2, 4] {
        assert!(kernel(LaneOp::Select, &vec![DType::Bool; arity], DType::Bool).is_none());
    }
    assert!(kernel(LaneOp::Add, &[DType::F32], DType::F32).is_none());
    assert!(kernel(LaneOp::Convert, &[DType::F32, DType::F32], DType::F32).is_none());
    assert!(kernel(LaneOp::Compare(Comparison::Eq, Order::Partial), &[DType::F32], DType::Bool).is_none());
}
