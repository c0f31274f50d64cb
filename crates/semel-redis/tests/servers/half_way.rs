//! What happens between two halves of something: somebody else acts in between, or the second half never comes.

use std::sync::Arc;

use crate::proxy::{Proxy, has};
use crate::server::Server;
use semel_conformance::kit::{claim_request, plain, secs, token, with};
use semel_core::dedup::{Dedup, Hold, OnDuplicate};
use semel_core::job::{Outcome, State};
use semel_core::store::{Control as _, Inspect as _, KeyFilter, Page, Store as _, Submitted, UpkeepRequest};
use semel_core::submission::{RunAt, Submission};
use semel_core::time::{ManualClock, Timestamp};
use semel_redis::{RedisOptions, RedisStore};

const PREFIX: &str = "semel:{default/1/0}:";

fn key(name: &str) -> String {
    format!("{PREFIX}{name}")
}

async fn open(port: u16) -> RedisStore {
    let url = format!("redis://127.0.0.1:{port}/0");
    RedisStore::connect(&url).await.expect("the store opens")
}

fn keyed(key: &str) -> Submission {
    with(Dedup::explicit(key))
}

fn outcomes(answers: &[Submitted]) -> Vec<Option<Outcome>> {
    answers.iter().map(Submitted::outcome).collect()
}

async fn claimed(store: &RedisStore) -> usize {
    store.claim(claim_request(1_000)).await.expect("it answers").len()
}

fn eval(server: &Server, script: &str) {
    let names = ["meta", "specs", "incoming", "left_out"].map(key);
    let names = names.each_ref().map(String::as_str);
    let done = server.command(&[&["EVAL", script, "4"], &names[..]].concat());
    assert_eq!(done.trim(), "done");
}

/// As Lua writes it.
fn literal(bytes: &[u8]) -> String {
    let escaped: String = bytes.iter().map(|byte| format!("\\{byte:03}")).collect();
    format!("'{escaped}'")
}

/// A server whose disk fails between two commands of one transaction refuses what scripts write from then on, so the
/// records of those who were left out were not taken back. Whoever sent one of them again was told that it was admitted.
#[tokio::test]
async fn records_that_were_not_taken_back_are_no_jobs() {
    let server = Server::start();
    let store = open(server.port()).await;
    store.submit(vec![plain()]).await.unwrap();
    store.submit(vec![plain(), plain()]).await.unwrap();
    assert_eq!(claimed(&store).await, 3);
    for others in [0, 2] {
        let left = token();
        // As if it had been left out of the batch just before.
        let half = format!(
            "for _, one in ipairs(redis.call('HVALS', KEYS[2])) do \
             if string.byte(one) == 4 or string.byte(one) == 5 then redis.call('HSET', KEYS[2], {id}, one) end end \
             redis.call('RPUSH', KEYS[4], {id}) redis.call('HSET', KEYS[1], 'admitting', 1) return 'done'",
            id = literal(left.as_bytes())
        );
        eval(&server, &half);
        let again = Submission {
            token: left,
            ..plain()
        };
        let batch: Vec<_> = (0..others).map(|_| plain()).chain([again]).collect();
        let answers = store.submit(batch).await.unwrap();
        assert_eq!(outcomes(&answers), vec![Some(Outcome::Accepted); 1 + others]);
        assert_eq!(claimed(&store).await, 1 + others, "all wait, each once");
        let left_out = server.command(&["EXISTS", &key("left_out")]);
        assert_eq!(left_out.trim(), ":0");
    }
    assert_eq!(store.doctor(false).await.unwrap(), []);
}

