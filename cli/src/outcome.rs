//! What a run leaves behind, to the bit.

use std::borrow::Cow;

use systole_models::Gives;

/// Results and parameters as they were read back at the end of a run.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// What each step gave.
    pub(crate) gives: Gives,
    /// The elements of each step's results.
    pub(crate) steps: Vec<Vec<Vec<f32>>>,
    /// Names and elements.
    pub(crate) parameters: Vec<(Cow<'static, str>, Vec<f32>)>,
}

impl Outcome {
    /// The first place where a bit differs, in words; `None` where none does.
    pub(crate) fn difference(&self, other: &Outcome) -> Option<String> {
        if self.steps.len() != other.steps.len() {
            return Some(String::from("number of steps"));
        }
        for (step, (own, others)) in self.steps.iter().zip(&other.steps).enumerate() {
            for ((name, own), others) in self.gives.names().iter().zip(own).zip(others) {
                if let Some(place) = first_difference(own, others) {
                    let element = if own.len() > 1 { format!("element {place} of ") } else { String::new() };
                    return Some(format!("{element}{name} of step {}", step + 1));
                }
            }
        }
        if self.parameters.len() != other.parameters.len() {
            return Some(String::from("number of parameters"));
        }
        self.parameters.iter().zip(&other.parameters).find_map(|((name, own), (_, others))| {
            first_difference(own, others).map(|place| format!("element {place} of parameter {name}"))
        })
    }

    /// The largest difference of each result from `reference`'s, over all steps, by name; NaN where one is NaN.
    pub(crate) fn deviations(&self, reference: &Outcome) -> Vec<(&'static str, f32)> {
        let of = |result: usize| {
            let own = self.steps.iter().flat_map(|results| &results[result]);
            let others = reference.steps.iter().flat_map(|results| &results[result]);
            let differences = own.zip(others).map(|(own, other)| (own - other).abs());
            differences.fold(
                0.0,
                |most, difference: f32| if difference > most || difference.is_nan() { difference } else { most },
            )
        };
        self.gives.names().iter().enumerate().map(|(result, name)| (*name, of(result))).collect()
    }

    /// The loss of each step, of a training.
    pub(crate) fn losses(&self) -> Vec<f32> {
        self.steps.iter().flatten().flatten().copied().collect()
    }

    /// A result of the last step, by its name.
    pub(crate) fn last(&self, name: &str) -> &[f32] {
        let at = self.gives.names().iter().position(|known| *known == name);
        let last = self.steps.last().expect("a run has at least one step");
        &last[at.expect("results are asked for by their names")]
    }

    /// Elements of all results.
    pub(crate) fn result_elements(&self) -> usize {
        self.steps.iter().flatten().map(Vec::len).sum()
    }

    /// Elements of all parameters.
    pub(crate) fn parameter_elements(&self) -> usize {
        self.parameters.iter().map(|(_, elements)| elements.len()).sum()
    }
}

/// Compares bits, so that NaN equals itself and −0 differs from +0; a missing element differs from any.
fn first_difference(own: &[f32], others: &[f32]) -> Option<usize> {
    let bits = |elements: &[f32], at: usize| elements.get(at).copied().map(f32::to_bits);
    (0..own.len().max(others.len())).find(|&at| bits(own, at) != bits(others, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(losses: &[f32], weights: &[f32]) -> Outcome {
        Outcome {
            gives: Gives::Loss,
            steps: losses.iter().map(|&loss| vec![vec![loss]]).collect(),
            parameters: vec![(Cow::Borrowed("weight"), weights.to_vec())],
        }
    }

    #[test]
    fn equal_bits_are_no_difference() {
        let one = outcome(&[f32::NAN, 1.0], &[0.0]);
        assert_eq!(one.difference(&one.clone()), None);
    }

    #[test]
    fn the_first_difference_is_named() {
        let one = outcome(&[2.0, 1.0], &[0.5, 0.0]);
        assert_eq!(one.difference(&outcome(&[2.0], &[0.5, 0.0])).as_deref(), Some("number of steps"));
        assert_eq!(one.difference(&outcome(&[2.0, 3.0], &[0.5, 0.0])).as_deref(), Some("loss of step 2"));
        let place = one.difference(&outcome(&[2.0, 1.0], &[0.5, -0.0]));
        assert_eq!(place.as_deref(), Some("element 1 of parameter weight"));
    }

    #[test]
    fn the_largest_deviation_is_told_of_each_result() {
        let deviations = outcome(&[1.0, 2.0, 3.0], &[]).deviations(&outcome(&[1.0, 2.5, 3.25], &[]));
        assert_eq!(deviations, [("loss", 0.5)]);
        assert!(outcome(&[f32::NAN, 1.0], &[]).deviations(&outcome(&[1.0, 1.0], &[]))[0].1.is_nan());
    }

    #[test]
    fn an_element_of_a_larger_result_is_named() {
        let embeddings = |elements: &[f32]| Outcome {
            gives: Gives::Embeddings,
            steps: vec![vec![elements.to_vec(), vec![1.0]]],
            parameters: Vec::new(),
        };
        let place = embeddings(&[1.0, 2.0]).difference(&embeddings(&[1.0, 3.0]));
        assert_eq!(place.as_deref(), Some("element 1 of embeddings of step 1"));
    }
}
