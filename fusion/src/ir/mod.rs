//! The intermediate representation: StableHLO, as one uniform node.
//!
//! A [`Trace`] is a pure SSA program: inputs, nodes in program order, outputs. Every node has the same form, whatever
//! its op: an [`Opcode`], operands, [`Attrs`], regions, results and an [`Origin`]. What an op *is* stands in one row of
//! the [op table](ops); what follows from its *class* (inference, legality, loop shape, lowering) is written once per
//! class. Semantics are StableHLO's, made exact by docs/numerics.md.
//!
//! The text form of a trace is StableHLO's textual MLIR ([`text`](crate::text)); there is no second one.

pub mod attrs;
pub mod ops;
pub mod origin;
pub mod region;
pub mod trace;

pub use attrs::{Attrs, DotDims, GatherDims, Literal, PadAmounts, SliceLimits};
pub use ops::{Accuracy, Dtypes, Nan, OpClass, OpInfo, Opcode};
pub use origin::Origin;
pub use trace::{Def, Node, NodeId, Region, Trace, Value, ValueId};
