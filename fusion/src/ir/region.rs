//! Reduce bodies as regions, and regions as reduce bodies.
//!
//! The IR spells a reduction's body as a region, as StableHLO does, so that any body can be written one day. What
//! kernels and planner know is a [`Body`]; the functions here go between. Their regions are made once per process:
//! recording a sum costs a clone of an `Arc`.
//!
//! A reduce of several operands has as many results. Its body combines each operand by itself, or it is the one that
//! frameworks write for argmax and argmin, comparing values and picking their indices along with them.

use std::sync::{Arc, LazyLock};

use smallvec::{SmallVec, smallvec};
use systole_kernels::program::{Comparison, Extreme, Monoid, Order};
use systole_kernels::{DType, TensorType};

use crate::ir::{Attrs, Node, Opcode, Origin, Region, Trace, ValueId};

/// What the body of a reduce does.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Body {
    /// Combines each operand by itself.
    Each(SmallVec<[Monoid; 1]>),
    /// Picks, of a value and an index beside it, those that come first in the order of docs/numerics.md.
    Arg(Extreme),
}

impl From<Monoid> for Body {
    fn from(monoid: Monoid) -> Self {
        Body::Each(smallvec![monoid])
    }
}

/// Every monoid, in declaration order.
pub const MONOIDS: [Monoid; 6] =
    [Monoid::Add, Monoid::Multiply, Monoid::Maximum, Monoid::Minimum, Monoid::And, Monoid::Or];

/// The body of that monoid: `(a, b) → op(a, b)` on scalars of `dtype`.
///
/// Whether the op takes `dtype` is left to inference of the reduce that gets the region.
pub fn monoid_region(monoid: Monoid, dtype: DType) -> Region {
    static REGIONS: LazyLock<Vec<Region>> = LazyLock::new(|| {
        MONOIDS.iter().flat_map(|&monoid| DType::ALL.map(|dtype| Arc::new(build(&[monoid], &[dtype])))).collect()
    });
    REGIONS[monoid as usize * DType::ALL.len() + dtype as usize].clone()
}

/// The body of argmax or argmin: `(a, i, b, j) → (a or b, i or j)` on scalars, as JAX writes it.
///
/// # Panics
/// `index` is no integer dtype.
pub fn arg_region(extreme: Extreme, value: DType, index: DType) -> Region {
    static REGIONS: LazyLock<Vec<Region>> = LazyLock::new(|| {
        let both = [Extreme::Greatest, Extreme::Least];
        let pairs = both.into_iter().flat_map(|extreme| DType::ALL.map(|value| (extreme, value)));
        pairs.flat_map(|(extreme, value)| INDICES.map(|index| Arc::new(build_arg(extreme, value, index)))).collect()
    });
    let at = INDICES.iter().position(|&dtype| dtype == index).expect("an index is an integer");
    REGIONS[(extreme as usize * DType::ALL.len() + value as usize) * INDICES.len() + at].clone()
}

/// A region of that body on operands of these dtypes.
///
/// # Panics
/// There are not as many dtypes as operands, or the index of an arg-reduction is no integer.
pub fn body_region(body: &Body, dtypes: &[DType]) -> Region {
    match (body, dtypes) {
        (Body::Arg(extreme), &[value, index]) => arg_region(*extreme, value, index),
        (Body::Arg(_), _) => panic!("an arg-reduction has values and indices, not {} operands", dtypes.len()),
        (Body::Each(monoids), &[dtype]) => monoid_region(monoids[0], dtype),
        (Body::Each(monoids), _) => Arc::new(build(monoids, dtypes)),
    }
}

/// The dtypes of indices.
const INDICES: [DType; 3] = [DType::I32, DType::U32, DType::I64];

/// What a region does, if it is a body that reductions know. Arguments are scalars: one for each operand, then as many
/// again, of the same dtypes. Operands of commutative ops may come in either order.
pub fn as_body(region: &Trace) -> Option<Body> {
    let count = region.outputs().len();
    let inputs = region.inputs();
    if count == 0 || inputs.len() != 2 * count {
        return None;
    }
    let ty = |value: ValueId| region.value_at(value).map(|value| &value.ty);
    let fits = |at: usize| {
        let first = ty(inputs[at]);
        first.is_some_and(|ty| ty.rank() == 0)
            && ty(inputs[count + at]) == first
            && ty(region.outputs()[at]) == first
            && inputs[at] != inputs[count + at]
    };
    if !(0..count).all(fits) {
        return None;
    }
    as_monoids(region).map(Body::Each).or_else(|| as_arg(region).map(Body::Arg))
}

