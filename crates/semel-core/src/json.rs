//! JSON as it travels: checked once, then passed on as text.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::canonical::{self, CanonicalError, Limits};
use crate::error::Invalid;

/// A JSON document, kept as the text it came in.
///
/// Stores never parse it: only canonical form, pointers and differences look inside.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Json(Arc<str>);

impl Json {
    /// Checks text against the limits of an input (256 KiB, depth 64, no duplicate members).
    pub fn new(text: impl AsRef<str>) -> Result<Self, Invalid> {
        Self::within(text, Limits::default())
    }

    /// Checks text against given limits.
    pub fn within(text: impl AsRef<str>, limits: Limits) -> Result<Self, Invalid> {
        let text = text.as_ref();
        canonical::validate(text, limits)?;
        Ok(Json(Arc::from(text)))
    }

    /// Takes text that was checked before, such as what a store wrote itself.
    pub fn trusted(text: impl Into<Arc<str>>) -> Self {
        Json(text.into())
    }

    /// The document `null`.
    pub fn null() -> Self {
        Json(Arc::from("null"))
    }

    /// Any value that can be written as JSON.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, Invalid> {
        let text = serde_json::to_string(value).map_err(|error| {
            Invalid::new("value", "something that can be written as JSON").found(error.to_string())
        })?;
        Json::new(text)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is the document `null`.
    pub fn is_null(&self) -> bool {
        &*self.0 == "null"
    }

    /// Reads the document into a type.
    pub fn read<T: for<'de> Deserialize<'de>>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.0)
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw = RawValue::from_string(self.0.as_ref().to_owned()).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Json::new(raw.get()).map_err(serde::de::Error::custom)
    }
}

impl From<CanonicalError> for Invalid {
    fn from(error: CanonicalError) -> Self {
        Invalid::new("JSON", "a strict JSON document within the limits").found(error.to_string())
    }
}
