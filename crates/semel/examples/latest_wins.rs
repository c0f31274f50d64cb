//! Saved again and again while the index is being built: the newest wins, and nothing in between is built.
//!
//! `cargo run -p semel --example latest_wins`

use std::sync::{Arc, Mutex};

use semel::{Client, Error, Job, JobResult, Outcome, State, Task, Worker};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Page {
    page: String,
    version: u32,
}

const INDEX: Task<Page, u32> = Task::new("index_page");

#[derive(Clone, Default)]
struct Indexer {
    built: Arc<Mutex<Vec<u32>>>,
    begun: Arc<Notify>,
    go_on: Arc<Notify>,
}

/// The first version takes until it is told to go on.
async fn index(job: Job<Page>, indexer: Indexer) -> JobResult<u32> {
    let version = job.input.version;
    if version == 1 {
        indexer.begun.notify_one();
        indexer.go_on.notified().await;
    }
    indexer
        .built
        .lock()
        .map_err(|_| "the log is poisoned")?
        .push(version);
    Ok(version)
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let place = tempfile::tempdir().expect("a temporary directory");
    let url = format!("sqlite:{}", place.path().join("jobs.db").display());
    let jobs = semel::connect(&url).await?;
    let indexer = Indexer::default();
    let mut told = Ok(());
    Worker::new(&jobs, indexer.clone())
        .task(INDEX, index)
        .run_until(async { told = author(&jobs, &indexer).await })
        .await?;
    told?;
    let built = indexer.built.lock().expect("nobody panicked with it").clone();
    println!("built: {built:?}");
    assert_eq!(
        built,
        [1, 4],
        "the one that ran and the newest, nothing in between"
    );
    Ok(())
}

async fn author(jobs: &Client, indexer: &Indexer) -> Result<(), Error> {
    let save = |version| {
        let page = Page {
            page: "home".to_owned(),
            version,
        };
        jobs.submit(INDEX, &page).by_fields(["/page"]).latest()
    };
    let first = save(1).await?;
    indexer.begun.notified().await;
    println!("version 1 is being built");

    let mut follower = None;
    for version in 2..=4 {
        let sent = save(version).await?;
        println!("version {version} is {}", sent.outcome().word());
        assert_eq!(sent.outcome(), Outcome::Deferred);
        assert_ne!(sent.id(), first.id());
        let known = follower.get_or_insert_with(|| sent.id().clone());
        assert_eq!(known, sent.id(), "one follower, with the newest content");
    }
    let follower = jobs.job(follower.expect("three were saved").as_str())?;
    assert_eq!(follower.job().await?.state, State::Deferred);

    indexer.go_on.notify_one();
    assert_eq!(first.output().await?, 1);
    assert_eq!(follower.output::<u32>().await?, 4);
    Ok(())
}
