//! Keys, their holders, and the ledger.

use semel_core::dedup::{HoldKind, KeyBy};
use semel_core::ids::{Digest, JobId, Name};
use semel_core::job::{Outcome, State};
use semel_core::json::Json;
use semel_core::view;
use serde::Serialize;

use crate::wire::Moment;

/// A key.
#[derive(Debug, Serialize)]
pub struct Key<'a> {
    digest: Digest,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    scope: &'a str,
    by: KeyBy,
    hold: HoldKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cool_down_ms: Option<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
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
#[derive(Debug, Serialize)]
pub struct Holder<'a> {
    id: &'a JobId,
    task: &'a Name,
    state: State,
    enqueued_at: Moment,
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
#[derive(Debug, Serialize)]
pub struct KeyRow<'a> {
    #[serde(flatten)]
    key: Key<'a>,
    holder: Holder<'a>,
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
#[derive(Debug, Serialize)]
pub struct KeyPage<'a> {
    /// The key.
    #[serde(flatten)]
    pub row: KeyRow<'a>,
    /// Submissions it absorbed, newest first.
    pub ledger: Vec<LedgerEntry<'a>>,
    /// Where the next page of the ledger begins.
    pub next_cursor: Option<String>,
}

/// An absorbed submission.
#[derive(Debug, Serialize)]
pub struct LedgerEntry<'a> {
    n: i64,
    at: Moment,
    outcome: Outcome,
    digest: Digest,
    holder: &'a JobId,
    task: &'a Name,
    queue: &'a Name,
    #[serde(skip_serializing_if = "Option::is_none")]
    producer: Option<&'a Name>,
    policy: &'a str,
    differs: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
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
