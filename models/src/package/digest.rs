//! SHA-256 of what passes through.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use sha2::{Digest, Sha256};

/// Bytes between two reports of progress.
pub(super) const CHUNK: usize = 1 << 18;

/// Copies `from` to `to` and gives the digest of what was copied, in lower-case hexadecimal digits.
pub(super) fn copy(from: &mut dyn Read, to: &mut dyn io::Write, advance: &mut dyn FnMut(u64)) -> io::Result<String> {
    let mut digest = Sha256::new();
    let mut chunk = vec![0; CHUNK];
    let mut done = 0;
    loop {
        match from.read(&mut chunk) {
            Ok(0) => break,
            Ok(length) => {
                digest.update(&chunk[..length]);
                to.write_all(&chunk[..length])?;
                done += length as u64;
                advance(done);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(digest.finalize().iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string cannot fail");
        text
    }))
}

/// The digest of a file.
pub(super) fn of_file(path: &Path, advance: &mut dyn FnMut(u64)) -> io::Result<String> {
    copy(&mut File::open(path)?, &mut io::sink(), advance)
}
