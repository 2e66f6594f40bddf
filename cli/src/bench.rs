//! `systole bench`: workloads in every mode, in turns.

use std::fmt::Write;

use serde::Serialize;
use systole::{DType, Mode, with_precision};
use systole_benches::{Comparison, DTYPES, FUSION, Plan, Size, Workload, compare, geometric_mean};

use crate::args::BenchArgs;
use crate::output::{self, Failure, HEADING};
use crate::progress::Progress;
use crate::table::seconds;

/// Turns of each mode that count, unless told otherwise.
pub(crate) const TURNS: usize = 15;

/// A workload of one dtype, and what it took.
struct Row {
    workload: &'static Workload,
    dtype: DType,
    comparison: Comparison,
}

/// Runs what was asked for.
pub(crate) fn bench(args: &BenchArgs) -> Result<(), Failure> {
    let mut progress = Progress::new();
    let rows = with_precision(args.device.precision, || rows(args, &mut progress))?;
    drop(progress);
    let threads = args.device.config().threads;
    output::print(&if args.json { json(&rows, threads) } else { table(&rows) })?;
    match rows.iter().find(|row| row.comparison.checksum().is_none()) {
        Some(Row { workload, dtype, comparison }) => {
            let sums = comparison.checksums.iter().map(|(mode, sum)| format!("{sum:016x} in mode {mode}"));
            Err(Failure::BitsDiffer(format!("{} of {dtype}, {}", workload.name, sums.collect::<Vec<_>>().join(", "))))
        }
        None => Ok(()),
    }
}

fn rows(args: &BenchArgs, progress: &mut Progress) -> Result<Vec<Row>, Failure> {
    let workloads = FUSION.iter().filter(|workload| args.workload.is_none_or(|wanted| wanted == workload.name));
    let chosen: Vec<_> = DTYPES
        .into_iter()
        .filter(|dtype| args.dtype.is_none_or(|wanted| wanted == *dtype))
        .flat_map(|dtype| workloads.clone().map(move |workload| (workload, dtype)))
        .collect();
    progress.expect(chosen.len() * Mode::ALL.len() * (args.turns + 1));
    let size = if args.small { Size::Small } else { Size::Full };
    let timed = chosen.into_iter().map(|(workload, dtype)| {
        progress.advance(workload.name, 0);
        let plan = Plan { dtype, size, turns: args.turns, config: args.device.config() };
        let comparison = compare(workload, &plan, || progress.advance(workload.name, 1))?;
        Ok(Row { workload, dtype, comparison })
    });
    timed.collect()
}

fn table(rows: &[Row]) -> String {
    let name = rows.iter().map(|row| row.workload.name.len()).max().unwrap_or_default();
    let mut text = format!(
        "{HEADING}{:<name$}  {:<5}{:>10}{:>10}{:>10}{:>9}{HEADING:#}\n",
        "workload", "dtype", "debug", "strict", "fused", "speed-up"
    );
    for Row { workload, dtype, comparison } in rows {
        let [debug, strict, fused] =
            [Mode::Debug, Mode::Strict, Mode::Fused].map(|mode| seconds(comparison.seconds(mode)));
        let speed_up = comparison.speed_up();
        writeln!(
            text,
            "{:<name$}  {:<5}{debug:>10}{strict:>10}{fused:>10}{speed_up:>8.2}×",
            workload.name,
            dtype.mlir()
        )
        .expect("writing to a string cannot fail");
    }
    let speed_ups: Vec<f64> = rows.iter().map(|row| row.comparison.speed_up()).collect();
    if speed_ups.len() > 1 {
        let mean = geometric_mean(&speed_ups);
        text += &format!("\nfused is {mean:.2}× as fast as strict, the geometric mean\n");
    }
    text
}

/// An entry of `--json`.
#[derive(Serialize, Debug)]
struct Entry<'a> {
    workload: &'a str,
    dtype: &'a str,
    threads: usize,
    debug: f64,
    strict: f64,
    fused: f64,
    speed_up: f64,
    checksum: Option<String>,
}

fn json(rows: &[Row], threads: usize) -> String {
    let entries: Vec<_> = rows
        .iter()
        .map(|Row { workload, dtype, comparison }| Entry {
            workload: workload.name,
            dtype: dtype.mlir(),
            threads,
            debug: comparison.seconds(Mode::Debug),
            strict: comparison.seconds(Mode::Strict),
            fused: comparison.seconds(Mode::Fused),
            speed_up: comparison.speed_up(),
            checksum: comparison.checksum().map(|checksum| format!("{checksum:016x}")),
        })
        .collect();
    serde_json::to_string(&entries).expect("numbers and strings can always be written as JSON") + "\n"
}
