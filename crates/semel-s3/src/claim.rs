//! Claims. The index of waiting jobs is asked for names, the cells for the truth.

use std::sync::atomic::{AtomicI64, Ordering};

use futures_util::FutureExt as _;
use semel_core::error::{Invalid, StoreError};
use semel_core::ids::{JobId, Name, Token};
use semel_core::job::Phase;
use semel_core::lifecycle::{self, Settle};
use semel_core::limits;
use semel_core::store::{ClaimRequest, Claimed, Settlement, Target};
use semel_core::time::Timestamp;

use crate::cell::{Cell, Claim};
use crate::clock::{Moment, host_seconds, random};
use crate::desk::{Committed, Desk, Loaded, at_once, lock};
use crate::layout::{self, Hint};
use crate::record::Record;
use crate::setup::Setup;

/// Lanes that are looked at by name, without asking which there are.
const NAMED_LANES: usize = 8;
/// A hint ahead of its job may belong to a write that is still on its way; after a day it does not (seconds).
const LEFTOVER: i64 = 86_400;
/// Rounds of one claim, when all it went for was taken by others.
const ROUNDS: usize = 4;
/// Rounds of one claim, when all it went for led to nothing.
const VAIN_ROUNDS: usize = 50;
/// How long a hint that led to nothing is passed over, in milliseconds: what it is about may still come.
const PASSED_OVER: i64 = 10_000;

/// What became of a hint.
enum Tried {
    Leased(Box<Claimed>),
    /// Somebody else was faster.
    Taken,
    /// There is nothing to lease here.
    Nothing,
}

impl Desk {
    pub async fn claim(&self, request: ClaimRequest) -> Result<Vec<Claimed>, StoreError> {
        limits::check_lease(request.lease)?;
        if !(1..=limits::BATCH).contains(&request.max) {
            let allowed = format!("1 to {}", limits::BATCH);
            return Err(Invalid::new("max", allowed).found(request.max.to_string()).into());
        }
        let setup = self.setup().await?;
        self.tend(&setup).await?;
        self.sweep_leases(&setup).await?;
        let _alone = self.claiming.lock().await;
        let name = layout::claim(request.token);
        let known = self.recall_only(&name);
        if let Some(claim) = known {
            return self.claimed(&claim, request.token).await;
        }
        let mut given = Vec::new();
        let mut races = 0;
        for round in 0..VAIN_ROUNDS {
            let hints = self.candidates(&request, &setup).await?;
            if hints.is_empty() {
                break;
            }
            let moment = self.moment();
            let until = self.lease_until(request.lease);
            let jobs: Vec<(String, JobId)> = hints
                .iter()
                .map(|hint| (hint.cell.clone(), hint.id.clone()))
                .collect();
            // Drawn, so that no other try has the same: a claim that is sent again, by a process that does not know of
            // it, goes for other jobs, and must not write over the entry of those that were given the first time.
            let entry = format!("{}-{:016x}", request.token, random());
            let (advertised, before) = tokio::join!(
                self.advertise(until, &entry, jobs.clone()),
                self.note_claim(&name, jobs, until, moment, round > 0)
            );
            advertised?;
            if let Some(claim) = before? {
                return self.claimed(&claim, request.token).await;
            }
            let (leased, raced) = self.lease(hints, &request, until, &setup).await?;
            let ids = leased.iter().map(|claimed| &claimed.job.id);
            lock(&self.entries).opened(&layout::lease(until, &entry), ids);
            given.extend(leased);
            races += usize::from(raced);
            if !given.is_empty() || races == ROUNDS {
                break;
            }
        }
        if given.is_empty() {
            // A claim that was given something before is given it again, also where nothing else is due.
            let loaded = self.read(&name).await?;
            return match loaded.base.and_then(|(_, cell)| cell.claim.clone()) {
                Some(claim) => self.claimed(&claim, request.token).await,
                None => Ok(Vec::new()),
            };
        }
        self.hand_back_paused(given).await
    }

    fn recall_only(&self, name: &str) -> Option<Claim> {
        self.seen_cell(name).and_then(|cell| cell.claim.clone())
    }

