//! Looking, over all shards.

use async_trait::async_trait;
use futures_util::future::try_join_all;

use semel_core::error::StoreError;
use semel_core::ids::{Digest, JobId, Name};
use semel_core::store::*;
use semel_core::time::Millis;
use semel_core::view::{
    AttemptView, ErrorGroup, Job, KeyRow, LedgerEntry, Listing, Snapshot, Stats, StepView,
};

use crate::inspect::Part;
use crate::spread::{self, Places};
use crate::{Member, RedisStore, open};

/// A part of a list that has ended in a shard.
fn nothing<T>() -> Part<T> {
    Part {
        rows: Vec::new(),
        next: None,
    }
}

#[async_trait]
impl Inspect for RedisStore {
    async fn jobs_by_id(&self, ids: &[JobId]) -> Result<Vec<Option<Job>>, StoreError> {
        if self.shards() == 1 {
            return self.first().look().await?.jobs_by_id(ids).await;
        }
        let leads = self.leads(ids.iter()).await?;
        let mut jobs = vec![None; ids.len()];
        for (shard, member) in self.members.iter().enumerate() {
            let here: Vec<usize> = (0..ids.len()).filter(|at| leads.of(&ids[*at]) == shard).collect();
            if here.is_empty() {
                continue;
            }
            let own: Vec<JobId> = here.iter().map(|at| ids[*at].clone()).collect();
            let found = member.look().await?.jobs_by_id(&own).await?;
            here.into_iter().zip(found).for_each(|(at, job)| jobs[at] = job);
        }
        Ok(jobs)
    }

    async fn jobs(&self, filter: JobFilter, page: Page) -> Result<Listing<Job>, StoreError> {
        let query = format!("jobs {filter:?}");
        let places = Places::of(&page, &query, self.shards())?;
        let parts = self
            .members
            .iter()
            .zip(&places.0)
            .map(async |(member, before)| match before {
                Some(before) => member.look().await?.jobs(&filter, *before, page.limit).await,
                None => Ok(nothing()),
            });
        let parts = try_join_all(parts).await?;
        Ok(spread::merge(&query, page.limit, places, parts, |job| {
            job.enqueued_at
        }))
    }

    async fn attempts(&self, id: &JobId) -> Result<Vec<AttemptView>, StoreError> {
        self.members[self.lead(id).await?]
            .look()
            .await?
            .attempts(id)
            .await
    }

    async fn keys(&self, filter: KeyFilter, page: Page) -> Result<Listing<KeyRow>, StoreError> {
        let query = format!("keys {filter:?}");
        let places = Places::of(&page, &query, self.shards())?;
        let parts = self
            .members
            .iter()
            .zip(&places.0)
            .map(async |(member, before)| match before {
                Some(before) => member.look().await?.keys(&filter, *before, page.limit).await,
                None => Ok(nothing()),
            });
        let parts = try_join_all(parts).await?;
        Ok(spread::merge(&query, page.limit, places, parts, |row| {
            row.holder.enqueued_at
        }))
    }

    async fn key(&self, digest: Digest) -> Result<Option<KeyRow>, StoreError> {
        // A hybrid key is where its fields are, which its digest does not tell.
        let rows = self
            .members
            .iter()
            .map(async |member| member.look().await?.key(&digest).await);
        Ok(try_join_all(rows).await?.into_iter().flatten().next())
    }

    async fn ledger(&self, filter: LedgerFilter, page: Page) -> Result<Listing<LedgerEntry>, StoreError> {
        let query = format!("ledger {filter:?}");
        let places = Places::of(&page, &query, self.shards())?;
        let parts = self
            .members
            .iter()
            .zip(&places.0)
            .map(async |(member, before)| match before {
                Some(before) => member.look().await?.ledger(&filter, *before, page.limit).await,
                None => Ok(nothing()),
            });
        let parts = try_join_all(parts).await?;
        Ok(spread::merge(&query, page.limit, places, parts, |entry| entry.at))
    }

    async fn stats(&self) -> Result<Stats, StoreError> {
        let parts = self
            .members
            .iter()
            .map(async |member: &Member| member.look().await?.stats().await);
        let mut stats = spread::stats(try_join_all(parts).await?)?;
        let servers = open::probe(&self.link).await?;
        stats.storage_bytes = servers.iter().map(open::Server::bytes).sum();
        stats.storage_limit = servers.iter().map(open::Server::most_bytes).sum();
        Ok(stats)
    }

    async fn history(&self, window: Millis) -> Result<Vec<Snapshot>, StoreError> {
        let parts = self
            .members
            .iter()
            .map(async |member| member.look().await?.history(window).await);
        Ok(spread::history(try_join_all(parts).await?))
    }

    async fn dead_letter_groups(&self, task: Option<Name>) -> Result<Vec<ErrorGroup>, StoreError> {
        let parts = self.members.iter();
        let parts = parts.map(async |member| member.look().await?.dead_letter_groups(task.as_ref()).await);
        Ok(spread::groups(try_join_all(parts).await?))
    }

    async fn list_steps(&self, filter: StepFilter) -> Result<Vec<StepView>, StoreError> {
        if let StepFilter::Origin(origin) = &filter {
            return self.members[self.lead(origin).await?]
                .look()
                .await?
                .list_steps(&filter)
                .await;
        }
        let parts = self
            .members
            .iter()
            .map(async |member| member.look().await?.list_steps(&filter).await);
        let mut steps: Vec<StepView> = try_join_all(parts).await?.into_iter().flatten().collect();
        steps.sort_by(|a, b| (a.begun_at, &a.origin, &a.name).cmp(&(b.begun_at, &b.origin, &b.name)));
        Ok(steps)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            name: "redis",
            strict_order: self.shards() == 1,
            wake_up: Millis::new(10),
            durable: !self.options.allow_no_aof,
            counters_at_once: true,
            clock_resolution: Millis::new(1),
            key_search: false,
            joins_transaction: false,
            // Another key may lead to another shard, where the token was never seen.
            tokens_stand_alone: self.shards() == 1,
            shared_by_processes: true,
        }
    }

    async fn guarantees(&self) -> Result<Vec<Guarantee>, StoreError> {
        let servers = open::probe(&self.link).await?;
        Ok(open::guarantees(&servers, &self.options))
    }
}
