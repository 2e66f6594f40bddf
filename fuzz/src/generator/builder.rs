//! A program under construction: its live tensors, its budget, and when handles go.

use smallvec::{SmallVec, smallvec};
use systole_fusion::infer::infer;
use systole_fusion::ir::attrs::Dims;
use systole_fusion::ir::region::Body;
use systole_fusion::ir::{Attrs, Literal, Opcode, SliceLimits};
use systole_fusion::reference::HostTensor;
use systole_kernels::{DType, Scalar, Shape, TensorType};

use super::data;
use super::random::Random;
use crate::program::{Handle, Step, regions};

/// Live handles that a program keeps about itself.
const CROWD: usize = 14;

pub(super) struct Builder {
    pub(super) random: Random,
    steps: Vec<Step>,
    ops: usize,
    next: u32,
    live: Vec<(Handle, TensorType)>,
    /// Still live, but no later sentence uses them: they are dropped some steps on.
    dying: Vec<Handle>,
    /// Handles that the sentence under way has made.
    said: Vec<Handle>,
    palette: SmallVec<[usize; 8]>,
    /// Elements that one tensor may have, and that the program may still make.
    largest: usize,
    room: usize,
    /// Multiply-adds that one dot may take.
    pub(super) dot_work: usize,
    /// Whether gather indices may lie outside the operand.
    pub(super) strays: bool,
    streams: bool,
    stream: u8,
}

impl Builder {
    pub(super) fn new(mut random: Random) -> Self {
        let wide = random.chance(4);
        let mut palette: SmallVec<[usize; 8]> = smallvec![1, 2, 3];
        for _ in 0..3 {
            palette.push(*random.pick(&[1, 2, 3, 4, 5, 7, 8, 9, 10, 16, 17, 20]));
        }
        if random.chance(12) {
            palette.push(0);
        }
        if wide {
            palette.push(*random.pick(&[33, 64, 128, 129, 257, 1024, 1025, 1100, 1500, 2100]));
            palette.push(*random.pick(&[40, 127, 130, 1023, 1500, 3000]));
        } else if random.chance(10) {
            palette.push(*random.pick(&[31, 33, 63, 65, 129, 130]));
        }
        let (largest, room, dot_work) = if wide { (60_000, 400_000, 1_000_000) } else { (2_000, 20_000, 30_000) };
        let strays = random.chance(5);
        let streams = random.chance(10);
        Builder {
            random,
            steps: Vec::new(),
            ops: 0,
            next: 0,
            live: Vec::new(),
            dying: Vec::new(),
            said: Vec::new(),
            palette,
            largest,
            room,
            dot_work,
            strays,
            streams,
            stream: 0,
        }
    }

    pub(super) fn ops(&self) -> usize {
        self.ops
    }

    pub(super) fn begin_sentence(&mut self) {
        self.said.clear();
    }

    /// Marks most of what the sentence made on its way to `result` as dying, and thins out what lives on.
    pub(super) fn end_sentence(&mut self, result: Option<Handle>) {
        for handle in std::mem::take(&mut self.said) {
            if Some(handle) != result && self.random.chance(70) {
                self.dying.push(handle);
            }
        }
        while self.live.len() - self.dying.len() > CROWD {
            let at = self.random.below(self.live.len());
            let handle = self.live[at].0;
            if !self.dying.contains(&handle) {
                self.dying.push(handle);
            }
        }
    }

    /// The steps. What is dying still lives at the end of some programs.
    pub(super) fn finish(mut self) -> Vec<Step> {
        if self.random.chance(80) {
            while let Some(handle) = self.dying.pop() {
                self.drop_handle(handle);
            }
        }
        self.steps
    }

    fn drop_handle(&mut self, handle: Handle) {
        self.live.retain(|(live, _)| *live != handle);
        let elsewhere = self.random.chance(10);
        self.steps.push(Step::Drop { handle, elsewhere });
    }

