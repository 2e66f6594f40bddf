//! Eager tensor programs at the speed of a fusing compiler, with the same bits.
//!
//! Systole models a TPU as a stream of ops. Each call records one StableHLO op; short traces of them are fused, planned
//! once per structure, and run asynchronously on a bit-exact simulator of the device.
//!
//! ```
//! use systole::{Device, Tensor};
//!
//! # fn main() -> systole::Result<()> {
//! let device = Device::simulator()?;
//! let x = Tensor::from_slice(&device, &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3])?;
//! let w = Tensor::full(&device, 0.5f32, [3, 2])?;
//!
//! let h = x.matmul(&w)?.add(1.0)?.tanh()?; // recorded, not run
//! let shifted = h.sub(&h.max_keepdims(-1)?)?.exp()?;
//! let softmax = shifted.div(&shifted.sum_keepdims(-1)?)?;
//!
//! assert_eq!(softmax.to_vec::<f32>()?, [0.5; 4]); // read: everything above runs as one fused trace
//! let report = &device.reports()[0];
//! assert!(report.launches < report.ops, "{report:?}");
//! # Ok(()) }
//! ```
//!
//! The crates below: [`fusion`] (IR, keys, planning), [`hal`] (the device contract and the simulator), [`kernels`]
//! (numerics and tile programs). ARCHITECTURE.md draws the whole.

mod bound;
mod config;
mod debug;
mod device;
mod dispatch;
pub mod embed;
mod error;
mod executor;
#[cfg(feature = "files")]
pub mod files;
mod ops;
mod print;
mod recorder;
mod report;
mod stream;
mod submission;
mod tensor;
mod value;

pub use config::{Config, Mode};
pub use device::Device;
pub use dispatch::{with_mode, with_precision};
pub use error::{Error, Result};
pub use ops::{
    AsIndex, AsSpan, Axes, Ellipsis, Given, Index, Indices, NewAxis, Number, Operand, Ordinal, REST, Span, stride,
};
pub use report::{Build, CompileReport, CutReason, FlushReport, KeyDifference, PlanSource, ProgramReport, Stats};
pub use stream::Stream;
pub use tensor::Tensor;

pub use systole_fusion as fusion;
pub use systole_fusion::ir::attrs::Dims;
pub use systole_fusion::ir::{Attrs, DotDims, GatherDims, Opcode, Origin};
pub use systole_hal as hal;
pub use systole_kernels as kernels;
pub use systole_kernels::program::Precision;
pub use systole_kernels::simd::Isa;
pub use systole_kernels::{DType, Element, Scalar, Shape, TensorType, bf16, f16};

/// The examples of the README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct ReadmeExamples;

/// The examples of the page on embedding, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../docs/embedding.md")]
pub struct EmbeddingExamples;
