//! Contractions against the contract's text: a triple loop with one chain of fused multiply-adds per block of 128.

use std::ops::Range;

use systole_kernels::contract::{DotOperand, PackedRhs, Terms, dot, dot_few};
use systole_kernels::numerics::Half;
use systole_kernels::simd::Isa;
use systole_kernels::{DType, bf16, f16};

/// A matrix inside a buffer: element (free, contract) lies at `free[i] + contract[k]`.
#[derive(Clone, Debug)]
struct Layout {
    free: Vec<i64>,
    contract: Vec<i64>,
    len: usize,
}

impl Layout {
    fn new(free: Vec<i64>, contract: Vec<i64>) -> Self {
        let last = free.iter().max().unwrap_or(&0) + contract.iter().max().unwrap_or(&0);
        Layout { free, contract, len: last as usize + 1 }
    }

    fn operand<'a, T: bytemuck::Pod>(&'a self, elements: &'a [T]) -> DotOperand<'a> {
        DotOperand { bytes: bytemuck::cast_slice(elements), free: &self.free, contract: &self.contract }
    }

    fn at<T: Copy>(&self, elements: &[T], i: usize, k: usize) -> T {
        elements[(self.free[i] + self.contract[k]) as usize]
    }
}

fn steps(count: usize, start: i64, step: i64) -> Vec<i64> {
    (0..count as i64).map(|i| start + i * step).collect()
}

/// Two axes flattened row-major, of which the inner one has extent 3.
fn nested(count: usize, outer: i64, inner: i64) -> Vec<i64> {
    (0..count as i64).map(|i| i / 3 * outer + i % 3 * inner).collect()
}

/// Layouts of a `free` × `contract` matrix: rows, columns, strided, reversed, two axes each, the same row repeated.
fn layouts(free: usize, contract: usize) -> Vec<Layout> {
    let (f, c) = (free as i64, contract as i64);
    vec![
        Layout::new(steps(free, 0, c), steps(contract, 0, 1)),
        Layout::new(steps(free, 0, 1), steps(contract, 0, f)),
        Layout::new(steps(free, 5, 2 * c + 1), steps(contract, 0, 2)),
        Layout::new(steps(free, (f - 1).max(0) * c, -c), steps(contract, (c - 1).max(0), -1)),
        Layout::new(nested(free, 7, 1), nested(contract, 7 * f, 3)),
        Layout::new(steps(free, 3, 0), steps(contract, 0, 1)),
    ]
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 ^ (self.0 >> 29)
    }

    /// Numbers of mixed signs and of magnitudes 2⁻⁸ to 2⁸, so that sums round at every step.
    fn float(&mut self) -> f32 {
        let bits = self.next();
        let exponent = 119 + (bits >> 40) % 16;
        f32::from_bits(((bits >> 32) as u32 & 0x807f_ffff) | (exponent as u32) << 23)
    }

    fn floats(&mut self, len: usize) -> Vec<f32> {
        (0..len).map(|_| self.float()).collect()
    }
}

/// The contract, word for word.
fn chain(depth: usize, mut at: impl FnMut(usize) -> (f32, f32)) -> f32 {
    let mut result = None;
    for start in (0..depth).step_by(128) {
        let mut acc = 0.0f32;
        for k in start..depth.min(start + 128) {
            let (a, b) = at(k);
            acc = a.mul_add(b, acc);
        }
        result = Some(result.map_or(acc, |sum: f32| sum + acc));
    }
    let result = result.unwrap_or(0.0);
    if result.is_nan() { f32::from_bits(0x7fc0_0000) } else { result }
}

/// Runs all the rows and the given columns on every instruction set and compares bits.
fn check(lhs: (&Layout, &[f32]), rhs: (&Layout, &[f32]), columns: Range<usize>) {
    let depth = lhs.0.contract.len();
    let expected: Vec<u32> = (0..lhs.0.free.len())
        .flat_map(|i| columns.clone().map(move |j| (i, j)))
        .map(|(i, j)| chain(depth, |k| (lhs.0.at(lhs.1, i, k), rhs.0.at(rhs.1, j, k))).to_bits())
        .collect();
    for isa in Isa::available() {
        let packed = PackedRhs::pack(isa, DType::F32, Terms::IEEE, &rhs.0.operand(rhs.1));
        assert_eq!(packed.columns(), rhs.0.free.len());
        // Whatever was in the output before does not matter.
        let mut out = vec![u32::MAX; expected.len()];
        dot(
            isa,
            (DType::F32, DType::F32),
            &lhs.0.operand(lhs.1),
            &packed,
            columns.clone(),
            bytemuck::cast_slice_mut(&mut out),
        );
        assert_eq!(out, expected, "{isa}: {:?} · {:?}, columns {columns:?}", lhs.0, rhs.0);
    }
}

