//! More objects than a list of the server has on one page: nothing is left out, whoever lists.

#[path = "kit/mod.rs"]
mod kit;
#[path = "server/mod.rs"]
mod server;

use std::collections::BTreeSet;

use kit::{all, claim_request, complete_all, plain, token};
use semel_core::counters::Counter;
use semel_core::ids::JobId;
use semel_core::store::{
    ClaimRequest, Claimed, Control as _, Inspect as _, Retention, Store as _, UpkeepRequest,
};
use semel_core::time::Millis;
use semel_s3::S3Store;
use server::{Kind, Server, fresh_bucket, options};

/// A page has a thousand.
const JOBS: u64 = 1_100;

async fn listed(store: &S3Store) -> BTreeSet<JobId> {
    all(store).await.into_iter().map(|job| job.id).collect()
}

/// Lasts as long as a slow server needs.
async fn claim(store: &S3Store, n: u64) -> Vec<Claimed> {
    let request = ClaimRequest {
        lease: Millis::from_secs(3_600),
        ..claim_request(n, 1_000)
    };
    store.claim(request).await.expect("the store answers")
}

#[tokio::test]
async fn a_list_of_many_pages_is_whole() {
    let server = Server::start(Kind::Ministack);
    let url = fresh_bucket(&server.endpoint());
    let store = S3Store::open(options(&url)).await.expect("the store opens");
    for some in [0..1_000, 1_000..JOBS] {
        let batch = some.map(plain).collect();
        store.submit(batch).await.expect("the store answers");
    }
    // By another's clock, which goes in steps, the last of them may not be due yet.
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    let other = S3Store::open(options(&url)).await.expect("the store opens");
    let all: BTreeSet<JobId> = (0..JOBS).map(|n| JobId::from(token(n))).collect();
    assert_eq!(listed(&other).await, all);

    let mut given = BTreeSet::new();
    for n in 0..2 {
        let claims = claim(&other, n).await;
        given.extend(claims.iter().map(|claimed| claimed.job.id.clone()));
        complete_all(&other, claims).await;
    }
    assert_eq!(given, all, "each is given to a worker");

    // All of it goes, in one deletion after the other.
    let request = UpkeepRequest {
        retention: Retention {
            complete: Millis::new(0),
            ..Retention::default()
        },
        ..UpkeepRequest::default()
    };
    while store.upkeep(request).await.expect("the store answers").more {}
    assert_eq!(listed(&other).await, BTreeSet::new());
    let stats = other.stats().await.expect("the store answers");
    let counted = (
        stats.raw.get(Counter::Accepted),
        stats.raw.get(Counter::Completed),
    );
    assert_eq!(counted, (JOBS as i64, JOBS as i64));
    assert_eq!(other.doctor(false).await.expect("the store answers"), []);
}
