//! Requests are money: what each operation may cost (beside the one read of the settings that every call makes).

use std::sync::Arc;

use object_store::memory::InMemory;
use semel_core::dedup::Dedup;
use semel_core::ids::{Name, Token};
use semel_core::json::Json;
use semel_core::lifecycle::Settle;
use semel_core::store::{ClaimRequest, Claimed, Settlement, Store as _};
use semel_core::submission::Submission;
use semel_core::time::Millis;
use semel_s3::{S3Options, S3Store};

fn name(text: &str) -> Name {
    Name::new(text).expect("a valid name")
}

fn token(n: u64) -> Token {
    let mut random = [0u8; 10];
    random[2..].copy_from_slice(&n.to_be_bytes());
    Token::from_parts(1_800_000_000_000, &random)
}

fn plain(n: u64) -> Submission {
    Submission::new(token(n), name("work"), Json::new("{}").expect("JSON"))
}

fn keyed(n: u64, key: u64) -> Submission {
    let mut submission = plain(n);
    submission.policy = Dedup::idempotency_key(format!("order-{key}")).into();
    submission
}

async fn open(bucket: &Arc<InMemory>) -> S3Store {
    let options = S3Options::from_url("s3://memory/requests").expect("a valid URL");
    S3Store::on(bucket.clone(), options, None)
        .await
        .expect("the store opens")
}

async fn claim(store: &S3Store, n: u64, max: usize) -> Vec<Claimed> {
    let request = ClaimRequest {
        token: token(1 << 40 | n),
        worker: name("worker"),
        queues: vec![name("default")],
        tasks: vec![name("work")],
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

/// The requests a call makes, beside those for the settings.
async fn cost<T>(store: &S3Store, settings: u64, call: impl Future<Output = T>) -> (u64, T) {
    let before = store.requests();
    let answer = call.await;
    (store.requests().since(&before).total() - settings, answer)
}

#[tokio::test]
async fn operations_cost_what_they_are_said_to() {
    let bucket = Arc::new(InMemory::new());
    let store = open(&bucket).await;
    // The first use of a queue and a task is written down once.
    store.submit(vec![plain(0)]).await.expect("the store answers");
    complete(&store, claim(&store, 0, 1).await).await;

    let (requests, _) = cost(&store, 1, store.submit(vec![plain(1)])).await;
    assert_eq!(requests, 2, "without a key: hint and cell");
    let (requests, _) = cost(&store, 1, store.submit(vec![keyed(2, 1)])).await;
    assert_eq!(
        requests, 4,
        "with a key: read the cell, then pointer, hint and cell"
    );
    let (requests, _) = cost(&store, 1, store.submit(vec![keyed(3, 1)])).await;
    assert_eq!(requests, 2, "a duplicate: read the cell, write the entry");

    let (requests, claims) = cost(&store, 2, claim(&store, 1, 1)).await;
    assert!(requests <= 2 + 5, "a claim of one: {requests}");
    let (requests, ()) = cost(&store, 1, complete(&store, claims)).await;
    assert_eq!(requests, 1, "an end is one write where the cell is known");

    store
        .submit((100..150).map(plain).collect())
        .await
        .expect("the store answers");
    let elsewhere = open(&bucket).await;
    let (requests, claims) = cost(&elsewhere, 2, claim(&elsewhere, 2, 50)).await;
    assert_eq!(claims.len(), 50);
    assert!(
        requests <= 2 * 50 + 8,
        "a claim of fifty that others submitted: {requests}"
    );
    let (requests, ()) = cost(&elsewhere, 1, complete(&elsewhere, claims)).await;
    assert_eq!(requests, 50);
}

/// What is finished is not looked at by a claim: it costs the same number of requests beside any number of them.
#[tokio::test]
async fn finished_jobs_do_not_make_claims_dearer() {
    let bucket = Arc::new(InMemory::new());
    let mut costs = Vec::new();
    let mut n = 0;
    for finished in [10, 3_000] {
        let store = open(&bucket).await;
        while n < finished {
            let batch = (0..500.min(finished - n)).map(|at| plain(n + at)).collect();
            store.submit(batch).await.expect("the store answers");
            let claims = claim(&store, 10_000_000 + n, 1_000).await;
            n += claims.len() as u64;
            complete(&store, claims).await;
        }
        store
            .submit(vec![plain(20_000_000 + n)])
            .await
            .expect("the store answers");
        let worker = open(&bucket).await;
        let (requests, claims) = cost(&worker, 2, claim(&worker, 30_000_000 + n, 1)).await;
        assert_eq!(claims.len(), 1);
        complete(&worker, claims).await;
        costs.push(requests);
    }
    assert_eq!(costs[0], costs[1], "beside 10 and beside 3,000 finished jobs");
}