#[test]
fn every_shape_follows_the_order_of_the_contract() {
    let mut random = Random(1);
    for depth in [0, 1, 127, 128, 129, 300] {
        for rows in [1, 3, 8, 17, 64] {
            for columns in [1, 3, 8, 17, 64] {
                let (lhs, rhs) = (&layouts(rows, depth)[0], &layouts(columns, depth)[1]);
                check((lhs, &random.floats(lhs.len)), (rhs, &random.floats(rhs.len)), 0..columns);
            }
        }
    }
}

#[test]
fn every_layout_gives_the_same_sums() {
    let mut random = Random(2);
    for (rows, depth, columns) in [(1, 300, 33), (13, 129, 21), (50, 40, 67), (11, 1, 16), (7, 10, 10)] {
        for lhs in &layouts(rows, depth) {
            for rhs in &layouts(columns, depth) {
                check((lhs, &random.floats(lhs.len)), (rhs, &random.floats(rhs.len)), 0..columns);
            }
        }
    }
}

#[test]
fn a_range_of_columns_or_rows_has_the_bits_of_the_whole() {
    let mut random = Random(3);
    let (lhs, rhs) = (&layouts(29, 200)[0], &layouts(150, 200)[0]);
    let (a, b) = (random.floats(lhs.len), random.floats(rhs.len));
    for columns in [0..150, 0..0, 0..1, 31..33, 32..96, 64..150, 7..150, 149..150, 100..131] {
        check((lhs, &a), (rhs, &b), columns);
    }
    for rows in [0..0, 0..1, 3..9, 28..29] {
        let some = Layout { free: lhs.free[rows].to_vec(), ..lhs.clone() };
        check((&some, &a), (rhs, &b), 0..150);
    }
}

#[test]
fn special_values_stay_in_their_rows_and_columns() {
    const SPECIAL: [u32; 12] = [
        0x7fc0_0000,
        0xffc1_2345,
        0x7f80_0001,
        0x7f80_0000,
        0xff80_0000,
        0x0000_0000,
        0x8000_0000,
        0x0000_0001,
        0x8000_0001,
        0x007f_ffff,
        0x7f7f_ffff,
        0xff7f_ffff,
    ];
    let mut random = Random(4);
    let (lhs, rhs) = (&layouts(19, 150)[0], &layouts(37, 150)[1]);
    for round in 0..20 {
        let (mut a, mut b) = (random.floats(lhs.len), random.floats(rhs.len));
        for _ in 0..1 + round / 4 {
            for elements in [&mut a, &mut b] {
                let at = random.next() as usize % elements.len();
                elements[at] = f32::from_bits(SPECIAL[random.next() as usize % SPECIAL.len()]);
            }
        }
        check((lhs, &a), (rhs, &b), 0..37);
    }
    // Products and sums that are subnormal, or exactly zero with either sign.
    let tiny: Vec<f32> = (0..lhs.len).map(|_| random.float() * 1e-20).collect();
    let small: Vec<f32> = (0..rhs.len).map(|_| random.float() * 1e-20).collect();
    check((lhs, &tiny), (rhs, &small), 0..37);
    check((lhs, &vec![-0.0; lhs.len]), (rhs, &small), 0..37);
    // Nothing but −0 is added: the accumulator's +0 at the start decides.
    check((lhs, &vec![-0.0; lhs.len]), (rhs, &vec![1.0; rhs.len]), 0..37);
}

