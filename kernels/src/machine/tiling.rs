//! How a launch is cut into units and blocks: a pure function of extents.
//!
//! A *unit* is what one thread claims; it spans rows and columns of one outer index. A unit is walked in *blocks*, and
//! each instruction runs over a block as one vector loop, so a block should be large enough to hide what an instruction
//! costs to dispatch, and its registers small enough to stay in the first two cache levels. None of this can change a
//! result.

use crate::program::ReduceAlong;
use crate::reduce::{COL_LANES, ROW_LANES};

/// Elements of a register that dispatch is hidden behind and the first cache level holds a few of.
const BLOCK: usize = 4096;
/// Elements of a register where tiles have to be large: a reduced row or column that several stages need is kept rather
/// than streamed again, up to what the second cache level holds a few of.
const KEPT: usize = 32768;
/// The narrowest unit whose rows are reduced while they are kept: a cache line.
const LINE: usize = 16;
/// Side of a block where rows run along memory on one side and columns on the other.
const SQUARE: usize = 64;
/// Columns of a unit that streams rows.
const STRIP: usize = 512;
/// Rows and columns of a contraction's block.
const DOT_ROWS: usize = 64;
const DOT_COLS: usize = 512;
/// Elements of a right operand that should be packed at a time.
const PACKED: usize = 1 << 18;
/// Units per thread, so that threads which finish early find more.
const SHARE: usize = 4;

/// What the cut depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question {
    pub(crate) outer: usize,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) along: Option<ReduceAlong>,
    /// Stages that read what is reduced.
    pub(crate) stages: usize,
    /// The contracted extent, if there is a contraction.
    pub(crate) dot: Option<usize>,
    /// Whether some access runs along memory by rows, not by columns.
    pub(crate) transposed: bool,
    /// Threads that share the work; 1 where it is not worth more.
    pub(crate) threads: usize,
    /// Large registers.
    pub(crate) registers: usize,
}

/// How a unit is walked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Walk {
    /// In blocks of so many rows and all columns of the unit; reductions lie within a block.
    Blocks(usize),
    /// In chunks of the reduced index of so many columns or rows, once per stage.
    Stream(usize),
}

/// The cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tiling {
    pub(crate) unit_rows: usize,
    pub(crate) unit_cols: usize,
    pub(crate) walk: Walk,
}

/// Decides the cut.
pub(crate) fn tiling(question: &Question) -> Tiling {
    let &Question { rows, cols, along, dot, .. } = question;
    let (rows, cols) = (rows.max(1), cols.max(1));
    match along {
        Some(ReduceAlong::Rows) => along_rows(question, rows, cols),
        Some(ReduceAlong::Cols) if dot.is_none() && cols > KEPT => {
            Tiling { unit_rows: 1, unit_cols: cols, walk: Walk::Stream(BLOCK.next_multiple_of(COL_LANES)) }
        }
        Some(ReduceAlong::Cols) => {
            let block = if dot.is_some() { (KEPT / cols).clamp(8, DOT_ROWS) } else { (BLOCK / cols).max(1) };
            in_blocks(question, block.min(rows), cols)
        }
        None if let Some(depth) = dot => {
            let width = (PACKED / depth.max(1)).clamp(2 * SQUARE, DOT_COLS);
            in_blocks(question, DOT_ROWS.min(rows), even(cols, width))
        }
        None if question.transposed => in_blocks(question, SQUARE.min(rows), SQUARE.min(cols)),
        None => {
            let target = if question.registers > 8 { BLOCK / 2 } else { BLOCK };
            let width = even(cols, target);
            in_blocks(question, (target / width).clamp(1, rows), width)
        }
    }
}

/// The width of parts of at most `limit` columns that are equally wide and start at cache lines.
fn even(cols: usize, limit: usize) -> usize {
    if cols <= limit { cols } else { cols.div_ceil(cols.div_ceil(limit)).next_multiple_of(64) }
}

/// Units of all rows, or of a thread's share of them, in blocks of `block` rows.
fn in_blocks(question: &Question, block: usize, width: usize) -> Tiling {
    let rows = question.rows.max(1);
    let others = question.outer.max(1).saturating_mul(question.cols.max(1).div_ceil(width));
    let parts = if question.threads > 1 { (question.threads * SHARE).div_ceil(others) } else { 1 };
    let unit_rows = rows.div_ceil(parts).next_multiple_of(block);
    Tiling { unit_rows, unit_cols: width, walk: Walk::Blocks(block) }
}

fn along_rows(question: &Question, rows: usize, cols: usize) -> Tiling {
    let share = if question.threads > 1 {
        let parts = (question.threads * SHARE).div_ceil(question.outer.max(1));
        cols.div_ceil(parts).next_multiple_of(16)
    } else {
        cols
    };
    let kept = KEPT / rows;
    if question.dot.is_some() {
        return Tiling { unit_rows: rows, unit_cols: kept.max(SQUARE).min(share).min(cols), walk: Walk::Blocks(rows) };
    }
    if kept >= cols || (question.stages > 1 && kept >= LINE) {
        let unit_cols = (kept / LINE * LINE).clamp(1, STRIP).max(if kept >= cols { cols } else { 1 });
        return Tiling { unit_rows: rows, unit_cols: unit_cols.min(share).min(cols), walk: Walk::Blocks(rows) };
    }
    let unit_cols = STRIP.min(share).min(cols);
    let chunk = (BLOCK / unit_cols / ROW_LANES * ROW_LANES).max(ROW_LANES);
    Tiling { unit_rows: rows, unit_cols, walk: Walk::Stream(chunk) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_start_at_lane_zero_and_nothing_is_empty() {
        for rows in [0, 1, 7, 64, 1000, 100_000] {
            for cols in [0, 1, 10, 64, 500, 5000, 17_000, 1_000_000] {
                for along in [None, Some(ReduceAlong::Rows), Some(ReduceAlong::Cols)] {
                    for (dot, transposed) in [(None, false), (Some(0), false), (Some(4096), false), (None, true)] {
                        for (threads, stages) in [(1, 1), (1, 2), (2, 1), (2, 3), (8, 3)] {
                            let question = Question {
                                outer: 1,
                                rows,
                                cols,
                                along,
                                stages,
                                dot,
                                transposed,
                                threads,
                                registers: 3,
                            };
                            let tiling = tiling(&question);
                            assert!(tiling.unit_rows > 0 && tiling.unit_cols > 0, "{question:?}: {tiling:?}");
                            match (along, tiling.walk) {
                                (_, Walk::Blocks(0)) | (None, Walk::Stream(_)) => {
                                    panic!("{question:?}: {tiling:?}")
                                }
                                (Some(ReduceAlong::Cols), walk) => {
                                    assert!(tiling.unit_cols >= cols);
                                    assert!(walk != Walk::Stream(0));
                                    if let Walk::Stream(chunk) = walk {
                                        assert_eq!(chunk % COL_LANES, 0);
                                    }
                                }
                                (Some(ReduceAlong::Rows), walk) => {
                                    assert!(tiling.unit_rows >= rows);
                                    match walk {
                                        Walk::Blocks(block) => assert!(block >= rows),
                                        Walk::Stream(chunk) => {
                                            assert!(chunk > 0 && chunk % ROW_LANES == 0)
                                        }
                                    }
                                }
                                (None, Walk::Blocks(_)) => {}
                            }
                        }
                    }
                }
            }
        }
    }
}
