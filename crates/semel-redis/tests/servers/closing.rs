//! A shard is closed while a handle is looking at it: from then on nothing of that handle is written there.

use std::time::Duration;

use semel_conformance::kit::plain;
use semel_core::error::StoreError;
use semel_core::store::{Control as _, Inspect as _, SettingChange, Store as _, Target};
use semel_redis::RedisStore;

use crate::proxy::Proxy;
use crate::server::Server;

const META: &str = "semel:{default/1/0}:meta";

/// Lanes and settings had changed, so a handle was told their version and went on to read them. In between
/// `semel shards set` closed the shard: what the handle read then had the mark of a closed shard as its version. It took
/// that for a version like any other, and as every script found the two alike, it went on writing to a shard that was
/// about to be copied and removed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handle_does_not_learn_the_mark_of_a_closed_shard() {
    let server = Server::start();
    let proxy = Proxy::start(&server).await;
    let late = RedisStore::connect(&format!("redis://127.0.0.1:{}/0", proxy.port())).await;
    let (late, other) = (
        late.expect("the store opens"),
        RedisStore::connect(&server.url()).await.expect("the store opens"),
    );
    late.submit(vec![plain()]).await.expect("the store answers");
    let unique = SettingChange::Unique { unique: true };
    other.set(Target::All, unique).await.expect("the store answers");
    proxy.late_by(500);
    let (looked, ()) = tokio::join!(late.stats(), async {
        // It has been told the new version, but does not know that yet.
        tokio::time::sleep(Duration::from_millis(250)).await;
        server.command(&["HSET", META, "config", "-1"]);
    });
    proxy.late_by(0);
    let refused = |error: StoreError| matches!(error, StoreError::Refused { .. });
    assert!(looked.is_err_and(refused), "it is told that the shard is closed");
    let answer = late.submit(vec![plain()]).await;
    assert!(answer.is_err_and(refused), "nobody writes to a closed shard");
    assert_eq!(
        server.command(&["HLEN", "semel:{default/1/0}:specs"]).trim(),
        ":1"
    );
}
