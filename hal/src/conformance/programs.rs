//! The tile programs that the cases run, and moving their values.

use std::sync::Arc;

use smallvec::{SmallVec, smallvec};
use systole_kernels::program::{
    Access, BufferType, DimMap, Domain, Extent, Instr, LaneOp, Program, Reg, RegType, Vary,
};
use systole_kernels::{DType, TensorType};

use super::Checked;
use crate::device::{Arg, BufferRef, DeviceRef, ExecutableRef, Execution, Launch};
use crate::error::{HalError, Label};

/// What a register of a pointwise program is computed from.
enum Source {
    /// Input buffer `n`.
    Input(u16),
    /// Launch scalar `n`.
    Scalar(u16),
    /// An operation on earlier registers.
    Lane(LaneOp, &'static [u16]),
}

/// A program over one axis of `n` elements; one register per source, `results` are stored.
fn pointwise(name: &str, n: usize, dtype: DType, sources: &[Source], results: &[u16]) -> Program {
    let extent = if n < 2 { Extent::Fixed(n as i64) } else { Extent::Param(0) };
    let buffer = BufferType { dtype, shape: smallvec![extent] };
    let access = |buffer| Access { buffer, dims: smallvec![DimMap::along(0)] };
    let (mut inputs, mut scalars) = (0, 0);
    let mut regs: Vec<RegType> = Vec::new();
    let mut body = Vec::new();
    for (source, n) in sources.iter().zip(0..) {
        let dst = Reg(n);
        let vary = match source {
            Source::Input(buffer) => {
                inputs = inputs.max(buffer + 1);
                body.push(Instr::Load { dst, access: access(*buffer) });
                Vary::COLS
            }
            Source::Scalar(slot) => {
                scalars = scalars.max(slot + 1);
                body.push(Instr::Scalar { dst, slot: *slot });
                Vary::NONE
            }
            Source::Lane(op, args) => {
                body.push(Instr::Lane { op: *op, dst, args: args.iter().map(|&arg| Reg(arg)).collect() });
                args.iter().fold(Vary::NONE, |vary, &arg| vary.join(regs[usize::from(arg)].vary))
            }
        };
        regs.push(RegType { dtype, vary });
    }
    for (&src, output) in results.iter().zip(inputs..) {
        body.push(Instr::Store { src: Reg(src), access: access(output) });
    }
    Program {
        name: name.into(),
        params: u16::from(n >= 2),
        scalars: vec![dtype; usize::from(scalars)],
        buffers: vec![buffer; usize::from(inputs) + results.len()],
        inputs,
        domain: Domain { cols: smallvec![extent], ..Domain::default() },
        reduce: None,
        contract: SmallVec::new(),
        regs,
        body,
    }
}

/// `(a, b) -> a + b` on `n` floats.
pub(super) fn add(n: usize) -> Program {
    let lane = Source::Lane(LaneOp::Add, &[0, 1]);
    pointwise("add", n, DType::F32, &[Source::Input(0), Source::Input(1), lane], &[2])
}

/// `(x; s) -> x + s` on `n` floats.
pub(super) fn add_scalar(n: usize) -> Program {
    let lane = Source::Lane(LaneOp::Add, &[0, 1]);
    pointwise("add_scalar", n, DType::F32, &[Source::Input(0), Source::Scalar(0), lane], &[2])
}

/// `(x; s) -> x · s` on `n` floats.
pub(super) fn scale(n: usize) -> Program {
    let lane = Source::Lane(LaneOp::Multiply, &[0, 1]);
    pointwise("scale", n, DType::F32, &[Source::Input(0), Source::Scalar(0), lane], &[2])
}

/// `(a, b) -> (a + b, a · b)` on `n` floats.
pub(super) fn sum_and_product(n: usize) -> Program {
    let sources = [
        Source::Input(0),
        Source::Input(1),
        Source::Lane(LaneOp::Add, &[0, 1]),
        Source::Lane(LaneOp::Multiply, &[0, 1]),
    ];
    pointwise("sum_and_product", n, DType::F32, &sources, &[2, 3])
}

/// `x -> x` on `n` elements.
pub(super) fn copy(n: usize, dtype: DType) -> Program {
    pointwise("copy", n, dtype, &[Source::Input(0)], &[0])
}

/// Stores a register that nothing defines.
pub(super) fn broken() -> Program {
    let mut program = copy(4, DType::F32);
    program.name = "broken".into();
    program.body.remove(0);
    program
}

/// The launch parameters of a program here made for `n` elements.
fn params(n: usize) -> SmallVec<[i64; 1]> {
    if n < 2 { smallvec![] } else { smallvec![n as i64] }
}

/// A program made for `n` elements as `device` takes it: with its extent written in, where shapes are static (H15).
pub(super) fn suited(device: &DeviceRef, program: Program, n: usize) -> Program {
    if device.capabilities().static_shapes { program.specialize(&params(n)) } else { program }
}

/// The type of `n` floats.
pub(super) fn floats(n: usize) -> TensorType {
    TensorType::new(DType::F32, [n])
}

pub(super) fn upload(device: &DeviceRef, values: &[f32]) -> Result<BufferRef, HalError> {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
    device.upload(&floats(values.len()), &bytes)
}

pub(super) fn download(device: &DeviceRef, buffer: &BufferRef) -> Result<Vec<f32>, HalError> {
    let mut bytes = vec![0xa5; buffer.ty().byte_len()];
    device.download(buffer, &mut bytes)?;
    let (values, _) = bytes.as_chunks::<4>();
    Ok(values.iter().map(|value| f32::from_ne_bytes(*value)).collect())
}

/// A program compiled for a device and a size.
pub(super) struct Runner {
    device: DeviceRef,
    pub(super) executable: ExecutableRef,
    params: SmallVec<[i64; 1]>,
}

impl Runner {
    pub(super) fn new(device: &DeviceRef, n: usize, program: impl FnOnce(usize) -> Program) -> Checked<Self> {
        let program = suited(device, program(n), n);
        let params = if program.params > 0 { params(n) } else { SmallVec::new() };
        Ok(Runner { device: device.clone(), executable: device.compile(program)?, params })
    }

