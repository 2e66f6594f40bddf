//! Programs written by hand: the shapes that matter, in-place memory, and what is refused.

use std::panic::{AssertUnwindSafe, catch_unwind};

use expect_test::{Expect, expect};
use smallvec::{SmallVec, smallvec};
use systole_kernels::machine::{Input, Machine};
use systole_kernels::memory::Block;
use systole_kernels::parallel::{Inline, Parallel, Pool};
use systole_kernels::program::{
    Access, BufferType, DimMap, Domain, Extent, Instr, LaneOp, Monoid, Precision, Program, ReduceAlong, Reg, RegType,
    Vary,
};
use systole_kernels::simd::Isa;
use systole_kernels::{DType, Scalar};

use crate::generate::{Case, Rng, element};
use crate::{Eager, check};

/// A program under construction, on f32, with one parameter per axis.
struct Sketch {
    program: Program,
    sizes: Vec<i64>,
}

impl Sketch {
    fn new(outer: &[i64], rows: &[i64], cols: &[i64], contract: &[i64], reduce: Option<ReduceAlong>) -> Self {
        let sizes = [outer, rows, cols, contract].concat();
        let mut next = 0..sizes.len() as u16;
        let mut axes = |group: &[i64]| group.iter().zip(&mut next).map(|(_, n)| Extent::Param(n)).collect::<Vec<_>>();
        let domain = Domain { outer: axes(outer).into(), rows: axes(rows).into(), cols: axes(cols).into() };
        let contract = axes(contract).into();
        let program = Program {
            name: String::from("sketch"),
            params: sizes.len() as u16,
            scalars: Vec::new(),
            buffers: Vec::new(),
            inputs: 0,
            domain,
            reduce,
            contract,
            regs: Vec::new(),
            body: Vec::new(),
        };
        Sketch { program, sizes }
    }

    fn reg(&mut self, vary: Vary) -> Reg {
        self.program.regs.push(RegType { dtype: DType::F32, vary });
        Reg(self.program.regs.len() as u16 - 1)
    }

    fn vary(&self, axes: &[u8]) -> Vary {
        let (outer, rows) = (self.program.domain.outer.len(), self.program.domain.rows.len());
        let group = |&axis: &u8| Vary {
            rows: (outer..outer + rows).contains(&usize::from(axis)),
            cols: (outer + rows..self.program.domain.rank()).contains(&usize::from(axis)),
        };
        axes.iter().map(group).fold(Vary::NONE, Vary::join)
    }

    fn access(&mut self, axes: &[u8]) -> Access {
        let shape = axes.iter().map(|&axis| Extent::Param(axis.into())).collect();
        self.program.buffers.push(BufferType { dtype: DType::F32, shape });
        let buffer = self.program.buffers.len() as u16 - 1;
        Access { buffer, dims: axes.iter().map(|&axis| DimMap::along(axis)).collect() }
    }

    /// A new input that has these axes.
    fn load(&mut self, axes: &[u8]) -> Reg {
        let access = self.access(axes);
        self.program.inputs += 1;
        let dst = self.reg(self.vary(axes));
        self.program.body.push(Instr::Load { dst, access });
        dst
    }

    fn lane(&mut self, op: LaneOp, args: &[Reg]) -> Reg {
        let varies = |vary: Vary, arg: &Reg| vary.join(self.program.regs[usize::from(arg.0)].vary);
        let dst = self.reg(args.iter().fold(Vary::NONE, varies));
        self.program.body.push(Instr::Lane { op, dst, args: SmallVec::from_slice(args) });
        dst
    }

    fn scalar(&mut self) -> Reg {
        self.program.scalars.push(DType::F32);
        let dst = self.reg(Vary::NONE);
        self.program.body.push(Instr::Scalar { dst, slot: self.program.scalars.len() as u16 - 1 });
        dst
    }

    fn reduce(&mut self, monoid: Monoid, src: Reg) -> Reg {
        let init = self.scalar();
        let vary = self.program.regs[usize::from(src.0)].vary;
        let dst = self.reg(match self.program.reduce {
            Some(ReduceAlong::Rows) => Vary { rows: false, ..vary },
            _ => Vary { cols: false, ..vary },
        });
        self.program.body.push(Instr::Reduce { monoid, dst, src, init });
        dst
    }

