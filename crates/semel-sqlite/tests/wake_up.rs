//! Waiting for work: how soon it is over, that it is never missed, and what it costs.

mod stage;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use semel_conformance::kit;
use semel_core::store::{Claimed, Inspect as _, Interest, Store as _};
use semel_core::submission::{RunAt, Submission};
use semel_core::time::Millis;
use semel_sqlite::{Options, SqliteStore, Synchronous};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use stage::{Rng, accept, accepted, complete, median, now};

/// These tests measure time: each wants the machine for itself.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

/// Longer than any test is willing to wait: a wait that lasts so long was never ended by a wake-up.
const LONG: Duration = Duration::from_secs(60);

fn open(path: &Path) -> Arc<SqliteStore> {
    // Syncing costs what the disk costs; what is measured here is the way from a commit to a waiter.
    let options = Options {
        synchronous: Synchronous::Off,
        ..Options::new(path)
    };
    Arc::new(SqliteStore::open(options).expect("the store opens"))
}

fn work() -> Interest {
    Interest::Work {
        queues: Vec::new(),
        tasks: Vec::new(),
    }
}

/// Waits idly for a change in a task of its own; gives the moment the waiting ended.
fn wait(store: &Arc<SqliteStore>, interest: Interest) -> JoinHandle<std::time::Instant> {
    let (store, since) = (store.clone(), store.mark());
    tokio::spawn(async move {
        store.changed(since, interest, LONG).await;
        now()
    })
}

/// How long after a commit of one handle an idle waiter of another is woken, over some rounds.
async fn latencies(submits: &Arc<SqliteStore>, waits: &Arc<SqliteStore>, rounds: usize) -> Vec<Duration> {
    let mut rng = Rng::new(1);
    let mut measured = Vec::new();
    for _ in 0..rounds {
        // The first look after a pause notices whatever was committed meanwhile, and ends a wait early.
        waits
            .changed(waits.mark(), work(), Duration::from_millis(40))
            .await;
        let waiter = wait(waits, work());
        tokio::time::sleep(Duration::from_micros(20_000 + rng.next() % 20_000)).await;
        assert!(!waiter.is_finished(), "nothing has changed yet");
        accept(submits, kit::plain()).await;
        let committed = now();
        let woken = waiter.await.expect("a waiter does not panic");
        measured.push(woken.saturating_duration_since(committed));
        // Work that is due ends a wait at once: the next round begins without any.
        let claims = submits
            .claim(kit::claim_request(10))
            .await
            .expect("the store answers");
        assert_eq!(claims.len(), 1, "the job of this round");
    }
    measured
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_worker_of_the_same_process_is_woken_within_milliseconds() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory.path().join("jobs.db"));
    let mut measured = latencies(&store, &store, 25).await;
    let median = median(&mut measured);
    eprintln!(
        "same process: median {median:?}, slowest {:?}",
        measured.last().unwrap()
    );
    // A few hundred microseconds on a quiet machine; the bound leaves room for a busy one.
    assert!(median < Duration::from_millis(50), "{measured:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_worker_of_another_process_is_woken_within_the_declared_time() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("jobs.db");
    // Two handles share nothing but the file, as two processes do.
    let (here, there) = (open(&path), open(&path));
    let declared: Duration = here.capabilities().wake_up.into();
    let mut measured = latencies(&there, &here, 25).await;
    let median = median(&mut measured);
    eprintln!(
        "another process: median {median:?}, slowest {:?}, declared {declared:?}",
        measured.last().unwrap()
    );
    assert!(median < declared + Duration::from_millis(10), "{measured:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_waits_for_an_end_is_woken_by_it() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("jobs.db");
    let (here, there) = (open(&path), open(&path));
    let mut measured = Vec::new();
    for round in 0..20 {
        accept(&here, kit::plain()).await;
        let claimed = here.claim(kit::claim_request(1)).await.unwrap().remove(0);
        let waits = if round % 2 == 0 { &here } else { &there };
        waits
            .changed(waits.mark(), Interest::Ends, Duration::from_millis(40))
            .await;
        let waiter = wait(waits, Interest::Ends);
        tokio::time::sleep(Duration::from_millis(20)).await;
        complete(&here, &claimed).await;
        let ended = now();
        measured.push(waiter.await.unwrap().saturating_duration_since(ended));
    }
    let median = median(&mut measured);
    eprintln!("an end, same and other process by turns: median {median:?}");
    assert!(median < Duration::from_millis(60), "{measured:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_worker_is_woken_when_a_job_becomes_due() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory.path().join("jobs.db"));
    let mut measured = Vec::new();
    for _ in 0..20 {
        let delay = Duration::from_millis(120);
        let submitted = now();
        let later = Submission {
            run_at: RunAt::After(Millis::from(delay)),
            ..kit::plain()
        };
        let id = accept(&store, later).await;
        let (claimed, _) = claim_within(&store, LONG).await;
        let waited = submitted.elapsed();
        assert_eq!(claimed.job.id, id);
        assert!(
            waited >= delay - Duration::from_millis(1),
            "not before its time: {waited:?}"
        );
        measured.push(waited - delay.min(waited));
        complete(&store, &claimed).await;
    }
    let median = median(&mut measured);
    eprintln!(
        "at run_at: median {median:?} late, slowest {:?}",
        measured.last().unwrap()
    );
    assert!(median < Duration::from_millis(30), "{measured:?}");
}

/// The loop of a worker: mark, claim, and wait only if there was nothing; and how many waits lasted all of `at_most`.
async fn claim_within(store: &Arc<SqliteStore>, at_most: Duration) -> (Claimed, usize) {
    let mut slept_through = 0;
    loop {
        let mark = store.mark();
        if let Some(claimed) = store.claim(kit::claim_request(1)).await.expect("a claim").pop() {
            return (claimed, slept_through);
        }
        let began = now();
        store.changed(mark, work(), at_most).await;
        slept_through += usize::from(began.elapsed() >= at_most);
    }
}

/// A claim that comes a moment before a job is due, and a wait that begins a moment after: neither may think that the
/// other will take care of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_becomes_due_between_the_claim_and_the_wait_is_not_missed() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory.path().join("jobs.db"));
    let (mut rng, mut missed) = (Rng::new(3), 0);
    for _ in 0..300 {
        let later = Submission {
            run_at: RunAt::After(Millis::new(3)),
            ..kit::plain()
        };
        accept(&store, later).await;
        tokio::time::sleep(Duration::from_micros(rng.next() % 3_000)).await;
        let (claimed, slept_through) = claim_within(&store, Duration::from_millis(300)).await;
        missed += slept_through;
        complete(&store, &claimed).await;
    }
    eprintln!("due between claim and wait: {missed} waits of 300 rounds slept through a job that was due");
    assert_eq!(missed, 0, "a worker slept through a job that had become due");
}

/// Producers and a worker race: the worker reads its mark, finds nothing, waits. However the commit falls in between,
/// the wait ends by it and not by its own length.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_wake_up_is_lost_in_races() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("jobs.db");
    let (here, there) = (open(&path), open(&path));
    let (mut rng, mut slowest) = (Rng::new(2), Duration::ZERO);
    for round in 0..500 {
        let producer = if round % 5 == 4 {
            there.clone()
        } else {
            here.clone()
        };
        let pause = Duration::from_micros(rng.next() % 400);
        let begun = now();
        let submitted = tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            let answers = producer.submit(vec![kit::plain()]).await.expect("an answer");
            accepted(&answers[0])
        });
        let (claimed, slept_through) = claim_within(&here, LONG).await;
        let took = begun.elapsed();
        assert_eq!(slept_through, 0, "round {round}: a wake-up was lost");
        slowest = slowest.max(took);
        assert_eq!(claimed.job.id, submitted.await.unwrap());
        complete(&here, &claimed).await;
    }
    eprintln!("races: 500 rounds, 0 wake-ups lost, slowest round {slowest:?}");
}

