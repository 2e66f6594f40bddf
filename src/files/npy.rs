//! `.npy`: a header, which is a Python dictionary with element type, order and shape, then the elements.
//!
//! The format is [NumPy's](https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html), versions 1 to 3.
//! Headers are written byte for byte as NumPy writes them. The header is read here and not by the `npyz` crate, which
//! multiplies extents without looking whether the product fits and follows brackets however deep they nest, so that a
//! damaged file ends the process; and of its dependencies, a parser of all of Python's literals, nothing else is needed.
//! Three keys and their values are read, in any order, and everything else is refused.

use std::sync::Arc;

use systole_kernels::{DType, Shape, TensorType};

use super::{Reason, StoredTensor};

const MAGIC: &[u8] = b"\x93NUMPY";
/// Longest header that is read: what version 1 can hold. NumPy itself wants to be asked before it reads more than 10,000.
const LONGEST_HEADER: usize = u16::MAX as usize;
/// Bytes before the header in the versions that write its length with four bytes.
const BEFORE_HEADER: usize = 12;
/// Most bytes before the first element.
pub(super) const LONGEST_PREAMBLE: u64 = (BEFORE_HEADER + LONGEST_HEADER) as u64;
/// What NumPy fills headers up to a multiple of.
const ALIGNMENT: usize = 64;

/// What a header says.
#[derive(Debug)]
pub(super) struct Layout {
    elements: Result<Encoding, Reason>,
    shape: Vec<usize>,
    columns_first: bool,
    start: usize,
}

/// Elements as a file has them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Encoding {
    dtype: DType,
    big_endian: bool,
}

/// The array of a whole file.
pub(super) fn decode(file: Vec<u8>) -> Result<StoredTensor, Reason> {
    Layout::of(&file)?.tensor(file)
}

impl Layout {
    /// Reads the beginning of a file.
    pub(super) fn of(file: &[u8]) -> Result<Self, Reason> {
        let truncated = || String::from("the file ends within its header");
        if !file.starts_with(MAGIC) {
            return Err(String::from("this is no .npy file: it does not begin with \\x93NUMPY"));
        }
        let (major, minor) = match file[MAGIC.len()..] {
            [major, minor, ..] => (major, minor),
            _ => return Err(truncated()),
        };
        let rest = &file[MAGIC.len() + 2..];
        let (length, before) = match (major, minor) {
            (1, 0) => (rest.first_chunk().map(|bytes| u32::from(u16::from_le_bytes(*bytes))), BEFORE_HEADER - 2),
            (2 | 3, 0) => (rest.first_chunk().map(|bytes| u32::from_le_bytes(*bytes)), BEFORE_HEADER),
            _ => return Err(format!("version {major}.{minor} of the format is unknown")),
        };
        let length = length.ok_or_else(truncated)? as usize;
        if length > LONGEST_HEADER {
            return Err(format!("a header of {length} bytes is longer than any of an array"));
        }
        let start = before + length;
        let text = file.get(before..start).ok_or_else(truncated)?;
        let text = std::str::from_utf8(text).map_err(|_| String::from("the header is no text"))?;
        Literal { text, rest: text }.layout(start)
    }

    /// Bytes of the whole file, where its elements are of a dtype.
    pub(super) fn file_length(&self) -> Option<u64> {
        let encoding = self.elements.as_ref().ok()?;
        // A product that is too large cannot be the length of anything.
        let elements = TensorType::new(encoding.dtype, &self.shape[..]).checked_byte_len().unwrap_or(usize::MAX);
        Some((self.start as u64).saturating_add(elements as u64))
    }

    /// Why the array can be no tensor, where that is so.
    pub(super) fn refusal(self) -> Reason {
        self.elements.err().unwrap_or_default()
    }

