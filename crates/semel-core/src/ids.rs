//! Who is who: job ids, tokens, digests, checked names.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::Invalid;

/// The identity of a job: opaque text of at most 128 characters (contract 3.5).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct JobId(Box<str>);

impl JobId {
    /// The longest id a store may hand out.
    pub const MAX_CHARS: usize = 128;

    /// Accepts any printable text of 1 to 128 characters; whether such a job exists is another question.
    pub fn new(text: impl Into<String>) -> Result<Self, Invalid> {
        let text = text.into();
        let fits = !text.is_empty() && text.chars().count() <= Self::MAX_CHARS;
        if !fits || text.chars().any(char::is_control) {
            return Err(Invalid::new(
                "job id",
                "1 to 128 characters without control characters",
            ));
        }
        Ok(JobId(text.into_boxed_str()))
    }

    /// The text of the id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<Token> for JobId {
    fn from(token: Token) -> Self {
        let mut buffer = Uuid::encode_buffer();
        JobId(Box::from(&*token.0.hyphenated().encode_lower(&mut buffer)))
    }
}

impl TryFrom<String> for JobId {
    type Error = Invalid;
    fn try_from(text: String) -> Result<Self, Invalid> {
        JobId::new(text)
    }
}

impl From<JobId> for String {
    fn from(id: JobId) -> Self {
        id.0.into_string()
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What makes a repeated call the same call: a UUID made by the client (contract 3.5).
///
/// Core never makes one out of thin air: [`Token::from_parts`] is given time and randomness.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Token(Uuid);

impl Token {
    /// A UUID v7 from a time in milliseconds and ten random bytes.
    pub fn from_parts(millis: u64, random: &[u8; 10]) -> Self {
        Token(uuid::Builder::from_unix_timestamp_millis(millis, random).into_uuid())
    }

    /// The sixteen bytes of the UUID.
    pub fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }

    /// A token from its sixteen bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Token(Uuid::from_bytes(bytes))
    }
}

impl FromStr for Token {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        Uuid::parse_str(text)
            .map(Token)
            .map_err(|_| Invalid::new("token", "a UUID such as 0190d5b2-7c1e-7a53-9f0e-3c1f0a5b6d7e"))
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A SHA-256, whole (contract 2.2: never truncated). Shown as 64 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest([u8; 32]);

impl Digest {
    /// A digest from its bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Digest(bytes)
    }

    /// The 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

impl TryFrom<String> for Digest {
    type Error = Invalid;
    fn try_from(text: String) -> Result<Self, Invalid> {
        text.parse()
    }
}

impl FromStr for Digest {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let wrong = || Invalid::new("key digest", "64 hexadecimal digits");
        if text.len() != 64 || !text.is_ascii() {
            return Err(wrong());
        }
        let mut bytes = [0u8; 32];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[at * 2..at * 2 + 2], 16).map_err(|_| wrong())?;
        }
        Ok(Digest(bytes))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The name of a queue, task, scope, step, worker or document: 1 to 128 bytes, no control characters, neither `.` nor
/// `..`, which no path can name (contract 8.1).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(Arc<str>);

impl Name {
    /// The longest name, in bytes.
    pub const MAX_BYTES: usize = 128;

    /// Checks a name.
    pub fn new(text: impl AsRef<str>) -> Result<Self, Invalid> {
        let text = text.as_ref();
        if text.is_empty() || text.len() > Self::MAX_BYTES || text.chars().any(char::is_control) {
            return Err(Invalid::new("name", "1 to 128 bytes without control characters")
                .found(format!("{} bytes", text.len())));
        }
        if matches!(text, "." | "..") {
            return Err(Invalid::new("name", "1 to 128 bytes, but not . or .. alone").found(text));
        }
        Ok(Name(Arc::from(text)))
    }

    /// The text of the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Name {
    type Error = Invalid;
    fn try_from(text: String) -> Result<Self, Invalid> {
        Name::new(text)
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0.as_ref().to_owned()
    }
}

impl FromStr for Name {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        Name::new(text)
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}