/// Processor time of this process so far.
fn processor_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").expect("a process knows its own statistics");
    let fields = stat
        .rsplit(')')
        .next()
        .expect("the name of the program ends in a parenthesis");
    let ticks: u64 = fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(|ticks| ticks.parse::<u64>().expect("a number of ticks"))
        .sum();
    // Linux counts in hundredths of a second whatever its own clock does.
    Duration::from_millis(10 * ticks)
}

/// The process that is measured does nothing else: the tests beside it would be counted too.
#[test]
fn idle_waiting_costs_next_to_nothing() {
    const ALONE: &str = "SEMEL_IDLE_ALONE";
    if std::env::var_os(ALONE).is_some() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build();
        return runtime.unwrap().block_on(idle());
    }
    let alone = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "idle_waiting_costs_next_to_nothing",
            "--exact",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&alone.stderr);
    assert!(alone.status.success(), "{said}");
    assert!(said.contains("idle: "), "{said}");
}

async fn idle() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(&directory.path().join("jobs.db"));
    accept(
        &store,
        Submission {
            run_at: RunAt::After(Millis::from_secs(3_600)),
            ..kit::plain()
        },
    )
    .await;
    // The submission itself may still be news to whoever looks at the file: wait until nobody is woken any more.
    let a_while = Duration::from_millis(200);
    loop {
        let began = now();
        store.changed(store.mark(), work(), a_while).await;
        if began.elapsed() >= a_while {
            break;
        }
    }
    let waiters: Vec<_> = (0..4).map(|_| wait(&store, work())).collect();
    tokio::time::sleep(Duration::from_millis(100)).await;
    // What else the machine does can only add to it: the best of a few windows is what waiting itself costs.
    let mut least = f64::MAX;
    for _ in 0..4 {
        let (began, before) = (now(), processor_time());
        tokio::time::sleep(Duration::from_secs(3)).await;
        let (used, passed) = (processor_time() - before, began.elapsed());
        let percent = 100.0 * used.as_secs_f64() / passed.as_secs_f64();
        eprintln!("idle: {used:?} of processor time in {passed:?}, {percent:.2} %");
        least = least.min(percent);
        if least <= 1.0 {
            break;
        }
    }
    assert!(
        waiters.iter().all(|waiter| !waiter.is_finished()),
        "nothing has changed"
    );
    assert!(least <= 1.0, "{least} %");
    waiters.iter().for_each(JoinHandle::abort);
}
