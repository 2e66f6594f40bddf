//! Reductions over tiles, in the order of the contract.
//!
//! The order: element `i` of the reduced index goes to lane `i mod L`; each lane combines in ascending `i`; the lanes
//! that have elements combine in a halving tree; `init` combines once, last. `L` is 1,024 along columns and 8 along rows.
//! That order leaves whole vectors of independent chains at every step, so it costs nothing against an order of choice,
//! and it does not change when elements are appended that change nothing.
//!
//! Bodies that give the same bits in every order (maximum, minimum, and, or, wrapping integers) use fewer lanes along
//! columns, because a short tree is cheaper. Float maximum and minimum compare as integers: flipping the magnitude bits
//! of negative floats orders them as the contract orders them, with −0 below +0, and a NaN, made canonical first, gets the
//! key that always wins.
//!
//! The 16-bit floats run the bodies of `f32` on widened elements: lanes, tree and `init` are combined in `f32`, and the
//! result is rounded once.
//!
//! A reduction is either *whole*, of rows or columns that lie in the tile, or *streamed*: lanes are kept in an
//! accumulator while chunks of the reduced index pass by. Both run the same steps. Nothing here knows of programs.

use std::marker::PhantomData;

use bytemuck::Pod;
use half::{bf16, f16};

use crate::dtype::DType;
use crate::numerics::{Half, canonical};
use crate::program::Monoid;
use crate::simd::{Isa, Vectorized};

/// Lanes along rows.
pub const ROW_LANES: usize = 8;
/// Lanes along columns. Chunks of a streamed reduction along columns start at multiples of this.
pub const COL_LANES: usize = 1024;
/// Lanes along columns where the order does not matter; divides [`COL_LANES`].
const FREE_LANES: usize = 64;
/// Elements that a loop keeps in vector registers; divides every number of lanes along columns.
const STRIP: usize = 64;
/// Narrow rows are reduced so many at a time, one per vector lane.
const ABREAST: usize = 16;
/// The widest row that counts as narrow.
const NARROW: usize = 64;

/// A body on one element type.
trait Body: 'static {
    /// The element as stored.
    type Raw: Pod;
    /// The element as combined.
    type Acc: Pod;
    /// Lanes along columns.
    const LANES: usize;
    fn load(raw: Self::Raw) -> Self::Acc;
    fn combine(a: Self::Acc, b: Self::Acc) -> Self::Acc;
    fn store(acc: Self::Acc) -> Self::Raw;
}

macro_rules! body {
    ($name:ident: $raw:ty as $acc:ty, $lanes:ident, |$x:ident| $load:expr, |$a:ident, $b:ident| $combine:expr, |$y:ident| $store:expr) => {
        struct $name;
        impl Body for $name {
            type Raw = $raw;
            type Acc = $acc;
            const LANES: usize = $lanes;
            #[inline(always)]
            fn load($x: $raw) -> $acc {
                $load
            }
            #[inline(always)]
            fn combine($a: $acc, $b: $acc) -> $acc {
                $combine
            }
            #[inline(always)]
            fn store($y: $acc) -> $raw {
                $store
            }
        }
    };
}

/// A float as an integer of the same order; its own inverse on keys of numbers.
#[inline(always)]
pub(crate) fn flip(bits: i32) -> i32 {
    bits ^ (((bits >> 31) as u32) >> 1) as i32
}

/// The order key of a float in which a NaN is above all numbers.
#[inline(always)]
pub(crate) fn key_nan_above(x: f32) -> i32 {
    flip(canonical(x).to_bits() as i32)
}

/// The order key of a float in which a NaN is below all numbers: the key of the canonical NaN with the sign set.
#[inline(always)]
pub(crate) fn key_nan_below(x: f32) -> i32 {
    let bits = canonical(x).to_bits();
    flip((if bits == 0x7fc0_0000 { 0xffc0_0000 } else { bits }) as i32)
}

