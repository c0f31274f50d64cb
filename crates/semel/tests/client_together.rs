//! Many callers at once, replies that are lost, stores that are out of reach (contract 2.8, 3.4, 3.5).

mod client_stage;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use client_stage::{Process, Wrapped, arguments, on_each_store, say};
use semel::semel_core::counters::Counter;
use semel::semel_core::job::Outcome;
use semel::{Client, Error, Retry, Task, connect, connect_to, millis};

const CLICK: Task<u64> = Task::new("click");

async fn wrapped(stage: &client_stage::Stage, change: impl FnOnce(&mut Wrapped)) -> (Arc<Wrapped>, Client) {
    let mut store = Wrapped::new(stage.store.clone());
    change(&mut store);
    let store = Arc::new(store);
    let quick = Retry {
        attempts: 4,
        first: millis(1),
        longest: millis(4),
    };
    let jobs = connect_to(store.clone()).retry(quick).await.expect("a client");
    (store, jobs)
}

#[tokio::test]
async fn sixty_four_callers_at_once_are_a_few_batches() {
    on_each_store(async |stage| {
        let (store, jobs) = wrapped(&stage, |store| store.slow = Some(millis(5))).await;
        let mut callers = tokio::task::JoinSet::new();
        for n in 0..64 {
            let jobs = jobs.clone();
            callers.spawn(async move {
                jobs.submit(CLICK, &n)
                    .unique()
                    .await
                    .expect("accepted")
                    .id()
                    .clone()
            });
        }
        let ids: HashSet<_> = callers.join_all().await.into_iter().collect();
        assert_eq!(ids.len(), 64);
        let sizes = store.sizes();
        assert_eq!(sizes.iter().sum::<usize>(), 64);
        assert!(sizes.len() <= 4, "{sizes:?}");
        assert_eq!(stage.count(Counter::Accepted).await, 64);
    })
    .await;
}

#[tokio::test]
async fn a_batch_never_has_more_than_a_thousand() {
    on_each_store(async |stage| {
        let (store, jobs) = wrapped(&stage, |store| store.slow = Some(millis(20))).await;
        let mut callers = tokio::task::JoinSet::new();
        for n in 0..2_500 {
            let jobs = jobs.clone();
            callers.spawn(async move { jobs.submit(CLICK, &n).await.is_ok() });
        }
        assert!(callers.join_all().await.into_iter().all(|accepted| accepted));
        let sizes = store.sizes();
        assert!(sizes.iter().all(|size| *size <= 1_000), "{sizes:?}");
        assert!(sizes.len() <= 12, "{sizes:?}");
    })
    .await;
}

/// Time stands still unless everybody sleeps, so that any wait at all would be seen.
#[tokio::test(start_paused = true)]
async fn a_lone_caller_waits_for_nobody() {
    let jobs = connect("memory:").await.expect("a client");
    let store = Arc::new(Wrapped::new(jobs.store().clone()));
    let jobs = connect_to(store.clone()).await.expect("a client");
    let began = tokio::time::Instant::now();
    for n in 0..200 {
        jobs.submit(CLICK, &n).unique().await.expect("accepted");
    }
    assert_eq!(began.elapsed(), millis(0));
    assert_eq!(store.sizes(), vec![1; 200]);
}

#[tokio::test]
async fn a_thousand_callers_with_one_key_are_one_job() {
    on_each_store(async |stage| {
        let mut callers = tokio::task::JoinSet::new();
        for _ in 0..1_000 {
            let jobs = stage.jobs.clone();
            callers.spawn(async move {
                jobs.submit(CLICK, &1)
                    .idempotency_key("k")
                    .await
                    .expect("an answer")
            });
        }
        let answers = callers.join_all().await;
        let accepted = answers
            .iter()
            .filter(|sent| sent.outcome() == Outcome::Accepted)
            .count();
        assert_eq!(accepted, 1, "contract 2.8");
        assert!(answers.iter().all(|sent| sent.id() == answers[0].id()));
        assert_eq!(stage.count(Counter::Duplicate).await, 999);
    })
    .await;
}

