//! The parser's state, and the grammar that everything shares: tokens, types, values, locations.

use std::collections::HashMap;

use smallvec::SmallVec;
use systole_kernels::{DType, Shape, TensorType};

use super::error::{Kind, ParseError};
use super::lexer::{self, Lexeme, Lexer, Token};
use super::module::Function;
use super::printer;
use crate::infer;
use crate::ir::{Origin, Trace, ValueId};

/// How deep attributes, regions, lists, locations and calls may nest together.
const MAX_DEPTH: usize = 80;

pub(super) type Result<T> = std::result::Result<T, ParseError>;

/// Values by name, without `#n`.
pub(super) type Scope<'a> = HashMap<&'a str, SmallVec<[ValueId; 1]>>;

pub(super) struct Parser<'a> {
    pub(super) lexer: Lexer<'a>,
    depth: usize,
    pub(super) functions: HashMap<&'a str, Function<'a>>,
    /// `#loc3 = loc("…")`.
    pub(super) locations: HashMap<&'a str, Origin>,
    /// Bytes of function bodies that may still be inlined: a doubling chain of calls must not take for ever.
    pub(super) inline_budget: usize,
}

/// Types that an op's text states.
#[derive(Debug, Default)]
pub(super) struct Signature {
    pub(super) operands: Vec<TensorType>,
    pub(super) results: Vec<TensorType>,
}

impl<'a> Parser<'a> {
    pub(super) fn new(source: &'a str) -> Self {
        Parser {
            lexer: Lexer::new(source),
            depth: 0,
            functions: HashMap::new(),
            locations: HashMap::new(),
            inline_budget: 1 << 26,
        }
    }

    // Errors.

    pub(super) fn malformed<T>(&self, offset: usize, message: impl Into<String>) -> Result<T> {
        Err(self.error(offset, Kind::Malformed(message.into())))
    }

    pub(super) fn unsupported<T>(&self, offset: usize, message: impl Into<String>) -> Result<T> {
        Err(self.error(offset, Kind::Unsupported(message.into())))
    }

    pub(super) fn error(&self, offset: usize, kind: Kind) -> ParseError {
        ParseError::new(self.lexer.source, offset, kind)
    }

    /// An error at a token that is not what the grammar wants.
    pub(super) fn expected<T>(&self, what: &str, found: Token<'_>) -> Result<T> {
        let shown: String = found.text.chars().take(40).collect();
        let found_text = match found.lexeme {
            Lexeme::End => String::from("the end of the text"),
            Lexeme::Stray
            | Lexeme::Value
            | Lexeme::Symbol
            | Lexeme::Block
            | Lexeme::Attribute
            | Lexeme::Type
            | Lexeme::Word
            | Lexeme::Number
            | Lexeme::String
            | Lexeme::Arrow
            | Lexeme::Punct(_) => format!("`{shown}`"),
        };
        self.malformed(found.offset, format!("expected {what}, found {found_text}"))
    }

