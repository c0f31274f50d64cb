//! How schedules are kept: as documents, with what people set and what the last tick came to.

use semel_core::error::StoreError;
use semel_core::ids::{JobId, Name, Token};
use semel_core::json::Json;
use semel_core::limits;
use semel_core::store::{Document, Expect, Page, PutDocument, PutOutcome, Store};
use semel_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::schedule::Schedule;

/// The kind of document a schedule is.
pub const KIND: &str = "schedule";

/// A schedule as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Kept {
    pub(crate) schedule: Schedule,
    /// Ticks up to this moment are past: it was made then, or its pattern changed.
    pub(crate) since: Timestamp,
    #[serde(default)]
    pub(crate) last: Option<Tick>,
    /// The tick that is being submitted; whoever finds it completes it.
    #[serde(default)]
    pub(crate) pending: Option<Pending>,
    /// Ticks that were skipped because the job before was not done.
    #[serde(default)]
    pub(crate) skipped: u64,
}

/// What a tick came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tick {
    /// When it was due.
    pub due: Timestamp,
    /// What it came to.
    pub outcome: TickOutcome,
    /// The job the next tick is judged against: its own, or for a skipped one the job that was in the way.
    pub job: Option<JobId>,
    /// Why it was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What a tick can come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TickOutcome {
    /// It has a job.
    Submitted,
    /// The job before was not done.
    Skipped,
    /// The job before was not done: it was cancelled for this one.
    Replaced,
    /// The store refused the submission.
    Refused,
}

/// A tick that is being submitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pending {
    pub(crate) due: Timestamp,
    pub(crate) token: Token,
    /// The job to cancel first.
    pub(crate) replaces: Option<JobId>,
}

impl Kept {
    /// The newest tick that needs no more thought.
    pub(crate) fn settled_until(&self) -> Timestamp {
        let last = self.last.as_ref().map_or(self.since, |tick| tick.due);
        last.max(self.since)
    }
}

/// A schedule and the version of its document.
pub(crate) struct Versioned {
    pub(crate) kept: Kept,
    pub(crate) version: i64,
}

/// All schedules, by name.
pub(crate) async fn all(store: &dyn Store) -> Result<Vec<Versioned>, StoreError> {
    let mut schedules = Vec::new();
    let mut page = Page::first(limits::PAGE);
    loop {
        let listing = store.documents(&kind(), "", page).await?;
        schedules.extend(listing.items.iter().filter_map(|document| read(document).ok()));
        match listing.next_cursor {
            Some(cursor) => page = Page::after(cursor, limits::PAGE),
            None => return Ok(schedules),
        }
    }
}

/// One schedule.
pub(crate) async fn one(store: &dyn Store, name: &str) -> Result<Option<Versioned>, StoreError> {
    let document = store.document(&kind(), name).await?;
    document.as_ref().map(read).transpose()
}

fn read(document: &Document) -> Result<Versioned, StoreError> {
    let kept = document.body.read().map_err(|error| {
        tracing::error!(schedule = document.name, %error, "a schedule cannot be read");
        StoreError::corrupt(format!("the schedule {} cannot be read: {error}", document.name))
    })?;
    Ok(Versioned {
        kept,
        version: document.version,
    })
}

/// Writes a schedule if it still is as it was read; says which version it has now.
pub(crate) async fn write(store: &dyn Store, kept: &Kept, expect: Expect) -> Result<Option<i64>, StoreError> {
    let put = PutDocument {
        kind: kind(),
        name: kept.schedule.name.as_str().to_owned(),
        body: Json::of(kept)?,
        expect,
        ttl: None,
    };
    match store.put_document(put).await? {
        PutOutcome::Done { version } => Ok(Some(version)),
        PutOutcome::Mismatch { .. } => Ok(None),
    }
}

pub(crate) fn kind() -> Name {
    Name::new(KIND).expect("a valid name")
}
