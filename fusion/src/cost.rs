//! Should these nodes be one program?
//!
//! Plans know no extents, so profit is weighed in *nominal* bytes: every extent that is a parameter counts as
//! [`NOMINAL_EXTENT`]. That ranks a matrix above a vector above a number, which is all that the decisions need. This
//! file has every number that can be tuned; nothing else in planning has any.

use systole_kernels::program::{BufferType, Extent, LaneOp};

use crate::canonical::{SymbolicAttrs, SymbolicTrace};
use crate::ir::{OpClass, Opcode};
use crate::legality::{Coverage, Space};

/// What a parameter extent counts for.
pub const NOMINAL_EXTENT: u64 = 64;
/// Submitting one more program costs about as much as moving this many bytes.
pub const LAUNCH_BYTES: u64 = 8 << 10;
/// Points of the domain that one tile computes: a value that spans less of it is computed once per tile.
pub const TILE_POINTS: u64 = 8 << 10;
/// An element of a correctly rounded function costs as much as moving this many bytes.
const TRANSCENDENTAL_BYTES: u64 = 16;
/// From this much [work](LaneOp::work) on a function counts as one of them.
const TRANSCENDENTAL_WORK: usize = 8;
/// An element of anything else.
const LANE_BYTES: u64 = 1;
/// Beyond this products of nominal extents no longer grow.
const MOST: u64 = 1 << 40;

/// What one program instead of two saves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Gain {
    /// Nominal bytes no longer written and read.
    pub bytes: u64,
    /// Launches saved.
    pub launches: u64,
    /// Nominal bytes' worth of work done again for every tile.
    pub repeated: u64,
}

impl Gain {
    /// Whether it pays.
    pub fn pays(self) -> bool {
        self.bytes + self.launches * LAUNCH_BYTES > self.repeated
    }
}

/// Nominal bytes of a value.
pub fn nominal_bytes(ty: &BufferType) -> u64 {
    nominal_points(&ty.shape).saturating_mul(ty.dtype.size() as u64)
}

/// Nominal number of points.
pub fn nominal_points(extents: &[Extent]) -> u64 {
    extents.iter().fold(1, |points: u64, &extent| {
        let extent = match extent {
            Extent::Fixed(value) => value.unsigned_abs(),
            Extent::Param(_) => NOMINAL_EXTENT,
        };
        points.saturating_mul(extent).min(MOST)
    })
}

/// Work that the members which do not span the space do again in each tile but the first.
pub(crate) fn repeated_work(trace: &SymbolicTrace, members: &[u32], space: &Space) -> u64 {
    let tiles = nominal_points(&space.axes) / TILE_POINTS;
    let partial = members.iter().zip(&space.placed).filter(|(_, placed)| placed.coverage == Coverage::Partial);
    partial
        .map(|(&node, _)| {
            let node = &trace.nodes[node as usize];
            nominal_points(&node.ty.shape).saturating_mul(lane_cost(node.op)).saturating_mul(tiles)
        })
        .fold(0, u64::saturating_add)
}

/// Whether these members would be one program that threads can hardly share: a reduction along the columns of a dot
/// wants whole rows in one unit of work, and without batches only rows are left to share out, of which inference has
/// few. What the reduction would save is a pass over the dot's result, little beside the dot.
pub(crate) fn serializes(trace: &SymbolicTrace, members: &[u32]) -> bool {
    let nodes = || members.iter().map(|&node| &trace.nodes[node as usize]);
    let unbatched = |attrs: &SymbolicAttrs| matches!(attrs, SymbolicAttrs::Dot(dims) if dims.lhs_batching.is_empty());
    nodes().any(|node| unbatched(&node.attrs)) && nodes().any(|node| node.op.class() == OpClass::Reduce)
}

/// What an element of an op costs, in bytes of memory traffic.
fn lane_cost(op: Opcode) -> u64 {
    let work = op.info().lane.map_or(1, LaneOp::work);
    if work < TRANSCENDENTAL_WORK { LANE_BYTES } else { TRANSCENDENTAL_BYTES }
}
