//! Which extents of a trace are equal because its ops make them so.
//!
//! Two dimensions may have equal extents by chance: a sequence as long as the model is wide, a batch of as many rows as
//! there are heads. A plan must not depend on that, or such a length would be a plan of its own. So the relation pattern
//! of a key holds the equalities that the ops *force*, and no others: an elementwise op's operands have one shape, the
//! contracted dimensions of a dot agree, a result dimension is that of an operand. Everything else, inputs first of all,
//! has extents of its own.
//!
//! Dimensions are the nodes of a union-find, one per dimension of every value, and one pass over the trace joins them.
//! Only dimensions with equal extents are ever joined, and extents of 0 and 1 are structure by themselves, so a joined
//! pair that is 0 or 1 here never stands for another number elsewhere.
//!
//! **Reshape** forces equalities through products, which this does not follow. It walks both shapes from the left and
//! joins dimensions that stand alone on both sides of equal products: of `[B, L, 384] → [B, L, 12, 32]` the first two.
//! Which ones those are is a fact about the extents, so it is part of the pattern: a trace whose reshape groups its
//! dimensions otherwise has another key.

use crate::ir::{Attrs, DotDims, GatherDims, Node, Opcode, Trace, ValueId};

/// The classes of equal dimensions of a trace's values.
pub(super) struct Extents {
    /// Where a value's dimensions begin in `parents`.
    first: Vec<u32>,
    /// Union-find, without ranks: chains are short, since later dimensions point to earlier ones.
    parents: Vec<u32>,
}

impl Extents {
    pub(super) fn of(trace: &Trace) -> Self {
        let values = trace.values();
        let mut extents =
            Extents { first: Vec::with_capacity(values.len()), parents: Vec::with_capacity(3 * values.len()) };
        for value in values {
            let first = extents.parents.len() as u32;
            extents.first.push(first);
            extents.parents.extend(first..first + value.ty.rank() as u32);
        }
        for node in trace.nodes() {
            extents.visit(trace, node);
        }
        extents
    }

    /// The class of a value's dimension: the same number for all that must be equal.
    pub(super) fn class(&self, value: ValueId, dim: usize) -> u32 {
        let mut at = self.first[value.index()] + dim as u32;
        while self.parents[at as usize] != at {
            at = self.parents[at as usize];
        }
        at
    }

    /// Number of dimensions, above all classes.
    pub(super) fn len(&self) -> usize {
        self.parents.len()
    }

    fn find(&mut self, value: ValueId, dim: usize) -> u32 {
        let mut at = self.first[value.index()] + dim as u32;
        loop {
            let parent = self.parents[at as usize];
            if parent == at {
                return at;
            }
            let above = self.parents[parent as usize];
            self.parents[at as usize] = above;
            at = above;
        }
    }

    fn join(&mut self, (a, i): (ValueId, usize), (b, j): (ValueId, usize)) {
        let (a, b) = (self.find(a, i), self.find(b, j));
        // The earlier one stands for both, so that a class is named by its first dimension.
        self.parents[a.max(b) as usize] = a.min(b);
    }

    fn join_all(&mut self, trace: &Trace, a: ValueId, b: ValueId) {
        for dim in 0..trace.ty(a).rank() {
            self.join((a, dim), (b, dim));
        }
    }

    /// Of a box and what it lies in, the dimensions that it fills: there it can start at 0 only.
    fn join_equal(&mut self, trace: &Trace, a: ValueId, b: ValueId) {
        for dim in 0..trace.ty(a).rank() {
            if trace.ty(a).shape[dim] == trace.ty(b).shape[dim] {
                self.join((a, dim), (b, dim));
            }
        }
    }

