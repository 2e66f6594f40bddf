//! Work in the background: a few threads, and which job is next.
//!
//! Backends compile here what a caller cannot wait for (H14). The order is that of asking, but a job that somebody has
//! come to [want](Background::want) goes before those that nobody waits for: a program with launches before one that is
//! compiled ahead of its use.
//!
//! Threads are started when there is a job and no idle thread, up to the limit, and none before; for a burst of jobs the
//! first by whoever submits and the others by one another, because starting threads takes longer than a submitter has.
//! They are never joined: a compiler cannot be interrupted, and whoever closes a device must not wait for seconds.
//! [Closing](Background::close) drops the jobs that have not begun; one in hand goes on and finds that nobody is
//! interested. So a job that is dropped must tell whoever waits for it; jobs do that in their `Drop`. Threads do not
//! survive a fork, so in a child process nothing is done or touched here once the parent has begun.
//!
//! Rejected: a channel (it has no second class), a pool shared by all devices (one slow device would hold up another),
//! and the kernels' pool (its threads spin while they wait, and are needed for launches meanwhile).

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use parking_lot::{Condvar, Mutex};

/// A few threads with jobs to do. Dropping it closes it.
#[derive(Debug)]
pub(crate) struct Background<J: Job> {
    shared: Arc<Shared<J>>,
    /// The process that has the threads, once there is one.
    process: OnceLock<u32>,
}

/// What a background thread does.
pub(crate) trait Job: Send + 'static {
    /// Does it.
    fn run(self);
}

/// Names a job among those of one [`Background`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct JobId(u64);

#[derive(Debug)]
struct Shared<J> {
    limit: usize,
    thread_name: String,
    state: Mutex<State<J>>,
    arrived: Condvar,
}

#[derive(Debug)]
struct State<J> {
    /// Jobs that somebody waits for, in the order in which that came about.
    wanted: VecDeque<(JobId, J)>,
    /// The others, in order.
    ahead: VecDeque<(JobId, J)>,
    next: u64,
    threads: usize,
    busy: usize,
    closed: bool,
}

impl<J: Job> Background<J> {
    /// Up to `limit` threads, at least one.
    pub(crate) fn new(limit: usize, thread_name: String) -> Self {
        let state =
            State { wanted: VecDeque::new(), ahead: VecDeque::new(), next: 0, threads: 0, busy: 0, closed: false };
        let (state, arrived) = (Mutex::new(state), Condvar::new());
        let shared = Shared { limit: limit.max(1), thread_name, state, arrived };
        Background { shared: Arc::new(shared), process: OnceLock::new() }
    }

    /// Queues a job that nobody waits for yet.
    ///
    /// # Errors
    /// There is no thread, and the system gives none, or this process was forked from the one that has them; the job is
    /// dropped.
    pub(crate) fn submit(&self, job: J) -> std::io::Result<JobId> {
        if *self.process.get_or_init(std::process::id) != std::process::id() {
            return Err(std::io::Error::other("the threads stayed behind when this process was forked"));
        }
        let mut state = self.shared.state.lock();
        if state.waiting() == 0 && state.busy == state.threads && state.threads < self.shared.limit {
            let started = self.shared.clone().start(&mut state);
            if state.threads == 0 {
                started?;
            }
        }
        let id = JobId(state.next);
        state.next += 1;
        state.ahead.push_back((id, job));
        drop(state);
        self.shared.arrived.notify_one();
        Ok(id)
    }

    /// Somebody waits for a job: it goes before those that nobody waits for, if it has not begun.
    pub(crate) fn want(&self, id: JobId) {
        if !self.is_here() {
            return;
        }
        let mut state = self.shared.state.lock();
        if let Some(at) = state.ahead.iter().position(|(queued, _)| *queued == id)
            && let Some(job) = state.ahead.remove(at)
        {
            state.wanted.push_back(job);
        }
    }

    /// Jobs queued or in hand.
    pub(crate) fn depth(&self) -> usize {
        if !self.is_here() {
            return 0;
        }
        let state = self.shared.state.lock();
        state.waiting() + state.busy
    }

    /// Whether there may be jobs, and the threads for them are in this process.
    fn is_here(&self) -> bool {
        self.process.get().is_some_and(|&process| process == std::process::id())
    }

