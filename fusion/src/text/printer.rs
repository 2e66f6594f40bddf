//! Traces to text.

use std::collections::HashSet;
use std::fmt::Write as _;

use systole_kernels::program::{Comparison, Order, Precision};
use systole_kernels::{DType, TensorType};

use super::{lexer, literal};
use crate::ir::region::Body;
use crate::ir::{Attrs, GatherDims, Literal, Node, Opcode, Origin, Region, Trace, ValueId, region};

/// What to print beside the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PrintOptions {
    /// Each op's origin, as a trailing `loc(…)`.
    pub locations: bool,
}

/// The trace as StableHLO text, without locations.
pub fn print(trace: &Trace) -> String {
    print_with(trace, PrintOptions::default())
}

/// The trace as StableHLO text: a module with the one function `@main`.
pub fn print_with(trace: &Trace, options: PrintOptions) -> String {
    let mut printer = Printer { out: String::new(), options, used: HashSet::new(), conflicts: 0 };
    printer.out.push_str("module {\n  func.func @main(");
    let mut scope = Scope { trace, names: vec![None; trace.values().len()], next_value: 0, next_argument: 0 };
    printer.arguments(&mut scope);
    printer.out.push(')');
    match trace.outputs() {
        [] => {}
        &[output] => {
            let _ = write!(printer.out, " -> {}", scope.ty(output));
        }
        outputs => {
            let types: Vec<String> = outputs.iter().map(|&output| scope.ty(output)).collect();
            let _ = write!(printer.out, " -> ({})", types.join(", "));
        }
    }
    printer.out.push_str(" {\n");
    printer.body(&mut scope, 4, "return");
    printer.out.push_str("  }\n}\n");
    printer.out
}

struct Printer {
    out: String,
    options: PrintOptions,
    /// Names taken by constants; a name wanted again gets `_` and a number, counted through, as MLIR does.
    used: HashSet<String>,
    conflicts: usize,
}

/// Names of one trace's values. A region's numbers go on from those of the trace around it.
struct Scope<'t> {
    trace: &'t Trace,
    names: Vec<Option<String>>,
    next_value: usize,
    next_argument: usize,
}

impl Scope<'_> {
    /// A value's name. One that is not defined yet has none: printing serves reports on broken traces too.
    fn name(&self, value: ValueId) -> String {
        self.names.get(value.index()).cloned().flatten().unwrap_or_else(|| format!("%undefined_{}", value.0))
    }

    fn ty(&self, value: ValueId) -> String {
        self.trace.value_at(value).map_or_else(|| String::from("!undefined"), |value| value.ty.to_string())
    }

    /// Names the inputs, in order.
    fn name_inputs(&mut self) {
        for &input in self.trace.inputs() {
            let name = format!("%arg{}", self.next_argument);
            self.next_argument += 1;
            if let Some(slot) = self.names.get_mut(input.index()) {
                *slot = Some(name);
            }
        }
    }

    fn names(&self, values: &[ValueId]) -> String {
        values.iter().map(|&value| self.name(value)).collect::<Vec<_>>().join(", ")
    }

    fn types(&self, values: &[ValueId]) -> String {
        values.iter().map(|&value| self.ty(value)).collect::<Vec<_>>().join(", ")
    }
}

impl Printer {
    fn arguments(&mut self, scope: &mut Scope<'_>) {
        scope.name_inputs();
        for (i, &input) in scope.trace.inputs().iter().enumerate() {
            let separator = if i > 0 { ", " } else { "" };
            let _ = write!(self.out, "{separator}{}: {}", scope.name(input), scope.ty(input));
        }
    }

