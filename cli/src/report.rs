//! The result of `systole run` as one JSON object. docs/cli.md fixes the keys.

use serde::Serialize;
use systole::Mode;

use crate::measurement::Measurement;

/// What `--json` prints.
#[derive(Serialize, Debug)]
pub(crate) struct Report<'a> {
    pub(crate) model: &'a str,
    pub(crate) profile: &'a str,
    pub(crate) threads: usize,
    pub(crate) bits_identical: bool,
    pub(crate) losses: &'a [f32],
    pub(crate) modes: Modes,
}

/// One entry per mode that ran.
#[derive(Serialize, Default, Debug)]
pub(crate) struct Modes {
    #[serde(skip_serializing_if = "Option::is_none")]
    debug: Option<Entry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<Entry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fused: Option<Entry>,
}

#[derive(Serialize, Debug)]
struct Entry {
    seconds_per_step: f64,
    kernel_seconds_per_step: f64,
    ops_per_step: f64,
    launches_per_step: f64,
    bytes_moved_per_step: f64,
    plans_built: u64,
    plan_hit_rate: f64,
    steps: usize,
}

impl Modes {
    pub(crate) fn of(measurements: &[(Mode, Measurement)]) -> Self {
        let mut modes = Modes::default();
        for (mode, measurement) in measurements {
            let place = match mode {
                Mode::Debug => &mut modes.debug,
                Mode::Strict => &mut modes.strict,
                Mode::Fused => &mut modes.fused,
            };
            *place = Some(Entry {
                seconds_per_step: measurement.seconds_per_step,
                kernel_seconds_per_step: measurement.kernel_seconds_per_step,
                ops_per_step: measurement.ops_per_step,
                launches_per_step: measurement.launches_per_step,
                bytes_moved_per_step: measurement.bytes_moved_per_step,
                plans_built: measurement.plans_built,
                plan_hit_rate: measurement.plan_hit_rate,
                steps: measurement.steps,
            });
        }
        modes
    }
}

impl Report<'_> {
    /// The object on one line.
    pub(crate) fn to_json(&self) -> String {
        let json = serde_json::to_string(self).expect("numbers, strings and lists can always be written as JSON");
        json + "\n"
    }
}
