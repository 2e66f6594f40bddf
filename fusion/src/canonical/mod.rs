//! Canonical keys: what a trace *is*, apart from the numbers it runs with.
//!
//! [`canonicalize`] splits a trace in two. The [`PlanKey`] holds everything that planning may look at: ops, dtypes,
//! ranks, structural attributes, which values are outputs, which inputs may be reused, and the *relation pattern* of
//! extents (0, 1, and which of the others the ops force to be equal). The [`Keyed::params`] and [`Keyed::scalars`]
//! hold the rest: the extents themselves, slice starts, strides, pad amounts, the values of constants. A new shape with
//! an old pattern, a new learning rate, a new position in a sequence: the same key, other arguments.
//!
//! That planning sees nothing else is no matter of care: [`crate::plan::Plan::build`] takes the key, and a
//! [`SymbolicTrace`] decoded from it is the only trace it ever has.
//!
//! **Arguments.** Extents are numbered by first appearance, those that must be equal being one parameter: that is the
//! relation pattern (module `extents`). Two that happen to be equal are two, or each length that meets a width by
//! chance would be a plan of its own. Slice starts, strides other than 1, pad amounts and concatenation offsets are
//! numbered in the same sequence but never merged by value, since two positions that happen to be equal say nothing
//! about structure. For the same reason constants are never merged: each takes the next scalar. A slice's `limit` and a
//! pad's `high` occur nowhere: the result extent says what is needed of them.
//!
//! **Form.** A key is a flat sequence of words and a hash. Equality compares hash and words, so a collision costs time
//! and never bits. Per node nothing is allocated. Rejected: a tree of enums (an allocation and a pointer chase per
//! node), and hashing alone (a wrong plan once in 2^64 is still a wrong plan).
//!
//! **Does not** depend on value ids, origins, threads, or on where in program order inputs were declared. Dense
//! constants have no canonical form here: the runtime passes them as inputs.

mod difference;
mod extents;
mod symbolic;
mod words;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use smallvec::SmallVec;
use systole_kernels::TensorType;
use systole_kernels::program::{Extent, Winner};

use crate::infer::MAX_RANK;
use crate::ir::region::{Body, as_body};
use crate::ir::{Attrs, Def, Literal, Node, NodeId, Trace, ValueId};
use extents::Extents;
use words::Writer;

pub(crate) use difference::describe;
pub use difference::{Difference, explain};
pub use symbolic::{SymbolicAttrs, SymbolicInput, SymbolicNode, SymbolicTrace};

/// The canonical key of a trace.
#[derive(Clone)]
pub struct PlanKey {
    words: Arc<[u32]>,
    hash: u64,
}

impl PlanKey {
    fn new(words: &[u32]) -> Self {
        PlanKey { words: words.into(), hash: words::hash(words) }
    }

    /// The hash that [`Hash`] writes: a function of the words alone, the same in every process.
    pub fn hash64(&self) -> u64 {
        self.hash
    }

    /// Length in words, for statistics.
    pub fn len_words(&self) -> usize {
        self.words.len()
    }

    /// The trace that the key describes.
    pub fn decode(&self) -> SymbolicTrace {
        symbolic::decode(&self.words)
    }
}

impl PartialEq for PlanKey {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && (Arc::ptr_eq(&self.words, &other.words) || self.words == other.words)
    }
}

impl Eq for PlanKey {}

impl Hash for PlanKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl fmt::Debug for PlanKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PlanKey({:016x}, {} words)", self.hash, self.words.len())
    }
}

impl AsRef<PlanKey> for PlanKey {
    fn as_ref(&self) -> &PlanKey {
        self
    }
}

/// The canonical key of a fusion group: that of the group cut out of its trace, with its own numbering of parameters
/// and scalars. The same group in two traces, or at two places of one, has one key.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct GroupKey(PlanKey);

impl GroupKey {
    /// The group as a trace of its own.
    pub fn decode(&self) -> SymbolicTrace {
        self.0.decode()
    }

    /// As [`PlanKey::hash64`].
    pub fn hash64(&self) -> u64 {
        self.0.hash
    }
}

impl AsRef<PlanKey> for GroupKey {
    fn as_ref(&self) -> &PlanKey {
        &self.0
    }
}

/// A trace, split into structure and arguments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Keyed {
    /// Structure.
    pub key: PlanKey,
    /// The launch parameters: [`Extent::Param`]`(n)` of the decoded trace is `params[n]`.
    pub params: Params,
    /// The bits of the splat constants, in program order.
    pub scalars: Scalars,
}

/// Launch parameters; inline for the traces of one op that strict mode keys all day.
pub type Params = SmallVec<[i64; 16]>;
/// Launch scalars, as bits.
pub type Scalars = SmallVec<[u64; 8]>;

/// A group cut out of a trace: its key, and where its arguments come from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyedGroup {
    /// The group's key.
    pub key: GroupKey,
    /// Group parameter `n` is parameter `params[n]` of the trace.
    pub params: Vec<u16>,
    /// Group scalar `n` is scalar `scalars[n]` of the trace.
    pub scalars: Vec<u16>,
}