/// Each output is one binary op of its own two arguments.
fn as_monoids(region: &Trace) -> Option<SmallVec<[Monoid; 1]>> {
    let count = region.outputs().len();
    let (first, second) = region.inputs().split_at(count);
    let monoid = |at: usize| {
        let node = producer(region, region.outputs()[at])?;
        let both = either(node, |x, y| (x, y) == (first[at], second[at]));
        MONOIDS.into_iter().find(|&monoid| both && monoid_op(monoid) == node.op)
    };
    (0..count).map(monoid).collect::<Option<_>>().filter(|_| region.nodes().len() == count)
}

/// The body of [`arg_region`]. That `a != a` is left out for integers, which are always equal to themselves, changes
/// nothing.
fn as_arg(region: &Trace) -> Option<Extreme> {
    let (&[a, i, b, j], &[value, index]) = (region.inputs(), region.outputs()) else { return None };
    if !region.ty(i).dtype.is_integer() {
        return None;
    }
    let select = |output: ValueId, on_true: ValueId, on_false: ValueId| {
        let node = producer(region, output)?;
        match *node.operands {
            [pred, x, y] if node.op == Opcode::Select && (x, y) == (on_true, on_false) => Some(pred),
            _ => None,
        }
    };
    let compare = |pred: ValueId, lhs: ValueId, rhs: ValueId| {
        let node = producer(region, pred)?;
        match (&node.attrs, &node.operands[..]) {
            (&Attrs::Compare { direction, order: Order::Partial }, &[x, y]) if (x, y) == (lhs, rhs) => Some(direction),
            _ => None,
        }
    };
    let is =
        |pred: ValueId, lhs: ValueId, direction: Comparison, rhs: ValueId| compare(pred, lhs, rhs) == Some(direction);
    let both = |pred: ValueId, op: Opcode, halves: &dyn Fn(ValueId, ValueId) -> bool| {
        producer(region, pred).is_some_and(|node| node.op == op && either(node, halves))
    };
    let (ahead, picked) = (select(value, a, b)?, select(index, i, j)?);
    let lower = |pred| both(pred, Opcode::And, &|x, y| is(x, a, Comparison::Eq, b) && is(y, i, Comparison::Lt, j));
    if !both(picked, Opcode::Or, &|x, y| x == ahead && lower(y)) {
        return None;
    }
    let extremes = [(Extreme::Greatest, Comparison::Gt), (Extreme::Least, Comparison::Lt)];
    let found = extremes.into_iter().find(|&(_, direction)| {
        let float = region.ty(a).dtype.is_float();
        both(ahead, Opcode::Or, &|x, y| is(x, a, direction, b) && is(y, a, Comparison::Ne, a))
            || (!float && is(ahead, a, direction, b))
    });
    found.map(|(extreme, _)| extreme)
}

/// The node that defines a value of a region.
fn producer(region: &Trace, value: ValueId) -> Option<&Node> {
    let node = region.node(region.producer(value)?);
    (node.regions.is_empty() && node.results == 1).then_some(node)
}

/// Whether a plain node of two operands has them so, in one order or the other.
fn either(node: &Node, operands: impl Fn(ValueId, ValueId) -> bool) -> bool {
    matches!(*node.operands, [x, y] if node.attrs == Attrs::None && (operands(x, y) || operands(y, x)))
}

/// The binary op that a monoid is.
pub fn monoid_op(monoid: Monoid) -> Opcode {
    match monoid {
        Monoid::Add => Opcode::Add,
        Monoid::Multiply => Opcode::Multiply,
        Monoid::Maximum => Opcode::Maximum,
        Monoid::Minimum => Opcode::Minimum,
        Monoid::And => Opcode::And,
        Monoid::Or => Opcode::Or,
    }
}

fn build(monoids: &[Monoid], dtypes: &[DType]) -> Trace {
    assert_eq!(monoids.len(), dtypes.len(), "each operand has a monoid");
    let mut trace = Trace::new();
    let mut arguments =
        || -> Vec<ValueId> { dtypes.iter().map(|&dtype| trace.input(TensorType::scalar(dtype))).collect() };
    let (first, second) = (arguments(), arguments());
    for (at, &monoid) in monoids.iter().enumerate() {
        let combined = trace.push_inferred(
            monoid_op(monoid),
            smallvec![first[at], second[at]],
            Attrs::None,
            smallvec![],
            smallvec![TensorType::scalar(dtypes[at])],
            Origin::Unknown,
        );
        trace.output(combined);
    }
    trace
}

