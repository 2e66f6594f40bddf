//! The device that computes nothing.
//!
//! It takes every program, completes every launch at once and downloads zeros. It has the types, arities and life cycle
//! of buffers right and nothing else, so it shows what the contract costs without a device behind it, and the
//! conformance suite shows which of its cases really need values.

use std::any::Any;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use systole_kernels::TensorType;
use systole_kernels::program::Program;

use crate::device::{
    Arg, BackendKind, Buffer, BufferRef, Capabilities, Counters, Device, DeviceId, DeviceRef, Event, EventRef,
    Executable, ExecutableRef, Execution, HostBytes, Launch, MemoryStats,
};
use crate::error::{ErrorKind, HalError};
use crate::validate::resolve;

/// Computes nothing, holds nothing.
#[derive(Debug)]
pub struct NullDevice {
    id: DeviceId,
    capabilities: Capabilities,
    compiles: AtomicU64,
    launches: AtomicU64,
}

impl NullDevice {
    /// Opens one.
    pub fn open() -> DeviceRef {
        Arc::new(NullDevice {
            id: DeviceId::fresh(),
            capabilities: Capabilities {
                backend: BackendKind::Null,
                name: "null device".into(),
                profile: "none".into(),
                memory_limit: u64::MAX,
                threads: 1,
                isa: "none".into(),
                static_shapes: false,
                background_compiles: false,
            },
            compiles: AtomicU64::new(0),
            launches: AtomicU64::new(0),
        })
    }

    fn buffer(&self, ty: TensorType) -> BufferRef {
        Arc::new(NullBuffer { device: self.id, ty, donated: AtomicBool::new(false) })
    }
}

#[derive(Debug)]
struct NullBuffer {
    device: DeviceId,
    ty: TensorType,
    donated: AtomicBool,
}

struct NullExecutable {
    device: DeviceId,
    program: Program,
}

#[derive(Debug)]
struct Done;

impl Device for NullDevice {
    fn id(&self) -> DeviceId {
        self.id
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn upload(&self, ty: &TensorType, _bytes: &[u8]) -> Result<BufferRef, HalError> {
        Ok(self.buffer(ty.clone()))
    }

    fn import(&self, ty: &TensorType, _memory: HostBytes) -> Result<BufferRef, HalError> {
        Ok(self.buffer(ty.clone()))
    }

    fn export(&self, buffer: &BufferRef) -> Result<HostBytes, HalError> {
        Ok(Arc::new(vec![0; buffer.ty().byte_len()]))
    }

    fn download(&self, _buffer: &BufferRef, bytes: &mut [u8]) -> Result<(), HalError> {
        bytes.fill(0);
        Ok(())
    }

    fn compile(&self, program: Program) -> Result<ExecutableRef, HalError> {
        self.compiles.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(NullExecutable { device: self.id, program }))
    }

    fn execute(&self, executable: &ExecutableRef, launch: Launch<'_>) -> Result<Execution, HalError> {
        let invalid = |reason| HalError::new(ErrorKind::InvalidProgram, reason).with_label(&launch.label);
        let types = executable.program().outputs().iter().map(|output| resolve(output, launch.params));
        let outputs = types.map(|ty| Ok(self.buffer(ty.map_err(invalid)?))).collect::<Result<_, HalError>>()?;
        for arg in &launch.args {
            let Arg::Donated(buffer) = arg else { continue };
            let any: &dyn Any = &**buffer;
            if let Some(own) = any.downcast_ref::<NullBuffer>() {
                own.donated.store(true, Ordering::Relaxed);
            }
        }
        self.launches.fetch_add(1, Ordering::Relaxed);
        Ok(Execution { outputs, done: Arc::new(Done) })
    }

    fn synchronize(&self) -> Result<(), HalError> {
        Ok(())
    }

    fn memory_stats(&self) -> MemoryStats {
        MemoryStats { limit: self.capabilities.memory_limit, ..MemoryStats::default() }
    }

    fn counters(&self) -> Counters {
        Counters {
            compiles: self.compiles.load(Ordering::Relaxed),
            compiling: 0,
            launches: self.launches.load(Ordering::Relaxed),
            in_place: 0,
            busy: Duration::ZERO,
        }
    }
}

impl Buffer for NullBuffer {
    fn device(&self) -> DeviceId {
        self.device
    }

    fn ty(&self) -> &TensorType {
        &self.ty
    }

    fn ready(&self) -> EventRef {
        Arc::new(Done)
    }

    fn is_donated(&self) -> bool {
        self.donated.load(Ordering::Relaxed)
    }
}

impl Executable for NullExecutable {
    fn device(&self) -> DeviceId {
        self.device
    }

    fn program(&self) -> &Program {
        &self.program
    }

    fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.program.hash(&mut hasher);
        hasher.finish()
    }
}

impl fmt::Debug for NullExecutable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NullExecutable({})", self.program.name)
    }
}

impl Event for Done {
    fn is_ready(&self) -> bool {
        true
    }

    fn wait(&self) -> Result<(), HalError> {
        Ok(())
    }
}
