//! Buffers: the caller's handle and the storage behind it.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use systole_kernels::TensorType;
use systole_kernels::memory::Block;

use super::event::SimEvent;
use super::memory::Memory;
use crate::device::{Buffer, DeviceId, EventRef, HostBytes};

/// What the caller holds. Its life is what the ledger counts.
pub(super) struct SimBuffer {
    device: DeviceId,
    ty: TensorType,
    storage: Arc<Storage>,
    donated: AtomicBool,
}

/// What a storage holds.
pub(super) enum Contents {
    /// A block of the device's own, which a launch may take over.
    Block(Block),
    /// The host's memory, which is only read (H13).
    Host(HostBytes),
}

/// The contents, held by the handle and by the commands that read or write it; whoever is last returns it to the cache.
pub(super) struct Storage {
    bytes: usize,
    contents: OnceLock<Contents>,
    event: Arc<SimEvent>,
    memory: Arc<Memory>,
}

impl SimBuffer {
    /// A handle for `storage`, which the ledger has been told of.
    pub(super) fn new(device: DeviceId, ty: TensorType, storage: Arc<Storage>) -> Self {
        SimBuffer { device, ty, storage, donated: AtomicBool::new(false) }
    }

    pub(super) fn storage(&self) -> &Arc<Storage> {
        &self.storage
    }

    /// Consumes the contents (H2); false if that has happened before. From here on the ledger does not count it.
    pub(super) fn donate(&self) -> bool {
        !self.donated.swap(true, Ordering::Relaxed)
    }
}

impl Buffer for SimBuffer {
    fn device(&self) -> DeviceId {
        self.device
    }

    fn ty(&self) -> &TensorType {
        &self.ty
    }

    fn ready(&self) -> EventRef {
        self.storage.event.clone()
    }

    fn is_donated(&self) -> bool {
        self.donated.load(Ordering::Relaxed)
    }
}

impl Drop for SimBuffer {
    fn drop(&mut self) {
        if !*self.donated.get_mut() {
            self.storage.memory.ledger.give_back(self.storage.bytes as u64);
        }
    }
}

impl fmt::Debug for SimBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimBuffer({}, {:?})", self.ty, self.storage.event)
    }
}

impl Storage {
    /// Storage for `bytes` bytes that are there when `event` completes.
    pub(super) fn pending(bytes: usize, event: Arc<SimEvent>, memory: Arc<Memory>) -> Self {
        Storage { bytes, contents: OnceLock::new(), event, memory }
    }

    /// Length of the contents.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Completes when the contents are there.
    pub(super) fn event(&self) -> &Arc<SimEvent> {
        &self.event
    }

    /// The contents, which are there: the event has completed without failure, or this is the device thread and the
    /// launch that makes them ran before.
    pub(super) fn contents(&self) -> &[u8] {
        match self.contents.get().expect("a storage whose event succeeded is filled until its last user is gone") {
            Contents::Block(block) => block.bytes(),
            Contents::Host(memory) => (**memory).as_ref(),
        }
    }

    /// Puts the contents there; once.
    pub(super) fn fill(&self, contents: Contents) {
        let filled = self.contents.set(contents);
        assert!(filled.is_ok(), "a storage is filled by the one launch that makes it");
    }

    /// The block, if it is one and nobody else can see it.
    pub(super) fn take_if_unshared(storage: &mut Arc<Storage>) -> Option<Block> {
        let contents = &mut Arc::get_mut(storage)?.contents;
        match contents.take()? {
            Contents::Block(block) => Some(block),
            host @ Contents::Host(_) => {
                *contents = OnceLock::from(host);
                None
            }
        }
    }
}

/// What an export holds.
impl AsRef<[u8]> for Storage {
    fn as_ref(&self) -> &[u8] {
        self.contents()
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        if let Some(Contents::Block(block)) = self.contents.take() {
            self.memory.blocks.give(block);
        }
    }
}