    fn name(&mut self, ty: TensorType) -> Handle {
        let handle = Handle(self.next);
        self.next += 1;
        self.live.push((handle, ty));
        self.said.push(handle);
        handle
    }

    /// What may happen between two ops of a user's program.
    fn pause(&mut self) {
        while !self.dying.is_empty() && self.random.chance(60) {
            let at = self.random.below(self.dying.len());
            let handle = self.dying.swap_remove(at);
            self.drop_handle(handle);
        }
        match self.random.below(100) {
            0..3 if !self.live.is_empty() => {
                let at = self.random.below(self.live.len());
                self.steps.push(Step::Read(self.live[at].0));
            }
            3..5 => self.steps.push(Step::Flush),
            5 => self.steps.push(Step::Synchronize),
            6..10 if !self.live.is_empty() => {
                let at = self.random.below(self.live.len());
                let (of, ty) = self.live[at].clone();
                let result = self.name(ty);
                self.steps.push(Step::Clone { result, of });
            }
            10..16 if self.streams => {
                self.stream = (self.stream + 1) % 2;
                self.steps.push(Step::Enter(self.stream));
            }
            _ => {}
        }
    }

    pub(super) fn ty(&self, handle: Handle) -> &TensorType {
        let found = self.live.iter().find(|(live, _)| *live == handle);
        &found.expect("a sentence uses handles that live through it").1
    }

    pub(super) fn shape(&self, handle: Handle) -> Shape {
        self.ty(handle).shape.clone()
    }

    pub(super) fn dtype(&self, handle: Handle) -> DType {
        self.ty(handle).dtype
    }

    pub(super) fn rank(&self, handle: Handle) -> usize {
        self.ty(handle).rank()
    }

    /// One of the live tensors of which `fits` holds.
    pub(super) fn find(&mut self, fits: impl Fn(&TensorType) -> bool) -> Option<Handle> {
        let dying = &self.dying;
        let fitting: Vec<Handle> = self
            .live
            .iter()
            .filter(|(handle, ty)| fits(ty) && !dying.contains(handle))
            .map(|(handle, _)| *handle)
            .collect();
        // The newer half is likelier, so that chains grow.
        match fitting.len() {
            0 => None,
            n if self.random.chance(50) => Some(fitting[n / 2 + self.random.below(n - n / 2)]),
            n => Some(fitting[self.random.below(n)]),
        }
    }

    /// Whether a tensor of that type still has room in the program; if so it is taken.
    fn take_room(&mut self, ty: &TensorType) -> bool {
        let Some(elements) = ty.shape.checked_elements() else { return false };
        if elements > self.largest || elements > self.room || ty.rank() > 6 {
            return false;
        }
        self.room -= elements;
        true
    }

    pub(super) fn extent(&mut self) -> usize {
        *self.random.pick(&self.palette)
    }

    /// An extent other than 0.
    pub(super) fn some_extent(&mut self) -> usize {
        self.extent().max(1)
    }

    pub(super) fn shape_of_rank(&mut self, rank: usize) -> Shape {
        let mut shape: Vec<usize> = (0..rank).map(|_| self.extent()).collect();
        while Shape::from(&shape[..]).checked_elements().is_none_or(|elements| elements > self.largest) {
            let at = self.random.below(shape.len());
            shape[at] = 1 + self.random.below(3);
        }
        Shape::from(shape)
    }

    pub(super) fn any_shape(&mut self) -> Shape {
        let rank = *self.random.pick(&[0, 1, 1, 2, 2, 2, 3, 3, 4]);
        self.shape_of_rank(rank)
    }

    pub(super) fn any_dtype(&mut self) -> DType {
        use DType::{BF16, Bool, F16, F32, I32, I64, U32};
        *self.random.pick(&[F32, F32, F32, F32, BF16, BF16, F16, I32, I32, U32, I64, Bool])
    }

