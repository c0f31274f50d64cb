//! What tests of workers stand on: real stores, and ways to wait for what should happen.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::time::Duration;

use semel::{Client, JobId, State};

/// Runs a scene on a SQLite file and in memory.
pub async fn on_each_store(scene: impl AsyncFn(Client)) {
    let place = tempfile::tempdir().expect("a directory");
    let url = format!("sqlite:{}", place.path().join("jobs.db").display());
    scene(semel::connect(&url).await.expect("a SQLite store")).await;
    scene(semel::connect("memory:").await.expect("a store in memory")).await;
}

/// Waits until all of these jobs have ended.
pub fn until_ended(jobs: &Client, ids: &[&JobId]) -> impl Future<Output = ()> + use<> {
    let jobs = jobs.clone();
    let ids: Vec<JobId> = ids.iter().copied().cloned().collect();
    async move {
        eventually("the jobs to end", async || {
            let found = jobs.store().jobs_by_id(&ids).await.expect("an answer");
            found
                .into_iter()
                .all(|job| job.is_some_and(|job| job.state.is_terminal()))
        })
        .await;
    }
}

/// Waits until something holds, but not for ever.
pub async fn eventually(what: &str, holds: impl AsyncFn() -> bool) {
    for _ in 0..4_000 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("waited 20 s for {what}");
}

/// Where a job stands.
pub async fn state(jobs: &Client, id: &JobId) -> State {
    let found = jobs
        .store()
        .jobs_by_id(std::slice::from_ref(id))
        .await
        .expect("an answer");
    found[0].as_ref().expect("it is known").state
}
