//! The traits of the contract and the plain data they exchange.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use systole_kernels::TensorType;
use systole_kernels::program::Program;

use crate::error::{HalError, Label};

/// A shared device.
pub type DeviceRef = Arc<dyn Device>;
/// A shared buffer.
pub type BufferRef = Arc<dyn Buffer>;
/// A shared executable.
pub type ExecutableRef = Arc<dyn Executable>;
/// A shared event.
pub type EventRef = Arc<dyn Event>;

/// Which family a device belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BackendKind {
    /// The CPU simulator.
    Simulator,
}

/// What a device is and can do; fixed for its life.
#[derive(Clone, Debug)]
pub struct Capabilities {
    /// Family.
    pub backend: BackendKind,
    /// Name for people, e.g. `simulated TPU (ieee)`.
    pub name: String,
    /// Numeric profile, e.g. `ieee`.
    pub profile: String,
    /// Bytes of device memory.
    pub memory_limit: u64,
    /// Threads that one program may use.
    pub threads: usize,
    /// Instruction set the programs run on, e.g. `avx512`.
    pub isa: String,
}

/// Memory of a device, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MemoryStats {
    /// Held by live buffers and submitted launches.
    pub in_use: u64,
    /// Largest `in_use` so far.
    pub peak: u64,
    /// Device limit.
    pub limit: u64,
    /// Buffers alive.
    pub live_buffers: u64,
}

/// What a device has done since it was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Programs compiled.
    pub compiles: u64,
    /// Programs taken from the queue and run.
    pub launches: u64,
    /// Time spent inside programs; zero unless the device was opened with kernel timing.
    pub busy: Duration,
}

/// An argument of an execution.
#[derive(Clone, Debug)]
pub enum Arg {
    /// Read; stays valid.
    Borrowed(BufferRef),
    /// Read for the last time; the device may reuse its memory for an output (clause H2).
    Donated(BufferRef),
}

impl Arg {
    /// The buffer.
    pub fn buffer(&self) -> &BufferRef {
        match self {
            Arg::Borrowed(buffer) | Arg::Donated(buffer) => buffer,
        }
    }
}

/// One execution's arguments.
#[derive(Debug)]
pub struct Launch<'a> {
    /// Integer parameters of the program: extents, offsets, steps.
    pub params: &'a [i64],
    /// Scalar arguments, as bits.
    pub scalars: &'a [u64],
    /// Buffers, one for each input of the program.
    pub args: SmallVec<[Arg; 8]>,
    /// Comes back in the error if this launch fails.
    pub label: Label,
}

/// What an execution gives at once; the work itself may still be queued.
#[derive(Debug)]
pub struct Execution {
    /// Fresh buffers, one for each output of the program.
    pub outputs: SmallVec<[BufferRef; 4]>,
    /// Completes when the work has.
    pub done: EventRef,
}

/// A device.
pub trait Device: Send + Sync + Debug {
    /// What the device is.
    fn capabilities(&self) -> &Capabilities;

    /// Copies host data, dense and row-major in native byte order, to a fresh buffer. Does not wait for the queue.
    ///
    /// # Errors
    /// Out of memory; device lost; `bytes` of another length than `ty` needs.
    fn upload(&self, ty: &TensorType, bytes: &[u8]) -> Result<BufferRef, HalError>;

    /// Waits for `buffer` and copies it to `bytes`.
    ///
    /// # Errors
    /// The first cause, if the buffer's value failed (H4); device lost; `bytes` of another length.
    fn download(&self, buffer: &BufferRef, bytes: &mut [u8]) -> Result<(), HalError>;

    /// Compiles a program.
    ///
    /// # Errors
    /// The program is invalid or the device cannot run it.
    fn compile(&self, program: Program) -> Result<ExecutableRef, HalError>;

    /// Submits an execution; never waits for earlier ones (H11).
    ///
    /// # Errors
    /// Out of memory (nothing was submitted; donated arguments are consumed all the same), device lost, arguments that
    /// do not fit the program. Failures while running come through the outputs and the event.
    fn execute(&self, executable: &ExecutableRef, launch: Launch<'_>) -> Result<Execution, HalError>;

    /// Waits until everything submitted so far has completed; gives the first error that no event reported.
    ///
    /// # Errors
    /// Device lost.
    fn synchronize(&self) -> Result<(), HalError>;

    /// Memory, in submission order (H12).
    fn memory_stats(&self) -> MemoryStats;

    /// What the device has done so far.
    fn counters(&self) -> Counters;

    /// For downcasts to a backend's own type.
    fn as_any(&self) -> &dyn std::any::Any;
}

/// A device buffer. Immutable once ready (H1); dropping it gives the memory back without blocking (H9).
pub trait Buffer: Send + Sync + Debug {
    /// Type of the contents.
    fn ty(&self) -> &TensorType;
    /// Completes when the contents are there.
    fn ready(&self) -> EventRef;
    /// For downcasts to a backend's own type.
    fn as_any(&self) -> &dyn std::any::Any;
}

/// A compiled program.
pub trait Executable: Send + Sync + Debug {
    /// Name for reports.
    fn name(&self) -> &str;
    /// Equal for equal programs (H7).
    fn fingerprint(&self) -> u64;
    /// For downcasts to a backend's own type.
    fn as_any(&self) -> &dyn std::any::Any;
}

/// Something that completes once (H3).
pub trait Event: Send + Sync + Debug {
    /// Whether it has completed.
    fn is_ready(&self) -> bool;
    /// Blocks until it has.
    ///
    /// # Errors
    /// The first cause, if the work failed.
    fn wait(&self) -> Result<(), HalError>;
}
