//! Tokens of MLIR text.
//!
//! The lexer never fails: a character that starts no token is a token [`Lexeme::Stray`], which the parser rejects where
//! it stands. Tensor types are not made of tokens (`2x3xf32`, `0x2xi1`), so the parser scans them itself from
//! [`Lexer::offset`] on.

/// A kind of token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lexeme {
    /// `%0`, `%arg1`, `%0#1`.
    Value,
    /// `@main`, `@"any name"`.
    Symbol,
    /// `^bb0`.
    Block,
    /// `#stablehlo`, `#loc3`: an attribute's name or alias.
    Attribute,
    /// `!quant.uniform`: a dialect type.
    Type,
    /// `stablehlo.add`, `tensor`, `true`.
    Word,
    /// `12`, `0x7FC00000`, `1.5e-3`; a sign is a token of its own.
    Number,
    /// `"…"`, with the quotes.
    String,
    /// `->`.
    Arrow,
    /// One of ``( ) { } [ ] < > , : = ? * + - / ; |``.
    Punct(u8),
    /// Something that starts no token, or a string without an end.
    Stray,
    /// The end of the text.
    End,
}

/// A token.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'a> {
    pub(super) lexeme: Lexeme,
    /// Where it starts.
    pub(super) offset: usize,
    pub(super) text: &'a str,
}

/// A position in the text, from which tokens are read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lexer<'a> {
    pub(super) source: &'a str,
    /// Where the next token is looked for.
    pub(super) offset: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(source: &'a str) -> Self {
        Lexer { source, offset: 0 }
    }

    /// The next token, without going on.
    pub(super) fn peek(&self) -> Token<'a> {
        self.clone_next().0
    }

    /// The next token.
    pub(super) fn next(&mut self) -> Token<'a> {
        let (token, offset) = self.clone_next();
        self.offset = offset;
        token
    }

    fn clone_next(&self) -> (Token<'a>, usize) {
        let start = self.skip_blank();
        let rest = &self.source.as_bytes()[start..];
        let (lexeme, len) = scan(rest);
        // A stray byte may be part of a longer character: take all of it.
        let mut end = start + len;
        while !self.source.is_char_boundary(end) {
            end += 1;
        }
        (Token { lexeme, offset: start, text: &self.source[start..end] }, end)
    }

    fn skip_blank(&self) -> usize {
        let bytes = self.source.as_bytes();
        let mut at = self.offset;
        loop {
            match bytes.get(at) {
                Some(b' ' | b'\t' | b'\n' | b'\r') => at += 1,
                Some(b'/') if bytes.get(at + 1) == Some(&b'/') => {
                    at += bytes[at..].iter().position(|&b| b == b'\n').unwrap_or(bytes.len() - at);
                }
                _ => return at,
            }
        }
    }
}

/// Kind and length of the token at the start of `bytes`.
fn scan(bytes: &[u8]) -> (Lexeme, usize) {
    let Some(&first) = bytes.first() else {
        return (Lexeme::End, 0);
    };
    let name = |from: usize| from + bytes[from..].iter().take_while(|&&b| is_name(b)).count();
    match first {
        b'%' => {
            let mut end = name(1);
            if bytes.get(end) == Some(&b'#') && bytes.get(end + 1).is_some_and(u8::is_ascii_digit) {
                end += 1 + bytes[end + 1..].iter().take_while(|b| b.is_ascii_digit()).count();
            }
            if end > 1 { (Lexeme::Value, end) } else { (Lexeme::Stray, 1) }
        }
        b'@' if bytes.get(1) == Some(&b'"') => match string_len(&bytes[1..]) {
            Some(len) => (Lexeme::Symbol, 1 + len),
            None => (Lexeme::Stray, 1),
        },
        b'@' | b'^' | b'#' | b'!' => {
            let end = name(1);
            let lexeme = match first {
                b'@' => Lexeme::Symbol,
                b'^' => Lexeme::Block,
                b'#' => Lexeme::Attribute,
                _ => Lexeme::Type,
            };
            if end > 1 { (lexeme, end) } else { (Lexeme::Stray, 1) }
        }
        b'"' => match string_len(bytes) {
            Some(len) => (Lexeme::String, len),
            None => (Lexeme::Stray, 1),
        },
        b'0'..=b'9' => (Lexeme::Number, number_len(bytes)),
        b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
            (Lexeme::Word, bytes.iter().take_while(|&&b| is_name(b) && b != b'-').count())
        }
        b'-' if bytes.get(1) == Some(&b'>') => (Lexeme::Arrow, 2),
        b'(' | b')' | b'{' | b'}' | b'[' | b']' | b'<' | b'>' | b',' | b':' | b'=' | b'?' | b'*' | b'+' | b'-'
        | b'/' | b';' | b'|' => (Lexeme::Punct(first), 1),
        _ => (Lexeme::Stray, 1),
    }
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'$' | b'-')
}

