//! What a backend of another framework needs, in one place.
//!
//! A front end that embeds Systole (a PyTorch or Burn backend, a C API) does not call the typed methods of
//! [`Tensor`](crate::Tensor): it has ops of its own, and maps them to [`Opcode`]s. It needs
//!
//! * [`Stream::record`](crate::Stream::record): one op by opcode, with the front end's own [`Origin`], which errors and
//!   reports then name (`train.py:12`);
//! * [`Tensor::from_host`](crate::Tensor::from_host) and [`Tensor::to_host`](crate::Tensor::to_host): memory shared both
//!   ways without copies, as [`HostBytes`];
//! * [`Config::parallel`](crate::Config::parallel): its own threads, as [`Parallel`], for the kernels;
//! * handles that are `Send + Sync` and may be dropped on any thread, which never waits;
//! * a device that starts nothing before its first launch, and a clear error in a process forked after that.
//!
//! docs/embedding.md walks through a backend that uses nothing else.

pub use systole_fusion::ir::attrs::{Dims, DotDims, GatherDims, Literal, PadAmounts, SliceLimits};
pub use systole_fusion::ir::region::{arg_region, monoid_region};
pub use systole_fusion::ir::{Attrs, OpClass, Opcode, Origin, Region};
pub use systole_hal::HostBytes;
pub use systole_kernels::parallel::Parallel;
pub use systole_kernels::program::{Comparison, Extreme, Monoid, Order};
