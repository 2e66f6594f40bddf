//! Arg-reductions over tiles: which element is the greatest or least, and where.
//!
//! An element is a value with an index beside it, of any integer dtype; most often the index counts along the reduced
//! dimension, but nothing here relies on it. Docs/numerics.md orders such pairs totally: by value (NaN before every
//! number, −0 equal to +0), then by index, the lower one first, then by the sign of zero. The first of a total order is
//! the same in whatever order pairs are compared, so lanes, chunks, threads and instruction sets are free, and there is
//! an identity, the last pair of all, that empty lanes hold.
//!
//! Values become *keys*: integers in the order of the search, so that the greatest key is the one looked for and its
//! bits give the value back. The loops know two sizes of keys and of indices; what dtypes they stand for is the business
//! of small loops that translate a chunk at a time. Rejected: one 64-bit key of value and index, which has no room for
//! 64-bit values and is slower where 32 bits do.

use std::marker::PhantomData;

use bytemuck::Pod;
use half::{bf16, f16};

use crate::dtype::DType;
use crate::numerics::{Half, canonical};
use crate::program::{Extreme, Winner};
use crate::reduce::{ROW_LANES, flip, key_nan_above, key_nan_below};
use crate::simd::{Isa, Vectorized};

/// Lanes along columns.
const LANES: usize = 64;
/// Elements translated at a time; a multiple of [`LANES`].
const CHUNK: usize = 256;
/// Narrow rows are searched so many at a time, one per vector lane.
const ABREAST: usize = 16;
/// The widest row that counts as narrow.
const NARROW: usize = 64;

/// Types of keys and indices, and when two keys are of equal value.
trait Pairs: 'static {
    type Key: Pod + Ord;
    type Index: Pod + Ord;
    /// The identity: no key is below, no index above.
    const LAST: (Self::Key, Self::Index);
    /// The key of the value that counts: that of both zeros is one.
    fn level(key: Self::Key) -> Self::Key;
}

macro_rules! pairs {
    ($($name:ident: $key:ty, $index:ty, |$k:ident| $level:expr;)*) => {
        $(
            struct $name;
            impl Pairs for $name {
                type Key = $key;
                type Index = $index;
                const LAST: ($key, $index) = (<$key>::MIN, <$index>::MAX);
                #[inline(always)]
                fn level($k: $key) -> $key {
                    $level
                }
            }
        )*
    };
}

// The keys of −0 and +0 are neighbours, −1 and 0, whichever is looked for.
pairs! {
    FloatNarrow: i32, i32, |k| k + i32::from(k == -1);
    FloatWide: i32, i64, |k| k + i32::from(k == -1);
    IntegerNarrow: i32, i32, |k| k;
    IntegerWide: i32, i64, |k| k;
    LongNarrow: i64, i32, |k| k;
    LongWide: i64, i64, |k| k;
}

/// Translates elements to keys or indices.
type Load = fn(Isa, &[u8], &mut [u8]);
/// Translates them back.
type Store = fn(&[u8], &mut [u8]);

/// Rows and an initial pair; the keys and indices of the winners.
type Whole = fn(Isa, &ArgReducer, Rows<'_>, (u64, u64), &mut [u8], &mut [u8]);
/// An accumulator of so many lanes; values and their indices.
type Take = fn(Isa, &ArgReducer, &mut [u8], usize, &[u8], &[u8]);
/// An accumulator of so many lanes, of which so many are to be left; an initial pair.
type Settle = fn(Isa, &ArgReducer, &mut [u8], usize, usize, (u64, u64));

/// The loops of one search on one dtype of values and one of indices.
#[derive(Clone, Copy)]
pub struct ArgReducer {
    value: DType,
    index: DType,
    key_size: usize,
    index_size: usize,
    load_keys: Load,
    load_indices: Load,
    store_keys: Store,
    store_indices: Store,
    reset: fn(&mut [u8], usize),
    whole_cols: Whole,
    feed: Take,
    finish: Settle,
}

/// Rows of values, with a row of indices for each or one for all.
#[derive(Clone, Copy)]
pub struct Rows<'a> {
    /// Values, row by row.
    pub values: &'a [u8],
    /// Indices, row by row; one row's worth serves for all.
    pub indices: &'a [u8],
    /// Elements of a row.
    pub width: usize,
}

