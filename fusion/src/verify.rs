//! The verifier: traces from elsewhere.
//!
//! A trace recorded through [`Trace::push`] is well-typed by construction, and the numbering of values and nodes cannot
//! be broken through the trace's own methods. What can go wrong is what [`Trace::push_inferred`] and
//! [`Trace::output`] take on trust from a caller: an embedding front end, a deserialiser, a rewrite. A verified trace
//! keeps these clauses:
//!
//! * **V1** Every operand is an input or the result of an earlier node.
//! * **V2** Every node's result types are those that [`infer`] gives for its operands, attributes and regions; so
//!   attributes have the op's format and a dense constant has its type's number of bytes.
//! * **V3** Every input's type is [addressable](infer::addressable). (Results are, by V2.)
//! * **V4** The bytes of a dense constant of bools are 0 or 1.
//! * **V5** Every region is a verified trace with at least one output. It is closed: its values are its own (V1).
//! * **V6** Every output is a value of the trace.
//! * **V7** Regions nest at most [`MAX_REGION_DEPTH`] deep, so that recursion over them is safe.
//!
//! Whether values are used, or nodes dead, is no matter of validity.

use std::fmt;

use smallvec::SmallVec;
use systole_kernels::{DType, TensorType};

use crate::infer;
use crate::ir::{Attrs, Literal, NodeId, Opcode, Trace};

/// How deep regions may nest.
pub const MAX_REGION_DEPTH: usize = 64;

/// A clause that a trace breaks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VerifyError {
    clause: Clause,
    node: Option<(NodeId, Opcode)>,
    message: String,
}

/// The verifier's clauses, as numbered in the [module's documentation](self).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs, reason = "the module's documentation states each clause")]
pub enum Clause {
    V1,
    V2,
    V3,
    V4,
    V5,
    V6,
    V7,
}

impl VerifyError {
    /// The clause.
    pub fn clause(&self) -> Clause {
        self.clause
    }

    /// The node that breaks it, of the outermost trace.
    pub fn node(&self) -> Option<NodeId> {
        self.node.map(|(node, _)| node)
    }

