//! Random tensor programs, and the oracle that says whether they were run right.
//!
//! A [`Program`] is a *user's* program: not a trace, but the calls that make traces: record an op, clone a handle, drop
//! one (here or on another thread), read, flush, synchronize, go on in another stream. So what is tested is all of the
//! runtime, not only the compiler in it: where it cuts, what it finds dead, which buffers it reuses.
//!
//! [`generator`] makes programs, from a seed alone: the same on every platform. [`oracle`] runs one on the reference
//! interpreter and on devices, and compares every tensor that the program reads or keeps bit for bit. [`minimize`] cuts
//! a failing program down, [`text`] writes it as something that a person can read and a test can run again.
//!
//! This is an ordinary library and knows no fuzz engine; [`generator::strategy`] wraps the generator for proptest.
//! Random *traces* alone were considered: they are simpler, and blind to liveness, donation, cuts and streams, where a
//! lazy runtime goes wrong first.

pub mod generator;
pub mod minimize;
pub mod oracle;
pub mod program;
pub mod text;

pub use generator::generate;
pub use oracle::{Coverage, Devices, Mismatch, Setup, check, cut_down};
pub use program::{Handle, Program, Step};
