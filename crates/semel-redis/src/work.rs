//! The way of a job, over all shards.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::try_join_all;

use semel_core::error::{Invalid, StoreError};
use semel_core::ids::{JobId, Name};
use semel_core::limits;
use semel_core::store::*;
use semel_core::submission::{Prepared, Submission};

use crate::RedisStore;
use crate::effects::check_guard;
use crate::fast;
use crate::jobs::RESCUE;
use crate::keys::Id;
use crate::route;
use crate::submit::Item;
use crate::writer::{Call, Reply};

impl RedisStore {
    fn prepare(&self, submission: Submission) -> Item {
        // Where the time matters, the shard looks at its own.
        Prepared::new(self.space(), submission, self.first().shard.time.about_now())
    }

    fn shard_of(&self, item: &Item) -> usize {
        let submission = item.as_ref().ok();
        submission.map_or(0, |prepared| {
            route::of_submission(self.space(), prepared, self.shards())
        })
    }

    /// The job in whose shard an act happens; a key is where the job is that is meant to hold it.
    fn concerned(act: &Act) -> &JobId {
        match act {
            Act::Cancel { id } | Act::Retry { id } | Act::Replay { id, .. } | Act::Delete { id } => id,
            Act::Release { holder, .. } => holder,
            Act::Resolve { origin, .. } => origin,
        }
    }

    /// One act. A release that names the wrong job still says who holds the key, wherever that is.
    async fn act_somewhere(&self, act: Act) -> Result<ActOutcome, StoreError> {
        let first = self.lead(Self::concerned(&act)).await?;
        let elsewhere = matches!(act, Act::Release { .. });
        let rest = (0..self.shards()).filter(|shard| elsewhere && *shard != first);
        for shard in std::iter::once(first).chain(rest) {
            let call = Call::Act(vec![act.clone()]);
            let reply = self.members[shard].ask("acting on jobs", call).await?;
            let outcome = reply.acted()?.remove(0);
            if outcome != ActOutcome::NotFound {
                return Ok(outcome);
            }
        }
        Ok(ActOutcome::NotFound)
    }

    /// Claims from the shards whose first job is best, one after another, until there are enough. The order is that of
    /// each shard; between shards it is about right.
    async fn claim_over_shards(&self, request: ClaimRequest) -> Result<Vec<Claimed>, StoreError> {
        let token = Id::from(request.token);
        let looks = self.members.iter().map(async |member| {
            let mut tx = member.look().await?;
            tx.outlook(&token, &request.queues, &request.tasks).await
        });
        let outlooks = try_join_all(looks).await?;
        let known: Vec<usize> = (0..self.shards())
            .filter(|shard| outlooks[*shard].claimed)
            .collect();
        if !known.is_empty() {
            // The same claim again: what of it still runs, and nothing else.
            let again = known
                .iter()
                .map(|shard| self.members[*shard].ask("claiming", Call::Claim(request.clone())));
            let replies = try_join_all(again).await?;
            let claims = replies
                .into_iter()
                .map(Reply::claimed)
                .collect::<Result<Vec<_>, _>>()?;
            return Ok(claims.into_iter().flatten().collect());
        }
        let mut best: Vec<_> = (0..self.shards())
            .filter_map(|shard| outlooks[shard].best.map(|place| (place, shard)))
            .collect();
        best.sort_unstable();
        let mut claims = Vec::new();
        for (_, shard) in best {
            let max = request.max - claims.len();
            if max == 0 {
                break;
            }
            let call = Call::Claim(ClaimRequest {
                max,
                ..request.clone()
            });
            claims.extend(self.members[shard].ask("claiming", call).await?.claimed()?);
        }
        Ok(claims)
    }

    async fn next_work(&self, queues: &[Name], tasks: &[Name]) -> Result<Option<Duration>, StoreError> {
        let looks = self
            .members
            .iter()
            .map(async |member| member.look().await?.next_work(queues, tasks).await);
        Ok(try_join_all(looks).await?.into_iter().flatten().min())
    }
}

