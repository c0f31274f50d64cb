//! Stopping in order (contract 4.3): no new claims, running jobs finish within a grace, the rest are handed back at once.

mod worker_stage;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use semel::semel_core::lifecycle::AttemptResult;
use semel::{Job, JobResult, State, Task, Worker, millis, secs};

use crate::worker_stage::{attempts, eventually, job, on_each_store};

const LONG: Task<u64> = Task::new("long");

async fn sleeper(job: Job<u64>, begun: Arc<AtomicUsize>) -> JobResult {
    begun.fetch_add(1, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(job.input)).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn running_jobs_finish_and_buffered_ones_are_handed_back_at_once() {
    on_each_store(async |jobs| {
        let running = jobs.submit(LONG, &600).await.expect("submitted");
        let buffered = jobs.submit(LONG, &0).await.expect("submitted");
        let begun = Arc::default();
        let worker = Worker::new(&jobs, Arc::clone(&begun))
            .task(LONG, sleeper)
            .concurrency(1)
            .prefetch(4);
        let stopped = async {
            eventually("both to be leased", async || {
                begun.load(Ordering::SeqCst) == 1 && job(&jobs, buffered.id()).await.state == State::Running
            })
            .await;
        };
        let handed_back = async {
            stopped.await;
        };
        let looked = async {
            eventually("the buffered job to be handed back", async || {
                !attempts(&jobs, buffered.id()).await.is_empty()
            })
            .await;
            job(&jobs, running.id()).await.state
        };
        let (report, meanwhile) = tokio::join!(worker.run_until(handed_back), looked);
        let report = report.expect("it worked");
        assert_eq!((report.completed, report.handed_back), (1, 1));
        assert_eq!(
            meanwhile,
            State::Running,
            "the hand-back did not wait for the running job"
        );
        assert_eq!(job(&jobs, running.id()).await.state, State::Complete);
        let back = job(&jobs, buffered.id()).await;
        assert_eq!((back.state, back.attempt, back.deliveries), (State::Queued, 0, 0));
        assert_eq!(
            attempts(&jobs, buffered.id()).await[0].end.result,
            AttemptResult::HandedBack
        );
        assert_eq!(
            begun.load(Ordering::SeqCst),
            1,
            "a job that was handed back was run"
        );
    })
    .await;
}

/// Contract 1.7: a hand-back costs neither an attempt nor a delivery, also in the middle of a run.
#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_finish_within_the_grace_is_handed_back() {
    on_each_store(async |jobs| {
        let sent = jobs.submit(LONG, &60_000).await.expect("submitted");
        let begun = Arc::default();
        let worker = Worker::new(&jobs, Arc::clone(&begun))
            .task(LONG, sleeper)
            .grace(millis(100));
        let stopped = eventually("the handler to begin", async || begun.load(Ordering::SeqCst) == 1);
        let report = tokio::time::timeout(secs(25), worker.run_until(stopped)).await;
        assert_eq!(report.expect("in time").expect("it worked").handed_back, 1);
        let back = job(&jobs, sent.id()).await;
        assert_eq!((back.state, back.attempt, back.deliveries), (State::Queued, 0, 0));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_handler_that_blocks_its_thread_does_not_keep_the_worker_from_stopping() {
    async fn blocker(_: Job<u64>, begun: Arc<AtomicUsize>) -> JobResult {
        begun.fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(secs(3));
        Ok(())
    }
    let jobs = semel::connect("memory:").await.expect("a store");
    let sent = jobs.submit(LONG, &0).await.expect("submitted");
    let begun = Arc::default();
    let worker = Worker::new(&jobs, Arc::clone(&begun))
        .task(LONG, blocker)
        .grace(millis(10));
    let stopped = eventually("the handler to begin", async || begun.load(Ordering::SeqCst) == 1);
    let report = tokio::time::timeout(millis(2_500), worker.run_until(stopped)).await;
    assert_eq!(report.expect("in time").expect("it worked").handed_back, 1);
    assert_eq!(job(&jobs, sent.id()).await.state, State::Queued);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_the_stop_nothing_is_claimed_and_the_worker_is_off_the_list() {
    on_each_store(async |jobs| {
        let worker = Worker::new(&jobs, Arc::default()).task(LONG, sleeper);
        let listed = eventually("the worker to be listed", async || {
            semel::workers::list(&jobs).await.expect("an answer").len() == 1
        });
        worker.run_until(listed).await.expect("it worked");
        assert_eq!(semel::workers::list(&jobs).await.expect("an answer"), []);
        let sent = jobs.submit(LONG, &0).await.expect("submitted");
        tokio::time::sleep(millis(100)).await;
        assert_eq!(job(&jobs, sent.id()).await.state, State::Queued);
    })
    .await;
}
