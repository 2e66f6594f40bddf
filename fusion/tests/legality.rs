//! Which nodes may be one program: each refusal by the smallest trace that meets it.

mod traces;

use expect_test::{Expect, expect};
use systole_fusion::canonical::canonicalize;
use systole_fusion::ir::{NodeId, Opcode, ValueId};
use systole_fusion::legality::{GroupSpace, Refusal, group_space};
use systole_kernels::program::{Extent, ReduceAlong};
use traces::Builder;

/// All nodes of the builder's trace as one program that keeps `outputs`.
fn all(b: Builder, outputs: &[ValueId]) -> Result<GroupSpace, Refusal> {
    let trace = b.finish(outputs);
    let keyed = canonicalize(&trace, &vec![false; trace.inputs().len()]).expect("a plain trace has a key");
    let nodes: Vec<NodeId> = (0..trace.nodes().len() as u32).map(NodeId).collect();
    group_space(&keyed.key.decode(), &nodes)
}

#[allow(clippy::needless_pass_by_value, reason = "reads as a table of cases")]
fn check(space: Result<GroupSpace, Refusal>, expected: Expect) {
    let extents = |extents: &[Extent]| {
        let words: Vec<String> = extents
            .iter()
            .map(|extent| match extent {
                Extent::Fixed(value) => value.to_string(),
                Extent::Param(param) => format!("p{param}"),
            })
            .collect();
        format!("[{}]", words.join(", "))
    };
    let found = match space {
        Err(refusal) => format!("refused: {refusal}"),
        Ok(space) => {
            let [outer, rows, cols] =
                [&space.domain.outer, &space.domain.rows, &space.domain.cols].map(|axes| extents(axes));
            let reduce = match space.reduce {
                None => "",
                Some(ReduceAlong::Cols) => ", reduce along columns",
                Some(ReduceAlong::Rows) => ", reduce along rows",
            };
            format!("outer {outer}, rows {rows}, columns {cols}{reduce}")
        }
    };
    expected.assert_eq(&found);
}

#[test]
fn elementwise_axes_are_flattened_where_every_access_allows() {
    let mut b = Builder::new();
    let x = b.input(&[2, 3, 4]);
    let y = b.op(Opcode::Tanh, &[x]);
    check(all(b, &[y]), expect!["outer [], rows [], columns [p0, p1, p2]"]);

    let mut b = Builder::new();
    let (x, row) = (b.input(&[2, 3, 4]), b.input(&[4]));
    let row = b.broadcast(row, &[2, 3, 4], &[2]);
    let y = b.op(Opcode::Add, &[x, row]);
    check(all(b, &[y]), expect!["outer [], rows [p0, p1], columns [p2]"]);

    let mut b = Builder::new();
    let (x, t) = (b.input(&[2, 3, 4]), b.input(&[4, 3, 2]));
    let t = b.transpose(t, &[2, 1, 0]);
    let y = b.op(Opcode::Add, &[x, t]);
    check(all(b, &[y]), expect!["outer [p0], rows [p1], columns [p2]"]);
}

#[test]
fn reductions_decide_the_tile() {
    let mut b = Builder::new();
    let x = b.input(&[2, 3, 4]);
    let sum = b.sum(x, &[0, 2]);
    check(all(b, &[sum]), expect!["outer [], rows [p1], columns [p0, p2], reduce along columns"]);

    let mut b = Builder::new();
    let x = b.input(&[2, 3, 4]);
    let sum = b.sum(x, &[1]);
    check(all(b, &[sum]), expect!["outer [p0], rows [p1], columns [p2], reduce along rows"]);

    // The minor-most dimension has extent 1: it is not reduced, so rows are.
    let mut b = Builder::new();
    let x = b.input(&[2, 3, 1]);
    let sum = b.sum(x, &[1]);
    check(all(b, &[sum]), expect!["outer [], rows [p1], columns [p0], reduce along rows"]);
}

#[test]
fn a_dot_decides_it_all() {
    let mut b = Builder::new();
    let (x, y) = (b.input(&[5, 2, 3]), b.input(&[4, 3, 5]));
    let product = b.dot_general(x, y, [&[0], &[2]], [&[2], &[1]]);
    let turned = b.transpose(product, &[2, 0, 1]);
    let y = b.op(Opcode::Tanh, &[turned]);
    check(all(b, &[y]), expect!["outer [p0], rows [p1], columns [p3]"]);

    let mut b = Builder::new();
    let (x, y) = (b.input(&[2, 3]), b.input(&[3, 4]));
    let product = b.dot(x, y, [1, 0]);
    let sum = b.sum(product, &[1]);
    check(all(b, &[sum]), expect!["outer [], rows [p0], columns [p2], reduce along columns"]);
}

