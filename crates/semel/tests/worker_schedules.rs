//! Schedules (contract 6.7): each tick once, judged against the tick before, the latest only.

mod worker_stage;

use std::sync::Arc;

use semel::schedule::{self, Overlap, Schedule, TickOutcome};
use semel::semel_core::lifecycle::Settle;
use semel::semel_core::store::{JobFilter, Page, SettingChange, Settlement};
use semel::semel_core::time::Timestamp;
use semel::{Client, Retention, State, Target, Task, millis, mins, secs, upkeep};

use crate::worker_stage::{claim_one, eventually, job, on_each_store, on_each_store_with_clock, pass};

const REPORT: Task<u32> = Task::new("report");

/// Every ten minutes; the stage's clock starts at 08:00.
fn every_ten(overlap: Overlap) -> Schedule {
    let schedule = Schedule::new("every ten", "*/10 * * * *", REPORT, &7).expect("a schedule");
    schedule.overlap(overlap)
}

/// One round of upkeep; the jobs there are by then, oldest first.
async fn round(jobs: &Client) -> Vec<semel::view::Job> {
    upkeep::run_once(jobs, Retention::default())
        .await
        .expect("an answer");
    all(jobs).await
}

async fn all(jobs: &Client) -> Vec<semel::view::Job> {
    let listing = jobs.store().jobs(JobFilter::default(), Page::first(100)).await;
    let mut items = listing.expect("an answer").items;
    items.reverse();
    items
}

async fn finish_one(jobs: &Client) {
    let claimed = claim_one(jobs, secs(60)).await.expect("a job");
    let settlement = Settlement {
        id: claimed.job.id,
        fence: claimed.fence,
        result: Settle::Complete { output: None },
    };
    jobs.store().settle(vec![settlement]).await.expect("an answer");
}

