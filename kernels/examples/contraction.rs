//! Speed of the `f32` contraction on one thread, against the machine's peak of fused multiply-adds in the same run.
//!
//! `cargo run --release -p systole-kernels --example contraction`. Times are the best of several; packing the right
//! operand is shown apart, for rows (k × n in memory) and for columns (n × k, as linear layers keep their weights).
#![allow(clippy::print_stdout, reason = "a command: its report is its output")]

use std::hint::black_box;
use std::time::Instant;

use systole_kernels::DType;
use systole_kernels::contract::{DotOperand, PackedRhs, Terms, dot};
use systole_kernels::simd::{Isa, OverVectors, Vectors};

const SHAPES: [(usize, usize, usize); 9] = [
    (64, 64, 64),
    (64, 64, 10),
    (64, 10, 64),
    (128, 128, 128),
    (256, 256, 256),
    (1024, 1024, 1024),
    (1, 1024, 1024),
    (13, 384, 384),
    (128, 384, 1536),
];

/// Chains of multiply-adds in the tile's registers, so many steps long. The result is the number of operations.
struct Chains {
    steps: usize,
}

impl OverVectors for Chains {
    type Output = usize;

    #[inline(always)]
    fn run<V: Vectors>(self, vectors: V) -> usize {
        const CHAINS: usize = 12;
        let x = vectors.splat(black_box(0.5));
        let mut sums = [x; CHAINS];
        for _ in 0..self.steps {
            for sum in &mut sums {
                *sum = vectors.mul_add(*sum, x, x);
            }
        }
        for sum in sums {
            let mut array = bytemuck::Zeroable::zeroed();
            vectors.store(sum, &mut array);
            black_box::<V::Array>(array);
        }
        2 * self.steps * CHAINS * V::LANES
    }
}

/// Seconds of the fastest of several runs, of which none starts after two seconds.
fn fastest(repeat: usize, mut work: impl FnMut()) -> f64 {
    let (mut best, first) = (f64::INFINITY, Instant::now());
    for _ in 0..10 {
        let start = Instant::now();
        if best.is_finite() && start.duration_since(first).as_secs() >= 2 {
            break;
        }
        for _ in 0..repeat {
            work();
        }
        best = best.min(start.elapsed().as_secs_f64() / repeat as f64);
    }
    best
}

fn offsets(count: usize, step: usize) -> Vec<i64> {
    (0..count).map(|i| (i * step) as i64).collect()
}

fn main() {
    for isa in Isa::available() {
        let mut operations = 0;
        let seconds = fastest(1, || operations = isa.with_vectors(Chains { steps: 100_000 }));
        let peak = operations as f64 / seconds / 1e9;
        println!("{isa}: peak {peak:.1} GFLOP/s");
        for (m, k, n) in SHAPES {
            let operations = 2.0 * (m * k * n) as f64;
            let repeat = (peak * 1e6 / operations) as usize + 1;
            let a: Vec<f32> = (0..m * k).map(|i| (i % 17) as f32 * 0.25 - 1.0).collect();
            let b: Vec<f32> = (0..k * n).map(|i| (i % 13) as f32 * 0.5 - 2.0).collect();
            let (ones, lhs_rows, rhs_rows) = (offsets(k.max(n), 1), offsets(m, k), offsets(k, n));
            let rhs_columns = offsets(n, k);
            let lhs = DotOperand { bytes: bytemuck::cast_slice(&a), free: &lhs_rows, contract: &ones[..k] };
            let rows = DotOperand { bytes: bytemuck::cast_slice(&b), free: &ones[..n], contract: &rhs_rows };
            let columns = DotOperand { bytes: bytemuck::cast_slice(&b), free: &rhs_columns, contract: &ones[..k] };
            let mut out = vec![0f32; m * n];
            let mut packed = PackedRhs::pack(isa, DType::F32, Terms::IEEE, &rows);
            let by_columns = fastest(repeat, || packed.repack(isa, DType::F32, Terms::IEEE, black_box(&columns)));
            let by_rows = fastest(repeat, || packed.repack(isa, DType::F32, Terms::IEEE, black_box(&rows)));
            let product = fastest(repeat, || {
                dot(isa, (DType::F32, DType::F32), &lhs, &packed, 0..n, bytemuck::cast_slice_mut(black_box(&mut out)));
            });
            let rate = operations / product / 1e9;
            println!(
                "  {:>16} {rate:7.1} GFLOP/s ({:3.0} %)  dot {:9.2} µs  pack {:7.2} µs rows {:7.2} µs columns",
                format!("{m}×{k}×{n}"),
                rate / peak * 100.0,
                product * 1e6,
                by_rows * 1e6,
                by_columns * 1e6,
            );
        }
    }
}
