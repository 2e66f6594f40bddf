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
use clap::error::ErrorKind;

use args::{Args, Command};

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        // Printed here, since who asked for help is to know where none could be written.
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            let printed = output::print(&error.render().ansi().to_string());
            return printed.map_or_else(|failure| failure.report(), |()| ExitCode::SUCCESS);
        }
        Err(error) => error.exit(),
    };
    let done = match args.command {
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
