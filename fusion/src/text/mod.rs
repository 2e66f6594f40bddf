//! The text form of a trace: StableHLO's textual MLIR.
//!
//! One text form, no second one. What [`print()`] writes goes to PJRT compilers, dumps and error reports; what [`parse`]
//! reads comes from `systole run`, the test corpus, other tools' exports and fuzz reproducers.
//!
//! **Printing** follows StableHLO's own printer: pretty forms where the dialect has them, the generic form otherwise
//! (`gather`), value names `%0`, `%c`, `%cst_1`, the `applies` form for reduce bodies of one op. Printing is total.
//! Elements round-trip bit by bit: a float is written as the shortest of the usual forms that reads back to the same
//! bits, NaNs and infinities in hexadecimal, more than a hundred elements as one hex string.
//!
//! **Parsing** takes pretty and generic forms of every op in the table, with or without `module`. A module's functions
//! other than the entry (`@main`, or the only function) are inlined where they are called. Types are inferred, and a
//! type that the text states must agree. Attributes that carry no semantics here (`mhlo.*`, layouts) are skipped; what would change semantics (a dot algorithm, a dtype or op that
//! the table lacks, a dynamic extent) is an error of its own kind, [`ParseError::is_unsupported`]. Locations become
//! [`Origin::Named`](crate::ir::Origin::Named).
//!
//! The parser is safe on any bytes: it indexes by tokens only, recursion has a depth limit, inlining a budget.
//! `print(parse(print(t))) == print(t)` for every well-typed trace whose rank stays within 64; the trace itself comes
//! back up to a dense constant of equal elements, which becomes a splat, as in MLIR.
//!
//! Rejected: a grammar crate or an MLIR binding. The subset is small, error messages matter more than generality, and
//! a dependency would own the one format that everything here meets.

mod attribute;
mod attrs;
mod block;
mod error;
mod lexer;
mod literal;
mod module;
mod parser;
mod pretty;
mod printer;

pub use error::ParseError;
pub use module::parse;
pub use printer::{PrintOptions, print, print_with};
