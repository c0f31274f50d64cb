//! Metrics of this process, and those of the store, which are two families (several servers export the same store).

mod labels;
mod store;

pub use store::render as render_store;

use std::sync::OnceLock;
use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use metrics::{counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use semel::{Error, Submitted};
use semel_core::job::{Outcome, State as JobState};
use semel_core::lifecycle::{Refusal, Settle};
use semel_core::store::{Claimed, WriteOutcome};
use semel_core::time::Millis;
use semel_core::view::Job;

use crate::api::Reply;
use crate::app::App;
use crate::clock;
use crate::leases::Lease;
use crate::metrics::labels::bounded;

const BUCKETS: [f64; 14] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0,
];
const LONG_BUCKETS: [f64; 9] = [
    1.0,
    10.0,
    60.0,
    300.0,
    3_600.0,
    21_600.0,
    86_400.0,
    604_800.0,
    2_592_000.0,
];

/// Where the metrics of this process are; begins to keep them.
pub fn start() -> &'static PrometheusHandle {
    static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();
    HANDLE.get_or_init(|| {
        let builder = PrometheusBuilder::new()
            .set_buckets(&BUCKETS)
            .and_then(|builder| {
                let long = metrics_exporter_prometheus::Matcher::Full("semel_key_ttl_seconds".to_owned());
                builder.set_buckets_for_metric(long, &LONG_BUCKETS)
            })
            .expect("there are buckets");
        let recorder = builder.build_recorder();
        let handle = recorder.handle();
        // An application that embeds the server may keep metrics of its own; then these stay empty.
        let _ = metrics::set_global_recorder(recorder);
        describe();
        gauge!("semel_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
        handle
    })
}

fn describe() {
    describe_counter!(
        "semel_submissions_total",
        "Submissions answered by this process, by outcome"
    );
    describe_counter!(
        "semel_jobs_finished_total",
        "Jobs that were settled or cancelled one by one through this process"
    );
    describe_counter!(
        "semel_errors_total",
        "Calls of this process that the store did not answer, by what was to be done"
    );
    describe_counter!(
        "semel_stale_writes_total",
        "Writes refused because a newer lease existed"
    );
    describe_counter!(
        "semel_lease_expirations_total",
        "Jobs that this process handed out again because the lease before had expired"
    );
    describe_counter!(
        "semel_retries_total",
        "Attempts that ended in an error and are tried again"
    );
    describe_counter!(
        "semel_http_requests_total",
        "Requests by the first digit of their status"
    );
    describe_histogram!("semel_http_request_duration_seconds", "How long requests took");
    describe_histogram!(
        "semel_submit_duration_seconds",
        "How long submissions took, batches together"
    );
    describe_histogram!("semel_key_duration_seconds", "How long looking up a key took");
    describe_histogram!(
        "semel_claim_duration_seconds",
        "How long claims took, without waiting for work"
    );
    describe_histogram!("semel_settle_duration_seconds", "How long settling took");
    describe_histogram!("semel_run_duration_seconds", "From claim to settlement");
    describe_histogram!("semel_queue_wait_seconds", "From being due to being claimed");
    describe_histogram!("semel_key_ttl_seconds", "How long keys are asked to be kept");
    describe_gauge!("semel_build_info", "The version of this process");
}

/// `GET /metrics`
pub async fn show(State(app): State<App>) -> Reply {
    let mut text = start().render();
    text.push_str(&render_store(&app).await);
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    Ok((kind, text).into_response())
}

/// A request was answered.
pub fn request(status: StatusCode, took: Duration) {
    let class = match status.as_u16() / 100 {
        2 => "2xx",
        3 => "3xx",
        4 => "4xx",
        _ => "5xx",
    };
    counter!("semel_http_requests_total", "status" => class).increment(1);
    histogram!("semel_http_request_duration_seconds").record(took.as_secs_f64());
}

