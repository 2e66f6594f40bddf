//! Tensors in host memory.

use systole_kernels::{Element, Scalar, Shape, TensorType};

use super::index;

/// A dense tensor: row-major little-endian elements; bools are bytes 0 and 1.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostTensor {
    /// Type.
    pub ty: TensorType,
    /// Elements.
    pub bytes: Vec<u8>,
}

impl HostTensor {
    /// A tensor of these elements.
    ///
    /// # Panics
    /// Where the shape has another number of elements: a bug in the caller.
    pub fn from_slice<T: Element>(shape: impl Into<Shape>, elements: &[T]) -> Self {
        let ty = TensorType::new(T::DTYPE, shape);
        assert_eq!(ty.shape.checked_elements(), Some(elements.len()), "one element per index of {ty}");
        let size = T::DTYPE.size();
        let bytes = elements.iter().flat_map(|&element| element.to_scalar().to_le_bytes().into_iter().take(size));
        HostTensor { bytes: bytes.collect(), ty }
    }

    /// A tensor of rank 0.
    pub fn scalar<T: Element>(value: T) -> Self {
        HostTensor::from_slice(Shape::scalar(), &[value])
    }

    /// The elements in row-major order.
    ///
    /// # Panics
    /// Where the dtype is another: a bug in the caller.
    pub fn to_vec<T: Element>(&self) -> Vec<T> {
        assert_eq!(self.ty.dtype, T::DTYPE, "elements are read as their dtype");
        self.scalars().into_iter().map(T::from_scalar).collect()
    }

    /// The elements in row-major order, each with its dtype.
    pub fn scalars(&self) -> Vec<Scalar> {
        (0..self.bytes.len() / self.ty.dtype.size()).map(|i| self.flat(i)).collect()
    }

    /// The element at an index vector.
    pub(super) fn at(&self, index: &[usize]) -> Scalar {
        self.flat(index::flatten(&self.ty.shape, index))
    }

    /// The tensor whose element at each index vector `element` gives.
    pub(super) fn build(ty: &TensorType, mut element: impl FnMut(&[usize]) -> Scalar) -> Self {
        let mut bytes = Vec::new();
        for index in index::all(&ty.shape) {
            let scalar = element(&index);
            assert_eq!(scalar.dtype(), ty.dtype, "an op's elements have its result's dtype");
            bytes.extend_from_slice(&scalar.to_le_bytes()[..ty.dtype.size()]);
        }
        HostTensor { ty: ty.clone(), bytes }
    }

    fn flat(&self, index: usize) -> Scalar {
        let size = self.ty.dtype.size();
        Scalar::from_le_bytes(self.ty.dtype, &self.bytes[index * size..(index + 1) * size])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_round_trip() {
        let floats = [0.0f32, -0.0, f32::NAN, 1.5e-42];
        let tensor = HostTensor::from_slice([2, 2], &floats);
        let back: Vec<u32> = tensor.to_vec::<f32>().into_iter().map(f32::to_bits).collect();
        assert_eq!(back, floats.map(f32::to_bits));
        assert_eq!(HostTensor::from_slice([3], &[true, false, true]).bytes, [1, 0, 1]);
        assert_eq!(HostTensor::scalar(-2i64).to_vec::<i64>(), [-2]);
        assert_eq!(tensor.at(&[1, 1]).bits(), u64::from(1.5e-42f32.to_bits()));
    }
}
