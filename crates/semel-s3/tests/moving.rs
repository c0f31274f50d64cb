//! A key that is used again and again: its cell stays small, and no job behind it is lost.

#[path = "kit/mod.rs"]
mod kit;

use kit::{World, all, claim, fail, keyed, submitted, token, upkeep};
use semel_core::counters::Counter;
use semel_core::dedup::Dedup;
use semel_core::ids::JobId;
use semel_core::job::State;
use semel_core::store::{Act, ActOutcome, Control as _, Inspect as _, Store as _};
use semel_core::submission::Submission;
use semel_s3::S3Store;

fn submission(n: u64) -> Submission {
    keyed(n, Dedup::explicit("refresh"))
}

/// Submits, claims and fails a job.
async fn one_life(store: &S3Store, n: u64) -> JobId {
    let id = submitted(store, submission(n)).await;
    let made_here = id.as_str().starts_with(&token(n).to_string());
    assert!(made_here, "the key was free again");
    let claimed = claim(store, n, 1).await.remove(0);
    fail(store, &claimed).await;
    id
}

#[tokio::test]
async fn a_busy_key_stays_small_and_its_jobs_are_there() {
    let world = World::new();
    let store = world.open().await;
    let mut ids = Vec::new();
    for n in 0..100 {
        ids.push(one_life(&store, n).await);
    }
    let before = world.largest_cell().await;
    upkeep(&store).await;
    let after = world.largest_cell().await;
    assert!(after * 4 < before, "{before} bytes before, {after} after");

    let other = world.open().await;
    for store in [&store, &other] {
        assert_eq!(store.doctor(false).await.expect("the store answers"), []);
        assert_eq!(all(store).await.len(), 100);
        let found = store.jobs_by_id(&ids[..3]).await.expect("the store answers");
        assert!(
            found
                .iter()
                .flatten()
                .all(|job| job.state == State::Failed && job.attempt == 1)
        );
        assert_eq!(found.len(), 3);
        assert_eq!(store.attempts(&ids[0]).await.expect("the store answers").len(), 1);
        let again = store
            .submit(vec![submission(5)])
            .await
            .expect("the store answers");
        assert_eq!(
            again[0].id(),
            Some(&ids[5]),
            "a submission sent again names its job"
        );
    }
    let acts = vec![
        Act::Delete { id: ids[1].clone() },
        Act::Retry { id: ids[0].clone() },
        Act::Retry { id: ids[2].clone() },
        Act::Cancel { id: ids[3].clone() },
    ];
    let outcomes = other.act(acts).await.expect("the store answers");
    assert!(matches!(outcomes[0], ActOutcome::Done { .. }), "{outcomes:?}");
    assert!(
        matches!(
            outcomes[1],
            ActOutcome::Done {
                state: State::Queued,
                ..
            }
        ),
        "{outcomes:?}"
    );
    assert!(
        matches!(outcomes[2], ActOutcome::Held { .. }),
        "one at a time: {outcomes:?}"
    );
    assert!(
        matches!(outcomes[3], ActOutcome::WrongState(State::Failed)),
        "{outcomes:?}"
    );
    let found = store.jobs_by_id(&ids[..2]).await.expect("the store answers");
    assert_eq!(found[0].as_ref().map(|job| job.state), Some(State::Queued));
    assert_eq!(found[1], None, "what was deleted does not come back");
    upkeep(&store).await;
    upkeep(&other).await;
    assert_eq!(
        store.jobs_by_id(&ids[1..2]).await.expect("the store answers"),
        [None]
    );
    let stats = other.stats().await.expect("the store answers");
    assert_eq!(
        (stats.raw.get(Counter::Accepted), stats.raw.get(Counter::Failed)),
        (100, 100)
    );
    assert_eq!(stats.jobs.values().sum::<i64>(), 99);
    assert_eq!(other.doctor(false).await.expect("the store answers"), []);
}
