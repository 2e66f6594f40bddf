//! The ledger of device memory, and the cache of host blocks that stands in for it.
//!
//! The **ledger** answers "does it fit?" and is the only thing that does. It changes on the calling thread, in the order
//! of calls and drops (H12).
//!
//! The **block cache** keeps the host from paying for it: a step of a training loop frees and asks for the same sizes
//! again and again, and blocks above the C allocator's mmap threshold would fault every page in each time. Blocks are
//! kept by size class (four per power of two) and never zeroed. What is held and what is cached together never exceed the
//! most that was held at once (or [`FLOOR`]): on a miss that would, blocks of the class that was longest unasked for go
//! first. A bound by count or by age alone would either throw away what the next step needs or keep the sizes of the
//! last phase for ever.

use crossbeam::utils::CachePadded;
use parking_lot::Mutex;
use systole_kernels::memory::{AllocError, Block};

use crate::device::MemoryStats;
use crate::error::Shortage;

/// Both, shared by a device and the buffers that may outlive it.
#[derive(Debug)]
pub(super) struct Memory {
    /// Mostly the callers'.
    pub(super) ledger: CachePadded<Ledger>,
    /// Mostly the device thread's.
    pub(super) blocks: CachePadded<BlockCache>,
}

impl Memory {
    pub(super) fn new(limit: u64) -> Self {
        Memory { ledger: CachePadded::new(Ledger::new(limit)), blocks: CachePadded::default() }
    }
}

/// Bytes on the device, as submitted.
#[derive(Debug)]
pub(super) struct Ledger(Mutex<MemoryStats>);

/// What a launch does to the ledger.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Exchange {
    /// Outputs, in bytes.
    pub(super) outputs: u64,
    /// Number of outputs.
    pub(super) output_count: u64,
    /// Donated arguments, in bytes.
    pub(super) donated: u64,
    /// Number of donated arguments.
    pub(super) donated_count: u64,
    /// Bytes of the donated arguments that outputs take over.
    pub(super) taken_over: u64,
}

impl Ledger {
    pub(super) fn new(limit: u64) -> Self {
        Ledger(Mutex::new(MemoryStats { in_use: 0, peak: 0, limit, live_buffers: 0 }))
    }

    pub(super) fn stats(&self) -> MemoryStats {
        *self.0.lock()
    }

    /// Takes outputs, then gives donated arguments back; these also if the outputs do not fit (H2).
    pub(super) fn exchange(&self, exchange: Exchange, refuse: bool) -> Result<(), Shortage> {
        let mut stats = self.0.lock();
        let requested = exchange.outputs - exchange.taken_over;
        let held = stats.in_use;
        let highest = held.checked_add(requested).filter(|&highest| highest <= stats.limit && !refuse);
        stats.in_use = highest.unwrap_or(held) - exchange.donated;
        stats.live_buffers -= exchange.donated_count;
        let Some(highest) = highest else {
            return Err(Shortage { requested, in_use: held, limit: stats.limit });
        };
        // The bytes taken over were counted once, as donated; they stay held as outputs.
        stats.in_use += exchange.taken_over;
        stats.live_buffers += exchange.output_count;
        stats.peak = stats.peak.max(highest);
        Ok(())
    }

    /// Takes one buffer.
    pub(super) fn take(&self, bytes: u64, refuse: bool) -> Result<(), Shortage> {
        self.exchange(Exchange { outputs: bytes, output_count: 1, ..Exchange::default() }, refuse)
    }

    /// Gives one buffer back.
    pub(super) fn give_back(&self, bytes: u64) {
        let mut stats = self.0.lock();
        stats.in_use -= bytes;
        stats.live_buffers -= 1;
    }
}

