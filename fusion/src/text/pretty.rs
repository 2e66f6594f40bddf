//! Pretty forms. Each is read into what the generic form would say, so that attributes get their meaning in one place.

use super::attribute::{Attribute, Dictionary};
use super::block::Statement;
use super::lexer::Lexeme;
use super::parser::{Parser, Result, Scope, Signature};
use crate::ir::region::{as_body, monoid_op};
use crate::ir::{Attrs, OpClass, Opcode, Origin, Region, Trace, ValueId};

impl<'a> Parser<'a> {
    /// What follows the name of an op in pretty form.
    pub(super) fn pretty(&mut self, op: Opcode, scope: &Scope<'a>) -> Result<Statement> {
        match op.class() {
            OpClass::Source if op == Opcode::Constant => self.constant(),
            OpClass::Source => self.iota(),
            OpClass::Unary | OpClass::Predicate | OpClass::Binary | OpClass::Convert => self.elementwise(scope),
            OpClass::Select if op == Opcode::Select => self.select(scope),
            OpClass::Select => self.elementwise(scope),
            OpClass::Compare => self.compare(scope),
            OpClass::View | OpClass::Overlay => self.movement(op, scope),
            OpClass::Reduce => self.reduce(scope),
            OpClass::Contract => self.dot_general(scope),
            OpClass::Gather if op == Opcode::DynamicSlice => self.dynamic_slice(scope),
            OpClass::Gather => {
                let token = self.peek();
                self.expected("`(`: gather has the generic form only", token)
            }
        }
    }

    /// `dense<…> : type`.
    fn constant(&mut self) -> Result<Statement> {
        let mut dictionary = self.optional_dictionary()?;
        let value = self.elements()?;
        let signature = Signature { operands: Vec::new(), results: vec![value.ty().clone()] };
        dictionary.set("value", Attribute::Elements(value));
        Ok(Statement { operands: Vec::new(), dictionary, regions: Vec::new(), signature })
    }

    /// `dim = 0 : type`.
    fn iota(&mut self) -> Result<Statement> {
        let mut dictionary = Dictionary::default();
        self.named_integer("dim", "iota_dimension", &mut dictionary)?;
        self.finish(Vec::new(), dictionary, |parser, _| parser.same_type(0))
    }

    /// `%a, %b : type`.
    fn elementwise(&mut self, scope: &Scope<'a>) -> Result<Statement> {
        let operands = self.values(scope)?;
        self.finish(operands, Dictionary::default(), Self::same_type)
    }

    /// `%pred, %a, %b : pred type, type`.
    fn select(&mut self, scope: &Scope<'a>) -> Result<Statement> {
        let operands = self.values(scope)?;
        self.finish(operands, Dictionary::default(), |parser, count| {
            if parser.at(b'(') {
                return parser.functional_type();
            }
            let pred = parser.tensor_type()?;
            parser.expect(b',')?;
            let ty = parser.tensor_type()?;
            let mut operands = vec![ty.clone(); count];
            if let Some(first) = operands.first_mut() {
                *first = pred;
            }
            Ok(Signature { operands, results: vec![ty] })
        })
    }

    /// `LT, %a, %b, FLOAT : functional type`.
    fn compare(&mut self, scope: &Scope<'a>) -> Result<Statement> {
        let mut dictionary = Dictionary::default();
        let direction = self.expect_lexeme(Lexeme::Word, "a comparison direction")?;
        dictionary.set("comparison_direction", Attribute::Word(direction.text.to_owned()));
        self.expect(b',')?;
        let operands = self.values(scope)?;
        if self.take(b',') {
            let order = self.expect_lexeme(Lexeme::Word, "a comparison type")?;
            dictionary.set("compare_type", Attribute::Word(order.text.to_owned()));
        }
        self.finish(operands, dictionary, |parser, _| parser.functional_type())
    }

