//! The workloads: pieces of networks that a fusing compiler is good for.

use systole::{DType, Device, Result, Tensor};
use systole_models::{Adam, Rates};

use crate::inputs::{indices, uniform};

/// The dtypes that workloads come in.
pub const DTYPES: [DType; 2] = [DType::F32, DType::BF16];

/// How large the tensors are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Size {
    /// As stated by the workload.
    Full,
    /// A sixteenth of each extent, to see whether it works.
    Small,
}

impl Size {
    fn of(self, extent: usize) -> usize {
        match self {
            Size::Full => extent,
            Size::Small => extent / 16,
        }
    }
}

/// Records one step and gives its results.
pub type Step = Box<dyn FnMut() -> Result<Vec<Tensor>>>;

/// A workload that can be run by name.
pub struct Workload {
    /// Name, e.g. `softmax`.
    pub name: &'static str,
    /// What is computed, of which shape.
    pub summary: &'static str,
    start: fn(&Device, DType, Size) -> Result<Step>,
}

impl Workload {
    /// Puts the inputs on `device`.
    ///
    /// # Errors
    /// The device is out of memory.
    ///
    /// # Panics
    /// `dtype` is none of [`DTYPES`].
    pub fn start(&self, device: &Device, dtype: DType, size: Size) -> Result<Step> {
        (self.start)(device, dtype, size)
    }
}

/// Those that tell what fusion is worth.
pub static FUSION: [Workload; 8] = [
    Workload { name: "gelu", summary: "gelu(x · w + b) + residual on 1024×4096, w and b by column", start: gelu },
    Workload { name: "softmax", summary: "softmax of the rows of 1024×4096", start: softmax },
    Workload {
        name: "layer-norm",
        summary: "layer norm of the rows of 1024×4096, with weight and bias",
        start: layer_norm,
    },
    Workload {
        name: "rms-norm",
        summary: "RMS norm of the rows of 1024×4096, with weight, plus residual",
        start: rms_norm,
    },
    Workload { name: "linear", summary: "gelu(x W + b) + residual, 1024×256 by 256×1024", start: linear },
    Workload { name: "attention", summary: "attention of 8 heads of 64 over 256 positions", start: attention },
    Workload { name: "adamw", summary: "a step of AdamW over 10,000,000 parameters", start: adamw },
    Workload {
        name: "cross-entropy",
        summary: "cross-entropy of 256 rows of 32,000 classes and its gradient",
        start: cross_entropy,
    },
];

fn matrix(device: &Device, dtype: DType, size: Size, seed: u64) -> Result<Tensor> {
    uniform(device, dtype, &[size.of(1024), size.of(4096)], seed)
}

fn row(device: &Device, dtype: DType, size: Size, seed: u64) -> Result<Tensor> {
    uniform(device, dtype, &[size.of(4096)], seed)
}

fn gelu(device: &Device, dtype: DType, size: Size) -> Result<Step> {
    let (x, residual) = (matrix(device, dtype, size, 1)?, matrix(device, dtype, size, 2)?);
    let (w, b) = (row(device, dtype, size, 3)?, row(device, dtype, size, 4)?);
    Ok(Box::new(move || Ok(vec![x.mul(&w)?.add(&b)?.gelu()?.add(&residual)?])))
}

fn softmax(device: &Device, dtype: DType, size: Size) -> Result<Step> {
    let x = matrix(device, dtype, size, 1)?;
    Ok(Box::new(move || Ok(vec![x.softmax(-1)?])))
}

fn layer_norm(device: &Device, dtype: DType, size: Size) -> Result<Step> {
    let x = matrix(device, dtype, size, 1)?;
    let (weight, bias) = (row(device, dtype, size, 2)?, row(device, dtype, size, 3)?);
    Ok(Box::new(move || Ok(vec![x.layer_norm(Some(&weight), Some(&bias), 1e-5)?])))
}

fn rms_norm(device: &Device, dtype: DType, size: Size) -> Result<Step> {
    let (x, residual) = (matrix(device, dtype, size, 1)?, matrix(device, dtype, size, 2)?);
    let weight = row(device, dtype, size, 3)?;
    Ok(Box::new(move || Ok(vec![x.rms_norm(Some(&weight), 1e-6)?.add(&residual)?])))
}

fn linear(device: &Device, dtype: DType, size: Size) -> Result<Step> {
    let (m, k, n) = (size.of(1024), size.of(256), size.of(1024));
    let (x, w) = (uniform(device, dtype, &[m, k], 1)?, uniform(device, dtype, &[k, n], 2)?);
    let (b, residual) = (uniform(device, dtype, &[n], 3)?, uniform(device, dtype, &[m, n], 4)?);
    Ok(Box::new(move || Ok(vec![x.matmul(&w)?.add(&b)?.gelu()?.add(&residual)?])))
}

fn attention(device: &Device, dtype: DType, size: Size) -> Result<Step> {
    let shape = [8, size.of(256), size.of(64)];
    let [query, key, value] = [1, 2, 3].map(|seed| uniform(device, dtype, &shape, seed));
    let (query, key, value) = (query?, key?, value?);
    Ok(Box::new(move || Ok(vec![query.attention(&key, &value, None, None)?])))
}

fn adamw(device: &Device, dtype: DType, size: Size) -> Result<Step> {
    const RATES: Rates = Rates { rate: 1e-3, betas: [0.9, 0.999], epsilon: 1e-8, decay: 0.01 };
    let shape = [size.of(10_000_000)];
    let mut parameter = uniform(device, dtype, &shape, 1)?;
    let gradient = uniform(device, dtype, &shape, 2)?;
    let mut adam = Adam::new(device, dtype, RATES, [shape])?;
    Ok(Box::new(move || {
        adam.step([&mut parameter], [gradient.clone()])?;
        Ok(vec![parameter.clone()])
    }))
}

/// The loss as logarithms of probabilities give it, and its gradient by the logits, (softmax − one-hot) / rows.
fn cross_entropy(device: &Device, dtype: DType, size: Size) -> Result<Step> {
    let (rows, classes) = (size.of(256), size.of(32_000));
    let logits = uniform(device, dtype, &[rows, classes], 1)?;
    let labels = indices(device, classes, &[rows, 1], 2)?;
    let class = Tensor::iota(device, DType::I32, [rows, classes], 1)?;
    Ok(Box::new(move || {
        let logarithms = logits.log_softmax(-1)?;
        let chosen = class.eq(&labels)?;
        let loss = chosen.select(&logarithms, 0.0)?.sum(..)?.div(-(rows as f64))?;
        let gradient = logarithms.exp()?.sub(&chosen.convert(dtype)?)?.div(rows as f64)?;
        Ok(vec![loss, gradient])
    }))
}
