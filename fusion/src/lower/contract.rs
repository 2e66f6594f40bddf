//! Dots.

use smallvec::SmallVec;
use systole_kernels::program::{Instr, Reg, Vary};

use super::Lowering;
use crate::ir::DotDims;
use crate::legality::free_dims;

impl Lowering<'_> {
    /// The one dot of a group. Its operands' dimensions lie along the result's axes or along contracted ones, which
    /// are numbered from the domain's rank on.
    pub(super) fn dot(&mut self, member: usize, node: usize, dims: &DotDims) -> Reg {
        let accesses = self.accesses;
        let result = &self.space.placed[member].result;
        let batch = dims.lhs_batching.len();
        let [left, right] = [0, 1].map(|i| self.trace.ty(self.trace.nodes[node].operands[i]).shape.len());
        let free_left: SmallVec<[u32; 4]> = free_dims(left, &dims.lhs_batching, &dims.lhs_contracting).collect();
        let free_right: SmallVec<[u32; 4]> = free_dims(right, &dims.rhs_batching, &dims.rhs_contracting).collect();
        let contracted = self.contracted(node, dims);

        let axis_of = |batching: &[u32], free: &[u32], contracting: &[u32], first_free: usize, dim: u8| {
            let at = |list: &[u32]| list.iter().position(|&listed| listed == u32::from(dim));
            if let Some(i) = at(batching) {
                result[i]
            } else if let Some(i) = at(free) {
                result[first_free + i]
            } else {
                contracted[at(contracting).expect("a dimension is batching, contracting or free")]
            }
        };
        let paths = accesses.paths(node);
        let lhs =
            self.access(&paths[0], |dim| axis_of(&dims.lhs_batching, &free_left, &dims.lhs_contracting, batch, dim));
        let first_right = batch + free_left.len();
        let rhs = self
            .access(&paths[1], |dim| axis_of(&dims.rhs_batching, &free_right, &dims.rhs_contracting, first_right, dim));
        let dst = self.reg(self.trace.nodes[node].ty.dtype, Vary::BOTH);
        self.body.push(Instr::Dot { dst, lhs, rhs, precision: dims.precision, mxu: None });
        dst
    }

    /// The axis of each contracted dimension; none for extent 1.
    fn contracted(&self, node: usize, dims: &DotDims) -> SmallVec<[Option<u8>; 4]> {
        let shape = &self.trace.ty(self.trace.nodes[node].operands[0]).shape;
        let mut next = self.space.domain.rank() as u8;
        let number = |&dim: &u32| {
            (shape[dim as usize] != systole_kernels::program::Extent::ONE).then(|| {
                next += 1;
                next - 1
            })
        };
        dims.lhs_contracting.iter().map(number).collect()
    }
}
