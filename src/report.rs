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
    /// The plan was built; so many of its programs were new to the device.
    Built {
        /// Programs compiled.
        programs: usize,
        /// The first part in which the key differs from the nearest one known, of those used last; `None` where the
        /// device knew none.
        differs: Option<Arc<Difference>>,
    },
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
    /// Values that were still observed, and so computed.
    pub outputs: usize,
    /// Fingerprint of the canonical key; 0 where nothing was planned.
    pub key: u64,
    /// Cached or built.
    pub plan: PlanSource,
    /// Programs submitted.
    pub launches: usize,
    /// Unique buffer bytes read and written per launch, summed.
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
    /// The program cache, keyed by fusion group.
    pub programs: CacheStats,
    /// Device memory.
    pub memory: MemoryStats,
    /// Time inside kernels; zero unless [`Config::kernel_timing`](crate::Config::kernel_timing) is set.
    pub kernel_time: Duration,
}
