//! Parse errors: where, what, and the line with a caret under the place.

use std::fmt;

use crate::infer::TypeError;

/// Text that is no trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseError {
    line: usize,
    column: usize,
    excerpt: String,
    caret: usize,
    kind: Box<Kind>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Not the grammar, or names and types that do not agree.
    Malformed(String),
    /// StableHLO, but beyond the op table.
    Unsupported(String),
    /// Inference rejected an op.
    Type(TypeError),
}

/// Longest excerpt, in characters: constants make lines of megabytes.
const EXCERPT: usize = 120;

impl ParseError {
    pub(super) fn new(source: &str, offset: usize, kind: Kind) -> Self {
        let offset = floor_boundary(source, offset);
        let start = source[..offset].rfind('\n').map_or(0, |newline| newline + 1);
        let line_text = source[start..].lines().next().unwrap_or("");
        let before = source[start..offset].chars().count();
        // Cut long lines to a window around the place.
        let whole = line_text.chars().nth(EXCERPT).is_none();
        let skipped = if whole { 0 } else { before.saturating_sub(EXCERPT / 2) };
        let excerpt = line_text.chars().skip(skipped).take(EXCERPT).map(|c| if c == '\t' { ' ' } else { c }).collect();
        ParseError {
            line: source[..offset].matches('\n').count() + 1,
            column: before + 1,
            excerpt,
            caret: before - skipped,
            kind: Box::new(kind),
        }
    }

    /// Line, from 1.
    pub fn line(&self) -> usize {
        self.line
    }

    /// Column in characters, from 1.
    pub fn column(&self) -> usize {
        self.column
    }

    /// Whether the text may well be StableHLO, but has an op, dtype or form that the op table lacks.
    pub fn is_unsupported(&self) -> bool {
        match *self.kind {
            Kind::Unsupported(_) => true,
            Kind::Malformed(_) | Kind::Type(_) => false,
        }
    }

    /// The inference error, where an op's operands do not fit it.
    pub fn type_error(&self) -> Option<&TypeError> {
        match &*self.kind {
            Kind::Type(error) => Some(error),
            Kind::Malformed(_) | Kind::Unsupported(_) => None,
        }
    }

    /// What was expected or is wrong, without the place.
    pub fn message(&self) -> String {
        match &*self.kind {
            Kind::Malformed(message) | Kind::Unsupported(message) => message.clone(),
            Kind::Type(error) => error.to_string(),
        }
    }
}

/// The message with line, column, and the line with a caret.
impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.line.to_string();
        writeln!(f, "line {}, column {}: {}", self.line, self.column, self.message())?;
        writeln!(f, "{number} | {}", self.excerpt)?;
        write!(f, "{:width$} | {:caret$}^", "", "", width = number.len(), caret = self.caret)
    }
}

impl std::error::Error for ParseError {}

fn floor_boundary(source: &str, offset: usize) -> usize {
    let mut offset = offset.min(source.len());
    while !source.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}
