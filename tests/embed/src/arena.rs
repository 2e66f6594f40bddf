//! The front end's own memory.

use std::ops::Range;
use std::sync::Arc;

/// Floats that belong to the front end; arrays are parts of it.
#[derive(Clone, Debug)]
pub struct Arena(Arc<Vec<f32>>);

impl Arena {
    /// Takes the floats over.
    pub fn new(floats: Vec<f32>) -> Self {
        Arena(Arc::new(floats))
    }

    /// A part that a device may read for as long as it likes.
    ///
    /// # Panics
    /// The arena has no such part.
    pub fn part(&self, range: Range<usize>) -> Floats {
        assert!(range.start <= range.end && range.end <= self.0.len(), "the arena has {} floats", self.0.len());
        Floats { arena: self.0.clone(), range }
    }

    /// How many parts are in use.
    pub fn users(&self) -> usize {
        Arc::strong_count(&self.0) - 1
    }

    /// The floats.
    pub fn floats(&self) -> &[f32] {
        &self.0
    }
}

/// A part of an arena, which it keeps alive.
#[derive(Clone, Debug)]
pub struct Floats {
    arena: Arc<Vec<f32>>,
    range: Range<usize>,
}

impl AsRef<[u8]> for Floats {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.arena[self.range.clone()])
    }
}
