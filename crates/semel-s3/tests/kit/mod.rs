//! What tests of this store have in common: names, submissions, a bucket in memory with a clock that is moved by hand, and
//! what producers and workers do with it.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::sync::Arc;

use futures_util::TryStreamExt as _;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use semel_core::dedup::Dedup;
use semel_core::ids::{JobId, Name, Token};
use semel_core::json::Json;
use semel_core::lifecycle::Settle;
use semel_core::store::{
    ClaimRequest, Claimed, Control as _, Inspect as _, JobFilter, Page, Settlement, Store as _,
    UpkeepRequest, WriteOutcome,
};
use semel_core::submission::Submission;
use semel_core::time::{ManualClock, Millis, Timestamp};
use semel_core::view::Job;
use semel_s3::{S3Options, S3Store};

/// How long claims last.
pub const LEASE: Millis = Millis::from_secs(30);
/// When it is, at first.
const BEGINNING: i64 = 1_800_000_000_000;

pub fn name(text: &str) -> Name {
    Name::new(text).expect("a valid name")
}

pub fn token(n: u64) -> Token {
    let mut random = [0u8; 10];
    random[2..].copy_from_slice(&n.to_be_bytes());
    Token::from_parts(1_800_000_000_000, &random)
}

/// A job without a key.
pub fn plain(n: u64) -> Submission {
    Submission::new(token(n), name("work"), Json::new("{}").expect("JSON"))
}

pub fn keyed(n: u64, policy: Dedup) -> Submission {
    let mut submission = plain(n);
    submission.policy = policy.into();
    submission
}

/// A store on a bucket, by the time of the host.
pub async fn open(bucket: &Arc<InMemory>) -> S3Store {
    S3Store::on(bucket.clone(), options(), None)
        .await
        .expect("the store opens")
}

fn options() -> S3Options {
    S3Options::from_url("s3://memory/tests").expect("a valid URL")
}

/// One bucket and one clock, for any number of processes.
pub struct World {
    pub bucket: Arc<InMemory>,
    pub clock: Arc<ManualClock>,
}

impl World {
    pub fn new() -> Self {
        World {
            bucket: Arc::new(InMemory::new()),
            clock: Arc::new(ManualClock::new(Timestamp::from_millis(BEGINNING))),
        }
    }

    /// A process that sees the bucket in its own way.
    pub async fn open_on(&self, bucket: Arc<dyn ObjectStore>) -> S3Store {
        S3Store::on(bucket, options(), Some(self.clock.clone()))
            .await
            .expect("the store opens")
    }

    pub async fn open(&self) -> S3Store {
        self.open_on(self.bucket.clone()).await
    }

    /// The names of objects that contain a text.
    pub async fn names(&self, part: &str) -> Vec<String> {
        let listed: Vec<_> = self.bucket.list(None).try_collect().await.expect("a list");
        let names = listed.into_iter().map(|one| one.location.to_string());
        names.filter(|name| name.contains(part)).collect()
    }

    /// The bytes of the largest cell of a key.
    pub async fn largest_cell(&self) -> u64 {
        let listed: Vec<_> = self.bucket.list(None).try_collect().await.expect("a list");
        let cells = listed
            .iter()
            .filter(|one| one.location.as_ref().contains("/idempotency/"));
        cells.map(|one| one.size).max().unwrap_or(0)
    }
}

pub async fn submitted(store: &S3Store, submission: Submission) -> JobId {
    let answer = store.submit(vec![submission]).await.expect("the store answers");
    answer[0].id().expect("a job").clone()
}

pub fn claim_request(n: u64, max: usize) -> ClaimRequest {
    ClaimRequest {
        token: token(1 << 40 | n),
        worker: name("worker"),
        queues: Vec::new(),
        tasks: Vec::new(),
        max,
        lease: LEASE,
    }
}

pub async fn claim(store: &S3Store, n: u64, max: usize) -> Vec<Claimed> {
    store
        .claim(claim_request(n, max))
        .await
        .expect("the store answers")
}

pub async fn settle(store: &S3Store, claimed: &Claimed, result: Settle) -> WriteOutcome {
    let settlement = Settlement {
        id: claimed.job.id.clone(),
        fence: claimed.fence,
        result,
    };
    store
        .settle(vec![settlement])
        .await
        .expect("the store answers")
        .remove(0)
}

pub async fn complete(store: &S3Store, claimed: &Claimed) -> WriteOutcome {
    settle(store, claimed, Settle::Complete { output: None }).await
}

/// Completes all of them in one call.
pub async fn complete_all(store: &S3Store, claims: Vec<Claimed>) {
    let count = claims.len();
    let settlement = |claimed: Claimed| Settlement {
        id: claimed.job.id,
        fence: claimed.fence,
        result: Settle::Complete { output: None },
    };
    let batch = claims.into_iter().map(settlement).collect();
    let settled = store.settle(batch).await.expect("the store answers");
    let done = settled.iter().filter(|it| matches!(it, WriteOutcome::Ok(_)));
    assert_eq!(done.count(), count, "what was claimed is settled");
}

pub async fn fail(store: &S3Store, claimed: &Claimed) -> WriteOutcome {
    let error = "boom".to_owned();
    settle(store, claimed, Settle::Fail { error }).await
}

/// All jobs there are, page by page.
pub async fn all(store: &S3Store) -> Vec<Job> {
    let mut jobs = Vec::new();
    let mut page = Page::first(500);
    loop {
        let listing = store.jobs(JobFilter::default(), page).await;
        let listing = listing.expect("the store answers");
        jobs.extend(listing.items);
        match listing.next_cursor {
            Some(cursor) => page = Page::after(cursor, 500),
            None => return jobs,
        }
    }
}

pub async fn job(store: &S3Store, id: &JobId) -> Option<Job> {
    let found = store.jobs_by_id(std::slice::from_ref(id)).await;
    found.expect("the store answers").remove(0)
}

/// Housekeeping until there is nothing left to do.
pub async fn upkeep(store: &S3Store) {
    let request = UpkeepRequest::default();
    while store.upkeep(request).await.expect("the store answers").more {}
}
