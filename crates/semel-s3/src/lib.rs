//! A store in a bucket: nothing but conditional writes, shared by any number of processes.
//!
//! A key and its jobs are one object, the cell ([`layout`] names all objects). Each change in the life of a job is one
//! conditional write of its cell, so a key never names a job that is not there, and there is nothing to repair after a
//! crash. Each verb is a file; every decision is core's.

mod act;
mod after;
mod bucket;
mod cell;
mod claim;
mod clock;
mod control;
mod desk;
mod doctor;
mod documents;
mod effects;
mod entries;
mod http;
mod inspect;
mod judge;
mod layout;
mod leases;
mod life;
mod moving;
mod open;
mod options;
mod record;
mod retire;
mod settle;
mod setup;
mod stats;
mod submit;
mod turn;
mod upkeep;
mod wake;
mod wire;

pub use bucket::RequestCounts;
pub use options::S3Options;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use object_store::ObjectStore;
use semel_core::error::StoreError;
use semel_core::ids::{Digest, JobId, Name};
use semel_core::json::Json;
use semel_core::limits;
use semel_core::store::{
    Act, ActOutcome, Capabilities, ClaimRequest, Claimed, Control, Document, Explanation, ExtendRequest,
    FeedEntry, Finding, Guarantee, GuardOutcome, GuardRequest, Inspect, Interest, JobFilter, KeyFilter,
    LedgerFilter, Mark, Page, PutDocument, PutOutcome, Setting, SettingChange, Settlement, StepFilter,
    StepOutcome, StepRequest, Store, Submitted, Target, UpkeepReport, UpkeepRequest, WriteOutcome,
};
use semel_core::submission::Submission;
use semel_core::time::{Clock, Millis, Timestamp};
use semel_core::view::{
    AttemptView, ErrorGroup, Job, KeyRow, LedgerEntry, Listing, Snapshot, Stats, StepView,
};

use crate::clock::{HostClock, Time};
use crate::desk::Desk;

/// A store in a bucket.
pub struct S3Store {
    desk: Desk,
    /// Whether others can reach the bucket, and it outlives this process.
    shared: bool,
}

impl S3Store {
    /// Opens the store at a URL; see [`S3Options::from_url`].
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        Self::open(S3Options::from_url(url)?).await
    }

    /// Opens a store; time is the server's.
    pub async fn open(options: S3Options) -> Result<Self, StoreError> {
        let (store, time) = open::client(&options)?;
        let desk = open::open(store, time, &options).await?;
        Ok(S3Store { desk, shared: true })
    }

    /// Opens a store on another clock; for tests.
    pub async fn open_with_clock(options: S3Options, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        let (store, _) = open::client(&options)?;
        let desk = open::open(store, Arc::new(Time::Given(clock)), &options).await?;
        Ok(S3Store { desk, shared: true })
    }

    /// Opens a store on any object store of this process, such as one in memory; for tests. Without a clock of its
    /// own it is on the host's.
    pub async fn on(
        store: Arc<dyn ObjectStore>,
        options: S3Options,
        clock: Option<Arc<dyn Clock>>,
    ) -> Result<Self, StoreError> {
        let time = Time::Given(clock.unwrap_or_else(|| Arc::new(HostClock)));
        let desk = open::open(store, Arc::new(time), &options).await?;
        Ok(S3Store { desk, shared: false })
    }

    /// The bucket without a store in it, by the client that a store uses: for measurements beside one, and for
    /// removing what was made.
    pub fn bucket(options: &S3Options) -> Result<Arc<dyn ObjectStore>, StoreError> {
        Ok(open::client(options)?.0)
    }

    /// How many requests this handle has made.
    pub fn requests(&self) -> RequestCounts {
        self.desk.bucket.requests()
    }
}

impl std::fmt::Debug for S3Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Payloads and secrets do not belong in logs.
        f.debug_struct("S3Store")
            .field("namespace", &self.desk.namespace)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for S3Store {
    fn namespace(&self) -> &Name {
        &self.desk.namespace
    }

    async fn submit(&self, batch: Vec<Submission>) -> Result<Vec<Submitted>, StoreError> {
        self.desk.submit(batch).await
    }

    async fn explain(&self, submission: Submission) -> Result<Explanation, StoreError> {
        self.desk.explain(submission).await
    }

    async fn claim(&self, request: ClaimRequest) -> Result<Vec<Claimed>, StoreError> {
        self.desk.claim(request).await
    }

    async fn extend(&self, request: ExtendRequest) -> Result<Vec<WriteOutcome>, StoreError> {
        self.desk.extend(request).await
    }

    async fn settle(&self, batch: Vec<Settlement>) -> Result<Vec<WriteOutcome>, StoreError> {
        self.desk.settle(batch).await
    }

    async fn steps(&self, batch: Vec<StepRequest>) -> Result<Vec<StepOutcome>, StoreError> {
        self.desk.steps(batch).await
    }

    async fn guard(&self, batch: Vec<GuardRequest>) -> Result<Vec<GuardOutcome>, StoreError> {
        self.desk.guard(batch).await
    }

    async fn act(&self, batch: Vec<Act>) -> Result<Vec<ActOutcome>, StoreError> {
        self.desk.act(batch).await
    }

    fn mark(&self) -> Mark {
        self.desk.wake.mark()
    }

    async fn changed(&self, since: Mark, interest: Interest, at_most: Duration) -> Mark {
        self.desk.wake.wait(since, &interest, at_most).await
    }
}

