//! Elementwise methods. Unary and binary ones grow from the op table; the rest are written out.

use std::borrow::Cow;

use systole_fusion::ir::{Attrs, Opcode, Origin};
use systole_kernels::program::{Comparison, Order};
use systole_kernels::{DType, Shape};

use super::operand::{Given, Operand};
use super::{record, types};
use crate::error::{Error, Result};
use crate::tensor::Tensor;

macro_rules! method {
    (Predicate $doc:literal $opcode:ident $method:ident) => {
        method!(Unary $doc $opcode $method);
    };
    (Unary $doc:literal $opcode:ident $method:ident) => {
        impl Tensor {
            #[doc = $doc]
            ///
            /// # Errors
            /// The op does not take this dtype.
            #[track_caller]
            pub fn $method(&self) -> Result<Tensor> {
                record(Opcode::$opcode, &[self], Attrs::None, Origin::caller())
            }
        }
    };
    (Binary $doc:literal $opcode:ident $method:ident) => {
        impl Tensor {
            #[doc = $doc]
            ///
            /// Shapes broadcast as in NumPy; a number takes this tensor's dtype.
            ///
            /// # Errors
            /// Shapes that do not broadcast, dtypes that differ, or a dtype that the op does not take.
            #[track_caller]
            pub fn $method(&self, rhs: impl Operand) -> Result<Tensor> {
                binary(Opcode::$opcode, self, &rhs, Attrs::None, Origin::caller())
            }
        }
    };
    ($class:ident $doc:literal $opcode:ident $method:ident) => {};
}

macro_rules! define_methods {
    ($(#[doc = $doc:literal] $opcode:ident $name:literal $method:ident: $class:ident, dtypes $dtypes:ident,
        lane $lane:ident, nan $nan:ident, $accuracy:ident;)*) => {
        $(method!($class $doc $opcode $method);)*
    };
}

systole_fusion::op_table!(define_methods);

fn binary(op: Opcode, lhs: &Tensor, rhs: &impl Operand, attrs: Attrs, origin: Origin) -> Result<Tensor> {
    let rhs = operand(op.info().method, lhs, lhs.dtype(), rhs.given(), &origin)?;
    let (lhs, rhs) = broadcast(lhs, &rhs, &origin)?;
    record(op, &[&lhs, &rhs], attrs, origin)
}

/// An operand beside `like`, in a call of `method`; a number becomes a scalar of `dtype`.
fn operand<'a>(
    method: &'static str,
    like: &Tensor,
    dtype: DType,
    operand: Given<'a>,
    origin: &Origin,
) -> Result<Cow<'a, Tensor>> {
    operand
        .to_tensor(like.value().stream().device(), dtype, origin)
        .map_err(|error| error.in_call(method, types(&[like])))
}

/// Both operands at the shape that NumPy would broadcast them to; unchanged where there is none, so that the op's own
/// inference reports it.
fn broadcast<'a>(lhs: &'a Tensor, rhs: &'a Tensor, origin: &Origin) -> Result<(Cow<'a, Tensor>, Cow<'a, Tensor>)> {
    if lhs.shape() == rhs.shape() {
        return Ok((Cow::Borrowed(lhs), Cow::Borrowed(rhs)));
    }
    match broadcast_shape(lhs.shape(), rhs.shape()) {
        Some(shape) => Ok((lhs.broadcast_from(&shape, origin)?, rhs.broadcast_from(&shape, origin)?)),
        None => Ok((Cow::Borrowed(lhs), Cow::Borrowed(rhs))),
    }
}

/// The common shape by NumPy's rule: aligned at the last dimension, extents equal or one of them 1.
pub(super) fn broadcast_shape(lhs: &[usize], rhs: &[usize]) -> Option<Shape> {
    let rank = lhs.len().max(rhs.len());
    let extent = |shape: &[usize], i: usize| (i + shape.len()).checked_sub(rank).map_or(1, |at| shape[at]);
    (0..rank)
        .map(|i| match (extent(lhs, i), extent(rhs, i)) {
            (a, b) if a == b => Some(a),
            (1, b) => Some(b),
            (a, 1) => Some(a),
            _ => None,
        })
        .collect()
}