    /// Drops the jobs that have not begun, and takes no more.
    pub(crate) fn close(&self) {
        if !self.is_here() {
            return;
        }
        let mut state = self.shared.state.lock();
        state.closed = true;
        let dropped = (std::mem::take(&mut state.wanted), std::mem::take(&mut state.ahead));
        drop(state);
        self.shared.arrived.notify_all();
        // With the lock released: a job that is dropped says so to others.
        drop(dropped);
    }
}

impl<J: Job> Drop for Background<J> {
    fn drop(&mut self) {
        self.close();
    }
}

impl<J> State<J> {
    /// Jobs that have not begun.
    fn waiting(&self) -> usize {
        self.wanted.len() + self.ahead.len()
    }
}

impl<J: Job> Shared<J> {
    /// Starts a thread more.
    fn start(self: Arc<Self>, state: &mut State<J>) -> std::io::Result<()> {
        let name = self.thread_name.clone();
        let _detached = std::thread::Builder::new().name(name).spawn(move || self.serve())?;
        state.threads += 1;
        Ok(())
    }

    fn serve(self: Arc<Self>) {
        let mut state = self.state.lock();
        while !state.closed {
            let Some((_, job)) = state.wanted.pop_front().or_else(|| state.ahead.pop_front()) else {
                self.arrived.wait(&mut state);
                continue;
            };
            state.busy += 1;
            if state.waiting() > 0 && state.busy == state.threads && state.threads < self.limit {
                // Where the system gives none, those there are will do it.
                let _ = self.clone().start(&mut state);
            }
            drop(state);
            // The job told whoever waits when it was dropped; the thread is needed for the others.
            if catch_unwind(AssertUnwindSafe(|| job.run())).is_err() {
                tracing::error!("a background job panicked");
            }
            state = self.state.lock();
            state.busy -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// Says its name when it runs, once it may, and when it is dropped.
    struct Named {
        name: &'static str,
        begin: Option<Receiver<()>>,
        said: Sender<String>,
    }

    impl Job for Named {
        fn run(self) {
            if let Some(begin) = &self.begin {
                begin.recv().expect("the test lets it begin");
            }
            self.said.send(format!("{} ran", self.name)).expect("the test listens");
            if self.name == "panics" {
                std::panic::resume_unwind(Box::new("as it says"));
            }
        }
    }

    impl Drop for Named {
        fn drop(&mut self) {
            let _ = self.said.send(format!("{} gone", self.name));
        }
    }

    fn until_busy(background: &Background<Named>, threads: usize) {
        while background.shared.state.lock().busy < threads {
            std::thread::yield_now();
        }
    }

    #[test]
    fn what_somebody_waits_for_goes_first() {
        let background = Background::new(1, "test".into());
        let (said, hear) = channel();
        let (begin, first) = channel();
        let job = |name, begin| Named { name, begin, said: said.clone() };
        background.submit(job("first", Some(first))).unwrap();
        until_busy(&background, 1);
        let ids: Vec<_> = ["a", "b", "panics", "c"].map(|name| background.submit(job(name, None)).unwrap()).into();
        background.want(ids[3]);
        background.want(ids[2]);
        background.want(ids[3]);
        assert_eq!(background.depth(), 5);
        begin.send(()).unwrap();
        let ran: Vec<_> = hear.iter().filter(|said| said.ends_with("ran")).take(5).collect();
        assert_eq!(ran, ["first ran", "c ran", "panics ran", "a ran", "b ran"]);
    }

    #[test]
    fn closing_drops_what_has_not_begun_and_does_not_wait() {
        let background = Background::new(2, "test".into());
        let (said, hear) = channel();
        let (begin, first) = channel();
        let (begin_too, second) = channel();
        let job = |name, begin| Named { name, begin, said: said.clone() };
        background.submit(job("first", Some(first))).unwrap();
        background.submit(job("second", Some(second))).unwrap();
        background.submit(job("third", None)).unwrap();
        until_busy(&background, 2);
        drop(background);
        assert_eq!(hear.recv().unwrap(), "third gone");
        begin.send(()).unwrap();
        begin_too.send(()).unwrap();
        assert_eq!(hear.iter().filter(|said| said.ends_with("ran")).take(2).count(), 2);
    }
}