    /// Writes down what a claim goes for; gives what it went for before, if it was made before.
    async fn note_claim(
        &self,
        name: &str,
        jobs: Vec<(String, JobId)>,
        until: Timestamp,
        moment: Moment,
        more: bool,
    ) -> Result<Option<Claim>, StoreError> {
        let forget_at = until.max(moment.now.plus(limits::CLAIM_KEPT));
        let mut loaded = Loaded::absent(name.to_owned());
        let mut tried = Vec::new();
        loop {
            let mut cell = loaded.cell();
            let mut all = cell.claim.take().map(|claim| claim.jobs).unwrap_or_default();
            all.extend(jobs.iter().cloned());
            cell.claim = Some(Claim { jobs: all, forget_at });
            let nonce = random();
            tried.push(nonce);
            if let Committed::Done(_) = self.commit(&loaded, cell, nonce, moment).await? {
                return Ok(None);
            }
            loaded = self.read(name).await?;
            let Some((_, cell)) = &loaded.base else { continue };
            if tried.iter().any(|nonce| cell.was_written_by(*nonce)) {
                return Ok(None);
            }
            if let (Some(claim), false) = (&cell.claim, more) {
                return Ok(Some(claim.clone()));
            }
        }
    }

    /// The best due hints of the lanes that are wanted, best first.
    async fn candidates(&self, request: &ClaimRequest, setup: &Setup) -> Result<Vec<Hint>, StoreError> {
        let now = self.moment().now;
        let paused = |target: &Target| setup.settings.get(target).is_some_and(|it| it.is_paused(now));
        if paused(&Target::All) {
            return Ok(Vec::new());
        }
        let named = request.queues.len() * request.tasks.len();
        let lanes = if (1..=NAMED_LANES).contains(&named) {
            let lane = |queue: &Name| {
                let of = move |task: &Name| layout::lane(queue, task);
                request.tasks.iter().map(of).collect::<Vec<_>>()
            };
            request.queues.iter().flat_map(lane).collect()
        } else {
            self.bucket.directories(layout::READY).await?
        };
        let shorts = |names: &[Name]| {
            names
                .iter()
                .map(|name| layout::short(name.as_str()))
                .collect::<Vec<_>>()
        };
        let (queues, tasks) = (shorts(&request.queues), shorts(&request.tasks));
        let stopped = |of: fn(&Target) -> Option<&Name>| {
            let targets = setup
                .settings
                .iter()
                .filter(|(_, setting)| setting.is_paused(now));
            let names: Vec<Name> = targets.filter_map(|(target, _)| of(target).cloned()).collect();
            shorts(&names)
        };
        let stopped_queues = stopped(|target| match target {
            Target::Queue(name) => Some(name),
            _ => None,
        });
        let stopped_tasks = stopped(|target| match target {
            Target::Task(name) => Some(name),
            _ => None,
        });
        let wanted = |lane: &String| {
            let Some((queue, task)) = lane.split_once('.') else {
                return false;
            };
            let asked = |names: &[String], name: &str| names.is_empty() || names.iter().any(|it| it == name);
            let held = |names: &[String], name: &str| names.iter().any(|it| it == name);
            asked(&queues, queue)
                && asked(&tasks, task)
                && !held(&stopped_queues, queue)
                && !held(&stopped_tasks, task)
        };
        let crowded = self.contended.load(Ordering::Relaxed);
        let most = if crowded {
            request.max * 4 + 32
        } else {
            request.max + 8
        };
        let lanes: Vec<String> = lanes.into_iter().filter(wanted).collect();
        let found = lanes.iter().map(|lane| self.due(lane, now, most).boxed());
        let found: Vec<Vec<Hint>> = at_once(found.collect()).await?;
        let mut hints: Vec<Hint> = found.into_iter().flatten().collect();
        hints.sort();
        hints.truncate(most);
        if crowded && hints.len() > 1 {
            // Those who come together begin at different places.
            let start = (random() % hints.len() as u64) as usize;
            hints.rotate_left(start);
        }
        Ok(hints)
    }

