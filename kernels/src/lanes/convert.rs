//! Conversion between dtypes.
//!
//! Floats to integers truncate and saturate, NaN to 0; anything to bool is `x != 0` (so NaN is true); integers to
//! floats round to nearest even; integers to integers wrap; bool gives 0 or 1. These are the rules of Rust's `as`.
//! To a 16-bit float everything is rounded once: integers go there through an `f32` that is rounded to odd.
//! Converting a dtype to itself moves the value, but is arithmetic by the op's row: a NaN comes out canonical.
//!
//! A chip differs where one of its floats may be subnormal, and in what it makes of NaN (docs/numerics.md, N29).

use half::{bf16, f16};

use crate::dtype::DType;
use crate::numerics::{Half, canonical, flushed, integer_to_odd};

use super::rounding::truncated;
use super::sweep::{Lane, Unary};
use super::table::cell;

/// Defines a conversion over pairs of dtypes: every pair, or those in which it differs from another one.
macro_rules! conversions {
    ($(#[$doc:meta])* fn $name:ident $(else $other:ident)? {
        $($from:ident { $($to:ident: |$x:ident| $body:expr;)+ })+
    }) => {
        $(#[$doc])*
        pub(super) fn $name(operands: &[DType], result: DType) -> Option<Lane> {
            let &[operand] = operands else { return None };
            Some(match (operand, result) {
                $($((DType::$from, DType::$to) => {
                    struct Element;
                    impl Unary for Element {
                        type A = cell!($from);
                        type R = cell!($to);
                        #[inline(always)]
                        fn apply($x: cell!($from)) -> cell!($to) {
                            $body
                        }
                    }
                    Lane::unary::<Element>()
                })+)+
                $(_ => return $other(operands, result),)?
            })
        }
    };
}

conversions! {
    /// The operand in another dtype.
    fn convert {
        Bool {
            Bool: |x| x;
            I32: |x| i32::from(x);
            U32: |x| u32::from(x);
            I64: |x| i64::from(x);
            F16: |x| f16::narrow(f32::from(x));
            BF16: |x| bf16::narrow(f32::from(x));
            F32: |x| f32::from(x);
        }
        I32 {
            Bool: |x| u8::from(x != 0);
            I32: |x| x;
            U32: |x| x as u32;
            I64: |x| i64::from(x);
            F16: |x| f16::narrow(integer_to_odd(x.into()));
            BF16: |x| bf16::narrow(integer_to_odd(x.into()));
            F32: |x| x as f32;
        }
        U32 {
            Bool: |x| u8::from(x != 0);
            I32: |x| x as i32;
            U32: |x| x;
            I64: |x| i64::from(x);
            F16: |x| f16::narrow(integer_to_odd(x.into()));
            BF16: |x| bf16::narrow(integer_to_odd(x.into()));
            F32: |x| x as f32;
        }
        I64 {
            Bool: |x| u8::from(x != 0);
            I32: |x| x as i32;
            U32: |x| x as u32;
            I64: |x| x;
            F16: |x| f16::narrow(integer_to_odd(x));
            BF16: |x| bf16::narrow(integer_to_odd(x));
            F32: |x| x as f32;
        }
        F16 {
            Bool: |x| u8::from(x.widen() != 0.0);
            I32: |x| to_i32(x.widen());
            U32: |x| to_u32(x.widen());
            I64: |x| x.widen() as i64;
            F16: |x| f16::narrow(canonical(x.widen()));
            BF16: |x| bf16::narrow(canonical(x.widen()));
            F32: |x| canonical(x.widen());
        }
        BF16 {
            Bool: |x| u8::from(x.widen() != 0.0);
            I32: |x| to_i32(x.widen());
            U32: |x| to_u32(x.widen());
            I64: |x| x.widen() as i64;
            F16: |x| f16::narrow(canonical(x.widen()));
            BF16: |x| bf16::narrow(canonical(x.widen()));
            F32: |x| canonical(x.widen());
        }
        F32 {
            Bool: |x| u8::from(x != 0.0);
            I32: |x| to_i32(x);
            U32: |x| to_u32(x);
            I64: |x| x as i64;
            F16: |x| f16::narrow(canonical(x));
            BF16: |x| bf16::narrow(canonical(x));
            F32: |x| canonical(x);
        }
    }
}

conversions! {
    /// The operand in another dtype, as a chip converts it.
    fn chip_convert else convert {
        F16 {
            I32: |x| chip_to_i32(x.widen());
        }
        BF16 {
            Bool: |x| u8::from(flushed(x.widen()) != 0.0);
            I32: |x| chip_to_i32(x.widen());
            BF16: |x| bf16::narrow(flushed(x.widen()));
            F32: |x| x.widen();
        }
        F32 {
            Bool: |x| u8::from(flushed(x) != 0.0);
            I32: |x| chip_to_i32(x);
            BF16: |x| bf16::narrow(flushed(x));
            F32: |x| flushed(x);
        }
    }
}

/// As [`to_i32`], but NaN is the greatest.
#[inline(always)]
fn chip_to_i32(x: f32) -> i32 {
    if x.is_nan() { i32::MAX } else { to_i32(x) }
}

/// `x as i32`, in a form that vectorises.
#[inline(always)]
fn to_i32(x: f32) -> i32 {
    let limit = if x < 0.0 { 2_147_483_648.0 } else { 2_147_483_647.0 };
    let magnitude = f64::from(x.abs());
    let magnitude = truncated(if magnitude < limit { magnitude } else { limit }) as i32;
    let integer = if x < 0.0 { magnitude.wrapping_neg() } else { magnitude };
    if x.is_nan() { 0 } else { integer }
}

/// `x as u32`, in a form that vectorises.
#[inline(always)]
fn to_u32(x: f32) -> u32 {
    // False of NaN as well.
    let magnitude = if x > 0.0 { f64::from(x) } else { 0.0 };
    truncated(if magnitude < 4_294_967_295.0 { magnitude } else { 4_294_967_295.0 })
}
