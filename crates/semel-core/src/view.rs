//! What front ends show. Web, terminal and command line render these same structs; none of them holds a query.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::counters::Counts;
use crate::dedup::{Hold, HoldKind, KeyBy};
use crate::ids::{Digest, JobId, Name};
use crate::job::{Life, Outcome, State, Would};
use crate::json::Json;
use crate::lifecycle::AttemptEnd;
use crate::time::{Millis, Timestamp};

/// A job as anyone sees it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Job {
    /// Its identity.
    pub id: JobId,
    /// The first job of its retry and replay chain.
    pub origin: JobId,
    /// The kind of work.
    pub task: Name,
    /// Where it waits.
    pub queue: Name,
    /// Where it stands.
    pub state: State,
    /// What the handler gets.
    pub input: Json,
    /// What the handler gave.
    pub output: Option<Json>,
    /// The last thing that went wrong.
    pub error: Option<JobError>,
    /// Attempts begun, less those that did not count.
    pub attempt: u32,
    /// Attempts that may end in an error.
    pub max_attempts: u32,
    /// Leases that expired.
    pub deliveries: u32,
    /// Leases that may expire.
    pub max_deliveries: u32,
    /// −100 to 100, larger first.
    pub priority: i8,
    /// When it was admitted.
    pub enqueued_at: Timestamp,
    /// Not before this moment.
    pub run_at: Timestamp,
    /// When it was first leased.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// How long one attempt may take.
    pub timeout: Option<Millis>,
    /// From 0 to 1, as the worker says.
    pub progress: Option<f64>,
    /// Its key, if it has one.
    pub key: Option<KeyView>,
    /// Who runs it, or ran it last.
    pub worker: Option<Name>,
    /// When its lease expires.
    pub lease_until: Option<Timestamp>,
    /// The newest fence.
    pub fence: i64,
    /// The dead letter it replays.
    pub replayed_from: Option<JobId>,
    /// The job that replays it.
    pub replayed_as: Option<JobId>,
    /// For a deferred job: the job it follows.
    pub blocked_by: Option<JobId>,
    /// What an observing submission would have got.
    pub would: Option<Would>,
    /// The job of the same hybrid fields it differs from.
    pub collides_with: Option<JobId>,
    /// Who submitted it.
    pub producer: Option<Name>,
    /// Small texts that travel with it.
    pub headers: BTreeMap<String, String>,
    /// A JSON object for people and tools.
    pub meta: Option<Json>,
    /// Only the stub is left: input, headers and metadata are gone (contract 2.4).
    pub stub: bool,
}

/// The last thing that went wrong with a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobError {
    /// What.
    pub message: String,
    /// When.
    pub at: Timestamp,
    /// In which attempt.
    pub attempt: u32,
}

/// A reference to the job that holds a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HolderView {
    /// Its identity.
    pub id: JobId,
    /// Its task.
    pub task: Name,
    /// Where it stands.
    pub state: State,
    /// When it was admitted.
    pub enqueued_at: Timestamp,
}

/// A key as anyone sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KeyView {
    /// The identity.
    pub digest: Digest,
    /// The text a person recognises it by.
    pub text: Option<String>,
    /// Where it must be unique: `task`, `queue`, `global`, `custom:<name>`.
    pub scope: String,
    /// What it was made from.
    pub by: KeyBy,
    /// How long it is kept.
    pub hold: Hold,
    /// Whether it is held right now.
    pub held: bool,
    /// When it was taken.
    pub taken_at: Timestamp,
    /// When its ttl passes.
    pub expires_at: Option<Timestamp>,
    /// Raised each time the key changes owner.
    pub generation: i64,
    /// Taken by a submission that only watches.
    pub observed: bool,
}

/// A row in the list of keys, or the head of a key's page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KeyRow {
    /// The key.
    pub key: KeyView,
    /// The job that holds it, or held it last.
    pub holder: HolderView,
    /// The queue of that job.
    pub queue: Name,
    /// Submissions absorbed by this key, ever.
    pub absorbed: i64,
    /// When it will be free if nothing else happens; `None`: when the job ends, or never.
    pub free_at: Option<Timestamp>,
}

