//! The flat form of keys: what is written where, and the way back.
//!
//! Words are 32 bits. Two extents share a word (16-bit codes: 0 and 1 are the extents 0 and 1, `n + 2` is parameter
//! `n`), four dimension numbers do. What follows a node's opcode is determined by the opcode and the types before it,
//! so there are no tags and no lengths but where StableHLO leaves a length open.

use smallvec::SmallVec;
use systole_kernels::DType;
use systole_kernels::program::{BufferType, Comparison, Extent, Extreme, Monoid, Order, Precision, Winner};

use crate::ir::attrs::Dims;
use crate::ir::{DotDims, GatherDims, Opcode};

/// Extents or extent-valued arguments.
pub(super) type Extents = SmallVec<[Extent; 4]>;

const COMPARISONS: [Comparison; 6] =
    [Comparison::Eq, Comparison::Ne, Comparison::Ge, Comparison::Gt, Comparison::Le, Comparison::Lt];
const MONOIDS: [Monoid; 6] = [Monoid::Add, Monoid::Multiply, Monoid::Maximum, Monoid::Minimum, Monoid::And, Monoid::Or];
const HEADER: usize = 5;

/// Folded multiplication over pairs of words: one multiply per eight bytes, and every input bit reaches every output
/// bit. The constants are digits of π.
pub(super) fn hash(words: &[u32]) -> u64 {
    const KEYS: [u64; 2] = [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344];
    let fold = |a: u64, b: u64| {
        let product = u128::from(a) * u128::from(b);
        product as u64 ^ (product >> 64) as u64
    };
    let mut hash = words.len() as u64 ^ KEYS[1];
    let (pairs, rest) = words.as_chunks::<2>();
    for &[low, high] in pairs {
        hash = fold(hash ^ (u64::from(low) | u64::from(high) << 32), KEYS[0]).wrapping_add(KEYS[1]);
    }
    for &word in rest {
        hash = fold(hash ^ u64::from(word), KEYS[0]).wrapping_add(KEYS[1]);
    }
    fold(hash, KEYS[0])
}

fn code(extent: Extent) -> u32 {
    match extent {
        Extent::Fixed(value) => {
            assert!(value == 0 || value == 1, "only 0 and 1 are structural, not {value}");
            value as u32
        }
        Extent::Param(param) => (u32::from(param) + 2) & 0xffff,
    }
}

fn extent(code: u32) -> Extent {
    match code {
        0 | 1 => Extent::Fixed(i64::from(code)),
        param => Extent::Param((param - 2) as u16),
    }
}

/// Writes a key.
pub(super) struct Writer {
    words: SmallVec<[u32; 64]>,
}

impl Writer {
    pub(super) fn with_capacity(words: usize) -> Self {
        Writer { words: SmallVec::with_capacity(words) }
    }

    pub(super) fn header(&mut self, inputs: usize, nodes: usize, outputs: usize) {
        let count = |n: usize| u32::try_from(n).expect("a trace has fewer than 2^32 values");
        self.words.extend([0, 0, count(inputs), count(nodes), count(outputs)]);
    }

    /// The words; the counts of parameters and scalars, known only now, go to the front.
    pub(super) fn finish(mut self, params: usize, scalars: usize) -> SmallVec<[u32; 64]> {
        self.words[0] = params as u32;
        self.words[1] = scalars as u32;
        self.words
    }

    pub(super) fn word(&mut self, word: u32) {
        self.words.push(word);
    }

    pub(super) fn ty(&mut self, dtype: DType, flag: bool, mut extents: impl ExactSizeIterator<Item = Extent>) {
        let head = dtype as u32 | u32::from(flag) << 7 | (extents.len() as u32) << 8;
        self.words.push(head | extents.next().map_or(0, code) << 16);
        self.extents(extents);
    }

    pub(super) fn extents(&mut self, mut extents: impl Iterator<Item = Extent>) {
        while let Some(low) = extents.next() {
            self.words.push(code(low) | extents.next().map_or(0, code) << 16);
        }
    }

    pub(super) fn dims(&mut self, dims: &[u32]) {
        for four in dims.chunks(4) {
            self.words.push(four.iter().rev().fold(0, |word, &dim| word << 8 | dim));
        }
    }

    pub(super) fn node(&mut self, op: Opcode, operands: impl ExactSizeIterator<Item = u32>) {
        self.words.push(op as u32 | (operands.len() as u32) << 16);
        self.words.extend(operands);
    }

    pub(super) fn compare(&mut self, direction: Comparison, order: Order) {
        self.words.push(direction as u32 | (order as u32) << 8);
    }

    pub(super) fn reduce(&mut self, monoid: Monoid, dims: &[u32]) {
        self.words.push(monoid as u32 | (dims.len() as u32) << 8);
        self.dims(dims);
    }

    pub(super) fn arg_reduce(&mut self, extreme: Extreme, winner: Winner, dims: &[u32]) {
        self.words.push(extreme as u32 | (winner as u32) << 1 | (dims.len() as u32) << 8);
        self.dims(dims);
    }

    pub(super) fn dot(&mut self, dims: &DotDims) {
        let result = dims.result.map_or(0, |dtype| dtype as u32 + 1);
        let lengths = dims.lhs_batching.len() as u32 | (dims.lhs_contracting.len() as u32) << 8;
        self.words.push(lengths | result << 16 | (dims.precision as u32) << 24);
        self.dims(&dims.lhs_batching);
        self.dims(&dims.rhs_batching);
        self.dims(&dims.lhs_contracting);
        self.dims(&dims.rhs_contracting);
    }

