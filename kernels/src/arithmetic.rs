//! What a device's arithmetic makes of a program.
//!
//! A tile program is written as if for the IEEE device. A chip differs from it in three things (docs/numerics.md, N27
//! to N29): its arithmetic reads and writes subnormals as zeros, it converts by tables of its own, and its dots multiply
//! `bf16`. [`Arithmetic::rewrite`] makes these explicit, as instructions like any other. So plans, keys and lowering are
//! one for all devices, the machine knows of no chip, and a program on the IEEE device pays nothing.
//!
//! Flushes are left out where a register is known to hold no subnormal: in a chain of operations each result is flushed
//! once, and only what comes from memory, a constant or a moved value is flushed where it is read.
//!
//! Rejected: a flag on every loop, which would double the code of each operation; and the flush modes of the processor's
//! control register, which differ from one instruction set to the next and cannot be had for one instruction alone.

use rustc_hash::FxHashMap;
use smallvec::smallvec;

use crate::dtype::DType;
use crate::program::{Instr, LaneOp, Mxu, Program, Reg, RegType};

/// Whose arithmetic a device has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Arithmetic {
    /// IEEE 754 for every op, as StableHLO has it.
    #[default]
    Ieee,
    /// That of a chip with such a matrix unit.
    Chip(Mxu),
}

impl Arithmetic {
    /// The program whose instructions, as [`program`](crate::program) defines them, compute what this device makes of
    /// `program`.
    pub fn rewrite(self, program: Program) -> Program {
        match self {
            Arithmetic::Ieee => program,
            Arithmetic::Chip(mxu) => {
                let Program { body, regs, .. } = &program;
                let mut chip = Chip {
                    mxu,
                    no_subnormals: regs.iter().map(|ty| !has_subnormals(ty.dtype)).collect(),
                    regs: regs.clone(),
                    body: Vec::with_capacity(2 * body.len()),
                    flushed: FxHashMap::default(),
                    wide: FxHashMap::default(),
                };
                body.iter().for_each(|instr| chip.instr(instr));
                Program { regs: chip.regs, body: chip.body, ..program }
            }
        }
    }
}

/// What an operation does to subnormals, on a chip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Subnormals {
    /// It moves, tests or changes bits, whatever number they are.
    Pass,
    /// It reads them as zeros, and makes none of numbers that are none.
    Read,
    /// It reads them as zeros, and writes them as zeros.
    ReadAndWrite,
}

fn subnormals(op: LaneOp) -> Subnormals {
    match op {
        LaneOp::Abs
        | LaneOp::Negate
        | LaneOp::IsFinite
        | LaneOp::Not
        | LaneOp::And
        | LaneOp::Or
        | LaneOp::Xor
        | LaneOp::Compare(..)
        | LaneOp::Select
        | LaneOp::Bitcast => Subnormals::Pass,
        LaneOp::Sign
        | LaneOp::Sqrt
        | LaneOp::Cbrt
        | LaneOp::Rsqrt
        | LaneOp::Floor
        | LaneOp::Ceil
        | LaneOp::Maximum
        | LaneOp::Minimum
        | LaneOp::Clamp
        | LaneOp::Convert
        | LaneOp::ChipConvert => Subnormals::Read,
        LaneOp::Exponential
        | LaneOp::Log
        | LaneOp::Tanh
        | LaneOp::Logistic
        | LaneOp::Erf
        | LaneOp::ExponentialMinusOne
        | LaneOp::LogPlusOne
        | LaneOp::Sine
        | LaneOp::Cosine
        | LaneOp::Add
        | LaneOp::Subtract
        | LaneOp::Multiply
        | LaneOp::Divide
        | LaneOp::Power
        | LaneOp::Remainder
        | LaneOp::Atan2 => Subnormals::ReadAndWrite,
    }
}

/// Whether the operation is arithmetic by docs/numerics.md: its NaN is canonical, and on a chip it reads and writes
/// subnormals as zeros. Otherwise it passes bits on.
pub fn is_arithmetic(op: LaneOp) -> bool {
    subnormals(op) != Subnormals::Pass
}

/// Whether a dtype has numbers that a chip flushes. The subnormals of `F16` are none: as an `f32`, in which a chip
/// computes, they are normal.
fn has_subnormals(dtype: DType) -> bool {
    match dtype {
        DType::F32 | DType::BF16 => true,
        DType::Bool | DType::I32 | DType::U32 | DType::I64 | DType::F16 => false,
    }
}

struct Chip {
    mxu: Mxu,
    regs: Vec<RegType>,
    body: Vec<Instr>,
    /// Of each register, whether it is known to hold no subnormal.
    no_subnormals: Vec<bool>,
    /// Registers in which subnormals are zeros, of those that have some.
    flushed: FxHashMap<Reg, Reg>,
    /// The widened form of those of `BF16`.
    wide: FxHashMap<Reg, Reg>,
}

