//! Blocks: statements one after another, in pretty or generic form, up to a terminator.

use std::sync::Arc;

use smallvec::SmallVec;
use systole_kernels::TensorType;

use super::attribute::Dictionary;
use super::error::Kind;
use super::lexer::{self, Lexeme, Token};
use super::parser::{Parser, Result, Scope, Signature};
use crate::ir::{Opcode, Origin, Region, Trace, ValueId};

/// An op as its text states it.
#[derive(Debug)]
pub(super) struct Statement {
    pub(super) operands: Vec<ValueId>,
    pub(super) dictionary: Dictionary,
    pub(super) regions: Vec<Region>,
    pub(super) signature: Signature,
}

/// A named argument of a function or region.
#[derive(Clone, Debug)]
pub(super) struct Argument<'a> {
    pub(super) name: Token<'a>,
    pub(super) ty: TensorType,
}

impl<'a> Parser<'a> {
    /// Statements up to and including the terminator; gives the terminator's operands.
    pub(super) fn block(&mut self, trace: &mut Trace, scope: &mut Scope<'a>) -> Result<Vec<ValueId>> {
        loop {
            let results = self.result_names()?;
            let op = self.lexer.next();
            let generic = op.lexeme == Lexeme::String;
            let name = match op.lexeme {
                Lexeme::Word => op.text.to_owned(),
                Lexeme::String => lexer::unescape(op.text),
                Lexeme::Value
                | Lexeme::Symbol
                | Lexeme::Block
                | Lexeme::Attribute
                | Lexeme::Type
                | Lexeme::Number
                | Lexeme::Arrow
                | Lexeme::Punct(_)
                | Lexeme::Stray
                | Lexeme::End => return self.expected("an op", op),
            };
            if let "return" | "func.return" | "stablehlo.return" = &*name {
                if !results.is_empty() {
                    return self.malformed(op.offset, "a terminator has no results");
                }
                return self.terminator(trace, scope, op, generic);
            }
            let values = match &*name {
                "call" | "func.call" if !generic => self.call(trace, scope, op)?,
                _ => self.operation(trace, scope, op, &name, generic)?,
            };
            self.bind(scope, &results, &values, op)?;
        }
    }

    /// `%0, %1:2 =`, or nothing.
    fn result_names(&mut self) -> Result<Vec<(Token<'a>, usize)>> {
        let mut names = Vec::new();
        if self.peek().lexeme != Lexeme::Value {
            return Ok(names);
        }
        loop {
            let name = self.expect_lexeme(Lexeme::Value, "a result")?;
            if name.text.contains('#') {
                return self.malformed(name.offset, "a result's name has no `#`");
            }
            let mut count = 1;
            if self.take(b':') {
                let offset = self.peek().offset;
                match usize::try_from(self.integer()?) {
                    Ok(stated) if stated > 0 => count = stated,
                    Ok(_) | Err(_) => {
                        return self.malformed(offset, "expected the number of results");
                    }
                }
            }
            names.push((name, count));
            if !self.take(b',') {
                self.expect(b'=')?;
                return Ok(names);
            }
        }
    }

