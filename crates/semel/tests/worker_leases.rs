//! Leases in the hands of a worker: kept by heartbeats, lost, cancelled (contract 1.5, 1.7, 4.5).

mod worker_stage;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use semel::semel_core::counters::Counter;
use semel::semel_core::store::Act;
use semel::{Client, Job, JobResult, State, Task, Worker, millis, secs};
use tokio::sync::Notify;

use crate::worker_stage::{attempts, claim_one, eventually, job, on_each_store, until_ended};

const LONG: Task<u64, u64> = Task::new("long");

/// What handlers of these tests do and say.
#[derive(Clone, Default)]
struct Stage {
    begun: Arc<AtomicUsize>,
    dropped: Arc<AtomicUsize>,
    told: Arc<AtomicBool>,
    go_on: Arc<Notify>,
}

/// Notices when it is dropped before its end.
struct Watched(Arc<AtomicUsize>);

impl Drop for Watched {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

async fn sleeper(job: Job<u64>, stage: Stage) -> JobResult<u64> {
    stage.begun.fetch_add(1, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(job.input)).await;
    Ok(u64::from(job.attempt()))
}

/// Contract 1.7: heartbeats at a third of the lease, also for jobs that wait in the buffer.
#[tokio::test(flavor = "multi_thread")]
async fn neither_a_long_job_nor_a_buffered_one_is_given_away() {
    on_each_store(async |jobs| {
        let long = jobs.submit(LONG, &2_600).await.expect("submitted");
        let buffered = jobs.submit(LONG, &0).await.expect("submitted");
        let stage = Stage::default();
        let worker = Worker::new(&jobs, stage.clone())
            .task(LONG, sleeper)
            .concurrency(1)
            .prefetch(1)
            .lease(secs(1));
        let ended = until_ended(&jobs, &[long.id(), buffered.id()]);
        let thief = async {
            eventually("both jobs to be leased", async || {
                job(&jobs, buffered.id()).await.state == State::Running
            })
            .await;
            let mut given = 0;
            while job(&jobs, long.id()).await.state == State::Running {
                given += usize::from(claim_one(&jobs, secs(5)).await.is_some());
                tokio::time::sleep(millis(50)).await;
            }
            given
        };
        let (report, given) = tokio::join!(worker.run_until(ended), thief);
        assert_eq!(report.expect("it worked").completed, 2);
        assert_eq!(given, 0, "another worker was given a job that is being worked on");
        for id in [long.id(), buffered.id()] {
            let done = job(&jobs, id).await;
            assert_eq!((done.deliveries, done.attempt), (0, 1));
        }
        assert_eq!(stage.begun.load(Ordering::SeqCst), 2);
    })
    .await;
}

async fn careful(_: Job<u64>, stage: Stage) -> JobResult<u64> {
    let watched = Watched(stage.dropped.clone());
    stage.begun.fetch_add(1, Ordering::SeqCst);
    stage.go_on.notified().await;
    std::mem::forget(watched);
    Ok(0)
}

/// Contract 4.5 and 6.2: the fence was raised behind the worker's back, by a cancel and a retry. Its heartbeat is
/// refused, and the handler's future is dropped at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_lease_drops_the_handler_at_once() {
    on_each_store(async |jobs| {
        let sent = jobs.submit(LONG, &0).await.expect("submitted");
        let stage = Stage::default();
        let worker = Worker::new(&jobs, stage.clone())
            .task(LONG, careful)
            .lease(secs(1))
            .grace(secs(60))
            // No room for a second job: it would be given the same one again.
            .concurrency(1)
            .prefetch(0);
        let robbed = async {
            eventually("the handler to begin", async || {
                stage.begun.load(Ordering::SeqCst) == 1
            })
            .await;
            take_away(&jobs, sent.id()).await;
            eventually("the handler to be dropped", async || {
                stage.dropped.load(Ordering::SeqCst) == 1
            })
            .await;
        };
        let report = worker.run_until(robbed).await.expect("it worked");
        assert_eq!((report.lost, report.refused_writes, report.completed), (1, 1, 0));
        assert_eq!(
            stale_writes(&jobs).await,
            1,
            "one heartbeat was refused, and nothing after it was sent"
        );
        assert_eq!(
            job(&jobs, sent.id()).await.state,
            State::Running,
            "with somebody else"
        );
    })
    .await;
}

/// Gives a running job to somebody else.
async fn take_away(jobs: &Client, id: &semel::JobId) {
    let acts = vec![Act::Cancel { id: id.clone() }, Act::Retry { id: id.clone() }];
    // Asked together, so that the worker who is robbed cannot be the first to claim it again.
    let (acted, claimed) = tokio::join!(jobs.store().act(acts), claim_one(jobs, secs(60)));
    acted.expect("an answer");
    assert_eq!(&claimed.expect("it is free").job.id, id);
}

async fn stale_writes(jobs: &Client) -> i64 {
    let stats = jobs.store().stats().await.expect("an answer");
    stats.raw.get(Counter::StaleWrites)
}

async fn obedient(job: Job<u64>, stage: Stage) -> JobResult<u64> {
    stage.begun.fetch_add(1, Ordering::SeqCst);
    job.cancelled().await;
    stage.told.store(job.is_cancelled(), Ordering::SeqCst);
    tokio::time::sleep(millis(20)).await;
    stage.go_on.notify_one();
    Ok(7)
}

