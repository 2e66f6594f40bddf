//! Where training starts.

use super::mersenne::MersenneTwister;
use super::model::SHAPES;

/// The seed of [`initial_parameters`].
const SEED: u32 = 1;

/// Initial parameters, row-major, in the order of [`NAMES`](super::NAMES): weights are normal numbers times
/// `sqrt(2 / inputs)` (He et al., 2015), biases zero.
///
/// NumPy makes the same bits: `r = numpy.random.RandomState(1)`, then for each weight, in order,
/// `(r.randn(inputs, outputs) * numpy.sqrt(2 / inputs)).astype(numpy.float32)`.
pub fn initial_parameters() -> [Vec<f32>; 4] {
    let mut generator = MersenneTwister::new(SEED);
    SHAPES.map(|shape| match *shape {
        [inputs, outputs] => {
            let scale = (2.0 / inputs as f64).sqrt();
            (0..inputs * outputs).map(|_| (generator.normal() * scale) as f32).collect()
        }
        _ => vec![0.0; shape.iter().product()],
    })
}