    /// The first due hints of a lane. Within a priority those that are due come first: behind them the rest of the
    /// band is passed over.
    async fn due(&self, lane: &str, mut now: Timestamp, most: usize) -> Result<Vec<Hint>, StoreError> {
        let directory = format!("{}/{lane}", layout::READY);
        let mut due = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let page = self
                .bucket
                .list(&directory, after.as_deref(), most.max(16))
                .await?;
            let full = page.len() >= most.max(16);
            let mut skip = None;
            for one in &page {
                after = Some(one.name.clone());
                let Some(mut hint) = Hint::parse(&one.name) else {
                    continue;
                };
                if hint.run_at > now {
                    self.time.heard(Timestamp::from_millis(hint.arrival.at));
                    now = now.max(self.moment().now);
                }
                if hint.run_at > now {
                    skip = Some(layout::after_band(lane, hint.band));
                    break;
                }
                if self.passes_over(&hint.name, now) {
                    continue;
                }
                hint.written = one.written;
                due.push(hint);
            }
            match skip {
                Some(band) => after = Some(band),
                None if !full => return Ok(due),
                None => {}
            }
            if due.len() >= most {
                return Ok(due);
            }
        }
    }

    /// Whether a hint led to nothing a moment ago.
    fn passes_over(&self, hint: &str, now: Timestamp) -> bool {
        let vain = lock(&self.vain);
        vain.get(hint)
            .is_some_and(|at| (0..PASSED_OVER).contains(&(now.as_millis() - at)))
    }

    fn pass_over(&self, hint: &str, now: Timestamp) {
        let mut vain = lock(&self.vain);
        vain.retain(|_, at| (0..PASSED_OVER).contains(&(now.as_millis() - *at)));
        vain.insert(hint.to_owned(), now.as_millis());
    }

    /// Leases as many as are wanted, in order; says whether others were faster anywhere.
    async fn lease(
        &self,
        hints: Vec<Hint>,
        request: &ClaimRequest,
        until: Timestamp,
        setup: &Setup,
    ) -> Result<(Vec<Claimed>, bool), StoreError> {
        let stale = std::sync::Mutex::new(Vec::new());
        let (mut given, mut raced) = (Vec::new(), false);
        let mut left = hints.into_iter();
        while given.len() < request.max {
            let some: Vec<Hint> = left.by_ref().take(request.max - given.len()).collect();
            if some.is_empty() {
                break;
            }
            let tries = some
                .into_iter()
                .map(|hint| self.lease_one(hint, request, until, setup, &stale).boxed());
            let tries: Vec<Tried> = at_once(tries.collect()).await?;
            for tried in tries {
                match tried {
                    Tried::Leased(claimed) => given.push(*claimed),
                    Tried::Taken => raced = true,
                    Tried::Nothing => {}
                }
            }
        }
        self.contended.store(raced, Ordering::Relaxed);
        let mut stale = stale.into_inner().unwrap_or_default();
        stale.extend(lock(&self.entries).spent());
        self.sweep(stale).await;
        Ok((given, raced))
    }

    async fn lease_one(
        &self,
        hint: Hint,
        request: &ClaimRequest,
        until: Timestamp,
        setup: &Setup,
        stale: &std::sync::Mutex<Vec<String>>,
    ) -> Result<Tried, StoreError> {
        let id = hint.id.clone();
        let _turn = self.turn(&hint.cell).await;
        let mut loaded = match self.recall(&hint.cell).await {
            Err(error @ StoreError::Corrupt { .. }) => {
                // One broken object does not stop other work (contract 9.5); the doctor tells of it.
                tracing::warn!(%error, "a job is passed over");
                self.pass_over(&hint.name, self.moment().now);
                return Ok(Tried::Nothing);
            }
            loaded => loaded?,
        };
        let mut raced = false;
        let mut tried: Vec<(u64, Option<Claimed>)> = Vec::new();
        loop {
            let moment = self.moment();
            let mut cell = loaded.cell();
            cell.void(setup, moment);
            cell.expire(moment);
            if !is_claimable(&cell, &id, &hint, setup, moment) {
                if loaded.remembered {
                    loaded = self.read(&hint.cell).await?;
                    continue;
                }
                if raced {
                    return Ok(Tried::Taken);
                }
                self.mind(&hint, &loaded, &id, stale).await?;
                self.pass_over(&hint.name, moment.now);
                return Ok(Tried::Nothing);
            }
            let claimed = take(&mut cell, &id, request, until, &self.fence, moment);
            let leased = |claimed: Option<Claimed>| {
                claimed.map_or(Tried::Nothing, |claimed| Tried::Leased(Box::new(claimed)))
            };
            let nonce = random();
            tried.push((nonce, claimed.clone()));
            if let Committed::Done(hints) = self.commit(&loaded, cell, nonce, moment).await? {
                self.advertise_late(until, &hint.cell, &id).await?;
                stale.lock().expect("nobody panics with it").extend(hints);
                return Ok(leased(claimed));
            }
            raced = !loaded.remembered;
            loaded = self.read(&hint.cell).await?;
            // Any of its writes: one of which nothing was heard may have been done while it tried again.
            let written = |(nonce, _): &(u64, _)| {
                let now = loaded.base.as_ref();
                now.is_some_and(|(_, now)| now.was_written_by(*nonce))
            };
            if let Some(at) = tried.iter().position(written) {
                self.advertise_late(until, &hint.cell, &id).await?;
                return Ok(leased(tried.swap_remove(at).1));
            }
        }
    }

    /// A hint that leads to nothing now goes, once the entry for where its job is now is there (rule 3). One that is
    /// ahead of its job stays: its write may still be on its way.
    async fn mind(
        &self,
        hint: &Hint,
        loaded: &Loaded,
        id: &JobId,
        stale: &std::sync::Mutex<Vec<String>>,
    ) -> Result<(), StoreError> {
        let job = loaded.base.as_ref().and_then(|(_, cell)| cell.find(id));
        let ahead =
            job.is_none_or(|job| layout::nth_place(hint.placement) > layout::nth_place(job.placement));
        if ahead {
            if host_seconds() - hint.written > LEFTOVER {
                stale
                    .lock()
                    .expect("nobody panics with it")
                    .push(hint.name.clone());
            }
            return Ok(());
        }
        let Some(job) = job else { return Ok(()) };
        let current = layout::hint(&hint.cell, job);
        match (job.life.phase, job.life.until) {
            (Phase::Waiting, _) if current == hint.name => return Ok(()),
            (Phase::Waiting, _) => self.bucket.put(&current, Vec::new()).await?,
            (Phase::Running, Some(until)) => {
                let token = format!("{:016x}", random());
                self.advertise(until, &token, vec![(hint.cell.clone(), id.clone())])
                    .await?;
            }
            _ => {}
        }
        stale
            .lock()
            .expect("nobody panics with it")
            .push(hint.name.clone());
        Ok(())
    }

    /// The jobs of a claim that still run under it.
    async fn claimed(&self, claim: &Claim, token: Token) -> Result<Vec<Claimed>, StoreError> {
        let now = self.moment().now;
        let jobs = claim.jobs.iter().map(|(cell, id)| {
            let read = async move {
                let loaded = self.read(cell).await?;
                let job = loaded.base.as_ref().and_then(|(_, cell)| cell.find(id));
                Ok(job.and_then(|job| leased(job, token, now)))
            };
            read.boxed()
        });
        let jobs: Vec<Option<Claimed>> = at_once(jobs.collect()).await?;
        let mut found: Vec<Claimed> = Vec::new();
        for claimed in jobs.into_iter().flatten() {
            if !found.iter().any(|known| known.job.id == claimed.job.id) {
                found.push(claimed);
            }
        }
        Ok(found)
    }

    /// Work that was held back while it was being leased is not handed out (contract 6.1).
    async fn hand_back_paused(&self, given: Vec<Claimed>) -> Result<Vec<Claimed>, StoreError> {
        let setup = self.setup().await?;
        let now = self.moment().now;
        let (held, given): (Vec<Claimed>, Vec<Claimed>) = given.into_iter().partition(|claimed| {
            let lane = crate::record::Lane {
                queue: claimed.job.queue.clone(),
                task: claimed.job.task.clone(),
            };
            setup.is_paused(&lane, now)
        });
        if !held.is_empty() {
            let settlement = |claimed: Claimed| Settlement {
                id: claimed.job.id,
                fence: claimed.fence,
                result: Settle::HandBack,
            };
            self.settle(held.into_iter().map(settlement).collect()).await?;
        }
        Ok(given)
    }
}

