//! Requests and outcomes on the way of a job.

use crate::dedup::Key;
use crate::error::Invalid;
use crate::guard::{GuardAnswer, GuardCall};
use crate::ids::{Digest, JobId, Name, Token};
use crate::job::{Outcome, State, Would};
use crate::lifecycle::{Refusal, Settle};
use crate::limits;
use crate::step::{Resolution, StepAnswer, StepPhase};
use crate::time::{Millis, Timestamp};
use crate::view::{HolderView, Job, KeyView};

/// The outcome of a submission: always names a job that exists (contract 2.7).
#[derive(Clone, Debug, PartialEq)]
pub enum Submitted {
    /// A job has it: a new one, the holder, or the follower of the holder.
    Job(Box<Admitted>),
    /// An error: the key is held.
    Rejected {
        /// By this job.
        holder: HolderView,
    },
    /// An error: the key means something else.
    Conflict {
        /// To this job.
        holder: HolderView,
        /// JSON pointers at which the inputs differ; never values.
        differs: Vec<String>,
    },
    /// An error: the submission makes no sense.
    Invalid(Invalid),
    /// An error: the queue or task takes no submissions (contract 6.1).
    Closed {
        /// What is closed.
        target: Target,
    },
}

impl Submitted {
    /// The outcome, where there is one.
    pub fn outcome(&self) -> Option<Outcome> {
        match self {
            Submitted::Job(admitted) => Some(admitted.outcome),
            Submitted::Rejected { .. } => Some(Outcome::Rejected),
            Submitted::Conflict { .. } => Some(Outcome::Conflict),
            Submitted::Invalid(_) | Submitted::Closed { .. } => None,
        }
    }

    /// The job it names, where it names one.
    pub fn id(&self) -> Option<&JobId> {
        match self {
            Submitted::Job(admitted) => Some(&admitted.job.id),
            Submitted::Rejected { holder } | Submitted::Conflict { holder, .. } => Some(&holder.id),
            Submitted::Invalid(_) | Submitted::Closed { .. } => None,
        }
    }
}

/// A submission that a job has.
#[derive(Clone, Debug, PartialEq)]
pub struct Admitted {
    /// Accepted, duplicate, replaced, debounced or deferred.
    pub outcome: Outcome,
    /// The job.
    pub job: HolderView,
    /// The digest of its key, if the submission has one.
    pub key: Option<Digest>,
    /// What an observing submission would have got.
    pub would: Option<Would>,
    /// The job of the same hybrid fields it differs from.
    pub collides_with: Option<JobId>,
}

/// The answer a submission would get (contract 2.14).
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// What it would be.
    pub submitted: Submitted,
    /// Its key, with everything it was made from.
    pub key: Option<Key>,
    /// The job that holds the key, and how long.
    pub holder: Option<(HolderView, KeyView)>,
    /// When it would be admitted as a job of its own; `None`: when the holder ends, or never.
    pub admissible_at: Option<Timestamp>,
}

/// A worker asks for work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRequest {
    /// Makes a repeated claim the same claim.
    pub token: Token,
    /// Who asks.
    pub worker: Name,
    /// Only from these queues; empty: from all.
    pub queues: Vec<Name>,
    /// Only of these tasks; empty: of all.
    pub tasks: Vec<Name>,
    /// At most this many.
    pub max: usize,
    /// For how long.
    pub lease: Millis,
}

/// A leased job.
#[derive(Clone, Debug, PartialEq)]
pub struct Claimed {
    /// The job, running.
    pub job: Job,
    /// What every write about it has to carry.
    pub fence: i64,
    /// Until when.
    pub lease_until: Timestamp,
}

/// Heartbeats.
#[derive(Clone, Debug, PartialEq)]
pub struct ExtendRequest {
    /// For which leases.
    pub leases: Vec<Beat>,
    /// For how long from now.
    pub lease: Millis,
}

/// One heartbeat.
#[derive(Clone, Debug, PartialEq)]
pub struct Beat {
    /// The job.
    pub id: JobId,
    /// The fence of the lease.
    pub fence: i64,
    /// From 0 to 1.
    pub progress: Option<f64>,
    /// Lines for the job's log.
    pub log: Vec<String>,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// The job.
    pub id: JobId,
    /// The fence of the lease.
    pub fence: i64,
    /// How.
    pub result: Settle,
}

