//! Contractions: sums of products, in the one order that the contract allows.
//!
//! An output element is the sum over k of a(i, k)·b(k, j). For floats docs/numerics.md fixes every rounding: k is cut
//! into blocks of [`BLOCK`]; in a block an accumulator starts at +0 and takes acc = fma(a, b, acc) in ascending k; the
//! blocks' values are added in ascending order, starting from the first; a NaN comes out canonical. That is a chain per
//! output element, and nothing that involves another element. So tiles vectorise across *outputs*, and any tiling,
//! split or padding of rows and columns gives the same bits. Integers wrap, and their order does not matter.
//!
//! The 16-bit floats are contracted in `f32`: operands are widened where they are copied anyway, and the sums are rounded
//! once at the end, or not at all where the result is to be `f32`.
//!
//! [`PackedRhs`] holds the right operand in panels that a microkernel reads front to back; it is packed once and used
//! by every row block and thread. [`dot`] goes through rows in chunks, copies a chunk's block of the left operand to
//! scratch of the thread, and runs a register tile of rows × panel over each block, adding the block's value to the
//! output. Operands come as tables of offsets, one per free and one per contracted index, so batches, transpositions,
//! strides and broadcasts are the caller's arithmetic and cost this module a look at whether neighbours are neighbours.
//!
//! **On a chip** factors are parts of the operands' elements (`split`), and the loops run once per pair of parts.
//!
//! **A few rows** (a sentence through a layer of weights) leave nothing to pay for packing the right operand, of which each
//! element is read once per row. [`dot_few`] exchanges the operands: the few rows are packed, and the right operand's
//! columns go by as rows do in [`dot`], but where each is a run of memory they are read in place. A product does not mind
//! the order of its factors, so the bits are the same.
//!
//! Rejected: keeping blocks' sums in registers over all of k (the panel then leaves the first-level cache, and the
//! output is read and written only once per 128 steps as it is); reading in place what many panels go over (rows a power
//! of two apart fall on one another in the cache).

mod chunk;
mod float;
mod integer;
mod movement;
mod panel;
mod split;
mod storage;
mod terms;

use std::ops::Range;

use half::{bf16, f16};

use crate::dtype::DType;
use crate::simd::Isa;

pub use panel::PackedRhs;
pub use terms::Terms;

/// Steps of k that one accumulator chain covers on the IEEE device.
pub const BLOCK: usize = 128;

/// The most that it covers on any.
const LONGEST_BLOCK: usize = 256;

/// An operand as a matrix: element (i, k) lies at element offset `free[i] + contract[k]` of `bytes`.
#[derive(Clone, Copy, Debug)]
pub struct DotOperand<'a> {
    /// The buffer, aligned to the element's size.
    pub bytes: &'a [u8],
    /// Offset of each free index, in elements.
    pub free: &'a [i64],
    /// Offset of each contracted index, in elements.
    pub contract: &'a [i64],
}

/// Contracts `lhs` with some columns of `rhs`, both of `dtype`, into `out`: `lhs.free.len() × columns.len()` elements of
/// `result`, row-major. `result` is `dtype`, or `F32` for a 16-bit float; on a chip it is `F32` for every float.
///
/// Ranges of columns that start at multiples of [`PackedRhs::panel`] waste no work.
///
/// # Panics
/// Where `rhs` was packed for another instruction set or dtype, the contracted extents differ, `columns` exceeds
/// `rhs.columns()`, `out` has not the size stated, an offset lies outside its buffer, or [`contracts`] says no.
pub fn dot(
    isa: Isa,
    (dtype, result): (DType, DType),
    lhs: &DotOperand<'_>,
    rhs: &PackedRhs,
    columns: Range<usize>,
    out: &mut [u8],
) {
    assert!(contracts(dtype, result), "contraction is not defined from {dtype} to {result}; inference rejects it");
    rhs.assert_packed_for(isa, dtype, lhs.contract.len());
    assert!(columns.start <= columns.end && columns.end <= rhs.columns(), "columns of the packed operand");
    assert_eq!(out.len(), lhs.free.len() * columns.len() * result.size(), "an output element per row and column");
    if out.is_empty() {
        return;
    }
    match (dtype, result) {
        _ if !rhs.terms().whole() => {
            assert_eq!(result, DType::F32, "parts are summed in f32");
            split::dot_in_parts(isa, dtype, lhs, rhs, columns, bytemuck::cast_slice_mut(out));
        }
        (DType::F16, DType::F32) => float::dot::<f16>(isa, lhs, rhs, 0, columns, bytemuck::cast_slice_mut(out)),
        (DType::F16, _) => float::narrowed::<f16>(isa, lhs, rhs, columns, bytemuck::cast_slice_mut(out)),
        (DType::BF16, DType::F32) => float::dot::<bf16>(isa, lhs, rhs, 0, columns, bytemuck::cast_slice_mut(out)),
        (DType::BF16, _) => float::narrowed::<bf16>(isa, lhs, rhs, columns, bytemuck::cast_slice_mut(out)),
        (DType::F32, _) => float::dot::<f32>(isa, lhs, rhs, 0, columns, bytemuck::cast_slice_mut(out)),
        (DType::I32 | DType::U32, _) => integer::dot::<u32>(isa, lhs, rhs, columns, bytemuck::cast_slice_mut(out)),
        (DType::I64, _) => integer::dot::<u64>(isa, lhs, rhs, columns, bytemuck::cast_slice_mut(out)),
        (DType::Bool, _) => unreachable!("no contraction from bool was let through"),
    }
}

/// Contracts the few rows of `lhs`, packed as a right operand is, with all of `rhs`, both `F32`, into `out`:
/// `lhs.columns() × rhs.free.len()` elements, row-major. The bits are those of [`dot`] with `rhs` packed.
///
/// # Panics
/// As [`dot`].
pub fn dot_few(isa: Isa, lhs: &PackedRhs, rhs: &DotOperand<'_>, out: &mut [u8]) {
    lhs.assert_packed_for(isa, DType::F32, rhs.contract.len());
    assert_eq!(out.len(), lhs.columns() * rhs.free.len() * size_of::<f32>(), "an output element per row and column");
    if !out.is_empty() {
        float::few(isa, lhs, rhs, bytemuck::cast_slice_mut(out));
    }
}

/// Whether there is [`dot_few`], and it is the faster way for so many rows: at most those for which [`dot`] reads the panels once.
pub fn pays_few((dtype, terms): (DType, Terms), rows: usize, rhs_free: &[i64], rhs_contract: &[i64]) -> bool {
    dtype == DType::F32
        && terms == Terms::IEEE
        && rows <= float::CHUNK
        && rhs_free.len() > rows
        && rhs_contract.len() > 1
        && movement::contiguous(rhs_contract)
        && !movement::contiguous(rhs_free)
}

/// Whether there is a contraction of operands of `dtype` to `result`.
pub fn contracts(dtype: DType, result: DType) -> bool {
    match dtype {
        DType::F16 | DType::BF16 => result == dtype || result == DType::F32,
        DType::I32 | DType::U32 | DType::I64 | DType::F32 => result == dtype,
        DType::Bool => false,
    }
}
