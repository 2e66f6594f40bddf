//! The other side of a binary op: a tensor, or a number that takes the tensor's dtype.

use std::borrow::Cow;

use systole_fusion::ir::Origin;
use systole_kernels::{DType, Scalar};

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

fn scalar(value: Scalar, like: &Tensor, origin: &Origin) -> Result<Cow<'static, Tensor>> {
    let dtype = like.dtype();
    let scalar = if value.dtype() == dtype { value } else { Scalar::from_f64(dtype, value.to_f64()) };
    if !dtype.is_float() && scalar.to_f64() != value.to_f64() {
        let reason = format!("{} is no {dtype}, the dtype of the tensor it meets", value.to_f64());
        return Err(Error::argument(origin.clone(), reason));
    }
    super::creation::constant(&like.device(), scalar, [], origin.clone()).map(Cow::Owned)
}

macro_rules! number {
    ($($ty:ty),*) => {$(
        impl Operand for $ty {
            fn to_operand(&self, like: &Tensor, origin: &Origin) -> Result<Cow<'_, Tensor>> {
                scalar(Scalar::from(*self), like, origin)
            }
        }
    )*};
}

number!(bool, i32, u32, i64, f32);

impl Operand for f64 {
    fn to_operand(&self, like: &Tensor, origin: &Origin) -> Result<Cow<'_, Tensor>> {
        let dtype = like.dtype();
        let value = Scalar::from_f64(dtype, *self);
        if dtype == DType::F32 || value.to_f64() == *self {
            super::creation::constant(&like.device(), value, [], origin.clone()).map(Cow::Owned)
        } else {
            let reason = format!("{self} is no {dtype}, the dtype of the tensor it meets");
            Err(Error::argument(origin.clone(), reason))
        }
    }
}
