//! Elementwise methods. Unary and binary ones grow from the op table; the rest are written out.

use std::borrow::Cow;

use systole_fusion::ir::{Attrs, Opcode, Origin};
use systole_kernels::program::{Comparison, Order};
use systole_kernels::{DType, Shape};

use super::{Operand, record, types};
use crate::error::Result;
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
    let rhs = operand(op.info().method, lhs, rhs, &origin)?;
    let (lhs, rhs) = broadcast(lhs, &rhs, &origin)?;
    record(op, &[&lhs, &rhs], attrs, origin)
}

/// An operand beside `like`, in a call of `method`.
fn operand<'a>(
    method: &'static str,
    like: &Tensor,
    operand: &'a impl Operand,
    origin: &Origin,
) -> Result<Cow<'a, Tensor>> {
    operand.to_operand(like, origin).map_err(|error| error.in_call(method, types(&[like])))
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
    /// # Errors
    /// This is not bool, shapes do not broadcast, or the dtypes of the choices differ.
    #[track_caller]
    pub fn select(&self, on_true: impl Operand, on_false: impl Operand) -> Result<Tensor> {
        let origin = Origin::caller();
        // A number takes the other choice's dtype, so the tensor among the two is looked at first.
        let on_true = operand("select", self, &on_true, &origin);
        let (on_true, on_false) = match on_true {
            Ok(tensor) if tensor.dtype() != DType::Bool => {
                let on_false = operand("select", &tensor, &on_false, &origin)?.into_owned();
                (tensor.into_owned(), on_false)
            }
            first => {
                let on_false = operand("select", self, &on_false, &origin)?.into_owned();
                (first?.into_owned(), on_false)
            }
        };
        let shape =
            broadcast_shape(on_true.shape(), on_false.shape()).and_then(|shape| broadcast_shape(&shape, self.shape()));
        let (pred, on_true, on_false) = match &shape {
            Some(shape) => (
                self.broadcast_from(shape, &origin)?,
                on_true.broadcast_from(shape, &origin)?.into_owned(),
                on_false.broadcast_from(shape, &origin)?.into_owned(),
            ),
            None => (Cow::Borrowed(self), on_true, on_false),
        };
        record(Opcode::Select, &[&pred, &on_true, &on_false], Attrs::None, origin)
    }

    /// `minimum(maximum(self, min), max)`; bounds of this shape, or scalars.
    ///
    /// # Errors
    /// Bounds of another shape or dtype.
    #[track_caller]
    pub fn clamp(&self, min: impl Operand, max: impl Operand) -> Result<Tensor> {
        let origin = Origin::caller();
        let min = operand("clamp", self, &min, &origin)?;
        let max = operand("clamp", self, &max, &origin)?;
        record(Opcode::Clamp, &[&min, self, &max], Attrs::None, origin)
    }

    /// Another dtype: floats to integers truncate and saturate (NaN to 0), integers wrap, to bool is `x != 0`.
    ///
    /// # Errors
    /// None in practice; recording is fallible in general.
    #[track_caller]
    pub fn convert(&self, dtype: DType) -> Result<Tensor> {
        record(Opcode::Convert, &[self], Attrs::Convert(dtype), Origin::caller())
    }
}
