//! The plan cache: concurrent, bounded, one build per key in flight.
//!
//! A map from keys to values that are dear to build: plans by [`PlanKey`], compiled programs by
//! [`GroupKey`](crate::canonical::GroupKey). What is found is found by full comparison of keys. Of several threads that
//! miss on one key, one builds and the others wait ([`PlanCache::get_or_try_build`]). A build that fails or panics leaves no
//! trace: the next caller builds again. What takes a compiler seconds is not built in here: then the value is a handle to
//! what is compiled elsewhere.
//!
//! When full, the least recently used finished entry goes. Finding it is a scan, made once per build and never on a
//! hit; an intrusive list would make every hit a write to shared memory instead.
//!
//! No lock is held while anything is built. Locks: a map shard, or the state of one entry; never both at once.

use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dashmap::DashMap;
use parking_lot::{Condvar, Mutex};
use rustc_hash::FxBuildHasher;

use crate::canonical::{Difference, PlanKey, explain};

/// A cache of values of type `V` by keys of type `K`.
pub struct PlanCache<V, K = PlanKey> {
    entries: DashMap<K, Arc<Entry<V>>, FxBuildHasher>,
    capacity: usize,
    /// Counts uses; orders entries by recency.
    clock: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
    builds: AtomicU64,
    failures: AtomicU64,
    evictions: AtomicU64,
}

struct Entry<V> {
    state: Mutex<State<V>>,
    settled: Condvar,
    hits: AtomicU64,
    last_use: AtomicU64,
}

enum State<V> {
    Building,
    Ready { value: Arc<V>, build_time: Duration },
    Failed,
}

/// Totals since the cache was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CacheStats {
    /// Lookups that found a finished value, at once or after waiting for another thread's build.
    pub hits: u64,
    /// Lookups that found none.
    pub misses: u64,
    /// Builds that finished.
    pub builds: u64,
    /// Builds that failed.
    pub failures: u64,
    /// Entries dropped to make room.
    pub evictions: u64,
    /// Finished entries now.
    pub entries: u64,
}

/// One finished entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EntryStats<K> {
    /// Key.
    pub key: K,
    /// Lookups that found it.
    pub hits: u64,
    /// How long it took to build.
    pub build_time: Duration,
    /// When it was last used, in lookups of the cache: the largest number is the most recent.
    pub last_use: u64,
}

/// The right, and duty, to build the value of one key. Dropped unfinished, it counts as a failed build, and waiting
/// threads choose another builder.
struct Ticket<'a, V, K: Clone + Eq + Hash> {
    cache: &'a PlanCache<V, K>,
    key: K,
    entry: Arc<Entry<V>>,
    started: Instant,
    finished: bool,
}

impl<V, K: Clone + Eq + Hash> PlanCache<V, K> {
    /// An empty cache for `capacity` values.
    pub fn new(capacity: usize) -> Self {
        PlanCache {
            entries: DashMap::with_hasher(FxBuildHasher),
            capacity: capacity.max(1),
            clock: AtomicU64::new(0),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            builds: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
        }
    }

    /// The value of `key` where it is finished; counts as a use, and builds nothing.
    pub fn get(&self, key: &K) -> Option<Arc<V>> {
        let entry = self.entries.get(key).map(|entry| Arc::clone(&entry))?;
        match &*entry.state.lock() {
            State::Ready { value, .. } => Some(self.count_hit(&entry, value)),
            State::Building | State::Failed => None,
        }
    }

    /// The value of `key`, built by `build` where it is missing, or awaited where another thread builds it. The flag
    /// says whether this call built it.
    ///
    /// # Errors
    /// `build` failed; nothing is cached.
    pub fn get_or_try_build<E>(&self, key: &K, build: impl FnOnce() -> Result<V, E>) -> Result<(Arc<V>, bool), E> {
        loop {
            let entry = match self.find_or_claim(key) {
                Ok(entry) => entry,
                Err(ticket) => return build().map(|value| (ticket.finish(value), true)),
            };
            let mut state = entry.state.lock();
            while matches!(*state, State::Building) {
                entry.settled.wait(&mut state);
            }
            if let State::Ready { value, .. } = &*state {
                return Ok((self.count_hit(&entry, value), false));
            }
        }
    }

