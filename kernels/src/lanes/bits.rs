//! Operations on the bits of integers and on truth values, and elements as the bits that they are.

use crate::dtype::DType;

use super::sweep::{Binary, Lane, Unary};
use super::table::{cell, dtypes, lanes};
use super::uniform;

lanes! {
    /// Complement.
    fn not(x) { Bool => x ^ 1; I32, U32, I64 => !x; } without Float
    /// Conjunction.
    fn and(a, b) { Bool, I32, U32, I64 => a & b; } without Float
    /// Disjunction.
    fn or(a, b) { Bool, I32, U32, I64 => a | b; } without Float
    /// Exclusive disjunction.
    fn xor(a, b) { Bool, I32, U32, I64 => a ^ b; } without Float
}

/// Moves elements of one width.
macro_rules! moved {
    ($element:ty) => {{
        struct Element;
        impl Unary for Element {
            type A = $element;
            type R = $element;
            #[inline(always)]
            fn apply(x: $element) -> $element {
                x
            }
        }
        Some(Lane::unary::<Element>())
    }};
}

/// The bits as another dtype of the same width.
pub(super) fn bitcast(operands: &[DType], result: DType) -> Option<Lane> {
    let &[operand] = operands else { return None };
    match (operand, result) {
        (DType::Bool, DType::Bool) => moved!(u8),
        (DType::F16 | DType::BF16, DType::F16 | DType::BF16) => moved!(u16),
        (DType::I32 | DType::U32 | DType::F32, DType::I32 | DType::U32 | DType::F32) => moved!(u32),
        (DType::I64, DType::I64) => moved!(i64),
        (
            DType::Bool | DType::I32 | DType::U32 | DType::I64 | DType::F16 | DType::BF16 | DType::F32,
            DType::Bool | DType::I32 | DType::U32 | DType::I64 | DType::F16 | DType::BF16 | DType::F32,
        ) => None,
    }
}
