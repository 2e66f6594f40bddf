//! Handwritten digits: a multilayer perceptron 64-64-10 that Adam trains for 200 steps.
//!
//! Gradients are written out as ops; there is no automatic differentiation here. Everything is fixed, so that every run
//! on every machine gives the same bits on the device: the order of the batches, and the initial parameters
//! ([`initial_parameters`]).

mod dataset;
mod initial;
mod model;
mod training;

pub use dataset::{DIGITS, Dataset, PIXELS};
pub use initial::initial_parameters;
pub use model::{Digits, NAMES, SHAPES};
pub use training::{BATCH, STEPS, Training, Untrained};
