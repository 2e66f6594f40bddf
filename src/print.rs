//! Tensors as text, as NumPy prints arrays.
//!
//! The layout is that of `numpy.array2string` with its defaults: 8 digits after the point, at most 1000 elements before
//! the middle of each long dimension is left out for three at either end, lines of 75 columns, one common form for all
//! elements shown. Floats are shown by the fewest digits that give their value back, and by powers of ten where the
//! largest is 10⁸ or more, the smallest is below 10⁻⁴, or they are more than 1000 times apart.
//!
//! `Display` reads the value, and so cuts its stream; a value that failed prints its error. `Debug` never waits: it
//! shows the elements where they are there, and else what state the value is in.

use std::fmt;

use systole_fusion::ir::Origin;
use systole_kernels::{DType, Scalar};

use crate::tensor::Tensor;

/// Digits after the point.
const PRECISION: usize = 8;
/// Elements that are printed in full.
const THRESHOLD: usize = 1000;
/// Elements left of a long dimension at either end.
const EDGE: usize = 3;
/// Columns of a line.
const WIDTH: usize = 75;

impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.lend(Origin::Named("a print".into())) {
            Ok(bytes) => f.write_str(&render(self.dtype(), self.shape(), (*bytes).as_ref())),
            Err(error) => write!(f, "<failed: {error}>"),
        }
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ty = self.ty();
        match self.value().outcome() {
            None => write!(f, "Tensor({ty}, pending)"),
            Some(Err(_)) => write!(f, "Tensor({ty}, failed)"),
            Some(Ok(buffer)) if !buffer.ready().is_ready() => write!(f, "Tensor({ty}, submitted)"),
            Some(Ok(_)) => match self.lend(Origin::Unknown) {
                Ok(bytes) => write!(f, "Tensor({ty},\n{})", render(self.dtype(), self.shape(), (*bytes).as_ref())),
                Err(_) => write!(f, "Tensor({ty}, failed)"),
            },
        }
    }
}

/// The text of row-major elements.
fn render(dtype: DType, shape: &[usize], bytes: &[u8]) -> String {
    let element = |at: usize| Scalar::from_le_bytes(dtype, &bytes[at * dtype.size()..][..dtype.size()]);
    let count: usize = shape.iter().product();
    if shape.is_empty() {
        return alone(element(0));
    }
    if count == 0 {
        return String::from("[]");
    }
    let layout = Layout { shape, summary: count > THRESHOLD };
    let mut shown = Vec::new();
    layout.visit(0, 0, &mut |at| shown.push(element(at)));
    let format = Format::of(dtype, &shown);
    let mut text = layout.lines(0, 0, " ", WIDTH, &|at| format.show(element(at)));
    text.truncate(text.trim_end().len());
    text
}

/// Which elements are shown, and where.
struct Layout<'a> {
    shape: &'a [usize],
    summary: bool,
}

impl Layout<'_> {
    /// The indices along a dimension that are shown; `None` stands for what is left out.
    fn indices(&self, axis: usize) -> Vec<Option<usize>> {
        let extent = self.shape[axis];
        if self.summary && extent > 2 * EDGE {
            (0..EDGE).map(Some).chain([None]).chain((extent - EDGE..extent).map(Some)).collect()
        } else {
            (0..extent).map(Some).collect()
        }
    }

    fn visit(&self, axis: usize, offset: usize, see: &mut impl FnMut(usize)) {
        if axis == self.shape.len() {
            return see(offset);
        }
        for index in self.indices(axis).into_iter().flatten() {
            self.visit(axis + 1, offset * self.shape[axis] + index, see);
        }
    }

    /// The part of the text below a dimension; `indent` is what its further lines begin with.
    fn lines(&self, axis: usize, offset: usize, indent: &str, width: usize, show: &impl Fn(usize) -> String) -> String {
        let below = self.shape.len() - axis - 1;
        let mut text = String::new();
        if below == 0 {
            let mut line = String::from(indent);
            for index in self.indices(axis) {
                let word = index.map_or_else(|| String::from("..."), |index| show(offset * self.shape[axis] + index));
                if line.len() > indent.len() {
                    if line.chars().count() + 1 + word.chars().count() > width - 1 {
                        text += line.trim_end();
                        text += "\n";
                        line = String::from(indent);
                    } else {
                        line += " ";
                    }
                }
                line += &word;
            }
            text += &line;
        } else {
            let deeper = format!("{indent} ");
            let parts = self.indices(axis).into_iter().map(|index| match index {
                Some(index) => self.lines(axis + 1, offset * self.shape[axis] + index, &deeper, width - 1, show),
                None => String::from("..."),
            });
            let parts: Vec<String> = parts.map(|part| format!("{indent}{part}")).collect();
            text += &parts.join(&"\n".repeat(below));
        }
        format!("[{}]", &text[indent.len()..])
    }
}

/// How every element of a tensor is shown.
enum Format {
    /// Right-aligned to so many columns.
    Plain(usize),
    /// So many columns before and after the point.
    Positional { left: usize, right: usize },
    /// So many columns before the point, digits after it, and digits of the power of ten.
    Exponential { left: usize, digits: usize, exponent: usize },
}

