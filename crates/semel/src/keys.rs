//! Key strategies by name, to compute and to check a key without submitting anything.

use std::fmt;

use serde::Serialize;

use semel_core::dedup::{self, KeySource, key};
use semel_core::error::Invalid;
use semel_core::ids::{Digest, Name, Token};
use semel_core::json::Json;
use semel_core::submission::Submission;
use semel_core::time::Timestamp;

use crate::ids::fresh_token;
use crate::policy::Dedup;

/// How a key is made where no text is given.
///
/// ```
/// use semel::KeyStrategy;
///
/// let strategy = KeyStrategy::named("content_hash", &[])?;
/// let key = strategy.compute("default", "charge", &serde_json::json!({"order": 7, "cents": 100}))?;
/// let same = strategy.compute("default", "charge", &serde_json::json!({"cents": 100.0, "order": 7}))?;
/// assert_eq!(key, same);
/// assert!(strategy.validate(&key.to_string()).is_ok());
/// assert!(strategy.validate("ORD-7").is_err());
/// # Ok::<(), semel::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyStrategy {
    /// A fresh UUID per submission: identity for the producer's own retries.
    Generated,
    /// The task and the whole input, in canonical form.
    ContentHash,
    /// The input at some pointers, and the whole of it: another input with the same fields is another key,
    /// and can be told as a collision.
    Hybrid(Vec<String>),
}

/// A key that was computed. Its text can stand wherever a key is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ComputedKey {
    /// A UUID.
    Generated(Token),
    /// A digest.
    ContentHash(Digest),
    /// The digest of the fields, and that of fields and input.
    Hybrid {
        /// Equal for all inputs with the same fields.
        fields: Digest,
        /// Equal for the same input only.
        whole: Digest,
    },
}

impl KeyStrategy {
    /// The names there are.
    pub const NAMES: [&'static str; 3] = ["generated", "content_hash", "hybrid"];

    /// The strategy of a name; `hybrid` needs pointers, the others take none.
    pub fn named(name: &str, pointers: &[&str]) -> Result<Self, Invalid> {
        let pointers: Vec<String> = pointers.iter().map(ToString::to_string).collect();
        let strategy = match name {
            "generated" => KeyStrategy::Generated,
            "content_hash" => KeyStrategy::ContentHash,
            "hybrid" => {
                dedup::Dedup::hybrid(&pointers)?.check()?;
                return Ok(KeyStrategy::Hybrid(pointers));
            }
            other => {
                return Err(Invalid::new("key strategy", KeyStrategy::NAMES.join(", ")).found(other));
            }
        };
        if !pointers.is_empty() {
            return Err(
                Invalid::new(format!("pointers of the key strategy {name}"), "none")
                    .hint("hybrid takes some"),
            );
        }
        Ok(strategy)
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            KeyStrategy::Generated => "generated",
            KeyStrategy::ContentHash => "content_hash",
            KeyStrategy::Hybrid(_) => "hybrid",
        }
    }

    /// The policy by which a submission gets such a key.
    pub fn dedup(&self) -> Dedup {
        match self {
            KeyStrategy::Generated => Dedup::generated(),
            KeyStrategy::ContentHash => Dedup::input(),
            KeyStrategy::Hybrid(pointers) => Dedup::hybrid(pointers),
        }
    }

    /// The key of an input, as a submission in this namespace with task scope would get it.
    pub fn compute<I: Serialize + ?Sized>(
        &self,
        namespace: &str,
        task: &str,
        input: &I,
    ) -> Result<ComputedKey, Invalid> {
        let token = fresh_token();
        let submission = Submission::new(token, Name::new(task)?, Json::of(input)?);
        let policy = self.dedup().build()?;
        // Only a period depends on the time, and there is none.
        let derived = key::derive(&Name::new(namespace)?, &submission, &policy, Timestamp::default())?;
        Ok(match (&policy.key, derived.group) {
            (KeySource::Generated, _) => ComputedKey::Generated(token),
            (_, Some(fields)) => ComputedKey::Hybrid {
                fields,
                whole: derived.digest,
            },
            (_, None) => ComputedKey::ContentHash(derived.digest),
        })
    }

    /// Reads a key that this strategy could have computed; anything else is refused.
    pub fn validate(&self, text: &str) -> Result<ComputedKey, Invalid> {
        let wrong = |allowed: &str| Invalid::new(format!("key of the strategy {}", self.name()), allowed);
        match self {
            KeyStrategy::Generated => {
                let token = text.parse().map_err(|_| wrong("a UUID"))?;
                Ok(ComputedKey::Generated(token))
            }
            KeyStrategy::ContentHash => {
                let digest = text.parse().map_err(|_| wrong("64 hexadecimal digits"))?;
                Ok(ComputedKey::ContentHash(digest))
            }
            KeyStrategy::Hybrid(_) => {
                let wrong = || wrong("64 hexadecimal digits, a dash, and 64 more");
                let (fields, whole) = text.split_once('-').ok_or_else(wrong)?;
                Ok(ComputedKey::Hybrid {
                    fields: fields.parse().map_err(|_| wrong())?,
                    whole: whole.parse().map_err(|_| wrong())?,
                })
            }
        }
    }
}

impl fmt::Display for ComputedKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ComputedKey::Generated(token) => fmt::Display::fmt(token, formatter),
            ComputedKey::ContentHash(digest) => fmt::Display::fmt(digest, formatter),
            ComputedKey::Hybrid { fields, whole } => write!(formatter, "{fields}-{whole}"),
        }
    }
}
