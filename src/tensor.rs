//! The user's handle to a value.

use std::sync::Arc;

use systole_fusion::infer::{MAX_RANK, addressable};
use systole_fusion::ir::Origin;
use systole_hal::{BufferRef, HostBytes};
use systole_kernels::{DType, Element, Scalar, Shape, TensorType};

use crate::device::{self, Device, DeviceInner};
use crate::error::{Error, Result};
use crate::report::CutReason;
use crate::stream::{self, StreamShared};
use crate::value::{Value, drop_handle};

/// A tensor: an immutable value on a device, which may still be pending. Cloning copies the handle, not the elements.
///
/// Every op method gives a `Result`: shape and dtype errors are raised by the call, at the caller's line. Failures of
/// the device poison the value and surface where it, or anything computed from it, is read.
pub struct Tensor {
    value: Arc<Value>,
}

impl Tensor {
    pub(crate) fn from_value(value: Arc<Value>) -> Self {
        Tensor { value }
    }

    pub(crate) fn value(&self) -> &Arc<Value> {
        &self.value
    }

    /// Copies `elements`, row-major, to a tensor of `shape` on `device`.
    ///
    /// # Errors
    /// The number of elements is not that of the shape, or the device is out of memory.
    #[track_caller]
    pub fn from_slice<T: Element>(device: &Device, elements: &[T], shape: impl Into<Shape>) -> Result<Self> {
        let ty = TensorType::new(T::DTYPE, shape);
        Tensor::copied("from_slice", device, &ty, bytemuck::cast_slice(elements), &Origin::caller())
    }

    /// Copies row-major little-endian elements to a tensor on `device`; bools are bytes 0 and 1.
    ///
    /// # Errors
    /// The number of bytes is not that of the type, a bool is neither 0 nor 1, or the device is out of memory.
    #[track_caller]
    pub fn from_bytes(device: &Device, dtype: DType, bytes: &[u8], shape: impl Into<Shape>) -> Result<Self> {
        Tensor::copied("from_bytes", device, &TensorType::new(dtype, shape), bytes, &Origin::caller())
    }

    /// What `method` gives.
    fn copied(method: &'static str, device: &Device, ty: &TensorType, bytes: &[u8], origin: &Origin) -> Result<Self> {
        check_bytes(ty, bytes).map_err(|reason| Error::misuse(method, Vec::new(), origin.clone(), reason))?;
        Tensor::upload(stream::current(device.inner(), |stream| stream.shared().clone()), ty, bytes, origin)
    }

    /// A tensor that *is* the host's memory: row-major elements in native byte order, read where they are, without a copy.
    /// The memory is never written, and its owner is dropped, on whatever thread, when the last tensor and launch that
    /// reads it has gone. Its bytes must not change before that. Bytes that are not aligned to the dtype's size are
    /// copied, as [`from_bytes`](Self::from_bytes) does.
    ///
    /// # Errors
    /// As [`from_bytes`](Self::from_bytes).
    #[track_caller]
    pub fn from_host(device: &Device, dtype: DType, memory: HostBytes, shape: impl Into<Shape>) -> Result<Self> {
        let origin = Origin::caller();
        let ty = TensorType::new(dtype, shape);
        check_bytes(&ty, (*memory).as_ref())
            .map_err(|reason| Error::misuse("from_host", Vec::new(), origin.clone(), reason))?;
        let stream = stream::current(device.inner(), |stream| stream.shared().clone());
        let buffer = stream.device().import(&ty, memory, &origin)?;
        Ok(Tensor::from_value(Value::settled(ty, stream, Ok(buffer))))
    }

    /// A tensor at home in `stream`, with elements that fill its type.
    pub(crate) fn upload(stream: Arc<StreamShared>, ty: &TensorType, bytes: &[u8], origin: &Origin) -> Result<Self> {
        let buffer = stream.device().upload(ty, bytes, origin)?;
        Ok(Tensor::from_value(Value::settled(ty.clone(), stream, Ok(buffer))))
    }

    /// Type.
    pub fn ty(&self) -> &TensorType {
        self.value.ty()
    }

    /// Extents.
    pub fn shape(&self) -> &Shape {
        &self.value.ty().shape
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.value.ty().rank()
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.value.ty().dtype
    }

    /// The device.
    pub fn device(&self) -> Device {
        Device::from_inner(self.value.stream().device().clone())
    }

    /// Whether the value is there, or is known to have failed: whether reading it would not wait. Asking submits nothing,
    /// so a value that is recorded and not yet submitted stays where it is, and is not ready.
    pub fn is_ready(&self) -> bool {
        match self.value().outcome() {
            Some(Ok(buffer)) => buffer.ready().is_ready(),
            Some(Err(_)) => true,
            None => false,
        }
    }

