//! How core's structs are written as JSON: their fields under their own names.

use std::borrow::Cow;
use std::collections::BTreeMap;

use semel_core::dedup::{Hold, Holding, Key, KeyBy};
use semel_core::ids::{Digest, JobId, Name};
use semel_core::job::{Life, Phase, Spec, State, Would};
use semel_core::json::Json;
use semel_core::submission::Content;
use semel_core::time::{Millis, Timestamp};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

#[derive(Serialize, Deserialize)]
#[serde(remote = "Phase", rename_all = "snake_case")]
pub enum PhaseWire {
    Waiting,
    Running,
    Deferred,
    Parked,
    Complete,
    Failed,
    Cancelled,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Holding")]
pub struct HoldingWire {
    hold: Hold,
    taken_at: Timestamp,
    expires_at: Option<Timestamp>,
    generation: i64,
    freed: bool,
    observed: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Life")]
pub struct LifeWire {
    #[serde(with = "PhaseWire")]
    phase: Phase,
    priority: i8,
    run_at: Timestamp,
    attempt: u32,
    max_attempts: u32,
    deliveries: u32,
    max_deliveries: u32,
    fence: i64,
    settled: Option<State>,
    began: Option<Timestamp>,
    until: Option<Timestamp>,
    started_at: Option<Timestamp>,
    finished_at: Option<Timestamp>,
    #[serde(with = "maybe_holding")]
    holding: Option<Holding>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Key")]
pub struct KeyWire {
    digest: Digest,
    group: Option<Digest>,
    text: Option<Box<str>>,
    input: Digest,
    by: KeyBy,
    scope: Cow<'static, str>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Content")]
pub struct ContentWire {
    #[serde(with = "trusted")]
    input: Json,
    headers: BTreeMap<String, String>,
    #[serde(with = "maybe_trusted", default)]
    meta: Option<Json>,
    timeout: Option<Millis>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Spec")]
pub struct SpecWire {
    id: JobId,
    origin: JobId,
    task: Name,
    queue: Name,
    #[serde(with = "ContentWire")]
    content: Content,
    enqueued_at: Timestamp,
    #[serde(with = "maybe_key")]
    key: Option<Key>,
    producer: Option<Name>,
    replayed_from: Option<JobId>,
    would: Option<Would>,
    collides_with: Option<JobId>,
}

mod maybe_holding {
    use super::*;

    #[derive(Serialize, Deserialize)]
    struct Wrapped(#[serde(with = "HoldingWire")] Holding);

    pub fn serialize<S: Serializer>(value: &Option<Holding>, to: S) -> Result<S::Ok, S::Error> {
        value.clone().map(Wrapped).serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Holding>, D::Error> {
        Ok(Option::<Wrapped>::deserialize(from)?.map(|wrapped| wrapped.0))
    }
}

mod maybe_key {
    use super::*;

    #[derive(Serialize, Deserialize)]
    struct Wrapped(#[serde(with = "KeyWire")] Key);

    pub fn serialize<S: Serializer>(value: &Option<Key>, to: S) -> Result<S::Ok, S::Error> {
        value.clone().map(Wrapped).serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Key>, D::Error> {
        Ok(Option::<Wrapped>::deserialize(from)?.map(|wrapped| wrapped.0))
    }
}

/// JSON of users was checked when it came in: it is not checked again at each reading.
pub mod trusted {
    use super::*;

    pub fn serialize<S: Serializer>(value: &Json, to: S) -> Result<S::Ok, S::Error> {
        value.serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Json, D::Error> {
        let raw = Box::<RawValue>::deserialize(from)?;
        Ok(Json::trusted(Box::<str>::from(raw)))
    }
}

/// The same for JSON that may be missing. The document `null` is there, and is not nothing.
pub mod maybe_trusted {
    use super::*;

    pub fn serialize<S: Serializer>(value: &Option<Json>, to: S) -> Result<S::Ok, S::Error> {
        value.as_ref().map(std::slice::from_ref).serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Json>, D::Error> {
        let raw = Option::<Vec<Box<RawValue>>>::deserialize(from)?;
        let first = raw.and_then(|list| list.into_iter().next());
        Ok(first.map(|raw| Json::trusted(Box::<str>::from(raw))))
    }
}

/// A fraction as text, so that every digit comes back.
pub mod fraction {
    use super::*;

    pub fn serialize<S: Serializer>(value: &Option<f64>, to: S) -> Result<S::Ok, S::Error> {
        value.map(|value| value.to_string()).serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
        Ok(Option::<String>::deserialize(from)?.and_then(|text| text.parse().ok()))
    }
}
