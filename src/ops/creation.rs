//! Tensors from numbers.

use std::sync::Arc;

use smallvec::smallvec;
use systole_fusion::ir::{Attrs, Literal, Opcode, Origin};
use systole_kernels::{DType, Element, Scalar, Shape, TensorType};

use super::axes::resolve;
use crate::device::{Device, DeviceInner};
use crate::dispatch;
use crate::error::{Error, Result};
use crate::stream;
use crate::tensor::Tensor;

/// Records a constant. The value is an argument of whatever plan it ends up in, so a changing one builds nothing.
pub(super) fn constant(
    device: &Arc<DeviceInner>,
    value: Scalar,
    shape: impl Into<Shape>,
    origin: Origin,
) -> Result<Tensor> {
    let ty = TensorType::new(value.dtype(), shape);
    source(device, Opcode::Constant, Attrs::Constant(Literal::Splat(ty, value)), origin)
}

/// Records the index along a dimension.
pub(super) fn iota(device: &Arc<DeviceInner>, ty: TensorType, dimension: u32, origin: Origin) -> Result<Tensor> {
    source(device, Opcode::Iota, Attrs::Iota { ty, dimension }, origin)
}

fn source(device: &Arc<DeviceInner>, op: Opcode, attrs: Attrs, origin: Origin) -> Result<Tensor> {
    let mut results =
        stream::current(device, |stream| dispatch::record(stream.shared(), op, &[], attrs, smallvec![], origin))?;
    Ok(results.pop().expect("the op has one result"))
}

impl Tensor {
    /// A scalar.
    ///
    /// # Errors
    /// None in practice; recording is fallible in general.
    #[track_caller]
    pub fn scalar<T: Element>(device: &Device, value: T) -> Result<Tensor> {
        constant(device.inner(), value.to_scalar(), [], Origin::caller())
    }

    /// `value` everywhere.
    ///
    /// # Errors
    /// The shape has more elements than a buffer can hold.
    #[track_caller]
    pub fn full<T: Element>(device: &Device, value: T, shape: impl Into<Shape>) -> Result<Tensor> {
        constant(device.inner(), value.to_scalar(), shape, Origin::caller())
    }

    /// Zeros (`false` for bool).
    ///
    /// # Errors
    /// As [`full`](Self::full).
    #[track_caller]
    pub fn zeros(device: &Device, dtype: DType, shape: impl Into<Shape>) -> Result<Tensor> {
        constant(device.inner(), Scalar::from_f64(dtype, 0.0), shape, Origin::caller())
    }

    /// Ones (`true` for bool).
    ///
    /// # Errors
    /// As [`full`](Self::full).
    #[track_caller]
    pub fn ones(device: &Device, dtype: DType, shape: impl Into<Shape>) -> Result<Tensor> {
        constant(device.inner(), Scalar::from_f64(dtype, 1.0), shape, Origin::caller())
    }

    /// Zeros (`false` for bool) of this tensor's shape and dtype, on its device.
    ///
    /// # Errors
    /// None in practice; recording is fallible in general.
    #[track_caller]
    pub fn zeros_like(&self) -> Result<Tensor> {
        Tensor::zeros(&self.device(), self.dtype(), self.shape().clone())
    }

    /// Ones (`true` for bool) of this tensor's shape and dtype, on its device.
    ///
    /// # Errors
    /// None in practice; recording is fallible in general.
    #[track_caller]
    pub fn ones_like(&self) -> Result<Tensor> {
        Tensor::ones(&self.device(), self.dtype(), self.shape().clone())
    }

    /// The index along `axis`, as `dtype`; a negative axis counts from the last.
    ///
    /// ```
    /// # use systole::{DType, Device, Tensor};
    /// # fn main() -> systole::Result<()> {
    /// let device = Device::simulator()?;
    /// let columns = Tensor::iota(&device, DType::I32, [2, 3], -1)?;
    /// assert_eq!(columns.to_vec::<i32>()?, [0, 1, 2, 0, 1, 2]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The shape has no such axis, or `dtype` is bool.
    #[doc(alias = "arange")]
    #[track_caller]
    pub fn iota(device: &Device, dtype: DType, shape: impl Into<Shape>, axis: isize) -> Result<Tensor> {
        let origin = Origin::caller();
        let ty = TensorType::new(dtype, shape);
        let dimension =
            resolve(axis, ty.rank()).map_err(|reason| Error::misuse("iota", Vec::new(), origin.clone(), reason))?;
        iota(device.inner(), ty, dimension as u32, origin)
    }
}
