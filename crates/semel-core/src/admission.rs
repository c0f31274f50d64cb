//! The one admission function (contract 2): single, batch, event, scheduled, replayed and relayed
//! submissions are all judged here, against the job that holds the key, if one does.
//!
//! A store finds the holder, asks [`admit`], and applies the decision in the same atomic step.

use crate::dedup::{Dedup, Hold, Holding, KeyBy, Mode, OnDuplicate, OnMismatch};
use crate::ids::{Digest, JobId, Name};
use crate::job::{Life, Outcome, Phase, Would};
use crate::submission::{Prepared, RunAt};
use crate::time::Timestamp;

/// What has to be known about the job that holds the key.
#[derive(Clone, Debug)]
pub struct Holder<'a> {
    /// Its identity.
    pub id: &'a JobId,
    /// Its task.
    pub task: &'a Name,
    /// When it was admitted: debounce counts its longest wait from here.
    pub enqueued_at: Timestamp,
    /// Its canonical input, hashed.
    pub input: Digest,
    /// How it fares.
    pub life: &'a Life,
}

impl Holder<'_> {
    fn observes(&self) -> bool {
        self.life.holding.as_ref().is_some_and(|holding| holding.observed)
    }

    fn can_be_followed(&self) -> bool {
        self.life
            .holding
            .as_ref()
            .is_some_and(|holding| holding.hold.is_plain_until_finished())
    }
}

/// What to do with a submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Make a job of it.
    Accept {
        /// The life it begins.
        life: Box<Life>,
        /// For an observing submission that met a holder.
        would: Option<Would>,
        /// Whether the key is taken from a holder that only observes.
        takes_over: bool,
    },
    /// The key is held: point to the holder, change nothing but the ledger.
    Absorb {
        /// Duplicate, rejected or conflict.
        outcome: Outcome,
    },
    /// Put the content into the holder.
    Replace {
        /// Replaced or debounced.
        outcome: Outcome,
        /// The holder's life from now on.
        life: Box<Life>,
    },
    /// Put the content into the job that follows the holder, making that job if there is none.
    Defer {
        /// The life of the follower.
        life: Box<Life>,
    },
}

/// Judges a submission at `now`. `holder` is the job that holds its key at `now`, if one does.
///
/// `generation` is given to the key if it is taken. `observe` is true where an operator has put the
/// queue or task into observe mode.
pub fn admit(
    prepared: &Prepared,
    holder: Option<&Holder<'_>>,
    observe: bool,
    now: Timestamp,
    generation: i64,
) -> Decision {
    let Some(policy) = prepared.policy() else {
        return accept(prepared, None, now, None);
    };
    let observes = observe || policy.mode == Mode::Observe;
    let take = || Some(take_key(prepared, policy, now, generation, observes));
    match holder {
        None => accept(prepared, take(), now, None),
        Some(holder) if observes => {
            let would = Would {
                outcome: judge(prepared, policy, holder),
                holder: holder.id.clone(),
            };
            accept(prepared, None, now, Some(would))
        }
        Some(holder) if holder.observes() => match accept(prepared, take(), now, None) {
            Decision::Accept { life, would, .. } => Decision::Accept {
                life,
                would,
                takes_over: true,
            },
            other => other,
        },
        Some(holder) => absorb(prepared, policy, holder, now),
    }
}

/// The outcome of a submission that meets a holder: the tables of contract 2.5 and 2.6.
pub fn judge(prepared: &Prepared, policy: &Dedup, holder: &Holder<'_>) -> Outcome {
    if mismatches(prepared, policy, holder) {
        return Outcome::Conflict;
    }
    let started = holder.life.is_started();
    let ended = holder.life.phase.is_terminal();
    match policy.on_duplicate {
        OnDuplicate::UseExisting => Outcome::Duplicate,
        OnDuplicate::Reject => Outcome::Rejected,
        OnDuplicate::Replace if !started && !ended => Outcome::Replaced,
        OnDuplicate::Debounce { .. } if !started && !ended => Outcome::Debounced,
        OnDuplicate::Latest if !started && !ended => Outcome::Replaced,
        OnDuplicate::Latest if started && !ended && holder.can_be_followed() => Outcome::Deferred,
        OnDuplicate::Replace | OnDuplicate::Debounce { .. } | OnDuplicate::Latest => Outcome::Duplicate,
    }
}

