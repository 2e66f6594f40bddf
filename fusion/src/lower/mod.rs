//! From a fusion group to its tile program.
//!
//! A group's key is decoded, [`legality`](crate::legality) gives its index space, and each member becomes an
//! instruction or two over it; views have become accesses or nothing. Loads, launch scalars and iotas that are asked
//! for twice are emitted once. Nothing here depends on extents, so a group is lowered once for all sizes.
//!
//! Rounding, NaN canonicalisation and the order of sums are the instructions' business; no op is rewritten.

mod contract;
mod movement;

use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};
use systole_kernels::DType;
use systole_kernels::program::{
    Access, BufferType, DimMap, Extent, Instr, LaneOp, Program, ReduceAlong, Reg, RegType, Vary,
};

use crate::access::{Accesses, Path, Role, Root};
use crate::canonical::{GroupKey, SymbolicAttrs, SymbolicNode, SymbolicTrace};
use crate::ir::{Opcode, ValueId};
use crate::legality::{GroupSpace, Map, analyse};

/// Longest name that [`group_name`] gives, but for the count at its end.
const NAME_LENGTH: usize = 60;

/// The mnemonics joined by `+`; where that would be long, the first of them and the number of the others.
pub(crate) fn group_name(ops: impl IntoIterator<Item = Opcode>) -> String {
    let ops: Vec<Opcode> = ops.into_iter().collect();
    let mut name = String::new();
    for (i, op) in ops.iter().enumerate() {
        let mnemonic = op.mnemonic();
        if i > 0 && name.len() + 1 + mnemonic.len() > NAME_LENGTH {
            return format!("{name}+{}more", ops.len() - i);
        }
        if i > 0 {
            name.push('+');
        }
        name.push_str(mnemonic);
    }
    name
}

/// The program of a group.
///
/// # Panics
/// The key is not one that [`Plan::build`](crate::plan::Plan::build) made.
pub fn lower(group: &GroupKey) -> Program {
    let trace = group.decode();
    let accesses = Accesses::of(&trace, true);
    let members: Vec<u32> =
        (0..trace.nodes.len() as u32).filter(|&node| accesses.role(node as usize) == Role::Member).collect();
    let is_output = |node: u32| trace.outputs.contains(&trace.result(node as usize));
    let space = match analyse(&trace, &accesses, &members, is_output) {
        Ok(space) => space.layout(&trace, &accesses, &members),
        Err(refusal) => panic!("a planned group is legal: {refusal}"),
    };
    let mut lowering = Lowering::new(&trace, &accesses, &space);
    for (member, &node) in members.iter().enumerate() {
        lowering.emit(member, node as usize);
    }
    for (output, &value) in trace.outputs.iter().enumerate() {
        let node = trace.producer(value).expect("a group computes its outputs");
        let member = members.binary_search(&(node as u32)).expect("what is kept is a member");
        lowering.store(output, value, &space.placed[member].result);
    }
    lowering.finish(group_name(members.iter().map(|&node| trace.nodes[node as usize].op)))
}

/// What is emitted once.
#[derive(PartialEq, Eq, Hash)]
enum Shared {
    Load(Access),
    Scalar(u16),
    Iota(u8, DType),
}

struct Lowering<'a> {
    trace: &'a SymbolicTrace,
    accesses: &'a Accesses,
    space: &'a GroupSpace,
    /// Registers of the members' results.
    values: FxHashMap<ValueId, Reg>,
    shared: FxHashMap<Shared, Reg>,
    regs: Vec<RegType>,
    body: Vec<Instr>,
}

impl<'a> Lowering<'a> {
    fn new(trace: &'a SymbolicTrace, accesses: &'a Accesses, space: &'a GroupSpace) -> Self {
        Lowering {
            trace,
            accesses,
            space,
            values: FxHashMap::default(),
            shared: FxHashMap::default(),
            regs: Vec::new(),
            body: Vec::new(),
        }
    }

    fn finish(self, name: String) -> Program {
        let inputs = self.trace.inputs.iter().map(|input| input.ty.clone());
        let outputs = self.trace.outputs.iter().map(|&output| self.trace.ty(output).clone());
        Program {
            name,
            params: self.trace.params,
            scalars: self.trace.scalars.clone(),
            buffers: inputs.chain(outputs).collect(),
            inputs: self.trace.inputs.len() as u16,
            domain: self.space.domain.clone(),
            reduce: self.space.reduce,
            contract: self.space.contract.clone(),
            regs: self.regs,
            body: self.body,
        }
    }

