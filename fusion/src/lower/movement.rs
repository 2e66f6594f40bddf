//! Elements moved by more than a view: what is laid over something, and what is gathered.

use smallvec::SmallVec;
use systole_kernels::DType;
use systole_kernels::program::{
    Access, DimMap, Extent, IndexComponent, IndexSource, Instr, LaneOp, Low, Placement, Reg, Vary,
};

use super::{Lowering, unary};
use crate::ir::GatherDims;

impl Lowering<'_> {
    pub(super) fn pad(&mut self, member: usize, node: usize, low: &[Extent], interior: &[Extent]) -> Reg {
        let background = self.operand(member, node, 1);
        let placement = self.placement(member, |dim| (Low::At(low[dim]), interior[dim]));
        self.overlay(node, 0, background, placement)
    }

    /// Operands are laid one after another; what they are laid on first is covered everywhere, so it may be anything.
    pub(super) fn concatenate(&mut self, member: usize, node: usize, dimension: u32, offsets: &[Extent]) -> Reg {
        let axis = self.space.placed[member].result[dimension as usize].or(self.space.unit);
        let axis = axis.expect("a still placement has a unit axis");
        let dtype = self.trace.nodes[node].ty.dtype;
        let mut reg = match dtype {
            DType::I32 | DType::U32 | DType::I64 | DType::F16 | DType::BF16 | DType::F32 => self.iota(axis, dtype),
            DType::Bool => {
                let index = self.iota(axis, DType::I32);
                self.lane(LaneOp::Convert, unary(index), DType::Bool)
            }
        };
        for operand in 0..self.trace.nodes[node].operands.len() {
            let offset = operand.checked_sub(1).map_or(Extent::ZERO, |before| offsets[before]);
            let low = |dim: usize| Low::At(if dim == dimension as usize { offset } else { Extent::ZERO });
            let placement = self.placement(member, |dim| (low(dim), Extent::ZERO));
            reg = self.overlay(node, operand, reg, placement);
        }
        reg
    }

    /// The update laid over the operand. Where it fills a dimension its start is known.
    pub(super) fn dynamic_update_slice(&mut self, member: usize, node: usize) -> Reg {
        let background = self.operand(member, node, 0);
        let symbolic = &self.trace.nodes[node];
        let update = self.trace.ty(symbolic.operands[1]);
        let extents = update.shape.iter().zip(&symbolic.ty.shape).enumerate();
        let lows: SmallVec<[Low; 4]> = extents
            .map(|(dim, (&box_extent, &extent))| match box_extent == extent {
                true => Low::At(Extent::ZERO),
                false => Low::Clamped(self.operand(member, node, 2 + dim)),
            })
            .collect();
        let placement = self.placement(member, |dim| (lows[dim], Extent::ZERO));
        self.overlay(node, 1, background, placement)
    }

    /// A box of the operand at starts in registers. Where it fills a dimension its start is known.
    pub(super) fn dynamic_slice(&mut self, member: usize, node: usize) -> Reg {
        let symbolic = &self.trace.nodes[node];
        let operand = self.trace.ty(symbolic.operands[0]);
        let mut indices = SmallVec::new();
        for (dim, (&slice, &extent)) in symbolic.ty.shape.iter().zip(&operand.shape).enumerate() {
            if slice != extent {
                let index = IndexSource::Number(self.operand(member, node, 1 + dim));
                indices.push(IndexComponent { index, dim: dim as u8, slice });
            }
        }
        let axes = &self.space.placed[member].result;
        let access = Access {
            buffer: self.accesses.paths(node)[0].value().expect("a sliced operand is in a buffer").0 as u16,
            dims: axes.iter().map(|axis| axis.map_or_else(DimMap::fixed, DimMap::along)).collect(),
        };
        let vary = self.vary(axes.iter().flatten().copied());
        let dst = self.reg(symbolic.ty.dtype, vary);
        self.body.push(Instr::Gather { dst, access, indices });
        dst
    }

    fn placement(&self, member: usize, amounts: impl Fn(usize) -> (Low, Extent)) -> SmallVec<[Placement; 4]> {
        let mut unit = self.space.unit;
        // Each dimension without an axis takes a unit axis of its own.
        let mut next_unit = || {
            let axis = unit?;
            unit = Some(axis + 1);
            Some(axis)
        };
        let axes = self.space.placed[member].result.iter().enumerate();
        axes.map(|(dim, &axis)| {
            let (low, interior) = amounts(dim);
            let axis = axis.or_else(&mut next_unit).expect("a still placement has a unit axis");
            Placement { axis, low, interior }
        })
        .collect()
    }

    fn overlay(&mut self, node: usize, operand: usize, background: Reg, placement: SmallVec<[Placement; 4]>) -> Reg {
        let buffer = self.accesses.paths(node)[operand].value().expect("what is laid over is in a buffer").0 as u16;
        let dst = self.reg(self.trace.nodes[node].ty.dtype, Vary::BOTH);
        self.body.push(Instr::Overlay { dst, background, buffer, placement });
        dst
    }

    /// A gather. Along dimensions that the slice keeps, the offset within the slice is a dimension of the result; along
    /// batching dimensions the coordinate is a batch index; the rest comes from the start indices.
    pub(super) fn gather(&mut self, member: usize, node: usize, dims: &GatherDims, sizes: &[Extent]) -> Reg {
        let accesses = self.accesses;
        let result = &self.space.placed[member].result;
        let listed = |list: &[u32], dim: usize| list.iter().position(|&listed| listed as usize == dim);
        // Result dimensions that are not offsets belong to the start indices, in order.
        let batch: SmallVec<[Option<u8>; 4]> =
            (0..result.len()).filter(|&dim| listed(&dims.offset_dims, dim).is_none()).map(|dim| result[dim]).collect();
        let index_vector = dims.index_vector_dim as usize;
        let batch_of_index = |dim: usize| batch[dim - usize::from(dim > index_vector)];

        let [operand, indices] = [&accesses.paths(node)[0], &accesses.paths(node)[1]];
        let mut offsets = dims.offset_dims.iter();
        let coordinate = |dim: usize| {
            if let Some(i) = listed(&dims.operand_batching_dims, dim) {
                return batch_of_index(dims.start_indices_batching_dims[i] as usize);
            }
            if listed(&dims.collapsed_slice_dims, dim).is_some() {
                return None;
            }
            let offset = *offsets.next().expect("an offset for each dimension that is kept");
            result[offset as usize]
        };
        let axes: SmallVec<[Option<u8>; 4]> = (0..self.buffer_ty(operand).shape.len()).map(coordinate).collect();
        let access = Access {
            buffer: operand.value().expect("a gathered operand is in a buffer").0 as u16,
            dims: axes.iter().map(|axis| axis.map_or_else(DimMap::fixed, DimMap::along)).collect(),
        };
        let components = dims.start_index_map.iter().enumerate().map(|(component, &dim)| {
            let mut index = self.access(indices, |dim| {
                let dim = usize::from(dim);
                if dim == index_vector { None } else { batch_of_index(dim) }
            });
            // The component lies along the index vector, which nothing moves along.
            for (at, path) in index.dims.iter_mut().zip(&indices.dims) {
                if path.dim.map(usize::from) == Some(index_vector) && component > 0 {
                    *at = DimMap { axis: None, start: Extent::Fixed(component as i64), step: Extent::ONE };
                }
            }
            (index, dim, sizes[dim as usize])
        });
        let components: SmallVec<[(Access, u32, Extent); 1]> = components.collect();
        let moving = |access: &Access| access.dims.iter().filter_map(|dim| dim.axis).collect::<Vec<_>>();
        let mut moved = moving(&access);
        components.iter().for_each(|(index, ..)| moved.extend(moving(index)));
        let vary = self.vary(moved);
        let dst = self.reg(self.trace.nodes[node].ty.dtype, vary);
        let component = |(index, dim, slice): (Access, u32, Extent)| IndexComponent {
            index: IndexSource::Memory(index),
            dim: dim as u8,
            slice,
        };
        self.body.push(Instr::Gather { dst, access, indices: components.into_iter().map(component).collect() });
        dst
    }
}
