//! Named effects inside a job: begun, confirmed, or in doubt (contract 5.1, 5.2).

use serde::{Deserialize, Serialize};

use crate::ids::{Digest, JobId, Name, Token};
use crate::json::Json;
use crate::time::Timestamp;

/// Where a step stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepState {
    /// The effect may have happened.
    Begun,
    /// It happened; its output is stored and never changes.
    Confirmed,
    /// It certainly did not happen.
    Refused,
}

/// What is stored of a step. It belongs to the origin, so retries and replays find it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepRecord {
    /// The first job of the chain.
    pub origin: JobId,
    /// The name the handler gave it.
    pub name: Name,
    /// Where it stands.
    pub state: StepState,
    /// The job that is at it, or was last.
    pub job: JobId,
    /// Under this fence.
    pub fence: i64,
    /// By this call.
    pub token: Token,
    /// Moves the downstream key on: raised only when the effect certainly did not happen.
    pub generation: u32,
    /// When it was begun last.
    pub begun_at: Timestamp,
    /// When it was confirmed or refused.
    pub ended_at: Option<Timestamp>,
    /// What it gave.
    pub output: Option<Json>,
}

/// What a worker says about a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepPhase {
    /// I am about to do it. The token makes a repeated call the same call.
    Begin {
        /// Of this call.
        token: Token,
    },
    /// It happened.
    Confirm {
        /// What it gave.
        output: Json,
    },
    /// It certainly did not happen.
    Refused,
}

/// The answer to a worker, once its fence was found good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepAnswer {
    /// Go on: the effect has not happened, or is confirmed as said.
    Ok {
        /// The key to hand downstream.
        key: Digest,
    },
    /// It happened before; do not run it.
    Confirmed {
        /// What it gave.
        output: Json,
    },
    /// An earlier run may have done it.
    InDoubt {
        /// The key that run handed downstream.
        key: Digest,
    },
    /// Nothing to confirm or refuse: it was never begun.
    NotBegun,
}

/// The effect of a call on the stored step: what to write, if anything, and the answer without its key.
pub enum StepChange {
    /// Write this and say so.
    Write(StepRecord, Verdict),
    /// Write nothing.
    Keep(Verdict),
}

/// A [`StepAnswer`] before the downstream key is derived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// [`StepAnswer::Ok`].
    Ok,
    /// [`StepAnswer::Confirmed`].
    Confirmed(Json),
    /// [`StepAnswer::InDoubt`].
    InDoubt,
    /// [`StepAnswer::NotBegun`].
    NotBegun,
}

/// Who speaks: a job under its newest fence.
#[derive(Clone, Debug)]
pub struct Speaker {
    /// The chain the step belongs to.
    pub origin: JobId,
    /// The job.
    pub job: JobId,
    /// Its fence, already found to be the newest.
    pub fence: i64,
}

/// Judges what a worker says about a step.
pub fn step(
    stored: Option<&StepRecord>,
    speaker: &Speaker,
    name: &Name,
    phase: &StepPhase,
    now: Timestamp,
) -> StepChange {
    match (phase, stored) {
        (_, Some(record)) if record.state == StepState::Confirmed => StepChange::Keep(Verdict::Confirmed(
            record.output.clone().unwrap_or_else(Json::null),
        )),
        (StepPhase::Begin { token }, stored) => begin(stored, speaker, name, *token, now),
        (_, None) => StepChange::Keep(Verdict::NotBegun),
        (StepPhase::Confirm { .. }, Some(record)) if record.state == StepState::Refused => {
            StepChange::Keep(Verdict::NotBegun)
        }
        (StepPhase::Confirm { output }, Some(record)) => {
            let confirmed = StepRecord {
                state: StepState::Confirmed,
                ended_at: Some(now),
                output: Some(output.clone()),
                ..record.clone()
            };
            StepChange::Write(confirmed, Verdict::Ok)
        }
        (StepPhase::Refused, Some(record)) if record.state == StepState::Refused => {
            StepChange::Keep(Verdict::Ok)
        }
        (StepPhase::Refused, Some(record)) => StepChange::Write(refused(record, now), Verdict::Ok),
    }
}

fn begin(
    stored: Option<&StepRecord>,
    speaker: &Speaker,
    name: &Name,
    token: Token,
    now: Timestamp,
) -> StepChange {
    let fresh = |generation| StepRecord {
        origin: speaker.origin.clone(),
        name: name.clone(),
        state: StepState::Begun,
        job: speaker.job.clone(),
        fence: speaker.fence,
        token,
        generation,
        begun_at: now,
        ended_at: None,
        output: None,
    };
    match stored {
        None => StepChange::Write(fresh(0), Verdict::Ok),
        Some(record) if record.state == StepState::Refused => {
            StepChange::Write(fresh(record.generation), Verdict::Ok)
        }
        // The same call again, after a lost reply: the effect has not been started yet.
        Some(record) if record.token == token && record.fence == speaker.fence => {
            StepChange::Keep(Verdict::Ok)
        }
        // Whoever asks is at it now: nobody else decides about it meanwhile. The call that began it stays known.
        Some(record) => {
            let taken_up = StepRecord {
                job: speaker.job.clone(),
                fence: speaker.fence,
                ..record.clone()
            };
            StepChange::Write(taken_up, Verdict::InDoubt)
        }
    }
}

fn refused(record: &StepRecord, now: Timestamp) -> StepRecord {
    StepRecord {
        state: StepState::Refused,
        generation: record.generation + 1,
        ended_at: Some(now),
        output: None,
        ..record.clone()
    }
}

/// What an operator decides about a step in doubt (contract 5.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// It happened, and gave this.
    Happened {
        /// What it gave.
        output: Json,
    },
    /// It did not happen.
    DidNot,
}

/// The step as the operator decided.
pub fn resolve(record: &StepRecord, resolution: &Resolution, now: Timestamp) -> StepRecord {
    match resolution {
        Resolution::Happened { output } => StepRecord {
            state: StepState::Confirmed,
            ended_at: Some(now),
            output: Some(output.clone()),
            ..record.clone()
        },
        Resolution::DidNot => refused(record, now),
    }
}
