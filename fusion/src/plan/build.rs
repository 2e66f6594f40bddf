//! From a partition to steps: what each launch is called, reads, writes and leaves dead.

use smallvec::SmallVec;
use systole_kernels::program::{BufferType, Extent};

use super::{Launch, Plan, PlanConfig, Slot, SlotUse, Step, lifetimes};
use crate::access::{Accesses, Path, Root, moves_only};
use crate::canonical::SymbolicTrace;
use crate::ir::{NodeId, OpClass, ValueId};
use crate::lower::group_name;
use crate::partition::{Part, partition};

/// The plan of a trace.
pub(super) fn build(trace: &SymbolicTrace, config: &PlanConfig) -> Plan {
    let accesses = Accesses::of(trace, config.fuse);
    let partition = partition(trace, &accesses, config.fuse);
    let inputs = trace.inputs.len();
    let mut slots = Slots { of: vec![None; inputs + trace.nodes.len()], values: Vec::new(), storages: Vec::new() };
    for input in 0..inputs as u32 {
        slots.open(ValueId(input), None);
    }
    let mut steps = Vec::with_capacity(partition.parts.len());
    for part in &partition.parts {
        steps.push(match part {
            Part::Alias(node) => {
                let from = slots.get(trace.nodes[*node as usize].operands[0]);
                let to = slots.open(trace.result(*node as usize), Some(from));
                Step::Alias { from, to, node: NodeId(*node), dead: Vec::new() }
            }
            Part::Group(members) => Step::Launch(Box::new(launch(trace, &accesses, members, &mut slots))),
        });
    }
    let mut plan = Plan {
        types: slots.values.iter().map(|&value| trace.ty(value).clone()).collect(),
        storages: slots.storages.clone(),
        donatable: trace.inputs.iter().map(|input| input.donatable).collect(),
        steps,
        outputs: trace.outputs.iter().map(|&output| slots.get(output)).collect(),
        not_fused: partition.not_fused,
    };
    lifetimes::mark(&mut plan);
    plan
}

/// Which slot holds each value, and which share a buffer.
struct Slots {
    of: Vec<Option<Slot>>,
    values: Vec<ValueId>,
    /// Per slot, the first slot with its buffer.
    storages: Vec<Slot>,
}

impl Slots {
    fn open(&mut self, value: ValueId, alias_of: Option<Slot>) -> Slot {
        let slot = Slot(self.values.len() as u32);
        self.values.push(value);
        self.storages.push(alias_of.map_or(slot, |from| self.storages[from.index()]));
        self.of[value.index()] = Some(slot);
        slot
    }

    fn get(&self, value: ValueId) -> Slot {
        self.of[value.index()].expect("steps come after those they depend on")
    }
}

fn launch(trace: &SymbolicTrace, accesses: &Accesses, members: &[u32], slots: &mut Slots) -> Launch {
    let inside = |node: u32| members.binary_search(&node).is_ok();
    let mut nodes = members.to_vec();
    let mut inputs: SmallVec<[ValueId; 8]> = SmallVec::new();
    let mut numbers: SmallVec<[(u32, u16); 8]> = SmallVec::new();
    let mut reads: Vec<BufferType> = Vec::new();
    for &node in members {
        for (operand, path) in accesses.paths(node as usize).iter().enumerate() {
            match (path.root, path.via.first()) {
                // A number is a number: the views of a constant on the way to it are left out.
                (Root::Splat(scalar), Some(&view)) => {
                    nodes.push(view);
                    numbers.push((view, scalar));
                }
                (Root::Splat(_) | Root::Iota(_) | Root::Value(_), _) => nodes.extend(&path.via),
            }
            let Some(value) = path.value() else { continue };
            if trace.producer(value).is_some_and(|node| inside(node as u32)) {
                continue;
            }
            let part = part_read(trace, node, operand, value, path);
            match inputs.iter().position(|&known| known == value) {
                Some(known) if reads[known] != part => reads[known] = trace.ty(value).clone(),
                Some(_) => {}
                None => {
                    inputs.push(value);
                    reads.push(part);
                }
            }
        }
    }
    nodes.sort_unstable();
    nodes.dedup();
    // A source or reshape whose buffer one member reads can be a view on another member's path: the buffer serves both.
    nodes.retain(|&node| inside(node) || !inputs.contains(&trace.result(node as usize)));
    let escapes = |&node: &u32| {
        accesses.is_pinned(node as usize) || !accesses.users(node as usize).iter().all(|&user| inside(user))
    };
    let kept: Vec<u32> = members.iter().copied().filter(escapes).collect();
    let outputs: Vec<ValueId> = kept.iter().map(|&node| trace.result(node as usize)).collect();
    let keyed = trace.cut(&nodes, &numbers, &inputs, &outputs);
    Launch {
        group: keyed.key,
        name: group_name(members.iter().map(|&node| trace.nodes[node as usize].op)),
        inputs: inputs.iter().map(|&value| SlotUse { slot: slots.get(value), last_use: false }).collect(),
        outputs: outputs.iter().map(|&value| slots.open(value, None)).collect(),
        reads,
        params: keyed.params,
        scalars: keyed.scalars,
        nodes: nodes.into_iter().map(NodeId).collect(),
        output_nodes: kept.into_iter().map(NodeId).collect(),
        dead: Vec::new(),
    }
}

/// A tensor with as many elements as a member reads of a value: as many as the view has that it reads it through; of
/// what it gathers from, as many as it gathers.
fn part_read(trace: &SymbolicTrace, node: u32, operand: usize, value: ValueId, path: &Path) -> BufferType {
    let symbolic = &trace.nodes[node as usize];
    let dtype = trace.ty(value).dtype;
    if symbolic.op.class() == OpClass::Gather && operand == 0 {
        return BufferType { dtype, shape: symbolic.ty.shape.clone() };
    }
    // A copied view is read in terms of its own dimensions.
    let near = if moves_only(symbolic) { &symbolic.ty } else { trace.ty(symbolic.operands[operand]) };
    let extent = |dim: Option<u8>| dim.map_or(Extent::ONE, |dim| near.shape[usize::from(dim)]);
    BufferType { dtype, shape: path.dims.iter().map(|dim| extent(dim.dim)).collect() }
}
