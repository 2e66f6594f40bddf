//! The traits of the contract and the plain data they exchange.
//!
//! [`Device`], [`Buffer`] and [`Executable`] have `Any` as a supertrait: a backend finds its own types again with
//! `(&*buffer as &dyn Any).downcast_ref()`. Who belongs to whom is told by [`DeviceId`], so that a layer above
//! ([`crate::Validated`]) can check it without knowing the backend.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
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
/// Memory of the host with its owner: what [`Device::import`] lends to a device and [`Device::export`] borrows from one.
/// The bytes stay where and what they are as long as anybody holds it; it may be dropped on any thread.
pub type HostBytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// Identity of an open device, never used twice in a process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct DeviceId(u64);

impl DeviceId {
    /// An identity that no device has yet; backends call this once per device opened.
    pub fn fresh() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        DeviceId(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// Which family a device belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BackendKind {
    /// The CPU simulator.
    Simulator,
    /// The device that computes nothing ([`crate::null`]).
    Null,
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
    /// Whether programs with launch parameters are refused (H15): each set of extents is a program of its own then.
    pub static_shapes: bool,
    /// Whether [`Device::compile`] gives executables that are still to be compiled (H14).
    pub background_compiles: bool,
}

/// Memory of a device, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MemoryStats {
    /// Held by live buffers, those of launches still queued included.
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
    /// Compiles in the background that are asked for and not finished.
    pub compiling: u64,
    /// Programs taken from the queue and run.
    pub launches: u64,
    /// Outputs that took over the memory of a donated argument.
    pub in_place: u64,
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
pub trait Device: Any + Send + Sync + Debug {
    /// Which device this is.
    fn id(&self) -> DeviceId;

    /// What the device is.
    fn capabilities(&self) -> &Capabilities;

    /// Copies host data, dense and row-major in native byte order, to a fresh buffer. Does not wait for the queue.
    ///
    /// # Errors
    /// Out of memory; device lost; `bytes` of another length than `ty` needs.
    fn upload(&self, ty: &TensorType, bytes: &[u8]) -> Result<BufferRef, HalError>;

    /// A buffer that is the host's own memory, dense and row-major in native byte order, without a copy where the device
    /// can read it there (H13); an uploaded copy elsewhere, and where the bytes are not aligned to the dtype's size.
    ///
    /// # Errors
    /// As [`upload`](Self::upload).
    fn import(&self, ty: &TensorType, memory: HostBytes) -> Result<BufferRef, HalError>;

    /// Waits for `buffer` and gives its contents, without a copy where the host can read them on the device (H13).
    ///
    /// # Errors
    /// As [`download`](Self::download).
    fn export(&self, buffer: &BufferRef) -> Result<HostBytes, HalError>;

    /// Waits for `buffer` and copies it to `bytes`.
    ///
    /// # Errors
    /// The first cause, if the buffer's value failed (H4); device lost; `bytes` of another length; a donated buffer.
    fn download(&self, buffer: &BufferRef, bytes: &mut [u8]) -> Result<(), HalError>;

    /// Compiles a program: on the calling thread, or in the background, and then the executable is given at once (H14).
    /// May be called from several threads at once.
    ///
    /// # Errors
    /// The program is invalid, the device cannot run it, or the device is lost. What a compiler finds in the background
    /// is told by [`Executable::wait`] and by launches.
    fn compile(&self, program: Program) -> Result<ExecutableRef, HalError>;

    /// Submits an execution; never waits for earlier ones (H11). A buffer argument may have been made with another
    /// shape of the same dtype and element count than the program reads it under.
    ///
    /// # Errors
    /// Out of memory (nothing was submitted; donated arguments are consumed all the same), device lost, arguments that
    /// do not fit the program (nothing happened at all). Failures while running come through the outputs and the event.
    fn execute(&self, executable: &ExecutableRef, launch: Launch<'_>) -> Result<Execution, HalError>;

    /// Waits until everything submitted so far has completed. Gives the earliest failure that nobody has been told of:
    /// a failure counts as told once an event wait, a download or an earlier `synchronize` returned it, be it through
    /// the launch that failed or through one that it poisoned. Others stay for the next call, one each.
    ///
    /// # Errors
    /// The failure; device lost.
    fn synchronize(&self) -> Result<(), HalError>;

    /// Memory, in submission order (H12).
    fn memory_stats(&self) -> MemoryStats;

    /// What the device has done so far.
    fn counters(&self) -> Counters;
}

/// A device buffer. Immutable once ready (H1); dropping it gives the memory back without blocking (H9), also after its
/// device has been dropped.
pub trait Buffer: Any + Send + Sync + Debug {
    /// The device that it lies on.
    fn device(&self) -> DeviceId;
    /// Type of the contents.
    fn ty(&self) -> &TensorType;
    /// Completes when the contents are there.
    fn ready(&self) -> EventRef;
    /// Whether an execution has consumed it (H2): its contents are gone.
    fn is_donated(&self) -> bool;
}

/// A compiled program.
pub trait Executable: Any + Send + Sync + Debug {
    /// The device that it was compiled for.
    fn device(&self) -> DeviceId;
    /// What it was compiled from.
    fn program(&self) -> &Program;
    /// Equal for equal programs (H7).
    fn fingerprint(&self) -> u64;
    /// Name for reports.
    fn name(&self) -> &str {
        &self.program().name
    }
    /// Whether it has been compiled, or has failed to be (H14): a launch need not wait for it.
    fn is_ready(&self) -> bool {
        true
    }
    /// Blocks until it is ready.
    ///
    /// # Errors
    /// It could not be compiled.
    fn wait(&self) -> Result<(), HalError> {
        Ok(())
    }
}

/// Something that completes once (H3). It keeps no device memory alive.
pub trait Event: Send + Sync + Debug {
    /// Whether it has completed.
    fn is_ready(&self) -> bool;
    /// Blocks until it has.
    ///
    /// # Errors
    /// The first cause, if the work failed.
    fn wait(&self) -> Result<(), HalError>;
}
