//! One stored job, and how it is shown.

use std::fmt;

use semel_core::ids::{Digest, JobId, Name, Token};
use semel_core::job::{Life, Outcome, Phase, Spec, State};
use semel_core::json::Json;
use semel_core::lifecycle::AttemptEnd;
use semel_core::time::Timestamp;
use semel_core::view::{AttemptView, HolderView, Job, JobError, KeyView};
use serde::{Deserialize, Serialize};

use crate::wire::{LifeWire, SpecWire, fraction, maybe_trusted};

/// The order in which things came in: by time, then by handle, then as the handle counts.
///
/// Handles are numbered in the order they were opened. Of two handles the clocks agree to within their resolution,
/// and so does the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Arrival {
    /// When, in milliseconds.
    pub at: i64,
    /// Through which handle.
    pub handle: u32,
    /// As which of it.
    pub n: u32,
}

impl Arrival {
    /// Reads what [`Arrival`] shows.
    pub fn parse(text: &str) -> Option<Self> {
        let (at, rest) = text.split_at_checked(15)?;
        let (handle, n) = rest.split_at_checked(8)?;
        Some(Arrival {
            at: at.parse().ok()?,
            handle: u32::from_str_radix(handle, 16).ok()?,
            n: u32::from_str_radix(n, 16).ok()?,
        })
    }

    /// A number that mostly sorts as this does, for people.
    pub fn number(&self) -> i64 {
        (self.at << 21) | i64::from(((self.handle & 0x7f) << 14) | (self.n & 0x3fff))
    }
}

impl fmt::Display for Arrival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:015}{:08x}{:08x}", self.at.max(0), self.handle, self.n)
    }
}

impl From<Arrival> for String {
    fn from(arrival: Arrival) -> Self {
        arrival.to_string()
    }
}

impl TryFrom<String> for Arrival {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        Arrival::parse(&text).ok_or_else(|| "an arrival cannot be read".to_owned())
    }
}

/// Deliveries that are kept of a job, the newest: one that snoozes for years must not grow for years.
const ATTEMPTS: usize = 1_000;

/// The jobs of one task in one queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Lane {
    pub queue: Name,
    pub task: Name,
}

/// Everything known about a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    #[serde(with = "SpecWire")]
    pub spec: Spec,
    #[serde(with = "LifeWire")]
    pub life: Life,
    pub arrival: Arrival,
    /// How often its queue had been removed when it came.
    #[serde(default)]
    pub era: u64,
    /// Which of its places in the index, and which try at it (`layout::next_placement`): no name is used twice.
    #[serde(default)]
    pub placement: u64,
    /// The answer its submission got: accepted or deferred. A repeated submission gets it again.
    pub born: Outcome,
    /// While deferred: the job whose end it waits for.
    pub follows: Option<JobId>,
    pub worker: Option<Name>,
    /// The claim that leased it last.
    #[serde(default)]
    pub claim: Option<Token>,
    #[serde(with = "maybe_trusted", default)]
    pub output: Option<Json>,
    #[serde(with = "fraction", default)]
    pub progress: Option<f64>,
    pub error: Option<JobError>,
    #[serde(default)]
    pub attempts: Vec<Attempt>,
    pub replayed_as: Option<JobId>,
    /// Its content is gone; it stays because it holds a key.
    #[serde(default)]
    pub stub: bool,
    /// Its feed has lines.
    #[serde(default)]
    pub logged: bool,
}

/// A delivery that has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    #[serde(flatten)]
    pub end: AttemptEnd,
    pub worker: Option<Name>,
}

impl Record {
    pub fn new(spec: Spec, life: Life, born: Outcome, arrival: Arrival, era: u64) -> Self {
        Record {
            spec,
            life,
            arrival,
            era,
            placement: 0,
            born,
            follows: None,
            worker: None,
            claim: None,
            output: None,
            progress: None,
            error: None,
            attempts: Vec::new(),
            replayed_as: None,
            stub: false,
            logged: false,
        }
    }

