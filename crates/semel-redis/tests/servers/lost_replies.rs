//! A reply that is lost after the server has applied the call (contract 3.5): the call is sent again and answered as if
//! nothing had happened, and nothing is done twice.

use crate::proxy::Proxy;
use crate::server::Server;
use semel_conformance::kit::{claim_request, plain, with};
use semel_core::counters::Counter;
use semel_core::dedup::Dedup;
use semel_core::job::{Outcome, State};
use semel_core::lifecycle::Settle;
use semel_core::store::{Act, ActOutcome, Control as _, Inspect as _, Settlement, Store as _, WriteOutcome};
use semel_redis::RedisStore;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_that_was_lost_is_asked_for_again() {
    let server = Server::start();
    let proxy = Proxy::start(&server).await;
    let store = RedisStore::connect(&format!("redis://127.0.0.1:{}/0", proxy.port()))
        .await
        .unwrap();
    // The queue is known from now on: what follows takes one write each.
    let first = store.submit(vec![plain()]).await.unwrap().remove(0);
    let keyed = || with(Dedup::explicit("k"));

    proxy.lose_the_next_reply();
    let accepted = store.submit(vec![keyed()]).await.unwrap().remove(0);
    assert_eq!(accepted.outcome(), Some(Outcome::Accepted));
    proxy.lose_the_next_reply();
    let duplicate = store.submit(vec![keyed()]).await.unwrap().remove(0);
    assert_eq!(
        (duplicate.outcome(), duplicate.id()),
        (Some(Outcome::Duplicate), accepted.id())
    );

    proxy.lose_the_next_reply();
    let claims = store.claim(claim_request(10)).await.unwrap();
    assert_eq!(claims.len(), 2);
    proxy.lose_the_next_reply();
    let settlement = |at: usize| Settlement {
        id: claims[at].job.id.clone(),
        fence: claims[at].fence,
        result: Settle::Complete { output: None },
    };
    assert_eq!(
        store.settle(vec![settlement(0)]).await.unwrap(),
        [WriteOutcome::Ok(State::Complete)]
    );
    // An act has no token: the number of the write alone tells that it was applied.
    proxy.lose_the_next_reply();
    let cancel = Act::Cancel {
        id: claims[1].job.id.clone(),
    };
    let outcome = store.act(vec![cancel]).await.unwrap().remove(0);
    assert!(
        matches!(
            outcome,
            ActOutcome::Done {
                state: State::Cancelled,
                ..
            }
        ),
        "{outcome:?}"
    );

    assert_eq!(proxy.cuts(), 5, "every reply was lost once");
    assert!(claims.iter().any(|claimed| Some(&claimed.job.id) == first.id()));
    let counts = store.stats().await.unwrap().raw;
    let counted = [
        Counter::Accepted,
        Counter::Duplicate,
        Counter::Completed,
        Counter::Cancelled,
    ];
    assert_eq!(counted.map(|counter| counts.get(counter)), [2, 1, 1, 1]);
    assert_eq!(store.doctor(false).await.unwrap(), []);
}
