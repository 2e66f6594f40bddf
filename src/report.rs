//! Why each cut was made and each plan built, as data.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use systole_fusion::cache::CacheStats;
use systole_fusion::canonical::Difference;
use systole_fusion::ir::Origin;
use systole_hal::MemoryStats;

/// Why a pending trace was cut.
///
/// While one thread records into a stream and alone reads its pending values, every reason follows from that thread's
/// program order. A read or use of a *pending* value by another thread cuts where it meets the stream, as it must; flush
/// before handing pending values over, and cuts are deterministic there too.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CutReason {
    /// The mode runs ops one by one.
    OneByOne,
    /// A value was read at this line.
    Read(Origin),
    /// The stream was synchronized at this line.
    Synchronize(Origin),
    /// The stream was flushed at this line.
    Flush(Origin),
    /// The trace had this many ops, the most that it may at this point of the stream.
    Ops(usize),
    /// The trace's values came to this many bytes, at or above the bound.
    Bytes(u64),
    /// Another stream used a pending value at this line.
    UsedBy(Origin),
    /// The stream was dropped.
    Closed,
}

impl fmt::Display for CutReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CutReason::OneByOne => f.write_str("ops run one by one in this mode"),
            CutReason::Read(origin) => write!(f, "a value was read at {origin}"),
            CutReason::Synchronize(origin) => write!(f, "synchronized at {origin}"),
            CutReason::Flush(origin) => write!(f, "flushed at {origin}"),
            CutReason::Ops(ops) => write!(f, "the trace reached its bound of {ops} ops"),
            CutReason::Bytes(bytes) => write!(f, "the trace's values came to {bytes} bytes"),
            CutReason::UsedBy(origin) => {
                write!(f, "another stream used a pending value at {origin}")
            }
            CutReason::Closed => f.write_str("the stream was dropped"),
        }
    }
}

/// Where the plan for a cut came from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PlanSource {
    /// Nothing was observed, so nothing was planned.
    Nothing,
    /// The plan was known.
    Cached,
    /// The plan was built.
    Built(Arc<Build>),
}

/// What building a plan brought about, and why no plan that there was would do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Build {
    /// The plan's programs, in the order of their launches.
    pub programs: Vec<ProgramReport>,
    /// What is different from the nearest plan known, of those used last; `None` where the device knew none.
    pub difference: Option<KeyDifference>,
}

impl Build {
    /// Programs that were new to the device: the others were known from other plans.
    pub fn new_programs(&self) -> usize {
        self.programs.iter().filter(|program| program.new).count()
    }
}

/// One program of a plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProgramReport {
    /// Mnemonics of its ops, joined by `+`.
    pub name: String,
    /// Whether it was new to the device.
    pub new: bool,
    /// Where its last op was recorded.
    pub origin: Origin,
}

/// A program that a cut gave to the compiler, for one of the plan's launches or for one of their ops.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompileReport {
    /// Mnemonics of its ops, joined by `+`.
    pub name: String,
    /// The launch parameters that it was built for, extents mostly, on a device of static shapes; `None` where it takes
    /// any.
    pub extents: Option<Vec<i64>>,
    /// Where its last op was recorded.
    pub origin: Origin,
}

/// `add for [8, 384]`
impl fmt::Display for CompileReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        match &self.extents {
            Some(extents) => write!(f, " for {extents:?}"),
            None => Ok(()),
        }
    }
}

/// Where two keys part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyDifference {
    /// The first part in which they differ, this trace's on the left.
    pub part: Difference,
    /// Where the op in question was recorded, where the part is an op's.
    pub origin: Option<Origin>,
}

/// `result type of node 3 (add): f32[1, p0] / f32[p0, p1], recorded at src/main.rs:12:9`
impl fmt::Display for KeyDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.part)?;
        match &self.origin {
            Some(origin) => write!(f, ", recorded at {origin}"),
            None => Ok(()),
        }
    }
}

/// One cut: what was recorded, why it ended, and what was made of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlushReport {
    /// The stream, numbered per device in order of creation.
    pub stream: u64,
    /// Number of the cut within its stream, from 0.
    pub sequence: u64,
    /// Why the trace ended here.
    pub reason: CutReason,
    /// Ops recorded.
    pub ops: usize,
    /// Where the first of them was recorded.
    pub first: Origin,
    /// Where the last of them was recorded.
    pub last: Origin,
    /// Values that were still observed, and so computed.
    pub outputs: usize,
    /// Fingerprint of the canonical key; 0 where nothing was planned.
    pub key: u64,
    /// Cached or built.
    pub plan: PlanSource,
    /// Programs submitted.
    pub launches: usize,
    /// Programs given to the compiler, in order; those of the plan's launches that were known are not among them.
    pub compiled: Vec<CompileReport>,
    /// Fused programs whose ops ran one by one instead: they were still being compiled, could not be, or found no memory.
    pub op_by_op: usize,
    /// Launches submitted before their program was compiled: they wait for it, and what depends on them does.
    pub waiting: usize,
    /// Unique buffer bytes that the plan's launches read and write, summed.
    pub bytes_moved: u64,
    /// Peak bytes of the plan's own buffers.
    pub peak_bytes: u64,
}

/// Totals of a device since it was opened.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Ops recorded in traces that were cut; pending ones count when they are.
    pub ops: u64,
    /// Traces cut.
    pub cuts: u64,
    /// Programs submitted to the device queue.
    pub launches: u64,
    /// Unique buffer bytes read and written per launch, summed.
    pub bytes_moved: u64,
    /// The plan cache.
    pub plans: CacheStats,
    /// The program cache, keyed by fusion group, and by extents too on a device of static shapes. A build is a program
    /// given to the compiler.
    pub programs: CacheStats,
    /// Programs that are being compiled in the background.
    pub compiling: u64,
    /// Fused programs whose ops ran one by one instead; see [`FlushReport::op_by_op`].
    pub op_by_op: u64,
    /// Launches submitted before their program was compiled; see [`FlushReport::waiting`].
    pub waiting: u64,
    /// Device memory.
    pub memory: MemoryStats,
    /// Time inside kernels; zero unless [`Config::kernel_timing`](crate::Config::kernel_timing) is set.
    pub kernel_time: Duration,
}
