//! Comparison, and the test for finite numbers.
//!
//! The orders differ on floats only. Under IEEE 754 totalOrder floats compare as integers do once the magnitude bits of
//! negative ones are flipped: −NaN < −∞ < … < −0 < +0 < … < +∞ < +NaN. False is below true.

use crate::dtype::DType;
use crate::numerics::Half;
use crate::program::{Comparison, Order};

use super::sweep::{Binary, Cell, Lane, Unary};
use super::table::cell;

/// Defines `compare` over every dtype, order and comparison.
macro_rules! comparisons {
    ($($comparison:ident $op:tt;)+) => {
        /// Whether the comparison holds between two elements of one dtype.
        pub(super) fn compare(
            comparison: Comparison,
            order: Order,
            operands: &[DType],
            result: DType,
        ) -> Option<Lane> {
            let &[a, b] = operands else { return None };
            if a != b || result != DType::Bool {
                return None;
            }
            Some(match comparison {
                $(Comparison::$comparison => match (a, order) {
                    (DType::Bool, Order::Partial | Order::Total) => comparisons!(@lane cell!(Bool), |x| x, $op),
                    (DType::I32, Order::Partial | Order::Total) => comparisons!(@lane cell!(I32), |x| x, $op),
                    (DType::U32, Order::Partial | Order::Total) => comparisons!(@lane cell!(U32), |x| x, $op),
                    (DType::I64, Order::Partial | Order::Total) => comparisons!(@lane cell!(I64), |x| x, $op),
                    (DType::F16, Order::Partial) => comparisons!(@lane cell!(F16), |x| x.widen(), $op),
                    (DType::BF16, Order::Partial) => comparisons!(@lane cell!(BF16), |x| x.widen(), $op),
                    (DType::F16 | DType::BF16, Order::Total) => comparisons!(@lane cell!(HalfBits), |x| total_half(x), $op),
                    (DType::F32, Order::Partial) => comparisons!(@lane cell!(F32), |x| x, $op),
                    (DType::F32, Order::Total) => comparisons!(@lane cell!(F32), |x| total(x), $op),
                },)+
            })
        }
    };
    (@lane $ty:ty, |$x:ident| $key:expr, $op:tt) => {{
        struct Element;
        impl Binary for Element {
            type A = $ty;
            type B = $ty;
            type R = u8;
            #[inline(always)]
            fn apply(a: $ty, b: $ty) -> u8 {
                let a = { let $x = a; $key };
                let b = { let $x = b; $key };
                u8::from(a $op b)
            }
        }
        Lane::binary::<Element>()
    }};
}

comparisons! {
    Eq ==;
    Ne !=;
    Ge >=;
    Gt >;
    Le <=;
    Lt <;
}

/// Whether the element is neither infinite nor NaN: its exponent is not all ones.
pub(super) fn is_finite(operands: &[DType], result: DType) -> Option<Lane> {
    /// Of floats that are the bits `Bits`, with all ones in the exponent `EXPONENT`.
    struct Finite<Bits, const EXPONENT: u32>(std::marker::PhantomData<Bits>);
    impl<Bits: Cell + Into<u32>, const EXPONENT: u32> Unary for Finite<Bits, EXPONENT> {
        type A = Bits;
        type R = u8;
        #[inline(always)]
        fn apply(x: Bits) -> u8 {
            u8::from(x.into() & EXPONENT != EXPONENT)
        }
    }
    let (&[operand], DType::Bool) = (operands, result) else { return None };
    match operand {
        DType::F16 => Some(Lane::unary::<Finite<u16, 0x7c00>>()),
        DType::BF16 => Some(Lane::unary::<Finite<u16, 0x7f80>>()),
        DType::F32 => Some(Lane::unary::<Finite<u32, 0x7f80_0000>>()),
        DType::Bool | DType::I32 | DType::U32 | DType::I64 => None,
    }
}

/// An integer that orders as totalOrder orders `x`.
#[inline(always)]
fn total(x: f32) -> i32 {
    let bits = x.to_bits() as i32;
    bits ^ ((bits >> 31) & i32::MAX)
}

/// An integer that orders as totalOrder orders the 16-bit float of these bits.
#[inline(always)]
fn total_half(bits: u16) -> i16 {
    let bits = bits as i16;
    bits ^ ((bits >> 15) & i16::MAX)
}
