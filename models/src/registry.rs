//! The models by name.

use std::fmt;

use systole::{Device, Result, Tensor};

use crate::digits;

/// A model that can be run by name.
pub struct Model {
    /// Name, e.g. `digits`.
    pub name: &'static str,
    /// What it is, in one line for people.
    pub summary: &'static str,
    /// Steps of a full run.
    pub steps: usize,
    /// What [`Workload::step`] gives, e.g. `loss`.
    pub result: &'static str,
    start: fn(&Device) -> Result<Box<dyn Workload>>,
}

/// A model at work on a device.
pub trait Workload {
    /// Records one step and submits it. The result is a scalar that may still be on its way; nothing is read back.
    ///
    /// # Errors
    /// An op was refused when it was recorded.
    fn step(&mut self) -> Result<Tensor>;

    /// All that the steps so far have made of the model, by name.
    fn parameters(&self) -> Vec<(&'static str, &Tensor)>;
}

/// Every model.
pub static ALL: [Model; 1] = [Model {
    name: "digits",
    summary: "an MLP 64-64-10 learns handwritten digits by Adam",
    steps: digits::STEPS,
    result: "loss",
    start: |device| Ok(Box::new(digits::Training::new(device)?)),
}];

/// The model of that name.
///
/// # Errors
/// There is none; the error lists those there are.
pub fn find(name: &str) -> Result<&'static Model, UnknownModel> {
    ALL.iter().find(|model| model.name == name).ok_or_else(|| UnknownModel { name: name.to_owned() })
}

impl Model {
    /// Puts a fresh copy of the model on `device`.
    ///
    /// # Errors
    /// The device is out of memory.
    pub fn start(&self, device: &Device) -> Result<Box<dyn Workload>> {
        (self.start)(device)
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
        expect!["unknown model `digit` (known: digits)"].assert_eq(&find("digit").unwrap_err().to_string());
    }
}
