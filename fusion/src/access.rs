//! Which nodes compute, which only rename, and through which views every operand is read.
//!
//! One pass over a trace, before any grouping, gives each node a [`Role`]. Constants, iotas and views (broadcasts,
//! transposes, slices, reshapes that only add or drop extents of 1) are *folded*: replicated into every consumer, where
//! they are an affine access or nothing at all. Other reshapes are aliases of a buffer. A view becomes a *member* of a
//! group, that is, a copy, only where somebody needs its buffer: an output of the trace, an alias, an operand that is
//! laid over something (pad, concatenate), a gathered operand, a second slice on one path.
//!
//! For each member the [`Path`]s lead from its operands back to the values that are really read, with all views
//! composed. They do not depend on how members are grouped, so legality and lowering share them. Deciding per group
//! whether to fold was tried on paper and given up: the answer changes as groups grow, and a fold costs nothing.

use smallvec::SmallVec;
use systole_kernels::program::{BufferType, Extent};

use crate::canonical::{SymbolicAttrs, SymbolicNode, SymbolicTrace};
use crate::ir::{OpClass, Opcode, ValueId};

/// What becomes of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// No output depends on it.
    Dead,
    /// Folded into its consumers.
    Folded,
    /// Its operand's buffer under another shape.
    Alias,
    /// Computed, in exactly one group.
    Member,
}

/// Where a path ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Root {
    /// At a value: an input, an alias, or a member's result.
    Value(ValueId),
    /// At a constant: launch scalar.
    Splat(u16),
    /// At an iota that counts along this dimension of its own.
    Iota(u8),
}

/// The coordinate along one dimension of a root: `start + step · (index along dimension dim of the operand)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PathDim {
    pub(crate) dim: Option<u8>,
    pub(crate) start: Extent,
    pub(crate) step: Extent,
}

impl PathDim {
    const FIXED: PathDim = PathDim { dim: None, start: Extent::ZERO, step: Extent::ONE };

    fn along(dim: usize) -> Self {
        PathDim { dim: Some(dim as u8), ..PathDim::FIXED }
    }

    fn is_plain(self) -> bool {
        self.start == Extent::ZERO && self.step == Extent::ONE
    }
}

/// How an operand is read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Path {
    pub(crate) root: Root,
    /// Per dimension of the root.
    pub(crate) dims: SmallVec<[PathDim; 4]>,
    /// Nodes on the way, from the operand to the root; the source too, where the root is one.
    pub(crate) via: SmallVec<[u32; 2]>,
}

impl Path {
    /// Whether a slice lies on it.
    pub(crate) fn is_sliced(&self) -> bool {
        !self.dims.iter().all(|dim| dim.is_plain())
    }

    /// The value that is read from a buffer, or from a register of the group.
    pub(crate) fn value(&self) -> Option<ValueId> {
        match self.root {
            Root::Value(value) => Some(value),
            Root::Splat(_) | Root::Iota(_) => None,
        }
    }
}

/// Roles, paths and uses of a trace's nodes.
#[derive(Clone, Debug)]
pub(crate) struct Accesses {
    roles: Vec<Role>,
    paths: Vec<SmallVec<[Path; 2]>>,
    users: Vec<SmallVec<[u32; 2]>>,
    pinned: Vec<bool>,
}

impl Accesses {
    /// Studies a trace. Without `fuse` nothing is folded.
    pub(crate) fn of(trace: &SymbolicTrace, fuse: bool) -> Self {
        let demand = Demand::of(trace, fuse);
        let roles: Vec<Role> = (0..trace.nodes.len()).map(|node| demand.role(node)).collect();
        let walker = Walker { trace, roles: &roles, kinds: &demand.kinds, fuse };
        let mut paths: Vec<SmallVec<[Path; 2]>> = Vec::with_capacity(roles.len());
        for (node, role) in roles.iter().enumerate() {
            paths.push(match role {
                Role::Member => walker.operand_paths(node),
                Role::Dead | Role::Folded | Role::Alias => SmallVec::new(),
            });
        }
        let mut users: Vec<SmallVec<[u32; 2]>> = vec![SmallVec::new(); roles.len()];
        let mut pinned = vec![false; roles.len()];
        for (node, paths) in paths.iter().enumerate() {
            for root in paths.iter().filter_map(|path| trace.producer(path.value()?)) {
                if users[root].last() != Some(&(node as u32)) {
                    users[root].push(node as u32);
                }
            }
        }
        let aliases = roles.iter().zip(&trace.nodes).filter(|(role, _)| **role == Role::Alias);
        let held = aliases.map(|(_, node)| node.operands[0]).chain(trace.outputs.iter().copied());
        for root in held.filter_map(|value| trace.producer(value)) {
            pinned[root] = true;
        }
        Accesses { roles, paths, users, pinned }
    }

