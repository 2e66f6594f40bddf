//! The device: what happens on the caller's thread.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam::utils::CachePadded;
use parking_lot::Mutex;
use smallvec::SmallVec;
use systole_kernels::TensorType;
use systole_kernels::arithmetic::Arithmetic;
use systole_kernels::parallel::{Inline, Parallel, Pool};
use systole_kernels::program::Program;
use systole_kernels::simd::Isa;

use super::buffer::{Contents, SimBuffer, Storage};
use super::compiler::{CompileJob, Compiler};
use super::config::SimConfig;
use super::event::{Completion, Failure, SimEvent, check_process};
use super::executable::SimExecutable;
use super::fault::{CompileFault, Plan};
use super::launch::{Submission, panic_message};
use super::memory::{Exchange, HostMemory, Memory};
use super::parked::Parked;
use super::queue::{Queue, Receiver};
use crate::background::Background;
use crate::device::{
    Arg, BackendKind, Buffer, BufferRef, Capabilities, Counters, Device, DeviceId, DeviceRef, Event, Executable,
    ExecutableRef, Execution, HostBytes, Launch, MemoryStats,
};
use crate::error::{ErrorKind, HalError, Label};

/// A simulated TPU. Its thread starts with the first launch. Dropping it waits until its queue has drained; buffers may
/// outlive it.
pub struct SimDevice {
    core: Arc<Core>,
    compiler: Compiler,
    /// Where programs are compiled, unless on the thread that asks.
    background: Option<Background<CompileJob>>,
    thread: OnceLock<DeviceThread>,
    /// Held while the thread is started.
    starting: Mutex<()>,
    thread_name: String,
}

/// The device thread, in the process that started it.
struct DeviceThread {
    handle: JoinHandle<()>,
    process: u32,
}

/// What the device and its thread share.
pub(super) struct Core {
    id: DeviceId,
    capabilities: Capabilities,
    isa: Isa,
    arithmetic: Arithmetic,
    parallel: Option<Arc<dyn Parallel>>,
    kernel_timing: bool,
    memory: Arc<Memory>,
    queue: Queue<Command>,
    faults: Option<Plan>,
    lost: OnceLock<Arc<Failure>>,
    /// Failures in the order in which they came about, of which some may have been reported since.
    failures: Mutex<VecDeque<Arc<Failure>>>,
    /// The event of every upload.
    succeeded: Arc<SimEvent>,
    /// Programs compiled.
    pub(super) compiles: AtomicU64,
    launched: CachePadded<Launched>,
}

/// Counts that the device thread alone writes.
#[derive(Debug, Default)]
struct Launched {
    launches: AtomicU64,
    in_place: AtomicU64,
    busy_nanos: AtomicU64,
}

#[allow(clippy::large_enum_variant, reason = "nearly every command is a launch, and boxing it would allocate for each")]
enum Command {
    Launch(Submission),
    /// Everything before it has completed.
    Mark(Completion),
    /// A compile has ended, or the device is lost: parked launches are looked through.
    Wake,
    Stop,
}

/// Unreported failures that are kept; of a flood, the first ones tell why.
const FAILURES_KEPT: usize = 1024;

impl SimDevice {
    /// Opens a device.
    ///
    /// # Errors
    /// `config` asks for no thread at all; the system gives no thread.
    pub fn open(config: SimConfig) -> Result<DeviceRef, HalError> {
        let SimConfig { profile, memory_limit, threads, parallel, isa, kernel_timing, compiler, faults, thread_name } =
            config;
        let threads = parallel.as_ref().map_or(threads, |parallel| parallel.threads());
        if threads == 0 {
            return Err(HalError::new(ErrorKind::Unsupported, "a simulated device needs at least one thread"));
        }
        let isa = isa.unwrap_or_else(Isa::best);
        let core = Arc::new(Core {
            id: DeviceId::fresh(),
            capabilities: Capabilities {
                backend: BackendKind::Simulator,
                name: format!("simulated TPU ({profile})"),
                profile: profile.name().to_owned(),
                memory_limit,
                threads,
                isa: isa.name().to_owned(),
                static_shapes: compiler.static_shapes,
                background_compiles: compiler.threads > 0,
            },
            isa,
            arithmetic: profile.arithmetic(),
            parallel,
            kernel_timing,
            memory: Arc::new(Memory::new(memory_limit)),
            queue: Queue::new(),
            faults: Plan::new(faults),
            lost: OnceLock::new(),
            failures: Mutex::default(),
            succeeded: Arc::new(SimEvent::succeeded()),
            compiles: AtomicU64::new(0),
            launched: CachePadded::default(),
        });
        let background =
            (compiler.threads > 0).then(|| Background::new(compiler.threads, format!("{thread_name}-compiler")));
        let (thread, starting) = (OnceLock::new(), Mutex::new(()));
        Ok(Arc::new(SimDevice { core, compiler, background, thread, starting, thread_name }))
    }

