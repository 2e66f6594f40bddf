//! The text form: what is printed, what is read, and that both meet.

mod samples;

use std::sync::LazyLock;

use expect_test::{Expect, expect};
use proptest::prelude::*;
use samples::{samples, single, ty};
use systole_fusion::ir::region::arg_region;
use systole_fusion::ir::{Attrs, Literal, Opcode, Origin, Trace};
use systole_fusion::text::{PrintOptions, parse, print, print_with};
use systole_kernels::DType;
use systole_kernels::program::Extreme;

#[allow(clippy::needless_pass_by_value, reason = "reads as a table of cases")]
fn check_print(trace: &Trace, expected: Expect) {
    expected.assert_eq(&print(trace));
}

/// Reads the text and prints it again.
#[allow(clippy::needless_pass_by_value, reason = "reads as a table of cases")]
fn check(text: &str, expected: Expect) {
    let found = match parse(text) {
        Ok(trace) => print(&trace),
        Err(error) => error.to_string(),
    };
    expected.assert_eq(&found);
}

fn body(statements: &str, result: &str, ty: &str) -> String {
    format!("func.func @main(%a: tensor<2x3xf32>, %s: tensor<f32>) -> {ty} {{ {statements} return {result} : {ty} }}")
}

#[test]
fn every_op_prints_and_reads_back() {
    for &op in Opcode::ALL {
        let samples = samples(op);
        assert!(!samples.is_empty(), "{op} has samples");
        for trace in samples {
            let text = print(&trace);
            let back = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
            assert_eq!(print(&back), text);
            let dense_splat = matches!(&trace.nodes()[0].attrs, Attrs::Constant(_));
            if !dense_splat {
                assert_eq!(back, trace, "{text}");
            }
        }
    }
}

