//! Small real models on the public API of [`systole`]: the demonstrations, and real input for the tests.
//!
//! A model is written as its user would write it, with the typed methods of [`systole::Tensor`] and nothing else; it
//! knows neither mode nor profile nor threads, which belong to the device it is given. Programs that run models by name
//! find them in [`ALL`].

pub mod digits;
mod registry;

pub use registry::{ALL, Model, UnknownModel, Workload, find};
