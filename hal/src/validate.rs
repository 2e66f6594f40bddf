//! A device that checks every call before it passes it on.
//!
//! The rules of the contract that concern the *caller* live here once, so that no backend repeats them and a fast path
//! does not pay for them. What a program says it takes is compared with what it is given; what a backend gives back is
//! compared with what the program promised, and a difference is the backend's bug ([`ErrorKind::Internal`]). A refused
//! call is [`ErrorKind::InvalidProgram`] and has no effect: nothing is submitted, donated arguments stay (H2).
//!
//! It does not look inside a program; compiling it is the backend's part. It does not keep lists of live objects either:
//! buffers and executables say themselves which device they belong to.
//!
//! Its checks and the backend's work are not one atomic step: two threads that donate the same buffer at once both pass
//! here, and the backend must refuse one.

use smallvec::SmallVec;
use systole_kernels::program::{BufferType, Extent, Program};
use systole_kernels::{Shape, TensorType};

use crate::device::{
    Arg, BufferRef, Capabilities, Counters, Device, DeviceId, DeviceRef, ExecutableRef, Execution, HostBytes, Launch,
    MemoryStats,
};
use crate::error::{ErrorKind, HalError};

/// Wraps any device and checks each call.
#[derive(Debug)]
pub struct Validated {
    inner: DeviceRef,
}

impl Validated {
    /// Checks the calls to `inner`.
    pub fn new(inner: DeviceRef) -> Self {
        Validated { inner }
    }

    /// The device without checks.
    pub fn inner(&self) -> &DeviceRef {
        &self.inner
    }

    fn check_buffer(&self, buffer: &BufferRef) -> Result<(), String> {
        if buffer.device() != self.inner.id() {
            return Err(format!("{} lies on another device", buffer.ty()));
        }
        if buffer.is_donated() {
            return Err(format!("{} was donated to an earlier launch; its contents are gone", buffer.ty()));
        }
        Ok(())
    }

    fn check_launch(&self, executable: &ExecutableRef, launch: &Launch<'_>) -> Result<(), String> {
        if executable.device() != self.inner.id() {
            return Err("the executable was compiled for another device".into());
        }
        let program = executable.program();
        let inputs = &program.buffers[..usize::from(program.inputs)];
        expect_count("launch parameters", usize::from(program.params), launch.params.len())?;
        expect_count("scalars", program.scalars.len(), launch.scalars.len())?;
        expect_count("buffers", inputs.len(), launch.args.len())?;
        for (axis, extent) in program.domain.axes().enumerate() {
            resolve_extent(extent, launch.params).map_err(|reason| format!("axis {axis}: {reason}"))?;
        }
        for (n, (arg, declared)) in launch.args.iter().zip(inputs).enumerate() {
            self.check_argument(arg.buffer(), declared, launch.params)
                .map_err(|reason| format!("argument {n}: {reason}"))?;
        }
        for (n, output) in program.outputs().iter().enumerate() {
            resolve(output, launch.params).map_err(|reason| format!("output {n}: {reason}"))?;
        }
        check_donations(&launch.args)
    }

    fn check_argument(&self, buffer: &BufferRef, declared: &BufferType, params: &[i64]) -> Result<(), String> {
        self.check_buffer(buffer)?;
        let (given, taken) = (buffer.ty(), resolve(declared, params)?);
        if given.dtype != taken.dtype || given.checked_byte_len() != taken.checked_byte_len() {
            return Err(format!("{given} where the program reads {taken}"));
        }
        Ok(())
    }

    fn check_execution(&self, program: &Program, params: &[i64], execution: &Execution) -> Result<(), String> {
        expect_count("outputs", program.outputs().len(), execution.outputs.len())?;
        for (buffer, declared) in execution.outputs.iter().zip(program.outputs()) {
            let promised = resolve(declared, params)?;
            if *buffer.ty() != promised || buffer.device() != self.inner.id() || buffer.is_donated() {
                return Err(format!("the device gave {} where the program promises {promised}", buffer.ty()));
            }
        }
        Ok(())
    }
}

