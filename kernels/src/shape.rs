//! Shapes and tensor types.

use std::fmt;
use std::ops::Deref;

use smallvec::SmallVec;

use crate::dtype::DType;

/// The extents of a tensor, outermost first. Rank 0 is a scalar; any extent may be 0.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Shape(SmallVec<[usize; 4]>);

impl Shape {
    /// The shape with the given extents.
    pub fn new(extents: impl IntoIterator<Item = usize>) -> Self {
        Shape(extents.into_iter().collect())
    }

    /// The shape of a scalar.
    pub fn scalar() -> Self {
        Shape::default()
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// Number of elements, or `None` where the product exceeds `isize::MAX`.
    pub fn checked_elements(&self) -> Option<usize> {
        if self.0.contains(&0) {
            return Some(0);
        }
        let product = self.0.iter().try_fold(1usize, |product, &extent| product.checked_mul(extent))?;
        (product <= isize::MAX as usize).then_some(product)
    }

    /// Number of elements.
    ///
    /// # Panics
    /// Where the product overflows; inference rejects such shapes before they reach a buffer.
    pub fn elements(&self) -> usize {
        self.checked_elements().expect("a shape that passed inference has a representable element count")
    }

    /// The extents.
    pub fn extents(&self) -> &[usize] {
        &self.0
    }
}

impl Deref for Shape {
    type Target = [usize];
    fn deref(&self) -> &[usize] {
        &self.0
    }
}

impl<const N: usize> From<[usize; N]> for Shape {
    fn from(extents: [usize; N]) -> Self {
        Shape::new(extents)
    }
}

impl From<&[usize]> for Shape {
    fn from(extents: &[usize]) -> Self {
        Shape(SmallVec::from_slice(extents))
    }
}

impl From<Vec<usize>> for Shape {
    fn from(extents: Vec<usize>) -> Self {
        Shape(SmallVec::from_vec(extents))
    }
}

impl FromIterator<usize> for Shape {
    fn from_iter<I: IntoIterator<Item = usize>>(extents: I) -> Self {
        Shape::new(extents)
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, extent) in self.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{extent}")?;
        }
        f.write_str("]")
    }
}

/// A dtype and a shape: what StableHLO calls a ranked tensor type.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TensorType {
    /// Element type.
    pub dtype: DType,
    /// Extents.
    pub shape: Shape,
}

impl TensorType {
    /// The type of a tensor with the given element type and extents.
    pub fn new(dtype: DType, shape: impl Into<Shape>) -> Self {
        TensorType { dtype, shape: shape.into() }
    }

    /// The type of a scalar.
    pub fn scalar(dtype: DType) -> Self {
        TensorType { dtype, shape: Shape::scalar() }
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.shape.rank()
    }

    /// Bytes that the elements take in row-major order, or `None` where that exceeds `isize::MAX`.
    pub fn checked_byte_len(&self) -> Option<usize> {
        let bytes = self.shape.checked_elements()?.checked_mul(self.dtype.size())?;
        (bytes <= isize::MAX as usize).then_some(bytes)
    }

    /// Bytes that the elements take in row-major order.
    ///
    /// # Panics
    /// Where that overflows; inference rejects such types.
    pub fn byte_len(&self) -> usize {
        self.checked_byte_len().expect("a type that passed inference has a representable size")
    }
}

/// `tensor<2x3xf32>`, as in StableHLO text.
impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tensor<")?;
        for extent in self.shape.iter() {
            write!(f, "{extent}x")?;
        }
        write!(f, "{}>", self.dtype.mlir())
    }
}