body!(AddF32: f32 as f32, COL_LANES, |x| x, |a, b| a + b, |x| canonical(x));
body!(MulF32: f32 as f32, COL_LANES, |x| x, |a, b| a * b, |x| canonical(x));
body!(MaxF32: f32 as i32, FREE_LANES, |x| key_nan_above(x), |a, b| a.max(b), |x| f32::from_bits(flip(x) as u32));
body!(MinF32: f32 as i32, FREE_LANES, |x| key_nan_below(x), |a, b| a.min(b), |x| canonical(f32::from_bits(flip(x) as u32)));
body!(AddU32: u32 as u32, FREE_LANES, |x| x, |a, b| a.wrapping_add(b), |x| x);
body!(MulU32: u32 as u32, FREE_LANES, |x| x, |a, b| a.wrapping_mul(b), |x| x);
body!(MaxU32: u32 as u32, FREE_LANES, |x| x, |a, b| a.max(b), |x| x);
body!(MinU32: u32 as u32, FREE_LANES, |x| x, |a, b| a.min(b), |x| x);
body!(MaxI32: i32 as i32, FREE_LANES, |x| x, |a, b| a.max(b), |x| x);
body!(MinI32: i32 as i32, FREE_LANES, |x| x, |a, b| a.min(b), |x| x);
body!(AndU32: u32 as u32, FREE_LANES, |x| x, |a, b| a & b, |x| x);
body!(OrU32: u32 as u32, FREE_LANES, |x| x, |a, b| a | b, |x| x);
body!(AddI64: i64 as i64, FREE_LANES, |x| x, |a, b| a.wrapping_add(b), |x| x);
body!(MulI64: i64 as i64, FREE_LANES, |x| x, |a, b| a.wrapping_mul(b), |x| x);
body!(MaxI64: i64 as i64, FREE_LANES, |x| x, |a, b| a.max(b), |x| x);
body!(MinI64: i64 as i64, FREE_LANES, |x| x, |a, b| a.min(b), |x| x);
body!(AndI64: i64 as i64, FREE_LANES, |x| x, |a, b| a & b, |x| x);
body!(OrI64: i64 as i64, FREE_LANES, |x| x, |a, b| a | b, |x| x);
body!(AndBool: u8 as u8, FREE_LANES, |x| x, |a, b| a & b, |x| x);
body!(OrBool: u8 as u8, FREE_LANES, |x| x, |a, b| a | b, |x| x);

/// The body `B` of `f32` on elements of type `H`. `B` stores no NaN but the canonical one.
struct Widened<B, H>(PhantomData<(B, H)>);

impl<B: Body<Raw = f32>, H: Half> Body for Widened<B, H> {
    type Raw = H;
    type Acc = B::Acc;
    const LANES: usize = B::LANES;
    #[inline(always)]
    fn load(raw: H) -> B::Acc {
        B::load(raw.widen())
    }
    #[inline(always)]
    fn combine(a: B::Acc, b: B::Acc) -> B::Acc {
        B::combine(a, b)
    }
    #[inline(always)]
    fn store(acc: B::Acc) -> H {
        H::narrow(B::store(acc))
    }
}

/// The loops of one body on one dtype.
#[derive(Clone, Copy)]
pub struct Reducer {
    dtype: DType,
    /// Bytes of a lane.
    lane: usize,
    whole_cols: fn(Isa, &[u8], usize, u64, &mut [u8]),
    feed_cols: fn(Isa, &mut [u8], usize, &[u8]),
    finish_cols: fn(Isa, &mut [u8], usize, u64, &mut [u8]),
    feed_rows: fn(Isa, &mut [u8], usize, &[u8], usize),
    finish_rows: fn(Isa, &mut [u8], usize, u64, &mut [u8]),
}

impl std::fmt::Debug for Reducer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Reducer({})", self.dtype)
    }
}

