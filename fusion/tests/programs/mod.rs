//! Runs plans: every launch on the tile machine's own definition, spelled out with the reference interpreter.
//!
//! A register is a tensor over the whole domain, `[outer, rows, cols]`; each instruction is one op of a little trace.
//! That is slow, and independent of how the machine tiles.

use systole_fusion::canonical::canonicalize;
use systole_fusion::ir::region::{arg_region, monoid_region};
use systole_fusion::ir::{Attrs, DotDims, Opcode, Origin, Region, Trace, ValueId};
use systole_fusion::lower::lower;
use systole_fusion::plan::{Plan, PlanConfig, SlotUse, Step};
use systole_fusion::reference::{HostTensor, interpret};
use systole_kernels::machine::{Input, Machine};
use systole_kernels::memory::Block;
use systole_kernels::parallel::Inline;
use systole_kernels::program::{
    Access, DimMap, Extent, IndexSource, Instr, LaneOp, Low, Placement, Program, ReduceAlong, Reg, Vary, Winner,
};
use systole_kernels::simd::Isa;
use systole_kernels::{DType, Scalar, TensorType};

/// Runs one program; the flags say which inputs may be overwritten.
pub(crate) type Runner = fn(&Program, &[i64], &[u64], &[(&HostTensor, bool)]) -> Vec<HostTensor>;

/// The outputs of a trace by way of key, plan and programs.
///
/// Values that a plan says are dead are gone here, so a plan that lets one die too early panics.
pub(crate) fn run(
    trace: &Trace,
    inputs: &[HostTensor],
    donatable: bool,
    fuse: bool,
    runner: Runner,
) -> Vec<HostTensor> {
    let keyed = canonicalize(trace, &vec![donatable; inputs.len()]).expect("a plain trace has a key");
    let plan = Plan::build(&keyed.key, &PlanConfig { fuse });
    let mut slots: Vec<Option<HostTensor>> = inputs.iter().cloned().map(Some).collect();
    slots.resize(plan.slot_count(), None);
    for step in plan.steps() {
        let dead = match step {
            Step::Alias { from, to, dead, .. } => {
                let value = slots[from.index()].clone().expect("an alias is of a live value");
                slots[to.index()] = Some(HostTensor { ty: plan.ty(*to).resolve(&keyed.params), ..value });
                dead
            }
            Step::Launch(launch) => {
                let program = lower(&launch.group);
                assert_eq!(program.name, launch.name);
                let argument = |input: &SlotUse| {
                    (slots[input.slot.index()].as_ref().expect("an argument is live"), input.last_use)
                };
                let arguments: Vec<(&HostTensor, bool)> = launch.inputs.iter().map(argument).collect();
                let params = launch.select_params(&keyed.params);
                let scalars = launch.select_scalars(&keyed.scalars);
                let results = runner(&program, &params, &scalars, &arguments);
                assert_eq!(results.len(), launch.outputs.len());
                for (&slot, result) in launch.outputs.iter().zip(results) {
                    assert_eq!(plan.ty(slot).resolve(&keyed.params), result.ty);
                    slots[slot.index()] = Some(result);
                }
                for input in launch.inputs.iter().filter(|input| input.last_use) {
                    assert!(launch.dead.contains(&input.slot), "what may be overwritten is dead");
                }
                &launch.dead
            }
        };
        for slot in dead {
            assert!(slots[slot.index()].take().is_some(), "a value dies once");
        }
    }
    plan.outputs().iter().map(|slot| slots[slot.index()].clone().expect("an output is live")).collect()
}

/// One op by the reference interpreter.
fn op(op: Opcode, operands: &[&HostTensor], attrs: Attrs, regions: &[Region]) -> HostTensor {
    let mut trace = Trace::new();
    let ids: Vec<_> = operands.iter().map(|operand| trace.input(operand.ty.clone())).collect();
    let result = trace.push(op, ids, attrs, regions.iter().cloned(), Origin::Unknown).expect("an instruction is typed");
    trace.output(result);
    let inputs: Vec<_> = operands.iter().map(|&operand| operand.clone()).collect();
    interpret(&trace, &inputs).expect("an instruction is an op").remove(0)
}

