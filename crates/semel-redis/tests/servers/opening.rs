//! Opening a store: what is refused, with the reason (contract 9.3), and what the guarantee sheet says (contract 9.4).

use crate::server::Server;
use semel_core::store::{Inspect as _, Store as _};
use semel_redis::RedisStore;

async fn refusal(url: &str) -> String {
    match RedisStore::connect(url).await {
        Ok(_) => panic!("{url} is accepted"),
        Err(error) => error.to_string(),
    }
}

async fn sheet(url: &str) -> String {
    let store = RedisStore::connect(url).await.expect("the store opens");
    let lines = store.guarantees().await.expect("the store answers");
    lines
        .iter()
        .map(|line| format!("{}: {} ({})\n", line.subject, line.statement, line.probed))
        .collect()
}

#[tokio::test]
async fn a_server_that_evicts_is_refused() {
    let server = Server::start_with(&["--appendonly", "yes", "--maxmemory-policy", "volatile-lru"]);
    let error = refusal(&server.url()).await;
    assert!(error.contains("maxmemory-policy volatile-lru"), "{error}");
}

#[tokio::test]
async fn a_server_without_an_append_only_file_is_refused_unless_asked_for() {
    let server = Server::start_with(&["--appendonly", "no"]);
    let error = refusal(&server.url()).await;
    assert!(
        error.contains("append-only") && error.contains("allow=no_aof"),
        "{error}"
    );
    let asked = format!("{}?allow=no_aof", server.url());
    assert!(sheet(&asked).await.contains("nothing survives a restart"));
}

#[tokio::test]
async fn a_replica_is_refused() {
    let master = Server::start();
    let port = master.port().to_string();
    let replica = Server::start_with(&["--appendonly", "yes", "--replicaof", "127.0.0.1", &port]);
    let error = refusal(&replica.url()).await;
    assert!(error.contains("replica"), "{error}");
}

#[tokio::test]
async fn the_number_of_shards_is_fixed_when_a_store_is_made() {
    let server = Server::start();
    let four = format!("{}?shards=4&namespace=app", server.url());
    drop(RedisStore::connect(&four).await.unwrap());
    let error = refusal(&format!("{}?shards=2&namespace=app", server.url())).await;
    assert!(
        error.contains("made with 4 shards") && error.contains("shards=4"),
        "{error}"
    );
    assert!(RedisStore::connect(&four).await.is_ok());
    // Another namespace is another store.
    let other = RedisStore::connect(&format!("{}?namespace=other", server.url()))
        .await
        .unwrap();
    assert_eq!(other.namespace().as_str(), "other");
}

#[tokio::test]
async fn the_sheet_says_what_each_way_of_syncing_means() {
    let always = Server::start();
    let every = Server::start_with(&["--appendonly", "yes", "--appendfsync", "everysec"]);
    assert!(
        sheet(&always.url())
            .await
            .contains("survives kill -9 of every process and a power cut")
    );
    assert!(
        sheet(&every.url())
            .await
            .contains("may lose what was written since its last sync")
    );
}

#[tokio::test]
async fn a_server_that_is_not_there_is_a_retryable_error_within_the_patience() {
    let error = RedisStore::connect("redis://127.0.0.1:1?patience_ms=200")
        .await
        .err()
        .expect("nobody is there");
    assert!(error.is_retryable(), "{error:?}");
}
