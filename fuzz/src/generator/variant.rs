//! The same program at other extents.
//!
//! A plan serves every extent with the same relation pattern, so what a plan gets wrong may show only when a second
//! program meets it. Random programs hardly ever share structure; these do.

use std::collections::HashMap;

use systole_fusion::infer::infer;
use systole_fusion::ir::{Attrs, Literal, Opcode};
use systole_kernels::{Shape, TensorType};

use super::data;
use super::random::Random;
use crate::program::{Handle, Program, Step, regions};

/// Elements that one tensor of a variant may have.
const LARGEST: usize = 60_000;

impl Program {
    /// The same steps with every extent above 1 exchanged for another, equal ones for equal ones, on fresh data; `None`
    /// where an op does not allow it, as a reshape rarely does. Half of the variants exchange different extents for
    /// equal ones as chance will have it, which makes no new plan.
    pub fn variant(&self, seed: u64) -> Option<Program> {
        let mut random = Random::new(seed);
        let distinct = random.chance(50);
        let mut resizing = Resizing { random, distinct, extents: HashMap::new() };
        let mut types: HashMap<Handle, TensorType> = HashMap::new();
        let mut steps = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            let step = match step {
                Step::Upload { result, data } => {
                    // Indices could leave their dimension; a program that gathers has no variant.
                    let ty = TensorType { dtype: data.ty.dtype, shape: resizing.shape(&data.ty.shape) };
                    within(&ty)?;
                    Step::Upload { result: *result, data: data::data(&mut resizing.random, &ty) }
                }
                Step::Record { result, op, operands, attrs, body, picked } => {
                    let attrs = resizing.attrs(*op, attrs)?;
                    let operand_types: Vec<&TensorType> = operands.iter().map(|handle| &types[handle]).collect();
                    let regions = regions(body.as_ref(), &operand_types);
                    let ty = infer(*op, &operand_types, &attrs, &regions).ok()?.into_iter().nth(*picked as usize)?;
                    within(&ty)?;
                    types.insert(*result, ty);
                    let (operands, body) = (operands.clone(), body.clone());
                    Step::Record { result: *result, op: *op, operands, attrs, body, picked: *picked }
                }
                Step::Clone { result, of } => {
                    types.insert(*result, types[of].clone());
                    step.clone()
                }
                Step::Drop { .. } | Step::Read(_) | Step::Flush | Step::Synchronize | Step::Enter(_) => step.clone(),
            };
            if let Step::Upload { result, data } = &step {
                types.insert(*result, data.ty.clone());
            }
            steps.push(step);
        }
        Some(Program { name: format!("{}, resized by {seed}", self.name), steps })
    }
}

fn within(ty: &TensorType) -> Option<()> {
    (ty.shape.checked_elements()? <= LARGEST).then_some(())
}

struct Resizing {
    random: Random,
    /// Whether different extents stay different.
    distinct: bool,
    extents: HashMap<usize, usize>,
}

impl Resizing {
    fn extent(&mut self, extent: usize) -> usize {
        if extent < 2 {
            return extent;
        }
        if let Some(&known) = self.extents.get(&extent) {
            return known;
        }
        // Large stays large. Few numbers to choose from make different extents meet.
        let taken: Vec<usize> = self.extents.values().copied().collect();
        let new = loop {
            let candidate = match extent {
                0..100 if self.distinct => 2 + self.random.below(30),
                0..100 => 2 + self.random.below(4),
                _ => extent / 2 + self.random.below(extent),
            };
            if !self.distinct || !taken.contains(&candidate) {
                break candidate;
            }
        };
        self.extents.insert(extent, new);
        new
    }

    fn shape(&mut self, shape: &Shape) -> Shape {
        shape.iter().map(|&extent| self.extent(extent)).collect()
    }

    fn attrs(&mut self, op: Opcode, attrs: &Attrs) -> Option<Attrs> {
        Some(match attrs {
            // A start in the data could leave its dimension.
            Attrs::None if op == Opcode::DynamicUpdateSlice => return None,
            Attrs::DynamicSlice(_) => return None,
            Attrs::None
            | Attrs::Compare { .. }
            | Attrs::Convert(_)
            | Attrs::Transpose(_)
            | Attrs::Reverse(_)
            | Attrs::Concatenate(_)
            | Attrs::Reduce(_)
            | Attrs::Dot(_)
            | Attrs::Pad(_) => attrs.clone(),
            Attrs::Constant(literal) => {
                let ty = TensorType { dtype: literal.ty().dtype, shape: self.shape(&literal.ty().shape) };
                within(&ty)?;
                Attrs::Constant(match literal {
                    Literal::Splat(..) => Literal::Splat(ty.clone(), data::scalar(&mut self.random, ty.dtype)),
                    Literal::Dense(..) => {
                        let data = data::data(&mut self.random, &ty);
                        Literal::Dense(ty, data.bytes.into())
                    }
                })
            }
            Attrs::Iota { ty, dimension } => {
                let ty = TensorType { dtype: ty.dtype, shape: self.shape(&ty.shape) };
                Attrs::Iota { ty, dimension: *dimension }
            }
            Attrs::BroadcastInDim { shape, dimensions } => {
                Attrs::BroadcastInDim { shape: self.shape(shape), dimensions: dimensions.clone() }
            }
            Attrs::Reshape(shape) => Attrs::Reshape(self.shape(shape)),
            // Limits at the end stay at the end; others stay where they are, if the extent allows.
            Attrs::Slice(limits) => {
                let mut limits = limits.clone();
                for limit in &mut limits.limit {
                    if let Some(&resized) = self.extents.get(&usize::try_from(*limit).ok()?) {
                        *limit = resized as i64;
                    }
                }
                Attrs::Slice(limits)
            }
            Attrs::Gather(_) => {
                debug_assert_eq!(op, Opcode::Gather);
                return None;
            }
        })
    }
}
