//! The rules of [`program`](crate::program), checked once per program.
//!
//! What depends on launch parameters (bounds, coverage of outputs) is checked at launch.

use crate::arg_reduce::ArgReducer;
use crate::contract::contracts;
use crate::dtype::DType;
use crate::lanes;
use crate::program::{
    Access, BufferType, DimMap, Domain, Extent, Extreme, IndexComponent, IndexSource, Instr, LaneOp, Low, Monoid, Mxu,
    Placement, Program, ReduceAlong, Reg, RegType, Vary, Winner,
};
use crate::reduce::Reducer;

use super::error::InvalidProgram;

/// Checks `program`.
///
/// # Errors
/// The first rule that it breaks.
pub(crate) fn validate(program: &Program) -> Result<(), InvalidProgram> {
    let mut check = Check {
        program,
        at: None,
        defined: vec![false; program.regs.len()],
        still: vec![false; program.regs.len()],
        stored: Vec::new(),
        dots: 0,
    };
    check.stored = vec![false; program.buffers.len().saturating_sub(usize::from(program.inputs))];
    check.declarations().map_err(|reason| InvalidProgram::new(&program.name, None, reason))?;
    for (at, instr) in program.body.iter().enumerate() {
        check.at = Some(at);
        check.instr(instr).map_err(|reason| InvalidProgram::new(&program.name, check.at, reason))?;
        check.mark_still(instr);
    }
    match check.stored.iter().position(|&stored| !stored) {
        Some(output) => Err(InvalidProgram::new(&program.name, None, format!("output {output} is never stored"))),
        None => Ok(()),
    }
}

/// `vary` without the tile axes that have but one index whatever the launch: along those nothing varies.
pub(crate) fn clip(domain: &Domain, vary: Vary) -> Vary {
    let several = |axes: &[Extent]| axes.iter().any(|&extent| extent != Extent::ONE);
    Vary { rows: vary.rows && several(&domain.rows), cols: vary.cols && several(&domain.cols) }
}

/// What a rule says where it is broken.
type Broken = String;

struct Check<'a> {
    program: &'a Program,
    at: Option<usize>,
    defined: Vec<bool>,
    /// Registers that are one number for the whole launch.
    still: Vec<bool>,
    stored: Vec<bool>,
    dots: usize,
}

fn ensure(holds: bool, reason: impl FnOnce() -> String) -> Result<(), Broken> {
    if holds { Ok(()) } else { Err(reason()) }
}

