//! Where the device's time goes in MiniLM: program by program, in strict and in fused mode.
//!
//! `cargo run --release -p systole-models --example breakdown [SENTENCES [THREADS]]`
//!
//! Six layers with random weights encode so many sentences (32 unless told otherwise) of 7 to 11 tokens. The two modes take
//! turns. A launch is timed by its span, which holds the kernel and what it takes to start one; programs of the same
//! name, which lists their ops, are added up. Given is the median over turns of each program's time per step, and of the
//! wall time.

#![allow(clippy::print_stdout, reason = "printing is what this program is for")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use systole::{Config, Device, Mode, Result};
use systole_models::minilm::{self, Batch, MiniLm, Parameters};
use tracing::field::{Field, Visit};
use tracing::span;

/// Turns of each mode that count.
const TURNS: usize = 21;
/// Steps of a turn.
const STEPS: usize = 4;

const CONFIG: minilm::Config = minilm::Config { vocabulary: 1000, ..minilm::Config::MINILM_L6 };

/// Number of launches, and their seconds.
#[derive(Clone, Copy, Default)]
struct Launches {
    count: usize,
    seconds: f64,
}

/// Launches since they were last taken, by the name of the program.
static LAUNCHES: Mutex<BTreeMap<String, Launches>> = Mutex::new(BTreeMap::new());

fn take_launches() -> BTreeMap<String, Launches> {
    std::mem::take(&mut *LAUNCHES.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Times launches. Their spans are entered where they are made, by the thread of a device, one after the other.
struct Listener;

thread_local! {
    static PROGRAM: RefCell<String> = const { RefCell::new(String::new()) };
    static ENTERED: RefCell<Option<Instant>> = const { RefCell::new(None) };
}

/// Takes the program's name out of a span's values.
struct Name;

impl Visit for Name {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "program" {
            PROGRAM.set(value.to_owned());
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn Debug) {}
}

impl tracing::Subscriber for Listener {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.is_span() && metadata.name() == "launch"
    }

    fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
        attributes.record(&mut Name);
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, _: &tracing::Event<'_>) {}

    fn enter(&self, _: &span::Id) {
        ENTERED.set(Some(Instant::now()));
    }

    fn exit(&self, _: &span::Id) {
        if let Some(entered) = ENTERED.take() {
            let seconds = entered.elapsed().as_secs_f64();
            let mut all = LAUNCHES.lock().unwrap_or_else(PoisonError::into_inner);
            let launches = all.entry(PROGRAM.take()).or_default();
            launches.count += 1;
            launches.seconds += seconds;
        }
    }
}

/// A mode at work, and what its turns took.
struct Run {
    mode: Mode,
    device: Device,
    model: MiniLm,
    /// Wall seconds of a step, per turn.
    wall: Vec<f64>,
    /// Launches of a step, and the seconds of each turn's step, by program.
    programs: BTreeMap<String, (usize, Vec<f64>)>,
}

impl Run {
    fn start(mode: Mode, threads: Option<usize>) -> Result<Run> {
        let config = Config { mode, ..Config::default() };
        let device = Device::open(Config { threads: threads.unwrap_or(config.threads), ..config })?;
        let model = MiniLm::new(&device, &CONFIG, &Parameters::random(&CONFIG, 1))?;
        Ok(Run { mode, device, model, wall: Vec::new(), programs: BTreeMap::new() })
    }

    fn turn(&mut self, batch: &Batch, counts: bool) -> Result<()> {
        let started = Instant::now();
        for _ in 0..STEPS {
            // What is dropped before the cut is never computed.
            let _embeddings = self.model.encode(batch)?;
            self.device.flush();
        }
        self.device.synchronize()?;
        let wall = started.elapsed().as_secs_f64() / STEPS as f64;
        let launches = take_launches();
        if counts {
            self.wall.push(wall);
            for (name, Launches { count, seconds }) in launches {
                let (per_step, times) = self.programs.entry(name).or_default();
                *per_step = count / STEPS;
                times.push(seconds / STEPS as f64);
            }
        }
        Ok(())
    }

    fn print(self) {
        let mut rows: Vec<_> =
            self.programs.into_iter().map(|(name, (count, times))| (median(times), count, name)).collect();
        rows.sort_by(|a, b| b.0.total_cmp(&a.0));
        let all: f64 = rows.iter().map(|(seconds, ..)| seconds).sum();
        println!(
            "\n{}: {:.2} ms a step, {:.2} in {} launches",
            self.mode,
            1e3 * median(self.wall),
            1e3 * all,
            rows.iter().map(|row| row.1).sum::<usize>()
        );
        println!("| ms | share | launches | program |\n|---|---|---|---|");
        for (seconds, count, name) in rows {
            println!("| {:.3} | {:.1} % | {count} | {name} |", 1e3 * seconds, 100.0 * seconds / all);
        }
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> Result<()> {
    tracing::subscriber::set_global_default(Listener).expect("nothing else listens");
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<usize>().expect("arguments are numbers"));
    let (sentences, threads) = (numbers.next().unwrap_or(32), numbers.next());
    let rows: Vec<Vec<u32>> =
        (0..sentences as u32).map(|row| (0..7 + row % 5).map(|at| (row * 37 + at * 11) % 1000).collect()).collect();
    let batch = Batch::new(&rows, &CONFIG).expect("the rows fit the encoder");
    let mut runs = [Run::start(Mode::Strict, threads)?, Run::start(Mode::Fused, threads)?];
    take_launches();
    for turn in 0..=TURNS {
        for run in &mut runs {
            run.turn(&batch, turn > 0)?;
        }
    }
    let [strict, fused] = &runs;
    let ratio = median(strict.wall.iter().zip(&fused.wall).map(|(strict, fused)| strict / fused).collect());
    println!("{sentences} sentences: fused is {ratio:.2}× as fast as strict, the median over {TURNS} turns");
    runs.into_iter().for_each(Run::print);
    Ok(())
}
