//! The object that is the truth about a key, a job without one, or anything else that is written under a condition.
//!
//! A cell carries everything one decision needs, so each change in the life of a job is one conditional write of one
//! object, and there is no moment at which a key names no job. `version` and `nonce` tell a writer whose reply was
//! lost whether it wrote: `recent` keeps the nonces of the last writers.

use std::collections::BTreeMap;

use semel_core::counters::{Counter, Counts};
use semel_core::dedup::Mode;
use semel_core::error::StoreError;
use semel_core::guard::GuardRecord;
use semel_core::ids::{Digest, JobId, Name, Token};
use semel_core::job::{Outcome, State};
use semel_core::json::Json;
use semel_core::step::{StepRecord, StepState};
use semel_core::time::{Millis, Timestamp};
use semel_core::view::{GuardStats, LedgerEntry};
use serde::{Deserialize, Serialize};

use crate::record::{Arrival, Lane, Record};
use crate::wire::{maybe_trusted, trusted};

/// Writers that are remembered.
const RECENT: usize = 16;

/// An object of the bucket that changes by compare-and-swap.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Cell {
    /// How often it was written.
    pub version: u64,
    /// Of the write that made it what it is.
    pub nonce: u64,
    /// When it was written, by the store's time.
    pub at: Timestamp,
    /// Of the writes before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub recent: Vec<u64>,
    /// What a person or another program looks for first; never read back.
    #[serde(flatten, deserialize_with = "ignored")]
    pub about: About,
    /// Jobs, in the order they came.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<Record>,
    /// In the cell of a key: copies of its jobs in objects of tokens that do not count.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dead: Vec<Dead>,
    /// In the object of a token: its job came from the cell of its key, by this move.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copied_by: Option<u64>,
    /// Steps of these jobs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
    /// Submissions that were absorbed, in the order they came.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub entries: Vec<Entry>,
    /// Absorbed submissions of this key whose entries are no longer kept.
    #[serde(skip_serializing_if = "is_zero")]
    pub absorbed: i64,
    /// Entries elsewhere that are in `absorbed` already, and are about to go.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub folding: Vec<Arrival>,
    /// The highest generation this key was taken with.
    #[serde(skip_serializing_if = "is_zero")]
    pub generation: i64,
    /// The highest fence a job in here was leased with: a token that comes back gets a higher one.
    #[serde(skip_serializing_if = "is_zero")]
    pub fence: i64,
    /// What was counted by writes of this object.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub counts: Vec<Tally>,
    /// Where the job of this token is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub points_to: Option<Pointer>,
    /// A guarded key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guard: Option<Guard>,
    /// How often the guard was asked, by answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guarded: Option<Guarded>,
    /// What a claim went for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim: Option<Claim>,
    /// A document, and the last version its place had.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shelf: Option<Shelf>,
    /// Pauses, closed intakes, removed queues.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub setup: Option<SetupPart>,
    /// Counters of what is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sums: Option<Sums>,
    /// How many handles there were, and the format they agreed on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handles: Option<Handles>,
    /// The newest entries of a feed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub feed: Option<FeedPart>,
    /// Counters at a moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<BTreeMap<Counter, i64>>,
    /// Whose turn it is to keep house.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<Turn>,
    /// Nothing is in it any more: about to be deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closed: Option<Timestamp>,
    /// Jobs that this change removes, whose lines go with them.
    #[serde(skip)]
    pub unlogged: Vec<JobId>,
}

fn is_zero(n: &i64) -> bool {
    *n == 0
}

fn ignored<'de, D: serde::Deserializer<'de>>(from: D) -> Result<About, D::Error> {
    serde::de::IgnoredAny::deserialize(from).map(|_| About::default())
}

/// The newest job, said in the plainest words.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct About {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_hash: Option<Digest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<JobId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_type: Option<Name>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_hash: Option<Digest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<State>,
}

/// Where a job is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pointer {
    pub cell: String,
    pub at: Timestamp,
}

/// Copies of jobs that do not count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dead {
    /// The move that made them.
    pub by: u64,
    pub jobs: Vec<JobId>,
    pub at: Timestamp,
    /// The move may still be going on: its copies are to be left alone.
    #[serde(default)]
    pub moving: bool,
}

/// What was counted in one lane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    #[serde(flatten)]
    pub lane: Lane,
    pub counts: BTreeMap<Counter, i64>,
}

