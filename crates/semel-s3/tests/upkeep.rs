//! Regular housekeeping is cheap: one process does it, the same one, and less often while there is nothing to do. What it
//! reports is what it did.

#[path = "bucket/mod.rs"]
mod bucket;
#[path = "kit/mod.rs"]
mod kit;
#[path = "through/mod.rs"]
mod through;

use std::sync::Arc;

use bucket::{Faults, Faulty};
use kit::{World, all, claim_request, complete, keyed, plain};
use semel_core::counters::Counter;
use semel_core::dedup::{Dedup, Hold};
use semel_core::job::{Outcome, State};
use semel_core::store::{
    ClaimRequest, Claimed, Control as _, Inspect as _, Store as _, UpkeepReport, UpkeepRequest, WriteOutcome,
};
use semel_core::time::{ManualClock, Millis, Timestamp};
use semel_s3::S3Store;

async fn round(store: &S3Store, regular: bool) -> UpkeepReport {
    let request = UpkeepRequest {
        regular,
        ..UpkeepRequest::default()
    };
    store.upkeep(request).await.expect("the store answers")
}

/// Each store makes a regular round every fifteen seconds; the lists that each of them asked for.
async fn rounds(stores: &[S3Store], clock: &ManualClock, minutes: i64) -> Vec<u64> {
    let before: Vec<u64> = stores.iter().map(|store| store.requests().list).collect();
    for _ in 0..minutes * 4 {
        for store in stores {
            round(store, true).await;
        }
        clock.advance(Millis::from_secs(15));
    }
    let lists = stores.iter().map(|store| store.requests().list);
    lists.zip(before).map(|(now, before)| now - before).collect()
}

#[tokio::test]
async fn one_of_many_keeps_house_and_another_takes_over() {
    let world = World::new();
    let mut stores = Vec::new();
    for _ in 0..4 {
        stores.push(world.open().await);
    }
    stores[0].submit(vec![plain(1)]).await.expect("the store answers");

    // Each round looks at the lease entries that are due: one list. The rest is for one of them.
    let minutes = 30;
    let lists = rounds(&stores, &world.clock, minutes).await;
    let leases = 4 * minutes as u64;
    assert_eq!(lists[1..], [leases; 3], "the others look at leases only");
    // Keys, tokens, guards and claims once a minute; feeds and old snapshots every ten minutes.
    let house = lists[0] - leases;
    assert!(
        house <= 4 * minutes as u64 + 16,
        "{house} lists in {minutes} minutes"
    );
    let history = stores[1].history(Millis::from_secs(60 * minutes)).await;
    let snapshots = history.expect("the store answers").len() as i64;
    assert!(snapshots >= minutes, "{snapshots} snapshots in {minutes} minutes");

    // It dies, and one of the others goes on; of a few minutes none is without a snapshot but the first.
    stores.remove(0);
    let lists = rounds(&stores, &world.clock, 10).await;
    let keeps_house = lists.iter().filter(|lists| **lists > 40).count();
    assert_eq!(keeps_house, 1, "{lists:?}");
    let history = stores[0].history(Millis::from_secs(600)).await;
    let snapshots = history.expect("the store answers").len();
    assert!(snapshots >= 8, "{snapshots} snapshots in ten minutes");

    // Who asks for a round gets one, whoever's turn it is.
    world.clock.advance(Millis::from_secs(60));
    for store in &stores {
        let lists = store.requests().list;
        round(store, false).await;
        assert!(store.requests().list > lists + 1);
    }
}

#[tokio::test]
async fn a_turn_that_a_clock_set_back_has_left_in_the_future_is_not_waited_for() {
    let world = World::new();
    let ahead = World {
        bucket: world.bucket.clone(),
        clock: Arc::new(ManualClock::new(Timestamp::from_millis(1_900_000_000_000))),
    };
    round(&ahead.open().await, true).await;
    let store = world.open().await;
    assert!(round(&store, true).await.snapshot, "a round is made");
}

/// A job whose key is free again once it runs, and its lease.
async fn leased(store: &S3Store, n: u64, key: &str, lease: i64) -> Claimed {
    let submission = keyed(n, Dedup::explicit(key).hold(Hold::until_started()));
    let answers = store.submit(vec![submission]).await.expect("the store answers");
    assert_eq!(answers[0].outcome(), Some(Outcome::Accepted));
    let request = ClaimRequest {
        lease: Millis::from_secs(lease),
        ..claim_request(n, 1)
    };
    let mut given = store.claim(request).await.expect("the store answers");
    given.pop().expect("one is waiting")
}

/// Two jobs of one key, whose leases end at different times, and one of another key between them.
async fn three_leases(store: &S3Store) -> [Claimed; 3] {
    [
        leased(store, 1, "one", 10).await,
        leased(store, 2, "other", 20).await,
        leased(store, 3, "one", 30).await,
    ]
}

/// A handle whose writes take a while: those of one call are on their way at the same time.
async fn slow(world: &World) -> S3Store {
    let faults = Faults {
        slow: 1_000,
        ..Faults::default()
    };
    world.open_on(Faulty::new(world.bucket.clone(), faults, 1)).await
}

#[tokio::test]
async fn a_lease_that_ran_out_is_reported_once_however_often_its_cell_is_looked_at() {
    let world = World::new();
    let store = slow(&world).await;
    three_leases(&store).await;
    world.clock.advance(Millis::from_secs(60));
    assert_eq!(round(&store, false).await.expired, 3);
    assert_eq!(round(&store, false).await.expired, 0);
    let stats = store.stats().await.expect("the store answers");
    assert_eq!(stats.raw.get(Counter::Expired), 3);

    // By the entries in the bucket, as one who gave none of the leases and had not heard of them.
    let world = World::new();
    let other = slow(&world).await;
    three_leases(&world.open().await).await;
    world.clock.advance(Millis::from_secs(60));
    assert_eq!(round(&other, false).await.expired, 3);
}

#[tokio::test]
async fn a_lease_that_another_ended_is_not_reported_by_one_who_remembers_it() {
    let world = World::new();
    let store = world.open().await;
    let leases = three_leases(&store).await;
    let other = world.open().await;
    assert_eq!(all(&other).await.len(), 3);
    for ended in &leases[1..] {
        let settled = complete(&store, ended).await;
        assert_eq!(settled, WriteOutcome::Ok(State::Complete));
    }
    world.clock.advance(Millis::from_secs(60));
    assert_eq!(round(&other, false).await.expired, 1);
    assert_eq!(round(&store, false).await.expired, 0);
}

#[tokio::test]
async fn a_claim_sent_again_by_another_at_the_same_instant_leaves_the_entry_of_its_leases() {
    let world = World::new();
    let first = world.open().await;
    let running = leased(&first, 1, "one", 10).await;
    // Its process dies, and whoever sends the claim again finds other work and the same time.
    drop(first);
    let again = world.open().await;
    again.submit(vec![plain(2)]).await.expect("the store answers");
    let request = ClaimRequest {
        lease: Millis::from_secs(10),
        ..claim_request(1, 1)
    };
    let given = again.claim(request).await.expect("the store answers");
    assert_eq!(given, [running], "the same as the first time");
    let findings = again.doctor(false).await.expect("the store answers");
    assert!(findings.is_empty(), "{findings:?}");
    // A process that has heard of neither takes the lease back when it runs out.
    let other = world.open().await;
    world.clock.advance(Millis::from_secs(60));
    assert_eq!(round(&other, false).await.expired, 1);
}
