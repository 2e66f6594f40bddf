//! Result types from op, operand types, attributes and regions; the only source of shape and dtype errors.
//!
//! [`infer`] is total: whatever the opcode, operands, attributes and regions, it gives a type or a [`TypeError`] and
//! never panics, so a fuzzer or an embedding front end may hand it anything. The constraints are those of StableHLO's
//! specification; each module states those of its classes and cites them by the specification's numbers (C1, C2, …).
//!
//! It runs on every recorded op, so the accepting path allocates nothing: checks compare in place, messages are built
//! only once a check has failed. Rejected: a table of declarative constraints per op. It would read well, but the
//! constraints that matter (gather, dot, pad) relate attributes to extents and would need a language of their own.
//!
//! Two rules go beyond StableHLO. A result whose elements, counting an extent of 0 as 1, would take more than
//! `isize::MAX` bytes is rejected, so that offsets and strides of every accepted type are exact in `isize`. The body of a
//! reduce is a [`Body`](crate::ir::region::Body).

mod contract;
mod dynamic;
mod elementwise;
mod gather;
mod movement;
mod reduce;
mod source;

use std::fmt;

use smallvec::{SmallVec, smallvec};
use systole_kernels::{DType, TensorType};

use crate::ir::{Attrs, OpClass, Opcode, Region};

/// Operands that do not fit an op.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TypeError {
    op: Opcode,
    operands: Vec<TensorType>,
    reason: String,
}

impl TypeError {
    /// The op.
    pub fn op(&self) -> Opcode {
        self.op
    }

    /// The operand types.
    pub fn operands(&self) -> &[TensorType] {
        &self.operands
    }

    /// What does not fit, in words and values.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl fmt::Display for TypeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(", self.op)?;
        for (i, ty) in self.operands.iter().enumerate() {
            write!(f, "{}{ty}", if i > 0 { ", " } else { "" })?;
        }
        write!(f, "): {}", self.reason)
    }
}

impl std::error::Error for TypeError {}

/// Most dimensions of a value: planning keeps sets of axes in one word, and text has the same bound.
pub const MAX_RANK: usize = 64;

/// Most operands of one op.
pub const MAX_OPERANDS: usize = 4096;

/// The result types.
///
/// # Errors
/// Number or types of operands, attributes or regions break a constraint of the op in StableHLO's specification, or
/// the result is too large to address.
pub fn infer(
    op: Opcode,
    operands: &[&TensorType],
    attrs: &Attrs,
    regions: &[Region],
) -> Result<SmallVec<[TensorType; 1]>, TypeError> {
    match results(op, operands, attrs, regions) {
        Ok(types) if types[0].rank() > MAX_RANK => {
            Err(reject(op, operands, format!("rank {} exceeds {MAX_RANK}", types[0].rank())))
        }
        Ok(types) => Ok(types),
        Err(reason) => Err(reject(op, operands, reason)),
    }
}

/// Whether strides and offsets of the type are exact in `isize`: the bound that every inferred type keeps.
pub fn addressable(ty: &TensorType) -> bool {
    ty.shape
        .iter()
        .try_fold(ty.dtype.size(), |bytes, &extent| bytes.checked_mul(extent.max(1)))
        .is_some_and(|bytes| bytes <= isize::MAX as usize)
}

/// Why an op does not fit.
type Reason = String;

#[cold]
fn reject(op: Opcode, operands: &[&TensorType], reason: Reason) -> TypeError {
    TypeError { op, operands: operands.iter().map(|&ty| ty.clone()).collect(), reason }
}

