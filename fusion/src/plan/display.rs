//! Plans in words: one step per line.

use std::fmt;

use super::{Plan, Slot, Step};
use crate::canonical::describe;

/// One line per step: `%4 f32[p0, p1] = add+exponential(%0, %1!)`, where `!` marks a last use; then the outputs.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let result = |slot: Slot| format!("%{} {}", slot.0, describe(self.ty(slot)));
        let list = |items: Vec<String>| items.join(", ");
        for step in self.steps() {
            match step {
                Step::Alias { from, to, .. } => writeln!(f, "{} = alias %{}", result(*to), from.0)?,
                Step::Launch(launch) => {
                    let outputs = launch.outputs.iter().map(|&slot| result(slot)).collect();
                    let inputs = launch.inputs.iter();
                    let inputs = inputs
                        .map(|input| format!("%{}{}", input.slot.0, if input.last_use { "!" } else { "" }))
                        .collect();
                    writeln!(f, "{} = {}({})", list(outputs), launch.name, list(inputs))?;
                }
            }
        }
        write!(f, "return {}", list(self.outputs.iter().map(|slot| format!("%{}", slot.0)).collect()))
    }
}
