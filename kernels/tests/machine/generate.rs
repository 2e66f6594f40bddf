//! Random tile programs with arguments: valid, of every instruction, over extents 0, 1, odd and large.

use smallvec::SmallVec;
use systole_kernels::contract::contracts;
use systole_kernels::lanes;
use systole_kernels::program::{
    Access, BufferType, Comparison, DimMap, Domain, Extent, Extreme, IndexComponent, IndexSource, Instr, LaneOp, Low,
    Monoid, Mxu, Order, Placement, Precision, Program, ReduceAlong, Reg, RegType, Vary, Winner,
};
use systole_kernels::reduce::Reducer;
use systole_kernels::{DType, Scalar};

/// A program with arguments.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) program: Program,
    pub(crate) params: Vec<i64>,
    pub(crate) scalars: Vec<u64>,
    pub(crate) inputs: Vec<Vec<Scalar>>,
}

/// SplitMix64.
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// A random element: small numbers, and now and then what needs care.
pub(crate) fn element(rng: &mut Rng, dtype: DType) -> Scalar {
    match dtype {
        DType::Bool => rng.chance(50).into(),
        DType::I32 => {
            if rng.chance(5) {
                rng.pick(&[i32::MIN, i32::MAX, 0, -1]).into()
            } else {
                (rng.below(40) as i32 - 20).into()
            }
        }
        DType::U32 => {
            if rng.chance(5) {
                u32::MAX.into()
            } else {
                (rng.below(40) as u32).into()
            }
        }
        DType::I64 => {
            if rng.chance(5) {
                rng.pick(&[i64::MIN, i64::MAX, 0, -1]).into()
            } else {
                (rng.below(40) as i64 - 20).into()
            }
        }
        DType::F16 | DType::BF16 => {
            if rng.chance(2) {
                Scalar::from_bits(dtype, rng.below(0x1_0000) as u64)
            } else {
                Scalar::from_f64(dtype, rng.below(1 << 24) as f64 / f64::from(1 << 22) - 2.0)
            }
        }
        DType::F32 => {
            if rng.chance(1) {
                rng.pick(&[f32::INFINITY, -0.0, 0.0, f32::from_bits(3), f32::from_bits(0xffc0_1234), 1e30]).into()
            } else {
                ((rng.below(1 << 24) as f32 / (1 << 22) as f32) - 2.0).into()
            }
        }
    }
}

struct Builder {
    rng: Rng,
    params: Vec<i64>,
    scalars: Vec<u64>,
    scalar_types: Vec<DType>,
    inputs: Vec<(BufferType, Vec<Scalar>)>,
    domain: Domain,
    sizes: Vec<i64>,
    reduce: Option<ReduceAlong>,
    contract: SmallVec<[Extent; 2]>,
    regs: Vec<RegType>,
    /// Registers that changed since the start along the reduced axes only by a reduction.
    body: Vec<Instr>,
}

impl Builder {
    /// The number as an extent; equal numbers above 1 may or may not be one parameter.
    fn extent(&mut self, value: i64) -> Extent {
        if value == 0 || value == 1 {
            return Extent::Fixed(value);
        }
        if self.rng.chance(70)
            && let Some(known) = self.params.iter().position(|&param| param == value)
        {
            return Extent::Param(known as u16);
        }
        self.params.push(value);
        Extent::Param(self.params.len() as u16 - 1)
    }

    fn group(&self, axis: usize) -> Vary {
        let (outer, rows) = (self.domain.outer.len(), self.domain.outer.len() + self.domain.rows.len());
        Vary { rows: (outer..rows).contains(&axis), cols: axis >= rows }
    }

    fn reg(&mut self, dtype: DType, vary: Vary) -> Reg {
        self.regs.push(RegType { dtype, vary });
        Reg(self.regs.len() as u16 - 1)
    }

    fn input(&mut self, dtype: DType, shape: &[i64]) -> u16 {
        let len = shape.iter().product::<i64>() as usize;
        let elements = (0..len).map(|_| element(&mut self.rng, dtype)).collect();
        let shape = shape.iter().map(|&extent| self.extent(extent)).collect();
        self.inputs.push((BufferType { dtype, shape }, elements));
        self.inputs.len() as u16 - 1
    }

