//! Where in the user's program a node was recorded.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

/// A source position: of the Rust caller, or one that an embedding front end gives (a Python file and line, say).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Origin {
    /// Nothing is known: a parsed module without locations, a generated trace.
    Unknown,
    /// A Rust call site, by `#[track_caller]`.
    Caller(&'static Location<'static>),
    /// A position in the embedding front end's own language.
    Named(Arc<str>),
}

impl Origin {
    /// The caller's call site.
    #[track_caller]
    pub fn caller() -> Self {
        Origin::Caller(Location::caller())
    }
}

/// `file:line:column`, the front end's own words, or `unknown origin`.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Unknown => f.write_str("unknown origin"),
            Origin::Caller(location) => write!(f, "{location}"),
            Origin::Named(name) => f.write_str(name),
        }
    }
}
