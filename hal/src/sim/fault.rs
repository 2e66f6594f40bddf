//! Failures on demand, so that every path after one can be tested.
//!
//! A plan names events by their number, counted from 0 since the device was opened: the n-th buffer that memory is asked
//! for (each upload and each output of a launch is one), the n-th compilation asked for, the n-th launch submitted. So a
//! plan does the same thing at every run of the same program; there is no randomness that a seed does not fix. An empty
//! plan is not consulted at all.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use systole_kernels::program::Program;

/// A plan of failures and delays; empty by default.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    allocations: Vec<u64>,
    compilations: Vec<(Which, CompileFault)>,
    launches: BTreeMap<u64, LaunchFault>,
    delays: Option<Delays>,
}

/// What happens to one launch; any of it together.
#[derive(Clone, Debug, Default)]
pub(super) struct LaunchFault {
    pub(super) hold: Option<Gate>,
    pub(super) delay: Duration,
    pub(super) effect: Effect,
}

/// How a launch fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Effect {
    #[default]
    None,
    Fail,
    Panic,
    LoseDevice,
}

/// Which compilations a fault meets.
#[derive(Clone, Copy, Debug)]
enum Which {
    Number(u64),
    Where(fn(&Program) -> bool),
}

/// What happens to one compilation; either of it or both.
#[derive(Clone, Debug, Default)]
pub(super) struct CompileFault {
    pub(super) hold: Option<Gate>,
    pub(super) effect: CompileEffect,
}

/// How a compilation fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum CompileEffect {
    #[default]
    None,
    Fail,
    LoseDevice,
}

#[derive(Clone, Copy, Debug)]
struct Delays {
    seed: u64,
    one_in: u64,
    longest: Duration,
}

impl Faults {
    /// No failures.
    pub fn none() -> Self {
        Faults::default()
    }

    /// Whether nothing is planned.
    pub fn is_empty(&self) -> bool {
        self.allocations.is_empty() && self.compilations.is_empty() && self.launches.is_empty() && self.delays.is_none()
    }

    /// Buffer `n` is refused: out of memory.
    #[must_use]
    pub fn fail_allocation(mut self, n: u64) -> Self {
        self.allocations.push(n);
        self
    }

    /// Compilation `n` is refused.
    #[must_use]
    pub fn fail_compile(self, n: u64) -> Self {
        self.at_compile(Which::Number(n), None, CompileEffect::Fail)
    }

    /// Compilations of these programs are refused.
    #[must_use]
    pub fn fail_compiles(self, which: fn(&Program) -> bool) -> Self {
        self.at_compile(Which::Where(which), None, CompileEffect::Fail)
    }

    /// The device is lost during compilation `n`.
    #[must_use]
    pub fn lose_device_at_compile(self, n: u64) -> Self {
        self.at_compile(Which::Number(n), None, CompileEffect::LoseDevice)
    }

    /// Compilation `n` waits until `gate` is opened.
    #[must_use]
    pub fn hold_compile(self, n: u64, gate: &Gate) -> Self {
        self.at_compile(Which::Number(n), Some(gate.clone()), CompileEffect::None)
    }

    /// Compilations of these programs wait until `gate` is opened.
    #[must_use]
    pub fn hold_compiles(self, which: fn(&Program) -> bool, gate: &Gate) -> Self {
        self.at_compile(Which::Where(which), Some(gate.clone()), CompileEffect::None)
    }

    /// Launch `n` fails instead of running.
    #[must_use]
    pub fn fail_launch(self, n: u64) -> Self {
        self.at_launch(n, |fault| fault.effect = Effect::Fail)
    }

    /// Launch `n` panics inside its program.
    #[must_use]
    pub fn panic_launch(self, n: u64) -> Self {
        self.at_launch(n, |fault| fault.effect = Effect::Panic)
    }

    /// The device is lost when it takes up launch `n`.
    #[must_use]
    pub fn lose_device(self, n: u64) -> Self {
        self.at_launch(n, |fault| fault.effect = Effect::LoseDevice)
    }

    /// The device waits for `delay` before launch `n`.
    #[must_use]
    pub fn delay_launch(self, n: u64, delay: Duration) -> Self {
        self.at_launch(n, |fault| fault.delay = delay)
    }

    /// The device waits before launch `n` until `gate` is opened. A gate that is never opened keeps the device's last
    /// handle from being dropped.
    #[must_use]
    pub fn hold_launch(self, n: u64, gate: &Gate) -> Self {
        self.at_launch(n, |fault| fault.hold = Some(gate.clone()))
    }

