//! From a submission in one process to the handler in another.

use std::sync::{Arc, Mutex};

use semel::{Job, JobResult, Worker, clock};

use crate::child::HELLO;
use crate::place::{Place, eventually, percentile};

type Waits = Arc<Mutex<Vec<i64>>>;

async fn hello(job: Job<u64>, waits: Waits) -> JobResult {
    let wait = clock::now().since(job.enqueued_at());
    waits.lock().expect("a lock").push(wait.as_millis());
    Ok(())
}

pub async fn campaign(full: bool) -> String {
    let count: usize = if full { 1_000 } else { 60 };
    let place = Place::new().await;
    let waits = Waits::default();
    let worker = Worker::new(&place.jobs, waits.clone()).task(HELLO, hello);
    let producer = place.start("produce", &[&count.to_string(), "23"]);
    let all = eventually("every job to be picked up", async || {
        waits.lock().expect("a lock").len() == count
    });
    worker.run_until(all).await.expect("it worked");
    drop(producer);
    let mut waits = waits.lock().expect("a lock").clone();
    let (half, most) = (percentile(&mut waits, 0.5), percentile(&mut waits, 0.99));
    // A short run on a busy machine says little about its slowest hundredth.
    let bound = if full { most } else { percentile(&mut waits, 0.9) };
    assert!(bound < 60, "p50 {half} ms, p99 {most} ms");
    format!(
        "pickup of {count} jobs of another process: p50 {half} ms, p99 {most} ms, longest {} ms",
        waits[count - 1]
    )
}
