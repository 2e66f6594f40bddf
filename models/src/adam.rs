//! The optimizer Adam (Kingma and Ba, 2015) with bias correction, and with weights that decay apart from the gradient
//! (AdamW; Loshchilov and Hutter, 2019).

use systole::{DType, Device, Result, Shape, Tensor};

/// How Adam steps.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rates {
    /// Size of a step.
    pub rate: f64,
    /// How much of the moments is kept.
    pub betas: [f64; 2],
    /// Added to the deviation.
    pub epsilon: f64,
    /// Share of a parameter that is taken off it, times the size of a step; 0 for plain Adam.
    pub decay: f64,
}

/// Moments of the gradients, and how many steps they have seen.
///
/// What changes from step to step and is the same for every element, the bias corrections, is computed on the host in
/// f64 and passed as a number: the ops of a step stay the same, so its plan does too.
#[derive(Debug)]
pub struct Adam {
    rates: Rates,
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
    /// Zero moments for parameters of this dtype and these shapes.
    ///
    /// # Errors
    /// A shape has more elements than a buffer can hold.
    pub fn new<S: Into<Shape>>(
        device: &Device,
        dtype: DType,
        rates: Rates,
        shapes: impl IntoIterator<Item = S>,
    ) -> Result<Self> {
        let zeros = |shape: &Shape| Tensor::zeros(device, dtype, shape.clone());
        let moments = shapes
            .into_iter()
            .map(|shape| {
                let shape = shape.into();
                Ok(Moments { first: zeros(&shape)?, second: zeros(&shape)? })
            })
            .collect::<Result<_>>()?;
        Ok(Adam { rates, moments, decays: [1.0; 2] })
    }

    /// Takes one step: replaces each parameter `p` by `p - rate · (m̂ / (sqrt(v̂) + epsilon) + decay · p)`.
    ///
    /// Gradients are consumed, so that each is gone before the next parameter's ops are recorded.
    ///
    /// # Errors
    /// A gradient has not its parameter's shape.
    ///
    /// # Panics
    /// The number of parameters or gradients is not that of the shapes given to [`new`](Self::new).
    pub fn step<'a>(
        &mut self,
        parameters: impl IntoIterator<Item = &'a mut Tensor>,
        gradients: impl IntoIterator<Item = Tensor>,
    ) -> Result<()> {
        let Rates { rate, betas, epsilon, decay } = self.rates;
        for (decay, beta) in self.decays.iter_mut().zip(betas) {
            *decay *= beta;
        }
        let corrections = self.decays.map(|decay| 1.0 - decay);
        let (mut parameters, mut gradients) = (parameters.into_iter(), gradients.into_iter());
        for moments in &mut self.moments {
            let (Some(parameter), Some(gradient)) = (parameters.next(), gradients.next()) else {
                panic!("Adam was made for more parameters");
            };
            moments.first = average(&moments.first, betas[0], &gradient)?;
            moments.second = average(&moments.second, betas[1], &gradient.mul(&gradient)?)?;
            let first = moments.first.div(corrections[0])?;
            let second = moments.second.div(corrections[1])?;
            let change = first.div(&second.sqrt()?.add(epsilon)?)?.mul(rate)?;
            *parameter = match decay {
                0.0 => parameter.sub(&change)?,
                decay => parameter.mul(1.0 - rate * decay)?.sub(&change)?,
            };
        }
        assert!(parameters.next().is_none() && gradients.next().is_none(), "Adam was made for fewer parameters");
        Ok(())
    }
}

/// `beta · moment + (1 - beta) · sample`.
fn average(moment: &Tensor, beta: f64, sample: &Tensor) -> Result<Tensor> {
    moment.mul(beta)?.add(&sample.mul(1.0 - beta)?)
}
