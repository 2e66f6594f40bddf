//! Inputs: the same numbers on every machine.

use half::bf16;
use systole::{DType, Device, Result, Tensor};

/// Numbers in −1 … 1, evenly spread; another `seed` gives others. Multiples of 2⁻²³, rounded to `dtype`.
pub(crate) fn uniform(device: &Device, dtype: DType, shape: &[usize], seed: u64) -> Result<Tensor> {
    let mut random = SplitMix(seed);
    let numbers = (0..shape.iter().product()).map(|_| (random.next() >> 40) as f32 / (1 << 23) as f32 - 1.0);
    match dtype {
        DType::BF16 => Tensor::from_slice(device, &numbers.map(bf16::from_f32).collect::<Vec<_>>(), shape),
        DType::F32 => Tensor::from_slice(device, &numbers.collect::<Vec<_>>(), shape),
        other => panic!("workloads are of f32 and bf16, not {other}"),
    }
}

/// Numbers below `bound`.
pub(crate) fn indices(device: &Device, bound: usize, shape: &[usize], seed: u64) -> Result<Tensor> {
    let mut random = SplitMix(seed);
    let numbers = (0..shape.iter().product()).map(|_| (random.next() % bound as u64) as i32).collect::<Vec<_>>();
    Tensor::from_slice(device, &numbers, shape)
}

/// SplitMix64 (Steele, Lea and Flood, 2014).
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
