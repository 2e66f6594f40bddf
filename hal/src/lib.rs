//! The device contract, and the devices that keep it.
//!
//! The contract is cut at PJRT's height: compile a program, execute it with arguments that are borrowed or donated, get
//! fresh buffers and an event. There are no command encoders, barriers or caller-allocated outputs, because PJRT has
//! none. Every trait is object-safe, safe to call, and `Send + Sync`. About seventeen methods in all.
//!
//! # Clauses
//!
//! The conformance suite ([`conformance`]) and [`Validated`] cite these by number.
//!
//! - **H1** A buffer never changes once its event has completed.
//! - **H2** Donation consumes the argument, on success and on failure.
//! - **H3** An event completes exactly once, with success or with an error, and its waiters all see the same outcome.
//! - **H4** A failed buffer fails every execution and download that uses it, with the first cause and its label.
//! - **H5** As observed through buffers, executions happen in the order of submission.
//! - **H6** A buffer of zero elements is legal everywhere.
//! - **H7** Compiling equal programs gives executables with equal fingerprints.
//! - **H8** Every error has a kind. After [`ErrorKind::OutOfMemory`] the device serves the next call.
//! - **H9** Dropping a buffer or an event never blocks.
//! - **H10** No call panics on arguments that [`Validated`] accepts.
//! - **H11** `execute` and `upload` never wait for earlier executions.
//! - **H12** Memory is accounted in submission order: whether a call runs out of memory does not depend on timing.

pub mod device;
pub mod error;

pub use device::{
    Arg, BackendKind, Buffer, BufferRef, Capabilities, Counters, Device, DeviceRef, Event, EventRef, Executable, ExecutableRef,
    Execution, Launch, MemoryStats,
};
pub use error::{ErrorKind, HalError, Label};
