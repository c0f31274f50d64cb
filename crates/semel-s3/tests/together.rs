//! Two who keep house at once: whatever another does between any two requests of this one, nothing is counted twice,
//! nothing is lost, and nobody is in the way of the other.

#[path = "stall/mod.rs"]
mod stall;

use std::sync::Arc;

use object_store::ObjectStore;
use object_store::memory::InMemory;
use semel_core::counters::Counts;
use semel_core::dedup::{Dedup, Hold};
use semel_core::ids::{Digest, JobId, Name, Token};
use semel_core::json::Json;
use semel_core::lifecycle::Settle;
use semel_core::store::{
    ClaimRequest, Control as _, Inspect as _, JobFilter, Page, Settlement, Store as _, UpkeepReport,
    UpkeepRequest,
};
use semel_core::submission::Submission;
use semel_core::time::{ManualClock, Millis, Timestamp};
use semel_s3::{S3Options, S3Store};
use stall::{Stalled, copied};

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

fn keyed(n: u64, policy: Dedup) -> Submission {
    let mut submission = plain(n);
    submission.policy = policy.into();
    submission
}

/// Held for good, so that its ledger is folded while it is known.
fn forever(n: u64) -> Submission {
    keyed(n, Dedup::explicit("invoice").hold(Hold::forever()))
}

async fn open(bucket: Arc<dyn ObjectStore>, clock: &Arc<ManualClock>) -> S3Store {
    let options = S3Options::from_url("s3://memory/together").expect("a valid URL");
    S3Store::on(bucket, options, Some(clock.clone()))
        .await
        .expect("the store opens")
}

async fn submit(store: &S3Store, submission: Submission) -> JobId {
    let answers = store.submit(vec![submission]).await;
    answers.expect("the store answers")[0]
        .id()
        .expect("a job")
        .clone()
}

/// Completes all there is to do.
async fn work(store: &S3Store, n: u64) {
    let request = ClaimRequest {
        token: token(1 << 40 | n),
        worker: name("worker"),
        queues: Vec::new(),
        tasks: Vec::new(),
        max: 100,
        lease: Millis::from_secs(60),
    };
    let claims = store.claim(request).await.expect("the store answers");
    let settlement = |claimed: semel_core::store::Claimed| Settlement {
        id: claimed.job.id,
        fence: claimed.fence,
        result: Settle::Complete { output: None },
    };
    let batch = claims.into_iter().map(settlement).collect();
    store.settle(batch).await.expect("the store answers");
}

async fn upkeep(store: &S3Store) {
    while round(store).await.more {}
}

async fn round(store: &S3Store) -> UpkeepReport {
    let report = store.upkeep(UpkeepRequest::default()).await;
    report.expect("the store answers")
}

/// A bucket with all that upkeep has to do: jobs past their retention, duplicates past theirs, a key with many ended
/// jobs behind it. Gives the jobs that stay.
async fn neglected(bucket: &Arc<InMemory>, clock: &Arc<ManualClock>) -> Vec<JobId> {
    let store = open(bucket.clone(), clock).await;
    for n in 0..3 {
        submit(&store, plain(n)).await;
    }
    let kept = submit(&store, forever(10)).await;
    for n in 11..14 {
        assert_eq!(submit(&store, forever(n)).await, kept, "a duplicate");
    }
    work(&store, 0).await;
    clock.advance(Millis::from_days(40));
    let mut staying = Vec::new();
    for n in 20..32 {
        staying.push(submit(&store, keyed(n, Dedup::exclusive("refresh"))).await);
        work(&store, n).await;
        clock.advance(Millis::from_secs(1));
    }
    staying
}

/// What must be the same before and after upkeep, however often it is done.
#[derive(Debug, PartialEq)]
struct Picture {
    counts: Counts,
    absorbed: Option<i64>,
    jobs: Vec<JobId>,
    damage: usize,
}

async fn picture(bucket: &Arc<InMemory>, clock: &Arc<ManualClock>, staying: &[JobId]) -> Picture {
    let store = open(bucket.clone(), clock).await;
    let stats = store.stats().await.expect("the store answers");
    let found = store.jobs_by_id(staying).await.expect("the store answers");
    let jobs = store
        .jobs(JobFilter::default(), Page::first(500))
        .await
        .expect("the store answers");
    let listed: Vec<JobId> = jobs.items.into_iter().map(|job| job.id).collect();
    let there = staying.iter().zip(found).filter(|(_, found)| found.is_some());
    let there = there.map(|(id, _)| id).filter(|id| listed.contains(id));
    let damage = store.doctor(false).await.expect("the store answers").len();
    Picture {
        counts: stats.raw,
        absorbed: absorbed(&store).await,
        jobs: there.cloned().collect(),
        damage,
    }
}

async fn absorbed(store: &S3Store) -> Option<i64> {
    let keys = store
        .keys(semel_core::store::KeyFilter::default(), Page::first(500))
        .await
        .expect("the store answers");
    let digest: Option<Digest> = keys.items.first().map(|row| row.key.digest);
    let row = store.key(digest?).await.expect("the store answers");
    row.map(|row| row.absorbed)
}

#[tokio::test]
async fn two_may_keep_house_at_once() {
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_800_000_000_000)));
    let first = Arc::new(InMemory::new());
    let staying = neglected(&first, &clock).await;
    let before = picture(&first, &clock, &staying).await;
    assert_eq!(
        (before.absorbed, before.jobs.len(), before.damage),
        (Some(3), 12, 0)
    );
    let mut stops = 0;
    for n in 0.. {
        let bucket = copied(&first).await;
        let stalled = Stalled::new(bucket.clone());
        let slow = open(stalled.clone(), &clock).await;
        let other = open(bucket.clone(), &clock).await;
        stalled.stop_after(n);
        let one = async {
            round(&slow).await;
        };
        let stopped = stalled.run(one, upkeep(&other)).await;
        stalled.stop_after(i64::MAX);
        assert_eq!(
            picture(&bucket, &clock, &staying).await,
            before,
            "stopped before request {n}"
        );
        upkeep(&slow).await;
        upkeep(&other).await;
        assert_eq!(
            picture(&bucket, &clock, &staying).await,
            before,
            "stopped before request {n}, and once more"
        );
        if !stopped {
            break;
        }
        stops += 1;
    }
    assert!(stops > 40, "only {stops} requests were made");
    println!("stopped before each of {stops} requests");
}
