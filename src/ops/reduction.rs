//! Methods that combine dimensions away.

use smallvec::smallvec;
use systole_fusion::ir::attrs::Dims;
use systole_fusion::ir::region::{arg_region, monoid_region};
use systole_fusion::ir::{Attrs, Opcode, Origin};
use systole_kernels::program::{Extreme, Monoid};
use systole_kernels::{DType, Scalar, Shape, TensorType};

use super::axes::{Axes, dimension, dimensions};
use super::{creation, record, record_all, record_with, types};
use crate::error::{Error, Result};
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

/// The index of the first of the greatest or least elements along a dimension.
fn arg_reduce(
    method: &'static str,
    tensor: &Tensor,
    axis: isize,
    extreme: Extreme,
    origin: Origin,
) -> Result<(Tensor, Dims)> {
    let dimension = dimension(method, tensor, axis, &origin)?;
    let refuse = |reason| Err(Error::misuse(method, types(&[tensor]), origin.clone(), reason));
    match tensor.shape()[dimension] {
        0 => return refuse(format!("dimension {axis} has no elements")),
        extent if extent > i32::MAX as usize => {
            return refuse(format!("dimension {axis} has {extent} elements, more than an i32 counts"));
        }
        _ => {}
    }
    let device = tensor.value().stream().device();
    let constant = |value: Scalar| creation::constant(device, value, [], origin.clone());
    let index = TensorType { dtype: DType::I32, shape: tensor.shape().clone() };
    let indices = creation::iota(device, index, dimension as u32, origin.clone())?;
    let monoid = match extreme {
        Extreme::Greatest => Monoid::Maximum,
        Extreme::Least => Monoid::Minimum,
    };
    let inits = (constant(identity(monoid, tensor.dtype()))?, constant(0i32.into())?);
    let dimensions = Dims::from_slice(&[dimension as u32]);
    let attrs = Attrs::Reduce(dimensions.clone());
    let body = arg_region(extreme, tensor.dtype(), DType::I32);
    let operands = [tensor, &indices, &inits.0, &inits.1];
    let mut results = record_all(Opcode::Reduce, &operands, attrs, smallvec![body], origin)?;
    Ok((results.pop().expect("the body gives a value and an index"), dimensions))
}

macro_rules! arg_reductions {
    ($($(#[doc = $doc:literal])* $method:ident $keep:ident $extreme:ident;)*) => {
        impl Tensor {
            $(
                $(#[doc = $doc])*
                ///
                /// # Errors
                /// No such dimension, or one without elements.
                #[track_caller]
                pub fn $method(&self, axis: isize) -> Result<Tensor> {
                    let (result, _) =
                        arg_reduce(stringify!($method), self, axis, Extreme::$extreme, Origin::caller())?;
                    Ok(result)
                }

                $(#[doc = $doc])*
                ///
                /// The dimension stays, with extent 1.
                ///
                /// # Errors
                /// No such dimension, or one without elements.
                #[track_caller]
                pub fn $keep(&self, axis: isize) -> Result<Tensor> {
                    let origin = Origin::caller();
                    let (result, reduced) =
                        arg_reduce(stringify!($keep), self, axis, Extreme::$extreme, origin.clone())?;
                    keep(&result, self.shape(), &reduced, origin)
                }
            )*
        }
    };
}

arg_reductions! {
    /// The index (i32) of the greatest element along a dimension: the first of several, and of NaNs where there are some.
    argmax argmax_keepdims Greatest;
    /// The index (i32) of the least element along a dimension: the first of several, and of NaNs where there are some.
    argmin argmin_keepdims Least;
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
