//! A job: what it is ([`Spec`]) and how it fares ([`Life`]).

use serde::{Deserialize, Serialize};

use crate::dedup::{Holding, Key};
use crate::ids::{JobId, Name};
use crate::submission::Content;
use crate::time::Timestamp;

/// Where a job stands, as stored. `scheduled` and `queued` are one phase: time tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    /// Waiting for its time or a worker.
    Waiting,
    /// Under a lease.
    Running,
    /// Waiting for the holder of its key to end (contract 2.5).
    Deferred,
    /// Waiting for an operator (contract 5.2).
    Parked,
    /// Ended with an output.
    Complete,
    /// Ended with an error: a dead letter.
    Failed,
    /// Ended because someone said so.
    Cancelled,
}

impl Phase {
    /// Every phase, for stores that number them.
    pub const ALL: [Phase; 7] = [
        Phase::Waiting,
        Phase::Running,
        Phase::Deferred,
        Phase::Parked,
        Phase::Complete,
        Phase::Failed,
        Phase::Cancelled,
    ];

    /// Complete, failed and cancelled are final (contract 1.3).
    pub fn is_terminal(self) -> bool {
        matches!(self, Phase::Complete | Phase::Failed | Phase::Cancelled)
    }
}

/// Where a job stands, as people see it (contract 1.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Its time has not come.
    Scheduled,
    /// Ready for a worker.
    Queued,
    /// Under a lease.
    Running,
    /// Waiting for the holder of its key to end.
    Deferred,
    /// Waiting for an operator.
    Parked,
    /// Ended with an output.
    Complete,
    /// Ended with an error.
    Failed,
    /// Ended because someone said so.
    Cancelled,
}

impl State {
    /// Every state, in the order people read them.
    pub const ALL: [State; 8] = [
        State::Scheduled,
        State::Queued,
        State::Running,
        State::Deferred,
        State::Parked,
        State::Complete,
        State::Failed,
        State::Cancelled,
    ];

    /// The word for this state.
    pub fn word(self) -> &'static str {
        match self {
            State::Scheduled => "scheduled",
            State::Queued => "queued",
            State::Running => "running",
            State::Deferred => "deferred",
            State::Parked => "parked",
            State::Complete => "complete",
            State::Failed => "failed",
            State::Cancelled => "cancelled",
        }
    }

    /// Complete, failed and cancelled are final.
    pub fn is_terminal(self) -> bool {
        matches!(self, State::Complete | State::Failed | State::Cancelled)
    }
}

/// What changes while a job lives. Stores keep it apart from the payload: it is small and written often.
///
/// Only the functions of [`crate::lifecycle`] and [`crate::admission`] change one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Life {
    /// Where it stands.
    pub phase: Phase,
    /// −100 to 100, larger first.
    pub priority: i8,
    /// Not before this moment.
    pub run_at: Timestamp,
    /// Attempts begun, less those that did not count.
    pub attempt: u32,
    /// Attempts that may end in an error.
    pub max_attempts: u32,
    /// Leases that expired.
    pub deliveries: u32,
    /// Leases that may expire.
    pub max_deliveries: u32,
    /// The newest fence; 0 before the first lease.
    pub fence: i64,
    /// Where the newest fence was settled to, if it was (contract 1.6).
    pub settled: Option<State>,
    /// When the newest lease began.
    pub began: Option<Timestamp>,
    /// When the lease expires; `None` without one.
    pub until: Option<Timestamp>,
    /// When the job was first leased, ever.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// Its key, held or let go.
    pub holding: Option<Holding>,
}

impl Life {
    /// Whether the job has taken its key, held or let go, or waits for it as a follower does. One that never got it does not.
    pub fn has_or_awaits_key(&self) -> bool {
        self.holding.is_some() || self.phase == Phase::Deferred
    }

    /// The state at a moment.
    pub fn state(&self, now: Timestamp) -> State {
        match self.phase {
            Phase::Waiting if self.run_at > now => State::Scheduled,
            Phase::Waiting => State::Queued,
            Phase::Running => State::Running,
            Phase::Deferred => State::Deferred,
            Phase::Parked => State::Parked,
            Phase::Complete => State::Complete,
            Phase::Failed => State::Failed,
            Phase::Cancelled => State::Cancelled,
        }
    }

    /// Whether the job was ever leased (contract 2.5).
    pub fn is_started(&self) -> bool {
        self.started_at.is_some()
    }

    /// Whether the job holds its key at a moment.
    pub fn is_holder(&self, now: Timestamp) -> bool {
        self.holding
            .as_ref()
            .is_some_and(|holding| holding.is_held(self, now))
    }

    /// Whether a lease that began before `moment` still runs at `now` (contract 2.4).
    pub fn is_leased_since_before(&self, moment: Timestamp, now: Timestamp) -> bool {
        self.until.is_some_and(|until| now < until) && self.began.is_some_and(|began| began < moment)
    }
}

/// What a job is: fixed at admission, but for its content, which `replace` may exchange before the first lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Its identity.
    pub id: JobId,
    /// The first job of its retry and replay chain; steps belong to it (contract 5.1).
    pub origin: JobId,
    /// The kind of work.
    pub task: Name,
    /// Where it waits.
    pub queue: Name,
    /// What the handler gets.
    pub content: Content,
    /// When it was admitted.
    pub enqueued_at: Timestamp,
    /// Its key, if it has one.
    pub key: Option<Key>,
    /// Who submitted it.
    pub producer: Option<Name>,
    /// The dead letter it replays.
    pub replayed_from: Option<JobId>,
    /// What an observing submission would have got (contract 2.13).
    pub would: Option<Would>,
    /// The job of the same hybrid fields it differs from (contract 2.1).
    pub collides_with: Option<JobId>,
}

/// What an observing submission would have got.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Would {
    /// The outcome.
    pub outcome: Outcome,
    /// The job that holds the key.
    pub holder: JobId,
}

/// The answer to a submission: a closed set (contract 2.7). `spooled` is said by clients only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A new job.
    Accepted,
    /// The job that holds the key.
    Duplicate,
    /// The holder, with this submission's content.
    Replaced,
    /// The holder, with this submission's content, later.
    Debounced,
    /// A job that runs after the holder.
    Deferred,
    /// Kept by the client until the store can be reached.
    Spooled,
    /// An error: the key is held.
    Rejected,
    /// An error: the key means something else.
    Conflict,
}

impl Outcome {
    /// The word for this outcome.
    pub fn word(self) -> &'static str {
        match self {
            Outcome::Accepted => "accepted",
            Outcome::Duplicate => "duplicate",
            Outcome::Replaced => "replaced",
            Outcome::Debounced => "debounced",
            Outcome::Deferred => "deferred",
            Outcome::Spooled => "spooled",
            Outcome::Rejected => "rejected",
            Outcome::Conflict => "conflict",
        }
    }
}