impl std::fmt::Debug for ArgReducer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ArgReducer({} by {})", self.value, self.index)
    }
}

impl ArgReducer {
    /// The loops that look for `extreme` among values of dtype `value`; `None` where `index` is no integer dtype.
    pub fn new(extreme: Extreme, value: DType, index: DType) -> Option<ArgReducer> {
        let (load_keys, store_keys) = match extreme {
            Extreme::Greatest => translation::<Greatest>(value),
            Extreme::Least => translation::<Least>(value),
        };
        let (load_indices, store_indices): (Load, Store) = match index {
            DType::I32 => (load::<Greatest, i32>, store::<Greatest, i32>),
            DType::U32 => (load::<Greatest, u32>, store::<Greatest, u32>),
            DType::I64 => (load::<Greatest, i64>, store::<Greatest, i64>),
            DType::Bool | DType::F16 | DType::BF16 | DType::F32 => return None,
        };
        let wide = index == DType::I64;
        let shape = match (value, wide) {
            (DType::F16 | DType::BF16 | DType::F32, false) => ArgReducer::of::<FloatNarrow>,
            (DType::F16 | DType::BF16 | DType::F32, true) => ArgReducer::of::<FloatWide>,
            (DType::Bool | DType::I32 | DType::U32, false) => ArgReducer::of::<IntegerNarrow>,
            (DType::Bool | DType::I32 | DType::U32, true) => ArgReducer::of::<IntegerWide>,
            (DType::I64, false) => ArgReducer::of::<LongNarrow>,
            (DType::I64, true) => ArgReducer::of::<LongWide>,
        };
        Some(shape(value, index, (load_keys, store_keys), (load_indices, store_indices)))
    }

    fn of<P: Pairs>(value: DType, index: DType, keys: (Load, Store), indices: (Load, Store)) -> ArgReducer {
        const { assert!(CHUNK.is_multiple_of(LANES)) }
        ArgReducer {
            value,
            index,
            key_size: size_of::<P::Key>(),
            index_size: size_of::<P::Index>(),
            load_keys: keys.0,
            load_indices: indices.0,
            store_keys: keys.1,
            store_indices: indices.1,
            reset: |acc, lanes| {
                let Lanes { keys, indices } = Lanes::<P>::new(acc, lanes);
                keys.fill(P::LAST.0);
                indices.fill(P::LAST.1);
            },
            whole_cols: |isa, reducer, rows, init, keys, indices| {
                let lanes = Lanes { keys: cast_mut(keys), indices: cast_mut(indices) };
                isa.vectorize(WholeCols::<P> {
                    isa,
                    reducer,
                    rows,
                    init: reducer.pair::<P>(isa, init),
                    winners: lanes,
                });
            },
            feed: |isa, reducer, acc, lanes, values, indices| {
                let lanes = Lanes::new(acc, lanes);
                isa.vectorize(Feed::<P> { isa, reducer, lanes, values, indices });
            },
            finish: |isa, reducer, acc, lanes, results, init| {
                let (lanes, init) = (Lanes::new(acc, lanes), reducer.pair::<P>(isa, init));
                isa.vectorize(Finish::<P> { lanes, results, init });
            },
        }
    }

    /// Bytes of the accumulator for `rows` rows streamed along columns.
    pub fn col_acc(&self, rows: usize) -> usize {
        rows * LANES * (self.key_size + self.index_size)
    }

    /// Bytes of the accumulator for `width` columns streamed along rows.
    pub fn row_acc(&self, width: usize) -> usize {
        ROW_LANES * width * (self.key_size + self.index_size)
    }

