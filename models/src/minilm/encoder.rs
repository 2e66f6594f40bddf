//! What the encoder computes.
//!
//! A row's bits depend neither on the other rows nor on how far it is filled up. Products and layer norms work on each
//! token by itself. In attention the scores of keys that are no tokens are −∞, so their weights are exactly +0: added to
//! a sum of weights, or as a factor of values, +0 leaves the bits of what it meets (docs/numerics.md N6, N8). The mean
//! over a row adds ±0 for what is no token, likewise.

use systole::files::StoredTensor;
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
    /// Puts parameters on `device`, which reads them where they are.
    ///
    /// # Errors
    /// The device is out of memory.
    pub fn new(device: &Device, config: &Config, parameters: &Parameters<StoredTensor>) -> Result<Self> {
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
        self.norm(&self.lookup_sum(ids)?, &self.parameters.tables.norm)
    }

    /// What the norm of the lookup gets.
    pub(super) fn lookup_sum(&self, ids: &Tensor) -> Result<Tensor> {
        let tables = &self.parameters.tables;
        let length = ids.shape().last().copied().unwrap_or(0);
        let words = tables.words.embedding(ids)?;
        words.add(&tables.segments.narrow(0, 0, 1)?)?.add(&tables.positions.narrow(0, 0, length)?)
    }

    /// Every layer, from the hidden states, f32 [rows, length, hidden], that the first one gets.
    ///
    /// # Errors
    /// Shapes or dtypes that do not fit.
    pub fn encoder(&self, hidden: &Tensor, mask: &Tensor) -> Result<Tensor> {
        let bias = attention_bias(mask)?;
        let mut hidden = hidden.clone();
        for layer in &self.parameters.layers {
            hidden = self.layer(layer, &hidden, &bias)?.output;
        }
        Ok(hidden)
    }

    /// One layer. Of its states only the output is wanted by most; the others are gone before a trace is run, and then
    /// are never written.
    pub(super) fn layer(&self, layer: &Layer<Tensor>, input: &Tensor, bias: &Tensor) -> Result<States> {
        let query = self.split(&linear(input, &layer.query)?)?;
        let key = self.split(&linear(input, &layer.key)?)?;
        let value = self.split(&linear(input, &layer.value)?)?;
        let scores = query.dot_general(&key, SCORES.dims())?.mul(self.scale())?.add(bias)?;
        let weights = scores.softmax(-1)?;
        let values = weights.dot_general(&value, VALUES.dims())?;
        let attended = join(&values, input)?;
        let attention_sum = linear(&attended, &layer.attended)?.add(input)?;
        let middle = self.norm(&attention_sum, &layer.attention_norm)?;
        let wide = linear(&middle, &layer.widen)?;
        let activated = wide.gelu()?;
        let output_sum = linear(&activated, &layer.narrow)?.add(&middle)?;
        let output = self.norm(&output_sum, &layer.output_norm)?;
        let input = input.clone();
        Ok(States {
            input,
            query,
            key,
            value,
            weights,
            attended,
            attention_sum,
            middle,
            wide,
            activated,
            output_sum,
            output,
        })
    }

    /// What scores are multiplied by.
    pub(super) fn scale(&self) -> f64 {
        1.0 / (self.config.head() as f64).sqrt()
    }

    /// [rows, length, hidden] as [rows, length, heads, head].
    pub(super) fn split(&self, x: &Tensor) -> Result<Tensor> {
        let tokens = x.shape()[..x.rank() - 1].iter().copied();
        x.reshape(tokens.chain([self.config.heads, self.config.head()]).collect::<Shape>())
    }

    pub(super) fn norm(&self, x: &Tensor, affine: &Affine<Tensor>) -> Result<Tensor> {
        x.layer_norm(Some(&affine.weight), Some(&affine.bias), self.config.epsilon)
    }

    /// The mean of each row's hidden states where `mask` is 1, scaled to length 1.
    ///
    /// # Errors
    /// Shapes or dtypes that do not fit.
    pub fn embed(&self, hidden: &Tensor, mask: &Tensor) -> Result<Tensor> {
        let mean = pool(hidden, mask)?;
        mean.div(&norm(&mean)?)
    }
}

