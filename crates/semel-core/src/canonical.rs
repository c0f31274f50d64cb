//! The canonical form of a JSON document, from which deduplication keys are hashed.
//!
//! Two documents that mean the same have the same canonical text: member order, white space,
//! string escapes and the spelling of numbers (`1`, `1.0`, `10e-1`) do not matter. The base is
//! RFC 8785 with one change: an integer within `i64::MIN..=u64::MAX` is kept exactly instead of
//! being rounded to a double. Where a text leaves its meaning open - a member given twice, a plain
//! integer beyond 64 bits, half a surrogate pair - it is refused rather than guessed at.

mod rewrite;

pub use rewrite::rewrite;

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt::{self, Write as _};
use std::io::Write as _;
use std::str::FromStr;

/// A parsed JSON value, kept so that it can be written canonically, searched by pointer and
/// compared.
///
/// Values made by [`parse`] keep the promises stated at each variant, and two of them are equal
/// exactly if their canonical texts are. Whoever builds a value by hand has to keep them too.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    /// `null`, which is not the same as an absent member.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number that is an integer within `i64::MIN..=u64::MAX`, however it was spelt.
    Int(i128),
    /// Any other number: finite, and never an integer that would fit [`Value::Int`].
    Float(f64),
    /// A string with its escapes resolved; borrowed if it had none.
    String(Cow<'a, str>),
    /// The elements in the order of the text.
    Array(Vec<Value<'a>>),
    /// The members in ascending order of the UTF-16 code units of their names, each name once.
    Object(Vec<(Cow<'a, str>, Value<'a>)>),
}

impl<'a> Value<'a> {
    /// Appends the canonical text (UTF-8) to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Null => out.extend_from_slice(b"null"),
            Self::Bool(true) => out.extend_from_slice(b"true"),
            Self::Bool(false) => out.extend_from_slice(b"false"),
            Self::Int(integer) => write_int(*integer, out),
            Self::Float(number) => write_float(*number, out),
            Self::String(string) => write_string(string, out),
            Self::Array(elements) => write_array(elements, out),
            Self::Object(members) => write_object(members, out),
        }
    }

    /// The canonical text.
    ///
    /// Parsing it gives an equal value, with one exception which follows from RFC 8785: a
    /// [`Value::Float`] between the range of [`Value::Int`] and 10^21 is written as a plain
    /// integer, and such a literal is refused by [`parse`].
    pub fn to_canonical(&self) -> String {
        let mut out = Vec::new();
        self.write(&mut out);
        String::from_utf8(out).expect("only whole strings and ASCII are written")
    }

    /// The value that `pointer` refers to, or `None` if there is no such member or element.
    pub fn at(&self, pointer: &Pointer) -> Option<&Value<'a>> {
        pointer
            .tokens
            .iter()
            .try_fold(self, |value, token| value.child(token))
    }

    /// A copy that lacks what the pointers refer to; a pointer to nothing has no effect.
    ///
    /// Removing an array element closes the gap. All pointers refer to the original: `/a/0` and
    /// `/a/1` together remove the first two elements, in whatever order they are given. The empty
    /// pointer removes the whole document, which leaves [`Value::Null`].
    pub fn without(&self, pointers: &[Pointer]) -> Value<'a> {
        let paths: Vec<&[String]> = pointers.iter().map(|pointer| &pointer.tokens[..]).collect();
        self.pruned(&paths).unwrap_or(Value::Null)
    }

    fn child(&self, token: &str) -> Option<&Value<'a>> {
        match self {
            Self::Array(elements) => elements.get(array_index(token)?),
            Self::Object(members) => {
                let found = members
                    .binary_search_by(|(name, _)| cmp_utf16(name, token))
                    .ok()?;
                Some(&members[found].1)
            }
            _ => None,
        }
    }

    fn pruned(&self, paths: &[&[String]]) -> Option<Value<'a>> {
        if paths.iter().any(|path| path.is_empty()) {
            return None;
        }
        Some(match self {
            Self::Array(elements) if !paths.is_empty() => Value::Array(pruned_elements(elements, paths)),
            Self::Object(members) if !paths.is_empty() => Value::Object(pruned_members(members, paths)),
            untouched => untouched.clone(),
        })
    }
}

fn pruned_elements<'a>(elements: &[Value<'a>], paths: &[&[String]]) -> Vec<Value<'a>> {
    let kept = elements.iter().enumerate().filter_map(|(index, element)| {
        element.pruned(&tails(paths, |token| array_index(token) == Some(index)))
    });
    kept.collect()
}

fn pruned_members<'a>(members: &[Member<'a>], paths: &[&[String]]) -> Vec<Member<'a>> {
    let kept = members.iter().filter_map(|(name, value)| {
        let value = value.pruned(&tails(paths, |token| token == name))?;
        Some((name.clone(), value))
    });
    kept.collect()
}

/// What remains of those paths whose first token is wanted.
fn tails<'p>(paths: &[&'p [String]], wanted: impl Fn(&str) -> bool) -> Vec<&'p [String]> {
    let split = paths.iter().filter_map(|path| path.split_first());
    split
        .filter(|(first, _)| wanted(first))
        .map(|(_, rest)| rest)
        .collect()
}

type Member<'a> = (Cow<'a, str>, Value<'a>);

/// How large a document [`parse`] accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes of text.
    pub bytes: usize,
    /// The most arrays and objects within each other; more than [`Limits::MAX_DEPTH`] counts as
    /// that.
    pub depth: usize,
}

impl Limits {
    /// The depth that no setting exceeds, so that recursion cannot exhaust a thread's stack.
    pub const MAX_DEPTH: usize = 128;
}

impl Default for Limits {
    /// 256 KiB and a depth of 64.
    fn default() -> Self {
        Self {
            bytes: 256 * 1024,
            depth: 64,
        }
    }
}

/// Why a text has no canonical form, or is no JSON pointer.
///
/// Offsets count bytes from the start of the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CanonicalError {
    /// The text is not JSON as RFC 8259 defines it.
    #[error("invalid JSON at byte {offset}: expected {expected}")]
    Syntax {
        /// Where the text departs from the grammar.
        offset: usize,
        /// What would have been allowed there.
        expected: &'static str,
    },
    /// The text is longer than [`Limits::bytes`].
    #[error("the JSON text has {bytes} bytes, at most {allowed} are allowed")]
    TooLarge {
        /// The length of the text.
        bytes: usize,
        /// The most that is allowed.
        allowed: usize,
    },
    /// Arrays and objects are nested deeper than [`Limits::depth`].
    #[error("the JSON text is nested too deeply, at most {allowed} levels are allowed")]
    TooDeep {
        /// The most levels that are allowed.
        allowed: usize,
    },
    /// An object has two members of the same name.
    #[error("the object at byte {offset} has more than one member {name:?}, each name is allowed once")]
    DuplicateMember {
        /// The name with escapes resolved, cut to 64 characters.
        name: String,
        /// Where the object begins.
        offset: usize,
    },
    /// An integer literal does not fit 64 bits.
    #[error(
        "the integer at byte {offset} is out of range, \
         allowed is -9223372036854775808 to 18446744073709551615"
    )]
    IntegerOutOfRange {
        /// Where the literal begins.
        offset: usize,
    },
    /// A number with a fraction or exponent is too large for a double.
    #[error(
        "the number at byte {offset} is out of range, \
         allowed is a magnitude up to 1.7976931348623157e308"
    )]
    NumberOutOfRange {
        /// Where the literal begins.
        offset: usize,
    },
    /// A text is not a JSON pointer as RFC 6901 defines it.
    #[error("{pointer:?} is not a JSON pointer: {allowed}")]
    BadPointer {
        /// The text, cut to 64 characters.
        pointer: String,
        /// The rule that it breaks.
        allowed: &'static str,
    },
}

