//! Two hundred steps over the digits.

use std::borrow::Cow;

use systole::{DType, Device, Result, Tensor};

use super::dataset::{Dataset, PIXELS};
use super::initial::initial_parameters;
use super::model::{Digits, NAMES, SHAPES};
use crate::adam::{Adam, Rates};
use crate::registry::{Prepared, Text, Workload};

/// Steps of a full training.
pub const STEPS: usize = 200;
/// Images of one step.
pub const BATCH: usize = 64;

/// How it steps.
const RATES: Rates = Rates { rate: 1e-3, betas: [0.9, 0.999], epsilon: 1e-8, decay: 0.0 };

/// A training under way. Step `s` uses the images `[(s mod 28) · 64, (s mod 28) · 64 + 64)`; the last five are unused.
#[derive(Debug)]
pub struct Training {
    device: Device,
    model: Digits,
    adam: Adam,
    pixels: Tensor,
    labels: Tensor,
    steps: usize,
}

impl Training {
    /// A training from the [initial parameters](initial_parameters).
    ///
    /// # Errors
    /// The device is out of memory.
    pub fn new(device: &Device) -> Result<Self> {
        let parameters = initial_parameters();
        Training::with_model(device, Digits::with_parameters(device, parameters.each_ref().map(Vec::as_slice))?)
    }

    /// A training from the parameters of `model`, which is on `device`.
    ///
    /// # Errors
    /// The device is out of memory.
    pub fn with_model(device: &Device, model: Digits) -> Result<Self> {
        let dataset = Dataset::embedded();
        let training = Training {
            device: device.clone(),
            model,
            adam: Adam::new(device, DType::F32, RATES, SHAPES)?,
            pixels: Tensor::from_slice(device, &dataset.pixels, [dataset.len(), PIXELS])?,
            labels: Tensor::from_slice(device, &dataset.labels, [dataset.len(), 1])?,
            steps: 0,
        };
        // Setting up is no part of the first step, which then looks like every other.
        device.flush();
        Ok(training)
    }

    /// The model as trained so far.
    pub fn model(&self) -> &Digits {
        &self.model
    }

    /// The images and labels of the next step.
    ///
    /// # Errors
    /// None in practice; recording is fallible in general.
    pub fn batch(&self) -> Result<(Tensor, Tensor)> {
        let batches = self.labels.shape()[0] / BATCH;
        let start = self.steps % batches * BATCH;
        Ok((self.pixels.narrow(0, start, BATCH)?, self.labels.narrow(0, start, BATCH)?))
    }

    fn record_step(&mut self) -> Result<Tensor> {
        let (pixels, labels) = self.batch()?;
        let (loss, gradients) = self.model.loss_and_gradients(&pixels, &labels)?;
        self.adam.step(self.model.parameters_mut(), gradients)?;
        self.steps += 1;
        Ok(loss)
    }
}

/// What starts a training: nothing has to be read for it.
#[derive(Debug)]
pub struct Untrained;

impl Prepared for Untrained {
    fn start(&self, device: &Device) -> Result<Box<dyn Workload>> {
        Ok(Box::new(Training::new(device)?))
    }

    fn texts(&self) -> &[Text] {
        &[]
    }
}

impl Workload for Training {
    /// Records one step and submits it; gives the loss before the step, unread.
    fn step(&mut self) -> Result<Vec<Tensor>> {
        // Submitted only after `record_step` has returned: by then every intermediate value has been dropped, and what
        // nobody observes need not be written to memory.
        let loss = self.record_step()?;
        self.device.flush();
        Ok(vec![loss])
    }

    fn parameters(&self) -> Vec<(Cow<'static, str>, &Tensor)> {
        NAMES.into_iter().map(Cow::Borrowed).zip(self.model.parameters()).collect()
    }
}
