//! A TPU simulated on the CPU.
//!
//! What it simulates is the *contract*: memory with the chip's limit, accounted in submission order; an asynchronous
//! in-order queue on a thread of its own; failures that poison their dependants and nothing else. Values are computed by
//! [`systole_kernels::machine`], bit for bit as docs/numerics.md says, at whatever speed the CPU allows.
//!
//! # The parts
//!
//! - [`config`], [`profile`], [`compiler`], [`fault`]: how a device is opened: which chip, how much memory, what kind of
//!   compiler, which failures.
//! - `device`: [`SimDevice`]. A call does all it can on the caller's thread: accounting, handles, the event; what is
//!   left, running the program, is one command.
//! - `queue`: commands, in order, to the device thread. It runs programs and moves host memory.
//! - `memory`: two things that are easily confused. The *ledger* is the simulated HBM: bytes against a limit, changed by
//!   calls and drops in program order. The *block cache* is the host memory that stands in for it: blocks change hands
//!   when programs really run. Whether a call runs out of memory is read off the ledger alone, so it does not depend on
//!   how far the device thread has got.
//! - `launch`: what the device thread does with a command; `parked`: launches whose program is still being compiled.
//! - `buffer`, `event`, `executable`: what the traits hand out.
//!
//! # Handles and storage
//!
//! A buffer is two objects. The *handle* (`SimBuffer`) is what the caller has: dropping its last clone changes the
//! ledger at once. The *storage* holds the block; queued commands hold it too, so a block lives as long as a program
//! may read it. A donated argument whose storage nobody else holds gives its block to the output.
//! One object for both was tried on paper: the ledger would then change when the device thread drops its command, which
//! is timing.
//!
//! # What it does not do
//!
//! No cost model yet and one queue per device. It reorders only around launches that wait for a compiler.

pub mod compiler;
pub mod config;
pub mod fault;
pub mod profile;

mod buffer;
mod device;
mod event;
mod executable;
mod launch;
mod memory;
mod parked;
mod queue;

pub use compiler::Compiler;
pub use config::SimConfig;
pub use device::SimDevice;
pub use fault::{Faults, Gate};
pub use memory::HostMemory;
pub use profile::Profile;
