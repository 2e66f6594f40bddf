//! Sentences to token ids.
//!
//! The file that defines a tokenizer may ask it to cut and to fill up rows; MiniLM's asks for 128 tokens exactly. Neither
//! is wanted: a sentence has as many tokens as it has, up to the positions that the encoder knows, and a batch is filled
//! up to its longest row ([`Batch`](super::Batch)).

use std::fmt;

use super::batch::Batch;
use super::config::Config;
use crate::error::{Error, Result};

/// What becomes of a sentence with more tokens than the encoder has positions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TooLong {
    /// The tokens that are too many are left out; [`Tokens::lengths`] tells how many there were.
    Cut,
    /// It is an error.
    Refuse,
}

/// A tokenizer as its `tokenizer.json` defines it.
pub struct Tokenizer(tokenizers::Tokenizer);

/// The tokens of some sentences.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tokens {
    /// Ids of each sentence, between the token that begins a row and the one that ends it.
    pub rows: Vec<Vec<u32>>,
    /// Tokens of each sentence when it is whole: more than its row has if it was cut.
    pub lengths: Vec<usize>,
}

impl Tokenizer {
    /// Reads a `tokenizer.json`.
    ///
    /// # Errors
    /// It is no such file.
    pub fn from_json(json: &[u8]) -> Result<Self> {
        let mut tokenizer = tokenizers::Tokenizer::from_bytes(json)
            .map_err(|error| Error::weights(format!("this is no definition of a tokenizer ({error})")))?;
        tokenizer.with_padding(None);
        tokenizer
            .with_truncation(None)
            .map_err(|error| Error::weights(format!("the tokenizer cannot leave sentences whole ({error})")))?;
        Ok(Tokenizer(tokenizer))
    }

    /// Number of tokens.
    pub fn vocabulary(&self) -> usize {
        self.0.get_vocab_size(true)
    }

    /// The tokens of each sentence. An empty sentence is one of two tokens, the first and the last of every row.
    ///
    /// # Errors
    /// A sentence has more tokens than the encoder has positions, and `too_long` says to refuse it.
    pub fn tokens<S: AsRef<str>>(&self, sentences: &[S], config: &Config, too_long: TooLong) -> Result<Tokens> {
        let room = sentences.len();
        let mut tokens = Tokens { rows: Vec::with_capacity(room), lengths: Vec::with_capacity(room) };
        for (at, sentence) in sentences.iter().enumerate() {
            let encoding = self
                .0
                .encode_fast(sentence.as_ref(), true)
                .map_err(|error| Error::input(format!("sentence {} cannot be tokenized: {error}", at + 1)))?;
            let mut row = encoding.get_ids().to_vec();
            let (length, most) = (row.len(), config.positions);
            if length > most {
                if too_long == TooLong::Refuse {
                    let reason =
                        format!("sentence {} has {length} tokens, more than the {most} of the encoder", at + 1);
                    return Err(Error::input(reason));
                }
                let last = row[length - 1];
                row.truncate(most - 1);
                row.push(last);
            }
            tokens.rows.push(row);
            tokens.lengths.push(length);
        }
        Ok(tokens)
    }

    /// The tokens of each sentence as one batch, ready for an encoder.
    ///
    /// # Errors
    /// As [`tokens`](Self::tokens), and for no sentences at all.
    pub fn batch<S: AsRef<str>>(&self, sentences: &[S], config: &Config, too_long: TooLong) -> Result<Batch> {
        Batch::new(&self.tokens(sentences, config, too_long)?.rows, config)
    }
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tokenizer({} tokens)", self.vocabulary())
    }
}
