//! One stored job, and how it is shown.

use crate::ids::{Digest, JobId, Name};
use crate::job::{Life, Outcome, Phase, Spec, State};
use crate::json::Json;
use crate::lifecycle::AttemptEnd;
use crate::memory::index::Places;
use crate::store::Sought;
use crate::time::Timestamp;
use crate::view::{AttemptView, HolderView, Job, JobError, KeyView};

/// The order in which jobs came in, kept for life: what breaks every tie, and the cursor of lists.
pub(super) type Arrival = i64;

/// The jobs of one task in one queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Lane {
    pub(super) queue: Name,
    pub(super) task: Name,
}

/// Everything known about a job.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) spec: Spec,
    pub(super) life: Life,
    /// The answer its submission got: accepted or deferred. A repeated submission gets it again.
    pub(super) born: Outcome,
    /// While deferred: the job whose end it waits for.
    pub(super) follows: Option<JobId>,
    pub(super) worker: Option<Name>,
    pub(super) output: Option<Json>,
    pub(super) progress: Option<f64>,
    pub(super) error: Option<JobError>,
    pub(super) attempts: Vec<AttemptView>,
    pub(super) replayed_as: Option<JobId>,
    /// Its content is gone; it stays because it holds a key.
    pub(super) stub: bool,
    /// Where the indexes have it; only [`super::inner::Inner`] writes this.
    pub(super) places: Places,
}

impl Record {
    pub(super) fn new(spec: Spec, life: Life, born: Outcome) -> Self {
        Record {
            spec,
            life,
            born,
            follows: None,
            worker: None,
            output: None,
            progress: None,
            error: None,
            attempts: Vec::new(),
            replayed_as: None,
            stub: false,
            places: Places::default(),
        }
    }

    pub(super) fn lane(&self) -> Lane {
        Lane {
            queue: self.spec.queue.clone(),
            task: self.spec.task.clone(),
        }
    }

    pub(super) fn state(&self, now: Timestamp) -> State {
        self.life.state(now)
    }

    pub(super) fn digest(&self) -> Option<Digest> {
        self.spec.key.as_ref().map(|key| key.digest)
    }

    pub(super) fn is_dead_letter(&self) -> bool {
        self.life.phase == Phase::Failed && self.replayed_as.is_none() && !self.stub
    }

    /// Notes a delivery that has ended; its error, if it has one, is the job's newest.
    pub(super) fn close_attempt(&mut self, end: AttemptEnd) {
        if let Some(message) = &end.error {
            self.error = Some(JobError {
                message: message.clone(),
                at: end.ended_at,
                attempt: end.attempt,
            });
        }
        self.attempts.push(AttemptView {
            end,
            worker: self.worker.clone(),
        });
    }

    /// Gives up everything but what its key needs (contract 2.4).
    pub(super) fn reduce_to_stub(&mut self, keep_output: bool) {
        self.spec.content.input = Json::null();
        self.spec.content.headers.clear();
        self.spec.content.meta = None;
        self.output = self.output.take().filter(|_| keep_output);
        self.progress = None;
        self.attempts = Vec::new();
        self.stub = true;
    }

    /// What filters ask of it.
    pub(super) fn sought(&self, now: Timestamp) -> Sought<'_> {
        Sought {
            state: self.state(now),
            queue: &self.spec.queue,
            task: &self.spec.task,
            key: self.digest().filter(|_| self.life.has_or_awaits_key()),
            error: self.error.as_ref().map(|error| error.message.as_str()),
            enqueued_at: self.spec.enqueued_at,
            stub: self.stub,
            dead_letter: self.is_dead_letter(),
        }
    }

    pub(super) fn holder_view(&self, now: Timestamp) -> HolderView {
        HolderView {
            id: self.spec.id.clone(),
            task: self.spec.task.clone(),
            state: self.state(now),
            enqueued_at: self.spec.enqueued_at,
        }
    }

    /// Its key, held or let go; a job that never took its key shows none.
    pub(super) fn key_view(&self, now: Timestamp) -> Option<KeyView> {
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

    pub(super) fn view(&self, now: Timestamp) -> Job {
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
