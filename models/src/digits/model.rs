//! The perceptron: what it computes, and its gradients written out.

use systole::fusion::ir::DotDims;
use systole::{DType, Device, Result, Tensor};

use super::dataset::{DIGITS, PIXELS};

/// Units of the hidden layer.
const HIDDEN: usize = 64;

/// Names of the parameters, in the order in which they are passed everywhere.
pub const NAMES: [&str; 4] = ["hidden.weight", "hidden.bias", "output.weight", "output.bias"];

/// Shapes of the parameters; weights are [inputs, outputs].
pub const SHAPES: [&[usize]; 4] = [&[PIXELS, HIDDEN], &[HIDDEN], &[HIDDEN, DIGITS], &[DIGITS]];

/// The perceptron `relu(x · W₁ + b₁) · W₂ + b₂` with its parameters on a device.
#[derive(Clone, Debug)]
pub struct Digits {
    parameters: [Tensor; 4],
}

impl Digits {
    /// A perceptron with the given parameters, row-major, of [`SHAPES`].
    ///
    /// # Errors
    /// A parameter has another number of elements, or the device is out of memory.
    pub fn with_parameters(device: &Device, parameters: [&[f32]; 4]) -> Result<Self> {
        let upload = |at: usize| Tensor::from_slice(device, parameters[at], SHAPES[at]);
        Ok(Digits { parameters: [upload(0)?, upload(1)?, upload(2)?, upload(3)?] })
    }

    /// The parameters, in the order of [`NAMES`].
    pub fn parameters(&self) -> &[Tensor; 4] {
        &self.parameters
    }

    /// The parameters, for an optimizer to replace.
    pub fn parameters_mut(&mut self) -> &mut [Tensor; 4] {
        &mut self.parameters
    }

    /// The mean softmax cross-entropy of a batch, and its gradient by each parameter.
    ///
    /// `pixels` is f32 [batch, 64]; `labels` is i32 [batch, 1].
    ///
    /// # Errors
    /// Shapes or dtypes that do not fit.
    pub fn loss_and_gradients(&self, pixels: &Tensor, labels: &Tensor) -> Result<(Tensor, [Tensor; 4])> {
        let [hidden_weight, hidden_bias, output_weight, output_bias] = &self.parameters;
        let batch = pixels.shape()[0];

        let before = pixels.matmul(hidden_weight)?.add(hidden_bias)?;
        let hidden = before.maximum(0.0)?;
        let logits = hidden.matmul(output_weight)?.add(output_bias)?;

        // log(sum(exp(logits))) - logits[label], both less the row's maximum, so that exp cannot overflow.
        let shifted = logits.sub(&logits.max_keepdims(-1)?)?;
        let exponentials = shifted.exp()?;
        let normalizer = exponentials.sum_keepdims(-1)?;
        let classes = Tensor::iota(&pixels.device(), DType::I32, [batch, DIGITS], 1)?;
        let expected = classes.eq(labels)?.convert(DType::F32)?;
        let losses = normalizer.log()?.sub(&shifted.mul(&expected)?.sum_keepdims(-1)?)?;
        let loss = losses.mean(..)?;

        let by_logits = exponentials.div(&normalizer)?.sub(&expected)?.div(batch as f64)?;
        let by_output_weight = contract(&hidden, 0, &by_logits, 0)?;
        let by_output_bias = by_logits.sum(0)?;
        let by_hidden = contract(&by_logits, 1, output_weight, 1)?;
        let by_before = before.gt(0.0)?.select(&by_hidden, 0.0)?;
        let by_hidden_weight = contract(pixels, 0, &by_before, 0)?;
        let by_hidden_bias = by_before.sum(0)?;

        Ok((loss, [by_hidden_weight, by_hidden_bias, by_output_weight, by_output_bias]))
    }
}

/// The sum of products over one dimension of each matrix: a product with one or both of them transposed, without
/// moving an element for it.
fn contract(lhs: &Tensor, lhs_dimension: u32, rhs: &Tensor, rhs_dimension: u32) -> Result<Tensor> {
    let dims = DotDims {
        lhs_contracting: [lhs_dimension].into_iter().collect(),
        rhs_contracting: [rhs_dimension].into_iter().collect(),
        ..DotDims::default()
    };
    lhs.dot_general(rhs, dims)
}