    pub fn lane(&self) -> Lane {
        Lane {
            queue: self.spec.queue.clone(),
            task: self.spec.task.clone(),
        }
    }

    pub fn state(&self, now: Timestamp) -> State {
        self.life.state(now)
    }

    pub fn digest(&self) -> Option<Digest> {
        self.spec.key.as_ref().map(|key| key.digest)
    }

    pub fn is_dead_letter(&self) -> bool {
        self.life.phase == Phase::Failed && self.replayed_as.is_none() && !self.stub
    }

    /// Where it is in the index of waiting jobs, if it is in it.
    pub fn spot(&self) -> Option<(i8, Timestamp)> {
        (self.life.phase == Phase::Waiting).then_some((self.life.priority, self.life.run_at))
    }

    /// Notes a delivery that has ended; its error, if it has one, is the job's newest.
    pub fn close_attempt(&mut self, end: AttemptEnd) {
        if let Some(message) = &end.error {
            self.error = Some(JobError {
                message: message.clone(),
                at: end.ended_at,
                attempt: end.attempt,
            });
        }
        let worker = self.worker.clone();
        self.attempts.push(Attempt { end, worker });
        let surplus = self.attempts.len().saturating_sub(ATTEMPTS);
        self.attempts.drain(..surplus);
    }

    /// Gives up everything but what its key needs (contract 2.4).
    pub fn reduce_to_stub(&mut self, keep_output: bool) {
        self.spec.content.input = Json::null();
        self.spec.content.headers.clear();
        self.spec.content.meta = None;
        self.output = self.output.take().filter(|_| keep_output);
        self.progress = None;
        self.attempts = Vec::new();
        self.stub = true;
    }

    pub fn attempts(&self) -> Vec<AttemptView> {
        let view = |attempt: &Attempt| AttemptView {
            end: attempt.end.clone(),
            worker: attempt.worker.clone(),
        };
        self.attempts.iter().map(view).collect()
    }

    pub fn holder_view(&self, now: Timestamp) -> HolderView {
        HolderView {
            id: self.spec.id.clone(),
            task: self.spec.task.clone(),
            state: self.state(now),
            enqueued_at: self.spec.enqueued_at,
        }
    }

    /// Its key, held or let go; a job that never took its key shows none.
    pub fn key_view(&self, now: Timestamp) -> Option<KeyView> {
        let (key, holding) = self.spec.key.as_ref().zip(self.life.holding.as_ref())?;
        Some(KeyView {
            digest: key.digest,
            text: key.text.as_deref().map(str::to_owned),
            scope: key.scope.to_string(),
            by: key.by,
            hold: holding.hold,
            held: holding.is_held(&self.life, now),
            taken_at: holding.taken_at,
            expires_at: holding.expires_at,
            generation: holding.generation,
            observed: holding.observed,
        })
    }

    pub fn view(&self, now: Timestamp) -> Job {
        let Record { spec, life, .. } = self;
        Job {
            id: spec.id.clone(),
            origin: spec.origin.clone(),
            task: spec.task.clone(),
            queue: spec.queue.clone(),
            state: self.state(now),
            input: spec.content.input.clone(),
            output: self.output.clone(),
            error: self.error.clone(),
            attempt: life.attempt,
            max_attempts: life.max_attempts,
            deliveries: life.deliveries,
            max_deliveries: life.max_deliveries,
            priority: life.priority,
            enqueued_at: spec.enqueued_at,
            run_at: life.run_at,
            started_at: life.started_at,
            finished_at: life.finished_at,
            timeout: spec.content.timeout,
            progress: self.progress,
            key: self.key_view(now),
            worker: self.worker.clone(),
            lease_until: life.until,
            fence: life.fence,
            replayed_from: spec.replayed_from.clone(),
            replayed_as: self.replayed_as.clone(),
            blocked_by: self.follows.clone(),
            would: spec.would.clone(),
            collides_with: spec.collides_with.clone(),
            producer: spec.producer.clone(),
            headers: spec.content.headers.clone(),
            meta: spec.content.meta.clone(),
            stub: self.stub,
        }
    }
}
