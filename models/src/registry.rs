//! The models by name, and how a program runs one: prepared once, started on each device, then stepped.
//!
//! What a model takes from its user and what its steps give are declared with it, so that a program can refuse, explain
//! and show them without knowing the model.

use std::borrow::Cow;
use std::fmt;

use systole::{Device, Tensor};

use crate::error::{Error, Result};
use crate::minilm::Source;
use crate::package::{OnProgress, Package};
use crate::{digits, minilm};

/// A model that can be run by name.
pub struct Model {
    /// Name, e.g. `digits`.
    pub name: &'static str,
    /// What it is, in one line for people.
    pub summary: &'static str,
    /// Steps of a full run.
    pub steps: usize,
    /// What a step gives.
    pub gives: Gives,
    /// Texts that it runs on where the user gives none; a model without any takes no text.
    pub texts: &'static [&'static str],
    /// The package of its weights; a model without one takes none.
    pub package: Option<&'static Package>,
    prepare: fn(&Input, OnProgress<'_>) -> Result<Box<dyn Prepared>>,
}

/// What each step of a model gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gives {
    /// A scalar loss, of a training.
    Loss,
    /// The embeddings of the texts, a row each, and the product of each with each.
    Embeddings,
}

impl Gives {
    /// Names of a step's results, in the order of [`Workload::step`].
    pub fn names(self) -> &'static [&'static str] {
        match self {
            Gives::Loss => &["loss"],
            Gives::Embeddings => &["embeddings", "similarity"],
        }
    }
}

/// What a user hands to a model.
#[derive(Clone, Debug)]
pub struct Input {
    /// Texts, for a model that takes them.
    pub texts: Vec<String>,
    /// Where weights come from, for a model that has a package of them.
    pub weights: Option<Source>,
}

/// A model with everything read that it needs, for any number of devices.
pub trait Prepared {
    /// Puts a fresh copy of the model on `device`.
    ///
    /// # Errors
    /// The device is out of memory.
    fn start(&self, device: &Device) -> systole::Result<Box<dyn Workload>>;

    /// The texts that it runs on.
    fn texts(&self) -> &[Text];
}

/// A text that a model runs on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Text {
    /// As the user gave it.
    pub text: String,
    /// Tokens that it has.
    pub tokens: usize,
    /// Tokens that the model takes of it; fewer where it is too long.
    pub taken: usize,
}

/// A model at work on a device.
pub trait Workload {
    /// Records one step and submits it. The results, [`Gives`] of the model, may still be on their way; nothing is read
    /// back.
    ///
    /// # Errors
    /// An op was refused when it was recorded.
    fn step(&mut self) -> systole::Result<Vec<Tensor>>;

    /// All that the steps so far have made of the model, by name.
    fn parameters(&self) -> Vec<(Cow<'static, str>, &Tensor)>;
}

/// Every model.
pub static ALL: [Model; 2] = [
    Model {
        name: "digits",
        summary: "an MLP 64-64-10 learns handwritten digits by Adam",
        steps: digits::STEPS,
        gives: Gives::Loss,
        texts: &[],
        package: None,
        prepare: |_, _| Ok(Box::new(digits::Untrained)),
    },
    Model {
        name: "minilm",
        summary: "all-MiniLM-L6-v2 tells how alike sentences are",
        steps: minilm::STEPS,
        gives: Gives::Embeddings,
        texts: &minilm::PUBLISHED,
        package: Some(&minilm::PACKAGE),
        prepare: |input, progress| Ok(Box::new(minilm::Sentences::prepare(input, progress)?)),
    },
];

/// The model of that name.
///
/// # Errors
/// There is none; the error lists those there are.
pub fn find(name: &str) -> Result<&'static Model, UnknownModel> {
    ALL.iter().find(|model| model.name == name).ok_or_else(|| UnknownModel { name: name.to_owned() })
}

impl Model {
    /// Reads what the model needs; weights that are nowhere yet are fetched, and `progress` is told.
    ///
    /// # Errors
    /// Texts for a model that takes none; weights that cannot be had or are others; texts that the model cannot take.
    pub fn prepare(&self, input: &Input, progress: OnProgress<'_>) -> Result<Box<dyn Prepared>> {
        if self.texts.is_empty() && !input.texts.is_empty() {
            return Err(Error::input(format!("{} takes no texts", self.name)));
        }
        (self.prepare)(input, progress)
    }
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Model({})", self.name)
    }
}

/// No model has this name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownModel {
    name: String,
}

impl UnknownModel {
    /// The name that was asked for.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for UnknownModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known: Vec<_> = ALL.iter().map(|model| model.name).collect();
        write!(f, "unknown model `{}` (known: {})", self.name, known.join(", "))
    }
}

impl std::error::Error for UnknownModel {}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn names_find_their_models() {
        for model in &ALL {
            assert_eq!(find(model.name).unwrap().name, model.name);
        }
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        expect!["unknown model `digit` (known: digits, minilm)"].assert_eq(&find("digit").unwrap_err().to_string());
    }

    #[test]
    fn texts_for_a_model_that_takes_none_are_refused() {
        let input = Input { texts: vec![String::from("hello")], weights: None };
        let error = ALL[0].prepare(&input, &mut |_| {}).err().unwrap();
        assert!(error.is_input_error());
        assert_eq!(error.to_string(), "digits takes no texts");
    }
}
