//! What tests of producers stand on: real stores, a store that misbehaves on request, processes of their own.
#![allow(dead_code, unused_imports, reason = "each test file uses a part of it")]

mod process;
mod wrapped;

pub use process::{Process, arguments, say};
pub use wrapped::Wrapped;

use std::sync::Arc;
use std::time::Duration;

use semel::semel_core::ids::Token;
use semel::semel_core::json::Json;
use semel::semel_core::lifecycle::Settle;
use semel::semel_core::memory::MemoryStore;
use semel::semel_core::store::{ClaimRequest, Claimed, Settlement, Store, WriteOutcome};
use semel::semel_core::time::{ManualClock, Millis, Timestamp};
use semel::{Client, Name, State, ids};

/// A Monday, 2027-01-18T08:00:00Z.
pub const MONDAY: Timestamp = Timestamp::from_millis(1_800_259_200_000);

/// A store with a clock that stands still until it is moved.
pub struct Stage {
    pub store: Arc<dyn Store>,
    pub jobs: Client,
    pub clock: Arc<ManualClock>,
}

impl Stage {
    fn new(store: Arc<dyn Store>, clock: Arc<ManualClock>) -> Self {
        let jobs = Client::from_store(store.clone());
        Stage { store, jobs, clock }
    }

    /// Moves time on.
    pub fn pass(&self, length: Duration) {
        self.clock.advance(Millis::from(length));
    }

    /// Leases up to `max` due jobs.
    pub async fn claim(&self, max: usize) -> Vec<Claimed> {
        claim(&self.jobs, max).await
    }

    /// Leases the next job and settles it.
    pub async fn run_next(&self, result: Settle) {
        let claimed = self.claim(1).await;
        assert_eq!(claimed.len(), 1, "there is a job that is due");
        settle(&self.jobs, &claimed[0], result).await;
    }

    /// A counter of the store.
    pub async fn count(&self, counter: semel::semel_core::counters::Counter) -> i64 {
        self.jobs
            .store()
            .stats()
            .await
            .expect("stats")
            .totals
            .get(counter)
    }
}

/// Runs a scene on a SQLite file, then in memory.
pub async fn on_each_store(scene: impl AsyncFn(Stage)) {
    let place = tempfile::tempdir().expect("a directory");
    let clock = Arc::new(ManualClock::new(MONDAY));
    let options = semel_sqlite::Options::new(place.path().join("jobs.db"));
    let sqlite = semel_sqlite::SqliteStore::open_with_clock(options, clock.clone()).expect("a store");
    scene(Stage::new(Arc::new(sqlite), clock)).await;
    let clock = Arc::new(ManualClock::new(MONDAY));
    let memory = MemoryStore::new(name("default"), clock.clone());
    scene(Stage::new(Arc::new(memory), clock)).await;
}

/// Leases up to `max` due jobs.
pub async fn claim(jobs: &Client, max: usize) -> Vec<Claimed> {
    let request = ClaimRequest {
        token: ids::fresh_token(),
        worker: name("tester"),
        queues: Vec::new(),
        tasks: Vec::new(),
        max,
        lease: Millis::from_secs(30),
    };
    jobs.store().claim(request).await.expect("a claim")
}

/// Ends an attempt.
pub async fn settle(jobs: &Client, claimed: &Claimed, result: Settle) -> State {
    let settlement = Settlement {
        id: claimed.job.id.clone(),
        fence: claimed.fence,
        result,
    };
    let outcomes = jobs.store().settle(vec![settlement]).await.expect("an answer");
    match outcomes.as_slice() {
        [WriteOutcome::Ok(state)] => *state,
        other => panic!("not settled: {other:?}"),
    }
}

pub fn complete(output: &str) -> Settle {
    Settle::Complete {
        output: Some(Json::new(output).expect("JSON")),
    }
}

pub fn failure(error: &str) -> Settle {
    Settle::Fail {
        error: error.to_owned(),
    }
}

pub fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

pub fn token(n: u8) -> Token {
    Token::from_parts(1_800_000_000_000, &[n; 10])
}
