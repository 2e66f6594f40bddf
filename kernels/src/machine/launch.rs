//! A launch: arguments checked against the program, extents known, accesses resolved to strides.
//!
//! [`Resolved`] is all that follows from the launch parameters and the number of threads. A loop launches the same
//! program with the same parameters again and again, so a machine keeps the arithmetic of its last launch; nothing else
//! about a launch is kept, and a result cannot depend on whether it was.

use smallvec::SmallVec;

use crate::contract::PackedRhs;
use crate::memory::{Block, Grid, Partition};
use crate::parallel::Parallel;
use crate::program::{Program, Vary};

use super::Input;
use super::error::RunError;
use super::placement::Overlaid;
use super::prepare::Prepared;
use super::tiling::Walk;

/// Offsets that are worth keeping between launches; more take no time to compute beside the contraction they are for.
const KEPT_OFFSETS: usize = 4096;

/// An access with its strides along the launch's axes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    /// Element offset at index 0.
    pub(crate) base: i64,
    /// Strides along [`Grid::outer`].
    pub(crate) outer: &'a [i64],
    /// Strides along [`Grid::rows`].
    pub(crate) rows: &'a [i64],
    /// Strides along [`Grid::cols`].
    pub(crate) cols: &'a [i64],
    /// Strides along the contracted axes.
    pub(crate) contract: &'a [i64],
    /// Tile axes along which it moves in this launch.
    pub(crate) vary: Vary,
    /// Whether it stays in bounds; only a launch over an empty domain may have others.
    pub(crate) readable: bool,
}

/// The part of a [`View`] that is not strides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Anchor {
    pub(crate) base: i64,
    pub(crate) vary: Vary,
    pub(crate) readable: bool,
}

/// Strides of all accesses along the merged axes, which are ordered outer, rows, columns, contracted.
#[derive(Debug, Default)]
pub(crate) struct Views {
    pub(crate) anchors: SmallVec<[Anchor; 8]>,
    /// A row per access.
    pub(crate) strides: SmallVec<[i64; 32]>,
    /// Where the rows, the columns and the contracted axes start, and how many axes there are.
    pub(crate) splits: [usize; 4],
}

impl Views {
    /// Number of accesses.
    pub(crate) fn len(&self) -> usize {
        self.anchors.len()
    }

    /// An access.
    #[inline(always)]
    pub(crate) fn get(&self, access: usize) -> View<'_> {
        let Anchor { base, vary, readable } = self.anchors[access];
        let [rows, cols, contract, width] = self.splits;
        let strides = &self.strides[access * width..(access + 1) * width];
        View {
            base,
            outer: &strides[..rows],
            rows: &strides[rows..cols],
            cols: &strides[cols..contract],
            contract: &strides[contract..],
            vary,
            readable,
        }
    }
}

/// Offsets of a contraction's operands.
#[derive(Debug)]
pub(crate) struct DotOffsets {
    /// Along the contracted index, in lhs.
    pub(crate) lhs_contract: Vec<i64>,
    /// Along the contracted index, in rhs.
    pub(crate) rhs_contract: Vec<i64>,
    /// Along all columns, in rhs.
    pub(crate) rhs_free: Vec<i64>,
    /// Whether the rows are few enough to be what is packed.
    pub(crate) few: bool,
}

