//! Random well-typed traces, and inputs for them: a function of the seed.

use systole_fusion::ir::{Opcode, Trace, ValueId};
use systole_fusion::reference::HostTensor;
use systole_kernels::program::{Comparison, Extreme, Monoid};
use systole_kernels::{DType, Scalar, TensorType};

use super::Builder;

const MOST_ELEMENTS: usize = 1500;

/// SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub(crate) fn pick<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())].clone()
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// A trace of about `nodes` interesting nodes.
pub(crate) fn trace(seed: u64, nodes: usize) -> Trace {
    let mut generator = Generator { random: Random(seed), b: Builder::new(), pool: Vec::new() };
    let extents: Vec<usize> = (0..3).map(|_| generator.random.pick(&[0, 1, 2, 3, 3, 4, 4, 5, 9])).collect();
    for _ in 0..2 + generator.random.below(3) {
        let rank = generator.random.pick(&[0, 1, 1, 2, 2, 2, 3]);
        let shape: Vec<usize> = (0..rank).map(|_| generator.random.pick(&extents)).collect();
        let dtype = generator.random.pick(&[DType::F32, DType::F32, DType::F32, DType::I32]);
        let input = generator.b.input_of(dtype, &shape);
        generator.pool.push(input);
    }
    for _ in 0..nodes {
        generator.step();
    }
    let mut outputs = vec![*generator.pool.last().expect("there are values")];
    for _ in 0..generator.random.below(4) {
        outputs.push(generator.any());
    }
    generator.b.finish(&outputs)
}

/// Inputs of the trace's types; floats have every kind of special value among them.
pub(crate) fn inputs(seed: u64, trace: &Trace) -> Vec<HostTensor> {
    let mut random = Random(seed ^ 0x5eed);
    trace.inputs().iter().map(|&input| tensor(&mut random, trace.ty(input))).collect()
}

fn tensor(random: &mut Random, ty: &TensorType) -> HostTensor {
    let specials =
        [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 0.0, 1e-40, f32::MAX, f32::from_bits(0xffc1_2345)];
    let element = |random: &mut Random| match ty.dtype {
        DType::F32 if random.chance(3) => random.pick(&specials).into(),
        DType::F32 => Scalar::from((random.below(4001) as f32 - 2000.0) / 700.0),
        dtype @ (DType::F16 | DType::BF16) if random.chance(3) => Scalar::from_bits(dtype, random.next() & 0xffff),
        dtype @ (DType::F16 | DType::BF16) => Scalar::from_f64(dtype, (random.below(4001) as f64 - 2000.0) / 700.0),
        DType::I32 | DType::U32 | DType::I64 => Scalar::from_f64(ty.dtype, random.below(9) as f64 - 3.0),
        DType::Bool => random.chance(50).into(),
    };
    let size = ty.dtype.size();
    let elements = (0..ty.shape.elements()).flat_map(|_| element(random).to_le_bytes().into_iter().take(size));
    HostTensor { bytes: elements.collect(), ty: ty.clone() }
}

struct Generator {
    random: Random,
    b: Builder,
    pool: Vec<ValueId>,
}

impl Generator {
    /// A value, rather a recent one.
    fn any(&mut self) -> ValueId {
        let recent = self.pool.len().min(4);
        let at = if self.random.chance(60) {
            self.pool.len() - 1 - self.random.below(recent)
        } else {
            self.random.below(self.pool.len())
        };
        self.pool[at]
    }

    fn dtype(&self, value: ValueId) -> DType {
        self.b.trace.ty(value).dtype
    }

    fn some(&mut self, accept: impl Fn(&Self, ValueId) -> bool) -> Option<ValueId> {
        for _ in 0..8 {
            let value = self.any();
            if accept(self, value) {
                return Some(value);
            }
        }
        None
    }

    fn float(&mut self) -> Option<ValueId> {
        self.some(|generator, value| generator.dtype(value) == DType::F32)
    }

