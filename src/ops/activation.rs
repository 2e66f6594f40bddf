//! Activations: what a network does to the elements, or to each row, between two products.

use systole_fusion::ir::Origin;
use systole_fusion::ir::attrs::Dims;
use systole_kernels::program::Monoid;

use super::axes::dimension;
use super::reduction::{reduce, spread};
use super::{check_float, narrowed, widened};
use crate::error::Result;
use crate::tensor::Tensor;

/// The elements less the greatest of their row, and the exponentials of that: none overflows.
#[track_caller]
pub(super) fn shifted(tensor: &Tensor, axis: &Dims) -> Result<(Tensor, Tensor)> {
    let greatest = reduce(tensor, Monoid::Maximum, axis.clone(), Origin::caller())?;
    let shifted = tensor.sub(spread(&greatest, tensor.shape(), axis, Origin::caller())?)?;
    let exponentials = shifted.exp()?;
    Ok((shifted, exponentials))
}

/// The axis of a row-wise composite on floats.
fn row(method: &'static str, tensor: &Tensor, axis: isize, origin: &Origin) -> Result<Dims> {
    check_float(method, tensor, origin)?;
    Ok(Dims::from_slice(&[dimension(method, tensor, axis, origin)? as u32]))
}

impl Tensor {
    /// e^(x − m) / Σ e^(x − m) along `axis`, where m is the greatest element there: as written, without rescaling on the
    /// way. The result has this shape and dtype, and sums to 1 along `axis`.
    ///
    /// Narrower floats are computed in f32 and rounded once. A row that holds NaN, +∞, or only −∞, gives NaN.
    ///
    /// ```
    /// # use systole::{Device, Tensor};
    /// # fn main() -> systole::Result<()> {
    /// let device = Device::simulator()?;
    /// let x = Tensor::from_slice(&device, &[1.0f32, 1.0, 3.0, 3.0], [2, 2])?;
    /// assert_eq!(x.softmax(-1)?.to_vec::<f32>()?, [0.5; 4]);
    /// assert_eq!(x.softmax(0)?.to_vec::<f32>()?, [0.11920292, 0.11920292, 0.880797, 0.880797]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// A dtype that is no float, or no such axis.
    #[track_caller]
    pub fn softmax(&self, axis: isize) -> Result<Tensor> {
        let origin = Origin::caller();
        let axis = row("softmax", self, axis, &origin)?;
        let (_, exponentials) = shifted(&*widened(self, &origin)?, &axis)?;
        let sum = reduce(&exponentials, Monoid::Add, axis.clone(), origin.clone())?;
        let result = exponentials.div(spread(&sum, self.shape(), &axis, origin.clone())?)?;
        narrowed(result, self.dtype(), &origin)
    }

    /// The logarithm of [`softmax`](Self::softmax): x − m − log Σ e^(x − m) along `axis`, where m is the greatest
    /// element there. It stays finite where the softmax itself rounds to 0.
    ///
    /// ```
    /// # use systole::{Device, Tensor};
    /// # fn main() -> systole::Result<()> {
    /// let device = Device::simulator()?;
    /// let x = Tensor::from_slice(&device, &[0.0f32, 1000.0], [2])?;
    /// assert_eq!(x.log_softmax(0)?.to_vec::<f32>()?, [-1000.0, 0.0]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// A dtype that is no float, or no such axis.
    #[track_caller]
    pub fn log_softmax(&self, axis: isize) -> Result<Tensor> {
        let origin = Origin::caller();
        let axis = row("log_softmax", self, axis, &origin)?;
        let (shifted, exponentials) = shifted(&*widened(self, &origin)?, &axis)?;
        let sum = reduce(&exponentials, Monoid::Add, axis.clone(), origin.clone())?.log()?;
        let result = shifted.sub(spread(&sum, self.shape(), &axis, origin.clone())?)?;
        narrowed(result, self.dtype(), &origin)
    }

    /// The larger of x and 0; NaN stays NaN. Numbers of any kind.
    ///
    /// ```
    /// # use systole::{Device, Tensor};
    /// # fn main() -> systole::Result<()> {
    /// let device = Device::simulator()?;
    /// let x = Tensor::from_slice(&device, &[-1i32, 0, 2], [3])?;
    /// assert_eq!(x.relu()?.to_vec::<i32>()?, [0, 0, 2]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// None in practice; recording is fallible in general.
    #[track_caller]
    pub fn relu(&self) -> Result<Tensor> {
        self.maximum(0)
    }

    /// x · logistic(x), also called swish. Narrower floats are computed in f32 and rounded once; −∞ gives NaN.
    ///
    /// ```
    /// # use systole::{Device, Tensor};
    /// # fn main() -> systole::Result<()> {
    /// let device = Device::simulator()?;
    /// let x = Tensor::from_slice(&device, &[-1.0f32, 0.0, 2.0], [3])?;
    /// assert_eq!(x.silu()?.to_vec::<f32>()?, [-0.26894143, 0.0, 1.7615942]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// A dtype that is no float.
    #[track_caller]
    pub fn silu(&self) -> Result<Tensor> {
        let origin = Origin::caller();
        check_float("silu", self, &origin)?;
        let x = widened(self, &origin)?;
        narrowed(x.mul(x.logistic()?)?, self.dtype(), &origin)
    }

    /// Gaussian error linear unit: ½x · (1 + erf(x · √½)), that is x times the share of a normal distribution below x.
    /// Narrower floats are computed in f32 and rounded once; −∞ gives NaN.
    ///
    /// ```
    /// # use systole::{Device, Tensor};
    /// # fn main() -> systole::Result<()> {
    /// let device = Device::simulator()?;
    /// let x = Tensor::from_slice(&device, &[-1.0f32, 0.0, 2.0], [3])?;
    /// assert_eq!(x.gelu()?.to_vec::<f32>()?, [-0.15865526, 0.0, 1.9544997]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// A dtype that is no float.
    #[track_caller]
    pub fn gelu(&self) -> Result<Tensor> {
        let origin = Origin::caller();
        check_float("gelu", self, &origin)?;
        let x = widened(self, &origin)?;
        let share = x.mul(std::f64::consts::FRAC_1_SQRT_2)?.erf()?.add(1.0)?;
        narrowed(x.mul(0.5)?.mul(share)?, self.dtype(), &origin)
    }

    /// Gaussian error linear unit by its tanh formula: ½x · (1 + tanh(√(2/π) · (x + 0.044715 x³))), where x³ is
    /// x · x · x. Narrower floats are computed in f32 and rounded once; −∞ gives NaN.
    ///
    /// ```
    /// # use systole::{Device, Tensor};
    /// # fn main() -> systole::Result<()> {
    /// let device = Device::simulator()?;
    /// let x = Tensor::from_slice(&device, &[-1.0f32, 0.0, 2.0], [3])?;
    /// assert_eq!(x.gelu_tanh()?.to_vec::<f32>()?, [-0.158808, 0.0, 1.9545977]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// A dtype that is no float.
    #[track_caller]
    pub fn gelu_tanh(&self) -> Result<Tensor> {
        /// √(2/π).
        const SCALE: f64 = std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2;
        let origin = Origin::caller();
        check_float("gelu_tanh", self, &origin)?;
        let x = widened(self, &origin)?;
        let cube = x.mul(&*x)?.mul(&*x)?;
        let inner = x.add(cube.mul(0.044715)?)?.mul(SCALE)?;
        let result = x.mul(0.5)?.mul(inner.tanh()?.add(1.0)?)?;
        narrowed(result, self.dtype(), &origin)
    }
}