#[test]
fn a_packed_operand_is_reused_for_other_shapes() {
    let mut random = Random(5);
    for isa in Isa::available() {
        let mut packed = PackedRhs::pack(isa, DType::F32, Terms::IEEE, &layouts(0, 0)[0].operand(&[f32::NAN]));
        for (depth, columns) in [(300, 70), (3, 5), (0, 9), (64, 64), (1, 1), (129, 20)] {
            let (lhs, rhs) = (&layouts(5, depth)[1], &layouts(columns, depth)[2]);
            let (a, b) = (random.floats(lhs.len), random.floats(rhs.len));
            packed.repack(isa, DType::F32, Terms::IEEE, &rhs.operand(&b));
            let mut out = vec![f32::NAN; 5 * columns];
            dot(
                isa,
                (DType::F32, DType::F32),
                &lhs.operand(&a),
                &packed,
                0..columns,
                bytemuck::cast_slice_mut(&mut out),
            );
            for (i, row) in out.chunks_exact(columns).enumerate() {
                for (j, got) in row.iter().enumerate() {
                    let expected = chain(depth, |k| (lhs.at(&a, i, k), rhs.at(&b, j, k)));
                    assert_eq!(got.to_bits(), expected.to_bits(), "{isa} {depth}×{columns} at {i}, {j}");
                }
            }
        }
    }
}