/// Length of the string literal at the start, with its quotes; `None` where it has no end on its line.
fn string_len(bytes: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        match bytes.get(at)? {
            b'"' => return Some(at + 1),
            b'\n' => return None,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

fn number_len(bytes: &[u8]) -> usize {
    let digits = |from: usize| from + bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    if bytes.len() > 2 && bytes[0] == b'0' && bytes[1] == b'x' && bytes[2].is_ascii_hexdigit() {
        return 2 + bytes[2..].iter().take_while(|b| b.is_ascii_hexdigit()).count();
    }
    let mut end = digits(0);
    if bytes.get(end) != Some(&b'.') {
        return end;
    }
    end = digits(end + 1);
    if let Some(b'e' | b'E') = bytes.get(end) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        if bytes.get(end + 1 + sign).is_some_and(u8::is_ascii_digit) {
            end = digits(end + 1 + sign);
        }
    }
    end
}

/// The characters that a string literal (with its quotes) stands for; bytes that are no UTF-8 are replaced.
pub(super) fn unescape(literal: &str) -> String {
    let inner = literal.get(1..literal.len().saturating_sub(1)).unwrap_or("").as_bytes();
    let mut bytes = Vec::with_capacity(inner.len());
    let mut at = 0;
    while at < inner.len() {
        if inner[at] != b'\\' {
            bytes.push(inner[at]);
            at += 1;
            continue;
        }
        let hex = |at: usize| inner.get(at).and_then(|&b| char::from(b).to_digit(16));
        match (inner.get(at + 1), hex(at + 1), hex(at + 2)) {
            (_, Some(high), Some(low)) => {
                bytes.push((high * 16 + low) as u8);
                at += 3;
            }
            (Some(b'n'), ..) => {
                bytes.push(b'\n');
                at += 2;
            }
            (Some(b't'), ..) => {
                bytes.push(b'\t');
                at += 2;
            }
            (Some(&other), ..) => {
                bytes.push(other);
                at += 2;
            }
            (None, ..) => at += 1,
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// `text` as a string literal, with quotes.
pub(super) fn escape(text: &str) -> String {
    let mut literal = String::with_capacity(text.len() + 2);
    literal.push('"');
    for c in text.chars() {
        match c {
            '"' => literal.push_str("\\22"),
            '\\' => literal.push_str("\\\\"),
            c if c.is_control() && (c as u32) < 256 => {
                let mut utf8 = [0; 4];
                for byte in c.encode_utf8(&mut utf8).bytes() {
                    literal.push_str(&format!("\\{byte:02X}"));
                }
            }
            c => literal.push(c),
        }
    }
    literal.push('"');
    literal
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<&str> {
        let mut lexer = Lexer::new(source);
        let mut texts = Vec::new();
        loop {
            let token = lexer.next();
            if token.lexeme == Lexeme::End {
                return texts;
            }
            texts.push(token.text);
        }
    }

    #[test]
    fn tokens() {
        assert_eq!(
            texts("%0:2 = stablehlo.add %a#1, -1.5e-3 // no\n @\"x y\" -> #stablehlo<precision> 0x7F"),
            [
                "%0",
                ":",
                "2",
                "=",
                "stablehlo.add",
                "%a#1",
                ",",
                "-",
                "1.5e-3",
                "@\"x y\"",
                "->",
                "#stablehlo",
                "<",
                "precision",
                ">",
                "0x7F"
            ]
        );
        assert_eq!(texts("é\"open % @\n1."), ["é", "\"", "open", "%", "@", "1."]);
    }

    #[test]
    fn strings_round_trip() {
        for text in ["", "plain", "quote \" backslash \\ newline \n tab \t bell \u{7} é \u{85} 22", "\\22"] {
            assert_eq!(unescape(&escape(text)), text);
        }
        assert_eq!(unescape("\"a\\\"b\\n\\41\""), "a\"b\nA");
    }
}