macro_rules! comparison {
    ($($(#[doc = $doc:literal])* $method:ident $direction:ident;)*) => {
        impl Tensor {
            $(
                $(#[doc = $doc])*
                ///
                /// The result is bool. Floats compare as IEEE 754 says, so NaN is unequal to everything.
                ///
                /// # Errors
                /// Shapes that do not broadcast, or dtypes that differ.
                #[track_caller]
                pub fn $method(&self, rhs: impl Operand) -> Result<Tensor> {
                    let attrs = Attrs::Compare { direction: Comparison::$direction, order: Order::Partial };
                    binary(Opcode::Compare, self, &rhs, attrs, Origin::caller())
                }
            )*
        }
    };
}

comparison! {
    /// Where this is equal to `rhs`.
    eq Eq;
    /// Where this is not equal to `rhs`.
    ne Ne;
    /// Where this is at least `rhs`.
    ge Ge;
    /// Where this is greater than `rhs`.
    gt Gt;
    /// Where this is at most `rhs`.
    le Le;
    /// Where this is less than `rhs`.
    lt Lt;
}

impl Tensor {
    /// `on_true` where this (bool) holds, `on_false` elsewhere. Shapes broadcast as in NumPy.
    ///
    /// A number takes the other choice's dtype; two numbers must be of one kind, and choose its dtype: `bool`, `i32`,
    /// `u32`, `i64`, `f16`, `bf16`, or f32 for both `f32` and `f64`.
    ///
    /// ```
    /// # use systole::{Device, Tensor};
    /// # fn main() -> systole::Result<()> {
    /// let device = Device::simulator()?;
    /// let x = Tensor::from_slice(&device, &[-1.0f32, 2.0], [2])?;
    /// assert_eq!(x.gt(0.0)?.select(&x, 0.0)?.to_vec::<f32>()?, [0.0, 2.0]);
    /// assert_eq!(x.gt(0.0)?.select(1, -1)?.to_vec::<i32>()?, [-1, 1]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// This is not bool, shapes do not broadcast, or the dtypes of the choices differ.
    #[doc(alias = "where")]
    #[track_caller]
    pub fn select(&self, on_true: impl Operand, on_false: impl Operand) -> Result<Tensor> {
        let origin = Origin::caller();
        let (on_true, on_false) = (on_true.given(), on_false.given());
        let dtype = match (&on_true, &on_false) {
            (Given::Tensor(tensor), _) | (Given::Number(_), Given::Tensor(tensor)) => tensor.dtype(),
            (Given::Number(first), Given::Number(second)) if first.dtype() == second.dtype() => first.dtype(),
            (Given::Number(first), Given::Number(second)) => {
                let (first, second) = (first.dtype(), second.dtype());
                let reason = format!("one choice is a number of dtype {first}, the other of {second}");
                return Err(Error::misuse("select", types(&[self]), origin, reason));
            }
        };
        let on_true = operand("select", self, dtype, on_true, &origin)?;
        let on_false = operand("select", self, dtype, on_false, &origin)?;
        let shape =
            broadcast_shape(on_true.shape(), on_false.shape()).and_then(|shape| broadcast_shape(&shape, self.shape()));
        let Some(shape) = shape else {
            // Nothing to broadcast to: the op's own inference says what does not fit.
            return record(Opcode::Select, &[self, &on_true, &on_false], Attrs::None, origin);
        };
        let choices = [on_true.broadcast_from(&shape, &origin)?, on_false.broadcast_from(&shape, &origin)?];
        let pred = self.broadcast_from(&shape, &origin)?;
        record(Opcode::Select, &[&pred, &choices[0], &choices[1]], Attrs::None, origin)
    }

    /// `minimum(maximum(self, min), max)`. Shapes broadcast as in NumPy; a number takes this tensor's dtype.
    ///
    /// ```
    /// # use systole::{Device, Tensor};
    /// # fn main() -> systole::Result<()> {
    /// let device = Device::simulator()?;
    /// let x = Tensor::from_slice(&device, &[-5i32, 1, 5, 9], [2, 2])?;
    /// let least = Tensor::from_slice(&device, &[0i32, 3], [2])?;
    /// assert_eq!(x.clamp(&least, 6)?.to_vec::<i32>()?, [0, 3, 5, 6]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Shapes that do not broadcast, or dtypes that differ.
    #[track_caller]
    pub fn clamp(&self, min: impl Operand, max: impl Operand) -> Result<Tensor> {
        let origin = Origin::caller();
        let min = operand("clamp", self, self.dtype(), min.given(), &origin)?;
        let max = operand("clamp", self, self.dtype(), max.given(), &origin)?;
        let shape = broadcast_shape(self.shape(), min.shape()).and_then(|shape| broadcast_shape(&shape, max.shape()));
        let Some(shape) = shape else {
            return record(Opcode::Clamp, &[&min, self, &max], Attrs::None, origin);
        };
        // The op itself takes scalar bounds.
        let bound = |bound: &Tensor| match bound.rank() {
            0 => Ok(bound.clone()),
            _ => bound.broadcast_from(&shape, &origin).map(Cow::into_owned),
        };
        let (min, max, x) = (bound(&min)?, bound(&max)?, self.broadcast_from(&shape, &origin)?);
        record(Opcode::Clamp, &[&min, &x, &max], Attrs::None, origin)
    }

    /// Another dtype: floats to integers truncate and saturate (NaN to 0), integers wrap, to bool is `x != 0`.
    ///
    /// # Errors
    /// None in practice; recording is fallible in general.
    #[track_caller]
    pub fn convert(&self, dtype: DType) -> Result<Tensor> {
        record(Opcode::Convert, &[self], Attrs::Convert(dtype), Origin::caller())
    }

    /// The same bits as another dtype of the same width: NaN payloads and subnormals survive.
    ///
    /// ```
    /// # use systole::{DType, Device, Tensor};
    /// # fn main() -> systole::Result<()> {
    /// let device = Device::simulator()?;
    /// let bits = Tensor::from_slice(&device, &[1.0f32, -0.0], [2])?.bitcast_convert(DType::U32)?;
    /// assert_eq!(bits.to_vec::<u32>()?, [0x3f80_0000, 0x8000_0000]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The dtypes differ in width.
    #[doc(alias = "view_dtype")]
    #[track_caller]
    pub fn bitcast_convert(&self, dtype: DType) -> Result<Tensor> {
        record(Opcode::BitcastConvert, &[self], Attrs::Convert(dtype), Origin::caller())
    }
}
