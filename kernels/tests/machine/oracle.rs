//! A slow interpreter of tile programs, element by element, as `program` and docs/numerics.md read.

use systole_kernels::lanes;
use systole_kernels::numerics::{Half, canonical, flushed, fma};
use systole_kernels::program::{
    Access, Comparison, Extent, Extreme, IndexSource, Instr, LaneOp, Low, Monoid, Mxu, Order, Precision, Program,
    ReduceAlong, Reg, Vary, Winner,
};
use systole_kernels::{DType, Scalar, bf16, f16};

/// A buffer's elements.
pub(crate) type Elements = Vec<Scalar>;

/// Runs `program` and gives its outputs.
pub(crate) fn interpret(program: &Program, params: &[i64], scalars: &[u64], inputs: &[Elements]) -> Vec<Elements> {
    let extents: Vec<i64> = program.domain.axes().map(|extent| extent.resolve(params)).collect();
    let (outer, rows) = (program.domain.outer.len(), program.domain.rows.len());
    let mut run = Run {
        program,
        params,
        inputs,
        outer: extents[..outer].to_vec(),
        rows: extents[outer..outer + rows].to_vec(),
        cols: extents[outer + rows..].to_vec(),
        regs: vec![Vec::new(); program.regs.len()],
        outputs: program
            .outputs()
            .iter()
            .map(|buffer| {
                let len: i64 = buffer.shape.iter().map(|extent| extent.resolve(params)).product();
                vec![None; len as usize]
            })
            .collect(),
    };
    for instr in &program.body {
        run.instr(instr, scalars);
    }
    let whole = |output: Vec<Option<Scalar>>| output.into_iter().map(|e| e.expect("every element is stored")).collect();
    run.outputs.into_iter().map(whole).collect()
}

/// A 16-bit float as an `f32`; anything else as it is.
fn widen(x: Scalar) -> Scalar {
    match x.dtype() {
        DType::F16 => f16::from_bits(x.bits() as u16).widen().into(),
        DType::BF16 => bf16::from_bits(x.bits() as u16).widen().into(),
        DType::Bool | DType::I32 | DType::U32 | DType::I64 | DType::F32 => x,
    }
}

/// The `f32` that was accumulated, canonical, rounded to `dtype`.
fn settle(sum: f32, dtype: DType) -> Scalar {
    lanes::eval(LaneOp::Convert, &[sum.into()], dtype).expect("f32 converts to all")
}

/// The sum of products, in chains of `block` terms.
fn chain(block: usize, pairs: impl Iterator<Item = (f32, f32)>) -> f32 {
    let pairs: Vec<(f32, f32)> = pairs.collect();
    let blocks = pairs.chunks(block).map(|pairs| pairs.iter().fold(0f32, |acc, &(a, b)| fma(a, b, acc)));
    blocks.reduce(|sum, block| sum + block).unwrap_or(0.0)
}

/// The nearest `bf16`, as a chip rounds.
fn nearest(x: f32) -> f32 {
    bf16::narrow(flushed(x)).widen()
}

/// The `bf16` next to it toward zero.
fn truncated(x: f32) -> f32 {
    flushed(f32::from_bits(flushed(x).to_bits() & 0xffff_0000))
}

struct Run<'a> {
    program: &'a Program,
    params: &'a [i64],
    inputs: &'a [Elements],
    outer: Vec<i64>,
    rows: Vec<i64>,
    cols: Vec<i64>,
    /// Per register, its values over outer × rows (if it varies) × columns (if it varies).
    regs: Vec<Vec<Scalar>>,
    outputs: Vec<Vec<Option<Scalar>>>,
}

type Point = (usize, usize, usize);

fn count(extents: &[i64]) -> usize {
    extents.iter().product::<i64>() as usize
}

/// An index of any integer dtype.
fn integer(index: Scalar) -> i64 {
    match index.dtype() {
        DType::U32 | DType::I64 => index.bits() as i64,
        DType::I32 => i64::from(index.bits() as i32),
        DType::Bool | DType::F16 | DType::BF16 | DType::F32 => panic!("an index of {}", index.dtype()),
    }
}

fn indices(mut flat: usize, extents: &[i64]) -> Vec<i64> {
    let mut indices = vec![0; extents.len()];
    for (index, &extent) in indices.iter_mut().zip(extents).rev() {
        *index = flat as i64 % extent.max(1);
        flat /= extent.max(1) as usize;
    }
    indices
}

