//! What tests of workers stand on: real stores, and ways to wait for what should happen.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::sync::Arc;
use std::time::Duration;

use semel::semel_core::memory::MemoryStore;
use semel::semel_core::store::{ClaimRequest, Claimed};
use semel::semel_core::time::{Clock, ManualClock, Millis, Timestamp};
use semel::view::AttemptView;
use semel::{Client, JobId, Name, State, view};

/// Runs a scene on a SQLite file and in memory, at the same time.
pub async fn on_each_store(scene: impl AsyncFn(Client)) {
    let place = tempfile::tempdir().expect("a directory");
    let url = format!("sqlite:{}", place.path().join("jobs.db").display());
    let sqlite = semel::connect(&url).await.expect("a SQLite store");
    let memory = semel::connect("memory:").await.expect("a store in memory");
    tokio::join!(scene(sqlite), scene(memory));
}

/// Runs a scene on a SQLite file and in memory, each with a clock that stands still until it is moved.
pub async fn on_each_store_with_clock(scene: impl AsyncFn(Client, Arc<ManualClock>)) {
    let place = tempfile::tempdir().expect("a directory");
    let options = semel_sqlite::Options::new(place.path().join("jobs.db"));
    let clock = clock();
    let sqlite = semel_sqlite::SqliteStore::open_with_clock(options, clock.clone()).expect("a store");
    scene(Client::from_store(Arc::new(sqlite)), clock).await;
    let clock = self::clock();
    let memory = MemoryStore::new(Name::new("default").expect("a name"), clock.clone());
    scene(Client::from_store(Arc::new(memory)), clock).await;
}

/// A clock at a Monday, 2027-01-18T08:00:00Z.
fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(Timestamp::from_millis(1_800_259_200_000)))
}

/// Moves time on.
pub fn pass(clock: &ManualClock, length: Duration) -> Timestamp {
    clock.advance(Millis::from(length));
    clock.now()
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

/// Waits until a job is in a state.
pub fn until_state(jobs: &Client, id: &JobId, state: State) -> impl Future<Output = ()> + use<> {
    let (jobs, id) = (jobs.clone(), id.clone());
    async move {
        eventually(&format!("{id} to be {}", state.word()), async || {
            job(&jobs, &id).await.state == state
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

/// A job as it stands.
pub async fn job(jobs: &Client, id: &JobId) -> view::Job {
    let found = jobs
        .store()
        .jobs_by_id(std::slice::from_ref(id))
        .await
        .expect("an answer");
    found[0].clone().expect("it is known")
}

/// The deliveries of a job that have ended.
pub async fn attempts(jobs: &Client, id: &JobId) -> Vec<AttemptView> {
    jobs.store().attempts(id).await.expect("an answer")
}

/// Takes one job, as another worker would.
pub async fn claim_one(jobs: &Client, lease: Duration) -> Option<Claimed> {
    let request = ClaimRequest {
        token: semel::ids::fresh_token(),
        worker: Name::new("somebody else").expect("a name"),
        queues: Vec::new(),
        tasks: Vec::new(),
        max: 1,
        lease: lease.into(),
    };
    jobs.store().claim(request).await.expect("an answer").pop()
}
