//! A clock that is set by an hour, forth and back: no key opens under a live job, none stays for ever (contract 1.8, 2.4).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use semel_conformance::kit::{claim_request, secs, with};
use semel_core::dedup::{Dedup, Hold};
use semel_core::ids::JobId;
use semel_core::job::{Outcome, State};
use semel_core::lifecycle::Settle;
use semel_core::store::{
    Control as _, Finding, Inspect as _, Settlement, Store as _, UpkeepRequest, WriteOutcome,
};
use semel_core::time::Clock;
use semel_redis::{RedisOptions, RedisStore};

use crate::server::Server;

const HOUR: i64 = 3_600_000_000;

/// A clock that goes wherever it is set.
#[derive(Debug)]
struct Adjustable(AtomicI64);

impl Clock for Adjustable {
    fn micros(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// Jobs with keys of every hold wait, run and end while the clock is set by up to an hour, forth and back, so many
/// times: as long as a job lives its key leads to it, and when all have ended only what holds for ever is held.
pub async fn steps(times: u64) -> String {
    const KEYS: u64 = 12;
    let server = Server::start();
    let clock = Arc::new(Adjustable(AtomicI64::new(1_800_000_000_000_000)));
    let options = RedisOptions::from_url(&server.url()).expect("a valid URL");
    let store = RedisStore::open_with_clock(options, clock.clone())
        .await
        .expect("the store opens");
    let mut live: BTreeMap<u64, JobId> = BTreeMap::new();
    let (mut random, mut asked, mut ended) = (1_u64, 0_u64, 0_u64);
    let mut latest = 0;
    for step in 0..times {
        // A generator is enough that differs from step to step and not from run to run.
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let by = [HOUR, -HOUR, HOUR / 7, -HOUR / 7, 1_000_000, -1_000_000][(random >> 33) as usize % 6];
        latest = latest.max(clock.0.fetch_add(by, Ordering::SeqCst) + by);
        let submissions = (0..KEYS).map(|key| {
            let policy = Dedup::explicit(format!("k{key}"));
            with(match key % 3 {
                0 => policy,
                1 => policy.hold(Hold::window(secs(60))),
                _ => policy.hold(Hold::window(secs(7_200))),
            })
        });
        let answers = store
            .submit(submissions.collect())
            .await
            .expect("the store answers");
        for (key, answer) in (0..KEYS).zip(&answers) {
            let id = answer.id().cloned().expect("every answer names a job");
            if let Some(holder) = live.get(&key) {
                asked += 1;
                assert_eq!(
                    answer.outcome(),
                    Some(Outcome::Duplicate),
                    "step {step}, key {key} opened"
                );
                assert_eq!(&id, holder, "step {step}, key {key} leads elsewhere");
            } else if answer.outcome() == Some(Outcome::Accepted) {
                live.insert(key, id);
            }
        }
        if step % 3 == 0 {
            let mut request = claim_request(4);
            request.lease = secs(1_800);
            let claims = store.claim(request).await.expect("the store answers");
            // Half of them end; the others keep their lease until the clock ends it.
            let done: Vec<Settlement> = claims
                .iter()
                .step_by(2)
                .map(|claimed| Settlement {
                    id: claimed.job.id.clone(),
                    fence: claimed.fence,
                    result: Settle::Complete { output: None },
                })
                .collect();
            let outcomes = store.settle(done.clone()).await.expect("the store answers");
            for (settlement, outcome) in done.iter().zip(outcomes) {
                assert_eq!(outcome, WriteOutcome::Ok(State::Complete));
                live.retain(|_, id| *id != settlement.id);
                ended += 1;
            }
        }
        if step % 7 == 0 {
            store
                .upkeep(UpkeepRequest::default())
                .await
                .expect("the store answers");
        }
        // A job whose attempts are used up has ended too.
        for (_, id) in live.clone() {
            let job = store
                .jobs_by_id(std::slice::from_ref(&id))
                .await
                .expect("the store answers")
                .remove(0);
            if job.is_none_or(|job| job.state.is_terminal()) {
                live.retain(|_, known| *known != id);
                ended += 1;
            }
        }
    }
    let findings = store.doctor(false).await.expect("the store answers");
    let about_numbers = |finding: &Finding| finding.invariant == "I25";
    assert!(findings.iter().all(about_numbers), "{findings:?}");
    // Keys that lapse are no longer counted for moments that have passed once; from the latest on they are again.
    clock.0.store(latest, Ordering::SeqCst);
    assert_eq!(store.doctor(false).await.expect("the store answers"), []);
    format!(
        "{times} steps of up to an hour: {asked} submissions against a live job, {ended} jobs ended, 0 keys opened under \
         a live job"
    )
}

#[tokio::test]
async fn no_key_opens_while_the_clock_is_set_forth_and_back() {
    println!("{}", steps(100).await);
}

#[tokio::test]
async fn a_step_of_an_hour_opens_no_key_under_a_live_job() {
    let server = Server::start();
    let clock = Arc::new(Adjustable(AtomicI64::new(1_800_000_000_000_000)));
    let options = RedisOptions::from_url(&server.url()).unwrap();
    let store = RedisStore::open_with_clock(options, clock.clone()).await.unwrap();
    let held = || {
        let window = Dedup::explicit("window").hold(Hold::window(secs(60)));
        [
            Dedup::explicit("finished"),
            window,
            Dedup::explicit("ever").hold(Hold::forever()),
        ]
        .map(with)
    };
    let first = store.submit(held().to_vec()).await.unwrap();
    let ids: Vec<_> = first.iter().map(|answer| answer.id().cloned()).collect();
    let still_held = async |when: &str| {
        for (answer, id) in store.submit(held().to_vec()).await.unwrap().iter().zip(&ids) {
            assert_eq!(answer.outcome(), Some(Outcome::Duplicate), "{when}: {answer:?}");
            assert_eq!(answer.id(), id.as_ref(), "{when}");
        }
    };
    still_held("waiting").await;
    for step in [HOUR, -HOUR, -HOUR, HOUR] {
        clock.0.fetch_add(step, Ordering::SeqCst);
        still_held("waiting, after a step").await;
    }
    let mut request = claim_request(3);
    request.lease = secs(3_600);
    assert_eq!(store.claim(request).await.unwrap().len(), 3);
    // The last step ends the leases: the jobs wait again, with their keys.
    for step in [-HOUR, HOUR, HOUR] {
        clock.0.fetch_add(step, Ordering::SeqCst);
        still_held("running, after a step").await;
    }
    let claims = store.claim(claim_request(3)).await.unwrap();
    assert_eq!(claims.len(), 3);
    let done = claims.iter().map(|claimed| Settlement {
        id: claimed.job.id.clone(),
        fence: claimed.fence,
        result: Settle::Complete { output: None },
    });
    store.settle(done.collect()).await.unwrap();
    // All jobs have ended and the window is over: what does not hold for ever is free.
    clock.0.fetch_add(HOUR, Ordering::SeqCst);
    let after = store.submit(held().to_vec()).await.unwrap();
    let outcomes: Vec<_> = after.iter().map(|answer| answer.outcome()).collect();
    assert_eq!(
        outcomes,
        [Outcome::Accepted, Outcome::Accepted, Outcome::Duplicate].map(Some)
    );
}