/// A program on the machine, in place wherever that is allowed.
pub(crate) fn on_machine(
    program: &Program,
    params: &[i64],
    scalars: &[u64],
    inputs: &[(&HostTensor, bool)],
) -> Vec<HostTensor> {
    let machine = Machine::new(program.clone(), Isa::best()).expect("what is lowered is valid");
    let types = machine.program().output_types(params);
    let block = |len: usize| Block::new(len).expect("the host has memory");
    let mut outputs: Vec<Block> = types.iter().map(|ty| block(ty.byte_len())).collect();
    // Over an empty domain nothing is read and overwritten, so nothing is gained in place.
    let empty = program.domain.axes().any(|extent| extent.resolve(params) == 0);
    let mut reused = vec![None; inputs.len()];
    let mut taken = vec![false; outputs.len()];
    for &(input, output) in machine.in_place() {
        let (tensor, last_use) = inputs[usize::from(input)];
        let place = &mut taken[usize::from(output)];
        let fits = tensor.bytes.len() == outputs[usize::from(output)].len() && !empty;
        if last_use && fits && !*place && reused[usize::from(input)].is_none() {
            *place = true;
            reused[usize::from(input)] = Some(output);
            outputs[usize::from(output)].bytes_mut().copy_from_slice(&tensor.bytes);
        }
    }
    let blocks: Vec<Block> =
        inputs.iter().map(|(input, _)| Block::from_bytes(&input.bytes).expect("the host has memory")).collect();
    let arguments: Vec<Input<'_>> = blocks
        .iter()
        .zip(&reused)
        .map(|(block, &output)| output.map_or(Input::Bytes(block.bytes()), Input::Output))
        .collect();
    let mut places: Vec<&mut Block> = outputs.iter_mut().collect();
    machine.run(params, scalars, &arguments, &mut places, &Inline).expect("a planned launch fits its program");
    types.into_iter().zip(&outputs).map(|(ty, block)| HostTensor { ty, bytes: block.bytes().to_vec() }).collect()
}

/// A program, by definition. A register has the shape `[outer, rows, cols]`, with 1 where it does not vary.
pub(crate) fn by_definition(
    program: &Program,
    params: &[i64],
    scalars: &[u64],
    inputs: &[(&HostTensor, bool)],
) -> Vec<HostTensor> {
    let inputs: Vec<&HostTensor> = inputs.iter().map(|&(input, _)| input).collect();
    assert_eq!(params.len(), usize::from(program.params));
    assert_eq!(scalars.len(), program.scalars.len());
    let resolve =
        |extents: &[Extent]| -> Vec<usize> { extents.iter().map(|extent| extent.resolve(params) as usize).collect() };
    let domain = [&program.domain.outer, &program.domain.rows, &program.domain.cols];
    let mut evaluation = Evaluation {
        program,
        params,
        scalars,
        inputs: &inputs,
        axes: domain.map(|axes| resolve(axes)),
        contract: resolve(&program.contract),
        regs: vec![None; program.regs.len()],
    };
    let types: Vec<TensorType> = program.outputs().iter().map(|buffer| buffer.resolve(params)).collect();
    let mut outputs: Vec<Vec<Option<Scalar>>> = types.iter().map(|ty| vec![None; ty.shape.elements()]).collect();
    for instr in &program.body {
        if let Instr::Store { src, access } = instr {
            let output = usize::from(access.buffer - program.inputs);
            evaluation.store(*src, access, &types[output], &mut outputs[output]);
        } else {
            evaluation.define(instr);
        }
    }
    let finish = |(ty, values): (TensorType, Vec<Option<Scalar>>)| {
        let values: Vec<_> = values.into_iter().map(|value| value.expect("every element is written")).collect();
        tensor(ty, &values)
    };
    types.into_iter().zip(outputs).map(finish).collect()
}

