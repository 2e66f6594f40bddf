//! May these nodes be one program?
//!
//! `analyse` takes a candidate set and answers with the space that it computes over ([`GroupSpace`], once the axes have
//! their final order), or with a [`Refusal`].
//! It is pure, knows nothing of profit, and is the one authority: partitioning asks it about every join, and lowering
//! takes its answer as the program's index space.
//!
//! **How.** Every dimension (of extent other than 1) of every member's value is a variable. Ops equate variables:
//! elementwise ops those of operands and result, reductions the kept ones, views through the paths of
//! `access`. The classes of equal variables are the candidates for axes. One member, the *anchor*
//! (the dot, else the first reduction's operand, else the value with most dimensions), gives the axes; classes that
//! are not among its own are independent of it, so any axis of the same extent will do for them, and the choice prefers
//! the position that a value of the same shape has. What then still lies outside, or visits one axis twice, has no
//! place in this program.
//!
//! Extents are compared as the key sees them: two dimensions of one extent by coincidence in this launch are equal in
//! every launch of the plan.
//!
//! **Refused by principle**: more than one dot; computing the operand of a dot, gather, pad or concatenation in the
//! same program (it would be recomputed for each tile that reads it); reductions along different axes; keeping a value
//! that the domain visits more than once.

mod layout;

use std::fmt;

use smallvec::SmallVec;
use systole_kernels::program::{Extent, ReduceAlong};

use crate::access::{Accesses, Path, Reads, reads};
use crate::canonical::{SymbolicAttrs, SymbolicNode, SymbolicTrace};
use crate::ir::{DotDims, OpClass, Opcode};

pub use layout::{GroupSpace, group_space};

/// Most members of a group.
pub const MAX_NODES: usize = 64;
/// Most buffers of a group.
pub const MAX_BUFFERS: usize = 24;

/// Why nodes are not one program.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Refusal {
    /// More than [`MAX_NODES`].
    TooManyNodes,
    /// More than [`MAX_BUFFERS`].
    TooManyBuffers,
    /// Two dots.
    TwoDots,
    /// The operand of this op would be computed in the same program.
    OperandInside(Opcode),
    /// A slice of a value of the same program.
    SliceInside,
    /// One axis would be visited by two dimensions of a value: it is used transposed against itself.
    TwoMaps,
    /// A value has a dimension that the anchor has not.
    NoCommonSpace,
    /// Reductions along different axes, or in different directions.
    ReduceAxes,
    /// A reduction of a value that does not span the whole space.
    ReducePartial,
    /// A reduction on a dot along other axes than all of its columns.
    ReduceDot,
    /// A pad or concatenation that does not span the whole space.
    OverlayPartial,
    /// A value is needed outside that the space visits more than once.
    Escapes,
    /// The consumer depends on the producer by way of another launch too.
    Cycle,
    /// Legal, without profit.
    Unprofitable,
    /// Fusion is switched off.
    Off,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::TooManyNodes => write!(f, "a group has at most {MAX_NODES} nodes"),
            Refusal::TooManyBuffers => write!(f, "a group has at most {MAX_BUFFERS} buffers"),
            Refusal::TwoDots => f.write_str("a group has at most one dot"),
            Refusal::OperandInside(op) => write!(f, "{op} reads its operand from memory"),
            Refusal::SliceInside => f.write_str("a slice reads its operand from memory"),
            Refusal::TwoMaps => f.write_str("two dimensions of a value would be one axis"),
            Refusal::NoCommonSpace => f.write_str("the values have no common index space"),
            Refusal::ReduceAxes => f.write_str("reductions along different axes"),
            Refusal::ReducePartial => f.write_str("the reduced value does not span the index space"),
            Refusal::ReduceDot => f.write_str("a dot is reduced along all of its columns or not at all"),
            Refusal::OverlayPartial => f.write_str("what is padded or concatenated does not span the index space"),
            Refusal::Escapes => f.write_str("a value needed elsewhere would be computed repeatedly"),
            Refusal::Cycle => f.write_str("another launch lies between"),
            Refusal::Unprofitable => f.write_str("no profit"),
            Refusal::Off => f.write_str("fusion is off"),
        }
    }
}

