//! The doctor finds what is broken and mends it (contract 9.5), and what is broken stops no other work.

use crate::server::Server;
use semel_conformance::kit::{claim_request, plain, with};
use semel_core::dedup::Dedup;
use semel_core::job::{Outcome, State};
use semel_core::store::{Control as _, Finding, Inspect as _, Store as _};
use semel_redis::RedisStore;

const PREFIX: &str = "semel:{default/1/0}:";

async fn open(server: &Server) -> RedisStore {
    RedisStore::connect(&server.url()).await.expect("the store opens")
}

fn key(name: &str) -> String {
    format!("{PREFIX}{name}")
}

async fn mended(store: &RedisStore) -> Vec<Finding> {
    let found = store.doctor(true).await.expect("the store answers");
    assert!(found.iter().all(|finding| finding.repaired), "{found:?}");
    assert_eq!(
        store.doctor(false).await.expect("the store answers"),
        [],
        "after {found:?}"
    );
    found
}

#[tokio::test]
async fn a_waiting_job_that_lost_its_place_gets_it_back() {
    let server = Server::start();
    let store = open(&server).await;
    store.submit(vec![plain(), plain()]).await.unwrap();
    server.command(&["DEL", &key("ready:0:0")]);
    server.command(&["DEL", &key("places")]);
    assert!(store.claim(claim_request(10)).await.unwrap().is_empty());
    // Others are not held up by it.
    store.submit(vec![plain()]).await.unwrap();
    assert_eq!(store.claim(claim_request(10)).await.unwrap().len(), 1);
    assert_eq!(mended(&store).await[0].invariant, "I11");
    assert_eq!(store.claim(claim_request(10)).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_lease_that_nobody_watches_is_watched_again() {
    let server = Server::start();
    let store = open(&server).await;
    store.submit(vec![plain()]).await.unwrap();
    let claimed = store.claim(claim_request(1)).await.unwrap().remove(0);
    server.command(&["DEL", &key("leases")]);
    assert_eq!(mended(&store).await[0].invariant, "I11");
    let job = store
        .jobs_by_id(std::slice::from_ref(&claimed.job.id))
        .await
        .unwrap()
        .remove(0);
    assert_eq!(job.map(|job| job.state), Some(State::Running));
}

#[tokio::test]
async fn a_key_that_lost_its_way_leads_to_its_job_again() {
    let server = Server::start();
    let store = open(&server).await;
    let keyed = || with(Dedup::idempotency_key("k"));
    let first = store.submit(vec![keyed()]).await.unwrap().remove(0);
    let digest = match &first {
        semel_core::store::Submitted::Job(admitted) => admitted.key.expect("it has a key"),
        other => panic!("{other:?}"),
    };
    let bytes = digest.as_bytes();
    let bucket = format!("key:{:02x}{:02x}", bytes[0] & 0x3f, bytes[1]);
    server.command(&["DEL", &key(&bucket)]);
    assert_eq!(mended(&store).await[0].invariant, "I13");
    let again = store.submit(vec![keyed()]).await.unwrap().remove(0);
    assert_eq!(
        (again.outcome(), again.id()),
        (Some(Outcome::Duplicate), first.id())
    );
}

#[tokio::test]
async fn numbers_that_are_wrong_are_counted_anew() {
    let server = Server::start();
    let store = open(&server).await;
    store.submit(vec![plain(), plain()]).await.unwrap();
    server.command(&["HINCRBY", &key("meta"), "0.p0", "7"]);
    assert_eq!(store.stats().await.unwrap().jobs[&State::Queued], 9);
    assert_eq!(mended(&store).await[0].invariant, "I25");
    assert_eq!(store.stats().await.unwrap().jobs[&State::Queued], 2);
}
