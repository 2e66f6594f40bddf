//! The other side of a binary op: a tensor, or a number that takes the tensor's dtype.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use systole_fusion::ir::Origin;
use systole_kernels::{DType, Scalar, bf16, f16};

use super::creation;
use crate::device::DeviceInner;
use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// What a method accepts beside `self`: a `&Tensor`, or a Rust number, which becomes a scalar of the tensor's dtype. A
/// number that the dtype cannot hold exactly is an error for integers and bools, and rounds for floats.
pub trait Operand {
    /// The operand as it was given.
    fn given(&self) -> Given<'_>;
}

/// An operand as it was given.
#[derive(Clone, Debug)]
pub enum Given<'a> {
    /// A tensor.
    Tensor(&'a Tensor),
    /// A number.
    Number(Number),
}

/// A Rust number that is to meet a tensor.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Number(Value);

#[derive(Clone, Copy, PartialEq, Debug)]
enum Value {
    Integer(i128, DType),
    /// A float of the dtype, widened.
    Single(f32, DType),
    Double(f64),
}

impl Number {
    /// The dtype of a number that meets no tensor: its own, or f32 for `f64`.
    pub fn dtype(self) -> DType {
        match self.0 {
            Value::Integer(_, dtype) | Value::Single(_, dtype) => dtype,
            Value::Double(_) => DType::F32,
        }
    }

    /// The number as an element of `dtype`, unless an integer or bool dtype lacks it.
    fn as_element(self, dtype: DType) -> Option<Scalar> {
        match self.0 {
            Value::Integer(value, _) => integer(value, dtype),
            Value::Single(value, _) => float(f64::from(value), dtype),
            Value::Double(value) => float(value, dtype),
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Integer(value, DType::Bool) => write!(f, "{}", value == 1),
            Value::Integer(value, _) => write!(f, "{value}"),
            Value::Single(value, _) => write!(f, "{value}"),
            Value::Double(value) => write!(f, "{value}"),
        }
    }
}

impl<'a> Given<'a> {
    /// The operand as a tensor; a number becomes a scalar of `dtype` on the device.
    pub(super) fn to_tensor(
        &self,
        device: &Arc<DeviceInner>,
        dtype: DType,
        origin: &Origin,
    ) -> Result<Cow<'a, Tensor>> {
        let number = match self {
            Given::Tensor(tensor) => return Ok(Cow::Borrowed(tensor)),
            Given::Number(number) => number,
        };
        let value = number.as_element(dtype).ok_or_else(|| {
            let reason = format!("{number} is no {dtype}, the dtype of the tensor it meets");
            Error::argument(origin.clone(), reason)
        })?;
        creation::constant(device, value, [], origin.clone()).map(Cow::Owned)
    }
}

impl Operand for &Tensor {
    fn given(&self) -> Given<'_> {
        Given::Tensor(self)
    }
}

impl Operand for Tensor {
    fn given(&self) -> Given<'_> {
        Given::Tensor(self)
    }
}

/// The integer as an element of `dtype`: rounded once for floats, `None` where an integer or bool dtype lacks it.
fn integer(value: i128, dtype: DType) -> Option<Scalar> {
    match dtype {
        DType::Bool => matches!(value, 0 | 1).then_some(Scalar::from(value == 1)),
        DType::I32 => i32::try_from(value).ok().map(Scalar::from),
        DType::U32 => u32::try_from(value).ok().map(Scalar::from),
        DType::I64 => i64::try_from(value).ok().map(Scalar::from),
        DType::F16 | DType::BF16 | DType::F32 => i64::try_from(value).ok().map(|value| Scalar::from_i64(dtype, value)),
    }
}

/// The float as an element of `dtype`, likewise.
fn float(value: f64, dtype: DType) -> Option<Scalar> {
    match dtype {
        DType::F16 | DType::BF16 | DType::F32 => Some(Scalar::from_f64(dtype, value)),
        // Any whole number beyond 2^64 is beyond the integers as well, and saturates to one that is.
        DType::Bool | DType::I32 | DType::U32 | DType::I64 => {
            (value.trunc() == value).then(|| integer(value as i128, dtype)).flatten()
        }
    }
}

macro_rules! number {
    ($($ty:ty: |$value:ident| $number:expr;)*) => {$(
        impl Operand for $ty {
            fn given(&self) -> Given<'_> {
                let $value = *self;
                Given::Number(Number($number))
            }
        }
    )*};
}

number! {
    bool: |value| Value::Integer(value.into(), DType::Bool);
    i32: |value| Value::Integer(value.into(), DType::I32);
    u32: |value| Value::Integer(value.into(), DType::U32);
    i64: |value| Value::Integer(value.into(), DType::I64);
    f16: |value| Value::Single(value.into(), DType::F16);
    bf16: |value| Value::Single(value.into(), DType::BF16);
    f32: |value| Value::Single(value, DType::F32);
    f64: |value| Value::Double(value);
}
