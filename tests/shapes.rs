//! New shapes are no new plans: a transformer at a thousand lengths, and loops that meet the cut window at every phase.

use systole::{Config, Device, Dims, DotDims, Mode, Result, Tensor, with_mode};

const HIDDEN: usize = 24;
const HEADS: usize = 3;
const WIDE: usize = 48;

fn numbers(device: &Device, shape: &[usize], seed: usize) -> Result<Tensor> {
    let count: usize = shape.iter().product();
    let elements: Vec<f32> = (0..count).map(|i| ((i * 37 + seed * 101) % 251) as f32 / 251.0 - 0.5).collect();
    Tensor::from_slice(device, &elements, shape.to_vec())
}

/// One encoder layer, from primitives.
struct Layer {
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    up: Tensor,
    down: Tensor,
    bias: Tensor,
}

impl Layer {
    fn new(device: &Device) -> Result<Self> {
        let matrix = |rows, columns, seed| numbers(device, &[rows, columns], seed);
        Ok(Layer {
            query: matrix(HIDDEN, HIDDEN, 1)?,
            key: matrix(HIDDEN, HIDDEN, 2)?,
            value: matrix(HIDDEN, HIDDEN, 3)?,
            out: matrix(HIDDEN, HIDDEN, 4)?,
            up: matrix(HIDDEN, WIDE, 5)?,
            down: matrix(WIDE, HIDDEN, 6)?,
            bias: numbers(device, &[WIDE], 7)?,
        })
    }

    /// `[batch, length, hidden]` to the same.
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (batch, length) = (x.shape()[0], x.shape()[1]);
        let heads = |x: Tensor| x.reshape([batch, length, HEADS, HIDDEN / HEADS])?.transpose(&[0, 2, 1, 3]);
        let (q, k, v) = (heads(dense(x, &self.query)?)?, heads(dense(x, &self.key)?)?, heads(dense(x, &self.value)?)?);
        let scores = attend(&q, &k, 3)?.mul(0.35)?;
        let shifted = scores.sub(&scores.max_keepdims(-1)?)?.exp()?;
        let context = attend(&shifted.div(&shifted.sum_keepdims(-1)?)?, &v, 2)?;
        let merged = context.transpose(&[0, 2, 1, 3])?.reshape([batch, length, HIDDEN])?;
        let x = normalize(&x.add(&dense(&merged, &self.out)?)?)?;
        let wide = dense(&x, &self.up)?.add(&self.bias)?.tanh()?;
        normalize(&x.add(&dense(&wide, &self.down)?)?)
    }
}

fn dense(x: &Tensor, weight: &Tensor) -> Result<Tensor> {
    let dims = DotDims {
        lhs_contracting: Dims::from_slice(&[2]),
        rhs_contracting: Dims::from_slice(&[0]),
        ..DotDims::default()
    };
    x.dot_general(weight, dims)
}

/// Batched over the first two dimensions, contracting the last one and `dim` of `rhs`.
fn attend(lhs: &Tensor, rhs: &Tensor, dim: u32) -> Result<Tensor> {
    let dims = DotDims {
        lhs_batching: Dims::from_slice(&[0, 1]),
        rhs_batching: Dims::from_slice(&[0, 1]),
        lhs_contracting: Dims::from_slice(&[3]),
        rhs_contracting: Dims::from_slice(&[dim]),
        ..DotDims::default()
    };
    lhs.dot_general(rhs, dims)
}

fn normalize(x: &Tensor) -> Result<Tensor> {
    let centred = x.sub(&x.sum_keepdims(-1)?.div(HIDDEN as f64)?)?;
    let variance = centred.mul(&centred)?.sum_keepdims(-1)?.div(HIDDEN as f64)?;
    centred.mul(&variance.add(1e-5)?.rsqrt()?)
}

fn open(first_window: usize) -> Device {
    Device::open(Config { first_window, ..Config::default() }).expect("the simulator opens")
}

