//! Waiting for work: how soon it is over, and that nobody asks the server again and again meanwhile.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::proxy::Proxy;
use crate::server::Server;
use semel_conformance::kit;
use semel_core::store::{Interest, Store as _};
use semel_core::submission::{RunAt, Submission};
use semel_redis::RedisStore;

/// Longer than any test is willing to wait: a wait that lasts so long was never ended by a wake-up.
const LONG: Duration = Duration::from_secs(10);

#[expect(
    clippy::disallowed_methods,
    reason = "how long a wait took; nothing stored depends on it"
)]
fn now() -> Instant {
    Instant::now()
}

fn work() -> Interest {
    Interest::Work {
        queues: Vec::new(),
        tasks: Vec::new(),
    }
}

async fn open(server: &Server) -> Arc<RedisStore> {
    Arc::new(RedisStore::connect(&server.url()).await.expect("the store opens"))
}

/// A handle that hears late from the server believes it to be earlier than it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_that_was_answered_is_due_for_everybody() {
    let server = Server::start();
    let proxy = Proxy::start(&server).await;
    let late = RedisStore::connect(&format!("redis://127.0.0.1:{}/0", proxy.port())).await;
    let (here, there) = (late.expect("the store opens"), open(&server).await);
    // Keeps the place it waits at, so that nothing is to be learnt on the way.
    let later = Submission {
        run_at: RunAt::After(kit::secs(3_600)),
        ..kit::plain()
    };
    there.submit(vec![later]).await.unwrap();
    proxy.late_by(60);
    for n in 0..10 {
        assert_eq!(here.claim(kit::claim_request(10)).await.unwrap().len(), 0);
        there.submit(vec![kit::plain()]).await.unwrap();
        let claims = here.claim(kit::claim_request(10)).await.unwrap();
        assert_eq!(claims.len(), 1, "claim {n}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_worker_of_another_process_is_woken_within_ten_milliseconds() {
    let server = Server::start();
    // Two handles share nothing but the server, as two processes do.
    let (here, there) = (open(&server).await, open(&server).await);
    here.changed(here.mark(), work(), Duration::from_millis(50)).await;
    let mut measured = Vec::new();
    for _ in 0..25 {
        let since = here.mark();
        let waits = here.clone();
        let waiter = tokio::spawn(async move {
            waits.changed(since, work(), LONG).await;
            now()
        });
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(!waiter.is_finished(), "nothing has changed yet");
        there.submit(vec![kit::plain()]).await.unwrap();
        let committed = now();
        measured.push(waiter.await.unwrap().saturating_duration_since(committed));
        // Work that is due ends a wait at once: the next round begins without any.
        assert_eq!(here.claim(kit::claim_request(10)).await.unwrap().len(), 1);
    }
    measured.sort();
    let median = measured[measured.len() / 2];
    eprintln!("median {median:?}, slowest {:?}", measured.last().unwrap());
    assert!(median < Duration::from_millis(10), "{measured:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_waits_asks_the_server_nothing_meanwhile() {
    let server = Server::start();
    let store = open(&server).await;
    store
        .changed(store.mark(), work(), Duration::from_millis(50))
        .await;
    let waiters: Vec<_> = (0..8)
        .map(|_| {
            let (store, since) = (store.clone(), store.mark());
            tokio::spawn(async move { store.changed(since, work(), Duration::from_secs(2)).await })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let before = server.commands();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let asked = server.commands() - before;
    // The two questions themselves.
    assert!(asked <= 4, "{asked} commands in a second of waiting");
    for waiter in waiters {
        waiter.await.unwrap();
    }
}
