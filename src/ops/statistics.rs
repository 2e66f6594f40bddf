//! Mean and variance.

use systole_fusion::ir::Origin;
use systole_fusion::ir::attrs::Dims;
use systole_kernels::program::Monoid;

use super::axes::{Axes, dimensions};
use super::reduction::{keep, reduce, spread};
use super::{check_float, narrowed, widened};
use crate::error::Result;
use crate::tensor::Tensor;

/// The number of elements that combine into one. A float count cannot overflow, and rounds as the division by an exact
/// count would.
fn count(tensor: &Tensor, reduced: &Dims) -> f64 {
    reduced.iter().map(|&dimension| tensor.shape()[dimension as usize] as f64).product()
}

/// The mean of floats that are at least f32.
#[track_caller]
pub(super) fn mean_of(tensor: &Tensor, reduced: &Dims) -> Result<Tensor> {
    reduce(tensor, Monoid::Add, reduced.clone(), Origin::caller())?.div(count(tensor, reduced))
}

/// The elements less their mean.
#[track_caller]
pub(super) fn centered(tensor: &Tensor, reduced: &Dims) -> Result<Tensor> {
    tensor.sub(spread(&mean_of(tensor, reduced)?, tensor.shape(), reduced, Origin::caller())?)
}

/// The mean of squares of floats that are at least f32.
#[track_caller]
pub(super) fn mean_square(tensor: &Tensor, reduced: &Dims) -> Result<Tensor> {
    mean_of(&tensor.mul(tensor)?, reduced)
}

macro_rules! statistics {
    ($($(#[doc = $doc:literal])* $method:ident $keep:ident ($($argument:ident: $ty:ty)?) $compute:path;)*) => {
        impl Tensor {
            $(
                $(#[doc = $doc])*
                ///
                /// # Errors
                /// No such dimension, or a dtype that is no float.
                #[track_caller]
                pub fn $method(&self, axes: impl Axes $(, $argument: $ty)?) -> Result<Tensor> {
                    let origin = Origin::caller();
                    check_float(stringify!($method), self, &origin)?;
                    let reduced = dimensions(stringify!($method), self, &axes, &origin)?;
                    let result = $compute(&*widened(self, &origin)?, &reduced $(, $argument)?)?;
                    narrowed(result, self.dtype(), &origin)
                }

                $(#[doc = $doc])*
                ///
                /// The reduced dimensions stay, with extent 1.
                ///
                /// # Errors
                /// No such dimension, or a dtype that is no float.
                #[track_caller]
                pub fn $keep(&self, axes: impl Axes $(, $argument: $ty)?) -> Result<Tensor> {
                    let origin = Origin::caller();
                    check_float(stringify!($keep), self, &origin)?;
                    let reduced = dimensions(stringify!($keep), self, &axes, &origin)?;
                    let result = $compute(&*widened(self, &origin)?, &reduced $(, $argument)?)?;
                    let result = narrowed(result, self.dtype(), &origin)?;
                    keep(&result, self.shape(), &reduced, origin)
                }
            )*
        }
    };
}

statistics! {
    /// The sum divided by the number of elements combined; NaN where there are none.
    mean mean_keepdims() mean_of;
    /// The squares of the elements less their mean, summed and divided by their number less `correction`: 0 for the
    /// variance of these elements (NumPy's default), 1 for the estimate from a sample (PyTorch's). NaN or infinite where
    /// there are no more elements than that.
    ///
    /// ```
    /// # use systole::{Device, Tensor};
    /// # fn main() -> systole::Result<()> {
    /// let device = Device::simulator()?;
    /// let x = Tensor::from_slice(&device, &[1.0f32, 2.0, 3.0, 6.0], [4])?;
    /// assert_eq!(x.var(.., 0)?.item::<f32>()?, 3.5);
    /// assert_eq!(x.var(.., 1)?.item::<f32>()?, 14.0 / 3.0);
    /// # Ok(()) }
    /// ```
    var var_keepdims(correction: usize) variance;
}

#[track_caller]
fn variance(tensor: &Tensor, reduced: &Dims, correction: usize) -> Result<Tensor> {
    let centered = centered(tensor, reduced)?;
    let squares = reduce(&centered.mul(&centered)?, Monoid::Add, reduced.clone(), Origin::caller())?;
    squares.div((count(tensor, reduced) - correction as f64).max(0.0))
}
