//! Elements in text: `dense<…>` written and read, bit by bit.

use std::fmt::Write as _;
use std::sync::Arc;

use systole_kernels::{DType, Scalar, TensorType};

use crate::ir::Literal;

/// Above this many elements a constant is written as a hex string, as MLIR does.
const HEX_ABOVE: usize = 100;

/// Element `index` of row-major little-endian bytes.
pub(super) fn element(dtype: DType, bytes: &[u8], index: usize) -> Scalar {
    let size = dtype.size();
    Scalar::from_le_bytes(dtype, &bytes[index * size..(index + 1) * size])
}

/// Element `index` of a constant in row-major order.
pub(super) fn at(literal: &Literal, index: usize) -> Scalar {
    match literal {
        Literal::Splat(_, value) => *value,
        Literal::Dense(ty, bytes) => element(ty.dtype, bytes, index),
    }
}

/// A constant of these elements: a splat where all are equal, as MLIR stores it.
pub(super) fn compact(ty: TensorType, bytes: Vec<u8>) -> Literal {
    match splat(&ty, &bytes) {
        Some(value) => Literal::Splat(ty, value),
        None => Literal::Dense(ty, Arc::from(bytes)),
    }
}

fn splat(ty: &TensorType, bytes: &[u8]) -> Option<Scalar> {
    let size = ty.dtype.size();
    let first = bytes.get(..size)?;
    bytes.chunks_exact(size).all(|element| element == first).then(|| element(ty.dtype, bytes, 0))
}

/// Appends `dense<…>`, without the type.
pub(super) fn print(out: &mut String, literal: &Literal) {
    out.push_str("dense<");
    match literal {
        Literal::Splat(ty, value) => {
            if ty.shape.checked_elements() != Some(0) {
                print_scalar(out, *value);
            }
        }
        Literal::Dense(ty, bytes) => match splat(ty, bytes) {
            Some(value) => print_scalar(out, value),
            None => print_dense(out, ty, bytes),
        },
    }
    out.push('>');
}

fn print_dense(out: &mut String, ty: &TensorType, bytes: &[u8]) {
    let count = bytes.len() / ty.dtype.size();
    if count == 0 {
        return;
    }
    // MLIR has packed bools both as bits and as bytes; a list is the same in every version.
    if count > HEX_ABOVE && ty.dtype != DType::Bool {
        out.push_str("\"0x");
        for byte in bytes {
            let _ = write!(out, "{byte:02X}");
        }
        out.push('"');
        return;
    }
    for index in 0..count {
        let edges = |index: usize| {
            let mut span = 1;
            ty.shape
                .iter()
                .rev()
                .take_while(|&&extent| {
                    span *= extent;
                    index.is_multiple_of(span)
                })
                .count()
        };
        if index > 0 {
            out.push_str(", ");
        }
        out.extend(std::iter::repeat_n('[', edges(index)));
        print_scalar(out, element(ty.dtype, bytes, index));
        out.extend(std::iter::repeat_n(']', edges(index + 1)));
    }
}

fn print_scalar(out: &mut String, value: Scalar) {
    let bits = value.bits();
    let _ = match value.dtype() {
        DType::Bool => write!(out, "{}", bits != 0),
        DType::I32 => write!(out, "{}", bits as u32 as i32),
        DType::U32 => write!(out, "{}", bits as u32),
        DType::I64 => write!(out, "{}", bits as i64),
        DType::F16 | DType::BF16 | DType::F32 => {
            print_float(out, value);
            Ok(())
        }
    };
}

