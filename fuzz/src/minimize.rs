//! Cutting a failing program down to what fails.
//!
//! Greedy: steps are taken out, in ever smaller runs, with whatever depends on them; ops are replaced by uploads of what
//! they computed; and uploads get plainer data, as long as the program still fails. The result is not minimal, only small.

use std::collections::{HashMap, HashSet};

use systole_fusion::reference::HostTensor;
use systole_kernels::Scalar;

use crate::program::{Handle, Program, Step};

/// The smallest program found that `fails`, which `program` does. `values` gives what each handle of a program holds; it
/// is asked once.
pub fn minimize(
    program: &Program,
    values: impl FnOnce(&Program) -> Option<HashMap<Handle, HostTensor>>,
    mut fails: impl FnMut(&Program) -> bool,
) -> Program {
    let mut best = program.clone();
    let values = values(program).unwrap_or_default();
    loop {
        let before = best.steps.len() + best.ops();
        let mut run = best.steps.len().div_ceil(2);
        while run > 0 {
            let mut at = best.steps.len();
            while at > 0 {
                let start = at.saturating_sub(run);
                let candidate = without(&best, start, at.min(best.steps.len()));
                if candidate.steps.len() < best.steps.len() && fails(&candidate) {
                    best = candidate;
                }
                at = start.min(best.steps.len());
            }
            run /= 2;
        }
        for at in 0..best.steps.len() {
            if let Step::Record { result, .. } = best.steps[at]
                && let Some(data) = values.get(&result)
            {
                let mut candidate = best.clone();
                candidate.steps[at] = Step::Upload { result, data: data.clone() };
                if fails(&candidate) {
                    best = candidate;
                }
            }
        }
        for at in 0..best.steps.len() {
            for data in plainer(&best.steps[at]) {
                let mut candidate = best.clone();
                if let Step::Upload { data: kept, .. } = &mut candidate.steps[at] {
                    *kept = data;
                }
                if fails(&candidate) {
                    best = candidate;
                    break;
                }
            }
        }
        if best.steps.len() + best.ops() == before {
            best.name = format!("{}, cut down", program.name);
            return best;
        }
    }
}

/// Plainer data for an upload, the plainest first: zeros, ones, the elements' own numbers.
fn plainer(step: &Step) -> Vec<HostTensor> {
    let Step::Upload { data, .. } = step else { return Vec::new() };
    let HostTensor { ty, .. } = data;
    let filled = |element: &dyn Fn(usize) -> f64| {
        let size = ty.dtype.size();
        let bytes = (0..ty.shape.elements())
            .flat_map(|at| Scalar::from_f64(ty.dtype, element(at)).to_le_bytes().into_iter().take(size));
        HostTensor { ty: ty.clone(), bytes: bytes.collect() }
    };
    let plain = [filled(&|_| 0.0), filled(&|_| 1.0), filled(&|at| at as f64)];
    // Only what is plainer than what is there, so that this ends.
    let kept = plain.iter().position(|plain| plain == data).unwrap_or(plain.len());
    plain.into_iter().take(kept).collect()
}

/// The program without steps `start..end` and all that depends on them.
fn without(program: &Program, start: usize, end: usize) -> Program {
    let mut gone = HashSet::new();
    let mut steps = Vec::with_capacity(program.steps.len());
    for (at, step) in program.steps.iter().enumerate() {
        if (start..end).contains(&at) || step.uses().iter().any(|handle| gone.contains(handle)) {
            gone.extend(step.result());
        } else {
            steps.push(step.clone());
        }
    }
    Program { name: program.name.clone(), steps }
}

#[cfg(test)]
mod tests {
    use systole_fusion::ir::Opcode;

    use super::*;
    use crate::generate;

    #[test]
    fn what_fails_is_found() {
        let uses = |program: &Program, op: Opcode| {
            program.steps.iter().any(|step| matches!(step, Step::Record { op: found, .. } if *found == op))
        };
        let mut cut = 0;
        for seed in 0..200 {
            let program = generate(seed);
            if !uses(&program, Opcode::Reduce) {
                continue;
            }
            cut += 1;
            let small = minimize(&program, |_| None, |candidate| uses(candidate, Opcode::Reduce));
            small.straighten().expect("what is left is a program");
            assert!(uses(&small, Opcode::Reduce));
            let needed = small.steps.iter().filter(|step| step.result().is_some()).count();
            assert!(needed == small.steps.len(), "{small:?}");
        }
        assert!(cut > 50);
    }
}
