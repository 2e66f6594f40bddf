//! Contractions on a chip's matrix unit, whose factors are `bf16`.
//!
//! An operand becomes one, two or three *parts*: `f32` values that a `bf16` holds, most significant first
//! (docs/numerics.md, N28). A *pass* contracts one part of the left operand with one of the right, by the same loops and
//! in the same order as any contraction, in blocks as long as the unit is deep. What the parts of higher order
//! contribute is summed first, taken as nothing where it is not finite, and the leading parts' product is added last.
//!
//! The left operand's rows are gathered to scratch and split there, the right one's panels are packed and then split, so
//! that the loops know nothing of parts. That costs a pass over memory, which does not show beside one to six
//! contractions.

use std::ops::Range;

use crate::dtype::DType;
use crate::numerics::{Half, canonical, flushed};
use crate::program::{Mxu, Precision};
use crate::simd::{Isa, Vectorized};

use half::{bf16, f16};

use super::float::{CHUNK, dot, with_sums};
use super::movement::{Factor, position};
use super::{BLOCK, DotOperand, PackedRhs};

/// How factors are taken, and how many terms a chain covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    split: Split,
    block: usize,
}

/// Into what an operand's elements are split.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Split {
    /// Not at all: factors as they are.
    Whole,
    /// The nearest `bf16`.
    One,
    /// Two `bf16`, of which the product of the lesser ones is left out.
    Two,
    /// Three `bf16`, of which the three least products are left out.
    Three,
}

/// A pair of parts, of the left operand and of the right one.
type Pass = (usize, usize);

/// The parts that hold most of the value.
const LEADING: Pass = (0, 0);

impl Split {
    /// Parts of an operand.
    fn parts(self) -> usize {
        match self {
            Split::Whole | Split::One => 1,
            Split::Two => 2,
            Split::Three => 3,
        }
    }

    /// The passes whose sum comes before that of the leading parts, in order.
    fn corrections(self) -> &'static [Pass] {
        match self {
            Split::Whole | Split::One => &[],
            Split::Two => &[(1, 0), (0, 1)],
            Split::Three => &[(1, 1), (0, 2), (2, 0), (0, 1), (1, 0)],
        }
    }
}

impl Terms {
    /// The IEEE device's: factors as they are, in blocks of [`BLOCK`].
    pub const IEEE: Terms = Terms { split: Split::Whole, block: BLOCK };

    /// What a device with such a matrix unit makes of operands of `dtype`; `None` stands for the IEEE device.
    /// `bf16` is what the unit takes, so precision has no bearing on it, nor on integers.
    pub fn new(dtype: DType, precision: Precision, mxu: Option<Mxu>) -> Terms {
        let Some(mxu) = mxu else { return Terms::IEEE };
        let split = match (dtype, precision) {
            (DType::Bool | DType::I32 | DType::U32 | DType::I64, _) => return Terms::IEEE,
            (DType::BF16, _) | (DType::F16 | DType::F32, Precision::Default) => Split::One,
            (DType::F16 | DType::F32, Precision::High) => Split::Two,
            (DType::F16 | DType::F32, Precision::Highest) => Split::Three,
        };
        Terms { split, block: mxu.depth() }
    }

    /// Terms that one accumulator chain covers.
    pub(super) fn block(self) -> usize {
        self.block
    }

    /// Parts that an operand is split into.
    pub(super) fn parts(self) -> usize {
        self.split.parts()
    }

    /// Whether factors are taken as they are.
    pub(super) fn whole(self) -> bool {
        self.split == Split::Whole
    }

    /// Makes parts of elements: `parts` holds as many runs of equal length, of which the first is given.
    pub(super) fn cut(self, isa: Isa, parts: &mut [f32]) {
        if !self.whole() {
            isa.vectorize(Cut { split: self.split, parts });
        }
    }
}

/// Cutting elements into parts.
struct Cut<'a> {
    split: Split,
    parts: &'a mut [f32],
}