    /// Submits with scalar arguments and a label.
    pub(super) fn labelled(
        &self,
        scalars: &[f32],
        args: impl IntoIterator<Item = Arg>,
        label: Label,
    ) -> Result<Execution, HalError> {
        let scalars: SmallVec<[u64; 4]> = scalars.iter().map(|scalar| u64::from(scalar.to_bits())).collect();
        let args = args.into_iter().collect();
        self.device.execute(&self.executable, Launch { params: &self.params, scalars: &scalars, args, label })
    }

    /// Submits with scalar arguments.
    pub(super) fn execute(&self, scalars: &[f32], args: impl IntoIterator<Item = Arg>) -> Result<Execution, HalError> {
        self.labelled(scalars, args, Label::none())
    }

    /// Submits and gives the only output.
    pub(super) fn one(&self, scalars: &[f32], args: impl IntoIterator<Item = Arg>) -> Result<BufferRef, HalError> {
        let mut outputs = self.execute(scalars, args)?.outputs;
        Ok(outputs.remove(0))
    }
}

/// `buffer`, to be read.
pub(super) fn borrow(buffer: &BufferRef) -> Arg {
    Arg::Borrowed(buffer.clone())
}

/// `buffer`, the only handle of it, given away.
pub(super) fn donate(buffer: BufferRef) -> Arg {
    Arg::Donated(buffer)
}

/// A label that says `text`, and what it says.
pub(super) fn label(text: &str) -> Label {
    Label::new(Arc::new(text.to_owned()))
}

pub(super) fn label_text(label: &Label) -> Option<String> {
    label.downcast::<String>().map(|text| text.as_str().to_owned())
}
