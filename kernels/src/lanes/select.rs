//! Choosing and bounding.

use crate::dtype::DType;

use super::arithmetic::{maximum_f32, minimum_f32};
use super::sweep::{Lane, Ternary};
use super::table::{cell, dtypes, lanes};
use super::uniform;

lanes! {
    /// `minimum(maximum(x, low), high)`, by the rules of those.
    fn clamp(low, x, high) {
        Bool, I32, U32, I64 => x.max(low).min(high);
        Float => minimum_f32(maximum_f32(x, low), high);
    }
}

/// The second operand where the first, a truth value, holds, else the third. Their bits are moved as they are.
pub(super) fn select(operands: &[DType], result: DType) -> Option<Lane> {
    let &[DType::Bool, on_true, on_false] = operands else { return None };
    if on_true != result || on_false != result {
        return None;
    }
    macro_rules! lane {
        ($ty:ty) => {{
            struct Element;
            impl Ternary for Element {
                type A = cell!(Bool);
                type B = $ty;
                type C = $ty;
                type R = $ty;
                #[inline(always)]
                fn apply(predicate: u8, on_true: $ty, on_false: $ty) -> $ty {
                    if predicate != 0 { on_true } else { on_false }
                }
            }
            Lane::ternary::<Element>()
        }};
    }
    // One loop per element size: the bits are moved as integers, so a NaN keeps its payload.
    Some(match result {
        DType::Bool => lane!(u8),
        DType::F16 | DType::BF16 => lane!(u16),
        DType::I32 | DType::U32 | DType::F32 => lane!(u32),
        DType::I64 => lane!(i64),
    })
}