impl Reducer {
    /// The loops for `monoid` on `dtype`, if it has such a body. On `Bool`, addition and maximum are or, multiplication
    /// and minimum are and.
    pub fn new(monoid: Monoid, dtype: DType) -> Option<Reducer> {
        Some(match (monoid, dtype) {
            (Monoid::Add, DType::F32) => Reducer::of::<AddF32>(dtype),
            (Monoid::Add, DType::F16) => Reducer::of::<Widened<AddF32, f16>>(dtype),
            (Monoid::Add, DType::BF16) => Reducer::of::<Widened<AddF32, bf16>>(dtype),
            (Monoid::Multiply, DType::F32) => Reducer::of::<MulF32>(dtype),
            (Monoid::Multiply, DType::F16) => Reducer::of::<Widened<MulF32, f16>>(dtype),
            (Monoid::Multiply, DType::BF16) => Reducer::of::<Widened<MulF32, bf16>>(dtype),
            (Monoid::Maximum, DType::F32) => Reducer::of::<MaxF32>(dtype),
            (Monoid::Maximum, DType::F16) => Reducer::of::<Widened<MaxF32, f16>>(dtype),
            (Monoid::Maximum, DType::BF16) => Reducer::of::<Widened<MaxF32, bf16>>(dtype),
            (Monoid::Minimum, DType::F32) => Reducer::of::<MinF32>(dtype),
            (Monoid::Minimum, DType::F16) => Reducer::of::<Widened<MinF32, f16>>(dtype),
            (Monoid::Minimum, DType::BF16) => Reducer::of::<Widened<MinF32, bf16>>(dtype),
            (Monoid::And | Monoid::Or, DType::F16 | DType::BF16 | DType::F32) => return None,
            (Monoid::Add, DType::I32 | DType::U32) => Reducer::of::<AddU32>(dtype),
            (Monoid::Multiply, DType::I32 | DType::U32) => Reducer::of::<MulU32>(dtype),
            (Monoid::Maximum, DType::I32) => Reducer::of::<MaxI32>(dtype),
            (Monoid::Minimum, DType::I32) => Reducer::of::<MinI32>(dtype),
            (Monoid::Maximum, DType::U32) => Reducer::of::<MaxU32>(dtype),
            (Monoid::Minimum, DType::U32) => Reducer::of::<MinU32>(dtype),
            (Monoid::And, DType::I32 | DType::U32) => Reducer::of::<AndU32>(dtype),
            (Monoid::Or, DType::I32 | DType::U32) => Reducer::of::<OrU32>(dtype),
            (Monoid::Add, DType::I64) => Reducer::of::<AddI64>(dtype),
            (Monoid::Multiply, DType::I64) => Reducer::of::<MulI64>(dtype),
            (Monoid::Maximum, DType::I64) => Reducer::of::<MaxI64>(dtype),
            (Monoid::Minimum, DType::I64) => Reducer::of::<MinI64>(dtype),
            (Monoid::And, DType::I64) => Reducer::of::<AndI64>(dtype),
            (Monoid::Or, DType::I64) => Reducer::of::<OrI64>(dtype),
            (Monoid::Multiply | Monoid::Minimum | Monoid::And, DType::Bool) => Reducer::of::<AndBool>(dtype),
            (Monoid::Add | Monoid::Maximum | Monoid::Or, DType::Bool) => Reducer::of::<OrBool>(dtype),
        })
    }

    fn of<B: Body>(dtype: DType) -> Reducer {
        const { assert!(COL_LANES.is_multiple_of(B::LANES) && B::LANES.is_multiple_of(STRIP)) }
        Reducer {
            dtype,
            lane: size_of::<B::Acc>(),
            whole_cols: |isa, src, width, init, out| {
                isa.vectorize(WholeCols::<B> { src: cast(src), width, init: raw::<B>(init), out: cast_mut(out) });
            },
            feed_cols: |isa, acc, start, src| {
                isa.vectorize(FeedCols::<B> { acc: cast_mut(acc), start, src: cast(src) });
            },
            finish_cols: |isa, acc, n, init, out| {
                isa.vectorize(FinishCols::<B> { acc: cast_mut(acc), n, init: raw::<B>(init), out: cast_mut(out) });
            },
            feed_rows: |isa, acc, start, src, width| {
                isa.vectorize(FeedRows::<B> { acc: cast_mut(acc), start, src: cast(src), width });
            },
            finish_rows: |isa, acc, n, init, out| {
                isa.vectorize(FinishRows::<B> { acc: cast_mut(acc), n, init: raw::<B>(init), out: cast_mut(out) });
            },
        }
    }

    /// Bytes of the accumulator for `rows` rows streamed along columns.
    pub fn col_acc(&self, rows: usize) -> usize {
        rows * COL_LANES * self.lane
    }

    /// Bytes of the accumulator for `width` columns streamed along rows.
    pub fn row_acc(&self, width: usize) -> usize {
        ROW_LANES * width * self.lane
    }

    /// Reduces each row of `src`, of `width` elements, to one element of `out`.
    pub fn whole_cols(&self, isa: Isa, src: &[u8], width: usize, init: u64, out: &mut [u8]) {
        (self.whole_cols)(isa, src, width, init, out);
    }

