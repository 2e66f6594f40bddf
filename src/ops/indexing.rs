//! Elements chosen by indices that are data.

use std::slice;

use smallvec::SmallVec;
use systole_fusion::ir::attrs::Dims;
use systole_fusion::ir::{Attrs, GatherDims, Opcode, Origin};
use systole_kernels::Shape;

use super::axes::resolve;
use super::{record, types};
use crate::debug::check_range;
use crate::error::{Error, Result};
use crate::tensor::Tensor;

impl Tensor {
    /// StableHLO's `gather`: slices at start indices that are data; indices out of range clamp, and are errors in
    /// [`Mode::Debug`](crate::Mode::Debug).
    ///
    /// # Errors
    /// Dimension numbers, slice sizes or index dtype that do not fit.
    #[track_caller]
    pub fn gather(&self, indices: &Tensor, dims: GatherDims) -> Result<Tensor> {
        record(Opcode::Gather, &[self, indices], Attrs::Gather(Box::new(dims)), Origin::caller())
    }

    /// For each point of `indices`, the element of this tensor at that index along `axis` and at the same point
    /// elsewhere, as `numpy.take_along_axis`. A negative `axis` counts from the last; indices out of range, negative ones
    /// too, clamp, and are errors in [`Mode::Debug`](crate::Mode::Debug).
    ///
    /// # Errors
    /// No such axis, ranks that differ, extents that differ outside `axis`, or indices of a dtype that is no integer.
    #[track_caller]
    pub fn take_along_dim(&self, indices: &Tensor, axis: isize) -> Result<Tensor> {
        let origin = Origin::caller();
        let misuse = |reason| Error::misuse("take_along_dim", types(&[self, indices]), origin.clone(), reason);
        let dimension = resolve(axis, self.rank()).map_err(misuse)?;
        let fits = indices.rank() == self.rank()
            && (0..self.rank()).all(|d| d == dimension || self.shape()[d] == indices.shape()[d]);
        if !fits {
            let shapes = (self.shape(), indices.shape());
            return Err(misuse(format!(
                "shapes {} and {} must have equal extents but in dimension {dimension}",
                shapes.0, shapes.1
            )));
        }
        if self.shape()[dimension] == 0 && indices.shape().elements() > 0 {
            return Err(misuse(format!("there is nothing to take along dimension {dimension}, whose extent is 0")));
        }
        let valid = 0..self.shape()[dimension] as i128;
        check_range("take_along_dim", &[self, indices], ("index", indices), valid, &origin)?;
        let rank = self.rank() as u32;
        let with_vector: Shape = indices.shape().iter().copied().chain([1]).collect();
        let starts = record(Opcode::Reshape, &[indices], Attrs::Reshape(with_vector), origin.clone())?;
        let others: Dims = (0..rank).filter(|&d| d != dimension as u32).collect();
        let dims = GatherDims {
            offset_dims: Dims::new(),
            collapsed_slice_dims: Dims::from_slice(&[dimension as u32]),
            operand_batching_dims: others.clone(),
            start_indices_batching_dims: others,
            start_index_map: Dims::from_slice(&[dimension as u32]),
            index_vector_dim: rank,
            slice_sizes: self.shape().iter().map(|&extent| i64::from(extent > 0)).collect(),
            indices_are_sorted: false,
        };
        record(Opcode::Gather, &[self, &starts], Attrs::Gather(Box::new(dims)), origin)
    }

    /// The rows of this table at `ids`: of a table [V, D…] and ids of shape I, a result of shape [I…, D…].
    ///
    /// Ids out of range clamp to the first or last row, and are errors in [`Mode::Debug`](crate::Mode::Debug); none
    /// counts from the end.
    ///
    /// ```
    /// # use systole::{Device, Tensor};
    /// # fn main() -> systole::Result<()> {
    /// let device = Device::simulator()?;
    /// let table = Tensor::from_slice(&device, &[0.0f32, 0.5, 1.0, 1.5, 2.0, 2.5], [3, 2])?;
    /// let ids = Tensor::from_slice(&device, &[2i32, 0, 2], [1, 3])?;
    /// let rows = table.embedding(&ids)?;
    /// assert_eq!(rows.shape()[..], [1, 3, 2]);
    /// assert_eq!(rows.to_vec::<f32>()?, [2.0, 2.5, 0.0, 0.5, 2.0, 2.5]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// A table of rank 0 or without rows, or ids of a dtype that is no integer.
    #[track_caller]
    pub fn embedding(&self, ids: &Tensor) -> Result<Tensor> {
        let origin = Origin::caller();
        let misuse = |reason| Err(Error::misuse("embedding", types(&[self, ids]), origin.clone(), reason));
        if !ids.dtype().is_integer() {
            return misuse(format!("ids are {}, not of an integer dtype", ids.dtype()));
        }
        match self.shape().first() {
            None => return misuse(String::from("a table has rank 1 or more, not 0")),
            Some(0) if ids.shape().elements() > 0 => return misuse(String::from("the table has no rows")),
            Some(0) => {
                let shape = ids.shape().iter().chain(&self.shape()[1..]).copied().collect();
                return record(Opcode::Reshape, &[self], Attrs::Reshape(shape), origin);
            }
            Some(&rows) => check_range("embedding", &[self, ids], ("id", ids), 0..rows as i128, &origin)?,
        }
        gather_along(self, &[0], slice::from_ref(ids), 0)
    }
}

/// The slices of `tensor` at indices along `dimensions` of it, whose own dimensions stand from `place` on.
#[track_caller]
pub(super) fn gather_along(tensor: &Tensor, dimensions: &[usize], indices: &[Tensor], place: usize) -> Result<Tensor> {
    let (rank, batch) = (tensor.rank(), indices[0].rank());
    let starts = match indices {
        [index] => index.clone(),
        several => {
            let column: Shape = indices[0].shape().iter().copied().chain([1]).collect();
            let mut columns = SmallVec::<[Tensor; 4]>::new();
            for index in several {
                columns.push(index.reshape(column.clone())?);
            }
            Tensor::concatenate(&columns.iter().collect::<SmallVec<[&Tensor; 4]>>(), -1)?
        }
    };
    let chosen: Dims = dimensions.iter().map(|&dimension| dimension as u32).collect();
    let slice_size = |(&extent, at): (&usize, u32)| if chosen.contains(&at) { extent.min(1) } else { extent } as i64;
    let dims = GatherDims {
        offset_dims: (0..rank - chosen.len() + batch)
            .filter(|at| !(place..place + batch).contains(at))
            .map(|at| at as u32)
            .collect(),
        collapsed_slice_dims: chosen.clone(),
        index_vector_dim: batch as u32,
        slice_sizes: tensor.shape().iter().zip(0..).map(slice_size).collect(),
        start_index_map: chosen,
        ..GatherDims::default()
    };
    tensor.gather(&starts, dims)
}