#[async_trait]
impl Inspect for S3Store {
    async fn jobs_by_id(&self, ids: &[JobId]) -> Result<Vec<Option<Job>>, StoreError> {
        self.desk.jobs_by_id(ids).await
    }

    async fn jobs(&self, filter: JobFilter, page: Page) -> Result<Listing<Job>, StoreError> {
        self.desk.jobs(filter, page).await
    }

    async fn attempts(&self, id: &JobId) -> Result<Vec<AttemptView>, StoreError> {
        self.desk.attempts(id).await
    }

    async fn keys(&self, filter: KeyFilter, page: Page) -> Result<Listing<KeyRow>, StoreError> {
        self.desk.keys(filter, page).await
    }

    async fn key(&self, digest: Digest) -> Result<Option<KeyRow>, StoreError> {
        self.desk.key(digest).await
    }

    async fn ledger(&self, filter: LedgerFilter, page: Page) -> Result<Listing<LedgerEntry>, StoreError> {
        self.desk.ledger(filter, page).await
    }

    async fn stats(&self) -> Result<Stats, StoreError> {
        self.desk.stats().await
    }

    async fn history(&self, window: Millis) -> Result<Vec<Snapshot>, StoreError> {
        self.desk.history(window).await
    }

    async fn dead_letter_groups(&self, task: Option<Name>) -> Result<Vec<ErrorGroup>, StoreError> {
        self.desk.dead_letter_groups(task).await
    }

    async fn list_steps(&self, filter: StepFilter) -> Result<Vec<StepView>, StoreError> {
        self.desk.list_steps(filter).await
    }

    fn capabilities(&self) -> Capabilities {
        inspect::capabilities(self.shared, self.desk.time.resolution())
    }

    async fn guarantees(&self) -> Result<Vec<Guarantee>, StoreError> {
        Ok(open::guarantees(&self.desk, self.shared))
    }
}

#[async_trait]
impl Control for S3Store {
    async fn set(&self, target: Target, change: SettingChange) -> Result<Setting, StoreError> {
        self.desk.set(target, change).await
    }

    async fn settings(&self) -> Result<Vec<(Target, Setting)>, StoreError> {
        let setup = self.desk.setup().await?;
        Ok(setup.settings.clone().into_iter().collect())
    }

    async fn remove_queue(&self, queue: &Name) -> Result<i64, StoreError> {
        self.desk.remove_queue(queue).await
    }

    async fn put_document(&self, put: PutDocument) -> Result<PutOutcome, StoreError> {
        self.desk.put_document(put).await
    }

    async fn document(&self, kind: &Name, name: &str) -> Result<Option<Document>, StoreError> {
        self.desk.document(kind, name).await
    }

    async fn documents(
        &self,
        kind: &Name,
        prefix: &str,
        page: Page,
    ) -> Result<Listing<Document>, StoreError> {
        self.desk.documents(kind, prefix, page).await
    }

    async fn delete_document(
        &self,
        kind: &Name,
        name: &str,
        version: Option<i64>,
    ) -> Result<PutOutcome, StoreError> {
        self.desk.delete_document(kind, name, version).await
    }

    async fn append(&self, feed: &str, bodies: Vec<Json>) -> Result<(), StoreError> {
        documents::check_name("feed", feed)?;
        limits::check_batch("entries", bodies.len())?;
        self.desk.append(feed, bodies).await
    }

    async fn feed(&self, feed: &str, page: Page) -> Result<Listing<FeedEntry>, StoreError> {
        self.desk.feed(feed, page).await
    }

    async fn reset_stats(&self) -> Result<Timestamp, StoreError> {
        self.desk.reset_stats().await
    }

    async fn upkeep(&self, request: UpkeepRequest) -> Result<UpkeepReport, StoreError> {
        self.desk.upkeep(request).await
    }

    async fn doctor(&self, repair: bool) -> Result<Vec<Finding>, StoreError> {
        self.desk.doctor(repair).await
    }
}