    /// Takes the elements of one row from column `start`, a multiple of [`COL_LANES`], into that row's lanes.
    pub fn feed_cols(&self, isa: Isa, acc: &mut [u8], start: usize, src: &[u8]) {
        debug_assert!(start.is_multiple_of(COL_LANES), "a chunk starts at lane 0");
        (self.feed_cols)(isa, acc, start, src);
    }

    /// The result of one row of `n` elements from its lanes, which are consumed.
    pub fn finish_cols(&self, isa: Isa, acc: &mut [u8], n: usize, init: u64, out: &mut [u8]) {
        (self.finish_cols)(isa, acc, n, init, out);
    }

    /// Takes rows of `width` elements, from row `start`, a multiple of [`ROW_LANES`], into the lanes.
    pub fn feed_rows(&self, isa: Isa, acc: &mut [u8], start: usize, src: &[u8], width: usize) {
        debug_assert!(start.is_multiple_of(ROW_LANES), "a chunk starts at lane 0");
        if width > 0 {
            (self.feed_rows)(isa, acc, start, src, width);
        }
    }

    /// The results of `n` rows from the lanes, which are consumed.
    pub fn finish_rows(&self, isa: Isa, acc: &mut [u8], n: usize, init: u64, out: &mut [u8]) {
        (self.finish_rows)(isa, acc, n, init, out);
    }
}

#[inline(always)]
fn cast<T: Pod>(bytes: &[u8]) -> &[T] {
    bytemuck::cast_slice(bytes)
}

#[inline(always)]
fn cast_mut<T: Pod>(bytes: &mut [u8]) -> &mut [T] {
    bytemuck::cast_slice_mut(bytes)
}

#[inline(always)]
fn raw<B: Body>(bits: u64) -> B::Raw {
    bytemuck::pod_read_unaligned(&bits.to_le_bytes()[..size_of::<B::Raw>()])
}

/// `acc[i] = combine(acc[i], src[i])`, a strip at a time.
#[inline(always)]
fn fold<B: Body>(acc: &mut [B::Acc], src: &[B::Raw]) {
    // By the length of `src`: a shorter row must not fall behind in the wider lanes.
    let (acc, acc_tail) = acc.split_at_mut(src.len() / STRIP * STRIP);
    let (src, src_tail) = src.split_at(acc.len());
    for (acc, src) in acc.chunks_exact_mut(STRIP).zip(src.chunks_exact(STRIP)) {
        fold_strip::<B>(acc.try_into().expect("a strip"), src.try_into().expect("a strip"));
    }
    for (acc, &src) in acc_tail.iter_mut().zip(src_tail) {
        *acc = B::combine(*acc, B::load(src));
    }
}

#[inline(always)]
fn fold_strip<B: Body>(acc: &mut [B::Acc; STRIP], src: &[B::Raw; STRIP]) {
    for i in 0..STRIP {
        acc[i] = B::combine(acc[i], B::load(src[i]));
    }
}

#[inline(always)]
fn load_all<B: Body>(acc: &mut [B::Acc], src: &[B::Raw]) {
    for (acc, &src) in acc.iter_mut().zip(src) {
        *acc = B::load(src);
    }
}

/// Takes `src`, whose first element belongs to lane 0, into the lanes; `fresh` lanes have no element yet.
#[inline(always)]
fn feed<B: Body>(acc: &mut [B::Acc], fresh: bool, src: &[B::Raw]) {
    let (first, rest) = src.split_at(if fresh { src.len().min(B::LANES) } else { 0 });
    load_all::<B>(acc, first);
    let whole = rest.len() / B::LANES * B::LANES;
    if whole > 0 {
        // A strip of lanes stays in registers while all its elements pass.
        for strip in (0..B::LANES).step_by(STRIP) {
            let lanes: &mut [B::Acc; STRIP] = (&mut acc[strip..strip + STRIP]).try_into().expect("a strip");
            let mut kept = *lanes;
            for row in rest[..whole].chunks_exact(B::LANES) {
                fold_strip::<B>(&mut kept, row[strip..strip + STRIP].try_into().expect("a strip"));
            }
            *lanes = kept;
        }
    }
    fold::<B>(acc, &rest[whole..]);
}

