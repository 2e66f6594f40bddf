//! The `systole` command.
fn main() {}
