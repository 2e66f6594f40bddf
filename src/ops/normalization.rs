//! Normalizations of the last dimension.

use systole_fusion::ir::Origin;
use systole_fusion::ir::attrs::Dims;

use super::reduction::spread;
use super::statistics::{centered, mean_square};
use super::{check_float, narrowed, types, widened};
use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// Checks that the tensor has a last dimension to normalize, and each parameter an element for each of its.
fn check(method: &'static str, tensor: &Tensor, parameters: &[(&str, Option<&Tensor>)], origin: &Origin) -> Result<()> {
    check_float(method, tensor, origin)?;
    let misuse = |operands: &[&Tensor], reason| Err(Error::misuse(method, types(operands), origin.clone(), reason));
    let Some(&extent) = tensor.shape().last() else {
        return misuse(&[tensor], String::from("takes rank 1 or more, not 0"));
    };
    for (name, parameter) in parameters {
        let Some(parameter) = parameter else { continue };
        if parameter.shape()[..] != [extent] {
            let reason = format!("the {name} has shape {}, not [{extent}]", parameter.shape());
            return misuse(&[tensor, parameter], reason);
        }
        if parameter.dtype() != tensor.dtype() {
            let reason = format!("the {name} is {}, not {}", parameter.dtype(), tensor.dtype());
            return misuse(&[tensor, parameter], reason);
        }
    }
    Ok(())
}

/// `centered / √(mean square + eps)`, times the weight, plus the bias.
#[track_caller]
fn scaled(centered: &Tensor, last: &Dims, weight: Option<&Tensor>, bias: Option<&Tensor>, eps: f64) -> Result<Tensor> {
    let origin = Origin::caller();
    let deviation = mean_square(centered, last)?.add(eps)?.rsqrt()?;
    let mut result = centered.mul(spread(&deviation, centered.shape(), last, origin.clone())?)?;
    if let Some(weight) = weight {
        result = result.mul(&*widened(weight, &origin)?)?;
    }
    if let Some(bias) = bias {
        result = result.add(&*widened(bias, &origin)?)?;
    }
    Ok(result)
}

impl Tensor {
    /// Layer normalization over the last dimension: (x − mean) · rsqrt(var + `eps`) · `weight` + `bias`, where var is
    /// the mean of the squares of x − mean. The result has this shape and dtype; `weight` and `bias` have the last
    /// dimension's extent as their shape, and this dtype.
    ///
    /// Narrower floats are computed in f32, parameters too, and rounded once.
    ///
    /// ```
    /// # use systole::{Device, Tensor};
    /// # fn main() -> systole::Result<()> {
    /// let device = Device::simulator()?;
    /// let x = Tensor::from_slice(&device, &[1.0f32, 3.0, -4.0, 4.0], [2, 2])?;
    /// let (weight, bias) = (Tensor::full(&device, 2.0f32, [2])?, Tensor::full(&device, 1.0f32, [2])?);
    /// assert_eq!(x.layer_norm(Some(&weight), Some(&bias), 0.0)?.to_vec::<f32>()?, [-1.0, 3.0, -1.0, 3.0]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// A dtype that is no float, rank 0, or a parameter of another shape or dtype.
    #[track_caller]
    pub fn layer_norm(&self, weight: Option<&Tensor>, bias: Option<&Tensor>, eps: f64) -> Result<Tensor> {
        let origin = Origin::caller();
        check("layer_norm", self, &[("weight", weight), ("bias", bias)], &origin)?;
        let last = Dims::from_slice(&[self.rank() as u32 - 1]);
        let centered = centered(&*widened(self, &origin)?, &last)?;
        narrowed(scaled(&centered, &last, weight, bias, eps)?, self.dtype(), &origin)
    }

    /// Root-mean-square normalization over the last dimension: x · rsqrt(mean(x²) + `eps`) · `weight`. Shapes, dtypes and
    /// rounding as [`layer_norm`](Self::layer_norm).
    ///
    /// ```
    /// # use systole::{Device, Tensor};
    /// # fn main() -> systole::Result<()> {
    /// let device = Device::simulator()?;
    /// let x = Tensor::from_slice(&device, &[1.0f32, -7.0], [2])?;
    /// assert_eq!(x.rms_norm(None, 0.0)?.to_vec::<f32>()?, [0.2, -1.4]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// A dtype that is no float, rank 0, or a weight of another shape or dtype.
    #[track_caller]
    pub fn rms_norm(&self, weight: Option<&Tensor>, eps: f64) -> Result<Tensor> {
        let origin = Origin::caller();
        check("rms_norm", self, &[("weight", weight)], &origin)?;
        let last = Dims::from_slice(&[self.rank() as u32 - 1]);
        narrowed(scaled(&*widened(self, &origin)?, &last, weight, None, eps)?, self.dtype(), &origin)
    }
}
