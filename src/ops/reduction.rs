//! Methods that combine dimensions away.

use smallvec::smallvec;
use systole_fusion::ir::attrs::Dims;
use systole_fusion::ir::region::monoid_region;
use systole_fusion::ir::{Attrs, Opcode, Origin};
use systole_kernels::program::Monoid;
use systole_kernels::{DType, Scalar, Shape};

use super::axes::{Axes, dimensions};
use super::{creation, record, record_with};
use crate::error::Result;
use crate::tensor::Tensor;

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

/// Combines `dimensions` away.
pub(super) fn reduce(tensor: &Tensor, monoid: Monoid, dimensions: Dims, origin: Origin) -> Result<Tensor> {
    let init =
        creation::constant(tensor.value().stream().device(), identity(monoid, tensor.dtype()), [], origin.clone())?;
    let body = monoid_region(monoid, tensor.dtype());
    record_with(Opcode::Reduce, &[tensor, &init], Attrs::Reduce(dimensions), smallvec![body], origin)
}

/// `result`, of which `reduced` were combined away from `shape`, with those dimensions again, of extent 1.
pub(super) fn keep(result: &Tensor, shape: &Shape, reduced: &Dims, origin: Origin) -> Result<Tensor> {
    let extent = |(&extent, at): (&usize, u32)| if reduced.contains(&at) { 1 } else { extent };
    let shape = shape.iter().zip(0..).map(extent).collect();
    record(Opcode::Reshape, &[result], Attrs::Reshape(shape), origin)
}

/// `result`, of which `reduced` were combined away from `shape`, repeated along them.
pub(super) fn spread(result: &Tensor, shape: &Shape, reduced: &Dims, origin: Origin) -> Result<Tensor> {
    let dimensions = (0..shape.rank() as u32).filter(|at| !reduced.contains(at)).collect();
    record(Opcode::BroadcastInDim, &[result], Attrs::BroadcastInDim { shape: shape.clone(), dimensions }, origin)
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
                    keep(&result, self.shape(), &reduced, origin)
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
