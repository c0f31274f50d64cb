//! Faults of the server under load. Short pieces run as tests; `cargo run --example faults` runs them at length.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use semel_conformance::kit::{claim_request, plain, with};
use semel_core::counters::Counter;
use semel_core::dedup::{Dedup, Hold};
use semel_core::error::StoreError;
use semel_core::ids::JobId;
use semel_core::job::{Outcome, State};
use semel_core::lifecycle::Settle;
use semel_core::store::{
    ClaimRequest, Control as _, Inspect as _, Settlement, Store as _, Submitted, WriteOutcome,
};
use semel_core::submission::Submission;
use semel_redis::RedisStore;

use crate::proxy::Proxy;
use crate::server::Server;

/// Callers at once.
const CALLERS: u64 = 4;

/// What the callers were told.
#[derive(Default)]
struct Told {
    /// Every job that was accepted, by the key it has for ever.
    accepted: BTreeMap<String, JobId>,
    duplicates: i64,
    completed: i64,
    /// Calls that had to be made again by the caller.
    repeated: u64,
}

/// Calls a store until it answers, as every caller may: with the same token.
macro_rules! until_answered {
    ($told:expr, $call:expr) => {
        loop {
            match $call.await {
                Ok(answer) => break answer,
                Err(error) => {
                    assert!(error.is_retryable(), "{error:?}");
                    $told.repeated += 1;
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
        }
    };
}

/// Submits, submits again, claims and completes until it is told to stop.
async fn caller(store: Arc<RedisStore>, number: u64, stop: Arc<AtomicBool>, calls: Arc<AtomicU64>) -> Told {
    let mut told = Told::default();
    for n in 0.. {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        let key = format!("{number}-{n}");
        let policy = || Dedup::explicit(key.clone()).hold(Hold::forever());
        let (fresh, again) = (with(policy()), with(policy()));
        let first = submit(&mut told, &store, fresh).await;
        assert_eq!(first.outcome(), Some(Outcome::Accepted), "{key}: {first:?}");
        let id = first.id().cloned().expect("an accepted job has an id");
        let second = submit(&mut told, &store, again).await;
        assert_eq!(
            (second.outcome(), second.id()),
            (Some(Outcome::Duplicate), Some(&id))
        );
        told.duplicates += 1;
        told.accepted.insert(key, id);
        let request: ClaimRequest = claim_request(2);
        let claims = until_answered!(told, store.claim(request.clone()));
        let done: Vec<Settlement> = claims
            .into_iter()
            .map(|claimed| Settlement {
                id: claimed.job.id,
                fence: claimed.fence,
                result: Settle::Complete { output: None },
            })
            .collect();
        let answers = until_answered!(told, store.settle(done.clone()));
        assert!(
            answers
                .iter()
                .all(|answer| *answer == WriteOutcome::Ok(State::Complete)),
            "{answers:?}"
        );
        told.completed += answers.len() as i64;
        calls.fetch_add(4, Ordering::SeqCst);
    }
    told
}

async fn submit(told: &mut Told, store: &RedisStore, submission: Submission) -> Submitted {
    until_answered!(told, store.submit(vec![submission.clone()])).remove(0)
}

/// Everything that was answered is there, nothing else is, and the numbers are exact.
async fn holds(store: &RedisStore, told: Vec<Told>) -> String {
    assert_eq!(store.doctor(false).await.expect("the store answers"), []);
    let counts = store.stats().await.expect("the store answers").raw;
    let sum = |of: &dyn Fn(&Told) -> i64| told.iter().map(of).sum::<i64>();
    let accepted = sum(&|told| told.accepted.len() as i64);
    let expected = [
        accepted,
        sum(&|told| told.duplicates),
        sum(&|told| told.completed),
    ];
    let counted = [Counter::Accepted, Counter::Duplicate, Counter::Completed];
    assert_eq!(
        counted.map(|counter| counts.get(counter)),
        expected,
        "counters are exact"
    );
    let ids: Vec<JobId> = told
        .iter()
        .flat_map(|told| told.accepted.values().cloned())
        .collect();
    for ids in ids.chunks(500) {
        let found = store.jobs_by_id(ids).await.expect("the store answers");
        assert!(found.iter().all(Option::is_some), "an answered job is lost");
    }
    let held = store.stats().await.expect("the store answers").active_keys;
    assert_eq!(held, accepted, "each key has its job, each job its key");
    let repeated: u64 = told.iter().map(|told| told.repeated).sum();
    format!(
        "{accepted} accepted, {} duplicates, {} completed: 0 lost, 0 orphan keys, counters exact; {repeated} calls \
         were made again by their caller",
        expected[1], expected[2]
    )
}

/// Plays the load while `trouble` is made; gives what the callers were told.
async fn under_load(store: &Arc<RedisStore>, trouble: impl AsyncFnOnce(&AtomicU64)) -> Vec<Told> {
    let (stop, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let callers: Vec<_> = (0..CALLERS)
        .map(|number| tokio::spawn(caller(store.clone(), number, stop.clone(), calls.clone())))
        .collect();
    trouble(&calls).await;
    stop.store(true, Ordering::SeqCst);
    let mut told = Vec::new();
    for caller in callers {
        told.push(caller.await.expect("a caller ends"));
    }
    told
}

/// Waits until so many more calls were answered.
async fn calls_go_on(calls: &AtomicU64, more: u64) {
    let target = calls.load(Ordering::SeqCst) + more;
    while calls.load(Ordering::SeqCst) < target {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn open(url: &str) -> Arc<RedisStore> {
    Arc::new(RedisStore::connect(url).await.expect("the store opens"))
}

/// The server is killed and started again, so many times, with every write synced.
pub async fn restarts(times: u64) -> String {
    let mut server = Server::start();
    let store = open(&format!("{}?patience_ms=2000", server.url())).await;
    let told = under_load(&store, async |calls| {
        for n in 0..times {
            calls_go_on(calls, 8 + n % 24).await;
            server.kill();
            server.restart();
        }
    })
    .await;
    format!("{times} kills of the server: {}", holds(&store, told).await)
}

/// The server forgets its scripts, so many times; no caller sees anything of it.
pub async fn flushes(times: u64) -> String {
    let server = Server::start();
    let store = open(&server.url()).await;
    let told = under_load(&store, async |calls| {
        for _ in 0..times {
            server.command(&["SCRIPT", "FLUSH"]);
            calls_go_on(calls, 4).await;
        }
    })
    .await;
    assert!(
        told.iter().all(|told| told.repeated == 0),
        "a caller saw an error"
    );
    format!("{times} times SCRIPT FLUSH: {}", holds(&store, told).await)
}

/// Replies are lost after the write was applied, so many times: the same answer, the same id, no second job.
pub async fn lost_replies(times: u32) -> String {
    let server = Server::start();
    let proxy = Proxy::start(&server).await;
    let store = open(&format!("redis://127.0.0.1:{}/0", proxy.port())).await;
    store.submit(vec![plain()]).await.expect("the store answers");
    let applied = writes(&server);
    for n in 0..times {
        proxy.lose_the_next_reply();
        // Every other one meets a key that is held.
        let submission = with(Dedup::explicit(format!("k{}", n / 2)).hold(Hold::forever()));
        let answer = store
            .submit(vec![submission.clone()])
            .await
            .expect("the store answers");
        let again = store.submit(vec![submission]).await.expect("the store answers");
        let outcome = [Outcome::Accepted, Outcome::Duplicate][n as usize % 2];
        assert_eq!(answer[0].outcome(), Some(outcome), "{answer:?}");
        assert_eq!(
            (again[0].outcome(), again[0].id()),
            (Some(outcome), answer[0].id())
        );
    }
    assert_eq!(proxy.cuts(), times, "each reply was lost once");
    let calls = writes(&server) - applied;
    let counts = store.stats().await.expect("the store answers").raw;
    let (fresh, known) = (i64::from(times.div_ceil(2)), i64::from(times / 2));
    assert_eq!(counts.get(Counter::Accepted), fresh + 1);
    assert_eq!(counts.get(Counter::Duplicate), known);
    // What was cut was sent again, so the server has carried out more scripts than there were writes.
    assert!(
        calls >= i64::from(2 * times),
        "{calls} scripts for {times} lost replies"
    );
    assert_eq!(store.doctor(false).await.expect("the store answers"), []);
    format!("{times} replies lost after the write, {calls} scripts run: {fresh} jobs, 0 double, the same ids")
}

/// Scripts the server has run.
fn writes(server: &Server) -> i64 {
    let info = server.command(&["INFO", "commandstats"]);
    let line = info
        .lines()
        .find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    let number = line.and_then(|rest| rest.split(',').next()?.parse().ok());
    number.unwrap_or(0)
}

/// Memory runs out under load, so many times: calls are refused, and nothing of a refused one is applied.
pub async fn memory_limits(times: u64) -> String {
    let server = Server::start();
    let store = open(&server.url()).await;
    let told = under_load(&store, async |calls| {
        for _ in 0..times {
            calls_go_on(calls, 4).await;
            server.command(&["CONFIG", "SET", "maxmemory", "1"]);
            let probe = plain();
            let id = JobId::from(probe.token);
            let refused = store.submit(vec![probe]).await.expect_err("there is no room");
            assert!(matches!(refused, StoreError::Full { .. }), "{refused:?}");
            server.command(&["CONFIG", "SET", "maxmemory", "0"]);
            let found = store.jobs_by_id(&[id]).await.expect("the store answers");
            assert_eq!(found, [None], "a refused submission left something");
        }
    })
    .await;
    format!("{times} times out of memory: {}", holds(&store, told).await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_when_the_server_is_killed_under_load() {
    println!("{}", restarts(5).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_notices_that_the_server_forgets_its_scripts() {
    println!("{}", flushes(20).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_reply_makes_no_second_job() {
    println!("{}", lost_replies(30).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_room_refuses_before_the_first_write() {
    println!("{}", memory_limits(5).await);
}
