//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, RangedU64ValueParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};
use systole::hal::sim::Compiler;
use systole::{Config, DType, Device, Isa, Mode, Precision};
use systole_benches::{DTYPES, FUSION};
use systole_models::minilm::Source;
use systole_models::{Input, Model, Prepared};

use crate::output::Failure;
use crate::progress::Progress;
use crate::{bench, cache, explain, texts};

/// Most threads that may be asked for: far above any machine, far below what exhausts one.
const MOST_THREADS: u64 = 1024;
/// Most steps that may be asked for; every loss is kept.
const MOST_STEPS: u64 = 1_000_000;

/// Eager tensor programs at the speed of a fusing compiler, with the same bits.
///
/// Without a command: the demonstration, which is `systole run digits`.
#[derive(Parser, Debug)]
#[command(name = "systole", version, arg_required_else_help = false)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Run a model in each mode, time it, and compare the bits
    Run(RunArgs),
    /// Run a model and tell each cut of its stream and each plan built: why, and at which line of the program
    Explain(ExplainArgs),
    /// Time workloads in each mode, the modes in turns, and compare the bits
    Bench(BenchArgs),
    /// List the devices that can be opened, and what this machine has for them
    Devices,
}

/// How a device is opened.
#[derive(clap::Args, Debug)]
pub(crate) struct DeviceArgs {
    /// Profile of the device: whose numbers it computes, and how much memory it has
    #[arg(long, value_name = "NAME", default_value_t = Config::default().profile,
        value_parser = PossibleValuesParser::new(Device::profiles()))]
    pub(crate) profile: String,

    /// How exact a chip's products of f32 are to be: factors of one, two or three bf16
    #[arg(long, value_name = "NAME", default_value = "default",
        value_parser = PossibleValuesParser::new(PRECISIONS.map(|(name, _)| name)).map(precision))]
    pub(crate) precision: Precision,

    /// Threads that one program may use; all of the machine by default
    #[arg(long, value_name = "N", allow_negative_numbers = true,
        value_parser = RangedU64ValueParser::<usize>::new().range(1..=MOST_THREADS))]
    pub(crate) threads: Option<usize>,

    /// Instruction set for kernels; the widest of the machine by default
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(Isa::available().into_iter().map(Isa::name))
        .try_map(|name| name.parse::<Isa>()))]
    pub(crate) isa: Option<Isa>,

    /// Play a compiler of static shapes that takes so long for each program, in the background
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) compile_delay: Option<Duration>,
}

/// The precisions by the names that the command line has for them.
pub(crate) const PRECISIONS: [(&str, Precision); 3] =
    [("default", Precision::Default), ("high", Precision::High), ("highest", Precision::Highest)];

/// The precision of a name among those.
#[expect(clippy::needless_pass_by_value, reason = "what a parser is mapped by")]
fn precision(name: String) -> Precision {
    let named = PRECISIONS.into_iter().find(|(other, _)| *other == name);
    named.expect("the parser lets no other name through").1
}

/// A number of seconds, at most an hour.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.filter(|&delay| delay <= Duration::from_secs(3600)).ok_or_else(|| "not 0 to 3600 seconds".into())
}

impl DeviceArgs {
    /// The precision's name on the command line.
    pub(crate) fn precision_name(&self) -> &'static str {
        let named = PRECISIONS.into_iter().find(|(_, precision)| *precision == self.precision);
        named.expect("each has a name").0
    }

    /// What is meant where nothing is said.
    fn unsaid() -> Self {
        DeviceArgs {
            profile: Config::default().profile,
            precision: Precision::Default,
            threads: None,
            isa: None,
            compile_delay: None,
        }
    }

    /// The device, whatever the mode.
    pub(crate) fn config(&self) -> Config {
        let default = Config::default();
        Config {
            profile: self.profile.clone(),
            threads: self.threads.unwrap_or(default.threads),
            isa: self.isa,
            compiler: self.compile_delay.map_or(default.compiler, Compiler::slow),
            ..default
        }
    }
}

/// Which model is run, and on what.
#[derive(clap::Args, Debug)]
pub(crate) struct ModelArgs {
    /// The model
    #[arg(value_parser = PossibleValuesParser::new(systole_models::ALL.iter().map(|model| model.name))
        .try_map(|name| systole_models::find(&name)))]
    pub(crate) model: &'static Model,

    /// Texts for a model that takes them (minilm: sentences); its own by default
    #[arg(value_name = "TEXT")]
    texts: Vec<String>,

    /// File with more texts, one a line; - for stdin
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// Folder with the model's files (minilm: config.json, tokenizer.json, model.safetensors); by default they are
    /// fetched once, into $SYSTOLE_CACHE or the user's cache folder
    #[arg(long, value_name = "FOLDER")]
    weights: Option<PathBuf>,
}

