//! Compares every unary function of `systole_kernels::numerics` with its oracle on all 2³² inputs, and the functions of
//! several arguments on 2²⁸ random and structured ones.
//!
//! `cargo run --release -p systole-kernels --example exhaustive [-- FUNCTION [SEED]]`; the exit status is 1 after a
//! mismatch, 2 if there is no such function.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command: its report is its output")]

#[path = "../tests/oracle/mod.rs"]
mod oracle;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// Inputs are handed out in blocks of 2²² of one sign and nearly one exponent.
const BLOCK_BITS: u32 = 22;
const BLOCKS: u32 = 1 << (32 - BLOCK_BITS);
/// Operands drawn per block for a function of several arguments, and the blocks: 2²⁸ in all.
const TRIALS_PER_BLOCK: u32 = 1 << 18;
/// Mismatches shown per function and thread.
const SHOWN: usize = 20;

struct Report {
    only: Option<String>,
    seen: bool,
    failed: bool,
}

/// The mismatches one thread met: how many, and the first of them, told.
#[derive(Default)]
struct Mismatches {
    count: u64,
    first: Vec<String>,
}

impl Mismatches {
    fn add(&mut self, tell: impl FnOnce() -> String) {
        self.count += 1;
        if self.first.len() < SHOWN {
            self.first.push(tell());
        }
    }
}

impl Report {
    fn wants(&mut self, name: &str) -> bool {
        let wanted = self.only.as_deref().is_none_or(|only| only == name);
        self.seen |= wanted;
        wanted
    }

    /// Checks all blocks of a function on every core and prints its line.
    fn check(&mut self, name: &str, inputs: u64, check_block: impl Fn(u32, &mut Mismatches) + Sync) {
        let start = Instant::now();
        let next = AtomicU32::new(0);
        let progress = std::io::stderr().is_terminal();
        let work = || {
            let mut met = Mismatches::default();
            loop {
                let block = next.fetch_add(1, Ordering::Relaxed);
                if block >= BLOCKS {
                    return met;
                }
                if progress && block.is_multiple_of(16) {
                    eprint!("\r{name}: {}%", block * 100 / BLOCKS);
                }
                check_block(block, &mut met);
            }
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let met: Vec<Mismatches> = std::thread::scope(|scope| {
            let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            running.into_iter().map(|thread| thread.join().expect("a checking thread does not panic")).collect()
        });
        if progress {
            eprint!("\r");
        }
        let count: u64 = met.iter().map(|m| m.count).sum();
        let seconds = start.elapsed().as_secs_f64();
        println!("{name:12} inputs {inputs:10}  mismatches {count}  seconds {seconds:.1}");
        for mismatch in met.iter().flat_map(|m| &m.first) {
            println!("    {mismatch}");
        }
        self.failed |= count > 0;
    }
}

impl oracle::Visit for Report {
    fn unary(&mut self, name: &'static str, function: impl Fn(f32) -> f32 + Sync, oracle: impl Fn(f32) -> f32 + Sync) {
        if !self.wants(name) {
            return;
        }
        self.check(name, 1 << 32, |block, met| {
            let mut results = [0.0f32; 1024];
            for chunk in (0..1u32 << BLOCK_BITS).step_by(results.len()) {
                let first = (block << BLOCK_BITS) + chunk;
                for (bits, result) in (first..=u32::MAX).zip(&mut results) {
                    *result = function(f32::from_bits(bits));
                }
                for (bits, result) in (first..=u32::MAX).zip(&results) {
                    let x = f32::from_bits(bits);
                    let (got, wanted) = (result.to_bits(), oracle::expected_bits(oracle(x)));
                    if got != wanted {
                        met.add(|| format!("{name}({x:e} = {bits:#010x}) gives {got:#010x}, not {wanted:#010x}"));
                    }
                }
            }
        });
    }
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let mut report = Report { only: arguments.next(), seen: false, failed: false };
    let seed: u64 = arguments.next().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    oracle::each_unary(&mut report);
    for (name, trial) in oracle::TRIALS {
        if report.wants(name) {
            report.check(name, u64::from(BLOCKS) * u64::from(TRIALS_PER_BLOCK), |block, met| {
                let mut random = oracle::operands::Random(seed << 32 | u64::from(block));
                for mismatch in (0..TRIALS_PER_BLOCK).filter_map(|_| trial(&mut random)) {
                    met.add(|| mismatch);
                }
            });
        }
    }
    if !report.seen {
        eprintln!("no function of that name");
        return ExitCode::from(2);
    }
    ExitCode::from(u8::from(report.failed))
}
