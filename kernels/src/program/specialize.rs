//! A program for one set of extents.
//!
//! A compiler of static shapes (XLA's, behind PJRT) takes numbers where a tile program has launch parameters. The
//! specialised program is the same one with the numbers written in, so it gives the same bits; scalars, which such a
//! compiler takes as arguments too, stay arguments.

use super::{Access, DimMap, Extent, IndexSource, Instr, Low, Program};

impl Program {
    /// The program for these launch parameters: it has none left.
    ///
    /// # Panics
    /// `params` are not as many as the program takes.
    #[must_use]
    pub fn specialize(&self, params: &[i64]) -> Program {
        assert_eq!(params.len(), usize::from(self.params), "as many launch parameters as the program takes");
        let mut program = self.clone();
        program.params = 0;
        each_extent(&mut program, &mut |extent| *extent = Extent::Fixed(extent.resolve(params)));
        program
    }
}

/// Calls `visit` for every extent of a program, wherever one stands.
fn each_extent(program: &mut Program, visit: &mut impl FnMut(&mut Extent)) {
    let Program { name: _, params: _, scalars: _, buffers, inputs: _, domain, reduce: _, contract, regs: _, body } =
        program;
    buffers.iter_mut().flat_map(|buffer| &mut buffer.shape).for_each(&mut *visit);
    domain.outer.iter_mut().chain(&mut domain.rows).chain(&mut domain.cols).for_each(&mut *visit);
    contract.iter_mut().for_each(&mut *visit);
    for instr in body {
        match instr {
            Instr::Load { dst: _, access } | Instr::Store { src: _, access } => of_access(access, visit),
            Instr::Gather { dst: _, access, indices } => {
                of_access(access, visit);
                for component in indices {
                    match &mut component.index {
                        IndexSource::Memory(access) => of_access(access, visit),
                        IndexSource::Number(_) => {}
                    }
                    visit(&mut component.slice);
                }
            }
            Instr::Overlay { dst: _, background: _, buffer: _, placement } => {
                for place in placement {
                    match &mut place.low {
                        Low::At(low) => visit(low),
                        Low::Clamped(_) => {}
                    }
                    visit(&mut place.interior);
                }
            }
            Instr::Dot { dst: _, lhs, rhs, precision: _, mxu: _ } => {
                of_access(lhs, visit);
                of_access(rhs, visit);
            }
            Instr::Scalar { .. }
            | Instr::Iota { .. }
            | Instr::Lane { .. }
            | Instr::Reduce { .. }
            | Instr::ArgReduce { .. } => {}
        }
    }
}

fn of_access(access: &mut Access, visit: &mut impl FnMut(&mut Extent)) {
    for DimMap { axis: _, start, step } in &mut access.dims {
        visit(start);
        visit(step);
    }
}
