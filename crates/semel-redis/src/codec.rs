//! Bytes of stored records: little-endian numbers, texts with their length in front.

use semel_core::error::StoreError;
use semel_core::ids::{Digest, Name, Token};
use semel_core::json::Json;
use semel_core::time::Timestamp;

use crate::keys::Id;

/// What stands for a moment or length that is not there. All of them are positive.
pub const NONE: i64 = -1;

/// Writes a record.
#[derive(Default)]
pub struct Writer(Vec<u8>);

impl Writer {
    /// An empty record of a version.
    pub fn new(version: u8) -> Self {
        Writer(vec![version])
    }

    /// The same, for about so many bytes.
    pub fn sized(version: u8, bytes: usize) -> Self {
        let mut out = Vec::with_capacity(bytes);
        out.push(version);
        Writer(out)
    }

    /// The bytes.
    pub fn done(self) -> Vec<u8> {
        self.0
    }

    /// One byte.
    pub fn byte(&mut self, value: u8) -> &mut Self {
        self.0.push(value);
        self
    }

    /// A number of 32 bits.
    pub fn small(&mut self, value: u32) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// A number of 64 bits.
    pub fn long(&mut self, value: i64) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// A number that is small as a rule, in as few bytes as it needs; negative ones need ten.
    pub fn var(&mut self, value: i64) -> &mut Self {
        let mut rest = value as u64;
        while rest >= 0x80 {
            self.0.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        self.byte(rest as u8)
    }

    /// A moment or length that is not there as a rule, in as few bytes as it needs.
    pub fn maybe_var(&mut self, value: Option<i64>) -> &mut Self {
        self.var(value.map_or(0, |value| value.wrapping_add(1)))
    }

    /// A moment that is close to another as a rule.
    pub fn near(&mut self, value: Timestamp, other: Timestamp) -> &mut Self {
        self.close(value.as_millis(), other.as_millis())
    }

    /// A number that is close to another as a rule.
    pub fn close(&mut self, value: i64, other: i64) -> &mut Self {
        let apart = value.wrapping_sub(other);
        self.var(apart.wrapping_shl(1) ^ (apart >> 63))
    }

    /// A text, its length in as few bytes as it needs.
    pub fn short_text(&mut self, value: &str) -> &mut Self {
        self.var(value.len() as i64).raw(value.as_bytes())
    }

    /// A moment.
    pub fn time(&mut self, value: Timestamp) -> &mut Self {
        self.long(value.as_millis())
    }

    /// A moment, or none.
    pub fn maybe_time(&mut self, value: Option<Timestamp>) -> &mut Self {
        self.long(value.map_or(NONE, Timestamp::as_millis))
    }

    /// Bytes of known length.
    pub fn raw(&mut self, value: &[u8]) -> &mut Self {
        self.0.extend_from_slice(value);
        self
    }

    /// A text.
    pub fn text(&mut self, value: &str) -> &mut Self {
        self.small(u32::try_from(value.len()).unwrap_or(u32::MAX));
        self.raw(value.as_bytes())
    }

    /// A text, or none.
    pub fn maybe_text(&mut self, value: Option<&str>) -> &mut Self {
        match value {
            Some(text) => self
                .small(u32::try_from(text.len()).unwrap_or(u32::MAX))
                .raw(text.as_bytes()),
            None => self.small(u32::MAX),
        }
    }
}

/// Reads a record.
pub struct Reader<'a> {
    rest: &'a [u8],
    what: &'static str,
}

impl<'a> Reader<'a> {
    /// Begins with the version, which has to be the one that is known.
    pub fn new(bytes: &'a [u8], version: u8, what: &'static str) -> Result<Self, StoreError> {
        let mut reader = Reader { rest: bytes, what };
        match reader.byte()? {
            found if found == version => Ok(reader),
            found => Err(StoreError::corrupt(format!(
                "{what} is of version {found}, known is {version}"
            ))),
        }
    }

    /// Goes on within a record whose version is known.
    pub fn within(bytes: &'a [u8], what: &'static str) -> Self {
        Reader { rest: bytes, what }
    }

    fn bad(&self) -> StoreError {
        StoreError::corrupt(format!("{} cannot be read", self.what))
    }

