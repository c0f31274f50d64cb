//! Leasing due jobs, best first.

use std::collections::HashSet;

use redis::Value;

use semel_core::error::StoreError;
use semel_core::ids::Name;
use semel_core::job::Phase;
use semel_core::lifecycle;
use semel_core::limits::CLAIM_KEPT;
use semel_core::store::{ClaimRequest, Claimed};
use semel_core::time::Timestamp;

use crate::head::Head;
use crate::jobs::{self, parse_member, score, unless_damaged};
use crate::keys::Id;
use crate::link::answer;
use crate::pack;
use crate::records::Claim;
use crate::tx::{Slot, Tx};

/// What a shard has for a claim.
pub struct Outlook {
    /// This very claim was made there before.
    pub claimed: bool,
    /// Negated priority and run_at of its best due job; a lease that has run out may give one.
    pub best: Option<(i16, i64)>,
}

/// A place in the order: negated priority, run_at, member (arrival and job).
type Place = (i16, i64, Vec<u8>);

impl Slot {
    /// What a claim was given.
    pub fn claim(tx: &Tx<'_>, token: &Id) -> Self {
        Slot::new(tx.names().claims(), token.0)
    }
}

impl Tx<'_> {
    /// Leases up to `max` jobs under one fence. Leases that had run out were taken back before.
    pub async fn claim(&mut self, request: &ClaimRequest) -> Result<Vec<Claimed>, StoreError> {
        let token = Id::from(request.token);
        if let Some(claims) = self.claimed_before(&token).await? {
            return Ok(claims);
        }
        let heads = self.best_waiting(request).await?;
        if heads.is_empty() {
            return Ok(Vec::new());
        }
        let highest = heads.iter().map(|head| head.life.fence).max().unwrap_or(0);
        let fence = lifecycle::next_fence(highest, self.micros);
        let until = self.now.plus(request.lease);
        let claim = Claim {
            fence,
            ids: heads.iter().map(|head| head.id).collect(),
        };
        self.set(Slot::claim(self, &token), claim.encode());
        let forget_at = until.max(self.now.plus(CLAIM_KEPT));
        self.remember_claim(&token, forget_at);
        let mut claims = Vec::with_capacity(heads.len());
        for head in heads {
            let after = Head {
                life: lifecycle::lease(&head.life, fence, until, self.now),
                worker: Some(request.worker.clone()),
                ..head.clone()
            };
            let after = self.put(&head, after).await?;
            claims.extend(self.claimed(&after).await?);
        }
        Ok(claims)
    }

    fn remember_claim(&mut self, token: &Id, forget_at: Timestamp) {
        let due = vec![score(forget_at.as_millis()), token.0.to_vec()];
        self.run("ZADD", self.names().claims_due(), due);
    }

    async fn claimed(&mut self, head: &Head) -> Result<Option<Claimed>, StoreError> {
        let job = self.job(head).await?;
        Ok(head.life.until.map(|lease_until| Claimed {
            job,
            fence: head.life.fence,
            lease_until,
        }))
    }

    /// The same claim again, after a lost reply: what of it still runs (contract 3.5).
    async fn claimed_before(&mut self, token: &Id) -> Result<Option<Vec<Claimed>>, StoreError> {
        let slot = Slot::claim(self, token);
        let Some(claim) = self.get(&slot).await?.map(Claim::decode).transpose()? else {
            return Ok(None);
        };
        self.load_jobs(&claim.ids).await?;
        let mut claims = Vec::new();
        for id in &claim.ids {
            let head = self.sound_head(id).await?;
            if let Some(head) = head.filter(|head| runs_under(head, claim.fence)) {
                let claimed = self.claimed(&head).await;
                claims.extend(unless_damaged(id, claimed)?);
            }
        }
        Ok(Some(claims))
    }

    /// Forgets claims that nobody will send again; of those that still run, it asks again later. Says how many.
    pub async fn forget_claims(&mut self, most: usize) -> Result<usize, StoreError> {
        let due = self.due(self.names().claims_due(), most).await?;
        let tokens: Vec<Id> = due
            .into_iter()
            .filter_map(|token| token.try_into().ok().map(Id))
            .collect();
        let slots = tokens.iter().map(|token| Slot::claim(self, token)).collect();
        self.load(slots).await?;
        for token in &tokens {
            let slot = Slot::claim(self, token);
            let mut runs = false;
            if let Some(claim) = self.get(&slot).await?.map(Claim::decode).transpose()? {
                self.load_heads(claim.ids.iter().copied()).await?;
                for id in &claim.ids {
                    runs |= self
                        .sound_head(id)
                        .await?
                        .is_some_and(|head| runs_under(&head, claim.fence));
                }
            }
            if runs {
                self.remember_claim(token, self.now.plus(CLAIM_KEPT));
            } else {
                self.unset(slot);
                self.run("ZREM", self.names().claims_due(), vec![token.0.to_vec()]);
                self.run("ZREM", self.names().leases(), vec![batch_member(token)]);
            }
        }
        Ok(tokens.len())
    }

    /// The best jobs that wait. What leads nowhere, or to a job that is damaged, does not stand in the way of those
    /// behind it.
    async fn best_waiting(&mut self, request: &ClaimRequest) -> Result<Vec<Head>, StoreError> {
        let mut most = request.max;
        loop {
            let places = self.best(request, most).await?;
            let mut heads = self.waiting(&places).await?;
            let void = places.len() - heads.len();
            if void == 0 || places.len() < most || heads.len() >= request.max {
                heads.truncate(request.max);
                return Ok(heads);
            }
            most = request.max + void;
        }
    }

    /// The jobs at these places, as far as they wait there and can be handed out.
    async fn waiting(&mut self, places: &[Place]) -> Result<Vec<Head>, StoreError> {
        let ids: Vec<Id> = places
            .iter()
            .filter_map(|(_, _, member)| job_of(member))
            .collect();
        let keys = self.names();
        let parts = ids
            .iter()
            .flat_map(|id| [Slot::head(keys, id), Slot::spec(keys, id)]);
        self.load(parts.collect()).await?;
        let mut heads = Vec::with_capacity(ids.len());
        for id in ids {
            // A place that leads nowhere, or to a job that does not wait, is no reason to run anything.
            let head = self.sound_head(&id).await?;
            let Some(head) = head.filter(|head| head.life.phase == Phase::Waiting) else {
                continue;
            };
            let shown = self.job(&head).await.map(Some);
            heads.extend(unless_damaged(&id, shown)?.map(|_| head));
        }
        Ok(heads)
    }

    /// The best places over all lanes that may be taken from, so many at most.
    async fn best(&self, request: &ClaimRequest, most: usize) -> Result<Vec<Place>, StoreError> {
        /// Members read of each at first: one may stand for many jobs.
        const FIRST: usize = 16;
        let open = self.open_places(&request.queues, &request.tasks).await?;
        let mut first = FIRST;
        loop {
            let read = self.best_in_parts(open.clone(), most, first).await?;
            if let Some(mut best) = read {
                best.sort_unstable();
                // Who moved from one order to another in between was met in both.
                let mut met = HashSet::with_capacity(best.len());
                best.retain(|(.., member)| met.insert(member.clone()));
                best.truncate(most);
                return Ok(best);
            }
            first *= 4;
        }
    }

    /// The first places of each lane, so many at most, if the order was the same in each part that was read: else some
    /// may have been passed over.
    async fn best_in_parts(
        &self,
        open: Vec<(u32, i8)>,
        most: usize,
        first: usize,
    ) -> Result<Option<Vec<Place>>, StoreError> {
        let mut open: Vec<_> = open.into_iter().map(|place| (place, None::<Vec<u8>>)).collect();
        let (mut best, mut read, mut count) = (Vec::new(), 0, first);
        while !open.is_empty() {
            let mut ask = redis::pipe();
            // The last member of the part before is read again.
            let again = usize::from(read > 0);
            for ((lane, priority), _) in &open {
                ask.cmd("ZRANGEBYSCORE")
                    .arg(self.names().ready(*lane, *priority))
                    .arg("-inf")
                    .arg(self.now.as_millis())
                    .arg("WITHSCORES")
                    .arg("LIMIT")
                    .arg(read - again)
                    .arg(count + again);
            }
            let mut unread = Vec::new();
            for (((lane, priority), last), answer) in open.into_iter().zip(self.look(&ask).await?) {
                let mut members = answer::pairs(answer)?;
                if let Some(last) = last {
                    if members.first().is_none_or(|(member, _)| *member != last) {
                        return Ok(None);
                    }
                    members.remove(0);
                }
                let before = best.len();
                for (member, run_at) in &members {
                    let run_at = answer::parse(run_at)?;
                    let jobs = pack::jobs_in(member).unwrap_or_default();
                    best.extend(
                        jobs.iter()
                            .map(|(seq, id)| (-i16::from(priority), run_at, jobs::member(*seq, id).to_vec())),
                    );
                }
                if members.len() == count && best.len() - before < most {
                    unread.push(((lane, priority), members.pop().map(|(member, _)| member)));
                }
            }
            open = unread;
            (read, count) = (read + count, count * 2);
        }
        Ok(Some(best))
    }

    /// Lanes and priorities with waiting jobs that are wanted and not paused.
    pub async fn open_places(&self, queues: &[Name], tasks: &[Name]) -> Result<Vec<(u32, i8)>, StoreError> {
        let mut ask = redis::pipe();
        ask.cmd("SMEMBERS").arg(self.names().places());
        let members = answer::all_bytes(self.look(&ask).await?.into_iter().next().unwrap_or(Value::Nil))?;
        let wanted = |names: &[Name], name: &Name| names.is_empty() || names.contains(name);
        let places = members.iter().filter_map(|member| parse_place(member));
        Ok(places
            .filter(|(lane, _)| {
                self.config.live(*lane).is_some_and(|lane| {
                    wanted(queues, &lane.queue)
                        && wanted(tasks, &lane.task)
                        && !self.config.is_paused(&lane.queue, &lane.task, self.now)
                })
            })
            .collect())
    }
}

