//! Submissions that wait on the producer's disk while the store is out of reach (contract 3.4).

mod client_stage;

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use client_stage::{Process, Stage, Wrapped, arguments, complete, name, on_each_store, say};
use semel::semel_core::counters::Counter;
use semel::semel_core::job::Outcome;
use semel::semel_core::store::{JobFilter, Page};
use semel::{Client, Dedup, Drained, Error, JobId, Retry, Spool, Target, Task, connect, connect_to, secs};
use serde_json::json;

const SYNC: Task<u64, u64> = Task::new("sync_user");

/// A client of a store that can be taken down, with a spool that is drained only when a test says so, or
/// when something is submitted.
async fn producer(stage: &Stage, spool: Spool) -> (Arc<Wrapped>, Client) {
    let store = Arc::new(Wrapped::new(stage.store.clone()));
    let jobs = connect_to(store.clone())
        .retry(Retry::never())
        .spool(spool)
        .await
        .expect("a client");
    (store, jobs)
}

async fn drained(jobs: &Client) -> Drained {
    // The task in the background may be at it, and leave the store alone for a while after a failure.
    for _ in 0..200 {
        let drained = jobs
            .spool()
            .expect("a spool")
            .drain()
            .await
            .expect("the store is back");
        let status = jobs.spool().expect("a spool").status().await.expect("a status");
        if status.entries == drained.put_back {
            return drained;
        }
        tokio::time::sleep(semel::millis(10)).await;
    }
    panic!("the spool is never drained");
}

async fn inputs(jobs: &Client) -> Vec<u64> {
    let listed = jobs
        .store()
        .jobs(JobFilter::default(), Page::first(500))
        .await
        .expect("a list");
    let mut inputs: Vec<u64> = listed
        .items
        .iter()
        .map(|job| job.input.read().expect("a number"))
        .collect();
    inputs.reverse();
    inputs
}

#[tokio::test]
async fn what_is_spooled_arrives_later_in_order_under_the_id_it_was_given() {
    on_each_store(async |stage| {
        let place = tempfile::tempdir().expect("a directory");
        let (store, jobs) = producer(&stage, Spool::at(place.path())).await;
        store.is_down(true);
        let mut ids = Vec::new();
        for n in 0..20 {
            let sent = jobs.submit(SYNC, &n).unique().await.expect("spooled");
            assert_eq!(sent.outcome(), Outcome::Spooled);
            assert!(!sent.is_duplicate() && sent.key().is_some());
            ids.push(sent.id().clone());
        }
        let many = jobs.submit_many((20..30).map(|n| jobs.submit(SYNC, &n))).await;
        ids.extend(many.into_iter().map(|sent| sent.expect("spooled").id().clone()));
        let status = jobs.spool().expect("a spool").status().await.expect("a status");
        assert_eq!((status.entries, status.refused, status.set_aside), (30, 0, 0));
        assert!(status.bytes > 0 && status.oldest.is_some());
        assert_eq!(
            Spool::at(place.path()).status().await.expect("from outside"),
            status
        );

        store.is_down(false);
        drained(&jobs).await;
        assert_eq!(inputs(&jobs).await, (0..30).collect::<Vec<u64>>());
        let found = jobs.store().jobs_by_id(&ids).await.expect("an answer");
        assert!(found.iter().all(Option::is_some));
        assert_eq!(stage.count(Counter::Accepted).await, 30);
        let status = jobs.spool().expect("a spool").status().await.expect("a status");
        assert_eq!((status.entries, status.bytes, status.oldest), (0, 0, None));
    })
    .await;
}

#[tokio::test]
async fn it_is_drained_by_itself_once_the_store_is_back() {
    on_each_store(async |stage| {
        let place = tempfile::tempdir().expect("a directory");
        let (store, jobs) = producer(&stage, Spool::at(place.path())).await;
        store.is_down(true);
        let sent = jobs.submit(SYNC, &1).await.expect("spooled");
        store.is_down(false);
        for _ in 0..500 {
            let found = stage
                .store
                .jobs_by_id(std::slice::from_ref(sent.id()))
                .await
                .expect("an answer");
            if found[0].is_some() {
                return;
            }
            tokio::time::sleep(semel::millis(10)).await;
        }
        panic!("nobody drained the spool");
    })
    .await;
}