    /// The process of the device thread, which is started if it is not there yet.
    fn start(&self) -> Result<u32, HalError> {
        if let Some(thread) = self.thread.get() {
            return Ok(thread.process);
        }
        let _starting = self.starting.lock();
        if let Some(thread) = self.thread.get() {
            return Ok(thread.process);
        }
        let core = self.core.clone();
        let handle = std::thread::Builder::new().name(self.thread_name.clone()).spawn(move || core.run());
        let handle = handle.map_err(|error| {
            HalError::new(ErrorKind::Unavailable, format!("no thread for a simulated device: {error}"))
        })?;
        let process = std::process::id();
        Ok(self.thread.get_or_init(|| DeviceThread { handle, process }).process)
    }

    /// The host memory that stands in for the device's, as the device thread sees it now.
    pub fn host_memory(&self) -> HostMemory {
        self.core.memory.blocks.totals()
    }

    fn own_buffer<'a>(&self, buffer: &'a BufferRef) -> Result<&'a SimBuffer, HalError> {
        let any: &dyn Any = &**buffer;
        let own = any.downcast_ref::<SimBuffer>().filter(|own| own.device() == self.core.id);
        let own = own.ok_or_else(|| invalid(format!("the buffer {} belongs to another device", buffer.ty())))?;
        if own.is_donated() {
            return Err(invalid(format!("the buffer {} was donated to an earlier launch", own.ty())));
        }
        Ok(own)
    }

    fn own_executable(&self, executable: &ExecutableRef) -> Result<Arc<SimExecutable>, HalError> {
        let any: Arc<dyn Any + Send + Sync> = executable.clone();
        any.downcast::<SimExecutable>()
            .ok()
            .filter(|own| own.device() == self.core.id)
            .ok_or_else(|| invalid(format!("the executable `{}` belongs to another device", executable.name())))
    }

    /// A buffer for `len` bytes that come from the host, which the ledger has been told of; its contents are to follow.
    /// Dropping it gives the bytes back.
    fn admit(&self, call: &str, ty: &TensorType, len: usize) -> Result<Arc<SimBuffer>, HalError> {
        let core = &*self.core;
        core.alive()?;
        if ty.checked_byte_len() != Some(len) {
            return Err(invalid(format!("{len} bytes are no {ty}")));
        }
        let refuse = core.faults.as_ref().is_some_and(|plan| plan.fails_allocation(1));
        core.memory
            .ledger
            .take(len as u64, refuse)
            .map_err(|shortage| HalError::out_of_memory(format_args!("no memory to {call} {ty}"), shortage))?;
        let storage = Storage::pending(len, core.succeeded.clone(), core.memory.clone());
        Ok(Arc::new(SimBuffer::new(core.id, ty.clone(), Arc::new(storage))))
    }

    /// Marks the donated arguments; the ledger still counts them.
    fn consume(&self, args: &[Arg]) -> Result<(), HalError> {
        for (n, arg) in args.iter().enumerate() {
            let Arg::Donated(buffer) = arg else { continue };
            if self.own_buffer(buffer).is_ok_and(SimBuffer::donate) {
                continue;
            }
            for arg in &args[..n] {
                if let Arg::Donated(buffer) = arg {
                    self.core.memory.ledger.give_back(buffer.ty().byte_len() as u64);
                }
            }
            return Err(invalid(format!("the buffer {} is donated twice at once", buffer.ty())));
        }
        Ok(())
    }

    /// Everything of `execute` but the label on errors: `label` is taken only where there is none.
    fn submit(
        &self,
        executable: &ExecutableRef,
        params: &[i64],
        scalars: &[u64],
        args: SmallVec<[Arg; 8]>,
        label: &mut Label,
    ) -> Result<Execution, HalError> {
        let core = &*self.core;
        core.alive()?;
        let executable = self.own_executable(executable)?;
        let program = executable.program();
        if args.len() != usize::from(program.inputs) || params.len() != usize::from(program.params) {
            return Err(invalid(format!("`{}` got other numbers of arguments than it takes", program.name)));
        }
        let mut storages: SmallVec<[Arc<Storage>; 8]> = SmallVec::new();
        for arg in &args {
            storages.push(self.own_buffer(arg.buffer())?.storage().clone());
        }
        let types = program.output_types(params);
        let process = self.start()?;

        let (takeovers, exchange) = plan_memory(executable.in_place(), &args, &storages, &types);
        self.consume(&args)?;
        let refuse = core.faults.as_ref().is_some_and(|plan| plan.fails_allocation(exchange.output_count));
        core.memory.ledger.exchange(exchange, refuse).map_err(|shortage| {
            HalError::out_of_memory(format_args!("no memory for the outputs of `{}`", program.name), shortage)
        })?;
        // The donated handles go now that the ledger knows; the storages live on in the submission.
        drop(args);

        if let (Some(background), Some(job)) = (&self.background, executable.newly_wanted()) {
            background.want(job);
        }
        let event = Arc::new(SimEvent::pending(process));
        let mut outputs: SmallVec<[Arc<Storage>; 4]> = SmallVec::new();
        let mut handles: SmallVec<[BufferRef; 4]> = SmallVec::new();
        for ty in types {
            let storage = Storage::pending(ty.byte_len(), event.clone(), core.memory.clone());
            let storage = Arc::new(storage);
            outputs.push(storage.clone());
            handles.push(Arc::new(SimBuffer::new(core.id, ty, storage)));
        }
        let execution = Execution { outputs: handles, done: event.clone() };
        core.queue.push(Command::Launch(Submission {
            executable,
            params: SmallVec::from_slice(params),
            scalars: SmallVec::from_slice(scalars),
            args: storages,
            takeovers,
            outputs,
            done: Completion::of(event),
            label: std::mem::take(label),
        }));
        Ok(execution)
    }
}

