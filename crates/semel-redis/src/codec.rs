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

    /// A job, or none.
    pub fn maybe_id(&mut self, value: Option<&Id>) -> &mut Self {
        match value {
            Some(id) => self.byte(1).raw(&id.0),
            None => self.byte(0),
        }
    }

    /// A digest, or none.
    pub fn maybe_digest(&mut self, value: Option<&Digest>) -> &mut Self {
        match value {
            Some(digest) => self.byte(1).raw(digest.as_bytes()),
            None => self.byte(0),
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

    /// A job, or none.
    pub fn maybe_id(&mut self) -> Result<Option<Id>, StoreError> {
        match self.byte()? {
            0 => Ok(None),
            _ => self.id().map(Some),
        }
    }

    /// A token.
    pub fn token(&mut self) -> Result<Token, StoreError> {
        Ok(Token::from_bytes(self.array()?))
    }

    /// A digest.
    pub fn digest(&mut self) -> Result<Digest, StoreError> {
        Ok(Digest::from_bytes(self.array()?))
    }

    /// A digest, or none.
    pub fn maybe_digest(&mut self) -> Result<Option<Digest>, StoreError> {
        match self.byte()? {
            0 => Ok(None),
            _ => self.digest().map(Some),
        }
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

/// The place of a value in the list it is stored by.
pub fn place<T: PartialEq>(values: &[T], value: &T) -> u8 {
    let place = values.iter().position(|one| one == value);
    u8::try_from(place.expect("the list is complete")).expect("the list is short")
}
