//! What a program must give, from the reference interpreter.

use std::collections::HashMap;

use systole_fusion::ir::{Attrs, GatherDims, Opcode, ValueId};
use systole_fusion::reference::{HostTensor, interpret_on};
use systole_kernels::arithmetic::Arithmetic;
use systole_kernels::{DType, Scalar};

use crate::program::{Handle, Program, Step, Straight};

/// What a program must give.
pub(super) struct Expectation {
    pub(super) straight: Straight,
    values: Vec<HostTensor>,
    /// The step and op that made each handle's value.
    makers: HashMap<Handle, (usize, Opcode)>,
    /// The first op with an index out of range: debug mode stops there.
    pub(super) stray: Option<usize>,
}

impl Expectation {
    pub(super) fn of(program: &Program, arithmetic: Arithmetic) -> Result<Self, String> {
        let mut straight = program.straighten()?;
        (0..straight.trace.values().len() as u32).for_each(|value| straight.trace.output(ValueId(value)));
        let values = interpret_on(arithmetic, &straight.trace, &straight.inputs).map_err(|error| error.to_string())?;
        let mut expectation = Expectation { straight, values, makers: HashMap::new(), stray: None };
        for (at, step) in program.steps.iter().enumerate() {
            match step {
                Step::Record { result, op, operands, attrs, .. } => {
                    expectation.makers.insert(*result, (at, *op));
                    if expectation.stray.is_none() {
                        let operands: Vec<&HostTensor> =
                            operands.iter().map(|&operand| expectation.value(operand)).collect();
                        expectation.stray = strays(*op, &operands, attrs).then_some(at);
                    }
                }
                Step::Clone { result, of } => {
                    if let Some(&maker) = expectation.makers.get(of) {
                        expectation.makers.insert(*result, maker);
                    }
                }
                Step::Upload { .. } | Step::Drop { .. } | Step::Read(_) => {}
                Step::Flush | Step::Synchronize | Step::Enter(_) => {}
            }
        }
        Ok(expectation)
    }

    /// What a handle holds.
    pub(super) fn value(&self, handle: Handle) -> &HostTensor {
        &self.values[self.straight.values[&handle].index()]
    }

    /// The step and op that made it, unless it was uploaded.
    pub(super) fn maker(&self, handle: Handle) -> Option<(usize, Opcode)> {
        self.makers.get(&handle).copied()
    }

    /// What each handle holds.
    pub(super) fn into_values(self) -> HashMap<Handle, HostTensor> {
        self.straight.values.iter().map(|(&handle, value)| (handle, self.values[value.index()].clone())).collect()
    }
}

/// Whether a start index lies outside its operand.
fn strays(op: Opcode, operands: &[&HostTensor], attrs: &Attrs) -> bool {
    let outside = |starts: &[&HostTensor], sizes: &[i64]| {
        let limits = operands[0].ty.shape.iter().zip(sizes).map(|(&extent, &size)| extent as i64 - size);
        starts.iter().zip(limits).any(|(start, limit)| !(0..=limit).contains(&integer(start.scalars()[0])))
    };
    match attrs {
        Attrs::Gather(dims) => gather_strays(operands[0], operands[1], dims),
        Attrs::DynamicSlice(sizes) => outside(&operands[1..], sizes),
        Attrs::None if op == Opcode::DynamicUpdateSlice => {
            let sizes: Vec<i64> = operands[1].ty.shape.iter().map(|&extent| extent as i64).collect();
            outside(&operands[2..], &sizes)
        }
        _ => false,
    }
}

fn gather_strays(operand: &HostTensor, indices: &HostTensor, dims: &GatherDims) -> bool {
    let vector = dims.index_vector_dim as usize;
    let shape = &indices.ty.shape;
    let inner: usize = shape.iter().skip(vector + 1).product();
    let components = shape.get(vector).copied().unwrap_or(1);
    indices.scalars().into_iter().enumerate().any(|(at, index)| {
        let dimension = dims.start_index_map[at / inner % components] as usize;
        let limit = operand.ty.shape[dimension] as i64 - dims.slice_sizes[dimension];
        !(0..=limit).contains(&integer(index))
    })
}

fn integer(index: Scalar) -> i64 {
    match index.dtype() {
        DType::I32 => i64::from(index.bits() as u32 as i32),
        DType::U32 | DType::Bool => index.bits() as i64,
        DType::I64 => index.bits() as i64,
        DType::F16 | DType::BF16 | DType::F32 => unreachable!("inference admits no float indices"),
    }
}
