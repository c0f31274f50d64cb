//! Canonical text straight from text, without the tree in between.
//!
//! A key made from a whole input needs nothing but its canonical text, and is made for every submission. What stands in
//! canonical order already, as what one program writes mostly does, is copied; an object that does not is put in order
//! once its members are written.

use std::borrow::Cow;
use std::ops::Range;

use super::{CanonicalError, Limits, Parser, cmp_utf16, shortened, write_string};

/// Room for the members of the objects that are open, in most inputs.
const MEMBERS: usize = 24;
/// Digits of a plain integer that fits 64 bits whatever they are.
const SURE_DIGITS: usize = 18;

/// Appends the canonical text of a JSON text to `out`: what [`super::parse`] and then [`super::Value::write`] would
/// append, with the same verdict. What stands in `out` after an error is of no use.
pub fn rewrite(text: &str, limits: Limits, out: &mut Vec<u8>) -> Result<(), CanonicalError> {
    let mut rewriting = Rewriting {
        parser: Parser::within(text, limits)?,
        members: Vec::with_capacity(MEMBERS),
        shelf: Vec::new(),
        out,
    };
    rewriting.parser.skip_space();
    rewriting.value()?;
    rewriting.parser.end()
}

struct Rewriting<'a, 'o> {
    parser: Parser<'a>,
    /// The members of the objects that are open, those of the innermost last.
    members: Vec<Written<'a>>,
    /// Where members wait while their object is put in order.
    shelf: Vec<u8>,
    out: &'o mut Vec<u8>,
}

/// A member that was written: its name, and where name and value stand.
struct Written<'a> {
    name: Cow<'a, str>,
    place: Range<usize>,
}

impl<'a> Rewriting<'a, '_> {
    fn value(&mut self) -> Result<(), CanonicalError> {
        match self.parser.peek() {
            Some(b'"') => {
                match self.parser.string()? {
                    Cow::Borrowed(plain) => self.plain(plain),
                    Cow::Owned(resolved) => write_string(&resolved, self.out),
                }
                Ok(())
            }
            Some(b'{') => self.object(),
            Some(b'[') => self.array(),
            Some(b'0'..=b'9') => self.number(),
            _ => {
                self.parser.value()?.write(self.out);
                Ok(())
            }
        }
    }

    /// A string that was borrowed had no escape, so it needs none.
    fn plain(&mut self, string: &str) {
        self.out.push(b'"');
        self.out.extend_from_slice(string.as_bytes());
        self.out.push(b'"');
    }

    /// A short integer is written as it stands; whatever else begins with a digit is read as a number.
    fn number(&mut self) -> Result<(), CanonicalError> {
        let rest = &self.parser.text.as_bytes()[self.parser.at..];
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let plain = digits == 1 || (digits <= SURE_DIGITS && rest[0] != b'0');
        if !plain || matches!(rest.get(digits), Some(b'.' | b'e' | b'E')) {
            self.parser.value()?.write(self.out);
            return Ok(());
        }
        self.out.extend_from_slice(&rest[..digits]);
        self.parser.at += digits;
        Ok(())
    }

    fn array(&mut self) -> Result<(), CanonicalError> {
        self.out.push(b'[');
        let mut more = self.parser.open(b']')?;
        while more {
            self.value()?;
            more = self.parser.more(b']', "`,` or `]`")?;
            if more {
                self.out.push(b',');
            }
        }
        self.out.push(b']');
        Ok(())
    }

    fn object(&mut self) -> Result<(), CanonicalError> {
        let (offset, begin, first) = (self.parser.at, self.out.len(), self.members.len());
        self.out.push(b'{');
        let mut in_order = true;
        let mut more = self.parser.open(b'}')?;
        while more {
            let name = self.parser.name()?;
            in_order &= self.members[first..]
                .last()
                .is_none_or(|before| cmp_utf16(&before.name, &name).is_lt());
            let start = self.out.len();
            match &name {
                Cow::Borrowed(plain) => self.plain(plain),
                Cow::Owned(resolved) => write_string(resolved, self.out),
            }
            self.out.push(b':');
            self.value()?;
            let place = start..self.out.len();
            self.members.push(Written { name, place });
            more = self.parser.more(b'}', "`,` or `}`")?;
            if more {
                self.out.push(b',');
            }
        }
        if !in_order {
            self.put_in_order(offset, begin, first)?;
        }
        self.members.truncate(first);
        self.out.push(b'}');
        Ok(())
    }

    fn put_in_order(&mut self, offset: usize, begin: usize, first: usize) -> Result<(), CanonicalError> {
        let members = &mut self.members[first..];
        members.sort_unstable_by(|a, b| cmp_utf16(&a.name, &b.name));
        if let Some(pair) = members.windows(2).find(|pair| pair[0].name == pair[1].name) {
            return Err(CanonicalError::DuplicateMember {
                name: shortened(&pair[0].name),
                offset,
            });
        }
        self.shelf.clear();
        self.shelf.reserve(self.parser.text.len());
        self.shelf.extend_from_slice(&self.out[begin..]);
        self.out.truncate(begin + 1);
        for (index, member) in members.iter().enumerate() {
            if index > 0 {
                self.out.push(b',');
            }
            let (start, end) = (member.place.start - begin, member.place.end - begin);
            self.out.extend_from_slice(&self.shelf[start..end]);
        }
        Ok(())
    }
}
