//! Regular housekeeping is cheap: one process does it, the same one, and less often while there is nothing to do.

#[path = "kit/mod.rs"]
mod kit;

use std::sync::Arc;

use kit::{World, plain};
use semel_core::store::{Control as _, Inspect as _, Store as _, UpkeepReport, UpkeepRequest};
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