    fn emit(&mut self, member: usize, node: usize) {
        let symbolic = &self.trace.nodes[node];
        let dtype = symbolic.ty.dtype;
        let reg = match &symbolic.attrs {
            SymbolicAttrs::Splat(_)
            | SymbolicAttrs::Iota(_)
            | SymbolicAttrs::BroadcastInDim(_)
            | SymbolicAttrs::Transpose(_)
            | SymbolicAttrs::Slice { .. }
            | SymbolicAttrs::Reverse { .. } => self.operand(member, node, 0),
            SymbolicAttrs::None if symbolic.op == Opcode::Reshape => self.operand(member, node, 0),
            SymbolicAttrs::None if symbolic.op == Opcode::DynamicSlice => self.dynamic_slice(member, node),
            SymbolicAttrs::None if symbolic.op == Opcode::DynamicUpdateSlice => self.dynamic_update_slice(member, node),
            SymbolicAttrs::None => {
                let op = symbolic.op.info().lane.expect("an op without attributes is a lane function");
                self.lane_node(op, member, node, dtype)
            }
            SymbolicAttrs::Compare(direction, order) => {
                self.lane_node(LaneOp::Compare(*direction, *order), member, node, dtype)
            }
            SymbolicAttrs::Reduce(monoid, _) => {
                let src = self.operand(member, node, 0);
                let init = self.operand(member, node, 1);
                let dst = self.reduced(dtype, self.regs[usize::from(src.0)].vary);
                self.body.push(Instr::Reduce { monoid: *monoid, dst, src, init });
                dst
            }
            SymbolicAttrs::ArgReduce(extreme, winner, _) => {
                let [values, indices, value, index] = [0, 1, 2, 3].map(|i| self.operand(member, node, i));
                let vary = self.regs[usize::from(values.0)].vary.join(self.regs[usize::from(indices.0)].vary);
                let dst = self.reduced(dtype, vary);
                let (extreme, wanted, init) = (*extreme, *winner, (value, index));
                self.body.push(Instr::ArgReduce { extreme, wanted, dst, values, indices, init });
                dst
            }
            SymbolicAttrs::Dot(dims) => self.dot(member, node, dims),
            SymbolicAttrs::Gather(dims, sizes) => self.gather(member, node, dims, sizes),
            SymbolicAttrs::Pad { low, interior } => self.pad(member, node, low, interior),
            SymbolicAttrs::Concatenate { dimension, offsets } => self.concatenate(member, node, *dimension, offsets),
        };
        self.values.insert(self.trace.result(node), reg);
    }

    /// A register for what a reduction leaves of operands that vary so.
    fn reduced(&mut self, dtype: DType, vary: Vary) -> Reg {
        let along = self.space.reduce.expect("a group with a reduction has a direction");
        let left = match along {
            ReduceAlong::Cols => Vary { cols: false, ..vary },
            ReduceAlong::Rows => Vary { rows: false, ..vary },
        };
        self.reg(dtype, left)
    }

    fn lane_node(&mut self, op: LaneOp, member: usize, node: usize, dtype: DType) -> Reg {
        let operands = self.trace.nodes[node].operands.len();
        let args = (0..operands).map(|i| self.operand(member, node, i)).collect();
        self.lane(op, args, dtype)
    }

    fn lane(&mut self, op: LaneOp, args: SmallVec<[Reg; 3]>, dtype: DType) -> Reg {
        let vary = args.iter().fold(Vary::NONE, |vary, arg| vary.join(self.regs[usize::from(arg.0)].vary));
        let dst = self.reg(dtype, vary);
        self.body.push(Instr::Lane { op, dst, args });
        dst
    }

    /// A member's operand in a register.
    fn operand(&mut self, member: usize, node: usize, operand: usize) -> Reg {
        let accesses = self.accesses;
        let space = self.space;
        let path = &accesses.paths(node)[operand];
        let symbolic = &self.trace.nodes[node];
        self.read(path, &space.placed[member].input, self.operand_dtype(symbolic, operand))
    }