/// Which outputs take over a donated argument's memory, and what the launch does to the ledger. A function of the call
/// alone: whether the block really changes hands also needs that nobody kept a clone, which the ledger ignores.
fn plan_memory(
    in_place: &[(u16, u16)],
    args: &[Arg],
    storages: &[Arc<Storage>],
    types: &[TensorType],
) -> (SmallVec<[(u16, u16); 4]>, Exchange) {
    let mut exchange = Exchange { output_count: types.len() as u64, ..Exchange::default() };
    exchange.outputs = types.iter().map(|ty| ty.byte_len() as u64).sum();
    for (arg, storage) in args.iter().zip(storages) {
        if let Arg::Donated(_) = arg {
            exchange.donated += storage.bytes() as u64;
            exchange.donated_count += 1;
        }
    }
    let mut takeovers: SmallVec<[(u16, u16); 4]> = SmallVec::new();
    if exchange.donated_count > 0 {
        for &(input, output) in in_place {
            let (arg, bytes) = (usize::from(input), types[usize::from(output)].byte_len());
            let free = !takeovers.iter().any(|pair| pair.0 == input || pair.1 == output);
            if free && matches!(args[arg], Arg::Donated(_)) && storages[arg].bytes() == bytes {
                takeovers.push((input, output));
                exchange.taken_over += bytes as u64;
            }
        }
    }
    (takeovers, exchange)
}

fn invalid(message: String) -> HalError {
    HalError::new(ErrorKind::InvalidProgram, message)
}

