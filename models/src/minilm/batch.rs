//! Rows of tokens, filled up to one length.

use systole::{Device, Tensor};

use super::config::Config;
use crate::error::{Error, Result};

/// What fills up a row. Any token would do: nothing of it reaches the others.
const PADDING: i32 = 0;

/// Rows of token ids of one length, and which of them are tokens of the row.
#[derive(Clone, PartialEq, Debug)]
pub struct Batch {
    ids: Vec<i32>,
    mask: Vec<f32>,
    rows: usize,
    length: usize,
}

impl Batch {
    /// The rows, filled up to the longest.
    ///
    /// # Errors
    /// There are no rows, a row is empty or too long for the encoder, or an id is none of its vocabulary.
    pub fn new<R: AsRef<[u32]>>(rows: &[R], config: &Config) -> Result<Self> {
        let longest = rows.iter().map(|row| row.as_ref().len()).max().unwrap_or(0);
        Batch::of_length(rows, longest, config)
    }

    /// The rows, filled up to `length` tokens.
    ///
    /// # Errors
    /// As [`new`](Self::new), and for a row longer than `length`.
    pub fn of_length<R: AsRef<[u32]>>(rows: &[R], length: usize, config: &Config) -> Result<Self> {
        if rows.is_empty() {
            return Err(Error::input("there is no sentence to encode"));
        }
        if length > config.positions {
            let most = config.positions;
            return Err(Error::input(format!("rows of {length} tokens are longer than the {most} of the encoder")));
        }
        let mut batch = Batch {
            ids: Vec::with_capacity(rows.len() * length),
            mask: Vec::with_capacity(rows.len() * length),
            rows: rows.len(),
            length,
        };
        for (at, row) in rows.iter().map(AsRef::as_ref).enumerate() {
            if row.is_empty() || row.len() > length {
                let tokens = row.len();
                return Err(Error::input(format!("row {} has {tokens} tokens, not 1 to {length}", at + 1)));
            }
            for &id in row {
                if id as usize >= config.vocabulary {
                    let known = config.vocabulary;
                    return Err(Error::input(format!(
                        "token id {id} of row {} is outside the vocabulary of {known}",
                        at + 1
                    )));
                }
            }
            let padding = length - row.len();
            // An id below the vocabulary's size, which is that of a table in memory, fits.
            batch.ids.extend(row.iter().map(|&id| id as i32).chain(std::iter::repeat_n(PADDING, padding)));
            batch.mask.extend(row.iter().map(|_| 1.0).chain(std::iter::repeat_n(0.0, padding)));
        }
        Ok(batch)
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Tokens of a row, those that fill it up included.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Token ids, i32 [rows, length], and the mask, f32 [rows, length]: 1 where a token is, 0 where none is.
    ///
    /// # Errors
    /// The device is out of memory.
    pub fn upload(&self, device: &Device) -> systole::Result<(Tensor, Tensor)> {
        let shape = [self.rows, self.length];
        Ok((Tensor::from_slice(device, &self.ids, shape)?, Tensor::from_slice(device, &self.mask, shape)?))
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    const SMALL: Config = Config { vocabulary: 10, positions: 4, ..Config::MINILM_L6 };

    fn check(rows: &[&[u32]], expected: &Expect) {
        let error = Batch::new(rows, &SMALL).unwrap_err();
        assert!(error.is_input_error());
        expected.assert_eq(&error.to_string());
    }

    #[test]
    fn rows_are_filled_up_to_the_longest() {
        let batch = Batch::new(&[vec![1, 2], vec![3, 4, 5]], &SMALL).unwrap();
        assert_eq!((batch.rows(), batch.length()), (2, 3));
        assert_eq!(batch.ids, [1, 2, 0, 3, 4, 5]);
        assert_eq!(batch.mask, [1.0, 1.0, 0.0, 1.0, 1.0, 1.0]);
    }

    #[test]
    fn what_the_encoder_cannot_take_is_named() {
        check(&[], &expect!["there is no sentence to encode"]);
        check(&[&[1], &[]], &expect!["row 2 has 0 tokens, not 1 to 1"]);
        check(&[&[1, 2], &[3, 10]], &expect!["token id 10 of row 2 is outside the vocabulary of 10"]);
        check(&[&[1; 5]], &expect!["rows of 5 tokens are longer than the 4 of the encoder"]);
    }
}