impl Chip {
    fn instr(&mut self, instr: &Instr) {
        match instr {
            Instr::Load { .. }
            | Instr::Gather { .. }
            | Instr::Overlay { .. }
            | Instr::Scalar { .. }
            | Instr::Store { .. } => self.body.push(instr.clone()),
            Instr::Iota { dst, .. } => {
                self.body.push(instr.clone());
                self.no_subnormals[usize::from(dst.0)] = true;
            }
            Instr::Lane { op: LaneOp::Convert, dst, args } => self.convert(args[0], *dst),
            Instr::Lane { op, dst, args } if subnormals(*op) == Subnormals::Pass => {
                // The predicate of a select counts among those that hold none; integers that become floats hold anything.
                if *op != LaneOp::Bitcast && args.iter().all(|arg| self.no_subnormals[usize::from(arg.0)]) {
                    self.no_subnormals[usize::from(dst.0)] = true;
                }
                self.body.push(instr.clone());
            }
            Instr::Lane { op, dst, args } => {
                let args = args.iter().map(|&arg| self.read(arg)).collect();
                let op = *op;
                self.write(*dst, subnormals(op), |dst| Instr::Lane { op, dst, args });
            }
            Instr::Reduce { monoid, dst, src, init } => {
                let (monoid, src, init) = (*monoid, self.read(*src), self.read(*init));
                self.write(*dst, Subnormals::ReadAndWrite, |dst| Instr::Reduce { monoid, dst, src, init });
            }
            Instr::ArgReduce { extreme, wanted, dst, values, indices, init } => {
                let (values, init) = (self.flushed(*values), (self.flushed(init.0), init.1));
                let (extreme, wanted, dst, indices) = (*extreme, *wanted, *dst, *indices);
                self.body.push(Instr::ArgReduce { extreme, wanted, dst, values, indices, init });
                self.no_subnormals[usize::from(dst.0)] = true;
            }
            Instr::Dot { dst, lhs, rhs, precision, mxu: _ } => {
                let ty = self.regs[usize::from(dst.0)];
                if !ty.dtype.is_float() {
                    self.body.push(instr.clone());
                    return;
                }
                let sum = self.reg(RegType { dtype: DType::F32, ..ty });
                self.body.push(Instr::Dot {
                    dst: sum,
                    lhs: lhs.clone(),
                    rhs: rhs.clone(),
                    precision: *precision,
                    mxu: Some(self.mxu),
                });
                self.convert(sum, *dst);
            }
        }
    }

    /// A register as arithmetic reads it: subnormals are zeros, a `BF16` is widened.
    fn read(&mut self, reg: Reg) -> Reg {
        let flushed = self.flushed(reg);
        let ty = self.regs[usize::from(reg.0)];
        if ty.dtype != DType::BF16 {
            return flushed;
        }
        if let Some(&wide) = self.wide.get(&reg) {
            return wide;
        }
        let wide = self.reg(RegType { dtype: DType::F32, ..ty });
        self.convert(flushed, wide);
        self.wide.insert(reg, wide);
        wide
    }

    /// A register of the same dtype, in which subnormals are zeros.
    fn flushed(&mut self, reg: Reg) -> Reg {
        if self.no_subnormals[usize::from(reg.0)] {
            return reg;
        }
        if let Some(&flushed) = self.flushed.get(&reg) {
            return flushed;
        }
        let flushed = self.reg(self.regs[usize::from(reg.0)]);
        self.convert(reg, flushed);
        self.flushed.insert(reg, flushed);
        flushed
    }

    /// An instruction that computes in `f32` where `dst` is a `BF16`, and writes subnormals as zeros.
    fn write(&mut self, dst: Reg, subnormals: Subnormals, instr: impl FnOnce(Reg) -> Instr) {
        let ty = self.regs[usize::from(dst.0)];
        let narrow = ty.dtype == DType::BF16;
        if narrow || has_subnormals(ty.dtype) && subnormals == Subnormals::ReadAndWrite {
            let result = self.reg(if narrow { RegType { dtype: DType::F32, ..ty } } else { ty });
            self.body.push(instr(result));
            self.convert(result, dst);
        } else {
            self.body.push(instr(dst));
            self.no_subnormals[usize::from(dst.0)] = true;
        }
    }

    fn convert(&mut self, src: Reg, dst: Reg) {
        self.body.push(Instr::Lane { op: LaneOp::ChipConvert, dst, args: smallvec![src] });
        let [from, to] = [src, dst].map(|reg| self.regs[usize::from(reg.0)].dtype);
        let passes = (from, to) == (DType::BF16, DType::F32);
        self.no_subnormals[usize::from(dst.0)] = !passes || self.no_subnormals[usize::from(src.0)];
    }

    fn reg(&mut self, ty: RegType) -> Reg {
        self.regs.push(ty);
        self.no_subnormals.push(!has_subnormals(ty.dtype));
        Reg((self.regs.len() - 1) as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes;
    use crate::scalar::Scalar;

    /// What the table above says of operations that are flushed where they read and not where they write.
    #[test]
    fn operations_that_only_read_make_no_subnormals() {
        let smallest = f32::MIN_POSITIVE;
        let numbers = [0.0, smallest, 1.5 * smallest, 2.0 * smallest, 1e-30, 0.75, 1.0, 7.5, 1e30, f32::MAX];
        let numbers: Vec<Scalar> = numbers.into_iter().flat_map(|x| [x.into(), (-x).into()]).collect();
        let mut checked = 0;
        for op in [
            LaneOp::Sign,
            LaneOp::Sqrt,
            LaneOp::Cbrt,
            LaneOp::Rsqrt,
            LaneOp::Floor,
            LaneOp::Ceil,
            LaneOp::Maximum,
            LaneOp::Minimum,
            LaneOp::Clamp,
        ] {
            assert_eq!(subnormals(op), Subnormals::Read);
            for &a in &numbers {
                for &b in &numbers {
                    for operands in [&[a][..], &[a, b], &[a, b, numbers[5]]] {
                        if let Some(result) = lanes::eval(op, operands, DType::F32) {
                            let result = f32::from_bits(result.bits() as u32);
                            assert!(!result.is_subnormal(), "{op:?} {operands:?} = {result:e}");
                            checked += 1;
                        }
                    }
                }
            }
        }
        assert_eq!(checked, 9 * numbers.len() * numbers.len());
    }
}
