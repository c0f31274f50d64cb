//! A lone caller reads and writes the connection itself. Nobody may come to depend on it.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use semel_conformance::kit::plain;
use semel_core::counters::Counter;
use semel_core::error::StoreError;
use semel_core::store::{Inspect as _, Store as _, Submitted};
use semel_redis::RedisStore;

use crate::server::Server;

type Kept<'s> = Pin<Box<dyn Future<Output = Result<Vec<Submitted>, StoreError>> + Send + 's>>;

async fn open(server: &Server) -> Arc<RedisStore> {
    let store = Arc::new(RedisStore::connect(&server.url()).await.expect("the store opens"));
    store.submit(vec![plain()]).await.expect("the store answers");
    store
}

/// Looks once, and then no more.
async fn look_once(kept: &mut Kept<'_>) {
    let pending = poll_fn(|context| Poll::Ready(kept.as_mut().poll(context).is_pending())).await;
    assert!(pending, "a frozen server does not answer");
}

async fn soon<T>(answer: impl Future<Output = T>) -> T {
    let answer = tokio::time::timeout(Duration::from_secs(4), answer).await;
    answer.expect("it waits for nobody who has stopped looking")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_who_has_stopped_looking_holds_up_nobody() {
    let server = Server::start();
    let store = open(&server).await;
    for kept_first in [true, false] {
        server.freeze(true);
        let mut kept: Kept<'_> = store.submit(vec![plain()]);
        if kept_first {
            look_once(&mut kept).await;
        }
        let other = store.clone();
        let other = tokio::spawn(async move { other.submit(vec![plain()]).await });
        tokio::time::sleep(Duration::from_millis(30)).await;
        if !kept_first {
            look_once(&mut kept).await;
        }
        server.freeze(false);
        soon(other).await.expect("it ends").expect("the store answers");
        soon(store.submit(vec![plain()]))
            .await
            .expect("the store answers");
        soon(kept).await.expect("the store answers");
    }
    let accepted = store.stats().await.unwrap().raw.get(Counter::Accepted);
    assert_eq!(accepted, 7);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_who_goes_away_leaves_the_connection_to_the_next() {
    let server = Server::start();
    let store = open(&server).await;
    for _ in 0..5 {
        server.freeze(true);
        let mut given_up: Kept<'_> = store.submit(vec![plain()]);
        look_once(&mut given_up).await;
        drop(given_up);
        server.freeze(false);
        soon(store.submit(vec![plain()]))
            .await
            .expect("the store answers");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_who_looks_out_for_its_answer_sleeps_when_it_does_not_come() {
    let server = Server::start();
    let store = open(&server).await;
    for _ in 0..3 {
        // Long enough alone to look out.
        for _ in 0..50 {
            soon(store.submit(vec![plain()]))
                .await
                .expect("the store answers");
        }
        server.freeze(true);
        let waits = store.clone();
        let waits = tokio::spawn(async move { waits.submit(vec![plain()]).await });
        tokio::time::sleep(Duration::from_millis(30)).await;
        server.freeze(false);
        soon(waits).await.expect("it ends").expect("the store answers");
    }
    let accepted = store.stats().await.unwrap().raw.get(Counter::Accepted);
    assert_eq!(accepted, 1 + 3 * 51);
}