fn tensor(ty: TensorType, values: &[Scalar]) -> HostTensor {
    let size = ty.dtype.size();
    HostTensor { bytes: values.iter().flat_map(|value| value.to_le_bytes().into_iter().take(size)).collect(), ty }
}

fn element(tensor: &HostTensor, at: usize) -> Scalar {
    let size = tensor.ty.dtype.size();
    Scalar::from_le_bytes(tensor.ty.dtype, &tensor.bytes[at * size..(at + 1) * size])
}

/// The row-major position of these coordinates, unless they are out of bounds.
fn flat(shape: &[usize], coordinates: &[i64]) -> Option<usize> {
    assert_eq!(shape.len(), coordinates.len());
    shape.iter().zip(coordinates).try_fold(0, |at, (&extent, &coordinate)| {
        let coordinate = usize::try_from(coordinate).ok().filter(|&coordinate| coordinate < extent)?;
        Some(at * extent + coordinate)
    })
}

fn indices(extents: &[usize], mut at: usize) -> Vec<i64> {
    let mut indices: Vec<i64> = extents
        .iter()
        .rev()
        .map(|&extent| {
            let index = at % extent;
            at /= extent;
            index as i64
        })
        .collect();
    indices.reverse();
    indices
}

struct Evaluation<'a> {
    program: &'a Program,
    params: &'a [i64],
    scalars: &'a [u64],
    inputs: &'a [&'a HostTensor],
    axes: [Vec<usize>; 3],
    contract: Vec<usize>,
    regs: Vec<Option<HostTensor>>,
}