/// One absorbed submission (contract 2.12).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LedgerEntry {
    /// Its place in the ledger.
    pub n: i64,
    /// When.
    pub at: Timestamp,
    /// What became of it.
    pub outcome: Outcome,
    /// Which key.
    pub digest: Digest,
    /// The job that blocked it, or that took it in.
    pub holder: JobId,
    /// The task that was asked for.
    pub task: Name,
    /// The queue that was asked for.
    pub queue: Name,
    /// Who submitted it.
    pub producer: Option<Name>,
    /// The answer it asked for: `use_existing`, `reject`, …
    pub policy: String,
    /// JSON pointers at which its input differed from the holder's.
    pub differs: Vec<String>,
    /// Its input, where it differed and is not too large: it can be submitted again.
    pub input: Option<Json>,
}

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Listing<T> {
    /// The rows.
    pub items: Vec<T>,
    /// Where the next page begins; `None` at the end. A page may be short, even empty, and go on.
    pub next_cursor: Option<String>,
}

/// An ended delivery with who ran it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AttemptView {
    /// The delivery.
    #[serde(flatten)]
    pub end: AttemptEnd,
    /// Who ran it.
    pub worker: Option<Name>,
}

/// Counters and sizes of a store.
#[derive(Clone, Debug, PartialEq)]
pub struct Stats {
    /// When this was true.
    pub as_of: Timestamp,
    /// Since when the counters count.
    pub since: Option<Timestamp>,
    /// Totals since the last reset.
    pub totals: Counts,
    /// Totals ever.
    pub raw: Counts,
    /// Jobs by state.
    pub jobs: BTreeMap<State, i64>,
    /// Keys held now.
    pub active_keys: i64,
    /// The same by hold; empty where a store does not count them apart.
    pub keys_by_hold: BTreeMap<HoldKind, i64>,
    /// Jobs kept for a key that has been let go meanwhile: upkeep has not come to them yet.
    pub expired_keys: i64,
    /// Bytes the store takes.
    pub storage_bytes: i64,
    /// Bytes it can take, where that is known: memory it was given, or its file and what is free beside it.
    pub storage_limit: Option<i64>,
    /// Steps whose effect may have happened.
    pub steps_in_doubt: i64,
    /// Guarded keys: reserved, met while in progress, met when done.
    pub guard: GuardStats,
    /// Per queue and task.
    pub lanes: Vec<LaneStats>,
}

impl Stats {
    /// Counts the key of a job, if it has one; a `stub` is kept for nothing else.
    pub fn count_key(&mut self, life: &Life, stub: bool, now: Timestamp) {
        match &life.holding {
            Some(holding) if holding.is_held(life, now) => {
                self.active_keys += 1;
                *self.keys_by_hold.entry(holding.hold.kind).or_default() += 1;
            }
            _ => self.expired_keys += i64::from(stub),
        }
    }
}

/// How often guards were asked, by answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
pub struct GuardStats {
    /// Reservations given.
    pub fresh: i64,
    /// Callers told that someone is at it.
    pub in_progress: i64,
    /// Callers given the stored answer.
    pub done: i64,
}

/// The numbers of one task in one queue.
#[derive(Clone, Debug, PartialEq)]
pub struct LaneStats {
    /// The queue.
    pub queue: Name,
    /// The task.
    pub task: Name,
    /// Counters since the last reset.
    pub counts: Counts,
    /// Jobs by state.
    pub jobs: BTreeMap<State, i64>,
    /// Since when the oldest job that is due has been waiting.
    pub oldest_waiting: Option<Timestamp>,
    /// Whether work is being held back.
    pub paused: bool,
}

/// Counters at one moment of the past.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// When.
    pub at: Timestamp,
    /// Raw counters at that moment.
    pub counts: Counts,
}

/// Dead letters that died of the same thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ErrorGroup {
    /// Their task.
    pub task: Name,
    /// The first line of the error, with digits made equal.
    pub error: String,
    /// How many.
    pub jobs: i64,
    /// The newest of them.
    pub newest: JobId,
    /// When it died.
    pub newest_at: Timestamp,
}

/// A step as operators see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StepView {
    /// The chain it belongs to.
    pub origin: JobId,
    /// Its name.
    pub name: Name,
    /// Where it stands.
    pub state: crate::step::StepState,
    /// Its effect may have happened and nobody is at it.
    pub in_doubt: bool,
    /// The job that began it last.
    pub job: JobId,
    /// When it was begun.
    pub begun_at: Timestamp,
    /// When it was confirmed or refused.
    pub ended_at: Option<Timestamp>,
    /// What it gave.
    pub output: Option<Json>,
    /// The key handed downstream.
    pub key: Digest,
}

/// The first line of an error with every run of digits as `#`, so that equal causes group together.
pub fn error_group(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    let mut group = String::with_capacity(line.len().min(200));
    for character in line.chars().take(200) {
        match character.is_ascii_digit() {
            true if group.ends_with('#') => {}
            true => group.push('#'),
            false => group.push(character),
        }
    }
    group
}
