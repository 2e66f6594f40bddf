//! The loops: an element function run over whole operands.
//!
//! Element functions are types that implement [`Unary`], [`Binary`] or [`Ternary`]; one loop per arity serves them all.
//! A loop goes through blocks of [`BLOCK`] elements, and a block always has exactly that many: an operand that is one
//! element for all is a block filled with it, read again and again from the first-level cache, and the last, short block
//! is copied into a padded one. So there is one compiled loop per element function and instruction set, without a
//! branch per element, instead of one per combination of slices and splats plus a scalar remainder of each; the extra
//! read of a splat hides behind the store. Element functions are total, so what the padding computes does not matter.
//!
//! `block` is a trait method, called through the type parameter, on purpose: its arguments are references that cannot
//! alias, and the compiler keeps that knowledge across an inlined call only if it inlines in LLVM and not before. With
//! it the vectoriser needs neither overlap checks nor a scalar twin of each loop.

use bytemuck::Pod;
use half::{bf16, f16};

use crate::scalar::Scalar;
use crate::simd::{Isa, Vectorized};

use super::Source;

/// Elements of one step.
const BLOCK: usize = 64;

/// How an element lies in a buffer. `Bool` is a `u8` that is 0 or 1.
pub(super) trait Cell: Pod {
    /// The element whose low bits are given.
    fn from_bits(bits: u64) -> Self;
    /// The bits, zero-extended.
    fn bits(self) -> u64;
}

macro_rules! cells {
    ($($ty:ty: |$bits:ident| $from:expr, |$value:ident| $to:expr;)*) => {$(
        impl Cell for $ty {
            #[inline(always)]
            fn from_bits($bits: u64) -> Self {
                $from
            }
            #[inline(always)]
            fn bits(self) -> u64 {
                let $value = self;
                $to
            }
        }
    )*};
}

cells! {
    u8: |bits| bits as u8, |value| u64::from(value);
    u16: |bits| bits as u16, |value| u64::from(value);
    f16: |bits| f16::from_bits(bits as u16), |value| u64::from(value.to_bits());
    bf16: |bits| bf16::from_bits(bits as u16), |value| u64::from(value.to_bits());
    i32: |bits| bits as u32 as i32, |value| u64::from(value as u32);
    u32: |bits| bits as u32, |value| u64::from(value);
    i64: |bits| bits as i64, |value| value as u64;
    f32: |bits| f32::from_bits(bits as u32), |value| u64::from(value.to_bits());
}

/// A function of one element.
pub(super) trait Unary {
    /// Operand.
    type A: Cell;
    /// Result.
    type R: Cell;
    /// The function.
    fn apply(a: Self::A) -> Self::R;
    /// The function on a block.
    #[inline(always)]
    fn block(dst: &mut [Self::R; BLOCK], a: &[Self::A; BLOCK]) {
        for i in 0..BLOCK {
            dst[i] = Self::apply(a[i]);
        }
    }
}

/// A function of two elements.
pub(super) trait Binary {
    /// First operand.
    type A: Cell;
    /// Second operand.
    type B: Cell;
    /// Result.
    type R: Cell;
    /// The function.
    fn apply(a: Self::A, b: Self::B) -> Self::R;
    /// The function on a block.
    #[inline(always)]
    fn block(dst: &mut [Self::R; BLOCK], a: &[Self::A; BLOCK], b: &[Self::B; BLOCK]) {
        for i in 0..BLOCK {
            dst[i] = Self::apply(a[i], b[i]);
        }
    }
}

/// A function of three elements.
pub(super) trait Ternary {
    /// First operand.
    type A: Cell;
    /// Second operand.
    type B: Cell;
    /// Third operand.
    type C: Cell;
    /// Result.
    type R: Cell;
    /// The function.
    fn apply(a: Self::A, b: Self::B, c: Self::C) -> Self::R;
    /// The function on a block.
    #[inline(always)]
    fn block(dst: &mut [Self::R; BLOCK], a: &[Self::A; BLOCK], b: &[Self::B; BLOCK], c: &[Self::C; BLOCK]) {
        for i in 0..BLOCK {
            dst[i] = Self::apply(a[i], b[i], c[i]);
        }
    }
}

