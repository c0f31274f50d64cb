//! Settings on their way over the shards.

use std::time::Duration;

use semel_conformance::kit::{claim_request, with};
use semel_core::dedup::Dedup;
use semel_core::store::{Control as _, SettingChange, Store as _, Target, UpkeepRequest};
use semel_redis::RedisStore;

use crate::proxy::Proxy;
use crate::server::Server;

async fn open(port: u16) -> RedisStore {
    let url = format!("redis://127.0.0.1:{port}/0?shards=2");
    RedisStore::connect(&url).await.expect("the store opens")
}

/// Housekeeping completes what somebody left half done: it looked at the settings of the first shard and had the others
/// adopt them. A pause that was begun and answered in between was one that the first shard had not had, so it was undone
/// in all others, and they went on handing out work.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn housekeeping_undoes_no_pause_that_was_answered() {
    let server = Server::start();
    let proxy = Proxy::start(&server).await;
    let (late, other) = (open(proxy.port()).await, open(server.port()).await);
    let jobs = (0..40).map(|n| with(Dedup::explicit(format!("k{n}"))));
    other.submit(jobs.collect()).await.expect("the store answers");
    let pause = || SettingChange::Pause {
        lasting: None,
        reason: None,
    };
    // Begun while housekeeping has looked at one shard, and again while it has looked at both.
    for after in [200, 600] {
        proxy.late_by(400);
        let (kept, ()) = tokio::join!(late.upkeep(UpkeepRequest::default()), async {
            tokio::time::sleep(Duration::from_millis(after)).await;
            other.set(Target::All, pause()).await.expect("the store answers");
            proxy.late_by(0);
        });
        kept.expect("the store answers");
        let claims = other.claim(claim_request(40)).await.expect("the store answers");
        assert_eq!(claims.len(), 0, "everything is paused, after {after} ms");
        other
            .set(Target::All, SettingChange::Resume)
            .await
            .expect("the store answers");
    }
    assert_eq!(
        other
            .claim(claim_request(40))
            .await
            .expect("the store answers")
            .len(),
        40
    );
}

/// Killed between two shards, a change reaches the others with the next housekeeping.
#[tokio::test]
async fn housekeeping_completes_a_change_that_was_left_half_done() {
    let server = Server::start();
    let store = open(server.port()).await;
    let jobs = (0..40).map(|n| with(Dedup::explicit(format!("k{n}"))));
    store.submit(jobs.collect()).await.expect("the store answers");
    let pause = SettingChange::Pause {
        lasting: None,
        reason: None,
    };
    store.set(Target::All, pause).await.expect("the store answers");
    // As if the second shard had never heard of it.
    server.command(&["DEL", "semel:{default/2/1}:settings"]);
    server.command(&["HINCRBY", "semel:{default/2/1}:meta", "config", "1"]);
    assert!(
        !store
            .claim(claim_request(40))
            .await
            .expect("the store answers")
            .is_empty()
    );
    store
        .upkeep(UpkeepRequest::default())
        .await
        .expect("the store answers");
    let kept = server.command(&["HLEN", "semel:{default/2/1}:settings"]);
    assert_eq!(kept.trim(), ":1");
}
