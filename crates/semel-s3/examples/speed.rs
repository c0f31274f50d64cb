//! What operations cost: requests each, and how many a second beside raw writes to the same server.
//!
//! `speed [N]`: N jobs per figure, 2,000 where nothing is said. Starts a server of its own.

#[allow(dead_code, reason = "as a test it has a main of its own")]
#[path = "../tests/conformance.rs"]
mod conformance;
#[path = "../tests/history/mod.rs"]
mod history;

use std::sync::Arc;
use std::time::Instant;

use conformance::server::{Kind, Server, options};
use object_store::aws::AmazonS3Builder;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _, PutPayload};
use semel_core::dedup::Dedup;
use semel_core::ids::{Name, Token};
use semel_core::json::Json;
use semel_core::lifecycle::Settle;
use semel_core::store::{ClaimRequest, Claimed, Settlement, Store as _};
use semel_core::submission::Submission;
use semel_core::time::Millis;
use semel_s3::{RequestCounts, S3Store};

/// Callers at once.
const CALLERS: u64 = 16;

fn name(text: &str) -> Name {
    Name::new(text).expect("a valid name")
}

fn token(n: u64) -> Token {
    let mut random = [0u8; 10];
    random[2..].copy_from_slice(&n.to_be_bytes());
    Token::from_parts(1_800_000_000_000, &random)
}

fn plain(n: u64) -> Submission {
    Submission::new(
        token(n),
        name("work"),
        Json::new(r#"{"to":"somebody@example.org"}"#).expect("JSON"),
    )
}

fn keyed(n: u64, key: u64) -> Submission {
    let mut submission = plain(n);
    submission.policy = Dedup::idempotency_key(format!("order-{key}")).into();
    submission
}

/// Does something `count` times from several callers; how many a second.
async fn at_once<F: Future<Output = ()> + Send + 'static>(
    count: u64,
    work: impl Fn(u64) -> F + Send + Sync + 'static,
) -> f64 {
    let work = Arc::new(work);
    let begun = now();
    let mut tasks = tokio::task::JoinSet::new();
    for caller in 0..CALLERS {
        let work = work.clone();
        tasks.spawn(async move {
            for n in (caller..count).step_by(CALLERS as usize) {
                work(n).await;
            }
        });
    }
    tasks.join_all().await;
    count as f64 / begun.elapsed().as_secs_f64()
}

#[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
fn now() -> Instant {
    Instant::now()
}

