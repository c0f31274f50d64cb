//! The doctor finds what is broken and mends it (contract 9.5), and what is broken stops no other work.

use std::sync::Arc;

use crate::server::Server;
use semel_conformance::kit::{claim_request, plain, secs, with};
use semel_core::dedup::Dedup;
use semel_core::job::{Outcome, State};
use semel_core::store::{
    Control as _, Finding, Inspect as _, JobFilter, KeyFilter, LedgerFilter, Page, Store as _, UpkeepRequest,
};
use semel_core::time::{ManualClock, Timestamp};
use semel_redis::{RedisOptions, RedisStore};

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

/// Damages every job that the store has by now, with Lua on what is kept of it.
fn damage(server: &Server, hash: &str, how: &str) {
    let script = format!(
        "for _, id in ipairs(redis.call('HKEYS', KEYS[1])) do local kept = redis.call('HGET', KEYS[1], id) \
         if id ~= '' then redis.call('HSET', KEYS[1], id, {how}) end end return 'done'"
    );
    let done = server.command(&["EVAL", &script, "1", &key(hash)]);
    assert_eq!(done.trim(), "done");
}

/// One job that could not be read made every claim fail for as long as it was among the best, and housekeeping and the
/// doctor too; damaged where only a part of it is looked at, it took all that were leased together with it along.
#[tokio::test]
async fn a_damaged_job_keeps_no_other_from_being_worked_on() {
    // What is kept is no job's; or only its content is not there, which the script that leases does not look at.
    for how in ["'x'", "string.sub(kept, 1, 2 + string.byte(kept, 2))"] {
        let server = Server::start();
        let store = open(&server).await;
        // The lane is there from now on, so that a job and its content are one record.
        store.submit(vec![plain()]).await.unwrap();
        assert_eq!(store.claim(claim_request(1)).await.unwrap().len(), 1);
        server.command(&["DEL", &key("leases")]);
        store.submit(vec![plain(), plain()]).await.unwrap();
        damage(&server, "specs", how);
        let sound = store.submit(vec![plain(), plain(), plain()]).await.unwrap();
        let mut claimed = Vec::new();
        for most in [1, 1, 10] {
            claimed.extend(
                store
                    .claim(claim_request(most))
                    .await
                    .expect("the others are there"),
            );
        }
        // Those that were leased although they are damaged are given to nobody.
        claimed.extend(store.claim(claim_request(10)).await.unwrap());
        let claimed: Vec<_> = claimed.iter().map(|claimed| Some(&claimed.job.id)).collect();
        assert_eq!(
            claimed,
            sound.iter().map(|answer| answer.id()).collect::<Vec<_>>(),
            "{how}"
        );
        store.upkeep(UpkeepRequest::default()).await.expect("it goes on");
        let told = store.doctor(false).await.expect("it goes on");
        let damaged = told.iter().any(|finding| finding.invariant == "I30");
        assert_eq!(damaged, how == "'x'", "{told:?}");
    }
}

/// A running job that could not be read: when its lease ran out, nothing could be written any more.
#[tokio::test]
async fn a_damaged_job_whose_lease_has_run_out_holds_up_nobody() {
    let server = Server::start();
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_800_000_000_000)));
    let options = RedisOptions::from_url(&server.url()).unwrap();
    let store = RedisStore::open_with_clock(options, clock.clone()).await.unwrap();
    store.submit(vec![plain(), plain()]).await.unwrap();
    assert_eq!(store.claim(claim_request(2)).await.unwrap().len(), 2);
    damage(&server, "heads", "'x'");
    clock.advance(secs(60));
    let sound = store.submit(vec![plain()]).await.unwrap().remove(0);
    let claimed = store.claim(claim_request(10)).await.unwrap();
    assert_eq!(
        claimed
            .iter()
            .map(|claimed| Some(&claimed.job.id))
            .collect::<Vec<_>>(),
        [sound.id()]
    );
    store.upkeep(UpkeepRequest::default()).await.expect("it goes on");
    let told = store.doctor(true).await.expect("it goes on");
    let damaged: Vec<_> = told.iter().filter(|finding| finding.invariant == "I30").collect();
    assert!(damaged.len() == 1 && !damaged[0].repaired, "{told:?}");
}

/// A list that came to a damaged job was the error that job gave, so nobody saw the others.
#[tokio::test]
async fn lists_leave_out_what_is_damaged() {
    let server = Server::start();
    let store = open(&server).await;
    store.submit(vec![plain()]).await.unwrap();
    store
        .submit(vec![plain(), with(Dedup::idempotency_key("a"))])
        .await
        .unwrap();
    damage(&server, "specs", "'x'");
    let keyed = || with(Dedup::idempotency_key("b"));
    let sound = store.submit(vec![plain(), keyed()]).await.unwrap();
    let sound: Vec<_> = sound.iter().rev().filter_map(|answer| answer.id()).collect();
    let page = || Page::first(10);
    let jobs = store.jobs(JobFilter::default(), page()).await.unwrap().items;
    assert_eq!(jobs.iter().map(|job| &job.id).collect::<Vec<_>>(), sound);
    let keys = store.keys(KeyFilter::default(), page()).await.unwrap().items;
    assert_eq!(keys.len(), 1);
    let told = store.doctor(false).await.unwrap();
    assert!(told.iter().any(|finding| finding.invariant == "I30"), "{told:?}");
}

/// An entry of the ledger that nobody can read stopped both chores that let old ones go, for good.
#[tokio::test]
async fn a_damaged_entry_of_the_ledger_goes_with_those_beside_it() {
    let server = Server::start();
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_800_000_000_000)));
    let options = RedisOptions::from_url(&server.url()).unwrap();
    let store = RedisStore::open_with_clock(options, clock.clone()).await.unwrap();
    let keyed = || with(Dedup::idempotency_key("k"));
    store.submit(vec![keyed(), keyed(), keyed()]).await.unwrap();
    damage(&server, "ledger:0", "'x'");
    store.submit(vec![keyed(), keyed()]).await.unwrap();
    let seen = async || {
        let ledger = store.ledger(LedgerFilter::default(), Page::first(10)).await;
        ledger.unwrap().items.len()
    };
    assert_eq!(seen().await, 2);
    let told = store.doctor(true).await.unwrap();
    let damaged: Vec<_> = told.iter().filter(|finding| finding.invariant == "I30").collect();
    assert!(damaged.len() == 1 && !damaged[0].repaired, "{told:?}");
    let row = store.keys(KeyFilter::default(), Page::first(10)).await.unwrap();
    assert_eq!(row.items[0].absorbed, 4);
    // Younger than what the ledger keeps.
    store.upkeep(UpkeepRequest::default()).await.unwrap();
    assert_eq!(seen().await, 2);
    clock.advance(secs(31 * 86_400));
    store.upkeep(UpkeepRequest::default()).await.unwrap();
    assert_eq!(seen().await, 0);
    let left = server.command(&["EXISTS", &key("ledger:0"), &key("ledger_pages")]);
    assert_eq!(left.trim(), ":0");
    assert_eq!(server.command(&["HGET", &key("meta"), "entries"]).trim(), "0");
    assert_eq!(store.doctor(false).await.unwrap(), []);
}