    fn shuffled(&mut self, mut axes: Vec<u8>) -> Vec<u8> {
        if self.rng.chance(30) {
            for i in (1..axes.len()).rev() {
                let j = self.rng.below(i + 1);
                axes.swap(i, j);
            }
        }
        axes
    }

    /// A fresh buffer and an access that moves along `axes`, of sizes `sizes`.
    fn access(&mut self, dtype: DType, axes: &[u8], sizes: &[i64]) -> Access {
        let (mut shape, mut dims) = (Vec::new(), SmallVec::new());
        for &axis in axes {
            let size = sizes[usize::from(axis)];
            let (extent, dim) = match self.rng.below(10) {
                0 => {
                    // A slice with a step.
                    let (start, step) = (self.rng.below(3) as i64, 1 + self.rng.below(2) as i64);
                    let extent = start + step * size + self.rng.below(2) as i64;
                    (extent, DimMap { axis: Some(axis), start: self.extent(start), step: self.extent(step) })
                }
                1 if size > 0 => {
                    let start = self.extent(size - 1);
                    (size, DimMap { axis: Some(axis), start, step: Extent::Fixed(-1) })
                }
                _ => (size, DimMap::along(axis)),
            };
            shape.push(extent);
            dims.push(dim);
        }
        if self.rng.chance(20) {
            let at = self.rng.below(dims.len() + 1);
            let (extent, start) = (1 + self.rng.below(3) as i64, 0);
            shape.insert(at, extent);
            dims.insert(at, DimMap { axis: None, start: Extent::Fixed(start), step: Extent::ONE });
        }
        Access { buffer: self.input(dtype, &shape), dims }
    }

    /// Some axes of the domain, most of the time all.
    fn some_axes(&mut self) -> Vec<u8> {
        let all: Vec<u8> = (0..self.domain.rank() as u8).collect();
        let axes = if self.rng.chance(60) { all } else { all.into_iter().filter(|_| self.rng.chance(60)).collect() };
        self.shuffled(axes)
    }

    fn vary_of(&self, axes: &[u8]) -> Vary {
        axes.iter().fold(Vary::NONE, |vary, &axis| vary.join(self.group(usize::from(axis))))
    }

    fn access_vary(&self, access: &Access) -> Vary {
        self.vary_of(&access.dims.iter().filter_map(|dim| dim.axis).collect::<Vec<_>>())
    }

    fn load(&mut self, dtype: DType, axes: &[u8]) -> Reg {
        let again: Vec<Access> = self
            .body
            .iter()
            .filter_map(|instr| match instr {
                Instr::Load { access, .. } if self.inputs[usize::from(access.buffer)].0.dtype == dtype => {
                    Some(access.clone())
                }
                _ => None,
            })
            .collect();
        let access = if axes.len() == self.domain.rank() && !again.is_empty() && self.rng.chance(15) {
            again[self.rng.below(again.len())].clone()
        } else {
            let sizes = self.sizes.clone();
            self.access(dtype, axes, &sizes)
        };
        let vary = self.access_vary(&access);
        let dst = self.reg(dtype, vary);
        self.body.push(Instr::Load { dst, access });
        dst
    }

    fn leaf(&mut self) {
        let dtype = self.rng.pick(&DType::ALL);
        match self.rng.below(12) {
            0 => {
                let bits = element(&mut self.rng, dtype).bits();
                self.scalars.push(bits);
                self.scalar_types.push(dtype);
                let dst = self.reg(dtype, Vary::NONE);
                self.body.push(Instr::Scalar { dst, slot: self.scalars.len() as u16 - 1 });
            }
            1 if self.domain.rank() > 0 => {
                let dtype = self.rng.pick(&DType::ALL[1..]);
                let axis = self.rng.below(self.domain.rank());
                let dst = self.reg(dtype, self.group(axis));
                self.body.push(Instr::Iota { dst, axis: axis as u8 });
            }
            2 => self.gather(dtype),
            3 => self.overlay(dtype),
            _ => {
                let axes = self.some_axes();
                let dtype =
                    if self.rng.chance(60) { self.rng.pick(&[DType::F32, DType::F32, DType::BF16]) } else { dtype };
                self.load(dtype, &axes);
            }
        }
    }

