//! The reference interpreter: slow, obvious, and the oracle for everything.
//!
//! It follows docs/numerics.md clause by clause, one element at a time, by index vectors. It shares no loop with the
//! kernels, so that agreement between both means something; only the correctly rounded element functions of
//! [`systole_kernels::numerics`] are the same code, and those have an oracle of their own.
//!
//! It is never on a path that must be fast and knows nothing of fusion. It takes any verified trace; it verifies the
//! trace first, so a broken one is an error and not a panic.

mod chip;
mod contract;
mod element;
mod gather;
mod host;
mod index;
mod movement;
mod reduce;

use std::fmt;

use systole_kernels::arithmetic::Arithmetic;
use systole_kernels::program::LaneOp;
use systole_kernels::{Scalar, TensorType};

pub use host::HostTensor;

use crate::ir::{Attrs, Literal, Nan, Node, OpClass, Opcode, Trace};
use crate::verify::{VerifyError, verify};

/// A trace or inputs that cannot be interpreted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InterpretError(Kind);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Kind {
    Trace(VerifyError),
    InputCount { wanted: usize, found: usize },
    InputType { input: usize, wanted: TensorType, found: TensorType },
    InputBytes { input: usize, ty: TensorType, found: usize },
    InputBool { input: usize },
}

impl fmt::Display for InterpretError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Trace(error) => write!(f, "the trace is not valid: {error}"),
            Kind::InputCount { wanted, found } => {
                write!(f, "the trace has {wanted} inputs, {found} are given")
            }
            Kind::InputType { input, wanted, found } => {
                write!(f, "input {input} has type {wanted}, a {found} is given")
            }
            Kind::InputBytes { input, ty, found } => {
                write!(f, "input {input} of type {ty} is given {found} bytes")
            }
            Kind::InputBool { input } => {
                write!(f, "input {input} has a bool whose byte is not 0 or 1")
            }
        }
    }
}

impl std::error::Error for InterpretError {}

/// The trace's outputs for these inputs, on the IEEE device.
///
/// # Errors
/// The trace does not verify, or the inputs are not of its input types.
pub fn interpret(trace: &Trace, inputs: &[HostTensor]) -> Result<Vec<HostTensor>, InterpretError> {
    interpret_on(Arithmetic::Ieee, trace, inputs)
}

/// The trace's outputs for these inputs, on a device of that arithmetic.
///
/// # Errors
/// The trace does not verify, or the inputs are not of its input types.
pub fn interpret_on(
    arithmetic: Arithmetic,
    trace: &Trace,
    inputs: &[HostTensor],
) -> Result<Vec<HostTensor>, InterpretError> {
    verify(trace).map_err(|error| InterpretError(Kind::Trace(error)))?;
    check_inputs(trace, inputs).map_err(InterpretError)?;
    let mut values: Vec<Option<HostTensor>> = vec![None; trace.values().len()];
    for (&id, input) in trace.inputs().iter().zip(inputs) {
        values[id.index()] = Some(input.clone());
    }
    for node in trace.nodes() {
        for (number, result) in node.results().enumerate() {
            let operands: Vec<&HostTensor> = node
                .operands
                .iter()
                .map(|operand| values[operand.index()].as_ref().expect("V1: operands are defined before"))
                .collect();
            let evaluated = evaluate(arithmetic, node, number, &operands, trace.ty(result));
            values[result.index()] = Some(evaluated);
        }
    }
    let output = |id: &crate::ir::ValueId| values[id.index()].clone().expect("V6: outputs are values of the trace");
    Ok(trace.outputs().iter().map(output).collect())
}

fn check_inputs(trace: &Trace, inputs: &[HostTensor]) -> Result<(), Kind> {
    if inputs.len() != trace.inputs().len() {
        return Err(Kind::InputCount { wanted: trace.inputs().len(), found: inputs.len() });
    }
    for (number, (&id, given)) in trace.inputs().iter().zip(inputs).enumerate() {
        let ty = trace.ty(id);
        if given.ty != *ty {
            return Err(Kind::InputType { input: number, wanted: ty.clone(), found: given.ty.clone() });
        }
        if given.bytes.len() != ty.byte_len() {
            return Err(Kind::InputBytes { input: number, ty: ty.clone(), found: given.bytes.len() });
        }
        if ty.dtype == systole_kernels::DType::Bool && given.bytes.iter().any(|&byte| byte > 1) {
            return Err(Kind::InputBool { input: number });
        }
    }
    Ok(())
}

