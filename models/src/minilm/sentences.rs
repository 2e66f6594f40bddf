//! Sentences and how alike they are: what `systole run minilm` runs.

use std::borrow::Cow;

use systole::{Device, Result, Tensor};

use super::batch::Batch;
use super::checkpoint::Checkpoint;
use super::encoder::{MiniLm, similarity};
use super::tokenizer::TooLong;
use crate::error::Error;
use crate::package::OnProgress;
use crate::registry::{Input, Prepared, Text, Workload};

/// Steps of a run; each encodes the same sentences.
pub const STEPS: usize = 20;

/// The sentences whose similarities the model's makers publish: 0.6660, 0.1046 and 0.1411.
pub const PUBLISHED: [&str; 3] = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."];

/// Sentences, and the model that is to encode them.
#[derive(Debug)]
pub struct Sentences {
    checkpoint: Checkpoint,
    batch: Batch,
    texts: Vec<Text>,
}

impl Sentences {
    /// Reads the weights, and makes one batch of the sentences. Of too long ones the beginning is taken.
    ///
    /// # Errors
    /// The weights cannot be had, or are others.
    pub fn prepare(input: &Input, progress: OnProgress<'_>) -> crate::Result<Self> {
        let texts = match &input.texts[..] {
            [] => PUBLISHED.map(String::from).to_vec(),
            texts => texts.to_vec(),
        };
        let weights = input.weights.as_ref().ok_or_else(|| Error::input("minilm has to know where its weights are"))?;
        let checkpoint = Checkpoint::load(weights, progress)?;
        let config = checkpoint.config();
        let tokens = checkpoint.tokenizer().tokens(&texts, config, TooLong::Cut)?;
        let batch = Batch::new(&tokens.rows, config)?;
        let texts = texts.into_iter().zip(tokens.lengths).zip(&tokens.rows);
        let texts = texts.map(|((text, tokens), row)| Text { text, tokens, taken: row.len() }).collect();
        Ok(Sentences { checkpoint, batch, texts })
    }
}

impl Prepared for Sentences {
    fn start(&self, device: &Device) -> Result<Box<dyn Workload>> {
        let model = MiniLm::new(device, self.checkpoint.config(), self.checkpoint.parameters())?;
        let (ids, mask) = self.batch.upload(device)?;
        Ok(Box::new(Encoding { device: device.clone(), model, ids, mask }))
    }

    fn texts(&self) -> &[Text] {
        &self.texts
    }
}

/// The model at work.
struct Encoding {
    device: Device,
    model: MiniLm,
    ids: Tensor,
    mask: Tensor,
}

impl Encoding {
    fn record_step(&self) -> Result<Vec<Tensor>> {
        let embeddings = self.model.embed(&self.model.forward(&self.ids, &self.mask)?, &self.mask)?;
        let similarity = similarity(&embeddings)?;
        Ok(vec![embeddings, similarity])
    }
}

impl Workload for Encoding {
    fn step(&mut self) -> Result<Vec<Tensor>> {
        // Submitted when every intermediate value has been dropped, so that none is written for nobody.
        let results = self.record_step()?;
        self.device.flush();
        Ok(results)
    }

    fn parameters(&self) -> Vec<(Cow<'static, str>, &Tensor)> {
        Vec::new()
    }
}
