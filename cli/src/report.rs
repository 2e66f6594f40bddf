//! The result of `systole run` as one JSON object. docs/cli.md fixes the keys.

use std::collections::BTreeMap;

use serde::Serialize;
use systole::Mode;
use systole_models::{Gives, Model, Text};

use crate::args::DeviceArgs;
use crate::measurement::{self, Measurement};
use crate::run::Runs;

/// What `--json` prints.
#[derive(Serialize, Debug)]
pub(crate) struct Report<'a> {
    model: &'a str,
    profile: &'a str,
    precision: &'a str,
    threads: usize,
    bits_identical: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    losses: Option<Vec<f32>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    texts: Option<Vec<TextEntry<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    similarity: Option<Vec<&'a [f32]>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    embeddings: Option<Vec<&'a [f32]>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deviation: Option<BTreeMap<&'a str, f32>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    speed_up: Option<f64>,
    modes: Modes,
}

#[derive(Serialize, Debug)]
struct TextEntry<'a> {
    text: &'a str,
    tokens: usize,
    taken: usize,
}

/// One entry per mode that ran.
#[derive(Serialize, Default, Debug)]
struct Modes {
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
    fn of(measurements: &[(Mode, Measurement)]) -> Self {
        let mut modes = Modes::default();
        for (mode, measurement) in measurements {
            let place = match mode {
                Mode::Debug => &mut modes.debug,
                Mode::Strict => &mut modes.strict,
                Mode::Fused => &mut modes.fused,
            };
            *place = Some(Entry {
                seconds_per_step: measurement.seconds_per_step(),
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

impl<'a> Report<'a> {
    pub(crate) fn new(model: &'a Model, device: &'a DeviceArgs, texts: &'a [Text], runs: &'a Runs) -> Self {
        let outcome = &runs.outcome;
        let rows = |name| {
            let elements = outcome.last(name);
            elements.chunks_exact((elements.len() / texts.len()).max(1)).collect()
        };
        let report = Report {
            model: model.name,
            profile: &device.profile,
            precision: device.precision_name(),
            threads: device.config().threads,
            bits_identical: runs.difference.is_none(),
            losses: None,
            texts: None,
            similarity: None,
            embeddings: None,
            deviation: runs.deviations.as_ref().map(|deviations| deviations.iter().copied().collect()),
            speed_up: measurement::speed_up(&runs.measurements),
            modes: Modes::of(&runs.measurements),
        };
        match model.gives {
            Gives::Loss => Report { losses: Some(outcome.losses()), ..report },
            Gives::Embeddings => Report {
                texts: Some(texts.iter().map(TextEntry::of).collect()),
                similarity: Some(rows("similarity")),
                embeddings: Some(rows("embeddings")),
                ..report
            },
        }
    }

    /// The object on one line.
    pub(crate) fn to_json(&self) -> String {
        let json = serde_json::to_string(self).expect("numbers, strings and lists can always be written as JSON");
        json + "\n"
    }
}

impl<'a> TextEntry<'a> {
    fn of(text: &'a Text) -> Self {
        TextEntry { text: &text.text, tokens: text.tokens, taken: text.taken }
    }
}
