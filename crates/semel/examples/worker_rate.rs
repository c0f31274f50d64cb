//! How much of the store's own rate is left with a worker on top: `cargo run --release --example worker_rate`.
//!
//! Whole lives of unique jobs with a no-op handler on a SQLite file, against the same lives driven through the
//! store by hand in batches of a thousand. Rounds alternate, so that both see the same machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use semel::semel_core::lifecycle::Settle;
use semel::semel_core::limits;
use semel::semel_core::store::{ClaimRequest, Claimed, Settlement};
use semel::{Client, Job, JobResult, Name, Task, Worker};
use tokio::sync::Notify;
use tokio::time::Instant;

const TASK: Task<u64> = Task::new("nothing");
const BATCH: usize = limits::BATCH;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Counts jobs, and says when all are done.
#[derive(Clone, Default)]
struct Count {
    done: Arc<AtomicUsize>,
    all: usize,
    bell: Arc<Notify>,
}

async fn nothing(_job: Job<u64>, count: Count) -> JobResult {
    if count.done.fetch_add(1, Ordering::Relaxed) + 1 == count.all {
        count.bell.notify_one();
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let jobs: usize = std::env::args().nth(1).map_or(Ok(100_000), |text| text.parse())?;
    let rounds: usize = std::env::args().nth(2).map_or(Ok(5), |text| text.parse())?;
    let (mut lifecycles, mut workers, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=rounds {
        let (by_hand, with_worker) = (by_hand(jobs).await?, with_worker(jobs).await?);
        // The first round warms the machine up.
        if round > 0 {
            println!(
                "{by_hand}\n{with_worker}\n  ratio {:.2}",
                with_worker.rate() / by_hand.rate()
            );
            lifecycles.push(by_hand.rate());
            workers.push(with_worker.rate());
            ratios.push(with_worker.rate() / by_hand.rate());
        }
    }
    println!(
        "store lifecycle {:.0} jobs/s, worker end to end {:.0} jobs/s, ratio {:.2} (median of {rounds})",
        median(&mut lifecycles),
        median(&mut workers),
        median(&mut ratios)
    );
    Ok(())
}

struct Lap {
    who: &'static str,
    jobs: usize,
    submitting: Duration,
    working: Duration,
}

impl Lap {
    fn rate(&self) -> f64 {
        self.jobs as f64 / (self.submitting + self.working).as_secs_f64()
    }
}

impl std::fmt::Display for Lap {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Lap {
            who,
            submitting,
            working,
            ..
        } = self;
        write!(
            formatter,
            "{who:>8}: submit {submitting:.3?}, work {working:.3?}, {:.0} jobs/s",
            self.rate()
        )
    }
}

async fn by_hand(jobs: usize) -> Result<Lap, Failure> {
    let (_place, client) = fresh().await?;
    let submitting = submit(&client, jobs).await?;
    let begun = Instant::now();
    let store = client.store();
    let mut done = 0;
    while done < jobs {
        let request = ClaimRequest {
            token: semel::ids::fresh_token(),
            worker: Name::new("hand")?,
            queues: Vec::new(),
            tasks: vec![Name::new(TASK.name())?],
            max: BATCH,
            lease: limits::LEASE,
        };
        let claimed = store.claim(request).await?;
        done += claimed.len();
        store.settle(claimed.into_iter().map(complete).collect()).await?;
    }
    let working = begun.elapsed();
    Ok(Lap {
        who: "by hand",
        jobs,
        submitting,
        working,
    })
}

fn complete(claimed: Claimed) -> Settlement {
    Settlement {
        id: claimed.job.id,
        fence: claimed.fence,
        result: Settle::Complete { output: None },
    }
}

async fn with_worker(jobs: usize) -> Result<Lap, Failure> {
    let (_place, client) = fresh().await?;
    let submitting = submit(&client, jobs).await?;
    let count = Count {
        all: jobs,
        ..Count::default()
    };
    let bell = count.bell.clone();
    let begun = Instant::now();
    let worker = Worker::new(&client, count).task(TASK, nothing);
    // The worker stops once the last handler has run, and returns once the last settlement was answered.
    let report = worker.run_until(async move { bell.notified().await }).await?;
    let working = begun.elapsed();
    assert_eq!(report.completed, jobs as u64, "{report:?}");
    Ok(Lap {
        who: "worker",
        jobs,
        submitting,
        working,
    })
}

async fn fresh() -> Result<(tempfile::TempDir, Client), Failure> {
    let place = tempfile::tempdir()?;
    let client = semel::connect(format!("sqlite:{}", place.path().join("jobs.db").display())).await?;
    Ok((place, client))
}

async fn submit(client: &Client, jobs: usize) -> Result<Duration, Failure> {
    let begun = Instant::now();
    for first in (0..jobs).step_by(BATCH) {
        let batch = (first..jobs.min(first + BATCH)).map(|n| client.submit(TASK, &(n as u64)).unique());
        for answer in client.submit_many(batch).await {
            answer?;
        }
    }
    Ok(begun.elapsed())
}

fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