    /// A dot of two new inputs that have these axes.
    fn dot(&mut self, lhs: &[u8], rhs: &[u8]) -> Reg {
        let (lhs, rhs) = (self.access(lhs), self.access(rhs));
        self.program.inputs += 2;
        let dst = self.reg(Vary::BOTH);
        self.program.body.push(Instr::Dot { dst, lhs, rhs, precision: Precision::Default, mxu: None });
        dst
    }

    /// A new output that has these axes; outputs come after all inputs.
    fn store(&mut self, src: Reg, axes: &[u8]) {
        let access = self.access(axes);
        self.program.body.push(Instr::Store { src, access });
    }

    fn softmax(&mut self, x: Reg) -> Reg {
        let most = self.reduce(Monoid::Maximum, x);
        let shifted = self.lane(LaneOp::Subtract, &[x, most]);
        let powers = self.lane(LaneOp::Exponential, &[shifted]);
        let sum = self.reduce(Monoid::Add, powers);
        self.lane(LaneOp::Divide, &[powers, sum])
    }

    fn case(self, seed: u64) -> Case {
        let mut rng = Rng(seed);
        let Sketch { program, sizes } = self;
        let inputs = program.buffers[..usize::from(program.inputs)].iter().map(|buffer| {
            let len: i64 = buffer.shape.iter().map(|extent| extent.resolve(&sizes)).product();
            (0..len).map(|_| element(&mut rng, DType::F32)).collect()
        });
        let inputs: Vec<Vec<Scalar>> = inputs.collect();
        let scalars = program.scalars.iter().map(|_| u64::from(0.5f32.to_bits())).collect();
        Case { program, params: sizes, scalars, inputs }
    }

    fn check(self) {
        let pool = Eager(2, Pool::new(2));
        let case = self.case(7);
        check(&case, &[&Inline as &dyn Parallel, &pool]);
    }
}

#[test]
fn softmax_whole_and_streamed_in_both_directions() {
    for (rows, cols, along) in [
        (5, 10, ReduceAlong::Cols),
        (40, 1000, ReduceAlong::Cols),
        (2, 33_333, ReduceAlong::Cols),
        (1, 40_000, ReduceAlong::Cols),
        (10, 5, ReduceAlong::Rows),
        (3000, 9, ReduceAlong::Rows),
        (1500, 40, ReduceAlong::Rows),
        (0, 7, ReduceAlong::Rows),
        (7, 0, ReduceAlong::Cols),
    ] {
        let mut sketch = Sketch::new(&[], &[rows], &[cols], &[], Some(along));
        let x = sketch.load(&[0, 1]);
        let y = sketch.softmax(x);
        sketch.store(y, &[0, 1]);
        assert_eq!(Machine::new(sketch.program.clone(), Isa::PORTABLE).unwrap().in_place(), [(0, 0)]);
        sketch.check();
    }
}

#[test]
fn layer_norm_with_several_outputs() {
    for (batch, rows, cols) in [(2, 9, 129), (1, 2, 35_000), (3, 1, 1)] {
        let mut sketch = Sketch::new(&[batch], &[rows], &[cols], &[], Some(ReduceAlong::Cols));
        let x = sketch.load(&[0, 1, 2]);
        let (gamma, beta) = (sketch.load(&[2]), sketch.load(&[2]));
        let count = sketch.scalar();
        let sum = sketch.reduce(Monoid::Add, x);
        let mean = sketch.lane(LaneOp::Divide, &[sum, count]);
        let centred = sketch.lane(LaneOp::Subtract, &[x, mean]);
        let squares = sketch.lane(LaneOp::Multiply, &[centred, centred]);
        let sum = sketch.reduce(Monoid::Add, squares);
        let variance = sketch.lane(LaneOp::Divide, &[sum, count]);
        let scale = sketch.lane(LaneOp::Rsqrt, &[variance]);
        let normal = sketch.lane(LaneOp::Multiply, &[centred, scale]);
        let scaled = sketch.lane(LaneOp::Multiply, &[normal, gamma]);
        let y = sketch.lane(LaneOp::Add, &[scaled, beta]);
        sketch.store(y, &[0, 1, 2]);
        sketch.store(mean, &[0, 1]);
        sketch.store(scale, &[1, 0]);
        sketch.check();
    }
}