    fn visit(&mut self, trace: &Trace, node: &Node) {
        let result = node.first_result;
        let shape = |value: ValueId| &trace.ty(value).shape;
        match &node.attrs {
            Attrs::None if node.op == Opcode::DynamicUpdateSlice => {
                self.join_all(trace, node.operands[0], result);
                self.join_equal(trace, node.operands[1], result);
            }
            // Operands of another rank are scalars: a predicate, bounds.
            Attrs::None | Attrs::Compare { .. } | Attrs::Convert(_) => {
                for &operand in &node.operands {
                    if shape(operand).rank() == shape(result).rank() {
                        self.join_all(trace, operand, result);
                    }
                }
            }
            Attrs::Constant(_) | Attrs::Iota { .. } => {}
            Attrs::BroadcastInDim { dimensions, .. } => {
                let operand = node.operands[0];
                for (dim, &to) in dimensions.iter().enumerate() {
                    if shape(operand)[dim] == shape(result)[to as usize] {
                        self.join((operand, dim), (result, to as usize));
                    }
                }
            }
            Attrs::Reshape(_) => self.reshape(trace, node.operands[0], result),
            Attrs::Transpose(permutation) => {
                for (dim, &from) in permutation.iter().enumerate() {
                    self.join((node.operands[0], from as usize), (result, dim));
                }
            }
            Attrs::Slice(limits) => {
                for dim in 0..limits.start.len() {
                    let whole = limits.limit[dim] == shape(node.operands[0])[dim] as i64;
                    if limits.start[dim] == 0 && whole && limits.stride[dim] == 1 {
                        self.join((node.operands[0], dim), (result, dim));
                    }
                }
            }
            Attrs::Reverse(_) => self.join_all(trace, node.operands[0], result),
            Attrs::DynamicSlice(_) => self.join_equal(trace, node.operands[0], result),
            Attrs::Concatenate(along) => {
                let alone = node.operands.len() == 1;
                for &operand in &node.operands {
                    for dim in (0..shape(result).rank()).filter(|&dim| alone || dim != *along as usize) {
                        self.join((operand, dim), (result, dim));
                    }
                }
            }
            Attrs::Pad(amounts) => {
                for dim in 0..amounts.low.len() {
                    if (amounts.low[dim], amounts.high[dim], amounts.interior[dim]) == (0, 0, 0) {
                        self.join((node.operands[0], dim), (result, dim));
                    }
                }
            }
            Attrs::Reduce(reduced) => {
                // Operands first, initial values after them; the operands have one shape.
                let operand = node.operands[0];
                for &other in &node.operands[..node.operands.len() / 2] {
                    self.join_all(trace, operand, other);
                }
                let kept = (0..shape(operand).rank()).filter(|&dim| !reduced.contains(&(dim as u32)));
                for (to, dim) in kept.enumerate() {
                    for result in node.results() {
                        self.join((operand, dim), (result, to));
                    }
                }
            }
            Attrs::Dot(dims) => self.dot(trace, node.operands[0], node.operands[1], result, dims),
            Attrs::Gather(dims) => self.gather(trace, node.operands[0], node.operands[1], result, dims),
        }
    }

    fn reshape(&mut self, trace: &Trace, operand: ValueId, result: ValueId) {
        let (from, to) = (&trace.ty(operand).shape, &trace.ty(result).shape);
        if from.contains(&0) {
            return;
        }
        let proper = |shape: &[usize], at: usize| (at..shape.len()).find(|&dim| shape[dim] != 1).unwrap_or(shape.len());
        let (mut i, mut j) = (proper(from, 0), proper(to, 0));
        while i < from.rank() && j < to.rank() {
            if from[i] == to[j] {
                self.join((operand, i), (result, j));
                (i, j) = (proper(from, i + 1), proper(to, j + 1));
                continue;
            }
            // A group of dimensions with equal products; neither side may run out before the other has caught up.
            let (mut left, mut right) = (from[i], to[j]);
            while left != right {
                if left < right {
                    i += 1;
                    left *= from[i];
                } else {
                    j += 1;
                    right *= to[j];
                }
            }
            (i, j) = (proper(from, i + 1), proper(to, j + 1));
        }
    }

    fn dot(&mut self, trace: &Trace, lhs: ValueId, rhs: ValueId, result: ValueId, dims: &DotDims) {
        let mut to = 0;
        for (&a, &b) in dims.lhs_batching.iter().zip(&dims.rhs_batching) {
            self.join((lhs, a as usize), (rhs, b as usize));
            self.join((lhs, a as usize), (result, to));
            to += 1;
        }
        for (&a, &b) in dims.lhs_contracting.iter().zip(&dims.rhs_contracting) {
            self.join((lhs, a as usize), (rhs, b as usize));
        }
        let sides =
            [(lhs, &dims.lhs_batching, &dims.lhs_contracting), (rhs, &dims.rhs_batching, &dims.rhs_contracting)];
        for (operand, batching, contracting) in sides {
            for dim in 0..trace.ty(operand).rank() {
                if !batching.contains(&(dim as u32)) && !contracting.contains(&(dim as u32)) {
                    self.join((operand, dim), (result, to));
                    to += 1;
                }
            }
        }
    }

    fn gather(&mut self, trace: &Trace, operand: ValueId, indices: ValueId, result: ValueId, dims: &GatherDims) {
        let (shape, rank) = (&trace.ty(operand).shape, trace.ty(result).rank());
        for (&a, &b) in dims.operand_batching_dims.iter().zip(&dims.start_indices_batching_dims) {
            self.join((operand, a as usize), (indices, b as usize));
        }
        let batch = (0..trace.ty(indices).rank()).filter(|&dim| dim != dims.index_vector_dim as usize);
        let places = (0..rank).filter(|&dim| !dims.offset_dims.contains(&(dim as u32)));
        for (dim, to) in batch.zip(places) {
            self.join((indices, dim), (result, to));
        }
        let kept = (0..shape.rank()).filter(|&dim| {
            let dim = dim as u32;
            !dims.collapsed_slice_dims.contains(&dim) && !dims.operand_batching_dims.contains(&dim)
        });
        for (dim, &to) in kept.zip(&dims.offset_dims) {
            if dims.slice_sizes[dim] == shape[dim] as i64 {
                self.join((operand, dim), (result, to as usize));
            }
        }
    }
}
