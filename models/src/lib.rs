//! Small real models on the public API of [`systole`]: the demonstrations, and real input for the tests.
//!
//! A model is written as its user would write it, with the typed methods of [`systole::Tensor`] and nothing else; it
//! knows neither mode nor profile nor threads, which belong to the device it is given. Programs that run models by name
//! find them in [`ALL`]. Weights that are too large to lie here come as [`package`]s of a public index.

mod adam;
pub mod digits;
mod error;
mod mersenne;
pub mod minilm;
pub mod package;
mod registry;

pub use adam::{Adam, Rates};
pub use error::{Error, Result};
pub use registry::{ALL, Gives, Input, Model, Prepared, Text, UnknownModel, Workload, find};