impl Vectorized for Cut<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Cut { split, parts } = self;
        let len = parts.len() / split.parts();
        let (first, others) = parts.split_at_mut(len);
        match split {
            Split::Whole => {}
            Split::One => first.iter_mut().for_each(|x| *x = nearest(*x)),
            Split::Two => {
                for (x, low) in first.iter_mut().zip(others) {
                    let value = flushed(*x);
                    *x = truncated(value);
                    *low = nearest(value - *x);
                }
            }
            Split::Three => {
                let (mids, lows) = others.split_at_mut(len);
                for ((x, mid), low) in first.iter_mut().zip(mids).zip(lows) {
                    let value = flushed(*x);
                    *x = truncated(value);
                    let rest = value - *x;
                    *mid = truncated(rest);
                    *low = nearest(rest - *mid);
                }
            }
        }
    }
}

/// The nearest `bf16`, ties to even.
#[inline(always)]
fn nearest(x: f32) -> f32 {
    Half::widen(bf16::narrow(flushed(x)))
}

/// The `bf16` next to it toward zero.
#[inline(always)]
fn truncated(x: f32) -> f32 {
    f32::from_bits(flushed(x).to_bits() & 0xffff_0000)
}

/// Contracts by the parts that `rhs` was packed in.
pub(super) fn dot_in_parts(
    isa: Isa,
    dtype: DType,
    lhs: &DotOperand<'_>,
    rhs: &PackedRhs,
    columns: Range<usize>,
    out: &mut [f32],
) {
    let (depth, width, terms) = (lhs.contract.len(), columns.len(), rhs.terms());
    let contract: Vec<i64> = (0..depth as i64).collect();
    let rows = (MOST_ELEMENTS / depth.max(1)).clamp(1, CHUNK).min(lhs.free.len());
    let starts: Vec<i64> = (0..rows as i64).map(|row| row * depth as i64).collect();
    let all = terms.split.parts() * rows * depth;
    with_sums(all + rows * width, |scratch| {
        let (parts, pass) = scratch.split_at_mut(all);
        for (free, sum) in lhs.free.chunks(rows).zip(out.chunks_mut(rows * width)) {
            let len = free.len() * depth;
            let parts = &mut parts[..terms.split.parts() * len];
            gather(dtype, &DotOperand { free, ..*lhs }, &mut parts[..len]);
            terms.cut(isa, parts);
            let run = |(left, right): Pass, out: &mut [f32]| {
                let bytes = bytemuck::cast_slice(&parts[left * len..][..len]);
                let lhs = DotOperand { bytes, free: &starts[..free.len()], contract: &contract };
                dot::<f32>(isa, &lhs, rhs, right, columns.clone(), out);
            };
            let Some((&first, others)) = terms.split.corrections().split_first() else {
                run(LEADING, sum);
                continue;
            };
            let pass = &mut pass[..sum.len()];
            run(first, sum);
            for &correction in others {
                run(correction, pass);
                sum.iter_mut().zip(&*pass).for_each(|(sum, &pass)| *sum += pass);
            }
            run(LEADING, pass);
            let guarded = |sum: f32| if sum.is_finite() { sum } else { 0.0 };
            sum.iter_mut().zip(&*pass).for_each(|(sum, &pass)| *sum = canonical(guarded(*sum) + pass));
        }
    });
}

/// Elements of a chunk of the left operand, where a row is not longer.
const MOST_ELEMENTS: usize = 1 << 16;

/// The rows of an operand side by side, widened.
fn gather(dtype: DType, operand: &DotOperand<'_>, to: &mut [f32]) {
    fn fill<S: Factor>(operand: &DotOperand<'_>, to: &mut [f32]) {
        let elements: &[S] = bytemuck::cast_slice(operand.bytes);
        let depth = operand.contract.len();
        for (row, &offset) in to.chunks_exact_mut(depth.max(1)).zip(operand.free) {
            for (slot, &step) in row.iter_mut().zip(operand.contract) {
                *slot = elements[position(offset + step)].widen();
            }
        }
    }
    match dtype {
        DType::F16 => fill::<f16>(operand, to),
        DType::BF16 => fill::<bf16>(operand, to),
        DType::F32 => fill::<f32>(operand, to),
        DType::Bool | DType::I32 | DType::U32 | DType::I64 => unreachable!("only floats are split"),
    }
}
