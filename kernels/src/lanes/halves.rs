//! Functions of `f32` on 16-bit floats: operands widened, the result rounded once more.
//!
//! Every float function is written for `f32`. A cheap one is compiled anew for each of the two types with the conversions
//! inside its loop, so an operation is one pass over two bytes per element, as it is over four for `f32`. A costly one is
//! not: three times the code of a long polynomial would buy little where two more passes over a few hundred elements in
//! the first-level cache vanish beside it. Its one loop is run on blocks of widened operands.
//!
//! Rejected: registers of the tile machine in widened form, each operation followed by a rounding pass. A lone operation
//! would then widen, compute, round and narrow in four passes, tiles would take twice the memory, and whatever handles
//! registers would have to know two forms of an element. A rounding costs half a dozen integer instructions wherever it
//! stands, and inside the loop it costs nothing else.
//!
//! Functions that preserve bits are not written this way: rounding would take the payload off a NaN.

use std::marker::PhantomData;

use half::{bf16, f16};

use crate::dtype::DType;
use crate::numerics::{Half, Narrow, Widen};
use crate::simd::Isa;

use super::sweep::{Binary, Cell, Lane, Ternary, Unary, binary_loop, binary_scalar, unary_loop, unary_scalar};
use super::{LaneFn, Source};

/// The function `F` of `f32` on elements of type `H`. `F` gives no NaN but the canonical one.
struct Halved<F, H>(PhantomData<(F, H)>);

impl<F: Unary<A = f32, R = f32>, H: Half + Cell> Unary for Halved<F, H> {
    type A = H;
    type R = H;
    #[inline(always)]
    fn apply(a: H) -> H {
        H::narrow(F::apply(a.widen()))
    }
}

impl<F: Binary<A = f32, B = f32, R = f32>, H: Half + Cell> Binary for Halved<F, H> {
    type A = H;
    type B = H;
    type R = H;
    #[inline(always)]
    fn apply(a: H, b: H) -> H {
        H::narrow(F::apply(a.widen(), b.widen()))
    }
}

impl<F: Ternary<A = f32, B = f32, C = f32, R = f32>, H: Half + Cell> Ternary for Halved<F, H> {
    type A = H;
    type B = H;
    type C = H;
    type R = H;
    #[inline(always)]
    fn apply(a: H, b: H, c: H) -> H {
        H::narrow(F::apply(a.widen(), b.widen(), c.widen()))
    }
}

/// Picks among what a function is on each float dtype.
macro_rules! by_dtype {
    ($dtype:ident, $f32:expr, $f16:expr, $bf16:expr) => {
        match $dtype {
            DType::F32 => $f32,
            DType::F16 => $f16,
            DType::BF16 => $bf16,
            DType::Bool | DType::I32 | DType::U32 | DType::I64 => {
                unreachable!("a function of floats is looked up for floats, not {}", $dtype)
            }
        }
    };
}

impl Lane {
    /// `F` on a float dtype.
    pub(super) fn unary_float<F: Unary<A = f32, R = f32>>(dtype: DType) -> Lane {
        by_dtype!(dtype, Lane::unary::<F>(), Lane::unary::<Halved<F, f16>>(), Lane::unary::<Halved<F, bf16>>())
    }

    /// `F` on a float dtype.
    pub(super) fn binary_float<F: Binary<A = f32, B = f32, R = f32>>(dtype: DType) -> Lane {
        by_dtype!(dtype, Lane::binary::<F>(), Lane::binary::<Halved<F, f16>>(), Lane::binary::<Halved<F, bf16>>())
    }

    /// `F` on a float dtype.
    pub(super) fn ternary_float<F: Ternary<A = f32, B = f32, C = f32, R = f32>>(dtype: DType) -> Lane {
        by_dtype!(dtype, Lane::ternary::<F>(), Lane::ternary::<Halved<F, f16>>(), Lane::ternary::<Halved<F, bf16>>())
    }

    /// `F` on a float dtype, compiled once.
    pub(super) fn costly_unary<F: Unary<A = f32, R = f32>>(dtype: DType) -> Lane {
        fn through<F: Unary<A = f32, R = f32>, H: Half + Cell>() -> Lane {
            Lane {
                kernel: |isa, dst, sources| widened::<H, 1>(isa, dst, sources, unary_loop::<F>),
                scalar: unary_scalar::<Halved<F, H>>,
            }
        }
        by_dtype!(dtype, Lane::unary::<F>(), through::<F, f16>(), through::<F, bf16>())
    }

    /// `F` on a float dtype, compiled once.
    pub(super) fn costly_binary<F: Binary<A = f32, B = f32, R = f32>>(dtype: DType) -> Lane {
        fn through<F: Binary<A = f32, B = f32, R = f32>, H: Half + Cell>() -> Lane {
            Lane {
                kernel: |isa, dst, sources| widened::<H, 2>(isa, dst, sources, binary_loop::<F>),
                scalar: binary_scalar::<Halved<F, H>>,
            }
        }
        by_dtype!(dtype, Lane::binary::<F>(), through::<F, f16>(), through::<F, bf16>())
    }
}

/// Elements that are widened at a time.
const PART: usize = 512;

/// Runs `wide`, a loop over `N` operands of `f32`, on elements of type `H`, part by part.
fn widened<H: Half, const N: usize>(isa: Isa, dst: &mut [u8], sources: &[Source<'_>], wide: LaneFn) {
    let mut operands = [[0f32; PART]; N];
    let mut results = [0f32; PART];
    for (n, part) in bytemuck::cast_slice_mut::<u8, H>(dst).chunks_mut(PART).enumerate() {
        let from = n * PART;
        let mut wide_sources = [Source::Splat(0); N];
        for ((wide, source), operand) in wide_sources.iter_mut().zip(sources).zip(&mut operands) {
            *wide = match source {
                Source::Splat(bits) => Source::Splat(u64::from(H::of_bits(*bits as u16).widen().to_bits())),
                Source::Slice(bytes) => {
                    let src = &bytemuck::cast_slice::<u8, H>(bytes)[from..from + part.len()];
                    isa.vectorize(Widen { src, dst: &mut operand[..part.len()] });
                    Source::Slice(bytemuck::cast_slice(&operand[..part.len()]))
                }
            };
        }
        wide(isa, bytemuck::cast_slice_mut(&mut results[..part.len()]), &wide_sources[..sources.len().min(N)]);
        isa.vectorize(Narrow { src: &results[..part.len()], dst: part });
    }
}