    /// Writes what is wanted of the winner of each row to `out`.
    pub fn whole_cols(&self, isa: Isa, rows: Rows<'_>, init: (u64, u64), wanted: Winner, out: &mut [u8]) {
        let (mut keys, mut indices) = ([0i64; CHUNK], [0i64; CHUNK]);
        let (value_size, index_size) = (self.value.size(), self.index.size());
        let out_size = self.size(wanted);
        for (block, out) in out.chunks_mut(CHUNK * out_size).enumerate() {
            let (first, count) = (block * CHUNK, out.len() / out_size);
            let pitch = rows.width * value_size;
            let values = &rows.values[first * pitch..(first + count) * pitch];
            let shared = rows.indices.len() == rows.width * index_size;
            let pitch = rows.width * index_size;
            let those = if shared { rows.indices } else { &rows.indices[first * pitch..(first + count) * pitch] };
            let keys = &mut bytemuck::bytes_of_mut(&mut keys)[..count * self.key_size];
            let indices = &mut bytemuck::bytes_of_mut(&mut indices)[..count * self.index_size];
            let part = Rows { values, indices: those, width: rows.width };
            (self.whole_cols)(isa, self, part, init, keys, indices);
            self.store(keys, indices, wanted, out);
        }
    }

    /// Empties the lanes of one row.
    pub fn reset_cols(&self, acc: &mut [u8]) {
        (self.reset)(acc, LANES);
    }

    /// Empties the lanes of `width` columns.
    pub fn reset_rows(&self, acc: &mut [u8], width: usize) {
        (self.reset)(acc, ROW_LANES * width);
    }

    /// Takes elements of one row, with an index each, into that row's lanes.
    pub fn feed_cols(&self, isa: Isa, acc: &mut [u8], values: &[u8], indices: &[u8]) {
        (self.feed)(isa, self, acc, LANES, values, indices);
    }

    /// Takes rows of `width` elements, with an index each, into the lanes.
    pub fn feed_rows(&self, isa: Isa, acc: &mut [u8], values: &[u8], indices: &[u8], width: usize) {
        if width > 0 {
            (self.feed)(isa, self, acc, ROW_LANES * width, values, indices);
        }
    }

    /// Writes what is wanted of a row's winner, from its lanes, which are consumed.
    pub fn finish_cols(&self, isa: Isa, acc: &mut [u8], init: (u64, u64), wanted: Winner, out: &mut [u8]) {
        self.finish(isa, acc, LANES, 1, init, wanted, out);
    }

    /// Writes what is wanted of each column's winner, from the lanes, which are consumed.
    pub fn finish_rows(&self, isa: Isa, acc: &mut [u8], init: (u64, u64), wanted: Winner, out: &mut [u8]) {
        let width = out.len() / self.size(wanted);
        self.finish(isa, acc, ROW_LANES * width, width, init, wanted, out);
    }

    #[expect(clippy::too_many_arguments, reason = "what its two callers have in common")]
    fn finish(
        &self,
        isa: Isa,
        acc: &mut [u8],
        lanes: usize,
        results: usize,
        init: (u64, u64),
        wanted: Winner,
        out: &mut [u8],
    ) {
        (self.finish)(isa, self, acc, lanes, results, init);
        let (keys, indices) = acc.split_at(lanes * self.key_size);
        self.store(&keys[..results * self.key_size], &indices[..results * self.index_size], wanted, out);
    }

    /// Bytes of an element of what is wanted.
    fn size(&self, wanted: Winner) -> usize {
        match wanted {
            Winner::Value => self.value.size(),
            Winner::Index => self.index.size(),
        }
    }

    fn store(&self, keys: &[u8], indices: &[u8], wanted: Winner, out: &mut [u8]) {
        match wanted {
            Winner::Value => (self.store_keys)(keys, out),
            Winner::Index => (self.store_indices)(indices, out),
        }
    }

