//! The ways of running a program that must make no difference.

use std::collections::HashMap;
use std::fmt;
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use systole::hal::sim::{Compiler, Profile};
use systole::{Config, Device, Isa, Tensor};

use crate::generator::random::Random;

/// How a device is opened.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Setup {
    /// Whose numbers it computes.
    pub profile: Profile,
    /// Threads that one program may use.
    pub threads: usize,
    /// Instruction set.
    pub isa: Isa,
    /// Whether traces are cut early, by ops and by bytes, and plans soon forgotten.
    pub tight: bool,
    /// Whether the device compiles for static shapes, in the background: what runs fused and what op by op is chance.
    pub slow_compiler: bool,
}

impl Setup {
    /// The profiles: one of each arithmetic.
    pub const PROFILES: [Profile; 3] = [Profile::Ieee, Profile::V5e, Profile::V6e];

    /// Every one: each arithmetic, 1 and 2 threads, each instruction set that the machine has, generous and tight bounds; and
    /// with the widest of them the slow compiler.
    pub fn all() -> Vec<Setup> {
        Setup::PROFILES.into_iter().flat_map(Setup::all_of).collect()
    }

    fn all_of(profile: Profile) -> Vec<Setup> {
        let mut all = Vec::new();
        let mut add = |threads, isa, slow_compiler| {
            all.extend([false, true].map(|tight| Setup { profile, threads, isa, tight, slow_compiler }));
        };
        for isa in Isa::available() {
            [1, 2].into_iter().for_each(|threads| add(threads, isa, false));
        }
        add(2, Isa::best(), true);
        all
    }

    /// Each number of threads with each instruction set, and the slow compiler, with generous bounds on half of them and
    /// tight ones on the others, of one profile, as `seed` has it. Every other seed has `ieee`.
    pub fn one_of_each(seed: u64) -> Vec<Setup> {
        let first = seed as usize % 2;
        let profile = match seed / 2 % 4 {
            0 => Profile::V5e,
            1 => Profile::V6e,
            _ => Profile::Ieee,
        };
        let pairs = Setup::all_of(profile).into_iter().enumerate();
        // Pairs of generous and tight, which take turns.
        pairs.filter(|(at, _)| at % 2 == (at / 2 + first) % 2).map(|(_, setup)| setup).collect()
    }

    /// `count` of them, as `seed` has it.
    pub fn some(seed: u64, count: usize) -> Vec<Setup> {
        let mut all = Setup::all();
        Random::new(!seed).shuffle(&mut all);
        all.truncate(count);
        all
    }

    fn open(self) -> systole::Result<Device> {
        let config = Config {
            profile: self.profile.name().to_owned(),
            threads: self.threads,
            isa: Some(self.isa),
            report_capacity: 128,
            validate: true,
            compiler: if self.slow_compiler { Compiler::slow(Duration::ZERO) } else { Compiler::default() },
            ..Config::default()
        };
        Device::open(if self.tight {
            Config { first_window: 3, window_limit: 12, pending_bytes: 20_000, plan_capacity: 16, ..config }
        } else {
            config
        })
    }
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Setup { profile, threads, isa, tight, slow_compiler } = self;
        write!(f, "{profile}, {isa}, {threads} thread{}", if *threads == 1 { "" } else { "s" })?;
        f.write_str(if *tight { ", tight bounds" } else { "" })?;
        f.write_str(if *slow_compiler { ", slow compiler" } else { "" })
    }
}

/// Devices that outlive the programs run on them, so that caches are warm and full of other programs' plans; and a
/// thread that drops tensors whenever it gets to it.
pub struct Devices {
    open: Mutex<HashMap<Setup, Device>>,
    // In order of drop: once the channel is closed the thread ends.
    foreign: Option<Sender<Tensor>>,
    thread: Option<JoinHandle<()>>,
}

impl Devices {
    /// None yet; each is opened when it is first asked for.
    pub fn new() -> Self {
        let (foreign, dropped) = channel();
        let thread = std::thread::spawn(move || dropped.into_iter().for_each(drop::<Tensor>));
        Devices { open: Mutex::default(), foreign: Some(foreign), thread: Some(thread) }
    }

    /// The device of that setup.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn device(&self, setup: Setup) -> systole::Result<Device> {
        let mut open = self.open.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(device) = open.get(&setup) {
            return Ok(device.clone());
        }
        let device = setup.open()?;
        open.insert(setup, device.clone());
        Ok(device)
    }

    /// Drops a tensor on another thread, later.
    pub(super) fn drop_elsewhere(&self, tensor: Tensor) {
        let foreign = self.foreign.as_ref().expect("the channel is closed by drop only");
        foreign.send(tensor).expect("the thread receives until the channel is closed");
    }
}

impl Default for Devices {
    fn default() -> Self {
        Devices::new()
    }
}

impl Drop for Devices {
    fn drop(&mut self) {
        self.foreign = None;
        if let Some(thread) = self.thread.take() {
            // It panics only if dropping a tensor does, and then the program's own thread has seen worse.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_each_has_every_pair_once() {
        let all = Setup::all_of(Profile::V5e);
        let (even, odd) = (Setup::one_of_each(0), Setup::one_of_each(1));
        assert_eq!((even.len(), odd.len()), (all.len() / 2, all.len() / 2));
        assert!(all.iter().all(|setup| even.contains(setup) != odd.contains(setup)));
        for (a, b) in even.iter().zip(&odd) {
            assert_eq!(*a, Setup { tight: !b.tight, ..*b });
        }
        for profile in Setup::PROFILES {
            assert!((0..8).any(|seed| Setup::one_of_each(seed).iter().all(|setup| setup.profile == profile)));
        }
        assert!(even.iter().any(|setup| setup.tight) && even.iter().any(|setup| !setup.tight));
    }
}
