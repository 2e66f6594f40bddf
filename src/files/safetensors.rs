//! `.safetensors`: a JSON header with each tensor's dtype, shape and place, then the elements.
//!
//! The `safetensors` crate reads the header and checks that the tensors fill the file without gap or overlap. It keeps
//! them in a map, where the order of names is lost and of doubled ones all but one, so the entries are read here again.
//! Of its writer only the form of an entry is used: that wants files to be only their owner's, and orders tensors by name.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;

use safetensors::tensor::{Dtype, TensorInfo};
use safetensors::{SafeTensorError, SafeTensors};
use serde::Deserializer;
use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use systole_kernels::{DType, TensorType};

use super::archive::{Archive, Member};
use super::replacement::Target;
use super::{Reason, StoredTensor};

/// The key beside the tensors' names.
const METADATA: &str = "__metadata__";
/// Bytes of the header's length, and what headers are filled up to a multiple of.
const WORD: usize = 8;

pub(super) fn decode(file: Vec<u8>) -> Result<Archive, Reason> {
    let damaged = |reason: &dyn fmt::Display| format!("this is no whole safetensors file ({reason})");
    let (length, header) = SafeTensors::read_metadata(&file).map_err(|error| match error {
        SafeTensorError::TensorInvalidInfo | SafeTensorError::ValidationOverflow => {
            missized(&file).unwrap_or_else(|| damaged(&error))
        }
        SafeTensorError::MetadataIncompleteBuffer => damaged(&cut_short(&file).unwrap_or_else(|| error.to_string())),
        error => damaged(&error),
    })?;
    let entries = entries(&file[WORD..][..length]).map_err(|error| damaged(&error))?;
    let metadata = header.metadata().clone().unwrap_or_default().into_iter().collect();
    let elements = WORD + length;
    let file = Arc::new(file);
    let mut members = Vec::with_capacity(entries.len());
    for (name, TensorInfo { dtype, shape, data_offsets: (start, end) }) in entries {
        let tensor = match from_file(dtype) {
            None => Err(format!("has elements of {dtype:?}, which Systole has no dtype for")),
            Some(dtype) => {
                let ty = TensorType::new(dtype, shape);
                let tensor = StoredTensor::part_of(&file, elements + start..elements + end, ty);
                Ok(tensor.map_err(|reason| format!("tensor `{name}`: {reason}"))?)
            }
        };
        members.push(Member { name, tensor });
    }
    Ok(Archive::from_members(members)?.with_metadata(metadata))
}

/// What the header says of each tensor, in its order; a doubled name is an error.
fn entries(header: &[u8]) -> Result<Vec<(String, TensorInfo)>, serde_json::Error> {
    struct Entries;

    impl<'de> Visitor<'de> for Entries {
        type Value = Vec<(String, TensorInfo)>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("tensors by name")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let (mut entries, mut seen) = (Vec::new(), HashSet::new());
            while let Some(name) = map.next_key::<String>()? {
                if !seen.insert(name.clone()) {
                    return Err(A::Error::custom(format_args!("there are two tensors `{name}`")));
                }
                if name == METADATA {
                    map.next_value::<IgnoredAny>()?;
                } else {
                    let info = map.next_value()?;
                    entries.push((name, info));
                }
            }
            Ok(entries)
        }
    }

    serde_json::Deserializer::from_slice(header).deserialize_map(Entries)
}

/// What a file says of its tensors, if it says anything, and how many bytes it has for them.
fn said(file: &[u8]) -> Option<(Vec<(String, TensorInfo)>, usize)> {
    let length = usize::try_from(u64::from_le_bytes(*file.first_chunk()?)).ok()?;
    let (header, elements) = file.get(WORD..)?.split_at_checked(length)?;
    Some((entries(header).ok()?, elements.len()))
}

/// Which tensor of a file does not have the size that it is said to have.
fn missized(file: &[u8]) -> Option<Reason> {
    let (entries, _) = said(file)?;
    entries.into_iter().find_map(|(name, TensorInfo { dtype, shape, data_offsets: (start, end) })| {
        let bits = shape.iter().try_fold(dtype.bitsize(), |bits, &extent| bits.checked_mul(extent));
        let place = end.checked_sub(start)?;
        (bits != place.checked_mul(8)).then(|| match bits {
            Some(bits) => {
                format!("tensor `{name}`: {dtype:?} {shape:?} takes {} bytes, and has {place} of the file", bits / 8)
            }
            None => {
                format!("tensor `{name}`: {dtype:?} {shape:?} is too large to address, and has {place} of the file")
            }
        })
    })
}

/// How the size of a file is not that of its tensors.
fn cut_short(file: &[u8]) -> Option<Reason> {
    let (entries, found) = said(file)?;
    let expected = entries.iter().map(|(_, info)| info.data_offsets.1).max().unwrap_or(0);
    Some(format!("its tensors take {expected} bytes, and it has {found} for them"))
}

/// The tensors in an order in which each starts at a multiple of its elements' size.
pub(super) fn ordered<'a>(mut tensors: Vec<(&'a str, &'a StoredTensor)>) -> Vec<(&'a str, &'a StoredTensor)> {
    tensors.sort_by_key(|(_, tensor)| std::cmp::Reverse(tensor.ty().dtype.size()));
    tensors
}

/// The beginning of the file with these tensors.
pub(super) fn header(
    tensors: &[(&str, &StoredTensor)],
    metadata: &BTreeMap<String, String>,
) -> Result<Vec<u8>, Reason> {
    let json = |error: serde_json::Error| error.to_string();
    let mut entries = Vec::with_capacity(tensors.len() + 1);
    if !metadata.is_empty() {
        entries.push(format!("\"{METADATA}\":{}", serde_json::to_string(metadata).map_err(json)?));
    }
    let mut end = 0;
    for (name, tensor) in tensors {
        if *name == METADATA {
            return Err(format!("no tensor can be named `{METADATA}` in a safetensors file"));
        }
        let start = end;
        end += tensor.bytes().len();
        let TensorType { dtype, shape } = tensor.ty();
        let info = TensorInfo { dtype: in_file(*dtype), shape: shape.to_vec(), data_offsets: (start, end) };
        let name = serde_json::to_string(name).map_err(json)?;
        entries.push(format!("{name}:{}", serde_json::to_string(&info).map_err(json)?));
    }
    let mut text = format!("{{{}}}", entries.join(","));
    text.extend(std::iter::repeat_n(' ', text.len().next_multiple_of(WORD) - text.len()));
    let mut header = (text.len() as u64).to_le_bytes().to_vec();
    header.extend(text.into_bytes());
    Ok(header)
}

pub(super) fn encode(tensors: &[(&str, &StoredTensor)], header: &[u8], file: &mut Target<'_>) -> io::Result<()> {
    file.write_all(header)?;
    tensors.iter().try_for_each(|(_, tensor)| file.write_all(tensor.bytes()))
}

fn in_file(dtype: DType) -> Dtype {
    match dtype {
        DType::Bool => Dtype::BOOL,
        DType::I32 => Dtype::I32,
        DType::U32 => Dtype::U32,
        DType::I64 => Dtype::I64,
        DType::F16 => Dtype::F16,
        DType::BF16 => Dtype::BF16,
        DType::F32 => Dtype::F32,
    }
}

fn from_file(found: Dtype) -> Option<DType> {
    DType::ALL.into_iter().find(|&dtype| in_file(dtype) == found)
}