/// Parses a text strictly by RFC 8259, within `limits`.
///
/// Stricter than that RFC where hashing needs it: see [`CanonicalError`]. A number is an
/// [`Value::Int`] if its exact decimal value is a 64-bit integer; every other one is rounded to the
/// nearest double.
pub fn parse(text: &str, limits: Limits) -> Result<Value<'_>, CanonicalError> {
    let mut parser = Parser::within(text, limits)?;
    parser.skip_space();
    let value = parser.value()?;
    parser.end()?;
    Ok(value)
}

/// Checks that [`parse`] would accept the text, with the same verdict.
pub fn validate(text: &str, limits: Limits) -> Result<(), CanonicalError> {
    parse(text, limits).map(drop)
}

/// A JSON pointer (RFC 6901): the empty text for the whole document, else `/` before each token.
///
/// Pointers are equal exactly if their texts are: no token can be spelt in two ways.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pointer {
    text: String,
    tokens: Vec<String>,
}

impl FromStr for Pointer {
    type Err = CanonicalError;

    fn from_str(text: &str) -> Result<Self, CanonicalError> {
        let bad = |allowed| CanonicalError::BadPointer {
            pointer: shortened(text),
            allowed,
        };
        let tokens = match text.strip_prefix('/') {
            Some(rest) => rest.split('/').map(unescaped).collect::<Option<_>>(),
            None if text.is_empty() => Some(Vec::new()),
            None => return Err(bad("it must be empty or begin with `/`")),
        };
        let tokens = tokens.ok_or_else(|| bad("`~` is allowed only in `~0` (`~`) and `~1` (`/`)"))?;
        Ok(Self {
            text: text.to_owned(),
            tokens,
        })
    }
}

impl TryFrom<&str> for Pointer {
    type Error = CanonicalError;

    fn try_from(text: &str) -> Result<Self, CanonicalError> {
        text.parse()
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A pointer's token with `~0` and `~1` resolved; `None` if a `~` stands alone.
fn unescaped(token: &str) -> Option<String> {
    let mut parts = token.split('~');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push(match part.as_bytes().first()? {
            b'0' => '~',
            b'1' => '/',
            _ => return None,
        });
        out.push_str(&part[1..]);
    }
    Some(out)
}

/// The index a token stands for; RFC 6901 has neither leading zeros nor signs, and `-` refers to
/// an element that does not exist.
fn array_index(token: &str) -> Option<usize> {
    let plain = token == "0" || !token.starts_with(['0', '+']);
    if plain { token.parse().ok() } else { None }
}

fn shortened(text: &str) -> String {
    text.chars().take(64).collect()
}

/// The JSON pointers at which `a` and `b` differ: as deep as possible, at most `most`, in canonical
/// order.
///
/// A member or element that only one side has is reported itself, not what it contains. Tells
/// places, never values.
pub fn differs(a: &Value<'_>, b: &Value<'_>, most: usize) -> Vec<String> {
    let mut comparison = Comparison {
        path: String::new(),
        found: Vec::new(),
        most,
    };
    comparison.values(a, b);
    comparison.found
}

struct Comparison {
    path: String,
    found: Vec<String>,
    most: usize,
}

impl Comparison {
    fn values(&mut self, a: &Value<'_>, b: &Value<'_>) {
        match (a, b) {
            (Value::Array(a), Value::Array(b)) => self.elements(a, b),
            (Value::Object(a), Value::Object(b)) => self.members(a, b),
            _ if a == b => {}
            _ => self.report(),
        }
    }

    fn elements(&mut self, a: &[Value<'_>], b: &[Value<'_>]) {
        for index in 0..a.len().max(b.len()) {
            if self.is_full() {
                return;
            }
            let token = format_args!("{index}");
            match (a.get(index), b.get(index)) {
                (Some(a), Some(b)) => self.below(token, |this| this.values(a, b)),
                _ => self.below(token, Self::report),
            }
        }
    }

    fn members(&mut self, mut a: &[Member<'_>], mut b: &[Member<'_>]) {
        while !self.is_full() {
            match first_name(a, b) {
                None => return,
                Some((name, Ordering::Equal)) => {
                    self.below(Escaped(name), |this| this.values(&a[0].1, &b[0].1));
                    (a, b) = (&a[1..], &b[1..]);
                }
                Some((name, Ordering::Less)) => {
                    self.below(Escaped(name), Self::report);
                    a = &a[1..];
                }
                Some((name, Ordering::Greater)) => {
                    self.below(Escaped(name), Self::report);
                    b = &b[1..];
                }
            }
        }
    }

    fn below(&mut self, token: impl fmt::Display, compare: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        write!(self.path, "/{token}").expect("a String takes every write");
        compare(self);
        self.path.truncate(length);
    }

    fn report(&mut self) {
        if !self.is_full() {
            self.found.push(self.path.clone());
        }
    }

    fn is_full(&self) -> bool {
        self.found.len() >= self.most
    }
}

/// The smallest name that comes next in two sorted objects, `Less` if only `a` has it, `Greater` if
/// only `b` has it.
fn first_name<'m>(a: &'m [Member<'_>], b: &'m [Member<'_>]) -> Option<(&'m str, Ordering)> {
    match (a.first(), b.first()) {
        (None, None) => None,
        (Some((name, _)), None) => Some((name, Ordering::Less)),
        (None, Some((name, _))) => Some((name, Ordering::Greater)),
        (Some((a, _)), Some((b, _))) => match cmp_utf16(a, b) {
            Ordering::Greater => Some((b, Ordering::Greater)),
            order => Some((a, order)),
        },
    }
}

/// A member name as a token of a JSON pointer.
struct Escaped<'n>(&'n str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '~' => f.write_str("~0"),
            '/' => f.write_str("~1"),
            _ => f.write_char(c),
        })
    }
}

