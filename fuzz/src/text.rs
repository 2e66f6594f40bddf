//! Programs as text: what they compute as StableHLO, when they compute it as comments above.
//!
//! ```text
//! // program: seed 17, cut down
//! // upload t0 = tensor<2xf32> 3f800000 7fc00000
//! // record t1 = op 0 of t0 t0
//! // drop t0 elsewhere
//! // read t1
//! module {
//!   func.func @main(%arg0: tensor<2xf32>) {
//!     %0 = stablehlo.add %arg0, %arg0 : tensor<2xf32>
//!     return
//!   }
//! }
//! ```
//!
//! `all` repeats one element, `ramp` counts from 0. Uploads are the function's arguments in order, ops its operations in order. Elements are written as their bits, so
//! that a NaN keeps its payload. The module alone is what any other StableHLO tool takes.

use std::fmt::Write;

use systole_fusion::reference::HostTensor;
use systole_fusion::text::{parse as parse_module, print as print_module};
use systole_kernels::{DType, Scalar, Shape, TensorType};

use crate::program::{Handle, Program, Step, body};

/// The program as text.
///
/// # Panics
/// The program is not well-formed ([`Program::straighten`]).
pub fn print(program: &Program) -> String {
    let straight = program.straighten().unwrap_or_else(|error| panic!("{}: {error}", program.name));
    let mut out = format!("// program: {}\n", program.name);
    let mut ops = 0;
    for step in &program.steps {
        let written = match step {
            Step::Upload { result, data } => writeln!(out, "// upload {result} = {} {}", data.ty, elements(data)),
            Step::Record { result, operands, picked, .. } => {
                let mut line = format!("// record {result} = op {ops}");
                if *picked > 0 {
                    let _ = write!(line, "#{picked}");
                }
                ops += 1;
                for (operand, at) in operands.iter().zip(0..) {
                    let _ = write!(line, "{}{operand}", if at == 0 { " of " } else { " " });
                }
                writeln!(out, "{line}")
            }
            Step::Clone { result, of } => writeln!(out, "// clone {result} = {of}"),
            Step::Drop { handle, elsewhere: false } => writeln!(out, "// drop {handle}"),
            Step::Drop { handle, elsewhere: true } => writeln!(out, "// drop {handle} elsewhere"),
            Step::Read(handle) => writeln!(out, "// read {handle}"),
            Step::Flush => writeln!(out, "// flush"),
            Step::Synchronize => writeln!(out, "// synchronize"),
            Step::Enter(stream) => writeln!(out, "// enter {stream}"),
        };
        written.expect("writing to a string succeeds");
    }
    out.push_str(&print_module(&straight.trace));
    out
}

fn elements(data: &HostTensor) -> String {
    let scalars = data.scalars();
    let digits = 2 * data.ty.dtype.size();
    let dtype = data.ty.dtype;
    if scalars.len() > 2 && (0..).zip(&scalars).all(|(at, &scalar)| scalar == Scalar::from_f64(dtype, f64::from(at))) {
        return String::from("ramp");
    }
    let hex = |scalar: &Scalar| format!("{:0digits$x}", scalar.bits());
    match scalars.split_first() {
        Some((first, others)) if others.len() > 1 && others.iter().all(|other| other == first) => {
            format!("all {}", hex(first))
        }
        Some(_) | None => scalars.iter().map(hex).collect::<Vec<_>>().join(" "),
    }
}

/// The program that a text spells.
///
/// # Errors
/// The text is none that [`print()`] could have written; the error says where.
pub fn parse(text: &str) -> Result<Program, String> {
    let trace = parse_module(text).map_err(|error| error.to_string())?;
    let mut nodes = trace.nodes().iter();
    let mut program = Program::default();
    for (number, line) in text.lines().enumerate() {
        let Some(comment) = line.strip_prefix("// ") else { continue };
        if let Some(name) = comment.strip_prefix("program: ") {
            name.clone_into(&mut program.name);
            continue;
        }
        let words: Vec<&str> = comment.split_whitespace().collect();
        let step = match &words[..] {
            ["upload", result, "=", ty, elements @ ..] => handle(result)
                .zip(ty_of(ty))
                .and_then(|(result, ty)| Some(Step::Upload { result, data: data_of(ty, elements)? })),
            ["record", result, "=", "op", op, operands @ ..] => {
                let operands = operands.iter().skip(1).map(|word| handle(word)).collect::<Option<Vec<_>>>();
                let picked = op.split_once('#').map_or(Some(0), |(_, picked)| picked.parse().ok());
                handle(result).zip(operands).zip(nodes.next().zip(picked)).map(
                    |((result, operands), (node, picked))| Step::Record {
                        result,
                        op: node.op,
                        operands,
                        attrs: node.attrs.clone(),
                        body: body(&node.regions),
                        picked,
                    },
                )
            }
            ["clone", result, "=", of] => handle(result).zip(handle(of)).map(|(result, of)| Step::Clone { result, of }),
            ["drop", word] => handle(word).map(|handle| Step::Drop { handle, elsewhere: false }),
            ["drop", word, "elsewhere"] => handle(word).map(|handle| Step::Drop { handle, elsewhere: true }),
            ["read", word] => handle(word).map(Step::Read),
            ["flush"] => Some(Step::Flush),
            ["synchronize"] => Some(Step::Synchronize),
            ["enter", stream] => stream.parse().ok().map(Step::Enter),
            // Any other comment is one.
            _ => continue,
        };
        program.steps.push(step.ok_or_else(|| format!("line {}: `{line}` is no step", number + 1))?);
    }
    program.straighten()?;
    Ok(program)
}