    /// Totals.
    pub fn stats(&self) -> CacheStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        CacheStats {
            hits: read(&self.hits),
            misses: read(&self.misses),
            builds: read(&self.builds),
            failures: read(&self.failures),
            evictions: read(&self.evictions),
            entries: self.snapshot().iter().filter(|(_, entry)| entry.is_ready()).count() as u64,
        }
    }

    /// The finished entries, most recently used first.
    pub fn entries(&self) -> Vec<EntryStats<K>> {
        let stats = |(key, entry): (K, Arc<Entry<V>>)| match &*entry.state.lock() {
            State::Ready { build_time, .. } => Some(EntryStats {
                key,
                hits: entry.hits.load(Ordering::Relaxed),
                build_time: *build_time,
                last_use: entry.last_use.load(Ordering::Relaxed),
            }),
            State::Building | State::Failed => None,
        };
        let mut entries: Vec<_> = self.snapshot().into_iter().filter_map(stats).collect();
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.last_use));
        entries
    }

    /// Drops every finished entry; values in use live on. Builds in flight go on.
    pub fn clear(&self) {
        for (key, entry) in self.snapshot() {
            if entry.is_ready() {
                self.entries.remove_if(&key, |_, held| Arc::ptr_eq(held, &entry));
            }
        }
    }

    /// The entry of `key`, or, where there is none, a ticket for a new one.
    fn find_or_claim(&self, key: &K) -> Result<Arc<Entry<V>>, Ticket<'_, V, K>> {
        if let Some(entry) = self.entries.get(key) {
            return Ok(Arc::clone(&entry));
        }
        match self.entries.entry(key.clone()) {
            dashmap::Entry::Occupied(entry) => Ok(Arc::clone(entry.get())),
            dashmap::Entry::Vacant(place) => {
                let entry = Arc::new(Entry {
                    state: Mutex::new(State::Building),
                    settled: Condvar::new(),
                    hits: AtomicU64::new(0),
                    last_use: AtomicU64::new(self.tick()),
                });
                drop(place.insert(Arc::clone(&entry)));
                self.misses.fetch_add(1, Ordering::Relaxed);
                Err(Ticket { cache: self, key: key.clone(), entry, started: Instant::now(), finished: false })
            }
        }
    }

    fn count_hit(&self, entry: &Entry<V>, value: &Arc<V>) -> Arc<V> {
        entry.hits.fetch_add(1, Ordering::Relaxed);
        entry.last_use.store(self.tick(), Ordering::Relaxed);
        self.hits.fetch_add(1, Ordering::Relaxed);
        Arc::clone(value)
    }

    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed)
    }

    /// The entries at this moment, so that no map shard is locked while an entry's state is.
    fn snapshot(&self) -> Vec<(K, Arc<Entry<V>>)> {
        self.entries.iter().map(|entry| (entry.key().clone(), Arc::clone(entry.value()))).collect()
    }

    /// Drops the least recently used finished entries until the cache is within its bounds. Builds in flight stay,
    /// so they alone can exceed them.
    fn make_room(&self) {
        while self.entries.len() > self.capacity {
            let oldest = self
                .snapshot()
                .into_iter()
                .filter(|(_, entry)| entry.is_ready())
                .min_by_key(|(_, entry)| entry.last_use.load(Ordering::Relaxed));
            let Some((key, entry)) = oldest else {
                return;
            };
            if self.entries.remove_if(&key, |_, held| Arc::ptr_eq(held, &entry)).is_some() {
                self.evictions.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

impl<V, K: Clone + Eq + Hash + AsRef<PlanKey>> PlanCache<V, K> {
    /// The nearest other key in the cache, and the first part in which `key` differs from it: why `key` missed.
    /// `None` where the cache has no other entry. Only the entries used last are looked at, so that the answer costs no
    /// more in a full cache.
    pub fn nearest(&self, key: &K) -> Option<(K, Difference)> {
        const LOOKED_AT: usize = 32;
        let mut candidates = self.snapshot();
        // Read once per entry: other threads go on using the cache, and a sort does not bear keys that change.
        candidates.sort_by_cached_key(|(_, entry)| std::cmp::Reverse(entry.last_use.load(Ordering::Relaxed)));
        candidates
            .into_iter()
            .take(LOOKED_AT)
            .filter_map(|(other, entry)| {
                let difference = explain(key.as_ref(), other.as_ref())?;
                let recency = entry.last_use.load(Ordering::Relaxed);
                Some((other, difference, recency))
            })
            .max_by_key(|(_, difference, recency)| (difference.shared(), *recency))
            .map(|(other, difference, _)| (other, difference))
    }
}

impl<V> Entry<V> {
    fn is_ready(&self) -> bool {
        matches!(*self.state.lock(), State::Ready { .. })
    }
}

impl<V, K: Clone + Eq + Hash> Ticket<'_, V, K> {
    /// Hands over the built value.
    fn finish(mut self, value: V) -> Arc<V> {
        let value = Arc::new(value);
        let build_time = self.started.elapsed();
        *self.entry.state.lock() = State::Ready { value: Arc::clone(&value), build_time };
        self.entry.last_use.store(self.cache.tick(), Ordering::Relaxed);
        self.finished = true;
        self.entry.settled.notify_all();
        self.cache.builds.fetch_add(1, Ordering::Relaxed);
        self.cache.make_room();
        value
    }
}

impl<V, K: Clone + Eq + Hash> Drop for Ticket<'_, V, K> {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        // Out of the map first: whoever sees the failure then finds the place vacant.
        self.cache.entries.remove_if(&self.key, |_, held| Arc::ptr_eq(held, &self.entry));
        *self.entry.state.lock() = State::Failed;
        self.entry.settled.notify_all();
        self.cache.failures.fetch_add(1, Ordering::Relaxed);
    }
}
