//! The gradient of a contrastive loss, written out as ops.
//!
//! Forward, every layer keeps its [`States`]; backward, each is used once, last layer first. What an op before had can be
//! had again cheaply is computed again: mean and deviation of a norm, the inner derivative of the activation.
//!
//! Gradients of tables are products with one-hot rows: a scatter would add up in an order that is not fixed. Of the
//! positions and segments only those in use get one; the others' are 0.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

use systole::{DType, DotDims, Result, Shape, Tensor};

use super::encoder::{MiniLm, Product, SCORES, States, VALUES, attention_bias, column, join, norm, pool, similarity};
use super::parameters::{Affine, Layer, Parameters, Tables};

/// What similarities are multiplied by before their softmax.
pub const LOGIT_SCALE: f64 = 4.0;

/// Something by query and key with something `split` by query: [rows, heads, keys, head].
const BY_KEY: Product = Product { batching: [&[0, 1], &[0, 2]], contracting: [&[2], &[1]] };

impl MiniLm {
    /// The mean cross-entropy of the rows of [`LOGIT_SCALE`] · E · Eᵀ, where E are the embeddings of token ids and each
    /// is to be most alike itself; and its gradient by each parameter. Shapes as for [`forward`](Self::forward).
    ///
    /// # Errors
    /// Shapes or dtypes that do not fit.
    pub fn loss_and_gradients(&self, ids: &Tensor, mask: &Tensor) -> Result<(Tensor, Parameters<Tensor>)> {
        let device = ids.device();
        let bias = attention_bias(mask)?;
        let sum = self.lookup_sum(ids)?;
        let tables_norm = &self.parameters.tables.norm;
        let mut hidden = self.norm(&sum, tables_norm)?;
        let mut states = Vec::with_capacity(self.parameters.layers.len());
        for layer in &self.parameters.layers {
            let state = self.layer(layer, &hidden, &bias)?;
            hidden = state.output.clone();
            states.push(state);
        }
        let mean = pool(&hidden, mask)?;
        let length = norm(&mean)?;
        let embeddings = mean.div(&length)?;
        let logits = similarity(&embeddings)?.mul(LOGIT_SCALE)?;
        let rows = ids.shape()[0];
        let labels = Tensor::iota(&device, DType::I32, [rows], 0)?;
        let loss = logits.cross_entropy(&labels)?;

        let expected = Tensor::iota(&device, DType::I32, [rows, rows], 0)?
            .eq(&Tensor::iota(&device, DType::I32, [rows, rows], 1)?)?
            .convert(DType::F32)?;
        let by_logits = logits.softmax(-1)?.sub(&expected)?.mul(LOGIT_SCALE / rows as f64)?;
        // E stands on both sides of the product.
        let by_embeddings = by_logits.add(&by_logits.t()?)?.matmul(&embeddings)?;
        let along = by_embeddings.mul(&embeddings)?.sum_keepdims(-1)?;
        let by_mean = by_embeddings.sub(&embeddings.mul(&along)?)?.div(&length)?;
        let by_token = by_mean.div(&mask.sum_keepdims(1)?)?.reshape([rows, 1, self.config.hidden])?;
        let mut by_hidden = column(mask)?.mul(&by_token)?;

        let mut layers = Vec::with_capacity(states.len());
        for (layer, state) in self.parameters.layers.iter().zip(states).rev() {
            let (by_input, gradient) = self.layer_gradient(layer, state, &by_hidden)?;
            by_hidden = by_input;
            layers.push(gradient);
        }
        layers.reverse();
        let (by_sum, norm) = self.norm_gradient(&sum, tables_norm, &by_hidden)?;
        Ok((loss, Parameters { tables: self.tables_gradient(ids, &by_sum, norm)?, layers }))
    }

