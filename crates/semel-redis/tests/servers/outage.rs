//! What happens when the server goes away, forgets, or comes back (contract 3.4, 3.5).

use std::sync::Arc;
use std::time::Duration;

use crate::server::Server;
use semel_conformance::kit;
use semel_core::dedup::Dedup;
use semel_core::job::Outcome;
use semel_core::store::{Control as _, Inspect as _, Store as _};
use semel_redis::RedisStore;

async fn open(server: &Server, parameters: &str) -> RedisStore {
    RedisStore::connect(&format!("{}?{parameters}", server.url()))
        .await
        .expect("the store opens")
}

#[tokio::test]
async fn scripts_that_the_server_forgot_are_loaded_again() {
    let server = Server::start();
    let store = open(&server, "").await;
    for _ in 0..3 {
        server.command(&["SCRIPT", "FLUSH"]);
        let answers = store.submit(vec![kit::plain()]).await.unwrap();
        assert_eq!(answers[0].outcome(), Some(Outcome::Accepted));
    }
}

#[tokio::test]
async fn an_outage_is_a_retryable_error_and_what_was_answered_is_there_afterwards() {
    let mut server = Server::start();
    let store = open(&server, "patience_ms=300").await;
    let before = kit::plain();
    store.submit(vec![before.clone()]).await.unwrap();
    server.kill();
    let during = kit::plain();
    let error = store.submit(vec![during.clone()]).await.unwrap_err();
    assert!(error.is_retryable(), "{error:?}");
    let error = store.stats().await.unwrap_err();
    assert!(error.is_retryable(), "{error:?}");
    server.restart();
    // The same submissions again: one is known, the other is new, and both are there once.
    let answers = store.submit(vec![before, during]).await.unwrap();
    assert!(
        answers
            .iter()
            .all(|answer| answer.outcome() == Some(Outcome::Accepted)),
        "{answers:?}"
    );
    assert_eq!(
        store
            .stats()
            .await
            .unwrap()
            .raw
            .get(semel_core::counters::Counter::Accepted),
        2
    );
    assert_eq!(store.doctor(false).await.unwrap(), []);
}

#[tokio::test]
async fn a_short_outage_is_waited_out() {
    let mut server = Server::start();
    let store = Arc::new(open(&server, "patience_ms=10000").await);
    store.submit(vec![kit::plain()]).await.unwrap();
    server.kill();
    let waiting = tokio::spawn({
        let store = store.clone();
        async move { store.submit(vec![kit::plain()]).await }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    server.restart();
    let answers = waiting.await.unwrap().unwrap();
    assert_eq!(answers[0].outcome(), Some(Outcome::Accepted));
}

#[tokio::test]
async fn a_full_server_refuses_and_nothing_of_the_call_is_applied() {
    let server = Server::start();
    let store = open(&server, "").await;
    let key = || kit::with(Dedup::explicit("k"));
    store.submit(vec![key()]).await.unwrap();
    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let error = store.submit(vec![kit::plain(), key()]).await.unwrap_err();
    assert!(error.is_retryable(), "{error:?}");
    server.command(&["CONFIG", "SET", "maxmemory", "0"]);
    let stats = store.stats().await.unwrap();
    assert_eq!(stats.raw.get(semel_core::counters::Counter::Accepted), 1);
    assert_eq!(stats.raw.get(semel_core::counters::Counter::Duplicate), 0);
    assert_eq!(store.doctor(false).await.unwrap(), []);
}