/// Result `number` of a node, which has type `ty`.
fn evaluate(
    arithmetic: Arithmetic,
    node: &Node,
    number: usize,
    operands: &[&HostTensor],
    ty: &TensorType,
) -> HostTensor {
    match &node.attrs {
        Attrs::None if node.op == Opcode::DynamicUpdateSlice => {
            gather::dynamic_update_slice(operands[0], operands[1], &operands[2..], ty)
        }
        Attrs::None => elementwise(arithmetic, node, operands, ty),
        Attrs::Constant(Literal::Splat(_, value)) => HostTensor::build(ty, |_| *value),
        Attrs::Constant(Literal::Dense(_, bytes)) => HostTensor { ty: ty.clone(), bytes: bytes.to_vec() },
        Attrs::Iota { dimension, .. } => {
            HostTensor::build(ty, |index| element::from_index(ty.dtype, index[*dimension as usize]))
        }
        Attrs::Compare { direction, order } => HostTensor::build(ty, |index| {
            element::compare(*direction, *order, operands[0].at(index), operands[1].at(index)).into()
        }),
        // Elements of one width, little-endian on both sides.
        Attrs::Convert(_) if node.op == Opcode::BitcastConvert => {
            HostTensor { ty: ty.clone(), bytes: operands[0].bytes.clone() }
        }
        Attrs::Convert(dtype) => HostTensor::build(ty, |index| match arithmetic {
            Arithmetic::Ieee => element::convert(operands[0].at(index), *dtype),
            Arithmetic::Chip(_) => chip::convert(operands[0].at(index), *dtype),
        }),
        Attrs::BroadcastInDim { dimensions, .. } => movement::broadcast_in_dim(operands[0], dimensions, ty),
        Attrs::Reshape(_) => HostTensor { ty: ty.clone(), bytes: operands[0].bytes.clone() },
        Attrs::Transpose(permutation) => movement::transpose(operands[0], permutation, ty),
        Attrs::Slice(limits) => movement::slice(operands[0], limits, ty),
        Attrs::Reverse(dimensions) => movement::reverse(operands[0], dimensions, ty),
        Attrs::Concatenate(dimension) => movement::concatenate(operands, *dimension as usize, ty),
        Attrs::Pad(amounts) => movement::pad(operands[0], operands[1], amounts, ty),
        Attrs::Reduce(dimensions) => reduce::reduce(arithmetic, operands, number, dimensions, &node.regions[0], ty),
        Attrs::Dot(dims) => contract::dot_general(arithmetic, operands[0], operands[1], dims, ty),
        Attrs::Gather(dims) => gather::gather(operands[0], operands[1], dims, ty),
        Attrs::DynamicSlice(_) => gather::dynamic_slice(operands[0], &operands[1..], ty),
    }
}

/// Ops whose result element depends on the operands' elements at the same index; scalars are the same everywhere.
fn elementwise(arithmetic: Arithmetic, node: &Node, operands: &[&HostTensor], ty: &TensorType) -> HostTensor {
    let lane = node.op.info().lane.expect("an op without attributes has a lane function in its row");
    HostTensor::build(ty, |index| {
        let arguments: Vec<Scalar> = operands
            .iter()
            .map(|operand| if operand.ty.rank() == 0 { operand.at(&[]) } else { operand.at(index) })
            .collect();
        // N27
        if let (Arithmetic::Chip(_), Nan::Canonical, true) = (arithmetic, node.op.info().nan, ty.dtype.is_float()) {
            return chip::elementwise(ty.dtype, &arguments, |arguments| apply(node, lane, arguments));
        }
        apply(node, lane, &arguments)
    })
}

fn apply(node: &Node, lane: LaneOp, arguments: &[Scalar]) -> Scalar {
    match (node.op.class(), arguments) {
        (OpClass::Unary, &[x]) => element::unary(lane, x),
        (OpClass::Predicate, &[x]) => element::predicate(lane, x),
        (OpClass::Binary, &[a, b]) => element::binary(lane, a, b),
        (OpClass::Select, &[a, b, c]) => element::ternary(lane, a, b, c),
        (
            OpClass::Source
            | OpClass::Unary
            | OpClass::Predicate
            | OpClass::Binary
            | OpClass::Compare
            | OpClass::Select
            | OpClass::Convert
            | OpClass::View
            | OpClass::Overlay
            | OpClass::Reduce
            | OpClass::Contract
            | OpClass::Gather,
            _,
        ) => unreachable!("V2: {} has the operands and attributes of its class", node.op),
    }
}
