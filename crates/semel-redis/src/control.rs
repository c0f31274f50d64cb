//! Steering, over all shards. Settings are decided in the first shard and adopted by the others; whoever keeps house
//! completes what somebody left half done.

use std::collections::BTreeSet;

use async_trait::async_trait;
use futures_util::future::try_join_all;

use semel_core::error::StoreError;
use semel_core::ids::{JobId, Name};
use semel_core::json::Json;
use semel_core::limits;
use semel_core::store::*;
use semel_core::time::Timestamp;
use semel_core::view::Listing;

use crate::config::Config;
use crate::writer::{Call, Reply};
use crate::{Member, RedisStore, doctor, documents, settings, spread};

impl RedisStore {
    /// Log lines are where their job is; everything else is in the first shard.
    async fn member_of_feed(&self, feed: &str) -> Result<&Member, StoreError> {
        let id = feed.strip_prefix("log/").and_then(|id| JobId::new(id).ok());
        let shard = match id {
            Some(id) => self.lead(&id).await?,
            None => 0,
        };
        Ok(&self.members[shard])
    }

    /// Every shard has the settings of the first, which is looked at last. Another shard that has changed since it was
    /// looked at is left alone for this round: it may have been told of a pause that the first had not when it was
    /// looked at, and a pause that was answered is not to be undone (contract 6.1).
    async fn spread_settings(&self) -> Result<(), StoreError> {
        let rest = &self.members[1..];
        let mut seen = Vec::with_capacity(rest.len());
        for member in rest {
            seen.push(member.look().await?.config);
        }
        let decided = self.first().look().await?.config;
        for (member, own) in rest.iter().zip(seen) {
            let differing = differing(&decided, &own);
            if !differing.is_empty() {
                let call = Call::Adopt(differing, Some(own.version));
                member.ask("changing a setting", call).await?;
            }
        }
        Ok(())
    }
}

/// Settings that are not as they were decided, as they should be.
fn differing(decided: &Config, own: &Config) -> Vec<(Target, Setting)> {
    let of = |config: &Config, target: &Target| config.settings.get(target).cloned().unwrap_or_default();
    let targets: BTreeSet<&Target> = decided.settings.keys().chain(own.settings.keys()).collect();
    targets
        .into_iter()
        .map(|target| (target.clone(), of(decided, target)))
        .filter(|(target, wanted)| of(own, target) != *wanted)
        .collect()
}

#[async_trait]
impl Control for RedisStore {
    async fn set(&self, target: Target, change: SettingChange) -> Result<Setting, StoreError> {
        settings::check_change(&target, &change)?;
        let call = Call::Set(target.clone(), change);
        let decided = self.first().ask("changing a setting", call).await?.setting()?;
        let adopted = self.members[1..].iter().map(|member| {
            let settings = vec![(target.clone(), decided.clone())];
            member.ask("changing a setting", Call::Adopt(settings, None))
        });
        try_join_all(adopted).await?;
        Ok(decided)
    }

    async fn settings(&self) -> Result<Vec<(Target, Setting)>, StoreError> {
        Ok(self
            .first()
            .look()
            .await?
            .config
            .settings
            .clone()
            .into_iter()
            .collect())
    }

    async fn remove_queue(&self, queue: &Name) -> Result<i64, StoreError> {
        let replies = self
            .ask_all("removing a queue", || Call::RemoveQueue(queue.clone()))
            .await?;
        let removed = replies
            .into_iter()
            .map(Reply::removed)
            .collect::<Result<Vec<i64>, _>>()?;
        Ok(removed.into_iter().sum())
    }

    async fn put_document(&self, put: PutDocument) -> Result<PutOutcome, StoreError> {
        documents::check_document(&put)?;
        self.first()
            .ask("writing a document", Call::PutDocument(put))
            .await?
            .put()
    }

    async fn document(&self, kind: &Name, name: &str) -> Result<Option<Document>, StoreError> {
        self.first().look().await?.document(kind, name).await
    }

    async fn documents(
        &self,
        kind: &Name,
        prefix: &str,
        page: Page,
    ) -> Result<Listing<Document>, StoreError> {
        self.first().look().await?.documents(kind, prefix, &page).await
    }

    async fn delete_document(
        &self,
        kind: &Name,
        name: &str,
        version: Option<i64>,
    ) -> Result<PutOutcome, StoreError> {
        let call = Call::DeleteDocument(kind.clone(), name.to_owned(), version);
        self.first().ask("removing a document", call).await?.put()
    }

    async fn append(&self, feed: &str, bodies: Vec<Json>) -> Result<(), StoreError> {
        documents::check_name("feed", feed)?;
        limits::check_batch("entries", bodies.len())?;
        let call = Call::Append(feed.to_owned(), bodies);
        let member = self.member_of_feed(feed).await?;
        member.ask("appending to a feed", call).await?;
        Ok(())
    }

    async fn feed(&self, feed: &str, page: Page) -> Result<Listing<FeedEntry>, StoreError> {
        self.member_of_feed(feed)
            .await?
            .look()
            .await?
            .feed(feed, &page)
            .await
    }

    async fn reset_stats(&self) -> Result<Timestamp, StoreError> {
        let replies = self
            .ask_all("resetting the counters", || Call::ResetStats)
            .await?;
        let moments = replies
            .into_iter()
            .map(Reply::reset)
            .collect::<Result<Vec<_>, _>>()?;
        moments
            .into_iter()
            .next()
            .ok_or_else(|| StoreError::corrupt("a store without shards"))
    }

    async fn upkeep(&self, request: UpkeepRequest) -> Result<UpkeepReport, StoreError> {
        if self.shards() > 1 {
            self.spread_settings().await?;
        }
        let replies = self.ask_all("housekeeping", || Call::Upkeep(request)).await?;
        let reports = replies
            .into_iter()
            .map(Reply::upkeep)
            .collect::<Result<Vec<_>, _>>()?;
        Ok(spread::reports(reports))
    }

    async fn doctor(&self, repair: bool) -> Result<Vec<Finding>, StoreError> {
        if !repair {
            let looks = self
                .members
                .iter()
                .map(|member| doctor::examine(&member.shard, false));
            return Ok(try_join_all(looks).await?.into_iter().flatten().collect());
        }
        let replies = self.ask_all("examining and repairing", || Call::Repair).await?;
        let findings = replies
            .into_iter()
            .map(Reply::findings)
            .collect::<Result<Vec<_>, _>>()?;
        Ok(findings.into_iter().flatten().collect())
    }
}
