//! Where training starts.

use super::model::SHAPES;
use crate::mersenne::MersenneTwister;

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

#[cfg(test)]
mod tests {
    use flate2::Crc;

    use super::*;

    #[test]
    fn weights_are_those_of_numpy() {
        // zlib.crc32 of the little-endian bytes that the recipe above gives with NumPy 2.
        let checksums = initial_parameters().map(|parameter| {
            let mut crc = Crc::new();
            parameter.iter().for_each(|element| crc.update(&element.to_le_bytes()));
            crc.sum()
        });
        assert_eq!([checksums[0], checksums[2]], [0x8bb6_973a, 0x3732_31fa]);
    }

    #[test]
    fn biases_are_zero() {
        let [_, hidden, _, output] = initial_parameters();
        assert_eq!((hidden, output), (vec![0.0; 64], vec![0.0; 10]));
    }
}