/// At least one type; all have one shape.
fn results(
    op: Opcode,
    operands: &[&TensorType],
    attrs: &Attrs,
    regions: &[Region],
) -> Result<SmallVec<[TensorType; 1]>, Reason> {
    if !fits(op, attrs) {
        return Err(format!("{} attributes do not fit the op", format_name(attrs)));
    }
    let wanted_regions = usize::from(op.class() == OpClass::Reduce);
    if regions.len() != wanted_regions {
        return Err(format!("takes {}, not {}", counted(wanted_regions, "region"), regions.len()));
    }
    let ty = match attrs {
        Attrs::None => match op.class() {
            OpClass::Unary => elementwise::unary(op, operands),
            OpClass::Predicate => elementwise::predicate(op, operands),
            OpClass::Binary => elementwise::binary(op, operands),
            OpClass::Select if op == Opcode::Select => elementwise::select(op, operands),
            OpClass::Select => elementwise::clamp(op, operands),
            OpClass::Overlay if op == Opcode::DynamicUpdateSlice => dynamic::update_slice(operands),
            OpClass::Source
            | OpClass::Compare
            | OpClass::Convert
            | OpClass::View
            | OpClass::Overlay
            | OpClass::Reduce
            | OpClass::Contract
            | OpClass::Gather => Err(String::from("the op's attributes are missing")),
        },
        Attrs::Constant(literal) => source::constant(operands, literal),
        Attrs::Iota { ty, dimension } => source::iota(op, operands, ty, *dimension),
        Attrs::Compare { order, .. } => elementwise::compare(op, operands, *order),
        Attrs::Convert(dtype) if op == Opcode::BitcastConvert => elementwise::bitcast_convert(op, operands, *dtype),
        Attrs::Convert(dtype) => elementwise::convert(op, operands, *dtype),
        Attrs::BroadcastInDim { shape, dimensions } => movement::broadcast_in_dim(operands, shape, dimensions),
        Attrs::Reshape(shape) => movement::reshape(operands, shape),
        Attrs::Transpose(permutation) => movement::transpose(operands, permutation),
        Attrs::Slice(limits) => movement::slice(operands, limits),
        Attrs::Reverse(dimensions) => movement::reverse(operands, dimensions),
        Attrs::Concatenate(dimension) => movement::concatenate(operands, *dimension),
        Attrs::Pad(amounts) => movement::pad(operands, amounts),
        Attrs::Reduce(dimensions) => return reduce::reduce(operands, dimensions, &regions[0]),
        Attrs::Dot(dims) => contract::dot_general(op, operands, dims),
        Attrs::Gather(dims) => gather::gather(operands, dims),
        Attrs::DynamicSlice(sizes) => dynamic::slice(operands, sizes),
    }?;
    if addressable(&ty) {
        Ok(smallvec![ty])
    } else {
        Err(format!("the result {ty} takes more than {} bytes", isize::MAX))
    }
}

/// Whether the attributes have the op's format.
fn fits(op: Opcode, attrs: &Attrs) -> bool {
    match attrs {
        Attrs::None => match op.class() {
            OpClass::Unary | OpClass::Predicate | OpClass::Binary | OpClass::Select => true,
            OpClass::Source
            | OpClass::Compare
            | OpClass::Convert
            | OpClass::View
            | OpClass::Reduce
            | OpClass::Contract
            | OpClass::Gather => false,
            OpClass::Overlay => op == Opcode::DynamicUpdateSlice,
        },
        Attrs::Constant(_) => op == Opcode::Constant,
        Attrs::Iota { .. } => op == Opcode::Iota,
        Attrs::Compare { .. } => op == Opcode::Compare,
        Attrs::Convert(_) => op.class() == OpClass::Convert,
        Attrs::BroadcastInDim { .. } => op == Opcode::BroadcastInDim,
        Attrs::Reshape(_) => op == Opcode::Reshape,
        Attrs::Transpose(_) => op == Opcode::Transpose,
        Attrs::Slice(_) => op == Opcode::Slice,
        Attrs::Reverse(_) => op == Opcode::Reverse,
        Attrs::Concatenate(_) => op == Opcode::Concatenate,
        Attrs::Pad(_) => op == Opcode::Pad,
        Attrs::Reduce(_) => op == Opcode::Reduce,
        Attrs::Dot(_) => op == Opcode::DotGeneral,
        Attrs::Gather(_) => op == Opcode::Gather,
        Attrs::DynamicSlice(_) => op == Opcode::DynamicSlice,
    }
}

