//! Scaled dot-product attention.

use systole_fusion::ir::Origin;
use systole_kernels::{DType, Shape};

use super::contraction::contract;
use super::elementwise::broadcast_shape;
use super::{check_float, types};
use crate::error::{Error, Result};
use crate::tensor::Tensor;

impl Tensor {
    /// softmax(`scale` · query · keyᵀ + mask) · value, of this query [.., L, D] with `key` [.., S, D] and `value`
    /// [.., S, E]; the result is [.., L, E]. The dimensions before the last two are a batch (heads are one of them) and
    /// broadcast. `scale` is 1/√D where none is given.
    ///
    /// `mask` broadcasts to [.., L, S]: floats are added to the scores; bools keep a score where true and replace it by
    /// −∞ where false. A query whose keys are all masked gets NaN; where there are no keys (S = 0), it gets 0.
    ///
    /// Both products are in the operands' dtype, and so are the scores; the softmax is [`softmax`](Self::softmax).
    ///
    /// ```
    /// # use systole::{Device, Tensor};
    /// # fn main() -> systole::Result<()> {
    /// let device = Device::simulator()?;
    /// let query = Tensor::from_slice(&device, &[1.0f32, 0.0], [1, 2])?;
    /// let key = Tensor::from_slice(&device, &[1.0f32, 5.0, 1.0, -5.0, 9.0, 9.0], [3, 2])?;
    /// let value = Tensor::from_slice(&device, &[2.0f32, 4.0, 100.0], [3, 1])?;
    /// let mask = Tensor::from_slice(&device, &[true, true, false], [3])?;
    /// assert_eq!(query.attention(&key, &value, Some(&mask), None)?.to_vec::<f32>()?, [3.0]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Ranks below 2, extents that do not fit, dtypes that differ or are no float, or a mask that is neither bool nor of
    /// this dtype or does not broadcast to the scores.
    #[track_caller]
    pub fn attention(&self, key: &Tensor, value: &Tensor, mask: Option<&Tensor>, scale: Option<f64>) -> Result<Tensor> {
        let origin = Origin::caller();
        check_float("attention", self, &origin)?;
        let batch = check(self, key, value, &origin)?;
        let with_batch =
            |tensor: &Tensor| -> Shape { batch.iter().chain(&tensor.shape()[tensor.rank() - 2..]).copied().collect() };
        let query = self.broadcast_from(&with_batch(self), &origin)?;
        let keys = key.broadcast_from(&with_batch(key), &origin)?;
        let values = value.broadcast_from(&with_batch(value), &origin)?;
        let rank = batch.rank();
        let scale = scale.unwrap_or_else(|| 1.0 / (self.shape()[self.rank() - 1] as f64).sqrt());
        let mut scores = contract(&query, rank + 1, &keys, rank + 1, rank, origin.clone())?.mul(scale)?;
        if let Some(mask) = mask {
            let fits = mask.dtype() == DType::Bool || mask.dtype() == self.dtype();
            if !fits || broadcast_shape(mask.shape(), scores.shape()).as_ref() != Some(scores.shape()) {
                let reason = if fits {
                    format!("the mask's shape {} does not broadcast to the scores' {}", mask.shape(), scores.shape())
                } else {
                    format!("the mask is {}, neither bool nor {}", mask.dtype(), self.dtype())
                };
                return Err(Error::misuse("attention", types(&[self, key, value, mask]), origin.clone(), reason));
            }
            scores = if mask.dtype() == DType::Bool {
                mask.select(&scores, f64::NEG_INFINITY)?
            } else {
                scores.add(mask)?
            };
        }
        contract(&scores.softmax(-1)?, rank + 1, &values, rank, rank, origin)
    }
}

/// The batch dimensions that query, key and value broadcast to.
fn check(query: &Tensor, key: &Tensor, value: &Tensor, origin: &Origin) -> Result<Shape> {
    let operands = [("query", query), ("key", key), ("value", value)];
    let misuse =
        |reason| Err(Error::misuse("attention", types(&operands.map(|(_, tensor)| tensor)), origin.clone(), reason));
    let mut batch = Shape::scalar();
    for (name, tensor) in operands {
        if tensor.rank() < 2 {
            return misuse(format!("the {name} has rank {}, not 2 or more", tensor.rank()));
        }
        if tensor.dtype() != query.dtype() {
            return misuse(format!("the {name} is {}, the query {}", tensor.dtype(), query.dtype()));
        }
        let own = &tensor.shape()[..tensor.rank() - 2];
        match broadcast_shape(&batch, own) {
            Some(common) => batch = common,
            None => return misuse(format!("the {name}'s batch {} does not broadcast with {batch}", Shape::from(own))),
        }
    }
    let matrix = |tensor: &Tensor| [tensor.shape()[tensor.rank() - 2], tensor.shape()[tensor.rank() - 1]];
    let ([_, width], [keys, key_width], [values, _]) = (matrix(query), matrix(key), matrix(value));
    if width != key_width {
        return misuse(format!("the query's last dimension has {width} elements, the key's {key_width}"));
    }
    if keys != values {
        return misuse(format!("there are {keys} keys, but {values} values"));
    }
    Ok(batch)
}
