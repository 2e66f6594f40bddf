//! Fine-tuning on one batch: each sentence is to be most alike itself.

use systole::{DType, Device, Result, Tensor};

use super::batch::Batch;
use super::encoder::MiniLm;
use super::parameters::Parameters;
use crate::adam::{Adam, Rates};

/// How it steps.
const RATES: Rates = Rates { rate: 2e-5, betas: [0.9, 0.999], epsilon: 1e-8, decay: 0.01 };

/// A training under way, by AdamW, on the same batch in every step.
#[derive(Debug)]
pub struct Training {
    device: Device,
    model: MiniLm,
    adam: Adam,
    ids: Tensor,
    mask: Tensor,
}

impl Training {
    /// A training of `model`, which is on `device`.
    ///
    /// # Errors
    /// The device is out of memory.
    pub fn new(device: &Device, model: MiniLm, batch: &Batch) -> Result<Self> {
        let shapes = model.parameters.iter().map(|parameter| parameter.shape().clone());
        let adam = Adam::new(device, DType::F32, RATES, shapes)?;
        let (ids, mask) = batch.upload(device)?;
        // Setting up is no part of the first step, which then looks like every other.
        device.flush();
        Ok(Training { device: device.clone(), model, adam, ids, mask })
    }

    /// The model as trained so far.
    pub fn model(&self) -> &MiniLm {
        &self.model
    }

    /// The loss and its gradients, without a step.
    ///
    /// # Errors
    /// An op was refused when it was recorded.
    pub fn loss_and_gradients(&self) -> Result<(Tensor, Parameters<Tensor>)> {
        self.model.loss_and_gradients(&self.ids, &self.mask)
    }

    /// Records one step and submits it; gives the loss before the step, unread.
    ///
    /// # Errors
    /// An op was refused when it was recorded.
    pub fn step(&mut self) -> Result<Tensor> {
        let (loss, gradients) = self.loss_and_gradients()?;
        self.adam.step(self.model.parameters.iter_mut(), gradients.into_values())?;
        self.device.flush();
        Ok(loss)
    }
}
