//! A store in Redis: one server, Sentinel or Cluster, shared by any number of processes.
//!
//! Reading, deciding, writing: a step reads the fields its decision needs, asks core, and hands what it read and what
//! it wants to write to one script, which writes only if nothing of it has changed ([`tx`]). All keys of a shard share
//! a hash slot ([`keys`]), so a step is atomic on a cluster too. Each verb is a file; every decision is core's.

mod act;
mod admit;
mod claim;
mod clock;
mod codec;
mod config;
mod doctor;
mod documents;
mod effects;
mod head;
mod inspect;
mod jobs;
mod keys;
mod link;
mod listen;
mod open;
mod options;
mod owners;
mod records;
mod scripts;
mod settings;
mod settle;
mod shard;
mod stats;
mod submit;
mod tx;
mod upkeep;
mod wake;
mod writer;

pub use options::{Place, RedisOptions};

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use semel_core::error::{Invalid, StoreError};
use semel_core::ids::{Digest, JobId, Name};
use semel_core::json::Json;
use semel_core::limits;
use semel_core::store::*;
use semel_core::submission::{Prepared, Submission};
use semel_core::time::{Clock, Millis, Timestamp};
use semel_core::view::{
    AttemptView, ErrorGroup, Job, KeyRow, LedgerEntry, Listing, Snapshot, Stats, StepView,
};

use crate::clock::Time;
use crate::jobs::RESCUE;
use crate::link::Link;
use crate::listen::Listener;
use crate::shard::Shard;
use crate::tx::Tx;
use crate::wake::Wake;
use crate::writer::{Call, Reply, Writer};

/// A store in Redis.
pub struct RedisStore {
    // Fields are dropped in this order: nobody writes or listens once the rest goes.
    writer: Writer,
    listener: Listener,
    shard: Arc<Shard>,
    link: Arc<Link>,
    wake: Arc<Wake>,
    time: Arc<Time>,
    options: RedisOptions,
}

impl RedisStore {
    /// Opens the store at a URL; see [`RedisOptions::from_url`]. Must be called within a Tokio runtime, which keeps
    /// the connection alive.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        Self::open(RedisOptions::from_url(url)?).await
    }

    /// Opens a store with the server's clock.
    pub async fn open(options: RedisOptions) -> Result<Self, StoreError> {
        Self::start(options, None).await
    }

    /// Opens a store with another clock; for tests.
    pub async fn open_with_clock(options: RedisOptions, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        Self::start(options, Some(clock)).await
    }

    async fn start(options: RedisOptions, clock: Option<Arc<dyn Clock>>) -> Result<Self, StoreError> {
        let link = Arc::new(Link::new(&options)?);
        for server in open::probe(&link).await? {
            open::check(&server, &options)?;
        }
        open::check_layout(&link, &options).await?;
        let (time, wake) = (Arc::new(Time::new(clock)), Arc::new(Wake::default()));
        let place = (options.shards, 0);
        let shard = Arc::new(Shard::new(
            &options.namespace,
            place,
            link.clone(),
            time.clone(),
            wake.clone(),
        ));
        // The first look teaches how far the server's clock is from the host's.
        Tx::begin(&shard, Vec::new(), 0, 0).await?;
        let channels = vec![shard.keys.channel()];
        Ok(RedisStore {
            writer: Writer::start(shard.clone()),
            listener: Listener::new(link.clone(), wake.clone(), channels),
            shard,
            link,
            wake,
            time,
            options,
        })
    }

    fn prepare(&self, submission: Submission) -> submit::Item {
        Prepared::new(&self.options.namespace, submission, self.time.about_now())
    }

    async fn look(&self) -> Result<Tx<'_>, StoreError> {
        Tx::begin(&self.shard, Vec::new(), 0, 0).await
    }

    async fn next_work(&self, queues: &[Name], tasks: &[Name]) -> Result<Option<Duration>, StoreError> {
        let tx = self.look().await?;
        tx.next_work(queues, tasks).await
    }
}

fn strange() -> StoreError {
    StoreError::corrupt("the writer answers something else")
}

#[async_trait]
impl Store for RedisStore {
    fn namespace(&self) -> &Name {
        &self.options.namespace
    }

    async fn submit(&self, batch: Vec<Submission>) -> Result<Vec<Submitted>, StoreError> {
        limits::check_batch("submissions", batch.len())?;
        let batch = batch
            .into_iter()
            .map(|submission| self.prepare(submission))
            .collect();
        match self.writer.ask("submitting", Call::Submit(batch)).await? {
            Reply::Submitted(answers) => Ok(answers),
            _ => Err(strange()),
        }
    }