    fn gather(&mut self, dtype: DType) {
        let axes = self.some_axes();
        let sizes = self.sizes.clone();
        let mut access = self.access(dtype, &axes, &sizes);
        // One or two fresh dimensions, moved by indices.
        let mut indices = SmallVec::new();
        for _ in 0..1 + self.rng.below(2) {
            let extent = 1 + self.rng.below(6) as i64;
            let at = self.rng.below(access.dims.len() + 1);
            let buffer = &mut self.inputs[usize::from(access.buffer)].0;
            buffer.shape.insert(at, Extent::Fixed(extent));
            access.dims.insert(at, DimMap::fixed());
            for component in &mut indices {
                let component: &mut IndexComponent = component;
                component.dim += u8::from(usize::from(component.dim) >= at);
            }
            let index = if self.rng.chance(30) {
                IndexSource::Number(self.number())
            } else {
                let index_axes = self.some_axes();
                let index_type = self.rng.pick(&[DType::I32, DType::U32, DType::I64]);
                IndexSource::Memory(self.access(index_type, &index_axes, &sizes))
            };
            indices.push(IndexComponent { index, dim: at as u8, slice: Extent::ONE });
        }
        let shape: Vec<i64> = {
            let params = &self.params;
            self.inputs[usize::from(access.buffer)].0.shape.iter().map(|extent| extent.resolve(params)).collect()
        };
        let len = shape.iter().product::<i64>() as usize;
        self.inputs[usize::from(access.buffer)].1 = (0..len).map(|_| element(&mut self.rng, dtype)).collect();
        let vary =
            indices.iter().fold(self.access_vary(&access), |vary, component: &IndexComponent| match &component.index {
                IndexSource::Memory(index) => vary.join(self.access_vary(index)),
                IndexSource::Number(_) => vary,
            });
        let dst = self.reg(dtype, vary);
        self.body.push(Instr::Gather { dst, access, indices });
    }

    /// A register with one index: read from memory, or computed of one that is.
    fn number(&mut self) -> Reg {
        let dtype = self.rng.pick(&[DType::I32, DType::U32, DType::I64]);
        let access = self.access(dtype, &[], &[]);
        let read = self.reg(dtype, Vary::NONE);
        self.body.push(Instr::Load { dst: read, access });
        if self.rng.chance(60) {
            return read;
        }
        let dst = self.reg(dtype, Vary::NONE);
        self.body.push(Instr::Lane { op: LaneOp::Add, dst, args: SmallVec::from_slice(&[read, read]) });
        dst
    }

    fn overlay(&mut self, dtype: DType) {
        let axes = self.some_axes();
        let background = match (0..self.regs.len()).rev().find(|&reg| self.regs[reg].dtype == dtype) {
            Some(reg) if self.rng.chance(80) => Reg(reg as u16),
            _ => {
                let axes = self.some_axes();
                self.load(dtype, &axes)
            }
        };
        let (mut shape, mut placement) = (Vec::new(), SmallVec::new());
        for &axis in &axes {
            let size = self.sizes[usize::from(axis)];
            let (extent, low, interior) = if self.rng.chance(40) {
                (size, 0, 0)
            } else {
                (self.rng.below(size as usize + 2) as i64, self.rng.below(5) as i64 - 2, self.rng.below(3) as i64)
            };
            let clamped = extent <= size && self.rng.chance(30);
            let low = if clamped { Low::Clamped(self.number()) } else { Low::At(Extent::Fixed(low)) };
            shape.push(extent);
            placement.push(Placement { axis, low, interior: Extent::Fixed(interior) });
        }
        let buffer = self.input(dtype, &shape);
        let dst = self.reg(dtype, Vary::BOTH);
        self.body.push(Instr::Overlay { dst, background, buffer, placement });
    }