impl ModelArgs {
    /// What the model gets, by the subcommand of that name.
    ///
    /// The command line is refused, and the process ends, where the model does not take what was given.
    pub(crate) fn input(&self, subcommand: &str) -> Result<Input, Failure> {
        let name = self.model.name;
        let refuse = |what| -> ! {
            let mut command = Args::command();
            command.build();
            let command = command.find_subcommand_mut(subcommand).expect("the command line was parsed as this");
            command.error(ErrorKind::ArgumentConflict, format!("{name} {what}")).exit()
        };
        if self.model.texts.is_empty() && (!self.texts.is_empty() || self.file.is_some()) {
            refuse("takes no texts");
        }
        if self.model.package.is_none() && self.weights.is_some() {
            refuse("has no weights to be given");
        }
        let mut texts = self.texts.clone();
        if let Some(file) = &self.file {
            let lines = texts::lines(file)?;
            if lines.is_empty() && texts.is_empty() {
                return Err(Failure::NoTexts(file.clone()));
            }
            texts.extend(lines);
        }
        let weights = match (&self.weights, self.model.package) {
            (Some(folder), _) => Some(Source::Folder(folder.clone())),
            (None, Some(_)) => Some(Source::Store(cache::store()?)),
            (None, None) => None,
        };
        Ok(Input { texts, weights })
    }

    /// Reads what the model needs.
    pub(crate) fn prepare(&self, input: &Input, progress: &mut Progress) -> Result<Box<dyn Prepared>, Failure> {
        let prepared = self.model.prepare(input, &mut |at| progress.fetch(at));
        prepared.map_err(|error| Failure::of_model(error, self.model))
    }
}

#[derive(clap::Args, Debug)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,

    /// Run in this mode only; all three by default
    #[arg(long, value_parser = PossibleValuesParser::new(Mode::ALL.map(Mode::name)).try_map(|name| name.parse::<Mode>()))]
    pub(crate) mode: Option<Mode>,

    #[command(flatten)]
    pub(crate) device: DeviceArgs,

    /// Steps; the model's own number by default
    #[arg(long, value_name = "N", allow_negative_numbers = true,
        value_parser = RangedU64ValueParser::<usize>::new().range(1..=MOST_STEPS))]
    pub(crate) steps: Option<usize>,

    /// Print one JSON object (docs/cli.md) and nothing else
    #[arg(long)]
    pub(crate) json: bool,
}

impl RunArgs {
    /// What `systole run MODEL` means.
    pub(crate) fn of(model: &'static Model) -> Self {
        let model = ModelArgs { model, texts: Vec::new(), file: None, weights: None };
        RunArgs { model, mode: None, device: DeviceArgs::unsaid(), steps: None, json: false }
    }

    /// The modes to run in.
    pub(crate) fn modes(&self) -> Vec<Mode> {
        self.mode.map_or_else(|| Mode::ALL.to_vec(), |mode| vec![mode])
    }

    /// Steps to run.
    pub(crate) fn steps(&self) -> usize {
        self.steps.unwrap_or(self.model.model.steps)
    }
}

#[derive(clap::Args, Debug)]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,

    /// Mode to run in
    #[arg(long, default_value_t = explain::MODE,
        value_parser = PossibleValuesParser::new(Mode::ALL.map(Mode::name)).try_map(|name| name.parse::<Mode>()))]
    pub(crate) mode: Mode,

    #[command(flatten)]
    pub(crate) device: DeviceArgs,

    /// Steps
    #[arg(long, value_name = "N", default_value_t = explain::STEPS, allow_negative_numbers = true,
        value_parser = RangedU64ValueParser::<usize>::new().range(1..=MOST_STEPS))]
    pub(crate) steps: usize,

    /// Print one JSON object (docs/cli.md) and nothing else
    #[arg(long)]
    pub(crate) json: bool,
}

impl ExplainArgs {
    /// A device that keeps the report of every cut.
    pub(crate) fn config(&self) -> Config {
        Config { mode: self.mode, report_capacity: usize::MAX, ..self.device.config() }
    }
}

#[derive(clap::Args, Debug)]
pub(crate) struct BenchArgs {
    /// The benchmark; all of them by default
    #[arg(value_parser = ["fusion"])]
    pub(crate) name: Option<String>,

    /// This workload only
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(FUSION.iter().map(|workload| workload.name))
        .map(workload))]
    pub(crate) workload: Option<&'static str>,

    /// This dtype only
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(DTYPES.map(DType::mlir)).map(dtype))]
    pub(crate) dtype: Option<DType>,

    #[command(flatten)]
    pub(crate) device: DeviceArgs,

    /// Turns of each mode; times are medians over them
    #[arg(long, value_name = "N", default_value_t = bench::TURNS, allow_negative_numbers = true,
        value_parser = RangedU64ValueParser::<usize>::new().range(1..=MOST_STEPS))]
    pub(crate) turns: usize,

    /// A sixteenth of each extent: to see whether it works, not how fast
    #[arg(long)]
    pub(crate) small: bool,

    /// Print a JSON list (docs/cli.md) and nothing else
    #[arg(long)]
    pub(crate) json: bool,
}

/// The workload of a name among theirs.
#[expect(clippy::needless_pass_by_value, reason = "what a parser is mapped by")]
fn workload(name: String) -> &'static str {
    let named = FUSION.iter().map(|workload| workload.name).find(|other| *other == name);
    named.expect("the parser lets no other name through")
}

/// The dtype of a name among those that workloads come in.
#[expect(clippy::needless_pass_by_value, reason = "what a parser is mapped by")]
fn dtype(name: String) -> DType {
    DType::from_mlir(&name).expect("the parser lets no other name through")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn a_bare_run_is_the_demonstration() {
        let args = Args::parse_from(["systole", "run", "digits"]);
        let Some(Command::Run(run)) = args.command else { panic!("run was parsed as something else") };
        assert_eq!(format!("{run:?}"), format!("{:?}", RunArgs::of(&systole_models::ALL[0])));
    }
}