#[tokio::test]
async fn a_lost_reply_and_a_retry_are_one_job_with_or_without_a_key() {
    on_each_store(async |stage| {
        let (store, jobs) = wrapped(&stage, |_| ()).await;
        store.lose_replies.store(2, Ordering::Release);
        let sent = jobs.submit(CLICK, &1).await.expect("accepted at last");
        assert_eq!(
            (sent.outcome(), store.sizes()),
            (Outcome::Accepted, vec![1, 1, 1])
        );
        assert_eq!(stage.count(Counter::Accepted).await, 1, "contract 3.5");

        store.lose_replies.store(1, Ordering::Release);
        let keyed = jobs
            .submit(CLICK, &2)
            .exclusive("k")
            .await
            .expect("it is no duplicate of itself");
        assert_eq!(keyed.outcome(), Outcome::Accepted);
        store.lose_replies.store(1, Ordering::Release);
        let again = jobs.submit(CLICK, &2).exclusive("k").await;
        assert!(
            matches!(again, Err(Error::Duplicate { .. })),
            "the first answer again: {again:?}"
        );
        assert_eq!(stage.count(Counter::Rejected).await, 1, "counted once");

        store.lose_replies.store(1, Ordering::Release);
        let many = jobs
            .submit_many((0..10).map(|n| jobs.submit(CLICK, &(n + 10))))
            .await;
        assert!(many.iter().all(|answer| answer.is_ok()));
        assert_eq!(stage.count(Counter::Accepted).await, 12);

        store.lose_replies.store(1, Ordering::Release);
        let handle = jobs.job(sent.id().as_str()).expect("an id");
        handle.cancel().await.expect("a lost reply is no refusal");
        assert!(handle.cancel().await.is_err(), "a second cancel is");
    })
    .await;
}

#[tokio::test]
async fn a_store_out_of_reach_is_a_typed_error_after_bounded_tries() {
    on_each_store(async |stage| {
        let (store, jobs) = wrapped(&stage, |_| ()).await;
        store.is_down(true);
        let error = jobs.submit(CLICK, &1).await.expect_err("it is down");
        assert!(
            matches!(error, Error::StoreUnavailable { .. }) && error.is_retryable(),
            "{error:?}"
        );
        assert_eq!(store.sizes().len(), 4, "as often as was asked for");
        let many = jobs
            .submit_many([jobs.submit(CLICK, &1), jobs.submit(CLICK, &2)])
            .await;
        assert!(
            many.iter()
                .all(|answer| matches!(answer, Err(Error::StoreUnavailable { .. })))
        );
        store.is_down(false);
        assert!(jobs.submit(CLICK, &1).await.is_ok());
    })
    .await;
}

#[tokio::test]
async fn a_caller_that_gives_up_takes_nobody_with_it() {
    on_each_store(async |stage| {
        let (_, jobs) = wrapped(&stage, |store| store.slow = Some(millis(3))).await;
        let mut callers = tokio::task::JoinSet::new();
        for n in 0..300_u64 {
            let jobs = jobs.clone();
            callers.spawn(async move {
                let submit = jobs.submit(CLICK, &n).unique().into_future();
                match n % 3 {
                    0 => tokio::time::timeout(millis(n % 9), submit).await.ok(),
                    _ => Some(submit.await),
                }
            });
        }
        let answers = callers.join_all().await;
        assert!(answers.iter().flatten().all(|answer| answer.is_ok()));
        assert!(answers.iter().flatten().count() >= 200);
        assert!(
            jobs.submit(CLICK, &1_000).await.is_ok(),
            "and the next goes through"
        );
    })
    .await;
}

/// Two processes, one file: each clicks the same hundred keys at the same time.
#[test]
fn a_double_click_in_two_processes_is_one_job() {
    let place = tempfile::tempdir().expect("a directory");
    let url = format!("sqlite:{}", place.path().join("jobs.db").display());
    let processes = [1, 2].map(|_| Process::start("clicking_process", &[&url]));
    let said = processes.map(Process::hear_all);
    assert_eq!((said[0].len(), said[1].len()), (100, 100));
    let mut second = 0;
    for (one, two) in said[0].iter().zip(&said[1]) {
        let (one, two) = (
            one.split_once(' ').expect("two words"),
            two.split_once(' ').expect("two words"),
        );
        assert_eq!(one.1, two.1, "the same job");
        let words = [one.0, two.0];
        assert_eq!(
            words.iter().filter(|word| **word == "accepted").count(),
            1,
            "{words:?}"
        );
        second += usize::from(two.0 == "accepted");
    }
    println!("{second} of 100 were accepted from the second process");
}

#[test]
#[ignore = "a process that a test starts"]
fn clicking_process() {
    let url = arguments().remove(0);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let jobs = connect(url).await.expect("a store");
        for n in 0..100 {
            // Both click when the clock of the host strikes.
            let past = semel::clock::now().as_millis().unsigned_abs() % 5;
            tokio::time::sleep(millis(5 - past)).await;
            let key = format!("click-{n}");
            let sent = jobs
                .submit(CLICK, &n)
                .idempotency_key(key)
                .await
                .expect("an answer");
            say(&format!("{} {}", sent.outcome().word(), sent.id()));
        }
    });
}