/// Why a trace has no canonical form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reason {
    DenseConstant,
    ReduceBody,
    TooLarge,
}

/// A trace without canonical form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unsupported {
    node: Option<NodeId>,
    reason: Reason,
}

impl Unsupported {
    /// The node that stands in the way; `None` where it is an input.
    pub fn node(&self) -> Option<NodeId> {
        self.node
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.reason {
            Reason::DenseConstant => "a dense constant must be passed as an input",
            Reason::ReduceBody => "the body of this reduce is none that reductions know",
            Reason::TooLarge => "more than 65,000 distinct extents and constants, operands, or dimensions",
        })
    }
}

impl std::error::Error for Unsupported {}

/// Splits a trace into key and arguments. `donatable[i]` says that nobody but this trace will read input `i` again.
///
/// # Errors
/// The trace has a dense constant, a reduce body that is none reductions know, or more parts than a key can number.
///
/// # Panics
/// `donatable` does not have one entry per input.
pub fn canonicalize(trace: &Trace, donatable: &[bool]) -> Result<Keyed, Unsupported> {
    assert_eq!(donatable.len(), trace.inputs().len(), "one donation flag per input");
    let mut writer = Writer::with_capacity(8 + 2 * donatable.len() + 10 * trace.nodes().len());
    let extents = Extents::of(trace);
    let mut arguments = Arguments::new(&extents);
    let number = Numbering::of(trace);

    writer.header(donatable.len(), trace.values().len() - donatable.len(), trace.outputs().len());
    for (&input, &donatable) in trace.inputs().iter().zip(donatable) {
        let ty = trace.ty(input);
        if ty.rank() > MAX_RANK {
            return Err(Unsupported { node: None, reason: Reason::TooLarge });
        }
        writer.ty(ty.dtype, donatable, arguments.shape(input, ty));
    }
    for (node, id) in trace.nodes().iter().zip(0..) {
        for (at, result) in node.results().enumerate() {
            write_result(trace, node, (at, result), &number, &mut writer, &mut arguments)
                .map_err(|reason| Unsupported { node: Some(NodeId(id)), reason })?;
        }
    }
    for &output in trace.outputs() {
        writer.word(number.of_value(output));
    }
    if arguments.params.len() > MAX_PARAMS || arguments.scalars.len() > MAX_PARAMS {
        return Err(Unsupported { node: None, reason: Reason::TooLarge });
    }
    let words = writer.finish(arguments.params.len(), arguments.scalars.len());
    Ok(Keyed { key: PlanKey::new(&words), params: arguments.params, scalars: arguments.scalars })
}

/// Two codes are taken by the extents 0 and 1.
const MAX_PARAMS: usize = u16::MAX as usize - 2;

/// Whether an extent is part of a trace's structure, and no argument.
fn is_structural(extent: i64) -> bool {
    extent == 0 || extent == 1
}