/// Another task under the same key, or, for explicit keys that point or reject, another input (contract 2.6).
fn mismatches(prepared: &Prepared, policy: &Dedup, holder: &Holder<'_>) -> bool {
    let Some(key) = &prepared.key else { return false };
    let points = matches!(
        policy.on_duplicate,
        OnDuplicate::UseExisting | OnDuplicate::Reject
    );
    if holder.task != &prepared.submission.task {
        // Content made for one task is never handed to another, whatever the policy ignores.
        return !points || policy.on_mismatch == OnMismatch::Conflict;
    }
    points
        && policy.on_mismatch == OnMismatch::Conflict
        && key.by == KeyBy::Explicit
        && key.input != holder.input
}

fn absorb(prepared: &Prepared, policy: &Dedup, holder: &Holder<'_>, now: Timestamp) -> Decision {
    let outcome = judge(prepared, policy, holder);
    match outcome {
        Outcome::Replaced | Outcome::Debounced => {
            let run_at = start(prepared, policy, holder.enqueued_at, now);
            Decision::Replace {
                outcome,
                life: Box::new(replaced(prepared, holder.life, run_at)),
            }
        }
        Outcome::Deferred => {
            let mut life = fresh(prepared, prepared.submission.run_at.resolve(now));
            life.phase = Phase::Deferred;
            Decision::Defer { life: Box::new(life) }
        }
        outcome => Decision::Absorb { outcome },
    }
}

/// The life of a job that takes over the content of a newer submission.
pub fn replaced(prepared: &Prepared, life: &Life, run_at: Timestamp) -> Life {
    Life {
        priority: prepared.submission.priority,
        run_at,
        max_attempts: prepared.submission.max_attempts,
        ..life.clone()
    }
}

/// A follower at the moment its predecessor ends: it takes the key and waits its turn (contract 2.5).
///
/// Only a plain `until_finished` can follow, so that is the hold it takes the key with.
pub fn promote(life: &Life, now: Timestamp, generation: i64) -> Life {
    let holding = Holding::take(Hold::until_finished(), now, generation, false);
    Life {
        phase: Phase::Waiting,
        holding: Some(holding),
        ..life.clone()
    }
}

fn accept(prepared: &Prepared, holding: Option<Holding>, now: Timestamp, would: Option<Would>) -> Decision {
    let run_at = match prepared.policy() {
        Some(policy) => start(prepared, policy, now, now),
        None => prepared.submission.run_at.resolve(now),
    };
    let life = Life {
        holding,
        ..fresh(prepared, run_at)
    };
    Decision::Accept {
        life: Box::new(life),
        would,
        takes_over: false,
    }
}

fn fresh(prepared: &Prepared, run_at: Timestamp) -> Life {
    Life {
        phase: Phase::Waiting,
        priority: prepared.submission.priority,
        run_at,
        attempt: 0,
        max_attempts: prepared.submission.max_attempts,
        deliveries: 0,
        max_deliveries: prepared.submission.max_deliveries,
        fence: 0,
        settled: None,
        began: None,
        until: None,
        started_at: None,
        finished_at: None,
        holding: None,
    }
}

/// When the job starts; debounce moves it, bounded from the first submission on.
fn start(prepared: &Prepared, policy: &Dedup, first: Timestamp, now: Timestamp) -> Timestamp {
    match policy.on_duplicate {
        OnDuplicate::Debounce { delay, max_wait } => {
            let quiet = now.plus(delay);
            max_wait.map_or(quiet, |most| quiet.min(first.plus(most)))
        }
        _ => prepared.submission.run_at.resolve(now),
    }
}

/// A window over a calendar period is counted from the job's own time, or a job planned for
/// next week would have lost its key by then.
fn take_key(prepared: &Prepared, policy: &Dedup, now: Timestamp, generation: i64, observed: bool) -> Holding {
    let mut holding = Holding::take(policy.hold, now, generation, observed);
    if let (Some(_), RunAt::At(_) | RunAt::After(_)) = (&policy.period, prepared.submission.run_at) {
        let from = prepared.submission.run_at.resolve(now).max(now);
        holding.expires_at = policy.hold.ttl.map(|ttl| from.plus(ttl));
    }
    holding
}