/// Contract 4.5, 6.2: the job is cancelled at once; the handler is told, may tidy up, and settles nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_handler_is_told_and_may_tidy_up() {
    on_each_store(async |jobs| {
        let sent = jobs.submit(LONG, &0).await.expect("submitted");
        let stage = Stage::default();
        let worker = Worker::new(&jobs, stage.clone()).task(LONG, obedient);
        let cancelled = async {
            eventually("the handler to begin", async || {
                stage.begun.load(Ordering::SeqCst) == 1
            })
            .await;
            jobs.job(sent.id().as_str())
                .expect("an id")
                .cancel()
                .await
                .expect("cancelled");
            // The lease is 30 s: the word has to come sooner than by a heartbeat.
            let told = tokio::time::timeout(secs(5), stage.go_on.notified());
            told.await.expect("the handler was told within 5 s");
        };
        let report = worker.run_until(cancelled).await.expect("it worked");
        assert!(stage.told.load(Ordering::SeqCst));
        assert_eq!(
            (report.cancelled, report.completed, report.refused_writes),
            (1, 0, 0)
        );
        assert_eq!(job(&jobs, sent.id()).await.state, State::Cancelled);
        assert_eq!(
            stale_writes(&jobs).await,
            0,
            "there is nothing to write about a cancelled job"
        );
    })
    .await;
}

/// A job that is cancelled while it waits in the buffer is not begun.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_cancelled_in_the_buffer_is_not_run() {
    on_each_store(async |jobs| {
        let running = jobs.submit(LONG, &0).await.expect("submitted");
        let buffered = jobs.submit(LONG, &0).await.expect("submitted");
        let stage = Stage::default();
        let worker = Worker::new(&jobs, stage.clone())
            .task(LONG, careful)
            .concurrency(1)
            .prefetch(1);
        let cancelled = async {
            eventually("both jobs to be leased", async || {
                job(&jobs, buffered.id()).await.state == State::Running
            })
            .await;
            jobs.job(buffered.id().as_str())
                .expect("an id")
                .cancel()
                .await
                .expect("cancelled");
            tokio::time::sleep(millis(2_500)).await;
            stage.go_on.notify_one();
            until_ended(&jobs, &[running.id()]).await;
        };
        let report = worker.run_until(cancelled).await.expect("it worked");
        assert_eq!(stage.begun.load(Ordering::SeqCst), 1);
        assert_eq!(
            (report.completed, report.cancelled, report.refused_writes),
            (1, 1, 0)
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_does_not_listen_is_dropped_after_the_grace() {
    on_each_store(async |jobs| {
        let sent = jobs.submit(LONG, &0).await.expect("submitted");
        let stage = Stage::default();
        let worker = Worker::new(&jobs, stage.clone())
            .task(LONG, careful)
            .grace(millis(50));
        let cancelled = async {
            eventually("the handler to begin", async || {
                stage.begun.load(Ordering::SeqCst) == 1
            })
            .await;
            jobs.job(sent.id().as_str())
                .expect("an id")
                .cancel()
                .await
                .expect("cancelled");
            eventually("the handler to be dropped", async || {
                stage.dropped.load(Ordering::SeqCst) == 1
            })
            .await;
        };
        worker.run_until(cancelled).await.expect("it worked");
        assert_eq!(job(&jobs, sent.id()).await.state, State::Cancelled);
    })
    .await;
}

/// Contract 1.1, 1.7: a worker that disappears costs a delivery and no attempt, and the job is run by another.
#[tokio::test(flavor = "multi_thread")]
async fn the_job_of_a_dead_worker_is_run_by_another() {
    on_each_store(async |jobs| {
        let sent = jobs.submit(LONG, &0).await.expect("submitted");
        let stage = Stage::default();
        let dead = Worker::new(&jobs, stage.clone())
            .task(LONG, careful)
            .lease(secs(1));
        let begun = eventually("the handler to begin", async || {
            stage.begun.load(Ordering::SeqCst) == 1
        });
        // Dropping the worker's future is as abrupt as a crash: nothing is handed back.
        tokio::select! {
            _ = dead.run_until(std::future::pending()) => unreachable!("nobody stops it"),
            () = begun => {}
        }
        let worker = Worker::new(&jobs, stage.clone()).task(LONG, sleeper);
        worker
            .run_until(until_ended(&jobs, &[sent.id()]))
            .await
            .expect("it worked");
        let done = job(&jobs, sent.id()).await;
        assert_eq!(
            (done.state, done.deliveries, done.attempt),
            (State::Complete, 1, 1)
        );
        assert_eq!(done.output.expect("an output").as_str(), "1");
        assert_eq!(attempts(&jobs, sent.id()).await.len(), 2);
    })
    .await;
}

/// Contract 1.7: reaching `max_deliveries` makes a dead letter.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_kills_its_workers_becomes_a_dead_letter() {
    on_each_store(async |jobs| {
        let sent = jobs.submit(LONG, &0).max_deliveries(2).await.expect("submitted");
        for _ in 0..2 {
            let claimed = eventually_claimed(&jobs).await;
            assert_eq!(&claimed, sent.id());
        }
        let worker = Worker::new(&jobs, Stage::default()).task(LONG, sleeper);
        worker
            .run_until(until_ended(&jobs, &[sent.id()]))
            .await
            .expect("it worked");
        let ended = job(&jobs, sent.id()).await;
        assert_eq!((ended.state, ended.deliveries), (State::Failed, 2));
        assert_eq!(
            ended.error.map(|error| error.message),
            Some("the lease expired 2 times".to_owned())
        );
    })
    .await;
}

async fn eventually_claimed(jobs: &Client) -> semel::JobId {
    for _ in 0..200 {
        if let Some(claimed) = claim_one(jobs, secs(1)).await {
            return claimed.job.id;
        }
        tokio::time::sleep(millis(20)).await;
    }
    panic!("the lease did not expire");
}
