//! What debug mode adds: it waits for each op and checks what the other modes let pass.
//!
//! The op itself takes the same path as everywhere, so its bits are the same.

use std::sync::Arc;

use smallvec::SmallVec;
use systole_fusion::ir::{Attrs, GatherDims, Opcode, Origin, Region};
use systole_kernels::{Scalar, TensorType};

use crate::bound;
use crate::config::Mode;
use crate::error::{Error, Result};
use crate::stream::StreamShared;
use crate::tensor::Tensor;

/// Records one op, waits for it, and gives its failure to the caller at once.
pub(crate) fn record_checked(
    stream: &Arc<StreamShared>,
    op: Opcode,
    operands: &[&Tensor],
    attrs: Attrs,
    regions: SmallVec<[Region; 1]>,
    types: SmallVec<[TensorType; 1]>,
    origin: Origin,
) -> Result<SmallVec<[Tensor; 1]>> {
    if let Attrs::Gather(dims) = &attrs {
        check_gather_indices(operands, dims, &origin)?;
    }
    let results =
        stream.recorder().lock().append(stream, Mode::Debug, op, operands, attrs, regions, types, origin.clone());
    for result in &results {
        let outcome = result.value().outcome().expect("a mode that runs ops one by one settles each at once");
        outcome
            .as_ref()
            .map_err(Error::clone)
            .and_then(|buffer| buffer.ready().wait().map_err(|error| bound::blame(&error, &origin)))
            .inspect_err(|error| stream.mark_reported(error))?;
    }
    Ok(results)
}

/// Out-of-range start indices clamp in every mode; here they are reported.
fn check_gather_indices(operands: &[&Tensor], dims: &GatherDims, origin: &Origin) -> Result<()> {
    let [operand, indices] = operands else { return Ok(()) };
    let dtype = indices.dtype();
    let bytes = indices.to_bytes()?;
    let vector = dims.index_vector_dim as usize;
    // Elements between neighbours along the index vector, and its length (an absent dimension is a vector of one).
    let inner: usize = indices.shape()[(vector + 1).min(indices.rank())..].iter().product();
    let length = indices.shape().get(vector).copied().unwrap_or(1);
    for (at, chunk) in bytes.chunks_exact(dtype.size()).enumerate() {
        let mut bits = [0; 8];
        bits[..chunk.len()].copy_from_slice(chunk);
        let bits = u64::from_le_bytes(bits);
        let index = if dtype.is_signed() {
            i128::from(Scalar::from_bits(dtype, bits).sign_extended())
        } else {
            i128::from(bits)
        };
        let component = at / inner % length;
        let dimension = dims.start_index_map[component] as usize;
        let limit = operand.shape()[dimension] as i64 - dims.slice_sizes[dimension];
        if !(0..=i128::from(limit)).contains(&index) {
            let reason = format!(
                "start index {index} (element {at} of the indices) is outside 0..={limit} of dimension {dimension}"
            );
            let types = operands.iter().map(|tensor| tensor.ty().clone()).collect();
            return Err(Error::check(Opcode::Gather, types, origin.clone(), reason));
        }
    }
    Ok(())
}