    fn movement(&mut self, op: Opcode, scope: &Scope<'a>) -> Result<Statement> {
        let operands = self.values(scope)?;
        let mut dictionary = Dictionary::default();
        if op == Opcode::Reshape {
            return self.finish(operands, dictionary, Self::same_type);
        }
        if op == Opcode::DynamicUpdateSlice {
            return self.finish(operands, dictionary, |parser, _| parser.functional_type());
        }
        if op == Opcode::Reverse {
            self.expect(b',')?;
            self.named_integers("dims", "dimensions", &mut dictionary)?;
            return self.finish(operands, dictionary, Self::same_type);
        }
        if op == Opcode::Slice {
            self.slice_ranges(&mut dictionary)?;
        } else if op == Opcode::Concatenate {
            self.expect(b',')?;
            self.named_integer("dim", "dimension", &mut dictionary)?;
        } else if op == Opcode::Pad {
            for (word, name) in
                [("low", "edge_padding_low"), ("high", "edge_padding_high"), ("interior", "interior_padding")]
            {
                self.expect(b',')?;
                self.named_integers(word, name, &mut dictionary)?;
            }
        } else {
            let name = if op == Opcode::Transpose { "permutation" } else { "broadcast_dimensions" };
            self.expect(b',')?;
            self.named_integers("dims", name, &mut dictionary)?;
        }
        self.finish(operands, dictionary, |parser, _| parser.functional_type())
    }

    /// `%a, %i, %j, sizes = [1, 2] : functional type`.
    fn dynamic_slice(&mut self, scope: &Scope<'a>) -> Result<Statement> {
        let operands = self.values(scope)?;
        let mut dictionary = Dictionary::default();
        self.expect(b',')?;
        self.named_integers("sizes", "slice_sizes", &mut dictionary)?;
        self.finish(operands, dictionary, |parser, _| parser.functional_type())
    }

    /// `[start:limit:stride, …]`.
    fn slice_ranges(&mut self, dictionary: &mut Dictionary) -> Result<()> {
        let ranges = self.list(b'[', b']', |parser| {
            let start = parser.integer()?;
            parser.expect(b':')?;
            let limit = parser.integer()?;
            let stride = if parser.take(b':') { parser.integer()? } else { 1 };
            Ok([start, limit, stride])
        })?;
        for (i, name) in ["start_indices", "limit_indices", "strides"].into_iter().enumerate() {
            dictionary.set(name, Attribute::Ints(ranges.iter().map(|range| range[i]).collect()));
        }
        Ok(())
    }

    /// `%a, %b, batching_dims = [0] x [0], contracting_dims = [1] x [0], precision = […] : functional type`.
    fn dot_general(&mut self, scope: &Scope<'a>) -> Result<Statement> {
        let operands = self.values(scope)?;
        let mut dictionary = Dictionary::default();
        let mut dims = Dictionary::default();
        while self.take(b',') {
            let word = self.expect_lexeme(Lexeme::Word, "a dot attribute")?;
            self.expect(b'=')?;
            let kind = match word.text {
                "batching_dims" => "batching",
                "contracting_dims" => "contracting",
                "precision" => {
                    let value = self.attribute()?;
                    dictionary.set("precision_config", value);
                    continue;
                }
                "algorithm" => {
                    self.skip_group(b'<', b'>')?;
                    dictionary.set("algorithm", Attribute::Other);
                    continue;
                }
                _ => return self.expected("batching_dims, contracting_dims or precision", word),
            };
            dims.set(&format!("lhs_{kind}_dimensions"), Attribute::Ints(self.integers()?));
            self.expect_word("x")?;
            dims.set(&format!("rhs_{kind}_dimensions"), Attribute::Ints(self.integers()?));
        }
        dictionary.set("dot_dimension_numbers", Attribute::Struct(dims));
        self.finish(operands, dictionary, |parser, _| parser.functional_type())
    }

    /// `(%a init: %b) applies stablehlo.add across dimensions = [0] : functional type`, or without `applies` and with
    /// `reducer(%x: type, %y: type) { … }` at the end.
    fn reduce(&mut self, scope: &Scope<'a>) -> Result<Statement> {
        let before = self.lexer;
        let (mut operands, mut inits) = (Vec::new(), Vec::new());
        loop {
            self.expect(b'(')?;
            if self.peek().lexeme == Lexeme::Value {
                operands.push(self.value(scope)?);
            }
            if !self.take_word("init") {
                // `stablehlo.reduce(%a, %b) (…)`: the generic form without quotes.
                self.lexer = before;
                return self.expected("`init:`", self.peek());
            }
            self.expect(b':')?;
            inits.push(self.value(scope)?);
            self.expect(b')')?;
            if !self.take(b',') {
                break;
            }
        }
        let count = inits.len();
        operands.extend(inits);
        let body = if self.take_word("applies") { Some(self.applied()?) } else { None };
        self.expect_word("across")?;
        let mut dictionary = Dictionary::default();
        self.named_integers("dimensions", "dimensions", &mut dictionary)?;
        let mut statement = self.finish(operands, dictionary, |parser, _| parser.functional_type())?;
        let region = match body {
            Some(op) => self.applied_region(op, &statement)?,
            None => self.reducer(count)?,
        };
        statement.regions.push(region);
        Ok(statement)
    }