    fn body(&mut self, scope: &mut Scope<'_>, indent: usize, terminator: &str) {
        for node in scope.trace.nodes() {
            let _ = write!(self.out, "{:indent$}", "");
            let name = self.result_name(scope, node);
            match node.results {
                0 => {}
                1 => {
                    let _ = write!(self.out, "{name} = ");
                }
                n => {
                    let _ = write!(self.out, "{name}:{n} = ");
                }
            }
            self.node(scope, node, indent);
            if self.options.locations {
                self.location(&node.origin);
            }
            self.out.push('\n');
            for (i, result) in node.results().enumerate() {
                let name = if node.results == 1 { name.clone() } else { format!("{name}#{i}") };
                if let Some(slot) = scope.names.get_mut(result.index()) {
                    *slot = Some(name);
                }
            }
        }
        let _ = write!(self.out, "{:indent$}{terminator}", "");
        let outputs = scope.trace.outputs();
        if !outputs.is_empty() {
            let _ = write!(self.out, " {} : {}", scope.names(outputs), scope.types(outputs));
        }
        self.out.push('\n');
    }

    /// `%c` for constants of integers and bools, `%cst` for those of floats, else the next number.
    fn result_name(&mut self, scope: &mut Scope<'_>, node: &Node) -> String {
        let Attrs::Constant(literal) = &node.attrs else {
            let name = format!("%{}", scope.next_value);
            scope.next_value += usize::from(node.results > 0);
            return name;
        };
        let wanted = if literal.ty().dtype.is_float() { "%cst" } else { "%c" };
        let mut name = String::from(wanted);
        while !self.used.insert(name.clone()) {
            name = format!("{wanted}_{}", self.conflicts);
            self.conflicts += 1;
        }
        name
    }

    fn node(&mut self, scope: &Scope<'_>, node: &Node, indent: usize) {
        let operands = &node.operands[..];
        let op = node.op.name();
        match &node.attrs {
            Attrs::None => {
                let signature = if node.op == Opcode::Select {
                    select_type(scope, node)
                } else if node.op == Opcode::DynamicUpdateSlice {
                    functional_type(scope, node)
                } else if op.starts_with("chlo.") {
                    one_type(scope, node)
                } else {
                    same_type(scope, node)
                };
                let _ = write!(self.out, "{op} {} : {signature}", scope.names(operands));
            }
            Attrs::Convert(_) | Attrs::Reshape(_) => {
                let _ = write!(self.out, "{op} {} : {}", scope.names(operands), same_type(scope, node));
            }
            Attrs::Reverse(dimensions) => {
                let names = scope.names(operands);
                let _ = write!(self.out, "{op} {names}, dims = {dimensions:?} : {}", same_type(scope, node));
            }
            Attrs::DynamicSlice(sizes) => {
                let names = scope.names(operands);
                let _ = write!(self.out, "{op} {names}, sizes = {sizes:?} : {}", functional_type(scope, node));
            }
            Attrs::Constant(literal) => {
                let _ = write!(self.out, "{op} ");
                self.literal(literal);
            }
            Attrs::Iota { ty, dimension } => {
                let _ = write!(self.out, "{op} dim = {dimension} : {ty}");
            }
            Attrs::Compare { direction, order } => {
                let dtype = operands.first().and_then(|&lhs| scope.trace.value_at(lhs)).map(|value| value.ty.dtype);
                let _ = write!(
                    self.out,
                    "{op}  {}, {},  {} : {}",
                    comparison(*direction),
                    scope.names(operands),
                    comparison_type(dtype, *order),
                    functional_type(scope, node)
                );
            }
            Attrs::BroadcastInDim { dimensions, .. } | Attrs::Transpose(dimensions) => {
                let _ = write!(
                    self.out,
                    "{op} {}, dims = {dimensions:?} : {}",
                    scope.names(operands),
                    functional_type(scope, node)
                );
            }
            Attrs::Slice(limits) => {
                let _ = write!(self.out, "{op} {} [", scope.names(operands));
                for (i, ((start, limit), stride)) in
                    limits.start.iter().zip(&limits.limit).zip(&limits.stride).enumerate()
                {
                    let _ = write!(self.out, "{}{start}:{limit}", if i > 0 { ", " } else { "" });
                    if *stride != 1 {
                        let _ = write!(self.out, ":{stride}");
                    }
                }
                let _ = write!(self.out, "] : {}", functional_type(scope, node));
            }
            Attrs::Concatenate(dimension) => {
                let _ = write!(
                    self.out,
                    "{op} {}, dim = {dimension} : {}",
                    scope.names(operands),
                    functional_type(scope, node)
                );
            }
            Attrs::Pad(amounts) => {
                let _ = write!(
                    self.out,
                    "{op} {}, low = {:?}, high = {:?}, interior = {:?} : {}",
                    scope.names(operands),
                    amounts.low,
                    amounts.high,
                    amounts.interior,
                    functional_type(scope, node)
                );
            }
            Attrs::Reduce(dimensions) => self.reduce(scope, node, dimensions, indent),
            Attrs::Dot(dims) => {
                let _ = write!(self.out, "{op} {}", scope.names(operands));
                if !dims.lhs_batching.is_empty() || !dims.rhs_batching.is_empty() {
                    let _ = write!(self.out, ", batching_dims = {:?} x {:?}", dims.lhs_batching, dims.rhs_batching);
                }
                let _ =
                    write!(self.out, ", contracting_dims = {:?} x {:?}", dims.lhs_contracting, dims.rhs_contracting);
                if dims.precision != Precision::Default {
                    let name = dims.precision.name();
                    let _ = write!(self.out, ", precision = [{name}, {name}]");
                }
                let _ = write!(self.out, " : {}", functional_type(scope, node));
            }
            Attrs::Gather(dims) => {
                let _ = write!(
                    self.out,
                    "\"{op}\"({}) <{{{}}}> : {}",
                    scope.names(operands),
                    gather_properties(dims),
                    functional_type(scope, node)
                );
            }
        }
    }

