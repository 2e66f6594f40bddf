//! What debug mode adds: it waits for each op and checks what the other modes let pass.
//!
//! The op itself takes the same path as everywhere, so its bits are the same.

use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;
use systole_fusion::ir::{Attrs, Opcode, Origin, Region};
use systole_kernels::{Scalar, TensorType};

use crate::bound;
use crate::config::Mode;
use crate::dispatch;
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
    check_indices(op, operands, &attrs, &origin)?;
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

/// In debug mode, whether the elements of `indices`, a method's argument, lie in `valid`: what the method makes of them
/// would be reported in the words of the op that takes them.
pub(crate) fn check_range(
    method: &'static str,
    operands: &[&Tensor],
    (noun, indices): (&str, &Tensor),
    valid: Range<i128>,
    origin: &Origin,
) -> Result<()> {
    if dispatch::mode(indices.value().stream()) != Mode::Debug {
        return Ok(());
    }
    match integers(indices)?.into_iter().enumerate().find(|(_, index)| !valid.contains(index)) {
        None => Ok(()),
        Some((at, index)) => {
            let Range { start, end } = valid;
            let reason =
                format!("{noun} {index} (element {at} of shape {}) is outside {start}..={}", indices.shape(), end - 1);
            let types = operands.iter().map(|tensor| tensor.ty().clone()).collect();
            Err(Error::misuse(method, types, origin.clone(), reason))
        }
    }
}

/// Out-of-range start indices clamp in every mode; here they are reported.
fn check_indices(op: Opcode, operands: &[&Tensor], attrs: &Attrs, origin: &Origin) -> Result<()> {
    let check = |what: String, index: i128, limit: i64, dimension: usize| {
        if (0..=i128::from(limit)).contains(&index) {
            return Ok(());
        }
        let reason = format!("start index {index}{what} is outside 0..={limit} of dimension {dimension}");
        let types = operands.iter().map(|tensor| tensor.ty().clone()).collect();
        Err(Error::check(op, types, origin.clone(), reason))
    };
    let (operand, starts, sizes): (_, _, SmallVec<[i64; 4]>) = match (attrs, operands) {
        (Attrs::Gather(dims), [operand, indices]) => {
            let vector = dims.index_vector_dim as usize;
            // Elements between neighbours along the index vector, and its length (an absent dimension is a vector of one).
            let inner: usize = indices.shape()[(vector + 1).min(indices.rank())..].iter().product();
            let length = indices.shape().get(vector).copied().unwrap_or(1);
            for (at, index) in integers(indices)?.into_iter().enumerate() {
                let dimension = dims.start_index_map[at / inner % length] as usize;
                let limit = operand.shape()[dimension] as i64 - dims.slice_sizes[dimension];
                check(format!(" (element {at} of the indices)"), index, limit, dimension)?;
            }
            return Ok(());
        }
        (Attrs::DynamicSlice(sizes), [operand, starts @ ..]) => (operand, starts, sizes.clone()),
        (Attrs::None, [operand, update, starts @ ..]) if op == Opcode::DynamicUpdateSlice => {
            (operand, starts, update.shape().iter().map(|&extent| extent as i64).collect())
        }
        _ => return Ok(()),
    };
    for (dimension, start) in starts.iter().enumerate() {
        let limit = operand.shape()[dimension] as i64 - sizes[dimension];
        for index in integers(start)? {
            check(String::new(), index, limit, dimension)?;
        }
    }
    Ok(())
}

/// The elements of an integer tensor.
fn integers(tensor: &Tensor) -> Result<Vec<i128>> {
    let dtype = tensor.dtype();
    let integer = |chunk: &[u8]| {
        let element = Scalar::from_le_bytes(dtype, chunk);
        if dtype.is_signed() { i128::from(element.sign_extended()) } else { i128::from(element.bits()) }
    };
    Ok(tensor.to_bytes()?.chunks_exact(dtype.size()).map(integer).collect())
}
