//! What training makes small.

use systole_fusion::ir::Origin;
use systole_fusion::ir::attrs::Dims;
use systole_kernels::Shape;
use systole_kernels::program::Monoid;

use super::activation::shifted;
use super::reduction::reduce;
use super::{check_float, narrowed, types, widened};
use crate::debug::check_range;
use crate::error::{Error, Result};
use crate::tensor::Tensor;

impl Tensor {
    /// The mean over all rows of −log softmax(row)\[label\], a scalar of this dtype. These are the logits: each row of
    /// the last dimension has one per class. `labels` has the other dimensions, and the index of a class for each row.
    ///
    /// Computed as log Σ e^(x − m) − (x\[label\] − m), where m is the greatest of the row: nothing overflows, and no
    /// logarithm of 0 is taken. Narrower floats are computed in f32 and rounded once. A label that is no class takes the
    /// nearest one, and is an error in [`Mode::Debug`](crate::Mode::Debug).
    ///
    /// ```
    /// # use systole::{Device, Tensor};
    /// # fn main() -> systole::Result<()> {
    /// let device = Device::simulator()?;
    /// let logits = Tensor::from_slice(&device, &[1000.0f32, 0.0, 0.0, 0.0], [2, 2])?;
    /// let labels = Tensor::from_slice(&device, &[0i32, 1], [2])?;
    /// assert_eq!(logits.cross_entropy(&labels)?.item::<f32>()?, std::f32::consts::LN_2 / 2.0);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Logits of rank 0 or of a dtype that is no float; labels of another shape, or of a dtype that is no integer.
    #[track_caller]
    pub fn cross_entropy(&self, labels: &Tensor) -> Result<Tensor> {
        let origin = Origin::caller();
        check_float("cross_entropy", self, &origin)?;
        let misuse = |reason| Err(Error::misuse("cross_entropy", types(&[self, labels]), origin.clone(), reason));
        let [rows @ .., classes] = &self.shape()[..] else {
            return misuse(String::from("logits have rank 1 or more, not 0"));
        };
        if labels.shape()[..] != *rows {
            let reason = format!("labels have shape {}, not {}", labels.shape(), Shape::from(rows));
            return misuse(reason);
        }
        if !labels.dtype().is_integer() {
            return misuse(format!("labels are {}, not of an integer dtype", labels.dtype()));
        }
        if *classes == 0 && labels.shape().elements() > 0 {
            return misuse(String::from("there are labels, and no classes"));
        }
        check_range("cross_entropy", &[self, labels], ("label", labels), 0..*classes as i128, &origin)?;
        let axis = Dims::from_slice(&[rows.len() as u32]);
        let (shifted, exponentials) = shifted(&*widened(self, &origin)?, &axis)?;
        let normalizer = reduce(&exponentials, Monoid::Add, axis, origin.clone())?.log()?;
        let column: Vec<usize> = rows.iter().copied().chain([1]).collect();
        let expected = shifted.take_along_dim(&labels.reshape(column)?, -1)?.reshape(rows)?;
        narrowed(normalizer.sub(&expected)?.mean(..)?, self.dtype(), &origin)
    }
}