/// An operand cut into blocks.
struct Blocks<'a, T> {
    /// Its elements; none if it is one element for all.
    elements: &'a [T],
    /// What stands for a block that `elements` has not in full: the splat, or the padded rest.
    spare: [T; BLOCK],
}

impl<'a, T: Cell> Blocks<'a, T> {
    #[inline(always)]
    fn new(source: Source<'a>, len: usize) -> Self {
        match source {
            Source::Splat(bits) => Blocks { elements: &[], spare: [T::from_bits(bits); BLOCK] },
            Source::Slice(bytes) => {
                let elements: &[T] = bytemuck::cast_slice(bytes);
                assert_eq!(elements.len(), len, "a lane operand has as many elements as the result");
                let mut spare = [T::zeroed(); BLOCK];
                let rest = &elements[len - len % BLOCK..];
                spare[..rest.len()].copy_from_slice(rest);
                Blocks { elements, spare }
            }
        }
    }

    #[inline(always)]
    fn at(&self, start: usize) -> &[T; BLOCK] {
        match self.elements.get(start..start + BLOCK) {
            Some(block) => block.try_into().expect("the range has BLOCK elements"),
            None => &self.spare,
        }
    }
}

/// Hands each block of `dst` to `compute` with its start; the short last one as a full block of which the head counts.
#[inline(always)]
fn sweep<R: Cell>(dst: &mut [R], mut compute: impl FnMut(&mut [R; BLOCK], usize)) {
    let mut spare = [R::zeroed(); BLOCK];
    for (index, block) in dst.chunks_mut(BLOCK).enumerate() {
        let whole = <&mut [R; BLOCK]>::try_from(&mut *block).unwrap_or(&mut spare);
        compute(whole, index * BLOCK);
        if block.len() < BLOCK {
            block.copy_from_slice(&spare[..block.len()]);
        }
    }
}

/// What a lane function is to the rest of the crate.
#[derive(Clone, Copy)]
pub(super) struct Lane {
    /// Over buffers.
    pub(super) kernel: super::LaneFn,
    /// On single elements, as bits.
    pub(super) scalar: fn(&[Scalar]) -> u64,
}

macro_rules! arity {
    ($constructor:ident, $loop_over:ident, $scalar:ident, $sweep:ident: $function:ident ($($operand:ident: $ty:ident),+)) => {
        struct $sweep<'a, F: $function> {
            dst: &'a mut [F::R],
            $($operand: Source<'a>,)+
        }

        impl<F: $function> Vectorized for $sweep<'_, F> {
            type Output = ();
            #[inline(always)]
            fn run(self) {
                let len = self.dst.len();
                $(let $operand = Blocks::<F::$ty>::new(self.$operand, len);)+
                sweep(self.dst, #[inline(always)] |dst, start| F::block(dst, $($operand.at(start)),+));
            }
        }

        /// The loop of `F`. Not inlined, so that all who call it share one copy per instruction set.
        #[inline(never)]
        pub(super) fn $loop_over<F: $function>(isa: Isa, dst: &mut [u8], sources: &[Source<'_>]) {
            let &[$($operand),+] = sources else {
                panic!("a lane function is called with as many operands as it was looked up with")
            };
            isa.vectorize($sweep::<F> { dst: bytemuck::cast_slice_mut(dst), $($operand),+ });
        }

        /// `F` on single elements.
        pub(super) fn $scalar<F: $function>(operands: &[Scalar]) -> u64 {
            let &[$($operand),+] = operands else {
                panic!("a lane function is called with as many operands as it was looked up with")
            };
            F::apply($(F::$ty::from_bits($operand.bits())),+).bits()
        }

        impl Lane {
            /// The lane function that applies `F`.
            pub(super) fn $constructor<F: $function>() -> Lane {
                Lane {
                    kernel: $loop_over::<F>,
                    scalar: $scalar::<F>,
                }
            }
        }
    };
}

arity!(unary, unary_loop, unary_scalar, UnarySweep: Unary(a: A));
arity!(binary, binary_loop, binary_scalar, BinarySweep: Binary(a: A, b: B));
arity!(ternary, ternary_loop, ternary_scalar, TernarySweep: Ternary(a: A, b: B, c: C));
