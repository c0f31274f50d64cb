//! One event, several tasks: each subscriber has its own job, once, however often the event is sent.
//!
//! `cargo run -p semel --example events`

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use semel::{Client, Error, Job, JobResult, Task, Worker};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Paid {
    order: String,
}

const RECEIPT: Task<Paid> = Task::new("send_receipt");
const STOCK: Task<Paid> = Task::new("update_stock").queue("warehouse");

/// How often each task ran.
type Runs = Arc<Mutex<BTreeMap<String, usize>>>;

async fn note(job: Job<Paid>, runs: Runs) -> JobResult {
    let mut runs = runs.lock().map_err(|_| "the log is poisoned")?;
    *runs.entry(job.task().to_owned()).or_default() += 1;
    println!("{} for order {}", job.task(), job.input.order);
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let place = tempfile::tempdir().expect("a temporary directory");
    let url = format!("sqlite:{}", place.path().join("jobs.db").display());
    let jobs = semel::connect(&url).await?;

    // An event nobody listens to would be lost: it is an error unless allowed.
    let lost = jobs.event("order.paid").send(&paid()).await;
    assert!(matches!(lost, Err(Error::NoSubscribers { .. })));
    println!(
        "before anybody subscribed: {}",
        lost.err().map(|error| error.to_string()).unwrap_or_default()
    );

    let runs = Runs::default();
    let mut told = Ok(());
    Worker::new(&jobs, runs.clone())
        .on_event("order.paid", RECEIPT, note)
        .on_event("order.paid", STOCK, note)
        .run_until(async { told = shop(&jobs).await })
        .await?;
    told?;

    let runs = runs.lock().expect("nobody panicked with it").clone();
    assert_eq!(runs.len(), 2);
    assert!(
        runs.values().all(|runs| *runs == 1),
        "each subscriber once: {runs:?}"
    );
    let kept = jobs.event("order.paid").subscribers().await?;
    println!(
        "{} subscriptions are kept in the store, worker or not",
        kept.len()
    );
    assert_eq!(kept.len(), 2);
    Ok(())
}

fn paid() -> Paid {
    Paid {
        order: "ORD-123".to_owned(),
    }
}

async fn shop(jobs: &Client) -> Result<(), Error> {
    for round in 1..=3 {
        let sent = jobs.event("order.paid").send_idempotent("evt_1", &paid()).await?;
        assert_eq!(sent.len(), 2, "an answer per subscriber");
        for delivered in sent {
            let job = delivered.submitted?;
            println!("round {round}: {} for {}", job.outcome().word(), delivered.task);
            assert_eq!(job.is_duplicate(), round > 1);
            job.wait().await?;
        }
    }
    Ok(())
}
