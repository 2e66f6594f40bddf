//! `.npz`: a zip archive with a `.npy` file for each array.
//!
//! Sizes that an archive declares are compared with what its members are, so that no byte is unpacked that no array asks
//! for; what an archive can unpack to is then bounded by its own size times deflate's best ratio, about a thousand, as
//! members that share bytes are refused. `numpy.savez` stores its members, `numpy.savez_compressed` deflates them; other
//! methods and encrypted members are refused. Members are written stored, without a date: the same tensors give the same
//! bytes.

use std::io::{self, Cursor, Read, Write};

use zip::read::ZipFile;
use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipArchive, ZipWriter};

use super::archive::{Archive, Member};
use super::npy::{self, LONGEST_PREAMBLE, Layout};
use super::replacement::Target;
use super::{Reason, StoredTensor};

/// What NumPy puts behind the name of an array.
const SUFFIX: &str = ".npy";

pub(super) fn decode(file: Vec<u8>) -> Result<Archive, Reason> {
    let damaged = |error: ZipError| format!("this is no whole zip archive ({error})");
    let mut archive = ZipArchive::new(Cursor::new(file)).map_err(damaged)?;
    if archive.has_duplicate_names() {
        return Err(String::from("two members have the same name"));
    }
    if archive.has_overlapping_entries().map_err(damaged)? {
        return Err(String::from("members share bytes of the file"));
    }
    let mut members = Vec::with_capacity(archive.len());
    for position in 0..archive.len() {
        let entry = archive.by_index_data(position).map_err(damaged)?;
        let name = entry.name().map_err(damaged)?.into_owned();
        if entry.is_dir() {
            continue;
        }
        let Some(array) = name.strip_suffix(SUFFIX) else {
            let reason = format!("is no array: its member's name does not end in {SUFFIX}");
            members.push(Member { name, tensor: Err(reason) });
            continue;
        };
        let in_array = |reason: Reason| format!("tensor `{array}`: {reason}");
        let mut member = archive.by_index(position).map_err(|error| in_array(error.to_string()))?;
        let tensor = array_of(&mut member).map_err(in_array)?;
        members.push(Member { name: array.to_owned(), tensor });
    }
    Archive::from_members(members)
}

/// The array that a member is, or, inside, why it can be none of ours.
fn array_of(member: &mut ZipFile<'_, Cursor<Vec<u8>>>) -> Result<Result<StoredTensor, Reason>, Reason> {
    let declared = member.size();
    let mut bytes = Vec::new();
    unpack(member, LONGEST_PREAMBLE.min(declared), &mut bytes)?;
    let layout = Layout::of(&bytes)?;
    let Some(length) = layout.file_length() else { return Ok(Err(layout.refusal())) };
    if length != declared {
        return Err(format!("the member has {declared} bytes, and its header asks for {length}"));
    }
    let rest = length - bytes.len() as u64;
    unpack(member, rest, &mut bytes)?;
    // The end of a member is where its checksum is compared.
    if member.read(&mut [0]).map_err(|error| error.to_string())? != 0 {
        return Err(format!("the member has more than its {declared} bytes"));
    }
    layout.tensor(bytes).map(Ok)
}

/// Appends so many bytes of `from`; room is taken as they come, whatever they were said to be.
fn unpack(from: &mut impl Read, length: u64, to: &mut Vec<u8>) -> Result<(), Reason> {
    let before = to.len();
    from.take(length).read_to_end(to).map_err(|error| error.to_string())?;
    match (to.len() - before) as u64 {
        unpacked if unpacked < length => Err(format!("the member ends {} bytes early", length - unpacked)),
        _ => Ok(()),
    }
}

/// The beginnings of the members, if all tensors can be arrays.
pub(super) fn headers(tensors: &[(&str, &StoredTensor)]) -> Result<Vec<Vec<u8>>, Reason> {
    let header = |&(name, tensor): &(&str, &StoredTensor)| {
        npy::header(tensor.ty()).map_err(|reason| format!("tensor `{name}`: {reason}"))
    };
    tensors.iter().map(header).collect()
}

pub(super) fn encode(tensors: &[(&str, &StoredTensor)], headers: &[Vec<u8>], file: &mut Target<'_>) -> io::Result<()> {
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Stored)
        .last_modified_time(DateTime::default());
    let mut archive = ZipWriter::new(file);
    for (&(name, tensor), header) in tensors.iter().zip(headers) {
        let length = header.len() as u64 + tensor.bytes().len() as u64;
        let options = options.large_file(length >= u64::from(u32::MAX));
        archive.start_file(format!("{name}{SUFFIX}"), options)?;
        archive.write_all(header)?;
        archive.write_all(tensor.bytes())?;
    }
    archive.finish()?;
    Ok(())
}
