//! The `systole` command.
//!
//! docs/cli.md is its manual. Exit status: 0, 1 where something failed, 2 where the command line is wrong, 130 where
//! the user interrupted.

mod args;
mod bench;
mod cache;
mod devices;
mod explain;
mod measurement;
mod outcome;
mod output;
mod plot;
mod progress;
mod report;
mod run;
mod similarity;
mod table;
mod texts;

use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command};

fn main() -> ExitCode {
    let done = match Args::parse().command {
        None => run::demonstrate(),
        Some(Command::Run(args)) => run::run(&args),
        Some(Command::Explain(args)) => explain::explain(&args),
        Some(Command::Bench(args)) => bench::bench(&args),
        Some(Command::Devices) => devices::list(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