    fn step(&mut self) {
        let value = match self.random.below(20) {
            0..=3 => self.unary(),
            4..=8 => self.binary(),
            9 => self.choice(),
            10 | 11 => self.reduction(),
            12 => self.normalized(),
            13 => self.dot(),
            14 => self.take(),
            15 => self.pad(),
            16 => self.concatenation(),
            17 | 18 => self.view(),
            _ => self.source(),
        };
        if let Some(value) = value
            && self.b.trace.ty(value).shape.elements() <= MOST_ELEMENTS
        {
            self.pool.push(value);
        }
    }

    fn unary(&mut self) -> Option<ValueId> {
        let value = self.any();
        let ops = [
            Opcode::Abs,
            Opcode::Negate,
            Opcode::Sign,
            Opcode::Exponential,
            Opcode::Tanh,
            Opcode::Sqrt,
            Opcode::Floor,
            Opcode::Not,
        ];
        let op = self.random.pick(&ops);
        if !op.info().dtypes.admits(self.dtype(value)) {
            let to = self.random.pick(&[DType::F32, DType::F32, DType::I32, DType::I64]);
            return Some(self.b.convert(value, to));
        }
        Some(self.b.op(op, &[value]))
    }

    /// Something of that value's type, made by broadcasting where it must.
    fn partner(&mut self, value: ValueId) -> ValueId {
        let (shape, dtype) = (self.b.shape(value), self.dtype(value));
        for _ in 0..6 {
            let other = self.any();
            if self.dtype(other) != dtype {
                continue;
            }
            if let Some(dims) = self.embedding(&self.b.shape(other), &shape) {
                let plain = dims.len() == shape.len() && self.b.shape(other) == shape;
                return if plain { other } else { self.b.broadcast(other, &shape, &dims) };
            }
        }
        let number = Scalar::from_f64(dtype, self.random.below(7) as f64 - 2.0);
        let number = self.b.number(number);
        self.b.broadcast(number, &shape, &[])
    }

    /// Ascending dimensions of `to` for those of `from`: equal extents, or 1.
    fn embedding(&self, from: &[usize], to: &[usize]) -> Option<Vec<u32>> {
        let mut next = to.len();
        let mut dims = Vec::new();
        for &extent in from.iter().rev() {
            let at = (0..next).rev().find(|&dim| to[dim] == extent || extent == 1)?;
            dims.push(at as u32);
            next = at;
        }
        dims.reverse();
        Some(dims)
    }

    fn binary(&mut self) -> Option<ValueId> {
        let value = self.any();
        let partner = self.partner(value);
        let ops = [
            Opcode::Add,
            Opcode::Add,
            Opcode::Subtract,
            Opcode::Multiply,
            Opcode::Multiply,
            Opcode::Divide,
            Opcode::Maximum,
            Opcode::Minimum,
        ];
        let op = self.random.pick(&ops);
        let op = if op.info().dtypes.admits(self.dtype(value)) { op } else { Opcode::Maximum };
        let operands = if self.random.chance(50) { [value, partner] } else { [partner, value] };
        Some(self.b.op(op, &operands))
    }

    fn choice(&mut self) -> Option<ValueId> {
        let value = self.any();
        let (first, second) = (self.partner(value), self.partner(value));
        let pred = self.b.compare(self.random.pick(&[Comparison::Lt, Comparison::Ge, Comparison::Ne]), value, first);
        if self.random.chance(30) {
            return Some(pred);
        }
        if self.random.chance(20) && self.dtype(value) == DType::F32 {
            let (low, high) = (self.b.number(-1f32), self.b.number(1f32));
            return Some(self.b.op(Opcode::Clamp, &[low, value, high]));
        }
        Some(self.b.op(Opcode::Select, &[pred, value, second]))
    }

    fn some_dims(&mut self, rank: usize) -> Vec<u32> {
        (0..rank as u32).filter(|_| self.random.chance(45)).collect()
    }

