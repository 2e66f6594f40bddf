//! Typed methods: one per op of the table, and the composites that users expect.
//!
//! Every method records primitives through the embedding seam ([`Stream::record`](crate::Stream::record)) with the
//! caller's line; a composite is nothing but several of them, and fusion finds it again.

mod contraction;
mod creation;
mod elementwise;
mod indexing;
mod movement;
mod operand;
mod operators;
mod reduction;

pub use operand::Operand;
pub use reduction::Axes;

use smallvec::{SmallVec, smallvec};
use systole_fusion::ir::{Attrs, Opcode, Origin, Region};
use systole_kernels::TensorType;

use crate::dispatch;
use crate::error::Result;
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
    let device = operands[0].value().stream().device();
    let mut results =
        stream::current(device, |stream| dispatch::record(stream.shared(), op, operands, attrs, regions, origin))?;
    Ok(results.pop().expect("the op has one result"))
}
