//! The way to the device thread: many senders, one receiver, in order, unbounded.
//!
//! Unbounded because submitting must never wait for earlier launches (H11); whoever wants to hold a recorder back can
//! wait on an event. A receiver that finds nothing spins for a few microseconds before it sleeps, so that launches in
//! quick succession cost no system call on either side, and no longer than that, because on a small machine the spinning
//! thread takes a core from the one that it waits for.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::thread::Thread;
use std::time::{Duration, Instant};

use crossbeam::queue::SegQueue;
use crossbeam::utils::CachePadded;

/// A queue of commands.
#[derive(Debug)]
pub(super) struct Queue<T> {
    commands: SegQueue<T>,
    sleeping: CachePadded<AtomicBool>,
    receiver: OnceLock<Thread>,
}

impl<T> Queue<T> {
    pub(super) fn new() -> Self {
        Queue {
            commands: SegQueue::new(),
            sleeping: CachePadded::new(AtomicBool::new(false)),
            receiver: OnceLock::new(),
        }
    }

    /// Appends a command and wakes the receiver if it sleeps.
    pub(super) fn push(&self, command: T) {
        self.commands.push(command);
        // Pairs with the fence in `pop`: either the receiver sees the command or this sees that it sleeps.
        fence(Ordering::SeqCst);
        if self.sleeping.load(Ordering::Relaxed) && self.sleeping.swap(false, Ordering::Relaxed) {
            self.receiver
                .get()
                .expect("only the receiver sets `sleeping`, after it registered")
                .unpark();
        }
    }

    /// Waits for the next command. Only ever called by one thread.
    pub(super) fn pop(&self) -> T {
        loop {
            if let Some(command) = self.commands.pop() {
                return command;
            }
            if Spin::until(|| !self.commands.is_empty()) {
                continue;
            }
            self.receiver.get_or_init(std::thread::current);
            self.sleeping.store(true, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            if self.commands.is_empty() {
                // May return for no reason; the loop looks again.
                std::thread::park();
            }
            self.sleeping.store(false, Ordering::Relaxed);
        }
    }
}

/// Bounded busy waiting.
pub(super) struct Spin;

impl Spin {
    const LONGEST: Duration = Duration::from_micros(5);
    const LOOKS_PER_CLOCK: u32 = 8;

    /// Spins until `condition` holds, for a few microseconds at most; whether it did.
    pub(super) fn until(condition: impl Fn() -> bool) -> bool {
        let start = Instant::now();
        loop {
            for _ in 0..Spin::LOOKS_PER_CLOCK {
                if condition() {
                    return true;
                }
                std::hint::spin_loop();
            }
            if start.elapsed() > Spin::LONGEST {
                return false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sender_keeps_its_order() {
        let queue = Queue::new();
        std::thread::scope(|scope| {
            for sender in 0..2u64 {
                let queue = &queue;
                scope.spawn(move || {
                    for n in 0..20_000u64 {
                        queue.push((sender, n));
                        if n % 1000 == 0 {
                            std::thread::yield_now();
                        }
                    }
                });
            }
            let mut next = [0, 0];
            for _ in 0..40_000 {
                let (sender, n) = queue.pop();
                assert_eq!(n, next[sender as usize]);
                next[sender as usize] += 1;
            }
        });
    }

    #[test]
    fn a_sleeping_receiver_is_woken_every_time() {
        let (there, back) = (Queue::new(), Queue::new());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0..2_000 {
                    assert_eq!(there.pop(), n);
                    back.push(n);
                }
            });
            for n in 0..2_000 {
                there.push(n);
                assert_eq!(back.pop(), n);
            }
        });
    }
}