/// A submission was answered.
pub fn submitted(queue: &str, task: &str, answer: Result<&Submitted, &Error>, took: Duration) {
    let outcome = match answer {
        Ok(submitted) => submitted.outcome().word(),
        Err(Error::Duplicate { .. }) => "rejected",
        Err(Error::IdempotencyConflict { .. }) => "conflict",
        Err(Error::Invalid(_)) => "invalid",
        Err(Error::Closed { .. }) => "closed",
        Err(_) => {
            unanswered("submit");
            "error"
        }
    };
    let (queue, task) = (bounded("queue", queue), bounded("task", task));
    counter!("semel_submissions_total", "queue" => queue, "task" => task, "outcome" => outcome).increment(1);
    histogram!("semel_submit_duration_seconds").record(took.as_secs_f64());
}

/// The store did not answer, or did not do what was to be done.
pub fn unanswered(op: &'static str) {
    counter!("semel_errors_total", "op" => op).increment(1);
}

/// If a key was taken with this submission: for how long it was asked to be kept.
pub fn key_ttl(submitted: &Submitted, ttl: Option<Millis>) {
    if let Some(ttl) = ttl
        && submitted.outcome() == Outcome::Accepted
        && submitted.key().is_some()
    {
        histogram!("semel_key_ttl_seconds").record(ttl.as_millis() as f64 / 1_000.0);
    }
}

/// A key was looked up.
pub fn key_looked_up(took: Duration) {
    histogram!("semel_key_duration_seconds").record(took.as_secs_f64());
}

/// A claim was answered.
pub fn claim_took(took: Duration) {
    histogram!("semel_claim_duration_seconds").record(took.as_secs_f64());
}

/// Jobs were handed out, for the first time with this lease.
pub fn claimed(claims: &[&Claimed]) {
    let now = clock::now();
    for claim in claims {
        let waited = now.since(claim.job.run_at).as_millis() as f64 / 1_000.0;
        histogram!("semel_queue_wait_seconds", "queue" => bounded("queue", claim.job.queue.as_str()))
            .record(waited);
    }
}

/// A job was handed out again whose lease before had expired.
pub fn lease_expired(task: &str) {
    counter!("semel_lease_expirations_total", "task" => bounded("task", task)).increment(1);
}

/// Writes were refused, as their lease was lost.
pub fn stale_writes(n: usize) {
    counter!("semel_stale_writes_total").increment(n as u64);
}

/// A batch was settled.
pub fn settle_took(took: Duration) {
    histogram!("semel_settle_duration_seconds").record(took.as_secs_f64());
}

/// A job was cancelled by hand.
pub fn cancelled(job: &Job) {
    let (queue, task) = (
        bounded("queue", job.queue.as_str()),
        bounded("task", job.task.as_str()),
    );
    finished(queue, task, JobState::Cancelled);
}

fn finished(queue: String, task: String, state: JobState) {
    counter!("semel_jobs_finished_total", "queue" => queue, "task" => task, "state" => state.word())
        .increment(1);
}

/// An attempt was settled.
pub fn settled(said: &Settle, outcome: &WriteOutcome, lease: Option<&Lease>) {
    let state = match outcome {
        WriteOutcome::Ok(state) => *state,
        WriteOutcome::Refused(Refusal::LeaseLost | Refusal::Cancelled) => {
            stale_writes(1);
            return;
        }
        WriteOutcome::NotFound | WriteOutcome::Invalid(_) => return,
    };
    let task = lease.map_or_else(
        || "unknown".to_owned(),
        |lease| bounded("task", lease.task.as_str()),
    );
    let queue = lease.map_or_else(
        || "unknown".to_owned(),
        |lease| bounded("queue", lease.queue.as_str()),
    );
    if let Some(lease) = lease {
        histogram!("semel_run_duration_seconds", "task" => task.clone()).record(lease.age().as_secs_f64());
    }
    if state.is_terminal() {
        finished(queue, task, state);
    } else if matches!(said, Settle::Retry { .. }) && matches!(state, JobState::Scheduled | JobState::Queued)
    {
        counter!("semel_retries_total", "task" => task).increment(1);
    }
}
