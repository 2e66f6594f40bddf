//! The way to the device thread: many senders, one receiver, in order, unbounded.
//!
//! Unbounded because submitting must never wait for earlier launches (H11); whoever wants to hold a recorder back can
//! wait on an event. Senders append to an inbox under a lock that is held for one copy; the receiver swaps the whole
//! inbox for an empty one, so while launches are queued it takes the lock once per batch and neither side allocates.
//! A lock-free segmented queue was measured first: its segments of large commands, allocated and cleared by the sender
//! and freed by the receiver, cost more than the lock.
//!
//! A receiver that finds nothing spins for a few microseconds before it sleeps, so that launches in quick succession
//! cost no system call on either side, and no longer than that, because on a small machine the spinning thread takes a
//! core from the one that it waits for.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;
use std::time::{Duration, Instant};

use crossbeam::utils::CachePadded;
use parking_lot::Mutex;

/// A queue of commands.
#[derive(Debug)]
pub(super) struct Queue<T> {
    inbox: Mutex<Inbox<T>>,
    /// A hint for the receiver to look into the inbox; set after each command.
    arrived: CachePadded<AtomicBool>,
}

#[derive(Debug)]
struct Inbox<T> {
    commands: VecDeque<T>,
    /// The receiver, where it sleeps and nobody has woken it.
    sleeping: Option<Thread>,
}

/// The receiving end; one per queue.
#[derive(Debug)]
pub(super) struct Receiver<'q, T> {
    queue: &'q Queue<T>,
    batch: VecDeque<T>,
}

impl<T> Queue<T> {
    /// Commands for which an emptied batch keeps its memory.
    const KEPT: usize = 1024;

    pub(super) fn new() -> Self {
        let inbox = Inbox { commands: VecDeque::new(), sleeping: None };
        Queue { inbox: Mutex::new(inbox), arrived: CachePadded::new(AtomicBool::new(false)) }
    }

    /// Appends a command and wakes the receiver if it sleeps.
    pub(super) fn push(&self, command: T) {
        let mut inbox = self.inbox.lock();
        inbox.commands.push_back(command);
        let sleeping = inbox.sleeping.take();
        drop(inbox);
        self.arrived.store(true, Ordering::Release);
        if let Some(receiver) = sleeping {
            receiver.unpark();
        }
    }

    /// The receiving end, for the one thread that calls this.
    pub(super) fn receiver(&self) -> Receiver<'_, T> {
        Receiver { queue: self, batch: VecDeque::new() }
    }
}

impl<T> Receiver<'_, T> {
    /// Waits for the next command.
    pub(super) fn pop(&mut self) -> T {
        loop {
            if let Some(command) = self.batch.pop_front() {
                return command;
            }
            self.batch.shrink_to(Queue::<T>::KEPT);
            let arrived = Spin::until(|| self.queue.arrived.load(Ordering::Acquire));
            self.queue.arrived.store(false, Ordering::Relaxed);
            let mut inbox = self.queue.inbox.lock();
            std::mem::swap(&mut inbox.commands, &mut self.batch);
            if self.batch.is_empty() && !arrived {
                inbox.sleeping = Some(std::thread::current());
                drop(inbox);
                // May return for no reason; the loop looks again.
                std::thread::park();
            }
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
            let (mut next, mut receiver) = ([0, 0], queue.receiver());
            for _ in 0..40_000 {
                let (sender, n) = receiver.pop();
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
                let mut receiver = there.receiver();
                for n in 0..2_000 {
                    assert_eq!(receiver.pop(), n);
                    back.push(n);
                }
            });
            let mut receiver = back.receiver();
            for n in 0..2_000 {
                there.push(n);
                assert_eq!(receiver.pop(), n);
            }
        });
    }
}
