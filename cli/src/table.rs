//! The result of `systole run` for people.

use systole::Mode;
use systole::hal::Capabilities;
use systole_models::{Gives, Model, Text};

use crate::measurement::{self, Measurement};
use crate::output::{self, BAD, GOOD, HEADING, count};
use crate::run::Runs;
use crate::{plot, similarity};

/// Most columns of the curve, fewest, and what its labels take.
const WIDEST: usize = 64;
const NARROWEST: usize = 10;
const LABELS: usize = 8;
/// Rows of the curve.
const HEIGHT: usize = 10;

/// Everything that is printed.
pub(crate) fn render(model: &Model, device: &Capabilities, texts: &[Text], runs: &Runs) -> String {
    let outcome = &runs.outcome;
    let steps = outcome.steps.len();
    let mut text = format!(
        "{HEADING}{}{HEADING:#}: {}, {}\n{}, {}, {}\n\n",
        model.name,
        model.summary,
        count(steps, "step"),
        device.name,
        count(device.threads, "thread"),
        device.isa,
    );
    let columns = output::columns();
    text += &match model.gives {
        Gives::Loss => format!("loss of each step\n{}", curve(&outcome.losses(), columns)),
        Gives::Embeddings => similarity::render(texts, outcome.last("similarity"), columns),
    };
    text += "\n";
    text += &rows(&runs.measurements);
    text += "\n";
    text += &speed_up(&runs.measurements);
    text += &match model.gives {
        Gives::Loss => {
            let elements = outcome.parameter_elements();
            format!("{} runs, each of {} and {elements} parameters\n", runs.count, losses(steps))
        }
        Gives::Embeddings => format!("{} runs, each of {} numbers\n", runs.count, outcome.result_elements()),
    };
    for (name, deviation) in runs.deviations.iter().flatten() {
        text += &format!("{name}: at most {deviation:.2e} from the profile ieee\n");
    }
    text += &match runs.difference {
        None => format!("bits identical: {GOOD}yes{GOOD:#}\n"),
        Some(_) => format!("bits identical: {BAD}no{BAD:#}\n"),
    };
    text
}

fn losses(steps: usize) -> String {
    if steps == 1 { String::from("1 loss") } else { format!("{steps} losses") }
}

fn curve(losses: &[f32], columns: usize) -> String {
    plot::curve(losses, columns.saturating_sub(LABELS).clamp(NARROWEST, WIDEST), HEIGHT)
}

/// A row for each measure and a column for each mode, so that all of it fits a terminal of 50 columns.
fn rows(measurements: &[(Mode, Measurement)]) -> String {
    let columns: Vec<_> = measurements.iter().map(|(_, measurement)| cells(measurement)).collect();
    let mut text = format!("{HEADING}{:<LABEL$}", "mode");
    for (mode, _) in measurements {
        text += &format!("{:>CELL$}", mode.name());
    }
    text += &format!("{HEADING:#}\n");
    for (row, label) in MEASURES.iter().enumerate() {
        text += &format!("{label:<LABEL$}");
        for column in &columns {
            text += &format!("{:>CELL$}", column[row]);
        }
        text += "\n";
    }
    text
}

/// What is measured of a mode.
const MEASURES: [&str; 7] =
    ["time/step", "in kernels", "ops/step", "launches/step", "moved/step", "plans built", "plan hits"];
/// Columns of a measure's name, and of its value with the space before it.
const LABEL: usize = 13;
const CELL: usize = 12;

fn cells(measurement: &Measurement) -> [String; MEASURES.len()] {
    [
        seconds(measurement.seconds_per_step()),
        seconds(measurement.kernel_seconds_per_step),
        format!("{:.1}", measurement.ops_per_step),
        format!("{:.1}", measurement.launches_per_step),
        bytes(measurement.bytes_moved_per_step),
        measurement.plans_built.to_string(),
        format!("{:.1} %", 100.0 * measurement.plan_hit_rate),
    ]
}

/// How fused compares with strict, where both ran.
fn speed_up(measurements: &[(Mode, Measurement)]) -> String {
    let ratio = measurement::speed_up(measurements);
    ratio.map_or_else(String::new, |ratio| format!("fused is {ratio:.2}× as fast as strict\n"))
}

/// A time in the unit that gives it three digits or so.
pub(crate) fn seconds(value: f64) -> String {
    let (unit, scale) = match value {
        value if value < 1e-3 => ("µs", 1e6),
        value if value < 1.0 => ("ms", 1e3),
        _ => ("s", 1.0),
    };
    format!("{} {unit}", three_digits(value * scale))
}

/// Bytes in the unit that gives them three digits or so.
pub(crate) fn bytes(mut value: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{} {}", three_digits(value), units[unit])
}

fn three_digits(value: f64) -> String {
    let decimals = match value {
        value if value >= 100.0 || value.fract() == 0.0 => 0,
        value if value >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(measurements: &[(Mode, Measurement)], expected: &Expect) {
        let text = rows(measurements) + &speed_up(measurements);
        expected.assert_eq(&anstream::adapter::strip_str(&text).to_string());
    }

    fn measurement(seconds_per_step: f64, launches_per_step: f64) -> Measurement {
        Measurement {
            steps: 200,
            seconds: vec![seconds_per_step],
            kernel_seconds_per_step: seconds_per_step / 2.0,
            ops_per_step: 176.0,
            launches_per_step,
            bytes_moved_per_step: launches_per_step * 12_345.0,
            plans_built: 17,
            plan_hit_rate: 0.98765,
        }
    }

    #[test]
    fn columns_are_aligned() {
        check(
            &[
                (Mode::Debug, measurement(1.25, 176.0)),
                (Mode::Strict, measurement(0.0012, 176.0)),
                (Mode::Fused, measurement(4e-4, 9.25)),
            ],
            &expect![[r#"
                mode                debug      strict       fused
                time/step          1.25 s     1.20 ms      400 µs
                in kernels         625 ms      600 µs      200 µs
                ops/step            176.0       176.0       176.0
                launches/step       176.0       176.0         9.2
                moved/step       2.07 MiB    2.07 MiB     112 KiB
                plans built            17          17          17
                plan hits          98.8 %      98.8 %      98.8 %
                fused is 3.00× as fast as strict
            "#]],
        );
    }

    #[test]
    fn a_mode_alone_has_no_speed_up() {
        assert_eq!(speed_up(&[(Mode::Fused, measurement(1.0, 1.0))]), "");
    }

    #[test]
    fn sizes_have_three_digits_or_so() {
        let sizes = [0.0, 999.0, 1024.0, 1536.5, 150_000.0, 16.0 * 1024f64.powi(3)].map(bytes);
        expect!["0 B, 999 B, 1 KiB, 1.50 KiB, 146 KiB, 16 GiB"].assert_eq(&sizes.join(", "));
    }
}