    /// The array of the file that the header belongs to.
    pub(super) fn tensor(self, file: Vec<u8>) -> Result<StoredTensor, Reason> {
        let Layout { elements, shape, columns_first, start } = self;
        let Encoding { dtype, big_endian } = elements.map_err(|reason| format!("the array {reason}"))?;
        let ty = TensorType::new(dtype, Shape::from(shape));
        let found = file.len() - start;
        match ty.checked_byte_len() {
            Some(expected) if expected == found => {}
            Some(expected) => return Err(format!("{ty} takes {expected} bytes, and the file has {found} for it")),
            None => {
                return Err(format!("{ty} takes more bytes than can be addressed, and the file has {found} for it"));
            }
        }
        let size = dtype.size();
        if !big_endian && !columns_first {
            let end = file.len();
            return StoredTensor::part_of(&Arc::new(file), start..end, ty);
        }
        let mut bytes = match columns_first {
            true => transposed(&file[start..], &ty.shape, size),
            false => file[start..].to_vec(),
        };
        if big_endian {
            bytes.chunks_exact_mut(size).for_each(<[u8]>::reverse);
        }
        StoredTensor::checked(ty, Arc::new(bytes))
    }
}

/// Row-major elements of the tensor that has these with the first index running fastest.
fn transposed(columns: &[u8], shape: &Shape, size: usize) -> Vec<u8> {
    let mut rows = Vec::with_capacity(columns.len());
    let mut index = vec![0; shape.rank()];
    for _ in 0..columns.len() / size {
        let position = index.iter().zip(shape.iter()).rev().fold(0, |position, (at, extent)| position * extent + at);
        rows.extend_from_slice(&columns[position * size..][..size]);
        for (at, extent) in index.iter_mut().zip(shape.iter()).rev() {
            *at += 1;
            if *at < *extent {
                break;
            }
            *at = 0;
        }
    }
    rows
}

/// The beginning of the file with a tensor of this type, up to its first element.
pub(super) fn header(ty: &TensorType) -> Result<Vec<u8>, Reason> {
    let name = code(ty.dtype).ok_or_else(|| {
        format!("NumPy's files have no element type for {}; .safetensors has, or convert it to f32", ty.dtype)
    })?;
    let order = if ty.dtype.size() == 1 { '|' } else { '<' };
    let shape = match &ty.shape[..] {
        [extent] => format!("({extent},)"),
        extents => format!("({})", extents.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")),
    };
    let mut text = format!("{{'descr': '{order}{name}', 'fortran_order': False, 'shape': {shape}, }}");
    // The first extent may grow to the longest number without moving the elements, as NumPy leaves room for it.
    const LONGEST_EXTENT: usize = 21;
    if let Some(first) = ty.shape.first() {
        text.extend(std::iter::repeat_n(' ', LONGEST_EXTENT - first.to_string().len()));
    }
    // Version 1, whose header's length takes two bytes, holds any shape of a rank that a tensor can have.
    let before = BEFORE_HEADER - 2;
    let padding = ALIGNMENT - (before + text.len() + 1) % ALIGNMENT;
    text.extend(std::iter::repeat_n(' ', padding));
    text.push('\n');
    let length = u16::try_from(text.len()).map_err(|_| format!("{ty} has too many dimensions for a .npy file"))?;
    Ok([MAGIC, &[1, 0], &length.to_le_bytes(), text.as_bytes()].concat())
}

/// NumPy's code of an element type, without its order of bytes.
const fn code(dtype: DType) -> Option<&'static str> {
    match dtype {
        DType::Bool => Some("b1"),
        DType::I32 => Some("i4"),
        DType::U32 => Some("u4"),
        DType::I64 => Some("i8"),
        DType::F16 => Some("f2"),
        DType::BF16 => None,
        DType::F32 => Some("f4"),
    }
}

/// What a type code means, or why it means nothing here.
fn encoding(description: &str) -> Result<Encoding, Reason> {
    let mut rest = description.chars();
    let order = rest.next().unwrap_or_default();
    let found = DType::ALL.into_iter().find(|&dtype| code(dtype) == Some(rest.as_str()));
    match (order, found) {
        ('<' | '=', Some(dtype)) => Ok(Encoding { dtype, big_endian: false }),
        ('>', Some(dtype)) => Ok(Encoding { dtype, big_endian: dtype.size() > 1 }),
        ('|', Some(dtype)) if dtype.size() == 1 => Ok(Encoding { dtype, big_endian: false }),
        _ if rest.as_str() == "V2" => Err(format!(
            "has elements of `{description}`, two bytes of any kind; bfloat16 is kept by .safetensors, not by NumPy"
        )),
        _ => Err(format!("has elements of `{}`, which Systole has no dtype for", description.escape_debug())),
    }
}

