//! Claims beside any number of finished jobs.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use object_store::ObjectStore;
use object_store::memory::InMemory;
use semel_core::dedup::Dedup;
use semel_core::ids::{Name, Token};
use semel_core::json::Json;
use semel_core::lifecycle::Settle;
use semel_core::store::{ClaimRequest, Claimed, Settlement, Store as _};
use semel_core::submission::Submission;
use semel_core::time::Millis;
use semel_s3::{S3Options, S3Store};

/// What a claim of one job cost.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    pub requests: u64,
    /// Of several, the middle one.
    pub time: Duration,
}

fn token(n: u64) -> Token {
    let mut random = [0u8; 10];
    random[2..].copy_from_slice(&n.to_be_bytes());
    Token::from_parts(1_800_000_000_000, &random)
}

/// Every other one has a key.
fn submission(n: u64) -> Submission {
    let name = Name::new("work").expect("a valid name");
    let mut submission = Submission::new(token(n), name, Json::new("{}").expect("JSON"));
    if n.is_multiple_of(2) {
        submission.policy = Dedup::idempotency_key(format!("order-{n}")).into();
    }
    submission
}

async fn open(bucket: &Arc<InMemory>) -> S3Store {
    let bucket: Arc<dyn ObjectStore> = bucket.clone();
    let options = S3Options::from_url("s3://memory/history").expect("a valid URL");
    S3Store::on(bucket, options, None).await.expect("the store opens")
}

async fn claim(store: &S3Store, n: u64, max: usize) -> Vec<Claimed> {
    let request = ClaimRequest {
        token: token(1 << 40 | n),
        worker: Name::new("worker").expect("a valid name"),
        queues: Vec::new(),
        tasks: Vec::new(),
        max,
        lease: Millis::from_secs(600),
    };
    store.claim(request).await.expect("the store answers")
}

async fn complete(store: &S3Store, claims: Vec<Claimed>) {
    let settle = |claimed: Claimed| Settlement {
        id: claimed.job.id,
        fence: claimed.fence,
        result: Settle::Complete { output: None },
    };
    let batch = claims.into_iter().map(settle).collect();
    store.settle(batch).await.expect("the store answers");
}

#[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
fn now() -> Instant {
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
        complete(&store, claims).await;
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
        complete(&worker, claims).await;
    }
    times.sort();
    Cost {
        requests,
        time: times[times.len() / 2],
    }
}