#[test]
fn equal_extents_do_not_confuse_axes() {
    // Softmax over a square, with the operand read from memory twice.
    let mut b = Builder::new();
    let x = b.input(&[8, 8]);
    let largest = b.maximum_of(x, &[1]);
    let spread = b.broadcast(largest, &[8, 8], &[0]);
    let y = b.op(Opcode::Subtract, &[x, spread]);
    check(all(b, &[y]), expect!["outer [], rows [p0], columns [p1], reduce along columns"]);

    // A vector that is a row here, computed before anything says so.
    let mut b = Builder::new();
    let (x, row) = (b.input(&[8, 8]), b.input(&[8]));
    let row = b.op(Opcode::Tanh, &[row]);
    let column = b.broadcast(row, &[8, 8], &[0]);
    let y = b.op(Opcode::Add, &[x, column]);
    let z = b.sum(y, &[1]);
    check(all(b, &[y, z]), expect!["outer [], rows [p0], columns [p1], reduce along columns"]);
}

#[test]
fn each_refusal_has_its_reason() {
    let mut b = Builder::new();
    let x = b.input(&[3, 3]);
    let product = b.dot(x, x, [1, 0]);
    let other = b.dot(x, x, [0, 0]);
    let sum = b.op(Opcode::Add, &[product, other]);
    check(all(b, &[sum]), expect!["refused: a group has at most one dot"]);

    let mut b = Builder::new();
    let x = b.input(&[3, 3]);
    let y = b.op(Opcode::Tanh, &[x]);
    let product = b.dot(y, x, [1, 0]);
    check(all(b, &[product]), expect!["refused: dot_general reads its operand from memory"]);

    let mut b = Builder::new();
    let x = b.input(&[5]);
    let y = b.op(Opcode::Tanh, &[x]);
    let part = b.slice(y, &[1], &[3], &[1]);
    let z = b.op(Opcode::Sqrt, &[part]);
    check(all(b, &[z]), expect!["refused: a slice reads its operand from memory"]);

    let mut b = Builder::new();
    let x = b.input(&[3, 3]);
    let y = b.op(Opcode::Tanh, &[x]);
    let turned = b.transpose(y, &[1, 0]);
    let z = b.op(Opcode::Add, &[y, turned]);
    check(all(b, &[z]), expect!["refused: two dimensions of a value would be one axis"]);

    let mut b = Builder::new();
    let (x, y) = (b.input(&[3]), b.input(&[4]));
    let (x, y) = (b.op(Opcode::Tanh, &[x]), b.op(Opcode::Tanh, &[y]));
    check(all(b, &[x, y]), expect!["refused: the values have no common index space"]);

    let mut b = Builder::new();
    let x = b.input(&[3, 4]);
    let (rows, cols) = (b.sum(x, &[0]), b.sum(x, &[1]));
    check(all(b, &[rows, cols]), expect!["refused: reductions along different axes"]);

    let mut b = Builder::new();
    let x = b.input(&[3, 4]);
    let sum = b.sum(x, &[1]);
    let total = b.sum(sum, &[0]);
    check(all(b, &[total]), expect!["refused: the reduced value does not span the index space"]);

    let mut b = Builder::new();
    let x = b.input(&[3, 3]);
    let product = b.dot(x, x, [1, 0]);
    let sum = b.sum(product, &[0]);
    check(all(b, &[sum]), expect!["refused: a dot is reduced along all of its columns or not at all"]);

    let mut b = Builder::new();
    let (x, row) = (b.input(&[3, 4]), b.input(&[4]));
    let row = b.op(Opcode::Tanh, &[row]);
    let wide = b.broadcast(row, &[3, 4], &[1]);
    let y = b.op(Opcode::Add, &[x, wide]);
    check(all(b, &[y, row]), expect!["refused: a value needed elsewhere would be computed repeatedly"]);

    let mut b = Builder::new();
    let (x, row) = (b.input(&[3, 4]), b.input(&[3]));
    let number = b.number(0f32);
    let row = b.pad(row, number, &[1], &[0], &[0]);
    let wide = b.broadcast(row, &[3, 4], &[1]);
    let y = b.op(Opcode::Add, &[x, wide]);
    check(all(b, &[y]), expect!["refused: what is padded or concatenated does not span the index space"]);

    let mut b = Builder::new();
    let mut x = b.input(&[3]);
    for _ in 0..65 {
        x = b.op(Opcode::Tanh, &[x]);
    }
    check(all(b, &[x]), expect!["refused: a group has at most 64 nodes"]);

    let mut b = Builder::new();
    let mut x = b.input(&[3]);
    for _ in 0..24 {
        let y = b.input(&[3]);
        x = b.op(Opcode::Add, &[x, y]);
    }
    check(all(b, &[x]), expect!["refused: a group has at most 24 buffers"]);
}
