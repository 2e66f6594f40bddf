//! The cache under threads, failures and pressure.

mod traces;

use std::convert::Infallible;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

use expect_test::expect;
use systole_fusion::cache::PlanCache;
use systole_fusion::canonical::{PlanKey, canonicalize};
use systole_fusion::ir::Opcode;
use traces::Builder;

/// A key that differs with the length of a chain.
fn key(length: usize) -> PlanKey {
    let mut b = Builder::new();
    let mut value = b.input(&[4, 5]);
    for _ in 0..length {
        value = b.op(Opcode::Tanh, &[value]);
    }
    canonicalize(&b.finish(&[value]), &[false]).expect("a plain trace has a key").key
}

fn get(cache: &PlanCache<usize>, length: usize) -> (usize, bool) {
    let Ok((value, built)) = cache.get_or_try_build(&key(length), || Ok::<_, Infallible>(length));
    (*value, built)
}

#[test]
fn threads_that_miss_on_one_key_build_it_once() {
    let cache = PlanCache::new(8);
    let builds = AtomicUsize::new(0);
    let start = Barrier::new(8);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                start.wait();
                for length in [1, 2, 3] {
                    let build = || {
                        builds.fetch_add(1, Ordering::SeqCst);
                        Ok::<_, Infallible>(length)
                    };
                    let Ok((value, _)) = cache.get_or_try_build(&key(length), build);
                    assert_eq!(*value, length);
                }
            });
        }
    });
    assert_eq!(builds.into_inner(), 3);
    let stats = cache.stats();
    assert_eq!((stats.hits, stats.misses, stats.builds, stats.entries), (21, 3, 3, 3));
}

#[test]
fn a_look_waits_for_no_build_and_makes_none() {
    let cache: PlanCache<usize> = PlanCache::new(8);
    assert_eq!(cache.get(&key(1)), None);
    let build = || {
        assert_eq!(cache.get(&key(1)), None, "it is being built");
        Ok::<_, Infallible>(7)
    };
    let Ok((value, true)) = cache.get_or_try_build(&key(1), build) else { panic!("nothing was there") };
    assert_eq!((*value, cache.get(&key(1)).as_deref()), (7, Some(&7)));
}

#[test]
fn a_failed_build_leaves_no_trace() {
    let cache: PlanCache<usize> = PlanCache::new(8);
    assert_eq!(cache.get_or_try_build(&key(1), || Err("no memory")), Err("no memory"));
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = cache.get_or_try_build(&key(1), || -> Result<usize, Infallible> { panic!("a bug in a build") });
    }));
    assert!(panicked.is_err());
    assert_eq!(cache.stats().entries, 0);
    assert_eq!(get(&cache, 1), (1, true));
    let stats = cache.stats();
    assert_eq!((stats.misses, stats.builds, stats.failures), (3, 1, 2));
}

#[test]
fn a_waiting_thread_takes_over_a_failed_build() {
    let cache: PlanCache<usize> = PlanCache::new(8);
    let building = Barrier::new(2);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            building.wait();
            get(&cache, 1)
        });
        let fail = || {
            building.wait();
            Err::<usize, _>("no memory")
        };
        assert_eq!(cache.get_or_try_build(&key(1), fail), Err("no memory"));
        assert_eq!(waiting.join().expect("no panic"), (1, true));
    });
}

#[test]
fn the_least_recently_used_goes_first() {
    let cache = PlanCache::new(2);
    get(&cache, 1);
    get(&cache, 2);
    assert_eq!(get(&cache, 1), (1, false));
    get(&cache, 3);
    let keys: Vec<PlanKey> = cache.entries().into_iter().map(|entry| entry.key).collect();
    assert_eq!(keys, [key(3), key(1)]);
    let stats = cache.stats();
    assert_eq!((stats.evictions, stats.entries), (1, 2));
    assert_eq!(get(&cache, 2), (2, true));
    cache.clear();
    assert_eq!(cache.stats().entries, 0);
}

#[test]
fn entries_count_their_uses() {
    let cache = PlanCache::new(4);
    get(&cache, 1);
    get(&cache, 2);
    get(&cache, 1);
    get(&cache, 1);
    let hits: Vec<u64> = cache.entries().iter().map(|entry| entry.hits).collect();
    assert_eq!(hits, [2, 0]);
}

#[test]
fn a_miss_is_explained_by_the_nearest_key() {
    let cache = PlanCache::new(4);
    assert!(cache.nearest(&key(3)).is_none());
    get(&cache, 1);
    get(&cache, 2);
    let (nearest, difference) = cache.nearest(&key(3)).expect("there are other keys");
    assert_eq!(nearest, key(2));
    expect!["number of nodes: 3 / 2"].assert_eq(&difference.to_string());
}

#[test]
fn the_nearest_key_is_found_while_others_use_the_cache() {
    let cache = PlanCache::new(256);
    let keys: Vec<PlanKey> = (1..120).map(key).collect();
    for (length, key) in keys.iter().enumerate() {
        let Ok(_) = cache.get_or_try_build(key, || Ok::<_, Infallible>(length));
    }
    let wanted = key(121);
    std::thread::scope(|scope| {
        for part in 0..2 {
            let (cache, keys) = (&cache, &keys);
            scope.spawn(move || {
                for _ in 0..500 {
                    keys[part * 50..].iter().rev().for_each(|key| assert!(cache.get(key).is_some()));
                }
            });
        }
        for _ in 0..200 {
            let (nearest, _) = cache.nearest(&wanted).expect("there are other keys");
            assert!(keys.contains(&nearest));
        }
    });
}