    fn literal(&mut self, value: &Literal) {
        literal::print(&mut self.out, value);
        let _ = write!(self.out, " : {}", value.ty());
    }

    fn reduce(&mut self, scope: &Scope<'_>, node: &Node, dimensions: &[u32], indent: usize) {
        let op = node.op.name();
        let (operands, inits) = node.operands.split_at(node.operands.len() / 2);
        let [body] = &node.regions[..] else {
            let _ = write!(self.out, "\"{op}\"({}) : {}", scope.names(&node.operands), functional_type(scope, node));
            return;
        };
        self.out.push_str(op);
        for (i, (&operand, &init)) in operands.iter().zip(inits).enumerate() {
            let comma = if i > 0 { ", " } else { "" };
            let _ = write!(self.out, "{comma}({} init: {})", scope.name(operand), scope.name(init));
        }
        let compact = match region::as_body(body) {
            Some(Body::Each(monoids)) if monoids.len() == 1 => Some(monoids[0]),
            Some(Body::Each(_) | Body::Arg(_)) | None => None,
        };
        let compact = compact.filter(|_| body.nodes()[0].operands[..] == *body.inputs());
        if let Some(monoid) = compact {
            let _ = write!(self.out, " applies {}", region::monoid_op(monoid).name());
        }
        let _ = write!(self.out, " across dimensions = {dimensions:?} : {}", functional_type(scope, node));
        if compact.is_none() {
            self.reducer(scope, body, indent);
        }
    }

    fn reducer(&mut self, scope: &Scope<'_>, body: &Region, indent: usize) {
        let _ = write!(self.out, "\n{:indent$} reducer", "");
        let mut inner = Scope {
            trace: body,
            names: vec![None; body.values().len()],
            next_value: scope.next_value,
            next_argument: scope.next_argument,
        };
        // For each operand its two arguments.
        inner.name_inputs();
        let count = body.inputs().len() / 2;
        let (first, second) = body.inputs().split_at(count);
        for (i, (&a, &b)) in first.iter().zip(second).enumerate() {
            let space = if i > 0 { " " } else { "" };
            let [a, b] = [a, b].map(|value| format!("{}: {}", inner.name(value), inner.ty(value)));
            let _ = write!(self.out, "{space}({a}, {b})");
        }
        self.out.push_str("  {\n");
        self.body(&mut inner, indent + 2, "stablehlo.return");
        let _ = write!(self.out, "{:indent$}}}", "");
    }

    fn location(&mut self, origin: &Origin) {
        let place = match origin {
            Origin::Unknown => return,
            Origin::Caller(_) => origin.to_string(),
            Origin::Named(name) => name.to_string(),
        };
        let _ = match file_position(&place) {
            Some((file, line, column)) => {
                write!(self.out, " loc({}:{line}:{column})", lexer::escape(file))
            }
            None => write!(self.out, " loc({})", lexer::escape(&place)),
        };
    }
}

