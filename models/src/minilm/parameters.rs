//! The parameters of an encoder, by name.
//!
//! One structure holds whatever belongs to each parameter: its tensor, its gradient, its moments. It is made and walked
//! in one order, so that what belongs together meets.

use systole::files::StoredTensor;
use systole::{Device, Tensor};

use super::config::Config;
use crate::mersenne::MersenneTwister;

/// Scale of random biases.
const SMALL: f64 = 0.02;

/// Weight and bias of a map `x · weightᵀ + bias`, or scale and shift of a layer norm.
#[derive(Clone, Debug)]
pub struct Affine<T> {
    /// `[outputs, inputs]` of a map; `[width]` of a norm.
    pub weight: T,
    /// `[outputs]`, or `[width]`.
    pub bias: T,
}

/// What a row of tokens is looked up in.
#[derive(Clone, Debug)]
pub struct Tables<T> {
    /// [vocabulary, hidden]
    pub words: T,
    /// [positions, hidden]
    pub positions: T,
    /// [segments, hidden]
    pub segments: T,
    /// Of the sum of the three.
    pub norm: Affine<T>,
}

/// One layer of the encoder.
#[derive(Clone, Debug)]
pub struct Layer<T> {
    /// Hidden states to queries.
    pub query: Affine<T>,
    /// Hidden states to keys.
    pub key: Affine<T>,
    /// Hidden states to values.
    pub value: Affine<T>,
    /// What attention gives, to the width of hidden states.
    pub attended: Affine<T>,
    /// Of hidden states and attention.
    pub attention_norm: Affine<T>,
    /// Into the feed-forward block.
    pub widen: Affine<T>,
    /// Out of it.
    pub narrow: Affine<T>,
    /// Of its input and output.
    pub output_norm: Affine<T>,
}

/// Everything that training changes.
#[derive(Clone, Debug)]
pub struct Parameters<T> {
    /// Lookups.
    pub tables: Tables<T>,
    /// Layers, the first first.
    pub layers: Vec<Layer<T>>,
}

impl<T> Parameters<T> {
    /// Makes each parameter from its name and shape, in the order of [`iter`](Self::iter).
    ///
    /// # Errors
    /// The first that `make` gives.
    pub fn try_from_fn<E>(config: &Config, mut make: impl FnMut(&str, &[usize]) -> Result<T, E>) -> Result<Self, E> {
        let Config { hidden, feed_forward, vocabulary, positions, segments, .. } = *config;
        let tables = Tables {
            words: make("embeddings.word_embeddings.weight", &[vocabulary, hidden])?,
            positions: make("embeddings.position_embeddings.weight", &[positions, hidden])?,
            segments: make("embeddings.token_type_embeddings.weight", &[segments, hidden])?,
            norm: affine(&mut make, "embeddings.LayerNorm", &[hidden])?,
        };
        let layers = (0..config.layers)
            .map(|layer| {
                let mut affine =
                    |name: &str, shape: &[usize]| affine(&mut make, &format!("encoder.layer.{layer}.{name}"), shape);
                Ok(Layer {
                    query: affine("attention.self.query", &[hidden, hidden])?,
                    key: affine("attention.self.key", &[hidden, hidden])?,
                    value: affine("attention.self.value", &[hidden, hidden])?,
                    attended: affine("attention.output.dense", &[hidden, hidden])?,
                    attention_norm: affine("attention.output.LayerNorm", &[hidden])?,
                    widen: affine("intermediate.dense", &[feed_forward, hidden])?,
                    narrow: affine("output.dense", &[hidden, feed_forward])?,
                    output_norm: affine("output.LayerNorm", &[hidden])?,
                })
            })
            .collect::<Result<_, E>>()?;
        Ok(Parameters { tables, layers })
    }

