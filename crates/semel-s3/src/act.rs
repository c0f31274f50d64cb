//! What people do to jobs and keys.

use futures_util::FutureExt as _;
use semel_core::counters::Counter;
use semel_core::error::StoreError;
use semel_core::ids::{Digest, JobId, Name, Token};
use semel_core::job::{Outcome, Phase, Spec};
use semel_core::lifecycle::{self, AttemptEnd, AttemptResult};
use semel_core::limits;
use semel_core::step::{self, Resolution, StepRecord};
use semel_core::store::{Act, ActOutcome};
use semel_core::time::Timestamp;

use crate::bucket::Patience;
use crate::cell::{Cell, Pointer};
use crate::clock::{Moment, random};
use crate::desk::{Committed, Desk, each};
use crate::layout;
use crate::record::{Arrival, Record};
use crate::setup::Setup;
use crate::submit::{Asked, Ticket};

impl Desk {
    pub async fn act(&self, batch: Vec<Act>) -> Result<Vec<ActOutcome>, StoreError> {
        limits::check_batch("acts", batch.len())?;
        let setup = self.setup().await?;
        let setup = &*setup;
        self.tend(setup).await?;
        let homes = each(
            batch.iter().enumerate().collect(),
            |(at, _)| at.to_string(),
            |(_, act)| async move { self.home_of(act).await }.boxed(),
        )
        .await?;
        let now = self.moment().now;
        // The order of fresh jobs is that of the batch, whichever is written first.
        let items: Vec<(Act, Option<String>, Arrival)> = batch
            .into_iter()
            .zip(homes)
            .map(|(act, home)| (act, home, self.arrival(now)))
            .collect();
        let route = |(_, home, _): &(Act, Option<String>, Arrival)| home.clone().unwrap_or_default();
        each(items, route, |(act, home, arrival)| {
            async move {
                if let Err(invalid) = act.check() {
                    return Ok(ActOutcome::Invalid(invalid));
                }
                match home {
                    Some(home) => self.act_on(act, &home, arrival, setup).await,
                    None => Ok(ActOutcome::NotFound),
                }
            }
            .boxed()
        })
        .await
    }

    async fn home_of(&self, act: &Act) -> Result<Option<String>, StoreError> {
        match act {
            Act::Cancel { id } | Act::Retry { id } | Act::Replay { id, .. } | Act::Delete { id } => {
                self.home(id).await
            }
            Act::Release { digest, .. } => Ok(Some(layout::key_cell(*digest))),
            Act::Resolve { origin, .. } => self.home(origin).await,
        }
    }

    async fn act_on(
        &self,
        act: Act,
        home: &str,
        arrival: Arrival,
        setup: &Setup,
    ) -> Result<ActOutcome, StoreError> {
        if let Act::Replay { id, token } = act {
            let answer = self.replay(&id, token, arrival, home, setup).await?;
            if answer != ActOutcome::NotFound || !self.bring_home(&id, home).await? {
                return Ok(answer);
            }
            return self.replay(&id, token, arrival, home, setup).await;
        }
        let work = |cell: &mut Cell, moment: Moment| match &act {
            Act::Cancel { id } => cancel(cell, id, moment),
            Act::Retry { id } => retry(cell, id, moment),
            Act::Delete { id } => delete(cell, id, moment),
            Act::Release { digest, holder } => release(cell, *digest, holder, moment),
            Act::Resolve {
                origin,
                step,
                resolution,
            } => resolve(cell, origin, step, resolution, moment),
            Act::Replay { .. } => ActOutcome::NotFound,
        };
        let is_missing = |it: &ActOutcome| *it == ActOutcome::NotFound;
        match &act {
            Act::Release { .. } | Act::Replay { .. } => self.change(home, false, setup, work).await,
            Act::Cancel { id } | Act::Retry { id } | Act::Delete { id } | Act::Resolve { origin: id, .. } => {
                self.change_job(id, home, setup, is_missing, work).await
            }
        }
    }

