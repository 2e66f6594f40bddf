//! When values die, and what that means in bytes.
//!
//! Slots that are aliases share a storage, and a storage lives as long as the last of them. An argument is marked as a
//! last use only where its storage is read under no other name in the same launch: otherwise overwriting it would be
//! seen through the other.

use super::{Plan, Slot, Step};

/// Sets every `last_use` and `dead`.
pub(super) fn mark(plan: &mut Plan) {
    let mut last: Vec<Option<usize>> = vec![None; plan.types.len()];
    for (index, step) in plan.steps.iter().enumerate() {
        for slot in reads(step).chain(writes(step)) {
            last[plan.storages[slot.index()].index()] = Some(index);
        }
    }
    for &output in &plan.outputs {
        last[plan.storages[output.index()].index()] = None;
    }
    let mut dying: Vec<Vec<Slot>> = vec![Vec::new(); plan.steps.len()];
    for (slot, &storage) in (0..).map(Slot).zip(&plan.storages) {
        if let Some(step) = last[storage.index()] {
            dying[step].push(slot);
        }
    }
    let Plan { storages, donatable, steps, .. } = plan;
    let storage_of = |slot: Slot| storages[slot.index()];
    for (index, (step, dying)) in steps.iter_mut().zip(dying).enumerate() {
        match step {
            Step::Alias { dead, .. } => *dead = dying,
            Step::Launch(launch) => {
                let all: Vec<Slot> =
                    launch.inputs.iter().map(|input| storage_of(input.slot)).collect();
                for input in &mut launch.inputs {
                    let storage = storage_of(input.slot);
                    let ours = donatable.get(storage.index()).copied().unwrap_or(true);
                    let alone = all.iter().filter(|&&other| other == storage).count() == 1;
                    input.last_use = last[storage.index()] == Some(index) && ours && alone;
                }
                launch.dead = dying;
            }
        }
    }
}

/// As [`Plan::peak_bytes`].
pub(super) fn peak_bytes(plan: &Plan, params: &[i64]) -> u64 {
    let is_storage = |slot: &Slot| plan.storages[slot.index()] == *slot;
    let mut live: u64 =
        (0..plan.donatable.len() as u32).map(|input| bytes(plan, Slot(input), params)).sum();
    let mut peak = live;
    for step in &plan.steps {
        let dead = match step {
            Step::Alias { dead, .. } => dead,
            Step::Launch(launch) => {
                live +=
                    launch.outputs.iter().map(|&output| bytes(plan, output, params)).sum::<u64>();
                peak = peak.max(live);
                &launch.dead
            }
        };
        let freed = dead
            .iter()
            .filter(|slot| is_storage(slot) && plan.donatable.get(slot.index()) != Some(&false));
        live -= freed.map(|&slot| bytes(plan, slot, params)).sum::<u64>();
    }
    peak
}

/// As [`Plan::bytes_moved`].
pub(super) fn bytes_moved(plan: &Plan, params: &[i64]) -> u64 {
    let mut moved = 0;
    for launch in plan.launches() {
        let mut read: Vec<Slot> =
            launch.inputs.iter().map(|input| plan.storages[input.slot.index()]).collect();
        read.sort_unstable();
        read.dedup();
        moved +=
            read.iter().chain(&launch.outputs).map(|&slot| bytes(plan, slot, params)).sum::<u64>();
    }
    moved
}

fn bytes(plan: &Plan, slot: Slot, params: &[i64]) -> u64 {
    let ty = plan.ty(slot);
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
    let outputs = match step {
        Step::Alias { .. } => [].as_slice(),
        Step::Launch(launch) => launch.outputs.as_slice(),
    };
    outputs.iter().copied()
}