    fn bind(
        &self,
        scope: &mut Scope<'a>,
        names: &[(Token<'a>, usize)],
        values: &[ValueId],
        op: Token<'a>,
    ) -> Result<()> {
        let named = names.iter().fold(0usize, |sum, (_, count)| sum.saturating_add(*count));
        if named != values.len() && !(names.is_empty() && values.len() == 1) {
            return self.malformed(op.offset, format!("{} results, but {named} are named", values.len()));
        }
        let mut rest = values;
        for &(name, count) in names {
            let (mine, others) = rest.split_at(count);
            self.define(scope, name, mine)?;
            rest = others;
        }
        Ok(())
    }

    pub(super) fn define(&self, scope: &mut Scope<'a>, name: Token<'a>, values: &[ValueId]) -> Result<()> {
        match scope.insert(name.text, SmallVec::from_slice(values)) {
            None => Ok(()),
            Some(_) => self.malformed(name.offset, format!("{} is defined twice", name.text)),
        }
    }

    fn terminator(&mut self, trace: &Trace, scope: &Scope<'a>, op: Token<'a>, generic: bool) -> Result<Vec<ValueId>> {
        let values;
        let mut types = Vec::new();
        if generic {
            values = self.list(b'(', b')', |parser| parser.value(scope))?;
            self.expect(b':')?;
            types = self.list(b'(', b')', Self::tensor_type)?;
            self.expect_lexeme(Lexeme::Arrow, "`->`")?;
            self.expect(b'(')?;
            self.expect(b')')?;
        } else {
            values = self.values(scope)?;
            if !values.is_empty() {
                self.expect(b':')?;
                types.push(self.tensor_type()?);
                while self.take(b',') {
                    types.push(self.tensor_type()?);
                }
            }
        }
        self.optional_location()?;
        self.check_operands(op.offset, trace, &values, &types)?;
        Ok(values)
    }

    fn operation(
        &mut self,
        trace: &mut Trace,
        scope: &Scope<'a>,
        op: Token<'a>,
        name: &str,
        generic: bool,
    ) -> Result<Vec<ValueId>> {
        let Some(opcode) = Opcode::from_name(name) else {
            return if name.contains('.') {
                self.unsupported(op.offset, format!("the op table has no {name}"))
            } else {
                self.expected("an op", op)
            };
        };
        // Pretty forms start with a value or an attribute; only reduce's own starts with a parenthesis.
        let generic = generic || (self.at(b'(') && opcode != Opcode::Reduce);
        let statement = if generic { self.generic(scope)? } else { self.pretty(opcode, scope)? };
        let origin = self.optional_location()?;
        self.record(trace, opcode, op.offset, statement, origin)
    }

    /// `(%a, %b) <{…}> ({ region }) {…} : (types) -> types`.
    fn generic(&mut self, scope: &Scope<'a>) -> Result<Statement> {
        let operands = self.list(b'(', b')', |parser| parser.value(scope))?;
        let mut dictionary = Dictionary::default();
        if self.take(b'<') {
            dictionary = self.optional_dictionary()?;
            self.expect(b'>')?;
        }
        let regions = if self.at(b'(') { self.list(b'(', b')', Self::region)? } else { Vec::new() };
        dictionary.0.extend(self.optional_dictionary()?.0);
        self.expect(b':')?;
        let signature = self.functional_type()?;
        Ok(Statement { operands, dictionary, regions, signature })
    }

    /// `{ ^bb0(%a: type, …): … }`.
    fn region(&mut self) -> Result<Region> {
        let start = self.peek().offset;
        let mut arguments = Vec::new();
        self.nested(|parser| {
            parser.expect(b'{')?;
            if parser.peek().lexeme == Lexeme::Block {
                parser.lexer.next();
                if parser.at(b'(') {
                    arguments = parser.list(b'(', b')', Self::argument)?;
                }
                parser.expect(b':')?;
            }
            let region = parser.region_block(start, &arguments)?;
            parser.expect(b'}')?;
            Ok(region)
        })
    }

    /// The statements of a region with these arguments. It sees no values from outside.
    pub(super) fn region_block(&mut self, start: usize, arguments: &[Argument<'a>]) -> Result<Region> {
        self.nested(|parser| {
            let (mut trace, mut scope) = (Trace::new(), Scope::new());
            for argument in arguments {
                let value = trace.input(argument.ty.clone());
                parser.define(&mut scope, argument.name, &[value])?;
            }
            let outputs = parser.block(&mut trace, &mut scope)?;
            if outputs.is_empty() {
                return parser.malformed(start, "this region returns nothing");
            }
            outputs.into_iter().for_each(|value| trace.output(value));
            Ok(Arc::new(trace))
        })
    }

    /// `%arg0: tensor<2xf32> {attributes} loc(…)`.
    pub(super) fn argument(&mut self) -> Result<Argument<'a>> {
        let name = self.expect_lexeme(Lexeme::Value, "an argument")?;
        self.expect(b':')?;
        let ty = self.tensor_type()?;
        self.optional_dictionary()?;
        self.optional_location()?;
        Ok(Argument { name, ty })
    }

    /// Appends the node, after checking the types that the text states against operands and inference.
    fn record(
        &mut self,
        trace: &mut Trace,
        op: Opcode,
        offset: usize,
        statement: Statement,
        origin: Origin,
    ) -> Result<Vec<ValueId>> {
        let Statement { operands, dictionary, regions, signature } = statement;
        self.check_operands(offset, trace, &operands, &signature.operands)?;
        let Some(stated) = signature.results.first() else {
            return self.malformed(offset, format!("{op} has a result, no type is stated"));
        };
        let operand = operands.first().map(|&value| trace.ty(value).clone());
        let attrs =
            super::attrs::attrs(op, operand.as_ref(), &dictionary, stated).map_err(|kind| self.error(offset, kind))?;
        let types: SmallVec<[&TensorType; 3]> = operands.iter().map(|&value| trace.ty(value)).collect();
        let inferred =
            crate::infer::infer(op, &types, &attrs, &regions).map_err(|error| self.error(offset, Kind::Type(error)))?;
        drop(types);
        if inferred.len() != signature.results.len() {
            let (results, types) = (inferred.len(), signature.results.len());
            let plural = if results == 1 { "" } else { "s" };
            return self.malformed(offset, format!("{op} has {results} result{plural}, {types} types are stated"));
        }
        if let Some((inferred, stated)) = inferred.iter().zip(&signature.results).find(|(a, b)| a != b) {
            return self.malformed(offset, format!("the result has type {inferred}, stated is {stated}"));
        }
        let results = inferred.len() as u32;
        let first = trace.push_inferred(op, operands.into(), attrs, regions.into_iter().collect(), inferred, origin);
        Ok((first.0..first.0 + results).map(ValueId).collect())
    }

    /// `call @f(%a) : (types) -> types`: the function's statements, inlined.
    fn call(&mut self, trace: &mut Trace, scope: &Scope<'a>, op: Token<'a>) -> Result<Vec<ValueId>> {
        let symbol = self.expect_lexeme(Lexeme::Symbol, "a function's name")?;
        let operands = self.list(b'(', b')', |parser| parser.value(scope))?;
        self.optional_dictionary()?;
        self.expect(b':')?;
        let signature = self.functional_type()?;
        self.optional_location()?;
        self.check_operands(op.offset, trace, &operands, &signature.operands)?;
        let Some(function) = self.functions.get(symbol.text).cloned() else {
            return self.malformed(symbol.offset, format!("there is no function {}", symbol.text));
        };
        let arguments: Vec<&TensorType> = function.arguments.iter().map(|argument| &argument.ty).collect();
        if arguments != operands.iter().map(|&value| trace.ty(value)).collect::<Vec<_>>() {
            return self.malformed(symbol.offset, format!("the arguments do not fit {}", symbol.text));
        }
        if function.results != signature.results {
            return self.malformed(symbol.offset, format!("the stated results are not those of {}", symbol.text));
        }
        let Some(budget) = self.inline_budget.checked_sub(function.length) else {
            return self.unsupported(symbol.offset, "calls inline to more text than is taken");
        };
        self.inline_budget = budget;
        let after = self.lexer;
        let outputs = self.function_body(trace, &function, &operands)?;
        self.lexer = after;
        Ok(outputs)
    }
}