fn format_name(attrs: &Attrs) -> &'static str {
    match attrs {
        Attrs::None => "no",
        Attrs::Constant(_) => "constant",
        Attrs::Iota { .. } => "iota",
        Attrs::Compare { .. } => "compare",
        Attrs::Convert(_) => "convert",
        Attrs::BroadcastInDim { .. } => "broadcast_in_dim",
        Attrs::Reshape(_) => "reshape",
        Attrs::Transpose(_) => "transpose",
        Attrs::Slice(_) => "slice",
        Attrs::Reverse(_) => "reverse",
        Attrs::Concatenate(_) => "concatenate",
        Attrs::Pad(_) => "pad",
        Attrs::Reduce(_) => "reduce",
        Attrs::Dot(_) => "dot_general",
        Attrs::Gather(_) => "gather",
        Attrs::DynamicSlice(_) => "dynamic_slice",
    }
}

fn counted(n: usize, what: &str) -> String {
    match n {
        0 => format!("no {what}s"),
        1 => format!("1 {what}"),
        _ => format!("{n} {what}s"),
    }
}

/// Exactly `N` operands.
fn take<'a, const N: usize>(operands: &[&'a TensorType]) -> Result<[&'a TensorType; N], Reason> {
    <[&TensorType; N]>::try_from(operands).map_err(|_| count_mismatch(N, operands.len()))
}

#[cold]
fn count_mismatch(wanted: usize, found: usize) -> Reason {
    format!("takes {}, not {found}", counted(wanted, "operand"))
}

/// The row's dtypes admit `dtype`.
fn admit(op: Opcode, dtype: DType) -> Result<(), Reason> {
    let dtypes = op.info().dtypes;
    if dtypes.admits(dtype) { Ok(()) } else { Err(format!("takes {}, not {dtype}", dtypes.describe())) }
}

/// Both dtypes are the same.
fn same_dtype(what: &str, a: &TensorType, b: &TensorType) -> Result<(), Reason> {
    if a.dtype == b.dtype { Ok(()) } else { Err(format!("{what} dtypes {} and {} differ", a.dtype, b.dtype)) }
}

/// Both shapes are the same.
fn same_shape(what: &str, a: &TensorType, b: &TensorType) -> Result<(), Reason> {
    if a.shape == b.shape { Ok(()) } else { Err(shape_mismatch(what, a, b)) }
}

#[cold]
fn shape_mismatch(what: &str, a: &TensorType, b: &TensorType) -> Reason {
    let (a, b) = (&a.shape, &b.shape);
    if a.rank() != b.rank() {
        return format!("{what} shapes {a} and {b} differ in rank: {} against {}", a.rank(), b.rank());
    }
    let dimension = a.iter().zip(b.iter()).position(|(a, b)| a != b).expect("unequal shapes of one rank differ");
    format!("{what} shapes {a} and {b} differ in dimension {dimension}: {} against {}", a[dimension], b[dimension])
}

/// Every dimension number is below `rank`, and none comes twice.
fn distinct_below(what: &str, dims: &[u32], rank: usize) -> Result<(), Reason> {
    for (i, &dim) in dims.iter().enumerate() {
        below(what, dim, rank)?;
        if dims[..i].contains(&dim) {
            return Err(format!("{what} {dims:?} names dimension {dim} twice"));
        }
    }
    Ok(())
}

/// The dimension number is below `rank`.
fn below(what: &str, dim: u32, rank: usize) -> Result<(), Reason> {
    if (dim as usize) < rank { Ok(()) } else { Err(format!("{what}: {dim} is no dimension of rank {rank}")) }
}

/// An attribute has one entry per dimension.
fn one_per_dimension(what: &str, found: usize, rank: usize) -> Result<(), Reason> {
    if found == rank { Ok(()) } else { Err(format!("{what} has {found} entries for rank {rank}")) }
}

#[cfg(test)]
mod tests;