    /// Everything but the slice sizes.
    pub(super) fn gather(&mut self, dims: &GatherDims) {
        let lists = [
            &dims.offset_dims,
            &dims.collapsed_slice_dims,
            &dims.operand_batching_dims,
            &dims.start_indices_batching_dims,
        ];
        self.dims(&lists.map(|list| list.len() as u32));
        let last = dims.start_index_map.len() as u32 | dims.index_vector_dim << 8;
        self.words.push(last | u32::from(dims.indices_are_sorted) << 24);
        for list in lists {
            self.dims(list);
        }
        self.dims(&dims.start_index_map);
    }
}

/// Reads a key.
///
/// Keys come from [`Writer`] only, so running off the end is a bug of this module and panics.
pub(super) struct Reader<'a> {
    words: std::slice::Iter<'a, u32>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(words: &'a [u32]) -> Self {
        Reader { words: words.iter() }
    }

    pub(super) fn word(&mut self) -> u32 {
        *self.words.next().expect("a key is as long as its parts say")
    }

    /// Params, scalars, inputs, nodes, outputs.
    pub(super) fn header(&mut self) -> [u32; HEADER] {
        [(); HEADER].map(|()| self.word())
    }

    pub(super) fn ty(&mut self) -> (BufferType, bool) {
        let head = self.word();
        let dtype = DType::ALL[(head & 0x7f) as usize];
        let rank = (head >> 8 & 0xff) as usize;
        let mut shape = Extents::new();
        if rank > 0 {
            shape.push(extent(head >> 16));
            shape.extend(self.extents(rank - 1));
        }
        (BufferType { dtype, shape }, head & 0x80 != 0)
    }

    pub(super) fn extents(&mut self, count: usize) -> Extents {
        let mut extents = Extents::new();
        while extents.len() < count {
            let word = self.word();
            extents.push(extent(word & 0xffff));
            if extents.len() < count {
                extents.push(extent(word >> 16));
            }
        }
        extents
    }

    pub(super) fn dims(&mut self, count: usize) -> Dims {
        let mut dims = Dims::new();
        while dims.len() < count {
            let word = self.word();
            let four = (0..4).map(|i| word >> (8 * i) & 0xff);
            dims.extend(four.take(count - dims.len()));
        }
        dims
    }

    pub(super) fn node(&mut self) -> (Opcode, SmallVec<[u32; 3]>) {
        let head = self.word();
        let operands = (0..head >> 16).map(|_| self.word()).collect();
        (Opcode::ALL[(head & 0xffff) as usize], operands)
    }

    pub(super) fn compare(&mut self) -> (Comparison, Order) {
        let word = self.word();
        let order = if word >> 8 == Order::Total as u32 { Order::Total } else { Order::Partial };
        (COMPARISONS[(word & 0xff) as usize], order)
    }

    pub(super) fn reduce(&mut self) -> (Monoid, Dims) {
        let word = self.word();
        (MONOIDS[(word & 0xff) as usize], self.dims((word >> 8) as usize))
    }

    pub(super) fn arg_reduce(&mut self) -> (Extreme, Winner, Dims) {
        let word = self.word();
        let extreme = if word & 1 == Extreme::Greatest as u32 { Extreme::Greatest } else { Extreme::Least };
        let winner = if word >> 1 & 1 == Winner::Value as u32 { Winner::Value } else { Winner::Index };
        (extreme, winner, self.dims((word >> 8) as usize))
    }

    pub(super) fn dot(&mut self) -> DotDims {
        let word = self.word();
        let (batching, contracting) = ((word & 0xff) as usize, (word >> 8 & 0xff) as usize);
        DotDims {
            lhs_batching: self.dims(batching),
            rhs_batching: self.dims(batching),
            lhs_contracting: self.dims(contracting),
            rhs_contracting: self.dims(contracting),
            result: (word >> 16 & 0xff).checked_sub(1).map(|dtype| DType::ALL[dtype as usize]),
            precision: Precision::ALL[(word >> 24) as usize],
        }
    }

    /// Everything but the slice sizes.
    pub(super) fn gather(&mut self) -> GatherDims {
        let lengths = self.dims(4);
        let last = self.word();
        GatherDims {
            offset_dims: self.dims(lengths[0] as usize),
            collapsed_slice_dims: self.dims(lengths[1] as usize),
            operand_batching_dims: self.dims(lengths[2] as usize),
            start_indices_batching_dims: self.dims(lengths[3] as usize),
            start_index_map: self.dims((last & 0xff) as usize),
            index_vector_dim: last >> 8 & 0xff,
            slice_sizes: SmallVec::new(),
            indices_are_sorted: last >> 24 != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_indexed_by_discriminant() {
        assert!(COMPARISONS.iter().enumerate().all(|(i, &comparison)| comparison as usize == i));
        assert!(MONOIDS.iter().enumerate().all(|(i, &monoid)| monoid as usize == i));
        assert!(DType::ALL.iter().enumerate().all(|(i, &dtype)| dtype as usize == i));
        assert!(Opcode::ALL.iter().enumerate().all(|(i, &op)| op as usize == i));
    }

    #[test]
    fn every_bit_and_the_length_reach_the_hash() {
        let words = [3u32, 0, 7, 1, 9];
        let mut seen = std::collections::HashSet::from([hash(&words)]);
        for i in 0..words.len() {
            for bit in 0..32 {
                let mut other = words;
                other[i] ^= 1 << bit;
                assert!(seen.insert(hash(&other)), "word {i} bit {bit}");
            }
        }
        assert!(seen.insert(hash(&[3, 0, 7, 1, 9, 0])));
    }
}