impl Evaluation<'_> {
    fn get(&self, reg: Reg) -> &HostTensor {
        self.regs[usize::from(reg.0)].as_ref().expect("a register is defined before it is used")
    }

    fn input(&self, buffer: u16) -> &HostTensor {
        assert!(buffer < self.program.inputs, "only inputs are read");
        self.inputs[usize::from(buffer)]
    }

    fn shape(&self, vary: Vary) -> [usize; 3] {
        let [outer, rows, cols] = self.axes.each_ref().map(|axes| axes.iter().product::<usize>());
        [outer, if vary.rows { rows } else { 1 }, if vary.cols { cols } else { 1 }]
    }

    /// Calls with each position of a register's shape: its index along every axis, 0 where it does not vary.
    fn points(&self, vary: Vary) -> Vec<Vec<i64>> {
        let [outer, rows, cols] = self.shape(vary);
        let along = |axes: &[usize], varies: bool, at: usize| {
            if varies { indices(axes, at) } else { vec![0; axes.len()] }
        };
        let mut points = Vec::new();
        for o in 0..outer {
            for r in 0..rows {
                for c in 0..cols {
                    let mut point = along(&self.axes[0], true, o);
                    point.extend(along(&self.axes[1], vary.rows, r));
                    point.extend(along(&self.axes[2], vary.cols, c));
                    points.push(point);
                }
            }
        }
        points
    }

    /// A register by a function of the index along every axis.
    fn fill(&self, dtype: DType, vary: Vary, value: impl Fn(&[i64]) -> Scalar) -> HostTensor {
        let values: Vec<Scalar> = self.points(vary).iter().map(|point| value(point)).collect();
        tensor(TensorType::new(dtype, self.shape(vary)), &values)
    }

    /// A register's value in a larger shape.
    fn spread(&self, value: &HostTensor, vary: Vary) -> HostTensor {
        let to = self.shape(vary);
        let mut values = Vec::new();
        for at in 0..to.iter().product() {
            let index = indices(&to, at);
            let from: Vec<i64> =
                index.iter().zip(value.ty.shape.iter()).map(|(&i, &extent)| if extent == 1 { 0 } else { i }).collect();
            values
                .push(element(value, flat(&value.ty.shape, &from).expect("a register varies no more than its users")));
        }
        tensor(TensorType::new(value.ty.dtype, to), &values)
    }

    fn coordinates(&self, dims: &[DimMap], point: &[i64]) -> Vec<i64> {
        let coordinate = |dim: &DimMap| {
            let index = dim.axis.map_or(0, |axis| point[usize::from(axis)]);
            dim.start.resolve(self.params) + dim.step.resolve(self.params) * index
        };
        dims.iter().map(coordinate).collect()
    }

    fn read(&self, access: &Access, point: &[i64]) -> Scalar {
        let buffer = self.input(access.buffer);
        element(buffer, flat(&buffer.ty.shape, &self.coordinates(&access.dims, point)).expect("a load in bounds"))
    }

    fn define(&mut self, instr: &Instr) {
        let ty = |dst: &Reg| self.program.regs[usize::from(dst.0)];
        let (dst, value) = match instr {
            Instr::Store { .. } => unreachable!("a store defines nothing"),
            Instr::Load { dst, access } => {
                let dtype = self.input(access.buffer).ty.dtype;
                (dst, self.fill(dtype, ty(dst).vary, |point| self.read(access, point)))
            }
            Instr::Gather { dst, access, indices } => {
                let buffer = self.input(access.buffer);
                let value = self.fill(buffer.ty.dtype, ty(dst).vary, |point| {
                    let mut at = self.coordinates(&access.dims, point);
                    for component in indices {
                        let dim = usize::from(component.dim);
                        let most = buffer.ty.shape[dim] as i64 - component.slice.resolve(self.params);
                        let index = match &component.index {
                            IndexSource::Memory(index) => self.read(index, point),
                            IndexSource::Number(number) => element(self.get(*number), 0),
                        };
                        at[dim] += (index.to_f64() as i64).min(most).max(0);
                    }
                    element(buffer, flat(&buffer.ty.shape, &at).expect("a gather in bounds"))
                });
                (dst, value)
            }
            Instr::Overlay { dst, background, buffer, placement } => {
                let below = self.spread(self.get(*background), ty(dst).vary);
                let over = self.input(*buffer);
                let place = |(place, &count): (&Placement, &usize), point: &[i64]| {
                    let axis = self.program.domain.axes().nth(usize::from(place.axis)).expect("a placed axis");
                    let low = match place.low {
                        Low::At(low) => low.resolve(self.params),
                        Low::Clamped(number) => {
                            let most = axis.resolve(self.params) - count as i64;
                            (element(self.get(number), 0).to_f64() as i64).min(most).max(0)
                        }
                    };
                    let from = point[usize::from(place.axis)] - low;
                    let step = place.interior.resolve(self.params) + 1;
                    (from % step == 0).then_some(from.div_euclid(step))
                };
                let values: Vec<Scalar> = self
                    .points(ty(dst).vary)
                    .iter()
                    .enumerate()
                    .map(|(n, point)| {
                        let at: Option<Vec<i64>> =
                            placement.iter().zip(over.ty.shape.iter()).map(|p| place(p, point)).collect();
                        let at = at.and_then(|at| flat(&over.ty.shape, &at));
                        at.map_or_else(|| element(&below, n), |at| element(over, at))
                    })
                    .collect();
                (dst, tensor(below.ty.clone(), &values))
            }
            Instr::Scalar { dst, slot } => {
                let slot = usize::from(*slot);
                let value = Scalar::from_bits(self.program.scalars[slot], self.scalars[slot]);
                (dst, self.fill(value.dtype(), ty(dst).vary, |_| value))
            }
            Instr::Iota { dst, axis } => {
                let index = self.fill(DType::I64, ty(dst).vary, |point| point[usize::from(*axis)].into());
                (dst, op(Opcode::Convert, &[&index], Attrs::Convert(ty(dst).dtype), &[]))
            }
            Instr::Lane { op: lane, dst, args } => {
                let args: Vec<HostTensor> = args.iter().map(|&arg| self.spread(self.get(arg), ty(dst).vary)).collect();
                (dst, lane_op(*lane, ty(dst).dtype, &args.iter().collect::<Vec<_>>()))
            }
            Instr::Reduce { monoid, dst, src, init } => {
                let body = monoid_region(*monoid, ty(src).dtype);
                (dst, self.reduce(*dst, &[*src], &[*init], &body, 0))
            }
            Instr::ArgReduce { extreme, wanted, dst, values, indices, init } => {
                let body = arg_region(*extreme, ty(values).dtype, ty(indices).dtype);
                let number = match wanted {
                    Winner::Value => 0,
                    Winner::Index => 1,
                };
                (dst, self.reduce(*dst, &[*values, *indices], &[init.0, init.1], &body, number))
            }
            Instr::Dot { dst, lhs, rhs, precision: _, mxu } => {
                assert_eq!(*mxu, None, "lowering knows of no chip");
                (dst, self.dot(lhs, rhs))
            }
        };
        assert_eq!(value.ty.dtype, ty(dst).dtype);
        assert_eq!(value.ty.shape[..], self.shape(ty(dst).vary));
        assert!(self.regs[usize::from(dst.0)].replace(value).is_none(), "a register is defined once");
    }

    /// Result `number` of a reduction of registers along what the program reduces.
    fn reduce(&self, dst: Reg, srcs: &[Reg], inits: &[Reg], body: &Region, number: usize) -> HostTensor {
        let ty = |reg: Reg| self.program.regs[usize::from(reg.0)];
        let along = self.program.reduce.expect("a reduction has a direction");
        let vary = srcs.iter().fold(Vary::NONE, |vary, &src| vary.join(ty(src).vary));
        let (dim, vary) = match along {
            ReduceAlong::Cols => (2, Vary { cols: true, ..vary }),
            ReduceAlong::Rows => (1, Vary { rows: true, ..vary }),
        };
        let srcs: Vec<HostTensor> = srcs.iter().map(|&src| self.spread(self.get(src), vary)).collect();
        let inits: Vec<&HostTensor> = inits.iter().map(|&init| self.get(init)).collect();
        let mut bytes = Vec::new();
        for o in 0..srcs[0].ty.shape[0] {
            let mut trace = Trace::new();
            let mut operands = Vec::new();
            for src in &srcs {
                let slab = TensorType::new(src.ty.dtype, [1, src.ty.shape[1], src.ty.shape[2]]);
                let size = slab.byte_len();
                operands.push(HostTensor { ty: slab, bytes: src.bytes[o * size..(o + 1) * size].to_vec() });
            }
            // Each outer index has its own initial value.
            for init in &inits {
                assert_eq!(init.ty.shape[1..], [1, 1], "an initial value varies along nothing");
                operands.push(tensor(TensorType::scalar(init.ty.dtype), &[element(init, o)]));
            }
            let ids: Vec<_> = operands.iter().map(|operand| trace.input(operand.ty.clone())).collect();
            let attrs = Attrs::Reduce([dim].into_iter().collect());
            let first = trace.push(Opcode::Reduce, ids, attrs, [body.clone()], Origin::Unknown).expect("well-typed");
            trace.output(ValueId(first.0 + number as u32));
            bytes.extend(interpret(&trace, &operands).expect("well-typed").remove(0).bytes);
        }
        let value = HostTensor { bytes, ty: TensorType::new(ty(dst).dtype, self.shape(ty(dst).vary)) };
        assert_eq!(value.bytes.len(), value.ty.byte_len(), "a reduction leaves what it does not reduce");
        value
    }

    /// The dot of `[outer, rows, contracted]` and `[outer, contracted, cols]`.
    fn dot(&self, lhs: &Access, rhs: &Access) -> HostTensor {
        let depth = self.contract.iter().product();
        let side = |access: &Access, vary: Vary| {
            let mut values = Vec::new();
            for point in self.points(vary) {
                for k in 0..depth {
                    let mut point = point.clone();
                    point.extend(indices(&self.contract, k));
                    values.push(self.read(access, &point));
                }
            }
            let [outer, rows, cols] = self.shape(vary);
            tensor(TensorType::new(self.input(access.buffer).ty.dtype, [outer, rows * cols, depth]), &values)
        };
        let dims = DotDims {
            lhs_batching: [0].into_iter().collect(),
            rhs_batching: [0].into_iter().collect(),
            lhs_contracting: [2].into_iter().collect(),
            rhs_contracting: [2].into_iter().collect(),
            ..DotDims::default()
        };
        op(Opcode::DotGeneral, &[&side(lhs, Vary::ROWS), &side(rhs, Vary::COLS)], Attrs::Dot(Box::new(dims)), &[])
    }

    fn store(&self, src: Reg, access: &Access, ty: &TensorType, output: &mut [Option<Scalar>]) {
        let first = [self.axes[0].len(), self.axes[0].len() + self.axes[1].len()];
        let moves = |range: std::ops::Range<usize>| {
            access.dims.iter().filter_map(|dim| dim.axis).any(|axis| range.contains(&usize::from(axis)))
        };
        let declared = self.program.regs[usize::from(src.0)].vary;
        let vary = Vary { rows: moves(first[0]..first[1]), cols: moves(first[1]..usize::MAX) };
        // Along axes of one index nothing varies, whatever is declared.
        let [_, rows, cols] = self.shape(Vary::BOTH);
        let vary =
            Vary { rows: vary.rows || (declared.rows && rows == 1), cols: vary.cols || (declared.cols && cols == 1) };
        assert_eq!(vary.join(declared), vary, "a store moves along all that its value varies along");
        let value = self.spread(self.get(src), vary);
        for (n, point) in self.points(vary).iter().enumerate() {
            let at = flat(&ty.shape, &self.coordinates(&access.dims, point)).expect("a store in bounds");
            assert!(output[at].replace(element(&value, n)).is_none(), "an element is written once");
        }
    }
}