    pub(crate) fn role(&self, node: usize) -> Role {
        self.roles[node]
    }

    /// How a member's operands are read. A member that is a view or a source has one path: to what it copies, in terms
    /// of its own dimensions.
    pub(crate) fn paths(&self, node: usize) -> &[Path] {
        &self.paths[node]
    }

    /// The members that read a member's result.
    pub(crate) fn users(&self, node: usize) -> &[u32] {
        &self.users[node]
    }

    /// Whether a member's buffer is an output of the trace or has an alias.
    pub(crate) fn is_pinned(&self, node: usize) -> bool {
        self.pinned[node]
    }
}

/// How a member reads an operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reads {
    /// In a register: computed in the same program, or loaded through any views.
    Register,
    /// In memory, through views: what a dot packs, what a gather's start indices are.
    Memory,
    /// In memory, as it lies there: what is laid over something, what is gathered from.
    Whole,
}

/// How `node` reads operand number `operand`.
pub(crate) fn reads(node: &SymbolicNode, operand: usize) -> Reads {
    match node.op.class() {
        OpClass::Contract => Reads::Memory,
        // A dynamic slice's starts are numbers, wherever they come from.
        OpClass::Gather if node.op == Opcode::DynamicSlice && operand > 0 => Reads::Register,
        // Of several components the position along the index vector is a constant, which composes with no slice.
        OpClass::Gather if operand == 0 || has_index_vector(node) => Reads::Whole,
        OpClass::Gather => Reads::Memory,
        // Pad lays its first operand over a number, an update lies over anything.
        OpClass::Overlay if node.op == Opcode::Pad && operand != 0 => Reads::Register,
        OpClass::Overlay if node.op == Opcode::DynamicUpdateSlice && operand != 1 => Reads::Register,
        OpClass::Overlay => Reads::Whole,
        OpClass::Source
        | OpClass::Unary
        | OpClass::Predicate
        | OpClass::Binary
        | OpClass::Compare
        | OpClass::Select
        | OpClass::Convert
        | OpClass::View
        | OpClass::Reduce => Reads::Register,
    }
}

fn has_index_vector(node: &SymbolicNode) -> bool {
    if let SymbolicAttrs::Gather(dims, _) = &node.attrs { dims.start_index_map.len() > 1 } else { false }
}

/// Whether a node is a view or a source, which compute nothing.
pub(crate) fn moves_only(node: &SymbolicNode) -> bool {
    node.op.class() == OpClass::Source || is_view(node)
}

fn is_view(node: &SymbolicNode) -> bool {
    node.op.class() == OpClass::View
}

/// Whether a view skips or reverses elements: a path holds one such.
fn slices(node: &SymbolicNode) -> bool {
    node.op == Opcode::Slice || node.op == Opcode::Reverse
}

/// What a source is read as.
fn source(node: &SymbolicNode) -> Option<Root> {
    if let SymbolicAttrs::Splat(scalar) = node.attrs {
        Some(Root::Splat(scalar))
    } else if let SymbolicAttrs::Iota(dimension) = node.attrs {
        Some(Root::Iota(dimension as u8))
    } else {
        None
    }
}

/// The dimensions whose extent is not 1.
fn proper_dims(ty: &BufferType) -> impl Iterator<Item = usize> + '_ {
    (0..ty.shape.len()).filter(|&dim| ty.shape[dim] != Extent::ONE)
}

/// Whether a reshape between these types only adds and drops extents of 1.
fn is_degenerate(from: &BufferType, to: &BufferType) -> bool {
    proper_dims(from).map(|dim| from.shape[dim]).eq(proper_dims(to).map(|dim| to.shape[dim]))
}

/// What a value is, views aside.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Buffer,
    Splat,
    Iota,
}

/// Who needs a buffer.
struct Demand<'a> {
    trace: &'a SymbolicTrace,
    fuse: bool,
    kinds: Vec<Kind>,
    live: Vec<bool>,
    demanded: Vec<bool>,
}

impl<'a> Demand<'a> {
    fn of(trace: &'a SymbolicTrace, fuse: bool) -> Self {
        let nodes = trace.nodes.len();
        let mut demand = Demand {
            trace,
            fuse,
            kinds: Vec::with_capacity(nodes),
            live: vec![false; nodes],
            demanded: vec![false; nodes],
        };
        for node in &trace.nodes {
            let kind = match source(node) {
                Some(Root::Splat(_)) => Kind::Splat,
                Some(Root::Iota(_)) => Kind::Iota,
                // A general reshape of an iota is an alias of its buffer.
                None | Some(Root::Value(_)) if is_view(node) => match demand.kind(node.operands[0]) {
                    Kind::Iota if demand.is_general_reshape(node) => Kind::Buffer,
                    kind => kind,
                },
                None | Some(Root::Value(_)) => Kind::Buffer,
            };
            demand.kinds.push(kind);
        }
        for &output in &trace.outputs {
            demand.mark_live(output);
            demand.demand(output);
        }
        for node in (0..nodes).rev() {
            // A node's liveness is known once its consumers have been visited.
            if demand.live[node] {
                demand.visit(node);
            }
        }
        demand.demand_second_slices();
        demand
    }