/// What a layer computes on its way, f32; `split` ones are [rows, length, heads, head].
#[derive(Debug)]
pub(super) struct States {
    pub(super) input: Tensor,
    /// `split`.
    pub(super) query: Tensor,
    /// `split`.
    pub(super) key: Tensor,
    /// `split`.
    pub(super) value: Tensor,
    /// Attention, [rows, heads, queries, keys].
    pub(super) weights: Tensor,
    /// Sums of values.
    pub(super) attended: Tensor,
    /// What the first norm gets.
    pub(super) attention_sum: Tensor,
    /// What the first norm gives.
    pub(super) middle: Tensor,
    /// [rows, length, feed-forward]
    pub(super) wide: Tensor,
    /// The same after the activation.
    pub(super) activated: Tensor,
    /// What the second norm gets.
    pub(super) output_sum: Tensor,
    pub(super) output: Tensor,
}

/// Dimension numbers of a product.
pub(super) struct Product {
    pub(super) batching: [&'static [u32]; 2],
    pub(super) contracting: [&'static [u32]; 2],
}

/// Queries with keys, each `split`: [rows, heads, queries, keys].
pub(super) const SCORES: Product = Product { batching: [&[0, 2], &[0, 2]], contracting: [&[3], &[3]] };
/// Something by query and key with something `split` by key: [rows, heads, queries, head].
pub(super) const VALUES: Product = Product { batching: [&[0, 1], &[0, 2]], contracting: [&[3], &[1]] };

impl Product {
    pub(super) fn dims(&self) -> DotDims {
        let list = |numbers: &[u32]| numbers.iter().copied().collect();
        DotDims {
            lhs_batching: list(self.batching[0]),
            rhs_batching: list(self.batching[1]),
            lhs_contracting: list(self.contracting[0]),
            rhs_contracting: list(self.contracting[1]),
            ..DotDims::default()
        }
    }
}

/// [rows, heads, length, head] at the shape of hidden states.
pub(super) fn join(x: &Tensor, hidden: &Tensor) -> Result<Tensor> {
    x.transpose(&[0, 2, 1, 3])?.reshape(hidden.shape().clone())
}

/// Added to scores, f32 [rows, 1, 1, length]: 0 where a key may be looked at, −∞ where not.
pub(super) fn attention_bias(mask: &Tensor) -> Result<Tensor> {
    let zero = Tensor::scalar(&mask.device(), 0.0f32)?;
    let (rows, keys) = mask.shape().split_at(mask.rank().min(1));
    let shape: Shape = rows.iter().chain(&[1, 1]).chain(keys).copied().collect();
    mask.gt(0.0)?.select(&zero, f32::NEG_INFINITY)?.reshape(shape)
}

/// The mean of each row's tokens, [rows, hidden].
pub(super) fn pool(hidden: &Tensor, mask: &Tensor) -> Result<Tensor> {
    hidden.mul(&column(mask)?)?.sum(1)?.div(&mask.sum_keepdims(1)?)
}

/// The length of each row as a vector, [rows, 1].
pub(super) fn norm(x: &Tensor) -> Result<Tensor> {
    x.mul(x)?.sum_keepdims(-1)?.sqrt()
}

/// How alike rows of length 1 are: the product of each with each, f32 [rows, rows].
///
/// # Errors
/// `embeddings` are no matrix.
pub fn similarity(embeddings: &Tensor) -> Result<Tensor> {
    embeddings.linear(embeddings, None)
}

/// With one more dimension, of extent 1.
pub(super) fn column(x: &Tensor) -> Result<Tensor> {
    x.reshape(x.shape().iter().copied().chain([1]).collect::<Shape>())
}

fn linear(x: &Tensor, affine: &Affine<Tensor>) -> Result<Tensor> {
    x.linear(&affine.weight, Some(&affine.bias))
}
