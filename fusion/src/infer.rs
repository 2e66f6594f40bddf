//! Result types from op, operand types, attributes and regions; the only source of shape and dtype errors.

use std::fmt;

use smallvec::SmallVec;
use systole_kernels::TensorType;

use crate::ir::{Attrs, Opcode, Region};

/// Operands that do not fit an op.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TypeError {
    op: Opcode,
    operands: Vec<TensorType>,
    reason: String,
}

impl TypeError {
    /// The op.
    pub fn op(&self) -> Opcode {
        self.op
    }

    /// The operand types.
    pub fn operands(&self) -> &[TensorType] {
        &self.operands
    }

    /// What does not fit, in words and values.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl fmt::Display for TypeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(", self.op)?;
        for (i, ty) in self.operands.iter().enumerate() {
            write!(f, "{}{ty}", if i > 0 { ", " } else { "" })?;
        }
        write!(f, "): {}", self.reason)
    }
}

impl std::error::Error for TypeError {}

/// The result types.
///
/// # Errors
/// Number or types of operands, attributes or regions break a constraint of the op in StableHLO's specification.
pub fn infer(
    op: Opcode,
    operands: &[&TensorType],
    _attrs: &Attrs,
    _regions: &[Region],
) -> Result<SmallVec<[TensorType; 1]>, TypeError> {
    Err(TypeError { op, operands: operands.iter().map(|&ty| ty.clone()).collect(), reason: String::from("not inferred yet") })
}