/// A donated buffer is no other argument (H2).
fn check_donations(args: &[Arg]) -> Result<(), String> {
    if !args.iter().any(|arg| matches!(arg, Arg::Donated(_))) {
        return Ok(());
    }
    let mut uses: SmallVec<[(*const (), bool, usize); 8]> = SmallVec::new();
    for (n, arg) in args.iter().enumerate() {
        // The address of the object alone: vtable pointers may differ for one and the same.
        let address = std::sync::Arc::as_ptr(arg.buffer()).cast();
        uses.push((address, matches!(arg, Arg::Donated(_)), n));
    }
    uses.sort_unstable();
    for pair in uses.windows(2) {
        let [(first, first_donated, m), (second, second_donated, n)] = pair else { continue };
        if first == second && (*first_donated || *second_donated) {
            return Err(format!("arguments {m} and {n} are one buffer, and it is donated"));
        }
    }
    Ok(())
}

fn expect_count(what: &str, expected: usize, given: usize) -> Result<(), String> {
    if expected == given { Ok(()) } else { Err(format!("{given} {what} where the program takes {expected}")) }
}

fn resolve_extent(extent: Extent, params: &[i64]) -> Result<usize, String> {
    let value = match extent {
        Extent::Fixed(value) => value,
        Extent::Param(n) => *params.get(usize::from(n)).ok_or_else(|| format!("there is no launch parameter {n}"))?,
    };
    usize::try_from(value).map_err(|_| format!("the extent {value} is negative"))
}

/// The type of a declared buffer for these launch parameters.
pub(crate) fn resolve(buffer: &BufferType, params: &[i64]) -> Result<TensorType, String> {
    let extents = buffer.shape.iter().map(|&extent| resolve_extent(extent, params)).collect::<Result<Shape, _>>()?;
    let ty = TensorType { dtype: buffer.dtype, shape: extents };
    if ty.checked_byte_len().is_none() {
        return Err(format!("{ty} is larger than any memory"));
    }
    Ok(ty)
}

fn refuse(call: &str, reason: &str) -> HalError {
    HalError::new(ErrorKind::InvalidProgram, format!("{call}: {reason}"))
}

impl Device for Validated {
    fn id(&self) -> DeviceId {
        self.inner.id()
    }

    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }

    fn upload(&self, ty: &TensorType, bytes: &[u8]) -> Result<BufferRef, HalError> {
        if ty.checked_byte_len() != Some(bytes.len()) {
            return Err(refuse("upload", &format!("{} bytes given for {ty}", bytes.len())));
        }
        self.inner.upload(ty, bytes)
    }

    fn import(&self, ty: &TensorType, memory: HostBytes) -> Result<BufferRef, HalError> {
        let given = (*memory).as_ref().len();
        if ty.checked_byte_len() != Some(given) {
            return Err(refuse("import", &format!("{given} bytes given for {ty}")));
        }
        self.inner.import(ty, memory)
    }

    fn export(&self, buffer: &BufferRef) -> Result<HostBytes, HalError> {
        self.check_buffer(buffer).map_err(|reason| refuse("export", &reason))?;
        self.inner.export(buffer)
    }

    fn download(&self, buffer: &BufferRef, bytes: &mut [u8]) -> Result<(), HalError> {
        self.check_buffer(buffer).map_err(|reason| refuse("download", &reason))?;
        if buffer.ty().checked_byte_len() != Some(bytes.len()) {
            return Err(refuse("download", &format!("room for {} bytes given for {}", bytes.len(), buffer.ty())));
        }
        self.inner.download(buffer, bytes)
    }

    fn compile(&self, program: Program) -> Result<ExecutableRef, HalError> {
        let (inputs, buffers) = (usize::from(program.inputs), program.buffers.len());
        if inputs > buffers {
            return Err(refuse(&program.name, &format!("{inputs} inputs among {buffers} buffers")));
        }
        self.inner.compile(program)
    }

    fn execute(&self, executable: &ExecutableRef, launch: Launch<'_>) -> Result<Execution, HalError> {
        let label = launch.label.clone();
        self.check_launch(executable, &launch)
            .map_err(|reason| refuse(&format!("`{}`", executable.name()), &reason).with_label(&label))?;
        let params: SmallVec<[i64; 8]> = SmallVec::from_slice(launch.params);
        let execution = self.inner.execute(executable, launch)?;
        self.check_execution(executable.program(), &params, &execution)
            .map_err(|reason| HalError::new(ErrorKind::Internal, format!("`{}`: {reason}", executable.name())))?;
        Ok(execution)
    }

    fn synchronize(&self) -> Result<(), HalError> {
        self.inner.synchronize()
    }

    fn memory_stats(&self) -> MemoryStats {
        self.inner.memory_stats()
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }
}
