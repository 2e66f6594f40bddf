//! Typed methods: one per op of the table, and the composites that users expect.
//!
//! Every method records primitives through the embedding seam ([`Stream::record`](crate::Stream::record)) with the
//! caller's line; a composite is nothing but several of them, and fusion finds it again.
//!
//! **Composites of floats** (`softmax`, `gelu`, `layer_norm`, `mean`, `cross_entropy`, …) compute in f32 where the dtype
//! is narrower, and round their result to it once, as PyTorch's kernels do: a mean of f16 overflows nowhere on its way.
//! Products (`matmul`, `linear`, `attention`) are recorded in the dtype of their operands; each sum accumulates in f32
//! all the same and rounds once (docs/numerics.md).

mod activation;
mod attention;
mod axes;
mod contraction;
mod creation;
mod dynamic_slice;
mod elementwise;
mod index;
mod indexing;
mod loss;
mod movement;
mod normalization;
mod operand;
mod operators;
mod reduction;
mod shape;
mod statistics;
mod subscript;

pub use axes::Axes;
pub use index::{AsIndex, AsSpan, Ellipsis, Index, Indices, NewAxis, Ordinal, Span, stride};
pub use movement::REST;
pub use operand::{Given, Number, Operand};

use std::borrow::Cow;

use smallvec::{SmallVec, smallvec};
use systole_fusion::ir::{Attrs, Opcode, Origin, Region};
use systole_kernels::{DType, TensorType};

use crate::dispatch;
use crate::error::{Error, Result};
use crate::stream;
use crate::tensor::Tensor;

/// The tensors' types, for errors.
fn types(tensors: &[&Tensor]) -> Vec<TensorType> {
    tensors.iter().map(|tensor| tensor.ty().clone()).collect()
}

/// Records an op with one result on the calling thread's current stream.
fn record(op: Opcode, operands: &[&Tensor], attrs: Attrs, origin: Origin) -> Result<Tensor> {
    record_with(op, operands, attrs, smallvec![], origin)
}

fn record_with(
    op: Opcode,
    operands: &[&Tensor],
    attrs: Attrs,
    regions: SmallVec<[Region; 1]>,
    origin: Origin,
) -> Result<Tensor> {
    Ok(record_all(op, operands, attrs, regions, origin)?.pop().expect("the op has one result"))
}

/// Records an op with any number of results.
fn record_all(
    op: Opcode,
    operands: &[&Tensor],
    attrs: Attrs,
    regions: SmallVec<[Region; 1]>,
    origin: Origin,
) -> Result<SmallVec<[Tensor; 1]>> {
    let device = operands[0].value().stream().device();
    stream::current(device, |stream| dispatch::record(stream.shared(), op, operands, attrs, regions, origin))
}

/// What a composite of floats computes in: f32 for the narrower ones, whose result is rounded once, at the end.
fn widened<'a>(tensor: &'a Tensor, origin: &Origin) -> Result<Cow<'a, Tensor>> {
    if tensor.dtype().size() >= DType::F32.size() {
        return Ok(Cow::Borrowed(tensor));
    }
    record(Opcode::Convert, &[tensor], Attrs::Convert(DType::F32), origin.clone()).map(Cow::Owned)
}

/// A composite's result in the dtype of what it was called on.
fn narrowed(result: Tensor, dtype: DType, origin: &Origin) -> Result<Tensor> {
    if result.dtype() == dtype {
        return Ok(result);
    }
    record(Opcode::Convert, &[&result], Attrs::Convert(dtype), origin.clone())
}

/// Checks that a composite of floats was called on floats.
fn check_float(method: &'static str, tensor: &Tensor, origin: &Origin) -> Result<()> {
    if tensor.dtype().is_float() {
        return Ok(());
    }
    let reason = format!("takes a float dtype, not {}", tensor.dtype());
    Err(Error::misuse(method, types(&[tensor]), origin.clone(), reason))
}