    /// Bytes of known length.
    pub fn raw(&mut self, length: usize) -> Result<&'a [u8], StoreError> {
        let (head, rest) = self.rest.split_at_checked(length).ok_or_else(|| self.bad())?;
        self.rest = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], StoreError> {
        let bytes = self.raw(N)?;
        bytes.try_into().map_err(|_| self.bad())
    }

    /// One byte.
    pub fn byte(&mut self) -> Result<u8, StoreError> {
        Ok(self.array::<1>()?[0])
    }

    /// A number of 32 bits.
    pub fn small(&mut self) -> Result<u32, StoreError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// A number of 64 bits.
    pub fn long(&mut self) -> Result<i64, StoreError> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    /// A number in as few bytes as it needs.
    pub fn var(&mut self) -> Result<i64, StoreError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value as i64);
            }
        }
        Err(self.bad())
    }

    /// The same, for one that has to be small.
    pub fn small_var(&mut self) -> Result<u32, StoreError> {
        u32::try_from(self.var()?).map_err(|_| self.bad())
    }

    /// A moment or length that is not there as a rule.
    pub fn maybe_var(&mut self) -> Result<Option<i64>, StoreError> {
        Ok(Some(self.var()?)
            .filter(|value| *value != 0)
            .map(|value| value.wrapping_sub(1)))
    }

    /// A moment that is close to another as a rule.
    pub fn near(&mut self, other: Timestamp) -> Result<Timestamp, StoreError> {
        self.close(other.as_millis()).map(Timestamp::from_millis)
    }

    /// A number that is close to another as a rule.
    pub fn close(&mut self, other: i64) -> Result<i64, StoreError> {
        let folded = self.var()?;
        let apart = ((folded as u64) >> 1) as i64 ^ -(folded & 1);
        Ok(other.wrapping_add(apart))
    }

    /// A text, its length in as few bytes as it needs.
    pub fn short_text(&mut self) -> Result<&'a str, StoreError> {
        let length = self.small_var()?;
        self.text_of(length)
    }

    /// A number of 64 bits, or none.
    pub fn maybe_long(&mut self) -> Result<Option<i64>, StoreError> {
        Ok(Some(self.long()?).filter(|value| *value != NONE))
    }

    /// A moment.
    pub fn time(&mut self) -> Result<Timestamp, StoreError> {
        Ok(Timestamp::from_millis(self.long()?))
    }

    /// A moment, or none.
    pub fn maybe_time(&mut self) -> Result<Option<Timestamp>, StoreError> {
        Ok(self.maybe_long()?.map(Timestamp::from_millis))
    }

    /// A text.
    pub fn text(&mut self) -> Result<&'a str, StoreError> {
        let length = self.small()?;
        self.text_of(length)
    }

    fn text_of(&mut self, length: u32) -> Result<&'a str, StoreError> {
        let bytes = self.raw(length as usize)?;
        std::str::from_utf8(bytes).map_err(|_| self.bad())
    }

    /// A text, or none.
    pub fn maybe_text(&mut self) -> Result<Option<&'a str>, StoreError> {
        match self.small()? {
            u32::MAX => Ok(None),
            length => self.text_of(length).map(Some),
        }
    }

    /// A name.
    pub fn name(&mut self) -> Result<Name, StoreError> {
        Name::new(self.text()?).map_err(|_| self.bad())
    }

    /// A name, its length in as few bytes as it needs.
    pub fn short_name(&mut self) -> Result<Name, StoreError> {
        Name::new(self.short_text()?).map_err(|_| self.bad())
    }

    /// Everything that is left, as a text.
    pub fn rest(&mut self) -> Result<&'a str, StoreError> {
        let bytes = std::mem::take(&mut self.rest);
        std::str::from_utf8(bytes).map_err(|_| self.bad())
    }

    /// A name, or none.
    pub fn maybe_name(&mut self) -> Result<Option<Name>, StoreError> {
        let text = self.maybe_text()?;
        text.map(Name::new).transpose().map_err(|_| self.bad())
    }

    /// A document that was checked when it came in, or none.
    pub fn maybe_json(&mut self) -> Result<Option<Json>, StoreError> {
        Ok(self.maybe_text()?.map(Json::trusted))
    }

    /// A job.
    pub fn id(&mut self) -> Result<Id, StoreError> {
        Ok(Id(self.array()?))
    }

    /// A token.
    pub fn token(&mut self) -> Result<Token, StoreError> {
        Ok(Token::from_bytes(self.array()?))
    }

    /// A digest.
    pub fn digest(&mut self) -> Result<Digest, StoreError> {
        Ok(Digest::from_bytes(self.array()?))
    }

    /// Half a digest.
    pub fn half(&mut self) -> Result<[u8; 16], StoreError> {
        self.array()
    }

    /// One of the values that are stored by their place in a list.
    pub fn one_of<T: Copy>(&mut self, values: &[T]) -> Result<T, StoreError> {
        let place = usize::from(self.byte()?);
        values.get(place).copied().ok_or_else(|| self.bad())
    }

    /// Whether everything was read.
    pub fn is_done(&self) -> bool {
        self.rest.is_empty()
    }
}

/// Up to eight answers in one byte.
pub fn bits(all: &[bool]) -> u8 {
    all.iter()
        .enumerate()
        .fold(0, |sum, (at, bit)| sum | u8::from(*bit) << at)
}

/// The place of a value in the list it is stored by.
pub fn place<T: PartialEq>(values: &[T], value: &T) -> u8 {
    let place = values.iter().position(|one| one == value);
    u8::try_from(place.expect("the list is complete")).expect("the list is short")
}