/// Host memory behind a simulated device. Unlike [`MemoryStats`], it moves when programs run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HostMemory {
    /// Blocks that had to be allocated.
    pub allocated: u64,
    /// Blocks that came from the cache.
    pub recycled: u64,
    /// Bytes held by buffers and running programs, rounded up to size classes.
    pub held: u64,
    /// Largest `held` so far.
    pub peak: u64,
    /// Bytes in the cache.
    pub cached: u64,
}

/// Cached bytes that are always allowed: small devices in tests and the first steps of a program.
const FLOOR: u64 = 64 << 20;

/// Blocks between uses.
#[derive(Debug, Default)]
pub(super) struct BlockCache(Mutex<Shelves>);

#[derive(Debug, Default)]
struct Shelves {
    classes: Vec<Shelf>,
    clock: u64,
    totals: HostMemory,
}

#[derive(Debug, Default)]
struct Shelf {
    blocks: Vec<Block>,
    last_asked: u64,
}

impl BlockCache {
    pub(super) fn totals(&self) -> HostMemory {
        self.0.lock().totals
    }

    /// A block of `len` bytes with arbitrary contents.
    pub(super) fn take(&self, len: usize) -> Result<Block, AllocError> {
        if len == 0 {
            return Ok(Block::default());
        }
        let class = SizeClass::of(len);
        let cached = self.0.lock().take(class);
        let mut block = match cached {
            Ok(block) => block,
            // Freeing and allocating may be system calls: not under the lock.
            Err(evicted) => {
                drop(evicted);
                Block::new(class.bytes()).inspect_err(|_| self.0.lock().totals.held -= class.bytes() as u64)?
            }
        };
        block.resize(len);
        Ok(block)
    }

    /// Takes back a block that [`take`](Self::take) gave.
    pub(super) fn give(&self, block: Block) {
        if block.capacity() > 0 {
            self.0.lock().give(SizeClass::of(block.capacity()), block);
        }
    }
}

impl Shelves {
    /// A cached block, or, where there is none, blocks to be freed before one is allocated.
    fn take(&mut self, class: SizeClass) -> Result<Block, Vec<Block>> {
        self.clock += 1;
        if self.classes.len() <= class.0 {
            self.classes.resize_with(class.0 + 1, Shelf::default);
        }
        let shelf = &mut self.classes[class.0];
        shelf.last_asked = self.clock;
        let bytes = class.bytes() as u64;
        self.totals.held += bytes;
        self.totals.peak = self.totals.peak.max(self.totals.held);
        if let Some(block) = shelf.blocks.pop() {
            self.totals.cached -= bytes;
            self.totals.recycled += 1;
            return Ok(block);
        }
        self.totals.allocated += 1;
        Err(self.evict(self.totals.peak.max(FLOOR)))
    }

    fn give(&mut self, class: SizeClass, block: Block) {
        // Moves bytes from held to cached, so the bound on their sum still holds.
        let bytes = class.bytes() as u64;
        self.totals.held -= bytes;
        self.totals.cached += bytes;
        self.classes[class.0].blocks.push(block);
    }

    fn evict(&mut self, bound: u64) -> Vec<Block> {
        let mut evicted = Vec::new();
        while self.totals.held + self.totals.cached > bound {
            let stalest = self.classes.iter_mut().enumerate().filter(|(_, shelf)| !shelf.blocks.is_empty());
            let Some((class, shelf)) = stalest.min_by_key(|(_, shelf)| shelf.last_asked) else {
                break;
            };
            evicted.extend(shelf.blocks.pop());
            self.totals.cached -= SizeClass(class).bytes() as u64;
        }
        evicted
    }
}

/// Sizes of 1 to 8 cache lines, then four per power of two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct SizeClass(usize);

const LINE: usize = 64;

impl SizeClass {
    /// The smallest class that holds `len` bytes, which is not 0.
    fn of(len: usize) -> Self {
        let last_line = (len - 1) / LINE;
        if last_line < 8 {
            return SizeClass(last_line);
        }
        let shift = last_line.ilog2() as usize - 2;
        SizeClass(8 + (shift - 1) * 4 + ((last_line >> shift) - 4))
    }

