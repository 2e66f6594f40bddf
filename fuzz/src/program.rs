//! Programs: the steps that a user's code would take.
//!
//! A step that makes a tensor names its handle; later steps refer to it. Handles are names and not positions, so a
//! step can be taken out of a program without renaming the others.

use std::collections::HashMap;
use std::fmt;

use systole_fusion::infer::infer;
use systole_fusion::ir::region::{Body, as_body, body_region};
use systole_fusion::ir::{Attrs, Opcode, Origin, Region, Trace, ValueId};
use systole_fusion::reference::HostTensor;
use systole_kernels::{DType, TensorType};

/// The name of a tensor handle within a program.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Handle(pub u32);

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t{}", self.0)
    }
}

/// One call of the user's program.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    /// Upload data.
    Upload {
        /// The handle made.
        result: Handle,
        /// The data.
        data: HostTensor,
    },
    /// Record an op.
    Record {
        /// The handle made.
        result: Handle,
        /// The op.
        op: Opcode,
        /// Its operands; all are live here.
        operands: Vec<Handle>,
        /// Its attributes.
        attrs: Attrs,
        /// The body, for a reduce.
        body: Option<Body>,
        /// Which of the op's results the handle is; the others are dropped at once.
        picked: u32,
    },
    /// Clone a handle.
    Clone {
        /// The handle made.
        result: Handle,
        /// What it is a clone of.
        of: Handle,
    },
    /// Drop a handle.
    Drop {
        /// Which.
        handle: Handle,
        /// Whether another thread drops it, at whatever time it gets to it.
        elsewhere: bool,
    },
    /// Read a tensor.
    Read(Handle),
    /// Flush the current stream.
    Flush,
    /// Synchronize the current stream.
    Synchronize,
    /// Record in another stream from here on.
    Enter(u8),
}

impl Step {
    /// The handle that the step makes.
    pub fn result(&self) -> Option<Handle> {
        match self {
            Step::Upload { result, .. } | Step::Record { result, .. } | Step::Clone { result, .. } => Some(*result),
            Step::Drop { .. } | Step::Read(_) | Step::Flush | Step::Synchronize | Step::Enter(_) => None,
        }
    }

    /// The handles that the step uses.
    pub fn uses(&self) -> &[Handle] {
        match self {
            Step::Record { operands, .. } => operands,
            Step::Clone { of: handle, .. } | Step::Drop { handle, .. } | Step::Read(handle) => {
                std::slice::from_ref(handle)
            }
            Step::Upload { .. } | Step::Flush | Step::Synchronize | Step::Enter(_) => &[],
        }
    }
}

/// A program: steps in order. Whatever is live at the end is read then.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Program {
    /// Where it came from, for people.
    pub name: String,
    /// The steps.
    pub steps: Vec<Step>,
}

/// A program as one trace: what it computes, without when.
pub struct Straight {
    /// The trace. Its inputs are the uploads; nothing is an output yet.
    pub trace: Trace,
    /// The inputs' data.
    pub inputs: Vec<HostTensor>,
    /// The value behind each handle.
    pub values: HashMap<Handle, ValueId>,
}

impl Program {
    /// Number of ops recorded.
    pub fn ops(&self) -> usize {
        self.steps.iter().filter(|step| matches!(step, Step::Record { .. })).count()
    }

    /// The first `ops` ops, and the steps between them.
    #[must_use]
    pub fn truncated(&self, ops: usize) -> Self {
        let mut left = ops;
        let steps = self.steps.iter().take_while(|step| match step {
            Step::Record { .. } => {
                left = left.wrapping_sub(1);
                left != usize::MAX
            }
            Step::Upload { .. } | Step::Clone { .. } | Step::Drop { .. } => true,
            Step::Read(_) | Step::Flush | Step::Synchronize | Step::Enter(_) => true,
        });
        Program { name: format!("{} (first {ops} ops)", self.name), steps: steps.cloned().collect() }
    }

    /// The ops as one trace.
    ///
    /// # Errors
    /// A step uses a handle that is not live, makes one twice, or an op that does not fit its operands; the program
    /// did not come from [`generate`](crate::generate) as it is.
    pub fn straighten(&self) -> Result<Straight, String> {
        let mut inputs = Vec::new();
        let mut types = HashMap::new();
        for step in &self.steps {
            if let Step::Upload { result, data } = step {
                if data.ty.checked_byte_len() != Some(data.bytes.len()) {
                    return Err(format!("{result}: {} bytes for {}", data.bytes.len(), data.ty));
                }
                inputs.push((*result, data));
            }
        }
        // Inputs come first, as they do in text; program order of the ops stays.
        let mut trace = Trace::new();
        let mut values = HashMap::new();
        for (handle, data) in &inputs {
            values.insert(*handle, trace.input(data.ty.clone()));
        }
        for (at, step) in self.steps.iter().enumerate() {
            for handle in step.uses() {
                if !types.contains_key(handle) {
                    return Err(format!("step {at} uses {handle}, which is not live"));
                }
            }
            match step {
                Step::Upload { .. } | Step::Read(_) | Step::Flush | Step::Synchronize | Step::Enter(_) => {}
                Step::Record { result, op, operands, attrs, body, picked } => {
                    let operand_types: Vec<&TensorType> = operands.iter().map(|handle| &types[handle]).collect();
                    let regions: Vec<Region> = regions(body.as_ref(), &operand_types);
                    let results =
                        infer(*op, &operand_types, attrs, &regions).map_err(|error| format!("step {at}: {error}"))?;
                    if *picked as usize >= results.len() {
                        return Err(format!("step {at}: {op} has no result {picked}"));
                    }
                    let operands: Vec<ValueId> = operands.iter().map(|handle| values[handle]).collect();
                    let origin = origin(at);
                    let value = trace
                        .push(*op, operands, attrs.clone(), regions, origin)
                        .map_err(|error| format!("step {at}: {error}"))?;
                    values.insert(*result, ValueId(value.0 + picked));
                }
                Step::Clone { result, of } => {
                    values.insert(*result, values[of]);
                }
                Step::Drop { handle, .. } => {
                    types.remove(handle);
                }
            }
            if let Some(result) = step.result()
                && types.insert(result, trace.ty(values[&result]).clone()).is_some()
            {
                return Err(format!("step {at} makes {result} again"));
            }
        }
        let inputs = inputs.into_iter().map(|(_, data)| data.clone()).collect();
        Ok(Straight { trace, inputs, values })
    }
}

/// The origin of the op that step `at` records.
pub fn origin(at: usize) -> Origin {
    Origin::Named(format!("step {at}").into())
}

/// The regions of an op with that body on those operands.
pub fn regions(body: Option<&Body>, operands: &[&TensorType]) -> Vec<Region> {
    let dtypes: Vec<DType> = operands[..operands.len() / 2].iter().map(|ty| ty.dtype).collect();
    body.filter(|_| !dtypes.is_empty()).map(|body| body_region(body, &dtypes)).into_iter().collect()
}

/// The body that a node's regions spell.
pub fn body(regions: &[Region]) -> Option<Body> {
    regions.first().and_then(|region| as_body(region))
}