    fn reduce(&mut self, value: ValueId, dims: &[u32]) -> ValueId {
        let dtype = self.dtype(value);
        let monoid = self.random.pick(&[Monoid::Add, Monoid::Maximum, Monoid::Minimum, Monoid::Multiply]);
        let init = Scalar::from_f64(dtype, self.random.below(3) as f64);
        let init = self.b.number(init);
        self.b.reduce_from(monoid, value, init, dims)
    }

    fn reduction(&mut self) -> Option<ValueId> {
        let value = self.any();
        let rank = self.b.shape(value).len();
        if rank > 0 && self.random.chance(20) {
            let dim = self.random.below(rank) as u32;
            let extreme = self.random.pick(&[Extreme::Greatest, Extreme::Least]);
            return Some(self.b.arg_reduce(extreme, value, dim)[self.random.below(2)]);
        }
        let dims = self.some_dims(rank);
        let reduced = self.reduce(value, &dims);
        if self.random.chance(30) {
            let keep: Vec<usize> = self.kept_shape(value, &dims);
            return Some(self.b.reshape(reduced, &keep));
        }
        Some(reduced)
    }

    fn kept_shape(&self, value: ValueId, dims: &[u32]) -> Vec<usize> {
        let shape = self.b.shape(value);
        shape.iter().zip(0..).map(|(&extent, dim)| if dims.contains(&dim) { 1 } else { extent }).collect()
    }

    /// What softmax and layer norm look like: a reduction, and its operand against it.
    fn normalized(&mut self) -> Option<ValueId> {
        let value = self.float()?;
        let shape = self.b.shape(value);
        let dims = self.some_dims(shape.len());
        let mut value = value;
        for _ in 0..1 + self.random.below(2) {
            let reduced = self.reduce(value, &dims);
            let spread = if self.random.chance(50) {
                let keep = self.kept_shape(value, &dims);
                let kept = self.b.reshape(reduced, &keep);
                self.pool.push(kept);
                let all: Vec<u32> = (0..shape.len() as u32).collect();
                self.b.broadcast(kept, &shape, &all)
            } else {
                let others: Vec<u32> = (0..shape.len() as u32).filter(|dim| !dims.contains(dim)).collect();
                self.b.broadcast(reduced, &shape, &others)
            };
            let op = self.random.pick(&[Opcode::Subtract, Opcode::Divide]);
            value = self.b.op(op, &[value, spread]);
        }
        Some(value)
    }

    fn dot(&mut self) -> Option<ValueId> {
        let lhs = self
            .some(|generator, value| !generator.b.shape(value).is_empty() && generator.dtype(value) != DType::Bool)?;
        let (shape, dtype) = (self.b.shape(lhs), self.dtype(lhs));
        let at = self.random.below(shape.len());
        let extent = shape[at];
        let rhs = self
            .some(|generator, value| generator.dtype(value) == dtype && generator.b.shape(value).contains(&extent))?;
        let other = self.b.shape(rhs);
        let matching: Vec<usize> = (0..other.len()).filter(|&dim| other[dim] == extent).collect();
        let with = self.random.pick(&matching);
        let batch = (0..shape.len())
            .flat_map(|i| (0..other.len()).map(move |j| (i, j)))
            .find(|&(i, j)| i != at && j != with && shape[i] == other[j])
            .filter(|_| self.random.chance(40));
        let size = shape.iter().chain(&other).product::<usize>();
        if size > 20 * MOST_ELEMENTS {
            return None;
        }
        let contract = [[at as u32], [with as u32]];
        let [left, right] = &contract;
        Some(match batch {
            Some((i, j)) => self.b.dot_general(lhs, rhs, [&[i as u32], &[j as u32]], [left, right]),
            None => self.b.dot_general(lhs, rhs, [&[], &[]], [left, right]),
        })
    }

    fn take(&mut self) -> Option<ValueId> {
        let operand = self.some(|generator, value| {
            let shape = generator.b.shape(value);
            !shape.is_empty() && shape.iter().all(|&extent| extent > 0)
        })?;
        let indices = self.some(|generator, value| generator.dtype(value).is_integer())?;
        let axis = self.random.below(self.b.shape(operand).len()) as u32;
        let size = self.b.shape(operand).iter().chain(&self.b.shape(indices)).product::<usize>();
        (size <= MOST_ELEMENTS && self.b.shape(indices).len() < 3).then(|| self.b.take(operand, indices, axis))
    }