/// A server that has lost everything, its scripts too, carries out the plain commands of a transaction alone.
#[tokio::test]
async fn a_batch_to_a_server_that_has_lost_everything_is_admitted_as_a_whole() {
    let server = Server::start();
    let store = open(server.port()).await;
    let batch = || (0..40).map(|n| keyed(&format!("k{n}"))).collect::<Vec<_>>();
    store.submit(batch()).await.unwrap();
    for lost in [["SCRIPT", "FLUSH"], ["FLUSHALL", "SYNC"]] {
        server.command(&lost);
    }
    let answers = store.submit(batch()).await.unwrap();
    assert_eq!(outcomes(&answers), vec![Some(Outcome::Accepted); 40]);
    assert_eq!(claimed(&store).await, 40);
    assert_eq!(server.command(&["EXISTS", &key("incoming")]).trim(), ":0");
    // Nor does what was refused leave anything, where there were no records before.
    server.command(&["FLUSHALL", "SYNC"]);
    let answers = store.submit(batch()).await.unwrap();
    assert_eq!(outcomes(&answers), vec![Some(Outcome::Accepted); 40]);
    assert_eq!(claimed(&store).await, 40);
    assert_eq!(store.doctor(false).await.unwrap(), []);
}

/// Commands of a transaction that were carried out one by one left the records of all jobs without their name; the next
/// batch removed them, and the doctor would have cleared away what leads to them.
#[tokio::test]
async fn records_without_their_name_get_it_back() {
    let server = Server::start();
    let store = open(server.port()).await;
    store.submit(vec![keyed("a")]).await.unwrap();
    store.submit(vec![keyed("b"), keyed("c")]).await.unwrap();
    let lose = || eval(&server, "redis.call('RENAME', KEYS[2], KEYS[3]) return 'done'");
    lose();
    store.submit(vec![keyed("d")]).await.unwrap();
    assert_eq!(store.doctor(false).await.unwrap()[0].invariant, "I2");
    let mended = store.doctor(true).await.unwrap();
    assert!(mended.len() == 1 && mended[0].repaired, "{mended:?}");
    assert_eq!(store.doctor(false).await.unwrap(), []);
    // Or by whoever comes with the next batch, of which nothing but its answers is left.
    lose();
    let answers = store
        .submit(vec![keyed("a"), keyed("e"), keyed("b")])
        .await
        .unwrap();
    let expected = [Outcome::Duplicate, Outcome::Accepted, Outcome::Duplicate];
    assert_eq!(outcomes(&answers), expected.map(Some));
    assert_eq!(store.doctor(false).await.unwrap(), []);
    assert_eq!(server.command(&["HLEN", &key("specs")]).trim(), ":6");
    assert_eq!(claimed(&store).await, 5);
}

/// A holder was looked at on one server and the record written on another that has taken over without knowing it: the
/// answer named a job that nobody had.
#[tokio::test]
async fn a_duplicate_never_names_a_job_that_was_lost_meanwhile() {
    let server = Server::start();
    let proxy = Proxy::start(&server).await;
    let store = open(proxy.port()).await;
    let first = store
        .submit(vec![keyed("k"), keyed("other")])
        .await
        .unwrap()
        .remove(0);
    // Duplicates only, so that holders are looked at first.
    store.submit(vec![keyed("k"), keyed("other")]).await.unwrap();
    proxy.hold(|request| has(request, &["EVALSHA", ":ledger_pages"]));
    let again = store.submit(vec![keyed("k"), keyed("other")]);
    let lose = async {
        proxy.has_held().await;
        for hash in ["specs", "heads"] {
            server.command(&["DEL", &key(hash)]);
        }
        proxy.release();
    };
    let (again, ()) = tokio::join!(again, lose);
    let again = again.unwrap();
    assert_eq!(outcomes(&again), vec![Some(Outcome::Accepted); 2]);
    assert_ne!(again[0].id(), first.id());
}

/// Entries that another process had let go of meanwhile were counted as gone a second time.
#[tokio::test]
async fn two_who_keep_house_at_once_count_what_goes_once() {
    let server = Server::start();
    let proxy = Proxy::start(&server).await;
    let (store, other) = (open(server.port()).await, open(proxy.port()).await);
    let held = || with(Dedup::explicit("k").hold(Hold::forever()));
    store.submit(vec![held()]).await.unwrap();
    for _ in 0..2 {
        store.submit((0..600).map(|_| held()).collect()).await.unwrap();
    }
    proxy.hold(|request| has(request, &["HMGET", ":ledger:"]));
    let late = other.upkeep(UpkeepRequest::default());
    let early = async {
        proxy.has_held().await;
        let report = store.upkeep(UpkeepRequest::default()).await.unwrap();
        proxy.release();
        report.ledger
    };
    let (late, early) = tokio::join!(late, early);
    late.unwrap();
    assert_eq!(early, 200);
    let keys = store.keys(KeyFilter::default(), Page::first(1)).await.unwrap();
    assert_eq!(keys.items[0].absorbed, 1_200);
}