/// MLIR's form with seven digits where that is exact, otherwise the shortest one that is; hexadecimal if not finite.
/// Seven digits are exact for every 16-bit float.
fn print_float(out: &mut String, element: Scalar) {
    let value = element.to_f64();
    if !value.is_finite() {
        let _ = write!(out, "0x{:0digits$X}", element.bits(), digits = 2 * element.dtype().size());
        return;
    }
    let scientific = |digits: String| {
        let (mantissa, exponent) = digits.split_once('e').unwrap_or((&digits, "0"));
        let exponent: i32 = exponent.parse().unwrap_or(0);
        let point = if mantissa.contains('.') { "" } else { ".0" };
        format!("{mantissa}{point}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
    };
    let usual = scientific(format!("{value:.6e}"));
    if read_decimal(element.dtype(), &usual) == Some(element) {
        out.push_str(&usual);
        return;
    }
    let magnitude = value.abs();
    // Shortest as an f32, which an element without a form of seven digits is.
    let value = value as f32;
    let shortest = format!("{value}");
    if (1e-4..1e9).contains(&magnitude) && shortest.contains('.') {
        out.push_str(&shortest);
    } else {
        out.push_str(&scientific(format!("{value:e}")));
    }
}

/// The finite element nearest to a decimal number. A 16-bit one is rounded from the nearest `f64`, as MLIR does.
fn read_decimal(dtype: DType, text: &str) -> Option<Scalar> {
    let element = match dtype {
        DType::F32 => text.parse::<f32>().ok()?.into(),
        DType::F16 | DType::BF16 => Scalar::from_f64(dtype, text.parse().ok()?),
        DType::Bool | DType::I32 | DType::U32 | DType::I64 => return None,
    };
    element.to_f64().is_finite().then_some(element)
}

/// One element as written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written<'a> {
    pub(super) offset: usize,
    pub(super) negative: bool,
    /// A number or `true` or `false`.
    pub(super) text: &'a str,
}

/// The element that the text spells.
pub(super) fn read(dtype: DType, written: Written<'_>) -> Result<Scalar, String> {
    let Written { negative, text, .. } = written;
    let spelled = || format!("{}{text}", if negative { "-" } else { "" });
    if let "true" | "false" = text {
        return if dtype == DType::Bool && !negative {
            Ok(Scalar::from(text == "true"))
        } else {
            Err(format!("{} is no element of {dtype}", spelled()))
        };
    }
    let hex = text.strip_prefix("0x").filter(|digits| !digits.is_empty());
    match dtype {
        DType::F16 | DType::BF16 | DType::F32 => match hex {
            Some(digits) => match u64::from_str_radix(digits, 16) {
                Ok(bits) if !negative && bits >> (8 * dtype.size()) == 0 => Ok(Scalar::from_bits(dtype, bits)),
                _ => Err(format!("{} is not the bits of {dtype}", spelled())),
            },
            None => read_decimal(dtype, &spelled()).ok_or_else(|| format!("{} is no finite {dtype}", spelled())),
        },
        DType::Bool | DType::I32 | DType::U32 | DType::I64 => {
            let magnitude = match hex {
                Some(digits) => i128::from_str_radix(digits, 16),
                None => text.parse::<i128>(),
            };
            let outside = |_| format!("{} is no integer", spelled());
            let value = magnitude.map(|m| if negative { -m } else { m }).map_err(outside)?;
            let width = if dtype == DType::Bool { 1 } else { 8 * dtype.size() as u32 };
            // Signless types take either reading of their bits, as in MLIR.
            let lowest = if dtype == DType::U32 { 0 } else { -(1i128 << (width - 1)) };
            if value < lowest || value >= 1i128 << width {
                return Err(format!("{value} does not fit {dtype}"));
            }
            Ok(Scalar::from_bits(dtype, value as u64))
        }
    }
}