/// How much of the space a value spans.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Coverage {
    /// All axes.
    Full,
    /// All axes that are not reduced.
    Kept,
    /// Others: computed once per tile, and never stored.
    Partial,
}

/// Per dimension of a value its axis; `None` for extent 1.
pub(crate) type Map = SmallVec<[Option<u8>; 4]>;

/// Where a member's values lie in the space.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Placed {
    /// Dimensions of the operands; those of the result but for a reduction.
    pub(crate) input: Map,
    /// Dimensions of the result.
    pub(crate) result: Map,
    /// What the result spans.
    pub(crate) coverage: Coverage,
}

/// The space of a legal group. Axes are numbered by the anchor's dimensions here; [`Space::layout`] gives the final
/// order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Space {
    pub(crate) axes: SmallVec<[Extent; 4]>,
    /// Per member, in their order.
    pub(crate) placed: SmallVec<[Placed; 8]>,
    /// Direction, and the reduced axes in the operand's order.
    pub(crate) reduce: Option<(ReduceAlong, SmallVec<[u8; 4]>)>,
    /// The member that is a dot.
    pub(crate) dot: Option<usize>,
}

/// A variable: no dimension of extent 1 has one.
type Var = u16;
const NO_VAR: Var = Var::MAX;
type Vars = SmallVec<[Var; 4]>;

/// Whether `members` (ascending) may be one program. `escapes(node)` says that a member's value is needed outside.
pub(crate) fn analyse(
    trace: &SymbolicTrace,
    accesses: &Accesses,
    members: &[u32],
    escapes: impl Fn(u32) -> bool,
) -> Result<Space, Refusal> {
    if members.len() > MAX_NODES {
        return Err(Refusal::TooManyNodes);
    }
    let candidate = Candidate { trace, accesses, members };
    // A lone concatenation may have any number of operands.
    if members.len() > 1 {
        candidate.count_buffers(&escapes)?;
    }
    let mut vars = Variables::default();
    let mut dims: SmallVec<[(Vars, Vars); 8]> = SmallVec::new();
    for &node in members {
        let pair = candidate.relate(node, &dims, &mut vars)?;
        dims.push(pair);
    }
    let dot = candidate.find_dot()?;
    let anchor = candidate.anchor(&dims, dot);
    candidate.adopt(&dims, anchor, &mut vars);

    let axes: Vars = anchor.vars(&dims).iter().filter(|&&var| var != NO_VAR).map(|&var| vars.find(var)).collect();
    let mut space = Space {
        axes: axes.iter().map(|&axis| vars.extents[usize::from(axis)]).collect(),
        placed: SmallVec::new(),
        reduce: None,
        dot,
    };
    for (input, result) in &dims {
        let mut place = |dims: &Vars| vars.place(dims, &axes);
        let input_map = place(input)?;
        let result = if input == result { input_map.clone() } else { place(result)? };
        space.placed.push(Placed { input: input_map, result, coverage: Coverage::Partial });
    }
    candidate.check_reduces(&mut space)?;
    candidate.check_coverage(&mut space, &escapes)?;
    Ok(space)
}

/// Whether the reduction with these dimensions runs along columns: the minor-most dimension is among them.
pub(crate) fn reduce_direction(operand_rank: usize, dims: &[u32]) -> ReduceAlong {
    let minor_most = operand_rank.checked_sub(1).is_some_and(|last| dims.contains(&(last as u32)));
    if minor_most { ReduceAlong::Cols } else { ReduceAlong::Rows }
}

/// The dimensions of a dot operand of that rank that are neither batching nor contracting, in order.
pub(crate) fn free_dims<'a>(
    rank: usize,
    batching: &'a [u32],
    contracting: &'a [u32],
) -> impl Iterator<Item = u32> + 'a {
    (0..rank as u32).filter(|dim| !batching.contains(dim) && !contracting.contains(dim))
}

