//! Traces: values, nodes, and the builder that appends to them.
//!
//! A trace is append-only SSA. Values and nodes are dense indices; a node's operands were defined before it. Inference
//! runs when a node is appended, so every trace is well-typed by construction; [`verify`](crate::verify) checks traces
//! from elsewhere.

use std::sync::Arc;

use smallvec::SmallVec;
use systole_kernels::TensorType;

use crate::infer::{self, TypeError};
use crate::ir::{Attrs, Opcode, Origin};

/// A value of a trace: an input, or a result of a node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct ValueId(pub u32);

/// A node of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct NodeId(pub u32);

impl ValueId {
    /// As an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl NodeId {
    /// As an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Where a value comes from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Def {
    /// Input number `n`.
    Input(u32),
    /// Result number `result` of `node`.
    Node {
        /// The node.
        node: NodeId,
        /// Which of its results.
        result: u32,
    },
}

/// A value's type and definition.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Value {
    /// Type.
    pub ty: TensorType,
    /// Definition.
    pub def: Def,
}

/// A region: a function of its own, closed over nothing. A reduce body, say.
pub type Region = Arc<Trace>;

/// One operation. The form is the same for every op.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Node {
    /// The op.
    pub op: Opcode,
    /// Operands.
    pub operands: SmallVec<[ValueId; 3]>,
    /// Attributes.
    pub attrs: Attrs,
    /// Regions.
    pub regions: SmallVec<[Region; 1]>,
    /// The first result; further ones have the next ids.
    pub first_result: ValueId,
    /// Number of results.
    pub results: u32,
    /// Where it was recorded.
    pub origin: Origin,
}

impl Node {
    /// The only result.
    ///
    /// # Panics
    /// On a node with another number of results: a bug in the caller.
    pub fn result(&self) -> ValueId {
        assert_eq!(self.results, 1, "{} has one result", self.op);
        self.first_result
    }

    /// All results.
    pub fn results(&self) -> impl Iterator<Item = ValueId> + use<> {
        (self.first_result.0..self.first_result.0 + self.results).map(ValueId)
    }
}

/// A pure SSA program.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Trace {
    values: Vec<Value>,
    inputs: Vec<ValueId>,
    nodes: Vec<Node>,
    outputs: Vec<ValueId>,
}

impl Trace {
    /// An empty trace.
    pub fn new() -> Self {
        Trace::default()
    }

    /// Empties the trace and keeps its storage, for a recorder that fills it again.
    pub fn clear(&mut self) {
        self.values.clear();
        self.inputs.clear();
        self.nodes.clear();
        self.outputs.clear();
    }

    /// Appends an input.
    pub fn input(&mut self, ty: TensorType) -> ValueId {
        let id = self.next_value();
        self.values.push(Value { ty, def: Def::Input(self.inputs.len() as u32) });
        self.inputs.push(id);
        id
    }

    /// Appends a node after inferring its result types; gives its first result.
    ///
    /// # Errors
    /// Operands, attributes and regions do not fit the op; the trace is unchanged.
    ///
    /// # Panics
    /// An operand is no value of this trace.
    pub fn push(
        &mut self,
        op: Opcode,
        operands: impl IntoIterator<Item = ValueId>,
        attrs: Attrs,
        regions: impl IntoIterator<Item = Region>,
        origin: Origin,
    ) -> Result<ValueId, TypeError> {
        let operands: SmallVec<[ValueId; 3]> = operands.into_iter().collect();
        let regions: SmallVec<[Region; 1]> = regions.into_iter().collect();
        let types: SmallVec<[&TensorType; 3]> = operands.iter().map(|&value| self.ty(value)).collect();
        let results = infer::infer(op, &types, &attrs, &regions)?;
        drop(types);
        Ok(self.push_inferred(op, operands, attrs, regions, results, origin))
    }

    /// Appends a node whose result types the caller has inferred already; gives its first result.
    pub fn push_inferred(
        &mut self,
        op: Opcode,
        operands: SmallVec<[ValueId; 3]>,
        attrs: Attrs,
        regions: SmallVec<[Region; 1]>,
        results: SmallVec<[TensorType; 1]>,
        origin: Origin,
    ) -> ValueId {
        let node = NodeId(self.nodes.len() as u32);
        let first_result = self.next_value();
        let count = results.len() as u32;
        self.values
            .extend(results.into_iter().zip(0..).map(|(ty, result)| Value { ty, def: Def::Node { node, result } }));
        self.nodes.push(Node { op, operands, attrs, regions, first_result, results: count, origin });
        first_result
    }

    /// Marks a value as an output; the order of calls is the order of outputs. A value may be marked twice.
    pub fn output(&mut self, value: ValueId) {
        self.outputs.push(value);
    }

    /// A value's type.
    pub fn ty(&self, value: ValueId) -> &TensorType {
        &self.values[value.index()].ty
    }

    /// A value.
    pub fn value(&self, value: ValueId) -> &Value {
        &self.values[value.index()]
    }

    /// A value, or `None` where the trace has none of that id.
    pub fn value_at(&self, value: ValueId) -> Option<&Value> {
        self.values.get(value.index())
    }

    /// All values, by id.
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// The inputs, in order.
    pub fn inputs(&self) -> &[ValueId] {
        &self.inputs
    }

    /// A node.
    pub fn node(&self, node: NodeId) -> &Node {
        &self.nodes[node.index()]
    }

    /// The nodes in program order, by id.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The outputs, in order.
    pub fn outputs(&self) -> &[ValueId] {
        &self.outputs
    }

    /// The node that makes result number `n`, counted over all nodes in program order; `None` where there are fewer.
    pub fn node_of_result(&self, n: usize) -> Option<NodeId> {
        if self.values.len() == self.inputs.len() + self.nodes.len() {
            return (n < self.nodes.len()).then_some(NodeId(n as u32));
        }
        let ends = self.nodes.iter().scan(0, |end, node| {
            *end += node.results as usize;
            Some(*end)
        });
        ends.zip(0..).find(|&(end, _)| n < end).map(|(_, node)| NodeId(node))
    }

    /// The node that defines `value`, unless it is an input.
    pub fn producer(&self, value: ValueId) -> Option<NodeId> {
        match self.value(value).def {
            Def::Input(_) => None,
            Def::Node { node, .. } => Some(node),
        }
    }

    fn next_value(&self) -> ValueId {
        ValueId(u32::try_from(self.values.len()).expect("a trace has fewer than 2^32 values"))
    }
}
