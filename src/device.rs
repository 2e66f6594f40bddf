//! Devices as users hold them: a backend, its caches, its totals.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use systole_fusion::cache::PlanCache;
use systole_fusion::ir::Origin;
use systole_hal::sim::{Profile, SimConfig, SimDevice};
use systole_hal::{BufferRef, Capabilities, DeviceRef, HostBytes, Validated};
use systole_kernels::TensorType;

use crate::bound::{self, BoundPlan, Parts, Programs};
use crate::config::{Config, Mode};
use crate::error::{Error, Result};
use crate::report::{FlushReport, Stats};
use crate::stream;

/// A device. Clones are handles to the same one.
pub struct Device(Arc<DeviceInner>);

pub(crate) struct DeviceInner {
    id: u64,
    hal: DeviceRef,
    config: Config,
    mode: AtomicU8,
    pub(crate) plans: PlanCache<BoundPlan>,
    pub(crate) parts: Parts,
    pub(crate) programs: Programs,
    reports: Mutex<VecDeque<FlushReport>>,
    streams: AtomicU64,
    /// The user's `Device`s; when the last is dropped, so is the calling thread's own stream.
    handles: AtomicUsize,
    pub(crate) totals: Totals,
}

/// Running totals; each is written by recording threads and read by [`Device::stats`].
#[derive(Default)]
pub(crate) struct Totals {
    pub(crate) ops: AtomicU64,
    pub(crate) cuts: AtomicU64,
    pub(crate) launches: AtomicU64,
    pub(crate) bytes_moved: AtomicU64,
    pub(crate) op_by_op: AtomicU64,
    pub(crate) waiting: AtomicU64,
}

/// More threads than any one machine has cores; past it a number is a mistake.
const MAX_THREADS: usize = 1024;

static NEXT_DEVICE_ID: AtomicU64 = AtomicU64::new(0);

impl Device {
    /// A simulated TPU of profile `ieee`, with default settings.
    ///
    /// # Errors
    /// The host cannot start the device's threads.
    #[track_caller]
    pub fn simulator() -> Result<Self> {
        Device::open(Config::default())
    }

    /// Opens a device.
    ///
    /// # Errors
    /// No such profile (the error lists those there are), or the host cannot start the device's threads.
    #[track_caller]
    pub fn open(config: Config) -> Result<Self> {
        let origin = Origin::caller();
        let profile: Profile = config
            .profile
            .parse()
            .map_err(|error: systole_hal::HalError| Error::argument(origin.clone(), error.message()))?;
        if !(1..=MAX_THREADS).contains(&config.threads) {
            let reason = format!("a device has 1 to {MAX_THREADS} threads, not {}", config.threads);
            return Err(Error::argument(origin, reason));
        }
        let sim = SimConfig {
            memory_limit: config.memory_limit.unwrap_or(profile.memory_limit()),
            profile,
            threads: config.threads,
            parallel: config.parallel.clone(),
            isa: config.isa,
            kernel_timing: config.kernel_timing,
            compiler: config.compiler,
            faults: config.faults.clone(),
            thread_name: String::from("systole-device"),
        };
        let mut hal = SimDevice::open(sim).map_err(|error| Error::from_hal(&error, None, Vec::new(), origin))?;
        if config.validate {
            hal = Arc::new(Validated::new(hal));
        }
        Ok(Device(Arc::new(DeviceInner {
            id: NEXT_DEVICE_ID.fetch_add(1, Ordering::Relaxed),
            hal,
            mode: AtomicU8::new(config.mode as u8),
            plans: PlanCache::new(config.plan_capacity),
            parts: PlanCache::new(config.plan_capacity),
            programs: PlanCache::new(config.plan_capacity.saturating_mul(4)),
            reports: Mutex::new(VecDeque::new()),
            streams: AtomicU64::new(0),
            handles: AtomicUsize::new(1),
            totals: Totals::default(),
            config,
        })))
    }

