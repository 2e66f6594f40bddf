//! Where packages of weights are kept, and where they come from.

use std::env;
use std::path::PathBuf;

use systole_models::package::Store;

use crate::output::Failure;

/// Names the folder.
const FOLDER: &str = "SYSTOLE_CACHE";
/// Names the index, as it does for pip.
const INDEX: &str = "PIP_INDEX_URL";

/// The folder that `$SYSTOLE_CACHE` names, or `systole` in the user's cache folder; packages from the index that
/// `$PIP_INDEX_URL` names, or PyPI.
pub(crate) fn store() -> Result<Store, Failure> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty());
    let folder = match set(FOLDER) {
        Some(folder) => PathBuf::from(folder),
        None => dirs::cache_dir().ok_or(Failure::NoCache)?.join("systole"),
    };
    let store = Store::new(folder);
    Ok(match set(INDEX).and_then(|index| index.into_string().ok()) {
        Some(index) => store.with_index(index),
        None => store,
    })
}