/// Orders texts by their UTF-16 code units.
///
/// That is the order of their UTF-8 bytes, except that U+E000..=U+FFFF come after the characters
/// written as surrogate pairs (lead bytes 0xF0 and above).
fn cmp_utf16(a: &str, b: &str) -> Ordering {
    let rank = |byte: u8| {
        if matches!(byte, 0xEE | 0xEF) {
            byte | 0x10
        } else {
            byte
        }
    };
    let differing = a.bytes().zip(b.bytes()).find(|(a, b)| a != b);
    match differing {
        Some((a, b)) => rank(a).cmp(&rank(b)),
        None => a.len().cmp(&b.len()),
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    allowed: usize,
}

impl<'a> Parser<'a> {
    fn within(text: &'a str, limits: Limits) -> Result<Self, CanonicalError> {
        if text.len() > limits.bytes {
            return Err(CanonicalError::TooLarge {
                bytes: text.len(),
                allowed: limits.bytes,
            });
        }
        Ok(Parser {
            text,
            at: 0,
            depth: 0,
            allowed: limits.depth.min(Limits::MAX_DEPTH),
        })
    }

    /// Nothing but space follows.
    fn end(&mut self) -> Result<(), CanonicalError> {
        self.skip_space();
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.syntax("the end of the text")),
        }
    }

    fn value(&mut self) -> Result<Value<'a>, CanonicalError> {
        match self.peek() {
            Some(b'"') => Ok(Value::String(self.string()?)),
            Some(b'{') => self.object(),
            Some(b'[') => self.array(),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'n') => self.word("null", Value::Null),
            _ => Err(self.syntax("a JSON value")),
        }
    }

    fn word(&mut self, word: &str, value: Value<'a>) -> Result<Value<'a>, CanonicalError> {
        if !self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            return Err(self.syntax("a JSON value"));
        }
        self.at += word.len();
        Ok(value)
    }

    fn array(&mut self) -> Result<Value<'a>, CanonicalError> {
        let mut elements = Vec::new();
        let mut more = self.open(b']')?;
        while more {
            elements.push(self.value()?);
            more = self.more(b']', "`,` or `]`")?;
        }
        Ok(Value::Array(elements))
    }

    fn object(&mut self) -> Result<Value<'a>, CanonicalError> {
        let offset = self.at;
        let mut members = Vec::new();
        let mut more = self.open(b'}')?;
        while more {
            members.push((self.name()?, self.value()?));
            more = self.more(b'}', "`,` or `}`")?;
        }
        sort_members(&mut members, offset)?;
        Ok(Value::Object(members))
    }

    /// A member name, and what stands between it and the value.
    fn name(&mut self) -> Result<Cow<'a, str>, CanonicalError> {
        if self.peek() != Some(b'"') {
            return Err(self.syntax("a member name in double quotes"));
        }
        let name = self.string()?;
        self.skip_space();
        if !self.eat(b':') {
            return Err(self.syntax("`:`"));
        }
        self.skip_space();
        Ok(name)
    }

    /// Enters an array or object; tells whether it has any content.
    fn open(&mut self, close: u8) -> Result<bool, CanonicalError> {
        if self.depth == self.allowed {
            return Err(CanonicalError::TooDeep {
                allowed: self.allowed,
            });
        }
        self.at += 1;
        self.skip_space();
        let empty = self.eat(close);
        self.depth += usize::from(!empty);
        Ok(!empty)
    }

    /// Goes past the end of an array or object, or to its next item; tells whether there is one.
    fn more(&mut self, close: u8, expected: &'static str) -> Result<bool, CanonicalError> {
        self.skip_space();
        if self.eat(b',') {
            self.skip_space();
            return Ok(true);
        }
        if !self.eat(close) {
            return Err(self.syntax(expected));
        }
        self.depth -= 1;
        Ok(false)
    }

    fn string(&mut self) -> Result<Cow<'a, str>, CanonicalError> {
        self.at += 1;
        let plain = self.plain();
        if self.eat(b'"') {
            return Ok(Cow::Borrowed(plain));
        }
        let mut out = plain.to_owned();
        while self.eat(b'\\') {
            out.push(self.escape()?);
            out.push_str(self.plain());
        }
        if self.eat(b'"') {
            return Ok(Cow::Owned(out));
        }
        Err(self.syntax("the rest of a string (control characters must be escaped)"))
    }

    /// The characters up to the next one that needs attention within a string.
    fn plain(&mut self) -> &'a str {
        let start = self.at;
        self.at += plain_length(&self.text.as_bytes()[start..]);
        &self.text[start..self.at]
    }

    fn escape(&mut self) -> Result<char, CanonicalError> {
        let character = match self.peek() {
            Some(same @ (b'"' | b'\\' | b'/')) => char::from(same),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode_escape(),
            _ => return Err(self.syntax("one of `\"\\/bfnrtu` after a backslash")),
        };
        self.at += 1;
        Ok(character)
    }

    fn unicode_escape(&mut self) -> Result<char, CanonicalError> {
        let unpaired = self.syntax("a surrogate only as half of a pair");
        let first = self.code_unit()?;
        let leads = (0xD800..0xDC00).contains(&first);
        let paired = leads && self.eat(b'\\') && self.peek() == Some(b'u');
        let second = if paired { self.code_unit()? } else { 0 };
        let mut decoded = char::decode_utf16([first, second]);
        decoded.next().and_then(Result::ok).ok_or(unpaired)
    }

    fn code_unit(&mut self) -> Result<u16, CanonicalError> {
        self.at += 1;
        let mut unit = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            let digit = digit.ok_or_else(|| self.syntax("four hexadecimal digits"))?;
            unit = unit << 4 | digit as u16;
            self.at += 1;
        }
        Ok(unit)
    }

    fn number(&mut self) -> Result<Value<'a>, CanonicalError> {
        let offset = self.at;
        let literal = self.literal()?;
        if let Some(integer) = literal.integer() {
            return Ok(Value::Int(integer));
        }
        if literal.plain {
            return Err(CanonicalError::IntegerOutOfRange { offset });
        }
        let number: f64 = self.text[offset..self.at]
            .parse()
            .expect("every number of JSON is one of Rust's");
        if number.is_infinite() {
            return Err(CanonicalError::NumberOutOfRange { offset });
        }
        Ok(rounded(number))
    }

    fn literal(&mut self) -> Result<Literal<'a>, CanonicalError> {
        let start = self.at;
        let negative = self.eat(b'-');
        let whole = self.whole()?;
        let fraction = if self.eat(b'.') { self.digits()? } else { b"" };
        let exponent = match self.peek() {
            Some(b'e' | b'E') => self.exponent()?,
            _ => 0,
        };
        let plain = self.at - start == usize::from(negative) + whole.len();
        Ok(Literal {
            negative,
            whole,
            fraction,
            exponent,
            plain,
        })
    }

    /// The digits before the point; a leading zero stands alone.
    fn whole(&mut self) -> Result<&'a [u8], CanonicalError> {
        if self.eat(b'0') { Ok(b"0") } else { self.digits() }
    }

    fn exponent(&mut self) -> Result<i64, CanonicalError> {
        self.at += 1;
        let negative = self.eat(b'-');
        if !negative {
            self.eat(b'+');
        }
        // Saturates: no text has enough digits to make up for an exponent that large.
        let add = |sum: i64, digit: &u8| (sum * 10 + i64::from(digit - b'0')).min(i64::MAX / 16);
        let magnitude = self.digits()?.iter().fold(0, add);
        Ok(if negative { -magnitude } else { magnitude })
    }

    fn digits(&mut self) -> Result<&'a [u8], CanonicalError> {
        let rest = &self.text.as_bytes()[self.at..];
        let length = rest
            .iter()
            .position(|byte| !byte.is_ascii_digit())
            .unwrap_or(rest.len());
        if length == 0 {
            return Err(self.syntax("a digit"));
        }
        self.at += length;
        Ok(&rest[..length])
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn syntax(&self, expected: &'static str) -> CanonicalError {
        CanonicalError::Syntax {
            offset: self.at,
            expected,
        }
    }
}

/// How many bytes at the front are neither a quote nor a backslash nor a control character.
fn plain_length(bytes: &[u8]) -> usize {
    let (words, tail) = bytes.as_chunks();
    for (index, word) in words.iter().enumerate() {
        let marks = special_marks(u64::from_le_bytes(*word));
        if marks != 0 {
            return index * 8 + marks.trailing_zeros() as usize / 8;
        }
    }
    let special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..0x20);
    words.len() * 8 + tail.iter().position(special).unwrap_or(tail.len())
}