/// An absorbed submission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub token: Token,
    pub arrival: Arrival,
    pub at: Timestamp,
    pub outcome: Outcome,
    pub digest: Digest,
    pub holder: JobId,
    pub task: Name,
    pub queue: Name,
    pub producer: Option<Name>,
    pub policy: String,
    pub differs: Vec<String>,
    #[serde(with = "maybe_trusted", default)]
    pub input: Option<Json>,
    /// Whether the token leads here. Not where it names a job of its own: that one answers for it.
    pub by_token: bool,
}

impl Entry {
    pub fn view(&self) -> LedgerEntry {
        LedgerEntry {
            n: self.arrival.number(),
            at: self.at,
            outcome: self.outcome,
            digest: self.digest,
            holder: self.holder.clone(),
            task: self.task.clone(),
            queue: self.queue.clone(),
            producer: self.producer.clone(),
            policy: self.policy.clone(),
            differs: self.differs.clone(),
            input: self.input.clone(),
        }
    }
}

/// A step, as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    pub origin: JobId,
    pub name: Name,
    pub state: StepState,
    pub job: JobId,
    pub fence: i64,
    pub token: Token,
    pub generation: u32,
    pub begun_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    #[serde(with = "maybe_trusted", default)]
    pub output: Option<Json>,
}

impl From<StepRecord> for Step {
    fn from(step: StepRecord) -> Self {
        Step {
            origin: step.origin,
            name: step.name,
            state: step.state,
            job: step.job,
            fence: step.fence,
            token: step.token,
            generation: step.generation,
            begun_at: step.begun_at,
            ended_at: step.ended_at,
            output: step.output,
        }
    }
}

impl From<&Step> for StepRecord {
    fn from(step: &Step) -> Self {
        let step = step.clone();
        StepRecord {
            origin: step.origin,
            name: step.name,
            state: step.state,
            job: step.job,
            fence: step.fence,
            token: step.token,
            generation: step.generation,
            begun_at: step.begun_at,
            ended_at: step.ended_at,
            output: step.output,
        }
    }
}

/// A guarded key, as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guard {
    pub digest: Digest,
    pub token: Token,
    pub ttl: Millis,
    pub expires_at: Timestamp,
    #[serde(with = "maybe_trusted", default)]
    pub output: Option<Json>,
}

impl From<GuardRecord> for Guard {
    fn from(guard: GuardRecord) -> Self {
        Guard {
            digest: guard.digest,
            token: guard.token,
            ttl: guard.ttl,
            expires_at: guard.expires_at,
            output: guard.output,
        }
    }
}

impl From<&Guard> for GuardRecord {
    fn from(guard: &Guard) -> Self {
        GuardRecord {
            digest: guard.digest,
            token: guard.token,
            ttl: guard.ttl,
            expires_at: guard.expires_at,
            output: guard.output.clone(),
        }
    }
}

/// How often guards were asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Guarded {
    pub fresh: i64,
    pub in_progress: i64,
    pub done: i64,
}

impl Guarded {
    pub fn add_to(&self, stats: &mut GuardStats) {
        stats.fresh += self.fresh;
        stats.in_progress += self.in_progress;
        stats.done += self.done;
    }
}

/// What a claim went for. Those of them that run under its fence are what it was given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    pub jobs: Vec<(String, JobId)>,
    /// It may be sent again until then.
    pub forget_at: Timestamp,
}

/// The place of a document. Its version outlives the document, so that it only grows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shelf {
    pub kind: Name,
    pub name: String,
    pub version: i64,
    pub document: Option<Paper>,
}

/// A document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paper {
    #[serde(with = "trusted")]
    pub body: Json,
    pub updated_at: Timestamp,
    pub expires_at: Option<Timestamp>,
}

/// Settings, as they are written.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SetupPart {
    pub targets: Vec<TargetPart>,
    /// How often a queue was removed.
    pub removed: BTreeMap<Name, u64>,
}

/// The setting of one target, as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetPart {
    #[serde(default)]
    pub queue: Option<Name>,
    #[serde(default)]
    pub task: Option<Name>,
    pub paused: Option<PausePart>,
    pub closed: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_until: Option<Timestamp>,
    pub unique: bool,
    pub mode: Mode,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_until: Option<Timestamp>,
}

/// A pause, as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PausePart {
    pub since: Timestamp,
    pub until: Option<Timestamp>,
    pub reason: Option<String>,
}

