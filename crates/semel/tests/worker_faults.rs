//! A store that fails: replies are lost, calls are refused, schedulers die between two lines (contract 3.5, 6.7).

mod worker_stage;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use semel::schedule::{self, Overlap, Schedule};
use semel::semel_core::error::StoreError;
use semel::semel_core::store::{JobFilter, Page, SettingChange};
use semel::testing::{Call, Intercept, InterceptedStore};
use semel::{Client, Job, JobResult, Retention, State, Target, Task, Worker, millis, mins, secs, upkeep};

use crate::worker_stage::{eventually, job, on_each_store, on_each_store_with_clock, pass, until_ended};

const COUNT: Task<u64, u64> = Task::new("count");

fn out_of_reach() -> StoreError {
    StoreError::unavailable("being tested")
}

/// A client whose writes somebody stands in front of.
fn intercepted(jobs: &Client, intercept: Arc<dyn Intercept>) -> Client {
    Client::from_store(Arc::new(InterceptedStore::new(jobs.store().clone(), intercept)))
}

/// Loses every fourth reply and refuses every seventh call, of those that are made for jobs.
#[derive(Default)]
struct Lossy {
    calls: AtomicUsize,
    lost: AtomicUsize,
}

#[async_trait]
impl Intercept for Lossy {
    async fn before(&self, call: &Call) -> Result<(), StoreError> {
        let n = self.calls.fetch_add(1, Ordering::SeqCst);
        match *call != Call::Document && n % 7 == 6 {
            true => Err(out_of_reach()),
            false => Ok(()),
        }
    }

    async fn after(&self, call: &Call) -> Result<(), StoreError> {
        let n = self.calls.load(Ordering::SeqCst);
        if *call != Call::Document && n.is_multiple_of(4) {
            self.lost.fetch_add(1, Ordering::SeqCst);
            return Err(out_of_reach());
        }
        Ok(())
    }
}

/// A repeated claim is the same claim and a repeated settlement the same settlement: no job is run twice, none is
/// left behind, no delivery is spent.
#[tokio::test(flavor = "multi_thread")]
async fn lost_replies_neither_repeat_nor_lose_a_job() {
    async fn count(job: Job<u64>, runs: Arc<AtomicUsize>) -> JobResult<u64> {
        runs.fetch_add(1, Ordering::SeqCst);
        job.log("ran");
        job.step("once")
            .park(async || Ok::<_, semel::JobError>(job.input))
            .await
    }
    on_each_store(async |jobs| {
        let mut ids = Vec::new();
        for n in 0..24 {
            ids.push(jobs.submit(COUNT, &n).await.expect("submitted").id().clone());
        }
        let lossy = Arc::new(Lossy::default());
        let runs = Arc::default();
        let client = intercepted(&jobs, lossy.clone());
        let worker = Worker::new(&client, Arc::clone(&runs))
            .task(COUNT, count)
            .concurrency(8);
        let report = worker
            .run_until(until_ended(&jobs, &ids.iter().collect::<Vec<_>>()))
            .await;
        assert_eq!(report.expect("it worked").refused_writes, 0);
        assert_eq!(runs.load(Ordering::SeqCst), 24);
        assert!(lossy.lost.load(Ordering::SeqCst) > 10, "enough replies were lost");
        for id in &ids {
            let done = job(&jobs, id).await;
            assert_eq!(
                (done.state, done.attempt, done.deliveries),
                (State::Complete, 1, 0)
            );
        }
    })
    .await;
}

/// Out of reach while the switch is off.
#[derive(Default)]
struct Switch {
    is_off: AtomicBool,
}

#[async_trait]
impl Intercept for Switch {
    async fn before(&self, _: &Call) -> Result<(), StoreError> {
        match self.is_off.load(Ordering::SeqCst) {
            true => Err(out_of_reach()),
            false => Ok(()),
        }
    }

    async fn after(&self, _: &Call) -> Result<(), StoreError> {
        Ok(())
    }
}

