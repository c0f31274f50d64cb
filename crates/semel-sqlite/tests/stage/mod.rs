//! What the tests of the embedded store share: short ways to say common things, numbers from a seed, a stopwatch.

#![allow(dead_code)] // each test binary uses its part

use std::path::Path;
use std::time::Instant;

use rusqlite::Connection;
use semel_conformance::kit;
use semel_core::ids::{JobId, Name};
use semel_core::job::{Outcome, State};
use semel_core::lifecycle::Settle;
use semel_core::store::{
    ClaimRequest, Claimed, Control as _, Inspect as _, JobFilter, Page, Settlement, Store as _, Submitted,
    WriteOutcome,
};
use semel_core::submission::Submission;
use semel_core::view::Job;
use semel_sqlite::SqliteStore;

/// Numbers that are a function of the seed alone (SplitMix64).
pub struct Rng(u64);

impl Rng {
    /// The numbers of a seed.
    pub fn new(seed: u64) -> Self {
        Rng(seed)
    }

    /// Any number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which must not be zero.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).expect("smaller than a bound that is a usize")
    }

    /// True once in `n` cases.
    pub fn once_in(&mut self, n: u64) -> bool {
        self.next().is_multiple_of(n)
    }
}

/// The stopwatch.
#[expect(
    clippy::disallowed_methods,
    reason = "measures how long a call takes; no store sees this time"
)]
pub fn now() -> Instant {
    Instant::now()
}

/// The middle one of some measurements.
pub fn median<T: Ord + Copy>(measured: &mut [T]) -> T {
    measured.sort_unstable();
    measured[measured.len() / 2]
}

/// A submission of task `work` into a queue.
pub fn into_queue(queue: &str, input: &str) -> Submission {
    Submission {
        queue: kit::name(queue),
        ..kit::of("work", input)
    }
}

/// Submits one that must be accepted; its id.
pub async fn accept(store: &SqliteStore, submission: Submission) -> JobId {
    let answers = store
        .submit(vec![submission])
        .await
        .expect("the store takes a submission");
    accepted(&answers[0])
}

/// The id of a submission that must have been accepted.
pub fn accepted(answer: &Submitted) -> JobId {
    assert_eq!(answer.outcome(), Some(Outcome::Accepted), "{answer:?}");
    answer.id().expect("an accepted submission names its job").clone()
}

/// A claim of up to `max` jobs of some queues; none named: of all.
pub fn claim_of(queues: &[&str], max: usize) -> ClaimRequest {
    let queues: Vec<Name> = queues.iter().map(|queue| kit::name(queue)).collect();
    ClaimRequest {
        queues,
        ..kit::claim_request(max)
    }
}

/// Leases exactly one job of a queue and completes it; its id.
pub async fn run_one(store: &SqliteStore, queue: &str) -> JobId {
    let claims = store
        .claim(claim_of(&[queue], 1))
        .await
        .expect("the store hands out work");
    assert_eq!(claims.len(), 1, "a job waits in {queue}");
    complete(store, &claims[0]).await;
    claims[0].job.id.clone()
}

/// Completes a leased job.
pub async fn complete(store: &SqliteStore, claimed: &Claimed) {
    let result = Settle::Complete { output: None };
    let outcome = settle(store, claimed, result).await;
    assert_eq!(outcome, WriteOutcome::Ok(State::Complete));
}

/// Settles a leased job.
pub async fn settle(store: &SqliteStore, claimed: &Claimed, result: Settle) -> WriteOutcome {
    let settlement = Settlement {
        id: claimed.job.id.clone(),
        fence: claimed.fence,
        result,
    };
    let outcomes = store
        .settle(vec![settlement])
        .await
        .expect("the store takes a result");
    outcomes.into_iter().next().expect("one outcome per settlement")
}

/// Every job of a store, newest first.
pub async fn all_jobs(store: &SqliteStore) -> Vec<Job> {
    let (mut jobs, mut page) = (Vec::new(), Page::first(500));
    loop {
        let listing = store
            .jobs(JobFilter::default(), page)
            .await
            .expect("the store lists jobs");
        jobs.extend(listing.items);
        match listing.next_cursor {
            Some(cursor) => page = Page::after(cursor, 500),
            None => return jobs,
        }
    }
}

/// Asserts that the doctor finds nothing.
pub async fn assert_sound(store: &SqliteStore) {
    let findings = store.doctor(false).await.expect("the doctor can look");
    assert!(findings.is_empty(), "{findings:#?}");
}

/// A plain connection to the file, as another program would open it.
pub fn plain_connection(path: &Path) -> Connection {
    let connection = Connection::open(path).expect("the file opens");
    let patience = std::time::Duration::from_secs(10);
    connection.busy_timeout(patience).expect("a timeout can be set");
    connection
}
