//! What a chip's arithmetic does otherwise (N27 to N29).

use systole_kernels::program::Precision;
use systole_kernels::{DType, Scalar, bf16};

use super::element;

/// N27: what arithmetic does at an op's edges. Zero of its sign for a number below 2^−126, the canonical NaN for a NaN.
fn flush(x: f32) -> f32 {
    match x {
        _ if x.is_nan() => f32::from_bits(0x7fc0_0000),
        _ if x.abs() < f32::MIN_POSITIVE => f32::copysign(0.0, x),
        _ => x,
    }
}

/// N27: an element as arithmetic reads it. A bf16 is computed with as an f32; an f16 loses nothing by it.
pub(super) fn read(x: Scalar) -> Scalar {
    match x.dtype() {
        DType::BF16 | DType::F32 => flush(element::float(x)).into(),
        DType::Bool | DType::I32 | DType::U32 | DType::I64 | DType::F16 => x,
    }
}

/// N27: a result as arithmetic writes it to a float dtype.
pub(super) fn write(dtype: DType, x: f32) -> Scalar {
    element::round(dtype, flush(x))
}

/// N27: an arithmetic op on floats, whose IEEE form is `op`.
pub(super) fn elementwise(dtype: DType, arguments: &[Scalar], op: impl Fn(&[Scalar]) -> Scalar) -> Scalar {
    let arguments: Vec<Scalar> = arguments.iter().map(|&x| read(x)).collect();
    write(dtype, element::float(op(&arguments)))
}

/// N29.
pub(super) fn convert(x: Scalar, to: DType) -> Scalar {
    match (x.dtype(), to) {
        (DType::BF16, DType::F32) => f32::from_bits((x.bits() as u32) << 16).into(),
        (DType::F16 | DType::BF16 | DType::F32, DType::I32) if element::float(x).is_nan() => i32::MAX.into(),
        (DType::BF16 | DType::F32, _) => element::convert(read(x), to),
        (DType::Bool | DType::I32 | DType::U32 | DType::I64 | DType::F16, _) => element::convert(x, to),
    }
}

/// N28: the bf16 that a factor is split into, most significant first.
pub(super) fn parts(x: Scalar, precision: Precision) -> Vec<f32> {
    let value = flush(element::float(x));
    // To nearest, ties to even, as N29 converts.
    let nearest = |x: f32| element::float(convert(x.into(), DType::BF16));
    let toward_zero = |x: f32| flush(bf16::from_bits((flush(x).to_bits() >> 16) as u16).to_f32());
    match (x.dtype(), precision) {
        (DType::BF16, _) | (_, Precision::Default) => vec![nearest(value)],
        (_, Precision::High) => {
            let high = toward_zero(value);
            vec![high, nearest(value - high)]
        }
        (_, Precision::Highest) => {
            let high = toward_zero(value);
            let middle = toward_zero(value - high);
            vec![high, middle, nearest(value - high - middle)]
        }
    }
}
