//! Checks random programs: `cargo run --release -p systole-fuzz --example programs -- --programs 100000`.
//!
//! Each program runs on the reference interpreter and, in each mode, on two devices that its seed chooses among 1 and 2
//! threads, every instruction set of the machine, generous and tight bounds; in fused mode twice. Every third program
//! that can be is also run at other extents on the same, now warm, devices. The first mismatch is cut down and printed
//! with exit status 1.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use systole_fuzz::{Coverage, Devices, Mismatch, Program, Setup, check, cut_down, generate, text};

const USAGE: &str = "usage: programs [--programs N] [--seed FIRST] [--workers N] [--threads 1|2] [--isa NAME] \
                     [--all-setups] [--save DIR] [--keep-going] [--replay FILE] [--print]
  --programs N    how many programs (10000)
  --seed FIRST    the seed of the first; the others count up from it (0)
  --workers N     programs checked at a time (as many as the machine has threads)
  --threads N     devices of so many threads only
  --isa NAME      devices of that instruction set only
  --all-setups    every program on every setup, not on two
  --save DIR      write what fails to DIR, as text that --replay takes
  --keep-going    go on after a mismatch
  --replay FILE   check the program in that file, on every setup
  --print         print the program of the first seed, and check nothing
";

/// The first panics and their places.
static PANICKED: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Options {
    programs: u64,
    seed: u64,
    workers: usize,
    threads: Option<usize>,
    isa: Option<String>,
    all_setups: bool,
    save: Option<PathBuf>,
    keep_going: bool,
    replay: Option<PathBuf>,
    print: bool,
}

fn options() -> Result<Options, String> {
    let mut options = Options {
        programs: 10_000,
        seed: 0,
        workers: std::thread::available_parallelism().map_or(1, usize::from),
        threads: None,
        isa: None,
        all_setups: false,
        save: None,
        keep_going: false,
        replay: None,
        print: false,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{name} needs a value"));
        fn number<T: std::str::FromStr>(text: String) -> Result<T, String> {
            text.parse().map_err(|_| format!("`{text}` is no number that fits"))
        }
        match name.as_str() {
            "--programs" => options.programs = number(value()?)?,
            "--seed" => options.seed = number(value()?)?,
            "--workers" => options.workers = number::<usize>(value()?)?.max(1),
            "--threads" => options.threads = Some(number(value()?)?),
            "--isa" => options.isa = Some(value()?),
            "--all-setups" => options.all_setups = true,
            "--save" => options.save = Some(value()?.into()),
            "--keep-going" => options.keep_going = true,
            "--replay" => options.replay = Some(value()?.into()),
            "--print" => options.print = true,
            _ => return Err(format!("unknown option `{name}`")),
        }
    }
    Ok(options)
}

/// What the workers share.
struct Campaign {
    options: Options,
    next: AtomicU64,
    done: AtomicU64,
    stop: AtomicBool,
    found: Mutex<Vec<Mismatch>>,
    /// The seed that each worker is at.
    at: Vec<AtomicU64>,
}

impl Campaign {
    fn setups(&self, seed: u64) -> Vec<Setup> {
        let mut setups = Setup::some(seed, usize::MAX);
        setups.retain(|setup| {
            self.options.threads.is_none_or(|threads| setup.threads == threads)
                && self.options.isa.as_ref().is_none_or(|isa| setup.isa.name() == isa)
        });
        if !self.options.all_setups {
            setups.truncate(2);
        }
        setups
    }

    fn work(&self, worker: usize) -> Coverage {
        let _done = Done { campaign: self, worker };
        let mut coverage = Coverage::default();
        let mut devices = Devices::new();
        while !self.stop.load(Ordering::Relaxed) {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.options.programs {
                break;
            }
            let seed = self.options.seed + number;
            self.at[worker].store(seed, Ordering::Relaxed);
            if number % 500 == 499 {
                // Now and then every cache is cold again.
                devices = Devices::new();
            }
            let setups = self.setups(seed);
            let program = generate(seed);
            let variant = if seed.is_multiple_of(3) { program.variant(seed) } else { None };
            for program in std::iter::once(program).chain(variant) {
                match check(&program, &setups, &devices) {
                    Ok(compared) => coverage += &compared,
                    Err(mismatch) => {
                        self.stop.fetch_or(!self.options.keep_going, Ordering::Relaxed);
                        devices = Devices::new();
                        let mismatch = cut_down(mismatch);
                        self.found.lock().expect("no worker panics").push(*mismatch);
                    }
                }
            }
            self.done.fetch_add(1, Ordering::Relaxed);
        }
        coverage
    }

