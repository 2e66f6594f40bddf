//! The vocabulary of indexing: what may stand between NumPy's brackets, as Rust values.
//!
//! | NumPy | here |
//! |---|---|
//! | `x[0, -1]` | `x.i((0, -1))` |
//! | `x[1:3, :]` | `x.i((1..3, ..))` |
//! | `x[:-1, ::2]` | `x.i((..-1, stride(.., 2)))` |
//! | `x[::-1]` | `x.i(stride(.., -1))` |
//! | `x[..., 0]` | `x.i((Ellipsis, 0))` |
//! | `x[:, None]` | `x.i((.., NewAxis))` |
//! | `x[ids]`, `x[rows, columns]` | `x.i(&ids)`, `x.i((&rows, &columns))` |
//!
//! Bool masks are no indices: how many elements they choose is known only when they have been computed, and a tensor's
//! shape must be known when an op is recorded. `mask.select(&x, 0)` keeps the shape.

use std::fmt;
use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use smallvec::{SmallVec, smallvec};

use crate::tensor::Tensor;

/// All the dimensions that the other indices leave: NumPy's `...`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ellipsis;

/// A dimension of extent 1 that was not there: NumPy's `None`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewAxis;

/// One index of several.
#[derive(Clone, Debug)]
pub enum Index {
    /// One element along a dimension, which goes; negative numbers count from the end.
    At(i128),
    /// A range of them.
    Span(Span),
    /// All the dimensions that the other indices leave.
    Ellipsis,
    /// A new dimension of extent 1.
    NewAxis,
    /// As many elements as the tensor (of integers) has, each at the index it says.
    Tensor(Tensor),
}

/// A range of indices along a dimension, with NumPy's rules: negative bounds count from the end, and what lies outside
/// is cut off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    start: Option<i128>,
    end: End,
    step: i128,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Open,
    Before(i128),
    At(i128),
}

impl Span {
    /// All indices.
    pub(super) const ALL: Span = Span { start: None, end: End::Open, step: 1 };

    /// The chosen indices of `extent`: the first, their number, and the step between them, which is not 0. `None` where
    /// the step is.
    pub(super) fn resolve(self, extent: usize) -> Option<(i128, i128, i128)> {
        let Span { start, end, step } = self;
        let extent = extent as i128;
        // Where a walk may begin and must end, when it goes up and when it goes down.
        let (first, last) = if step > 0 { (0, extent) } else { (extent - 1, -1) };
        let (least, most) = (first.min(last), first.max(last));
        let bound = |number: i128| (if number < 0 { number + extent } else { number }).clamp(least, most);
        let start = start.map_or(first, bound);
        let end = match end {
            End::Open => last,
            End::Before(number) => bound(number),
            // One past what is included; a bound that was cut off includes nothing more.
            End::At(number) => {
                let at = if number < 0 { number + extent } else { number };
                (at + step.signum()).clamp(least, most)
            }
        };
        let length = match step {
            0 => return None,
            1.. => (end - start + step - 1) / step,
            _ => (start - end - step - 1) / -step,
        };
        Some((start, length.max(0), step))
    }
}

/// A range of Rust's, or one made by [`stride`].
pub trait AsSpan {
    /// The range.
    fn as_span(&self) -> Span;
}

/// Every `step`-th index of a range; a negative step walks down from its start, which is the last index where none is
/// given: NumPy's `start:end:step`.
///
/// ```
/// # use systole::{DType, Device, Tensor, stride};
/// # fn main() -> systole::Result<()> {
/// let device = Device::simulator()?;
/// let x = Tensor::iota(&device, DType::I32, [7], 0)?;
/// assert_eq!(x.i(stride(1.., 2))?.to_vec::<i32>()?, [1, 3, 5]);
/// assert_eq!(x.i(stride(.., -3))?.to_vec::<i32>()?, [6, 3, 0]);
/// # Ok(()) }
/// ```
pub fn stride(range: impl AsSpan, step: isize) -> Span {
    Span { step: step as i128, ..range.as_span() }
}

