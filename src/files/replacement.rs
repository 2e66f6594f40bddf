//! Files that appear under their name only when they are whole.

use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::Builder;

/// Where a file that is being written waits for its content.
pub(super) type Target<'a> = BufWriter<&'a mut File>;

/// Gives the file at `path` the content that `fill` writes. Where anything fails, what was there before stays, and
/// nothing else is left; a process that is killed leaves a file whose name begins with `.systole-` beside it.
///
/// A link stays one, and its target is replaced. What is no regular file cannot be replaced without ceasing to be what it
/// is, and is refused.
pub(super) fn write(path: &Path, fill: impl FnOnce(&mut Target<'_>) -> io::Result<()>) -> io::Result<()> {
    let (path, before) = match fs::canonicalize(path) {
        Ok(path) => {
            let metadata = fs::metadata(&path)?;
            if !metadata.is_file() {
                return Err(io::Error::other("it is there and no regular file"));
            }
            (path, Some(metadata.permissions()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => (path.to_path_buf(), None),
        Err(error) => return Err(error),
    };
    let mut builder = Builder::new();
    builder.prefix(".systole-");
    if let Some(permissions) = before.or_else(for_anybody) {
        builder.permissions(permissions);
    }
    let mut file = builder.tempfile_in(folder(&path))?;
    let mut target = BufWriter::new(file.as_file_mut());
    fill(&mut target)?;
    target.flush()?;
    drop(target);
    file.as_file().sync_all()?;
    file.persist(&path).map_err(|error| error.error)?;
    Ok(())
}

fn folder(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

/// What a new file's permissions are taken from by the user's mask. Temporary files are else made for their user alone.
#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "there are none elsewhere")]
fn for_anybody() -> Option<Permissions> {
    use std::os::unix::fs::PermissionsExt;
    Some(Permissions::from_mode(0o666))
}

#[cfg(not(unix))]
fn for_anybody() -> Option<Permissions> {
    None
}
