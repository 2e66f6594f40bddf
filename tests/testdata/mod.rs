//! Data for tests that are no part of this repository.
//!
//! They lie in the directory that `SYSTOLE_TESTDATA` names, or else in `../shared` beside the workspace. A test that
//! lacks them says so and passes.

use std::fmt::Display;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The file or folder of that path among the data, if it is there.
pub(crate) fn find(path: &str) -> Option<PathBuf> {
    let directory = match std::env::var_os("SYSTOLE_TESTDATA") {
        Some(directory) => PathBuf::from(directory),
        None => {
            let crates = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
            let mut workspace = crates.filter(|folder| folder.join("Cargo.lock").exists());
            workspace.next().expect("a crate lies in the workspace").join("../shared")
        }
    };
    let path = directory.join(path);
    if !path.exists() {
        say_skipped(format_args!("no {} (SYSTOLE_TESTDATA)", path.display()));
        return None;
    }
    Some(path)
}

/// Says why a test does nothing, past the harness's capture: it is seen in every run.
pub(crate) fn say_skipped(reason: impl Display) {
    let _ = writeln!(std::io::stderr(), "skipped: {reason}");
}