#[test]
fn generic_forms_read_like_pretty_ones() {
    for (pretty, generic) in [
        (
            "%0 = stablehlo.exponential %a : tensor<2x3xf32>",
            r#"%0 = "stablehlo.exponential"(%a) : (tensor<2x3xf32>) -> tensor<2x3xf32>"#,
        ),
        (
            "%0 = stablehlo.add %a, %a : tensor<2x3xf32>",
            r#"%0 = "stablehlo.add"(%a, %a) {attr = 1 : i32, other = "x"} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>"#,
        ),
        (
            "%0 = stablehlo.clamp %s, %a, %s : (tensor<f32>, tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>",
            r#"%0 = "stablehlo.clamp"(%s, %a, %s) : (tensor<f32>, tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>"#,
        ),
        (
            "%0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>",
            r#"%0 = "stablehlo.transpose"(%a) {permutation = dense<[1, 0]> : tensor<2xi64>} : (tensor<2x3xf32>) -> tensor<3x2xf32>"#,
        ),
        (
            "%0 = stablehlo.slice %a [0:1, 1:3:2] : (tensor<2x3xf32>) -> tensor<1x1xf32>",
            r#"%0 = "stablehlo.slice"(%a) <{start_indices = array<i64: 0, 1>, limit_indices = array<i64: 1, 3>, strides = array<i64: 1, 2>}> : (tensor<2x3xf32>) -> tensor<1x1xf32>"#,
        ),
        (
            "%0 = stablehlo.pad %a, %s, low = [0, -1], high = [1, 0], interior = [0, 2] : (tensor<2x3xf32>, tensor<f32>) -> tensor<3x6xf32>",
            r#"%0 = "stablehlo.pad"(%a, %s) {edge_padding_low = array<i64: 0, -1>, edge_padding_high = array<i64: 1, 0>, interior_padding = array<i64: 0, 2>} : (tensor<2x3xf32>, tensor<f32>) -> tensor<3x6xf32>"#,
        ),
        (
            "%0 = stablehlo.reverse %a, dims = [1, 0] : tensor<2x3xf32>",
            r#"%0 = "stablehlo.reverse"(%a) <{dimensions = array<i64: 1, 0>}> : (tensor<2x3xf32>) -> tensor<2x3xf32>"#,
        ),
        (
            "%i = stablehlo.constant dense<1> : tensor<i32> %0 = stablehlo.dynamic_slice %a, %i, %i, sizes = [1, 2] : (tensor<2x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>",
            r#"%i = stablehlo.constant dense<1> : tensor<i32> %0 = "stablehlo.dynamic_slice"(%a, %i, %i) <{slice_sizes = array<i64: 1, 2>}> : (tensor<2x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>"#,
        ),
        (
            "%i = stablehlo.constant dense<1> : tensor<i32> %0 = stablehlo.dynamic_update_slice %a, %a, %i, %i : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<i32>, tensor<i32>) -> tensor<2x3xf32>",
            r#"%i = stablehlo.constant dense<1> : tensor<i32> %0 = "stablehlo.dynamic_update_slice"(%a, %a, %i, %i) : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<i32>, tensor<i32>) -> tensor<2x3xf32>"#,
        ),
        (
            "%0 = stablehlo.concatenate %a, %a, dim = 1 : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x6xf32>",
            r#"%0 = "stablehlo.concatenate"(%a, %a) {dimension = 1 : i64} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x6xf32>"#,
        ),
        (
            "%0 = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<4xf32>",
            r#"%0 = "stablehlo.broadcast_in_dim"(%s) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4xf32>"#,
        ),
        (
            "%0 = stablehlo.compare LT, %a, %a, TOTALORDER : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>",
            r#"%0 = "stablehlo.compare"(%a, %a) {compare_type = #stablehlo<comparison_type TOTALORDER>, comparison_direction = #stablehlo<comparison_direction LT>} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>"#,
        ),
        (
            "%0 = stablehlo.dot_general %a, %a, contracting_dims = [0, 1] x [0, 1], precision = [HIGHEST, DEFAULT] : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<f32>",
            r#"%0 = "stablehlo.dot_general"(%a, %a) {dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [0, 1], rhs_contracting_dimensions = [0, 1]>, precision_config = [#stablehlo<precision HIGH>, #stablehlo<precision HIGHEST>]} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<f32>"#,
        ),
        (
            "%0 = stablehlo.iota dim = 0 : tensor<4xi32>",
            r#"%0 = "stablehlo.iota"() {iota_dimension = 0 : i64} : () -> tensor<4xi32>"#,
        ),
        (
            "%0 = stablehlo.constant dense<[1.0, 2.5]> : tensor<2xf32>",
            r#"%0 = "stablehlo.constant"() <{value = dense<[1.0, 2.5]> : tensor<2xf32>}> : () -> tensor<2xf32>"#,
        ),
        (
            "%0 = stablehlo.reduce(%a init: %s) applies stablehlo.add across dimensions = [0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<3xf32>",
            "%0 = stablehlo.reduce(%a init: %s) across dimensions = [0] {foo = \"bar\"} : (tensor<2x3xf32>, tensor<f32>) -> tensor<3xf32>\n reducer(%x: tensor<f32>, %y: tensor<f32>) { %0 = stablehlo.add %x, %y : tensor<f32> stablehlo.return %0 : tensor<f32> }",
        ),
        (
            "%0 = stablehlo.reduce(%a init: %s) applies stablehlo.add across dimensions = [0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<3xf32>",
            "%0 = \"stablehlo.reduce\"(%a, %s) ({ ^bb0(%x: tensor<f32> loc(\"here\"), %y: tensor<f32>): %1 = \"stablehlo.add\"(%x, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>\n \"stablehlo.return\"(%1) : (tensor<f32>) -> () }) {dimensions = array<i64: 0>} : (tensor<2x3xf32>, tensor<f32>) -> tensor<3xf32>",
        ),
    ] {
        let result =
            pretty.rsplit(['>', ':']).nth(1).map(|ty| ty.trim().trim_start_matches('-').trim()).expect("a type");
        let ty = format!("{result}>");
        let [pretty, generic] = [pretty, generic]
            .map(|statement| parse(&body(statement, "%0", &ty)).unwrap_or_else(|error| panic!("{error}")));
        assert_eq!(pretty, generic);
    }
}

