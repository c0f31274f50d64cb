//! Two who keep house at once: whatever another does between any two requests of this one, nothing is counted twice,
//! nothing is lost, and nobody is in the way of the other.

#[path = "kit/mod.rs"]
mod kit;
#[path = "stall/mod.rs"]
mod stall;
#[path = "through/mod.rs"]
mod through;

use kit::{World, all, claim, complete_all, keyed, plain, submitted, upkeep};
use semel_core::counters::Counts;
use semel_core::dedup::{Dedup, Hold};
use semel_core::ids::{Digest, JobId};
use semel_core::store::{Control as _, Inspect as _, KeyFilter, Page, UpkeepReport, UpkeepRequest};
use semel_core::submission::Submission;
use semel_core::time::Millis;
use semel_s3::S3Store;
use stall::{Stalled, copied};

/// Held for good, so that its ledger is folded while it is known.
fn forever(n: u64) -> Submission {
    keyed(n, Dedup::explicit("invoice").hold(Hold::forever()))
}

/// Completes all there is to do.
async fn work(store: &S3Store, n: u64) {
    complete_all(store, claim(store, n, 100).await).await;
}

async fn round(store: &S3Store) -> UpkeepReport {
    let report = store.upkeep(UpkeepRequest::default()).await;
    report.expect("the store answers")
}

/// A bucket with all that upkeep has to do: jobs past their retention, duplicates past theirs, a key with many ended
/// jobs behind it. Gives the jobs that stay.
async fn neglected(world: &World) -> Vec<JobId> {
    let store = world.open().await;
    for n in 0..3 {
        submitted(&store, plain(n)).await;
    }
    let kept = submitted(&store, forever(10)).await;
    for n in 11..14 {
        assert_eq!(submitted(&store, forever(n)).await, kept, "a duplicate");
    }
    work(&store, 0).await;
    world.clock.advance(Millis::from_days(40));
    let mut staying = Vec::new();
    for n in 20..32 {
        staying.push(submitted(&store, keyed(n, Dedup::exclusive("refresh"))).await);
        work(&store, n).await;
        world.clock.advance(Millis::from_secs(1));
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

async fn picture(world: &World, staying: &[JobId]) -> Picture {
    let store = world.open().await;
    let stats = store.stats().await.expect("the store answers");
    let found = store.jobs_by_id(staying).await.expect("the store answers");
    let listed: Vec<JobId> = all(&store).await.into_iter().map(|job| job.id).collect();
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
        .keys(KeyFilter::default(), Page::first(500))
        .await
        .expect("the store answers");
    let digest: Option<Digest> = keys.items.first().map(|row| row.key.digest);
    let row = store.key(digest?).await.expect("the store answers");
    row.map(|row| row.absorbed)
}

#[tokio::test]
async fn two_may_keep_house_at_once() {
    let first = World::new();
    let staying = neglected(&first).await;
    let before = picture(&first, &staying).await;
    assert_eq!(
        (before.absorbed, before.jobs.len(), before.damage),
        (Some(3), 12, 0)
    );
    let mut stops = 0;
    for n in 0.. {
        let world = World {
            bucket: copied(&first.bucket).await,
            clock: first.clock.clone(),
        };
        let stalled = Stalled::new(world.bucket.clone());
        let slow = world.open_on(stalled.clone()).await;
        let other = world.open().await;
        stalled.stop_after(n);
        let one = async {
            round(&slow).await;
        };
        let stopped = stalled.run(one, upkeep(&other)).await;
        stalled.stop_after(i64::MAX);
        assert_eq!(
            picture(&world, &staying).await,
            before,
            "stopped before request {n}"
        );
        upkeep(&slow).await;
        upkeep(&other).await;
        assert_eq!(
            picture(&world, &staying).await,
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
