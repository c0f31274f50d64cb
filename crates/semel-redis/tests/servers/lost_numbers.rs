//! A server may lose what it wrote last: killed with `appendfsync everysec`, or followed by a replica that was behind.
//! The numbers it had given are given again then. Whoever knows them from before must not take one for the other.

use std::time::Duration;

use semel_conformance::kit::{plain, with};
use semel_core::dedup::Dedup;
use semel_core::job::Outcome;
use semel_core::store::{
    Control as _, Inspect as _, LedgerFilter, Page, SettingChange, Store as _, Submitted, Target,
};
use semel_redis::RedisStore;

use crate::proxy::Proxy;
use crate::server::Server;

const META: &str = "semel:{default/1/0}:meta";
const SETTINGS: &str = "semel:{default/1/0}:settings";

async fn open(server: &Server) -> RedisStore {
    RedisStore::connect(&server.url()).await.expect("the store opens")
}

/// One handle declared all queues unique, and the server lost it. Another one closed the intake: lanes and settings had
/// the same version again with another content, so the first handle believed what it remembered and went on submitting.
#[tokio::test]
async fn a_version_that_was_lost_is_not_taken_for_the_next() {
    let server = Server::start();
    let (first, second) = (open(&server).await, open(&server).await);
    first.submit(vec![plain()]).await.expect("the store answers");
    let before = server.command(&["HGET", META, "config"]);
    let unique = SettingChange::Unique { unique: true };
    first.set(Target::All, unique).await.expect("the store answers");
    server.command(&["HSET", META, "config", before.trim()]);
    server.command(&["DEL", SETTINGS]);
    let closed = SettingChange::Intake { open: false };
    second.set(Target::All, closed).await.expect("the store answers");
    let answer = first
        .submit(vec![plain()])
        .await
        .expect("the store answers")
        .remove(0);
    assert!(matches!(answer, Submitted::Closed { .. }), "{answer:?}");
}

/// A handle had drawn the number of a ledger entry when the server lost that; another one was given the number too and
/// wrote its entry. Then the first one wrote over it, and the other submission, sent again, got its answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_number_of_the_ledger_that_is_drawn_twice_is_written_once() {
    let server = Server::start();
    let proxy = Proxy::start(&server).await;
    let late = RedisStore::connect(&format!("redis://127.0.0.1:{}/0", proxy.port())).await;
    let (late, other) = (late.expect("the store opens"), open(&server).await);
    let keyed = |key: &str| with(Dedup::explicit(key));
    let held = late
        .submit(vec![keyed("a"), keyed("b")])
        .await
        .expect("the store answers");
    let drawn = || server.command(&["HGET", META, "ledger"]);
    let before = drawn();
    let (of_late, of_other) = (keyed("a"), keyed("b"));
    proxy.late_by(300);
    let (_, ()) = tokio::join!(late.submit(vec![of_late.clone()]), async {
        while drawn() == before {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        server.command(&["HINCRBY", META, "ledger", "-1"]);
        other
            .submit(vec![of_other.clone()])
            .await
            .expect("the store answers");
    });
    proxy.late_by(0);
    let repeated = other
        .submit(vec![of_late, of_other])
        .await
        .expect("the store answers");
    for (answer, held) in repeated.iter().zip(&held) {
        assert_eq!(
            (answer.outcome(), answer.id()),
            (Some(Outcome::Duplicate), held.id())
        );
    }
    let ledger = other.ledger(LedgerFilter::default(), Page::first(10)).await;
    assert_eq!(
        ledger.expect("the store answers").items.len(),
        2,
        "each has its entry, once"
    );
}
