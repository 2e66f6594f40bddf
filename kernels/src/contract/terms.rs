//! How a device takes the factors of a contraction, and how many terms a chain of it covers.
//!
//! On a chip an operand becomes one, two or three *parts*: `f32` values that a `bf16` holds, most significant first
//! (docs/numerics.md, N28).

use half::bf16;

use crate::dtype::DType;
use crate::numerics::{Half, flushed};
use crate::program::{Mxu, Precision};
use crate::simd::{Isa, Vectorized};

use super::BLOCK;

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
pub(super) type Pass = (usize, usize);

/// The parts that hold most of the value.
pub(super) const LEADING: Pass = (0, 0);

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

    /// The passes whose sum comes before that of the leading parts, in order.
    pub(super) fn corrections(self) -> &'static [Pass] {
        self.split.corrections()
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