    /// A value and an index, as bits, as a pair.
    fn pair<P: Pairs>(&self, isa: Isa, (value, index): (u64, u64)) -> (P::Key, P::Index) {
        // A bit pattern's bytes, aligned for any dtype.
        let (value, index) = ([value.to_le()], [index.to_le()]);
        let (mut key, mut position) = P::LAST;
        let bytes = |bits, dtype: DType| &bytemuck::cast_slice::<u64, u8>(bits)[..dtype.size()];
        (self.load_keys)(isa, bytes(&value, self.value), bytemuck::bytes_of_mut(&mut key));
        (self.load_indices)(isa, bytes(&index, self.index), bytemuck::bytes_of_mut(&mut position));
        (key, position)
    }
}

/// A direction: which integer stands for an ordered integer.
trait Direction: 'static {
    fn turn(ordered: i32) -> i32;
    fn turn_long(ordered: i64) -> i64;
    fn of_float(x: f32) -> i32;
    fn to_float(key: i32) -> f32;
}

struct Greatest;
impl Direction for Greatest {
    #[inline(always)]
    fn turn(ordered: i32) -> i32 {
        ordered
    }
    #[inline(always)]
    fn turn_long(ordered: i64) -> i64 {
        ordered
    }
    #[inline(always)]
    fn of_float(x: f32) -> i32 {
        key_nan_above(x)
    }
    #[inline(always)]
    fn to_float(key: i32) -> f32 {
        f32::from_bits(flip(key) as u32)
    }
}

struct Least;
impl Direction for Least {
    #[inline(always)]
    fn turn(ordered: i32) -> i32 {
        !ordered
    }
    #[inline(always)]
    fn turn_long(ordered: i64) -> i64 {
        !ordered
    }
    #[inline(always)]
    fn of_float(x: f32) -> i32 {
        !key_nan_below(x)
    }
    #[inline(always)]
    fn to_float(key: i32) -> f32 {
        canonical(f32::from_bits(flip(!key) as u32))
    }
}

/// An element type that has keys.
trait Keyed: Pod {
    type Key: Pod;
    fn key<D: Direction>(self) -> Self::Key;
    fn back<D: Direction>(key: Self::Key) -> Self;
}

macro_rules! keyed {
    ($($element:ty as $key:ty, |$x:ident| $to:expr, |$k:ident| $from:expr;)*) => {
        $(
            impl Keyed for $element {
                type Key = $key;
                #[inline(always)]
                fn key<D: Direction>(self) -> $key {
                    let $x = self;
                    $to
                }
                #[inline(always)]
                fn back<D: Direction>($k: $key) -> Self {
                    $from
                }
            }
        )*
    };
}

keyed! {
    // Bools.
    u8 as i32, |x| D::turn(i32::from(x)), |k| D::turn(k) as u8;
    i32 as i32, |x| D::turn(x), |k| D::turn(k);
    u32 as i32, |x| D::turn((x ^ 1 << 31) as i32), |k| D::turn(k) as u32 ^ 1 << 31;
    i64 as i64, |x| D::turn_long(x), |k| D::turn_long(k);
    f16 as i32, |x| D::of_float(x.widen()), |k| f16::narrow(D::to_float(k));
    bf16 as i32, |x| D::of_float(x.widen()), |k| bf16::narrow(D::to_float(k));
    f32 as i32, |x| D::of_float(x), |k| D::to_float(k);
}

fn translation<D: Direction>(dtype: DType) -> (Load, Store) {
    match dtype {
        DType::Bool => (load::<D, u8>, store::<D, u8>),
        DType::I32 => (load::<D, i32>, store::<D, i32>),
        DType::U32 => (load::<D, u32>, store::<D, u32>),
        DType::I64 => (load::<D, i64>, store::<D, i64>),
        DType::F16 => (load::<D, f16>, store::<D, f16>),
        DType::BF16 => (load::<D, bf16>, store::<D, bf16>),
        DType::F32 => (load::<D, f32>, store::<D, f32>),
    }
}

struct Translate<'a, D, E: Keyed> {
    src: &'a [E],
    dst: &'a mut [E::Key],
    direction: PhantomData<D>,
}

impl<D: Direction, E: Keyed> Vectorized for Translate<'_, D, E> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        for (dst, src) in self.dst.iter_mut().zip(self.src) {
            *dst = src.key::<D>();
        }
    }
}