    /// What is wrong, in words and values.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.clause)?;
        if let Some((node, op)) = self.node {
            write!(f, ", node {} ({op})", node.0)?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for VerifyError {}

/// Checks the clauses.
///
/// # Errors
/// The first clause that is broken, in the order of inputs, nodes, outputs.
pub fn verify(trace: &Trace) -> Result<(), VerifyError> {
    verify_nested(trace, 0)
}

fn verify_nested(trace: &Trace, depth: usize) -> Result<(), VerifyError> {
    for (i, &input) in trace.inputs().iter().enumerate() {
        let ty = trace.ty(input);
        if !infer::addressable(ty) {
            return Err(whole(Clause::V3, format!("input {i} of type {ty} takes more than {} bytes", isize::MAX)));
        }
    }
    for (i, node) in trace.nodes().iter().enumerate() {
        let broken = |clause, message| VerifyError { clause, node: Some((NodeId(i as u32), node.op)), message };
        let mut types = SmallVec::<[&TensorType; 3]>::new();
        for (number, &operand) in node.operands.iter().enumerate() {
            // Values are numbered in program order, so whatever has a smaller number was defined before.
            if operand >= node.first_result || trace.value_at(operand).is_none() {
                let message = format!("operand {number} is value {}, which is not defined before", operand.0);
                return Err(broken(Clause::V1, message));
            }
            types.push(trace.ty(operand));
        }
        for region in &node.regions {
            if depth == MAX_REGION_DEPTH {
                return Err(broken(Clause::V7, format!("regions nest deeper than {MAX_REGION_DEPTH}")));
            }
            verify_nested(region, depth + 1).map_err(|inner| match inner.clause {
                Clause::V7 => broken(Clause::V7, inner.message),
                Clause::V1 | Clause::V2 | Clause::V3 | Clause::V4 | Clause::V5 | Clause::V6 => {
                    broken(Clause::V5, format!("its region breaks {inner}"))
                }
            })?;
            if region.outputs().is_empty() {
                return Err(broken(Clause::V5, String::from("its region has no output")));
            }
        }
        let inferred = infer::infer(node.op, &types, &node.attrs, &node.regions)
            .map_err(|error| broken(Clause::V2, error.to_string()))?;
        let stated: SmallVec<[&TensorType; 1]> = node.results().map(|result| trace.ty(result)).collect();
        if !inferred.iter().eq(stated.iter().copied()) {
            let list = |types: &mut dyn Iterator<Item = &TensorType>| {
                types.map(TensorType::to_string).collect::<Vec<_>>().join(", ")
            };
            return Err(broken(
                Clause::V2,
                format!(
                    "it has results ({}), inferred are ({})",
                    list(&mut stated.iter().copied()),
                    list(&mut inferred.iter())
                ),
            ));
        }
        if let Attrs::Constant(Literal::Dense(ty, bytes)) = &node.attrs
            && ty.dtype == DType::Bool
            && let Some(&byte) = bytes.iter().find(|&&byte| byte > 1)
        {
            return Err(broken(Clause::V4, format!("a bool's byte is {byte}")));
        }
    }
    for (i, &output) in trace.outputs().iter().enumerate() {
        if trace.value_at(output).is_none() {
            return Err(whole(Clause::V6, format!("output {i} is value {}, which is not defined", output.0)));
        }
    }
    Ok(())
}

fn whole(clause: Clause, message: String) -> VerifyError {
    VerifyError { clause, node: None, message }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use smallvec::smallvec;
    use systole_kernels::program::Monoid;

    use super::*;
    use crate::ir::region::monoid_region;
    use crate::ir::{Origin, Region, ValueId};

    fn f32s(extents: &[usize]) -> TensorType {
        TensorType::new(DType::F32, extents)
    }

    /// A trace of one input and one node on trust.
    fn trusted(op: Opcode, operands: &[u32], attrs: Attrs, regions: &[Region], results: &[TensorType]) -> Trace {
        let mut trace = Trace::new();
        trace.input(f32s(&[2]));
        let operands = operands.iter().copied().map(ValueId).collect();
        let value = trace.push_inferred(
            op,
            operands,
            attrs,
            regions.iter().cloned().collect(),
            results.iter().cloned().collect(),
            Origin::Unknown,
        );
        trace.output(value);
        trace
    }

    fn check(trace: &Trace, clause: Clause, message: &str) {
        let error = verify(trace).expect_err("breaks a clause");
        assert_eq!((error.clause(), error.to_string().as_str()), (clause, message));
    }

    #[test]
    fn a_sound_trace_passes() {
        verify(&trusted(Opcode::Tanh, &[0], Attrs::None, &[], &[f32s(&[2])])).expect("sound");
        verify(&Trace::new()).expect("an empty trace is sound");
    }

    #[test]
    fn v1_operands_are_defined_before() {
        let forward = trusted(Opcode::Add, &[0, 1], Attrs::None, &[], &[f32s(&[2])]);
        check(&forward, Clause::V1, "V1, node 0 (add): operand 1 is value 1, which is not defined before");
        let absent = trusted(Opcode::Tanh, &[9], Attrs::None, &[], &[f32s(&[2])]);
        check(&absent, Clause::V1, "V1, node 0 (tanh): operand 0 is value 9, which is not defined before");
    }

    #[test]
    fn v2_types_are_those_inferred() {
        let wrong = trusted(Opcode::Tanh, &[0], Attrs::None, &[], &[f32s(&[3])]);
        check(&wrong, Clause::V2, "V2, node 0 (tanh): it has results (tensor<3xf32>), inferred are (tensor<2xf32>)");
        let none = trusted(Opcode::Tanh, &[0], Attrs::None, &[], &[]);
        check(&none, Clause::V2, "V2, node 0 (tanh): it has results (), inferred are (tensor<2xf32>)");
        let format = trusted(Opcode::Tanh, &[0], Attrs::Concatenate(0), &[], &[f32s(&[2])]);
        check(&format, Clause::V2, "V2, node 0 (tanh): tanh(tensor<2xf32>): concatenate attributes do not fit the op");
        let ty = f32s(&[2]);
        let short = Attrs::Constant(Literal::Dense(ty.clone(), vec![0; 4].into()));
        check(
            &trusted(Opcode::Constant, &[], short, &[], &[ty]),
            Clause::V2,
            "V2, node 0 (constant): constant(): 4 bytes are given for tensor<2xf32>",
        );
    }

    #[test]
    fn v3_inputs_are_addressable() {
        let mut trace = Trace::new();
        trace.input(f32s(&[1 << 40, 1 << 40]));
        check(
            &trace,
            Clause::V3,
            "V3: input 0 of type tensor<1099511627776x1099511627776xf32> takes more than 9223372036854775807 bytes",
        );
    }

    #[test]
    fn v4_bools_are_zero_or_one() {
        let ty = TensorType::new(DType::Bool, [3]);
        let attrs = Attrs::Constant(Literal::Dense(ty.clone(), vec![0, 1, 2].into()));
        check(
            &trusted(Opcode::Constant, &[], attrs, &[], &[ty]),
            Clause::V4,
            "V4, node 0 (constant): a bool's byte is 2",
        );
    }

    #[test]
    fn v5_regions_are_verified() {
        let reduce = |body: Region| {
            let mut trace = Trace::new();
            let x = trace.input(f32s(&[2]));
            let init = trace.input(f32s(&[]));
            trace.push_inferred(
                Opcode::Reduce,
                smallvec![x, init],
                Attrs::Reduce(smallvec![0]),
                smallvec![body],
                smallvec![f32s(&[])],
                Origin::Unknown,
            );
            trace
        };
        verify(&reduce(monoid_region(Monoid::Add, DType::F32))).expect("sound");
        check(&reduce(Region::default()), Clause::V5, "V5, node 0 (reduce): its region has no output");
        let broken = trusted(Opcode::Tanh, &[7], Attrs::None, &[], &[f32s(&[2])]);
        check(
            &reduce(Arc::new(broken)),
            Clause::V5,
            "V5, node 0 (reduce): its region breaks V1, node 0 (tanh): operand 0 is value 7, which is not defined before",
        );
    }

    #[test]
    fn v6_outputs_exist() {
        let mut trace = Trace::new();
        trace.output(ValueId(3));
        check(&trace, Clause::V6, "V6: output 0 is value 3, which is not defined");
    }

    #[test]
    fn v7_regions_nest_within_a_bound() {
        let mut region = monoid_region(Monoid::Add, DType::F32);
        for _ in 0..=MAX_REGION_DEPTH {
            region = Arc::new(trusted(Opcode::Tanh, &[0], Attrs::None, &[region], &[f32s(&[2])]));
        }
        check(&region, Clause::V7, "V7, node 0 (tanh): regions nest deeper than 64");
    }
}