/// Counters of what is gone, the baseline of a reset.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Sums {
    pub counts: Vec<Tally>,
    pub guarded: Guarded,
    /// Objects that are in these sums already, and are about to go.
    pub folding: Vec<String>,
    pub baseline: Vec<Tally>,
    pub since: Option<Timestamp>,
}

/// How many handles there were.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Handles {
    pub format: u32,
    pub opened: u32,
}

/// Whose turn it is to keep house.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Turn {
    /// The handle that has it, or had it last.
    pub by: u32,
    /// It may be at it until then.
    pub until: Timestamp,
    /// Before that there is nothing to do.
    pub next_at: Timestamp,
    /// Rounds in a row that found nothing to do.
    pub idle: u32,
}

/// The newest entries of a feed, and where the older ones are.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FeedPart {
    pub name: String,
    /// The number of the newest entry.
    pub last: i64,
    /// Entries up to this one are gone.
    #[serde(default)]
    pub floor: i64,
    pub lines: Vec<Line>,
    /// Full pages, oldest first.
    pub pages: Vec<FeedPage>,
}

/// A full page of a feed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedPage {
    pub first: i64,
    pub lines: usize,
    pub object: String,
}

/// An entry of a feed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    pub n: i64,
    pub at: Timestamp,
    #[serde(with = "trusted")]
    pub body: Json,
}

impl Cell {
    /// Reads a cell.
    pub fn decode(name: &str, bytes: &[u8]) -> Result<Self, StoreError> {
        serde_json::from_slice(bytes)
            .map_err(|error| StoreError::corrupt(format!("{name} cannot be read: {error}")))
    }

    /// Writes a cell.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("plain data can be written as JSON")
    }

    /// The next version of this cell, by a writer.
    pub fn sign(&mut self, nonce: u64) {
        self.version += 1;
        let before = std::mem::replace(&mut self.nonce, nonce);
        self.recent.insert(0, before);
        self.recent.truncate(RECENT);
    }

    /// Whether a writer's write is in it.
    pub fn was_written_by(&self, nonce: u64) -> bool {
        self.nonce == nonce || self.recent.contains(&nonce)
    }

    /// Says the newest job in the plainest words.
    pub fn describe(&mut self, name: &str, now: Timestamp) {
        let newest = self.jobs.iter().max_by_key(|job| {
            let generation = job.life.holding.as_ref().map(|holding| holding.generation);
            (generation, job.arrival)
        });
        self.about = newest.map(|job| About::of(job, name, now)).unwrap_or_default();
    }

    pub fn find(&self, id: &JobId) -> Option<&Record> {
        self.jobs.iter().find(|job| job.spec.id == *id)
    }

    /// Whether a copy of a job in the object of a token is the job; asked of the cell of its key.
    pub fn lets_count(&self, id: &JobId, copy: &Cell) -> bool {
        let is_dead = |dead: &Dead| Some(dead.by) == copy.copied_by && dead.jobs.contains(id);
        copy.copied_by.is_some() && self.find(id).is_none() && !self.dead.iter().any(is_dead)
    }

    /// Adds to a counter.
    pub fn count(&mut self, lane: &Lane, counter: Counter) {
        let at = self.counts.iter().position(|tally| tally.lane == *lane);
        let at = at.unwrap_or_else(|| {
            self.counts.push(Tally {
                lane: lane.clone(),
                counts: BTreeMap::new(),
            });
            self.counts.len() - 1
        });
        *self.counts[at].counts.entry(counter).or_default() += 1;
    }
}

impl Tally {
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        self.counts
            .iter()
            .for_each(|(counter, n)| counts.set(*counter, *n));
        counts
    }
}

impl About {
    fn of(job: &Record, name: &str, now: Timestamp) -> Self {
        let key = job.spec.key.as_ref();
        About {
            key: key.and_then(|key| key.text.as_deref()).map(str::to_owned),
            key_hash: key.map(|key| key.digest),
            scope: key.map(|key| key.scope.to_string()),
            task_id: Some(job.spec.id.clone()),
            task_key: Some(name.to_owned()),
            created_at: Some(job.spec.enqueued_at),
            expires_at: job.life.holding.as_ref().and_then(|holding| holding.expires_at),
            task_type: Some(job.spec.task.clone()),
            input_hash: key.map(|key| key.input),
            status: Some(job.state(now)),
        }
    }
}
