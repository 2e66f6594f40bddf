//! From a legal group's axes to the domain of its program: which axes are a batch, which the tile's rows and columns.
//!
//! A dot says it itself (batch, left free, right free dimensions), a reduction says half of it. What is left to choose
//! affects speed only: the more axes are flattened into the columns, the longer the vector loops; but axes are
//! flattened together only where every access that has one has both, adjacent and whole, so that a register's
//! variation is told exactly and a flattened run is one run of memory.

use smallvec::SmallVec;
use systole_kernels::program::{Domain, Extent, ReduceAlong};

use super::{Accesses, Coverage, Map, Placed, Refusal, Space, analyse, dot_dims, is_overlay};
use crate::access::{Role, Root};
use crate::canonical::SymbolicTrace;
use crate::ir::{NodeId, Opcode};

/// The index space of a group, with every value's place in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupSpace {
    /// The index space.
    pub domain: Domain,
    /// Direction of the reductions, where there are any.
    pub reduce: Option<ReduceAlong>,
    /// Contracted axes of the dot, where there is one.
    pub contract: SmallVec<[Extent; 2]>,
    /// Per member, in axes of the domain.
    pub(crate) placed: SmallVec<[Placed; 8]>,
    /// The first of some axes of extent 1, for placements and iotas along dimensions that have none: as many as one
    /// placement has such dimensions, since no two dimensions lie along one axis.
    pub(crate) unit: Option<u8>,
}

impl GroupSpace {
    /// For each dimension of the result of member number `member` the axis of the domain that it lies along; `None`
    /// for extent 1.
    pub fn map(&self, member: usize) -> &[Option<u8>] {
        &self.placed[member].result
    }

    /// Whether the result of member number `member` has one element per point of the domain.
    pub fn is_full(&self, member: usize) -> bool {
        self.placed[member].coverage == Coverage::Full
    }
}

/// Whether these nodes of a trace may be one program, and over what.
///
/// Nodes that are views and constants are folded and need not be named. The members that the answer numbers are the
/// others, in program order.
///
/// # Errors
/// The reason why not.
pub fn group_space(trace: &SymbolicTrace, nodes: &[NodeId]) -> Result<GroupSpace, Refusal> {
    let accesses = Accesses::of(trace, true);
    let mut members: Vec<u32> =
        nodes.iter().map(|node| node.0).filter(|&node| accesses.role(node as usize) == Role::Member).collect();
    members.sort_unstable();
    members.dedup();
    let escapes = |node: u32| {
        accesses.is_pinned(node as usize)
            || accesses.users(node as usize).iter().any(|user| members.binary_search(user).is_err())
    };
    analyse(trace, &accesses, &members, escapes).map(|space| space.layout(trace, &accesses, &members))
}

impl Space {
    /// The domain, and everything else renumbered to it.
    pub(crate) fn layout(&self, trace: &SymbolicTrace, accesses: &Accesses, members: &[u32]) -> GroupSpace {
        let traversals = Traversals::of(self, trace, accesses, members);
        let [outer, rows, cols] = self.roles(trace, members, &traversals);
        let units = self.units(trace, accesses, members);

        let mut numbers: SmallVec<[u8; 8]> = SmallVec::from_elem(0, self.axes.len());
        for (number, &axis) in outer.iter().enumerate() {
            numbers[usize::from(axis)] = number as u8;
        }
        for (number, &axis) in rows.iter().chain(&cols).enumerate() {
            numbers[usize::from(axis)] = (outer.len() + units + number) as u8;
        }
        let extents = |axes: &[u8]| axes.iter().map(|&axis| self.axes[usize::from(axis)]).collect();
        let mut domain = Domain { outer: extents(&outer), rows: extents(&rows), cols: extents(&cols) };
        let unit = (units > 0).then_some(outer.len() as u8);
        domain.outer.extend(std::iter::repeat_n(Extent::ONE, units));
        let renumber =
            |map: &Map| -> Map { map.iter().map(|axis| axis.map(|axis| numbers[usize::from(axis)])).collect() };
        GroupSpace {
            domain,
            reduce: self.reduce.as_ref().map(|(along, _)| *along),
            contract: self.contract(trace, members),
            placed: self
                .placed
                .iter()
                .map(|placed| Placed {
                    input: renumber(&placed.input),
                    result: renumber(&placed.result),
                    coverage: placed.coverage,
                })
                .collect(),
            unit,
        }
    }

    /// Outer, rows, columns.
    fn roles(&self, trace: &SymbolicTrace, members: &[u32], traversals: &Traversals) -> [SmallVec<[u8; 4]>; 3] {
        let all = 0..self.axes.len() as u8;
        if let Some(dot) = self.dot {
            let node = &trace.nodes[members[dot] as usize];
            let dims = dot_dims(node);
            let batch = dims.lhs_batching.len();
            let right = trace.ty(node.operands[0]).shape.len() - dims.lhs_contracting.len();
            let result = &self.placed[dot].result;
            let part = |dims: &[Option<u8>]| dims.iter().flatten().copied().collect();
            return [part(&result[..batch]), part(&result[batch..right]), part(&result[right..])];
        }
        let Some((along, reduced)) = &self.reduce else {
            let mut rest: SmallVec<[u8; 4]> = all.collect();
            let cols = traversals.split_chain(&mut rest);
            let rows = traversals.split_chain(&mut rest);
            return [rest, rows, cols];
        };
        let mut kept: SmallVec<[u8; 4]> = all.filter(|axis| !reduced.contains(axis)).collect();
        let tile = traversals.split_chain(&mut kept);
        match along {
            ReduceAlong::Cols => [kept, tile, reduced.clone()],
            ReduceAlong::Rows => [kept, reduced.clone(), tile],
        }
    }

