//! Modules and functions: which one is the trace, and what the others are called.
//!
//! Two passes. The first reads headers, skips bodies and notes where they start, so that a function may be called
//! before it is defined; the second reads the entry's body and, at each call, the callee's. A function is read again
//! for every call: traces have no calls, and text with many calls to one function is rare.

use systole_kernels::TensorType;

use super::block::Argument;
use super::error::ParseError;
use super::lexer::{Lexeme, Lexer};
use super::parser::{Parser, Result, Scope};
use crate::ir::{Trace, ValueId};

/// A function's header, and where its body is.
#[derive(Clone, Debug)]
pub(super) struct Function<'a> {
    pub(super) arguments: Vec<Argument<'a>>,
    pub(super) results: Vec<TensorType>,
    /// Where its body's `{` stands; `None` for a declaration.
    body: Option<usize>,
    /// Bytes of the body.
    pub(super) length: usize,
    /// Where its name stands.
    offset: usize,
}

/// The trace that a module's entry (`@main`, or the only function) is.
///
/// # Errors
/// The text is not a StableHLO module, goes beyond the op table, or is ill-typed. Any bytes give a trace or an error.
pub fn parse(source: &str) -> std::result::Result<Trace, ParseError> {
    let mut parser = Parser::new(source);
    let order = parser.outline()?;
    let entry = match order[..] {
        [] => return parser.malformed(source.len(), "expected a function"),
        [only] => only,
        [first, ..] => {
            if parser.functions.contains_key("@main") {
                "@main"
            } else {
                let offset = parser.functions[first].offset;
                return parser.malformed(offset, "of several functions one must be called @main");
            }
        }
    };
    let function = parser.functions[entry].clone();
    let mut trace = Trace::new();
    let inputs: Vec<ValueId> = function.arguments.iter().map(|argument| trace.input(argument.ty.clone())).collect();
    let outputs = parser.function_body(&mut trace, &function, &inputs)?;
    outputs.into_iter().for_each(|output| trace.output(output));
    Ok(trace)
}

impl<'a> Parser<'a> {
    /// Notes every function and location alias; gives the functions' names in order.
    fn outline(&mut self) -> Result<Vec<&'a str>> {
        let mut order = Vec::new();
        let mut inside = false;
        loop {
            let token = self.lexer.next();
            match token.lexeme {
                Lexeme::End if inside => {
                    return self.malformed(token.offset, "the module is not closed");
                }
                Lexeme::End => return Ok(order),
                Lexeme::Punct(b'}') if inside => {
                    inside = false;
                    self.optional_location()?;
                }
                Lexeme::Attribute if !inside => {
                    self.expect(b'=')?;
                    if self.at_word("loc") {
                        let origin = self.optional_location()?;
                        self.locations.insert(token.text, origin);
                    } else {
                        self.attribute()?;
                    }
                }
                Lexeme::Word if matches!(token.text, "module" | "builtin.module") && !inside && order.is_empty() => {
                    if self.peek().lexeme == Lexeme::Symbol {
                        self.lexer.next();
                    }
                    if self.take_word("attributes") {
                        self.optional_dictionary()?;
                    }
                    self.expect(b'{')?;
                    inside = true;
                }
                Lexeme::Word if matches!(token.text, "func.func" | "func") => order.push(self.function()?),
                Lexeme::Value
                | Lexeme::Symbol
                | Lexeme::Block
                | Lexeme::Attribute
                | Lexeme::Type
                | Lexeme::Word
                | Lexeme::Number
                | Lexeme::String
                | Lexeme::Arrow
                | Lexeme::Punct(_)
                | Lexeme::Stray => return self.expected("a function", token),
            }
        }
    }

    /// After `func.func`: header and skipped body; gives the name.
    fn function(&mut self) -> Result<&'a str> {
        if !self.take_word("public") {
            self.take_word("private");
        }
        let name = self.expect_lexeme(Lexeme::Symbol, "a function's name")?;
        let arguments = self.list(b'(', b')', |parser| {
            // A declaration's arguments are types only.
            if parser.peek().lexeme == Lexeme::Value {
                return parser.argument().map(Some);
            }
            parser.tensor_type()?;
            parser.optional_dictionary()?;
            Ok(None)
        })?;
        let mut results = Vec::new();
        if self.peek().lexeme == Lexeme::Arrow {
            self.lexer.next();
            if self.at(b'(') {
                results = self.list(b'(', b')', |parser| {
                    let ty = parser.tensor_type()?;
                    parser.optional_dictionary()?;
                    Ok(ty)
                })?;
            } else {
                results.push(self.tensor_type()?);
            }
        }
        if self.take_word("attributes") {
            self.optional_dictionary()?;
        }
        let start = self.peek().offset;
        let mut body = None;
        if self.at(b'{') {
            self.skip_group(b'{', b'}')?;
            body = Some(start);
        }
        let length = self.lexer.offset - start.min(self.lexer.offset);
        self.optional_location()?;
        let complete: Option<Vec<Argument<'a>>> = arguments.into_iter().collect();
        if body.is_some() && complete.is_none() {
            return self.malformed(name.offset, "a function with a body names its arguments");
        }
        let function = Function { arguments: complete.unwrap_or_default(), results, body, length, offset: name.offset };
        match self.functions.insert(name.text, function) {
            None => Ok(name.text),
            Some(_) => self.malformed(name.offset, format!("{} is defined twice", name.text)),
        }
    }

    /// The body, on these values as arguments; gives what it returns. Leaves the position after the body.
    pub(super) fn function_body(
        &mut self,
        trace: &mut Trace,
        function: &Function<'a>,
        arguments: &[ValueId],
    ) -> Result<Vec<ValueId>> {
        let Some(body) = function.body else {
            return self.unsupported(function.offset, "this function has no body");
        };
        self.nested(|parser| {
            parser.lexer = Lexer { source: parser.lexer.source, offset: body };
            parser.expect(b'{')?;
            let mut scope = Scope::new();
            for (argument, &value) in function.arguments.iter().zip(arguments) {
                parser.define(&mut scope, argument.name, &[value])?;
            }
            let outputs = parser.block(trace, &mut scope)?;
            parser.expect(b'}')?;
            if outputs.iter().map(|&value| trace.ty(value)).ne(&function.results) {
                return parser.malformed(function.offset, "what this function returns is not what its header states");
            }
            Ok(outputs)
        })
    }
}