    /// The gradients by a layer's input and parameters, from that by its output.
    fn layer_gradient(
        &self,
        layer: &Layer<Tensor>,
        states: States,
        by_output: &Tensor,
    ) -> Result<(Tensor, Layer<Tensor>)> {
        let (by_output_sum, output_norm) = self.norm_gradient(&states.output_sum, &layer.output_norm, by_output)?;
        let (by_activated, narrow) = linear_gradient(&states.activated, &layer.narrow, &by_output_sum)?;
        let by_wide = gelu_gradient(&states.wide, &by_activated)?;
        let (by_middle, widen) = linear_gradient(&states.middle, &layer.widen, &by_wide)?;
        let by_middle = by_middle.add(&by_output_sum)?;
        let (by_attention_sum, attention_norm) =
            self.norm_gradient(&states.attention_sum, &layer.attention_norm, &by_middle)?;
        let (by_attended, attended) = linear_gradient(&states.attended, &layer.attended, &by_attention_sum)?;

        let by_values = self.split(&by_attended)?;
        let by_weights = by_values.dot_general(&states.value, SCORES.dims())?;
        let along = by_weights.mul(&states.weights)?.sum_keepdims(-1)?;
        // Where a key may not be looked at its weight is 0, and so is the gradient by its score.
        let by_scores = by_weights.sub(&along)?.mul(&states.weights)?.mul(self.scale())?;
        let by_value = join(&states.weights.dot_general(&by_values, BY_KEY.dims())?, &states.input)?;
        let by_query = join(&by_scores.dot_general(&states.key, VALUES.dims())?, &states.input)?;
        let by_key = join(&by_scores.dot_general(&states.query, BY_KEY.dims())?, &states.input)?;

        let (through_query, query) = linear_gradient(&states.input, &layer.query, &by_query)?;
        let (through_key, key) = linear_gradient(&states.input, &layer.key, &by_key)?;
        let (through_value, value) = linear_gradient(&states.input, &layer.value, &by_value)?;
        let by_input = by_attention_sum.add(&through_query)?.add(&through_key)?.add(&through_value)?;
        Ok((by_input, Layer { query, key, value, attended, attention_norm, widen, narrow, output_norm }))
    }

    /// The gradients by what a layer norm gets and by its parameters, from that by what it gives.
    fn norm_gradient(
        &self,
        x: &Tensor,
        affine: &Affine<Tensor>,
        by_output: &Tensor,
    ) -> Result<(Tensor, Affine<Tensor>)> {
        let centred = x.sub(&x.mean_keepdims(-1)?)?;
        let deviation = centred.mul(&centred)?.mean_keepdims(-1)?.add(self.config.epsilon)?.rsqrt()?;
        let scaled = centred.mul(&deviation)?;
        let by_scaled = by_output.mul(&affine.weight)?;
        let mean = by_scaled.mean_keepdims(-1)?;
        let along = by_scaled.mul(&scaled)?.mean_keepdims(-1)?;
        let by_x = by_scaled.sub(&mean)?.sub(&scaled.mul(&along)?)?.mul(&deviation)?;
        Ok((by_x, Affine { weight: by_output.mul(&scaled)?.sum([0, 1])?, bias: by_output.sum([0, 1])? }))
    }

    /// The gradient by each table, from that by the sum of what was looked up.
    fn tables_gradient(&self, ids: &Tensor, by_sum: &Tensor, norm: Affine<Tensor>) -> Result<Tables<Tensor>> {
        let device = ids.device();
        let rows: Shape = ids.shape().iter().copied().chain([self.config.vocabulary]).collect();
        let known = Tensor::iota(&device, DType::I32, rows, -1)?;
        let one_hot = known.eq(&column(ids)?)?.convert(DType::F32)?;
        let zero = Tensor::scalar(&device, 0.0f32)?;
        let padded =
            |used: &Tensor, rows: usize| used.pad(&zero, &[0, 0], &[rows as i64 - used.shape()[0] as i64, 0], &[0, 0]);
        let by_position = by_sum.sum(0)?;
        let by_segment = by_position.sum(0)?.reshape([1, self.config.hidden])?;
        Ok(Tables {
            words: one_hot.dot_general(by_sum, over_tokens())?,
            positions: padded(&by_position, self.config.positions)?,
            segments: padded(&by_segment, self.config.segments)?,
            norm,
        })
    }
}

/// The gradients by x, weight and bias of x · weightᵀ + bias, from that by the result; x is [rows, length, inputs].
fn linear_gradient(x: &Tensor, affine: &Affine<Tensor>, by_output: &Tensor) -> Result<(Tensor, Affine<Tensor>)> {
    let by_x = by_output.matmul(&affine.weight)?;
    Ok((by_x, Affine { weight: by_output.dot_general(x, over_tokens())?, bias: by_output.sum([0, 1])? }))
}

/// [rows, length, m] with [rows, length, n], summed over all tokens: [m, n].
fn over_tokens() -> DotDims {
    Product { batching: [&[], &[]], contracting: [&[0, 1], &[0, 1]] }.dims()
}

/// The derivative of x · Φ(x) is Φ(x) + x · φ(x), of the normal distribution.
fn gelu_gradient(x: &Tensor, by_output: &Tensor) -> Result<Tensor> {
    /// 1/√(2π)
    const PEAK: f64 = FRAC_2_SQRT_PI * FRAC_1_SQRT_2 / 2.0;
    let share = x.mul(FRAC_1_SQRT_2)?.erf()?.add(1.0)?.mul(0.5)?;
    let density = x.mul(x)?.mul(-0.5)?.exp()?.mul(PEAK)?;
    share.add(&x.mul(&density)?)?.mul(by_output)
}
