//! The reference interpreter and the parser against StableHLO's own test data.
//!
//! The data are no part of this repository. Where they are not at hand, the test says so and passes. A case ends in
//! `check.*` ops, which are no ops of ours: the case is rewritten so that it returns what it would have compared.

#[path = "../../tests/testdata/mod.rs"]
mod testdata;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use systole_fusion::reference::{HostTensor, interpret};
use systole_fusion::text::{parse, print};
use systole_kernels::Scalar;

/// The suite among the data.
const DIRECTORY: &str = "conformance/stablehlo";

/// How two values must agree.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Agreement {
    /// Bit by bit; NaNs by class.
    Exact,
    /// Within 3 units in the last place.
    Close,
    /// Within an absolute distance.
    Within(f64),
}

/// A case whose function returns pairs of values to compare.
struct Case {
    name: String,
    text: String,
    pairs: Vec<Agreement>,
}

#[derive(Debug)]
enum Outcome {
    Passed,
    Outside(String),
    Failed(String),
}

/// Past the harness's capture: what was skipped is seen in every run.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

fn files(directory: &Path) -> Vec<(String, String)> {
    let entries = std::fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("a readable directory").path()).collect();
    paths.sort();
    paths
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "mlir"))
        .map(|path| {
            let name = path.file_stem().expect("a file has a name").to_string_lossy().into_owned();
            (name, std::fs::read_to_string(&path).expect("test data are text"))
        })
        .collect()
}

/// A file of `testdata`: `@main` compares its op's result with what `@expected` returns.
fn testdata_case(name: &str, text: &str) -> Option<Case> {
    let mut pairs = Vec::new();
    let (mut values, mut types) = (Vec::new(), Vec::new());
    let (main, rest) = text.split_once("func.func public @main() -> (")?;
    let (_, rest) = rest.split_once("{\n")?;
    let (body, rest) = rest.split_once("\n  }")?;
    let mut kept = String::new();
    for line in body.lines() {
        if let Some((_, check)) = line.split_once("stablehlo.custom_call @check.") {
            let (kind, rest) = check.split_once('(')?;
            let (operands, rest) = rest.split_once(')')?;
            let (_, signature) = rest.split_once(": (")?;
            let (operand_types, _) = signature.split_once(") ->")?;
            pairs.push(match kind {
                "expect_eq" => Agreement::Exact,
                "expect_close" => Agreement::Close,
                "expect_almost_eq" => Agreement::Within(1e-3),
                _ => return None,
            });
            values.push(operands.to_owned());
            types.push(operand_types.to_owned());
        } else if !line.trim_start().starts_with("return") {
            writeln!(kept, "{line}").expect("strings take all");
        }
    }
    let (values, types) = (values.join(", "), types.join(", "));
    let text =
        format!("{main}func.func public @main() -> ({types}) {{\n{kept}    return {values} : {types}\n  }}{rest}");
    Some(Case { name: name.to_owned(), text, pairs })
}

/// A part of a file of `interpret`: a function that compares and returns nothing.
fn interpret_case(name: &str, text: &str) -> Option<Case> {
    let (mut kept, mut pairs) = (String::new(), Vec::new());
    let (mut values, mut types) = (Vec::new(), Vec::new());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("check.expect_") {
        kept.push_str(before);
        let end = after.find(": tensor<")?;
        let close = end + after[end..].find('>')?;
        let ty = &after[end + 2..=close];
        let (kind, arguments) = after[..end].split_once(' ')?;
        let (value, other) = arguments.split_once(',')?;
        let (other, tolerance) = match other.rsplit_once("tolerance =") {
            Some((other, tolerance)) => (other.trim_end().trim_end_matches(','), tolerance.trim().parse().ok()?),
            None => (other, 1e-4),
        };
        pairs.push(match kind {
            "eq" | "eq_const" => Agreement::Exact,
            "almost_eq" | "almost_eq_const" => Agreement::Within(tolerance),
            _ => return None,
        });
        let other = if kind.ends_with("const") {
            let name = format!("%expected_{}", pairs.len());
            write!(kept, "{name} = stablehlo.constant {other} : {ty}").expect("strings take all");
            name
        } else {
            other.trim().to_owned()
        };
        values.push(format!("{}, {other}", value.trim()));
        types.push(format!("{ty}, {ty}"));
        rest = &after[close + 1..];
    }
    kept.push_str(rest);
    let (values, types) = (values.join(", "), types.join(", "));
    if pairs.is_empty() || !kept.contains("() {") {
        return None;
    }
    let text = kept
        .replacen("() {", &format!("() -> ({types}) {{"), 1)
        .replace("func.return\n", &format!("func.return {values} : {types}\n"));
    Some(Case { name: name.to_owned(), text, pairs })
}

