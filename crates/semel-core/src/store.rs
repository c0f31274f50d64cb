//! The contract between Semel and what it is stored in.
//!
//! Three traits, all batch-first: [`Store`] is the way of a job, [`Inspect`] looks, [`Control`] steers.
//! A request struct goes in, an outcome comes out; duplicates and lost leases are outcomes, not errors.
//! What differs between stores is data: [`Capabilities`]. Nothing else may.

mod control;
mod inspect;
mod sought;
mod work;

pub use control::*;
pub use inspect::*;
pub use sought::*;
pub use work::*;

use std::time::Duration;

use async_trait::async_trait;

use crate::error::StoreError;
use crate::ids::{Digest, JobId, Name};
use crate::submission::Submission;
use crate::time::{Millis, Timestamp};
use crate::view::{AttemptView, ErrorGroup, Job, KeyRow, LedgerEntry, Listing, Snapshot, Stats, StepView};

/// The way of a job through a store.
///
/// Every method applies each item in one atomic, durable step. A batch is not a transaction: it has
/// one outcome per item, in order, as if the items had come one after another (contract 2.11).
/// Repeating any call with the same tokens and fences changes nothing and answers alike (contract 3.5, 1.6).
#[async_trait]
pub trait Store: Inspect + Control + Send + Sync {
    /// The outermost part of every name and digest.
    fn namespace(&self) -> &Name;

    /// Admits submissions. Key, job and queue position appear together or not at all (contract 2.9);
    /// an absorbed submission is in the ledger before this returns (contract 2.12).
    async fn submit(&self, batch: Vec<Submission>) -> Result<Vec<Submitted>, StoreError>;

    /// The answer a submission would get. Writes nothing (contract 2.14).
    async fn explain(&self, submission: Submission) -> Result<Explanation, StoreError>;

    /// Leases due jobs, best first: priority, then run_at, then arrival (contract 4.1). May give none.
    async fn claim(&self, request: ClaimRequest) -> Result<Vec<Claimed>, StoreError>;

    /// Heartbeats, with progress and log lines.
    async fn extend(&self, request: ExtendRequest) -> Result<Vec<WriteOutcome>, StoreError>;

    /// Ends attempts: checks the fence, moves the state, frees or keeps the key, counts — in one step.
    async fn settle(&self, batch: Vec<Settlement>) -> Result<Vec<WriteOutcome>, StoreError>;

    /// Steps of running jobs (contract 5.1, 5.2).
    async fn steps(&self, batch: Vec<StepRequest>) -> Result<Vec<StepOutcome>, StoreError>;

    /// Guarded keys outside jobs (contract 5.3).
    async fn guard(&self, batch: Vec<GuardRequest>) -> Result<Vec<GuardOutcome>, StoreError>;

    /// What people do to jobs and keys (contract 6.2–6.5, 7.3, 5.2).
    async fn act(&self, batch: Vec<Act>) -> Result<Vec<ActOutcome>, StoreError>;

    /// Where the store's stream of changes stands; to be read *before* looking for work.
    fn mark(&self) -> Mark;

    /// Returns soon after something of interest may have changed since `since`, or after `at_most`.
    /// Correctness never depends on it: it may return early, and may miss a change made elsewhere for a moment.
    async fn changed(&self, since: Mark, interest: Interest, at_most: Duration) -> Mark;
}

/// Looking at a store. Nothing here writes, waits for writers, or creates a store.
#[async_trait]
pub trait Inspect {
    /// Jobs by id, in the order asked for.
    async fn jobs_by_id(&self, ids: &[JobId]) -> Result<Vec<Option<Job>>, StoreError>;

    /// Jobs by filter, newest first.
    async fn jobs(&self, filter: JobFilter, page: Page) -> Result<Listing<Job>, StoreError>;

    /// The deliveries of a job that have ended, oldest first.
    async fn attempts(&self, id: &JobId) -> Result<Vec<AttemptView>, StoreError>;

    /// Keys by filter, those taken last first.
    async fn keys(&self, filter: KeyFilter, page: Page) -> Result<Listing<KeyRow>, StoreError>;

    /// One key, whether held or not, as long as the job that held it last is known.
    async fn key(&self, digest: Digest) -> Result<Option<KeyRow>, StoreError>;

    /// Absorbed submissions, newest first (contract 2.12).
    async fn ledger(&self, filter: LedgerFilter, page: Page) -> Result<Listing<LedgerEntry>, StoreError>;

    /// Counters and sizes (contract 7.1).
    async fn stats(&self) -> Result<Stats, StoreError>;

    /// Snapshots of the counters over the last `window`, oldest first (contract 7.2).
    async fn history(&self, window: Millis) -> Result<Vec<Snapshot>, StoreError>;

    /// Dead letters grouped by what they died of (contract 6.4).
    async fn dead_letter_groups(&self, task: Option<Name>) -> Result<Vec<ErrorGroup>, StoreError>;

    /// Steps of a chain, or those in doubt.
    async fn list_steps(&self, filter: StepFilter) -> Result<Vec<StepView>, StoreError>;

    /// What this store can and cannot do (contract 9.1).
    fn capabilities(&self) -> Capabilities;

    /// What is atomic and what survives what: probed, not assumed (contract 9.4).
    async fn guarantees(&self) -> Result<Vec<Guarantee>, StoreError>;
}

/// Steering a store.
#[async_trait]
pub trait Control {
    /// Pauses, closes, declares unique, observes: everything, a queue or a task (contract 6.1, 2.15, 2.13).
    async fn set(&self, target: Target, change: SettingChange) -> Result<Setting, StoreError>;

    /// All settings that are not at their default.
    async fn settings(&self) -> Result<Vec<(Target, Setting)>, StoreError>;

    /// Removes a queue in one step (contract 2.16); says how many jobs were in it.
    async fn remove_queue(&self, queue: &Name) -> Result<i64, StoreError>;

    /// Writes, reads, lists and removes small versioned documents: schedules, subscribers, workers, tokens, operations.
    async fn put_document(&self, put: PutDocument) -> Result<PutOutcome, StoreError>;

    /// One document.
    async fn document(&self, kind: &Name, name: &str) -> Result<Option<Document>, StoreError>;

    /// The documents of a kind whose names begin with `prefix`, by name.
    async fn documents(&self, kind: &Name, prefix: &str, page: Page)
    -> Result<Listing<Document>, StoreError>;

    /// Removes a document if it still has that version.
    async fn delete_document(
        &self,
        kind: &Name,
        name: &str,
        version: Option<i64>,
    ) -> Result<PutOutcome, StoreError>;

    /// Appends to a feed: audit, log lines. An entry is never changed.
    async fn append(&self, feed: &str, bodies: Vec<crate::json::Json>) -> Result<(), StoreError>;

    /// Reads a feed, newest first.
    async fn feed(&self, feed: &str, page: Page) -> Result<Listing<FeedEntry>, StoreError>;

    /// Moves the baseline of the counters to now (contract 7.1).
    async fn reset_stats(&self) -> Result<Timestamp, StoreError>;

    /// Housekeeping in small steps: expires, prunes, folds, takes snapshots. Safe to run everywhere at once.
    async fn upkeep(&self, request: UpkeepRequest) -> Result<UpkeepReport, StoreError>;

    /// Checks the invariants on live data, and repairs if asked (contract 9.5).
    async fn doctor(&self, repair: bool) -> Result<Vec<Finding>, StoreError>;
}
