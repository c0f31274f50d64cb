//! Doing things once that are no jobs (contract 5.3).

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use semel::{Error, Once, Reserved, hours, millis, secs};

#[tokio::test]
async fn of_two_who_ask_one_is_let_in_and_the_other_gets_its_answer() {
    let jobs = semel::connect("memory:").await.unwrap();
    let guard = jobs.guard();
    let Reserved::Fresh(reservation) = guard.reserve("k", secs(60)).await.unwrap() else {
        panic!("a new key is fresh");
    };
    assert!(matches!(
        guard.reserve("k", secs(60)).await.unwrap(),
        Reserved::InProgress
    ));
    reservation.confirm(&"done").await.unwrap();
    reservation.confirm(&"said again").await.unwrap();
    let Reserved::Done(output) = guard.reserve("k", secs(60)).await.unwrap() else {
        panic!("a confirmed key is done");
    };
    assert_eq!(
        output.read::<String>().unwrap(),
        "done",
        "the first answer stands"
    );
    let stats = guard.stats().await.unwrap();
    assert_eq!((stats.fresh, stats.in_progress, stats.done), (1, 1, 1));
}

#[tokio::test]
async fn a_released_key_is_free_again() {
    let jobs = semel::connect("memory:").await.unwrap();
    let guard = jobs.guard();
    let Reserved::Fresh(reservation) = guard.reserve("k", secs(60)).await.unwrap() else {
        panic!("a new key is fresh");
    };
    reservation.release().await.unwrap();
    assert!(matches!(
        guard.reserve("k", secs(60)).await.unwrap(),
        Reserved::Fresh(_)
    ));
}

/// An error does not prove that nothing happened: only who knows better frees the key.
#[tokio::test]
async fn what_went_wrong_is_not_run_again_unless_somebody_knows_that_it_did_not_happen() {
    let jobs = semel::connect("memory:").await.unwrap();
    let guard = jobs.guard();
    let failed = guard
        .once("k", hours(1), async || Err::<u8, _>("timed out"))
        .await
        .unwrap();
    let Once::Failed("timed out", reservation) = failed else {
        panic!("{failed:?}");
    };
    let again = guard
        .once("k", hours(1), async || Ok::<u8, &str>(7))
        .await
        .unwrap();
    assert!(matches!(again, Once::InProgress), "{again:?}");
    reservation.release().await.unwrap();
    let again = guard
        .once("k", hours(1), async || Ok::<u8, &str>(7))
        .await
        .unwrap();
    assert!(matches!(again, Once::Ran(7)), "{again:?}");
}

#[tokio::test]
async fn who_confirms_too_late_is_told_so() {
    let jobs = semel::connect("memory:").await.unwrap();
    let guard = jobs.guard();
    let Reserved::Fresh(slow) = guard.reserve("k", millis(20)).await.unwrap() else {
        panic!("a new key is fresh");
    };
    tokio::time::sleep(millis(40)).await;
    assert!(matches!(
        guard.reserve("k", secs(60)).await.unwrap(),
        Reserved::Fresh(_)
    ));
    let lost = slow.confirm(&1).await.unwrap_err();
    assert!(matches!(lost, Error::ReservationLost { .. }), "{lost:?}");
}

#[tokio::test]
async fn what_makes_no_sense_is_refused() {
    let jobs = semel::connect("memory:").await.unwrap();
    for (key, ttl) in [("", secs(1)), ("k", secs(0)), ("a\nb", secs(1))] {
        let refused = jobs.guard().reserve(key, ttl).await;
        assert!(matches!(refused, Err(Error::Invalid(_))), "{key:?} {refused:?}");
    }
    let _ = jobs
        .guard()
        .once("number", secs(60), async || Ok::<u8, Error>(1))
        .await
        .unwrap();
    let other = jobs
        .guard()
        .once("number", secs(60), async || Ok::<String, Error>(String::new()))
        .await;
    assert!(matches!(other, Err(Error::UnreadableAnswer { .. })), "{other:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_a_thousand_at_once_one_runs() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", dir.path().join("jobs.db").display());
    let jobs = semel::connect(&url).await.unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let all: Vec<_> = (0..1_000)
        .map(|_| {
            let (guard, runs) = (jobs.guard(), runs.clone());
            tokio::spawn(async move {
                let effect = async || Ok::<usize, Error>(runs.fetch_add(1, Ordering::SeqCst));
                matches!(guard.once("storm", hours(1), effect).await.unwrap(), Once::Ran(_))
            })
        })
        .collect();
    let mut ran = 0;
    for one in all {
        ran += usize::from(one.await.unwrap());
    }
    assert_eq!((ran, runs.load(Ordering::SeqCst)), (1, 1));
}
