//! Plans compute what traces say, bit for bit: fused and not, with and without donation.

mod programs;
mod traces;

use programs::{by_definition, run};
use systole_fusion::ir::Trace;
use systole_fusion::reference::interpret;
use traces::random;

fn check(seed: u64, trace: &Trace) {
    let inputs = random::inputs(seed, trace);
    let wanted = interpret(trace, &inputs).expect("the reference runs every trace");
    for (fuse, donatable) in [(true, true), (false, false)] {
        let found = run(trace, &inputs, donatable, fuse, by_definition);
        assert_eq!(found, wanted, "seed {seed}, fuse {fuse}\n{}", systole_fusion::text::print(trace));
    }
}

#[test]
fn random_traces_give_the_reference_bits() {
    for seed in 0..400 {
        check(seed, &random::trace(seed, 4 + (seed as usize) % 20));
    }
}