/// A claim read the order of dispatch in parts; what another one took in between moved the rest up, and the next part
/// began behind jobs that nobody had looked at.
#[tokio::test]
async fn a_claim_passes_nobody_over_while_another_one_is_made() {
    let server = Server::start();
    let proxy = Proxy::start(&server).await;
    let (store, other) = (open(server.port()).await, open(proxy.port()).await);
    // Neither a pack nor a quick claim: a lease changes what these have of their keys.
    let waiting = |n| with(Dedup::explicit(format!("k{n}")).hold(Hold::until_started()));
    for n in 0..40 {
        store.submit(vec![waiting(n)]).await.unwrap();
    }
    let mut parts = 0;
    proxy.hold(move |request| {
        parts += usize::from(has(request, &["ZRANGEBYSCORE", ":ready:"]));
        parts == 2
    });
    let late = other.claim(claim_request(100));
    let early = async {
        proxy.has_held().await;
        let claimed = store.claim(claim_request(10)).await.unwrap();
        proxy.release();
        claimed
    };
    let (late, early) = tokio::join!(late, early);
    let seen = |claimed: &[semel_core::store::Claimed]| -> Vec<String> {
        let keys = claimed.iter().filter_map(|claimed| claimed.job.key.as_ref());
        keys.map(|key| format!("{:?}", key.text)).collect()
    };
    let expected = |range: std::ops::Range<usize>| -> Vec<String> {
        range.map(|n| format!("{:?}", Some(format!("k{n}")))).collect()
    };
    assert_eq!(seen(&early), expected(0..10));
    assert_eq!(seen(&late.unwrap()), expected(10..40));
}

/// A job that got another priority between two parts was met in both orders, and given out twice at once.
#[tokio::test]
async fn a_claim_gives_nobody_twice_who_moves_meanwhile() {
    let server = Server::start();
    let proxy = Proxy::start(&server).await;
    let (store, other) = (open(server.port()).await, open(proxy.port()).await);
    let waiting = |key: &str, priority| Submission {
        priority,
        run_at: RunAt::At(Timestamp::from_millis(1_000)),
        ..with(
            Dedup::explicit(key)
                .hold(Hold::until_started())
                .on_duplicate(OnDuplicate::Replace),
        )
    };
    for n in 0..20 {
        store.submit(vec![waiting(&format!("k{n}"), 5)]).await.unwrap();
    }
    let first = store.submit(vec![waiting("x", 0)]).await.unwrap().remove(0);
    let mut parts = 0;
    proxy.hold(move |request| {
        parts += usize::from(has(request, &["ZRANGEBYSCORE", ":ready:"]));
        parts == 2
    });
    let late = other.claim(claim_request(100));
    let moved = async {
        proxy.has_held().await;
        let behind = Submission {
            run_at: RunAt::At(Timestamp::from_millis(2_000)),
            ..waiting("x", 5)
        };
        let moved = store.submit(vec![behind]).await.unwrap().remove(0);
        proxy.release();
        moved
    };
    let (late, moved) = tokio::join!(late, moved);
    assert_eq!(
        (moved.outcome(), moved.id()),
        (Some(Outcome::Replaced), first.id())
    );
    let mut ids: Vec<_> = late.unwrap().into_iter().map(|claimed| claimed.job.id).collect();
    let all = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), all, "each once");
    assert_eq!(store.doctor(false).await.unwrap(), []);
}