    fn operand_dtype(&self, symbolic: &SymbolicNode, operand: usize) -> DType {
        // A source has no operand: it is read as itself.
        symbolic.operands.get(operand).map_or(symbolic.ty.dtype, |&value| self.trace.ty(value).dtype)
    }

    fn read(&mut self, path: &Path, map: &Map, dtype: DType) -> Reg {
        match path.root {
            Root::Splat(slot) => self.share(Shared::Scalar(slot), dtype),
            Root::Iota(dimension) => {
                let along = path.dims[usize::from(dimension)].dim;
                let axis = along.and_then(|dim| map[usize::from(dim)]).or(self.space.unit);
                self.iota(axis.expect("a still iota has the unit axis"), dtype)
            }
            Root::Value(value) => match self.values.get(&value) {
                Some(&reg) => reg,
                None => {
                    let access = self.access(path, |dim| map[usize::from(dim)]);
                    self.share(Shared::Load(access), dtype)
                }
            },
        }
    }

    fn iota(&mut self, axis: u8, dtype: DType) -> Reg {
        self.share(Shared::Iota(axis, dtype), dtype)
    }

    fn share(&mut self, shared: Shared, dtype: DType) -> Reg {
        if let Some(&reg) = self.shared.get(&shared) {
            return reg;
        }
        let instr = |dst: Reg| match &shared {
            Shared::Load(access) => Instr::Load { dst, access: access.clone() },
            Shared::Scalar(slot) => Instr::Scalar { dst, slot: *slot },
            Shared::Iota(axis, _) => Instr::Iota { dst, axis: *axis },
        };
        let vary = match &shared {
            Shared::Load(access) => self.vary(access.dims.iter().filter_map(|dim| dim.axis)),
            Shared::Scalar(_) => Vary::NONE,
            Shared::Iota(axis, _) => self.vary([*axis]),
        };
        let dst = self.reg(dtype, vary);
        self.body.push(instr(dst));
        self.shared.insert(shared, dst);
        dst
    }

    /// The view of a buffer that a path is, where `axis_of` gives the axis of each dimension at the path's near end.
    fn access(&self, path: &Path, axis_of: impl Fn(u8) -> Option<u8>) -> Access {
        let value = path.value().expect("only values are in buffers");
        let extents = &self.trace.ty(value).shape;
        let dims = path.dims.iter().zip(extents).map(|(dim, &extent)| {
            let axis = dim.dim.and_then(&axis_of);
            match axis {
                Some(_) => DimMap { axis, start: dim.start, step: dim.step },
                // Nothing moves along the dimension, so its step is nobody's business.
                None if extent == Extent::ONE => DimMap::fixed(),
                None => DimMap { axis: None, start: dim.start, step: Extent::ONE },
            }
        });
        Access { buffer: value.0 as u16, dims: dims.collect() }
    }

    fn store(&mut self, output: usize, value: ValueId, map: &Map) {
        let src = self.values[&value];
        let dims = map.iter().map(|axis| axis.map_or_else(DimMap::fixed, DimMap::along)).collect();
        let buffer = (self.trace.inputs.len() + output) as u16;
        self.body.push(Instr::Store { src, access: Access { buffer, dims } });
    }

    fn reg(&mut self, dtype: DType, vary: Vary) -> Reg {
        self.regs.push(RegType { dtype, vary });
        Reg((self.regs.len() - 1) as u16)
    }

    fn vary(&self, axes: impl IntoIterator<Item = u8>) -> Vary {
        let domain = &self.space.domain;
        let rows = domain.outer.len();
        let cols = rows + domain.rows.len();
        axes.into_iter().map(usize::from).fold(Vary::NONE, |vary, axis| Vary {
            rows: vary.rows || (rows..cols).contains(&axis),
            cols: vary.cols || (cols..domain.rank()).contains(&axis),
        })
    }

    /// The type of a group's input, which is what an operand read from memory is.
    fn buffer_ty(&self, path: &Path) -> &'a BufferType {
        self.trace.ty(path.value().expect("an operand that needs a buffer has one"))
    }
}

/// Registers of one operand.
fn unary(arg: Reg) -> SmallVec<[Reg; 3]> {
    smallvec![arg]
}
