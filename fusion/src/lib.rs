//! StableHLO traces, and how they become a few programs.
//!
//! In the order in which a trace flows: [`ir`] holds the op table and the trace; [`infer`] gives result types and the
//! only shape errors; [`verify`] checks traces from elsewhere; [`text`] prints and parses
//! them; [`mod@reference`] interprets them naively, as the oracle. [`canonical`] turns
//! a trace into a key without extents; [`partition`] grows fusion groups with
//! [`legality`] and [`cost`]; [`plan`] orders them and
//! decides lifetimes and donation; [`lower`] gives each group's tile program;
//! [`cache`] keeps plans.
//!
//! This crate does no I/O, reads no environment, starts no thread, and knows no device.

mod access;
pub mod cache;
pub mod canonical;
pub mod cost;
pub mod infer;
pub mod ir;
pub mod legality;
pub mod lower;
pub mod partition;
pub mod plan;
pub mod reference;
pub mod text;
pub mod verify;