/// Were it sent at once, the older submission would come after it and replace it.
#[tokio::test]
async fn a_newer_submission_never_overtakes_an_older_one() {
    on_each_store(async |stage| {
        let place = tempfile::tempdir().expect("a directory");
        let (store, jobs) = producer(&stage, Spool::at(place.path())).await;
        let render = |version: u64| {
            jobs.submit_json("render", &json!({"page": 1, "version": version}))
                .by_fields(["/page"])
                .latest()
        };
        store.is_down(true);
        assert_eq!(render(1).await.expect("spooled").outcome(), Outcome::Spooled);
        store.is_down(false);
        let newer = render(2).await.expect("an answer");
        assert!(
            matches!(newer.outcome(), Outcome::Spooled | Outcome::Replaced),
            "{newer:?}"
        );
        drained(&jobs).await;
        let claimed = stage.claim(5).await;
        assert_eq!(claimed.len(), 1);
        assert_eq!(claimed[0].job.input.as_str(), r#"{"page":1,"version":2}"#);
    })
    .await;
}

#[tokio::test]
async fn a_reply_that_is_lost_while_draining_makes_no_second_job() {
    on_each_store(async |stage| {
        let place = tempfile::tempdir().expect("a directory");
        let (store, jobs) = producer(&stage, Spool::at(place.path())).await;
        store.is_down(true);
        for n in 0..5 {
            jobs.submit(SYNC, &n).await.expect("spooled");
        }
        store.lose_replies.store(3, Ordering::Release);
        store.is_down(false);
        let spool = jobs.spool().expect("a spool");
        while spool.drain().await.is_err() {}
        drained(&jobs).await;
        assert_eq!(store.lose_replies.load(Ordering::Acquire), 0, "replies were lost");
        assert_eq!(stage.count(Counter::Accepted).await, 5);
        assert_eq!(inputs(&jobs).await, [0, 1, 2, 3, 4]);
    })
    .await;
}

#[tokio::test]
async fn a_submission_whose_reply_was_lost_is_spooled_and_stays_one_job() {
    on_each_store(async |stage| {
        let place = tempfile::tempdir().expect("a directory");
        let (store, jobs) = producer(&stage, Spool::at(place.path())).await;
        store.lose_replies.store(1, Ordering::Release);
        let sent = jobs.submit(SYNC, &1).exclusive("k").await.expect("spooled");
        assert_eq!(
            sent.outcome(),
            Outcome::Spooled,
            "whether it was applied is unknown"
        );
        drained(&jobs).await;
        assert_eq!(
            (
                stage.count(Counter::Accepted).await,
                stage.count(Counter::Rejected).await
            ),
            (1, 0)
        );
        assert!(jobs.job(sent.id().as_str()).expect("an id").job().await.is_ok());
    })
    .await;
}

#[tokio::test]
async fn a_full_spool_refuses_and_counts() {
    on_each_store(async |stage| {
        let place = tempfile::tempdir().expect("a directory");
        let (store, jobs) = producer(&stage, Spool::at(place.path()).entries(3)).await;
        store.is_down(true);
        let many = jobs.submit_many((0..5).map(|n| jobs.submit(SYNC, &n))).await;
        assert_eq!(many.iter().filter(|answer| answer.is_ok()).count(), 3);
        let error = jobs.submit(SYNC, &9).await.expect_err("full");
        assert!(
            matches!(error, Error::SpoolFull { entries: 3 }) && error.is_retryable(),
            "{error:?}"
        );
        let status = jobs.spool().expect("a spool").status().await.expect("a status");
        assert_eq!((status.entries, status.refused), (3, 3));
        store.is_down(false);
        drained(&jobs).await;
        assert_eq!(inputs(&jobs).await, [0, 1, 2]);

        let place = tempfile::tempdir().expect("a directory");
        let (store, jobs) = producer(&stage, Spool::at(place.path()).bytes(1_000)).await;
        store.is_down(true);
        let large = "x".repeat(900);
        assert!(
            jobs.submit_json("t", &large).await.is_err(),
            "bounded in bytes, too"
        );
        assert!(jobs.submit_json("t", &1).await.is_ok());
    })
    .await;
}

#[tokio::test]
async fn what_the_store_would_never_take_is_refused_at_once() {
    on_each_store(async |stage| {
        let place = tempfile::tempdir().expect("a directory");
        let (store, jobs) = producer(&stage, Spool::at(place.path())).await;
        store.is_down(true);
        let typo = jobs
            .submit_json("t", &json!({"day": 1}))
            .by_fields(["/dya"])
            .unique()
            .await;
        assert!(matches!(typo, Err(Error::Invalid(_))), "{typo:?}");
        let many = jobs
            .submit_many([jobs.submit(SYNC, &1), jobs.submit(SYNC, &2).max_attempts(0)])
            .await;
        assert!(many[0].is_ok() && matches!(many[1], Err(Error::Invalid(_))));
        assert_eq!(
            jobs.spool()
                .expect("a spool")
                .status()
                .await
                .expect("a status")
                .entries,
            1
        );
    })
    .await;
}

#[tokio::test]
async fn a_closed_queue_holds_up_nobody_else() {
    on_each_store(async |stage| {
        let place = tempfile::tempdir().expect("a directory");
        let (store, jobs) = producer(&stage, Spool::at(place.path())).await;
        let mail = Target::Queue(name("mail"));
        stage
            .jobs
            .operate("alice")
            .close(mail.clone())
            .await
            .expect("closed");
        store.is_down(true);
        for n in 0..4 {
            let submit = jobs.submit(SYNC, &n);
            let submit = if n % 2 == 0 { submit.queue("mail") } else { submit };
            submit.await.expect("spooled");
        }
        store.is_down(false);
        let first = drained(&jobs).await;
        assert_eq!(first.put_back, 2);
        assert_eq!(inputs(&jobs).await, [1, 3]);
        let direct = jobs.submit(SYNC, &9).await.expect("accepted");
        assert_eq!(
            direct.outcome(),
            Outcome::Accepted,
            "the spool is not in the way of others"
        );
        stage.jobs.operate("alice").open(mail).await.expect("open");
        assert_eq!(drained(&jobs).await.put_back, 0);
        assert_eq!(inputs(&jobs).await, [1, 3, 9, 0, 2]);
    })
    .await;
}

#[tokio::test]
async fn whoever_waits_for_a_spooled_job_gets_the_output_of_the_job_that_has_it() {
    on_each_store(async |stage| {
        let place = tempfile::tempdir().expect("a directory");
        let (store, jobs) = producer(&stage, Spool::at(place.path())).await;
        let holder = stage.jobs.submit(SYNC, &7).unique().await.expect("accepted");
        store.is_down(true);
        let sent = jobs.submit(SYNC, &7).unique().await.expect("spooled");
        assert_ne!(sent.id(), holder.id(), "it cannot know yet");
        let waiting = tokio::spawn(sent.output().at_most(secs(30)).into_future());
        tokio::time::sleep(semel::millis(20)).await;
        store.is_down(false);
        drained(&jobs).await;
        stage.run_next(complete("42")).await;
        assert_eq!(waiting.await.expect("no panic").expect("the holder's output"), 42);
        assert_eq!(stage.count(Counter::Accepted).await, 1);

        store.is_down(true);
        let never = jobs.submit(SYNC, &8).output().at_most(semel::millis(50)).await;
        assert!(
            matches!(never, Err(Error::WaitTimeout { state: None, .. })),
            "{never:?}"
        );
    })
    .await;
}

#[tokio::test]
async fn a_spool_belongs_to_one_store() {
    let place = tempfile::tempdir().expect("a directory");
    let url = |file: &str| format!("sqlite:{}", place.path().join(file).display());
    let spool = || Spool::at(place.path().join("spool"));
    let one = connect(url("a.db")).spool(spool()).await.expect("a client");
    let again = connect(url("a.db")).spool(spool()).await.expect("the same store");
    drop((one, again));
    let refused = connect(url("b.db"))
        .spool(spool())
        .await
        .expect_err("another store");
    assert!(refused.to_string().contains("a.db"), "{refused}");
    let refused = connect(url("a.db?namespace=x"))
        .spool(spool())
        .await
        .expect_err("another namespace");
    assert!(refused.to_string().contains("hint: "), "{refused}");
    assert!(matches!(
        Spool::at(place.path()).status().await,
        Err(Error::NotFound { .. })
    ));
}

/// A power cut can leave half a line at the end; a bad disk can change any. Neither may stop the rest,
/// and nothing is sent that was not written.
#[tokio::test]
async fn damaged_lines_are_set_aside_and_the_rest_is_sent() {
    on_each_store(async |stage| {
        let place = tempfile::tempdir().expect("a directory");
        let (store, jobs) = producer(&stage, Spool::at(place.path())).await;
        store.is_down(true);
        for n in 0..3 {
            jobs.submit(SYNC, &n).await.expect("spooled");
        }
        drop(jobs);
        // A drain that failed meanwhile may have sealed what was there: open or sealed, these are lines.
        for path in each_segment(place.path()) {
            let text = fs::read_to_string(&path).expect("text");
            fs::write(&path, text.replace("\"input\":1,", "\"input\":5,")).expect("written");
        }
        let torn = place.path().join("9999999999999999.open");
        fs::write(torn, "c0ffee {\"at\":1,\"submission\":{\"ta").expect("half a line");
        let (store, jobs) = producer(&stage, Spool::at(place.path())).await;
        store.is_down(true);
        jobs.submit(SYNC, &3).await.expect("spooled behind half a line");

        store.is_down(false);
        drained(&jobs).await;
        assert_eq!(inputs(&jobs).await, [0, 2, 3]);
        let status = jobs.spool().expect("a spool").status().await.expect("a status");
        assert_eq!((status.entries, status.set_aside), (0, 2));
    })
    .await;
}

fn each_segment(place: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(place)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").path());
    let is_segment = |path: &std::path::PathBuf| {
        path.extension()
            .is_some_and(|extension| extension == "open" || extension == "jobs")
    };
    entries.filter(is_segment).collect()
}

/// Producers that are killed while the store is out of reach: what they were answered arrives, once.
#[test]
fn what_was_answered_spooled_survives_kill_nine_of_the_producer() {
    let place = tempfile::tempdir().expect("a directory");
    let down = place.path().join("down");
    fs::write(&down, "").expect("a file");
    let words = [place.path().to_str().expect("text"), "0"];
    let mut answered = Vec::new();
    for round in 0..6_u64 {
        let mut process = Process::start("spooling_process", &words);
        let some = 3 + round * 17;
        answered.extend((0..some).map(|_| process.hear().expect("it goes on for ever")));
        answered.extend(process.kill());
    }
    fs::remove_file(&down).expect("removed");

    // The store is back. Three processes drain at the same time; two of them are killed in the middle.
    let mut drainers: Vec<Process> = (0..3)
        .map(|_| Process::start("draining_process", &words))
        .collect();
    let last = drainers.pop().expect("three");
    for drainer in drainers {
        std::thread::sleep(semel::millis(30));
        drainer.kill();
    }
    let left: Vec<String> = last.hear_all();
    assert_eq!(left.last().map(String::as_str), Some("empty"));

    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let url = format!("sqlite:{}", place.path().join("jobs.db").display());
        let jobs = Client::connect_existing(&url).await.expect("the store");
        let ids: Vec<JobId> = answered
            .iter()
            .map(|id| JobId::new(id.as_str()).expect("an id"))
            .collect();
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len());
        let found = jobs.store().jobs_by_id(&ids).await.expect("an answer");
        let missing = found.iter().filter(|job| job.is_none()).count();
        assert_eq!(missing, 0, "of {} that were answered", ids.len());
        let accepted = jobs
            .store()
            .stats()
            .await
            .expect("stats")
            .totals
            .get(Counter::Accepted);
        let unheard = accepted - ids.len() as i64;
        assert!(
            (0..=6).contains(&unheard),
            "{accepted} jobs of {} answered in 6 lives",
            ids.len()
        );
        println!("{} answered before 6 kills, {accepted} jobs", ids.len());
    });
}

