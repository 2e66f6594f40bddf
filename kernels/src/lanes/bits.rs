//! Operations on the bits of integers and on truth values.

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