    fn pad(&mut self) -> Option<ValueId> {
        let value = self.any();
        let dtype = self.dtype(value);
        let number = match self
            .some(|generator, value| generator.dtype(value) == dtype && generator.b.shape(value).is_empty())
        {
            Some(number) => number,
            None => self.b.number(Scalar::from_f64(dtype, 2.0)),
        };
        let mut amounts = [Vec::new(), Vec::new(), Vec::new()];
        for extent in self.b.shape(value) {
            let interior = if self.random.chance(25) { 1 + self.random.below(2) as i64 } else { 0 };
            let spread = if extent == 0 { 0 } else { extent as i64 + (extent as i64 - 1) * interior };
            let low = self.random.below(4) as i64 - 1;
            let high = (self.random.below(4) as i64 - 1).max(-(spread + low));
            let low = low.max(-(spread + high));
            amounts[0].push(low);
            amounts[1].push(high);
            amounts[2].push(interior);
        }
        Some(self.b.pad(value, number, &amounts[0], &amounts[1], &amounts[2]))
    }

    fn concatenation(&mut self) -> Option<ValueId> {
        let value = self.some(|generator, value| !generator.b.shape(value).is_empty())?;
        let (shape, dtype) = (self.b.shape(value), self.dtype(value));
        let dimension = self.random.below(shape.len());
        let fits = |generator: &Self, other: ValueId| {
            let mut other_shape = generator.b.shape(other);
            if generator.dtype(other) != dtype || other_shape.len() != shape.len() {
                return false;
            }
            other_shape[dimension] = shape[dimension];
            other_shape == shape
        };
        let mut values = vec![value];
        for _ in 0..self.random.below(3) {
            values.extend(self.some(fits));
        }
        Some(self.b.concatenate(&values, dimension as u32))
    }

    fn view(&mut self) -> Option<ValueId> {
        let value = self.any();
        let shape = self.b.shape(value);
        Some(match self.random.below(5) {
            0 => {
                let mut permutation: Vec<u32> = (0..shape.len() as u32).collect();
                for i in (1..permutation.len()).rev() {
                    permutation.swap(i, self.random.below(i + 1));
                }
                self.b.transpose(value, &permutation)
            }
            1 => {
                let (mut start, mut limit, mut stride) = (Vec::new(), Vec::new(), Vec::new());
                for &extent in &shape {
                    let from = self.random.below(extent / 2 + 1);
                    start.push(from as i64);
                    limit.push((from + self.random.below(extent - from + 1)) as i64);
                    stride.push(self.random.pick(&[1, 1, 2]));
                }
                self.b.slice(value, &start, &limit, &stride)
            }
            2 => {
                let mut wide = shape.clone();
                let at = self.random.below(shape.len() + 1);
                wide.insert(at, self.random.pick(&[1, 2, 3]));
                let dims: Vec<u32> = (0..=shape.len() as u32).filter(|&dim| dim != at as u32).collect();
                self.b.broadcast(value, &wide, &dims)
            }
            3 => {
                let mut proper: Vec<usize> = shape.iter().copied().filter(|&extent| extent != 1).collect();
                let at = self.random.below(proper.len() + 1);
                proper.insert(at, 1);
                self.b.reshape(value, &proper)
            }
            _ => self.b.reshape(value, &[shape.iter().product()]),
        })
    }

    fn source(&mut self) -> Option<ValueId> {
        let like = self.any();
        let shape = self.b.shape(like);
        if shape.is_empty() {
            return Some(self.b.number(1.5f32));
        }
        let dimension = self.random.below(shape.len()) as u32;
        let dtype = self.random.pick(&[DType::I32, DType::F32]);
        Some(self.b.iota(dtype, &shape, dimension))
    }
}
