//! Dtypes, numerics and tile programs that run on a CPU.
//!
//! Vocabulary that the whole workspace shares: [`DType`], [`Shape`], [`TensorType`], [`Scalar`], and the tile
//! [`program`] that fusion lowers to and the simulator runs. Execution: [`machine`] runs a program over tiles with the
//! vector loops of [`lanes`], [`reduce`], [`arg_reduce`] and [`contract`], on the instruction set and thread pool it is given.
//!
//! This crate knows nothing of traces, devices or users.

pub mod arg_reduce;
pub mod arithmetic;
pub mod contract;
pub mod dtype;
pub mod lanes;
pub mod machine;
pub mod memory;
pub mod numerics;
pub mod parallel;
pub mod program;
pub mod reduce;
pub mod scalar;
pub mod shape;
pub mod simd;

pub use dtype::DType;
pub use half::{bf16, f16};
pub use scalar::{Element, Scalar};
pub use shape::{Shape, TensorType};
