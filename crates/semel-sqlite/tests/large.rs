//! Two hundred thousand jobs: what one paused lane costs the others, how soon lists answer, how long a step of
//! housekeeping holds everybody up.

mod stage;

use std::sync::Arc;
use std::time::Duration;

use semel_conformance::kit;
use semel_core::dedup::Dedup;
use semel_core::error::StoreError;
use semel_core::ids::JobId;
use semel_core::job::State;
use semel_core::lifecycle::Settle;
use semel_core::store::{
    Control as _, Inspect as _, JobFilter, KeyFilter, LedgerFilter, Page, Retention, SettingChange,
    Settlement, Store as _, Target, UpkeepReport, UpkeepRequest,
};
use semel_core::submission::Submission;
use semel_core::time::Millis;
use semel_core::view::Listing;
use semel_sqlite::{Options, SqliteStore, Synchronous};

use stage::{claim_of, into_queue, median, now};

const PAUSED: usize = 150_000;
const ENDED: usize = 30_000;
const KEYED: usize = 15_000;
const BUSY: usize = 5_000;

/// The first page of any list, in a build that is hardly optimised.
const PAGE: Duration = Duration::from_millis(150);
/// One step of housekeeping.
const STEP: Duration = Duration::from_millis(250);

/// The parts build on each other, so that the store is filled only once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_thousand_jobs_are_no_burden() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("jobs.db");
    let options = Options {
        synchronous: Synchronous::Off,
        ..Options::new(path)
    };
    let store = Arc::new(SqliteStore::open(options).unwrap());
    let began = now();
    fill_and_end(&store).await;
    fill(&store, KEYED, keyed).await;
    fill(&store, BUSY, |n| into_queue("busy", &format!(r#"{{"n":{n}}}"#))).await;
    let alone = claim_time(&store).await;
    pause(&store, "paused").await;
    fill(&store, PAUSED, |n| {
        into_queue("paused", &format!(r#"{{"n":{n}}}"#))
    })
    .await;
    eprintln!("filled in {:?}", began.elapsed());
    a_paused_lane_costs_the_others_nothing(&store, alone).await;
    first_pages_come_quickly(&store).await;
    work_goes_on_beside_the_doctor(&store).await;
    ended_jobs_are_pruned_in_small_steps(&store).await;
    a_small_queue_behind_many_others_is_swept_quickly(&store).await;
    a_removed_queue_is_swept_in_small_steps(&store).await;
    eprintln!("in all {:?}", began.elapsed());
}

async fn fill(store: &SqliteStore, count: usize, make: impl Fn(usize) -> Submission) {
    for first in (0..count).step_by(1_000) {
        let batch: Vec<Submission> = (first..count.min(first + 1_000)).map(&make).collect();
        store.submit(batch).await.expect("the store takes a batch");
    }
}

fn keyed(n: usize) -> Submission {
    Submission {
        queue: kit::name("keyed"),
        ..kit::with(Dedup::explicit(format!("order-{n}")))
    }
}

/// Jobs that ended: one in ten failed.
async fn fill_and_end(store: &SqliteStore) {
    fill(store, ENDED, |n| into_queue("ended", &format!(r#"{{"n":{n}}}"#))).await;
    loop {
        let claims = store
            .claim(claim_of(&["ended"], 1_000))
            .await
            .expect("the store hands out work");
        if claims.is_empty() {
            return;
        }
        let settle = |(n, claimed): (usize, semel_core::store::Claimed)| Settlement {
            id: claimed.job.id,
            fence: claimed.fence,
            result: match n % 10 {
                0 => Settle::Fail {
                    error: format!("no room in warehouse {}", n % 7),
                },
                _ => Settle::Complete { output: None },
            },
        };
        let batch = claims.into_iter().enumerate().map(settle).collect();
        store.settle(batch).await.expect("the store takes results");
    }
}

async fn pause(store: &SqliteStore, queue: &str) {
    let change = SettingChange::Pause {
        lasting: None,
        reason: None,
    };
    store
        .set(Target::Queue(kit::name(queue)), change)
        .await
        .expect("a queue can be paused");
}

/// The usual time of a claim of one job of whatever queue, without what lies before `busy` in the order.
async fn claim_time(store: &SqliteStore) -> Duration {
    pause(store, "keyed").await;
    let mut measured = Vec::new();
    for _ in 0..300 {
        let began = now();
        let claims = store
            .claim(claim_of(&[], 1))
            .await
            .expect("the store hands out work");
        measured.push(began.elapsed());
        assert_eq!(claims[0].job.queue.as_str(), "busy");
    }
    median(&mut measured)
}

async fn a_paused_lane_costs_the_others_nothing(store: &SqliteStore, alone: Duration) {
    let beside = claim_time(store).await;
    eprintln!("claim: {alone:?} alone, {beside:?} beside a paused lane of {PAUSED}");
    assert!(beside < Duration::from_millis(5), "{beside:?}");
    // A claim takes a fraction of a millisecond, so that a busy machine weighs more than any lane.
    assert!(
        beside < 3 * alone + Duration::from_micros(300),
        "{beside:?} beside, {alone:?} alone"
    );
}

/// The best of three, so that what else the machine does is not counted.
macro_rules! quick {
    ($what:expr, $call:expr) => {{
        let mut best = Duration::MAX;
        let mut answer = None;
        for _ in 0..3 {
            let began = now();
            answer = Some($call.await.expect("the store answers"));
            best = best.min(began.elapsed());
        }
        eprintln!("{:<46} {best:?}", $what);
        assert!(best < PAGE, "{}: {best:?}", $what);
        answer.expect("asked three times")
    }};
}

fn in_queue(queue: &str) -> JobFilter {
    JobFilter {
        queue: Some(kit::name(queue)),
        ..JobFilter::default()
    }
}

fn in_state(state: State) -> JobFilter {
    JobFilter {
        state: Some(state),
        ..JobFilter::default()
    }
}

async fn first_pages_come_quickly(store: &SqliteStore) {
    let dead = JobFilter {
        dead_letters: true,
        ..JobFilter::default()
    };
    let with_error = |text: &str| JobFilter {
        error: Some(text.to_owned()),
        ..dead.clone()
    };
    let filters = [
        ("everything", JobFilter::default(), 100),
        ("state queued", in_state(State::Queued), 100),
        ("state running", in_state(State::Running), 100),
        ("state failed", in_state(State::Failed), 100),
        (
            "state cancelled, of which there are none",
            in_state(State::Cancelled),
            0,
        ),
        ("the newest queue", in_queue("paused"), 100),
        (
            "a task",
            JobFilter {
                task: Some(kit::name("work")),
                ..JobFilter::default()
            },
            100,
        ),
        ("dead letters", dead.clone(), 100),
        ("dead letters by error", with_error("warehouse 3"), 100),
        ("dead letters by an error that none has", with_error("fire"), 0),
    ];
    for (what, filter, rows) in filters {
        let listing: Listing<_> = quick!(what, store.jobs(filter.clone(), Page::first(100)));
        assert_eq!(listing.items.len(), rows, "{what}");
    }
    // What lies behind a great many others is found by going on: each page answers as quickly.
    assert_eq!(
        pages_until(store, in_queue("ended"), "the oldest queue").await,
        100
    );
    assert_eq!(
        pages_until(store, in_state(State::Complete), "state complete").await,
        100
    );
    assert_eq!(
        pages_until(store, in_queue("nowhere"), "a queue that does not exist").await,
        0
    );
    keys_come_quickly(store).await;
    let ledger = quick!(
        "the ledger",
        store.ledger(LedgerFilter::default(), Page::first(100))
    );
    assert!(ledger.items.is_empty());
    let groups = quick!("dead letters in groups", store.dead_letter_groups(None));
    assert!(!groups.is_empty());
    quick!("counters and sizes", store.stats());
}

/// Goes on from page to page until there are rows or no more pages, each of them quick; how many rows.
async fn pages_until(store: &SqliteStore, filter: JobFilter, what: &str) -> usize {
    let mut page = Page::first(100);
    loop {
        let listing: Listing<_> = quick!(what, store.jobs(filter.clone(), page.clone()));
        match listing.next_cursor {
            Some(cursor) if listing.items.is_empty() => page = Page::after(cursor, 100),
            _ => return listing.items.len(),
        }
    }
}

async fn keys_come_quickly(store: &SqliteStore) {
    let by_text = |text: &str| KeyFilter {
        text: Some(text.to_owned()),
        ..KeyFilter::default()
    };
    let filters = [
        ("keys", KeyFilter::default(), 100),
        ("keys by text", by_text("order-149"), 100),
        ("the oldest key by text", by_text("order-0"), 1),
        ("keys by a text that none has", by_text("invoice"), 0),
    ];
    for (what, filter, rows) in filters {
        let listing: Listing<_> = quick!(what, store.keys(filter.clone(), Page::first(100)));
        assert_eq!(listing.items.len(), rows, "{what}");
    }
}

/// Rounds of housekeeping until nothing is left to do or `most` were made; the longest, and what they did.
async fn upkeep(store: &SqliteStore, most: usize) -> Result<(Duration, Vec<UpkeepReport>), StoreError> {
    let over = Millis::ZERO;
    let retention = Retention {
        complete: over,
        failed: over,
        ..Retention::default()
    };
    let (mut longest, mut reports) = (Duration::ZERO, Vec::new());
    while reports.len() < most {
        let began = now();
        let report = store
            .upkeep(UpkeepRequest {
                retention,
                ..UpkeepRequest::default()
            })
            .await?;
        longest = longest.max(began.elapsed());
        reports.push(report);
        if !report.more {
            break;
        }
    }
    Ok((longest, reports))
}

async fn work_goes_on_beside_the_doctor(store: &Arc<SqliteStore>) {
    let (began, doctor) = (now(), store.clone());
    let doctor = tokio::spawn(async move { doctor.doctor(false).await });
    let mut measured = Vec::new();
    while !doctor.is_finished() && measured.len() < 2_000 {
        let began = now();
        let claims = store
            .claim(claim_of(&[], 1))
            .await
            .expect("the store hands out work");
        measured.push(began.elapsed());
        assert_eq!(claims.len(), 1);
    }
    let findings = doctor
        .await
        .expect("the doctor does not panic")
        .expect("the doctor can look");
    let (took, claims) = (began.elapsed(), measured.len());
    let median = median(&mut measured);
    eprintln!("the doctor: {took:?}; beside it {claims} claims, each {median:?}");
    assert!(findings.is_empty(), "{findings:#?}");
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert!(
        claims > 20 && median < Duration::from_millis(5),
        "{claims} claims, each {median:?}"
    );
}

async fn ended_jobs_are_pruned_in_small_steps(store: &SqliteStore) {
    let (longest, reports) = upkeep(store, 1_000).await.expect("the store keeps house");
    let pruned: u64 = reports.iter().map(|report| report.pruned).sum();
    eprintln!(
        "pruning: {pruned} jobs in {} steps, the longest {longest:?}",
        reports.len()
    );
    assert_eq!(pruned, ENDED as u64);
    assert!(reports.len() > ENDED / 2_000, "small steps");
    assert!(longest < STEP, "{longest:?}");
}

async fn a_small_queue_behind_many_others_is_swept_quickly(store: &SqliteStore) {
    fill(store, 10, |_| into_queue("late", "{}")).await;
    store
        .remove_queue(&kit::name("late"))
        .await
        .expect("a queue can be removed");
    let (longest, reports) = upkeep(store, 10).await.expect("the store keeps house");
    eprintln!(
        "sweeping 10 jobs behind {PAUSED}: {} steps, the longest {longest:?}",
        reports.len()
    );
    assert!(longest < STEP, "{longest:?}");
}

async fn a_removed_queue_is_swept_in_small_steps(store: &SqliteStore) {
    let some: Vec<JobId> = store
        .jobs(in_queue("paused"), Page::first(10))
        .await
        .expect("the store lists jobs")
        .items
        .into_iter()
        .map(|job| job.id)
        .collect();
    let began = now();
    let removed = store
        .remove_queue(&kit::name("paused"))
        .await
        .expect("a queue can be removed");
    let took = began.elapsed();
    assert_eq!(removed, PAUSED as i64);
    let found = store.jobs_by_id(&some).await.expect("a look");
    assert!(
        found.iter().all(Option::is_none),
        "gone at once, before any sweep"
    );
    let (longest, reports) = upkeep(store, 25).await.expect("the store keeps house");
    eprintln!(
        "removing a queue of {PAUSED}: {took:?}; sweeping: {} steps, the longest {longest:?}",
        reports.len()
    );
    assert!(took < STEP && longest < STEP, "{took:?}, {longest:?}");
    assert!(reports.iter().all(|report| report.more), "small steps");
}