/// Of two callers whose submissions went together the first was admitted; when there was no room for the other one, the
/// first was told that the store is damaged.
#[tokio::test]
async fn who_was_admitted_is_told_so_though_there_is_no_room_for_others() {
    let server = Server::start();
    let proxy = Proxy::start(&server).await;
    let store = open(proxy.port()).await;
    store.submit(vec![plain()]).await.unwrap();
    // Of two kinds, so that numbers are drawn for them.
    let mixed = (0..80).map(|n| {
        if n % 2 == 0 {
            plain()
        } else {
            keyed(&format!("k{n}"))
        }
    });
    // The numbers of the first are drawn, too: somebody else has a call on its way.
    let mut drawn = 0;
    proxy.hold(move |request| {
        drawn += usize::from(has(request, &["HINCRBY", "seq"]));
        drawn == 2
    });
    let full = async {
        proxy.has_held().await;
        server.command(&["CONFIG", "SET", "maxmemory", "1"]);
        proxy.release();
    };
    // The one that is first of all goes by itself; those that come meanwhile go together.
    let (_alone, first, second, ()) = tokio::join!(
        store.submit(vec![plain()]),
        store.submit((0..16).map(|_| plain()).collect()),
        store.submit(mixed.collect()),
        full
    );
    assert_eq!(outcomes(&first.unwrap()), vec![Some(Outcome::Accepted); 16]);
    let refused = second.expect_err("there is no room");
    assert!(
        matches!(refused, semel_core::error::StoreError::Full { .. }),
        "{refused:?}"
    );
}

/// Two submissions with one token, which is a mistake of the caller: the later one, of another key, was taken first,
/// and the earlier one was given its answer.
#[tokio::test]
async fn one_token_with_two_keys_is_judged_in_order() {
    let server = Server::start();
    let store = open(server.port()).await;
    let owners = store.submit(vec![keyed("a"), keyed("b")]).await.unwrap();
    store.submit(vec![keyed("a"), keyed("b")]).await.unwrap();
    let twice = token();
    let mut batch: Vec<Submission> = (0..40).map(|_| keyed("a")).collect();
    batch[20].token = twice;
    batch[21] = Submission {
        token: twice,
        ..keyed("b")
    };
    let answers = store.submit(batch).await.unwrap();
    for at in [20, 21] {
        assert_eq!(answers[at].id(), owners[0].id(), "place {at}");
    }
}

/// A member that is neither a job nor a pack was leased with the others, as a job that nobody has.
#[tokio::test]
async fn what_is_no_place_in_the_order_stops_nobody() {
    for bad in ["x", "01234567890123456789012345678"] {
        let server = Server::start();
        let store = open(server.port()).await;
        store.submit(vec![plain()]).await.unwrap();
        store.submit(vec![plain(), plain()]).await.unwrap();
        server.command(&["ZADD", &key("ready:0:0"), "1", bad]);
        store.submit((0..11).map(|_| plain()).collect()).await.unwrap();
        assert_eq!(claimed(&store).await, 14, "{bad}");
        assert_eq!(store.stats().await.unwrap().jobs[&State::Running], 14, "{bad}");
        let found = store.doctor(true).await.unwrap();
        assert!(found.len() == 1 && found[0].repaired, "{found:?}");
        assert_eq!(store.doctor(false).await.unwrap(), []);
    }
}

/// What every write does first was left out where no submission of a call was valid: a lease that had run out was still
/// a running job then. Found by the model.
#[tokio::test]
async fn who_submits_nothing_valid_finds_leases_that_have_run_out() {
    let server = Server::start();
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_800_000_000_000)));
    let options = RedisOptions::from_url(&server.url()).unwrap();
    let store = RedisStore::open_with_clock(options, clock.clone()).await.unwrap();
    store.submit(vec![plain()]).await.unwrap();
    let claimed = store.claim(claim_request(1)).await.unwrap().remove(0);
    clock.advance(secs(60));
    let answer = store.submit(vec![keyed("")]).await.unwrap().remove(0);
    assert!(matches!(answer, Submitted::Invalid(_)), "{answer:?}");
    let job = store
        .jobs_by_id(&[claimed.job.id])
        .await
        .unwrap()
        .remove(0)
        .unwrap();
    assert_eq!(job.state, State::Queued);
}