    fn lane(&mut self) {
        const OPS: [LaneOp; 31] = [
            LaneOp::Abs,
            LaneOp::Negate,
            LaneOp::Sign,
            LaneOp::Sqrt,
            LaneOp::Tanh,
            LaneOp::Exponential,
            LaneOp::Floor,
            LaneOp::Not,
            LaneOp::Add,
            LaneOp::Add,
            LaneOp::Add,
            LaneOp::Subtract,
            LaneOp::Subtract,
            LaneOp::Multiply,
            LaneOp::Multiply,
            LaneOp::Divide,
            LaneOp::Maximum,
            LaneOp::Minimum,
            LaneOp::Remainder,
            LaneOp::And,
            LaneOp::Or,
            LaneOp::Xor,
            LaneOp::Compare(Comparison::Lt, Order::Partial),
            LaneOp::Compare(Comparison::Ge, Order::Total),
            LaneOp::Select,
            LaneOp::Select,
            LaneOp::Clamp,
            LaneOp::Convert,
            LaneOp::Convert,
            LaneOp::Bitcast,
            LaneOp::ChipConvert,
        ];
        for _ in 0..50 {
            let op = self.rng.pick(&OPS);
            let arity = match op {
                LaneOp::Abs
                | LaneOp::Negate
                | LaneOp::Sign
                | LaneOp::Sqrt
                | LaneOp::Tanh
                | LaneOp::Exponential
                | LaneOp::Floor
                | LaneOp::Not
                | LaneOp::Convert
                | LaneOp::Bitcast
                | LaneOp::ChipConvert => 1,
                LaneOp::Select | LaneOp::Clamp => 3,
                _ => 2,
            };
            // The newest registers most, so that programs become deep.
            let args: SmallVec<[Reg; 3]> = (0..arity)
                .map(|_| {
                    let back = if self.rng.chance(60) { self.rng.below(4) } else { self.rng.below(self.regs.len()) };
                    Reg((self.regs.len() - 1 - back.min(self.regs.len() - 1)) as u16)
                })
                .collect();
            let dtypes: Vec<DType> = args.iter().map(|arg| self.regs[usize::from(arg.0)].dtype).collect();
            let result = match op {
                LaneOp::Compare(..) => DType::Bool,
                LaneOp::Convert | LaneOp::ChipConvert | LaneOp::Bitcast => self.rng.pick(&DType::ALL),
                LaneOp::Select => dtypes[1],
                _ => dtypes[0],
            };
            if lanes::kernel(op, &dtypes, result).is_some() {
                let vary = args.iter().fold(Vary::NONE, |vary, arg| vary.join(self.regs[usize::from(arg.0)].vary));
                let vary = if self.rng.chance(4) { Vary::BOTH } else { vary };
                let dst = self.reg(result, vary);
                self.body.push(Instr::Lane { op, dst, args });
                return;
            }
        }
    }

    fn reduce(&mut self) {
        let Some(along) = self.reduce else { return };
        if self.rng.chance(4) {
            return self.arg_reduce(along);
        }
        let src = Reg((self.regs.len() - 1 - self.rng.below(self.regs.len().min(4))) as u16);
        let RegType { dtype, vary } = self.regs[usize::from(src.0)];
        let monoid = self.rng.pick(&[
            Monoid::Add,
            Monoid::Add,
            Monoid::Multiply,
            Monoid::Maximum,
            Monoid::Minimum,
            Monoid::And,
            Monoid::Or,
        ]);
        if Reducer::new(monoid, dtype).is_none() {
            return;
        }
        let init = self.init(dtype);
        let vary = match along {
            ReduceAlong::Cols => Vary { cols: false, ..vary },
            ReduceAlong::Rows => Vary { rows: false, ..vary },
        };
        let dst = self.reg(dtype, vary);
        self.body.push(Instr::Reduce { monoid, dst, src, init });
    }

    /// A register that varies along nothing.
    fn init(&mut self, dtype: DType) -> Reg {
        match (0..self.regs.len()).find(|&reg| self.regs[reg] == RegType { dtype, vary: Vary::NONE }) {
            Some(reg) => Reg(reg as u16),
            None => {
                let outer: Vec<u8> = (0..self.domain.outer.len() as u8).collect();
                let sizes = self.sizes.clone();
                let access = self.access(dtype, &outer, &sizes);
                let dst = self.reg(dtype, Vary::NONE);
                self.body.push(Instr::Load { dst, access });
                dst
            }
        }
    }

