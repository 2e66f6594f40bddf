//! How long the recording thread is kept by its longest call while every program takes two seconds to compile.
//!
//! `cargo run --release -p systole-models --example slow_compiler`
//!
//! The device's compiler takes static shapes and two seconds a program, in the background. On fresh devices, time and
//! again, a few steps are recorded and submitted with no program there; then once they are read, and compared bit for
//! bit with a strict device whose compiler takes no time. A call that records only appends to a trace; those that end
//! one (here the 32nd op, then the 64th and so on, and each step's flush) plan it and submit its launches. So the longest
//! call is the longest span named `flush`, which is what is timed here, and for a bound of it the whole step. On a busy
//! machine a call is longest when another process takes its core; so the time is also given less what the kernel says
//! that the thread waited for a core (Linux; elsewhere nothing is taken off).

#![allow(clippy::print_stdout, reason = "printing is what this program is for")]

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use systole::files::StoredTensor;
use systole::hal::sim::Compiler;
use systole::{Config, Device, Mode, Result, Tensor};
use systole_models::Workload;
use systole_models::digits;
use systole_models::minilm::{self, Batch, MiniLm, Parameters};
use tracing::span;

const DELAY: Duration = Duration::from_secs(2);
/// Devices on which everything is new.
const ROUNDS: usize = 21;
/// Steps recorded on each.
const STEPS: usize = 4;

/// So many layers of all-MiniLM-L6-v2 over a small vocabulary.
const fn minilm_of(layers: usize) -> minilm::Config {
    minilm::Config { layers, vocabulary: 1000, ..minilm::Config::MINILM_L6 }
}

thread_local! {
    static ENTERED: Cell<Option<(Duration, Instant)>> = const { Cell::new(None) };
}

/// Nanoseconds of the longest cut, and of the longest less what it waited for a core.
static LONGEST: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// For how long this thread has been ready to run and had no core.
fn without_core() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split_whitespace().nth(1).and_then(|nanos| nanos.parse().ok()).unwrap_or(0))
}

/// Times the cuts of the thread that records, the only one to make any.
struct Cuts;

impl tracing::Subscriber for Cuts {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.is_span() && metadata.name() == "flush"
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, _: &tracing::Event<'_>) {}

    fn enter(&self, _: &span::Id) {
        ENTERED.set(Some((without_core(), Instant::now())));
    }

    fn exit(&self, _: &span::Id) {
        if let Some((before, entered)) = ENTERED.take() {
            let whole = entered.elapsed();
            let own = whole.saturating_sub(without_core() - before);
            LONGEST[0].fetch_max(whole.as_nanos() as u64, Ordering::Relaxed);
            LONGEST[1].fetch_max(own.as_nanos() as u64, Ordering::Relaxed);
        }
    }
}

/// A model on a device: each call records one step and submits it.
type Step = Box<dyn FnMut() -> Result<Tensor>>;

fn train_digits(device: &Device) -> Result<Step> {
    let mut training = digits::Training::new(device)?;
    Ok(Box::new(move || Ok(training.step()?.remove(0))))
}

fn encode(device: &Device, config: &minilm::Config, parameters: &Parameters<StoredTensor>) -> Result<Step> {
    let model = MiniLm::new(device, config, parameters)?;
    let rows: Vec<Vec<u32>> = (0..8).map(|row| (0..16 - row).map(|at| (row * 37 + at * 11) % 1000).collect()).collect();
    let batch = Batch::new(&rows, config).expect("the rows fit the encoder");
    let device = device.clone();
    Ok(Box::new(move || {
        let embeddings = model.encode(&batch)?;
        device.flush();
        Ok(embeddings)
    }))
}

fn micros(mut times: Vec<Duration>) -> String {
    times.sort();
    let micros = |at: usize| times[at].as_secs_f64() * 1e6;
    format!("{:.0} µs ({:.0}–{:.0})", micros(times.len() / 2), micros(0), micros(times.len() - 1))
}

fn bits(tensors: &[Tensor]) -> Result<Vec<u32>> {
    let elements = tensors.iter().map(Tensor::to_vec::<f32>).collect::<Result<Vec<_>>>()?;
    Ok(elements.concat().into_iter().map(f32::to_bits).collect())
}

/// The outputs of some steps; the time of the longest cut, as [`LONGEST`] has it, and of the longest step.
fn record(step: &mut Step) -> Result<(Vec<Tensor>, [Duration; 3])> {
    LONGEST.iter().for_each(|longest| longest.store(0, Ordering::Relaxed));
    let mut longest_step = Duration::ZERO;
    let mut outputs = Vec::new();
    for _ in 0..STEPS {
        let started = Instant::now();
        outputs.push(step()?);
        longest_step = longest_step.max(started.elapsed());
    }
    let [whole, own] = LONGEST.each_ref().map(|longest| Duration::from_nanos(longest.load(Ordering::Relaxed)));
    Ok((outputs, [whole, own, longest_step]))
}

fn measure(name: &str, start: impl Fn(&Device) -> Result<Step>) -> Result<()> {
    let strict = Device::open(Config { mode: Mode::Strict, ..Config::default() })?;
    let mut step = start(&strict)?;
    let expected = bits(&record(&mut step)?.0)?;
    let expected_later = bits(&record(&mut step)?.0)?;
    let slow = || Device::open(Config { compiler: Compiler::slow(DELAY), ..Config::default() });
    let mut times = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        let longest = record(&mut start(&slow()?)?)?.1;
        times.iter_mut().zip(longest).for_each(|(times, longest)| times.push(longest));
    }
    let device = slow()?;
    let mut step = start(&device)?;
    let started = Instant::now();
    let same = bits(&record(&mut step)?.0)? == expected;
    let waited = started.elapsed();
    let cold = device.stats();
    while device.stats().compiling > 0 {
        std::thread::sleep(Duration::from_millis(50));
    }
    let before = device.stats();
    let started = Instant::now();
    let same = same && bits(&record(&mut step)?.0)? == expected_later;
    let waited_later = started.elapsed();
    println!("| {name} | {} | {} |", times.map(micros).join(" | "), if same { "yes" } else { "NO" });
    println!(
        "  {STEPS} steps: {} programs built, {} of {} launches waited, results after {:.1} s; {STEPS} more: {} programs \
         built, {} of {} launches waited, results after {:.3} s",
        before.programs.builds,
        cold.waiting,
        cold.launches,
        waited.as_secs_f64(),
        device.stats().programs.builds - before.programs.builds,
        device.stats().waiting - before.waiting,
        device.stats().launches - before.launches,
        waited_later.as_secs_f64(),
    );
    Ok(())
}

fn main() -> Result<()> {
    tracing::subscriber::set_global_default(Cuts).expect("nothing else listens");
    println!(
        "| model | longest call | less what it waited for a core | longest step, all its calls | bits of strict |"
    );
    measure("digits training step", train_digits)?;
    for layers in [1, 6] {
        let config = minilm_of(layers);
        let parameters = Parameters::random(&config, 1);
        measure(&format!("MiniLM of {layers} layers, 8 × 16 tokens"), |device| encode(device, &config, &parameters))?;
    }
    Ok(())
}
