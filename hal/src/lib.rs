//! The device contract, and the devices that keep it.
//!
//! The contract is cut at PJRT's height: compile a program, execute it with arguments that are borrowed or donated, get
//! fresh buffers and an event. There are no command encoders, barriers or caller-allocated outputs, because PJRT has
//! none. Every trait is object-safe, safe to call, and `Send + Sync`. About twenty methods in all.
//!
//! # Clauses
//!
//! The conformance suite ([`conformance`]) and [`Validated`] cite these by number.
//!
//! - **H1** A buffer never changes once its event has completed.
//! - **H2** Donation consumes the argument, on success and on failure; only a call refused as
//!   [`ErrorKind::InvalidProgram`] leaves it. Whoever kept the buffer gets an error that names it, never garbage. A donated
//!   buffer is no other argument of the same launch.
//! - **H3** An event completes exactly once, with success or with an error, and its waiters all see the same outcome.
//! - **H4** A failed buffer fails every execution and download that uses it, with the first cause and its label; of
//!   several, that of the launch submitted first.
//! - **H5** As observed through buffers, executions happen in the order of submission.
//! - **H6** A buffer of zero elements is legal everywhere.
//! - **H7** Compiling equal programs gives executables with equal fingerprints.
//! - **H8** Every error has a kind. After any kind but [`ErrorKind::DeviceLost`] the device serves the next call; after
//!   that one every call fails alike.
//! - **H9** Dropping a buffer, an event or an executable never waits for the device; dropping the last handle of a device
//!   waits for what was submitted.
//! - **H10** No call panics on arguments that [`Validated`] accepts.
//! - **H11** `execute` and `upload` never wait for earlier executions.
//! - **H12** Memory is accounted in submission order, on the submitting thread: whether a call runs out of memory does not
//!   depend on timing. A launch needs its outputs on top of all that is held, except that an output which can take over
//!   a donated argument's memory needs nothing; then the other donated arguments are given back. A dropped buffer is
//!   given back when its last handle goes, even if a queued launch still reads it.
//! - **H13** Imported memory is read and never written, whether its buffer is donated or not, and its owner is dropped
//!   when the last buffer, queued launch and export that needs it has gone. It counts as device memory while a buffer
//!   holds it. An export shows one value for as long as it is held: no launch reuses its memory.
//! - **H14** A device with background compiles gives an executable before it is compiled. Launches of it are submitted
//!   and accounted like others; they run once it is ready, and launches that do not depend on them overtake. Where it
//!   cannot be compiled, its launches fail with that error, each under its own label. A program that launches wait for is
//!   compiled before those that none do. Closing the device does not wait for compilers: what would have to is failed.
//! - **H15** A device with static shapes refuses programs with launch parameters as [`ErrorKind::Unsupported`].

mod background;
pub mod conformance;
pub mod device;
pub mod error;
pub mod null;
pub mod sim;
pub mod validate;

pub use device::{
    Arg, BackendKind, Buffer, BufferRef, Capabilities, Counters, Device, DeviceId, DeviceRef, Event, EventRef,
    Executable, ExecutableRef, Execution, HostBytes, Launch, MemoryStats,
};
pub use error::{ErrorKind, HalError, Label, Shortage};
pub use validate::Validated;
