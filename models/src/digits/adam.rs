//! The optimizer Adam (Kingma and Ba, 2015), with bias correction.

use systole::{DType, Device, Result, Shape, Tensor};

const LEARNING_RATE: f64 = 1e-3;
const BETAS: [f64; 2] = [0.9, 0.999];
const EPSILON: f64 = 1e-8;

/// Moments of the gradients, and how many steps they have seen.
///
/// What changes from step to step and is the same for every element, the bias corrections, is computed on the host in
/// f64 and passed as a number: the ops of a step stay the same, so its plan does too.
#[derive(Debug)]
pub struct Adam {
    moments: Vec<Moments>,
    /// `beta^step` of either moment, as a running product: `powi` may differ from machine to machine.
    decays: [f64; 2],
}

#[derive(Debug)]
struct Moments {
    first: Tensor,
    second: Tensor,
}

impl Adam {
    /// Zero moments for parameters of these shapes.
    ///
    /// # Errors
    /// A shape has more elements than a buffer can hold.
    pub fn new<S: Into<Shape>>(device: &Device, shapes: impl IntoIterator<Item = S>) -> Result<Self> {
        let zeros = |shape: &Shape| Tensor::zeros(device, DType::F32, shape.clone());
        let moments = shapes
            .into_iter()
            .map(|shape| {
                let shape = shape.into();
                Ok(Moments { first: zeros(&shape)?, second: zeros(&shape)? })
            })
            .collect::<Result<_>>()?;
        Ok(Adam { moments, decays: [1.0; 2] })
    }

    /// Takes one step: replaces each parameter `p` by `p - rate · m̂ / (sqrt(v̂) + epsilon)`.
    ///
    /// Gradients are consumed, so that each is gone before the next parameter's ops are recorded.
    ///
    /// # Errors
    /// A gradient has not its parameter's shape.
    ///
    /// # Panics
    /// The number of parameters or gradients is not that of the shapes given to [`new`](Self::new).
    pub fn step<const N: usize>(&mut self, parameters: &mut [Tensor; N], gradients: [Tensor; N]) -> Result<()> {
        assert_eq!(self.moments.len(), N, "Adam was made for another number of parameters");
        for (decay, beta) in self.decays.iter_mut().zip(BETAS) {
            *decay *= beta;
        }
        let corrections = self.decays.map(|decay| 1.0 - decay);
        for ((parameter, moments), gradient) in parameters.iter_mut().zip(&mut self.moments).zip(gradients) {
            moments.first = average(&moments.first, BETAS[0], &gradient)?;
            moments.second = average(&moments.second, BETAS[1], &gradient.mul(&gradient)?)?;
            let first = moments.first.div(corrections[0])?;
            let second = moments.second.div(corrections[1])?;
            let change = first.div(&second.sqrt()?.add(EPSILON)?)?.mul(LEARNING_RATE)?;
            *parameter = parameter.sub(&change)?;
        }
        Ok(())
    }
}

/// `beta · moment + (1 - beta) · sample`.
fn average(moment: &Tensor, beta: f64, sample: &Tensor) -> Result<Tensor> {
    moment.mul(beta)?.add(&sample.mul(1.0 - beta)?)
}