impl Core {
    /// The device thread.
    fn run(&self) {
        let pool: Arc<dyn Parallel> = match (&self.parallel, self.capabilities.threads) {
            (Some(parallel), _) => parallel.clone(),
            (None, 1) => Arc::new(Inline),
            (None, threads) => Arc::new(Pool::new(threads)),
        };
        let (mut receiver, mut number, mut parked) = (self.queue.receiver(), 0, Parked::default());
        // A panic of a program is the program's; one that arrives here is ours. The command in hand failed its event
        // when it was dropped; whoever waits for the others must not wait for ever.
        while let Err(panic) =
            catch_unwind(AssertUnwindSafe(|| self.serve(&*pool, &mut receiver, &mut number, &mut parked)))
        {
            let message = format!("the device thread panicked: {}", panic_message(&*panic));
            self.note_failure(&Failure::new(number, HalError::new(ErrorKind::DeviceLost, message)));
        }
    }

    fn serve(&self, pool: &dyn Parallel, receiver: &mut Receiver<'_, Command>, number: &mut u64, parked: &mut Parked) {
        loop {
            match receiver.pop() {
                Command::Launch(submission) => {
                    let launch = *number;
                    *number += 1;
                    if parked.lets_pass(&submission, self) {
                        submission.run(self, pool, launch);
                    } else {
                        parked.park(launch, submission);
                    }
                }
                Command::Mark(completion) => parked.mark(*number, completion),
                Command::Wake => parked.run(self, pool),
                Command::Stop => return parked.abandon(self, pool),
            }
        }
    }

    pub(super) fn id(&self) -> DeviceId {
        self.id
    }

    pub(super) fn arithmetic(&self) -> Arithmetic {
        self.arithmetic
    }

    pub(super) fn isa(&self) -> Isa {
        self.isa
    }

    /// Has the device thread look through the parked launches.
    pub(super) fn wake(&self) {
        self.queue.push(Command::Wake);
    }

    pub(super) fn alive(&self) -> Result<(), HalError> {
        self.lost.get().map_or(Ok(()), |failure| Err(failure.error.clone()))
    }

    /// Why the device is lost, if it is.
    pub(super) fn lost(&self) -> Option<&Arc<Failure>> {
        self.lost.get()
    }

    pub(super) fn memory(&self) -> &Memory {
        &self.memory
    }

    pub(super) fn faults(&self) -> Option<&Plan> {
        self.faults.as_ref()
    }

    pub(super) fn kernel_timing(&self) -> bool {
        self.kernel_timing
    }

    /// Counts a program that ran. On the device thread.
    pub(super) fn note_launch(&self, in_place: u64, busy: Option<Duration>) {
        let add = |count: &AtomicU64, n: u64| count.store(count.load(Ordering::Relaxed) + n, Ordering::Relaxed);
        add(&self.launched.launches, 1);
        add(&self.launched.in_place, in_place);
        if let Some(busy) = busy {
            add(&self.launched.busy_nanos, busy.as_nanos() as u64);
        }
    }

    /// Remembers a launch that failed by itself. On the device thread.
    pub(super) fn note_failure(&self, failure: &Arc<Failure>) {
        tracing::warn!(launch = failure.launch, error = %failure.error, "launch failed");
        if failure.error.kind() == ErrorKind::DeviceLost {
            self.lost.get_or_init(|| failure.clone());
            // Nothing has to wait any more: it all fails.
            self.wake();
            return;
        }
        let mut failures = self.failures.lock();
        if failures.len() == FAILURES_KEPT {
            failures.retain(|failure| !failure.is_reported());
        }
        if failures.len() < FAILURES_KEPT {
            failures.push_back(failure.clone());
        }
    }

    fn take_unreported(&self) -> Option<Arc<Failure>> {
        let mut failures = self.failures.lock();
        failures.retain(|failure| !failure.is_reported());
        let earliest = (0..failures.len()).min_by_key(|&at| failures[at].launch)?;
        failures.remove(earliest)
    }
}

impl Device for SimDevice {
    fn id(&self) -> DeviceId {
        self.core.id
    }

    fn capabilities(&self) -> &Capabilities {
        &self.core.capabilities
    }

