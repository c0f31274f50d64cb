//! A reply that is lost after the server has applied the call (contract 3.5): the call is sent again and answered as if
//! nothing had happened, and nothing is done twice.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use crate::proxy::Proxy;
use crate::server::Server;
use semel_conformance::kit::{claim_request, plain, with};
use semel_core::counters::Counter;
use semel_core::dedup::Dedup;
use semel_core::job::{Outcome, State};
use semel_core::lifecycle::Settle;
use semel_core::store::{
    Act, ActOutcome, Control as _, Inspect as _, Interest, Mark, Settlement, Store as _, WriteOutcome,
};
use semel_redis::RedisStore;

/// Longer than any test is willing to wait.
const LONG: Duration = Duration::from_secs(10);

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

/// The reply to a submission was lost. Sent again it was found to be written, so nobody in this process was told of it, and
/// the message of the server was one this handle had sent itself: idle workers beside the caller went on sleeping.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_beside_the_caller_is_woken_after_a_lost_reply() {
    let server = Server::start();
    let proxy = Proxy::start(&server).await;
    let store = RedisStore::connect(&format!("redis://127.0.0.1:{}/0", proxy.port())).await;
    let store = Arc::new(store.expect("the store opens"));
    let wait = async |interest: Interest| {
        let (since, waits) = (store.mark(), store.clone());
        let waiter = tokio::spawn(async move { waits.changed(since, interest, LONG).await });
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!waiter.is_finished(), "nothing has changed yet");
        (waiter, proxy.cuts())
    };
    let woken = async |(waiter, cuts): (JoinHandle<Mark>, u32)| {
        assert_eq!(proxy.cuts(), cuts + 1, "the reply was lost");
        let soon = tokio::time::timeout(Duration::from_secs(2), waiter).await;
        soon.expect("it is woken").expect("it ends");
    };
    store.submit(vec![plain()]).await.unwrap();
    let first = store.claim(claim_request(1)).await.unwrap().remove(0);
    let work = || Interest::Work {
        queues: Vec::new(),
        tasks: Vec::new(),
    };
    // Who begins to listen is woken once.
    store
        .changed(store.mark(), work(), Duration::from_millis(50))
        .await;

    let waiter = wait(work()).await;
    proxy.lose_the_next_reply();
    store.submit(vec![plain()]).await.unwrap();
    woken(waiter).await;

    let waiter = wait(Interest::Ends).await;
    proxy.lose_the_next_reply();
    let end = Settlement {
        id: first.job.id,
        fence: first.fence,
        result: Settle::Complete { output: None },
    };
    store.settle(vec![end]).await.unwrap();
    woken(waiter).await;
}
