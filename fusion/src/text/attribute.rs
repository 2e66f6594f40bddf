//! Attributes as MLIR writes them, before they are given a meaning.

use systole_kernels::{DType, TensorType};

use super::lexer::Lexeme;
use super::literal::{self, Written};
use super::parser::{Parser, Result};
use crate::ir::Literal;

/// An attribute's value, as far as any op here reads it.
#[derive(Clone, Debug)]
pub(super) enum Attribute {
    /// `true`.
    Bool(bool),
    /// `1`, `1 : i64`.
    Int(i64),
    /// `[1, 2]`, `array<i64: 1, 2>`.
    Ints(Vec<i64>),
    /// `LT`, `#stablehlo<comparison_direction LT>`.
    Word(String),
    /// `[DEFAULT, HIGHEST]`, or each as in [`Word`](Self::Word).
    Words(Vec<String>),
    /// `#stablehlo.gather<offset_dims = [1], …>`.
    Struct(Dictionary),
    /// `dense<…> : tensor<…>`.
    Elements(Literal),
    /// Anything else: strings, dictionaries, types, symbols, floats.
    Other,
}

/// Named attributes in the order of the text.
#[derive(Clone, Debug, Default)]
pub(super) struct Dictionary(pub(super) Vec<(String, Attribute)>);

impl Dictionary {
    pub(super) fn get(&self, name: &str) -> Option<&Attribute> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    pub(super) fn set(&mut self, name: &str, value: Attribute) {
        self.0.push((name.to_owned(), value));
    }
}

impl<'a> Parser<'a> {
    /// `{ name = value, … }`, or nothing.
    pub(super) fn optional_dictionary(&mut self) -> Result<Dictionary> {
        if self.at(b'{') { self.entries(b'{', b'}') } else { Ok(Dictionary::default()) }
    }

    /// Named attributes between brackets; one without a value is a unit.
    pub(super) fn entries(&mut self, open: u8, close: u8) -> Result<Dictionary> {
        let entries = self.list(open, close, |parser| {
            let key = parser.lexer.next();
            let name = match key.lexeme {
                Lexeme::Word => key.text.to_owned(),
                Lexeme::String => super::lexer::unescape(key.text),
                Lexeme::Value
                | Lexeme::Symbol
                | Lexeme::Block
                | Lexeme::Attribute
                | Lexeme::Type
                | Lexeme::Number
                | Lexeme::Arrow
                | Lexeme::Punct(_)
                | Lexeme::Stray
                | Lexeme::End => return parser.expected("an attribute's name", key),
            };
            let value = if parser.take(b'=') { parser.attribute()? } else { Attribute::Other };
            Ok((name, value))
        })?;
        Ok(Dictionary(entries))
    }

    pub(super) fn attribute(&mut self) -> Result<Attribute> {
        self.nested(|parser| {
            let token = parser.peek();
            match token.lexeme {
                Lexeme::Number | Lexeme::Punct(b'-') => parser.number(),
                Lexeme::String => {
                    parser.lexer.next();
                    parser.skip_type_suffix()?;
                    Ok(Attribute::Other)
                }
                Lexeme::Punct(b'[') => {
                    let items = parser.list(b'[', b']', Self::attribute)?;
                    let ints = items.iter().map(|item| if let Attribute::Int(n) = item { Some(*n) } else { None });
                    if let Some(ints) = ints.collect() {
                        return Ok(Attribute::Ints(ints));
                    }
                    let word = |item| if let Attribute::Word(word) = item { Some(word) } else { None };
                    Ok(items.into_iter().map(word).collect::<Option<_>>().map_or(Attribute::Other, Attribute::Words))
                }
                Lexeme::Punct(b'{') => parser.optional_dictionary().map(|_| Attribute::Other),
                Lexeme::Word => parser.word_attribute(),
                Lexeme::Attribute => parser.dialect_attribute(),
                Lexeme::Symbol | Lexeme::Type => {
                    parser.lexer.next();
                    if parser.at(b'<') {
                        parser.skip_group(b'<', b'>')?;
                    }
                    Ok(Attribute::Other)
                }
                Lexeme::Punct(b'(') => {
                    // A function type.
                    parser.skip_group(b'(', b')')?;
                    parser.expect_lexeme(Lexeme::Arrow, "`->`")?;
                    parser.attribute()
                }
                Lexeme::Value | Lexeme::Block | Lexeme::Arrow | Lexeme::Punct(_) | Lexeme::Stray | Lexeme::End => {
                    parser.expected("an attribute", token)
                }
            }
        })
    }

