//! Jobs and what belongs to them.

use std::collections::BTreeMap;

use semel_core::ids::{Digest, JobId, Name};
use semel_core::job::{State, Would};
use semel_core::json::Json;
use semel_core::lifecycle::AttemptResult;
use semel_core::step::StepState;
use semel_core::store::FeedEntry;
use semel_core::view;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::wire::{Key, LedgerEntry, Moment, words};

/// A job.
#[derive(Debug, Serialize, ToSchema)]
pub struct Job<'a> {
    #[schema(value_type = String)]
    id: &'a JobId,
    #[schema(value_type = String)]
    origin: &'a JobId,
    #[schema(value_type = String)]
    task: &'a Name,
    #[schema(value_type = String)]
    queue: &'a Name,
    #[schema(value_type = words::State)]
    state: State,
    #[schema(value_type = serde_json::Value)]
    input: &'a Json,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    output: Option<&'a Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<JobError<'a>>,
    attempt: u32,
    max_attempts: u32,
    deliveries: u32,
    max_deliveries: u32,
    priority: i8,
    enqueued_at: Moment,
    run_at: Moment,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<Moment>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finished_at: Option<Moment>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<Key<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    worker: Option<&'a Name>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_until: Option<Moment>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    replayed_from: Option<&'a JobId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    replayed_as: Option<&'a JobId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    blocked_by: Option<&'a JobId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<crate::wire::Would>)]
    would: Option<&'a Would>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    collides_with: Option<&'a JobId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    producer: Option<&'a Name>,
    #[schema(value_type = BTreeMap<String, String>)]
    headers: &'a BTreeMap<String, String>,
    #[schema(value_type = Object)]
    meta: Meta<'a>,
    stub: bool,
}

/// Metadata is an object, also where there is none.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Meta<'a> {
    Said(&'a Json),
    None {},
}

#[derive(Debug, Serialize, ToSchema)]
struct JobError<'a> {
    #[schema(value_type = String)]
    message: &'a str,
    at: Moment,
    attempt: u32,
}

impl<'a> Job<'a> {
    /// The job with everything that is known of its key.
    pub fn with_key(job: &'a view::Job, row: Option<&'a view::KeyRow>) -> Self {
        let mut shown = Job::from(job);
        // The key may be another job's by now; then only this job's own view of it is true.
        let own = row.filter(|row| row.holder.id == job.id);
        shown.key = own.map(Key::of_row).or(shown.key);
        shown
    }
}

impl<'a> From<&'a view::Job> for Job<'a> {
    fn from(job: &'a view::Job) -> Self {
        Job {
            id: &job.id,
            origin: &job.origin,
            task: &job.task,
            queue: &job.queue,
            state: job.state,
            input: &job.input,
            output: job.output.as_ref(),
            error: job.error.as_ref().map(|error| JobError {
                message: &error.message,
                at: error.at.into(),
                attempt: error.attempt,
            }),
            attempt: job.attempt,
            max_attempts: job.max_attempts,
            deliveries: job.deliveries,
            max_deliveries: job.max_deliveries,
            priority: job.priority,
            enqueued_at: job.enqueued_at.into(),
            run_at: job.run_at.into(),
            started_at: job.started_at.map(Moment),
            finished_at: job.finished_at.map(Moment),
            timeout_ms: job.timeout.map(|timeout| timeout.as_millis()),
            progress: job.progress,
            key: job.key.as_ref().map(Key::from),
            worker: job.worker.as_ref(),
            lease_until: job.lease_until.map(Moment),
            replayed_from: job.replayed_from.as_ref(),
            replayed_as: job.replayed_as.as_ref(),
            blocked_by: job.blocked_by.as_ref(),
            would: job.would.as_ref(),
            collides_with: job.collides_with.as_ref(),
            producer: job.producer.as_ref(),
            headers: &job.headers,
            meta: job.meta.as_ref().map_or(Meta::None {}, Meta::Said),
            stub: job.stub,
        }
    }
}

/// A delivery that has ended.
#[derive(Debug, Serialize, ToSchema)]
pub struct Attempt<'a> {
    attempt: u32,
    #[schema(value_type = words::AttemptResult)]
    result: AttemptResult,
    #[serde(skip_serializing_if = "Option::is_none")]
    began_at: Option<Moment>,
    ended_at: Moment,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    error: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    worker: Option<&'a Name>,
    fence: i64,
}

impl<'a> From<&'a view::AttemptView> for Attempt<'a> {
    fn from(attempt: &'a view::AttemptView) -> Self {
        Attempt {
            attempt: attempt.end.attempt,
            result: attempt.end.result,
            began_at: attempt.end.began_at.map(Moment),
            ended_at: attempt.end.ended_at.into(),
            error: attempt.end.error.as_deref(),
            worker: attempt.worker.as_ref(),
            fence: attempt.end.fence,
        }
    }
}

/// A line of a job's log.
#[derive(Debug, Serialize, ToSchema)]
pub struct LogLine {
    at: Moment,
    #[schema(value_type = serde_json::Value)]
    line: Box<RawValue>,
}

impl LogLine {
    /// The entry of a feed as a line.
    pub fn of(entry: &FeedEntry) -> Option<Self> {
        let line = RawValue::from_string(entry.body.as_str().to_owned()).ok()?;
        Some(LogLine {
            at: entry.at.into(),
            line,
        })
    }
}

/// A named effect inside a job.
#[derive(Debug, Serialize, ToSchema)]
pub struct Step<'a> {
    #[schema(value_type = String)]
    name: &'a Name,
    #[schema(value_type = words::StepState)]
    state: StepState,
    in_doubt: bool,
    begun_at: Moment,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<Moment>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    output: Option<&'a Json>,
    #[schema(value_type = String)]
    key: Digest,
}

impl<'a> From<&'a view::StepView> for Step<'a> {
    fn from(step: &'a view::StepView) -> Self {
        Step {
            name: &step.name,
            state: step.state,
            in_doubt: step.in_doubt,
            begun_at: step.begun_at.into(),
            ended_at: step.ended_at.map(Moment),
            output: step.output.as_ref(),
            key: step.key,
        }
    }
}

/// A step in a list of steps of several jobs.
#[derive(Debug, Serialize, ToSchema)]
pub struct StepRow<'a> {
    /// The chain it belongs to.
    #[schema(value_type = String)]
    origin: &'a JobId,
    /// The job that began it last.
    #[schema(value_type = String)]
    job: &'a JobId,
    #[serde(flatten)]
    step: Step<'a>,
}

impl<'a> From<&'a view::StepView> for StepRow<'a> {
    fn from(step: &'a view::StepView) -> Self {
        StepRow {
            origin: &step.origin,
            job: &step.job,
            step: Step::from(step),
        }
    }
}

/// What `jobs show` knows: the job, and what happened around it.
#[derive(Debug, Serialize, ToSchema)]
pub struct JobPage<'a> {
    /// The job.
    #[serde(flatten)]
    pub job: Job<'a>,
    /// Why it stands where it stands, in words.
    pub why: Vec<String>,
    /// Deliveries that have ended, oldest first.
    pub attempts: Vec<Attempt<'a>>,
    /// Its effects, those of the whole chain.
    pub steps: Vec<Step<'a>>,
    /// Lines its handler wrote, oldest first.
    pub logs: Vec<LogLine>,
    /// Submissions it absorbed, newest first.
    pub absorbed: Vec<LedgerEntry<'a>>,
}