async fn look(jobs: &Client) -> schedule::ScheduleView {
    let found = schedule::get(jobs, "every ten").await.expect("an answer");
    found.expect("it is there")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tick_is_submitted_when_it_is_due_and_only_once() {
    on_each_store_with_clock(async |jobs, clock| {
        schedule::put(&jobs, &every_ten(Overlap::Queue))
            .await
            .expect("put");
        assert_eq!(
            round(&jobs).await.len(),
            0,
            "08:00 is past: the schedule was made then"
        );
        let before_due = pass(&clock, mins(10) - millis(1));
        assert_eq!(round(&jobs).await.len(), 0, "a millisecond early");
        let due = pass(&clock, millis(1));
        assert_eq!(due.since(before_due).as_millis(), 1);
        for _ in 0..3 {
            assert_eq!(round(&jobs).await.len(), 1);
        }
        let tick = &all(&jobs).await[0];
        assert_eq!((tick.task.as_str(), tick.input.as_str()), ("report", "7"));
        assert_eq!(tick.headers["semel-due"], "2027-01-18T08:10:00Z");
        let last = look(&jobs).await.last.expect("a tick");
        assert_eq!(
            (last.due, last.outcome, last.job),
            (due, TickOutcome::Submitted, Some(tick.id.clone()))
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_missed_ticks_only_the_latest_is_made_up_for() {
    on_each_store_with_clock(async |jobs, clock| {
        schedule::put(&jobs, &every_ten(Overlap::Queue))
            .await
            .expect("put");
        pass(&clock, mins(65));
        let found = round(&jobs).await;
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].headers["semel-due"], "2027-01-18T09:00:00Z");
        pass(&clock, mins(5));
        assert_eq!(round(&jobs).await.len(), 2, "09:10 comes as if nothing had been");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn skip_records_a_tick_while_the_job_before_is_not_done() {
    on_each_store_with_clock(async |jobs, clock| {
        schedule::put(&jobs, &every_ten(Overlap::Skip))
            .await
            .expect("put");
        pass(&clock, mins(10));
        let first = round(&jobs).await.remove(0);
        for skipped in 1..=2 {
            pass(&clock, mins(10));
            assert_eq!(round(&jobs).await.len(), 1);
            let view = look(&jobs).await;
            let last = view.last.expect("a tick");
            assert_eq!(
                (last.outcome, last.job),
                (TickOutcome::Skipped, Some(first.id.clone()))
            );
            assert_eq!(view.skipped, skipped);
        }
        finish_one(&jobs).await;
        pass(&clock, mins(10));
        assert_eq!(round(&jobs).await.len(), 2, "the job before is done");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_submits_beside_the_job_before() {
    on_each_store_with_clock(async |jobs, clock| {
        schedule::put(&jobs, &every_ten(Overlap::Queue))
            .await
            .expect("put");
        for ticks in 1..=3 {
            pass(&clock, mins(10));
            assert_eq!(round(&jobs).await.len(), ticks);
        }
        assert!(all(&jobs).await.iter().all(|job| job.state == State::Queued));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replace_cancels_the_job_before_and_submits() {
    on_each_store_with_clock(async |jobs, clock| {
        schedule::put(&jobs, &every_ten(Overlap::Replace))
            .await
            .expect("put");
        pass(&clock, mins(10));
        let first = round(&jobs).await.remove(0);
        claim_one(&jobs, secs(3_600)).await.expect("it runs");
        pass(&clock, mins(10));
        let found = round(&jobs).await;
        assert_eq!(found.len(), 2);
        assert_eq!(job(&jobs, &first.id).await.state, State::Cancelled);
        assert_eq!(found[1].state, State::Queued);
        assert_eq!(
            look(&jobs).await.last.expect("a tick").outcome,
            TickOutcome::Replaced
        );
    })
    .await;
}

/// However many schedulers: here sixteen at once, tick after tick.
#[tokio::test(flavor = "multi_thread")]
async fn many_schedulers_submit_each_tick_once() {
    on_each_store_with_clock(async |jobs, clock| {
        schedule::put(&jobs, &every_ten(Overlap::Queue))
            .await
            .expect("put");
        for ticks in 1..=10 {
            pass(&clock, mins(10));
            let schedulers: Vec<_> = (0..16)
                .map(|_| {
                    let jobs = jobs.clone();
                    tokio::spawn(async move { upkeep::run_once(&jobs, Retention::default()).await })
                })
                .collect();
            for scheduler in schedulers {
                scheduler.await.expect("it ran").expect("an answer");
            }
            assert_eq!(all(&jobs).await.len(), ticks);
        }
    })
    .await;
}

/// While the intake is closed a tick stays pending; it is made up for when the intake opens, unless a newer is due.
#[tokio::test(flavor = "multi_thread")]
async fn a_tick_waits_while_the_intake_is_closed() {
    on_each_store_with_clock(async |jobs, clock| {
        schedule::put(&jobs, &every_ten(Overlap::Queue))
            .await
            .expect("put");
        let target = Target::Task(semel::Name::new("report").expect("a name"));
        let intake = |open| jobs.store().set(target.clone(), SettingChange::Intake { open });
        intake(false).await.expect("closed");
        for _ in 0..2 {
            pass(&clock, mins(10));
            assert_eq!(round(&jobs).await.len(), 0);
        }
        intake(true).await.expect("opened");
        let found = round(&jobs).await;
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].headers["semel-due"], "2027-01-18T08:20:00Z");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_pattern_does_not_look_back_and_a_changed_input_does_not_tick_again() {
    on_each_store_with_clock(async |jobs, clock| {
        schedule::put(&jobs, &every_ten(Overlap::Queue))
            .await
            .expect("put");
        pass(&clock, mins(12));
        assert_eq!(round(&jobs).await.len(), 1);
        let mut changed = every_ten(Overlap::Queue);
        changed.input = semel::semel_core::json::Json::new("8").expect("JSON");
        schedule::put(&jobs, &changed).await.expect("put");
        assert_eq!(round(&jobs).await.len(), 1, "the tick of 08:10 is done");
        changed.cron = "11 * * * *".to_owned();
        let view = schedule::put(&jobs, &changed).await.expect("put");
        assert_eq!(
            view.next,
            Some(Timestamp::from_millis(1_800_263_460_000)),
            "09:11"
        );
        assert_eq!(round(&jobs).await.len(), 1, "08:11 is past");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn schedules_are_listed_and_deleted() {
    on_each_store_with_clock(async |jobs, clock| {
        schedule::put(&jobs, &every_ten(Overlap::Queue))
            .await
            .expect("put");
        let other = Schedule::new("a weekly one", "@weekly", REPORT, &1).expect("a schedule");
        schedule::put(&jobs, &other.zone("Asia/Tokyo"))
            .await
            .expect("put");
        let names = |views: &[schedule::ScheduleView]| -> Vec<String> {
            views.iter().map(|view| view.schedule.name.to_string()).collect()
        };
        let listed = schedule::list(&jobs).await.expect("an answer");
        assert_eq!(names(&listed), ["a weekly one", "every ten"]);
        assert!(schedule::delete(&jobs, "every ten").await.expect("an answer"));
        assert!(!schedule::delete(&jobs, "every ten").await.expect("an answer"));
        pass(&clock, mins(30));
        assert_eq!(round(&jobs).await.len(), 0);
    })
    .await;
}

#[tokio::test]
async fn a_schedule_that_never_ticks_or_makes_no_sense_is_refused_with_a_hint() {
    let jobs = semel::connect("memory:").await.expect("a store");
    let schedule = |cron: &str| Schedule::new("odd", cron, REPORT, &7).expect("a schedule");
    let mut urgent = schedule("@daily");
    urgent.priority = Some(101);
    for (schedule, word) in [
        (schedule("0 0 30 2 *"), "30th of February"),
        (schedule("* * *"), "five fields"),
        (schedule("@daily").zone("Mars/Olympus"), "Europe/Berlin"),
        (urgent, "-100 to 100"),
    ] {
        let refused = schedule::put(&jobs, &schedule)
            .await
            .expect_err("refused")
            .to_string();
        assert!(refused.contains(word), "{refused}");
    }
    assert_eq!(schedule::list(&jobs).await.expect("an answer"), []);
}

/// A worker carries schedules out by itself, in the store's time.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_carries_out_schedules() {
    async fn count(_: semel::Job<u32>, seen: Arc<std::sync::atomic::AtomicUsize>) -> semel::JobResult {
        seen.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        Ok(())
    }
    on_each_store(async |jobs| {
        let every_second = Schedule::new("every second", "* * * * * *", REPORT, &7).expect("a schedule");
        schedule::put(&jobs, &every_second).await.expect("put");
        let seen = Arc::default();
        let worker = semel::Worker::new(&jobs, Arc::clone(&seen)).task(REPORT, count);
        let ticked = eventually("two ticks", async || {
            seen.load(std::sync::atomic::Ordering::SeqCst) >= 2
        });
        worker.run_until(ticked).await.expect("it worked");
        let last = schedule::get(&jobs, "every second").await.expect("an answer");
        assert_eq!(
            last.and_then(|view| view.last).map(|tick| tick.outcome),
            Some(TickOutcome::Submitted)
        );
    })
    .await;
}
