//! The sizes of an encoder.

use serde_json::Value;

use crate::error::{Error, Result};

/// Sizes of an encoder of the BERT family. Tests build small ones.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// Width of a token's hidden state; a multiple of `heads`.
    pub hidden: usize,
    /// Attention heads of a layer.
    pub heads: usize,
    /// Layers.
    pub layers: usize,
    /// Width between the two halves of a feed-forward block.
    pub feed_forward: usize,
    /// Known tokens.
    pub vocabulary: usize,
    /// Longest row of tokens.
    pub positions: usize,
    /// Kinds of segment; only the first is used.
    pub segments: usize,
    /// What layer norm adds to the variance.
    pub epsilon: f64,
}

impl Config {
    /// all-MiniLM-L6-v2.
    pub const MINILM_L6: Config = Config {
        hidden: 384,
        heads: 12,
        layers: 6,
        feed_forward: 1536,
        vocabulary: 30_522,
        positions: 512,
        segments: 2,
        epsilon: 1e-12,
    };

    /// Width of one head.
    pub fn head(&self) -> usize {
        self.hidden / self.heads
    }

    /// Reads a `config.json` as the `transformers` library writes it.
    ///
    /// # Errors
    /// It is no JSON, a number is missing or makes no sense, or the encoder is of another kind than this one.
    pub fn from_json(json: &[u8]) -> Result<Self> {
        let json: Value = serde_json::from_slice(json)
            .map_err(|error| Error::weights(format!("config.json is not JSON: {error}")))?;
        expect_choice(&json, "hidden_act", "gelu")?;
        expect_choice(&json, "position_embedding_type", "absolute")?;
        let config = Config {
            hidden: size(&json, "hidden_size")?,
            heads: size(&json, "num_attention_heads")?,
            layers: size(&json, "num_hidden_layers")?,
            feed_forward: size(&json, "intermediate_size")?,
            vocabulary: size(&json, "vocab_size")?,
            positions: size(&json, "max_position_embeddings")?,
            segments: size(&json, "type_vocab_size")?,
            epsilon: number(&json, "layer_norm_eps", "a number", Value::as_f64)?,
        };
        config.check()?;
        Ok(config)
    }

    /// Whether the sizes make an encoder.
    ///
    /// # Errors
    /// A size is zero, or too small for what it must hold; layer norm adds nothing or less to the variance.
    pub fn check(&self) -> Result<()> {
        let sizes = [
            ("hidden size", self.hidden),
            ("number of heads", self.heads),
            ("number of layers", self.layers),
            ("intermediate size", self.feed_forward),
            ("size of the vocabulary", self.vocabulary),
            ("number of segment types", self.segments),
        ];
        if let Some((size, _)) = sizes.into_iter().find(|(_, size)| *size == 0) {
            return Err(Error::weights(format!("the {size} of an encoder is at least 1, not 0")));
        }
        if !(self.epsilon > 0.0 && self.epsilon.is_finite()) {
            let epsilon = self.epsilon;
            return Err(Error::weights(format!("what layer norm adds to the variance is above 0, not {epsilon}")));
        }
        if !self.hidden.is_multiple_of(self.heads) {
            let (hidden, heads) = (self.hidden, self.heads);
            return Err(Error::weights(format!("hidden size {hidden} is no multiple of {heads} heads")));
        }
        if self.positions < 2 {
            return Err(Error::weights(String::from(
                "a row of tokens begins and ends with one of its own: positions < 2",
            )));
        }
        Ok(())
    }
}

fn size(json: &Value, key: &str) -> Result<usize> {
    number(json, key, "a size", |value| value.as_u64().and_then(|size| usize::try_from(size).ok()))
}

/// The value of a key, which is `what`.
fn number<T>(json: &Value, key: &str, what: &str, read: impl FnOnce(&Value) -> Option<T>) -> Result<T> {
    match json.get(key) {
        Some(value) => {
            read(value).ok_or_else(|| Error::weights(format!("config.json has `{key}`: {value}, which is not {what}")))
        }
        None => Err(Error::weights(format!("config.json has no `{key}`"))),
    }
}

fn expect_choice(json: &Value, key: &str, expected: &str) -> Result<()> {
    match json[key].as_str() {
        Some(found) if found != expected => {
            Err(Error::weights(format!("config.json has {key} `{found}`; this encoder has `{expected}`")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    const JSON: &str = r#"{"hidden_act": "gelu", "hidden_size": 384, "num_attention_heads": 12,
        "num_hidden_layers": 6, "intermediate_size": 1536, "vocab_size": 30522, "max_position_embeddings": 512,
        "type_vocab_size": 2, "layer_norm_eps": 1e-12}"#;

    fn check(from: &str, to: &str, expected: &Expect) {
        let error = Config::from_json(JSON.replace(from, to).as_bytes()).unwrap_err();
        assert!(error.is_weights_error());
        expected.assert_eq(&error.to_string());
    }

    #[test]
    fn the_published_sizes_are_read() {
        assert_eq!(Config::from_json(JSON.as_bytes()).unwrap(), Config::MINILM_L6);
    }

    #[test]
    fn another_encoder_is_refused() {
        check("gelu", "relu", &expect!["config.json has hidden_act `relu`; this encoder has `gelu`"]);
        check("384", "385", &expect!["hidden size 385 is no multiple of 12 heads"]);
        check("vocab_size", "words", &expect!["config.json has no `vocab_size`"]);
        check("384", "-1", &expect!["config.json has `hidden_size`: -1, which is not a size"]);
        check("1e-12", "\"x\"", &expect![[r#"config.json has `layer_norm_eps`: "x", which is not a number"#]]);
        check("1e-12", "-5", &expect!["what layer norm adds to the variance is above 0, not -5"]);
        check(": 12,", ": 0,", &expect!["the number of heads of an encoder is at least 1, not 0"]);
        let error = Config::from_json(b"no json").unwrap_err().to_string();
        assert!(error.starts_with("config.json is not JSON: "), "{error}");
    }
}
