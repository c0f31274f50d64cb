//! `wait=N`: a call is answered when so many replicas have it, and may be retried when they do not (contract 3.5).

use std::time::Duration;

use semel_conformance::kit::{claim_request, plain, with};
use semel_core::counters::Counter;
use semel_core::dedup::Dedup;
use semel_core::job::Outcome;
use semel_core::store::{Control as _, Inspect as _, Store as _, Submitted};
use semel_core::submission::Submission;
use semel_redis::RedisStore;

use crate::server::Server;

/// A master with a replica that follows it.
pub async fn pair() -> (Server, Server) {
    let master = Server::start();
    let port = master.port().to_string();
    let replica = Server::start_with(&["--appendonly", "yes", "--replicaof", "127.0.0.1", &port]);
    for _ in 0..400 {
        let says = replica.command(&["INFO", "replication"]);
        // The master counts a replica when it has heard from it for the first time.
        if says.contains("master_link_status:up") && master.command(&["WAIT", "1", "100"]).trim() == ":1" {
            return (master, replica);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the replica does not follow");
}

async fn open(server: &Server, parameters: &str) -> RedisStore {
    RedisStore::connect(&format!("{}?{parameters}", server.url()))
        .await
        .expect("the store opens")
}

/// Sends the same submissions, with their tokens, until the replica has them: a busy machine may need several times.
pub async fn until_answered(store: &RedisStore, batch: Vec<Submission>) -> Vec<Submitted> {
    for _ in 0..100 {
        match store.submit(batch.clone()).await {
            Ok(answers) => return answers,
            Err(error) => assert!(error.is_retryable(), "{error:?}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the replica never has it");
}

fn waits(server: &Server) -> u64 {
    let info = server.command(&["INFO", "commandstats"]);
    let line = info
        .lines()
        .find_map(|line| line.strip_prefix("cmdstat_wait:calls="));
    line.and_then(|rest| rest.split(',').next()?.parse().ok())
        .unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_the_replica_lacks_is_a_retryable_error_and_a_retry_is_safe() {
    let (master, replica) = pair().await;
    let store = open(&master, "wait=1&wait_ms=300").await;
    let first = until_answered(&store, vec![with(Dedup::explicit("a"))]).await;
    assert_eq!(first[0].outcome(), Some(Outcome::Accepted));

    replica.freeze(true);
    let late = with(Dedup::explicit("b"));
    let error = store.submit(vec![late.clone()]).await.unwrap_err();
    assert!(error.is_retryable(), "{error:?}");
    assert!(error.to_string().contains("replicas"), "{error}");
    // A retry finds the job, and must not be answered while no replica has it: from this handle or another.
    let other = open(&master, "wait=1&wait_ms=300").await;
    for handle in [&store, &other] {
        let error = handle.submit(vec![late.clone()]).await.unwrap_err();
        assert!(error.is_retryable(), "{error:?}");
    }
    let request = claim_request(1);
    let error = store.claim(request.clone()).await.unwrap_err();
    assert!(error.is_retryable(), "{error:?}");
    // Looking needs no replica.
    assert_eq!(store.stats().await.unwrap().raw.get(Counter::Accepted), 2);

    replica.freeze(false);
    let answer = until_answered(&other, vec![late]).await;
    assert_eq!(answer[0].outcome(), Some(Outcome::Accepted));
    let patient = open(&master, "wait=1&wait_ms=20000").await;
    assert_eq!(patient.claim(request).await.unwrap().len(), 1);
    let counts = store.stats().await.unwrap().raw;
    assert_eq!(
        (counts.get(Counter::Accepted), counts.get(Counter::Duplicate)),
        (2, 0)
    );
    assert_eq!(store.doctor(false).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_waits_once_and_callers_wait_together() {
    let (master, replica) = pair().await;
    let store = open(&master, "wait=1&wait_ms=20000").await;
    let before = waits(&master);
    let batch = (0..500).map(|_| plain()).collect();
    assert_eq!(store.submit(batch).await.unwrap().len(), 500);
    // The first step of a handle may be taken twice: on beliefs, then on what is read.
    assert!((1..=2).contains(&(waits(&master) - before)));

    let store = open(&master, "wait=1&wait_ms=500").await;
    replica.freeze(true);
    let callers = (0..64).map(|_| store.submit(vec![plain()]));
    // One after another they would take half a minute.
    let together = futures_util::future::join_all(callers);
    let answers = tokio::time::timeout(Duration::from_secs(12), together).await;
    replica.freeze(false);
    let answers = answers.expect("they fail together");
    assert!(
        answers
            .iter()
            .all(|answer| answer.as_ref().is_err_and(|error| error.is_retryable())),
        "{answers:?}"
    );
}

#[tokio::test]
async fn the_sheet_says_what_waiting_means() {
    let (master, _replica) = pair().await;
    let failover = async |parameters: &str| {
        let lines = open(&master, parameters).await.guarantees().await.unwrap();
        let line = lines.into_iter().find(|line| line.subject == "failover").unwrap();
        format!("{} ({})", line.statement, line.probed)
    };
    let plain = failover("").await;
    assert!(
        plain.contains("may lose answered calls") && plain.contains("wait=0"),
        "{plain}"
    );
    let waiting = failover("wait=1&wait_ms=250").await;
    assert!(
        waiting.contains("answered when 1 of the replicas") && waiting.contains("wait_ms=250"),
        "{waiting}"
    );
}