#[test]
fn dot_with_bias_activation_and_row_softmax() {
    for (outer, rows, cols, depth) in [
        (&[][..], 70, 40, 300),
        (&[3][..], 5, 600, 20),
        (&[2][..], 1, 33, 129),
        (&[][..], 200, 1, 1),
        (&[][..], 3, 5, 0),
    ] {
        let batch: Vec<u8> = (0..outer.len() as u8).collect();
        let axis = |n: u8| outer.len() as u8 + n;
        for epilogue in [false, true] {
            let along = epilogue.then_some(ReduceAlong::Cols);
            let mut sketch = Sketch::new(outer, &[rows], &[cols], &[depth], along);
            let lhs = [&batch[..], &[axis(0), axis(2)]].concat();
            let rhs = [&[axis(2)][..], &batch, &[axis(1)]].concat();
            let out = [&batch[..], &[axis(0), axis(1)]].concat();
            let product = sketch.dot(&lhs, &rhs);
            let bias = sketch.load(&[axis(1)]);
            let residual = sketch.load(&out);
            let zero = sketch.scalar();
            let sum = sketch.lane(LaneOp::Add, &[product, bias]);
            let relu = sketch.lane(LaneOp::Maximum, &[sum, zero]);
            let y = sketch.lane(LaneOp::Add, &[relu, residual]);
            let y = if epilogue { sketch.softmax(y) } else { y };
            sketch.store(y, &out);
            sketch.check();
        }
    }
}

#[test]
fn transposes_and_broadcasts() {
    for (a, b, c) in [(130, 70, 1), (64, 64, 1), (5, 9, 200), (3, 300, 2), (1, 1, 5000)] {
        let mut sketch = Sketch::new(&[], &[a, b], &[c], &[], None);
        let x = sketch.load(&[0, 1, 2]);
        let turned = sketch.load(&[2, 1, 0]);
        let (by_row, by_col, by_first) = (sketch.load(&[0, 1]), sketch.load(&[2]), sketch.load(&[0]));
        let sum = sketch.lane(LaneOp::Add, &[x, turned]);
        let outer = sketch.lane(LaneOp::Multiply, &[by_row, by_col]);
        let sum = sketch.lane(LaneOp::Subtract, &[sum, outer]);
        let y = sketch.lane(LaneOp::Maximum, &[sum, by_first]);
        sketch.store(y, &[1, 2, 0]);
        sketch.store(outer, &[0, 1, 2]);
        sketch.check();
    }
}

/// In-place pairs of a program.
fn pairs(sketch: &Sketch) -> Vec<(u16, u16)> {
    Machine::new(sketch.program.clone(), Isa::PORTABLE).unwrap().in_place().to_vec()
}

#[test]
fn memory_is_shared_only_where_nothing_is_read_after_it_was_overwritten() {
    // Both operands of an elementwise operation.
    let mut sketch = Sketch::new(&[], &[4], &[8], &[], None);
    let (x, y) = (sketch.load(&[0, 1]), sketch.load(&[0, 1]));
    let sum = sketch.lane(LaneOp::Add, &[x, y]);
    sketch.store(sum, &[0, 1]);
    assert_eq!(pairs(&sketch), [(0, 0), (1, 0)]);

    // An input of the same type that is read transposed.
    let mut sketch = Sketch::new(&[], &[4], &[4], &[], None);
    sketch.program.domain.cols = smallvec![Extent::Param(0)];
    let access = Access { buffer: 0, dims: smallvec![DimMap::along(1), DimMap::along(0)] };
    let shape = smallvec![Extent::Param(0), Extent::Param(0)];
    sketch.program.buffers.push(BufferType { dtype: DType::F32, shape });
    sketch.program.inputs = 1;
    let x = sketch.reg(Vary::BOTH);
    sketch.program.body.push(Instr::Load { dst: x, access });
    sketch.program.buffers.push(sketch.program.buffers[0].clone());
    let access = Access { buffer: 1, dims: smallvec![DimMap::along(0), DimMap::along(1)] };
    sketch.program.body.push(Instr::Store { src: x, access });
    assert_eq!(pairs(&sketch), []);

    // A store in the first stage of what the second stage reads again.
    let mut sketch = Sketch::new(&[], &[4], &[8], &[], Some(ReduceAlong::Cols));
    let x = sketch.load(&[0, 1]);
    let sum = sketch.reduce(Monoid::Add, x);
    let part = sketch.lane(LaneOp::Divide, &[x, sum]);
    let twice = sketch.lane(LaneOp::Add, &[x, x]);
    sketch.store(part, &[0, 1]);
    sketch.store(twice, &[0, 1]);
    assert_eq!(pairs(&sketch), [(0, 0)]);

    // An operand of a dot, which other tiles read.
    let mut sketch = Sketch::new(&[], &[4], &[4], &[4], None);
    let product = sketch.dot(&[0, 2], &[2, 1]);
    let x = sketch.load(&[0, 1]);
    let sum = sketch.lane(LaneOp::Add, &[product, x]);
    sketch.store(sum, &[0, 1]);
    assert_eq!(pairs(&sketch), [(2, 0)]);
}

