//! Plans of small traces: what runs together, what does not and why, and when buffers die.

mod traces;

use expect_test::{Expect, expect};
use systole_fusion::canonical::canonicalize;
use systole_fusion::ir::{Opcode, Trace, ValueId};
use systole_fusion::plan::{Plan, PlanConfig};
use systole_kernels::DType;
use traces::Builder;
use traces::digits::digits_step;

fn plan(trace: &Trace, donatable: bool, fuse: bool) -> Plan {
    let keyed = canonicalize(trace, &vec![donatable; trace.inputs().len()]).expect("a plain trace has a key");
    Plan::build(&keyed.key, &PlanConfig { fuse })
}

#[allow(clippy::needless_pass_by_value, reason = "reads as a table of cases")]
fn check(trace: &Trace, expected: Expect) {
    expected.assert_eq(&format!("{}\n", plan(trace, false, true)));
}

#[test]
fn a_training_step_is_nine_launches() {
    let trace = digits_step(64, 64, 32, 10);
    check(
        &trace,
        expect![[r#"
            %14 f32[p5, p3], %15 bool[p5, p3] = dot_general+add+maximum+compare(%0, %2, %5)
            %16 f32[p5, p4] = dot_general+add(%14, %8, %11)
            %17 f32[p5, 1], %18 f32[p5, p4] = reduce+subtract+exponential+reduce+compare+convert+log+6more(%16!, %1)
            %19 f32[] = reduce+divide(%17!)
            %20 f32[p3, p4], %21 f32[p3, p4], %22 f32[p3, p4] = dot_general+multiply+multiply+add+multiply+multiply+multiply+8more(%14!, %18, %9, %10, %8)
            %23 f32[p4], %24 f32[p4], %25 f32[p4] = reduce+multiply+multiply+add+multiply+multiply+multiply+add+7more(%18, %12, %13, %11)
            %26 f32[p5, p3] = dot_general+select(%18!, %8, %15!)
            %27 f32[p1, p3], %28 f32[p1, p3], %29 f32[p1, p3] = dot_general+multiply+multiply+add+multiply+multiply+multiply+8more(%0, %26, %3, %4, %2)
            %30 f32[p3], %31 f32[p3], %32 f32[p3] = reduce+multiply+multiply+add+multiply+multiply+multiply+add+7more(%26!, %6, %7, %5)
            return %19, %29, %27, %28, %32, %30, %31, %22, %20, %21, %25, %23, %24
        "#]],
    );
    assert_eq!(plan(&trace, false, true).launch_count(), 9);
    // Nearly every extent is 64 here, so shapes say little about which dimension is which.
    assert_eq!(plan(&digits_step(64, 64, 64, 64), false, true).launch_count(), 9);
}

#[test]
fn softmax_is_one_launch_whatever_the_form_of_its_broadcasts() {
    let mut b = Builder::new();
    let x = b.input(&[8, 8, 8]);
    let largest = b.maximum_of(x, &[2]);
    let spread = b.broadcast(largest, &[8, 8, 8], &[0, 1]);
    let shifted = b.op(Opcode::Subtract, &[x, spread]);
    let exponentials = b.op(Opcode::Exponential, &[shifted]);
    let total = b.sum(exponentials, &[2]);
    let kept = b.reshape(total, &[8, 8, 1]);
    let spread = b.broadcast(kept, &[8, 8, 8], &[0, 1, 2]);
    let softmax = b.op(Opcode::Divide, &[exponentials, spread]);
    check(
        &b.finish(&[softmax, kept]),
        expect![[r#"
            %1 f32[p0, p1], %2 f32[p0, p1, p2] = reduce+subtract+exponential+reduce+divide(%0)
            %3 f32[p0, p1, 1] = alias %1
            return %2, %3
        "#]],
    );
}

#[test]
fn reductions_along_rows_fuse_too_and_directions_do_not_mix() {
    let mut b = Builder::new();
    let x = b.input(&[6, 5]);
    let mean = b.sum(x, &[0]);
    let spread = b.broadcast(mean, &[6, 5], &[1]);
    let centred = b.op(Opcode::Subtract, &[x, spread]);
    let square = b.op(Opcode::Multiply, &[centred, centred]);
    let variance = b.sum(square, &[0]);
    let by_row = b.sum(square, &[1]);
    check(
        &b.finish(&[variance, by_row]),
        expect![[r#"
        %1 f32[p0, p1], %2 f32[p1] = reduce+subtract+multiply+reduce(%0)
        %3 f32[p0] = reduce(%1!)
        return %2, %3
    "#]],
    );
}

#[test]
fn views_fold_into_what_reads_them() {
    let mut b = Builder::new();
    let x = b.input(&[6, 5]);
    let part = b.slice(x, &[1, 0], &[5, 5], &[2, 1]);
    let turned = b.transpose(part, &[1, 0]);
    let row = b.input(&[2]);
    let row = b.broadcast(row, &[5, 2], &[1]);
    let sum = b.op(Opcode::Add, &[turned, row]);
    // A second slice on one path is a copy.
    let again = b.slice(turned, &[0, 0], &[3, 1], &[1, 1]);
    let more = b.op(Opcode::Tanh, &[again]);
    check(
        &b.finish(&[sum, more]),
        expect![[r#"
        %2 f32[p1, p2], %3 f32[p1, p2] = transpose+add(%0, %1)
        %4 f32[p6, 1] = tanh(%2!)
        return %3, %4
    "#]],
    );
}

#[test]
fn a_dot_takes_views_before_and_one_epilogue_after() {
    let mut b = Builder::new();
    let (q, k, v) = (b.input(&[7, 2, 16]), b.input(&[7, 2, 16]), b.input(&[7, 2, 16]));
    let q = b.transpose(q, &[1, 0, 2]);
    let k = b.transpose(k, &[1, 2, 0]);
    let scores = b.dot_general(q, k, [&[0], &[0]], [&[2], &[1]]);
    let scale = b.like(0.25, scores);
    let scaled = b.op(Opcode::Multiply, &[scores, scale]);
    let mask = b.input(&[7, 7]);
    let mask = b.broadcast(mask, &[2, 7, 7], &[1, 2]);
    let masked = b.op(Opcode::Add, &[scaled, mask]);
    let largest = b.maximum_of(masked, &[2]);
    let spread = b.broadcast(largest, &[2, 7, 7], &[0, 1]);
    let shifted = b.op(Opcode::Subtract, &[masked, spread]);
    let exponentials = b.op(Opcode::Exponential, &[shifted]);
    let total = b.sum(exponentials, &[2]);
    let spread = b.broadcast(total, &[2, 7, 7], &[0, 1]);
    let weights = b.op(Opcode::Divide, &[exponentials, spread]);
    let v = b.transpose(v, &[1, 0, 2]);
    let mixed = b.dot_general(weights, v, [&[0], &[0]], [&[2], &[1]]);
    let merged = b.transpose(mixed, &[1, 0, 2]);
    let flat = b.reshape(merged, &[7, 32]);
    check(
        &b.finish(&[flat]),
        expect![[r#"
            %4 f32[p1, p0, p3] = dot_general+multiply+add+reduce+subtract+exponential+reduce+1more(%0, %1, %3)
            %5 f32[p0, p1, p4] = dot_general+transpose(%4!, %2)
            %6 f32[p0, p5] = alias %5
            return %6
        "#]],
    );
}

#[test]
fn siblings_share_what_they_read() {
    let mut b = Builder::new();
    let x = b.input(&[6, 5]);
    let y = b.op(Opcode::Tanh, &[x]);
    let z = b.op(Opcode::Sqrt, &[x]);
    let row = b.sum(x, &[1]);
    check(
        &b.finish(&[y, z, row]),
        expect![[r#"
        %1 f32[p0, p1], %2 f32[p0, p1], %3 f32[p0] = tanh+sqrt+reduce(%0)
        return %1, %2, %3
    "#]],
    );
}

#[test]
fn gather_pad_and_concatenate_start_groups() {
    let mut b = Builder::new();
    let table = b.input(&[9, 4]);
    let ids = b.input_of(DType::I32, &[3]);
    let rows = b.take(table, ids, 0);
    let scaled = b.like(2.0, rows);
    let scaled = b.op(Opcode::Multiply, &[rows, scaled]);
    let zero = b.number(0f32);
    let padded = b.pad(scaled, zero, &[1, 0], &[0, 0], &[0, 0]);
    let root = b.op(Opcode::Sqrt, &[padded]);
    let both = b.concatenate(&[root, table], 0);
    let result = b.op(Opcode::Negate, &[both]);
    check(
        &b.finish(&[result]),
        expect![[r#"
            %2 f32[p2, p1] = gather+multiply(%0, %1)
            %3 f32[p3, p1] = pad+sqrt(%2!)
            %4 f32[p6, p1] = concatenate+negate(%3!, %0)
            return %4
        "#]],
    );
}

#[test]
fn no_group_depends_on_itself_by_way_of_another() {
    // The sum reads the exponentials and what a launch made of them elsewhere: with the former it would wait for itself.
    let mut b = Builder::new();
    let x = b.input(&[5, 5]);
    let exponentials = b.op(Opcode::Exponential, &[x]);
    let flat = b.reshape(exponentials, &[25]);
    let flat = b.op(Opcode::Tanh, &[flat]);
    let back = b.reshape(flat, &[5, 5]);
    let sum = b.op(Opcode::Add, &[exponentials, back]);
    let trace = b.finish(&[sum]);
    check(
        &trace,
        expect![[r#"
            %1 f32[p0, p1] = exponential(%0)
            %2 f32[p2] = alias %1
            %3 f32[p2] = tanh(%2)
            %4 f32[p0, p1] = alias %3
            %5 f32[p0, p1] = add(%1!, %4!)
            return %5
        "#]],
    );
    let refusals: Vec<String> =
        plan(&trace, false, true).not_fused().iter().map(|edge| edge.refusal.to_string()).collect();
    expect![[r#"
        [
            "another launch lies between",
        ]
    "#]]
    .assert_eq(&format!("{refusals:#?}\n"));
}

#[test]
fn values_die_with_their_last_reader() {
    let mut b = Builder::new();
    let x = b.input(&[6, 4]);
    let w = b.input(&[4, 4]);
    let first = b.dot(x, w, [1, 0]);
    let second = b.dot(first, w, [1, 0]);
    // An alias keeps its buffer alive, and so does an output.
    let flat = b.reshape(first, &[24]);
    let third = b.op(Opcode::Tanh, &[flat]);
    let trace = b.finish(&[second, third, w]);
    expect![[r#"
        %2 f32[p0, p1] = dot_general(%0!, %1)
        %3 f32[p0, p1] = dot_general(%2, %1)
        %4 f32[p2] = alias %2
        %5 f32[p2] = tanh(%4!)
        return %3, %5, %1
    "#]]
    .assert_eq(&format!("{}\n", plan(&trace, true, true)));
    expect![[r#"
        %2 f32[p0, p1] = dot_general(%0, %1)
        %3 f32[p0, p1] = dot_general(%2, %1)
        %4 f32[p2] = alias %2
        %5 f32[p2] = tanh(%4!)
        return %3, %5, %1
    "#]]
    .assert_eq(&format!("{}\n", plan(&trace, false, true)));
    let dead: Vec<Vec<u32>> =
        plan(&trace, true, true).launches().map(|launch| launch.dead.iter().map(|slot| slot.0).collect()).collect();
    expect!["[[0], [], [4]]"].assert_eq(&format!("{dead:?}"));
}

#[test]
fn a_buffer_read_under_two_names_is_not_overwritten() {
    let mut b = Builder::new();
    let x = b.input(&[4, 4]);
    let flat = b.reshape(x, &[16]);
    let all = b.broadcast(flat, &[4, 4, 16], &[2]);
    let wide = b.broadcast(x, &[4, 4, 16], &[0, 1]);
    let sum = b.op(Opcode::Add, &[all, wide]);
    let trace = b.finish(&[sum]);
    expect![[r#"
        %1 f32[p2] = alias %0
        %2 f32[p0, p1, p2] = add(%1, %0)
        return %2
    "#]]
    .assert_eq(&format!("{}\n", plan(&trace, true, true)));
    let plan = plan(&trace, true, true);
    let launch = plan.launches().next().expect("there is one");
    assert_eq!(launch.dead.len(), 2, "though both are dead");
    assert_eq!(plan.bytes_moved(&[4, 4, 16]), (16 + 256) * 4, "and read once");
}

#[test]
fn outputs_may_be_inputs_aliases_or_twice_the_same() {
    let mut b = Builder::new();
    let x = b.input(&[4, 4]);
    let flat = b.reshape(x, &[16]);
    let y = b.op(Opcode::Tanh, &[x]);
    let dead = b.op(Opcode::Sqrt, &[y]);
    let unused = b.dot(dead, x, [1, 0]);
    let _ = b.op(Opcode::Negate, &[unused]);
    check(
        &b.finish(&[x, y, flat, y]),
        expect![[r#"
        %1 f32[p1] = alias %0
        %2 f32[p0, p0] = tanh(%0)
        return %0, %2, %1, %2
    "#]],
    );
    check(
        &Builder::new().finish(&[]),
        expect![[r#"
        return 
    "#]],
    );
}

#[test]
fn unfused_every_node_is_a_launch() {
    let mut b = Builder::new();
    let x = b.input(&[6, 4]);
    let half = b.like(0.5, x);
    let y = b.op(Opcode::Multiply, &[x, half]);
    let turned = b.transpose(y, &[1, 0]);
    let flat = b.reshape(turned, &[24]);
    let sum = b.sum(flat, &[0]);
    let trace = b.finish(&[sum]);
    expect![[r#"
        %1 f32[] = constant()
        %2 f32[p0, p1] = broadcast_in_dim(%1!)
        %3 f32[p0, p1] = multiply(%0, %2!)
        %4 f32[p1, p0] = transpose(%3!)
        %5 f32[p2] = alias %4
        %6 f32[] = constant()
        %7 f32[] = reduce(%5!, %6!)
        return %7
    "#]]
    .assert_eq(&format!("{}\n", plan(&trace, false, false)));
    check(
        &trace,
        expect![[r#"
        %1 f32[p1, p0] = multiply+transpose(%0)
        %2 f32[p2] = alias %1
        %3 f32[] = reduce(%2!)
        return %3
    "#]],
    );
}

#[test]
fn equal_groups_have_equal_keys_wherever_they_stand() {
    let mut b = Builder::new();
    let (x, y) = (b.input(&[3, 7]), b.input(&[5, 11]));
    let w = b.input(&[7, 5]);
    let block = |b: &mut Builder, value: ValueId| {
        let half = b.like(0.5, value);
        let scaled = b.op(Opcode::Multiply, &[value, half]);
        b.op(Opcode::Tanh, &[scaled])
    };
    let first = block(&mut b, x);
    let product = b.dot(first, w, [1, 0]);
    let second = block(&mut b, y);
    let trace = b.finish(&[first, product, second]);
    let plan = plan(&trace, false, true);
    let launches: Vec<_> = plan.launches().filter(|launch| launch.name == "multiply+tanh").collect();
    assert_eq!(launches.len(), 2);
    assert_eq!(launches[0].group, launches[1].group);
    assert_ne!(launches[0].params, launches[1].params, "though their sizes differ");
    assert_ne!(launches[0].scalars, launches[1].scalars, "and where their numbers come from");
}

#[test]
fn bytes_follow_from_the_arguments_alone() {
    let mut b = Builder::new();
    let table = b.input(&[1000, 8]);
    let part = b.slice(table, &[10, 0], &[14, 8], &[1, 1]);
    let root = b.op(Opcode::Sqrt, &[part]);
    let trace = b.finish(&[root]);
    let keyed = canonicalize(&trace, &[true]).expect("a plain trace has a key");
    let plan = Plan::build(&keyed.key, &PlanConfig::default());
    assert_eq!(plan.bytes_moved(&keyed.params), 2 * 4 * 8 * 4, "of a slice only what it is");
    assert_eq!(plan.peak_bytes(&keyed.params), (1000 + 4) * 8 * 4);
    let unfused = Plan::build(&keyed.key, &PlanConfig { fuse: false });
    assert_eq!(unfused.bytes_moved(&keyed.params), 2 * 2 * 4 * 8 * 4);
    assert_eq!(unfused.peak_bytes(&keyed.params), (1000 + 4) * 8 * 4, "the table is gone when the root is made");
}