    /// The letter is marked and the fresh job made in one write (contract 6.5).
    async fn replay(
        &self,
        id: &JobId,
        token: Token,
        arrival: Arrival,
        home: &str,
        setup: &Setup,
    ) -> Result<ActOutcome, StoreError> {
        let _turn = self.turn(home).await;
        let mut tried: Vec<(u64, ActOutcome)> = Vec::new();
        let mut asked = Asked::new(token);
        let mut patience = Patience::new();
        loop {
            let loaded = self.read(home).await?;
            if let Some((_, cell)) = &loaded.base
                && let Some((_, answer)) = tried.iter().find(|(nonce, _)| cell.was_written_by(*nonce))
            {
                return Ok(answer.clone());
            }
            let moment = self.moment();
            let mut cell = loaded.cell();
            cell.void(setup, moment);
            cell.expire(moment);
            if let Some(answer) = may_replay(&cell, id, setup, moment.now) {
                return Ok(answer);
            }
            if cell
                .jobs
                .iter()
                .any(|job| layout::is_made_by(&job.spec.id, token))
            {
                return Ok(ActOutcome::Invalid(Act::token_taken()));
            }
            let pointed = self
                .write_ticket(&mut asked, Some(home), setup, |cell| {
                    cell.points_to = Some(Pointer {
                        cell: home.to_owned(),
                        at: moment.now,
                    });
                })
                .await?;
            if let Ticket::Before(_) = pointed {
                return Ok(ActOutcome::Invalid(Act::token_taken()));
            }
            let fresh = layout::job_id(token, layout::digest_of(home));
            let answer = replay_as(&mut cell, id, fresh, arrival, setup, moment);
            let nonce = random();
            tried.push((nonce, answer.clone()));
            if let Committed::Done(stale) = self.commit(&loaded, cell, nonce, moment).await? {
                self.sweep(stale).await;
                return Ok(answer);
            }
            patience.again("replaying").await?;
        }
    }
}

fn done(record: &Record, now: Timestamp) -> ActOutcome {
    ActOutcome::Done {
        id: record.spec.id.clone(),
        state: record.state(now),
    }
}

fn done_in(cell: &Cell, id: &JobId, now: Timestamp) -> ActOutcome {
    cell.find(id)
        .map_or(ActOutcome::NotFound, |record| done(record, now))
}

fn cancel(cell: &mut Cell, id: &JobId, moment: Moment) -> ActOutcome {
    let Some(record) = cell.find(id) else {
        return ActOutcome::NotFound;
    };
    let life = match lifecycle::cancel(&record.life, moment.now, moment.micros) {
        Ok(life) => life,
        Err(state) => return ActOutcome::WrongState(state),
    };
    let lane = record.lane();
    let interrupted = (record.life.phase == Phase::Running).then_some(AttemptEnd {
        attempt: record.life.attempt,
        fence: record.life.fence,
        began_at: record.life.began,
        ended_at: moment.now,
        result: AttemptResult::Cancelled,
        error: None,
    });
    cell.count(&lane, Counter::Cancelled);
    if let Some(end) = interrupted {
        cell.amend(id, |record| record.close_attempt(end));
    }
    cell.advance(id, life, moment);
    done_in(cell, id, moment.now)
}

fn retry(cell: &mut Cell, id: &JobId, moment: Moment) -> ActOutcome {
    let Some(record) = cell.find(id) else {
        return ActOutcome::NotFound;
    };
    if let Some(by) = record.replayed_as.clone() {
        return ActOutcome::Replayed { by };
    }
    let generation = cell.next_generation(moment);
    let keyed = record.spec.key.is_some();
    let life = match lifecycle::retry(&record.life, keyed, moment.now, moment.micros, generation) {
        Ok(life) => life,
        Err(state) => return ActOutcome::WrongState(state),
    };
    if record.stub {
        // Its content is gone: there is nothing left to run.
        return ActOutcome::NotFound;
    }
    if let Some(holder) = other_holder(cell, record, moment.now) {
        return ActOutcome::Held {
            holder: holder.holder_view(moment.now),
        };
    }
    let lane = record.lane();
    cell.count(&lane, Counter::Retried);
    cell.amend(id, |record| {
        record.output = None;
        record.progress = None;
    });
    cell.advance(id, life, moment);
    done_in(cell, id, moment.now)
}

/// Another job that holds the key of this one.
fn other_holder<'a>(cell: &'a Cell, record: &Record, now: Timestamp) -> Option<&'a Record> {
    record.digest()?;
    cell.holder(now).filter(|holder| holder.spec.id != record.spec.id)
}

