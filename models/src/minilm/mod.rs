//! all-MiniLM-L6-v2: an encoder of the BERT family that gives sentences embeddings, so that alike sentences have alike
//! ones.
//!
//! A [`Checkpoint`] is what the model's files hold, fetched and checked; its [`Tokenizer`] makes a [`Batch`] of sentences,
//! and [`MiniLm`] the embeddings of a batch, on a device.

mod batch;
mod checkpoint;
mod config;
mod encoder;
mod gradient;
mod parameters;
mod sentences;
mod tokenizer;
mod training;

pub use batch::Batch;
pub use checkpoint::{Checkpoint, PACKAGE, Source};
pub use config::Config;
pub use encoder::{MiniLm, similarity};
pub use gradient::LOGIT_SCALE;
pub use parameters::{Affine, Layer, Parameters, Tables};
pub use sentences::{PUBLISHED, STEPS, Sentences};
pub use tokenizer::{Tokenizer, Tokens, TooLong};
pub use training::Training;
