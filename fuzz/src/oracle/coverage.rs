//! What a check compared, counted, so that one sees that there was something to compare.

use std::fmt;
use std::ops::AddAssign;

use systole::{DType, FlushReport, PlanSource};
use systole_fusion::ir::{Opcode, Trace};

/// Totals over programs.
#[derive(Clone, Debug)]
pub struct Coverage {
    /// Programs.
    pub programs: u64,
    /// Runs of a program on a device in a mode.
    pub runs: u64,
    /// Tensors compared with the reference.
    pub tensors: u64,
    /// Their elements.
    pub elements: u64,
    /// Traces cut in fused mode.
    pub cuts: u64,
    /// Of them, those whose plan was known.
    pub hits: u64,
    /// Programs launched in fused mode, and the ops that were recorded for them.
    pub launches: u64,
    /// Ops recorded in fused mode.
    pub fused_ops: u64,
    /// Programs of which a launch ran several ops.
    pub fused_programs: u64,
    /// Debug runs that ended, as they must, at a gather with an index out of range.
    pub strays: u64,
    /// Ops recorded by the programs, by opcode.
    ops: Vec<u64>,
    /// Their results, by dtype.
    results: [u64; DType::ALL.len()],
}

impl Default for Coverage {
    fn default() -> Self {
        Coverage {
            programs: 0,
            runs: 0,
            tensors: 0,
            elements: 0,
            cuts: 0,
            hits: 0,
            launches: 0,
            fused_ops: 0,
            fused_programs: 0,
            strays: 0,
            ops: vec![0; Opcode::ALL.len()],
            results: [0; DType::ALL.len()],
        }
    }
}

impl Coverage {
    /// Ops of that opcode in the programs.
    pub fn ops(&self, op: Opcode) -> u64 {
        self.ops[op as usize]
    }

    /// Results of that dtype in the programs.
    pub fn results(&self, dtype: DType) -> u64 {
        self.results[dtype as usize]
    }

    pub(super) fn count_program(&mut self, trace: &Trace) {
        self.programs += 1;
        for node in trace.nodes() {
            self.ops[node.op as usize] += 1;
            self.results[trace.ty(node.first_result).dtype as usize] += 1;
        }
    }

    /// Counts the cuts of a fused run; whether a launch ran several ops.
    pub(super) fn count_cuts<'a>(&mut self, reports: impl IntoIterator<Item = &'a FlushReport>) -> bool {
        let mut fused = false;
        for report in reports {
            self.cuts += 1;
            self.hits += u64::from(report.plan == PlanSource::Cached);
            self.launches += report.launches as u64;
            self.fused_ops += report.ops as u64;
            fused |= report.launches > 0 && report.launches < report.ops;
        }
        fused
    }
}

impl AddAssign<&Coverage> for Coverage {
    fn add_assign(&mut self, other: &Coverage) {
        self.programs += other.programs;
        self.runs += other.runs;
        self.tensors += other.tensors;
        self.elements += other.elements;
        self.cuts += other.cuts;
        self.hits += other.hits;
        self.launches += other.launches;
        self.fused_ops += other.fused_ops;
        self.fused_programs += other.fused_programs;
        self.strays += other.strays;
        self.ops.iter_mut().zip(&other.ops).for_each(|(ops, more)| *ops += more);
        self.results.iter_mut().zip(&other.results).for_each(|(results, more)| *results += more);
    }
}

/// A table of several lines.
impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:>12} programs, run {} times on devices", self.programs, self.runs)?;
        writeln!(f, "{:>12} tensors compared, {} elements", self.tensors, self.elements)?;
        writeln!(f, "{:>12} programs had a launch of several ops", self.fused_programs)?;
        writeln!(f, "{:>12} ops in fused mode became {} launches", self.fused_ops, self.launches)?;
        writeln!(f, "{:>12} traces cut in fused mode, {} with a known plan", self.cuts, self.hits)?;
        writeln!(f, "{:>12} debug runs were stopped by an index out of range", self.strays)?;
        for row in Opcode::ALL.chunks(4) {
            for &op in row {
                write!(f, "{:>12} {:<17}", self.ops(op), op.mnemonic())?;
            }
            writeln!(f)?;
        }
        for dtype in DType::ALL {
            write!(f, "{:>12} {dtype}", self.results(dtype))?;
        }
        writeln!(f)
    }
}