/// Writes result number `at` of a node as a node of its own.
fn write_result(
    trace: &Trace,
    node: &Node,
    (at, result): (usize, ValueId),
    number: &Numbering,
    writer: &mut Writer,
    arguments: &mut Arguments<'_>,
) -> Result<(), Reason> {
    let ty = trace.ty(result);
    let operand = |i: usize| trace.ty(node.operands[i]);
    let widest = node.operands.iter().map(|&value| trace.ty(value).rank()).fold(ty.rank(), usize::max);
    if widest > MAX_RANK || node.operands.len() > usize::from(u16::MAX) || arguments.params.len() > MAX_PARAMS {
        return Err(Reason::TooLarge);
    }
    let body = match node.regions.first() {
        Some(body) => Some(as_body(body).ok_or(Reason::ReduceBody)?),
        None => None,
    };
    if let Some(Body::Each(_)) = body {
        let own = [node.operands[at], node.operands[node.operands.len() / 2 + at]];
        writer.node(node.op, own.into_iter().map(|value| number.of_value(value)));
    } else {
        writer.node(node.op, node.operands.iter().map(|&value| number.of_value(value)));
    }
    writer.ty(ty.dtype, false, arguments.shape(result, ty));
    match &node.attrs {
        // What these say is in the result type.
        Attrs::None | Attrs::Convert(_) | Attrs::Reshape(_) | Attrs::DynamicSlice(_) => {}
        Attrs::Constant(Literal::Splat(_, value)) => arguments.scalars.push(value.bits()),
        Attrs::Constant(Literal::Dense(..)) => return Err(Reason::DenseConstant),
        Attrs::Iota { dimension, .. } => writer.word(*dimension),
        Attrs::Concatenate(dimension) => {
            writer.word(*dimension);
            let mut offset = 0;
            let extents = (0..node.operands.len() - 1).map(|i| operand(i).shape[*dimension as usize] as i64);
            writer.extents(extents.map(|extent| {
                offset += extent;
                arguments.argument(offset)
            }));
        }
        Attrs::Compare { direction, order } => writer.compare(*direction, *order),
        Attrs::BroadcastInDim { dimensions, .. } => writer.dims(dimensions),
        Attrs::Transpose(permutation) => writer.dims(permutation),
        Attrs::Slice(limits) => {
            writer.extents(limits.start.iter().map(|&start| arguments.argument(start)));
            writer.extents(limits.stride.iter().map(|&stride| arguments.unless(stride, 1)));
        }
        Attrs::Reverse(dims) => {
            writer.word(dims.len() as u32);
            writer.dims(dims);
            // An extent of 0 or 1 has nothing to reverse.
            let last = dims.iter().map(|&dim| operand(0).shape[dim as usize] as i64 - 1);
            writer.extents(last.map(|last| if last > 0 { arguments.argument(last) } else { Extent::ZERO }));
        }
        Attrs::Pad(amounts) => {
            writer.extents(amounts.low.iter().map(|&low| arguments.argument(low)));
            writer.extents(amounts.interior.iter().map(|&interior| arguments.unless(interior, 0)));
        }
        Attrs::Reduce(dims) => match body.ok_or(Reason::ReduceBody)? {
            Body::Each(monoids) => writer.reduce(monoids[at], dims),
            Body::Arg(extreme) => {
                writer.arg_reduce(extreme, if at == 0 { Winner::Value } else { Winner::Index }, dims);
            }
        },
        Attrs::Dot(dims) => writer.dot(dims),
        Attrs::Gather(dims) => {
            writer.gather(dims);
            let operand = node.operands[0];
            let sizes = dims.slice_sizes.iter().zip(trace.ty(operand).shape.iter()).enumerate();
            writer.extents(sizes.map(|(dim, (&size, &extent))| {
                if size == extent as i64 { arguments.extent(operand, dim, size) } else { arguments.own_extent(size) }
            }));
        }
    }
    Ok(())
}

/// Canonical numbers of a trace's values: inputs in order, then results in program order, each being a node.
struct Numbering {
    /// `None` where every input was declared before the first node: then ids are canonical already.
    numbers: Option<Vec<u32>>,
}

impl Numbering {
    fn of(trace: &Trace) -> Self {
        let inputs = trace.inputs().len() as u32;
        let first = trace.inputs().iter().zip(0..).all(|(&input, i)| input == ValueId(i));
        if first {
            return Numbering { numbers: None };
        }
        // Values are numbered in program order.
        let mut next = inputs;
        let mut number = |def: Def| match def {
            Def::Input(input) => input,
            Def::Node { .. } => {
                next += 1;
                next - 1
            }
        };
        Numbering { numbers: Some(trace.values().iter().map(|value| number(value.def)).collect()) }
    }

    fn of_value(&self, value: ValueId) -> u32 {
        self.numbers.as_ref().map_or(value.0, |numbers| numbers[value.index()])
    }
}

/// Launch arguments in order of appearance.
struct Arguments<'a> {
    params: Params,
    scalars: Scalars,
    extents: &'a Extents,
    /// The parameter of each class of extents, where it has appeared; [`NONE`] elsewhere.
    of_class: SmallVec<[u16; 64]>,
}

/// No parameter; there are fewer than that.
const NONE: u16 = u16::MAX;

impl<'a> Arguments<'a> {
    fn new(extents: &'a Extents) -> Self {
        let of_class = SmallVec::from_elem(NONE, extents.len());
        Arguments { params: Params::new(), scalars: Scalars::new(), extents, of_class }
    }

    fn shape<'b>(
        &'b mut self,
        value: ValueId,
        ty: &'b TensorType,
    ) -> impl ExactSizeIterator<Item = Extent> + use<'a, 'b> {
        ty.shape.iter().enumerate().map(move |(dim, &extent)| self.extent(value, dim, extent as i64))
    }

    fn extent(&mut self, value: ValueId, dim: usize, extent: i64) -> Extent {
        if is_structural(extent) {
            return Extent::Fixed(extent);
        }
        let class = self.extents.class(value, dim) as usize;
        if self.of_class[class] == NONE {
            self.of_class[class] = self.push(extent);
        }
        Extent::Param(self.of_class[class])
    }

    /// An extent that is no value's.
    fn own_extent(&mut self, extent: i64) -> Extent {
        if is_structural(extent) { Extent::Fixed(extent) } else { self.argument(extent) }
    }

    fn argument(&mut self, value: i64) -> Extent {
        Extent::Param(self.push(value))
    }

    fn unless(&mut self, value: i64, structural: i64) -> Extent {
        if value == structural { Extent::Fixed(value) } else { self.argument(value) }
    }

    /// Numbers beyond the range wrap here and are refused by [`canonicalize`] before anyone sees them.
    fn push(&mut self, value: i64) -> u16 {
        self.params.push(value);
        (self.params.len() - 1) as u16
    }
}
