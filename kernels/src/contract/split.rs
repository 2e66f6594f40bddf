//! Contractions on a chip's matrix unit, whose factors are `bf16`.
//!
//! A *pass* contracts one part (`terms`) of the left operand with one of the right, by the same loops and in the same order
//! as any contraction, in blocks as long as the unit is deep (docs/numerics.md, N28). What the parts of higher order
//! contribute is summed first, taken as nothing where it is not finite, and the leading parts' product is added last.
//!
//! The left operand's rows are gathered to scratch and split there, the right one's panels are packed and then split, so
//! that the loops know nothing of parts. That costs a pass over memory, which does not show beside one to six
//! contractions.

use std::ops::Range;

use crate::dtype::DType;
use crate::numerics::canonical;
use crate::simd::Isa;

use half::{bf16, f16};

use super::float::{CHUNK, dot, with_sums};
use super::movement::{Factor, position};
use super::terms::{LEADING, Pass};
use super::{DotOperand, PackedRhs};

/// Contracts by the parts that `rhs` was packed in.
pub(super) fn dot_in_parts(
    isa: Isa,
    dtype: DType,
    lhs: &DotOperand<'_>,
    rhs: &PackedRhs,
    columns: Range<usize>,
    out: &mut [f32],
) {
    let (depth, width, terms) = (lhs.contract.len(), columns.len(), rhs.terms());
    let contract: Vec<i64> = (0..depth as i64).collect();
    let rows = (MOST_ELEMENTS / depth.max(1)).clamp(1, CHUNK).min(lhs.free.len());
    let starts: Vec<i64> = (0..rows as i64).map(|row| row * depth as i64).collect();
    let all = terms.parts() * rows * depth;
    with_sums(all + rows * width, |scratch| {
        let (parts, pass) = scratch.split_at_mut(all);
        for (free, sum) in lhs.free.chunks(rows).zip(out.chunks_mut(rows * width)) {
            let len = free.len() * depth;
            let parts = &mut parts[..terms.parts() * len];
            gather(dtype, &DotOperand { free, ..*lhs }, &mut parts[..len]);
            terms.cut(isa, parts);
            let run = |(left, right): Pass, out: &mut [f32]| {
                let bytes = bytemuck::cast_slice(&parts[left * len..][..len]);
                let lhs = DotOperand { bytes, free: &starts[..free.len()], contract: &contract };
                dot::<f32>(isa, &lhs, rhs, right, columns.clone(), out);
            };
            let Some((&first, others)) = terms.corrections().split_first() else {
                run(LEADING, sum);
                continue;
            };
            let pass = &mut pass[..sum.len()];
            run(first, sum);
            for &correction in others {
                run(correction, pass);
                sum.iter_mut().zip(&*pass).for_each(|(sum, &pass)| *sum += pass);
            }
            run(LEADING, pass);
            let guarded = |sum: f32| if sum.is_finite() { sum } else { 0.0 };
            sum.iter_mut().zip(&*pass).for_each(|(sum, &pass)| *sum = canonical(guarded(*sum) + pass));
        }
    });
}

/// Elements of a chunk of the left operand, where a row is not longer.
const MOST_ELEMENTS: usize = 1 << 16;

/// The rows of an operand side by side, widened.
fn gather(dtype: DType, operand: &DotOperand<'_>, to: &mut [f32]) {
    fn fill<S: Factor>(operand: &DotOperand<'_>, to: &mut [f32]) {
        let elements: &[S] = bytemuck::cast_slice(operand.bytes);
        let depth = operand.contract.len();
        for (row, &offset) in to.chunks_exact_mut(depth.max(1)).zip(operand.free) {
            for (slot, &step) in row.iter_mut().zip(operand.contract) {
                *slot = elements[position(offset + step)].widen();
            }
        }
    }
    match dtype {
        DType::F16 => fill::<f16>(operand, to),
        DType::BF16 => fill::<bf16>(operand, to),
        DType::F32 => fill::<f32>(operand, to),
        DType::Bool | DType::I32 | DType::U32 | DType::I64 => unreachable!("only floats are split"),
    }
}