    fn upload(&self, ty: &TensorType, bytes: &[u8]) -> Result<BufferRef, HalError> {
        let buffer = self.admit("upload", ty, bytes.len())?;
        let block = self.core.memory.blocks.take(bytes.len());
        let mut block =
            block.map_err(|error| HalError::new(ErrorKind::OutOfMemory, format!("upload of {ty}: {error}")))?;
        block.bytes_mut().copy_from_slice(bytes);
        buffer.storage().fill(Contents::Block(block));
        Ok(buffer)
    }

    fn import(&self, ty: &TensorType, memory: HostBytes) -> Result<BufferRef, HalError> {
        let bytes = (*memory).as_ref();
        if !bytes.as_ptr().addr().is_multiple_of(ty.dtype.size()) {
            return self.upload(ty, bytes);
        }
        let buffer = self.admit("import", ty, bytes.len())?;
        buffer.storage().fill(Contents::Host(memory));
        Ok(buffer)
    }

    fn export(&self, buffer: &BufferRef) -> Result<HostBytes, HalError> {
        self.core.alive()?;
        let storage = self.own_buffer(buffer)?.storage();
        storage.event().wait()?;
        Ok(storage.clone())
    }

    fn download(&self, buffer: &BufferRef, bytes: &mut [u8]) -> Result<(), HalError> {
        self.core.alive()?;
        let storage = self.own_buffer(buffer)?.storage();
        if bytes.len() != storage.bytes() {
            return Err(invalid(format!("{} bytes asked of a {}", bytes.len(), buffer.ty())));
        }
        storage.event().wait()?;
        bytes.copy_from_slice(storage.contents());
        Ok(())
    }

    fn compile(&self, program: Program) -> Result<ExecutableRef, HalError> {
        let core = &self.core;
        core.alive()?;
        self.compiler.check(&program)?;
        let fault = core.faults.as_ref().map_or_else(CompileFault::default, |plan| plan.compile(&program));
        let executable = match &self.background {
            Some(background) => self.compiler.compile_later(core, background, program, fault)?,
            None => SimExecutable::compiled(core.id, self.compiler.compile(core, program, fault)?),
        };
        Ok(Arc::new(executable))
    }

    fn execute(&self, executable: &ExecutableRef, launch: Launch<'_>) -> Result<Execution, HalError> {
        let Launch { params, scalars, args, mut label } = launch;
        self.submit(executable, params, scalars, args, &mut label).map_err(|error| error.with_label(&label))
    }

    fn synchronize(&self) -> Result<(), HalError> {
        // Without a thread nothing was submitted.
        if let Some(thread) = self.thread.get() {
            check_process(thread.process)?;
            let mark = Arc::new(SimEvent::pending(thread.process));
            self.core.queue.push(Command::Mark(Completion::of(mark.clone())));
            mark.wait()?;
        }
        self.core.alive()?;
        self.core.take_unreported().map_or(Ok(()), |failure| Err(failure.report()))
    }

    fn memory_stats(&self) -> MemoryStats {
        self.core.memory.ledger.stats()
    }

    fn counters(&self) -> Counters {
        let Launched { launches, in_place, busy_nanos } = &*self.core.launched;
        Counters {
            compiles: self.core.compiles.load(Ordering::Relaxed),
            compiling: self.background.as_ref().map_or(0, |background| background.depth() as u64),
            launches: launches.load(Ordering::Relaxed),
            in_place: in_place.load(Ordering::Relaxed),
            busy: Duration::from_nanos(busy_nanos.load(Ordering::Relaxed)),
        }
    }
}

impl Drop for SimDevice {
    fn drop(&mut self) {
        if let Some(background) = &self.background {
            background.close();
        }
        let Some(DeviceThread { handle, process }) = self.thread.take() else { return };
        // In a forked process there is no such thread to stop, and perhaps a lock that it held.
        if check_process(process).is_err() {
            return;
        }
        self.core.queue.push(Command::Stop);
        // A label may own the last handle and is dropped by the device thread, which cannot wait for itself.
        if handle.thread().id() != std::thread::current().id() && handle.join().is_err() {
            tracing::error!("the device thread of {} panicked", self.core.capabilities.name);
        }
    }
}

impl fmt::Debug for SimDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimDevice").field("id", &self.core.id).field("capabilities", &self.core.capabilities).finish()
    }
}