async fn claim(store: &S3Store, n: u64, max: usize) -> Vec<Claimed> {
    let request = ClaimRequest {
        token: token(1 << 40 | n),
        worker: name("worker"),
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
    store
        .settle(claims.into_iter().map(settle).collect())
        .await
        .expect("the store answers");
}

fn show(what: &str, requests: RequestCounts, settings: u64, limit: &str) {
    let RequestCounts {
        get,
        put,
        list,
        delete,
    } = requests;
    println!(
        "{what:34} {:>4} requests (GET {}, PUT {put}, LIST {list}, DELETE {delete}) beside {settings} of settings; aim {limit}",
        requests.total() - settings,
        get - settings,
    );
}

async fn requests(url: &str) {
    let store = S3Store::open(options(url)).await.expect("the store opens");
    let reader = S3Store::open(options(url)).await.expect("the store opens");
    // The first use of a queue and a task is written down once.
    store.submit(vec![plain(0)]).await.expect("the store answers");
    complete(&store, claim(&store, 0, 1).await).await;
    let mut before = store.requests();
    let mut since = |store: &S3Store| {
        let now = store.requests();
        let passed = now.since(&before);
        before = now;
        passed
    };
    store.submit(vec![plain(1)]).await.expect("the store answers");
    show("submit without a key", since(&store), 1, "≤ 2");
    store.submit(vec![keyed(2, 1)]).await.expect("the store answers");
    show("submit with a fresh key", since(&store), 1, "≤ 3");
    store.submit(vec![keyed(3, 1)]).await.expect("the store answers");
    show("duplicate, with its ledger entry", since(&store), 1, "≤ 2");
    store.submit(vec![keyed(3, 1)]).await.expect("the store answers");
    show("the same duplicate sent again", since(&store), 1, "-");
    let claims = claim(&store, 1, 1).await;
    show("claim 1, submitted here", since(&store), 2, "2n + c");
    complete(&store, claims).await;
    show("complete 1", since(&store), 1, "≤ 3");
    let batch: Vec<Submission> = (100..120).map(plain).collect();
    store.submit(batch).await.expect("the store answers");
    since(&store);
    let claims = claim(&store, 2, 20).await;
    show(
        &format!("claim {}, submitted here", claims.len()),
        since(&store),
        2,
        "2n + c",
    );
    complete(&store, claims).await;
    show("complete 20", since(&store), 1, "≤ 3n");
    let batch: Vec<Submission> = (200..220).map(plain).collect();
    store.submit(batch).await.expect("the store answers");
    let before = reader.requests();
    let claims = claim(&reader, 3, 20).await;
    let passed = reader.requests().since(&before);
    show(
        &format!("claim {}, submitted elsewhere", claims.len()),
        passed,
        2,
        "2n + c",
    );
    let before = reader.requests();
    complete(&reader, claims).await;
    show("complete 20", reader.requests().since(&before), 1, "≤ 3n");
}

fn raw(server: &Server) -> Arc<dyn ObjectStore> {
    let client = AmazonS3Builder::new()
        .with_bucket_name("semel-tests")
        .with_region("us-east-1")
        .with_endpoint(server.endpoint())
        .with_allow_http(true)
        .with_access_key_id("test")
        .with_secret_access_key("test");
    Arc::new(client.build().expect("a client"))
}

async fn speed(server: &Server, count: u64) {
    let bucket = raw(server);
    let body = "x".repeat(900);
    let puts = at_once(count * 2, move |n| {
        let (bucket, body) = (bucket.clone(), body.clone());
        async move {
            let path = Path::from(format!("raw/{n}"));
            bucket.put(&path, PutPayload::from(body)).await.expect("a write");
        }
    })
    .await;
    println!("\nraw PUT                {puts:8.0} /s from {CALLERS} callers");
    let figure = |what: &str, rate: f64, aim: &str| {
        println!("{what:22} {rate:8.0} /s, {:.2} of raw; aim {aim}", rate / puts);
    };
    let store = Arc::new(
        S3Store::open(options(&server.fresh_url()))
            .await
            .expect("the store opens"),
    );
    let to = store.clone();
    let rate = at_once(count, move |n| {
        let store = to.clone();
        async move {
            store.submit(vec![plain(n)]).await.expect("the store answers");
        }
    })
    .await;
    figure("submit without a key", rate, "≥ 0.4");
    let to = store.clone();
    let rate = at_once(count, move |n| {
        let store = to.clone();
        async move {
            store
                .submit(vec![keyed(1_000_000 + n, n)])
                .await
                .expect("the store answers");
        }
    })
    .await;
    figure("submit with a key", rate, "≥ 0.25");
    let to = store.clone();
    let rate = at_once(count, move |n| {
        let store = to.clone();
        async move {
            store
                .submit(vec![keyed(2_000_000 + n, n)])
                .await
                .expect("the store answers");
        }
    })
    .await;
    figure("duplicate", rate, "-");
    let begun = now();
    let mut done = 0;
    for n in 0.. {
        let claims = claim(&store, 1_000 + n, 64).await;
        if claims.is_empty() {
            break;
        }
        done += claims.len();
        complete(&store, claims).await;
    }
    let rate = done as f64 / begun.elapsed().as_secs_f64();
    figure("claim and complete, 64", rate, "-");
    let store = Arc::new(
        S3Store::open(options(&server.fresh_url()))
            .await
            .expect("the store opens"),
    );
    let begun = now();
    for round in 0..count / 64 {
        let batch = (0..64).map(|n| plain(3_000_000 + round * 64 + n)).collect();
        store.submit(batch).await.expect("the store answers");
        let claims = claim(&store, 2_000_000 + round, 64).await;
        assert_eq!(claims.len(), 64);
        complete(&store, claims).await;
    }
    let rate = (count / 64 * 64) as f64 / begun.elapsed().as_secs_f64();
    figure("lifecycle, 64 at a time", rate, "≥ 0.1");
}

fn main() {
    let count = std::env::args()
        .nth(1)
        .and_then(|n| n.parse().ok())
        .unwrap_or(2_000);
    let server = Server::start(Kind::Ministack);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be made");
    runtime.block_on(async {
        requests(&server.fresh_url()).await;
        speed(&server, count).await;
        println!();
        for finished in [1_000, 100_000] {
            let history::Cost { requests, time } = history::beside(finished).await;
            println!(
                "claim of 1 beside {finished:6} finished jobs, in memory: {time:?}, {requests} requests"
            );
        }
    });
}
