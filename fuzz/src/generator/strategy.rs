//! The generator as a proptest strategy.
//!
//! What shrinks is the number of ops: a prefix of a program is a program. The seed does not, since a smaller seed is no
//! simpler one. [`minimize`](crate::minimize) cuts further, without proptest.

use proptest::prelude::*;

use super::generate;
use crate::program::Program;

/// Programs from all seeds, cut off after any number of ops.
pub fn programs() -> impl Strategy<Value = Program> {
    (any::<u64>().no_shrink(), 1usize..=64).prop_map(|(seed, ops)| generate(seed).truncated(ops))
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

        #[test]
        fn what_the_strategy_makes_is_well_typed(program in programs()) {
            prop_assert!(program.ops() <= 64);
            prop_assert!(program.straighten().is_ok(), "{:?}", program.straighten().err());
        }
    }
}