    async fn explain(&self, submission: Submission) -> Result<Explanation, StoreError> {
        let item = self.prepare(submission);
        let mut tx = self.look().await?;
        // As the next write will find it; nothing of it is ever written.
        tx.rescue(RESCUE).await?;
        tx.explain(&item).await
    }

    async fn claim(&self, request: ClaimRequest) -> Result<Vec<Claimed>, StoreError> {
        limits::check_lease(request.lease)?;
        if !(1..=limits::BATCH).contains(&request.max) {
            let allowed = format!("1 to {}", limits::BATCH);
            return Err(Invalid::new("max", allowed).found(request.max.to_string()).into());
        }
        match self.writer.ask("claiming", Call::Claim(request)).await? {
            Reply::Claimed(claims) => Ok(claims),
            _ => Err(strange()),
        }
    }

    async fn extend(&self, request: ExtendRequest) -> Result<Vec<WriteOutcome>, StoreError> {
        limits::check_lease(request.lease)?;
        limits::check_batch("heartbeats", request.leases.len())?;
        match self.writer.ask("extending leases", Call::Extend(request)).await? {
            Reply::Written(outcomes) => Ok(outcomes),
            _ => Err(strange()),
        }
    }

    async fn settle(&self, batch: Vec<Settlement>) -> Result<Vec<WriteOutcome>, StoreError> {
        limits::check_batch("settlements", batch.len())?;
        match self.writer.ask("settling", Call::Settle(batch)).await? {
            Reply::Written(outcomes) => Ok(outcomes),
            _ => Err(strange()),
        }
    }

    async fn steps(&self, batch: Vec<StepRequest>) -> Result<Vec<StepOutcome>, StoreError> {
        limits::check_batch("steps", batch.len())?;
        match self.writer.ask("recording steps", Call::Steps(batch)).await? {
            Reply::Steps(outcomes) => Ok(outcomes),
            _ => Err(strange()),
        }
    }

    async fn guard(&self, batch: Vec<GuardRequest>) -> Result<Vec<GuardOutcome>, StoreError> {
        limits::check_batch("guarded keys", batch.len())?;
        match self.writer.ask("guarding", Call::Guard(batch)).await? {
            Reply::Guards(outcomes) => Ok(outcomes),
            _ => Err(strange()),
        }
    }

    async fn act(&self, batch: Vec<Act>) -> Result<Vec<ActOutcome>, StoreError> {
        limits::check_batch("acts", batch.len())?;
        match self.writer.ask("acting on jobs", Call::Act(batch)).await? {
            Reply::Acted(outcomes) => Ok(outcomes),
            _ => Err(strange()),
        }
    }

    fn mark(&self) -> Mark {
        self.wake.mark()
    }

    async fn changed(&self, since: Mark, interest: Interest, at_most: Duration) -> Mark {
        self.listener.ensure().await;
        let mut at_most = at_most;
        if let Interest::Work { queues, tasks } = &interest
            && let Ok(Some(due)) = self.next_work(queues, tasks).await
        {
            at_most = at_most.min(due);
        }
        self.wake.wait(since, &interest, at_most).await
    }
}

#[async_trait]
impl Inspect for RedisStore {
    async fn jobs_by_id(&self, ids: &[JobId]) -> Result<Vec<Option<Job>>, StoreError> {
        self.look().await?.jobs_by_id(ids).await
    }

    async fn jobs(&self, filter: JobFilter, page: Page) -> Result<Listing<Job>, StoreError> {
        self.look().await?.jobs(&filter, &page).await
    }

    async fn attempts(&self, id: &JobId) -> Result<Vec<AttemptView>, StoreError> {
        self.look().await?.attempts(id).await
    }

    async fn keys(&self, filter: KeyFilter, page: Page) -> Result<Listing<KeyRow>, StoreError> {
        self.look().await?.keys(&filter, &page).await
    }

    async fn key(&self, digest: Digest) -> Result<Option<KeyRow>, StoreError> {
        self.look().await?.key(&digest).await
    }

    async fn ledger(&self, filter: LedgerFilter, page: Page) -> Result<Listing<LedgerEntry>, StoreError> {
        self.look().await?.ledger(&filter, &page).await
    }

    async fn stats(&self) -> Result<Stats, StoreError> {
        let mut stats = self.look().await?.stats().await?;
        let servers = open::probe(&self.link).await?;
        stats.storage_bytes = servers.iter().map(open::Server::bytes).sum();
        Ok(stats)
    }

