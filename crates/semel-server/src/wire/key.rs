//! Keys, their holders, and the ledger.

use semel_core::dedup::{HoldKind, KeyBy};
use semel_core::ids::{Digest, JobId, Name};
use semel_core::job::{Outcome, State};
use semel_core::json::Json;
use semel_core::view;
use serde::Serialize;
use utoipa::ToSchema;

use crate::wire::{Moment, words};

/// A key.
#[derive(Debug, Serialize, ToSchema)]
pub struct Key<'a> {
    #[schema(value_type = String)]
    digest: Digest,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    text: Option<&'a str>,
    #[schema(value_type = String)]
    scope: &'a str,
    #[schema(value_type = words::KeyBy)]
    by: KeyBy,
    #[schema(value_type = words::HoldKind)]
    hold: HoldKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cool_down_ms: Option<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    release_on: Vec<&'static str>,
    held: bool,
    taken_at: Moment,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Moment>,
    generation: i64,
    observed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    absorbed: Option<i64>,
}

impl<'a> Key<'a> {
    /// The key with how many submissions it has absorbed.
    pub fn of_row(row: &'a view::KeyRow) -> Self {
        Key {
            absorbed: Some(row.absorbed),
            ..Key::from(&row.key)
        }
    }
}

impl<'a> From<&'a view::KeyView> for Key<'a> {
    fn from(key: &'a view::KeyView) -> Self {
        let release_on = key.hold.release_on;
        let outcomes = [(release_on.failed, "failed"), (release_on.cancelled, "cancelled")];
        Key {
            digest: key.digest,
            text: key.text.as_deref(),
            scope: &key.scope,
            by: key.by,
            hold: key.hold.kind,
            ttl_ms: key.hold.ttl.map(|ttl| ttl.as_millis()),
            cool_down_ms: key.hold.cool_down.map(|more| more.as_millis()),
            release_on: outcomes
                .into_iter()
                .filter(|(on, _)| *on)
                .map(|(_, word)| word)
                .collect(),
            held: key.held,
            taken_at: key.taken_at.into(),
            expires_at: key.expires_at.map(Moment),
            generation: key.generation,
            observed: key.observed,
            absorbed: None,
        }
    }
}

/// The job that holds a key.
#[derive(Debug, Serialize, ToSchema)]
pub struct Holder<'a> {
    #[schema(value_type = String)]
    id: &'a JobId,
    #[schema(value_type = String)]
    task: &'a Name,
    #[schema(value_type = words::State)]
    state: State,
    enqueued_at: Moment,
}

impl<'a> Holder<'a> {
    /// The reference of a job.
    pub fn of(job: &'a view::Job) -> Self {
        Holder {
            id: &job.id,
            task: &job.task,
            state: job.state,
            enqueued_at: job.enqueued_at.into(),
        }
    }
}

impl<'a> From<&'a view::HolderView> for Holder<'a> {
    fn from(holder: &'a view::HolderView) -> Self {
        Holder {
            id: &holder.id,
            task: &holder.task,
            state: holder.state,
            enqueued_at: holder.enqueued_at.into(),
        }
    }
}

/// A key in a list.
#[derive(Debug, Serialize, ToSchema)]
pub struct KeyRow<'a> {
    #[serde(flatten)]
    key: Key<'a>,
    holder: Holder<'a>,
    #[schema(value_type = String)]
    queue: &'a Name,
    #[serde(skip_serializing_if = "Option::is_none")]
    free_at: Option<Moment>,
}

impl<'a> From<&'a view::KeyRow> for KeyRow<'a> {
    fn from(row: &'a view::KeyRow) -> Self {
        KeyRow {
            key: Key::of_row(row),
            holder: Holder::from(&row.holder),
            queue: &row.queue,
            free_at: row.free_at.map(Moment),
        }
    }
}

/// A key with its ledger.
#[derive(Debug, Serialize, ToSchema)]
pub struct KeyPage<'a> {
    /// The key.
    #[serde(flatten)]
    pub row: KeyRow<'a>,
    /// Submissions it absorbed, newest first.
    pub ledger: Vec<LedgerEntry<'a>>,
    /// Where the next page of the ledger begins.
    #[schema(required)]
    pub next_cursor: Option<String>,
}

/// An absorbed submission.
#[derive(Debug, Serialize, ToSchema)]
pub struct LedgerEntry<'a> {
    n: i64,
    at: Moment,
    #[schema(value_type = words::Outcome)]
    outcome: Outcome,
    #[schema(value_type = String)]
    digest: Digest,
    #[schema(value_type = String)]
    holder: &'a JobId,
    #[schema(value_type = String)]
    task: &'a Name,
    #[schema(value_type = String)]
    queue: &'a Name,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    producer: Option<&'a Name>,
    #[schema(value_type = String)]
    policy: &'a str,
    #[schema(value_type = Vec<String>)]
    differs: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    input: Option<&'a Json>,
}

impl<'a> From<&'a view::LedgerEntry> for LedgerEntry<'a> {
    fn from(entry: &'a view::LedgerEntry) -> Self {
        LedgerEntry {
            n: entry.n,
            at: entry.at.into(),
            outcome: entry.outcome,
            digest: entry.digest,
            holder: &entry.holder,
            task: &entry.task,
            queue: &entry.queue,
            producer: entry.producer.as_ref(),
            policy: &entry.policy,
            differs: &entry.differs,
            input: entry.input.as_ref(),
        }
    }
}
