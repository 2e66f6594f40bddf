//! Plans: the launches that compute a trace, in order, and when each buffer dies.
//!
//! A [`Plan`] is a pure function of a [`PlanKey`] and a [`PlanConfig`]; it holds no extents, and serves every trace
//! with that key. Values live in *slots*: the trace's inputs, then the results of each step. A step launches one fusion
//! group, or gives a buffer another shape for free.
//!
//! Unfused execution is the same code with a partition of single nodes ([`PlanConfig::fuse`]).

mod build;
mod display;
mod lifetimes;

use systole_kernels::program::BufferType;

use crate::canonical::{GroupKey, PlanKey};
use crate::ir::NodeId;
use crate::partition::NotFused;

/// What a plan depends on besides the key. Plans made under different configurations belong in different caches.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PlanConfig {
    /// Fuse; otherwise every node but reshapes is a launch of its own.
    pub fuse: bool,
}

impl Default for PlanConfig {
    fn default() -> Self {
        PlanConfig { fuse: true }
    }
}

/// A place for a value: inputs come first, in order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Slot(pub u32);

impl Slot {
    /// As an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A slot as an argument.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SlotUse {
    /// The slot.
    pub slot: Slot,
    /// The value dies with this step and may be overwritten by it: no later step reads it, no output holds it, and
    /// nobody outside may read it. Never set on an argument whose buffer is also another argument of the launch, under
    /// an alias. Even so a launch may donate only a buffer that nothing else holds: the caller may have passed one
    /// buffer as two inputs.
    pub last_use: bool,
}

/// One step of a plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Run a group.
    Launch(Box<Launch>),
    /// `to` is the buffer of `from` under another shape.
    Alias {
        /// The slot that exists.
        from: Slot,
        /// The new slot.
        to: Slot,
        /// The `reshape`.
        node: NodeId,
        /// As [`Launch::dead`].
        dead: Vec<Slot>,
    },
}

/// The launch of one group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Launch {
    /// The group; [`lower`](crate::lower::lower) gives its program.
    pub group: GroupKey,
    /// Mnemonics of its ops, joined by `+`.
    pub name: String,
    /// Arguments, in the order of the program's input buffers.
    pub inputs: Vec<SlotUse>,
    /// Results, in the order of the program's output buffers.
    pub outputs: Vec<Slot>,
    /// Launch parameter `n` of the program is parameter `params[n]` of the trace.
    pub params: Vec<u16>,
    /// Launch scalar `n` of the program is scalar `scalars[n]` of the trace.
    pub scalars: Vec<u16>,
    /// The nodes that it runs, in program order: those that compute, and the views and constants folded into them.
    pub nodes: Vec<NodeId>,
    /// For each output the node that computes it.
    pub output_nodes: Vec<NodeId>,
    /// For each argument a tensor with as many elements as the launch reads of it, at most all: of a slice, its own.
    pub reads: Vec<BufferType>,
    /// Slots that no later step reads, and that no output is: their handles can be dropped. A buffer with several slots
    /// lives as long as one of them.
    pub dead: Vec<Slot>,
}

impl Launch {
    /// The program's parameters, given the trace's.
    pub fn select_params(&self, params: &[i64]) -> Vec<i64> {
        self.params.iter().map(|&param| params[usize::from(param)]).collect()
    }

    /// The program's scalars, given the trace's.
    pub fn select_scalars(&self, scalars: &[u64]) -> Vec<u64> {
        self.scalars.iter().map(|&scalar| scalars[usize::from(scalar)]).collect()
    }
}

/// How a trace is computed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Per slot.
    types: Vec<BufferType>,
    /// Per slot, the first slot that has the same buffer.
    storages: Vec<Slot>,
    /// Per input.
    donatable: Vec<bool>,
    steps: Vec<Step>,
    outputs: Vec<Slot>,
    not_fused: Vec<NotFused>,
}

impl Plan {
    /// The plan of the traces with that key.
    pub fn build(key: &PlanKey, config: &PlanConfig) -> Plan {
        build::build(&key.decode(), config)
    }

    /// The steps, in an order that respects every dependency.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The launches, in order.
    pub fn launches(&self) -> impl Iterator<Item = &Launch> {
        self.steps.iter().filter_map(|step| match step {
            Step::Launch(launch) => Some(&**launch),
            Step::Alias { .. } => None,
        })
    }

    /// Number of launches.
    pub fn launch_count(&self) -> usize {
        self.launches().count()
    }

    /// Number of slots.
    pub fn slot_count(&self) -> usize {
        self.types.len()
    }

    /// Number of inputs: the first slots.
    pub fn input_count(&self) -> usize {
        self.donatable.len()
    }

    /// For each output of the trace the slot that holds it. A slot may occur twice, and may be an input.
    pub fn outputs(&self) -> &[Slot] {
        &self.outputs
    }

    /// The type of a slot's value, in the trace's parameters.
    pub fn ty(&self, slot: Slot) -> &BufferType {
        &self.types[slot.index()]
    }

    /// Producers and consumers that are not in one launch, and why.
    pub fn not_fused(&self) -> &[NotFused] {
        &self.not_fused
    }

    /// Most bytes that inputs, intermediates and outputs take at one time, if no launch reuses an argument in place.
    /// Buffers that may not be donated count throughout.
    pub fn peak_bytes(&self, params: &[i64]) -> u64 {
        lifetimes::peak_bytes(self, params)
    }

    /// Bytes that each launch reads plus those it writes, summed over launches. What a launch reads several times counts
    /// once; of a buffer that it sees only a slice of, or gathers from, only so much counts.
    pub fn bytes_moved(&self, params: &[i64]) -> u64 {
        lifetimes::bytes_moved(self, params)
    }
}