    /// Runs a part of the grammar that may contain itself.
    pub(super) fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= MAX_DEPTH {
            return self.unsupported(self.lexer.peek().offset, format!("nesting deeper than {MAX_DEPTH}"));
        }
        self.depth += 1;
        let result = parse(self);
        self.depth -= 1;
        result
    }

    // Tokens.

    pub(super) fn peek(&self) -> Token<'a> {
        self.lexer.peek()
    }

    pub(super) fn at(&self, punct: u8) -> bool {
        self.peek().lexeme == Lexeme::Punct(punct)
    }

    pub(super) fn at_word(&self, word: &str) -> bool {
        let token = self.peek();
        token.lexeme == Lexeme::Word && token.text == word
    }

    pub(super) fn take(&mut self, punct: u8) -> bool {
        let found = self.at(punct);
        if found {
            self.lexer.next();
        }
        found
    }

    pub(super) fn take_word(&mut self, word: &str) -> bool {
        let found = self.at_word(word);
        if found {
            self.lexer.next();
        }
        found
    }

    pub(super) fn expect(&mut self, punct: u8) -> Result<()> {
        let token = self.lexer.next();
        if token.lexeme == Lexeme::Punct(punct) {
            Ok(())
        } else {
            self.expected(&format!("`{}`", char::from(punct)), token)
        }
    }

    pub(super) fn expect_word(&mut self, word: &str) -> Result<()> {
        let token = self.lexer.next();
        if token.lexeme == Lexeme::Word && token.text == word {
            Ok(())
        } else {
            self.expected(&format!("`{word}`"), token)
        }
    }

    pub(super) fn expect_lexeme(&mut self, lexeme: Lexeme, what: &str) -> Result<Token<'a>> {
        let token = self.lexer.next();
        if token.lexeme == lexeme { Ok(token) } else { self.expected(what, token) }
    }

    /// `open … close`, with anything balanced in between.
    pub(super) fn skip_group(&mut self, open: u8, close: u8) -> Result<()> {
        let start = self.peek().offset;
        self.expect(open)?;
        let mut depth = 1usize;
        while depth > 0 {
            let token = self.lexer.next();
            match token.lexeme {
                Lexeme::Punct(punct) if punct == open => depth += 1,
                Lexeme::Punct(punct) if punct == close => depth -= 1,
                Lexeme::End => {
                    return self.malformed(start, format!("this `{}` is not closed", char::from(open)));
                }
                Lexeme::Stray => return self.expected("a token", token),
                Lexeme::Value
                | Lexeme::Symbol
                | Lexeme::Block
                | Lexeme::Attribute
                | Lexeme::Type
                | Lexeme::Word
                | Lexeme::Number
                | Lexeme::String
                | Lexeme::Arrow
                | Lexeme::Punct(_) => {}
            }
        }
        Ok(())
    }

    /// Zero or more items between `open` and `close`, separated by commas.
    pub(super) fn list<T>(
        &mut self,
        open: u8,
        close: u8,
        mut item: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        self.expect(open)?;
        let mut items = Vec::new();
        if self.take(close) {
            return Ok(items);
        }
        loop {
            items.push(item(self)?);
            if !self.take(b',') {
                self.expect(close)?;
                return Ok(items);
            }
        }
    }

    /// An integer, with an optional sign.
    pub(super) fn integer(&mut self) -> Result<i64> {
        let start = self.peek();
        let negative = self.take(b'-');
        let token = self.expect_lexeme(Lexeme::Number, "an integer")?;
        let text = if negative { format!("-{}", token.text) } else { token.text.to_owned() };
        match text.parse() {
            Ok(value) => Ok(value),
            Err(_) => self.malformed(start.offset, format!("{text} is no 64-bit integer")),
        }
    }

    /// `[1, 2]`.
    pub(super) fn integers(&mut self) -> Result<Vec<i64>> {
        self.list(b'[', b']', Self::integer)
    }

    // Types.

    pub(super) fn tensor_type(&mut self) -> Result<TensorType> {
        let token = self.lexer.next();
        match token.lexeme {
            Lexeme::Word if token.text == "tensor" => {}
            Lexeme::Word | Lexeme::Type => {
                return self.unsupported(token.offset, format!("{} is no type of the op table", token.text));
            }
            Lexeme::Stray
            | Lexeme::Value
            | Lexeme::Symbol
            | Lexeme::Block
            | Lexeme::Attribute
            | Lexeme::Number
            | Lexeme::String
            | Lexeme::Arrow
            | Lexeme::Punct(_)
            | Lexeme::End => return self.expected("a tensor type", token),
        }
        self.expect(b'<')?;
        let mut extents = SmallVec::<[usize; 4]>::new();
        let bytes = self.lexer.source.as_bytes();
        let mut at = self.lexer.offset;
        while bytes.get(at).is_some_and(u8::is_ascii_digit) {
            let digits = bytes[at..].iter().take_while(|b| b.is_ascii_digit()).count();
            let Ok(extent) = self.lexer.source[at..at + digits].parse() else {
                return self.malformed(at, "this extent is larger than an index");
            };
            extents.push(extent);
            at += digits;
            if bytes.get(at) != Some(&b'x') {
                return self.malformed(at, "expected `x` after an extent");
            }
            at += 1;
        }
        let name_len = bytes[at..].iter().take_while(|b| b.is_ascii_alphanumeric()).count();
        let name = &self.lexer.source[at..at + name_len];
        if let Some(b'?' | b'*') = bytes.get(at) {
            return self.unsupported(at, "extents must be known");
        }
        let Some(dtype) = DType::from_mlir(name) else {
            return self.unsupported(at, format!("`{name}` is no dtype of the op table"));
        };
        self.lexer.offset = at + name_len;
        if self.at(b',') {
            return self.unsupported(self.peek().offset, "tensor encodings are not supported");
        }
        self.expect(b'>')?;
        let ty = TensorType { dtype, shape: Shape::new(extents) };
        if !printer::is_readable(&ty) {
            return self.unsupported(token.offset, format!("ranks above {} are not read", printer::MAX_RANK));
        }
        if !infer::addressable(&ty) {
            return self.malformed(token.offset, format!("{ty} takes more than {} bytes", isize::MAX));
        }
        Ok(ty)
    }

    /// One type, or several in parentheses.
    fn result_types(&mut self) -> Result<Vec<TensorType>> {
        if self.at(b'(') { self.list(b'(', b')', Self::tensor_type) } else { Ok(vec![self.tensor_type()?]) }
    }

    /// `(types) -> types`.
    pub(super) fn functional_type(&mut self) -> Result<Signature> {
        let operands = self.list(b'(', b')', Self::tensor_type)?;
        self.expect_lexeme(Lexeme::Arrow, "`->`")?;
        Ok(Signature { operands, results: self.result_types()? })
    }

    /// A functional type, or the one type that `operands` operands and the result share.
    pub(super) fn same_type(&mut self, operands: usize) -> Result<Signature> {
        if self.at(b'(') {
            return self.functional_type();
        }
        let ty = self.tensor_type()?;
        // CHLO's ops repeat the type as their result's.
        let result = if self.peek().lexeme == Lexeme::Arrow {
            self.expect_lexeme(Lexeme::Arrow, "`->`")?;
            self.tensor_type()?
        } else {
            ty.clone()
        };
        Ok(Signature { operands: vec![ty; operands], results: vec![result] })
    }

    // Values.

    /// The value that a use names.
    pub(super) fn value(&mut self, scope: &Scope<'a>) -> Result<ValueId> {
        let token = self.expect_lexeme(Lexeme::Value, "a value")?;
        let (name, number) = token.text.split_once('#').unwrap_or((token.text, "0"));
        let Some(values) = scope.get(name) else {
            return self.malformed(token.offset, format!("{name} is not defined here"));
        };
        match number.parse::<usize>().ok().and_then(|number| values.get(number)) {
            Some(&value) => Ok(value),
            None => self.malformed(token.offset, format!("{name} has no result {number}")),
        }
    }

    /// `%a, %b`, or nothing.
    pub(super) fn values(&mut self, scope: &Scope<'a>) -> Result<Vec<ValueId>> {
        let mut values = Vec::new();
        while self.peek().lexeme == Lexeme::Value {
            values.push(self.value(scope)?);
            // `, dim = 0` follows the operands of some ops.
            let before = self.lexer;
            if !self.take(b',') {
                break;
            }
            if self.peek().lexeme != Lexeme::Value {
                self.lexer = before;
                break;
            }
        }
        Ok(values)
    }

    /// Stated operand types agree with the operands'.
    pub(super) fn check_operands(
        &self,
        offset: usize,
        trace: &Trace,
        operands: &[ValueId],
        stated: &[TensorType],
    ) -> Result<()> {
        if operands.len() != stated.len() {
            let message = format!("{} operands, but {} operand types are stated", operands.len(), stated.len());
            return self.malformed(offset, message);
        }
        for (i, (&operand, stated)) in operands.iter().zip(stated).enumerate() {
            let ty = trace.ty(operand);
            if ty != stated {
                return self.malformed(offset, format!("operand {i} has type {ty}, stated is {stated}"));
            }
        }
        Ok(())
    }

    // Locations.

    /// `loc(…)`, or nothing.
    pub(super) fn optional_location(&mut self) -> Result<Origin> {
        if !self.take_word("loc") {
            return Ok(Origin::Unknown);
        }
        self.expect(b'(')?;
        let origin = self.location()?;
        self.expect(b')')?;
        Ok(origin)
    }

    /// The inside of `loc(…)`. Of fused and call-site locations the first that says something counts.
    fn location(&mut self) -> Result<Origin> {
        self.nested(|parser| {
            let token = parser.lexer.next();
            match token.lexeme {
                Lexeme::String => {
                    let mut place = lexer::unescape(token.text);
                    while parser.take(b':') {
                        let number = parser.expect_lexeme(Lexeme::Number, "a line or column")?;
                        place = format!("{place}:{}", number.text);
                    }
                    if parser.take_word("to") {
                        while parser.take(b':') || parser.peek().lexeme == Lexeme::Number {
                            parser.expect_lexeme(Lexeme::Number, "a line or column").map(drop)?;
                        }
                    }
                    if parser.at(b'(') {
                        parser.skip_group(b'(', b')')?;
                    }
                    Ok(Origin::Named(place.into()))
                }
                Lexeme::Attribute => Ok(parser.locations.get(token.text).cloned().unwrap_or(Origin::Unknown)),
                Lexeme::Word if token.text == "unknown" => Ok(Origin::Unknown),
                Lexeme::Word if token.text == "fused" => {
                    if parser.at(b'<') {
                        parser.skip_group(b'<', b'>')?;
                    }
                    let parts = parser.list(b'[', b']', Self::location)?;
                    Ok(parts.into_iter().find(|part| *part != Origin::Unknown).unwrap_or(Origin::Unknown))
                }
                Lexeme::Word if token.text == "callsite" => {
                    parser.expect(b'(')?;
                    let callee = parser.location()?;
                    parser.expect_word("at")?;
                    let caller = parser.location()?;
                    parser.expect(b')')?;
                    Ok(if callee == Origin::Unknown { caller } else { callee })
                }
                Lexeme::Value
                | Lexeme::Symbol
                | Lexeme::Block
                | Lexeme::Type
                | Lexeme::Word
                | Lexeme::Number
                | Lexeme::Arrow
                | Lexeme::Punct(_)
                | Lexeme::Stray
                | Lexeme::End => parser.expected("a location", token),
            }
        })
    }
}