    fn number(&mut self) -> Result<Attribute> {
        let start = self.lexer;
        self.take(b'-');
        let token = self.expect_lexeme(Lexeme::Number, "a number")?;
        if token.text.contains('.') || token.text.starts_with("0x") {
            self.skip_type_suffix()?;
            return Ok(Attribute::Other);
        }
        self.lexer = start;
        let value = self.integer()?;
        self.skip_type_suffix()?;
        Ok(Attribute::Int(value))
    }

    /// `: i64` after a number or string.
    fn skip_type_suffix(&mut self) -> Result<()> {
        if self.take(b':') { self.attribute().map(drop) } else { Ok(()) }
    }

    fn word_attribute(&mut self) -> Result<Attribute> {
        let token = self.lexer.next();
        match token.text {
            "true" => Ok(Attribute::Bool(true)),
            "false" => Ok(Attribute::Bool(false)),
            "dense" => {
                self.lexer.offset = token.offset;
                self.elements().map(Attribute::Elements)
            }
            "array" => self.array(),
            word => {
                if self.at(b'<') {
                    self.skip_group(b'<', b'>')?;
                } else if self.at(b'(') && word == "loc" {
                    self.skip_group(b'(', b')')?;
                }
                Ok(Attribute::Word(word.to_owned()))
            }
        }
    }

    /// After `array`: `<i64: 1, 2>`.
    fn array(&mut self) -> Result<Attribute> {
        self.expect(b'<')?;
        let element = self.expect_lexeme(Lexeme::Word, "an element type")?;
        if self.take(b'>') {
            return Ok(Attribute::Ints(Vec::new()));
        }
        self.expect(b':')?;
        let integers = matches!(element.text, "i64" | "i32");
        let mut values = Vec::new();
        loop {
            match self.attribute()? {
                Attribute::Int(value) => values.push(value),
                Attribute::Bool(_)
                | Attribute::Ints(_)
                | Attribute::Word(_)
                | Attribute::Words(_)
                | Attribute::Struct(_)
                | Attribute::Elements(_)
                | Attribute::Other => {
                    if integers {
                        return self.malformed(element.offset, "this array has an element that is no integer");
                    }
                }
            }
            if !self.take(b',') {
                self.expect(b'>')?;
                return Ok(if integers { Attribute::Ints(values) } else { Attribute::Other });
            }
        }
    }

    /// `#stablehlo<kind WORD>`, `#stablehlo.name<key = value, …>`, an alias, or another dialect's.
    fn dialect_attribute(&mut self) -> Result<Attribute> {
        let token = self.lexer.next();
        if !self.at(b'<') {
            return Ok(Attribute::Other);
        }
        if token.text == "#stablehlo" {
            self.expect(b'<')?;
            self.expect_lexeme(Lexeme::Word, "an enumeration's name")?;
            let word = self.expect_lexeme(Lexeme::Word, "a word of the enumeration")?;
            self.expect(b'>')?;
            return Ok(Attribute::Word(word.text.to_owned()));
        }
        if token.text.starts_with("#stablehlo.") {
            return self.entries(b'<', b'>').map(Attribute::Struct);
        }
        self.skip_group(b'<', b'>')?;
        Ok(Attribute::Other)
    }

    /// `dense<…> : tensor<…>`.
    pub(super) fn elements(&mut self) -> Result<Literal> {
        let start = self.peek().offset;
        if !self.take_word("dense") {
            let token = self.peek();
            return if token.lexeme == Lexeme::Word && token.text.starts_with("dense_resource") {
                self.unsupported(start, "elements in a resource blob are not read")
            } else {
                self.expected("`dense`", token)
            };
        }
        self.expect(b'<')?;
        let token = self.peek();
        let written = match token.lexeme {
            Lexeme::Punct(b'>') => Elements::List { flat: Vec::new(), shape: None },
            Lexeme::String => {
                self.lexer.next();
                Elements::Hex { offset: token.offset, text: &token.text[1..token.text.len() - 1] }
            }
            Lexeme::Punct(b'[') => {
                let (mut flat, mut shape) = (Vec::new(), Vec::new());
                self.element_list(0, &mut flat, &mut shape)?;
                Elements::List { flat, shape: Some(shape.into_iter().map(|extent| extent.unwrap_or(0)).collect()) }
            }
            Lexeme::Value
            | Lexeme::Symbol
            | Lexeme::Block
            | Lexeme::Attribute
            | Lexeme::Type
            | Lexeme::Word
            | Lexeme::Number
            | Lexeme::Arrow
            | Lexeme::Punct(_)
            | Lexeme::Stray
            | Lexeme::End => Elements::Splat(self.element()?),
        };
        self.expect(b'>')?;
        self.expect(b':')?;
        let ty = self.tensor_type()?;
        self.build_elements(start, ty, written)
    }