fn runs_under(head: &Head, fence: i64) -> bool {
    head.life.phase == Phase::Running && head.life.fence == fence
}

/// The member of the watched leases for all jobs of a claim: one more byte than an id.
pub fn batch_member(token: &Id) -> Vec<u8> {
    let mut member = Vec::with_capacity(17);
    member.push(b'b');
    member.extend_from_slice(&token.0);
    member
}

/// The claim such a member stands for.
pub fn batch_of(member: &[u8]) -> Option<Id> {
    let (b'b', token) = member.split_first()? else {
        return None;
    };
    token.try_into().ok().map(Id)
}

/// Lane and priority of a member of the set of places.
pub fn parse_place(member: &[u8]) -> Option<(u32, i8)> {
    let (lane, priority) = std::str::from_utf8(member).ok()?.split_once(':')?;
    Some((lane.parse().ok()?, priority.parse().ok()?))
}

/// The job of a member of the order of dispatch.
pub fn job_of(member: &[u8]) -> Option<Id> {
    parse_member(member).map(|(_, id)| id)
}

impl Tx<'_> {
    /// How long until there may be work in these queues and tasks without anybody writing: a job comes due, a pause
    /// ends, a lease runs out.
    pub async fn next_work(
        &self,
        queues: &[Name],
        tasks: &[Name],
    ) -> Result<Option<std::time::Duration>, StoreError> {
        let keys = self.names();
        let mut ask = redis::pipe();
        ask.cmd("ZRANGE")
            .arg(keys.leases())
            .arg(0)
            .arg(0)
            .arg("WITHSCORES");
        for (lane, priority) in self.open_places(queues, tasks).await? {
            ask.cmd("ZRANGE")
                .arg(keys.ready(lane, priority))
                .arg(0)
                .arg(0)
                .arg("WITHSCORES");
        }
        let mut next: Vec<i64> = Vec::new();
        for answer in self.look(&ask).await? {
            next.extend(
                answer::pairs(answer)?
                    .first()
                    .map(|(_, at)| answer::parse(at))
                    .transpose()?,
            );
        }
        let pauses = self.config.settings.values();
        let ends = pauses.filter_map(|setting| setting.paused.as_ref()?.until);
        next.extend(ends.filter(|until| *until > self.now).map(Timestamp::as_millis));
        let wait = next
            .into_iter()
            .min()
            .map(|at| Timestamp::from_millis(at).since(self.now));
        Ok(wait.map(Into::into))
    }
}

impl Tx<'_> {
    /// What this shard has for a claim.
    pub async fn outlook(
        &mut self,
        token: &Id,
        queues: &[Name],
        tasks: &[Name],
    ) -> Result<Outlook, StoreError> {
        let slot = Slot::claim(self, token);
        let claimed = self.get(&slot).await?.is_some();
        let places = self.open_places(queues, tasks).await?;
        let now = self.now.as_millis();
        let mut best = self.lease_due.then_some((0, now));
        if !places.is_empty() {
            let mut ask = redis::pipe();
            for (lane, priority) in &places {
                ask.cmd("ZRANGE")
                    .arg(self.names().ready(*lane, *priority))
                    .arg(0)
                    .arg(0)
                    .arg("WITHSCORES");
            }
            for ((_, priority), answer) in places.iter().zip(self.look(&ask).await?) {
                let first = answer::pairs(answer)?
                    .first()
                    .map(|(_, at)| answer::parse(at))
                    .transpose()?;
                let due = first
                    .filter(|run_at| *run_at <= now)
                    .map(|run_at| (-i16::from(*priority), run_at));
                best = [best, due].into_iter().flatten().min();
            }
        }
        Ok(Outlook { claimed, best })
    }
}