fn build_arg(extreme: Extreme, value: DType, index: DType) -> Trace {
    let mut trace = Trace::new();
    let [a, i, b, j] = [value, index, value, index].map(|dtype| trace.input(TensorType::scalar(dtype)));
    let mut push = |op: Opcode, operands: &[ValueId], attrs: Attrs| {
        let pushed = trace.push(op, operands.iter().copied(), attrs, [], Origin::Unknown);
        pushed.unwrap_or_else(|error| panic!("the body of argmax fits its arguments: {error}"))
    };
    let compare = |direction| Attrs::Compare { direction, order: Order::Partial };
    let direction = match extreme {
        Extreme::Greatest => Comparison::Gt,
        Extreme::Least => Comparison::Lt,
    };
    let further = push(Opcode::Compare, &[a, b], compare(direction));
    let nan = push(Opcode::Compare, &[a, a], compare(Comparison::Ne));
    let ahead = push(Opcode::Or, &[further, nan], Attrs::None);
    let equal = push(Opcode::Compare, &[a, b], compare(Comparison::Eq));
    let lower = push(Opcode::Compare, &[i, j], compare(Comparison::Lt));
    let tie = push(Opcode::And, &[equal, lower], Attrs::None);
    let picked = push(Opcode::Or, &[ahead, tie], Attrs::None);
    let value = push(Opcode::Select, &[ahead, a, b], Attrs::None);
    let index = push(Opcode::Select, &[picked, i, j], Attrs::None);
    trace.output(value);
    trace.output(index);
    trace
}

#[cfg(test)]
mod tests {
    use super::*;

    fn as_monoid(region: &Trace) -> Option<Monoid> {
        match as_body(region)? {
            Body::Each(monoids) => Some(monoids[0]),
            Body::Arg(_) => None,
        }
    }

    #[test]
    fn the_bodies_of_argmax_and_argmin_are_known() {
        for extreme in [Extreme::Greatest, Extreme::Least] {
            for value in DType::ALL {
                for index in INDICES {
                    let region = arg_region(extreme, value, index);
                    assert_eq!(as_body(&region), Some(Body::Arg(extreme)));
                    let dtypes: Vec<DType> = region.inputs().iter().map(|&input| region.ty(input).dtype).collect();
                    assert_eq!(dtypes, [value, index, value, index]);
                }
            }
        }
    }

    #[test]
    fn operands_may_each_have_a_monoid() {
        let body = |swap: bool| {
            let mut trace = Trace::new();
            let dtypes = [DType::F32, DType::I32, DType::F32, DType::I32];
            let [a, i, b, j] = dtypes.map(|dtype| trace.input(TensorType::scalar(dtype)));
            let most = trace.push(Opcode::Maximum, [a, b], Attrs::None, [], Origin::Unknown).expect("fits");
            let sum = trace.push(Opcode::Add, [j, i], Attrs::None, [], Origin::Unknown).expect("fits");
            let outputs = if swap { [sum, most] } else { [most, sum] };
            outputs.into_iter().for_each(|value| trace.output(value));
            trace
        };
        assert_eq!(as_body(&body(false)), Some(Body::Each(smallvec![Monoid::Maximum, Monoid::Add])));
        assert_eq!(as_body(&body(true)), None, "outputs of the other operand's type");
    }

    #[test]
    fn monoids_and_regions_are_one_to_one() {
        for monoid in MONOIDS {
            for dtype in DType::ALL {
                let region = monoid_region(monoid, dtype);
                assert_eq!(as_monoid(&region), Some(monoid));
                assert_eq!(region.ty(region.inputs()[0]).dtype, dtype);
                assert!(Arc::ptr_eq(&region, &monoid_region(monoid, dtype)), "made once");
            }
        }
    }

    #[test]
    fn other_bodies_are_no_monoid() {
        let scalar = TensorType::scalar(DType::F32);
        let mut twice = Trace::new();
        let (a, b) = (twice.input(scalar.clone()), twice.input(scalar.clone()));
        let sum = twice.push(Opcode::Add, [a, a], Attrs::None, [], Origin::Unknown).expect("fits");
        twice.output(sum);
        assert_eq!(as_monoid(&twice), None, "one argument used twice");

        let mut first = Trace::new();
        let (a, _) = (first.input(scalar.clone()), first.input(scalar.clone()));
        first.output(a);
        assert_eq!(as_monoid(&first), None, "no op");

        let mut difference = Trace::new();
        let (a, c) = (difference.input(scalar.clone()), difference.input(scalar));
        let value = difference.push(Opcode::Subtract, [a, c], Attrs::None, [], Origin::Unknown).expect("fits");
        difference.output(value);
        assert_eq!(as_monoid(&difference), None, "not a monoid");
        assert_eq!(as_monoid(&Trace::new()), None);
        let _ = b;
    }

    #[test]
    fn either_operand_order_is_the_monoid() {
        let mut swapped = Trace::new();
        let ty = TensorType::scalar(DType::I32);
        let (a, b) = (swapped.input(ty.clone()), swapped.input(ty));
        let value = swapped.push(Opcode::Maximum, [b, a], Attrs::None, [], Origin::Unknown).expect("fits");
        swapped.output(value);
        assert_eq!(as_monoid(&swapped), Some(Monoid::Maximum));
    }
}
