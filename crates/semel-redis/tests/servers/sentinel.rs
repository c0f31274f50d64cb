//! Through Sentinel: the master is found, and found again after a failover.

use std::time::Duration;

use crate::server::Server;
use semel_conformance::kit::{plain, with};
use semel_core::counters::Counter;
use semel_core::dedup::{Dedup, Hold};
use semel_core::job::Outcome;
use semel_core::store::{Control as _, Inspect as _, Store as _};
use semel_core::submission::Submission;
use semel_redis::RedisStore;

/// A sentinel that watches a master; alone it decides for itself.
fn watch(master: &Server) -> Server {
    Server::start_sentinel(&format!(
        "sentinel monitor main 127.0.0.1 {} 1\nsentinel down-after-milliseconds main 500\n\
         sentinel failover-timeout main 5000\n",
        master.port()
    ))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_master_is_found_again_after_a_failover() {
    let (mut master, replica, sentinel) = watched().await;
    let url = format!(
        "redis+sentinel://127.0.0.1:{}/main?patience_ms=20000",
        sentinel.port()
    );
    let store = RedisStore::connect(&url).await.expect("the store opens");
    let before = plain();
    store.submit(vec![before.clone()]).await.unwrap();
    // What it waits for comes after what was submitted before, so the replica has both.
    let waiting = RedisStore::connect(&format!("{url}&wait=1"))
        .await
        .expect("the store opens");
    crate::replicas::until_answered(&waiting, vec![plain()]).await;
    master.kill();
    let answers = store.submit(vec![before, plain()]).await.unwrap();
    assert!(
        answers
            .iter()
            .all(|answer| answer.outcome() == Some(Outcome::Accepted)),
        "{answers:?}"
    );
    let accepted = store
        .stats()
        .await
        .unwrap()
        .raw
        .get(semel_core::counters::Counter::Accepted);
    assert_eq!(accepted, 3, "those before were known to the replica");
    assert!(replica.command(&["INFO", "replication"]).contains("role:master"));
}

/// A master, a replica that follows it, and a sentinel that knows both.
async fn watched() -> (Server, Server, Server) {
    let (master, replica) = crate::replicas::pair().await;
    let sentinel = watch(&master);
    for _ in 0..200 {
        if sentinel.command(&["INFO", "sentinel"]).contains("slaves=1") {
            return (master, replica, sentinel);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the sentinel does not find the replica");
}

fn held(prefix: &str, n: usize) -> Submission {
    with(Dedup::explicit(format!("{prefix}{n}")).hold(Hold::forever()))
}

/// The replica is away while calls are answered, and then takes over: those calls are lost, as the sheet says, their
/// keys are free again, and nothing else is lost or half there. A store that waits for the replica answers none of
/// them, so it loses no answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_loses_what_the_sheet_says_and_nothing_else() {
    let (mut master, mut replica, sentinel) = watched().await;
    let open = async |parameters: &str| {
        let url = format!(
            "redis+sentinel://127.0.0.1:{}/main?patience_ms=30000{parameters}",
            sentinel.port()
        );
        RedisStore::connect(&url).await.expect("the store opens")
    };
    let (store, waiting) = (open("").await, open("&wait=1&wait_ms=200").await);
    let sheet = store.guarantees().await.unwrap();
    let said = |text: &str| sheet.iter().any(|line| line.statement.contains(text));
    assert!(
        said("may lose answered calls that had not reached the replica"),
        "{sheet:?}"
    );
    assert!(said("a key whose submission was lost is free again"), "{sheet:?}");

    let kept: Vec<Submission> = (0..20).map(|n| held("kept", n)).collect();
    let answered = store.submit(kept.clone()).await.unwrap();
    let more: Vec<Submission> = (0..20).map(|n| held("waited", n)).collect();
    // What it waits for comes after what was submitted before.
    let waited = crate::replicas::until_answered(&waiting, more.clone()).await;
    replica.kill();
    let lost: Vec<Submission> = (0..20).map(|n| held("lost", n)).collect();
    let before = store.submit(lost.clone()).await.expect("it does not wait");
    assert!(
        before
            .iter()
            .all(|answer| answer.outcome() == Some(Outcome::Accepted))
    );
    let error = waiting.submit(vec![held("unanswered", 0)]).await.unwrap_err();
    assert!(error.is_retryable(), "{error:?}");
    master.kill();
    replica.restart();

    // The same calls again, with their tokens: what the replica had is known, with its id.
    for (batch, answers) in [(kept, answered), (more, waited)] {
        let again = store.submit(batch).await.expect("the replica took over");
        for (again, first) in again.iter().zip(&answers) {
            assert_eq!(again.outcome(), Some(Outcome::Accepted));
            assert_eq!(again.id(), first.id());
        }
    }
    let accepted = async || store.stats().await.unwrap().raw.get(Counter::Accepted);
    assert_eq!(accepted().await, 40, "and nothing was made a second time");
    for answer in &before {
        let id = answer.id().cloned().unwrap();
        assert_eq!(
            store.jobs_by_id(&[id]).await.unwrap(),
            [None],
            "it had not reached the replica"
        );
    }
    // Keys of what was lost are free, for anybody.
    let fresh = (0..20).map(|n| held("lost", n)).collect();
    let fresh = store.submit(fresh).await.unwrap();
    assert!(
        fresh
            .iter()
            .all(|answer| answer.outcome() == Some(Outcome::Accepted))
    );
    assert_eq!(
        (accepted().await, store.stats().await.unwrap().active_keys),
        (60, 60)
    );
    assert_eq!(store.doctor(false).await.unwrap(), []);
}