/// What follows from launch parameters.
#[derive(Debug)]
pub(crate) struct Resolved {
    /// The parameters.
    pub(crate) params: SmallVec<[i64; 8]>,
    /// Threads and grain of the pool that it was cut for.
    pub(crate) pool: (usize, usize),
    /// Bytes of each buffer.
    pub(crate) lens: SmallVec<[usize; 8]>,
    /// Whether the domain has no points.
    pub(crate) empty: bool,
    pub(crate) partition: Partition,
    pub(crate) walk: Walk,
    /// Threads to use.
    pub(crate) threads: usize,
    /// One per [`Prepared::affine`].
    pub(crate) views: Views,
    /// Variation of each register in this launch.
    pub(crate) vary: SmallVec<[Vary; 16]>,
    /// Steps that do not change from row to row and are run ahead of the others, and the others.
    pub(crate) ahead: SmallVec<[u16; 16]>,
    pub(crate) by_row: SmallVec<[u16; 16]>,
    /// One per overlay.
    pub(crate) overlays: SmallVec<[Overlaid; 1]>,
    /// For each gather's component: the greatest index that does not clamp, and the stride.
    pub(crate) components: SmallVec<[(i64, i64); 1]>,
    pub(crate) dot: Option<DotOffsets>,
}

impl Resolved {
    /// The index space.
    #[inline(always)]
    pub(crate) fn grid(&self) -> &Grid {
        self.partition.grid()
    }

    /// The offsets of the contraction.
    pub(crate) fn dot_offsets(&self) -> &DotOffsets {
        self.dot.as_ref().expect("a program with a dot resolves its operands")
    }

    /// Whether it is what these parameters and this pool give.
    pub(crate) fn is_for(&self, params: &[i64], pool: &dyn Parallel) -> bool {
        self.params.as_slice() == params && self.pool == (pool.threads(), pool.grain())
    }

    /// Whether it is small enough to be kept.
    pub(crate) fn is_small(&self) -> bool {
        self.dot.as_ref().is_none_or(|dot| dot.lhs_contract.len() + dot.rhs_free.len() <= KEPT_OFFSETS)
    }
}

/// A launch.
#[derive(Debug)]
pub(crate) struct Launch<'l> {
    pub(crate) resolved: &'l Resolved,
    pub(crate) inputs: &'l [Input<'l>],
    pub(crate) scalars: &'l [u64],
    /// Which outputs share their memory with an input.
    pub(crate) shared: SmallVec<[bool; 4]>,
    /// The packed right operand of the contraction, where there is one outer index.
    pub(crate) packed: Option<&'l PackedRhs>,
}

impl<'l> Launch<'l> {
    /// A launch with these arguments, whose numbers were checked.
    pub(crate) fn new(
        prepared: &Prepared,
        resolved: &'l Resolved,
        scalars: &'l [u64],
        inputs: &'l [Input<'l>],
        outputs: &[&mut Block],
    ) -> Result<Self, RunError> {
        let mut shared: SmallVec<[bool; 4]> = SmallVec::new();
        shared.resize(outputs.len(), false);
        for (n, &len) in resolved.lens.iter().enumerate() {
            let given = match inputs.get(n) {
                None => outputs[n - inputs.len()].len(),
                Some(Input::Bytes(bytes)) => bytes.len(),
                Some(Input::Output(output)) => {
                    if !prepared.in_place.contains(&(n as u16, *output)) {
                        let reason = format!("input {n} cannot share memory with output {output}");
                        return Err(RunError::arguments(reason));
                    }
                    shared[usize::from(*output)] = true;
                    len
                }
            };
            if given != len {
                let reason = format!("buffer {n} has {given} bytes where {len} are needed");
                return Err(RunError::arguments(reason));
            }
        }
        Ok(Launch { resolved, inputs, scalars, shared, packed: None })
    }
}

/// Checks the numbers of arguments.
pub(crate) fn check_counts(
    program: &Program,
    params: &[i64],
    scalars: &[u64],
    inputs: &[Input<'_>],
    outputs: &[&mut Block],
) -> Result<(), RunError> {
    let counts = [
        ("parameters", params.len(), usize::from(program.params)),
        ("scalars", scalars.len(), program.scalars.len()),
        ("inputs", inputs.len(), usize::from(program.inputs)),
        ("outputs", outputs.len(), program.outputs().len()),
    ];
    for (what, given, expected) in counts {
        if given != expected {
            return Err(RunError::arguments(format!("{given} {what} where `{}` takes {expected}", program.name)));
        }
    }
    Ok(())
}
