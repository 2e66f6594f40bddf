//! Every dtype and instruction set against the words of the contract.

use super::*;
use crate::scalar::{Element, Scalar};

/// The winner, pair by pair, by the words of the contract.
fn first_of(extreme: Extreme, pairs: &[(Scalar, i64)]) -> (Scalar, i64) {
    let before = |(x, i): (Scalar, i64), (y, j): (Scalar, i64)| {
        let (a, b) = (x.to_f64(), y.to_f64());
        let ahead = match extreme {
            Extreme::Greatest => a > b,
            Extreme::Least => a < b,
        };
        let signs = (a.is_sign_negative(), b.is_sign_negative());
        let zero = match extreme {
            Extreme::Greatest => signs == (false, true),
            Extreme::Least => signs == (true, false),
        };
        let equal = a == b || (a.is_nan() && b.is_nan());
        ahead || (a.is_nan() && !b.is_nan()) || (equal && (i < j || (i == j && a == 0.0 && zero)))
    };
    let mut best = pairs[0];
    for &pair in &pairs[1..] {
        if before(pair, best) {
            best = pair;
        }
    }
    best
}

fn noise(n: usize, seed: u32) -> Vec<u32> {
    let mut state = seed.wrapping_mul(2654435761) | 1;
    (0..n)
        .map(|_| {
            state = state.wrapping_mul(1664525).wrapping_add(1013904223);
            state >> 8
        })
        .collect()
}

