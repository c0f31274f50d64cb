//! More objects than a list of the server has on one page: nothing is left out, whoever lists.

#[path = "server/mod.rs"]
mod server;

use std::collections::BTreeSet;

use semel_core::counters::Counter;
use semel_core::ids::{JobId, Name, Token};
use semel_core::json::Json;
use semel_core::lifecycle::Settle;
use semel_core::store::{
    ClaimRequest, Claimed, Control as _, Inspect as _, JobFilter, Page, Retention, Settlement, Store as _,
    UpkeepRequest, WriteOutcome,
};
use semel_core::submission::Submission;
use semel_core::time::Millis;
use semel_s3::S3Store;
use server::{Kind, Server, fresh_bucket, options};

/// A page has a thousand.
const JOBS: u64 = 1_100;

fn token(n: u64) -> Token {
    let mut random = [0u8; 10];
    random[2..].copy_from_slice(&n.to_be_bytes());
    Token::from_parts(1_800_000_000_000, &random)
}

fn name(text: &str) -> Name {
    Name::new(text).expect("a valid name")
}

async fn listed(store: &S3Store) -> BTreeSet<JobId> {
    let mut jobs = BTreeSet::new();
    let mut page = Page::first(500);
    loop {
        let listing = store.jobs(JobFilter::default(), page).await;
        let listing = listing.expect("the store answers");
        jobs.extend(listing.items.into_iter().map(|job| job.id));
        match listing.next_cursor {
            Some(cursor) => page = Page::after(cursor, 500),
            None => return jobs,
        }
    }
}

async fn claim(store: &S3Store, n: u64) -> Vec<Claimed> {
    let request = ClaimRequest {
        token: token(1 << 40 | n),
        worker: name("worker"),
        queues: Vec::new(),
        tasks: Vec::new(),
        max: 1_000,
        lease: Millis::from_secs(3_600),
    };
    store.claim(request).await.expect("the store answers")
}

#[tokio::test]
async fn a_list_of_many_pages_is_whole() {
    let server = Server::start(Kind::Ministack);
    let url = fresh_bucket(&server.endpoint());
    let store = S3Store::open(options(&url)).await.expect("the store opens");
    let submission = |n| Submission::new(token(n), name("work"), Json::new("{}").expect("JSON"));
    for some in [0..1_000, 1_000..JOBS] {
        let batch = some.map(submission).collect();
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
        let settlement = |claimed: Claimed| Settlement {
            id: claimed.job.id,
            fence: claimed.fence,
            result: Settle::Complete { output: None },
        };
        let batch = claims.into_iter().map(settlement).collect();
        let settled = other.settle(batch).await.expect("the store answers");
        assert!(settled.iter().all(|it| matches!(it, WriteOutcome::Ok(_))));
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
