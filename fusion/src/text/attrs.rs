//! What named attributes mean: from a dictionary, the operand's and the stated result type to [`Attrs`].

use smallvec::SmallVec;
use systole_kernels::program::{Comparison, Order, Precision};
use systole_kernels::{DType, TensorType};

use super::attribute::{Attribute, Dictionary};
use super::error::Kind;
use crate::ir::attrs::Dims;
use crate::ir::{Attrs, DotDims, GatherDims, OpClass, Opcode, PadAmounts, SliceLimits};

type Result<T> = std::result::Result<T, Kind>;

/// The op's attributes.
pub(super) fn attrs(
    op: Opcode,
    operand: Option<&TensorType>,
    dictionary: &Dictionary,
    result: &TensorType,
) -> Result<Attrs> {
    match op.class() {
        OpClass::Unary | OpClass::Predicate | OpClass::Binary | OpClass::Select => Ok(Attrs::None),
        OpClass::Convert => match operand {
            Some(operand) if op == Opcode::BitcastConvert && operand.dtype.size() != result.dtype.size() => {
                Err(Kind::Unsupported(String::from("bitcast_convert to another width is not supported")))
            }
            Some(_) | None => Ok(Attrs::Convert(result.dtype)),
        },
        OpClass::Source if op == Opcode::Constant => match dictionary.get("value") {
            Some(Attribute::Elements(literal)) => Ok(Attrs::Constant(literal.clone())),
            Some(_) | None => malformed("expected elements as the attribute `value`"),
        },
        OpClass::Source => {
            Ok(Attrs::Iota { ty: result.clone(), dimension: dimension(dictionary.integer("iota_dimension")?)? })
        }
        OpClass::Compare => compare(operand, dictionary),
        OpClass::View | OpClass::Overlay => movement(op, dictionary, result),
        OpClass::Reduce => Ok(Attrs::Reduce(dictionary.dims("dimensions")?)),
        OpClass::Contract => dot(operand, dictionary, result),
        OpClass::Gather if op == Opcode::DynamicSlice => Ok(Attrs::DynamicSlice(dictionary.integers("slice_sizes")?)),
        OpClass::Gather => gather(dictionary),
    }
}

fn movement(op: Opcode, dictionary: &Dictionary, result: &TensorType) -> Result<Attrs> {
    if op == Opcode::Reshape {
        return Ok(Attrs::Reshape(result.shape.clone()));
    }
    if op == Opcode::Transpose {
        return Ok(Attrs::Transpose(dictionary.dims("permutation")?));
    }
    if op == Opcode::Slice {
        return Ok(Attrs::Slice(Box::new(SliceLimits {
            start: dictionary.integers("start_indices")?,
            limit: dictionary.integers("limit_indices")?,
            stride: dictionary.integers("strides")?,
        })));
    }
    if op == Opcode::Reverse {
        return Ok(Attrs::Reverse(dictionary.dims("dimensions")?));
    }
    if op == Opcode::DynamicUpdateSlice {
        return Ok(Attrs::None);
    }
    if op == Opcode::Concatenate {
        return Ok(Attrs::Concatenate(dimension(dictionary.integer("dimension")?)?));
    }
    if op == Opcode::Pad {
        return Ok(Attrs::Pad(Box::new(PadAmounts {
            low: dictionary.integers("edge_padding_low")?,
            high: dictionary.integers("edge_padding_high")?,
            interior: dictionary.integers("interior_padding")?,
        })));
    }
    let dimensions = dictionary.dims("broadcast_dimensions")?;
    Ok(Attrs::BroadcastInDim { shape: result.shape.clone(), dimensions })
}

fn compare(operand: Option<&TensorType>, dictionary: &Dictionary) -> Result<Attrs> {
    let direction = match dictionary.word("comparison_direction")? {
        Some("EQ") => Comparison::Eq,
        Some("NE") => Comparison::Ne,
        Some("GE") => Comparison::Ge,
        Some("GT") => Comparison::Gt,
        Some("LE") => Comparison::Le,
        Some("LT") => Comparison::Lt,
        Some(other) => {
            return malformed(format!("{other} is no comparison direction (EQ, NE, GE, GT, LE, LT)"));
        }
        None => return malformed("the attribute `comparison_direction` is missing"),
    };
    let usual = match operand.map(|ty| ty.dtype) {
        Some(DType::I32 | DType::I64) => "SIGNED",
        Some(DType::U32 | DType::Bool) => "UNSIGNED",
        Some(DType::F16 | DType::BF16 | DType::F32) | None => "FLOAT",
    };
    let order = match dictionary.word("compare_type")? {
        Some("TOTALORDER") => Order::Total,
        None | Some("NOTYPE") => Order::Partial,
        Some(word) if word == usual => Order::Partial,
        Some(word) => {
            return malformed(format!("comparison type {word}, where the operands' dtype has {usual}"));
        }
    };
    Ok(Attrs::Compare { direction, order })
}