    /// Draws progress on a terminal; tells of a worker that hangs.
    fn watch(&self) {
        let start = Instant::now();
        let mut last = (Instant::now(), 0);
        let terminal = std::io::stderr().is_terminal();
        while self.at.iter().any(|at| at.load(Ordering::Relaxed) != u64::MAX) {
            std::thread::sleep(Duration::from_millis(50));
            let done = self.done.load(Ordering::Relaxed);
            if done != last.1 || self.stop.load(Ordering::Relaxed) {
                last = (Instant::now(), done);
            }
            let mut err = std::io::stderr().lock();
            if last.0.elapsed() > Duration::from_secs(120) {
                let seeds: Vec<u64> = self.at.iter().map(|at| at.load(Ordering::Relaxed)).collect();
                let _ = writeln!(err, "\nno program ended for two minutes; the seeds under way are {seeds:?}");
                std::process::exit(1);
            }
            if terminal {
                let rate = done as f64 / start.elapsed().as_secs_f64();
                let _ = write!(err, "\r{done} of {} programs, {rate:.0} per second  ", self.options.programs);
            }
        }
        if terminal {
            let _ = writeln!(std::io::stderr());
        }
    }
}

/// Tells that a worker has ended, be it by a panic of the generator.
struct Done<'a> {
    campaign: &'a Campaign,
    worker: usize,
}

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.campaign.at[self.worker].store(u64::MAX, Ordering::Relaxed);
    }
}

fn replay(program: &Program) -> Result<Coverage, Box<Mismatch>> {
    check(program, &Setup::all(), &Devices::new()).map_err(cut_down)
}

fn main() -> ExitCode {
    let mut out = String::new();
    // A panic under check is a result, told with the program; what is missing there is its place.
    std::panic::set_hook(Box::new(|panic| {
        let text = panic.to_string();
        let mut panicked = PANICKED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if text.contains("in a destructor during cleanup") {
            // A destructor panicked while a panic unwound: the process ends here.
            let _ = writeln!(std::io::stderr(), "{text}\nafter {panicked:?}");
        }
        if panicked.len() < 8 {
            panicked.push(text);
        }
    }));
    let success = match options() {
        Err(error) => {
            let _ = write!(out, "{error}\n{USAGE}");
            false
        }
        Ok(options) => run(options, &mut out),
    };
    let written = std::io::stdout().lock().write_all(out.as_bytes());
    if success && written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run(options: Options, out: &mut String) -> bool {
    if options.print {
        out.push_str(&text::print(&generate(options.seed)));
        return true;
    }
    if let Some(path) = &options.replay {
        let program = std::fs::read_to_string(path).map_err(|error| error.to_string());
        let checked = program
            .and_then(|text| text::parse(&text))
            .and_then(|program| replay(&program).map_err(|mismatch| mismatch.to_string()));
        let _ = match &checked {
            Ok(coverage) => write!(out, "{coverage}"),
            Err(error) => write!(out, "{error}"),
        };
        return checked.is_ok();
    }
    let workers = options.workers;
    let campaign = Campaign {
        next: AtomicU64::new(0),
        done: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        found: Mutex::default(),
        at: (0..workers).map(|_| AtomicU64::new(0)).collect(),
        options,
    };
    let start = Instant::now();
    let mut coverage = Coverage::default();
    let mut broken = false;
    std::thread::scope(|scope| {
        let campaign = &campaign;
        let working: Vec<_> = (0..workers).map(|worker| scope.spawn(move || campaign.work(worker))).collect();
        campaign.watch();
        for worker in working {
            match worker.join() {
                Ok(compared) => coverage += &compared,
                // What panicked was the generator or the oracle: no program is to blame.
                Err(_) => broken = true,
            }
        }
    });
    let found = campaign.found.into_inner().expect("no worker panics");
    let Options { programs, seed, .. } = campaign.options;
    let seconds = start.elapsed().as_secs_f64();
    let _ = writeln!(out, "seeds {seed} to {} in {seconds:.1} s\n{coverage}", seed + programs.max(1) - 1);
    for (number, mismatch) in found.iter().enumerate() {
        out.push_str("MISMATCH\n");
        for line in mismatch.to_string().lines() {
            let _ = match line.char_indices().nth(400) {
                None => writeln!(out, "{line}"),
                Some((end, _)) => writeln!(out, "{}... (--save writes it whole)", &line[..end]),
            };
        }
        if let Some(folder) = &campaign.options.save {
            let path = folder.join(format!("mismatch-{number}.mlir"));
            let saved = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, mismatch.to_string()));
            let _ = match saved {
                Ok(()) => writeln!(out, "saved to {}", path.display()),
                Err(error) => writeln!(out, "could not be saved to {}: {error}", path.display()),
            };
        }
    }
    if let Some(panic) = PANICKED.lock().unwrap_or_else(std::sync::PoisonError::into_inner).first() {
        let _ = writeln!(out, "the first panic: {panic}");
    }
    let success = found.is_empty() && !broken;
    let _ = writeln!(out, "{}", if success { "no mismatch" } else { "FAILED" });
    success
}
