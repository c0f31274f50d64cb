//! Every change in the life of a job after its admission, as pure functions over (what is stored,
//! what is asked, now). Stores read a [`Life`], ask here, and write the answer back atomically.
//!
//! | from | by | to |
//! |---|---|---|
//! | waiting | [`lease`] | running |
//! | running | [`settle`] complete / fail / cancel | complete / failed / cancelled |
//! | running | [`settle`] retry | waiting, or failed at the last attempt |
//! | running | [`settle`] snooze, hand back | waiting |
//! | running | [`settle`] park | parked |
//! | running | [`expire`] | waiting, or failed at the last delivery |
//! | waiting, after its lease expired | [`extend`], [`settle`] with the newest fence | as if it had not expired |
//! | deferred | [`crate::admission::promote`] | waiting |
//! | parked | [`unpark`] | waiting |
//! | any but terminal | [`cancel`] | cancelled |
//! | failed, cancelled | [`retry`] | waiting, in a new life |

use serde::{Deserialize, Serialize};

use crate::backoff::backoff;
use crate::dedup::{Hold, HoldKind, Holding};
use crate::ids::JobId;
use crate::job::{Life, Phase, State};
use crate::json::Json;
use crate::limits;
use crate::time::{Millis, Timestamp};

/// How an attempt ended, said by the worker (contract 4.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settle {
    /// With an output.
    Complete {
        /// What the handler gave.
        output: Option<Json>,
    },
    /// With an error that another attempt may not have.
    Retry {
        /// What went wrong.
        error: String,
        /// When to try again, if not after the usual backoff.
        delay: Option<Millis>,
    },
    /// With an error that no attempt will be spared.
    Fail {
        /// What went wrong.
        error: String,
    },
    /// Not now; costs nothing.
    Snooze {
        /// When to try again.
        delay: Millis,
    },
    /// Not by me; costs nothing.
    HandBack,
    /// An operator has to decide (contract 5.2).
    Park {
        /// Why.
        reason: String,
    },
    /// The handler noticed that it was no longer wanted.
    Cancel,
}

/// Why a worker's write was refused. Nothing was changed (contract 1.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// Another lease is newer, or the job has ended.
    LeaseLost,
    /// The job was cancelled.
    Cancelled,
}

/// How a delivery ended, for the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptResult {
    /// It gave an output.
    Complete,
    /// It gave an error and will be tried again.
    Error,
    /// It gave an error and will not.
    Failed,
    /// It asked for later.
    Snoozed,
    /// It was given back.
    HandedBack,
    /// It waits for an operator.
    Parked,
    /// It was cancelled.
    Cancelled,
    /// Its worker was not heard of in time.
    Expired,
}

/// A delivery that has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptEnd {
    /// Which attempt it was.
    pub attempt: u32,
    /// Under which fence.
    pub fence: i64,
    /// When it began.
    pub began_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Timestamp,
    /// How.
    pub result: AttemptResult,
    /// What went wrong.
    pub error: Option<String>,
}

/// An accepted settlement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It was settled with this fence before: the first answer stands (contract 1.6).
    Before(State),
    /// The job moves on.
    Moved {
        /// Its life from now on.
        life: Box<Life>,
        /// The delivery that ended.
        end: AttemptEnd,
    },
}

/// The fence of a new lease: grows even when the clock does not (contract 1.5).
pub fn next_fence(previous: i64, micros: i64) -> i64 {
    previous.saturating_add(1).max(micros)
}

/// A waiting job goes to a worker.
pub fn lease(life: &Life, fence: i64, until: Timestamp, now: Timestamp) -> Life {
    let mut next = noted(life, now);
    next.phase = Phase::Running;
    next.attempt = next.attempt.saturating_add(1);
    next.fence = fence;
    next.settled = None;
    next.began = Some(now);
    next.until = Some(until);
    next.started_at = life.started_at.or(Some(now));
    if let Some(holding) = &mut next.holding {
        holding.freed |= holding.hold.kind == HoldKind::UntilStarted;
    }
    next
}

