//! What the encoder computes.
//!
//! A row's bits depend neither on the other rows nor on how far it is filled up. Products and layer norms work on each
//! token by itself. In attention the scores of keys that are no tokens are −∞, so their weights are exactly +0: added to
//! a sum of weights, or as a factor of values, +0 leaves the bits of what it meets (docs/numerics.md N6, N8). The mean
//! over a row adds ±0 for what is no token, likewise.

use systole::{Device, DotDims, Result, Shape, Tensor};

use super::batch::Batch;
use super::config::Config;
use super::parameters::{Affine, Layer, Parameters};

/// An encoder with its parameters on a device.
#[derive(Clone, Debug)]
pub struct MiniLm {
    /// Sizes.
    pub config: Config,
    /// Parameters, of the shapes that the sizes ask for.
    pub parameters: Parameters<Tensor>,
}

impl MiniLm {
    /// Copies parameters to `device`.
    ///
    /// # Errors
    /// The device is out of memory.
    pub fn new(device: &Device, config: &Config, parameters: &Parameters<Vec<f32>>) -> Result<Self> {
        Ok(MiniLm { config: config.clone(), parameters: parameters.upload(config, device)? })
    }

    /// The embedding of each row of a batch, f32 [rows, hidden], each of length 1.
    ///
    /// # Errors
    /// The device is out of memory.
    pub fn encode(&self, batch: &Batch) -> Result<Tensor> {
        let (ids, mask) = batch.upload(&self.parameters.tables.words.device())?;
        self.embed(&self.forward(&ids, &mask)?, &mask)
    }

    /// The last hidden states, f32 [rows, length, hidden], of token ids, i32 [rows, length], where `mask`, f32 [rows,
    /// length], is 1 for a token and 0 for what fills up a row.
    ///
    /// # Errors
    /// Shapes or dtypes that do not fit.
    pub fn forward(&self, ids: &Tensor, mask: &Tensor) -> Result<Tensor> {
        self.encoder(&self.lookup(ids)?, mask)
    }

    /// The hidden states that the first layer gets for token ids.
    ///
    /// # Errors
    /// Shapes or dtypes that do not fit, or rows longer than the encoder has positions.
    pub fn lookup(&self, ids: &Tensor) -> Result<Tensor> {
        let tables = &self.parameters.tables;
        let length = ids.shape().last().copied().unwrap_or(0);
        let words = tables.words.embedding(ids)?;
        let sum = words.add(&tables.segments.narrow(0, 0, 1)?)?.add(&tables.positions.narrow(0, 0, length)?)?;
        layer_norm(&sum, &tables.norm, self.config.epsilon)
    }

    /// Every layer, from the hidden states, f32 [rows, length, hidden], that the first one gets.
    ///
    /// # Errors
    /// Shapes or dtypes that do not fit.
    pub fn encoder(&self, hidden: &Tensor, mask: &Tensor) -> Result<Tensor> {
        // 0 where a key may be looked at, −∞ where not; the same for every head and query.
        let zero = Tensor::scalar(&mask.device(), 0.0f32)?;
        let bias = mask.gt(0.0)?.select(&zero, f32::NEG_INFINITY)?;
        let (rows, keys) = mask.shape().split_at(mask.rank().min(1));
        let bias = bias.reshape(rows.iter().chain(&[1, 1]).chain(keys).copied().collect::<Shape>())?;
        let mut hidden = hidden.clone();
        for layer in &self.parameters.layers {
            hidden = self.layer(layer, &hidden, &bias)?;
        }
        Ok(hidden)
    }

    fn layer(&self, layer: &Layer<Tensor>, hidden: &Tensor, bias: &Tensor) -> Result<Tensor> {
        let attended = linear(&self.attention(layer, hidden, bias)?, &layer.attended)?;
        let hidden = layer_norm(&attended.add(hidden)?, &layer.attention_norm, self.config.epsilon)?;
        let wide = linear(&hidden, &layer.widen)?.gelu()?;
        layer_norm(&linear(&wide, &layer.narrow)?.add(&hidden)?, &layer.output_norm, self.config.epsilon)
    }

    fn attention(&self, layer: &Layer<Tensor>, hidden: &Tensor, bias: &Tensor) -> Result<Tensor> {
        let heads = |affine| {
            let x = linear(hidden, affine)?;
            let tokens = x.shape()[..x.rank() - 1].iter().copied();
            x.reshape(tokens.chain([self.config.heads, self.config.head()]).collect::<Shape>())
        };
        let (query, key, value) = (heads(&layer.query)?, heads(&layer.key)?, heads(&layer.value)?);
        let scale = 1.0 / (self.config.head() as f64).sqrt();
        let scores = query.dot_general(&key, dims(&[0, 2], &[0, 2], &[3], &[3]))?.mul(scale)?.add(bias)?;
        let weights = scores.softmax(-1)?;
        let values = weights.dot_general(&value, dims(&[0, 1], &[0, 2], &[3], &[1]))?;
        values.transpose(&[0, 2, 1, 3])?.reshape(hidden.shape().clone())
    }

    /// The mean of each row's hidden states where `mask` is 1, scaled to length 1.
    ///
    /// # Errors
    /// Shapes or dtypes that do not fit.
    pub fn embed(&self, hidden: &Tensor, mask: &Tensor) -> Result<Tensor> {
        let sum = hidden.mul(&column(mask)?)?.sum(1)?;
        let mean = sum.div(&mask.sum_keepdims(1)?)?;
        mean.div(&mean.mul(&mean)?.sum_keepdims(-1)?.sqrt()?)
    }
}

/// How alike rows of length 1 are: the product of each with each, f32 [rows, rows].
///
/// # Errors
/// `embeddings` are no matrix.
pub fn similarity(embeddings: &Tensor) -> Result<Tensor> {
    embeddings.dot_general(embeddings, dims(&[], &[], &[1], &[1]))
}

/// With one more dimension, of extent 1.
fn column(x: &Tensor) -> Result<Tensor> {
    x.reshape(x.shape().iter().copied().chain([1]).collect::<Shape>())
}

fn linear(x: &Tensor, affine: &Affine<Tensor>) -> Result<Tensor> {
    x.linear(&affine.weight, Some(&affine.bias))
}

fn layer_norm(x: &Tensor, affine: &Affine<Tensor>, epsilon: f64) -> Result<Tensor> {
    x.layer_norm(Some(&affine.weight), Some(&affine.bias), epsilon)
}

fn dims(lhs_batching: &[u32], rhs_batching: &[u32], lhs_contracting: &[u32], rhs_contracting: &[u32]) -> DotDims {
    let list = |numbers: &[u32]| numbers.iter().copied().collect();
    DotDims {
        lhs_batching: list(lhs_batching),
        rhs_batching: list(rhs_batching),
        lhs_contracting: list(lhs_contracting),
        rhs_contracting: list(rhs_contracting),
        ..DotDims::default()
    }
}