#[async_trait]
impl Store for RedisStore {
    fn namespace(&self) -> &Name {
        self.space()
    }

    async fn submit(&self, batch: Vec<Submission>) -> Result<Vec<Submitted>, StoreError> {
        limits::check_batch("submissions", batch.len())?;
        if self.shards() == 1 && batch.len() > fast::submit::CALL {
            // The keys of one part are made while the server is at the part before.
            let call = Call::Submit(batch.into_iter().map(Into::into).collect());
            return self.first().ask("submitting", call).await?.submitted();
        }
        let items = batch
            .into_iter()
            .map(|submission| self.prepare(submission))
            .collect();
        let route = |item: &Item| self.shard_of(item);
        let call = |items: Vec<Item>| Call::Submit(items.into_iter().map(Into::into).collect());
        self.ask_each("submitting", items, route, call, Reply::submitted)
            .await
    }

    async fn explain(&self, submission: Submission) -> Result<Explanation, StoreError> {
        let item = self.prepare(submission);
        let mut tx = self.members[self.shard_of(&item)].look().await?;
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
        if self.shards() > 1 {
            return self.claim_over_shards(request).await;
        }
        self.first()
            .ask("claiming", Call::Claim(request))
            .await?
            .claimed()
    }

    async fn extend(&self, request: ExtendRequest) -> Result<Vec<WriteOutcome>, StoreError> {
        let ExtendRequest { leases, lease } = request;
        limits::check_lease(lease)?;
        limits::check_batch("heartbeats", leases.len())?;
        let leads = self.leads(leases.iter().map(|beat| &beat.id)).await?;
        let route = |beat: &Beat| leads.of(&beat.id);
        let call = |leases| Call::Extend(ExtendRequest { leases, lease });
        self.ask_each("extending leases", leases, route, call, Reply::written)
            .await
    }

    async fn settle(&self, batch: Vec<Settlement>) -> Result<Vec<WriteOutcome>, StoreError> {
        limits::check_batch("settlements", batch.len())?;
        let leads = self.leads(batch.iter().map(|settlement| &settlement.id)).await?;
        let route = |settlement: &Settlement| leads.of(&settlement.id);
        let call = |ends: Vec<Settlement>| Call::Settle(ends.into_iter().map(Into::into).collect());
        self.ask_each("settling", batch, route, call, Reply::written)
            .await
    }

    async fn steps(&self, batch: Vec<StepRequest>) -> Result<Vec<StepOutcome>, StoreError> {
        limits::check_batch("steps", batch.len())?;
        let leads = self.leads(batch.iter().map(|request| &request.id)).await?;
        let route = |request: &StepRequest| leads.of(&request.id);
        self.ask_each("recording steps", batch, route, Call::Steps, Reply::steps)
            .await
    }

    async fn guard(&self, batch: Vec<GuardRequest>) -> Result<Vec<GuardOutcome>, StoreError> {
        limits::check_batch("guarded keys", batch.len())?;
        let route = |request: &GuardRequest| {
            let digest = check_guard(self.space(), request);
            digest.map_or(0, |digest| route::of_digest(&digest, self.shards()))
        };
        self.ask_each("guarding", batch, route, Call::Guard, Reply::guards)
            .await
    }

    async fn act(&self, batch: Vec<Act>) -> Result<Vec<ActOutcome>, StoreError> {
        limits::check_batch("acts", batch.len())?;
        if self.shards() > 1 && batch.iter().any(|act| matches!(act, Act::Release { .. })) {
            let mut outcomes = Vec::with_capacity(batch.len());
            for act in batch {
                outcomes.push(self.act_somewhere(act).await?);
            }
            return Ok(outcomes);
        }
        let leads = self.leads(batch.iter().map(Self::concerned)).await?;
        let route = |act: &Act| leads.of(Self::concerned(act));
        self.ask_each("acting on jobs", batch, route, Call::Act, Reply::acted)
            .await
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