/// What stands in the way of a replay.
fn may_replay(cell: &Cell, id: &JobId, setup: &Setup, now: Timestamp) -> Option<ActOutcome> {
    let Some(record) = cell.find(id) else {
        return Some(ActOutcome::NotFound);
    };
    if let Some(id) = record.replayed_as.clone() {
        return Some(ActOutcome::Before { id });
    }
    if record.life.phase != Phase::Failed {
        return Some(ActOutcome::WrongState(record.state(now)));
    }
    if record.stub {
        return Some(ActOutcome::NotFound);
    }
    if let Some(target) = setup.closed(&record.spec.queue, &record.spec.task, now) {
        return Some(ActOutcome::Closed { target });
    }
    let holder = other_holder(cell, record, now)?;
    Some(ActOutcome::Held {
        holder: holder.holder_view(now),
    })
}

/// The letter's key moves over to the fresh job.
fn replay_as(
    cell: &mut Cell,
    letter: &JobId,
    id: JobId,
    arrival: Arrival,
    setup: &Setup,
    moment: Moment,
) -> ActOutcome {
    let Some(record) = cell.find(letter) else {
        return ActOutcome::NotFound;
    };
    let lane = record.lane();
    let keyed = record.spec.key.is_some();
    let life = lifecycle::replay(&record.life, keyed, moment.now, cell.next_generation(moment));
    let spec = Spec {
        id: id.clone(),
        enqueued_at: moment.now,
        replayed_from: Some(record.spec.id.clone()),
        would: None,
        collides_with: None,
        ..record.spec.clone()
    };
    cell.let_go(letter);
    cell.amend(letter, |record| record.replayed_as = Some(id.clone()));
    cell.count(&lane, Counter::Accepted);
    let state = life.state(moment.now);
    let era = setup.era(&lane.queue);
    cell.insert(Record::new(spec, life, Outcome::Accepted, arrival, era));
    ActOutcome::Done { id, state }
}

fn delete(cell: &mut Cell, id: &JobId, moment: Moment) -> ActOutcome {
    let Some(record) = cell.find(id) else {
        return ActOutcome::NotFound;
    };
    if !record.life.phase.is_terminal() {
        return ActOutcome::WrongState(record.state(moment.now));
    }
    let answer = done(record, moment.now);
    cell.drop_content(id, false, moment);
    answer
}

fn release(cell: &mut Cell, digest: Digest, holder: &JobId, moment: Moment) -> ActOutcome {
    let Some(record) = cell.holder(moment.now).filter(|job| job.digest() == Some(digest)) else {
        return ActOutcome::NotFound;
    };
    if record.spec.id != *holder {
        return ActOutcome::Held {
            holder: record.holder_view(moment.now),
        };
    }
    cell.let_go(holder);
    cell.promote_follower(holder, moment);
    done_in(cell, holder, moment.now)
}

fn resolve(
    cell: &mut Cell,
    origin: &JobId,
    name: &Name,
    resolution: &Resolution,
    moment: Moment,
) -> ActOutcome {
    let at = cell
        .steps
        .iter()
        .position(|step| step.origin == *origin && step.name == *name);
    let Some(at) = at else {
        return ActOutcome::NotFound;
    };
    let stored = &cell.steps[at];
    if !cell.is_in_doubt(stored) {
        return ActOutcome::NotInDoubt;
    }
    let began = cell.find(&stored.job).map(|job| job.spec.id.clone());
    let resolved = step::resolve(&StepRecord::from(stored), resolution, moment.now);
    cell.steps[at] = resolved.into();
    let mut of_chain = cell.steps.iter().filter(|step| step.origin == *origin);
    let doubts = of_chain.any(|step| cell.is_in_doubt(step));
    let mut chain: Vec<(Arrival, JobId)> = cell
        .jobs
        .iter()
        .filter(|job| job.spec.origin == *origin)
        .map(|job| (job.arrival, job.spec.id.clone()))
        .collect();
    chain.sort();
    let is_parked = |id: &JobId| cell.find(id).is_some_and(|job| job.life.phase == Phase::Parked);
    let parked = chain.iter().map(|(_, id)| id).find(|id| is_parked(id)).cloned();
    if !doubts {
        for (_, id) in &chain {
            let life = cell
                .find(id)
                .and_then(|job| lifecycle::unpark(&job.life, moment.now));
            if let Some(life) = life {
                cell.advance(id, life, moment);
            }
        }
    }
    match parked.or(began).or(chain.first().map(|(_, id)| id.clone())) {
        Some(id) => done_in(cell, &id, moment.now),
        None => ActOutcome::NotFound,
    }
}
