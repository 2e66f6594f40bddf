//! Plans compute what traces say, bit for bit: fused and not, with and without donation.

mod programs;
mod traces;

use programs::{Runner, by_definition, on_machine, run};
use systole_fusion::ir::Trace;
use systole_fusion::reference::interpret;
use traces::digits::digits_step;
use traces::random;

fn check(seed: u64, trace: &Trace) {
    let inputs = random::inputs(seed, trace);
    let wanted = interpret(trace, &inputs).expect("the reference runs every trace");
    for (fuse, donatable, runner) in [
        (true, true, by_definition as Runner),
        (false, false, by_definition),
        (true, true, on_machine),
        (false, true, on_machine),
    ] {
        let found = run(trace, &inputs, donatable, fuse, runner);
        assert_eq!(found, wanted, "seed {seed}, fuse {fuse}\n{}", systole_fusion::text::print(trace));
    }
}

#[test]
fn random_traces_give_the_reference_bits() {
    for seed in 0..1000 {
        check(seed, &random::trace(seed, 4 + (seed as usize) % 40));
    }
}

#[test]
fn a_training_step_gives_the_reference_bits() {
    for (seed, [batch, inputs, hidden, classes]) in [(1, [3, 4, 5, 2]), (2, [4, 4, 4, 4]), (3, [1, 7, 3, 1])] {
        check(seed, &digits_step(batch, inputs, hidden, classes));
    }
}