    fn role(&self, node: usize) -> Role {
        let symbolic = &self.trace.nodes[node];
        if !self.live[node] {
            Role::Dead
        } else if self.is_alias(node) && (self.demanded[node] || self.is_general_reshape(symbolic)) {
            Role::Alias
        } else if moves_only(symbolic) && !self.demanded[node] {
            Role::Folded
        } else {
            Role::Member
        }
    }

    fn kind(&self, value: ValueId) -> Kind {
        self.trace.producer(value).map_or(Kind::Buffer, |node| self.kinds[node])
    }

    fn is_general_reshape(&self, node: &SymbolicNode) -> bool {
        node.op == Opcode::Reshape && !is_degenerate(self.trace.ty(node.operands[0]), &node.ty)
    }

    /// Whether a node's buffer, if anybody wants one, is that of its operand: a reshape, unless of a constant.
    fn is_alias(&self, node: usize) -> bool {
        self.trace.nodes[node].op == Opcode::Reshape && !(self.fuse && self.kinds[node] == Kind::Splat)
    }

    fn mark_live(&mut self, value: ValueId) {
        if let Some(node) = self.trace.producer(value) {
            self.live[node] = true;
        }
    }

    fn demand(&mut self, value: ValueId) {
        let mut next = Some(value);
        while let Some(node) = next.and_then(|value| self.trace.producer(value)) {
            self.demanded[node] = true;
            next = self.is_alias(node).then(|| self.trace.nodes[node].operands[0]);
        }
    }

    /// Visited after all consumers.
    fn visit(&mut self, node: usize) {
        let trace = self.trace;
        let symbolic = &trace.nodes[node];
        if !self.fuse {
            self.demand(trace.result(node));
        } else if self.is_alias(node) && self.is_general_reshape(symbolic) {
            self.demand(symbolic.operands[0]);
        }
        for (i, &operand) in symbolic.operands.iter().enumerate() {
            self.mark_live(operand);
            let needs_buffer = match reads(symbolic, i) {
                Reads::Register => false,
                Reads::Memory => self.kind(operand) != Kind::Buffer,
                Reads::Whole => true,
            };
            if needs_buffer {
                self.demand(operand);
            }
        }
    }

    /// A path holds one slice, and none over an iota.
    fn demand_second_slices(&mut self) {
        let trace = self.trace;
        let mut sliced = vec![false; trace.nodes.len()];
        for (node, symbolic) in trace.nodes.iter().enumerate() {
            if !self.live[node] || !is_view(symbolic) {
                continue;
            }
            let operand = symbolic.operands[0];
            let carries = trace.producer(operand).is_some_and(|operand| {
                sliced[operand] && (!self.demanded[operand] || trace.nodes[operand].op == Opcode::Reshape)
            });
            let slices = slices(symbolic);
            let demands = match self.kind(operand) {
                Kind::Buffer => carries,
                Kind::Iota => true,
                // A number is a number wherever it is read: nobody would read the buffer.
                Kind::Splat => false,
            };
            if slices && demands {
                self.demand(operand);
            }
            sliced[node] = slices || carries;
        }
    }
}

/// Follows operands back through views.
struct Walker<'a> {
    trace: &'a SymbolicTrace,
    roles: &'a [Role],
    kinds: &'a [Kind],
    fuse: bool,
}

