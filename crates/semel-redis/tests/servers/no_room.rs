//! A server without room refuses what writes; looking goes on, so that somebody can see what takes the room.

use semel_conformance::kit::{name, with};
use semel_core::counters::Counter;
use semel_core::dedup::Dedup;
use semel_core::error::StoreError;
use semel_core::store::{
    Control as _, Inspect as _, JobFilter, KeyFilter, LedgerFilter, Page, StepFilter, Store as _,
};
use semel_core::time::Millis;
use semel_redis::RedisStore;

use crate::server::Server;
use crate::server::cluster::Cluster;

async fn everything_can_be_read(url: &str, set_limit: impl Fn(&str)) {
    let store = RedisStore::connect(url).await.expect("the store opens");
    let jobs = (0..20).map(|n| with(Dedup::explicit(format!("k{n}")))).collect();
    let answers = store.submit(jobs).await.expect("there is room");
    let ids: Vec<_> = answers.iter().filter_map(|answer| answer.id().cloned()).collect();
    let digest = store
        .keys(KeyFilter::default(), Page::first(1))
        .await
        .expect("the store answers")
        .items[0]
        .key
        .digest;
    set_limit("1");
    let refused = store
        .submit(vec![with(Dedup::explicit("more"))])
        .await
        .expect_err("there is no room");
    assert!(matches!(refused, StoreError::Full { .. }), "{refused:?}");
    // A handle of before, and one that is opened now.
    let late = RedisStore::connect(url).await.expect("a full store opens");
    for store in [store, late] {
        assert_eq!(
            store
                .stats()
                .await
                .expect("the store answers")
                .raw
                .get(Counter::Accepted),
            20
        );
        assert!(
            store
                .jobs_by_id(&ids)
                .await
                .expect("the store answers")
                .iter()
                .all(Option::is_some)
        );
        let page = || Page::first(100);
        assert_eq!(
            store
                .jobs(JobFilter::default(), page())
                .await
                .expect("the store answers")
                .items
                .len(),
            20
        );
        assert_eq!(
            store
                .keys(KeyFilter::default(), page())
                .await
                .expect("the store answers")
                .items
                .len(),
            20
        );
        assert!(store.key(digest).await.expect("the store answers").is_some());
        assert!(
            store
                .ledger(LedgerFilter::default(), page())
                .await
                .expect("the store answers")
                .items
                .is_empty()
        );
        assert!(
            store
                .attempts(&ids[0])
                .await
                .expect("the store answers")
                .is_empty()
        );
        assert!(store.history(Millis::new(60_000)).await.is_ok());
        assert!(
            store
                .dead_letter_groups(None)
                .await
                .expect("the store answers")
                .is_empty()
        );
        assert!(
            store
                .list_steps(StepFilter::Origin(ids[0].clone()))
                .await
                .expect("the store answers")
                .is_empty()
        );
        assert!(
            store
                .document(&name("kind"), "none")
                .await
                .expect("the store answers")
                .is_none()
        );
        assert!(!store.guarantees().await.expect("the store answers").is_empty());
        assert_eq!(store.doctor(false).await.expect("the store answers"), []);
    }
    set_limit("0");
}

#[tokio::test]
async fn a_full_server_can_be_read() {
    let server = Server::start();
    everything_can_be_read(&server.url(), |bytes| {
        server.command(&["CONFIG", "SET", "maxmemory", bytes]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_cluster_can_be_read() {
    let cluster = Cluster::form();
    let url = format!("{}?shards=4", cluster.url());
    everything_can_be_read(&url, |bytes| cluster.all(&["CONFIG", "SET", "maxmemory", bytes])).await;
}