async fn process_client(place: &str) -> Client {
    let options = semel_sqlite::Options::new(format!("{place}/jobs.db"));
    let mut store = Wrapped::new(Arc::new(
        semel_sqlite::SqliteStore::open(options).expect("a store"),
    ));
    store.down_while = Some(format!("{place}/down").into());
    let spool = Spool::at(format!("{place}/spool"));
    let retry = Retry::never();
    connect_to(Arc::new(store))
        .retry(retry)
        .spool(spool)
        .await
        .expect("a client")
}

#[test]
#[ignore = "a process that a test starts"]
fn spooling_process() {
    let place = arguments().remove(0);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let jobs = process_client(&place).await;
        for n in 0.. {
            let sent = jobs
                .submit(SYNC, &n)
                .dedup(Dedup::generated())
                .await
                .expect("spooled");
            assert_eq!(sent.outcome(), Outcome::Spooled);
            say(sent.id().as_str());
        }
    });
}

#[test]
#[ignore = "a process that a test starts"]
fn draining_process() {
    let place = arguments().remove(0);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let jobs = process_client(&place).await;
        let spool = jobs.spool().expect("a spool");
        loop {
            let _ = spool.drain().await;
            if spool.status().await.expect("a status").entries == 0 {
                return say("empty");
            }
            tokio::time::sleep(semel::millis(5)).await;
        }
    });
}