fn check<T: Element>(dtype: DType, values: impl Fn(u32) -> T, indices: DType) {
    let raw = |x: Scalar| if x.dtype().is_float() && x.to_f64().is_nan() { f64::NAN.to_bits() } else { x.bits() };
    for extreme in [Extreme::Greatest, Extreme::Least] {
        let reducer = ArgReducer::new(extreme, dtype, indices).expect("an integer index");
        for isa in Isa::available() {
            for (rows, width) in [(1, 0), (1, 1), (3, 5), (40, 10), (33, 64), (5, 65), (2, 300), (300, 2), (1, 5000)] {
                let elements: Vec<T> = noise(rows * width, 7 + width as u32).into_iter().map(&values).collect();
                let bytes: Vec<u8> =
                    elements.iter().flat_map(|x| x.to_scalar().to_le_bytes()[..dtype.size()].to_vec()).collect();
                let index = |i: usize| Scalar::from_f64(indices, i as f64);
                let at: Vec<u8> = (0..width).flat_map(|i| index(i).to_le_bytes()[..indices.size()].to_vec()).collect();
                let init = (Scalar::from_f64(dtype, 0.0), index(3));
                let bits = (init.0.bits(), init.1.bits());
                let pair = |r: usize, c: usize| (elements[r * width + c].to_scalar(), c as i64);
                let expected: Vec<(Scalar, i64)> = (0..rows)
                    .map(|r| {
                        let mut pairs: Vec<_> = (0..width).map(|c| pair(r, c)).collect();
                        pairs.push((init.0, 3));
                        first_of(extreme, &pairs)
                    })
                    .collect();
                // Element slices must be aligned for their dtype.
                let aligned = |bytes: &[u8]| {
                    let mut words = vec![0u64; bytes.len().div_ceil(8)];
                    bytemuck::cast_slice_mut::<u64, u8>(&mut words)[..bytes.len()].copy_from_slice(bytes);
                    words
                };
                let (bytes_words, at_words) = (aligned(&bytes), aligned(&at));
                let (bytes, at) = (
                    &bytemuck::cast_slice::<u64, u8>(&bytes_words)[..bytes.len()],
                    &bytemuck::cast_slice::<u64, u8>(&at_words)[..at.len()],
                );
                let read = |words: &[u64], dtype: DType| -> Vec<Scalar> {
                    let bytes = &bytemuck::cast_slice::<u64, u8>(words)[..rows * dtype.size()];
                    bytes.chunks(dtype.size()).map(|chunk| Scalar::from_le_bytes(dtype, chunk)).collect()
                };
                let mut out = vec![0u64; rows];
                let part = Rows { values: bytes, indices: at, width };
                let mut run = |wanted: Winner, dtype: DType| {
                    let out_bytes = &mut bytemuck::cast_slice_mut::<u64, u8>(&mut out)[..rows * dtype.size()];
                    reducer.whole_cols(isa, part, bits, wanted, out_bytes);
                    read(&out, dtype)
                };
                let found: Vec<_> = run(Winner::Value, dtype);
                for (found, (value, _)) in found.into_iter().zip(&expected) {
                    assert_eq!(raw(found), raw(*value), "{extreme:?} {dtype} {isa} {rows}x{width}");
                }
                let positions = run(Winner::Index, indices);
                for (found, (_, index)) in positions.iter().zip(&expected) {
                    assert_eq!(found.to_f64() as i64, *index, "{extreme:?} {dtype} {isa} {rows}x{width}");
                }
                // The same rows in chunks, and as columns in chunks.
                let mut acc = vec![0u64; reducer.col_acc(1) / 8];
                for (r, &expected) in positions.iter().enumerate() {
                    let row = &bytes[r * width * dtype.size()..(r + 1) * width * dtype.size()];
                    let acc = bytemuck::cast_slice_mut(&mut acc);
                    reducer.reset_cols(acc);
                    let chunk = 2 * LANES;
                    for (row, at) in row.chunks(chunk * dtype.size()).zip(at.chunks(chunk * indices.size())) {
                        reducer.feed_cols(isa, acc, row, at);
                    }
                    let mut one = [0u64];
                    let bytes = &mut bytemuck::cast_slice_mut::<u64, u8>(&mut one)[..indices.size()];
                    reducer.finish_cols(isa, acc, bits, Winner::Index, bytes);
                    assert_eq!(Scalar::from_bits(indices, one[0]), expected);
                }
                let mut acc = vec![0u64; reducer.row_acc(rows) / 8];
                let acc = bytemuck::cast_slice_mut(&mut acc);
                reducer.reset_rows(acc, rows);
                for first in (0..width).step_by(16) {
                    let last = (first + 16).min(width);
                    let turned: Vec<u8> = (first..last)
                        .flat_map(|c| (0..rows).map(move |r| (r, c)))
                        .flat_map(|(r, c)| pair(r, c).0.to_le_bytes()[..dtype.size()].to_vec())
                        .collect();
                    let beside: Vec<u8> = (first..last)
                        .flat_map(|c| vec![index(c); rows])
                        .flat_map(|i| i.to_le_bytes()[..indices.size()].to_vec())
                        .collect();
                    let (turned_words, beside_words) = (aligned(&turned), aligned(&beside));
                    let turned = &bytemuck::cast_slice::<u64, u8>(&turned_words)[..turned.len()];
                    let beside = &bytemuck::cast_slice::<u64, u8>(&beside_words)[..beside.len()];
                    reducer.feed_rows(isa, acc, turned, beside, rows);
                }
                let mut out = vec![0u64; rows];
                let out_bytes = &mut bytemuck::cast_slice_mut::<u64, u8>(&mut out)[..rows * indices.size()];
                reducer.finish_rows(isa, acc, bits, Winner::Index, out_bytes);
                assert_eq!(read(&out, indices), positions, "{extreme:?} {dtype} {isa} {rows}x{width} along rows");
            }
        }
    }
}

#[test]
fn the_first_of_the_order_wins() {
    const FEW: [f32; 8] = [1.0, -0.0, 0.0, -3.5, f32::NAN, f32::NEG_INFINITY, f32::INFINITY, -1e-42];
    check(DType::F32, |x| FEW[x as usize % 8], DType::I32);
    check(DType::F32, |x| [0.0, -0.0][x as usize % 2], DType::I64);
    check(DType::F32, |x| x as f32 - 1e7, DType::U32);
    check(DType::BF16, |x| bf16::from_f32(FEW[x as usize % 8]), DType::I32);
    check(DType::F16, |x| f16::from_f32(x as f32 / 1e4), DType::I64);
    check(DType::I32, |x| x as i32 % 5 - 2, DType::I32);
    check(DType::U32, |x| (x % 3) << 30, DType::I64);
    check(DType::I64, |x| (i64::from(x) % 7 - 3) << 40, DType::I32);
    check(DType::Bool, |x| x % 9 == 0, DType::U32);
}
