//! How fast the store is: `speed redis://127.0.0.1:6379/0 [jobs]`. Use a server of its own, and a release build.

use std::sync::Arc;
use std::time::Instant;

use semel_conformance::kit::{self, claim_request, with};
use semel_core::dedup::Dedup;
use semel_core::json::Json;
use semel_core::lifecycle::Settle;
use semel_core::store::{Claimed, Settlement, Store as _};
use semel_core::submission::Submission;
use semel_redis::RedisStore;

#[expect(
    clippy::disallowed_methods,
    reason = "a measurement takes time; no store sees it"
)]
fn now() -> Instant {
    Instant::now()
}

fn keyed(n: usize) -> Submission {
    let mut submission = with(Dedup::idempotency_key(format!("key-{n}")));
    submission.content.input = Json::trusted(format!(r#"{{"n":{n},"text":"{}"}}"#, "x".repeat(280)));
    submission
}

fn said(what: &str, jobs: usize, begun: Instant) {
    let seconds = begun.elapsed().as_secs_f64();
    println!("{what:32} {:>9.0} per second", jobs as f64 / seconds);
}

async fn in_batches(store: &RedisStore, what: &str, batch: usize, range: std::ops::Range<usize>) {
    let (begun, jobs) = (now(), range.len());
    let all: Vec<usize> = range.collect();
    for part in all.chunks(batch) {
        let part = part.iter().map(|n| keyed(*n)).collect();
        store.submit(part).await.expect("the store answers");
    }
    said(&format!("{what}, batches of {batch}"), jobs, begun);
}

async fn by_callers(store: &Arc<RedisStore>, callers: usize, range: std::ops::Range<usize>) {
    let (begun, jobs) = (now(), range.len());
    let tasks: Vec<_> = (0..callers)
        .map(|caller| {
            let (store, range) = (store.clone(), range.clone());
            tokio::spawn(async move {
                for n in range.skip(caller).step_by(callers) {
                    store.submit(vec![keyed(n)]).await.expect("the store answers");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("a caller ends");
    }
    said(&format!("unique, {callers} callers"), jobs, begun);
}

async fn drain(store: &RedisStore, batch: usize) {
    let (begun, mut jobs) = (now(), 0);
    loop {
        let claims: Vec<Claimed> = store
            .claim(claim_request(batch))
            .await
            .expect("the store answers");
        if claims.is_empty() {
            break;
        }
        jobs += claims.len();
        let settle = |claimed: Claimed| Settlement {
            id: claimed.job.id,
            fence: claimed.fence,
            result: Settle::Complete { output: None },
        };
        let batch = claims.into_iter().map(settle).collect();
        store.settle(batch).await.expect("the store answers");
    }
    said(&format!("claim and settle, {batch} at a time"), jobs, begun);
}

#[tokio::main]
async fn main() {
    let mut args = std::env::args().skip(1);
    let url = args
        .next()
        .unwrap_or_else(|| "redis://127.0.0.1:6379/0?namespace=speed".to_owned());
    let jobs: usize = args.next().and_then(|jobs| jobs.parse().ok()).unwrap_or(20_000);
    let store = Arc::new(RedisStore::connect(&url).await.expect("the store opens"));
    store.submit(vec![kit::plain()]).await.expect("the store answers");
    in_batches(&store, "unique", 1, 0..jobs / 20).await;
    in_batches(&store, "unique", 128, jobs..2 * jobs).await;
    in_batches(&store, "duplicate", 128, jobs..2 * jobs).await;
    by_callers(&store, 64, 2 * jobs..3 * jobs).await;
    drain(&store, 128).await;
}