/// Marks the special bytes of eight by their highest bit. Only the lowest mark is reliable: the
/// subtractions borrow from the bytes above a special one.
fn special_marks(word: u64) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let quote = word ^ (EACH * b'"' as u64);
    let backslash = word ^ (EACH * b'\\' as u64);
    let below = |bytes: u64, bound: u64| bytes.wrapping_sub(EACH * bound) & !bytes;
    (below(word, 0x20) | below(quote, 1) | below(backslash, 1)) & (EACH * 0x80)
}

fn sort_members(members: &mut [Member<'_>], offset: usize) -> Result<(), CanonicalError> {
    let order = |a: &Member<'_>, b: &Member<'_>| cmp_utf16(&a.0, &b.0);
    if members.is_sorted_by(|a, b| order(a, b).is_lt()) {
        return Ok(());
    }
    members.sort_unstable_by(order);
    match members.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        Some(pair) => Err(CanonicalError::DuplicateMember {
            name: shortened(&pair[0].0),
            offset,
        }),
        None => Ok(()),
    }
}

/// A number as it is written: `whole.fraction * 10^exponent`.
struct Literal<'a> {
    negative: bool,
    whole: &'a [u8],
    fraction: &'a [u8],
    exponent: i64,
    /// Neither a point nor an exponent was written.
    plain: bool,
}

impl Literal<'_> {
    /// The exact value, if it is an integer of 64 bits.
    fn integer(&self) -> Option<i128> {
        let fraction = trim_zeros(self.fraction);
        let whole = if fraction.is_empty() {
            trim_zeros(self.whole)
        } else {
            self.whole
        };
        let significant = whole.iter().chain(fraction).try_fold(0_u64, |sum, digit| {
            sum.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
        })?;
        if significant == 0 {
            return Some(0);
        }
        // The last digit is not zero, so that a negative scale leaves a fraction.
        let dropped = self.whole.len() - whole.len();
        let scale = self.exponent + dropped as i64 - fraction.len() as i64;
        let power = 10_u64.checked_pow(u32::try_from(scale).ok()?)?;
        self.signed(significant.checked_mul(power)?)
    }

    fn signed(&self, magnitude: u64) -> Option<i128> {
        if self.negative {
            0_i64.checked_sub_unsigned(magnitude).map(i128::from)
        } else {
            Some(i128::from(magnitude))
        }
    }
}

fn trim_zeros(digits: &[u8]) -> &[u8] {
    let length = digits
        .iter()
        .rposition(|&digit| digit != b'0')
        .map_or(0, |last| last + 1);
    &digits[..length]
}

/// A fraction may round to an integer, which then is that integer.
fn rounded(number: f64) -> Value<'static> {
    const BEYOND: f64 = 18_446_744_073_709_551_616.0;
    if number.fract() == 0.0 && (i64::MIN as f64..BEYOND).contains(&number) {
        Value::Int(number as i128)
    } else {
        Value::Float(number)
    }
}