/// One level of the tree on exactly `2 · HALF` lanes.
#[inline(always)]
fn halve<B: Body, const HALF: usize>(acc: &mut [B::Acc]) {
    let (low, high) = acc.split_at_mut(HALF);
    let low: &mut [B::Acc; HALF] = (&mut low[..HALF]).try_into().expect("half the lanes");
    let high: &[B::Acc; HALF] = (&high[..HALF]).try_into().expect("the other half");
    for i in 0..HALF {
        low[i] = B::combine(low[i], high[i]);
    }
}

/// The tree over the `present` lanes, then `init`.
#[inline(always)]
fn tree<B: Body>(acc: &mut [B::Acc], mut present: usize, init: B::Raw) -> B::Raw {
    if present == 0 {
        return B::store(B::load(init));
    }
    let mut half = B::LANES / 2;
    while half > 0 {
        if present >= 2 * half && half <= 64 {
            // From here on all lanes are there; loops of known length become vectors.
            if half >= 64 {
                halve::<B, 64>(acc);
            }
            if half >= 32 {
                halve::<B, 32>(acc);
            }
            if half >= 16 {
                halve::<B, 16>(acc);
            }
            if half >= 8 {
                halve::<B, 8>(acc);
            }
            if half >= 4 {
                halve::<B, 4>(acc);
            }
            if half >= 2 {
                halve::<B, 2>(acc);
            }
            halve::<B, 1>(acc);
            break;
        }
        if present > half {
            let (low, high) = acc[..present].split_at_mut(half);
            for (low, high) in low.iter_mut().zip(high) {
                *low = B::combine(*low, *high);
            }
            present = half;
        }
        half /= 2;
    }
    B::store(B::combine(acc[0], B::load(init)))
}

struct WholeCols<'a, B: Body> {
    src: &'a [B::Raw],
    width: usize,
    init: B::Raw,
    out: &'a mut [B::Raw],
}

impl<B: Body> Vectorized for WholeCols<'_, B> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let WholeCols { src, width, init, out } = self;
        if width == 0 {
            return out.fill(B::store(B::load(init)));
        }
        let (mut rows, mut out) = (src, out);
        if width <= NARROW {
            let many = out.len() / ABREAST * ABREAST;
            let (head, tail) = out.split_at_mut(many);
            let mut acc = [[B::load(init); ABREAST]; NARROW];
            for (out, rows) in head.chunks_exact_mut(ABREAST).zip(src.chunks_exact(ABREAST * width)) {
                abreast::<B>(&mut acc[..width], rows, init, out.try_into().expect("as many results as rows"));
            }
            (rows, out) = (&src[many * width..], tail);
        }
        let mut acc = [B::load(init); COL_LANES];
        let acc = &mut acc[..B::LANES];
        for (out, row) in out.iter_mut().zip(rows.chunks_exact(width)) {
            feed::<B>(acc, true, row);
            *out = tree::<B>(acc, width.min(B::LANES), init);
        }
    }
}

/// Narrow rows, one per vector lane: the same tree, with rows of lanes for lanes. `acc` has a row per column.
#[inline(always)]
fn abreast<B: Body>(acc: &mut [[B::Acc; ABREAST]], rows: &[B::Raw], init: B::Raw, out: &mut [B::Raw; ABREAST]) {
    let width = acc.len();
    for (column, lanes) in acc.iter_mut().enumerate() {
        for r in 0..ABREAST {
            lanes[r] = B::load(rows[r * width + column]);
        }
    }
    let mut present = width;
    let mut half = NARROW / 2;
    while half > 0 {
        if present > half {
            let (low, high) = acc[..present].split_at_mut(half);
            for (low, high) in low.iter_mut().zip(high) {
                for i in 0..ABREAST {
                    low[i] = B::combine(low[i], high[i]);
                }
            }
            present = half;
        }
        half /= 2;
    }
    for i in 0..ABREAST {
        out[i] = B::store(B::combine(acc[0][i], B::load(init)));
    }
}

struct FeedCols<'a, B: Body> {
    acc: &'a mut [B::Acc],
    start: usize,
    src: &'a [B::Raw],
}

impl<B: Body> Vectorized for FeedCols<'_, B> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        feed::<B>(&mut self.acc[..B::LANES], self.start == 0, self.src);
    }
}

struct FinishCols<'a, B: Body> {
    acc: &'a mut [B::Acc],
    n: usize,
    init: B::Raw,
    out: &'a mut [B::Raw],
}

impl<B: Body> Vectorized for FinishCols<'_, B> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        self.out[0] = tree::<B>(self.acc, self.n.min(B::LANES), self.init);
    }
}

