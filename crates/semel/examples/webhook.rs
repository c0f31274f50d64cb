//! A webhook sent three times: one job, and a record of who sent the other two.
//!
//! `cargo run -p semel --example webhook`

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use semel::semel_core::store::{LedgerFilter, Page};
use semel::{Client, Dedup, Error, Hold, Job, JobResult, OnMismatch, Submitted, Task, Worker, days};
use serde::{Deserialize, Serialize};

/// What the provider posts. The number of the delivery changes each time, the id does not.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Webhook {
    id: String,
    kind: String,
    delivery: u32,
}

const WEBHOOK: Task<Webhook> = Task::new("payment_webhook");

async fn book(job: Job<Webhook>, booked: Arc<AtomicU32>) -> JobResult {
    job.log(format!("{} {}", job.input.kind, job.input.id));
    booked.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

/// What the HTTP handler does: submit, answer 200 at once.
async fn receive(jobs: &Client, hook: &Webhook) -> Result<Submitted<()>, Error> {
    let policy = Dedup::explicit(&hook.id)
        .hold(Hold::window(days(7)))
        // The delivery number is no reason for a conflict.
        .on_mismatch(OnMismatch::Ignore);
    jobs.submit(WEBHOOK, hook).dedup(policy).await
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let place = tempfile::tempdir().expect("a temporary directory");
    let url = format!("sqlite:{}", place.path().join("jobs.db").display());
    let jobs = semel::connect(&url).name("webhook-endpoint").await?;
    let booked = Arc::new(AtomicU32::new(0));
    let mut told = Ok(());
    Worker::new(&jobs, booked.clone())
        .task(WEBHOOK, book)
        .run_until(async { told = provider(&jobs).await })
        .await?;
    told?;
    assert_eq!(booked.load(Ordering::Relaxed), 1);
    println!("booked {} time", booked.load(Ordering::Relaxed));
    Ok(())
}

async fn provider(jobs: &Client) -> Result<(), Error> {
    let hook = |delivery| Webhook {
        id: "evt_1".to_owned(),
        kind: "payment.succeeded".to_owned(),
        delivery,
    };
    let first = receive(jobs, &hook(1)).await?;
    first.wait().await?;
    for delivery in 2..=3 {
        let again = receive(jobs, &hook(delivery)).await?;
        println!(
            "delivery {delivery}: {} of job {}",
            again.outcome().word(),
            again.id()
        );
        assert_eq!(again.id(), first.id());
    }

    let filter = LedgerFilter {
        holder: Some(first.id().clone()),
        ..LedgerFilter::default()
    };
    let ledger = jobs.store().ledger(filter, Page::first(10)).await?.items;
    assert_eq!(ledger.len(), 2, "each absorbed delivery is on record");
    for entry in &ledger {
        let producer = entry.producer.as_ref().map_or("somebody", |name| name.as_str());
        println!(
            "on record: a {} from {producer}, differing at {:?}",
            entry.outcome.word(),
            entry.differs
        );
    }
    Ok(())
}