#[derive(Clone, Default)]
struct Stage {
    begun: Arc<AtomicUsize>,
    ended: Arc<AtomicUsize>,
    dropped: Arc<AtomicUsize>,
}

struct Watched(Stage);

impl Drop for Watched {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

async fn slow(job: Job<u64>, stage: Stage) -> JobResult<u64> {
    let watched = Watched(stage.clone());
    let run = stage.begun.fetch_add(1, Ordering::SeqCst);
    let rest = if run == 0 { job.input } else { 0 };
    tokio::time::sleep(Duration::from_millis(rest)).await;
    stage.ended.fetch_add(1, Ordering::SeqCst);
    std::mem::forget(watched);
    Ok(0)
}

/// Contract 1.5: the newest fence may write for as long as nobody else was given the job, also after its lease.
#[tokio::test(flavor = "multi_thread")]
async fn a_result_is_kept_until_the_store_can_be_reached() {
    on_each_store(async |jobs| {
        let sent = jobs.submit(COUNT, &100).await.expect("submitted");
        let (switch, stage) = (Arc::new(Switch::default()), Stage::default());
        let client = intercepted(&jobs, switch.clone());
        let worker = Worker::new(&client, stage.clone())
            .task(COUNT, slow)
            .lease(secs(1));
        let outage = async {
            eventually("the handler to begin", async || {
                stage.begun.load(Ordering::SeqCst) == 1
            })
            .await;
            switch.is_off.store(true, Ordering::SeqCst);
            eventually("the handler to end", async || {
                stage.ended.load(Ordering::SeqCst) == 1
            })
            .await;
            // Longer than the lease; the pause keeps everybody from being given the job meanwhile.
            let pause = SettingChange::Pause {
                lasting: None,
                reason: None,
            };
            jobs.store().set(Target::All, pause).await.expect("paused");
            tokio::time::sleep(millis(1_500)).await;
            assert_ne!(job(&jobs, sent.id()).await.state, State::Complete);
            switch.is_off.store(false, Ordering::SeqCst);
            until_ended(&jobs, &[sent.id()]).await;
        };
        assert_eq!(worker.run_until(outage).await.expect("it worked").completed, 1);
        assert_eq!(stage.begun.load(Ordering::SeqCst), 1);
    })
    .await;
}

/// A lease that ran out while the store could not be asked may be somebody else's: the handler is dropped, and the
/// job is run again when the store is back.
#[tokio::test(flavor = "multi_thread")]
async fn a_handler_does_not_outlive_a_lease_that_could_not_be_extended() {
    on_each_store(async |jobs| {
        let sent = jobs.submit(COUNT, &60_000).await.expect("submitted");
        let (switch, stage) = (Arc::new(Switch::default()), Stage::default());
        let client = intercepted(&jobs, switch.clone());
        let worker = Worker::new(&client, stage.clone())
            .task(COUNT, slow)
            .lease(secs(1));
        let outage = async {
            eventually("the handler to begin", async || {
                stage.begun.load(Ordering::SeqCst) == 1
            })
            .await;
            switch.is_off.store(true, Ordering::SeqCst);
            let dropped = eventually("the handler to be dropped", async || {
                stage.dropped.load(Ordering::SeqCst) == 1
            });
            tokio::time::timeout(secs(20), dropped)
                .await
                .expect("soon after the lease ran out");
            switch.is_off.store(false, Ordering::SeqCst);
            until_ended(&jobs, &[sent.id()]).await;
        };
        let report = worker.run_until(outage).await.expect("it worked");
        assert_eq!((report.lost, report.completed), (1, 1));
        let done = job(&jobs, sent.id()).await;
        assert_eq!((done.attempt, done.deliveries), (1, 1));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_stops_also_when_the_store_is_out_of_reach() {
    on_each_store(async |jobs| {
        jobs.submit(COUNT, &60_000).await.expect("submitted");
        let (switch, stage) = (Arc::new(Switch::default()), Stage::default());
        let client = intercepted(&jobs, switch.clone());
        let worker = Worker::new(&client, stage.clone())
            .task(COUNT, slow)
            .grace(millis(10));
        let outage = async {
            eventually("the handler to begin", async || {
                stage.begun.load(Ordering::SeqCst) == 1
            })
            .await;
            switch.is_off.store(true, Ordering::SeqCst);
        };
        let stopped = tokio::time::timeout(secs(40), worker.run_until(outage)).await;
        let report = stopped.expect("it stops").expect("it worked");
        assert_eq!((report.handed_back, stage.dropped.load(Ordering::SeqCst)), (0, 1));
    })
    .await;
}

/// Dies at the n-th moment, before or after a write, and makes no call after it.
struct Dying {
    at: usize,
    moments: AtomicUsize,
}

impl Dying {
    fn moment(&self) -> Result<(), StoreError> {
        match self.moments.fetch_add(1, Ordering::SeqCst) >= self.at {
            true => Err(out_of_reach()),
            false => Ok(()),
        }
    }
}

#[async_trait]
impl Intercept for Dying {
    async fn before(&self, _: &Call) -> Result<(), StoreError> {
        self.moment()
    }

    async fn after(&self, _: &Call) -> Result<(), StoreError> {
        self.moment()
    }
}

/// Contract 6.7: whichever line of a scheduler is its last, the next one completes the tick, once.
#[tokio::test(flavor = "multi_thread")]
async fn a_tick_is_submitted_once_wherever_its_scheduler_dies() {
    for overlap in [Overlap::Skip, Overlap::Queue, Overlap::Replace] {
        let mut moments = 0;
        loop {
            let died = AtomicBool::new(false);
            on_each_store_with_clock(async |jobs, clock| {
                let schedule = Schedule::new("tick", "*/10 * * * *", COUNT, &1).expect("a schedule");
                schedule::put(&jobs, &schedule.overlap(overlap))
                    .await
                    .expect("put");
                pass(&clock, mins(10));
                upkeep::run_once(&jobs, Retention::default())
                    .await
                    .expect("the first tick");
                pass(&clock, mins(10));
                let dying = Arc::new(Dying {
                    at: moments,
                    moments: AtomicUsize::new(0),
                });
                // Reports of a tick that could not be carried out are logged, not given: the counter tells.
                let _ = upkeep::run_once(&intercepted(&jobs, dying.clone()), Retention::default()).await;
                let reached = dying.moments.load(Ordering::SeqCst) > moments;
                died.fetch_or(reached, Ordering::SeqCst);
                for _ in 0..2 {
                    upkeep::run_once(&jobs, Retention::default())
                        .await
                        .expect("a healthy one");
                }
                check_ticks(&jobs, overlap, moments).await;
            })
            .await;
            if !died.into_inner() {
                break;
            }
            moments += 1;
        }
        let least = if overlap == Overlap::Skip { 4 } else { 8 };
        assert!(moments >= least, "{overlap:?}: only {moments} moments to die at");
    }
}

async fn check_ticks(jobs: &Client, overlap: Overlap, moment: usize) {
    let listing = jobs.store().jobs(JobFilter::default(), Page::first(100)).await;
    let mut states: Vec<State> = listing
        .expect("an answer")
        .items
        .iter()
        .map(|job| job.state)
        .collect();
    states.reverse();
    let view = schedule::get(jobs, "tick")
        .await
        .expect("an answer")
        .expect("it is there");
    let expected = match overlap {
        Overlap::Skip => vec![State::Queued],
        Overlap::Queue => vec![State::Queued, State::Queued],
        Overlap::Replace => vec![State::Cancelled, State::Queued],
    };
    assert_eq!(states, expected, "{overlap:?}, dead at moment {moment}: {view:?}");
    assert_eq!(
        view.skipped,
        u64::from(overlap == Overlap::Skip),
        "{overlap:?}, {moment}"
    );
    assert_eq!(view.last.expect("a tick").due.to_string(), "2027-01-18T08:20:00Z");
}
