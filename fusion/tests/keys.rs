//! What is in a key, and what is not.

mod traces;

use std::sync::Arc;

use expect_test::expect;
use systole_fusion::canonical::{Keyed, PlanKey, canonicalize, explain};
use systole_fusion::ir::{Attrs, Literal, Opcode, Origin, Trace};
use systole_kernels::program::{Comparison, Monoid};
use systole_kernels::{DType, TensorType};
use traces::{Builder, random};

/// What a test changes: everything that a key is made of, with the numbers beside it.
#[derive(Clone)]
struct Case {
    rows: usize,
    cols: usize,
    other_cols: usize,
    dtype: DType,
    number: f64,
    start: i64,
    stride: i64,
    low: i64,
    interior: i64,
    permutation: [u32; 2],
    comparison: Comparison,
    monoid: Monoid,
    reduced: u32,
    concatenated: u32,
    contracted: u32,
    op: Opcode,
    swapped: bool,
    outputs: usize,
    donatable: bool,
    origin: Origin,
    early_inputs: bool,
}

impl Default for Case {
    fn default() -> Self {
        Case {
            rows: 6,
            cols: 9,
            other_cols: 9,
            dtype: DType::F32,
            number: 0.5,
            start: 1,
            stride: 1,
            low: 2,
            interior: 0,
            permutation: [1, 0],
            comparison: Comparison::Lt,
            monoid: Monoid::Add,
            reduced: 0,
            concatenated: 0,
            contracted: 1,
            op: Opcode::Subtract,
            swapped: false,
            outputs: 2,
            donatable: false,
            origin: Origin::Unknown,
            early_inputs: true,
        }
    }
}

impl Case {
    fn keyed(&self) -> Keyed {
        let mut b = Builder { origin: self.origin.clone(), ..Builder::default() };
        let x = b.input_of(self.dtype, &[self.rows, self.cols]);
        let early = self.early_inputs.then(|| b.input_of(self.dtype, &[self.rows, self.other_cols]));
        let number = b.number(systole_kernels::Scalar::from_f64(self.dtype, self.number));
        let half = b.broadcast(number, &[self.rows, self.cols], &[]);
        let operands = if self.swapped { [half, x] } else { [x, half] };
        let scaled = b.op(self.op, &operands);
        let y = early.unwrap_or_else(|| b.input_of(self.dtype, &[self.rows, self.other_cols]));
        let rows = self.start + 3 * self.stride;
        let part = b.slice(scaled, &[self.start, 0], &[rows, self.cols as i64], &[self.stride, 1]);
        // The padded extent stays the same whatever comes before.
        let padded = b.pad(part, number, &[self.low, 0], &[2 - self.low, 0], &[self.interior, 0]);
        let turned = b.transpose(y, &self.permutation);
        let less = b.compare(self.comparison, scaled, half);
        let chosen = b.op(Opcode::Select, &[less, scaled, half]);
        let total = b.reduce_from(self.monoid, chosen, number, &[self.reduced]);
        let joined = b.concatenate(&[y, y], self.concatenated);
        let index = b.iota(DType::I32, &[self.rows, self.cols], 0);
        let square = b.dot(y, y, [self.contracted; 2]);
        let values = [total, padded, turned, joined, index, square];
        let trace = b.finish(&values[..self.outputs.max(values.len() - 2)]);
        let outputs = trace.outputs().len();
        assert!(outputs >= 4);
        canonicalize(&trace, &[self.donatable, false]).expect("a plain trace has a key")
    }
}

/// What one row of a table changes.
type Change = &'static dyn Fn(&mut Case);

fn key(change: impl Fn(&mut Case)) -> PlanKey {
    let mut case = Case::default();
    change(&mut case);
    case.keyed().key
}

