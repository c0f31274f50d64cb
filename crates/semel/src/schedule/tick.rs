//! Carrying out a tick once, however many schedulers there are and whenever one of them dies (contract 6.7).
//!
//! 1. The document is moved on to a pending tick, by compare-and-swap: one scheduler wins.
//! 2. The job is submitted under the pending token and the key (schedule, due time): again and again is once.
//! 3. The document is moved on to the settled tick.
//!
//! Whoever finds a pending tick goes on at 2. A tick that could not be submitted before the next one is due
//! is missed: the latest counts.

use semel_core::dedup::{Dedup, Hold, OnMismatch, Scope};
use semel_core::error::StoreError;
use semel_core::ids::{JobId, Name};
use semel_core::store::{Act, Expect, Store, Submitted};
use semel_core::submission::{Policy, Submission};
use semel_core::time::{Millis, Timestamp};

use crate::ids;
use crate::schedule::Overlap;
use crate::schedule::cron::Cron;
use crate::schedule::document::{self, Kept, Pending, Tick, TickOutcome, Versioned};

/// How long a tick's key is kept: as long as a completed job.
const KEY_KEPT: Millis = Millis::from_days(7);

/// The scope of all ticks' keys.
const SCOPE: &str = "semel schedule";

/// Carries out what is due of a schedule; says when it is due next.
pub(crate) async fn tick(
    store: &dyn Store,
    mut schedule: Versioned,
    now: Timestamp,
) -> Result<Option<Timestamp>, StoreError> {
    let cron = match Cron::new(&schedule.kept.schedule.cron, &schedule.kept.schedule.zone, now) {
        Ok(cron) => cron,
        // It came to pass when it was made; it never will again.
        Err(_) => return Ok(None),
    };
    let latest = cron
        .latest(now)
        .filter(|due| *due > schedule.kept.settled_until());
    if let Some(pending) = schedule.kept.pending.clone() {
        let is_latest = latest.is_none_or(|due| due <= pending.due);
        if is_latest || is_submitted(store, &schedule.kept, &pending).await? {
            schedule = match complete(store, schedule, pending).await? {
                Some(schedule) => schedule,
                None => return Ok(cron.next(now)),
            };
        }
    }
    if let Some(due) = latest.filter(|due| *due > schedule.kept.settled_until()) {
        begin(store, schedule, due).await?;
    }
    Ok(cron.next(now))
}

/// Whether a scheduler died after it had submitted. Asked by the tick's key: what id its job has is for the store to say.
async fn is_submitted(store: &dyn Store, kept: &Kept, pending: &Pending) -> Result<bool, StoreError> {
    let explained = store.explain(submission(kept, pending)?).await?;
    Ok(explained.holder.is_some())
}

/// A new tick: judged against the job of the tick before.
async fn begin(store: &dyn Store, schedule: Versioned, due: Timestamp) -> Result<(), StoreError> {
    let before = schedule.kept.last.as_ref().and_then(|tick| tick.job.clone());
    let in_the_way = still_going(store, before).await?;
    let overlap = schedule.kept.schedule.overlap;
    let mut kept = schedule.kept;
    let expect = Expect::Version(schedule.version);
    if let (Some(job), Overlap::Skip) = (&in_the_way, overlap) {
        tracing::info!(schedule = %kept.schedule.name, %due, job_id = %job, "a tick is skipped: the job before is not done");
        kept.skipped += 1;
        kept.pending = None;
        kept.last = Some(Tick {
            due,
            outcome: TickOutcome::Skipped,
            job: Some(job.clone()),
            error: None,
        });
        document::write(store, &kept, expect).await?;
        return Ok(());
    }
    let pending = Pending {
        due,
        token: ids::fresh_token(),
        replaces: in_the_way.filter(|_| overlap == Overlap::Replace),
    };
    kept.pending = Some(pending.clone());
    // Another scheduler was first, or somebody changed the schedule: it is looked at again next time.
    let Some(version) = document::write(store, &kept, expect).await? else {
        return Ok(());
    };
    complete(store, Versioned { kept, version }, pending).await?;
    Ok(())
}

/// Submits a pending tick and writes down what came of it.
async fn complete(
    store: &dyn Store,
    schedule: Versioned,
    pending: Pending,
) -> Result<Option<Versioned>, StoreError> {
    if let Some(id) = pending.replaces.clone() {
        // It may have ended by itself, or by another scheduler: all that matters is that it has.
        store.act(vec![Act::Cancel { id }]).await?;
    }
    let submission = submission(&schedule.kept, &pending)?;
    let answer = store.submit(vec![submission]).await?.into_iter().next();
    let Some(tick) = answer.and_then(|answer| came_to(&pending, answer)) else {
        return Ok(None);
    };
    let mut kept = schedule.kept;
    kept.last = Some(tick);
    kept.pending = None;
    let version = document::write(store, &kept, Expect::Version(schedule.version)).await?;
    Ok(version.map(|version| Versioned { kept, version }))
}

/// `None`: not yet; the tick stays pending.
fn came_to(pending: &Pending, answer: Submitted) -> Option<Tick> {
    let due = pending.due;
    match answer {
        Submitted::Job(admitted) => Some(Tick {
            due,
            outcome: match pending.replaces {
                Some(_) => TickOutcome::Replaced,
                None => TickOutcome::Submitted,
            },
            job: Some(admitted.job.id),
            error: None,
        }),
        // The key of this tick is somebody's already: it has run, whatever its task was called then.
        Submitted::Rejected { holder } | Submitted::Conflict { holder, .. } => Some(Tick {
            due,
            outcome: TickOutcome::Submitted,
            job: Some(holder.id),
            error: None,
        }),
        Submitted::Closed { .. } => None,
        Submitted::Invalid(invalid) => Some(Tick {
            due,
            outcome: TickOutcome::Refused,
            job: None,
            error: Some(invalid.to_string()),
        }),
    }
}

fn submission(kept: &Kept, pending: &Pending) -> Result<Submission, StoreError> {
    let schedule = &kept.schedule;
    let key = format!("{}@{}", schedule.name, pending.due);
    let policy = Dedup::explicit(key)
        .scope(Scope::Custom(Name::new(SCOPE)?))
        .hold(Hold::window(KEY_KEPT))
        .on_mismatch(OnMismatch::Ignore);
    let mut submission = schedule.submission(pending.token);
    submission.policy = Policy::from(policy);
    submission
        .content
        .headers
        .insert("semel-due".to_owned(), pending.due.to_string());
    Ok(submission)
}

/// The job, if it has not ended.
async fn still_going(store: &dyn Store, id: Option<JobId>) -> Result<Option<JobId>, StoreError> {
    let Some(id) = id else { return Ok(None) };
    let found = store.jobs_by_id(std::slice::from_ref(&id)).await?;
    let going = found
        .into_iter()
        .flatten()
        .next()
        .is_some_and(|job| !job.state.is_terminal());
    Ok(going.then_some(id))
}