fn load<D: Direction, E: Keyed>(isa: Isa, src: &[u8], dst: &mut [u8]) {
    isa.vectorize(Translate::<D, E> { src: cast(src), dst: cast_mut(dst), direction: PhantomData });
}

fn store<D: Direction, E: Keyed>(src: &[u8], dst: &mut [u8]) {
    for (dst, &src) in cast_mut::<E>(dst).iter_mut().zip(cast::<E::Key>(src)) {
        *dst = E::back::<D>(src);
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

/// The winners of some lanes: their keys, and as many indices.
struct Lanes<'a, P: Pairs> {
    keys: &'a mut [P::Key],
    indices: &'a mut [P::Index],
}

impl<'a, P: Pairs> Lanes<'a, P> {
    fn new(acc: &'a mut [u8], lanes: usize) -> Self {
        let (keys, indices) = acc.split_at_mut(lanes * size_of::<P::Key>());
        Lanes { keys: cast_mut(keys), indices: &mut cast_mut(indices)[..lanes] }
    }
}

/// Whether pair `b` comes before pair `a`.
#[inline(always)]
fn wins<P: Pairs>(b: (P::Key, P::Index), a: (P::Key, P::Index)) -> bool {
    let (before, after) = (P::level(b.0), P::level(a.0));
    (before > after) | ((before == after) & ((b.1 < a.1) | ((b.1 == a.1) & (b.0 > a.0))))
}

#[inline(always)]
fn better<P: Pairs>(a: (P::Key, P::Index), b: (P::Key, P::Index)) -> (P::Key, P::Index) {
    let b_wins = wins::<P>(b, a);
    (if b_wins { b.0 } else { a.0 }, if b_wins { b.1 } else { a.1 })
}

/// Lane by lane, the better pair.
#[inline(always)]
fn fold<P: Pairs>(keys: &mut [P::Key], indices: &mut [P::Index], other_keys: &[P::Key], other_indices: &[P::Index]) {
    let n = other_keys.len();
    let (keys, indices, other_indices) = (&mut keys[..n], &mut indices[..n], &other_indices[..n]);
    for i in 0..n {
        (keys[i], indices[i]) = better::<P>((keys[i], indices[i]), (other_keys[i], other_indices[i]));
    }
}

struct Feed<'a, P: Pairs> {
    isa: Isa,
    reducer: &'a ArgReducer,
    lanes: Lanes<'a, P>,
    values: &'a [u8],
    indices: &'a [u8],
}

impl<P: Pairs> Vectorized for Feed<'_, P> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Feed { isa, reducer, lanes, values, indices } = self;
        feed::<P>(isa, reducer, lanes.keys, lanes.indices, values, indices);
    }
}

/// Takes elements, of which the first belongs to lane 0, into the lanes.
#[inline(always)]
fn feed<P: Pairs>(
    isa: Isa,
    reducer: &ArgReducer,
    keys: &mut [P::Key],
    indices: &mut [P::Index],
    values: &[u8],
    positions: &[u8],
) {
    let (value_size, index_size) = (reducer.value.size(), reducer.index.size());
    let (mut some_keys, mut some_indices) = ([P::LAST.0; CHUNK], [P::LAST.1; CHUNK]);
    let count = values.len() / value_size;
    let (mut at, mut lane) = (0, 0);
    while at < count {
        // As much as fills whole rounds of few lanes, or goes on to the end of many.
        let limit = if keys.len() <= CHUNK { CHUNK / keys.len() * keys.len() } else { CHUNK.min(keys.len() - lane) };
        let n = limit.min(count - at);
        let (some_keys, some_indices) = (&mut some_keys[..n], &mut some_indices[..n]);
        (reducer.load_keys)(isa, &values[at * value_size..(at + n) * value_size], bytemuck::cast_slice_mut(some_keys));
        let those = &positions[at * index_size..(at + n) * index_size];
        (reducer.load_indices)(isa, those, bytemuck::cast_slice_mut(some_indices));
        if keys.len() <= CHUNK {
            for (other_keys, other_indices) in some_keys.chunks(keys.len()).zip(some_indices.chunks(keys.len())) {
                fold::<P>(keys, indices, other_keys, other_indices);
            }
        } else {
            fold::<P>(&mut keys[lane..], &mut indices[lane..], some_keys, some_indices);
            lane = (lane + n) % keys.len();
        }
        at += n;
    }
}