/// Whether a worker with this fence may still write (contract 1.5).
///
/// The newest fence may, even after its lease has expired, for as long as nobody else was given the job.
pub fn may_write(life: &Life, fence: i64) -> Result<(), Refusal> {
    let open = matches!(life.phase, Phase::Running | Phase::Waiting);
    if fence > 0 && fence == life.fence && life.settled.is_none() && open {
        return Ok(());
    }
    Err(refusal(life))
}

fn refusal(life: &Life) -> Refusal {
    if life.phase == Phase::Cancelled {
        Refusal::Cancelled
    } else {
        Refusal::LeaseLost
    }
}

/// A heartbeat.
pub fn extend(life: &Life, fence: i64, until: Timestamp, now: Timestamp) -> Result<Life, Refusal> {
    may_write(life, fence)?;
    let mut next = noted(life, now);
    let ran_out = life.until.is_none_or(|old| old <= now);
    if ran_out {
        // The key may have lapsed in between: a lease that begins anew does not bring it back.
        next.began = Some(now);
    }
    if life.phase == Phase::Waiting {
        next.phase = Phase::Running;
        next.attempt = next.attempt.saturating_add(1);
    }
    next.until = Some(until);
    Ok(next)
}

/// An attempt has ended.
pub fn settle(
    life: &Life,
    id: &JobId,
    fence: i64,
    result: &Settle,
    now: Timestamp,
) -> Result<Settled, Refusal> {
    if let (true, Some(state)) = (fence > 0 && fence == life.fence, life.settled) {
        return Ok(Settled::Before(state));
    }
    may_write(life, fence)?;
    let mut next = noted(life, now);
    if life.phase == Phase::Waiting {
        // Its lease had expired and gave the attempt back; it did run after all.
        next.attempt = next.attempt.saturating_add(1);
    }
    let end = |result, error: Option<&str>| AttemptEnd {
        attempt: next.attempt,
        fence,
        began_at: life.began,
        ended_at: now,
        result,
        error: error.map(|text| limits::cut(text, limits::ERROR_BYTES).to_owned()),
    };
    let (phase, end) = match result {
        Settle::Complete { .. } => (Phase::Complete, end(AttemptResult::Complete, None)),
        Settle::Retry { error, .. } if next.attempt < next.max_attempts => {
            (Phase::Waiting, end(AttemptResult::Error, Some(error)))
        }
        Settle::Retry { error, .. } | Settle::Fail { error } => {
            (Phase::Failed, end(AttemptResult::Failed, Some(error)))
        }
        Settle::Snooze { .. } => (Phase::Waiting, end(AttemptResult::Snoozed, None)),
        Settle::HandBack => (Phase::Waiting, end(AttemptResult::HandedBack, None)),
        Settle::Park { reason } => (Phase::Parked, end(AttemptResult::Parked, Some(reason))),
        Settle::Cancel => (Phase::Cancelled, end(AttemptResult::Cancelled, None)),
    };
    match result {
        Settle::Retry { delay, .. } if phase == Phase::Waiting => {
            next.run_at = now.plus(delay.unwrap_or_else(|| backoff(id, next.attempt)));
        }
        Settle::Snooze { delay } => {
            next.run_at = now.plus(*delay);
            next.attempt = next.attempt.saturating_sub(1);
        }
        Settle::HandBack | Settle::Park { .. } => next.attempt = next.attempt.saturating_sub(1),
        _ => {}
    }
    next.phase = phase;
    next.until = None;
    next.finished_at = phase.is_terminal().then_some(now);
    next.settled = Some(next.state(now));
    Ok(Settled::Moved {
        life: Box::new(next),
        end,
    })
}

/// Whether a running job's lease has run out.
pub fn is_expired(life: &Life, now: Timestamp) -> bool {
    life.phase == Phase::Running && life.until.is_some_and(|until| until <= now)
}