    fn arg_reduce(&mut self, along: ReduceAlong) {
        let values = Reg(self.rng.below(self.regs.len()) as u16);
        let integers: Vec<u16> =
            (0..self.regs.len() as u16).filter(|&reg| self.regs[usize::from(reg)].dtype.is_integer()).collect();
        if integers.is_empty() {
            return;
        }
        let indices = Reg(self.rng.pick(&integers));
        let (value, index) = (self.regs[usize::from(values.0)], self.regs[usize::from(indices.0)]);
        let init = (self.init(value.dtype), self.init(index.dtype));
        let vary = value.vary.join(index.vary);
        let vary = match along {
            ReduceAlong::Cols => Vary { cols: false, ..vary },
            ReduceAlong::Rows => Vary { rows: false, ..vary },
        };
        let wanted = self.rng.pick(&[Winner::Value, Winner::Index]);
        let extreme = self.rng.pick(&[Extreme::Greatest, Extreme::Least]);
        let dst = self.reg(if wanted == Winner::Value { value.dtype } else { index.dtype }, vary);
        self.body.push(Instr::ArgReduce { extreme, wanted, dst, values, indices, init });
    }

    fn dot(&mut self) {
        let floats = [DType::F32, DType::F32, DType::F16, DType::BF16];
        let dtype = self.rng.pick(&[floats, [DType::F32, DType::BF16, DType::I32, DType::I64]].concat());
        let contract: Vec<i64> = match self.rng.below(20) {
            // Longer than every chain.
            0 => vec![300],
            _ => (0..self.rng.below(3)).map(|_| self.rng.pick(&[0, 1, 2, 5, 16, 150, 7])).collect(),
        };
        self.contract = contract.iter().map(|&extent| self.extent(extent)).collect();
        let rank = self.domain.rank();
        let (outer, rows) = (self.domain.outer.len(), self.domain.outer.len() + self.domain.rows.len());
        let mut sizes = self.sizes.clone();
        sizes.extend(&contract);
        let contracted = rank as u8..(rank + contract.len()) as u8;
        let side = |own: std::ops::Range<usize>| -> Vec<u8> {
            (0..outer as u8).chain(own.start as u8..own.end as u8).chain(contracted.clone()).collect()
        };
        let (lhs, rhs) = (self.shuffled(side(outer..rows)), self.shuffled(side(rows..rank)));
        let (lhs, rhs) = (self.access(dtype, &lhs, &sizes), self.access(dtype, &rhs, &sizes));
        let mxu = self.rng.pick(&[None, None, Some(Mxu::Depth128), Some(Mxu::Depth256)]);
        let precision = self.rng.pick(&[Precision::Default, Precision::High, Precision::Highest]);
        let wide = contracts(dtype, DType::F32) && (mxu.is_some() || self.rng.chance(30));
        let result = if wide { DType::F32 } else { dtype };
        let dst = self.reg(result, Vary::BOTH);
        self.body.push(Instr::Dot { dst, lhs, rhs, precision, mxu });
    }

    fn store(&mut self, outputs: &mut Vec<BufferType>, pending: &mut Vec<(Reg, usize, SmallVec<[DimMap; 4]>)>) {
        let src = Reg((self.regs.len() - 1 - self.rng.below(self.regs.len().min(6))) as u16);
        let RegType { dtype, vary } = self.regs[usize::from(src.0)];
        let whole = self.rng.chance(30);
        let axes = (0..self.domain.rank()).filter(|&axis| {
            let group = self.group(axis);
            match self.reduce {
                Some(ReduceAlong::Cols) => !group.cols || vary.cols || whole,
                Some(ReduceAlong::Rows) => !group.rows || vary.rows || whole,
                None => true,
            }
        });
        let axes: Vec<u8> = axes.map(|axis| axis as u8).collect();
        let axes = self.shuffled(axes);
        let (mut shape, mut dims) = (SmallVec::new(), SmallVec::new());
        for axis in axes {
            let size = self.sizes[usize::from(axis)];
            let extent = self.domain.axes().nth(usize::from(axis)).expect("the axis is there");
            shape.push(extent);
            dims.push(if size > 0 && self.rng.chance(5) {
                DimMap { axis: Some(axis), start: self.extent(size - 1), step: Extent::Fixed(-1) }
            } else {
                DimMap::along(axis)
            });
        }
        if self.rng.chance(10) {
            shape.push(Extent::ONE);
            dims.push(DimMap::fixed());
        }
        outputs.push(BufferType { dtype, shape });
        // Stores go to random places after the definition, most to the end.
        let at = if self.rng.chance(70) { usize::MAX } else { self.body.len() };
        pending.push((src, at, dims));
    }
}