/// The answer to a worker's write.
#[derive(Clone, Debug, PartialEq)]
pub enum WriteOutcome {
    /// Done; where the job stands now.
    Ok(State),
    /// Refused, changing nothing.
    Refused(Refusal),
    /// No such job.
    NotFound,
    /// The write makes no sense.
    Invalid(Invalid),
}

/// A worker speaks about a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepRequest {
    /// The job.
    pub id: JobId,
    /// The fence of its lease.
    pub fence: i64,
    /// The step.
    pub step: Name,
    /// What about it.
    pub phase: StepPhase,
}

/// The answer about a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepOutcome {
    /// The fence is good; this is how the step stands.
    Answer(StepAnswer),
    /// Refused, changing nothing.
    Refused(Refusal),
    /// No such job.
    NotFound,
    /// The call makes no sense.
    Invalid(Invalid),
}

/// A call to a guard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardRequest {
    /// The key, as text.
    pub key: String,
    /// What about it.
    pub call: GuardCall,
}

/// The answer of a guard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GuardOutcome {
    /// This.
    Answer(GuardAnswer),
    /// The call makes no sense.
    Invalid(Invalid),
}

/// What people do to jobs and keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Ends a job that has not ended (contract 6.2).
    Cancel {
        /// The job.
        id: JobId,
    },
    /// A new life for a failed or cancelled job (contract 6.3).
    Retry {
        /// The job.
        id: JobId,
    },
    /// A fresh job in place of a dead letter (contract 6.5).
    Replay {
        /// The dead letter.
        id: JobId,
        /// Of this call; the fresh job's id derives from it.
        token: Token,
    },
    /// Removes a job that has ended; while it holds a key a stub stays (contract 2.4).
    Delete {
        /// The job.
        id: JobId,
    },
    /// Frees a key, if it is still held by that job (contract 2.10, 7.3).
    Release {
        /// The key.
        digest: Digest,
        /// The job that is meant.
        holder: JobId,
    },
    /// Decides about a step in doubt (contract 5.2); a parked job goes back to its queue.
    Resolve {
        /// The chain.
        origin: JobId,
        /// The step.
        step: Name,
        /// What is decided.
        resolution: Resolution,
    },
}

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub enum ActOutcome {
    /// Done; the job it concerns and where it stands.
    Done {
        /// The job: the fresh one for a replay.
        id: JobId,
        /// Where it stands.
        state: State,
    },
    /// It was done before: for a replay, the job that was made then.
    Before {
        /// The job.
        id: JobId,
    },
    /// No such job, key or step.
    NotFound,
    /// The job's state does not allow it.
    WrongState(State),
    /// The job was replayed: act on that one.
    Replayed {
        /// The replay.
        by: JobId,
    },
    /// The key is held by another job.
    Held {
        /// This one.
        holder: HolderView,
    },
    /// The step is not in doubt: somebody is at it, or it is decided.
    NotInDoubt,
    /// The queue or task takes no submissions.
    Closed {
        /// What is closed.
        target: Target,
    },
    /// The act makes no sense.
    Invalid(Invalid),
}

impl Act {
    /// Refuses what makes no sense whatever is stored.
    pub fn check(&self) -> Result<(), Invalid> {
        match self {
            Act::Resolve {
                resolution: Resolution::Happened { output },
                ..
            } if output.as_str().len() > limits::OUTPUT_BYTES => Err(Invalid::new(
                "output of a step",
                format!("at most {} bytes", limits::OUTPUT_BYTES),
            )),
            _ => Ok(()),
        }
    }

    /// The refusal of a replay whose token another job has.
    pub fn token_taken() -> Invalid {
        Invalid::new("token", "one that no other job was made with")
    }
}

/// What an operator can steer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Target {
    /// Everything.
    All,
    /// One queue.
    Queue(Name),
    /// One task.
    Task(Name),
}

/// A point in a store's stream of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Mark(pub u64);

/// What a waiting caller is interested in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Work that can be claimed.
    Work {
        /// From these queues; empty: from all.
        queues: Vec<Name>,
        /// Of these tasks; empty: of all.
        tasks: Vec<Name>,
    },
    /// Anything that ends a job.
    Ends,
}
