//! Texts from a file.

use std::fs;
use std::io;
use std::path::Path;

use crate::output::Failure;

/// Stands for stdin.
const STDIN: &str = "-";

/// What a file is called.
pub(crate) fn name(path: &Path) -> String {
    if path == Path::new(STDIN) { String::from("stdin") } else { path.display().to_string() }
}

/// The lines of a file, or of stdin for `-`, without blank ones.
pub(crate) fn lines(path: &Path) -> Result<Vec<String>, Failure> {
    let text = if path == Path::new(STDIN) { io::read_to_string(io::stdin()) } else { fs::read_to_string(path) };
    let text = text.map_err(|error| Failure::Input(path.to_path_buf(), error))?;
    // Some editors mark the beginning of UTF-8.
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    Ok(text.lines().filter(|line| !line.trim().is_empty()).map(String::from).collect())
}
