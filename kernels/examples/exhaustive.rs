//! Compares every unary function of `systole_kernels::numerics` with its oracle on all 2³² inputs.
//!
//! `cargo run --release -p systole-kernels --example exhaustive [-- FUNCTION]`; the exit status is 1 after a mismatch.
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
/// Mismatches shown per function and thread.
const SHOWN: usize = 20;

struct Report {
    only: Option<String>,
    seen: bool,
    failed: bool,
}

/// The mismatches one thread met: how many, and the first of them.
#[derive(Default)]
struct Mismatches {
    count: u64,
    first: Vec<u32>,
}

impl oracle::Visit for Report {
    fn unary(&mut self, name: &'static str, function: impl Fn(f32) -> f32 + Sync, oracle: impl Fn(f32) -> f32 + Sync) {
        if self.only.as_deref().is_some_and(|only| only != name) {
            return;
        }
        self.seen = true;
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
                if progress && block % 16 == 0 {
                    eprint!("\r{name}: {}%", block * 100 / BLOCKS);
                }
                check_block(block, &function, &oracle, &mut met);
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
        println!("{name:12} inputs 4294967296  mismatches {count}  seconds {seconds:.1}");
        for bits in met.iter().flat_map(|m| &m.first) {
            let x = f32::from_bits(*bits);
            let (got, wanted) = (function(x).to_bits(), oracle::expected_bits(oracle(x)));
            println!("    {name}({x:e} = {bits:#010x}) gives {got:#010x}, not {wanted:#010x}");
        }
        self.failed |= count > 0;
    }
}

fn check_block(block: u32, function: impl Fn(f32) -> f32, oracle: impl Fn(f32) -> f32, met: &mut Mismatches) {
    let mut results = [0.0f32; 1024];
    let start = block << BLOCK_BITS;
    for chunk in (0..1u32 << BLOCK_BITS).step_by(results.len()) {
        let first = start + chunk;
        for (bits, result) in (first..=u32::MAX).zip(&mut results) {
            *result = function(f32::from_bits(bits));
        }
        for (bits, result) in (first..=u32::MAX).zip(&results) {
            if result.to_bits() != oracle::expected_bits(oracle(f32::from_bits(bits))) {
                met.count += 1;
                if met.first.len() < SHOWN {
                    met.first.push(bits);
                }
            }
        }
    }
}

fn main() -> ExitCode {
    let mut report = Report { only: std::env::args().nth(1), seen: false, failed: false };
    oracle::each_unary(&mut report);
    if !report.seen {
        eprintln!("no unary function of that name");
        return ExitCode::from(2);
    }
    ExitCode::from(u8::from(report.failed))
}
