//! Through Sentinel: the master is found, and found again after a failover.

use std::time::Duration;

use crate::server::Server;
use semel_conformance::kit::plain;
use semel_core::job::Outcome;
use semel_core::store::{Inspect as _, Store as _};
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
    let mut master = Server::start();
    let port = master.port().to_string();
    let replica = Server::start_with(&["--appendonly", "yes", "--replicaof", "127.0.0.1", &port]);
    let sentinel = watch(&master);
    for _ in 0..200 {
        let linked = replica
            .command(&["INFO", "replication"])
            .contains("master_link_status:up");
        let known = sentinel.command(&["INFO", "sentinel"]).contains("slaves=1");
        if linked && known {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let url = format!(
        "redis+sentinel://127.0.0.1:{}/main?patience_ms=20000",
        sentinel.port()
    );
    let store = RedisStore::connect(&url).await.expect("the store opens");
    let before = plain();
    store.submit(vec![before.clone()]).await.unwrap();
    assert_eq!(master.command(&["WAIT", "1", "1000"]).trim(), ":1");
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
    assert_eq!(accepted, 2, "the one before was known to the replica");
    assert!(replica.command(&["INFO", "replication"]).contains("role:master"));
}
