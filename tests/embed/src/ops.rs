//! The front end's ops by name, and what each records.

use systole::embed::{Attrs, Dims, DotDims, Literal, Monoid, Opcode, Origin, Region, monoid_region};
use systole::{DType, Result, Scalar, Stream, Tensor, TensorType};

/// One call of an op.
pub(crate) struct Call<'a> {
    pub(crate) stream: Stream,
    pub(crate) args: &'a [&'a Tensor],
    pub(crate) numbers: &'a [i64],
    pub(crate) origin: Origin,
}

type Op = fn(&Call<'_>) -> Result<Tensor>;

/// The dispatch table. What is one opcode is one line; the rest is put together below.
const TABLE: &[(&str, Op)] = &[
    ("aten::add", |call| call.elementwise(Opcode::Add)),
    ("aten::sub", |call| call.elementwise(Opcode::Subtract)),
    ("aten::mul", |call| call.elementwise(Opcode::Multiply)),
    ("aten::div", |call| call.elementwise(Opcode::Divide)),
    ("aten::exp", |call| call.elementwise(Opcode::Exponential)),
    ("aten::tanh", |call| call.elementwise(Opcode::Tanh)),
    ("aten::relu", relu),
    ("aten::mm", mm),
    ("aten::sum", |call| call.reduce(call.args[0], Monoid::Add, 0.0)),
    ("aten::softmax", softmax),
];

/// The op of that name.
pub(crate) fn find(name: &str) -> Option<Op> {
    TABLE.iter().find(|(known, _)| *known == name).map(|&(_, op)| op)
}

/// `max(x, 0)`.
fn relu(call: &Call<'_>) -> Result<Tensor> {
    let x = call.args[0];
    let zero = call.constant(0.0)?;
    call.record(Opcode::Maximum, &[x, &call.broadcast(&zero, x.shape(), Dims::new())?], Attrs::None)
}

/// The product of two matrices.
fn mm(call: &Call<'_>) -> Result<Tensor> {
    let dims = DotDims {
        lhs_contracting: Dims::from_slice(&[1]),
        rhs_contracting: Dims::from_slice(&[0]),
        ..DotDims::default()
    };
    call.record(Opcode::DotGeneral, call.args, Attrs::Dot(Box::new(dims)))
}

/// Softmax along the dimension that the call's number names.
fn softmax(call: &Call<'_>) -> Result<Tensor> {
    let x = call.args[0];
    let largest = call.reduce(x, Monoid::Maximum, f64::NEG_INFINITY)?;
    let shifted = call.record(Opcode::Subtract, &[x, &call.spread(&largest, x)?], Attrs::None)?;
    let e = call.record(Opcode::Exponential, &[&shifted], Attrs::None)?;
    let sum = call.reduce(&e, Monoid::Add, 0.0)?;
    call.record(Opcode::Divide, &[&e, &call.spread(&sum, x)?], Attrs::None)
}

impl Call<'_> {
    fn record(&self, op: Opcode, operands: &[&Tensor], attrs: Attrs) -> Result<Tensor> {
        self.record_with(op, operands, attrs, None)
    }

    fn record_with(&self, op: Opcode, operands: &[&Tensor], attrs: Attrs, region: Option<Region>) -> Result<Tensor> {
        let regions = region.into_iter().collect();
        let mut results = self.stream.record(op, operands, attrs, regions, self.origin.clone())?;
        Ok(results.remove(0))
    }

    fn elementwise(&self, op: Opcode) -> Result<Tensor> {
        self.record(op, self.args, Attrs::None)
    }

    fn constant(&self, value: f64) -> Result<Tensor> {
        let value = Scalar::from_f64(DType::F32, value);
        self.record(Opcode::Constant, &[], Attrs::Constant(Literal::Splat(TensorType::scalar(DType::F32), value)))
    }

    fn broadcast(&self, x: &Tensor, shape: &[usize], dimensions: Dims) -> Result<Tensor> {
        self.record(Opcode::BroadcastInDim, &[x], Attrs::BroadcastInDim { shape: shape.into(), dimensions })
    }

    /// The dimension that the call's number names.
    fn dimension(&self) -> u32 {
        // A number that names none is refused by the op that gets it.
        self.numbers.first().map_or(0, |&number| u32::try_from(number).unwrap_or(u32::MAX))
    }

    fn reduce(&self, x: &Tensor, monoid: Monoid, init: f64) -> Result<Tensor> {
        let init = self.constant(init)?;
        let attrs = Attrs::Reduce(Dims::from_slice(&[self.dimension()]));
        self.record_with(Opcode::Reduce, &[x, &init], attrs, Some(monoid_region(monoid, DType::F32)))
    }

    /// A reduced value at the shape that it was reduced from.
    fn spread(&self, reduced: &Tensor, x: &Tensor) -> Result<Tensor> {
        let kept = (0..x.rank() as u32).filter(|&dim| dim != self.dimension()).collect();
        self.broadcast(reduced, x.shape(), kept)
    }
}