/// What is left of a header's text.
struct Literal<'a> {
    text: &'a str,
    rest: &'a str,
}

impl<'a> Literal<'a> {
    /// The whole dictionary.
    fn layout(mut self, start: usize) -> Result<Layout, Reason> {
        let (mut elements, mut columns_first, mut shape) = (None, None, None);
        self.expect("{")?;
        while !self.skip("}") {
            let key = self.string()?;
            self.expect(":")?;
            let known = match key {
                "descr" if self.peek("[") => {
                    self.pass_list()?;
                    elements.replace(Err(String::from("has elements of several fields"))).is_some()
                }
                "descr" => elements.replace(encoding(self.string()?)).is_some(),
                "fortran_order" => columns_first.replace(self.truth()?).is_some(),
                "shape" => shape.replace(self.extents()?).is_some(),
                _ => return Err(format!("the header has an unknown key `{}`", key.escape_debug())),
            };
            if known {
                return Err(format!("the header has two keys `{key}`"));
            }
            if !self.skip(",") && !self.peek("}") {
                return Err(self.unexpected("`,` or `}`"));
            }
        }
        if !self.rest.trim_start().is_empty() {
            return Err(self.unexpected("its end"));
        }
        match (elements, columns_first, shape) {
            (Some(elements), Some(columns_first), Some(shape)) => Ok(Layout { elements, shape, columns_first, start }),
            _ => Err(String::from("the header lacks one of the keys `descr`, `fortran_order` and `shape`")),
        }
    }

    fn string(&mut self) -> Result<&'a str, Reason> {
        let quote = if self.skip("'") { '\'' } else { '"' };
        if quote == '"' {
            self.expect("\"")?;
        }
        let (string, rest) = self.rest.split_once(quote).ok_or_else(|| self.unexpected("the end of a string"))?;
        self.rest = rest;
        Ok(string)
    }

    /// Leaves a list out. The brackets in it are counted and not followed, since they may nest to any depth.
    fn pass_list(&mut self) -> Result<(), Reason> {
        let mut open = 0;
        loop {
            if self.skip("[") || self.skip("(") {
                open += 1;
            } else if self.skip("]") || self.skip(")") {
                open -= 1;
            } else if self.peek("'") || self.peek("\"") {
                self.string()?;
            } else if !self.skip(",") {
                self.extent()?;
            }
            if open == 0 {
                return Ok(());
            }
        }
    }

    fn truth(&mut self) -> Result<bool, Reason> {
        match (self.skip("True"), self.skip("False")) {
            (true, false) => Ok(true),
            (false, true) => Ok(false),
            _ => Err(self.unexpected("`True` or `False`")),
        }
    }

    fn extents(&mut self) -> Result<Vec<usize>, Reason> {
        let mut extents = Vec::new();
        self.expect("(")?;
        while !self.skip(")") {
            extents.push(self.extent()?);
            if !self.skip(",") && !self.peek(")") {
                return Err(self.unexpected("`,` or `)`"));
            }
        }
        Ok(extents)
    }

    fn extent(&mut self) -> Result<usize, Reason> {
        self.rest = self.rest.trim_start();
        let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
        let extent = self.rest[..end].parse().map_err(|_| self.unexpected("an extent"))?;
        self.rest = &self.rest[end..];
        // Python 2 marked long numbers.
        self.skip("L");
        Ok(extent)
    }

    fn peek(&mut self, token: &str) -> bool {
        self.rest.trim_start().starts_with(token)
    }

    fn skip(&mut self, token: &str) -> bool {
        match self.rest.trim_start().strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, token: &str) -> Result<(), Reason> {
        if self.skip(token) { Ok(()) } else { Err(self.unexpected(&format!("`{token}`"))) }
    }

    fn unexpected(&self, expected: &str) -> Reason {
        let at = self.text.len() - self.rest.trim_start().len();
        format!("the header does not have {expected} at its byte {at}")
    }
}