fn run(device: &Device, layer: &Layer, batch: usize, length: usize) -> Result<Vec<f32>> {
    layer.forward(&numbers(device, &[batch, length, HIDDEN], length)?)?.to_vec::<f32>()
}

/// Plans and programs built so far.
fn built(device: &Device) -> (u64, u64) {
    let stats = device.stats();
    (stats.plans.builds, stats.programs.builds)
}

#[test]
fn a_thousand_lengths_are_two_plans() -> Result<()> {
    let device = open(512);
    let layer = Layer::new(&device)?;
    let mut after_first = (0, 0);
    for length in (1..=1000).rev() {
        let fused = run(&device, &layer, 1, length)?;
        if [1, 2, 3, 8, 24, 48, 129, 384, 1000].contains(&length) {
            let strict = open(512);
            let expected = with_mode(Mode::Strict, || run(&strict, &Layer::new(&strict)?, 1, length))?;
            assert!(fused.iter().map(|x| x.to_bits()).eq(expected.iter().map(|x| x.to_bits())), "length {length}");
        }
        if length == 1000 {
            after_first = built(&device);
        } else if length == 2 {
            assert_eq!(built(&device), after_first, "the lengths 2 to 1000 share one plan");
        }
    }
    // An extent of 1 is structure: it broadcasts.
    assert_eq!(built(&device).0, 2);
    Ok(())
}

#[test]
fn batches_that_meet_lengths_heads_and_widths_build_nothing() -> Result<()> {
    let device = open(512);
    let layer = Layer::new(&device)?;
    run(&device, &layer, 5, 7)?;
    let first = built(&device);
    for batch in [2, 3, 4, 8, 24, 48] {
        for length in [2, 3, 4, 8, 24, 48] {
            run(&device, &layer, batch, length)?;
        }
    }
    assert_eq!(built(&device), first);
    Ok(())
}

#[test]
fn small_first_windows_build_a_few_plans_more() -> Result<()> {
    let device = open(Config::default().first_window);
    let layer = Layer::new(&device)?;
    let mut total = Vec::new();
    for length in (2..=60).rev() {
        run(&device, &layer, 1, length)?;
        total.push(built(&device));
    }
    assert!(total[0].0 <= 3, "windows of 32 and 64 ops cut the first run: {total:?}");
    assert!(total[2..].iter().all(|&now| now == total[2]), "after that all lengths are known: {total:?}");
    Ok(())
}

/// Rounds of a loop whose body has 9 + `extra` ops, without a flush, so that it meets the windows at changing phases.
fn rounds(x: &mut Tensor, weight: &Tensor, extra: usize, count: usize) -> Result<()> {
    for _ in 0..count {
        let y = x.matmul(weight)?.tanh()?;
        let e = y.sub(&y.max_keepdims(-1)?)?.exp()?;
        let mut next = e.div(&e.sum_keepdims(-1)?)?;
        for step in 0..extra {
            next = if step % 2 == 0 { next.neg()? } else { next.abs()? };
        }
        *x = next;
    }
    Ok(())
}

#[test]
fn a_loop_that_shifts_against_the_window_builds_nothing_in_the_end() -> Result<()> {
    for extra in [0, 1, 4, 10] {
        let device = open(32);
        let mut x = numbers(&device, &[16, 16], 1)?;
        let weight = numbers(&device, &[16, 16], 2)?;
        let ops_before = device.stats().ops;
        rounds(&mut x, &weight, extra, 200)?;
        device.synchronize()?;
        let ops = (device.stats().ops - ops_before) as usize / 200;
        // Every phase once: as many windows as the body has ops, of 512 ops each.
        rounds(&mut x, &weight, extra, 512)?;
        let known = built(&device);
        rounds(&mut x, &weight, extra, 1024)?;
        assert_eq!(built(&device), known, "{ops} ops a round");
    }
    Ok(())
}
