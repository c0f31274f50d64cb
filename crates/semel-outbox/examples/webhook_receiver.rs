//! A webhook receiver: the sender repeats itself, the work is done once, and the sender is answered at once.
//!
//! `cargo run -p semel-outbox --example webhook_receiver`

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Result;
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Request, StatusCode};
use axum::routing::post;
use semel::{Client, Job, JobResult, Task, Worker};
use serde_json::Value;
use tower::ServiceExt;

const RECEIVED: Task<Value> = Task::new("webhook");

/// Answers only after the job is in the store: what was answered is not lost, and what is sent again is the same job.
async fn receive(State(jobs): State<Client>, body: String) -> StatusCode {
    let Ok(event) = serde_json::from_str::<Value>(&body) else {
        return StatusCode::BAD_REQUEST;
    };
    let Some(id) = event["id"].as_str().map(str::to_owned) else {
        return StatusCode::BAD_REQUEST;
    };
    match jobs.submit(RECEIVED, &event).idempotency_key(id).await {
        Ok(_) => StatusCode::NO_CONTENT,
        Err(semel::Error::IdempotencyConflict { .. }) => StatusCode::UNPROCESSABLE_ENTITY,
        // Out of reach: the sender comes again.
        Err(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

async fn handle(_: Job<Value>, handled: Arc<AtomicUsize>) -> JobResult {
    handled.fetch_add(1, Ordering::SeqCst);
    Ok(())
}

/// One event arrives three times, another one once, and something that is none.
pub async fn story() -> Result<String> {
    let jobs = semel::connect("memory:").await?;
    let app = Router::new()
        .route("/webhooks", post(receive))
        .with_state(jobs.clone());
    let mut answers = Vec::new();
    for body in [
        r#"{"id":"evt_1","n":1}"#,
        r#"{"id":"evt_1","n":1}"#,
        r#"{"n":1, "id":"evt_1"}"#,
        r#"{"id":"evt_2"}"#,
        r#"{"id":"evt_1","n":2}"#,
        "?",
    ] {
        let request = Request::post("/webhooks").body(Body::from(body))?;
        answers.push(app.clone().oneshot(request).await?.status().as_u16());
    }
    let handled = Arc::new(AtomicUsize::new(0));
    let all_done = {
        let jobs = jobs.clone();
        async move {
            while jobs
                .store()
                .stats()
                .await
                .is_ok_and(|stats| stats.jobs.keys().any(|state| !state.is_terminal()))
            {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        }
    };
    Worker::new(&jobs, handled.clone())
        .task(RECEIVED, handle)
        .run_until(all_done)
        .await?;
    Ok(format!(
        "answers {answers:?}, handled {}\n",
        handled.load(Ordering::SeqCst)
    ))
}

#[tokio::main]
#[allow(dead_code)] // as part of a test it is not the main function
async fn main() -> Result<()> {
    print!("{}", story().await?);
    Ok(())
}
