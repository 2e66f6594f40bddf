//! What a run leaves behind, to the bit.

/// Losses and parameters as they were read back at the end of a run.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// One loss per step.
    pub(crate) losses: Vec<f32>,
    /// Names and elements.
    pub(crate) parameters: Vec<(&'static str, Vec<f32>)>,
}

impl Outcome {
    /// The first place where a bit differs, in words; `None` where none does.
    pub(crate) fn difference(&self, other: &Outcome) -> Option<String> {
        if let Some(place) = first_difference(&self.losses, &other.losses) {
            return Some(format!("loss of step {}", place + 1));
        }
        if self.parameters.len() != other.parameters.len() {
            return Some(String::from("number of parameters"));
        }
        self.parameters.iter().zip(&other.parameters).find_map(|((name, own), (_, others))| {
            first_difference(own, others).map(|place| format!("element {place} of parameter {name}"))
        })
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
        Outcome { losses: losses.to_vec(), parameters: vec![("weight", weights.to_vec())] }
    }

    #[test]
    fn equal_bits_are_no_difference() {
        let one = outcome(&[f32::NAN, 1.0], &[0.0]);
        assert_eq!(one.difference(&one.clone()), None);
    }

    #[test]
    fn the_first_difference_is_named() {
        let one = outcome(&[2.0, 1.0], &[0.5, 0.0]);
        assert_eq!(one.difference(&outcome(&[2.0], &[0.5, 0.0])).as_deref(), Some("loss of step 2"));
        let place = one.difference(&outcome(&[2.0, 1.0], &[0.5, -0.0]));
        assert_eq!(place.as_deref(), Some("element 1 of parameter weight"));
    }
}