/// The value whose dimensions are the axes.
#[derive(Clone, Copy)]
enum Anchor {
    Result(usize),
    ReduceOperand(usize),
}

impl Anchor {
    fn vars(self, dims: &[(Vars, Vars)]) -> &Vars {
        match self {
            Anchor::Result(member) => &dims[member].1,
            Anchor::ReduceOperand(member) => &dims[member].0,
        }
    }
}

struct Candidate<'a> {
    trace: &'a SymbolicTrace,
    accesses: &'a Accesses,
    members: &'a [u32],
}

impl<'a> Candidate<'a> {
    fn node(&self, member: usize) -> &'a SymbolicNode {
        &self.trace.nodes[self.members[member] as usize]
    }

    /// The member whose result a path reads.
    fn inside(&self, path: &Path) -> Option<usize> {
        let node = self.trace.producer(path.value()?)? as u32;
        self.members.binary_search(&node).ok()
    }

    fn count_buffers(&self, escapes: &impl Fn(u32) -> bool) -> Result<(), Refusal> {
        let mut inputs: SmallVec<[u32; MAX_BUFFERS]> = SmallVec::new();
        let outputs = self.members.iter().filter(|&&node| escapes(node)).count();
        for &node in self.members {
            for path in self.accesses.paths(node as usize) {
                if let Some(value) = path.value()
                    && self.inside(path).is_none()
                    && !inputs.contains(&value.0)
                {
                    inputs.push(value.0);
                    if inputs.len() + outputs > MAX_BUFFERS {
                        return Err(Refusal::TooManyBuffers);
                    }
                }
            }
        }
        if outputs > MAX_BUFFERS { Err(Refusal::TooManyBuffers) } else { Ok(()) }
    }

    fn find_dot(&self) -> Result<Option<usize>, Refusal> {
        let mut dots = (0..self.members.len()).filter(|&member| self.node(member).op.class() == OpClass::Contract);
        let dot = dots.next();
        if dots.next().is_some() { Err(Refusal::TwoDots) } else { Ok(dot) }
    }

    /// Variables of a member's operand and result, equated with those of the members it reads.
    fn relate(&self, node: u32, dims: &[(Vars, Vars)], vars: &mut Variables) -> Result<(Vars, Vars), Refusal> {
        let symbolic = &self.trace.nodes[node as usize];
        let paths = self.accesses.paths(node as usize);
        let refused = |(operand, path): (usize, &Path)| {
            reads(symbolic, operand) != Reads::Register && self.inside(path).is_some()
        };
        if paths.iter().enumerate().any(refused) {
            return Err(Refusal::OperandInside(symbolic.op));
        }
        let Some(reduced) = symbolic.reduced() else {
            let result = vars.fresh(&symbolic.ty.shape);
            for path in paths {
                self.equate(path, &result, dims, vars)?;
            }
            return Ok((result.clone(), result));
        };
        let operand = self.trace.ty(symbolic.operands[0]);
        let input = vars.fresh(&operand.shape);
        // Operands, then as many initial values.
        for path in &paths[..paths.len() / 2] {
            self.equate(path, &input, dims, vars)?;
        }
        let kept = (0..input.len()).filter(|&dim| !reduced.contains(&(dim as u32)));
        let result = kept.map(|dim| input[dim]).collect();
        Ok((input, result))
    }

    /// Equates the dimensions of the member that a path reads with `at`, the dimensions at the path's other end.
    fn equate(&self, path: &Path, at: &Vars, dims: &[(Vars, Vars)], vars: &mut Variables) -> Result<(), Refusal> {
        let Some(member) = self.inside(path) else {
            return Ok(());
        };
        if path.is_sliced() {
            return Err(Refusal::SliceInside);
        }
        for (&var, dim) in dims[member].1.iter().zip(&path.dims) {
            if var != NO_VAR {
                let dim = dim.dim.expect("a dimension that is not 1 is read along a dimension of the operand");
                vars.union(var, at[usize::from(dim)]);
            }
        }
        Ok(())
    }

    fn anchor(&self, dims: &[(Vars, Vars)], dot: Option<usize>) -> Anchor {
        if let Some(dot) = dot {
            return Anchor::Result(dot);
        }
        let is_reduce = |&member: &usize| self.node(member).op.class() == OpClass::Reduce;
        if let Some(reduce) = (0..self.members.len()).find(is_reduce) {
            return Anchor::ReduceOperand(reduce);
        }
        let rank = |member: usize| dims[member].1.iter().filter(|&&var| var != NO_VAR).count();
        // The first of the largest, hence the reversal.
        Anchor::Result((0..self.members.len()).rev().max_by_key(|&member| rank(member)).unwrap_or(0))
    }

    /// Gives classes that the anchor does not have one of the anchor's, where extents allow.
    fn adopt(&self, dims: &[(Vars, Vars)], anchor: Anchor, vars: &mut Variables) {
        let target = anchor.vars(dims).clone();
        for (member, (input, result)) in dims.iter().enumerate() {
            let is_reduce = self.node(member).op.class() == OpClass::Reduce;
            vars.adopt(if is_reduce { input } else { result }, &target);
        }
    }

    fn check_reduces(&self, space: &mut Space) -> Result<(), Refusal> {
        let dot_cols = space.dot.map(|dot| self.dot_cols(dot, &space.placed[dot].result));
        for member in 0..self.members.len() {
            let node = self.node(member);
            let Some(dims) = node.reduced() else {
                continue;
            };
            let input = &space.placed[member].input;
            let mut in_order = dims.clone();
            in_order.sort_unstable();
            let reduced: SmallVec<[u8; 4]> = in_order.iter().filter_map(|&dim| input[dim as usize]).collect();
            let found = (reduce_direction(input.len(), dims), reduced);
            if input.iter().flatten().count() != space.axes.len() {
                return Err(Refusal::ReducePartial);
            }
            if let Some(cols) = &dot_cols
                && (found.0 != ReduceAlong::Cols || found.1 != *cols)
            {
                return Err(Refusal::ReduceDot);
            }
            match &space.reduce {
                Some(known) if *known != found => return Err(Refusal::ReduceAxes),
                Some(_) => {}
                None => space.reduce = Some(found),
            }
        }
        Ok(())
    }

    /// The axes of the right operand's free dimensions.
    fn dot_cols(&self, dot: usize, result: &Map) -> SmallVec<[u8; 4]> {
        let node = self.node(dot);
        let (lhs, dims) = (self.trace.ty(node.operands[0]), dot_dims(node));
        let before = lhs.shape.len() - dims.lhs_contracting.len();
        result[before..].iter().flatten().copied().collect()
    }

    fn check_coverage(&self, space: &mut Space, escapes: &impl Fn(u32) -> bool) -> Result<(), Refusal> {
        let bits = |axes: &mut dyn Iterator<Item = u8>| axes.fold(0u64, |bits, axis| bits | 1 << axis);
        let full = bits(&mut (0..space.axes.len() as u8));
        let kept = space.reduce.as_ref().map(|(_, reduced)| full & !bits(&mut reduced.iter().copied()));
        for (placed, &node) in space.placed.iter_mut().zip(self.members) {
            let spanned = bits(&mut placed.result.iter().flatten().copied());
            placed.coverage = if spanned == full {
                Coverage::Full
            } else if Some(spanned) == kept {
                Coverage::Kept
            } else {
                Coverage::Partial
            };
            if placed.coverage != Coverage::Full && is_overlay(&self.trace.nodes[node as usize]) {
                return Err(Refusal::OverlayPartial);
            }
            if placed.coverage == Coverage::Partial && escapes(node) {
                return Err(Refusal::Escapes);
            }
        }
        Ok(())
    }
}

