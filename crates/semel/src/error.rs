//! What can go wrong for a caller, by meaning.

use std::io;

use semel_core::error::{Invalid, StoreError};
use semel_core::ids::JobId;
use semel_core::job::State;
use semel_core::json::Json;
use semel_core::store::Target;
use semel_core::view::HolderView;
use thiserror::Error as ThisError;

/// Why a call did not give what was asked for.
///
/// A duplicate is an error only where the policy says so (`exclusive`, `reject`).
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// The request makes no sense; nothing was written.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The key is held, and the policy rejects duplicates.
    #[error("the key is held by job {} of task {}, which is {}", .holder.id, .holder.task, .holder.state.word())]
    Duplicate {
        /// By this job.
        holder: HolderView,
    },
    /// The key came back with another input or task (contract 2.6).
    #[error("the key was used for something else: job {} of task {}{}; hint: use another key for other work", .holder.id, .holder.task, differing(.differs))]
    IdempotencyConflict {
        /// The job that holds the key.
        holder: HolderView,
        /// JSON pointers at which the inputs differ; never values.
        differs: Vec<String>,
    },
    /// The intake of a queue or task is closed (contract 6.1).
    #[error("{} takes no submissions; hint: try again once it is opened", describe(.target))]
    Closed {
        /// What is closed.
        target: Target,
    },
    /// Somebody else has the job now: nothing was written.
    #[error("the lease is lost: the job was cancelled or given to another worker")]
    LeaseLost,
    /// The store is out of reach, also after several tries. The same call is safe to repeat (contract 3.4, 3.5).
    #[error("the store is out of reach: {source}")]
    StoreUnavailable {
        /// What the store said last.
        source: StoreError,
    },
    /// The store cannot be used, and trying again does not mend it.
    #[error(transparent)]
    Store(StoreError),
    /// There is no such thing.
    #[error("there is no {what}")]
    NotFound {
        /// What was looked for, such as `job 0190…`.
        what: String,
    },
    /// The job's state does not allow it.
    #[error("job {id} is {}", .state.word())]
    WrongState {
        /// The job.
        id: JobId,
        /// Where it stands.
        state: State,
    },
    /// The job was replayed: act on the replay.
    #[error("job {id} was replayed as {by}; hint: act on that one")]
    Replayed {
        /// The job.
        id: JobId,
        /// Its replay.
        by: JobId,
    },
    /// The step is not in doubt: somebody is at it, or it is decided (contract 5.2).
    #[error("the {what} is not in doubt: somebody is at it, or it is decided")]
    NotInDoubt {
        /// The step.
        what: String,
    },
    /// The reservation lapsed before it was confirmed, and the key may be another's now (contract 5.3).
    #[error("the reservation of key {key:?} has lapsed; hint: reserve it for longer than the work takes")]
    ReservationLost {
        /// The key.
        key: String,
    },
    /// It was done, and what it gave could not be kept: to do it again would be to do it twice. The key stays reserved
    /// until its ttl has passed, unless the store has heard after all; then who asks is given the answer.
    #[error(
        "what key {key:?} guards was done, but its answer could not be kept: {source}; hint: do not do it again, the answer is in this error"
    )]
    DoneButNotKept {
        /// The key.
        key: String,
        /// What it gave; `None` if that is no JSON, or too large.
        output: Option<Json>,
        /// Why it could not be kept.
        source: Box<Error>,
    },
    /// What is stored under a guarded key is not of the type that was asked for.
    #[error("the answer kept under key {key:?} cannot be read as the type asked for: {source}")]
    UnreadableAnswer {
        /// The key.
        key: String,
        /// Why not.
        source: serde_json::Error,
    },
    /// The job whose output was wanted has failed.
    #[error("job {id} failed: {message}")]
    JobFailed {
        /// The job.
        id: JobId,
        /// The last thing that went wrong with it.
        message: String,
    },
    /// The job whose output was wanted was cancelled.
    #[error("job {id} was cancelled")]
    JobCancelled {
        /// The job.
        id: JobId,
    },
    /// The job did not end in the time it was given. It goes on.
    #[error("job {id} has not ended in time{}; hint: it goes on, wait again", .state.map(|state| format!(", it is {}", state.word())).unwrap_or_default())]
    WaitTimeout {
        /// The job.
        id: JobId,
        /// Where it stood last, if it was seen.
        state: Option<State>,
    },
    /// The job completed, but its output is no longer kept (contract 3.3).
    #[error("the output of job {id} is no longer kept")]
    OutputGone {
        /// The job.
        id: JobId,
    },
    /// What the job gave is not of the type that was asked for.
    #[error("the output of job {id} cannot be read as the type asked for: {source}")]
    Unreadable {
        /// The job.
        id: JobId,
        /// Why not.
        source: serde_json::Error,
    },
    /// Nobody subscribed to the event (contract 3.2).
    #[error(
        "nobody is subscribed to the event {event:?}, so it would be lost; hint: subscribe a task first, or allow it"
    )]
    NoSubscribers {
        /// The event.
        event: String,
    },
    /// The spool is full: the submission was refused (contract 3.4).
    #[error(
        "the spool holds {entries} submissions, as many as it may; hint: the store has been out of reach for long"
    )]
    SpoolFull {
        /// How many are waiting.
        entries: u64,
    },
    /// The spool cannot be used.
    #[error("the spool cannot be used while {doing}: {source}")]
    Spool {
        /// What was being attempted.
        doing: String,
        /// What the system said.
        source: io::Error,
    },
    /// The operation is being carried out elsewhere.
    #[error("operation {id} is under way; hint: look at its progress, or abort it")]
    UnderWay {
        /// The operation.
        id: String,
    },
}

impl Error {
    /// Whether the same call may succeed later without anything being changed. Repeating it is safe (contract 3.5).
    /// What was done but not kept is never among it.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Error::StoreUnavailable { .. } | Error::Closed { .. } | Error::SpoolFull { .. }
        )
    }

    /// The job that holds the key, where that is what went wrong.
    pub fn holder(&self) -> Option<&HolderView> {
        match self {
            Error::Duplicate { holder } | Error::IdempotencyConflict { holder, .. } => Some(holder),
            _ => None,
        }
    }

    /// There is no job of that id.
    pub(crate) fn no_job(id: &JobId) -> Self {
        Error::NotFound {
            what: format!("job {id}"),
        }
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Invalid(invalid) => Error::Invalid(invalid),
            source if source.is_retryable() => Error::StoreUnavailable { source },
            other => Error::Store(other),
        }
    }
}

fn differing(pointers: &[String]) -> String {
    if pointers.is_empty() {
        return String::new();
    }
    format!(", the inputs differ at {}", pointers.join(", "))
}

pub(crate) fn describe(target: &Target) -> String {
    match target {
        Target::All => "the store".to_owned(),
        Target::Queue(name) => format!("queue {name}"),
        Target::Task(name) => format!("task {name}"),
    }
}
