//! What Systole is timed by: workloads, and how the modes are timed against each other.
//!
//! `systole bench` runs them for users (docs/cli.md); results with a date lie in `benches/record`.

mod inputs;
mod timing;
mod workloads;

pub use timing::{Comparison, Plan, Times, compare, geometric_mean, median};
pub use workloads::{DTYPES, FUSION, Size, Step, Workload};