/// The case of a seed.
pub(crate) fn case(seed: u64) -> Case {
    let mut rng = Rng(seed.wrapping_mul(0x5851_f42d_4c95_7f2d));
    let reduce = rng.pick(&[None, None, Some(ReduceAlong::Cols), Some(ReduceAlong::Cols), Some(ReduceAlong::Rows)]);
    let with_dot = rng.chance(20);
    let groups: Vec<Vec<i64>> = loop {
        let mut group =
            |most: usize, sizes: &[i64]| -> Vec<i64> { (0..rng.below(most + 1)).map(|_| rng.pick(sizes)).collect() };
        let outer = group(2, &[1, 2, 3, 2, 3, 0]);
        let large = reduce.is_some() && group(2, &[1]).is_empty() && group(1, &[1]).is_empty();
        let (rows, cols) = match (reduce, large) {
            (Some(ReduceAlong::Cols), true) => (group(2, &[1, 2, 3]), group(2, &[17_000, 1, 130, 150])),
            (Some(ReduceAlong::Rows), true) => (group(2, &[300, 1, 17, 25]), group(2, &[70, 1, 3, 515])),
            _ => (group(2, &[0, 1, 2, 3, 7, 16, 33, 64]), group(2, &[0, 1, 2, 3, 5, 16, 33, 70, 129])),
        };
        let points: i64 = outer.iter().chain(&rows).chain(&cols).product();
        if points <= if large { 40_000 } else { 6_000 } {
            break vec![outer, rows, cols];
        }
    };
    let mut builder = Builder {
        rng,
        params: Vec::new(),
        scalars: Vec::new(),
        scalar_types: Vec::new(),
        inputs: Vec::new(),
        domain: Domain::default(),
        sizes: groups.concat(),
        reduce,
        contract: SmallVec::new(),
        regs: Vec::new(),
        body: Vec::new(),
    };
    builder.domain = Domain {
        outer: groups[0].iter().map(|&extent| builder.extent(extent)).collect(),
        rows: groups[1].iter().map(|&extent| builder.extent(extent)).collect(),
        cols: groups[2].iter().map(|&extent| builder.extent(extent)).collect(),
    };
    let (mut outputs, mut stores) = (Vec::new(), Vec::new());
    if with_dot {
        builder.dot();
    } else {
        builder.leaf();
    }
    for _ in 0..2 + builder.rng.below(14) {
        match builder.rng.below(10) {
            0..3 => builder.leaf(),
            3..8 => builder.lane(),
            8 => builder.reduce(),
            _ if outputs.len() < 2 => builder.store(&mut outputs, &mut stores),
            _ => builder.lane(),
        }
    }
    builder.store(&mut outputs, &mut stores);
    finish(builder, outputs, stores)
}

/// Puts the stores in, now that the number of inputs is known.
fn finish(builder: Builder, outputs: Vec<BufferType>, stores: Vec<(Reg, usize, SmallVec<[DimMap; 4]>)>) -> Case {
    let Builder { params, scalars, scalar_types, inputs, domain, reduce, contract, regs, mut body, .. } = builder;
    let count = inputs.len() as u16;
    for (output, (src, at, dims)) in stores.into_iter().enumerate().rev() {
        let at = at.min(body.len());
        body.insert(at, Instr::Store { src, access: Access { buffer: count + output as u16, dims } });
    }
    let (mut buffers, elements): (Vec<BufferType>, Vec<Vec<Scalar>>) = inputs.into_iter().unzip();
    buffers.extend(outputs);
    let program = Program {
        name: String::from("random"),
        params: params.len() as u16,
        scalars: scalar_types,
        buffers,
        inputs: count,
        domain,
        reduce,
        contract,
        regs,
        body,
    };
    Case { program, params, scalars, inputs: elements }
}