    /// Bytes of a block of this class.
    fn bytes(self) -> usize {
        match self.0.checked_sub(8) {
            None => (self.0 + 1) * LINE,
            Some(above) => (above % 4 + 5) << (above / 4 + 1) << LINE.ilog2(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_their_sizes_and_waste_at_most_a_quarter() {
        let mut last = 0;
        for len in (1..4096).chain([1 << 20, (1 << 20) + 1, 3 << 30, (3 << 30) + 5]) {
            let class = SizeClass::of(len);
            assert!(class.0 >= last, "classes are ordered by size");
            last = class.0;
            assert!(class.bytes() >= len);
            assert!(class.bytes() < len + len / 4 + LINE, "{len} bytes rounded to {}", class.bytes());
            assert_eq!(SizeClass::of(class.bytes()), class);
        }
    }

    #[test]
    fn a_block_comes_back() {
        let cache = BlockCache::default();
        for _ in 0..100 {
            let blocks: Vec<_> = [0, 1, 64, 65, 1000, 1001].into_iter().map(|len| cache.take(len).unwrap()).collect();
            assert_eq!(blocks.iter().map(Block::len).collect::<Vec<_>>(), [0, 1, 64, 65, 1000, 1001]);
            blocks.into_iter().for_each(|block| cache.give(block));
        }
        let totals = cache.totals();
        assert_eq!((totals.allocated, totals.recycled), (5, 495));
        assert_eq!((totals.held, totals.cached), (0, totals.peak));
    }

    #[test]
    fn stale_sizes_make_room() {
        let cache = BlockCache::default();
        let megabytes = |n: usize| n << 20;
        for n in (1..60).rev() {
            let block = cache.take(megabytes(n)).unwrap();
            cache.give(block);
            let totals = cache.totals();
            assert!(totals.held + totals.cached <= FLOOR.max(totals.peak), "{totals:?}");
        }
        let recycled = cache.totals().recycled;
        cache.give(cache.take(megabytes(1)).unwrap());
        assert_eq!(cache.totals().recycled, recycled + 1, "the size last asked for was kept");
    }

    #[test]
    fn a_host_without_memory_is_an_error() {
        let cache = BlockCache::default();
        assert!(cache.take(isize::MAX as usize - 4096).is_err());
        assert_eq!(cache.totals().held, 0);
    }

    #[test]
    fn the_ledger_counts_to_the_byte() {
        let ledger = Ledger::new(100);
        ledger.take(60, false).unwrap();
        let launch = Exchange { outputs: 50, output_count: 1, ..Exchange::default() };
        assert_eq!(ledger.exchange(launch, false), Err(Shortage { requested: 50, in_use: 60, limit: 100 }));
        // The same with the argument donated and taken over: nothing more is needed.
        let donated = Exchange { outputs: 60, output_count: 1, donated: 60, donated_count: 1, taken_over: 60 };
        ledger.exchange(donated, false).unwrap();
        assert_eq!(ledger.stats(), MemoryStats { in_use: 60, peak: 60, limit: 100, live_buffers: 1 });
        // Donated but not taken over: both are held for a while.
        let apart = Exchange { outputs: 40, taken_over: 0, ..donated };
        ledger.exchange(apart, false).unwrap();
        assert_eq!(ledger.stats(), MemoryStats { in_use: 40, peak: 100, limit: 100, live_buffers: 1 });
        // Out of memory: the donated argument goes all the same.
        let apart = Exchange { outputs: 61, donated: 40, ..apart };
        assert_eq!(ledger.exchange(apart, false), Err(Shortage { requested: 61, in_use: 40, limit: 100 }));
        assert_eq!(ledger.stats(), MemoryStats { in_use: 0, peak: 100, limit: 100, live_buffers: 0 });
        assert_eq!(ledger.take(u64::MAX, false).unwrap_err().requested, u64::MAX);
    }
}
