//! `systole run`: each mode on a fresh device, timed, and compared to the bit.
//!
//! Every mode runs twice, in turns with the others: the first run is timed; the second has the device add up the time
//! inside its kernels, which costs a little. The outcomes of all runs are compared, so one mode alone is still held against itself. On a chip's
//! profile one more run, on the exact one, tells how far the results deviate.

use systole::{Config, Device, Mode, with_precision};
use systole_models::{Prepared, Text};

use crate::args::RunArgs;
use crate::measurement::{Measurement, measure};
use crate::outcome::Outcome;
use crate::output::{self, Failure};
use crate::progress::Progress;
use crate::report::Report;
use crate::table;

/// The profile that others are held against.
const EXACT: &str = "ieee";

/// All runs of one command.
#[derive(Debug)]
pub(crate) struct Runs {
    /// The timed run of each mode, with the kernel time of the second.
    pub(crate) measurements: Vec<(Mode, Measurement)>,
    /// Of the first run.
    pub(crate) outcome: Outcome,
    /// Where the outcome of another run differs from the first one's, in words.
    pub(crate) difference: Option<String>,
    /// How many runs were compared.
    pub(crate) count: usize,
    /// Largest difference of each result from the exact profile's, where another one was asked for.
    pub(crate) deviations: Option<Vec<(&'static str, f32)>>,
}

/// `systole` without a command.
pub(crate) fn demonstrate() -> Result<(), Failure> {
    run(&RunArgs::of(&systole_models::ALL[0]))
}

/// `systole run`.
pub(crate) fn run(args: &RunArgs) -> Result<(), Failure> {
    let mut progress = Progress::new();
    let input = args.model.input("run")?;
    let model = args.model.prepare(&input, &mut progress)?;
    let runs = with_precision(args.device.precision, || run_modes(args, &*model, &mut progress))?;
    drop(progress);
    for (at, text) in model.texts().iter().enumerate().filter(|(_, text)| is_cut(text)) {
        let Text { tokens, taken, .. } = text;
        output::note(&format!("text {} has {tokens} tokens; the model takes the first {taken}", at + 1));
    }
    let device = Device::open(args.device.config())?;
    let text = match args.json {
        true => Report::new(args.model.model, &args.device, model.texts(), &runs).to_json(),
        false => table::render(args.model.model, device.capabilities(), model.texts(), &runs),
    };
    output::print(&text)?;
    match runs.difference {
        Some(place) => Err(Failure::BitsDiffer(place)),
        None => Ok(()),
    }
}

fn is_cut(text: &Text) -> bool {
    text.taken < text.tokens
}

fn run_modes(args: &RunArgs, model: &dyn Prepared, progress: &mut Progress) -> Result<Runs, Failure> {
    let (modes, steps, gives) = (args.modes(), args.steps(), args.model.model.gives);
    let exact = args.device.profile == EXACT;
    progress.expect((2 * modes.len() + usize::from(!exact)) * steps);
    let progress = &*progress;
    let advance = |mode: Mode, steps| progress.advance(mode.name(), steps);
    let runs = |kernel_timing| {
        let configs = modes.iter().map(|&mode| Config { mode, kernel_timing, ..args.device.config() });
        measure(model, gives, configs, steps, advance)
    };
    let (timed, with_kernels) = (runs(false)?, runs(true)?);
    let mut measurements = Vec::new();
    let mut outcomes: Vec<(Mode, Outcome)> = Vec::new();
    for ((&mode, (first, timed)), (second, with_kernels)) in modes.iter().zip(timed).zip(with_kernels) {
        let kernel_seconds_per_step = with_kernels.kernel_seconds_per_step;
        measurements.push((mode, Measurement { kernel_seconds_per_step, ..timed }));
        outcomes.extend([(mode, first), (mode, second)]);
    }
    let (first_mode, first) = &outcomes[0];
    let difference = outcomes[1..].iter().find_map(|(mode, other)| {
        first.difference(other).map(|place| format!("{place}, between a run in mode {first_mode} and one in {mode}"))
    });
    let count = outcomes.len();
    let (_, outcome) = outcomes.swap_remove(0);
    let deviations = if exact {
        None
    } else {
        let config = Config { profile: String::from(EXACT), ..args.device.config() };
        let exact = measure(model, gives, [config], steps, |_, steps| progress.advance(EXACT, steps))?;
        exact.first().map(|(reference, _)| outcome.deviations(reference))
    };
    Ok(Runs { measurements, outcome, difference, count, deviations })
}