fn is_claimable(cell: &Cell, id: &JobId, hint: &Hint, setup: &Setup, moment: Moment) -> bool {
    cell.find(id).is_some_and(|job| {
        job.life.phase == Phase::Waiting
            && job.life.run_at <= moment.now
            && layout::hint(&hint.cell, job) == hint.name
            && !setup.is_paused(&job.lane(), moment.now)
    })
}

fn take(
    cell: &mut Cell,
    id: &JobId,
    request: &ClaimRequest,
    until: Timestamp,
    given: &AtomicI64,
    moment: Moment,
) -> Option<Claimed> {
    let job = cell.find(id)?;
    let highest = job.life.fence.max(cell.fence).max(given.load(Ordering::Acquire));
    let fence = lifecycle::next_fence(highest, moment.micros);
    given.fetch_max(fence, Ordering::AcqRel);
    let life = lifecycle::lease(&job.life, fence, until, moment.now);
    cell.fence = fence;
    cell.advance(id, life, moment);
    cell.amend(id, |record| {
        record.worker = Some(request.worker.clone());
        record.claim = Some(request.token);
    });
    cell.find(id)
        .and_then(|job| leased(job, request.token, moment.now))
}

fn leased(job: &Record, token: Token, now: Timestamp) -> Option<Claimed> {
    let runs = job.life.phase == Phase::Running && job.claim == Some(token);
    let lease_until = job.life.until.filter(|_| runs)?;
    Some(Claimed {
        job: job.view(now),
        fence: job.life.fence,
        lease_until,
    })
}