    /// Names of the numeric profiles that [`Config::profile`] may name.
    pub fn profiles() -> Vec<&'static str> {
        Profile::ALL.iter().map(|profile| profile.name()).collect()
    }

    pub(crate) fn from_inner(inner: Arc<DeviceInner>) -> Self {
        inner.handles.fetch_add(1, Ordering::Relaxed);
        Device(inner)
    }

    pub(crate) fn inner(&self) -> &Arc<DeviceInner> {
        &self.0
    }

    /// What the device is.
    pub fn capabilities(&self) -> &Capabilities {
        self.0.hal.capabilities()
    }

    /// Mode for ops that are recorded outside [`with_mode`](crate::with_mode).
    pub fn mode(&self) -> Mode {
        self.0.mode()
    }

    /// Sets the mode for ops recorded from now on.
    pub fn set_mode(&self, mode: Mode) {
        self.0.mode.store(mode as u8, Ordering::Relaxed);
    }

    /// Totals since the device was opened.
    pub fn stats(&self) -> Stats {
        let totals = &self.0.totals;
        let counters = self.0.hal.counters();
        Stats {
            ops: totals.ops.load(Ordering::Relaxed),
            cuts: totals.cuts.load(Ordering::Relaxed),
            launches: totals.launches.load(Ordering::Relaxed),
            bytes_moved: totals.bytes_moved.load(Ordering::Relaxed),
            plans: self.0.plans.stats(),
            programs: self.0.programs.stats(),
            compiling: counters.compiling,
            op_by_op: totals.op_by_op.load(Ordering::Relaxed),
            waiting: totals.waiting.load(Ordering::Relaxed),
            memory: self.0.hal.memory_stats(),
            kernel_time: counters.busy,
        }
    }

    /// The latest cuts, oldest first; at most [`Config::report_capacity`] of them.
    pub fn reports(&self) -> Vec<FlushReport> {
        self.0.reports.lock().iter().cloned().collect()
    }

    /// Forgets every plan and program, as if the device had just been opened.
    pub fn clear_caches(&self) {
        self.0.plans.clear();
        self.0.parts.clear();
        self.0.programs.clear();
    }
}

impl Clone for Device {
    fn clone(&self) -> Self {
        Device::from_inner(self.0.clone())
    }
}

/// With the last handle goes the calling thread's own stream of the device, which would otherwise keep it open until
/// the thread ends. Tensors keep the device; other threads' own streams do until those threads end.
impl Drop for Device {
    fn drop(&mut self) {
        if self.0.handles.fetch_sub(1, Ordering::AcqRel) == 1 {
            stream::forget(&self.0);
        }
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Device {}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.describe())
    }
}

impl DeviceInner {
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn hal(&self) -> &DeviceRef {
        &self.hal
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn describe(&self) -> String {
        format!("device {} ({})", self.id, self.hal.capabilities().name)
    }

    pub(crate) fn mode(&self) -> Mode {
        Mode::ALL[usize::from(self.mode.load(Ordering::Relaxed))]
    }

    pub(crate) fn next_stream_id(&self) -> u64 {
        self.streams.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn report(&self, report: FlushReport) {
        let capacity = self.config.report_capacity;
        if capacity == 0 {
            return;
        }
        let mut reports = self.reports.lock();
        if reports.len() == capacity {
            reports.pop_front();
        }
        reports.push_back(report);
    }

    pub(crate) fn import(&self, ty: &TensorType, memory: HostBytes, origin: &Origin) -> Result<BufferRef> {
        self.hal.import(ty, memory).map_err(|error| Error::from_hal(&error, None, vec![ty.clone()], origin.clone()))
    }

    /// Waits for a value's buffer and lends its contents.
    pub(crate) fn export(&self, buffer: &BufferRef, origin: &Origin) -> Result<HostBytes> {
        self.hal.export(buffer).map_err(|error| bound::blame(&error, origin))
    }

    pub(crate) fn upload(&self, ty: &TensorType, bytes: &[u8], origin: &Origin) -> Result<BufferRef> {
        self.hal.upload(ty, bytes).map_err(|error| Error::from_hal(&error, None, vec![ty.clone()], origin.clone()))
    }

    /// Waits for a value's buffer and copies it; a failure is blamed on the op that failed first.
    pub(crate) fn download(&self, ty: &TensorType, buffer: &BufferRef, origin: &Origin) -> Result<Vec<u8>> {
        // The failure of the value comes before the want of room for it.
        buffer.ready().wait().map_err(|error| bound::blame(&error, origin))?;
        let mut bytes = host_room(ty, ty.byte_len(), origin)?;
        bytes.resize(ty.byte_len(), 0);
        self.hal.download(buffer, &mut bytes).map_err(|error| bound::blame(&error, origin))?;
        Ok(bytes)
    }

    pub(crate) fn wait(&self, origin: &Origin) -> Result<()> {
        self.hal.synchronize().map_err(|error| bound::blame(&error, origin))
    }
}

/// Room on the host for `len` elements read from a tensor.
pub(crate) fn host_room<T>(ty: &TensorType, len: usize, origin: &Origin) -> Result<Vec<T>> {
    let mut room = Vec::new();
    room.try_reserve_exact(len).map_err(|_| Error::host_out_of_memory(ty, origin.clone()))?;
    Ok(room)
}
