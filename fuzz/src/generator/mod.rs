//! Programs from seeds.
//!
//! A program is made of *sentences*. Half are one op of the table, each opcode as likely as any other, on operands that
//! are looked for among the live tensors or made to fit. Half are idioms, the shapes that fusion is about: softmax,
//! layer norm, dot with bias and activation, siblings, masks, optimiser steps. Between them handles are cloned and
//! dropped, tensors read, streams flushed and changed. Extents come from a small palette per program, so that equal
//! ones meet by accident, and one program in a few dozen has some that cross the bounds of tiles, lanes and blocks.
//!
//! Programs are well-typed and use live handles only, by construction; everything is recorded through the builder, which
//! asks inference. They stay small (a few dozen ops, a few thousand elements): what a bug needs is variety, and a
//! small program is checked in a millisecond.

mod builder;
mod data;
mod idioms;
mod ops;
pub mod random;
pub mod strategy;
mod variant;

use builder::Builder;
use random::Random;

use crate::program::Program;

/// The program of that seed.
pub fn generate(seed: u64) -> Program {
    let mut random = Random::new(seed);
    let ops = match random.below(10) {
        0..2 => 1 + random.below(5),
        2..8 => 5 + random.below(16),
        _ => 20 + random.below(21),
    };
    let mut builder = Builder::new(random);
    // A sentence may find no room for its op; a program has a few ops less then.
    for _ in 0..3 * ops {
        if builder.ops() >= ops {
            break;
        }
        builder.begin_sentence();
        let said = if builder.random.chance(45) { idioms::say(&mut builder) } else { ops::say(&mut builder) };
        builder.end_sentence(said);
    }
    Program { name: format!("seed {seed}"), steps: builder.finish() }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use systole_fusion::ir::Opcode;
    use systole_kernels::DType;

    use super::*;
    use crate::program::Step;

    #[test]
    fn programs_are_well_typed_and_the_same_again() {
        for seed in 0..2000 {
            let program = generate(seed);
            if let Err(error) = program.straighten() {
                panic!("{}: {error}", program.name);
            }
            assert_eq!(program, generate(seed));
            let variant = program.variant(seed);
            if let Some(variant) = variant
                && let Err(error) = variant.straighten()
            {
                panic!("{}: {error}", variant.name);
            }
        }
    }

    #[test]
    fn every_prefix_is_a_program() {
        for seed in 0..50 {
            let program = generate(seed);
            for ops in 0..=program.ops() {
                let prefix = program.truncated(ops);
                assert_eq!(prefix.ops(), ops);
                prefix.straighten().unwrap_or_else(|error| panic!("{}: {error}", prefix.name));
            }
        }
    }

    #[test]
    fn the_whole_language_is_spoken() {
        let mut ops = HashMap::<Opcode, usize>::new();
        let mut result_dtypes = HashMap::<DType, usize>::new();
        let mut ranks = HashMap::<usize, usize>::new();
        let mut steps = HashMap::<&str, usize>::new();
        let (mut empty, mut ones, mut large, mut variants) = (0, 0, 0, 0);
        let mut types = HashSet::new();
        for seed in 0..1000 {
            let program = generate(seed);
            let straight = program.straighten().expect("well-typed");
            for value in straight.trace.values() {
                *result_dtypes.entry(value.ty.dtype).or_default() += 1;
                *ranks.entry(value.ty.rank()).or_default() += 1;
                empty += usize::from(value.ty.shape.contains(&0));
                ones += usize::from(value.ty.shape.contains(&1));
                large += usize::from(value.ty.shape.iter().any(|&extent| extent > 1024));
                types.insert(value.ty.clone());
            }
            variants += usize::from(program.variant(seed).is_some());
            for step in &program.steps {
                let name = match step {
                    Step::Record { op, .. } => {
                        *ops.entry(*op).or_default() += 1;
                        "record"
                    }
                    Step::Upload { .. } => "upload",
                    Step::Clone { .. } => "clone",
                    Step::Drop { elsewhere: false, .. } => "drop",
                    Step::Drop { elsewhere: true, .. } => "drop elsewhere",
                    Step::Read(_) => "read",
                    Step::Flush => "flush",
                    Step::Synchronize => "synchronize",
                    Step::Enter(_) => "enter",
                };
                *steps.entry(name).or_default() += 1;
            }
        }
        for &op in Opcode::ALL {
            assert!(ops.get(&op).is_some_and(|&n| n >= 40), "{op}: {:?} of 1000 programs' ops", ops.get(&op));
        }
        assert!(DType::ALL.iter().all(|dtype| result_dtypes[dtype] > 200), "{result_dtypes:?}");
        assert!((0..=4).all(|rank| ranks[&rank] > 200), "{ranks:?}");
        assert!(steps.len() == 9 && steps.values().all(|&n| n > 50), "{steps:?}");
        assert!(empty > 200 && ones > 1000 && large > 50, "{empty} empty, {ones} with ones, {large} large");
        assert!(types.len() > 1000, "{} types", types.len());
        assert!(variants > 300, "{variants} of 1000 programs can be resized");
    }
}
