//! A cron run that is longer than its interval, on two workers: never two at once, every skip counted.
//!
//! `cargo run -p semel --example overlapping_cron` (takes about eight seconds)

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use semel::schedule::{self, Overlap, Schedule};
use semel::{Client, Error, Job, JobResult, Task, WorkReport, Worker, millis, secs};

const REPORT: Task<String> = Task::new("report");

#[derive(Default)]
struct Seen {
    running: usize,
    most_at_once: usize,
    due: Vec<String>,
}

type Log = Arc<Mutex<Seen>>;

/// Takes longer than the second until the next tick.
async fn report(job: Job<String>, log: Log) -> JobResult {
    let due = job.headers().get("semel-due").cloned().unwrap_or_default();
    {
        let mut seen = log.lock().expect("nobody panics with it");
        seen.running += 1;
        seen.most_at_once = seen.most_at_once.max(seen.running);
        println!("the report due at {due} begins");
        seen.due.push(due);
    }
    tokio::time::sleep(millis(1_700)).await;
    log.lock().expect("nobody panics with it").running -= 1;
    Ok(())
}

/// A worker carries out schedules too; two of them are two schedulers.
async fn worker(jobs: &Client, log: &Log) -> Result<WorkReport, Error> {
    Worker::new(jobs, log.clone())
        .task(REPORT, report)
        .run_until(tokio::time::sleep(secs(7)))
        .await
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let place = tempfile::tempdir().expect("a temporary directory");
    let url = format!("sqlite:{}", place.path().join("jobs.db").display());
    let (here, there) = (semel::connect(&url).await?, semel::connect(&url).await?);

    let every_second = Schedule::new("report", "* * * * * *", REPORT, &"sales".to_owned())?
        .zone("Europe/Berlin")
        .overlap(Overlap::Skip);
    schedule::put(&here, &every_second).await?;

    let log = Log::default();
    let (one, other) = tokio::join!(worker(&here, &log), worker(&there, &log));
    let completed = one?.completed + other?.completed;
    let skipped = schedule::get(&here, "report")
        .await?
        .map_or(0, |view| view.skipped);

    let seen = log.lock().expect("nobody panics with it");
    let ticks: BTreeSet<&String> = seen.due.iter().collect();
    println!(
        "{completed} reports, at most {} at once, {skipped} ticks skipped",
        seen.most_at_once
    );
    assert_eq!(
        seen.most_at_once, 1,
        "a tick waits for nobody and overlaps with nobody"
    );
    assert_eq!(
        ticks.len(),
        seen.due.len(),
        "no tick came twice, though two schedulers were at it"
    );
    assert!(completed >= 2 && skipped >= 1);
    Ok(())
}
