//! Reduce bodies as regions, and regions as reduce bodies.
//!
//! The IR spells a reduction's body as a region, as StableHLO does, so that any body can be written one day. What
//! kernels and planner know is a [`Monoid`]; these two functions go between. Regions for monoids are made once per
//! process: recording a sum costs a clone of an `Arc`.

use std::sync::{Arc, LazyLock};

use smallvec::smallvec;
use systole_kernels::program::Monoid;
use systole_kernels::{DType, TensorType};

use crate::ir::{Attrs, Opcode, Origin, Region, Trace, Value};

/// Every monoid, in declaration order.
pub const MONOIDS: [Monoid; 6] =
    [Monoid::Add, Monoid::Multiply, Monoid::Maximum, Monoid::Minimum, Monoid::And, Monoid::Or];

/// The body of that monoid: `(a, b) → op(a, b)` on scalars of `dtype`.
///
/// Whether the op takes `dtype` is left to inference of the reduce that gets the region.
pub fn monoid_region(monoid: Monoid, dtype: DType) -> Region {
    static REGIONS: LazyLock<Vec<Region>> = LazyLock::new(|| {
        MONOIDS.iter().flat_map(|&monoid| DType::ALL.map(|dtype| Arc::new(build(monoid, dtype)))).collect()
    });
    REGIONS[monoid as usize * DType::ALL.len() + dtype as usize].clone()
}

/// The monoid that a region spells: two scalar arguments of one dtype, one binary op of both, in either order (every
/// monoid here is commutative), and its result.
pub fn as_monoid(region: &Trace) -> Option<Monoid> {
    let (&[a, b], [node], &[output]) = (region.inputs(), region.nodes(), region.outputs()) else {
        return None;
    };
    let ty = region.value_at(a)?.ty.clone();
    let scalar = ty.rank() == 0;
    let same = |value: Option<&Value>| value.is_some_and(|value| value.ty == ty);
    let both = matches!(*node.operands, [x, y] if (x, y) == (a, b) || (x, y) == (b, a));
    let plain = node.attrs == Attrs::None && node.regions.is_empty() && node.results == 1;
    let whole = output == node.first_result && a != b && output != a && output != b;
    if !(scalar && both && plain && whole && same(region.value_at(b)) && same(region.value_at(output))) {
        return None;
    }
    MONOIDS.into_iter().find(|&monoid| monoid_op(monoid) == node.op)
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

fn build(monoid: Monoid, dtype: DType) -> Trace {
    let ty = TensorType::scalar(dtype);
    let mut trace = Trace::new();
    let a = trace.input(ty.clone());
    let b = trace.input(ty.clone());
    let combined = trace.push_inferred(
        monoid_op(monoid),
        smallvec![a, b],
        Attrs::None,
        smallvec![],
        smallvec![ty],
        Origin::Unknown,
    );
    trace.output(combined);
    trace
}

#[cfg(test)]
mod tests {
    use super::*;

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