/// Integer contraction of one dtype, through its unsigned form.
fn check_integers<T>(dtype: DType, element: impl Fn(u64) -> T, fma: impl Fn(T, T, T) -> T)
where
    T: bytemuck::Pod + PartialEq + std::fmt::Debug,
{
    let mut random = Random(6);
    for (rows, depth, columns) in [(1, 0, 3), (3, 1, 1), (5, 300, 17), (20, 128, 64), (2, 129, 100)] {
        for lhs in &layouts(rows, depth) {
            for rhs in &layouts(columns, depth) {
                let a: Vec<T> = (0..lhs.len).map(|_| element(random.next())).collect();
                let b: Vec<T> = (0..rhs.len).map(|_| element(random.next())).collect();
                for isa in Isa::available() {
                    let packed = PackedRhs::pack(isa, dtype, Terms::IEEE, &rhs.operand(&b));
                    let from = columns / 2;
                    let mut out = vec![element(u64::MAX); rows * (columns - from)];
                    let bytes = bytemuck::cast_slice_mut(&mut out);
                    dot(isa, (dtype, dtype), &lhs.operand(&a), &packed, from..columns, bytes);
                    for (i, row) in out.chunks_exact(columns - from).enumerate() {
                        for (j, &got) in row.iter().enumerate() {
                            let expected = (0..depth)
                                .fold(element(0), |sum, k| fma(sum, lhs.at(&a, i, k), rhs.at(&b, from + j, k)));
                            assert_eq!(got, expected, "{dtype} on {isa} at {i}, {j}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn integers_wrap() {
    check_integers(DType::I32, |bits| bits as i32, |sum: i32, a, b| sum.wrapping_add(a.wrapping_mul(b)));
    check_integers(DType::U32, |bits| bits as u32, |sum: u32, a, b| sum.wrapping_add(a.wrapping_mul(b)));
    check_integers(DType::I64, |bits| bits as i64, |sum: i64, a, b| sum.wrapping_add(a.wrapping_mul(b)));
}

#[test]
#[should_panic(expected = "a packed operand is used as it was packed")]
fn another_dtype_than_packed_is_a_bug() {
    let layout = &layouts(2, 2)[0];
    let packed = PackedRhs::pack(Isa::PORTABLE, DType::I32, Terms::IEEE, &layout.operand(&[1i32, 2, 3, 4]));
    dot(Isa::PORTABLE, (DType::F32, DType::F32), &layout.operand(&[1f32, 2.0, 3.0, 4.0]), &packed, 0..2, &mut [0; 16]);
}

/// 16-bit operands, also with special values among them: the chain of the widened ones, as it is and rounded once.
fn check_halves<H: Half>(dtype: DType, round: fn(f32) -> H) {
    let mut random = Random(7);
    for (rows, depth, columns) in [(1, 300, 33), (50, 129, 21), (11, 1, 16), (3, 0, 5), (60, 16, 24)] {
        for (lhs, rhs) in
            layouts(rows, depth).iter().flat_map(|lhs| layouts(columns, depth).into_iter().map(move |rhs| (lhs, rhs)))
        {
            let mut elements = |len: usize| -> Vec<H> {
                let spiced = random.next().is_multiple_of(4);
                let any = |bits: u64| H::of_bits(bits as u16);
                (0..len)
                    .map(|_| {
                        if spiced && random.next().is_multiple_of(50) {
                            any(random.next())
                        } else {
                            round(random.float())
                        }
                    })
                    .collect()
            };
            let (a, b) = (elements(lhs.len), elements(rhs.len));
            let from = columns / 3;
            for isa in Isa::available() {
                let packed = PackedRhs::pack(isa, dtype, Terms::IEEE, &rhs.operand(&b));
                let mut wide = vec![f32::NAN; rows * (columns - from)];
                let mut narrow = vec![H::of_bits(u16::MAX); wide.len()];
                let operand = lhs.operand(&a);
                dot(isa, (dtype, DType::F32), &operand, &packed, from..columns, bytemuck::cast_slice_mut(&mut wide));
                dot(isa, (dtype, dtype), &operand, &packed, from..columns, bytemuck::cast_slice_mut(&mut narrow));
                for (at, (wide, narrow)) in wide.iter().zip(&narrow).enumerate() {
                    let (i, j) = (at / (columns - from), from + at % (columns - from));
                    let expected = chain(depth, |k| (lhs.at(&a, i, k).widen(), rhs.at(&b, j, k).widen()));
                    assert_eq!(wide.to_bits(), expected.to_bits(), "{dtype} on {isa} at {i}, {j}");
                    let rounded: u16 = bytemuck::cast(round(expected));
                    assert_eq!(bytemuck::cast::<H, u16>(*narrow), rounded, "{dtype} on {isa} at {i}, {j}");
                }
            }
        }
    }
}

#[test]
fn halves_are_summed_in_f32_and_rounded_once() {
    // Canonical NaNs, which are all that a chain gives, keep their upper bits.
    check_halves(DType::BF16, bf16::from_f32);
    check_halves(DType::F16, f16::from_f32);
}

#[test]
#[should_panic(expected = "contraction is not defined from bf16 to f16")]
fn no_contraction_converts_between_halves() {
    let layout = &layouts(2, 2)[0];
    let elements = [bf16::ONE; 4];
    let packed = PackedRhs::pack(Isa::PORTABLE, DType::BF16, Terms::IEEE, &layout.operand(&elements));
    dot(Isa::PORTABLE, (DType::BF16, DType::F16), &layout.operand(&elements), &packed, 0..2, &mut [0; 8]);
}

#[test]
fn exchanged_operands_give_the_same_bits() {
    let mut random = Random(11);
    for isa in Isa::available() {
        for (rows, columns, depth) in
            [(1, 1, 1), (1, 50, 300), (9, 97, 128), (16, 48, 129), (27, 200, 384), (48, 49, 7)]
        {
            for (lhs, rhs) in layouts(rows, depth).iter().zip(layouts(columns, depth).iter().rev()) {
                let mut floats = |len: usize| -> Vec<f32> {
                    let special = [f32::NAN, f32::INFINITY, -0.0, 1e-40, f32::MAX];
                    let float = |bits: u64| match bits % 97 {
                        n @ 0..5 if rows % 2 == 0 => special[n as usize],
                        _ => (bits >> 40) as f32 / 1e6 - 8.0,
                    };
                    (0..len).map(|_| float(random.next())).collect()
                };
                let (a, b) = (floats(lhs.len), floats(rhs.len));
                let (a, b) = (lhs.operand(&a), rhs.operand(&b));
                let mut wanted = vec![0u32; rows * columns];
                let packed = PackedRhs::pack(isa, DType::F32, Terms::IEEE, &b);
                let bytes = bytemuck::cast_slice_mut(&mut wanted);
                dot(isa, (DType::F32, DType::F32), &a, &packed, 0..columns, bytes);
                let mut got = vec![0u32; rows * columns];
                dot_few(
                    isa,
                    &PackedRhs::pack(isa, DType::F32, Terms::IEEE, &a),
                    &b,
                    bytemuck::cast_slice_mut(&mut got),
                );
                assert_eq!(got, wanted, "{rows}×{columns} of depth {depth} on {isa}");
            }
        }
    }
}
