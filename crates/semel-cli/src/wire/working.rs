//! Workers, schedules, events.

use semel::schedule::{Overlap, ScheduleView, TickOutcome};
use semel::workers::WorkerView;
use semel_core::ids::{JobId, Name};
use semel_core::json::Json;
use serde::Serialize;

use crate::wire::{Answer, Moment};

/// A live worker.
#[derive(Debug, Serialize)]
pub struct Worker<'a> {
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    host: &'a str,
    pid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'a str>,
    tasks: &'a [Name],
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
#[derive(Debug, Serialize)]
pub struct Schedule<'a> {
    name: &'a Name,
    cron: &'a str,
    zone: &'a str,
    overlap: Overlap,
    task: &'a Name,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<&'a Name>,
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
    next_at: Option<Moment>,
    skipped: u64,
}

/// What a tick came to.
#[derive(Debug, Serialize)]
struct Tick<'a> {
    due_at: Moment,
    outcome: TickOutcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<&'a JobId>,
    #[serde(skip_serializing_if = "Option::is_none")]
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