fn handle(word: &str) -> Option<Handle> {
    word.strip_prefix('t')?.parse().ok().map(Handle)
}

fn ty_of(word: &str) -> Option<TensorType> {
    let inner = word.strip_prefix("tensor<")?.strip_suffix('>')?;
    let mut parts: Vec<&str> = inner.split('x').collect();
    let dtype = DType::from_mlir(parts.pop()?)?;
    let shape = parts.into_iter().map(|extent| extent.parse().ok()).collect::<Option<Shape>>()?;
    Some(TensorType { dtype, shape })
}

fn data_of(ty: TensorType, words: &[&str]) -> Option<HostTensor> {
    let count = ty.shape.checked_elements()?;
    let element = |word: &&str| u64::from_str_radix(word, 16).ok().map(|bits| Scalar::from_bits(ty.dtype, bits));
    let scalars: Vec<Scalar> = match words {
        ["ramp"] => (0..count).map(|at| Scalar::from_f64(ty.dtype, at as f64)).collect(),
        ["all", word] => vec![element(word)?; count],
        words => words.iter().map(element).collect::<Option<_>>()?,
    };
    let size = ty.dtype.size();
    let bytes = scalars.iter().flat_map(|scalar| scalar.to_le_bytes().into_iter().take(size)).collect();
    (scalars.len() == count).then_some(HostTensor { ty, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate;
    use expect_test::expect;
    use systole_fusion::ir::{Attrs, Opcode};

    #[test]
    fn programs_round_trip() {
        for seed in 0..500 {
            let program = generate(seed);
            let text = print(&program);
            let back = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
            assert_eq!(back.steps.len(), program.steps.len());
            assert_eq!(print(&back), text);
        }
    }

    #[test]
    fn a_program_reads_well() {
        let data = HostTensor::from_slice([2], &[1.0f32, f32::NAN]);
        let (a, b) = (Handle(0), Handle(1));
        let operands = vec![a, a];
        let steps = vec![
            Step::Upload { result: a, data },
            Step::Record { result: b, op: Opcode::Add, operands, attrs: Attrs::None, body: None, picked: 0 },
            Step::Drop { handle: a, elsewhere: true },
            Step::Read(b),
        ];
        let text = print(&Program { name: String::from("by hand"), steps });
        expect![[r#"
            // program: by hand
            // upload t0 = tensor<2xf32> 3f800000 7fc00000
            // record t1 = op 0 of t0 t0
            // drop t0 elsewhere
            // read t1
            module {
              func.func @main(%arg0: tensor<2xf32>) {
                %0 = stablehlo.add %arg0, %arg0 : tensor<2xf32>
                return
              }
            }
        "#]]
        .assert_eq(&text);
        assert_eq!(print(&parse(&text).expect("printed")), text);
    }

    #[test]
    fn what_is_no_program_is_refused() {
        let module = "module {\n  func.func @main(%arg0: tensor<2xf32>) {\n    return\n  }\n}\n";
        let check = |steps: &str, expected: expect_test::Expect| {
            expected.assert_eq(&parse(&format!("{steps}{module}")).expect_err("no program"));
        };
        check(
            "// upload t0 = tensor<2xf32> 3f800000\n",
            expect!["line 1: `// upload t0 = tensor<2xf32> 3f800000` is no step"],
        );
        check("// read t5\n", expect!["step 0 uses t5, which is not live"]);
        check("// record t1 = op 0 of t0\n", expect!["line 1: `// record t1 = op 0 of t0` is no step"]);
    }
}
