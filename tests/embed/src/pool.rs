//! The front end's own threads.

use std::sync::atomic::{AtomicUsize, Ordering};

use systole::embed::Parallel;

/// A pool in the front end's manner: it runs tasks from the last to the first, on threads of its own.
#[derive(Debug)]
pub struct HostPool {
    threads: usize,
    tasks: AtomicUsize,
}

impl HostPool {
    /// A pool of so many threads, the caller's included.
    pub fn new(threads: usize) -> Self {
        HostPool { threads, tasks: AtomicUsize::new(0) }
    }

    /// Tasks run so far.
    pub fn tasks(&self) -> usize {
        self.tasks.load(Ordering::Relaxed)
    }
}

impl Parallel for HostPool {
    fn threads(&self) -> usize {
        self.threads
    }

    fn grain(&self) -> usize {
        // Small, so that little work shows the pool at work.
        1 << 10
    }

    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        let left = AtomicUsize::new(tasks);
        let work = || {
            while let Ok(before) = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)) {
                task(before - 1);
                self.tasks.fetch_add(1, Ordering::Relaxed);
            }
        };
        // Leaving the scope joins the threads, and passes a task's panic on.
        std::thread::scope(|scope| {
            for _ in 1..self.threads {
                scope.spawn(work);
            }
            work();
        });
    }
}