    fn element(&mut self) -> Result<Written<'a>> {
        let start = self.peek().offset;
        if self.at(b'(') {
            return self.unsupported(start, "complex elements are not supported");
        }
        let negative = self.take(b'-');
        let token = self.lexer.next();
        match token.lexeme {
            Lexeme::Number => Ok(Written { offset: start, negative, text: token.text }),
            Lexeme::Word if matches!(token.text, "true" | "false") => {
                Ok(Written { offset: start, negative, text: token.text })
            }
            Lexeme::Value
            | Lexeme::Symbol
            | Lexeme::Block
            | Lexeme::Attribute
            | Lexeme::Type
            | Lexeme::Word
            | Lexeme::String
            | Lexeme::Arrow
            | Lexeme::Punct(_)
            | Lexeme::Stray
            | Lexeme::End => self.expected("an element", token),
        }
    }

    /// Nested lists; `shape[depth]` is the length that every list of that depth has.
    fn element_list(
        &mut self,
        depth: usize,
        flat: &mut Vec<Written<'a>>,
        shape: &mut Vec<Option<usize>>,
    ) -> Result<()> {
        self.nested(|parser| {
            let start = parser.peek().offset;
            if shape.len() <= depth {
                shape.push(None);
            }
            let mut lists = false;
            let length = parser
                .list(b'[', b']', |parser| {
                    lists = parser.at(b'[');
                    if lists {
                        parser.element_list(depth + 1, flat, shape)
                    } else if shape.len() > depth + 1 {
                        parser.malformed(parser.peek().offset, "an element beside a list")
                    } else {
                        flat.push(parser.element()?);
                        Ok(())
                    }
                })?
                .len();
            match shape[depth] {
                Some(other) if other != length => {
                    parser.malformed(start, format!("this list has {length} entries, those before it have {other}"))
                }
                Some(_) | None => {
                    shape[depth] = Some(length);
                    Ok(())
                }
            }
        })
    }

    fn build_elements(&self, start: usize, ty: TensorType, written: Elements<'a>) -> Result<Literal> {
        let count = ty.shape.elements();
        let (flat, shape) = match written {
            Elements::Splat(value) => {
                let scalar = self.scalar(ty.dtype, value)?;
                return Ok(if count == 0 { literal::compact(ty, Vec::new()) } else { Literal::Splat(ty, scalar) });
            }
            Elements::Hex { offset, text } => {
                let Some(bytes) = literal::read_hex(text) else {
                    return self.malformed(offset, "expected an even number of hex digits after `0x`");
                };
                if bytes.len() != ty.byte_len() {
                    let message = format!("{} bytes, {ty} takes {}", bytes.len(), ty.byte_len());
                    return self.malformed(offset, message);
                }
                if ty.dtype == DType::Bool && bytes.iter().any(|&byte| byte > 1) {
                    return self.malformed(offset, "the bytes of a bool are 0 or 1");
                }
                return Ok(literal::compact(ty, bytes));
            }
            Elements::List { flat, shape } => (flat, shape),
        };
        let fits = match &shape {
            // `dense<>` and lists that end early stand for no elements.
            None => count == 0,
            Some(shape) => (flat.is_empty() && count == 0) || shape[..] == *ty.shape.extents(),
        };
        if !fits {
            let shape = shape.unwrap_or_default();
            return self.malformed(start, format!("elements of shape {shape:?} are given for {ty}"));
        }
        let mut bytes = Vec::with_capacity(flat.len() * ty.dtype.size());
        for written in flat {
            let scalar = self.scalar(ty.dtype, written)?;
            bytes.extend_from_slice(&scalar.to_le_bytes()[..ty.dtype.size()]);
        }
        Ok(literal::compact(ty, bytes))
    }

    fn scalar(&self, dtype: DType, written: Written<'_>) -> Result<systole_kernels::Scalar> {
        literal::read(dtype, written).or_else(|message| self.malformed(written.offset, message))
    }
}

enum Elements<'a> {
    Splat(Written<'a>),
    Hex { offset: usize, text: &'a str },
    List { flat: Vec<Written<'a>>, shape: Option<Vec<usize>> },
}
