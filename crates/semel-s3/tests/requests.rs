//! Requests are money: what each operation may cost (beside the one read of the settings that every call makes).

#[path = "history/mod.rs"]
mod history;
#[path = "kit/mod.rs"]
mod kit;

use std::sync::Arc;

use kit::{claim_request, complete_all, name, open, plain, settle};
use object_store::memory::InMemory;
use semel_core::dedup::Dedup;
use semel_core::job::Outcome;
use semel_core::lifecycle::Settle;
use semel_core::store::{ClaimRequest, Claimed, Store as _};
use semel_core::submission::Submission;
use semel_core::time::Millis;
use semel_s3::S3Store;

fn keyed(n: u64, key: u64) -> Submission {
    kit::keyed(n, Dedup::idempotency_key(format!("order-{key}")))
}

async fn claim(store: &S3Store, n: u64, max: usize) -> Vec<Claimed> {
    let request = ClaimRequest {
        queues: vec![name("default")],
        tasks: vec![name("work")],
        ..claim_request(n, max)
    };
    store.claim(request).await.expect("the store answers")
}

fn retry() -> Settle {
    Settle::Retry {
        error: "again".to_owned(),
        delay: Some(Millis::from_secs(3_600)),
    }
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
    complete_all(&store, claim(&store, 0, 1).await).await;

    let (requests, _) = cost(&store, 1, store.submit(vec![plain(1)])).await;
    assert_eq!(requests, 2, "without a key: hint and cell");
    let (requests, _) = cost(&store, 1, store.submit(vec![keyed(2, 1)])).await;
    assert_eq!(requests, 3, "with a fresh key: read the cell, then hint and cell");
    let (requests, _) = cost(&store, 1, store.submit(vec![keyed(3, 1)])).await;
    assert_eq!(requests, 2, "a duplicate: read the cell, write the entry");

    let (requests, claims) = cost(&store, 2, claim(&store, 1, 1)).await;
    assert!(requests <= 2 + 5, "a claim of one: {requests}");
    let (requests, ()) = cost(&store, 1, complete_all(&store, claims)).await;
    assert_eq!(requests, 1, "an end is one write where the cell is known");
    // Another process settles what it did not claim: a job without a key, and one with.
    for n in [10, 11] {
        let submission = if n == 10 { plain(n) } else { keyed(n, n) };
        store.submit(vec![submission]).await.expect("the store answers");
        let claims = claim(&store, n, 1).await;
        let stranger = open(&bucket).await;
        let (requests, ()) = cost(&stranger, 1, complete_all(&stranger, claims)).await;
        assert!(requests <= 3, "an end elsewhere: {requests}");
    }
    // Attempts that end in another place of the queue advertise it.
    store
        .submit(vec![keyed(12, 12)])
        .await
        .expect("the store answers");
    let claims = claim(&store, 12, 1).await;
    let (requests, _) = cost(&store, 1, settle(&store, &claims[0], retry())).await;
    assert!(requests <= 3, "a retry: hint and cell, {requests}");

    // A key that was used before: whether this very submission was absorbed then is asked of its token.
    let exclusive = |n| kit::keyed(n, Dedup::exclusive("one-at-a-time"));
    store
        .submit(vec![exclusive(20)])
        .await
        .expect("the store answers");
    complete_all(&store, claim(&store, 20, 10).await).await;
    let (requests, answers) = cost(&store, 1, store.submit(vec![exclusive(21)])).await;
    let answers = answers.expect("the store answers");
    assert_eq!(answers[0].outcome(), Some(Outcome::Accepted));
    assert_eq!(requests, 4, "read the cell, then token, hint and cell");
    complete_all(&store, claim(&store, 21, 10).await).await;

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
    let (requests, ()) = cost(&elsewhere, 1, complete_all(&elsewhere, claims)).await;
    assert_eq!(requests, 50);
}

/// What is finished is not looked at by a claim: it costs the same number of requests beside any number of them.
#[tokio::test]
async fn finished_jobs_do_not_make_claims_dearer() {
    let (few, many) = (history::beside(10).await, history::beside(3_000).await);
    assert_eq!(
        few.requests, many.requests,
        "beside 10 and beside 3,000 finished jobs"
    );
}