struct Finish<'a, P: Pairs> {
    lanes: Lanes<'a, P>,
    /// Lanes that are left in the end: their number, halved some times.
    results: usize,
    init: (P::Key, P::Index),
}

impl<P: Pairs> Vectorized for Finish<'_, P> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Finish { lanes: Lanes { keys, indices }, results, init } = self;
        finish::<P>(keys, indices, results, init);
    }
}

/// Halves the lanes until `results` are left, then looks at `init`.
#[inline(always)]
fn finish<P: Pairs>(keys: &mut [P::Key], indices: &mut [P::Index], results: usize, init: (P::Key, P::Index)) {
    let mut present = keys.len();
    while present > results {
        let half = present / 2;
        let (low, high) = keys[..present].split_at_mut(half);
        let (low_indices, high_indices) = indices[..present].split_at_mut(half);
        fold::<P>(low, low_indices, high, high_indices);
        present = half;
    }
    for (key, index) in keys[..results].iter_mut().zip(&mut indices[..results]) {
        (*key, *index) = better::<P>((*key, *index), init);
    }
}

struct WholeCols<'a, P: Pairs> {
    isa: Isa,
    reducer: &'a ArgReducer,
    rows: Rows<'a>,
    init: (P::Key, P::Index),
    /// One for each row.
    winners: Lanes<'a, P>,
}

impl<P: Pairs> Vectorized for WholeCols<'_, P> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let WholeCols { isa, reducer, rows: Rows { values, indices, width }, init, winners } = self;
        let (value_pitch, index_pitch) = (width * reducer.value.size(), width * reducer.index.size());
        let shared = indices.len() == index_pitch;
        let those = |rows: std::ops::Range<usize>| {
            if shared { indices } else { &indices[rows.start * index_pitch..rows.end * index_pitch] }
        };
        let count = winners.keys.len();
        let many = if width <= NARROW { count / ABREAST * ABREAST } else { 0 };
        let mut some_keys = [P::LAST.0; ABREAST * NARROW];
        let mut some_indices = [P::LAST.1; ABREAST * NARROW];
        for first in (0..many).step_by(ABREAST) {
            let rows = first..first + ABREAST;
            let values = &values[rows.start * value_pitch..rows.end * value_pitch];
            let loaded = bytemuck::cast_slice_mut(&mut some_keys[..ABREAST * width]);
            (reducer.load_keys)(isa, values, loaded);
            if !shared || first == 0 {
                let indices = those(rows.clone());
                let loaded = bytemuck::cast_slice_mut(&mut some_indices[..indices.len() / reducer.index.size()]);
                (reducer.load_indices)(isa, indices, loaded);
            }
            let (mut keys, mut at) = ([init.0; ABREAST], [init.1; ABREAST]);
            let step = if shared { 0 } else { width };
            for column in 0..width {
                for r in 0..ABREAST {
                    let other = (some_keys[r * width + column], some_indices[r * step + column]);
                    (keys[r], at[r]) = better::<P>((keys[r], at[r]), other);
                }
            }
            winners.keys[rows.clone()].copy_from_slice(&keys);
            winners.indices[rows].copy_from_slice(&at);
        }
        for row in many..count {
            let (mut keys, mut at) = ([P::LAST.0; LANES], [P::LAST.1; LANES]);
            let values = &values[row * value_pitch..(row + 1) * value_pitch];
            feed::<P>(isa, reducer, &mut keys, &mut at, values, those(row..row + 1));
            finish::<P>(&mut keys, &mut at, 1, init);
            (winners.keys[row], winners.indices[row]) = (keys[0], at[0]);
        }
    }
}

#[cfg(test)]
mod tests;
