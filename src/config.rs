//! How a device is opened. Nothing below this reads the environment; nothing here does unless asked.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use systole_hal::sim::{Compiler, Faults};
use systole_kernels::parallel::Parallel;
use systole_kernels::simd::Isa;

/// How recorded ops are run. The mode never changes a bit of any result.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum Mode {
    /// One op at a time; each call waits for its op and checks it (gather indices out of range are errors).
    Debug,
    /// One op at a time, asynchronously.
    Strict,
    /// Ops are recorded into short traces and fused.
    #[default]
    Fused,
}

impl Mode {
    /// Every mode, the most careful first.
    pub const ALL: [Mode; 3] = [Mode::Debug, Mode::Strict, Mode::Fused];

    /// `debug`, `strict` or `fused`.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Debug => "debug",
            Mode::Strict => "strict",
            Mode::Fused => "fused",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Mode::ALL
            .into_iter()
            .find(|mode| mode.name() == name)
            .ok_or_else(|| format!("unknown mode `{name}`: the modes are debug, strict and fused"))
    }
}

/// How a device is opened.
#[derive(Clone, Debug)]
pub struct Config {
    /// Profile of the simulated chip, which has its numerics and its memory: `ieee`, `v4`, `v5e`, `v5p`, `v6e` or `v7x`
    /// ([`Device::profiles`](crate::Device::profiles)).
    pub profile: String,
    /// Mode of the device; [`with_mode`](crate::with_mode) overrides it for a scope.
    pub mode: Mode,
    /// Threads that one program may use, at least 1.
    pub threads: usize,
    /// The host's own threads to run programs on, instead of a pool of the device's; `threads` is theirs then. Changes no
    /// bit of any result.
    pub parallel: Option<Arc<dyn Parallel>>,
    /// Instruction set for kernels; the widest that the machine has where `None`.
    pub isa: Option<Isa>,
    /// Device memory in bytes; the profile's own limit where `None`.
    pub memory_limit: Option<u64>,
    /// Most ops in the first trace of a stream. Each cut doubles it, up to `window_limit`.
    pub first_window: usize,
    /// Most ops in any trace.
    pub window_limit: usize,
    /// Most bytes that the values of one pending trace may come to.
    pub pending_bytes: u64,
    /// Plans kept; the least recently used go first.
    pub plan_capacity: usize,
    /// Flush reports kept per device; 0 keeps none.
    pub report_capacity: usize,
    /// Whether the device adds up the time spent in kernels ([`Stats::kernel_time`](crate::Stats::kernel_time)).
    pub kernel_timing: bool,
    /// What kind of compiler the simulated device has: its own, or one that is slow and takes static shapes as real
    /// devices' are. Changes no bit of any result.
    pub compiler: Compiler,
    /// Whether every device call is checked against the contract; for tests and new backends.
    pub validate: bool,
    /// Failures to inject into the simulator.
    pub faults: Faults,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            profile: String::from("ieee"),
            mode: Mode::Fused,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            parallel: None,
            isa: None,
            memory_limit: None,
            first_window: 32,
            window_limit: 256,
            pending_bytes: 1 << 30,
            plan_capacity: 1024,
            report_capacity: 256,
            kernel_timing: false,
            compiler: Compiler::default(),
            validate: cfg!(debug_assertions),
            faults: Faults::none(),
        }
    }
}