fn refused(change: impl FnOnce(&mut Program), expected: Expect) {
    let mut sketch = Sketch::new(&[], &[4], &[8], &[], Some(ReduceAlong::Cols));
    let x = sketch.load(&[0, 1]);
    let sum = sketch.reduce(Monoid::Add, x);
    sketch.store(sum, &[0]);
    change(&mut sketch.program);
    let error = Machine::new(sketch.program, Isa::PORTABLE).expect_err("the program breaks a rule");
    expected.assert_eq(&error.to_string());
}

#[test]
fn invalid_programs_are_refused_with_the_rule_that_they_break() {
    refused(
        |program| program.body.swap(0, 2),
        expect!["program `sketch`, instruction 0: register 0 is used before it is defined"],
    );
    refused(
        |program| program.regs[0].dtype = DType::I32,
        expect!["program `sketch`, instruction 0: register 0 is declared i32, but gets f32"],
    );
    refused(
        |program| program.regs[0].vary = Vary::ROWS,
        expect![
            "program `sketch`, instruction 0: register 0 is declared to vary along rows, but varies along rows and columns"
        ],
    );
    refused(
        |program| program.regs[2].vary = Vary::BOTH,
        expect!["program `sketch`, instruction 2: register 2 varies along the axes that were reduced"],
    );
    refused(
        |program| program.reduce = None,
        expect!["program `sketch`, instruction 2: a reduction in a program that declares no direction"],
    );
    refused(
        |program| {
            if let Instr::Reduce { monoid, .. } = &mut program.body[2] {
                *monoid = Monoid::And;
            }
        },
        expect!["program `sketch`, instruction 2: And does not reduce f32"],
    );
    refused(|program| program.body.truncate(3), expect!["program `sketch`: output 0 is never stored"]);
    refused(|program| program.params = 1, expect!["program `sketch`: parameter 1 of 1 declared"]);
    refused(
        |program| {
            if let Instr::Load { access, .. } = &mut program.body[0] {
                access.dims.truncate(1);
            }
        },
        expect!["program `sketch`, instruction 0: 1 coordinates for a buffer of rank 2"],
    );
    refused(
        |program| {
            if let Instr::Load { access, .. } = &mut program.body[0] {
                access.buffer = 1;
            }
        },
        expect!["program `sketch`, instruction 0: buffer 1 is read, but only the first 1 are inputs"],
    );
}

fn failing(params: &[i64], scalars: &[u64], sizes: [usize; 3], shared: bool, expected: Expect) {
    let mut sketch = Sketch::new(&[], &[4], &[8], &[], None);
    let (x, y) = (sketch.load(&[0, 1]), sketch.load(&[1]));
    let shift = sketch.scalar();
    let sum = sketch.lane(LaneOp::Add, &[x, y]);
    let sum = sketch.lane(LaneOp::Add, &[sum, shift]);
    sketch.store(sum, &[0, 1]);
    let machine = Machine::new(sketch.program, Isa::PORTABLE).unwrap();
    let [x, y, mut z] = sizes.map(|size| Block::new(size).unwrap());
    let inputs = [Input::Bytes(x.bytes()), if shared { Input::Output(0) } else { Input::Bytes(y.bytes()) }];
    let error = machine.run(params, scalars, &inputs, &mut [&mut z], &Inline).expect_err("the arguments do not fit");
    assert_eq!(error.out_of_memory(), None);
    expected.assert_eq(&error.to_string());
}

#[test]
fn arguments_that_do_not_fit_are_refused() {
    let fine = [128, 32, 128];
    failing(&[4], &[0], fine, false, expect!["1 parameters where `sketch` takes 2"]);
    failing(&[4, 8], &[], fine, false, expect!["0 scalars where `sketch` takes 1"]);
    failing(&[4, -8], &[0], fine, false, expect!["an extent of -8"]);
    failing(&[4, i64::MAX], &[0], fine, false, expect!["more elements than can be counted"]);
    failing(&[4, 8], &[0], [128, 28, 128], false, expect!["buffer 1 has 28 bytes where 32 are needed"]);
    failing(&[4, 8], &[0], [128, 32, 256], false, expect!["buffer 2 has 256 bytes where 128 are needed"]);
    failing(&[4, 8], &[0], fine, true, expect!["input 1 cannot share memory with output 0"]);
}

