//! The single door: check, infer, append.
//!
//! Type errors are raised here, at the caller's line, before anything is recorded. An op on a poisoned value is not
//! recorded at all: its results carry the same first cause.

use std::cell::Cell;
use std::sync::Arc;
use std::thread::LocalKey;

use smallvec::SmallVec;
use systole_fusion::infer::infer;
use systole_fusion::ir::{Attrs, Literal, Opcode, Origin, Region};
use systole_kernels::TensorType;
use systole_kernels::program::Precision;

use crate::config::Mode;
use crate::error::{Error, Result};
use crate::report::CutReason;
use crate::stream::StreamShared;
use crate::tensor::Tensor;
use crate::value::Value;

thread_local! {
    static MODE: Cell<Option<Mode>> = const { Cell::new(None) };
    static PRECISION: Cell<Precision> = const { Cell::new(Precision::Default) };
}

/// The mode of what this thread records on a stream.
pub(crate) fn mode(stream: &StreamShared) -> Mode {
    MODE.get().unwrap_or_else(|| stream.device().mode())
}

/// Runs `body` with `mode` for every op that this thread records, on any device.
///
/// ```
/// # use systole::{Device, Mode, Tensor, with_mode};
/// # fn main() -> systole::Result<()> {
/// let device = Device::simulator()?;
/// let x = Tensor::from_slice(&device, &[1.0f32, 2.0], [2])?;
/// let fused = x.exp()?.neg()?.to_vec::<f32>()?;
/// let strict = with_mode(Mode::Strict, || x.exp()?.neg()?.to_vec::<f32>())?;
/// assert_eq!(fused, strict);
/// # Ok(()) }
/// ```
pub fn with_mode<R>(mode: Mode, body: impl FnOnce() -> R) -> R {
    within(&MODE, Some(mode), body)
}

/// Runs `body` with every dot that this thread records by a method of [`Tensor`] at least as exact as `precision`. That
/// matters on chips, whose matrix units multiply bf16: by default the factors of f32 are rounded to it. On the profile
/// `ieee` it changes nothing.
///
/// ```
/// # use systole::{Config, Device, Precision, Tensor, with_precision};
/// # fn main() -> systole::Result<()> {
/// let device = Device::open(Config { profile: "v5e".into(), ..Config::default() })?;
/// let x = Tensor::from_slice(&device, &[1.0f32 + 1.0 / 1024.0], [1])?;
/// assert_eq!(x.matmul(&x)?.item::<f32>()?, 1.0);
/// let exact = with_precision(Precision::Highest, || x.matmul(&x)?.item::<f32>())?;
/// assert_eq!(exact, 1.0 + 1.0 / 512.0 + 1.0 / 1048576.0);
/// # Ok(()) }
/// ```
pub fn with_precision<R>(precision: Precision, body: impl FnOnce() -> R) -> R {
    within(&PRECISION, precision, body)
}

/// The precision of the scope that this thread is in.
pub(crate) fn precision() -> Precision {
    PRECISION.get()
}

/// Runs `body` with another value in `cell`.
fn within<T: Copy + 'static, R>(cell: &'static LocalKey<Cell<T>>, value: T, body: impl FnOnce() -> R) -> R {
    struct Restore<T: Copy + 'static>(&'static LocalKey<Cell<T>>, T);
    impl<T: Copy + 'static> Drop for Restore<T> {
        fn drop(&mut self) {
            self.0.set(self.1);
        }
    }
    let _restore = Restore(cell, cell.replace(value));
    body()
}

/// Records one op on `stream`.
pub(crate) fn record(
    stream: &Arc<StreamShared>,
    op: Opcode,
    operands: &[&Tensor],
    attrs: Attrs,
    regions: SmallVec<[Region; 1]>,
    origin: Origin,
) -> Result<SmallVec<[Tensor; 1]>> {
    let types: SmallVec<[&TensorType; 3]> = operands.iter().map(|tensor| tensor.value().ty()).collect();
    for tensor in operands {
        if !Arc::ptr_eq(tensor.value().stream().device(), stream.device()) {
            let reason = format!(
                "operands live on different devices: {} and {}",
                stream.device().describe(),
                tensor.value().stream().device().describe()
            );
            return Err(Error::device_mismatch(op, types.into_iter().cloned().collect(), origin, reason));
        }
    }
    let results = infer(op, &types, &attrs, &regions).map_err(|error| Error::from_type(&error, origin.clone()))?;
    if let Attrs::Constant(Literal::Dense(ty, bytes)) = &attrs {
        // Dense constants are data, so they are uploaded rather than planned around.
        return Ok(SmallVec::from_elem(Tensor::upload(stream.clone(), ty, bytes, &origin)?, 1));
    }
    for tensor in operands {
        let value = tensor.value();
        if value.outcome().is_none() && !Arc::ptr_eq(value.stream(), stream) {
            value.stream().cut(CutReason::UsedBy(origin.clone()));
        }
        if let Some(Err(cause)) = value.outcome() {
            return Ok(results
                .into_iter()
                .map(|ty| Tensor::from_value(Value::settled(ty, stream.clone(), Err(cause.clone()))))
                .collect());
        }
    }
    tracing::trace!(stream = stream.id(), %op, %origin, "record");
    let mode = mode(stream);
    if mode == Mode::Debug {
        return crate::debug::record_checked(stream, op, operands, attrs, regions, results, origin);
    }
    Ok(stream.recorder().lock().append(stream, mode, op, operands, attrs, regions, results, origin))
}
