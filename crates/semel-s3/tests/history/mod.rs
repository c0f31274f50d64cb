//! Claims beside any number of finished jobs.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use object_store::memory::InMemory;
use semel_core::dedup::Dedup;
use semel_core::store::{ClaimRequest, Claimed, Store as _};
use semel_core::submission::Submission;
use semel_core::time::Millis;
use semel_s3::S3Store;

use crate::kit::{claim_request, complete_all, keyed, open, plain};

/// What a claim of one job cost.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    pub requests: u64,
    /// Of several, the middle one.
    pub time: Duration,
}

/// Every other one has a key.
fn submission(n: u64) -> Submission {
    match n.is_multiple_of(2) {
        true => keyed(n, Dedup::idempotency_key(format!("order-{n}"))),
        false => plain(n),
    }
}

/// Nobody wants back what it has, however long a run takes.
async fn claim(store: &S3Store, n: u64, max: usize) -> Vec<Claimed> {
    let request = ClaimRequest {
        lease: Millis::from_secs(600),
        ..claim_request(n, max)
    };
    store.claim(request).await.expect("the store answers")
}

#[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
pub fn now() -> Instant {
    Instant::now()
}

/// A claim by a process that has nothing to do with the finished jobs, on a bucket in memory.
pub async fn beside(finished: u64) -> Cost {
    let bucket = Arc::new(InMemory::new());
    let store = open(&bucket).await;
    let mut done = 0;
    while done < finished {
        let batch = (0..1_000.min(finished - done))
            .map(|n| submission(done + n))
            .collect();
        store.submit(batch).await.expect("the store answers");
        let claims = claim(&store, done, 1_000).await;
        done += claims.len() as u64;
        complete_all(&store, claims).await;
        if done.is_multiple_of(10_000) {
            println!("{done} of {finished} jobs are finished");
        }
    }
    let worker = open(&bucket).await;
    let mut times = Vec::new();
    let mut requests = 0;
    for n in 0..21 {
        let fresh = submission(10_000_000 + n);
        store.submit(vec![fresh]).await.expect("the store answers");
        let before = worker.requests();
        let begun = now();
        let claims = claim(&worker, 10_000_000 + n, 1).await;
        times.push(begun.elapsed());
        requests = requests.max(worker.requests().since(&before).total());
        assert_eq!(claims.len(), 1);
        complete_all(&worker, claims).await;
    }
    times.sort();
    Cost {
        requests,
        time: times[times.len() / 2],
    }
}