    async fn history(&self, window: Millis) -> Result<Vec<Snapshot>, StoreError> {
        self.look().await?.history(window).await
    }

    async fn dead_letter_groups(&self, task: Option<Name>) -> Result<Vec<ErrorGroup>, StoreError> {
        self.look().await?.dead_letter_groups(task.as_ref()).await
    }

    async fn list_steps(&self, filter: StepFilter) -> Result<Vec<StepView>, StoreError> {
        self.look().await?.list_steps(&filter).await
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            name: "redis",
            strict_order: self.options.shards == 1,
            wake_up: Millis::new(10),
            durable: !self.options.allow_no_aof,
            counters_at_once: true,
            clock_resolution: Millis::new(1),
            key_search: false,
            joins_transaction: false,
            shared_by_processes: true,
        }
    }

    async fn guarantees(&self) -> Result<Vec<Guarantee>, StoreError> {
        let servers = open::probe(&self.link).await?;
        Ok(open::guarantees(&servers, &self.options))
    }
}

#[async_trait]
impl Control for RedisStore {
    async fn set(&self, target: Target, change: SettingChange) -> Result<Setting, StoreError> {
        settings::check_change(&target, &change)?;
        match self
            .writer
            .ask("changing a setting", Call::Set(target, change))
            .await?
        {
            Reply::Setting(setting) => Ok(setting),
            _ => Err(strange()),
        }
    }

    async fn settings(&self) -> Result<Vec<(Target, Setting)>, StoreError> {
        Ok(self.look().await?.config.settings.clone().into_iter().collect())
    }

    async fn remove_queue(&self, queue: &Name) -> Result<i64, StoreError> {
        match self
            .writer
            .ask("removing a queue", Call::RemoveQueue(queue.clone()))
            .await?
        {
            Reply::Removed(jobs) => Ok(jobs),
            _ => Err(strange()),
        }
    }

    async fn put_document(&self, put: PutDocument) -> Result<PutOutcome, StoreError> {
        documents::check_document(&put)?;
        match self
            .writer
            .ask("writing a document", Call::PutDocument(put))
            .await?
        {
            Reply::Put(outcome) => Ok(outcome),
            _ => Err(strange()),
        }
    }

    async fn document(&self, kind: &Name, name: &str) -> Result<Option<Document>, StoreError> {
        self.look().await?.document(kind, name).await
    }

    async fn documents(
        &self,
        kind: &Name,
        prefix: &str,
        page: Page,
    ) -> Result<Listing<Document>, StoreError> {
        self.look().await?.documents(kind, prefix, &page).await
    }

    async fn delete_document(
        &self,
        kind: &Name,
        name: &str,
        version: Option<i64>,
    ) -> Result<PutOutcome, StoreError> {
        let call = Call::DeleteDocument(kind.clone(), name.to_owned(), version);
        match self.writer.ask("removing a document", call).await? {
            Reply::Put(outcome) => Ok(outcome),
            _ => Err(strange()),
        }
    }

    async fn append(&self, feed: &str, bodies: Vec<Json>) -> Result<(), StoreError> {
        documents::check_name("feed", feed)?;
        limits::check_batch("entries", bodies.len())?;
        let call = Call::Append(feed.to_owned(), bodies);
        match self.writer.ask("appending to a feed", call).await? {
            Reply::Appended => Ok(()),
            _ => Err(strange()),
        }
    }

    async fn feed(&self, feed: &str, page: Page) -> Result<Listing<FeedEntry>, StoreError> {
        self.look().await?.feed(feed, &page).await
    }

    async fn reset_stats(&self) -> Result<Timestamp, StoreError> {
        match self
            .writer
            .ask("resetting the counters", Call::ResetStats)
            .await?
        {
            Reply::Reset(at) => Ok(at),
            _ => Err(strange()),
        }
    }

    async fn upkeep(&self, request: UpkeepRequest) -> Result<UpkeepReport, StoreError> {
        match self.writer.ask("housekeeping", Call::Upkeep(request)).await? {
            Reply::Upkeep(report) => Ok(report),
            _ => Err(strange()),
        }
    }

    async fn doctor(&self, repair: bool) -> Result<Vec<Finding>, StoreError> {
        if !repair {
            return doctor::examine(&self.shard, false).await;
        }
        match self.writer.ask("examining and repairing", Call::Repair).await? {
            Reply::Findings(findings) => Ok(findings),
            _ => Err(strange()),
        }
    }
}