/// The form that JAX emits, names and spaces included.
#[test]
fn argmax_reads_and_prints_as_jax_emits_it() {
    let text = "\
module {
  func.func @main(%arg0: tensor<2x3xf32>) -> (tensor<2xi32>, tensor<2xf32>) {
    %0 = stablehlo.iota dim = 1 : tensor<2x3xi32>
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1:2 = stablehlo.reduce(%arg0 init: %cst), (%0 init: %c) across dimensions = [1] : (tensor<2x3xf32>, tensor<2x3xi32>, tensor<f32>, tensor<i32>) -> (tensor<2xf32>, tensor<2xi32>)
     reducer(%arg1: tensor<f32>, %arg3: tensor<f32>) (%arg2: tensor<i32>, %arg4: tensor<i32>)  {
      %2 = stablehlo.compare  GT, %arg1, %arg3,  FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %3 = stablehlo.compare  NE, %arg1, %arg1,  FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %4 = stablehlo.or %2, %3 : tensor<i1>
      %5 = stablehlo.compare  EQ, %arg1, %arg3,  FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %6 = stablehlo.compare  LT, %arg2, %arg4,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %7 = stablehlo.and %5, %6 : tensor<i1>
      %8 = stablehlo.or %4, %7 : tensor<i1>
      %9 = stablehlo.select %4, %arg1, %arg3 : tensor<i1>, tensor<f32>
      %10 = stablehlo.select %8, %arg2, %arg4 : tensor<i1>, tensor<i32>
      stablehlo.return %9, %10 : tensor<f32>, tensor<i32>
    }
    return %1#1, %1#0 : tensor<2xi32>, tensor<2xf32>
  }
}
";
    let trace = parse(text).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(print(&trace), text);
    let known = arg_region(Extreme::Greatest, DType::F32, DType::I32);
    assert_eq!(*trace.nodes()[3].regions[0], *known, "the region that recording uses");
}