impl Format {
    fn of(dtype: DType, shown: &[Scalar]) -> Format {
        if !dtype.is_float() {
            return Format::Plain(shown.iter().map(|&x| plain(x).len()).max().unwrap_or(0));
        }
        let values: Vec<f32> = shown.iter().map(|x| x.to_f64() as f32).collect();
        let finite = || values.iter().copied().filter(|x| x.is_finite());
        let sizes = || finite().map(f32::abs).filter(|&x| x != 0.0);
        let (least, most) = sizes().fold((f32::INFINITY, 0.0f32), |(least, most), x| (least.min(x), most.max(x)));
        let special = values.iter().filter(|x| !x.is_finite()).map(|&x| special(x).len()).max().unwrap_or(0);
        if sizes().next().is_some() && (most >= 1e8 || least < 1e-4 || f64::from(most) / f64::from(least) > 1000.0) {
            let parts: Vec<(String, String, String)> = finite().map(|x| exponential(x, PRECISION)).collect();
            let digits = parts.iter().map(|part| part.1.len()).max().unwrap_or(0);
            let exponent = parts.iter().map(|part| part.2.len() - 1).max().unwrap_or(0).max(2);
            let left = parts.iter().map(|part| part.0.len()).max().unwrap_or(0);
            let rest = digits + exponent + 3;
            return Format::Exponential { left: left.max(special.saturating_sub(rest)), digits, exponent };
        }
        let parts: Vec<(String, String)> = finite().map(positional).collect();
        let left = parts.iter().map(|part| part.0.len()).max().unwrap_or(0);
        let right = parts.iter().map(|part| part.1.len()).max().unwrap_or(0);
        if parts.is_empty() {
            return Format::Plain(special);
        }
        Format::Positional { left: left.max(special.saturating_sub(right + 1)), right }
    }

    fn show(&self, x: Scalar) -> String {
        let value = x.to_f64() as f32;
        let special = || x.dtype().is_float() && !value.is_finite();
        match *self {
            Format::Plain(width) => format!("{:>width$}", plain(x)),
            Format::Positional { left, right } if special() => format!("{:>1$}", plain(x), left + right + 1),
            Format::Exponential { left, digits, exponent } if special() => {
                format!("{:>1$}", plain(x), left + digits + exponent + 3)
            }
            Format::Positional { left, right } => {
                let (whole, fraction) = positional(value);
                format!("{whole:>left$}.{fraction:<right$}")
            }
            Format::Exponential { left, digits, exponent } => {
                let (whole, fraction, power) = exponential(value, digits);
                let (sign, power) = power.split_at(1);
                format!("{whole:>left$}.{fraction:0<digits$}e{sign}{power:0>exponent$}")
            }
        }
    }
}

fn special(x: f32) -> &'static str {
    match x {
        _ if x.is_nan() => "nan",
        _ if x > 0.0 => "inf",
        _ => "-inf",
    }
}

/// A bool, an integer, or a float that is no number.
fn plain(x: Scalar) -> String {
    match x.dtype() {
        DType::Bool => String::from(if x.bits() != 0 { "True" } else { "False" }),
        DType::U32 => x.bits().to_string(),
        DType::I32 | DType::I64 => x.sign_extended().to_string(),
        DType::F16 | DType::BF16 | DType::F32 => String::from(special(x.to_f64() as f32)),
    }
}

/// The digits before and after the point: the fewest that give the value back, at most [`PRECISION`] after it.
fn positional(x: f32) -> (String, String) {
    let shortest = format!("{x}");
    let (whole, fraction) = shortest.split_once('.').unwrap_or((&shortest, ""));
    if fraction.len() <= PRECISION {
        return (whole.to_owned(), fraction.to_owned());
    }
    let rounded = format!("{x:.PRECISION$}");
    let (whole, fraction) = rounded.split_once('.').unwrap_or((&rounded, ""));
    (whole.to_owned(), fraction.trim_end_matches('0').to_owned())
}

/// The digit before the point, those after it (at most `digits`), and the power of ten with its sign.
fn exponential(x: f32, digits: usize) -> (String, String, String) {
    let shortest = format!("{x:e}");
    let fraction = shortest.split_once('.').map_or(0, |(_, rest)| rest.find('e').unwrap_or(0));
    let text = if fraction > digits { format!("{x:.digits$e}") } else { shortest };
    let (mantissa, power) = text.split_once('e').expect("an exponential form has a power");
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let power = if power.starts_with('-') { power.to_owned() } else { format!("+{power}") };
    (whole.to_owned(), fraction.trim_end_matches('0').to_owned(), power)
}

/// A scalar, as NumPy prints one.
fn alone(x: Scalar) -> String {
    let value = x.to_f64() as f32;
    if !x.dtype().is_float() || !value.is_finite() {
        return plain(x);
    }
    if value != 0.0 && !(1e-4..1e16).contains(&value.abs()) {
        let (whole, fraction, power) = exponential(value, usize::MAX);
        let (sign, power) = power.split_at(1);
        let point = if fraction.is_empty() { "" } else { "." };
        return format!("{whole}{point}{fraction}e{sign}{power:0>2}");
    }
    format!("{value:?}")
}