fn run(case: &Case) -> Outcome {
    let trace = match parse(&case.text) {
        Ok(trace) => trace,
        Err(error) if error.is_unsupported() => return Outcome::Outside(error.message()),
        Err(error) => return Outcome::Failed(error.to_string()),
    };
    let text = print(&trace);
    match parse(&text) {
        Ok(back) if print(&back) == text => {}
        Ok(_) => return Outcome::Failed(String::from("printing is no fixed point")),
        Err(error) => {
            return Outcome::Failed(format!("what was printed does not read back: {error}"));
        }
    }
    let outputs = match interpret(&trace, &[]) {
        Ok(outputs) => outputs,
        Err(error) => return Outcome::Failed(error.to_string()),
    };
    for (pair, &agreement) in outputs.chunks(2).zip(&case.pairs) {
        if let Err(message) = compare(&pair[0], &pair[1], agreement) {
            return Outcome::Failed(message);
        }
    }
    Outcome::Passed
}

fn compare(found: &HostTensor, expected: &HostTensor, agreement: Agreement) -> Result<(), String> {
    assert_eq!(found.ty, expected.ty, "what is compared has one type");
    for (i, (a, b)) in found.scalars().into_iter().zip(expected.scalars()).enumerate() {
        if !agree(a, b, agreement) {
            return Err(format!("element {i} is {}, expected {} ({agreement:?})", a.to_f64(), b.to_f64()));
        }
    }
    Ok(())
}

fn agree(a: Scalar, b: Scalar, agreement: Agreement) -> bool {
    let float = a.dtype().is_float();
    if a.bits() == b.bits() || (float && a.to_f64().is_nan() && b.to_f64().is_nan()) {
        return true;
    }
    // Positions on the line of floats, the zeros apart by one.
    let position = |x: Scalar| {
        let sign = 1 << (8 * x.dtype().size() - 1);
        let magnitude = (x.bits() & (sign - 1)) as i64;
        if x.bits() & sign != 0 { -magnitude } else { magnitude }
    };
    match agreement {
        Agreement::Exact => false,
        Agreement::Close => float && (position(a) - position(b)).abs() <= 3,
        Agreement::Within(tolerance) => (a.to_f64() - b.to_f64()).abs() <= tolerance,
    }
}

/// Runs the cases; gives the number passed after saying what became of the others.
fn report(what: &str, cases: &[Option<Case>]) -> usize {
    let (mut passed, mut outside, mut failures) = (0, BTreeMap::<String, usize>::new(), String::new());
    for case in cases {
        let Some(case) = case else {
            *outside.entry(String::from("not of the usual form")).or_default() += 1;
            continue;
        };
        match run(case) {
            Outcome::Passed => passed += 1,
            Outcome::Outside(reason) => *outside.entry(reason).or_default() += 1,
            Outcome::Failed(message) => writeln!(failures, "{}: {message}", case.name).expect("strings take all"),
        }
    }
    let count: usize = outside.values().sum();
    say(&format!("{what}: {} cases, {passed} passed, {count} outside the op table", cases.len()));
    if std::env::var_os("SYSTOLE_TESTDATA_VERBOSE").is_some() {
        for (reason, count) in outside {
            say(&format!("  {count:5} {reason}"));
        }
    }
    assert!(failures.is_empty(), "{what}:\n{failures}");
    passed
}

#[test]
fn testdata() {
    let Some(directory) = testdata::find(DIRECTORY) else { return };
    let cases: Vec<_> =
        files(&directory.join("testdata")).iter().map(|(name, text)| testdata_case(name, text)).collect();
    let passed = report("testdata", &cases);
    assert!(passed >= 291, "{passed} cases passed: a case that passed once is not lost");
}

#[test]
fn interpreter_cases() {
    let Some(directory) = testdata::find(DIRECTORY) else { return };
    let cases: Vec<_> = files(&directory.join("interpret"))
        .iter()
        .flat_map(|(name, text)| text.split("// -----").map(|part| interpret_case(name, part)).collect::<Vec<_>>())
        .collect();
    let passed = report("interpret", &cases);
    assert!(passed >= 105, "{passed} cases passed: a case that passed once is not lost");
}