#[test]
fn prints_as_stablehlo_does() {
    let mut trace = Trace::new();
    let x = trace.input(ty(DType::F32, &[2, 3]));
    let node = |trace: &mut Trace, op, operands: &[_], attrs| {
        trace.push(op, operands.iter().copied(), attrs, [], Origin::Unknown).expect("fits")
    };
    let zero = node(&mut trace, Opcode::Constant, &[], Attrs::Constant(Literal::scalar(0.0f32)));
    let one = node(&mut trace, Opcode::Constant, &[], Attrs::Constant(Literal::scalar(1i32)));
    let inf = node(&mut trace, Opcode::Constant, &[], Attrs::Constant(Literal::scalar(f32::NEG_INFINITY)));
    let max = trace
        .push(
            Opcode::Reduce,
            [x, inf],
            Attrs::Reduce([1].into_iter().collect()),
            [systole_fusion::ir::region::monoid_region(systole_kernels::program::Monoid::Maximum, DType::F32)],
            Origin::Unknown,
        )
        .expect("fits");
    let exp = node(&mut trace, Opcode::Exponential, &[max], Attrs::None);
    for value in [exp, zero, one] {
        trace.output(value);
    }
    check_print(
        &trace,
        expect![[r#"
        module {
          func.func @main(%arg0: tensor<2x3xf32>) -> (tensor<2xf32>, tensor<f32>, tensor<i32>) {
            %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
            %c = stablehlo.constant dense<1> : tensor<i32>
            %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
            %0 = stablehlo.reduce(%arg0 init: %cst_0) applies stablehlo.maximum across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
            %1 = stablehlo.exponential %0 : tensor<2xf32>
            return %1, %cst, %c : tensor<2xf32>, tensor<f32>, tensor<i32>
          }
        }
    "#]],
    );
    check_print(
        &samples(Opcode::Gather)[0],
        expect![[r#"
        module {
          func.func @main(%arg0: tensor<5x3xi1>, %arg1: tensor<4x1xi32>) -> tensor<4x3xi1> {
            %0 = "stablehlo.gather"(%arg0, %arg1) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 3>}> : (tensor<5x3xi1>, tensor<4x1xi32>) -> tensor<4x3xi1>
            return %0 : tensor<4x3xi1>
          }
        }
    "#]],
    );
    check_print(
        &Trace::new(),
        expect![[r#"
        module {
          func.func @main() {
            return
          }
        }
    "#]],
    );
}

#[test]
fn a_body_with_swapped_operands_stays_so() {
    let text = body(
        "%0 = stablehlo.reduce(%a init: %s) across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
           reducer(%x: tensor<f32>, %y: tensor<f32>) { %1 = stablehlo.add %y, %x : tensor<f32> stablehlo.return %1 : tensor<f32> }",
        "%0",
        "tensor<2xf32>",
    );
    check(
        &text,
        expect![[r#"
        module {
          func.func @main(%arg0: tensor<2x3xf32>, %arg1: tensor<f32>) -> tensor<2xf32> {
            %0 = stablehlo.reduce(%arg0 init: %arg1) across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
             reducer(%arg2: tensor<f32>, %arg3: tensor<f32>)  {
              %1 = stablehlo.add %arg3, %arg2 : tensor<f32>
              stablehlo.return %1 : tensor<f32>
            }
            return %0 : tensor<2xf32>
          }
        }
    "#]],
    );
}

#[test]
fn modules_calls_and_comments() {
    check(
        r#"
        // RUN: nothing
        #loc = loc("model.py":3:7)
        #alias = #other.thing<x = 1>
        module @jit_main attributes {mhlo.num_partitions = 1 : i32, x = [1, "two", {three}], f = affine_map<(d0) -> (d0)>} {
          func.func public @main(%arg0: tensor<2xf32> {jax.arg_info = "x"} loc("x")) -> (tensor<2xf32> {jax.result_info = ""}, tensor<i32>) attributes {a} {
            %0:2 = call @pair(%arg0) : (tensor<2xf32>) -> (tensor<2xf32>, tensor<i32>) loc(#loc)
            %1 = func.call @twice(%0#0) : (tensor<2xf32>) -> tensor<2xf32>
            func.return %1, %0#1 : tensor<2xf32>, tensor<i32>
          }
          func.func private @twice(%x: tensor<2xf32>) -> tensor<2xf32> {
            %0 = stablehlo.add %x, %x : tensor<2xf32> loc(fused[unknown, callsite("f" at "g")])
            return %0 : tensor<2xf32>
          }
          func.func private @pair(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<i32>) {
            %c = stablehlo.constant dense<7> : tensor<i32>
            %0 = call @twice(%x) : (tensor<2xf32>) -> tensor<2xf32>
            return %0, %c : tensor<2xf32>, tensor<i32>
          }
        } loc(#loc)
        "#,
        expect![[r#"
            module {
              func.func @main(%arg0: tensor<2xf32>) -> (tensor<2xf32>, tensor<i32>) {
                %c = stablehlo.constant dense<7> : tensor<i32>
                %0 = stablehlo.add %arg0, %arg0 : tensor<2xf32>
                %1 = stablehlo.add %0, %0 : tensor<2xf32>
                return %1, %c : tensor<2xf32>, tensor<i32>
              }
            }
        "#]],
    );
}

#[test]
fn elements() {
    let constant = |value: &str, ty: &str| {
        format!("func.func @f() -> {ty} {{ %0 = stablehlo.constant {value} : {ty} return %0 : {ty} }}")
    };
    let bytes = |value: &str, ty: &str| {
        let trace = parse(&constant(value, ty)).unwrap_or_else(|error| panic!("{error}"));
        match &trace.nodes()[0].attrs {
            Attrs::Constant(Literal::Dense(_, bytes)) => format!("{bytes:?}"),
            Attrs::Constant(Literal::Splat(_, value)) => format!("splat {:#x}", value.bits()),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(
        bytes("dense<[[1, -1], [256, 0]]>", "tensor<2x2xi32>"),
        "[1, 0, 0, 0, 255, 255, 255, 255, 0, 1, 0, 0, 0, 0, 0, 0]"
    );
    assert_eq!(bytes("dense<\"0x0102030405060708\">", "tensor<2xui32>"), "[1, 2, 3, 4, 5, 6, 7, 8]");
    assert_eq!(bytes("dense<[true, false]>", "tensor<2xi1>"), "[1, 0]");
    assert_eq!(bytes("dense<[5, 5]>", "tensor<2xi64>"), "splat 0x5");
    assert_eq!(bytes("dense<0x7FC01234>", "tensor<3xf32>"), "splat 0x7fc01234");
    assert_eq!(bytes("dense<-0.0>", "tensor<f32>"), "splat 0x80000000");
    assert_eq!(bytes("dense<[[], []]>", "tensor<2x0xf32>"), "[]");
    assert_eq!(bytes("dense<>", "tensor<0x2xi1>"), "[]");
    check(
        &constant("dense<[1, 2]>", "tensor<3xi32>"),
        expect![[r#"
        line 1, column 59: elements of shape [2] are given for tensor<3xi32>
        1 | func.func @f() -> tensor<3xi32> { %0 = stablehlo.constant dense<[1, 2]> : tensor<3xi32> return %0 : tensor<3xi32> }
          |                                                           ^"#]],
    );
    check(
        &constant("dense<[[1, 2], [3]]>", "tensor<2x2xi32>"),
        expect![[r#"
        line 1, column 76: this list has 1 entries, those before it have 2
        1 | -> tensor<2x2xi32> { %0 = stablehlo.constant dense<[[1, 2], [3]]> : tensor<2x2xi32> return %0 : tensor<2x2xi32> }
          |                                                             ^"#]],
    );
    check(
        &constant("dense<[1, [2]]>", "tensor<2xi32>"),
        expect![[r#"
        line 1, column 59: elements of shape [2, 1] are given for tensor<2xi32>
        1 | func.func @f() -> tensor<2xi32> { %0 = stablehlo.constant dense<[1, [2]]> : tensor<2xi32> return %0 : tensor<2xi32> }
          |                                                           ^"#]],
    );
    check(
        &constant("dense<[[2], 1]>", "tensor<2xi32>"),
        expect![[r#"
        line 1, column 71: an element beside a list
        1 | func.func @f() -> tensor<2xi32> { %0 = stablehlo.constant dense<[[2], 1]> : tensor<2xi32> return %0 : tensor<2xi32> }
          |                                                                       ^"#]],
    );
    check(
        &constant("dense<4294967296>", "tensor<ui32>"),
        expect![[r#"
        line 1, column 64: 4294967296 does not fit u32
        1 | func.func @f() -> tensor<ui32> { %0 = stablehlo.constant dense<4294967296> : tensor<ui32> return %0 : tensor<ui32> }
          |                                                                ^"#]],
    );
    check(
        &constant("dense<\"0x01\">", "tensor<2xi32>"),
        expect![[r#"
        line 1, column 65: 1 bytes, tensor<2xi32> takes 8
        1 | func.func @f() -> tensor<2xi32> { %0 = stablehlo.constant dense<"0x01"> : tensor<2xi32> return %0 : tensor<2xi32> }
          |                                                                 ^"#]],
    );
    check(
        &constant("dense<[1.0, 0x7FC1, -0.1]>", "tensor<3xbf16>"),
        expect![[r#"
        module {
          func.func @main() -> tensor<3xbf16> {
            %cst = stablehlo.constant dense<[1.000000e+00, 0x7FC1, -1.000977e-01]> : tensor<3xbf16>
            return %cst : tensor<3xbf16>
          }
        }
    "#]],
    );
    check(
        &constant("dense<\"0x003C017E\">", "tensor<2xf16>"),
        expect![[r#"
        module {
          func.func @main() -> tensor<2xf16> {
            %cst = stablehlo.constant dense<[1.000000e+00, 0x7E01]> : tensor<2xf16>
            return %cst : tensor<2xf16>
          }
        }
    "#]],
    );
    check(
        &constant("dense<65520.0>", "tensor<f16>"),
        expect![[r#"
        line 1, column 63: 65520.0 is no finite f16
        1 | func.func @f() -> tensor<f16> { %0 = stablehlo.constant dense<65520.0> : tensor<f16> return %0 : tensor<f16> }
          |                                                               ^"#]],
    );
    check(
        &constant("dense<1.0>", "tensor<f64>"),
        expect![[r#"
        line 1, column 26: `f64` is no dtype of the op table
        1 | func.func @f() -> tensor<f64> { %0 = stablehlo.constant dense<1.0> : tensor<f64> return %0 : tensor<f64> }
          |                          ^"#]],
    );
}

#[test]
fn errors_point_at_the_place() {
    check(
        "",
        expect![[r#"
        line 1, column 1: expected a function
        1 | 
          | ^"#]],
    );
    check(
        "func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {\n  %0 = stablehlo.tanh %b : tensor<2xf32>\n",
        expect![[r#"
        line 1, column 53: this `{` is not closed
        1 | func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
          |                                                     ^"#]],
    );
    check(
        "func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {\n  %0 = stablehlo.tanh %b : tensor<2xf32>\n}",
        expect![[r#"
        line 2, column 23: %b is not defined here
        2 |   %0 = stablehlo.tanh %b : tensor<2xf32>
          |                       ^"#]],
    );
    check(
        &body("%0 = stablehlo.add %a, %s : tensor<2x3xf32>", "%0", "tensor<2x3xf32>"),
        expect![[r#"
        line 1, column 81: operand 1 has type tensor<f32>, stated is tensor<2x3xf32>
        1 | tensor<2x3xf32>, %s: tensor<f32>) -> tensor<2x3xf32> { %0 = stablehlo.add %a, %s : tensor<2x3xf32> return %0 : tensor<2x
          |                                                             ^"#]],
    );
    check(
        &body("%0 = stablehlo.add %a, %s : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>", "%0", "tensor<2x3xf32>"),
        expect![[r#"
        line 1, column 81: add(tensor<2x3xf32>, tensor<f32>): operand shapes [2, 3] and [] differ in rank: 2 against 0
        1 | tensor<2x3xf32>, %s: tensor<f32>) -> tensor<2x3xf32> { %0 = stablehlo.add %a, %s : (tensor<2x3xf32>, tensor<f32>) -> ten
          |                                                             ^"#]],
    );
    check(
        &body("%0 = stablehlo.tan %a : tensor<2x3xf32>", "%0", "tensor<2x3xf32>"),
        expect![[r#"
            line 1, column 81: the op table has no stablehlo.tan
            1 | tensor<2x3xf32>, %s: tensor<f32>) -> tensor<2x3xf32> { %0 = stablehlo.tan %a : tensor<2x3xf32> return %0 : tensor<2x3xf3
              |                                                             ^"#]],
    );
    check(
        &body("%a = stablehlo.tanh %a : tensor<2x3xf32>", "%a", "tensor<2x3xf32>"),
        expect![[r#"
        line 1, column 76: %a is defined twice
        1 | (%a: tensor<2x3xf32>, %s: tensor<f32>) -> tensor<2x3xf32> { %a = stablehlo.tanh %a : tensor<2x3xf32> return %a : tensor<
          |                                                             ^"#]],
    );
    check(
        &body("", "%a", "tensor<2x4xf32>"),
        expect![[r#"
        line 1, column 77: operand 0 has type tensor<2x3xf32>, stated is tensor<2x4xf32>
        1 | func.func @main(%a: tensor<2x3xf32>, %s: tensor<f32>) -> tensor<2x4xf32> {  return %a : tensor<2x4xf32> }
          |                                                                             ^"#]],
    );
    check(
        &body(
            "%0 = stablehlo.compare LT, %a, %a, SIGNED : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>",
            "%0",
            "tensor<2x3xi1>",
        ),
        expect![[r#"
        line 1, column 80: comparison type SIGNED, where the operands' dtype has FLOAT
        1 |  tensor<2x3xf32>, %s: tensor<f32>) -> tensor<2x3xi1> { %0 = stablehlo.compare LT, %a, %a, SIGNED : (tensor<2x3xf32>, ten
          |                                                             ^"#]],
    );
    check(
        "func.func @main(%a: tensor<?xf32>) { return }",
        expect![[r#"
        line 1, column 28: extents must be known
        1 | func.func @main(%a: tensor<?xf32>) { return }
          |                            ^"#]],
    );
    check(
        "func.func @f() { return } func.func @g() { return }",
        expect![[r#"
        line 1, column 11: of several functions one must be called @main
        1 | func.func @f() { return } func.func @g() { return }
          |           ^"#]],
    );
    check(
        "func.func @f() { call @f() : () -> () return }",
        expect![[r#"
        line 1, column 39: nesting deeper than 80
        1 | func.func @f() { call @f() : () -> () return }
          |                                       ^"#]],
    );
    assert!(parse("func.func @f(%a: tensor<4xf64>) { return }").expect_err("no f64").is_unsupported());
    let error = parse(&body(
        "%0 = stablehlo.add %a, %s : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>",
        "%0",
        "tensor<2x3xf32>",
    ));
    assert_eq!(error.expect_err("ill-typed").type_error().map(|error| error.op()), Some(Opcode::Add));
}

#[test]
fn deep_and_wide_text_is_refused_without_harm() {
    for text in [
        "[".repeat(100_000),
        format!("func.func @f() {{ %0 = stablehlo.constant dense<{}", "[".repeat(100_000)),
        format!("module attributes {{a = {}", "[".repeat(100_000)),
        format!("#a = loc({}", "callsite(".repeat(100_000)),
        format!("func.func @f() attributes {{a = {}", "() -> ".repeat(100_000)),
        format!("func.func @f() attributes {{a = {}", "1 : ".repeat(100_000)),
        format!("func.func @f(%a: tensor<{}f32>) {{ return }}", "1x".repeat(100_000)),
        format!("func.func @f() {{ {}", "%0 = \"stablehlo.reduce\"() ({ ".repeat(100_000)),
        {
            // Each function calls the one before twice.
            let mut text = String::from("func.func @f0() { return }\n");
            for i in 1..60 {
                let callee = i - 1;
                text += &format!(
                    "func.func @f{i}() {{ call @f{callee}() : () -> () call @f{callee}() : () -> () return }}\n"
                );
            }
            text + "func.func @main() { call @f59() : () -> () return }"
        },
    ] {
        parse(&text).expect_err("refused");
    }
}

#[test]
fn locations_are_kept() {
    let mut trace = single(Opcode::Tanh, &[ty(DType::F32, &[2])], Attrs::None, &[]);
    let line = line!() + 1;
    let origin = Origin::caller();
    let x = trace.outputs()[0];
    trace.push(Opcode::Tanh, [x], Attrs::None, [], origin).expect("fits");
    trace.push(Opcode::Tanh, [x], Attrs::None, [], Origin::Named("layer \"3\"\\:x".into())).expect("fits");
    let text = print_with(&trace, PrintOptions { locations: true });
    assert!(text.contains(&format!("loc(\"{}\":{line}:", file!())), "{text}");
    assert!(text.contains(r#"loc("layer \223\22\\:x")"#), "{text}");
    let back = parse(&text).expect("reads back");
    assert_eq!(print_with(&back, PrintOptions { locations: true }), text);
    assert_eq!(back.nodes()[2].origin, trace.nodes()[2].origin);
    assert!(!print(&trace).contains("loc("));
}

static CORPUS: LazyLock<Vec<String>> = LazyLock::new(corpus);

fn corpus() -> Vec<String> {
    let mut corpus: Vec<String> = Opcode::ALL.iter().filter_map(|&op| samples(op).last().map(print)).collect();
    corpus.push(String::from(
        "#l = loc(\"x\") module { func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> { %0 = \"stablehlo.add\"(%a, %a) \
         <{x = #stablehlo<p Q>, y = array<i64: 1, -2>}> {z = dense<[[1, 2]]> : tensor<1x2xi64>} : (tensor<2xf32>, \
         tensor<2xf32>) -> tensor<2xf32> loc(#l) %1:1 = call @g(%0) : (tensor<2xf32>) -> tensor<2xf32> return %1#0 : \
         tensor<2xf32> } func.func private @g(%a: tensor<2xf32>) -> tensor<2xf32> { return %a : tensor<2xf32> } }",
    ));
    corpus
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    /// Mutated text gives a trace or an error, never a panic; and a trace that is read prints to a fixed point.
    #[test]
    fn mutations_never_panic(
        which in 0usize..10_000,
        edits in prop::collection::vec((0usize..4, any::<usize>(), any::<usize>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = CORPUS[which % CORPUS.len()].clone().into_bytes();
        for (kind, at, other, byte) in edits {
            if bytes.is_empty() {
                break;
            }
            let at = at % bytes.len();
            let other = other % bytes.len();
            match kind {
                0 => bytes[at] = byte,
                1 => { bytes.remove(at); }
                2 => bytes.swap(at, other),
                _ => {
                    let piece: Vec<u8> = bytes[at..(at + 12).min(bytes.len())].to_vec();
                    bytes.splice(other..other, piece);
                }
            }
        }
        let text = String::from_utf8_lossy(&bytes);
        if let Ok(trace) = parse(&text) {
            let printed = print(&trace);
            let back = parse(&printed).unwrap_or_else(|error| panic!("{error}\n{printed}"));
            prop_assert_eq!(print(&back), printed);
        }
    }

    #[test]
    fn any_characters_are_read_without_panic(text in "\\PC{0,80}") {
        let _ = parse(&text);
        let _ = parse(&format!("func.func @f(%a: tensor<2xf32>) -> tensor<2xf32> {{ {text}"));
    }
}