fn lane_op(lane: LaneOp, dtype: DType, args: &[&HostTensor]) -> HostTensor {
    let plain = |opcode: Opcode| op(opcode, args, Attrs::None, &[]);
    match lane {
        LaneOp::Convert => op(Opcode::Convert, args, Attrs::Convert(dtype), &[]),
        LaneOp::Bitcast => op(Opcode::BitcastConvert, args, Attrs::Convert(dtype), &[]),
        LaneOp::ChipConvert => unreachable!("lowering knows of no chip"),
        LaneOp::Compare(direction, order) => op(Opcode::Compare, args, Attrs::Compare { direction, order }, &[]),
        LaneOp::Abs
        | LaneOp::Negate
        | LaneOp::Sign
        | LaneOp::Exponential
        | LaneOp::Log
        | LaneOp::Tanh
        | LaneOp::Logistic
        | LaneOp::Erf
        | LaneOp::ExponentialMinusOne
        | LaneOp::LogPlusOne
        | LaneOp::Sine
        | LaneOp::Cosine
        | LaneOp::Cbrt
        | LaneOp::Sqrt
        | LaneOp::Rsqrt
        | LaneOp::Floor
        | LaneOp::Ceil
        | LaneOp::IsFinite
        | LaneOp::Not
        | LaneOp::Add
        | LaneOp::Subtract
        | LaneOp::Multiply
        | LaneOp::Divide
        | LaneOp::Maximum
        | LaneOp::Minimum
        | LaneOp::Power
        | LaneOp::Remainder
        | LaneOp::Atan2
        | LaneOp::And
        | LaneOp::Or
        | LaneOp::Xor
        | LaneOp::Select
        | LaneOp::Clamp => {
            let opcode = Opcode::ALL.iter().find(|opcode| opcode.info().lane == Some(lane));
            plain(*opcode.expect("a lane function has an op"))
        }
    }
}