/// Whether a node lays buffers over each other.
pub(crate) fn is_overlay(node: &SymbolicNode) -> bool {
    node.op.class() == OpClass::Overlay
}

/// A dot's dimension numbers.
pub(crate) fn dot_dims(node: &SymbolicNode) -> &DotDims {
    let SymbolicAttrs::Dot(dims) = &node.attrs else { unreachable!("dot_general has dot dimensions") };
    dims
}

/// Classes of equal dimensions.
#[derive(Default)]
struct Variables {
    parents: SmallVec<[Var; 64]>,
    extents: SmallVec<[Extent; 64]>,
}

impl Variables {
    fn fresh(&mut self, shape: &[Extent]) -> Vars {
        let mut vars = Vars::new();
        for &extent in shape {
            if extent == Extent::ONE {
                vars.push(NO_VAR);
            } else {
                let var = self.parents.len() as Var;
                self.parents.push(var);
                self.extents.push(extent);
                vars.push(var);
            }
        }
        vars
    }

    fn find(&mut self, mut var: Var) -> Var {
        while self.parents[usize::from(var)] != var {
            let grandparent = self.parents[usize::from(self.parents[usize::from(var)])];
            self.parents[usize::from(var)] = grandparent;
            var = grandparent;
        }
        var
    }

    fn union(&mut self, a: Var, b: Var) {
        let (a, b) = (self.find(a), self.find(b));
        debug_assert_eq!(self.extents[usize::from(a)], self.extents[usize::from(b)], "an axis has one extent");
        self.parents[usize::from(a)] = b;
    }

