//! The left operand: one block of some rows, copied side by side to scratch of the thread.
//!
//! Copied and not read in place: rows a power of two apart would share cache sets, and addressing a tile's rows needs
//! one register when they lie at one distance and a register each when they do not.

use std::cell::Cell;

use bytemuck::Pod;

use super::LONGEST_BLOCK;
use super::movement::{Movement, contiguous, position};
use super::storage::Storage;

/// Elements between the starts of two rows: a block of any device, and some so that rows do not share cache sets.
const STRIDE: usize = LONGEST_BLOCK + 8;

/// A row's block; what follows the steps it was filled with is anything.
pub(super) type ChunkRow<T> = [T; STRIDE];

/// Runs `work` with scratch of this thread for `rows` rows. What they hold is anything.
pub(super) fn with_chunk<T: Pod, R>(rows: usize, work: impl FnOnce(&mut [ChunkRow<T>]) -> R) -> R {
    thread_local! {
        static SCRATCH: Cell<Storage> = const { Cell::new(Storage::EMPTY) };
    }
    let mut storage = SCRATCH.take();
    let result = work(storage.elements_mut::<T>(rows * STRIDE)[..rows * STRIDE].as_chunks_mut().0);
    SCRATCH.set(storage);
    result
}

/// Copies `steps` of the rows at the offsets `free` to `chunk`. `deep` says whether steps are neighbours.
#[inline(always)]
pub(super) fn fill_chunk<S: Pod, T: Pod>(
    movement: impl Movement<S, T>,
    chunk: &mut [ChunkRow<T>],
    elements: &[S],
    free: &[i64],
    steps: &[i64],
    deep: bool,
) {
    if deep {
        for (row, &offset) in chunk.iter_mut().zip(free) {
            movement.copy(row, &elements[position(offset + steps[0])..], steps.len());
        }
    } else if contiguous(free) {
        let step = |k: usize| &elements[position(free[0] + steps[k])..][..free.len()];
        movement.transpose(chunk.as_flattened_mut(), STRIDE, step, steps.len(), free.len());
    } else {
        for (row, &offset) in chunk.iter_mut().zip(free) {
            for (slot, &step) in row.iter_mut().zip(steps) {
                *slot = movement.element(elements[position(offset + step)]);
            }
        }
    }
}