/// Bytes of a hex string `0x…`.
pub(super) fn read_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("0x")?.as_bytes();
    let value = |digit: u8| char::from(digit).to_digit(16);
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    digits.chunks_exact(2).map(|pair| Some((value(pair[0])? * 16 + value(pair[1])?) as u8)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_float_reads_back_to_its_bits() {
        let mut bits = 0x1234_5678u32;
        for i in 0..200_000u32 {
            bits = if i < 4096 { i << 20 } else { bits.wrapping_mul(1_664_525).wrapping_add(1_013_904_223) };
            let mut text = String::new();
            print_scalar(&mut text, Scalar::from_bits(DType::F32, u64::from(bits)));
            let (negative, digits) = match text.strip_prefix('-') {
                Some(digits) => (true, digits),
                None => (false, text.as_str()),
            };
            let back = read(DType::F32, Written { offset: 0, negative, text: digits });
            assert_eq!(back.map(Scalar::bits), Ok(u64::from(bits)), "{text}");
            assert!(text.contains('.') || text.starts_with("0x"), "MLIR floats have a point: {text}");
        }
    }

    #[test]
    fn floats_look_like_mlir() {
        for (value, text) in [
            (1.0, "1.000000e+00"),
            (-0.0, "-0.000000e+00"),
            (1.686_044_1, "1.6860441"),
            (f32::INFINITY, "0x7F800000"),
            (f32::NAN, "0x7FC00000"),
            (f32::from_bits(1), "1.401298e-45"),
            (f32::MAX, "3.4028235e+38"),
            (16_777_215.0, "1.6777215e+07"),
        ] {
            let mut out = String::new();
            print_float(&mut out, Scalar::from(value));
            assert_eq!(out, text);
        }
        for (dtype, bits, text) in [
            (DType::BF16, 0x3f80, "1.000000e+00"),
            (DType::BF16, 0x0001, "9.183550e-41"),
            (DType::BF16, 0x7f7f, "3.389531e+38"),
            (DType::BF16, 0xff80, "0xFF80"),
            (DType::F16, 0x0001, "5.960464e-08"),
            (DType::F16, 0xfbff, "-6.550400e+04"),
            (DType::F16, 0x7e00, "0x7E00"),
        ] {
            let mut out = String::new();
            print_float(&mut out, Scalar::from_bits(dtype, bits));
            assert_eq!(out, text);
        }
    }

    #[test]
    fn every_half_reads_back_to_its_bits() {
        for dtype in [DType::F16, DType::BF16] {
            for bits in 0..=u64::from(u16::MAX) {
                let mut text = String::new();
                print_scalar(&mut text, Scalar::from_bits(dtype, bits));
                assert!(text.len() <= 13, "seven digits are enough: {text}");
                let (negative, digits) = match text.strip_prefix('-') {
                    Some(digits) => (true, digits),
                    None => (false, text.as_str()),
                };
                let back = read(dtype, Written { offset: 0, negative, text: digits });
                assert_eq!(back.map(Scalar::bits), Ok(bits), "{text}");
            }
        }
        let read = |dtype, text| read(dtype, Written { offset: 0, negative: false, text }).map(Scalar::bits);
        assert_eq!(read(DType::BF16, "1.00390625"), Ok(0x3f80), "a tie goes to even");
        assert_eq!(read(DType::BF16, "1.003906250001"), Ok(0x3f81), "and what is above it does not");
        assert_eq!(read(DType::F16, "65519.0"), Ok(0x7bff));
        assert!(read(DType::F16, "65520.0").is_err());
        assert!(read(DType::BF16, "0x10000").is_err());
    }

    #[test]
    fn integers_keep_their_ranges() {
        let read = |dtype, negative, text| read(dtype, Written { offset: 0, negative, text }).map(Scalar::bits);
        assert_eq!(read(DType::I32, true, "2147483648"), Ok(0x8000_0000));
        assert_eq!(read(DType::I32, false, "0xFFFFFFFF"), Ok(0xffff_ffff));
        assert!(read(DType::I32, true, "2147483649").is_err());
        assert!(read(DType::U32, true, "1").is_err());
        assert!(read(DType::U32, false, "4294967296").is_err());
        assert_eq!(read(DType::I64, true, "9223372036854775808"), Ok(1 << 63));
        assert!(read(DType::I64, false, "99999999999999999999999999999999999999999999").is_err());
        assert_eq!(read(DType::Bool, false, "true"), Ok(1));
        assert!(read(DType::I32, false, "true").is_err());
        assert!(read(DType::I32, false, "1.5").is_err());
    }
}
