//! Removing a queue while it is used.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use semel_conformance::kit::{claim_request, into_queue, name, plain, with};
use semel_core::dedup::Dedup;
use semel_core::job::{Outcome, State};
use semel_core::store::{Control as _, Inspect as _, Store as _, UpkeepRequest};
use semel_core::submission::Submission;
use semel_redis::RedisStore;

use crate::proxy::Proxy;
use crate::server::Server;

async fn open(server: &Server) -> RedisStore {
    RedisStore::connect(&server.url()).await.expect("the store opens")
}

fn newest_in(queue: &str) -> Submission {
    into_queue(queue, with(Dedup::explicit("k").latest()))
}

/// Whoever follows a job of another queue is let go when that queue is removed. One that came after the removal had
/// looked for such followers, and before it was written, followed a job that nobody saw any more: it waited for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_that_comes_while_the_queue_is_removed_follows() {
    let server = Server::start();
    let proxy = Proxy::start(&server).await;
    let late = RedisStore::connect(&format!("redis://127.0.0.1:{}/0", proxy.port())).await;
    let (late, other) = (late.expect("the store opens"), open(&server).await);
    // The lane is there, so that the follower changes nothing that the removal rests on.
    other
        .submit(vec![into_queue("stays", plain())])
        .await
        .expect("the store answers");
    other
        .submit(vec![newest_in("goes")])
        .await
        .expect("the store answers");
    let claims = other.claim(claim_request(10)).await.expect("the store answers");
    assert_eq!(claims.len(), 2);
    late.stats().await.expect("the store answers");
    proxy.late_by(400);
    let goes = name("goes");
    let (removed, follower) = tokio::join!(late.remove_queue(&goes), async {
        // The removal looks at the store, then for followers, then counts jobs, and then writes.
        tokio::time::sleep(Duration::from_millis(800)).await;
        let answer = other.submit(vec![newest_in("stays")]).await;
        answer.expect("the store answers").remove(0)
    });
    assert_eq!(removed.expect("the store answers"), 1);
    assert_eq!(follower.outcome(), Some(Outcome::Deferred));
    let id = follower.id().cloned().expect("it names the job");
    other
        .upkeep(UpkeepRequest::default())
        .await
        .expect("the store answers");
    let job = other
        .jobs_by_id(&[id])
        .await
        .expect("the store answers")
        .remove(0);
    assert_eq!(job.map(|job| job.state), Some(State::Queued));
    assert_eq!(other.doctor(false).await.expect("the store answers"), []);
}

/// The numbers of jobs in the queue were read like anything a step rests on, though they are only reported. In a queue
/// that was used they were others by the time the step was written, again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_queue_is_removed_while_it_is_busy() {
    let server = Server::start();
    let (here, there) = (open(&server).await, Arc::new(open(&server).await));
    there.submit(vec![plain()]).await.expect("the store answers");
    let stop = Arc::<AtomicBool>::default();
    let (busy, stopped) = (there.clone(), stop.clone());
    let busy = tokio::spawn(async move {
        while !stopped.load(Ordering::Relaxed) {
            busy.submit(vec![plain()]).await.expect("the store answers");
        }
    });
    let queue = plain().queue;
    for _ in 0..5 {
        let removed = tokio::time::timeout(Duration::from_secs(5), here.remove_queue(&queue)).await;
        removed.expect("it comes to an end").expect("the store answers");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    stop.store(true, Ordering::Relaxed);
    busy.await.expect("it ends");
}
