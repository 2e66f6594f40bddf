//! Methods that combine dimensions away.

use std::ops::RangeFull;

use smallvec::{SmallVec, smallvec};
use systole_fusion::ir::attrs::Dims;
use systole_fusion::ir::region::monoid_region;
use systole_fusion::ir::{Attrs, Opcode, Origin};
use systole_kernels::program::Monoid;
use systole_kernels::{DType, Scalar, Shape};

use super::{creation, record, record_with, types};
use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// Dimensions to reduce: one number, several, or `..` for all. Negative numbers count from the last.
pub trait Axes {
    /// The numbers for a tensor of `rank` dimensions, as the user gave them.
    fn numbers(&self, rank: usize) -> SmallVec<[isize; 4]>;
}

impl Axes for RangeFull {
    fn numbers(&self, rank: usize) -> SmallVec<[isize; 4]> {
        (0..rank as isize).collect()
    }
}

impl Axes for isize {
    fn numbers(&self, _rank: usize) -> SmallVec<[isize; 4]> {
        smallvec![*self]
    }
}

impl<const N: usize> Axes for [isize; N] {
    fn numbers(&self, _rank: usize) -> SmallVec<[isize; 4]> {
        self.iter().copied().collect()
    }
}

impl Axes for &[isize] {
    fn numbers(&self, _rank: usize) -> SmallVec<[isize; 4]> {
        self.iter().copied().collect()
    }
}

/// The dimensions, ascending; out of range and repeated ones are errors.
fn dimensions(method: &'static str, tensor: &Tensor, axes: &impl Axes, origin: &Origin) -> Result<Dims> {
    let misuse = |reason| Error::misuse(method, types(&[tensor]), origin.clone(), reason);
    let rank = tensor.rank();
    let mut found = Dims::new();
    for number in axes.numbers(rank) {
        let dimension = if number < 0 { number + rank as isize } else { number };
        if !(0..rank as isize).contains(&dimension) {
            return Err(misuse(format!("no dimension {number} in rank {rank}")));
        }
        if found.contains(&(dimension as u32)) {
            return Err(misuse(format!("dimension {number} is named twice")));
        }
        found.push(dimension as u32);
    }
    found.sort_unstable();
    Ok(found)
}

/// The element that changes nothing when combined: the value of an empty reduction.
fn identity(monoid: Monoid, dtype: DType) -> Scalar {
    match (monoid, dtype) {
        (Monoid::Maximum, DType::F16 | DType::BF16 | DType::F32) => Scalar::from_f64(dtype, f64::NEG_INFINITY),
        (Monoid::Minimum, DType::F16 | DType::BF16 | DType::F32) => Scalar::from_f64(dtype, f64::INFINITY),
        (Monoid::Maximum, DType::I32) => i32::MIN.into(),
        (Monoid::Minimum, DType::I32) => i32::MAX.into(),
        (Monoid::Maximum, DType::I64) => i64::MIN.into(),
        (Monoid::Minimum, DType::I64) => i64::MAX.into(),
        (Monoid::Minimum, DType::U32) => u32::MAX.into(),
        (Monoid::Add | Monoid::Or, _) | (Monoid::Maximum, DType::Bool | DType::U32) => Scalar::from_f64(dtype, 0.0),
        (Monoid::Multiply, _) | (Monoid::Minimum, DType::Bool) => Scalar::from_f64(dtype, 1.0),
        (Monoid::And, _) => Scalar::from_bits(dtype, u64::MAX),
    }
}

fn reduce(tensor: &Tensor, monoid: Monoid, dimensions: Dims, origin: Origin) -> Result<Tensor> {
    let init =
        creation::constant(tensor.value().stream().device(), identity(monoid, tensor.dtype()), [], origin.clone())?;
    let body = monoid_region(monoid, tensor.dtype());
    record_with(Opcode::Reduce, &[tensor, &init], Attrs::Reduce(dimensions), smallvec![body], origin)
}

macro_rules! reductions {
    ($($(#[doc = $doc:literal])* $method:ident $keep:ident $monoid:ident;)*) => {
        impl Tensor {
            $(
                $(#[doc = $doc])*
                ///
                /// # Errors
                /// No such dimension, or a dtype that the body does not take.
                #[track_caller]
                pub fn $method(&self, axes: impl Axes) -> Result<Tensor> {
                    let origin = Origin::caller();
                    let reduced = dimensions(stringify!($method), self, &axes, &origin)?;
                    reduce(self, Monoid::$monoid, reduced, origin)
                }

                $(#[doc = $doc])*
                ///
                /// The reduced dimensions stay, with extent 1.
                ///
                /// # Errors
                /// No such dimension, or a dtype that the body does not take.
                #[track_caller]
                pub fn $keep(&self, axes: impl Axes) -> Result<Tensor> {
                    let origin = Origin::caller();
                    let reduced = dimensions(stringify!($keep), self, &axes, &origin)?;
                    let result = reduce(self, Monoid::$monoid, reduced.clone(), origin.clone())?;
                    let shape = self
                        .shape()
                        .iter()
                        .zip(0..)
                        .map(|(&extent, at)| if reduced.contains(&at) { 1 } else { extent })
                        .collect::<Shape>();
                    record(Opcode::Reshape, &[&result], Attrs::Reshape(shape), origin)
                }
            )*
        }
    };
}

reductions! {
    /// Sum, in the order of docs/numerics.md; logical or of bools.
    sum sum_keepdims Add;
    /// Product, in the order of docs/numerics.md; logical and of bools.
    prod prod_keepdims Multiply;
    /// The largest; NaN where there is one.
    max max_keepdims Maximum;
    /// The smallest; NaN where there is one.
    min min_keepdims Minimum;
    /// Whether all hold; bitwise and of integers.
    all all_keepdims And;
    /// Whether any holds; bitwise or of integers.
    any any_keepdims Or;
}

impl Tensor {
    /// The sum divided by the number of elements combined.
    ///
    /// # Errors
    /// No such dimension, or a dtype that is no float.
    #[track_caller]
    pub fn mean(&self, axes: impl Axes) -> Result<Tensor> {
        let origin = Origin::caller();
        if !self.dtype().is_float() {
            let reason = format!("takes a float dtype, not {}", self.dtype());
            return Err(Error::misuse("mean", types(&[self]), origin, reason));
        }
        let reduced = dimensions("mean", self, &axes, &origin)?;
        // A float count cannot overflow, and rounds as the division by an exact count would.
        let count: f64 = reduced.iter().map(|&dimension| self.shape()[dimension as usize] as f64).product();
        reduce(self, Monoid::Add, reduced, origin)?.div(count)
    }
}
