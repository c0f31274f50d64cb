//! A clock that is set by an hour, forth and back: no key opens under a live job, none stays for ever (contract 1.8, 2.4).

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use semel_conformance::kit::{claim_request, secs, with};
use semel_core::dedup::{Dedup, Hold};
use semel_core::job::Outcome;
use semel_core::lifecycle::Settle;
use semel_core::store::{Settlement, Store as _};
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