    fn contract(&self, trace: &SymbolicTrace, members: &[u32]) -> SmallVec<[Extent; 2]> {
        let Some(dot) = self.dot else {
            return SmallVec::new();
        };
        let node = &trace.nodes[members[dot] as usize];
        let shape = &trace.ty(node.operands[0]).shape;
        let extents = dot_dims(node).lhs_contracting.iter().map(|&dim| shape[dim as usize]);
        extents.filter(|&extent| extent != Extent::ONE).collect()
    }

    /// Axes of extent 1 that placements and iotas need.
    fn units(&self, trace: &SymbolicTrace, accesses: &Accesses, members: &[u32]) -> usize {
        let needs = self.placed.iter().zip(members).map(|(placed, &node)| {
            let symbolic = &trace.nodes[node as usize];
            let overlays = is_overlay(symbolic);
            let still = |path: &crate::access::Path| match path.root {
                Root::Iota(dimension) => {
                    let along = path.dims[usize::from(dimension)].dim;
                    along.is_none_or(|dim| placed.input[usize::from(dim)].is_none())
                }
                Root::Value(_) | Root::Splat(_) => false,
            };
            let placements = if overlays { placed.result.iter().filter(|axis| axis.is_none()).count() } else { 0 };
            placements.max(usize::from(accesses.paths(node as usize).iter().any(still)))
        });
        needs.max().unwrap_or(0)
    }
}

/// One axis where an access passes it.
#[derive(Clone, Copy)]
struct Passage {
    /// `None` where memory is skipped.
    axis: Option<u8>,
    /// From the first coordinate to the last, one by one.
    whole: bool,
    /// One by one.
    dense: bool,
}

/// The order in which each access passes the axes.
struct Traversals {
    sequences: Vec<SmallVec<[Passage; 4]>>,
    /// Axes that an overlay, a gather or an iota needs on their own.
    single: u64,
}

impl Traversals {
    fn of(space: &Space, trace: &SymbolicTrace, accesses: &Accesses, members: &[u32]) -> Self {
        let mut traversals = Traversals { sequences: Vec::new(), single: 0 };
        if space.dot.is_some() {
            return traversals;
        }
        for (placed, &node) in space.placed.iter().zip(members) {
            let symbolic = &trace.nodes[node as usize];
            let plain = |axis: Option<u8>| axis.map(|_| Passage { axis, whole: true, dense: true });
            traversals.sequences.push(placed.result.iter().filter_map(|&axis| plain(axis)).collect());
            let moves_data = symbolic.op == Opcode::Gather || is_overlay(symbolic);
            if moves_data {
                placed.result.iter().flatten().for_each(|axis| traversals.single |= 1 << axis);
                continue;
            }
            for path in accesses.paths(node as usize) {
                let axis_of = |dim: Option<u8>| placed.input.get(usize::from(dim?)).copied().flatten();
                match path.root {
                    Root::Splat(_) => {}
                    Root::Iota(dimension) => {
                        if let Some(axis) = axis_of(path.dims[usize::from(dimension)].dim) {
                            traversals.single |= 1 << axis;
                        }
                    }
                    Root::Value(value) => {
                        let extents = &trace.ty(value).shape;
                        let passages = path.dims.iter().zip(extents).filter(|(_, extent)| **extent != Extent::ONE);
                        traversals.sequences.push(
                            passages
                                .map(|(dim, &extent)| {
                                    let axis = axis_of(dim.dim);
                                    let dense = dim.step == Extent::ONE;
                                    let full = axis.is_some_and(|axis| space.axes[usize::from(axis)] == extent);
                                    Passage { axis, whole: dense && full && dim.start == Extent::ZERO, dense }
                                })
                                .collect(),
                        );
                    }
                }
            }
        }
        traversals
    }

    /// Takes the longest run of axes off the end of `axes` that can be flattened.
    fn split_chain(&self, axes: &mut SmallVec<[u8; 4]>) -> SmallVec<[u8; 4]> {
        let mut first = axes.len().saturating_sub(1);
        while first > 0 && self.chained(axes[first - 1], axes[first]) {
            first -= 1;
        }
        axes.drain(first..).collect()
    }

    fn chained(&self, a: u8, b: u8) -> bool {
        self.single & (1 << a | 1 << b) == 0
            && self.sequences.iter().all(|sequence| {
                let at = |axis: u8| sequence.iter().position(|passage| passage.axis == Some(axis));
                match (at(a), at(b)) {
                    (None, None) => true,
                    (Some(a), Some(b)) => b == a + 1 && sequence[a].dense && sequence[b].whole,
                    (Some(_), None) | (None, Some(_)) => false,
                }
            })
    }
}
