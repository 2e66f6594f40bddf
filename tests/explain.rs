//! Reports name the user's lines: of a cut's first and last op, of each program built, and of what a key differs in.

use expect_test::{Expect, expect};
use systole::{Config, Device, FlushReport, PlanSource, Result, Tensor};

fn patient() -> Device {
    Device::open(Config { first_window: 1000, threads: 1, ..Config::default() }).expect("the simulator opens")
}

/// The report as lines, positions as distances from line `base` of this file.
fn describe(report: &FlushReport, base: u32) -> String {
    let place = |origin: &dyn std::fmt::Display| {
        let text = origin.to_string();
        let line: u32 = text.split(':').nth(1).and_then(|line| line.parse().ok()).expect("a Rust call site");
        assert!(text.starts_with("tests/explain.rs:"), "{text}");
        format!("line {}", line - base)
    };
    let mut text = format!("{} ops, {} to {}\n", report.ops, place(&report.first), place(&report.last));
    match &report.plan {
        PlanSource::Nothing => text += "nothing planned\n",
        PlanSource::Cached => text += "known\n",
        PlanSource::Built(build) => {
            for program in &build.programs {
                let new = if program.new { "new" } else { "known" };
                text += &format!("{new} program {} at {}\n", program.name, place(&program.origin));
            }
            if let Some(difference) = &build.difference {
                let at = difference.origin.as_ref().map_or(String::new(), |origin| format!(" at {}", place(origin)));
                text += &format!("differs in {}{at}\n", difference.part);
            }
        }
    }
    text
}

fn check(base: u32, run: impl FnOnce(&Device) -> Result<()>, expected: &Expect) {
    let device = patient();
    run(&device).expect("the program runs");
    let text: Vec<_> = device.reports().iter().map(|report| describe(report, base)).collect();
    expected.assert_eq(&text.join("---\n"));
}

#[test]
fn lines_are_the_users() {
    let base = line!();
    check(
        base,
        |device| {
            let x = Tensor::from_slice(device, &[1.0f32, 2.0, 3.0], [3])?;
            let y = x.exp()?;
            let sum = y.add(1.0)?;
            let _ = sum.to_vec::<f32>()?;
            let z = x.exp()?;
            let difference = z.sub(1.0)?;
            let _ = difference.to_vec::<f32>()?;
            let again = x.exp()?;
            let _ = again.sub(2.0)?.to_vec::<f32>()?;
            Ok(())
        },
        &expect![[r#"
            4 ops, line 5 to line 6
            new program exponential+add at line 6
            ---
            4 ops, line 8 to line 9
            new program exponential+subtract at line 9
            differs in op of node 3: subtract / add at line 9
            ---
            4 ops, line 11 to line 12
            known
        "#]],
    );
}