/// A lease has run out: costs a delivery, no attempt (contract 1.7).
pub fn expire(life: &Life, now: Timestamp, micros: i64) -> (Life, AttemptEnd) {
    let mut next = noted(life, now);
    next.deliveries = next.deliveries.saturating_add(1);
    next.until = None;
    let dead = next.deliveries >= next.max_deliveries;
    let error = dead.then(|| format!("the lease expired {} times", next.deliveries));
    let end = AttemptEnd {
        attempt: life.attempt,
        fence: life.fence,
        began_at: life.began,
        ended_at: now,
        result: AttemptResult::Expired,
        error,
    };
    next.attempt = next.attempt.saturating_sub(1);
    next.phase = Phase::Waiting;
    if dead {
        next.phase = Phase::Failed;
        next.finished_at = Some(now);
        next.fence = next_fence(life.fence, micros);
    }
    (next, end)
}

/// Ends a job that has not ended; its fence is raised, so its worker's late writes are refused (contract 6.2).
pub fn cancel(life: &Life, now: Timestamp, micros: i64) -> Result<Life, State> {
    if life.phase.is_terminal() {
        return Err(life.state(now));
    }
    let mut next = noted(life, now);
    next.phase = Phase::Cancelled;
    next.fence = next_fence(life.fence, micros);
    next.settled = None;
    next.until = None;
    next.finished_at = Some(now);
    Ok(next)
}

/// A new life for a failed or cancelled job: attempts and deliveries restart, fence goes on (contract 6.3).
///
/// The caller has made sure that no other job holds the key; it is taken again here. `keyed` says that the
/// job has one: a follower that was cancelled never took it, and takes it now.
pub fn retry(life: &Life, keyed: bool, now: Timestamp, micros: i64, generation: i64) -> Result<Life, State> {
    if !matches!(life.phase, Phase::Failed | Phase::Cancelled) {
        return Err(life.state(now));
    }
    let holding = match &life.holding {
        Some(holding) if holding.is_held(life, now) => Some(holding.clone()),
        _ => taken_again(life, keyed, now, generation),
    };
    Ok(Life {
        phase: Phase::Waiting,
        run_at: now,
        attempt: 0,
        deliveries: 0,
        fence: next_fence(life.fence, micros),
        settled: None,
        until: None,
        finished_at: None,
        holding,
        ..life.clone()
    })
}

/// The life of the fresh job that replays a dead letter (contract 6.5).
pub fn replay(letter: &Life, keyed: bool, now: Timestamp, generation: i64) -> Life {
    let holding = taken_again(letter, keyed, now, generation);
    Life {
        phase: Phase::Waiting,
        run_at: now,
        attempt: 0,
        deliveries: 0,
        fence: 0,
        settled: None,
        began: None,
        until: None,
        started_at: None,
        finished_at: None,
        holding,
        ..letter.clone()
    }
}

/// Only a follower has a key it never took, and only a plain `until_finished` can follow.
fn taken_again(life: &Life, keyed: bool, now: Timestamp, generation: i64) -> Option<Holding> {
    let (hold, observed) = match &life.holding {
        Some(old) => (old.hold, old.observed),
        None => (Hold::until_finished(), false),
    };
    keyed.then(|| Holding::take(hold, now, generation, observed))
}

/// Lets go of a key by hand, or to another owner.
pub fn let_go(life: &Life) -> Life {
    let mut next = life.clone();
    if let Some(holding) = &mut next.holding {
        holding.freed = true;
    }
    next
}

/// A parked job goes back to the queue once an operator has decided (contract 5.2).
pub fn unpark(life: &Life, now: Timestamp) -> Option<Life> {
    (life.phase == Phase::Parked).then(|| Life {
        phase: Phase::Waiting,
        run_at: now,
        ..noted(life, now)
    })
}

/// Writes down that a key has lapsed, so that no later lease or end brings it back (contract 2.4).
fn noted(life: &Life, now: Timestamp) -> Life {
    let mut next = life.clone();
    if let Some(holding) = &mut next.holding {
        holding.freed |= !holding.is_held(life, now);
    }
    next
}
