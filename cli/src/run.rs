//! `systole run`: each mode on a fresh device, timed, and compared to the bit.
//!
//! Every mode runs twice: the first run is timed; the second has the device add up the time inside its kernels, which
//! costs a little. The outcomes of all runs are compared, so one mode alone is still held against itself.

use systole::{Config, Device, Mode};

use crate::args::RunArgs;
use crate::measurement::{Measurement, measure};
use crate::outcome::Outcome;
use crate::output::{self, Failure};
use crate::progress::Progress;
use crate::report::{Modes, Report};
use crate::table;

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
}

/// `systole` without a command.
pub(crate) fn demonstrate() -> Result<(), Failure> {
    run(&RunArgs::of(&systole_models::ALL[0]))
}

/// `systole run`.
pub(crate) fn run(args: &RunArgs) -> Result<(), Failure> {
    let runs = run_modes(args)?;
    let text = if args.json {
        let report = Report {
            model: args.model.name,
            profile: &args.device.profile,
            threads: args.device.config().threads,
            bits_identical: runs.difference.is_none(),
            losses: &runs.outcome.losses,
            modes: Modes::of(&runs.measurements),
        };
        report.to_json()
    } else {
        let device = Device::open(args.device.config())?;
        table::render(args.model, device.capabilities(), &runs)
    };
    output::print(&text)?;
    match runs.difference {
        Some(place) => Err(Failure::BitsDiffer(place)),
        None => Ok(()),
    }
}

fn run_modes(args: &RunArgs) -> Result<Runs, Failure> {
    let (modes, steps) = (args.modes(), args.steps());
    let progress = Progress::start(2 * modes.len() * steps);
    let mut measurements = Vec::new();
    let mut outcomes: Vec<(Mode, Outcome)> = Vec::new();
    for mode in modes {
        let config = |kernel_timing| Config { mode, kernel_timing, ..args.device.config() };
        let advance = |mode: Mode, steps| progress.advance(mode.name(), steps);
        let (first, timed) = measure(args.model, config(false), steps, advance)?;
        let (second, with_kernels) = measure(args.model, config(true), steps, advance)?;
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
    Ok(Runs { measurements, outcome, difference, count })
}
