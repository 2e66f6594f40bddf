//! Element-wise operations over buffers: one vector loop per operation, dtype and instruction set.
//!
//! An operation on elements is defined once, as a small function per dtype in a family's table
//! (`arithmetic`, `bits`, `compare`, `convert`, `rounding`, `select`, `transcendental`). From that definition come both
//! the loop that [`kernel`] returns and the scalar that [`eval`] computes, so constants folded ahead of time and tiles
//! computed later cannot disagree. A new operation is a variant of [`LaneOp`], one function in a family and one arm of
//! `lookup`, which the compiler asks for.
//!
//! Functions of `f32` are those of the 16-bit floats too (`halves`).
//!
//! A definition is branch-free where it can be, total (no operand panics or traps), and NaN-exact: arithmetic on floats
//! ends in [`numerics::canonical`](crate::numerics::canonical), operations that only move or test bits do not touch
//! them. Nothing here knows of tiles, broadcasting or memory; the caller lays operands out, see [`Source`].

mod arithmetic;
mod bits;
mod compare;
mod convert;
mod halves;
mod rounding;
mod select;
mod sweep;
mod table;
mod transcendental;

use crate::dtype::DType;
use crate::program::LaneOp;
use crate::scalar::Scalar;
use crate::simd::Isa;

use sweep::Lane;

/// A loop over buffers. The first slice is the result; there are as many sources as the operation takes operands.
///
/// The result's bytes are a whole number of elements, aligned to the element's size.
///
/// # Panics
/// Where the sources do not fit the operation or the result: their number, length or alignment.
pub type LaneFn = fn(Isa, &mut [u8], &[Source<'_>]);

/// An operand of a [`LaneFn`].
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// One element per element of the result, aligned to the element's size.
    Slice(&'a [u8]),
    /// One element for all, as [`Scalar::bits`].
    Splat(u64),
}

/// The loop that computes `op` from operands of these dtypes, or `None` if the operation does not admit them.
pub fn kernel(op: LaneOp, operands: &[DType], result: DType) -> Option<LaneFn> {
    lookup(op, operands, result).map(|lane| lane.kernel)
}

/// `op` on single elements, or `None` if the operation does not admit their dtypes.
pub fn eval(op: LaneOp, operands: &[Scalar], result: DType) -> Option<Scalar> {
    let dtypes: smallvec::SmallVec<[DType; 3]> = operands.iter().map(|operand| operand.dtype()).collect();
    let lane = lookup(op, &dtypes, result)?;
    Some(Scalar::from_bits(result, (lane.scalar)(operands)))
}

fn lookup(op: LaneOp, operands: &[DType], result: DType) -> Option<Lane> {
    let family: fn(&[DType], DType) -> Option<Lane> = match op {
        LaneOp::Abs => arithmetic::abs,
        LaneOp::Negate => arithmetic::negate,
        LaneOp::Sign => arithmetic::sign,
        LaneOp::Exponential => transcendental::exponential,
        LaneOp::Log => transcendental::log,
        LaneOp::Tanh => transcendental::tanh,
        LaneOp::Logistic => transcendental::logistic,
        LaneOp::Erf => transcendental::erf,
        LaneOp::ExponentialMinusOne => transcendental::exponential_minus_one,
        LaneOp::LogPlusOne => transcendental::log_plus_one,
        LaneOp::Sine => transcendental::sine,
        LaneOp::Cosine => transcendental::cosine,
        LaneOp::Cbrt => transcendental::cbrt,
        LaneOp::Sqrt => transcendental::sqrt,
        LaneOp::Rsqrt => transcendental::rsqrt,
        LaneOp::Floor => rounding::floor,
        LaneOp::Ceil => rounding::ceil,
        LaneOp::IsFinite => compare::is_finite,
        LaneOp::Not => bits::not,
        LaneOp::Add => arithmetic::add,
        LaneOp::Subtract => arithmetic::subtract,
        LaneOp::Multiply => arithmetic::multiply,
        LaneOp::Divide => arithmetic::divide,
        LaneOp::Maximum => arithmetic::maximum,
        LaneOp::Minimum => arithmetic::minimum,
        LaneOp::Power => transcendental::power,
        LaneOp::Remainder => arithmetic::remainder,
        LaneOp::Atan2 => transcendental::atan2,
        LaneOp::And => bits::and,
        LaneOp::Or => bits::or,
        LaneOp::Xor => bits::xor,
        LaneOp::Compare(comparison, order) => {
            return compare::compare(comparison, order, operands, result);
        }
        LaneOp::Select => select::select,
        LaneOp::Clamp => select::clamp,
        LaneOp::Convert => convert::convert,
        LaneOp::Bitcast => bits::bitcast,
        LaneOp::ChipConvert => convert::chip_convert,
    };
    family(operands, result)
}

/// The dtype that all `arity` operands and the result share, if there are so many and they do.
fn uniform(operands: &[DType], result: DType, arity: usize) -> Option<DType> {
    (operands.len() == arity && operands.iter().all(|&dtype| dtype == result)).then_some(result)
}