#[test]
fn each_part_of_structure_is_in_the_key() {
    let base = key(|_| {});
    let changes: [(&str, Change); 16] = [
        ("dtype", &|case| case.dtype = DType::I32),
        ("an extent of 1", &|case| case.other_cols = 1),
        ("an extent of 0", &|case| case.other_cols = 0),
        ("a stride other than 1", &|case| (case.start, case.stride) = (0, 2)),
        ("interior padding", &|case| case.interior = 1),
        ("permutation", &|case| case.permutation = [0, 1]),
        ("comparison", &|case| case.comparison = Comparison::Gt),
        ("body of a reduction", &|case| case.monoid = Monoid::Maximum),
        ("reduced dimension", &|case| case.reduced = 1),
        ("concatenated dimension", &|case| case.concatenated = 1),
        ("contracted dimension", &|case| case.contracted = 0),
        ("op", &|case| case.op = Opcode::Add),
        ("operands", &|case| case.swapped = true),
        ("outputs", &|case| case.outputs = 5),
        ("more outputs", &|case| case.outputs = 6),
        ("donation", &|case| case.donatable = true),
    ];
    let mut seen = vec![(("nothing", base.clone()), String::new())];
    for (name, change) in changes {
        let changed = key(change);
        for ((other, known), _) in &seen {
            assert_ne!(&changed, known, "{name} / {other}");
        }
        let difference = explain(&base, &changed).expect("different keys differ somewhere");
        seen.push(((name, changed), difference.to_string()));
    }
    let explained: Vec<String> =
        seen[1..].iter().map(|((name, _), difference)| format!("{name}: {difference}\n")).collect();
    expect![[r#"
        dtype: type of input 0: f32[p0, p1] / i32[p0, p1]
        an extent of 1: type of input 1: f32[p2, p3] / f32[p2, 1]
        an extent of 0: type of input 1: f32[p2, p3] / f32[p2, 0]
        a stride other than 1: attributes of node 3 (slice): Slice { start: [Param(5), Param(6)], stride: [Fixed(1), Fixed(1)] } / Slice { start: [Param(5), Param(6)], stride: [Param(7), Fixed(1)] }
        interior padding: attributes of node 4 (pad): Pad { low: [Param(8), Param(9)], interior: [Fixed(0), Fixed(0)] } / Pad { low: [Param(8), Param(9)], interior: [Param(10), Fixed(0)] }
        permutation: result type of node 5 (transpose): f32[p3, p2] / f32[p2, p3]
        comparison: attributes of node 6 (compare): Compare(Lt, Partial) / Compare(Gt, Partial)
        body of a reduction: attributes of node 8 (reduce): Reduce(Add, [0]) / Reduce(Maximum, [0])
        reduced dimension: result type of node 8 (reduce): f32[p1] / f32[p0]
        concatenated dimension: result type of node 9 (concatenate): f32[p10, p3] / f32[p2, p10]
        contracted dimension: result type of node 11 (dot_general): f32[p2, p2] / f32[p3, p3]
        op: op of node 2: subtract / add
        operands: operands of node 2 (subtract): %0, %3 / %3, %0
        outputs: outputs: [ValueId(10), ValueId(6), ValueId(7), ValueId(11)] / [ValueId(10), ValueId(6), ValueId(7), ValueId(11), ValueId(12)]
        more outputs: outputs: [ValueId(10), ValueId(6), ValueId(7), ValueId(11)] / [ValueId(10), ValueId(6), ValueId(7), ValueId(11), ValueId(12), ValueId(13)]
        donation: donation of input 0: false / true
    "#]].assert_eq(&explained.concat());
}

#[test]
fn numbers_and_names_are_not_in_the_key() {
    let base = key(|_| {});
    let changes: [(&str, Change); 11] = [
        ("extents that are equal by chance", &|case| (case.cols, case.other_cols) = (6, 6)),
        ("extents that no longer are", &|case| case.other_cols = 8),
        ("an extent that is an amount elsewhere", &|case| (case.cols, case.other_cols) = (12, 12)),
        ("other extents, same pattern", &|case| (case.rows, case.cols, case.other_cols) = (7, 30, 30)),
        ("a constant", &|case| case.number = 0.25),
        ("a constant that is 0", &|case| case.number = 0.0),
        ("where a slice starts", &|case| case.start = 0),
        ("padding", &|case| case.low = 0),
        ("negative padding", &|case| case.low = -1),
        ("origins", &|case| case.origin = Origin::Named("model.py:3".into())),
        ("value ids", &|case| case.early_inputs = false),
    ];
    for (name, change) in changes {
        let changed = key(change);
        assert_eq!(explain(&base, &changed).map(|difference| difference.to_string()), None, "{name}");
        assert_eq!(changed, base, "{name}");
        assert_eq!(changed.hash64(), base.hash64(), "{name}");
    }
    assert_eq!(std::thread::spawn(|| Case::default().keyed()).join().expect("no panic"), Case::default().keyed());
}

#[test]
fn arguments_come_in_order_of_appearance_and_only_extents_are_merged() {
    let keyed = Case { number: 2.0, start: 2, stride: 1, low: 6, ..Case::default() }.keyed();
    // Extents 6 and 9 of the inputs, of each its own; the slice's extent 3 and starts 2 and 0; the padded extent 5 and
    // the amounts 6 and 0; the joined extent 12 and the second operand's offset 6; the iota's extents.
    expect!["[6, 9, 6, 9, 3, 2, 0, 5, 6, 0, 12, 6, 6, 9]"].assert_eq(&format!("{:?}", keyed.params));
    expect!["[1073741824]"].assert_eq(&format!("{:?}", keyed.scalars));
}

#[test]
fn a_key_is_all_that_its_trace_is() {
    // Decoded and encoded again it is the same: nothing of the structure is lost.
    for seed in 0..100 {
        let trace = random::trace(seed, 20);
        let keyed = canonicalize(&trace, &vec![false; trace.inputs().len()]).expect("a plain trace has a key");
        let decoded = keyed.key.decode();
        assert_eq!(decoded.nodes.len(), trace.values().len() - trace.inputs().len());
        let nodes: Vec<u32> = (0..decoded.nodes.len() as u32).collect();
        let inputs: Vec<_> = (0..decoded.inputs.len() as u32).map(systole_fusion::ir::ValueId).collect();
        let cut = decoded.cut(&nodes, &[], &inputs, &decoded.outputs);
        assert_eq!(cut.key.as_ref(), &keyed.key, "seed {seed}");
        assert!(cut.params.iter().copied().eq(0..decoded.params));
        for (value, number) in trace.inputs().iter().zip(0..) {
            let ty = decoded.ty(systole_fusion::ir::ValueId(number)).resolve(&keyed.params);
            assert_eq!(&ty, trace.ty(*value));
        }
        let results = trace.nodes().iter().flat_map(|node| node.results().map(|result| (node.op, result)));
        for ((op, result), symbolic) in results.zip(&decoded.nodes) {
            assert_eq!(op, symbolic.op);
            assert_eq!(&symbolic.ty.resolve(&keyed.params), trace.ty(result));
        }
    }
}

#[test]
fn many_extents_are_as_many_arguments() {
    let keyed = |first: usize| {
        let mut b = Builder::new();
        let inputs: Vec<_> = (0..60).map(|i| b.input(&[first + i, first + i / 2])).collect();
        let trace = b.finish(&inputs);
        canonicalize(&trace, &[false; 60]).expect("a plain trace has a key")
    };
    let (a, b) = (keyed(2), keyed(100));
    assert_eq!(a.key, b.key);
    assert!(a.params.iter().copied().eq((0..60).flat_map(|i| [2 + i, 2 + i / 2])));
}

#[test]
fn what_cannot_be_planned_says_so() {
    let refused = |trace: &Trace| canonicalize(trace, &[]).expect_err("no key").to_string();
    let mut dense = Builder::new();
    let bytes: Arc<[u8]> = [0u8; 8].into();
    let literal = Literal::Dense(TensorType::new(DType::F32, [2]), bytes);
    let value = dense.push(Opcode::Constant, &[], Attrs::Constant(literal));
    expect!["a dense constant must be passed as an input"].assert_eq(&refused(&dense.finish(&[value])));
}

/// Keys of traces that `build` makes of extents `[a, b, c]`: the same one for each row of extents, or not.
fn same_keys(
    build: impl Fn(&mut Builder, [usize; 3]) -> Vec<systole_fusion::ir::ValueId>,
    rows: &[[usize; 3]],
) -> bool {
    let keys: Vec<PlanKey> = rows
        .iter()
        .map(|&extents| {
            let mut b = Builder::new();
            let outputs = build(&mut b, extents);
            let trace = b.finish(&outputs);
            canonicalize(&trace, &vec![false; trace.inputs().len()]).expect("a plain trace has a key").key
        })
        .collect();
    keys.iter().all(|key| *key == keys[0])
}

#[test]
fn only_what_ops_force_is_equal() {
    // A dot of [a, b] and [b, c]: any extents will do, those that are equal by chance too.
    let dot = |b: &mut Builder, [i, j, k]: [usize; 3]| {
        let (x, y) = (b.input(&[i, j]), b.input(&[j, k]));
        vec![b.dot(x, y, [1, 0])]
    };
    assert!(same_keys(dot, &[[2, 3, 4], [3, 3, 3], [4, 3, 4], [5, 5, 2], [7, 2, 2]]));
    assert!(!same_keys(dot, &[[2, 3, 4], [1, 3, 4]]));
    assert!(!same_keys(dot, &[[2, 3, 4], [2, 0, 4]]));

    // A whole slice is its operand's extent, a part is its own.
    let slice = |b: &mut Builder, [i, j, k]: [usize; 3]| {
        let x = b.input(&[i, j]);
        vec![b.slice(x, &[0, 0], &[k as i64, j as i64], &[1, 1])]
    };
    assert!(same_keys(slice, &[[9, 4, 3], [8, 8, 2], [9, 2, 8], [4, 3, 3]]));
    assert!(!same_keys(slice, &[[9, 4, 3], [9, 4, 9]]));

    // Heads split off and merged again: which dimensions stay is part of the key, how many there are is not.
    let heads = |b: &mut Builder, [batch, length, heads]: [usize; 3]| {
        let x = b.input(&[batch, length, heads * 8]);
        let split = b.reshape(x, &[batch, length, heads, 8]);
        let turned = b.transpose(split, &[0, 2, 1, 3]);
        let flat = b.reshape(turned, &[batch * heads, length, 8]);
        vec![split, flat]
    };
    assert!(same_keys(heads, &[[2, 5, 3], [2, 8, 4], [3, 3, 3], [8, 8, 8], [2, 24, 3], [24, 2, 3], [16, 16, 2]]));
    assert!(!same_keys(heads, &[[2, 5, 3], [1, 5, 3]]));
}

#[test]
fn what_ops_force_is_one_argument() {
    let mut b = Builder::new();
    let (x, y, z) = (b.input(&[5, 7]), b.input(&[7, 5]), b.input(&[5]));
    let turned = b.transpose(y, &[1, 0]);
    let sum = b.op(Opcode::Add, &[x, turned]);
    let product = b.dot(sum, z, [0, 0]);
    let trace = b.finish(&[product]);
    let keyed = canonicalize(&trace, &[false; 3]).expect("a plain trace has a key");
    expect!["[5, 7]"].assert_eq(&format!("{:?}", keyed.params));
}