struct FeedRows<'a, B: Body> {
    acc: &'a mut [B::Acc],
    start: usize,
    src: &'a [B::Raw],
    width: usize,
}

impl<B: Body> Vectorized for FeedRows<'_, B> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        // Eight rows side by side are one row of all lanes.
        let lanes = ROW_LANES * self.width;
        let fresh = if self.start == 0 { self.src.len().min(lanes) } else { 0 };
        let (first, rest) = self.src.split_at(fresh);
        load_all::<B>(self.acc, first);
        for rows in rest.chunks(lanes) {
            fold::<B>(self.acc, rows);
        }
    }
}

struct FinishRows<'a, B: Body> {
    acc: &'a mut [B::Acc],
    n: usize,
    init: B::Raw,
    out: &'a mut [B::Raw],
}

impl<B: Body> Vectorized for FinishRows<'_, B> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let FinishRows { acc, n, init, out } = self;
        let width = out.len();
        if n == 0 {
            return out.fill(B::store(B::load(init)));
        }
        let mut present = n.min(ROW_LANES);
        let mut half = ROW_LANES / 2;
        while half > 0 {
            if present > half {
                let (low, high) = acc[..present * width].split_at_mut(half * width);
                for (low, high) in low.iter_mut().zip(high) {
                    *low = B::combine(*low, *high);
                }
                present = half;
            }
            half /= 2;
        }
        for (out, &acc) in out.iter_mut().zip(&*acc) {
            *out = B::store(B::combine(acc, B::load(init)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The contract, word by word.
    fn in_order(elements: &[f32], lanes: usize, init: f32, body: fn(f32, f32) -> f32) -> f32 {
        let mut acc: Vec<Option<f32>> = vec![None; lanes];
        for (i, &element) in elements.iter().enumerate() {
            let lane = &mut acc[i % lanes];
            *lane = Some(lane.map_or(element, |lane| body(lane, element)));
        }
        let mut half = lanes / 2;
        while half > 0 {
            for j in 0..half {
                if let (Some(a), Some(b)) = (acc[j], acc[j + half]) {
                    acc[j] = Some(body(a, b));
                }
            }
            half /= 2;
        }
        canonical(acc[0].map_or(init, |tree| body(tree, init)))
    }

    fn noise(n: usize, seed: u32) -> Vec<f32> {
        let mut state = seed | 1;
        (0..n)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 17;
                state ^= state << 5;
                (state as f32 / u32::MAX as f32 - 0.5) * f32::powi(2.0, (state % 20) as i32)
            })
            .collect()
    }

    #[test]
    fn columns_reduce_in_the_contract_s_order() {
        let add = Reducer::new(Monoid::Add, DType::F32).unwrap();
        for isa in Isa::available() {
            for width in [0, 1, 2, 3, 7, 10, 16, 63, 64, 65, 127, 128, 129, 500, 1023, 1024, 1025, 2047, 2500, 9000] {
                let rows = if width < 100 { 37 } else { 3 };
                let src = noise(rows * width, width as u32 + 5);
                let mut out = vec![0f32; rows];
                let init = 0.3f32;
                let bits = u64::from(init.to_bits());
                add.whole_cols(isa, bytemuck::cast_slice(&src), width, bits, bytemuck::cast_slice_mut(&mut out));
                for r in 0..rows {
                    let row = &src[r * width..][..width];
                    let expected = in_order(row, COL_LANES, init, |a, b| a + b);
                    assert_eq!(out[r].to_bits(), expected.to_bits(), "{isa} {width}");
                    let mut acc = vec![0f32; COL_LANES];
                    for (chunk, part) in row.chunks(2 * COL_LANES).enumerate() {
                        let start = chunk * 2 * COL_LANES;
                        add.feed_cols(isa, bytemuck::cast_slice_mut(&mut acc), start, bytemuck::cast_slice(part));
                    }
                    let mut one = [0f32];
                    let acc = bytemuck::cast_slice_mut(&mut acc);
                    add.finish_cols(isa, acc, width, bits, bytemuck::cast_slice_mut(&mut one));
                    assert_eq!(one[0].to_bits(), expected.to_bits(), "{isa} {width} streamed");
                }
            }
        }
    }

    #[test]
    fn rows_reduce_in_the_contract_s_order() {
        let add = Reducer::new(Monoid::Add, DType::F32).unwrap();
        for isa in Isa::available() {
            for (rows, width) in
                [(0, 3), (1, 5), (2, 1), (7, 70), (8, 3), (9, 9), (9, 65), (100, 13), (27, 20), (33, 1), (5, 0)]
            {
                let src = noise(rows * width, 77);
                let (mut acc, mut out) = (vec![0f32; ROW_LANES * width], vec![0f32; width]);
                for (chunk, part) in src.chunks((16 * width).max(1)).enumerate() {
                    let acc = bytemuck::cast_slice_mut(&mut acc);
                    add.feed_rows(isa, acc, chunk * 16, bytemuck::cast_slice(part), width);
                }
                let acc = bytemuck::cast_slice_mut(&mut acc);
                add.finish_rows(isa, acc, rows, u64::from(0.1f32.to_bits()), bytemuck::cast_slice_mut(&mut out));
                for c in 0..width {
                    let column: Vec<f32> = (0..rows).map(|r| src[r * width + c]).collect();
                    assert_eq!(out[c].to_bits(), in_order(&column, ROW_LANES, 0.1, |a, b| a + b).to_bits());
                }
            }
        }
    }

    #[test]
    fn halves_reduce_in_f32_and_round_once() {
        let (narrow, wide) =
            (Reducer::new(Monoid::Add, DType::BF16).unwrap(), Reducer::new(Monoid::Add, DType::F32).unwrap());
        assert_eq!((narrow.col_acc(3), narrow.row_acc(3)), (wide.col_acc(3), wide.row_acc(3)), "lanes are f32");
        for isa in Isa::available() {
            for n in [0, 1, 9, 64, 65, 1025, 5000] {
                let src: Vec<bf16> = noise(n, n as u32 + 1).into_iter().map(bf16::narrow).collect();
                let widened: Vec<f32> = src.iter().map(|x| x.widen()).collect();
                let init = bf16::from_f32(0.3);
                let bits = init.to_bits().into();
                let expected = |lanes| bf16::narrow(in_order(&widened, lanes, init.widen(), |a, b| a + b)).to_bits();
                let mut out = [bf16::ZERO];
                narrow.whole_cols(isa, bytemuck::cast_slice(&src), n, bits, bytemuck::cast_slice_mut(&mut out));
                assert_eq!(out[0].to_bits(), expected(COL_LANES), "{isa} {n} along columns");
                let mut acc = vec![0f32; ROW_LANES];
                narrow.feed_rows(isa, bytemuck::cast_slice_mut(&mut acc), 0, bytemuck::cast_slice(&src), 1);
                let acc = bytemuck::cast_slice_mut(&mut acc);
                narrow.finish_rows(isa, acc, n, bits, bytemuck::cast_slice_mut(&mut out));
                assert_eq!(out[0].to_bits(), expected(ROW_LANES), "{isa} {n} along rows");
            }
        }
    }

    #[test]
    fn float_maximum_and_minimum_know_zeros_and_nan() {
        let reduce = |monoid, elements: &[f32], init: f32| {
            let mut out = [0f32];
            let reducer = Reducer::new(monoid, DType::F32).unwrap();
            let (src, out_bytes) = (bytemuck::cast_slice(elements), bytemuck::cast_slice_mut(&mut out));
            reducer.whole_cols(Isa::best(), src, elements.len(), u64::from(init.to_bits()), out_bytes);
            out[0].to_bits()
        };
        let negative_nan = f32::from_bits(0xffa0_0001);
        assert_eq!(reduce(Monoid::Maximum, &[-0.0, 0.0], -0.0), 0);
        assert_eq!(reduce(Monoid::Minimum, &[0.0, -0.0], 0.0), 0x8000_0000);
        assert_eq!(reduce(Monoid::Maximum, &[f32::INFINITY, negative_nan], 0.0), 0x7fc0_0000);
        assert_eq!(reduce(Monoid::Minimum, &[f32::NEG_INFINITY, negative_nan], 0.0), 0x7fc0_0000);
        assert_eq!(reduce(Monoid::Minimum, &[], negative_nan), 0x7fc0_0000);
        assert_eq!(reduce(Monoid::Minimum, &[1.0, f32::MIN_POSITIVE / 4.0, -3.5], f32::INFINITY), (-3.5f32).to_bits());
    }
}