/// Several live producers with one directory, while the store comes and goes.
#[test]
fn processes_that_share_a_spool_make_one_job_of_each_submission() {
    let place = tempfile::tempdir().expect("a directory");
    let down = place.path().join("down");
    let words = [place.path().to_str().expect("text"), "0"];
    let processes: Vec<Process> = (0..3)
        .map(|_| Process::start("flapping_process", &words))
        .collect();
    for _ in 0..4 {
        fs::write(&down, "").expect("a file");
        std::thread::sleep(semel::millis(50));
        fs::remove_file(&down).expect("removed");
        std::thread::sleep(semel::millis(350));
    }
    let said: Vec<String> = processes.into_iter().flat_map(Process::hear_all).collect();
    let spooled = said.iter().filter(|line| line.starts_with("spooled")).count();
    let drainer = Process::start("draining_process", &words);
    drainer.hear_all();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let url = format!("sqlite:{}", place.path().join("jobs.db").display());
        let jobs = Client::connect_existing(&url).await.expect("the store");
        let stats = jobs.store().stats().await.expect("stats");
        assert_eq!(stats.totals.get(Counter::Accepted), said.len() as i64);
        let ids: Vec<JobId> = said
            .iter()
            .map(|line| JobId::new(line.split_once(' ').expect("two words").1).expect("an id"))
            .collect();
        let found = jobs.store().jobs_by_id(&ids).await.expect("an answer");
        assert!(found.iter().all(Option::is_some));
        println!("{} submissions, {spooled} of them spooled", said.len());
        assert!(spooled > 0 && spooled < said.len(), "the store came and went");
    });
}

#[test]
#[ignore = "a process that a test starts"]
fn flapping_process() {
    let place = arguments().remove(0);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let jobs = process_client(&place).await;
        let began = tokio::time::Instant::now();
        while began.elapsed() < semel::millis(1_800) {
            let sent = jobs.submit(SYNC, &1).await.expect("an answer");
            say(&format!("{} {}", sent.outcome().word(), sent.id()));
        }
    });
}
