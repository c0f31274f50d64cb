//! A button pressed twice: one charge, one receipt, and an error when a key is used for something else.
//!
//! `cargo run -p semel --example double_click`

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use semel::{Client, Error, Job, JobResult, Task, Worker, days};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Charge {
    order: String,
    cents: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Receipt {
    number: u32,
    cents: u64,
}

const CHARGE: Task<Charge, Receipt> = Task::new("charge_customer");

/// How often money was taken.
type Till = Arc<AtomicU32>;

async fn charge(job: Job<Charge>, till: Till) -> JobResult<Receipt> {
    let number = till.fetch_add(1, Ordering::Relaxed) + 1;
    Ok(Receipt {
        number,
        cents: job.input.cents,
    })
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let place = tempfile::tempdir().expect("a temporary directory");
    let url = format!("sqlite:{}", place.path().join("jobs.db").display());
    let jobs = semel::connect(&url).name("checkout").await?;
    let till = Till::default();
    let mut told = Ok(());
    Worker::new(&jobs, till.clone())
        .task(CHARGE, charge)
        .run_until(async { told = customer(&jobs).await })
        .await?;
    told?;
    assert_eq!(till.load(Ordering::Relaxed), 1, "the customer was charged once");
    println!("money was taken {} time", till.load(Ordering::Relaxed));
    Ok(())
}

async fn customer(jobs: &Client) -> Result<(), Error> {
    let order = Charge {
        order: "ORD-123".to_owned(),
        cents: 4_200,
    };
    let press = || {
        jobs.submit(CHARGE, &order)
            .idempotency_key("charge-ORD-123")
            .idempotency_ttl(days(30))
    };

    // Two clicks at the same moment: both wait for the one job there is.
    let (first, second) = tokio::join!(press().output(), press().output());
    let (first, second) = (first?, second?);
    println!(
        "two clicks, receipts number {} and {}",
        first.number, second.number
    );
    assert_eq!(first, second);

    // A third, after a reload of the page: the job has ended, its answer is still there.
    let third = press().await?;
    println!("a reload is a {}", third.outcome().word());
    assert!(third.is_duplicate());
    assert_eq!(third.output().await?, first);

    // The same key for another amount is a mistake, and is told as one.
    let dearer = Charge {
        cents: 9_900,
        ..order
    };
    let refused = jobs
        .submit(CHARGE, &dearer)
        .idempotency_key("charge-ORD-123")
        .await;
    match refused {
        Err(Error::IdempotencyConflict { differs, .. }) => {
            println!("another amount under the same key is refused, it differs at {differs:?}");
            assert_eq!(differs, ["/cents"]);
        }
        other => panic!("expected a conflict, got {other:?}"),
    }
    Ok(())
}
