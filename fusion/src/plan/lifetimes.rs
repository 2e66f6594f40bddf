//! When values die, and what that means in bytes.
//!
//! A slot is a handle: it is dead once no step reads it, and dropped then. Slots that are aliases share a storage, and
//! that lives as long as the last of them. An argument is marked as a
//! last use only where its storage is read under no other name in the same launch: otherwise overwriting it would be
//! seen through the other.

use std::cmp::Reverse;

use systole_kernels::program::BufferType;

use super::{Plan, Slot, Step};

/// Sets every `last_use` and `dead`.
pub(super) fn mark(plan: &mut Plan) {
    let last_of_storage = last_steps(plan, |slot| plan.storages[slot.index()]);
    let last_of_slot = last_steps(plan, |slot| slot);
    let mut dying: Vec<Vec<Slot>> = vec![Vec::new(); plan.steps.len()];
    for (slot, last) in (0..).map(Slot).zip(last_of_slot) {
        if let Some(step) = last {
            dying[step].push(slot);
        }
    }
    let Plan { storages, donatable, steps, .. } = plan;
    let storage_of = |slot: Slot| storages[slot.index()];
    for (index, (step, dying)) in steps.iter_mut().zip(dying).enumerate() {
        match step {
            Step::Alias { dead, .. } => *dead = dying,
            Step::Launch(launch) => {
                let all: Vec<Slot> = launch.inputs.iter().map(|input| storage_of(input.slot)).collect();
                for input in &mut launch.inputs {
                    let storage = storage_of(input.slot);
                    let ours = donatable.get(storage.index()).copied().unwrap_or(true);
                    let alone = all.iter().filter(|&&other| other == storage).count() == 1;
                    input.last_use = last_of_storage[storage.index()] == Some(index) && ours && alone;
                }
                launch.dead = dying;
            }
        }
    }
}

/// By index of what `of` gives for a slot: the last step that reads or makes it; `None` for outputs and what no step
/// touches.
fn last_steps(plan: &Plan, of: impl Fn(Slot) -> Slot) -> Vec<Option<usize>> {
    let mut last: Vec<Option<usize>> = vec![None; plan.types.len()];
    for (index, step) in plan.steps.iter().enumerate() {
        for slot in reads(step).chain(writes(step)) {
            last[of(slot).index()] = Some(index);
        }
    }
    for &output in &plan.outputs {
        last[of(output).index()] = None;
    }
    last
}

/// As [`Plan::peak_bytes`].
pub(super) fn peak_bytes(plan: &Plan, params: &[i64]) -> u64 {
    let size = |slot: Slot| bytes(plan.ty(slot), params);
    let mut freed = vec![0; plan.steps.len()];
    for (storage, last) in (0..).map(Slot).zip(last_steps(plan, |slot| plan.storages[slot.index()])) {
        // A storage that is an alias's other name has no last step of its own.
        if let Some(step) = last
            && plan.donatable.get(storage.index()) != Some(&false)
        {
            freed[step] += size(storage);
        }
    }
    let mut live: u64 = (0..plan.donatable.len() as u32).map(|input| size(Slot(input))).sum();
    let mut peak = live;
    for (step, freed) in plan.steps.iter().zip(freed) {
        if let Step::Launch(launch) = step {
            live += launch.outputs.iter().map(|&output| size(output)).sum::<u64>();
            peak = peak.max(live);
        }
        live -= freed;
    }
    peak
}

/// As [`Plan::bytes_moved`].
pub(super) fn bytes_moved(plan: &Plan, params: &[i64]) -> u64 {
    let mut moved = 0;
    for launch in plan.launches() {
        let mut read: Vec<(Slot, u64)> = launch
            .inputs
            .iter()
            .zip(&launch.reads)
            .map(|(input, part)| {
                let whole = bytes(plan.ty(input.slot), params);
                (plan.storages[input.slot.index()], whole.min(bytes(part, params)))
            })
            .collect();
        // Of a storage with several names the largest part.
        read.sort_unstable_by_key(|&(storage, bytes)| (storage, Reverse(bytes)));
        read.dedup_by_key(|(storage, _)| *storage);
        moved += read.iter().map(|(_, bytes)| bytes).sum::<u64>();
        moved += launch.outputs.iter().map(|&slot| bytes(plan.ty(slot), params)).sum::<u64>();
    }
    moved
}

fn bytes(ty: &BufferType, params: &[i64]) -> u64 {
    let extents = ty.shape.iter().map(|extent| extent.resolve(params).unsigned_abs());
    extents.fold(ty.dtype.size() as u64, u64::saturating_mul)
}

fn reads(step: &Step) -> impl Iterator<Item = Slot> + '_ {
    let (alias, inputs) = match step {
        Step::Alias { from, .. } => (Some(*from), [].as_slice()),
        Step::Launch(launch) => (None, launch.inputs.as_slice()),
    };
    alias.into_iter().chain(inputs.iter().map(|input| input.slot))
}

fn writes(step: &Step) -> impl Iterator<Item = Slot> + '_ {
    let (alias, outputs) = match step {
        Step::Alias { to, .. } => (Some(*to), [].as_slice()),
        Step::Launch(launch) => (None, launch.outputs.as_slice()),
    };
    alias.into_iter().chain(outputs.iter().copied())
}