    pub(super) fn upload(&mut self, ty: TensorType) -> Option<Handle> {
        if !self.take_room(&ty) {
            return None;
        }
        let data = data::data(&mut self.random, &ty);
        Some(self.upload_data(data))
    }

    fn upload_data(&mut self, data: HostTensor) -> Handle {
        let result = self.name(data.ty.clone());
        self.steps.push(Step::Upload { result, data });
        result
    }

    /// Uploaded start indices: component `c` of each vector suits a slice of `sizes[c]` in an extent of `extents[c]`;
    /// `inner` elements lie between neighbours along the vector.
    pub(super) fn upload_indices(&mut self, ty: TensorType, inner: usize, limits: &[usize]) -> Option<Handle> {
        if !self.take_room(&ty) {
            return None;
        }
        let strays = self.strays;
        let data = data::indices(&mut self.random, &ty, strays, |at| limits[at / inner % limits.len()]);
        Some(self.upload_data(data))
    }

    /// Records an op, unless its result has no room in the program.
    pub(super) fn record(
        &mut self,
        op: Opcode,
        operands: &[Handle],
        attrs: Attrs,
        body: Option<Body>,
    ) -> Option<Handle> {
        self.record_picked(op, operands, attrs, body, 0)
    }

    /// Records an op, of whose results one is kept.
    pub(super) fn record_picked(
        &mut self,
        op: Opcode,
        operands: &[Handle],
        attrs: Attrs,
        body: Option<Body>,
        picked: u32,
    ) -> Option<Handle> {
        let types: Vec<TensorType> = operands.iter().map(|&handle| self.ty(handle).clone()).collect();
        let types: Vec<&TensorType> = types.iter().collect();
        let regions = regions(body.as_ref(), &types);
        let results = match infer(op, &types, &attrs, &regions) {
            Ok(results) => results,
            Err(error) => panic!("the generator made an op that does not fit: {error} {attrs:?}"),
        };
        let ty = results[picked as usize].clone();
        if !self.take_room(&ty) {
            return None;
        }
        self.pause();
        let result = self.name(ty);
        self.ops += 1;
        self.steps.push(Step::Record { result, op, operands: operands.to_vec(), attrs, body, picked });
        Some(result)
    }

    pub(super) fn plain(&mut self, op: Opcode, operands: &[Handle]) -> Option<Handle> {
        self.record(op, operands, Attrs::None, None)
    }

    pub(super) fn constant(&mut self, value: Scalar, shape: impl Into<Shape>) -> Option<Handle> {
        let ty = TensorType::new(value.dtype(), shape);
        self.record(Opcode::Constant, &[], Attrs::Constant(Literal::Splat(ty, value)), None)
    }

    pub(super) fn any_constant(&mut self, ty: TensorType) -> Option<Handle> {
        let value = data::scalar(&mut self.random, ty.dtype);
        self.constant(value, ty.shape)
    }

    pub(super) fn dense_constant(&mut self, ty: TensorType) -> Option<Handle> {
        let data = data::data(&mut self.random, &ty);
        self.record(Opcode::Constant, &[], Attrs::Constant(Literal::Dense(ty, data.bytes.into())), None)
    }

    pub(super) fn iota(&mut self, ty: TensorType) -> Option<Handle> {
        let dimension = self.random.below(ty.rank()) as u32;
        self.record(Opcode::Iota, &[], Attrs::Iota { ty, dimension }, None)
    }

    pub(super) fn convert(&mut self, operand: Handle, dtype: DType) -> Option<Handle> {
        self.record(Opcode::Convert, &[operand], Attrs::Convert(dtype), None)
    }

    pub(super) fn broadcast(&mut self, operand: Handle, shape: Shape, dimensions: Dims) -> Option<Handle> {
        self.record(Opcode::BroadcastInDim, &[operand], Attrs::BroadcastInDim { shape, dimensions }, None)
    }

