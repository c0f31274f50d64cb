//! Housekeeping (contract 1.1, 1.7, 7.2): also when nobody calls, and safe to run everywhere at once.

mod worker_stage;

use semel::semel_core::time::Millis;
use semel::{Client, Job, JobResult, Retention, State, Task, Worker, days, mins, secs, upkeep};

use crate::worker_stage::{claim_one, eventually, job, on_each_store_with_clock, pass, until_ended};

const NOTHING: Task<u64> = Task::new("nothing");

async fn nothing(_: Job<u64>, _: ()) -> JobResult {
    Ok(())
}

async fn round(jobs: &Client) -> semel::semel_core::store::UpkeepReport {
    upkeep::run_once(jobs, Retention::default())
        .await
        .expect("an answer")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_lease_is_found_when_nobody_asks_for_work() {
    on_each_store_with_clock(async |jobs, clock| {
        let sent = jobs.submit(NOTHING, &1).await.expect("submitted");
        claim_one(&jobs, secs(30)).await.expect("a job");
        pass(&clock, secs(31));
        assert_eq!(round(&jobs).await.expired, 1);
        let rescued = job(&jobs, sent.id()).await;
        assert_eq!(
            (rescued.state, rescued.deliveries, rescued.attempt),
            (State::Queued, 1, 0)
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_kept_for_their_retention_and_no_longer() {
    on_each_store_with_clock(async |jobs, clock| {
        let sent = jobs.submit(NOTHING, &1).await.expect("submitted");
        let worker = || Worker::new(&jobs, ()).task(NOTHING, nothing).without_upkeep();
        worker()
            .run_until(until_ended(&jobs, &[sent.id()]))
            .await
            .expect("it worked");
        pass(&clock, days(7) - secs(1));
        assert_eq!(round(&jobs).await.pruned, 0);
        pass(&clock, secs(2));
        assert_eq!(round(&jobs).await.pruned, 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn counters_are_photographed_every_minute() {
    on_each_store_with_clock(async |jobs, clock| {
        for _ in 0..3 {
            pass(&clock, mins(1));
            assert!(round(&jobs).await.snapshot);
            assert!(!round(&jobs).await.snapshot, "one a minute is enough");
        }
        let history = jobs.store().history(Millis::from_secs(3_600)).await;
        assert_eq!(history.expect("an answer").len(), 3);
    })
    .await;
}

/// A worker does it by itself, with the retention it was given.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_keeps_house() {
    on_each_store_with_clock(async |jobs, clock| {
        let sent = jobs.submit(NOTHING, &1).await.expect("submitted");
        let worker = || Worker::new(&jobs, ()).task(NOTHING, nothing);
        let quietly = worker().without_upkeep();
        quietly
            .run_until(until_ended(&jobs, &[sent.id()]))
            .await
            .expect("it worked");
        pass(&clock, days(2));
        let retention = Retention {
            complete: Millis::from_days(1),
            ..Retention::default()
        };
        let gone = eventually("the job to be pruned", async || {
            let found = jobs.store().jobs_by_id(std::slice::from_ref(sent.id())).await;
            found.expect("an answer")[0].is_none()
        });
        worker()
            .retention(retention)
            .run_until(gone)
            .await
            .expect("it worked");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_do_it_at_once_and_each_thing_is_done_once() {
    on_each_store_with_clock(async |jobs, clock| {
        for n in 0..50 {
            jobs.submit(NOTHING, &n).await.expect("submitted");
            claim_one(&jobs, secs(30)).await.expect("a job");
        }
        pass(&clock, mins(1));
        let rounds: Vec<_> = (0..12)
            .map(|_| {
                let jobs = jobs.clone();
                tokio::spawn(async move { round(&jobs).await })
            })
            .collect();
        let (mut expired, mut snapshots) = (0, 0);
        for round in rounds {
            let report = round.await.expect("it ran");
            expired += report.expired;
            snapshots += u32::from(report.snapshot);
        }
        assert_eq!((expired, snapshots), (50, 1));
    })
    .await;
}
