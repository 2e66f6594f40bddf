//! The other side of a binary op: a tensor, or a number that takes the tensor's dtype.

use std::borrow::Cow;
use std::fmt::Display;

use systole_fusion::ir::Origin;
use systole_kernels::{DType, Scalar, bf16, f16};

use super::creation;
use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// What a binary method accepts beside `self`: a `&Tensor`, or a Rust number, which becomes a scalar of the tensor's
/// dtype. A number that the dtype cannot hold exactly is an error for integers and bools, and rounds for floats.
pub trait Operand {
    /// The operand as a tensor; numbers become scalars of `like`'s dtype on its device.
    ///
    /// # Errors
    /// The number is none of the dtype.
    fn to_operand(&self, like: &Tensor, origin: &Origin) -> Result<Cow<'_, Tensor>>;
}

impl Operand for &Tensor {
    fn to_operand(&self, _like: &Tensor, _origin: &Origin) -> Result<Cow<'_, Tensor>> {
        Ok(Cow::Borrowed(self))
    }
}

impl Operand for Tensor {
    fn to_operand(&self, _like: &Tensor, _origin: &Origin) -> Result<Cow<'_, Tensor>> {
        Ok(Cow::Borrowed(self))
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

fn operand(value: Option<Scalar>, shown: impl Display, like: &Tensor, origin: &Origin) -> Result<Cow<'static, Tensor>> {
    let value = value.ok_or_else(|| {
        let reason = format!("{shown} is no {}, the dtype of the tensor it meets", like.dtype());
        Error::argument(origin.clone(), reason)
    })?;
    creation::constant(like.value().stream().device(), value, [], origin.clone()).map(Cow::Owned)
}

macro_rules! number {
    ($($ty:ty: $convert:ident as $wide:ty;)*) => {$(
        impl Operand for $ty {
            fn to_operand(&self, like: &Tensor, origin: &Origin) -> Result<Cow<'_, Tensor>> {
                operand($convert(<$wide>::from(*self), like.dtype()), self, like, origin)
            }
        }
    )*};
}

number! {
    bool: integer as i128;
    i32: integer as i128;
    u32: integer as i128;
    i64: integer as i128;
    f16: float as f64;
    bf16: float as f64;
    f32: float as f64;
    f64: float as f64;
}