    fn applied(&mut self) -> Result<Opcode> {
        let token = self.lexer.next();
        let name = match token.lexeme {
            Lexeme::String => super::lexer::unescape(token.text),
            Lexeme::Word => token.text.to_owned(),
            Lexeme::Value
            | Lexeme::Symbol
            | Lexeme::Block
            | Lexeme::Attribute
            | Lexeme::Type
            | Lexeme::Number
            | Lexeme::Arrow
            | Lexeme::Punct(_)
            | Lexeme::Stray
            | Lexeme::End => return self.expected("an op", token),
        };
        match Opcode::from_name(&name) {
            Some(op) if op.class() == OpClass::Binary => Ok(op),
            Some(_) | None => self.unsupported(token.offset, format!("{name} is no body of a reduce")),
        }
    }

    /// The region that `applies` stands for.
    fn applied_region(&self, op: Opcode, statement: &Statement) -> Result<Region> {
        let offset = self.peek().offset;
        let Some(operand) = statement.signature.operands.first() else {
            return self.malformed(offset, "a reduce has operands");
        };
        let monoids = crate::ir::region::MONOIDS;
        if let Some(monoid) = monoids.into_iter().find(|&monoid| monoid_op(monoid) == op) {
            return Ok(crate::ir::region::monoid_region(monoid, operand.dtype));
        }
        // Not a body that inference takes; it says so with the operand types at hand.
        let mut trace = Trace::new();
        let ty = systole_kernels::TensorType::scalar(operand.dtype);
        let (a, b) = (trace.input(ty.clone()), trace.input(ty));
        let combined = trace
            .push(op, [a, b], Attrs::None, [], Origin::Unknown)
            .map_err(|error| self.error(offset, super::error::Kind::Type(error)))?;
        trace.output(combined);
        debug_assert_eq!(as_body(&trace), None, "monoids are taken above");
        Ok(Region::new(trace))
    }

    /// `reducer(%x: type, %y: type) (…) { … }`: for each operand the two arguments of its dtype. The region's arguments
    /// are the first of all, then the second of all.
    fn reducer(&mut self, operands: usize) -> Result<Region> {
        let start = self.peek().offset;
        self.expect_word("reducer")?;
        let (mut arguments, mut second) = (Vec::new(), Vec::new());
        for _ in 0..operands {
            let offset = self.peek().offset;
            let mut pair = self.list(b'(', b')', Self::argument)?.into_iter();
            match (pair.next(), pair.next(), pair.next()) {
                (Some(a), Some(b), None) => {
                    arguments.push(a);
                    second.push(b);
                }
                _ => return self.malformed(offset, "a reducer has two arguments for each operand"),
            }
        }
        arguments.extend(second);
        self.expect(b'{')?;
        let region = self.region_block(start, &arguments)?;
        self.expect(b'}')?;
        Ok(region)
    }

    /// `word = 3`.
    fn named_integer(&mut self, word: &str, name: &str, dictionary: &mut Dictionary) -> Result<()> {
        self.expect_word(word)?;
        self.expect(b'=')?;
        let value = self.integer()?;
        dictionary.set(name, Attribute::Int(value));
        Ok(())
    }

    /// `word = [1, 2]`.
    fn named_integers(&mut self, word: &str, name: &str, dictionary: &mut Dictionary) -> Result<()> {
        self.expect_word(word)?;
        self.expect(b'=')?;
        let values = self.integers()?;
        dictionary.set(name, Attribute::Ints(values));
        Ok(())
    }

    /// `{…} : types`, the end that all pretty forms share.
    fn finish(
        &mut self,
        operands: Vec<ValueId>,
        mut dictionary: Dictionary,
        signature: impl FnOnce(&mut Self, usize) -> Result<Signature>,
    ) -> Result<Statement> {
        dictionary.0.extend(self.optional_dictionary()?.0);
        self.expect(b':')?;
        let signature = signature(self, operands.len())?;
        Ok(Statement { operands, dictionary, regions: Vec::new(), signature })
    }
}
