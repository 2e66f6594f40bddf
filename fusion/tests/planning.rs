//! Plans of small traces: what runs together, what does not and why, and when buffers die.

mod programs;
mod traces;

use expect_test::{Expect, expect};
use systole_fusion::canonical::canonicalize;
use systole_fusion::ir::{Opcode, Trace, ValueId};
use systole_fusion::plan::{Plan, PlanConfig};
use systole_kernels::DType;
use systole_kernels::program::Comparison;
use traces::Builder;

fn plan(trace: &Trace, donatable: bool, fuse: bool) -> Plan {
    let keyed = canonicalize(trace, &vec![donatable; trace.inputs().len()])
        .expect("a plain trace has a key");
    Plan::build(&keyed.key, &PlanConfig { fuse })
}

#[allow(clippy::needless_pass_by_value, reason = "reads as a table of cases")]
fn check(trace: &Trace, expected: Expect) {
    expected.assert_eq(&format!("{}\n", plan(trace, false, true)));
}

/// Adam's new moments and parameter.
fn adam(b: &mut Builder, gradient: ValueId, state: [ValueId; 3]) -> [ValueId; 3] {
    let [parameter, first, second] = state;
    let average = |b: &mut Builder, moment: ValueId, beta: f32, sample: ValueId| {
        let (keep, take) = (b.like(beta, moment), b.like(1.0 - beta, moment));
        let (kept, taken) =
            (b.op(Opcode::Multiply, &[moment, keep]), b.op(Opcode::Multiply, &[sample, take]));
        b.op(Opcode::Add, &[kept, taken])
    };
    let first = average(b, first, 0.9, gradient);
    let square = b.op(Opcode::Multiply, &[gradient, gradient]);
    let second = average(b, second, 0.999, square);
    let [correct1, correct2, epsilon, rate] =
        [0.1, 0.001, 1e-8, 1e-3].map(|number| b.like(number, first));
    let mean = b.op(Opcode::Divide, &[first, correct1]);
    let variance = b.op(Opcode::Divide, &[second, correct2]);
    let root = b.op(Opcode::Sqrt, &[variance]);
    let below = b.op(Opcode::Add, &[root, epsilon]);
    let quotient = b.op(Opcode::Divide, &[mean, below]);
    let change = b.op(Opcode::Multiply, &[quotient, rate]);
    [b.op(Opcode::Subtract, &[parameter, change]), first, second]
}

/// A training step of the digits perceptron, as its model records it.
fn digits_step(batch: usize, inputs: usize, hidden: usize, classes: usize) -> Trace {
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

#[test]
fn a_training_step_is_eight_launches() {
    let trace = digits_step(64, 64, 32, 10);
    check(&trace, expect![[r#"
        %14 f32[p1, p2], %15 bool[p1, p2] = dot_general+add+maximum+compare(%0, %2, %5)
        %16 f32[p1, 1], %17 f32[p1, p3] = dot_general+add+reduce+subtract+exponential+reduce+compare+8more(%14, %8, %11, %1)
        %18 f32[] = reduce+divide(%16!)
        %19 f32[p2, p3], %20 f32[p2, p3], %21 f32[p2, p3] = dot_general+multiply+multiply+add+multiply+multiply+multiply+8more(%14!, %17, %9, %10, %8)
        %22 f32[p3], %23 f32[p3], %24 f32[p3] = reduce+multiply+multiply+add+multiply+multiply+multiply+add+7more(%17, %12, %13, %11)
        %25 f32[p1, p2] = dot_general+select(%17!, %8, %15!)
        %26 f32[p1, p2], %27 f32[p1, p2], %28 f32[p1, p2] = dot_general+multiply+multiply+add+multiply+multiply+multiply+8more(%0, %25, %3, %4, %2)
        %29 f32[p2], %30 f32[p2], %31 f32[p2] = reduce+multiply+multiply+add+multiply+multiply+multiply+add+7more(%25!, %6, %7, %5)
        return %18, %28, %26, %27, %31, %29, %30, %21, %19, %20, %24, %22, %23
    "#]]);
    assert_eq!(plan(&trace, false, true).launch_count(), 8);
    // Nearly every extent is 64 here, so shapes say little about which dimension is which.
    assert_eq!(plan(&digits_step(64, 64, 64, 64), false, true).launch_count(), 8);
}
