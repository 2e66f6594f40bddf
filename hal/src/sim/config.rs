//! How a simulated device is opened.

use std::sync::Arc;

use systole_kernels::parallel::Parallel;
use systole_kernels::simd::Isa;

use super::compiler::Compiler;
use super::fault::Faults;
use super::profile::Profile;

/// Everything that a simulated device can be told; [`SimDevice::open`](super::SimDevice::open) takes it.
#[derive(Clone, Debug)]
pub struct SimConfig {
    /// Which chip.
    pub profile: Profile,
    /// Bytes of device memory.
    pub memory_limit: u64,
    /// Threads that one program may use, the device thread among them; at least 1.
    pub threads: usize,
    /// Threads of the host to run programs on, instead of a pool of the device's own; `threads` is theirs then.
    pub parallel: Option<Arc<dyn Parallel>>,
    /// Instruction set; the widest that the machine has where `None`. Changes no bit of any result.
    pub isa: Option<Isa>,
    /// Whether to add up the time spent inside programs ([`Counters::busy`](crate::Counters::busy)); costs two readings of
    /// the clock per launch.
    pub kernel_timing: bool,
    /// What kind of compiler the device has.
    pub compiler: Compiler,
    /// Failures to inject; costs nothing when empty.
    pub faults: Faults,
    /// Name of the device thread.
    pub thread_name: String,
}

impl SimConfig {
    /// The profile's own memory, all the machine's threads, no faults.
    pub fn new(profile: Profile) -> Self {
        SimConfig {
            profile,
            memory_limit: profile.memory_limit(),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            parallel: None,
            isa: None,
            kernel_timing: false,
            compiler: Compiler::default(),
            faults: Faults::none(),
            thread_name: String::from("systole-sim"),
        }
    }
}

impl Default for SimConfig {
    fn default() -> Self {
        SimConfig::new(Profile::default())
    }
}
