//! Once-only outside jobs: reserve a key, do the thing, confirm (contract 5.3).

use crate::ids::{Digest, Token};
use crate::json::Json;
use crate::time::{Millis, Timestamp};

/// What is stored of a guarded key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardRecord {
    /// The key.
    pub digest: Digest,
    /// Who reserved it: only this token confirms or releases.
    pub token: Token,
    /// For how long a reservation, and then its answer, is kept.
    pub ttl: Millis,
    /// When this record lapses.
    pub expires_at: Timestamp,
    /// The answer, once confirmed.
    pub output: Option<Json>,
}

/// What is asked of a guard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GuardCall {
    /// May I?
    Reserve {
        /// Makes a repeated call the same call, and proves ownership afterwards.
        token: Token,
        /// For how long.
        ttl: Millis,
    },
    /// I did; this came of it.
    Confirm {
        /// Of the reservation.
        token: Token,
        /// What came of it.
        output: Json,
    },
    /// I did not.
    Release {
        /// Of the reservation.
        token: Token,
    },
}

/// The answer of a guard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GuardAnswer {
    /// It is yours: do it, then confirm.
    Fresh,
    /// Someone else is at it.
    InProgress,
    /// It was done.
    Done(Json),
    /// Confirmed or released.
    Ok,
    /// The reservation is not, or no longer, yours. Nothing was changed.
    NotYours,
}

/// What to do with the stored record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GuardChange {
    /// Leave it.
    Keep,
    /// Write this.
    Write(GuardRecord),
    /// Remove it.
    Remove,
}

/// Judges a call against the stored record.
pub fn guard(
    stored: Option<&GuardRecord>,
    digest: Digest,
    call: &GuardCall,
    now: Timestamp,
) -> (GuardChange, GuardAnswer) {
    let live = stored.filter(|record| now < record.expires_at);
    match (call, live) {
        (GuardCall::Reserve { token, ttl }, None) => {
            let record = GuardRecord {
                digest,
                token: *token,
                ttl: *ttl,
                expires_at: now.plus(*ttl),
                output: None,
            };
            (GuardChange::Write(record), GuardAnswer::Fresh)
        }
        (GuardCall::Reserve { token, .. }, Some(record)) => match &record.output {
            Some(output) => (GuardChange::Keep, GuardAnswer::Done(output.clone())),
            None if record.token == *token => (GuardChange::Keep, GuardAnswer::Fresh),
            None => (GuardChange::Keep, GuardAnswer::InProgress),
        },
        (GuardCall::Confirm { token, output }, Some(record)) if record.token == *token => {
            match &record.output {
                Some(_) => (GuardChange::Keep, GuardAnswer::Ok),
                None => {
                    let done = GuardRecord {
                        output: Some(output.clone()),
                        expires_at: now.plus(record.ttl),
                        ..record.clone()
                    };
                    (GuardChange::Write(done), GuardAnswer::Ok)
                }
            }
        }
        (GuardCall::Release { token }, Some(record)) if record.token == *token && record.output.is_none() => {
            (GuardChange::Remove, GuardAnswer::Ok)
        }
        (GuardCall::Confirm { .. } | GuardCall::Release { .. }, _) => {
            (GuardChange::Keep, GuardAnswer::NotYours)
        }
    }
}