/// A Rust integer as an index.
pub trait Ordinal: Copy + fmt::Debug {
    /// Its value.
    fn value(self) -> i128;
}

macro_rules! ordinal {
    ($($ty:ty)*) => {$(
        impl Ordinal for $ty {
            fn value(self) -> i128 {
                self as i128
            }
        }

        impl AsIndex for $ty {
            fn as_index(&self) -> Index {
                Index::At(*self as i128)
            }
        }
    )*};
}

ordinal!(i32 i64 isize u32 usize);

macro_rules! span {
    ($(<$($generic:ident)?> $ty:ty: |$range:ident| $start:expr, $end:expr;)*) => {$(
        impl$(<$generic: Ordinal>)? AsSpan for $ty {
            fn as_span(&self) -> Span {
                let $range = self;
                Span { start: $start, end: $end, step: 1 }
            }
        }

        impl$(<$generic: Ordinal>)? AsIndex for $ty {
            fn as_index(&self) -> Index {
                Index::Span(self.as_span())
            }
        }
    )*};
}

span! {
    <> RangeFull: |_all| None, End::Open;
    <T> Range<T>: |range| Some(range.start.value()), End::Before(range.end.value());
    <T> RangeFrom<T>: |range| Some(range.start.value()), End::Open;
    <T> RangeTo<T>: |range| None, End::Before(range.end.value());
    <T> RangeInclusive<T>: |range| Some(range.start().value()), End::At(range.end().value());
    <T> RangeToInclusive<T>: |range| None, End::At(range.end.value());
}

impl AsSpan for Span {
    fn as_span(&self) -> Span {
        *self
    }
}

/// What may stand as one index: a number, a range, [`stride`], [`Ellipsis`], [`NewAxis`], a tensor of integers.
pub trait AsIndex {
    /// The index.
    fn as_index(&self) -> Index;
}

impl AsIndex for Span {
    fn as_index(&self) -> Index {
        Index::Span(*self)
    }
}

impl AsIndex for Ellipsis {
    fn as_index(&self) -> Index {
        Index::Ellipsis
    }
}

impl AsIndex for NewAxis {
    fn as_index(&self) -> Index {
        Index::NewAxis
    }
}

impl AsIndex for Tensor {
    fn as_index(&self) -> Index {
        Index::Tensor(self.clone())
    }
}

impl AsIndex for &Tensor {
    fn as_index(&self) -> Index {
        Index::Tensor((*self).clone())
    }
}

impl AsIndex for Index {
    fn as_index(&self) -> Index {
        self.clone()
    }
}

/// What [`Tensor::i`] takes: one index, a tuple of up to eight, or a slice of [`Index`]es.
pub trait Indices {
    /// The indices, one for each dimension they speak of.
    fn indices(&self) -> SmallVec<[Index; 4]>;
}

impl<I: AsIndex> Indices for I {
    fn indices(&self) -> SmallVec<[Index; 4]> {
        smallvec![self.as_index()]
    }
}

impl Indices for &[Index] {
    fn indices(&self) -> SmallVec<[Index; 4]> {
        self.iter().cloned().collect()
    }
}

macro_rules! tuple {
    ($($name:ident $at:tt)*) => {
        impl<$($name: AsIndex),*> Indices for ($($name,)*) {
            fn indices(&self) -> SmallVec<[Index; 4]> {
                smallvec![$(self.$at.as_index()),*]
            }
        }
    };
}

tuple!();
tuple!(A 0);
tuple!(A 0 B 1);
tuple!(A 0 B 1 C 2);
tuple!(A 0 B 1 C 2 D 3);
tuple!(A 0 B 1 C 2 D 3 E 4);
tuple!(A 0 B 1 C 2 D 3 E 4 F 5);
tuple!(A 0 B 1 C 2 D 3 E 4 F 5 G 6);
tuple!(A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7);
