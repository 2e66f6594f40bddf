//! A tensor's type and bytes on the host, of no device yet.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use systole_fusion::ir::Origin;
use systole_hal::HostBytes;
use systole_kernels::{Element, Shape, TensorType};

use super::Reason;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::tensor::{self, Tensor};

/// A tensor at rest: its type and its elements, row-major and little-endian. Cloning copies the handle, not the
/// elements. Two are equal if type and bits are.
#[derive(Clone)]
pub struct StoredTensor {
    ty: TensorType,
    memory: HostBytes,
}

impl StoredTensor {
    /// The tensor of `shape` with these elements, row-major.
    ///
    /// # Errors
    /// The number of elements is not that of the shape.
    #[track_caller]
    pub fn new<T: Element>(elements: Vec<T>, shape: impl Into<Shape>) -> Result<Self> {
        let (ty, origin) = (TensorType::new(T::DTYPE, shape), Origin::caller());
        StoredTensor::checked(ty, Arc::new(Elements(elements)))
            .map_err(|reason| Error::misuse("StoredTensor::new", Vec::new(), origin, reason))
    }

    /// Waits for the elements of a tensor and lends them, as [`Tensor::to_host`] does.
    ///
    /// # Errors
    /// The value failed.
    #[track_caller]
    pub fn of(tensor: &Tensor) -> Result<Self> {
        StoredTensor::lent(tensor, &Origin::caller())
    }

    pub(super) fn lent(tensor: &Tensor, origin: &Origin) -> Result<Self> {
        Ok(StoredTensor { ty: tensor.ty().clone(), memory: tensor.lend(origin.clone())? })
    }

    /// The tensor whose elements are all of `memory`, if they can be.
    pub(super) fn checked(ty: TensorType, memory: HostBytes) -> Result<Self, Reason> {
        tensor::check_bytes(&ty, (*memory).as_ref())?;
        Ok(StoredTensor { ty, memory })
    }

    /// The tensor whose elements are a part of a file, if they can be.
    pub(super) fn part_of(file: &Arc<Vec<u8>>, range: Range<usize>, ty: TensorType) -> Result<Self, Reason> {
        StoredTensor::checked(ty, Arc::new(Part { file: file.clone(), range }))
    }

    /// Type.
    pub fn ty(&self) -> &TensorType {
        &self.ty
    }

    /// The elements' bytes.
    pub fn bytes(&self) -> &[u8] {
        (*self.memory).as_ref()
    }

    /// The elements.
    ///
    /// # Errors
    /// `T` is not the tensor's element type.
    #[track_caller]
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        if T::DTYPE != self.ty.dtype {
            let reason = format!("elements are {}, not {}", self.ty.dtype, T::DTYPE);
            return Err(Error::misuse("to_vec", vec![self.ty.clone()], Origin::caller(), reason));
        }
        Ok(tensor::elements_of(self.bytes()).collect())
    }

    /// The tensor on `device`: its elements are read where they are, or copied where they are not aligned to their size
    /// ([`Tensor::from_host`]).
    ///
    /// # Errors
    /// The device is out of memory.
    #[track_caller]
    pub fn to_device(&self, device: &Device) -> Result<Tensor> {
        Tensor::from_host(device, self.ty.dtype, self.memory.clone(), self.ty.shape.clone())
    }
}

impl PartialEq for StoredTensor {
    fn eq(&self, other: &Self) -> bool {
        self.ty == other.ty && self.bytes() == other.bytes()
    }
}

impl Eq for StoredTensor {}

/// The type only.
impl fmt::Debug for StoredTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoredTensor({})", self.ty)
    }
}

/// Elements as their bytes.
struct Elements<T>(Vec<T>);

impl<T: Element> AsRef<[u8]> for Elements<T> {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

/// Bytes of a file, which stays in memory as long as they are used.
struct Part {
    file: Arc<Vec<u8>>,
    range: Range<usize>,
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.file[self.range.clone()]
    }
}