    /// Waits for the elements and copies them to the host, row-major.
    ///
    /// # Errors
    /// `T` is not the tensor's element type, or the value failed: then the error names the op that failed first and the
    /// line that recorded it.
    #[track_caller]
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        let origin = Origin::caller();
        if T::DTYPE != self.dtype() {
            let reason = format!("elements are {}, not {}", self.dtype(), T::DTYPE);
            return Err(Error::misuse("to_vec", vec![self.ty().clone()], origin, reason));
        }
        let bytes = self.read(origin.clone())?;
        let mut elements = device::host_room(self.ty(), bytes.len() / T::DTYPE.size(), &origin)?;
        elements.extend(elements_of::<T>(&bytes));
        Ok(elements)
    }

    /// Waits for the elements and copies them to the host as bytes, row-major, little-endian.
    ///
    /// # Errors
    /// The value failed.
    #[track_caller]
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        self.read(Origin::caller())
    }

    /// Waits for the only element of a tensor and copies it to the host.
    ///
    /// # Errors
    /// The tensor has another number of elements, `T` is not its element type, or the value failed.
    #[track_caller]
    pub fn item<T: Element>(&self) -> Result<T> {
        let origin = Origin::caller();
        if self.shape().elements() != 1 {
            let reason = format!("takes 1 element, not {}", self.shape().elements());
            return Err(Error::misuse("item", vec![self.ty().clone()], origin, reason));
        }
        Ok(self.to_vec::<T>()?.remove(0))
    }

    /// Waits for the elements and lends them to the host, row-major in native byte order, without a copy. While the loan is
    /// held, the memory is reused by nothing.
    ///
    /// # Errors
    /// The value failed.
    #[track_caller]
    pub fn to_host(&self) -> Result<HostBytes> {
        self.lend(Origin::caller())
    }

    pub(crate) fn lend(&self, origin: Origin) -> Result<HostBytes> {
        self.settled(&origin, |device, buffer| device.export(buffer, &origin))
    }

    fn read(&self, origin: Origin) -> Result<Vec<u8>> {
        self.settled(&origin, |device, buffer| device.download(self.ty(), buffer, &origin))
    }

    /// Cuts the stream if the value is still pending, and gives what `take` makes of its buffer.
    fn settled<R>(&self, origin: &Origin, take: impl FnOnce(&DeviceInner, &BufferRef) -> Result<R>) -> Result<R> {
        let stream = self.value.stream();
        if self.value.outcome().is_none() {
            stream.cut(CutReason::Read(origin.clone()));
        }
        let outcome = self.value.outcome().expect("a cut settles every value of its trace that has a handle");
        outcome
            .as_ref()
            .map_err(Error::clone)
            .and_then(|buffer| take(stream.device(), buffer))
            .inspect_err(|error| stream.mark_reported(error))
    }
}

impl Clone for Tensor {
    fn clone(&self) -> Self {
        self.value.add_handle();
        Tensor { value: self.value.clone() }
    }
}

impl Drop for Tensor {
    fn drop(&mut self) {
        drop_handle(&self.value);
    }
}

/// The elements that these bytes are, row-major and little-endian.
pub(crate) fn elements_of<T: Element>(bytes: &[u8]) -> impl Iterator<Item = T> {
    bytes.chunks_exact(T::DTYPE.size()).map(|bytes| T::from_scalar(Scalar::from_le_bytes(T::DTYPE, bytes)))
}

/// The bounds that inference keeps for every op's result, for tensors that come from the host.
fn check_type(ty: &TensorType) -> Result<(), String> {
    if ty.rank() > MAX_RANK {
        return Err(format!("rank {} exceeds {MAX_RANK}", ty.rank()));
    }
    if !addressable(ty) {
        return Err(format!("{ty} is too large to address"));
    }
    Ok(())
}

/// Whether bytes are the elements of a type, and else why not.
pub(crate) fn check_bytes(ty: &TensorType, bytes: &[u8]) -> Result<(), String> {
    check_type(ty)?;
    if ty.checked_byte_len() != Some(bytes.len()) {
        let (dtype, shape) = (ty.dtype, &ty.shape);
        return Err(match bytes.len() / dtype.size() {
            1 => format!("1 element of {dtype} does not fill shape {shape}"),
            elements => format!("{elements} elements of {dtype} do not fill shape {shape}"),
        });
    }
    if ty.dtype == DType::Bool
        && let Some(at) = bytes.iter().position(|&byte| byte > 1)
    {
        return Err(format!("byte {at} of a bool tensor is {}, not 0 or 1", bytes[at]));
    }
    Ok(())
}
