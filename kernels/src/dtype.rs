//! Element types.
//!
//! One row per dtype. Everything that varies with the element type elsewhere in the workspace matches on
//! [`DType`] without a wildcard, so a new row is followed by the compiler to every place that must learn it.

use std::fmt;

/// The element type of a tensor, named as StableHLO names it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[repr(u8)]
pub enum DType {
    /// A truth value, stored as one byte that is 0 or 1.
    Bool,
    /// Signed 32-bit integer; arithmetic wraps.
    I32,
    /// Unsigned 32-bit integer; arithmetic wraps.
    U32,
    /// Signed 64-bit integer; arithmetic wraps.
    I64,
    /// IEEE 754 binary16; arithmetic is that of `F32`, rounded once more.
    F16,
    /// The upper half of an IEEE 754 binary32; arithmetic is that of `F32`, rounded once more.
    BF16,
    /// IEEE 754 binary32.
    F32,
}

impl DType {
    /// Every element type, in declaration order.
    pub const ALL: [DType; 7] = [DType::Bool, DType::I32, DType::U32, DType::I64, DType::F16, DType::BF16, DType::F32];

    /// Bytes that one element takes in a buffer.
    pub const fn size(self) -> usize {
        match self {
            DType::Bool => 1,
            DType::F16 | DType::BF16 => 2,
            DType::I32 | DType::U32 | DType::F32 => 4,
            DType::I64 => 8,
        }
    }

    /// The name in StableHLO text (`i1`, `i32`, `ui32`, `i64`, `f16`, `bf16`, `f32`).
    pub const fn mlir(self) -> &'static str {
        match self {
            DType::Bool => "i1",
            DType::I32 => "i32",
            DType::U32 => "ui32",
            DType::I64 => "i64",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::F32 => "f32",
        }
    }

    /// The dtype whose [`mlir`](Self::mlir) name is `name`.
    pub fn from_mlir(name: &str) -> Option<DType> {
        DType::ALL.into_iter().find(|dtype| dtype.mlir() == name)
    }

    /// Whether this is a floating-point type.
    pub const fn is_float(self) -> bool {
        match self {
            DType::F16 | DType::BF16 | DType::F32 => true,
            DType::Bool | DType::I32 | DType::U32 | DType::I64 => false,
        }
    }

    /// Whether this is an integer type; `Bool` is none.
    pub const fn is_integer(self) -> bool {
        match self {
            DType::I32 | DType::U32 | DType::I64 => true,
            DType::Bool | DType::F16 | DType::BF16 | DType::F32 => false,
        }
    }

    /// Whether values of this type carry a sign.
    pub const fn is_signed(self) -> bool {
        match self {
            DType::I32 | DType::I64 | DType::F16 | DType::BF16 | DType::F32 => true,
            DType::Bool | DType::U32 => false,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DType::Bool => f.write_str("bool"),
            DType::U32 => f.write_str("u32"),
            DType::I32 | DType::I64 | DType::F16 | DType::BF16 | DType::F32 => f.write_str(self.mlir()),
        }
    }
}
