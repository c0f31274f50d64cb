//! Workers, schedules, events.

use semel::schedule::{Overlap, ScheduleView, TickOutcome};
use semel::workers::WorkerView;
use semel_core::ids::{JobId, Name};
use semel_core::json::Json;
use serde::Serialize;
use utoipa::ToSchema;

use crate::wire::{Answer, Moment, words};

/// A live worker.
#[derive(Debug, Serialize, ToSchema)]
pub struct Worker<'a> {
    #[schema(value_type = String)]
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    name: Option<&'a str>,
    #[schema(value_type = String)]
    host: &'a str,
    pid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    version: Option<&'a str>,
    #[schema(value_type = Vec<String>)]
    tasks: &'a [Name],
    #[schema(value_type = Vec<String>)]
    queues: &'a [Name],
    slots: usize,
    running: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<Moment>,
    heartbeat_at: Moment,
}

impl<'a> From<&'a WorkerView> for Worker<'a> {
    fn from(worker: &'a WorkerView) -> Self {
        let info = &worker.info;
        Worker {
            id: &worker.id,
            name: info.name.as_deref(),
            host: &info.host,
            pid: info.pid,
            version: info.version.as_deref(),
            tasks: &info.tasks,
            queues: &info.queues,
            slots: info.slots,
            running: info.running,
            started_at: info.started_at.map(Moment),
            heartbeat_at: worker.heartbeat_at.into(),
        }
    }
}

/// A schedule.
#[derive(Debug, Serialize, ToSchema)]
pub struct Schedule<'a> {
    #[schema(value_type = String)]
    name: &'a Name,
    #[schema(value_type = String)]
    cron: &'a str,
    #[schema(value_type = String)]
    zone: &'a str,
    #[schema(value_type = words::Overlap)]
    overlap: Overlap,
    #[schema(value_type = String)]
    task: &'a Name,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    queue: Option<&'a Name>,
    #[schema(value_type = serde_json::Value)]
    input: &'a Json,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<i8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<i64>,
    since: Moment,
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<Tick<'a>>,
    #[schema(required)]
    next_at: Option<Moment>,
    skipped: u64,
}

/// What a tick came to.
#[derive(Debug, Serialize, ToSchema)]
struct Tick<'a> {
    due_at: Moment,
    #[schema(value_type = words::TickOutcome)]
    outcome: TickOutcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    job: Option<&'a JobId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    error: Option<&'a str>,
}

impl<'a> From<&'a ScheduleView> for Schedule<'a> {
    fn from(view: &'a ScheduleView) -> Self {
        let schedule = &view.schedule;
        Schedule {
            name: &schedule.name,
            cron: &schedule.cron,
            zone: &schedule.zone,
            overlap: schedule.overlap,
            task: &schedule.task,
            queue: schedule.queue.as_ref(),
            input: &schedule.input,
            priority: schedule.priority,
            max_attempts: schedule.max_attempts,
            timeout_ms: schedule.timeout_ms,
            since: view.since.into(),
            last: view.last.as_ref().map(|tick| Tick {
                due_at: tick.due.into(),
                outcome: tick.outcome,
                job: tick.job.as_ref(),
                error: tick.error.as_deref(),
            }),
            next_at: view.next.map(Moment),
            skipped: view.skipped,
        }
    }
}

/// What became of an event for one subscriber.
#[derive(Debug, Serialize)]
pub struct Delivery<'a> {
    /// The task that subscribed.
    pub task: &'a Name,
    /// The answer, where there is one.
    #[serde(flatten)]
    pub answer: Option<Answer<'a>>,
    /// What went wrong, where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