/// `file:line:column`, as MLIR spells a position in a file.
fn file_position(place: &str) -> Option<(&str, u32, u32)> {
    let number = |digits: &str| digits.parse::<u32>().ok().filter(|n| n.to_string() == digits);
    let (rest, column) = place.rsplit_once(':')?;
    let (file, line) = rest.rsplit_once(':')?;
    Some((file, number(line)?, number(column)?))
}

fn functional_type(scope: &Scope<'_>, node: &Node) -> String {
    let results: Vec<ValueId> = node.results().collect();
    let types = scope.types(&results);
    let results = if results.len() == 1 { types } else { format!("({types})") };
    format!("({}) -> {results}", scope.types(&node.operands))
}

/// The one type that operands and result share, or the functional type.
fn same_type(scope: &Scope<'_>, node: &Node) -> String {
    let result = scope.ty(node.first_result);
    if node.results == 1 && node.operands.iter().all(|&operand| scope.ty(operand) == result) {
        result
    } else {
        functional_type(scope, node)
    }
}

/// `type -> type`, as CHLO's ops spell what StableHLO's leave to one type.
fn one_type(scope: &Scope<'_>, node: &Node) -> String {
    match node.operands[..] {
        [operand] => format!("{} -> {}", scope.ty(operand), scope.ty(node.first_result)),
        _ => functional_type(scope, node),
    }
}

/// The predicate's type and the others'.
fn select_type(scope: &Scope<'_>, node: &Node) -> String {
    match node.operands[..] {
        [pred, ..] if node.operands.len() == 3 => {
            format!("{}, {}", scope.ty(pred), scope.ty(node.first_result))
        }
        _ => functional_type(scope, node),
    }
}

fn comparison(direction: Comparison) -> &'static str {
    match direction {
        Comparison::Eq => "EQ",
        Comparison::Ne => "NE",
        Comparison::Ge => "GE",
        Comparison::Gt => "GT",
        Comparison::Le => "LE",
        Comparison::Lt => "LT",
    }
}

fn comparison_type(dtype: Option<DType>, order: Order) -> &'static str {
    match (order, dtype) {
        (Order::Total, _) => "TOTALORDER",
        (Order::Partial, Some(DType::F16 | DType::BF16 | DType::F32) | None) => "FLOAT",
        (Order::Partial, Some(DType::I32 | DType::I64)) => "SIGNED",
        (Order::Partial, Some(DType::Bool | DType::U32)) => "UNSIGNED",
    }
}

fn gather_properties(dims: &GatherDims) -> String {
    let mut fields = Vec::new();
    for (name, dims) in [
        ("offset_dims", &dims.offset_dims),
        ("collapsed_slice_dims", &dims.collapsed_slice_dims),
        ("operand_batching_dims", &dims.operand_batching_dims),
        ("start_indices_batching_dims", &dims.start_indices_batching_dims),
        ("start_index_map", &dims.start_index_map),
    ] {
        if !dims.is_empty() {
            fields.push(format!("{name} = {dims:?}"));
        }
    }
    if dims.index_vector_dim != 0 {
        fields.push(format!("index_vector_dim = {}", dims.index_vector_dim));
    }
    let sorted = if dims.indices_are_sorted { ", indices_are_sorted = true" } else { "" };
    let sizes: Vec<String> = dims.slice_sizes.iter().map(i64::to_string).collect();
    let sizes = if sizes.is_empty() { String::from("array<i64>") } else { format!("array<i64: {}>", sizes.join(", ")) };
    format!("dimension_numbers = #stablehlo.gather<{}>{sorted}, slice_sizes = {sizes}", fields.join(", "))
}

/// The rank above which text of a trace is not read back.
pub(super) use crate::infer::MAX_RANK;

/// Whether [`super::parse`] takes the type.
pub(super) fn is_readable(ty: &TensorType) -> bool {
    ty.rank() <= MAX_RANK
}