#[test]
fn accesses_that_leave_their_buffer_are_refused_at_launch() {
    let mut sketch = Sketch::new(&[], &[], &[8], &[], None);
    let x = sketch.load(&[0]);
    sketch.store(x, &[0]);
    if let Instr::Load { access, .. } = &mut sketch.program.body[0] {
        access.dims[0].start = Extent::ONE;
    }
    let machine = Machine::new(sketch.program, Isa::PORTABLE).unwrap();
    let (x, mut y) = (Block::new(32).unwrap(), Block::new(32).unwrap());
    let run = machine.run(&[8], &[], &[Input::Bytes(x.bytes())], &mut [&mut y], &Inline);
    expect!["instruction 0 of `sketch` leaves its buffer"].assert_eq(&run.unwrap_err().to_string());
}

#[test]
fn stores_that_do_not_cover_their_output_once_are_refused_at_launch() {
    // Two rows of the domain on every row of the output.
    let mut sketch = Sketch::new(&[], &[4], &[8], &[], None);
    let x = sketch.load(&[0, 1]);
    sketch.store(x, &[0, 1]);
    if let Instr::Store { access, .. } = &mut sketch.program.body[1] {
        access.dims[0].step = Extent::Fixed(2);
    }
    let machine = Machine::new(sketch.program, Isa::PORTABLE).unwrap();
    let (x, mut y) = (Block::new(128).unwrap(), Block::new(128).unwrap());
    let run = machine.run(&[4, 8], &[], &[Input::Bytes(x.bytes())], &mut [&mut y], &Inline);
    expect!["`sketch` does not write each element of output 0 once"].assert_eq(&run.unwrap_err().to_string());
}

/// A pool that breaks its promise in every way that safe code can.
#[derive(Debug)]
struct Unruly;

impl Parallel for Unruly {
    fn threads(&self) -> usize {
        4
    }

    fn grain(&self) -> usize {
        0
    }

    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| task(tasks + 17));
            }
        });
    }
}

#[test]
fn a_pool_that_runs_other_tasks_than_asked_changes_nothing() {
    let mut sketch = Sketch::new(&[3], &[50], &[70], &[], Some(ReduceAlong::Cols));
    let x = sketch.load(&[0, 1, 2]);
    let y = sketch.softmax(x);
    sketch.store(y, &[0, 1, 2]);
    check(&sketch.case(3), &[&Unruly]);
}

#[test]
fn a_panic_on_a_worker_reaches_the_caller_and_the_machine_lives_on() {
    #[derive(Debug)]
    struct Panicking;
    impl Parallel for Panicking {
        fn threads(&self) -> usize {
            2
        }
        fn grain(&self) -> usize {
            0
        }
        fn run(&self, _: usize, _: &(dyn Fn(usize) + Sync)) {
            panic!("the host's pool fell over");
        }
    }
    let mut sketch = Sketch::new(&[], &[64], &[70], &[], None);
    let x = sketch.load(&[0, 1]);
    let y = sketch.lane(LaneOp::Negate, &[x]);
    sketch.store(y, &[0, 1]);
    let case = sketch.case(3);
    assert!(catch_unwind(AssertUnwindSafe(|| check(&case, &[&Panicking]))).is_err());
    check(&case, &[&Inline]);
}

#[test]
fn fingerprints_are_those_of_the_program() {
    let build = |op| {
        let mut sketch = Sketch::new(&[], &[4], &[8], &[], None);
        let x = sketch.load(&[0, 1]);
        let y = sketch.lane(op, &[x]);
        sketch.store(y, &[0, 1]);
        Machine::new(sketch.program, Isa::PORTABLE).unwrap()
    };
    assert_eq!(build(LaneOp::Abs).fingerprint(), build(LaneOp::Abs).fingerprint());
    assert_ne!(build(LaneOp::Abs).fingerprint(), build(LaneOp::Negate).fingerprint());
    let ty = &build(LaneOp::Abs).program().output_types(&[3, 5])[0];
    assert_eq!(ty.to_string(), "tensor<3x5xf32>");
}