    /// Every parameter, in one order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        let Tables { words, positions, segments, norm } = &self.tables;
        let layers = self.layers.iter().flat_map(|layer| {
            let Layer { query, key, value, attended, attention_norm, widen, narrow, output_norm } = layer;
            let affines = [query, key, value, attended, attention_norm, widen, narrow, output_norm];
            affines.into_iter().flat_map(Affine::both)
        });
        [words, positions, segments].into_iter().chain(norm.both()).chain(layers)
    }

    /// Every parameter by value, in the order of [`iter`](Self::iter); each is dropped when it has been used.
    pub fn into_values(self) -> impl Iterator<Item = T> {
        let Tables { words, positions, segments, norm } = self.tables;
        let layers = self.layers.into_iter().flat_map(|layer| {
            let Layer { query, key, value, attended, attention_norm, widen, narrow, output_norm } = layer;
            let affines = [query, key, value, attended, attention_norm, widen, narrow, output_norm];
            affines.into_iter().flat_map(|affine| [affine.weight, affine.bias])
        });
        [words, positions, segments, norm.weight, norm.bias].into_iter().chain(layers)
    }

    /// Every parameter, in the order of [`iter`](Self::iter).
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        let Tables { words, positions, segments, norm } = &mut self.tables;
        let layers = self.layers.iter_mut().flat_map(|layer| {
            let Layer { query, key, value, attended, attention_norm, widen, narrow, output_norm } = layer;
            let affines = [query, key, value, attended, attention_norm, widen, narrow, output_norm];
            affines.into_iter().flat_map(Affine::both_mut)
        });
        [words, positions, segments].into_iter().chain(norm.both_mut()).chain(layers)
    }
}

impl<T> Affine<T> {
    fn both(&self) -> [&T; 2] {
        [&self.weight, &self.bias]
    }

    fn both_mut(&mut self) -> [&mut T; 2] {
        [&mut self.weight, &mut self.bias]
    }
}

/// A weight of `shape`, and a bias as wide as its first extent.
fn affine<T, E>(
    make: &mut impl FnMut(&str, &[usize]) -> Result<T, E>,
    name: &str,
    shape: &[usize],
) -> Result<Affine<T>, E> {
    let weight = make(&format!("{name}.weight"), shape)?;
    Ok(Affine { weight, bias: make(&format!("{name}.bias"), &shape[..1])? })
}

impl Parameters<StoredTensor> {
    /// Random parameters, the same for the same seed: for tests, and for encoders of other sizes. Numbers are normal;
    /// weights of maps are divided by the root of their inputs, and biases and deviations of norms from 1 are small.
    pub fn random(config: &Config, seed: u32) -> Self {
        let mut generator = MersenneTwister::new(seed);
        let made = Parameters::try_from_fn(config, |name, shape| {
            let (centre, scale) = match *shape {
                [_, inputs] if !name.contains("embeddings") => (0.0, 1.0 / (inputs as f64).sqrt()),
                [_, _] => (0.0, 1.0),
                _ if name.ends_with("LayerNorm.weight") => (1.0, SMALL),
                _ => (0.0, SMALL),
            };
            let elements = shape.iter().product();
            let elements = (0..elements).map(|_| (centre + scale * generator.normal()) as f32).collect();
            StoredTensor::new(elements, shape)
        });
        made.expect("there are as many elements as the shape asks for")
    }

    /// Every parameter on `device`, which reads them where they are.
    ///
    /// # Errors
    /// The device is out of memory.
    pub fn upload(&self, config: &Config, device: &Device) -> systole::Result<Parameters<Tensor>> {
        let mut stored = self.iter();
        Parameters::try_from_fn(config, |_, _| {
            stored.next().expect("parameters are walked in the order in which they are made").to_device(device)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    #[test]
    fn parameters_are_made_in_the_order_in_which_they_are_walked() {
        let mut made = Vec::new();
        let names = Parameters::try_from_fn(&Config::MINILM_L6, |name, _| {
            made.push(name.to_owned());
            Ok::<_, Infallible>(name.to_owned())
        });
        let mut names = names.unwrap();
        assert_eq!(names.iter().collect::<Vec<_>>(), made.iter().collect::<Vec<_>>());
        assert_eq!(names.iter_mut().collect::<Vec<_>>(), made.iter_mut().collect::<Vec<_>>());
        assert_eq!(made.len(), 5 + 6 * 16);
        assert!(names.into_values().eq(made));
    }
}
