//! What differs between two keys, in words: why a plan was built although one like it was there.

use std::fmt;

use systole_kernels::program::{BufferType, Extent};

use super::{PlanKey, SymbolicTrace};
use crate::ir::{NodeId, Opcode};

/// The first part in which two keys differ, in the order of the trace. `left` and `right` are the parts in words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    part: Part,
    left: String,
    right: String,
    /// Parts before it that are equal; the larger, the nearer the keys.
    shared: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Inputs,
    InputType(usize),
    Donation(usize),
    Op(NodeId),
    Operands(NodeId, Opcode),
    ResultType(NodeId, Opcode),
    Attributes(NodeId, Opcode),
    Nodes,
    Outputs,
}

impl Difference {
    /// The node at which the keys part, where it is a node.
    pub fn node(&self) -> Option<NodeId> {
        match self.part {
            Part::Op(node) | Part::Operands(node, _) | Part::ResultType(node, _) | Part::Attributes(node, _) => {
                Some(node)
            }
            Part::Inputs | Part::InputType(_) | Part::Donation(_) | Part::Nodes | Part::Outputs => None,
        }
    }

    /// How many parts (inputs, then nodes) are equal before the difference.
    pub fn shared(&self) -> usize {
        self.shared
    }
}

/// `type of input 2: f32[p0, p1] / f32[p0, p0]`
impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.part {
            Part::Inputs => f.write_str("number of inputs")?,
            Part::InputType(input) => write!(f, "type of input {input}")?,
            Part::Donation(input) => write!(f, "donation of input {input}")?,
            Part::Op(node) => write!(f, "op of node {}", node.0)?,
            Part::Operands(node, op) => write!(f, "operands of node {} ({op})", node.0)?,
            Part::ResultType(node, op) => write!(f, "result type of node {} ({op})", node.0)?,
            Part::Attributes(node, op) => write!(f, "attributes of node {} ({op})", node.0)?,
            Part::Nodes => f.write_str("number of nodes")?,
            Part::Outputs => f.write_str("outputs")?,
        }
        write!(f, ": {} / {}", self.left, self.right)
    }
}

/// The first difference between two keys, or `None` where they are equal.
pub fn explain(left: &PlanKey, right: &PlanKey) -> Option<Difference> {
    if left == right {
        return None;
    }
    Some(first_difference(&left.decode(), &right.decode()))
}

fn first_difference(a: &SymbolicTrace, b: &SymbolicTrace) -> Difference {
    let differ = |part: Part, shared: usize, left: String, right: String| Difference { part, left, right, shared };
    let inputs = a.inputs.len();
    for (i, (x, y)) in a.inputs.iter().zip(&b.inputs).enumerate() {
        if x.ty != y.ty {
            return differ(Part::InputType(i), i, describe(&x.ty), describe(&y.ty));
        }
        if x.donatable != y.donatable {
            return differ(Part::Donation(i), i, x.donatable.to_string(), y.donatable.to_string());
        }
    }
    if inputs != b.inputs.len() {
        let shared = inputs.min(b.inputs.len());
        return differ(Part::Inputs, shared, inputs.to_string(), b.inputs.len().to_string());
    }
    for (i, (x, y)) in a.nodes.iter().zip(&b.nodes).enumerate() {
        let (node, shared) = (NodeId(i as u32), inputs + i);
        if x.op != y.op {
            return differ(Part::Op(node), shared, x.op.to_string(), y.op.to_string());
        }
        if x.operands != y.operands {
            let words = |operands: &[crate::ir::ValueId]| {
                let words: Vec<_> = operands.iter().map(|value| format!("%{}", value.0)).collect();
                words.join(", ")
            };
            return differ(Part::Operands(node, x.op), shared, words(&x.operands), words(&y.operands));
        }
        if x.ty != y.ty {
            return differ(Part::ResultType(node, x.op), shared, describe(&x.ty), describe(&y.ty));
        }
        if x.attrs != y.attrs {
            return differ(Part::Attributes(node, x.op), shared, format!("{:?}", x.attrs), format!("{:?}", y.attrs));
        }
    }
    let shared = inputs + a.nodes.len().min(b.nodes.len());
    if a.nodes.len() != b.nodes.len() {
        return differ(Part::Nodes, shared, a.nodes.len().to_string(), b.nodes.len().to_string());
    }
    differ(Part::Outputs, shared, format!("{:?}", a.outputs), format!("{:?}", b.outputs))
}

/// `f32[p0, 1, p1]`
pub(crate) fn describe(ty: &BufferType) -> String {
    let extents: Vec<_> = ty
        .shape
        .iter()
        .map(|extent| match extent {
            Extent::Fixed(value) => value.to_string(),
            Extent::Param(param) => format!("p{param}"),
        })
        .collect();
    format!("{}[{}]", ty.dtype, extents.join(", "))
}
