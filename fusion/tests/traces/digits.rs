//! The training step that the digits model records.

use systole_fusion::ir::{Opcode, Trace, ValueId};
use systole_kernels::DType;
use systole_kernels::program::Comparison;

use super::Builder;

/// Adam's new moments and parameter.
fn adam(b: &mut Builder, gradient: ValueId, state: [ValueId; 3]) -> [ValueId; 3] {
    let [parameter, first, second] = state;
    let average = |b: &mut Builder, moment: ValueId, beta: f32, sample: ValueId| {
        let (keep, take) = (b.like(beta, moment), b.like(1.0 - beta, moment));
        let (kept, taken) = (b.op(Opcode::Multiply, &[moment, keep]), b.op(Opcode::Multiply, &[sample, take]));
        b.op(Opcode::Add, &[kept, taken])
    };
    let first = average(b, first, 0.9, gradient);
    let square = b.op(Opcode::Multiply, &[gradient, gradient]);
    let second = average(b, second, 0.999, square);
    let [correct1, correct2, epsilon, rate] = [0.1, 0.001, 1e-8, 1e-3].map(|number| b.like(number, first));
    let mean = b.op(Opcode::Divide, &[first, correct1]);
    let variance = b.op(Opcode::Divide, &[second, correct2]);
    let root = b.op(Opcode::Sqrt, &[variance]);
    let below = b.op(Opcode::Add, &[root, epsilon]);
    let quotient = b.op(Opcode::Divide, &[mean, below]);
    let change = b.op(Opcode::Multiply, &[quotient, rate]);
    [b.op(Opcode::Subtract, &[parameter, change]), first, second]
}

/// A training step of the digits perceptron, as its model records it.
pub(crate) fn digits_step(batch: usize, inputs: usize, hidden: usize, classes: usize) -> Trace {
    let mut b = Builder::new();
    let all = b.input(&[4 * batch, inputs]);
    let all_labels = b.input_of(DType::I32, &[4 * batch, 1]);
    let shapes: [&[usize]; 4] = [&[inputs, hidden], &[hidden], &[hidden, classes], &[classes]];
    let state = shapes.map(|shape| [b.input(shape), b.input(shape), b.input(shape)]);
    let [w1, b1, w2, b2] = state.map(|state| state[0]);

    let limit = |columns: usize| [2 * batch as i64, columns as i64];
    let x = b.slice(all, &[batch as i64, 0], &limit(inputs), &[1, 1]);
    let labels = b.slice(all_labels, &[batch as i64, 0], &limit(1), &[1, 1]);
    let product = b.dot(x, w1, [1, 0]);
    let bias = b.broadcast(b1, &[batch, hidden], &[1]);
    let before = b.op(Opcode::Add, &[product, bias]);
    let zero = b.like(0.0, before);
    let h = b.op(Opcode::Maximum, &[before, zero]);
    let product = b.dot(h, w2, [1, 0]);
    let bias = b.broadcast(b2, &[batch, classes], &[1]);
    let logits = b.op(Opcode::Add, &[product, bias]);

    let wide = [batch, classes];
    let keep = |b: &mut Builder, value: ValueId| b.reshape(value, &[batch, 1]);
    let largest = b.maximum_of(logits, &[1]);
    let largest = keep(&mut b, largest);
    let largest = b.broadcast(largest, &wide, &[0, 1]);
    let shifted = b.op(Opcode::Subtract, &[logits, largest]);
    let exponentials = b.op(Opcode::Exponential, &[shifted]);
    let normalizer = b.sum(exponentials, &[1]);
    let normalizer = keep(&mut b, normalizer);
    let iota = b.iota(DType::I32, &wide, 1);
    let labels = b.broadcast(labels, &wide, &[0, 1]);
    let hit = b.compare(Comparison::Eq, iota, labels);
    let expected = b.convert(hit, DType::F32);
    let log = b.op(Opcode::Log, &[normalizer]);
    let chosen = b.op(Opcode::Multiply, &[shifted, expected]);
    let chosen = b.sum(chosen, &[1]);
    let chosen = keep(&mut b, chosen);
    let losses = b.op(Opcode::Subtract, &[log, chosen]);
    let total = b.sum(losses, &[0, 1]);
    let count = b.number(batch as f32);
    let loss = b.op(Opcode::Divide, &[total, count]);

    let normalizer = b.broadcast(normalizer, &wide, &[0, 1]);
    let probabilities = b.op(Opcode::Divide, &[exponentials, normalizer]);
    let difference = b.op(Opcode::Subtract, &[probabilities, expected]);
    let count = b.like(batch as f32, difference);
    let by_logits = b.op(Opcode::Divide, &[difference, count]);
    let by_w2 = b.dot(h, by_logits, [0, 0]);
    let by_b2 = b.sum(by_logits, &[0]);
    let by_h = b.dot(by_logits, w2, [1, 1]);
    let positive = b.compare(Comparison::Gt, before, zero);
    let by_before = b.op(Opcode::Select, &[positive, by_h, zero]);
    let by_w1 = b.dot(x, by_before, [0, 0]);
    let by_b1 = b.sum(by_before, &[0]);

    let mut outputs = vec![loss];
    for (gradient, state) in [by_w1, by_b1, by_w2, by_b2].into_iter().zip(state) {
        outputs.extend(adam(&mut b, gradient, state));
    }
    b.finish(&outputs)
}