fn dot(operand: Option<&TensorType>, dictionary: &Dictionary, result: &TensorType) -> Result<Attrs> {
    if dictionary.get("algorithm").is_some() {
        return Err(Kind::Unsupported(String::from("dot algorithms are not supported")));
    }
    let dims = dictionary.fields("dot_dimension_numbers")?;
    Ok(Attrs::Dot(Box::new(DotDims {
        lhs_batching: dims.optional_dims("lhs_batching_dimensions")?,
        rhs_batching: dims.optional_dims("rhs_batching_dimensions")?,
        lhs_contracting: dims.optional_dims("lhs_contracting_dimensions")?,
        rhs_contracting: dims.optional_dims("rhs_contracting_dimensions")?,
        result: Some(result.dtype).filter(|&dtype| operand.is_some_and(|operand| operand.dtype != dtype)),
        precision: precision(dictionary)?,
    })))
}

/// The higher of the two operands' precisions; without the attribute, the default.
fn precision(dictionary: &Dictionary) -> Result<Precision> {
    let words = match dictionary.get("precision_config") {
        None => return Ok(Precision::Default),
        Some(Attribute::Ints(none)) if none.is_empty() => return Ok(Precision::Default),
        Some(Attribute::Words(words)) if words.len() == 2 => words,
        Some(_) => return malformed("precision_config names a precision for each of the two operands"),
    };
    let mut highest = Precision::Default;
    for word in words {
        match Precision::ALL.into_iter().find(|precision| precision.name() == word) {
            Some(precision) => highest = highest.max(precision),
            None => return malformed(format!("{word} is no precision (DEFAULT, HIGH, HIGHEST)")),
        }
    }
    Ok(highest)
}

fn gather(dictionary: &Dictionary) -> Result<Attrs> {
    let dims = dictionary.fields("dimension_numbers")?;
    let vector_dim = if dims.get("index_vector_dim").is_some() { dims.integer("index_vector_dim")? } else { 0 };
    Ok(Attrs::Gather(Box::new(GatherDims {
        offset_dims: dims.optional_dims("offset_dims")?,
        collapsed_slice_dims: dims.optional_dims("collapsed_slice_dims")?,
        operand_batching_dims: dims.optional_dims("operand_batching_dims")?,
        start_indices_batching_dims: dims.optional_dims("start_indices_batching_dims")?,
        start_index_map: dims.optional_dims("start_index_map")?,
        index_vector_dim: dimension(vector_dim)?,
        slice_sizes: dictionary.integers("slice_sizes")?,
        indices_are_sorted: match dictionary.get("indices_are_sorted") {
            Some(Attribute::Bool(sorted)) => *sorted,
            Some(_) => return malformed("indices_are_sorted is true or false"),
            None => false,
        },
    })))
}

fn malformed<T>(message: impl Into<String>) -> Result<T> {
    Err(Kind::Malformed(message.into()))
}

fn dimension(value: i64) -> Result<u32> {
    u32::try_from(value).map_err(|_| Kind::Malformed(format!("{value} is no dimension number")))
}

impl Dictionary {
    fn integer(&self, name: &str) -> Result<i64> {
        match self.get(name) {
            Some(Attribute::Int(value)) => Ok(*value),
            Some(_) | None => malformed(format!("expected an integer as the attribute `{name}`")),
        }
    }

    /// A list of integers: `array<i64: …>`, `[…]`, or `dense<…>` of rank 1.
    fn integers(&self, name: &str) -> Result<SmallVec<[i64; 4]>> {
        match self.get(name) {
            Some(Attribute::Ints(values)) => Ok(SmallVec::from_slice(values)),
            Some(Attribute::Elements(literal)) if literal.ty().rank() == 1 && literal.ty().dtype == DType::I64 => {
                // A splat may state any extent; a list of dimensions has few entries.
                if literal.ty().shape[0] > super::printer::MAX_RANK {
                    return malformed(format!("the attribute `{name}` has too many entries"));
                }
                Ok((0..literal.ty().shape[0]).map(|i| super::literal::at(literal, i).bits() as i64).collect())
            }
            // `array<i64>` and `[]` alike.
            Some(_) | None => malformed(format!("expected integers as the attribute `{name}`")),
        }
    }

    fn dims(&self, name: &str) -> Result<Dims> {
        self.integers(name)?.into_iter().map(dimension).collect()
    }

    fn optional_dims(&self, name: &str) -> Result<Dims> {
        if self.get(name).is_some() { self.dims(name) } else { Ok(Dims::new()) }
    }

    fn word(&self, name: &str) -> Result<Option<&str>> {
        match self.get(name) {
            Some(Attribute::Word(word)) => Ok(Some(word)),
            Some(_) => malformed(format!("expected a word as the attribute `{name}`")),
            None => Ok(None),
        }
    }

    fn fields(&self, name: &str) -> Result<&Dictionary> {
        match self.get(name) {
            Some(Attribute::Struct(fields)) => Ok(fields),
            Some(_) | None => malformed(format!("expected dimension numbers as the attribute `{name}`")),
        }
    }
}