    /// The device waits before one in `one_in` launches, up to `longest`; which and how long is a function of `seed` and
    /// the launch's number.
    #[must_use]
    pub fn random_delays(mut self, seed: u64, one_in: u32, longest: Duration) -> Self {
        self.delays = Some(Delays { seed, one_in: u64::from(one_in.max(1)), longest });
        self
    }

    fn at_compile(mut self, which: Which, hold: Option<Gate>, effect: CompileEffect) -> Self {
        self.compilations.push((which, CompileFault { hold, effect }));
        self
    }

    fn at_launch(mut self, n: u64, set: impl FnOnce(&mut LaunchFault)) -> Self {
        set(self.launches.entry(n).or_default());
        self
    }
}

/// Holds a launch or a compilation until it is opened; clones are the same gate.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    /// A closed gate.
    pub fn closed() -> Self {
        Gate::default()
    }

    /// Opens it, for good.
    pub fn open(&self) {
        let (open, opened) = &*self.0;
        *open.lock() = true;
        opened.notify_all();
    }

    /// Blocks until it is open.
    pub(super) fn pass(&self) {
        let (open, opened) = &*self.0;
        let mut open = open.lock();
        while !*open {
            opened.wait(&mut open);
        }
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self.0.0.lock() { "Gate(open)" } else { "Gate(closed)" })
    }
}

/// A plan being carried out: the plan and how far each count has come.
#[derive(Debug)]
pub(super) struct Plan {
    faults: Faults,
    allocations: AtomicU64,
    compilations: AtomicU64,
}

impl Plan {
    /// The plan, unless it is empty.
    pub(super) fn new(faults: Faults) -> Option<Self> {
        (!faults.is_empty()).then(|| Plan { faults, allocations: AtomicU64::new(0), compilations: AtomicU64::new(0) })
    }

    /// Counts `buffers` allocations; whether one of them is to fail.
    pub(super) fn fails_allocation(&self, buffers: u64) -> bool {
        let first = self.allocations.fetch_add(buffers, Ordering::Relaxed);
        self.faults.allocations.iter().any(|n| (first..first + buffers).contains(n))
    }

    /// Counts a compilation of `program`; what happens to it.
    pub(super) fn compile(&self, program: &Program) -> CompileFault {
        let n = self.compilations.fetch_add(1, Ordering::Relaxed);
        let mut met = CompileFault::default();
        for (which, fault) in &self.faults.compilations {
            let meets = match which {
                Which::Number(number) => *number == n,
                Which::Where(which) => which(program),
            };
            if meets {
                met.hold = fault.hold.clone().or(met.hold);
                if fault.effect != CompileEffect::None {
                    met.effect = fault.effect;
                }
            }
        }
        met
    }

    /// What happens to launch `n`.
    pub(super) fn launch(&self, n: u64) -> LaunchFault {
        let mut fault = self.faults.launches.get(&n).cloned().unwrap_or_default();
        if let Some(delays) = self.faults.delays {
            fault.delay += delays.of(n);
        }
        fault
    }
}

impl Delays {
    fn of(self, n: u64) -> Duration {
        let bits = mix(self.seed ^ mix(n));
        if !bits.is_multiple_of(self.one_in) {
            return Duration::ZERO;
        }
        self.longest.mul_f64((mix(bits) >> 11) as f64 / (1u64 << 53) as f64)
    }
}

/// The finaliser of SplitMix64: every bit of the result depends on every bit of `x`.
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_plan_is_no_plan() {
        assert!(Plan::new(Faults::none()).is_none());
        assert!(Plan::new(Faults::none().fail_compile(3)).is_some());
    }

    #[test]
    fn allocations_are_counted_one_by_one() {
        let plan = Plan::new(Faults::none().fail_allocation(3)).unwrap();
        assert!(!plan.fails_allocation(2));
        assert!(plan.fails_allocation(2));
        assert!(!plan.fails_allocation(5));
    }

    #[test]
    fn delays_follow_the_seed() {
        let delays = |seed| {
            let plan = Plan::new(Faults::none().random_delays(seed, 4, Duration::from_millis(1))).unwrap();
            (0..1000).map(|n| plan.launch(n).delay).collect::<Vec<_>>()
        };
        assert_eq!(delays(7), delays(7));
        assert_ne!(delays(7), delays(8));
        let delayed = delays(7).iter().filter(|delay| !delay.is_zero()).count();
        assert!((150..350).contains(&delayed), "{delayed} of 1000 launches delayed, one in four asked for");
        assert!(delays(7).iter().all(|delay| *delay <= Duration::from_millis(1)));
    }
}
