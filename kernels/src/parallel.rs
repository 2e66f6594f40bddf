//! Where a program's units of work run.
//!
//! The machine asks only for [`Parallel`], so a host can inject its own threads. Nothing depends on the order or the
//! thread in which tasks run: results are split over outputs only. [`Pool`] is tuned for launches that take tens of
//! microseconds: its workers look for work for a moment before they sleep, and the caller works as well, so a pool that
//! is slow to wake costs no more than running alone. Rejected: rayon, whose wake-up costs as much as a small launch.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};

use crate::memory::{Loan, lend};

/// Threads to run tasks on.
pub trait Parallel: Send + Sync + std::fmt::Debug {
    /// How many threads take part, the caller included; at least 1.
    fn threads(&self) -> usize;

    /// Element operations from which waking other threads pays; below, the caller works alone.
    fn grain(&self) -> usize {
        1 << 18
    }

    /// Calls `task(i)` once for each `i` below `tasks`, in any order and on any thread, and returns when all are done.
    ///
    /// # Panics
    /// Where a task did, after all have stopped.
    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync));
}

/// The caller's thread alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inline;

impl Parallel for Inline {
    fn threads(&self) -> usize {
        1
    }

    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        (0..tasks).for_each(task);
    }
}

/// How often a worker looks for work before it sleeps: a few microseconds.
const LOOKS: u32 = 128;

/// Worker threads that live as long as the pool. A pool that is busy, or called from one of its own tasks, runs the
/// tasks on the caller's thread.
pub struct Pool {
    shared: Arc<Shared>,
    /// Held while workers are at this caller's tasks.
    driving: AtomicBool,
    workers: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    /// Counts jobs; workers watch it.
    posted: AtomicU64,
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    job: Option<Job>,
    asleep: usize,
    closing: bool,
}

/// Tasks to run, shared by all that run them.
#[derive(Clone)]
struct Job {
    loan: Loan,
    progress: Arc<Progress>,
}

#[derive(Default)]
struct Progress {
    next: AtomicUsize,
    tasks: usize,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

impl Job {
    /// Runs tasks until none is left.
    fn work(&self) {
        let Progress { next, tasks, panic } = &*self.progress;
        while next.load(Ordering::Relaxed) < *tasks {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= *tasks {
                break;
            }
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| self.loan.call(index))) {
                panic.lock().get_or_insert(payload);
            }
        }
    }
}

impl Pool {
    /// A pool of `threads` threads: the caller of [`Parallel::run`] and `threads − 1` workers.
    ///
    /// A worker that the system refuses to start is left out.
    pub fn new(threads: usize) -> Self {
        let shared = Arc::new(Shared::default());
        let workers = (1..threads)
            .filter_map(|n| {
                let shared = Arc::clone(&shared);
                std::thread::Builder::new().name(format!("systole-worker-{n}")).spawn(move || worker(&shared)).ok()
            })
            .collect();
        Pool { shared, driving: AtomicBool::new(false), workers }
    }

    fn post(&self, job: Option<Job>) {
        let mut state = self.shared.state.lock();
        let wake = job.is_some() && state.asleep > 0;
        if job.is_some() {
            self.shared.posted.fetch_add(1, Ordering::Release);
        }
        state.job = job;
        drop(state);
        if wake {
            self.shared.wake.notify_all();
        }
    }
}

impl Parallel for Pool {
    fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        let alone = tasks < 2 || self.workers.is_empty() || self.driving.swap(true, Ordering::Acquire);
        if alone {
            return Inline.run(tasks, task);
        }
        let progress = Arc::new(Progress { tasks, ..Progress::default() });
        lend(task, |loan| {
            let job = Job { loan, progress: Arc::clone(&progress) };
            self.post(Some(job.clone()));
            job.work();
            // Workers that come late find nothing, so `lend` waits only for tasks that have begun.
            self.post(None);
        });
        self.driving.store(false, Ordering::Release);
        let panic = progress.panic.lock().take();
        if let Some(payload) = panic {
            resume_unwind(payload);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.state.lock().closing = true;
        self.shared.posted.fetch_add(1, Ordering::Release);
        self.shared.wake.notify_all();
        for worker in self.workers.drain(..) {
            // Workers catch their tasks' panics, so they end normally.
            let _ = worker.join();
        }
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pool({} threads)", self.threads())
    }
}

fn worker(shared: &Shared) {
    let mut seen = 0;
    loop {
        let mut looks = 0;
        while shared.posted.load(Ordering::Acquire) == seen && looks < LOOKS {
            std::hint::spin_loop();
            looks += 1;
        }
        let mut state = shared.state.lock();
        while shared.posted.load(Ordering::Acquire) == seen && !state.closing {
            state.asleep += 1;
            shared.wake.wait(&mut state);
            state.asleep -= 1;
        }
        if state.closing {
            return;
        }
        seen = shared.posted.load(Ordering::Acquire);
        let job = state.job.clone();
        drop(state);
        if let Some(job) = job {
            job.work();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_runs_once() {
        for threads in 1..4 {
            let pool = Pool::new(threads);
            for tasks in [0, 1, 2, 3, 100] {
                for _ in 0..50 {
                    let counts: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
                    pool.run(tasks, &|i| {
                        counts[i].fetch_add(1, Ordering::Relaxed);
                    });
                    assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1));
                }
            }
        }
    }

    #[test]
    fn a_panic_reaches_the_caller_after_all_have_stopped_and_the_pool_lives_on() {
        let pool = Pool::new(2);
        for _ in 0..20 {
            let done = AtomicUsize::new(0);
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                pool.run(8, &|i| {
                    assert_ne!(i, 3, "task three");
                    done.fetch_add(1, Ordering::Relaxed);
                });
            }));
            assert!(outcome.is_err());
            assert_eq!(done.load(Ordering::Relaxed), 7);
        }
        pool.run(2, &|_| {});
    }

    #[test]
    fn nested_and_concurrent_runs_finish() {
        let pool = Pool::new(2);
        let total = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        pool.run(4, &|_| {
                            pool.run(4, &|_| {
                                total.fetch_add(1, Ordering::Relaxed);
                            });
                        });
                    }
                });
            }
        });
        assert_eq!(total.load(Ordering::Relaxed), 3 * 20 * 16);
    }
}