impl Check<'_> {
    fn declarations(&self) -> Result<(), Broken> {
        let program = self.program;
        ensure(usize::from(program.inputs) <= program.buffers.len(), || {
            format!("{} inputs are declared, but only {} buffers", program.inputs, program.buffers.len())
        })?;
        ensure(program.domain.rank() + program.contract.len() <= usize::from(u8::MAX), || {
            format!("{} axes are more than an axis number can name", program.domain.rank() + program.contract.len())
        })?;
        ensure(program.body.len() <= usize::from(u16::MAX), || format!("{} instructions", program.body.len()))?;
        for extent in program.domain.axes().chain(program.contract.iter().copied()) {
            self.length(extent)?;
        }
        for extent in program.buffers.iter().flat_map(|buffer| &buffer.shape) {
            self.length(*extent)?;
        }
        Ok(())
    }

    fn extent(&self, extent: Extent) -> Result<(), Broken> {
        match extent {
            Extent::Fixed(_) => Ok(()),
            Extent::Param(param) => {
                ensure(param < self.program.params, || format!("parameter {param} of {} declared", self.program.params))
            }
        }
    }

    /// An extent that is a number of elements.
    fn length(&self, extent: Extent) -> Result<(), Broken> {
        self.extent(extent)?;
        match extent {
            Extent::Fixed(value) => ensure(value >= 0, || format!("an extent of {value}")),
            Extent::Param(_) => Ok(()),
        }
    }

    fn reg(&self, reg: Reg) -> Result<RegType, Broken> {
        let ty = self.program.regs.get(usize::from(reg.0)).copied();
        let ty = ty.ok_or_else(|| format!("register {} of {} declared", reg.0, self.program.regs.len()))?;
        Ok(RegType { vary: clip(&self.program.domain, ty.vary), ..ty })
    }

    fn used(&self, reg: Reg) -> Result<RegType, Broken> {
        let ty = self.reg(reg)?;
        ensure(self.defined[usize::from(reg.0)], || format!("register {} is used before it is defined", reg.0))?;
        Ok(ty)
    }

    fn define(&mut self, reg: Reg) -> Result<RegType, Broken> {
        let ty = self.reg(reg)?;
        let defined = &mut self.defined[usize::from(reg.0)];
        ensure(!*defined, || format!("register {} is defined twice", reg.0))?;
        *defined = true;
        Ok(ty)
    }

    fn input(&self, buffer: u16) -> Result<&BufferType, Broken> {
        ensure(buffer < self.program.inputs, || {
            format!("buffer {buffer} is read, but only the first {} are inputs", self.program.inputs)
        })?;
        Ok(&self.program.buffers[usize::from(buffer)])
    }

    /// The tile axes that domain axis `axis` counts among.
    fn axis(&self, axis: u8) -> Result<Vary, Broken> {
        let domain = &self.program.domain;
        let (outer, rows) = (domain.outer.len(), domain.outer.len() + domain.rows.len());
        let at = usize::from(axis);
        ensure(at < domain.rank(), || format!("axis {axis} of {} in the domain", domain.rank()))?;
        let moves = domain.axes().nth(at) != Some(Extent::ONE);
        Ok(Vary { rows: moves && (outer..rows).contains(&at), cols: moves && at >= rows })
    }

    fn dims(&self, buffer: &BufferType, dims: &[DimMap]) -> Result<(), Broken> {
        ensure(dims.len() == buffer.shape.len(), || {
            format!("{} coordinates for a buffer of rank {}", dims.len(), buffer.shape.len())
        })?;
        for dim in dims {
            self.extent(dim.start)?;
            self.extent(dim.step)?;
        }
        Ok(())
    }

    /// The tile axes along which an access moves.
    fn affine(&self, buffer: &BufferType, access: &Access) -> Result<Vary, Broken> {
        self.dims(buffer, &access.dims)?;
        let mut vary = Vary::NONE;
        for dim in &access.dims {
            if let Some(axis) = dim.axis {
                let along = self.axis(axis)?;
                if dim.step != Extent::ZERO {
                    vary = vary.join(along);
                }
            }
        }
        Ok(vary)
    }

    fn read(&self, access: &Access) -> Result<(DType, Vary), Broken> {
        let buffer = self.input(access.buffer)?;
        Ok((buffer.dtype, self.affine(buffer, access)?))
    }

    fn defines(&mut self, dst: Reg, dtype: DType, vary: Vary) -> Result<(), Broken> {
        let ty = self.define(dst)?;
        let vary = clip(&self.program.domain, vary);
        ensure(ty.dtype == dtype, || format!("register {} is declared {}, but gets {dtype}", dst.0, ty.dtype))?;
        ensure(ty.vary.join(vary) == ty.vary, || {
            format!("register {} is declared to vary along {}, but varies along {}", dst.0, Words(ty.vary), Words(vary))
        })
    }

    fn instr(&mut self, instr: &Instr) -> Result<(), Broken> {
        match instr {
            Instr::Load { dst, access } => {
                let (dtype, vary) = self.read(access)?;
                self.defines(*dst, dtype, vary)
            }
            Instr::Gather { dst, access, indices } => self.gather(*dst, access, indices),
            Instr::Overlay { dst, background, buffer, placement } => {
                self.overlay(*dst, *background, *buffer, placement)
            }
            Instr::Scalar { dst, slot } => {
                let scalars = &self.program.scalars;
                let dtype = *scalars
                    .get(usize::from(*slot))
                    .ok_or_else(|| format!("scalar {slot} of {} declared", scalars.len()))?;
                self.defines(*dst, dtype, Vary::NONE)
            }
            Instr::Iota { dst, axis } => {
                let (vary, dtype) = (self.axis(*axis)?, self.reg(*dst)?.dtype);
                ensure(dtype != DType::Bool, || String::from("an iota of bools"))?;
                self.defines(*dst, dtype, vary)
            }
            Instr::Lane { op, dst, args } => self.lane(*op, *dst, args),
            Instr::Reduce { monoid, dst, src, init } => self.reduce(*monoid, *dst, *src, *init),
            Instr::ArgReduce { extreme, wanted, dst, values, indices, init } => {
                self.arg_reduce(*extreme, *wanted, *dst, (*values, *indices), *init)
            }
            Instr::Dot { dst, lhs, rhs, precision: _, mxu } => self.dot(*dst, lhs, rhs, *mxu),
            Instr::Store { src, access } => self.store(*src, access),
        }
    }

    fn gather(&mut self, dst: Reg, access: &Access, indices: &[IndexComponent]) -> Result<(), Broken> {
        let (dtype, mut vary) = self.read(access)?;
        let rank = access.dims.len();
        for component in indices {
            let (index, along) = match &component.index {
                IndexSource::Memory(index) => self.read(index)?,
                IndexSource::Number(number) => (self.index(*number)?, Vary::NONE),
            };
            ensure(index.is_integer(), || format!("a gather index of dtype {index}"))?;
            ensure(usize::from(component.dim) < rank, || {
                format!("an index along dimension {} of a buffer of rank {rank}", component.dim)
            })?;
            self.length(component.slice)?;
            vary = vary.join(along);
        }
        self.defines(dst, dtype, vary)
    }

    fn mark_still(&mut self, instr: &Instr) {
        let domain = &self.program.domain;
        let one = |axes: &[Extent]| axes.iter().all(|&extent| extent == Extent::ONE);
        let extent = |axis: u8| domain.axes().nth(usize::from(axis));
        let fixed = |access: &Access| {
            let mut moving = access.dims.iter().filter(|dim| dim.step != Extent::ZERO).filter_map(|dim| dim.axis);
            moving.all(|axis| extent(axis) == Some(Extent::ONE))
        };
        let still = match instr {
            Instr::Load { access, .. } => fixed(access),
            Instr::Gather { access, indices, .. } => {
                fixed(access)
                    && indices.iter().all(|component| match &component.index {
                        IndexSource::Memory(index) => fixed(index),
                        IndexSource::Number(_) => true,
                    })
            }
            Instr::Scalar { .. } => true,
            Instr::Iota { axis, .. } => extent(*axis) == Some(Extent::ONE),
            Instr::Lane { args, .. } => args.iter().all(|arg| self.still[usize::from(arg.0)]),
            // Of a reduction over all there is.
            Instr::Reduce { .. } | Instr::ArgReduce { .. } => {
                one(&domain.outer)
                    && match self.program.reduce {
                        Some(ReduceAlong::Cols) => one(&domain.rows),
                        Some(ReduceAlong::Rows) => one(&domain.cols),
                        None => false,
                    }
            }
            Instr::Overlay { .. } | Instr::Dot { .. } => domain.axes().all(|extent| extent == Extent::ONE),
            Instr::Store { .. } => false,
        };
        if let Some(dst) = super::dataflow::defined(instr) {
            self.still[usize::from(dst.0)] = still;
        }
    }

    /// The dtype of a register that is an index for the whole launch.
    fn index(&self, number: Reg) -> Result<DType, Broken> {
        let ty = self.used(number)?;
        ensure(self.still[usize::from(number.0)], || format!("an index, register {}, that varies", number.0))?;
        ensure(ty.dtype.is_integer(), || format!("an index of dtype {}", ty.dtype))?;
        Ok(ty.dtype)
    }

    fn overlay(&mut self, dst: Reg, background: Reg, buffer: u16, placement: &[Placement]) -> Result<(), Broken> {
        let ty = self.used(background)?;
        let input = self.input(buffer)?;
        ensure(input.dtype == ty.dtype, || format!("a buffer of {} laid over {}", input.dtype, ty.dtype))?;
        ensure(placement.len() == input.shape.len(), || {
            format!("{} placements for a buffer of rank {}", placement.len(), input.shape.len())
        })?;
        for (n, place) in placement.iter().enumerate() {
            self.axis(place.axis)?;
            match place.low {
                Low::At(low) => self.extent(low)?,
                Low::Clamped(number) => {
                    self.index(number)?;
                }
            }
            self.length(place.interior)?;
            ensure(placement[..n].iter().all(|other| other.axis != place.axis), || {
                format!("two dimensions are placed along axis {}", place.axis)
            })?;
        }
        self.defines(dst, ty.dtype, Vary::BOTH)
    }

    fn lane(&mut self, op: LaneOp, dst: Reg, args: &[Reg]) -> Result<(), Broken> {
        let mut dtypes = Vec::with_capacity(args.len());
        let mut vary = Vary::NONE;
        for &arg in args {
            let ty = self.used(arg)?;
            dtypes.push(ty.dtype);
            vary = vary.join(ty.vary);
        }
        let dtype = self.reg(dst)?.dtype;
        ensure(lanes::kernel(op, &dtypes, dtype).is_some(), || {
            let operands: Vec<_> = dtypes.iter().map(DType::to_string).collect();
            format!("{op:?} does not take ({}) to {dtype}", operands.join(", "))
        })?;
        self.defines(dst, dtype, vary)
    }

    fn reduce(&mut self, monoid: Monoid, dst: Reg, src: Reg, init: Reg) -> Result<(), Broken> {
        let (src, init) = (self.used(src)?, self.used(init)?);
        ensure(Reducer::new(monoid, src.dtype).is_some(), || format!("{monoid:?} does not reduce {}", src.dtype))?;
        ensure(init.dtype == src.dtype, || format!("an initial value of {} for {}", init.dtype, src.dtype))?;
        ensure(init.vary == Vary::NONE, || format!("an initial value that varies along {}", Words(init.vary)))?;
        self.reduced(dst, src.dtype, src.vary)
    }

    fn arg_reduce(
        &mut self,
        extreme: Extreme,
        wanted: Winner,
        dst: Reg,
        (values, indices): (Reg, Reg),
        init: (Reg, Reg),
    ) -> Result<(), Broken> {
        let (values, indices) = (self.used(values)?, self.used(indices)?);
        ensure(ArgReducer::new(extreme, values.dtype, indices.dtype).is_some(), || {
            format!("indices of dtype {}", indices.dtype)
        })?;
        for (init, along) in [(init.0, values), (init.1, indices)] {
            let init = self.used(init)?;
            ensure(init.dtype == along.dtype, || format!("an initial value of {} for {}", init.dtype, along.dtype))?;
            ensure(init.vary == Vary::NONE, || format!("an initial value that varies along {}", Words(init.vary)))?;
        }
        let dtype = match wanted {
            Winner::Value => values.dtype,
            Winner::Index => indices.dtype,
        };
        self.reduced(dst, dtype, values.vary.join(indices.vary))
    }

    /// Defines what is left of operands that vary so.
    fn reduced(&mut self, dst: Reg, dtype: DType, vary: Vary) -> Result<(), Broken> {
        let along =
            self.program.reduce.ok_or_else(|| String::from("a reduction in a program that declares no direction"))?;
        let left = match along {
            ReduceAlong::Cols => Vary { cols: false, ..vary },
            ReduceAlong::Rows => Vary { rows: false, ..vary },
        };
        let declared = self.reg(dst)?.vary;
        let along_reduced = match along {
            ReduceAlong::Cols => declared.cols,
            ReduceAlong::Rows => declared.rows,
        };
        ensure(!along_reduced, || format!("register {} varies along the axes that were reduced", dst.0))?;
        self.defines(dst, dtype, left)
    }

    fn dot(&mut self, dst: Reg, lhs: &Access, rhs: &Access, mxu: Option<Mxu>) -> Result<(), Broken> {
        self.dots += 1;
        ensure(self.dots == 1, || String::from("a second dot"))?;
        let domain = &self.program.domain;
        let (outer, rows, rank) = (domain.outer.len(), domain.outer.len() + domain.rows.len(), domain.rank());
        let mut dtypes = [DType::F32; 2];
        for (dtype, (side, access)) in dtypes.iter_mut().zip([("lhs", lhs), ("rhs", rhs)]) {
            let buffer = self.input(access.buffer)?;
            *dtype = buffer.dtype;
            self.dims(buffer, &access.dims)?;
            for axis in access.dims.iter().filter_map(|dim| dim.axis).map(usize::from) {
                let own = if side == "lhs" { outer..rows } else { rows..rank };
                let contracted = rank..rank + self.program.contract.len();
                ensure(axis < outer || own.contains(&axis) || contracted.contains(&axis), || {
                    format!("{side} moves along axis {axis}")
                })?;
            }
        }
        let [lhs, rhs] = dtypes;
        let result = self.reg(dst)?.dtype;
        ensure(lhs == rhs && contracts(lhs, result), || format!("a dot of {lhs} and {rhs} to {result}"))?;
        ensure(mxu.is_none() || !lhs.is_float() || result == DType::F32, || {
            format!("a dot of {lhs} on a matrix unit to {result}")
        })?;
        self.defines(dst, result, Vary::BOTH)
    }

    fn store(&mut self, src: Reg, access: &Access) -> Result<(), Broken> {
        let ty = self.used(src)?;
        let output = usize::from(access.buffer).checked_sub(usize::from(self.program.inputs));
        let output = output.filter(|&output| output < self.stored.len());
        let output = output.ok_or_else(|| format!("buffer {} is stored, but is no output", access.buffer))?;
        ensure(!self.stored[output], || format!("output {output} is stored twice"))?;
        self.stored[output] = true;
        let buffer = &self.program.buffers[usize::from(access.buffer)];
        ensure(buffer.dtype == ty.dtype, || format!("{} stored to an output of {}", ty.dtype, buffer.dtype))?;
        let moves = self.affine(buffer, access)?;
        ensure(moves.join(ty.vary) == moves, || {
            format!("a value that varies along {} stored along {}", Words(ty.vary), Words(moves))
        })?;
        for (n, dim) in access.dims.iter().enumerate() {
            let again = access.dims[..n].iter().any(|other| other.axis == dim.axis && dim.axis.is_some());
            ensure(!again, || format!("a store that moves along axis {} twice", dim.axis.unwrap_or_default()))?;
        }
        Ok(())
    }
}

/// A variation in words.
struct Words(Vary);

impl std::fmt::Display for Words {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match (self.0.rows, self.0.cols) {
            (false, false) => "nothing",
            (true, false) => "rows",
            (false, true) => "columns",
            (true, true) => "rows and columns",
        })
    }
}