    /// The operand at `shape`, broadcast as NumPy does it.
    pub(super) fn expand(&mut self, operand: Handle, shape: &Shape) -> Option<Handle> {
        let from = self.shape(operand);
        if from == *shape {
            return Some(operand);
        }
        let offset = shape.rank() - from.rank();
        self.broadcast(operand, shape.clone(), (offset as u32..shape.rank() as u32).collect())
    }

    /// A tensor of that type: one that lives, or one made for it.
    pub(super) fn like(&mut self, ty: &TensorType) -> Option<Handle> {
        if self.random.chance(60)
            && let Some(found) = self.find(|live| live == ty)
        {
            return Some(found);
        }
        match self.random.below(10) {
            0..2 => self.any_constant(ty.clone()),
            2 if ty.rank() > 0 && Opcode::Iota.info().dtypes.admits(ty.dtype) => self.iota(ty.clone()),
            3..6 => match self.find(|live| live.dtype == ty.dtype && live.shape != ty.shape && expands(live, ty)) {
                Some(found) => self.expand(found, &ty.shape),
                None => self.upload(ty.clone()),
            },
            6 | 7 => match self.find(|live| live.shape == ty.shape && live.dtype != ty.dtype) {
                Some(found) => self.convert(found, ty.dtype),
                None => self.upload(ty.clone()),
            },
            8 => match self.find(|live| live.dtype == ty.dtype && live != ty && contains(live, ty)) {
                Some(found) => self.corner(found, &ty.shape),
                None => self.upload(ty.clone()),
            },
            _ => self.upload(ty.clone()),
        }
    }

    /// A scalar of that dtype.
    pub(super) fn scalar(&mut self, dtype: DType) -> Option<Handle> {
        let ty = TensorType::scalar(dtype);
        if self.random.chance(30)
            && let Some(found) = self.find(|live| *live == ty)
        {
            return Some(found);
        }
        if self.random.chance(80) { self.any_constant(ty) } else { self.upload(ty) }
    }

    /// The far corner of a tensor that contains `shape`.
    fn corner(&mut self, operand: Handle, shape: &Shape) -> Option<Handle> {
        let from = self.shape(operand);
        let start = from.iter().zip(shape.iter()).map(|(&extent, &wanted)| (extent - wanted) as i64).collect();
        let limit = from.iter().map(|&extent| extent as i64).collect();
        let limits = SliceLimits { start, limit, stride: SmallVec::from_elem(1, from.rank()) };
        self.record(Opcode::Slice, &[operand], Attrs::Slice(Box::new(limits)), None)
    }

    /// A live tensor that the op's row admits, or one made to be.
    pub(super) fn admitted(&mut self, op: Opcode) -> Option<Handle> {
        let dtypes = op.info().dtypes;
        if self.random.chance(85)
            && let Some(found) = self.find(|live| dtypes.admits(live.dtype))
        {
            return Some(found);
        }
        let admitted: Vec<DType> = DType::ALL.into_iter().filter(|&dtype| dtypes.admits(dtype)).collect();
        let dtype = *self.random.pick(&admitted);
        match self.find(|_| true) {
            Some(found) if self.random.chance(50) && self.dtype(found) != dtype => self.convert(found, dtype),
            _ => {
                let shape = self.any_shape();
                self.upload(TensorType::new(dtype, shape))
            }
        }
    }
}

/// Whether NumPy would broadcast the one to the shape of the other.
fn expands(from: &TensorType, to: &TensorType) -> bool {
    from.rank() <= to.rank()
        && from.shape.iter().rev().zip(to.shape.iter().rev()).all(|(&from, &to)| from == to || from == 1)
}

/// Whether the one shape lies within the other.
fn contains(outer: &TensorType, inner: &TensorType) -> bool {
    outer.rank() == inner.rank() && outer.shape.iter().zip(inner.shape.iter()).all(|(outer, inner)| outer >= inner)
}