    /// The axis of each dimension.
    fn place(&mut self, dims: &Vars, axes: &Vars) -> Result<Map, Refusal> {
        let mut map = Map::new();
        for &var in dims {
            if var == NO_VAR {
                map.push(None);
                continue;
            }
            let class = self.find(var);
            let axis = axes.iter().position(|&axis| axis == class).ok_or(Refusal::NoCommonSpace)?;
            let axis = Some(axis as u8);
            if map.contains(&axis) {
                return Err(Refusal::TwoMaps);
            }
            map.push(axis);
        }
        Ok(map)
    }

    /// Merges the foreign classes among `dims` with classes of `target` that `dims` does not have yet: those at the
    /// same position if the shapes are equal, else, from the right, the rightmost that keeps the order, else any.
    fn adopt(&mut self, dims: &Vars, target: &Vars) {
        let axes: Vars = target.iter().map(|&var| if var == NO_VAR { NO_VAR } else { self.find(var) }).collect();
        let mut own: Vars = dims.iter().map(|&var| if var == NO_VAR { NO_VAR } else { self.find(var) }).collect();
        let is_foreign = |class: Var| class != NO_VAR && !axes.contains(&class);
        if !own.iter().any(|&class| is_foreign(class)) {
            return;
        }
        let extent = |vars: &Variables, class: Var| (class != NO_VAR).then(|| vars.extents[usize::from(class)]);
        let same_shape =
            own.len() == axes.len() && own.iter().zip(&axes).all(|(&a, &b)| extent(self, a) == extent(self, b));
        let mut limit = axes.len();
        for dim in (0..own.len()).rev() {
            let class = own[dim];
            if class == NO_VAR {
                continue;
            }
            if !is_foreign(class) {
                limit = axes.iter().position(|&axis| axis == class).unwrap_or(limit);
                continue;
            }
            let fits = |&at: &usize| {
                axes[at] != NO_VAR && extent(self, axes[at]) == extent(self, class) && !own.contains(&axes[at])
            };
            let choice = Some(dim)
                .filter(|at| same_shape && fits(at))
                .or_else(|| (0..limit).rev().find(fits))
                .or_else(|| (0..axes.len()).rev().find(fits));
            if let Some(at) = choice {
                self.parents[usize::from(class)] = axes[at];
                for other in &mut own {
                    if *other == class {
                        *other = axes[at];
                    }
                }
                limit = at;
            }
        }
    }
}