impl Walker<'_> {
    fn operand_paths(&self, node: usize) -> SmallVec<[Path; 2]> {
        let symbolic = &self.trace.nodes[node];
        if moves_only(symbolic) {
            let rank = symbolic.ty.shape.len();
            let mut path =
                Path { root: Root::Splat(0), dims: (0..rank).map(PathDim::along).collect(), via: SmallVec::new() };
            let value = self.trace.result(node);
            path.root = match source(&self.trace.nodes[node]) {
                Some(source) => source,
                None => {
                    self.step(&mut path, node);
                    self.finish(&mut path, symbolic.operands[0], false)
                }
            };
            debug_assert!(path.root != Root::Value(value), "a member does not read itself");
            return SmallVec::from_iter([path]);
        }
        let operands = symbolic.operands.iter().enumerate();
        operands.map(|(i, &operand)| self.path(operand, reads(symbolic, i) != Reads::Register)).collect()
    }

    fn path(&self, operand: ValueId, buffers: bool) -> Path {
        let rank = self.trace.ty(operand).shape.len();
        let mut path =
            Path { root: Root::Value(operand), dims: (0..rank).map(PathDim::along).collect(), via: SmallVec::new() };
        path.root = self.finish(&mut path, operand, buffers);
        path
    }

    /// Walks from `value` to the root.
    fn finish(&self, path: &mut Path, mut value: ValueId, buffers: bool) -> Root {
        while let Some(node) = self.trace.producer(value) {
            if self.fuse && !buffers && self.kinds[node] == Kind::Splat {
                return self.finish_splat(path, node);
            }
            let symbolic = &self.trace.nodes[node];
            let stops = match self.roles[node] {
                Role::Folded => false,
                Role::Member => true,
                Role::Alias => {
                    buffers || !self.fuse || !is_degenerate(self.trace.ty(symbolic.operands[0]), &symbolic.ty)
                }
                Role::Dead => unreachable!("what a live node reads is live"),
            };
            if stops {
                break;
            }
            if let Some(source) = source(&self.trace.nodes[node]) {
                let is_iota = matches!(source, Root::Iota(_));
                assert!(!is_iota || !path.is_sliced(), "a sliced iota is in memory");
                path.via.push(node as u32);
                return source;
            }
            self.step(path, node);
            path.via.push(node as u32);
            value = symbolic.operands[0];
        }
        Root::Value(value)
    }

    /// Walks from a view of a constant to the constant. Even one that somebody needs in memory is cheaper as a number,
    /// and where a number is read makes no difference, so no view on the way is composed.
    fn finish_splat(&self, path: &mut Path, mut node: usize) -> Root {
        loop {
            path.via.push(node as u32);
            let symbolic = &self.trace.nodes[node];
            if let Some(source) = source(&self.trace.nodes[node]) {
                path.dims = SmallVec::from_elem(PathDim::FIXED, symbolic.ty.shape.len());
                return source;
            }
            node = self.trace.producer(symbolic.operands[0]).expect("a view of a constant leads to one");
        }
    }

    /// Composes a path that has come to the result of view `node` with the view: afterwards it is at the operand.
    fn step(&self, path: &mut Path, node: usize) {
        let SymbolicNode { operands, attrs, ty, .. } = &self.trace.nodes[node];
        let from = self.trace.ty(operands[0]);
        let at = &path.dims;
        path.dims = match attrs {
            SymbolicAttrs::BroadcastInDim(dimensions) => (0..from.shape.len())
                .map(|dim| {
                    let result = dimensions[dim] as usize;
                    if from.shape[dim] == ty.shape[result] { at[result] } else { PathDim::FIXED }
                })
                .collect(),
            SymbolicAttrs::Transpose(permutation) => {
                let mut dims = at.clone();
                for (result, &dim) in permutation.iter().enumerate() {
                    dims[dim as usize] = at[result];
                }
                dims
            }
            SymbolicAttrs::Slice { start, stride } => {
                let slice = |dim: usize| {
                    assert!(at[dim].is_plain(), "a path holds one slice");
                    PathDim { dim: at[dim].dim, start: start[dim], step: stride[dim] }
                };
                (0..from.shape.len()).map(slice).collect()
            }
            SymbolicAttrs::Reverse { dimensions, last } => {
                let mut dims = at.clone();
                for (&dim, &last) in dimensions.iter().zip(last) {
                    let dim = &mut dims[dim as usize];
                    assert!(dim.is_plain(), "a path holds one slice");
                    // An extent of 0 or 1 has nothing to reverse.
                    if last != Extent::ZERO {
                        *dim = PathDim { dim: dim.dim, start: last, step: Extent::Fixed(-1) };
                    }
                }
                dims
            }
            SymbolicAttrs::None if is_degenerate(from, ty) => {
                let mut dims: SmallVec<[PathDim; 4]> = SmallVec::from_elem(PathDim::FIXED, from.shape.len());
                for (dim, result) in proper_dims(from).zip(proper_dims(ty)) {
                    dims[dim] = at[result];
                }
                dims
            }
            // A constant under another shape: where it is read makes no difference.
            SymbolicAttrs::None => SmallVec::from_elem(PathDim::FIXED, from.shape.len()),
            SymbolicAttrs::Splat(_)
            | SymbolicAttrs::Iota(_)
            | SymbolicAttrs::Compare(..)
            | SymbolicAttrs::Concatenate { .. }
            | SymbolicAttrs::Pad { .. }
            | SymbolicAttrs::Reduce(..)
            | SymbolicAttrs::ArgReduce(..)
            | SymbolicAttrs::Dot(_)
            | SymbolicAttrs::Gather(..) => unreachable!("only views are folded"),
        };
    }
}