impl Run<'_> {
    fn vary(&self, reg: Reg) -> Vary {
        self.program.regs[usize::from(reg.0)].vary
    }

    fn dtype(&self, reg: Reg) -> DType {
        self.program.regs[usize::from(reg.0)].dtype
    }

    fn points(&self, vary: Vary) -> Vec<Point> {
        let rows = if vary.rows { count(&self.rows) } else { 1 };
        let cols = if vary.cols { count(&self.cols) } else { 1 };
        let mut points = Vec::new();
        for o in 0..count(&self.outer) {
            for r in 0..rows {
                for c in 0..cols {
                    points.push((o, r, c));
                }
            }
        }
        points
    }

    fn get(&self, reg: Reg, (o, r, c): Point) -> Scalar {
        let vary = self.vary(reg);
        let rows = if vary.rows { count(&self.rows) } else { 1 };
        let cols = if vary.cols { count(&self.cols) } else { 1 };
        let (r, c) = (if vary.rows { r } else { 0 }, if vary.cols { c } else { 0 });
        self.regs[usize::from(reg.0)][(o * rows + r) * cols + c]
    }

    fn axes(&self, (o, r, c): Point) -> Vec<i64> {
        let mut all = indices(o, &self.outer);
        all.extend(indices(r, &self.rows));
        all.extend(indices(c, &self.cols));
        all
    }

    fn resolve(&self, extent: Extent) -> i64 {
        extent.resolve(self.params)
    }

    fn coordinates(&self, access: &Access, axes: &[i64]) -> Vec<i64> {
        let coordinate = |dim: &systole_kernels::program::DimMap| {
            self.resolve(dim.start) + dim.axis.map_or(0, |axis| axes[usize::from(axis)] * self.resolve(dim.step))
        };
        access.dims.iter().map(coordinate).collect()
    }

    fn offset(&self, buffer: u16, coordinates: &[i64]) -> usize {
        let shape = &self.program.buffers[usize::from(buffer)].shape;
        let mut offset = 0;
        for (&coordinate, &extent) in coordinates.iter().zip(shape) {
            let extent = self.resolve(extent);
            assert!((0..extent).contains(&coordinate), "coordinate {coordinate} of {extent}");
            offset = offset * extent + coordinate;
        }
        offset as usize
    }

    fn read(&self, access: &Access, axes: &[i64]) -> Scalar {
        let offset = self.offset(access.buffer, &self.coordinates(access, axes));
        self.inputs[usize::from(access.buffer)][offset]
    }

    fn define(&mut self, dst: Reg, value: impl Fn(&Self, Point) -> Scalar) {
        let values = self.points(self.vary(dst)).into_iter().map(|point| value(self, point)).collect();
        self.regs[usize::from(dst.0)] = values;
    }

    fn instr(&mut self, instr: &Instr, scalars: &[u64]) {
        match instr {
            Instr::Load { dst, access } => self.define(*dst, |run, point| run.read(access, &run.axes(point))),
            Instr::Gather { dst, access, indices } => self.define(*dst, |run, point| {
                let axes = run.axes(point);
                let mut coordinates = run.coordinates(access, &axes);
                for component in indices {
                    let index = integer(match &component.index {
                        IndexSource::Memory(index) => run.read(index, &axes),
                        IndexSource::Number(number) => run.get(*number, point),
                    });
                    let extent = run.program.buffers[usize::from(access.buffer)].shape[usize::from(component.dim)];
                    let greatest = run.resolve(extent) - run.resolve(component.slice);
                    coordinates[usize::from(component.dim)] += index.clamp(0, greatest);
                }
                run.inputs[usize::from(access.buffer)][run.offset(access.buffer, &coordinates)]
            }),
            Instr::Overlay { dst, background, buffer, placement } => self.define(*dst, |run, point| {
                let axes = run.axes(point);
                let shape = &run.program.buffers[usize::from(*buffer)].shape;
                let mut coordinates = Vec::new();
                for (place, &extent) in placement.iter().zip(shape) {
                    let low = match place.low {
                        Low::At(low) => run.resolve(low),
                        Low::Clamped(number) => {
                            let axis =
                                run.program.domain.axes().nth(usize::from(place.axis)).expect("the axis is there");
                            integer(run.get(number, point)).clamp(0, run.resolve(axis) - run.resolve(extent))
                        }
                    };
                    let from = axes[usize::from(place.axis)] - low;
                    let step = run.resolve(place.interior) + 1;
                    if from < 0 || from % step != 0 || from / step >= run.resolve(extent) {
                        return run.get(*background, point);
                    }
                    coordinates.push(from / step);
                }
                run.inputs[usize::from(*buffer)][run.offset(*buffer, &coordinates)]
            }),
            Instr::Scalar { dst, slot } => {
                let scalar = Scalar::from_bits(self.dtype(*dst), scalars[usize::from(*slot)]);
                self.define(*dst, |_, _| scalar);
            }
            Instr::Iota { dst, axis } => {
                let dtype = self.dtype(*dst);
                self.define(*dst, |run, point| {
                    let index = Scalar::from(run.axes(point)[usize::from(*axis)]);
                    lanes::eval(LaneOp::Convert, &[index], dtype).expect("i64 converts to all")
                });
            }
            Instr::Lane { op, dst, args } => {
                let dtype = self.dtype(*dst);
                self.define(*dst, |run, point| {
                    let args: Vec<Scalar> = args.iter().map(|&arg| run.get(arg, point)).collect();
                    lanes::eval(*op, &args, dtype).expect("the operation admits its operands")
                });
            }
            Instr::Reduce { monoid, dst, src, init } => self.reduce(*monoid, *dst, *src, *init),
            Instr::ArgReduce { extreme, wanted, dst, values, indices, init } => {
                self.arg_reduce(*extreme, *wanted, *dst, (*values, *indices), *init);
            }
            Instr::Dot { dst, lhs, rhs, precision, mxu } => self.dot(*dst, lhs, rhs, *precision, *mxu),
            Instr::Store { src, access } => {
                let moves = |axes: std::ops::Range<usize>| {
                    access.dims.iter().any(|dim| dim.axis.is_some_and(|axis| axes.contains(&usize::from(axis))))
                };
                let (outer, rows) = (self.outer.len(), self.outer.len() + self.rows.len());
                let vary = Vary { rows: moves(outer..rows), cols: moves(rows..rows + self.cols.len()) };
                let output = usize::from(access.buffer - self.program.inputs);
                for point in self.points(vary) {
                    let offset = self.offset(access.buffer, &self.coordinates(access, &self.axes(point)));
                    let value = self.get(*src, point);
                    let before = self.outputs[output][offset].replace(value);
                    assert!(before.is_none(), "element {offset} is stored twice");
                }
            }
        }
    }

    fn reduce(&mut self, monoid: Monoid, dst: Reg, src: Reg, init: Reg) {
        let op = match monoid {
            Monoid::Add => LaneOp::Add,
            Monoid::Multiply => LaneOp::Multiply,
            Monoid::Maximum => LaneOp::Maximum,
            Monoid::Minimum => LaneOp::Minimum,
            Monoid::And => LaneOp::And,
            Monoid::Or => LaneOp::Or,
        };
        let dtype = self.dtype(src);
        let body = |a: Scalar, b: Scalar| lanes::eval(op, &[a, b], a.dtype()).expect("the body admits its operands");
        let along = self.program.reduce.expect("a program that reduces has a direction");
        self.define(dst, |run, (o, r, c)| {
            let elements: Vec<Scalar> = match along {
                ReduceAlong::Cols => (0..count(&run.cols)).map(|c| widen(run.get(src, (o, r, c)))).collect(),
                ReduceAlong::Rows => (0..count(&run.rows)).map(|r| widen(run.get(src, (o, r, c)))).collect(),
            };
            let lanes = match along {
                ReduceAlong::Cols => 1024,
                ReduceAlong::Rows => 8,
            };
            let mut acc: Vec<Scalar> = elements[..elements.len().min(lanes)].to_vec();
            for (i, &element) in elements.iter().enumerate().skip(lanes) {
                acc[i % lanes] = body(acc[i % lanes], element);
            }
            let mut half = lanes / 2;
            while half > 0 {
                for j in 0..half {
                    if j + half < acc.len() {
                        acc[j] = body(acc[j], acc[j + half]);
                    }
                }
                acc.truncate(half);
                half /= 2;
            }
            let init = widen(run.get(init, (o, 0, 0)));
            let result = acc.first().map_or(init, |&tree| body(tree, init));
            match dtype {
                DType::F16 | DType::BF16 | DType::F32 => settle(f32::from_bits(result.bits() as u32), dtype),
                DType::Bool | DType::I32 | DType::U32 | DType::I64 => result,
            }
        });
    }

    /// The first pair of the contract's order, found by sorting.
    fn arg_reduce(
        &mut self,
        extreme: Extreme,
        wanted: Winner,
        dst: Reg,
        (values, indices): (Reg, Reg),
        init: (Reg, Reg),
    ) {
        let dtype = self.dtype(dst);
        let along = self.program.reduce.expect("a program that reduces has a direction");
        let compare = |order, a: Scalar, b: Scalar| {
            lanes::eval(LaneOp::Compare(Comparison::Lt, order), &[a, b], DType::Bool).expect("all compare").bits() != 0
        };
        let sooner = |(a, i): (Scalar, Scalar), (b, j): (Scalar, Scalar)| {
            let nan = |x: Scalar| x.dtype().is_float() && x.to_f64().is_nan();
            let ahead = |order| match extreme {
                Extreme::Greatest => compare(order, b, a),
                Extreme::Least => compare(order, a, b),
            };
            let equal = !ahead(Order::Partial)
                && !match extreme {
                    Extreme::Greatest => compare(Order::Partial, a, b),
                    Extreme::Least => compare(Order::Partial, b, a),
                };
            match (nan(a), nan(b)) {
                (true, false) => true,
                (false, true) => false,
                (true, true) => compare(Order::Partial, i, j),
                (false, false) if equal => {
                    compare(Order::Partial, i, j) || (i == j && a.dtype().is_float() && ahead(Order::Total))
                }
                (false, false) => ahead(Order::Partial),
            }
        };
        self.define(dst, |run, (o, r, c)| {
            let points: Vec<Point> = match along {
                ReduceAlong::Cols => (0..count(&run.cols)).map(|c| (o, r, c)).collect(),
                ReduceAlong::Rows => (0..count(&run.rows)).map(|r| (o, r, c)).collect(),
            };
            let mut best = (run.get(init.0, (o, 0, 0)), run.get(init.1, (o, 0, 0)));
            for point in points {
                let pair = (run.get(values, point), run.get(indices, point));
                if sooner(pair, best) {
                    best = pair;
                }
            }
            match wanted {
                Winner::Value if dtype.is_float() => settle(f32::from_bits(widen(best.0).bits() as u32), dtype),
                Winner::Value => best.0,
                Winner::Index => best.1,
            }
        });
    }

    fn dot(&mut self, dst: Reg, lhs: &Access, rhs: &Access, precision: Precision, mxu: Option<Mxu>) {
        let contract: Vec<i64> = self.program.contract.iter().map(|&extent| self.resolve(extent)).collect();
        let dtype = self.dtype(dst);
        self.define(dst, |run, point| {
            let pairs: Vec<(Scalar, Scalar)> = (0..count(&contract))
                .map(|k| {
                    let mut axes = run.axes(point);
                    axes.extend(indices(k, &contract));
                    (run.read(lhs, &axes), run.read(rhs, &axes))
                })
                .collect();
            if !dtype.is_float() {
                let eval = |op, a, b| lanes::eval(op, &[a, b], dtype).expect("integers multiply and add");
                let zero = Scalar::from_bits(dtype, 0);
                return pairs.iter().fold(zero, |sum, &(a, b)| eval(LaneOp::Add, sum, eval(LaneOp::Multiply, a, b)));
            }
            let float = |scalar: Scalar| f32::from_bits(widen(scalar).bits() as u32);
            let Some(mxu) = mxu else {
                return settle(canonical(chain(128, pairs.iter().map(|&(a, b)| (float(a), float(b))))), dtype);
            };
            let parts = |x: Scalar| match (x.dtype(), precision) {
                (DType::BF16, _) | (_, Precision::Default) => vec![nearest(float(x))],
                (_, Precision::High) => {
                    let x = flushed(float(x));
                    vec![truncated(x), nearest(x - truncated(x))]
                }
                (_, Precision::Highest) => {
                    let x = flushed(float(x));
                    let (high, rest) = (truncated(x), x - truncated(x));
                    vec![high, truncated(rest), nearest(rest - truncated(rest))]
                }
            };
            let pairs: Vec<_> = pairs.iter().map(|&(a, b)| (parts(a), parts(b))).collect();
            let pass = |left: usize, right: usize| chain(mxu.depth(), pairs.iter().map(|(a, b)| (a[left], b[right])));
            let corrections = match pairs.first().map_or(1, |(a, _)| a.len()) {
                1 => return settle(canonical(pass(0, 0)), dtype),
                2 => pass(1, 0) + pass(0, 1),
                _ => pass(1, 1) + pass(0, 2) + pass(2, 0) + pass(0, 1) + pass(1, 0),
            };
            settle(canonical(if corrections.is_finite() { corrections } else { 0.0 } + pass(0, 0)), dtype)
        });
    }
}