fn write_int(integer: i128, out: &mut Vec<u8>) {
    let Ok(mut rest) = u64::try_from(integer.unsigned_abs()) else {
        return out.extend_from_slice(integer.to_string().as_bytes());
    };
    let mut digits = [b'0'; 21];
    let mut first = digits.len();
    while rest > 0 || first == digits.len() {
        first -= 1;
        digits[first] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    if integer < 0 {
        first -= 1;
        digits[first] = b'-';
    }
    out.extend_from_slice(&digits[first..]);
}

/// Writes a number as ECMAScript's `Number::toString` does.
fn write_float(number: f64, out: &mut Vec<u8>) {
    // Only a value built by hand is not finite; ECMAScript's JSON has null for it.
    if !number.is_finite() {
        return out.extend_from_slice(b"null");
    }
    if number < 0.0 {
        out.push(b'-');
    }
    let text = shortest(number.abs());
    let (mantissa, power) = scientific(&text);
    write_decimal(mantissa, power, out);
}

fn write_decimal(mantissa: &str, power: i32, out: &mut Vec<u8>) {
    let (first, rest) = (&mantissa[..1], mantissa.get(2..).unwrap_or_default());
    let places = power.unsigned_abs() as usize;
    match power {
        0..=20 if rest.len() <= places => {
            write_all(out, [first, rest]);
            write_zeros(places - rest.len(), out);
        }
        0..=20 => write_all(out, [first, &rest[..places], ".", &rest[places..]]),
        -6..=-1 => {
            write_all(out, ["0."]);
            write_zeros(places - 1, out);
            write_all(out, [first, rest]);
        }
        _ => write!(out, "{mantissa}e{power:+}").expect("a Vec takes every write"),
    }
}

/// The fewest digits that identify a double, in the form of `{:e}`: of these the nearest, of two
/// as near the even ones. The last is where Rust alone would differ from ECMAScript.
fn shortest(number: f64) -> String {
    let nearest = format!("{number:e}");
    let (mantissa, power) = scientific(&nearest);
    let precision = mantissa.len().saturating_sub(2);
    if !may_be_halfway(number, precision as i32 - power) {
        return nearest;
    }
    let even = format!("{number:.precision$e}");
    if even.parse() == Ok(number) { even } else { nearest }
}

/// Whether a number may lie halfway between two decimals with so many places after the point.
///
/// Such a fraction has one binary place more than that, and at most 25 of them: its 18 digits or
/// fewer are those of an integer times a power of five.
fn may_be_halfway(number: f64, places: i32) -> bool {
    match places {
        ..=0 => true,
        1..=24 => (number * f64::from(1 << places)).fract() == 0.5,
        _ => false,
    }
}

fn scientific(text: &str) -> (&str, i32) {
    let (mantissa, exponent) = text.split_once('e').expect("`{:e}` writes an exponent");
    (mantissa, exponent.parse().expect("an exponent is an integer"))
}

fn write_all<const N: usize>(out: &mut Vec<u8>, parts: [&str; N]) {
    parts
        .iter()
        .for_each(|part| out.extend_from_slice(part.as_bytes()));
}

fn write_zeros(count: usize, out: &mut Vec<u8>) {
    out.resize(out.len() + count, b'0');
}

fn write_string(string: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let mut rest = string.as_bytes();
    loop {
        let (plain, special) = rest.split_at(plain_length(rest));
        out.extend_from_slice(plain);
        let Some((&byte, after)) = special.split_first() else {
            break;
        };
        write_escape(byte, out);
        rest = after;
    }
    out.push(b'"');
}

fn write_escape(byte: u8, out: &mut Vec<u8>) {
    match byte {
        b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
        0x08 => out.extend_from_slice(b"\\b"),
        b'\t' => out.extend_from_slice(b"\\t"),
        b'\n' => out.extend_from_slice(b"\\n"),
        0x0c => out.extend_from_slice(b"\\f"),
        b'\r' => out.extend_from_slice(b"\\r"),
        _ => write!(out, "\\u{byte:04x}").expect("a Vec takes every write"),
    }
}

fn write_array(elements: &[Value<'_>], out: &mut Vec<u8>) {
    out.push(b'[');
    for (index, element) in elements.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        element.write(out);
    }
    out.push(b']');
}

fn write_object(members: &[Member<'_>], out: &mut Vec<u8>) {
    out.push(b'{');
    for (index, (name, value)) in members.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_string(name, out);
        out.push(b':');
        value.write(out);
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn parsed(text: &str) -> Value<'_> {
        parse(text, Limits::default()).unwrap_or_else(|error| panic!("{text:.80}: {error}"))
    }

    fn canonical(text: &str) -> String {
        let canonical = parsed(text).to_canonical();
        assert_eq!(rewritten(text), Ok(canonical.clone()), "without the tree");
        canonical
    }

    fn rewritten(text: &str) -> Result<String, CanonicalError> {
        let mut out = b"before".to_vec();
        rewrite(text, Limits::default(), &mut out)?;
        let text = String::from_utf8(out).expect("UTF-8");
        Ok(text.strip_prefix("before").expect("appended").to_owned())
    }

    fn refused(text: &str) -> CanonicalError {
        let error = parse(text, Limits::default()).expect_err(&format!("{text:.80} is refused"));
        assert_eq!(validate(text, Limits::default()), Err(error.clone()));
        assert_eq!(rewritten(text), Err(error.clone()), "without the tree");
        error
    }

    fn syntax_error_at(text: &str) -> usize {
        match refused(text) {
            CanonicalError::Syntax { offset, .. } => offset,
            other => panic!("{text:.80}: {other}"),
        }
    }

    fn pointer(text: &str) -> Pointer {
        text.parse().expect("a valid pointer")
    }

    fn float_text(number: f64) -> String {
        let mut out = Vec::new();
        write_float(number, &mut out);
        String::from_utf8(out).expect("ASCII")
    }

    /// RFC 8785, appendix B, without NaN and Infinity, which JSON cannot express.
    const NUMBERS: &[(u64, &str)] = &[
        (0x0000000000000000, "0"),
        (0x8000000000000000, "0"),
        (0x0000000000000001, "5e-324"),
        (0x8000000000000001, "-5e-324"),
        (0x7fefffffffffffff, "1.7976931348623157e+308"),
        (0xffefffffffffffff, "-1.7976931348623157e+308"),
        (0x4340000000000000, "9007199254740992"),
        (0xc340000000000000, "-9007199254740992"),
        (0x4430000000000000, "295147905179352830000"),
        (0x44b52d02c7e14af5, "9.999999999999997e+22"),
        (0x44b52d02c7e14af6, "1e+23"),
        (0x44b52d02c7e14af7, "1.0000000000000001e+23"),
        (0x444b1ae4d6e2ef4e, "999999999999999700000"),
        (0x444b1ae4d6e2ef4f, "999999999999999900000"),
        (0x444b1ae4d6e2ef50, "1e+21"),
        (0x3eb0c6f7a0b5ed8c, "9.999999999999997e-7"),
        (0x3eb0c6f7a0b5ed8d, "0.000001"),
        (0x41b3de4355555553, "333333333.3333332"),
        (0x41b3de4355555554, "333333333.33333325"),
        (0x41b3de4355555555, "333333333.3333333"),
        (0x41b3de4355555556, "333333333.3333334"),
        (0x41b3de4355555557, "333333333.33333343"),
        (0xbecbf647612f3696, "-0.0000033333333333333333"),
        (0x43143ff3c1cb0959, "1424953923781206.2"),
    ];

    #[test]
    fn doubles_are_written_as_in_rfc_8785() {
        for &(bits, text) in NUMBERS {
            assert_eq!(float_text(f64::from_bits(bits)), text);
            // The point keeps long ones from being plain integers, which are refused.
            let spelt = if text.contains(['.', 'e']) {
                text.to_owned()
            } else {
                format!("{text}.0")
            };
            assert_eq!(canonical(&spelt), text);
        }
        assert_eq!(float_text(f64::NAN), "null");
        assert_eq!(float_text(f64::NEG_INFINITY), "null");
    }

    #[test]
    fn the_sample_object_of_rfc_8785() {
        let text = r#"{
            "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
            "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
            "literals": [null, true, false]
        }"#;
        let expected = concat!(
            r#"{"literals":[null,true,false],"#,
            r#""numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"#,
            r#""string":"€$\u000f\nA'B\"\\\\\"/"}"#,
        );
        assert_eq!(canonical(text), expected);
    }

    #[test]
    fn the_sorting_sample_of_rfc_8785() {
        let text = r#"{
            "\u20ac": "Euro Sign", "\r": "Carriage Return",
            "\ufb33": "Hebrew Letter Dalet With Dagesh", "1": "One",
            "\ud83d\ude00": "Emoji: Grinning Face", "\u0080": "Control",
            "\u00f6": "Latin Small Letter O With Diaeresis"
        }"#;
        let expected = concat!(
            "{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u{80}\":\"Control\",",
            "\"\u{f6}\":\"Latin Small Letter O With Diaeresis\",\"\u{20ac}\":\"Euro Sign\",",
            "\"\u{1f600}\":\"Emoji: Grinning Face\",",
            "\"\u{fb33}\":\"Hebrew Letter Dalet With Dagesh\"}",
        );
        assert_eq!(canonical(text), expected);
    }

    #[test]
    fn integers_of_64_bits_are_exact() {
        for text in [
            "9007199254740991",
            "9007199254740992",
            "9007199254740993",
            "-9007199254740993",
            "9223372036854775807",
            "9223372036854775808",
            "-9223372036854775808",
            "18446744073709551615",
        ] {
            assert_eq!(canonical(text), text);
            assert_eq!(canonical(&format!("{text}.000")), text);
            assert_eq!(canonical(&format!("{text}00e-2")), text);
        }
    }

    #[test]
    fn plain_integers_beyond_64_bits_are_refused() {
        let long = format!("1{}", "0".repeat(400));
        for text in ["18446744073709551616", "-9223372036854775809", &long] {
            let listed = format!("[ {text}]");
            assert_eq!(refused(&listed), CanonicalError::IntegerOutOfRange { offset: 2 });
        }
    }

    #[test]
    fn the_spelling_of_a_number_does_not_matter() {
        let one = ["1", "1.0", "1e0", "10e-1", "0.1E+1", "100.00e-2", "0.001e3"];
        one.iter()
            .for_each(|text| assert_eq!(parsed(text), Value::Int(1), "{text}"));
        let zero = [
            "0",
            "-0",
            "-0.0",
            "0e0",
            "0e999999999",
            "0.00e-99999999999999999999",
            "1e-400",
        ];
        zero.iter()
            .for_each(|text| assert_eq!(parsed(text), Value::Int(0), "{text}"));
        assert_eq!(parsed("9007199254740993.0"), Value::Int(9007199254740993));
        assert_eq!(parsed("1e3"), Value::Int(1000));
        assert_eq!(parsed("-92233720368.54775808e8"), Value::Int(i64::MIN.into()));
        assert_eq!(parsed("1.8446744073709551615e19"), Value::Int(u64::MAX.into()));
        assert_eq!(canonical("[1e19,1E20,100000000000000000001.0]"), {
            "[10000000000000000000,100000000000000000000,100000000000000000000]"
        });
    }

    #[test]
    fn a_fraction_that_rounds_to_an_integer_is_that_integer() {
        assert_eq!(parsed("1.00000000000000000000000001"), Value::Int(1));
        assert_eq!(parsed("-9223372036854775808.5"), Value::Int(i64::MIN.into()));
        let beyond = parsed("18446744073709551615.5");
        assert_eq!(beyond, Value::Float(18446744073709551616.0));
    }

    #[test]
    fn a_large_float_has_a_form_that_is_not_read_back() {
        let text = canonical("1e20");
        assert_eq!(refused(&text), CanonicalError::IntegerOutOfRange { offset: 0 });
        assert_eq!(canonical("-9223372036854777856.0"), "-9223372036854778000");
        assert_eq!(canonical(&canonical("1e21")), "1e+21");
    }

    #[test]
    fn huge_numbers_are_refused_at_once() {
        let huge = format!("1e{}", "9".repeat(200_000));
        let long = format!("{}.5", "9".repeat(200_000));
        for text in ["1e400", "-1e309", "1e999999999", &huge, &long] {
            assert_eq!(refused(text), CanonicalError::NumberOutOfRange { offset: 0 });
        }
        let shifted = format!("1{}e-200000", "0".repeat(200_000));
        assert_eq!(parsed(&shifted), Value::Int(1));
        let tiny = format!("0.{}1e200001", "0".repeat(200_000));
        assert_eq!(parsed(&tiny), Value::Int(1));
    }

    #[test]
    fn hand_built_integers_are_written_in_full() {
        assert_eq!(Value::Int(i128::MIN).to_canonical(), i128::MIN.to_string());
        assert_eq!(Value::Int(0).to_canonical(), "0");
    }

    #[test]
    fn syntax_errors_tell_where() {
        for (text, offset) in [
            ("", 0),
            (" ", 1),
            ("\u{feff}1", 0),
            ("nul", 0),
            ("truee", 4),
            ("1 2", 2),
            ("01", 1),
            ("-", 1),
            ("+1", 0),
            (".5", 0),
            ("1.", 2),
            ("1.e3", 2),
            ("1e", 2),
            ("1e+", 3),
            ("NaN", 0),
            ("[1,]", 3),
            ("[1 2]", 3),
            ("[1}", 2),
            ("[", 1),
            ("{\"a\"}", 4),
            ("{\"a\":}", 5),
            ("{\"a\":1,}", 7),
            ("{a:1}", 1),
            ("{\"a\":1", 6),
            ("'a'", 0),
            ("\"a", 2),
            ("\"a\nb\"", 2),
            ("\"a\\x\"", 3),
            ("\"\\u12g4\"", 5),
            ("\"\\u12", 5),
            ("1\u{a0}", 1),
        ] {
            assert_eq!(syntax_error_at(text), offset, "{text:?}");
        }
    }

    #[test]
    fn half_a_surrogate_pair_is_refused() {
        for lone in [
            r"\ud83d",
            r"\ude00",
            r"\ud83dx",
            r"\ud83d\n",
            r"\ud83d\ud83d",
            r"\ud83d\u0041",
            r"\ude00\ud83d",
        ] {
            assert_eq!(syntax_error_at(&format!("\"a{lone}\"")), 3, "{lone}");
        }
        assert_eq!(
            canonical(r#""\uD83D\uDE00\uffff\u0000""#),
            "\"\u{1f600}\u{ffff}\\u0000\""
        );
    }

    #[test]
    fn escapes_are_minimal() {
        let text = r#""\u0008\u0009\u000a\u000c\u000d\u001F\u007f\/\u00e9\"\\""#;
        assert_eq!(canonical(text), "\"\\b\\t\\n\\f\\r\\u001f\u{7f}/é\\\"\\\\\"");
    }

    #[test]
    fn strings_without_escapes_are_borrowed() {
        let Value::String(plain) = parsed("\"plain, long enough for words\"") else {
            panic!()
        };
        assert!(matches!(plain, Cow::Borrowed("plain, long enough for words")));
    }

    #[test]
    fn special_bytes_are_found_at_every_place() {
        let special = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
        for place in 0..20 {
            for byte in 0..=u8::MAX {
                let mut bytes = [0xC3_u8; 20];
                bytes[place] = byte;
                let expected = if special(byte) { place } else { bytes.len() };
                assert_eq!(plain_length(&bytes), expected, "{byte} at {place}");
            }
        }
    }

    #[test]
    fn absent_is_not_null() {
        assert_ne!(canonical(r#"{"a":null}"#), canonical("{}"));
    }

    #[test]
    fn duplicate_members_are_refused() {
        for text in [
            r#"[ {"a":1,"a":1}]"#,
            r#"[ {"a":1,"\u0061":2}]"#,
            r#"[ {"b":0,"a":{"a":1},"c":[],"a":null}]"#,
        ] {
            let expected = CanonicalError::DuplicateMember {
                name: "a".to_owned(),
                offset: 2,
            };
            assert_eq!(refused(text), expected);
        }
        assert_eq!(canonical(r#"{"a":{"a":1},"A":1}"#), r#"{"A":1,"a":{"a":1}}"#);
        let long = "é".repeat(100);
        let error = refused(&format!("{{\"{long}\":1,\"{long}\":2}}"));
        let name = "é".repeat(64);
        assert_eq!(error, CanonicalError::DuplicateMember { name, offset: 0 });
    }

    #[test]
    fn depth_is_limited() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let objects = |depth: usize| format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
        for (ok, deeper) in [(nested(64), nested(65)), (objects(64), objects(65))] {
            assert_eq!(canonical(&ok), ok);
            assert_eq!(refused(&deeper), CanonicalError::TooDeep { allowed: 64 });
        }
        let siblings = format!("[{}[]]", "[[]],".repeat(200));
        assert_eq!(canonical(&siblings), siblings);
    }

    #[test]
    fn no_limit_allows_a_stack_overflow() {
        let limits = Limits {
            bytes: usize::MAX,
            depth: usize::MAX,
        };
        let allowed = Limits::MAX_DEPTH;
        assert_eq!(
            parse(&"[".repeat(1_000_000), limits),
            Err(CanonicalError::TooDeep { allowed })
        );
    }

    #[test]
    fn size_is_limited() {
        let limits = Limits {
            bytes: 4,
            ..Limits::default()
        };
        assert_eq!(parse("1234", limits), Ok(Value::Int(1234)));
        let too_large = CanonicalError::TooLarge { bytes: 5, allowed: 4 };
        assert_eq!(parse("1234 ", limits), Err(too_large));
        assert_eq!(
            Limits::default(),
            Limits {
                bytes: 262_144,
                depth: 64
            }
        );
    }

    #[test]
    fn messages_say_what_is_allowed() {
        assert_eq!(
            refused("[1").to_string(),
            "invalid JSON at byte 2: expected `,` or `]`"
        );
        assert_eq!(
            refused(r#"{"a\n":1,"a\n":1}"#).to_string(),
            r#"the object at byte 0 has more than one member "a\n", each name is allowed once"#
        );
        assert_eq!(
            refused("1e400").to_string(),
            "the number at byte 0 is out of range, \
             allowed is a magnitude up to 1.7976931348623157e308"
        );
    }

    #[test]
    fn pointers_of_rfc_6901() {
        let document = parsed(
            r#"{"foo":["bar","baz"],"":0,"a/b":1,"c%d":2,"e^f":3,"g|h":4,"i\\j":5,"k\"l":6," ":7,"m~n":8}"#,
        );
        for (text, expected) in [
            ("/foo", r#"["bar","baz"]"#),
            ("/foo/0", r#""bar""#),
            ("/", "0"),
            ("/a~1b", "1"),
            ("/c%d", "2"),
            ("/e^f", "3"),
            ("/g|h", "4"),
            ("/i\\j", "5"),
            ("/k\"l", "6"),
            ("/ ", "7"),
            ("/m~0n", "8"),
        ] {
            let found = document.at(&pointer(text)).map(Value::to_canonical);
            assert_eq!(found.as_deref(), Some(expected), "{text}");
            assert_eq!(pointer(text).to_string(), text);
        }
        assert_eq!(document.at(&pointer("")), Some(&document));
    }

    #[test]
    fn pointers_to_nothing() {
        let document = parsed(r#"{"a":[0,1],"~1":2}"#);
        for text in [
            "/b", "/a/2", "/a/-", "/a/01", "/a/+1", "/a/", "/a/-1", "/a/0/0", "/a/1e0", "/~1",
        ] {
            assert_eq!(document.at(&pointer(text)), None, "{text}");
        }
        assert_eq!(document.at(&pointer("/a/18446744073709551616")), None);
        assert_eq!(document.at(&pointer("/~01")), Some(&Value::Int(2)));
    }

    #[test]
    fn bad_pointers_are_refused() {
        let rule = |text: &str| match Pointer::try_from(text) {
            Err(CanonicalError::BadPointer { pointer, allowed }) if pointer == text => allowed,
            other => panic!("{other:?}"),
        };
        assert!(rule("a/b").contains("begin with `/`"));
        assert!(rule("#/a").contains("begin with `/`"));
        for text in ["/~", "/a~", "/~2", "/~~0", "/a/~/b", "/~é"] {
            assert!(rule(text).contains("`~0`"), "{text}");
        }
    }

    #[test]
    fn without_removes_members_and_elements() {
        let document = parsed(r#"{"a":[1,2,{"b":3,"c":4}],"d":null,"e":{"f":5}}"#);
        let without = |texts: &[&str]| {
            let pointers: Vec<Pointer> = texts.iter().map(|text| pointer(text)).collect();
            document.without(&pointers).to_canonical()
        };
        assert_eq!(without(&[]), document.to_canonical());
        assert_eq!(
            without(&["/x", "/a/3", "/a/-", "/d/y", "/e/f/z"]),
            document.to_canonical()
        );
        assert_eq!(without(&["/d", "/a"]), r#"{"e":{"f":5}}"#);
        assert_eq!(
            without(&["/a/1", "/a/0", "/e"]),
            r#"{"a":[{"b":3,"c":4}],"d":null}"#
        );
        assert_eq!(
            without(&["/a/2/b", "/e/f"]),
            r#"{"a":[1,2,{"c":4}],"d":null,"e":{}}"#
        );
        assert_eq!(without(&["/a/2/b", "/a/2", "/a/2/c"]), {
            r#"{"a":[1,2],"d":null,"e":{"f":5}}"#
        });
        assert_eq!(without(&["", "/a"]), "null");
    }

    fn differences(a: &str, b: &str) -> Vec<String> {
        let found = differs(&parsed(a), &parsed(b), 10);
        assert_eq!(
            differs(&parsed(b), &parsed(a), 10),
            found,
            "whichever side comes first"
        );
        found
    }

    #[test]
    fn differs_tells_the_deepest_places() {
        let none: [&str; 0] = [];
        assert_eq!(differences(r#"{"a":[1,2.0]}"#, r#"{ "a":[1e0,2]}"#), none);
        assert_eq!(differences("1", "2"), [""]);
        assert_eq!(differences("[]", "{}"), [""]);
        assert_eq!(
            differences(r#"{"a":{"b":[1,{"c":2}]}}"#, r#"{"a":{"b":[1,{"c":3}]}}"#),
            { ["/a/b/1/c"] }
        );
        assert_eq!(differences(r#"{"a":null}"#, "{}"), ["/a"]);
        assert_eq!(differences("[1,2,3,[4]]", "[1,5]"), ["/1", "/2", "/3"]);
        assert_eq!(differences(r#"{"a/b":1,"m~n":[0]}"#, r#"{"a/b":2,"m~n":[1]}"#), {
            ["/a~1b", "/m~0n/0"]
        });
    }

    #[test]
    fn differs_keeps_canonical_order_and_its_limit() {
        let a = parsed(r#"{"e":1,"d":[1,2],"b":1,"\ufb33":0,"c":5}"#);
        let b = parsed(r#"{"a":1,"d":[2,1],"b":2,"\ud83d\ude00":0,"c":5}"#);
        let all = differs(&a, &b, usize::MAX);
        assert_eq!(all, ["/a", "/b", "/d/0", "/d/1", "/e", "/\u{1f600}", "/\u{fb33}"]);
        (0..=all.len()).for_each(|most| assert_eq!(differs(&a, &b, most), all[..most]));
    }

    /// Documents as they can be made: numbers from every corner, names that collide in part.
    #[derive(Debug, Clone)]
    enum Json {
        Word(&'static str),
        Int(i128),
        Float(f64),
        String(String),
        Array(Vec<Json>),
        Object(BTreeMap<String, Json>),
    }

    fn any_text() -> impl Strategy<Value = String> {
        let character = prop_oneof![
            proptest::char::range('a', 'c'),
            proptest::char::range('\0', '\u{ff}'),
            proptest::char::range('\u{d000}', '\u{d7ff}'),
            proptest::char::range('\u{e000}', '\u{10ffff}'),
        ];
        prop::collection::vec(character, 0..12).prop_map(String::from_iter)
    }

    fn any_json() -> impl Strategy<Value = Json> {
        let word = prop::sample::select(vec!["null", "true", "false"]).prop_map(Json::Word);
        let double = any::<u64>()
            .prop_map(f64::from_bits)
            .prop_filter("read back", |number| {
                // Most of those in between are written as plain integers that are refused.
                number.is_finite() && !(9223372036854775808.0..1e21).contains(&number.abs())
            });
        let scalar = prop_oneof![
            word,
            (-1000_i128..1000).prop_map(Json::Int),
            any::<i64>().prop_map(|integer| Json::Int(integer.into())),
            any::<u64>().prop_map(|integer| Json::Int(integer.into())),
            (-1000_i32..1000).prop_map(|number| Json::Float(f64::from(number) / 8.0)),
            double.prop_map(Json::Float),
            any_text().prop_map(Json::String),
        ];
        scalar.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Json::Array),
                prop::collection::btree_map(any_text(), inner, 0..6).prop_map(Json::Object),
            ]
        })
    }

    /// Spells a document in one of many ways, as `seed` says.
    struct Speller {
        seed: u64,
        out: String,
    }

    impl Speller {
        fn spell(json: &Json, seed: u64) -> String {
            let mut speller = Self {
                seed,
                out: String::new(),
            };
            speller.json(json);
            speller.out
        }

        fn choose(&mut self, choices: usize) -> usize {
            self.seed = self
                .seed
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (self.seed >> 33) as usize % choices
        }

        fn space(&mut self) {
            let space = ["", "", "", " ", "\n", "\t\r"][self.choose(6)];
            self.out.push_str(space);
        }

        fn json(&mut self, json: &Json) {
            self.space();
            match json {
                Json::Word(word) => self.out.push_str(word),
                Json::Int(integer) => self.integer(*integer),
                Json::Float(number) => self.float(*number),
                Json::String(string) => self.string(string),
                Json::Array(elements) => self.array(elements),
                Json::Object(members) => self.object(members),
            }
            self.space();
        }

        fn integer(&mut self, integer: i128) {
            let spelt = match self.choose(4) {
                0 => format!("{integer}"),
                1 => format!("{integer}.00"),
                2 => format!("{}E-3", integer * 1000),
                _ => format!("{integer}e+00"),
            };
            self.out.push_str(&spelt);
        }

        fn float(&mut self, number: f64) {
            // `{:?}` has a point or an exponent, so that large ones are not plain integers.
            let spelt = match self.choose(2) {
                0 => format!("{number:?}"),
                _ => format!("{number:e}"),
            };
            self.out.push_str(&spelt);
        }

        fn string(&mut self, string: &str) {
            self.out.push('"');
            for c in string.chars() {
                match c {
                    '\0'..' ' | '"' | '\\' => self.escape(c),
                    _ if self.choose(5) == 0 => self.escape(c),
                    _ => self.out.push(c),
                }
            }
            self.out.push('"');
        }

        fn escape(&mut self, c: char) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(self.out, "\\u{unit:04X}").expect("a String takes every write");
            }
        }

        fn array(&mut self, elements: &[Json]) {
            self.out.push('[');
            for (index, element) in elements.iter().enumerate() {
                self.out.push_str(if index > 0 { "," } else { "" });
                self.json(element);
            }
            self.out.push(']');
        }

        fn object(&mut self, members: &BTreeMap<String, Json>) {
            let mut members: Vec<_> = members.iter().collect();
            for last in (1..members.len()).rev() {
                let other = self.choose(last + 1);
                members.swap(last, other);
            }
            self.out.push('{');
            for (index, (name, value)) in members.into_iter().enumerate() {
                self.out.push_str(if index > 0 { "," } else { "" });
                self.space();
                self.string(name);
                self.space();
                self.out.push(':');
                self.json(value);
            }
            self.out.push('}');
        }
    }

    /// Panics if our verdict differs from serde_json's for any reason but our stricter rules.
    fn compare_verdicts(text: &str) {
        let theirs = serde_json::from_str::<serde_json::Value>(text);
        let form = parse(text, Limits::default()).map(|value| value.to_canonical());
        assert_eq!(rewritten(text), form, "without the tree");
        match parse(text, Limits::default()) {
            Ok(value) => {
                let theirs = theirs.unwrap_or_else(|error| panic!("{text:?}: {error}"));
                assert!(same(&value, &theirs), "{text:?} is {value:?} or {theirs:?}");
            }
            Err(error @ CanonicalError::Syntax { .. }) => {
                assert!(theirs.is_err(), "{text:?}: {error}");
            }
            Err(_) => {}
        }
    }

    fn same(ours: &Value<'_>, theirs: &serde_json::Value) -> bool {
        use serde_json::Value as Theirs;
        match (ours, theirs) {
            (Value::Null, Theirs::Null) => true,
            (Value::Bool(a), Theirs::Bool(b)) => a == b,
            (Value::Int(a), Theirs::Number(b)) if !b.is_f64() => Some(*a) == b.as_i128(),
            (Value::Int(a), Theirs::Number(b)) => near(*a as f64, b),
            (Value::Float(a), Theirs::Number(b)) => near(*a, b),
            (Value::String(a), Theirs::String(b)) => a == b,
            (Value::Array(a), Theirs::Array(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
            }
            (Value::Object(a), Theirs::Object(b)) => {
                let found = |name: &str, value| b.get(name).is_some_and(|b| same(value, b));
                a.len() == b.len() && a.iter().all(|(name, value)| found(name, value))
            }
            _ => false,
        }
    }

    /// serde_json does not always take the nearest double.
    fn near(ours: f64, theirs: &serde_json::Number) -> bool {
        let theirs = theirs.as_f64().unwrap_or(f64::NAN);
        (ours - theirs).abs() <= ours.abs() * 1e-15 + 1e-320
    }

    fn mutated(text: &str, place: prop::sample::Index, with: &str, cut: usize) -> String {
        let characters: Vec<char> = text.chars().collect();
        let at = place.index(characters.len() + 1);
        let rest = characters.iter().skip(at + cut);
        characters[..at]
            .iter()
            .copied()
            .chain(with.chars())
            .chain(rest.copied())
            .collect()
    }

    proptest! {
        #[test]
        fn every_spelling_has_the_same_form(json in any_json(), seeds: [u64; 2]) {
            let texts = seeds.map(|seed| Speller::spell(&json, seed));
            let [a, b] = texts.each_ref().map(|text| parsed(text));
            prop_assert_eq!(a.to_canonical(), b.to_canonical());
            prop_assert_eq!(differs(&a, &b, 1), Vec::<String>::new());
        }

        #[test]
        fn the_form_is_its_own_form(json in any_json(), seed: u64) {
            let text = Speller::spell(&json, seed);
            let value = parsed(&text);
            let form = value.to_canonical();
            let again = parsed(&form);
            prop_assert_eq!(&again, &value);
            prop_assert_eq!(again.to_canonical(), form);
        }

        #[test]
        fn valid_texts_are_judged_as_by_serde_json(json in any_json(), seed: u64) {
            let text = Speller::spell(&json, seed);
            compare_verdicts(&text);
            compare_verdicts(&canonical(&text));
        }

        #[test]
        fn mutated_texts_are_judged_as_by_serde_json(
            json in any_json(),
            seed: u64,
            place: prop::sample::Index,
            with in r#"[-+.eE0-9,:{}\[\]"\\untr \x00-\x20é]{0,3}"#,
            cut in 0_usize..4,
        ) {
            compare_verdicts(&mutated(&Speller::spell(&json, seed), place, &with, cut));
        }

        #[test]
        fn odd_texts_are_judged_as_by_serde_json(
            text in r#"([-+.eE019]{1,6}|["\\u]{1,3}|\\u[dD][89c-f]00|[\[\]{},: ]|null|true|"a")*"#,
        ) {
            compare_verdicts(&text);
            compare_verdicts(&format!("[\"{text}\"]"));
        }

        #[test]
        fn shifted_integers_are_exact(integer: i64, shift in 0_usize..40) {
            let digits = format!("{:041}", integer.unsigned_abs());
            let (whole, fraction) = digits.split_at(41 - shift);
            let whole = whole.trim_start_matches('0');
            let sign = if integer < 0 { "-" } else { "" };
            let whole = if whole.is_empty() { "0" } else { whole };
            let text = format!("{sign}{whole}.{fraction}0e{shift}");
            prop_assert_eq!(parsed(&text), Value::Int(integer.into()));
        }

        #[test]
        fn names_are_ordered_by_utf_16(a in any_text(), b in any_text()) {
            let order = a.encode_utf16().cmp(b.encode_utf16());
            prop_assert_eq!(cmp_utf16(&a, &b), order);
        }

        #[test]
        fn differences_point_into_the_documents(a in any_json(), b in any_json(), seed: u64) {
            let texts = [&a, &b].map(|json| Speller::spell(json, seed));
            let [a, b] = texts.each_ref().map(|text| parsed(text));
            let places = differs(&a, &b, usize::MAX);
            prop_assert_eq!(places.is_empty(), a == b);
            for place in places {
                let place = pointer(&place);
                prop_assert_ne!(a.at(&place), b.at(&place));
            }
        }
    }
}
