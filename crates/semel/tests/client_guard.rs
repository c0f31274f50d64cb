//! Doing things once that are no jobs (contract 5.3).

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use semel::testing::{Call, Intercept, InterceptedStore};
use semel::{Client, Error, Once, Outage, Reserved, Retry, hours, millis, secs};
use semel_core::error::StoreError;

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

/// A store that can be taken away and given back.
#[derive(Default)]
struct Cable {
    is_cut: AtomicBool,
    tried: AtomicUsize,
}

#[async_trait::async_trait]
impl Intercept for Cable {
    async fn before(&self, _: &Call) -> Result<(), StoreError> {
        if !self.is_cut.load(Ordering::SeqCst) {
            return Ok(());
        }
        self.tried.fetch_add(1, Ordering::SeqCst);
        Err(StoreError::unavailable("asking a guard"))
    }

    async fn after(&self, _: &Call) -> Result<(), StoreError> {
        Ok(())
    }
}

async fn on_a_cable() -> (Client, Arc<Cable>) {
    let store = semel::connect("memory:").await.unwrap().store().clone();
    let cable = Arc::new(Cable::default());
    let retry = Retry {
        attempts: 3,
        first: millis(1),
        longest: millis(2),
    };
    let intercepted = Arc::new(InterceptedStore::new(store, cable.clone()));
    let jobs = semel::connect_to(intercepted).retry(retry).await.unwrap();
    (jobs, cable)
}

/// Out of reach means refused, after a bounded number of tries; only a queue that asked for it by name goes on, and all
/// of that is counted, written down and set right.
#[tokio::test]
async fn in_an_outage_work_is_refused_unless_its_queue_asked_to_go_on() {
    let (jobs, cable) = on_a_cable().await;
    let guard = jobs.guard();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("unguarded.jsonl");
    let outage = Outage::journal(&file).unwrap().warn_and_continue("mail");
    let send = async |queue: &str, key: &str, output: Result<u8, &'static str>| {
        guard
            .once_or_unguarded(&outage, queue, key, hours(1), async || output)
            .await
    };
    assert!(matches!(
        send("mail", "sent before", Ok(1)).await,
        Ok(Once::Ran(1))
    ));

    cable.is_cut.store(true, Ordering::SeqCst);
    let refused = send("payments", "p", Ok(9)).await;
    assert!(
        matches!(refused, Err(Error::StoreUnavailable { .. })),
        "{refused:?}"
    );
    assert_eq!(
        cable.tried.load(Ordering::SeqCst),
        3,
        "tried a bounded number of times"
    );
    assert!(matches!(
        send("mail", "sent before", Ok(2)).await,
        Ok(Once::Unguarded(Ok(2)))
    ));
    assert!(matches!(
        send("mail", "new", Ok(3)).await,
        Ok(Once::Unguarded(Ok(3)))
    ));
    assert!(matches!(
        send("mail", "new", Ok(4)).await,
        Ok(Once::Unguarded(Ok(4)))
    ));
    assert!(matches!(
        send("mail", "broken", Err("no")).await,
        Ok(Once::Unguarded(Err("no")))
    ));
    assert_eq!(outage.ran_unguarded(), 4);

    assert!(guard.reconcile(&outage).await.is_err(), "the store is still away");
    cable.is_cut.store(false, Ordering::SeqCst);
    // Another process can do it as well: what counts is the journal.
    let later = Outage::journal(&file).unwrap();
    let found = guard.reconcile(&later).await.unwrap();
    assert_eq!(found.once, ["new"]);
    assert_eq!(found.duplicates, ["sent before", "new"]);
    assert_eq!(found.in_doubt, ["broken"]);
    assert_eq!(
        guard.reconcile(&later).await.unwrap(),
        semel::Reconciled::default(),
        "once is enough"
    );
    assert!(
        matches!(send("mail", "new", Ok(5)).await, Ok(Once::Before(3))),
        "the first answer stands"
    );
    assert!(matches!(
        send("mail", "broken", Ok(5)).await,
        Ok(Once::InProgress)
    ));
}

/// A store that has heard, and whose replies are lost.
#[derive(Default)]
struct Deaf {
    loses_replies: AtomicBool,
}

#[async_trait::async_trait]
impl Intercept for Deaf {
    async fn before(&self, _: &Call) -> Result<(), StoreError> {
        Ok(())
    }

    async fn after(&self, _: &Call) -> Result<(), StoreError> {
        match self.loses_replies.load(Ordering::SeqCst) {
            true => Err(StoreError::unavailable("asking a guard")),
            false => Ok(()),
        }
    }
}

/// The reservation was made, only its reply was lost: the run without a guard is the only one, no duplicate of itself.
#[tokio::test]
async fn a_run_whose_own_reservation_was_made_is_no_duplicate() {
    let store = semel::connect("memory:").await.unwrap().store().clone();
    let deaf = Arc::new(Deaf::default());
    let intercepted = Arc::new(InterceptedStore::new(store, deaf.clone()));
    let jobs = semel::connect_to(intercepted)
        .retry(Retry::never())
        .await
        .unwrap();
    let guard = jobs.guard();
    let dir = tempfile::tempdir().unwrap();
    let outage = Outage::journal(dir.path().join("unguarded.jsonl"))
        .unwrap()
        .warn_and_continue("mail");
    deaf.loses_replies.store(true, Ordering::SeqCst);
    let sent = guard
        .once_or_unguarded(&outage, "mail", "k", hours(1), async || Ok::<u8, &str>(7))
        .await;
    assert!(matches!(sent, Ok(Once::Unguarded(Ok(7)))), "{sent:?}");
    // Set right, but the reply to that is lost as well, and whoever did it is gone.
    assert!(guard.reconcile(&outage).await.is_err());
    deaf.loses_replies.store(false, Ordering::SeqCst);
    let found = guard.reconcile(&outage).await.unwrap();
    assert_eq!((found.once, found.duplicates.len()), (vec!["k".to_owned()], 0));
    let again = guard
        .once("k", hours(1), async || Ok::<u8, &str>(8))
        .await
        .unwrap();
    assert!(matches!(again, Once::Before(7)), "{again:?}");
}

/// Killed after the answer was kept and before the journal said so: the next one finds its own answer.
#[tokio::test]
async fn a_reconciliation_that_was_cut_off_is_gone_through_again() {
    let (jobs, cable) = on_a_cable().await;
    let guard = jobs.guard();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("unguarded.jsonl");
    let outage = Outage::journal(&file).unwrap().warn_and_continue("mail");
    cable.is_cut.store(true, Ordering::SeqCst);
    let sent = guard
        .once_or_unguarded(&outage, "mail", "k", hours(1), async || Ok::<u8, &str>(7))
        .await;
    assert!(matches!(sent, Ok(Once::Unguarded(Ok(7)))), "{sent:?}");
    cable.is_cut.store(false, Ordering::SeqCst);
    let before = std::fs::read(&file).unwrap();
    assert_eq!(guard.reconcile(&outage).await.unwrap().once, ["k"]);
    // As if the last line had never reached the disk, but half of one had, and somebody has written since.
    std::fs::write(&file, [&before[..], b"\n{\"reconciled\":{\"ru\xff"].concat()).unwrap();
    let outage = Outage::journal(&file).unwrap().warn_and_continue("mail");
    cable.is_cut.store(true, Ordering::SeqCst);
    let other = guard
        .once_or_unguarded(&outage, "mail", "other", hours(1), async || Ok::<u8, &str>(8))
        .await;
    assert!(matches!(other, Ok(Once::Unguarded(Ok(8)))), "{other:?}");
    cable.is_cut.store(false, Ordering::SeqCst);
    let found = guard.reconcile(&outage).await.unwrap();
    assert_eq!(
        (found.once, found.duplicates),
        (vec!["k".to_owned(), "other".to_owned()], vec![])
    );
}

/// The effect takes longer than the outage: who reconciles meanwhile finds it in doubt, and afterwards finds its answer.
#[tokio::test]
async fn a_run_that_was_still_going_is_set_right_once_it_has_ended() {
    let (jobs, cable) = on_a_cable().await;
    let guard = jobs.guard();
    let dir = tempfile::tempdir().unwrap();
    let outage = Outage::journal(dir.path().join("unguarded.jsonl"))
        .unwrap()
        .warn_and_continue("mail");
    cable.is_cut.store(true, Ordering::SeqCst);
    let slowly = async || {
        cable.is_cut.store(false, Ordering::SeqCst);
        let early = guard.reconcile(&outage).await.unwrap();
        assert_eq!((early.once.len(), early.in_doubt), (0, vec!["k".to_owned()]));
        Ok::<u8, &str>(7)
    };
    let sent = guard
        .once_or_unguarded(&outage, "mail", "k", hours(1), slowly)
        .await;
    assert!(matches!(sent, Ok(Once::Unguarded(Ok(7)))), "{sent:?}");
    let found = guard.reconcile(&outage).await.unwrap();
    assert_eq!(
        (found.once, found.duplicates, found.in_doubt),
        (vec!["k".to_owned()], vec![], vec![])
    );
    assert_eq!(
        guard.reconcile(&outage).await.unwrap(),
        semel::Reconciled::default()
    );
    let again = guard.once("k", hours(1), async || Ok::<u8, &str>(8)).await;
    assert!(matches!(again, Ok(Once::Before(7))), "{again:?}");
}

/// It ended after it was looked at, and before that was written down: as two processes can have it.
#[tokio::test]
async fn an_end_that_is_written_while_somebody_reconciles_is_not_overlooked() {
    let (jobs, cable) = on_a_cable().await;
    let guard = jobs.guard();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("unguarded.jsonl");
    let outage = Outage::journal(&file).unwrap().warn_and_continue("mail");
    cable.is_cut.store(true, Ordering::SeqCst);
    let send = guard.once_or_unguarded(&outage, "mail", "k", hours(1), async || Ok::<u8, &str>(7));
    assert!(matches!(send.await, Ok(Once::Unguarded(Ok(7)))));
    cable.is_cut.store(false, Ordering::SeqCst);
    let text = std::fs::read_to_string(&file).unwrap();
    let begun = text.lines().find(|line| line.contains("begun")).unwrap();
    let line: serde_json::Value = serde_json::from_str(begun).unwrap();
    let late = serde_json::json!({"reconciled": {"run": line["begun"]["run"], "in_doubt": true}});
    std::fs::write(&file, format!("{text}\n{late}\n")).unwrap();
    let found = guard.reconcile(&Outage::journal(&file).unwrap()).await.unwrap();
    assert_eq!(found.once, ["k"]);
}

/// The line is cut after the key was reserved, so that the answer finds nobody.
async fn charge_and_cut(cable: &Cable) -> Result<u8, &'static str> {
    cable.is_cut.store(true, Ordering::SeqCst);
    Ok(7)
}

/// A retryable error here would say: do it again.
#[tokio::test]
async fn what_was_done_and_could_not_be_kept_is_said_to_have_been_done() {
    let (jobs, cable) = on_a_cable().await;
    let guard = jobs.guard();
    let dir = tempfile::tempdir().unwrap();
    let outage = Outage::journal(dir.path().join("unguarded.jsonl")).unwrap();
    for (key, refused) in [
        (
            "a",
            guard
                .once("a", hours(1), async || charge_and_cut(&cable).await)
                .await,
        ),
        ("b", {
            cable.is_cut.store(false, Ordering::SeqCst);
            let charge = async || charge_and_cut(&cable).await;
            guard
                .once_or_unguarded(&outage, "payments", "b", hours(1), charge)
                .await
        }),
    ] {
        let error = refused.unwrap_err();
        assert!(!error.is_retryable(), "{error}");
        let Error::DoneButNotKept {
            key: of,
            output,
            source,
        } = error
        else {
            panic!("{error:?}");
        };
        assert_eq!((of.as_str(), output.unwrap().as_str()), (key, "7"));
        assert!(matches!(*source, Error::StoreUnavailable { .. }), "{source:?}");
    }
    assert_eq!(outage.ran_unguarded(), 0, "its queue did not ask for it");
    cable.is_cut.store(false, Ordering::SeqCst);
    let again = guard.once("a", hours(1), async || Ok::<u8, &str>(8)).await;
    assert!(matches!(again, Ok(Once::InProgress)), "{again:?}");
    // One that is too large to be kept was done as well.
    let large = async || Ok::<_, &str>("x".repeat(300_000));
    let error = guard.once("large", hours(1), large).await.unwrap_err();
    assert!(
        matches!(error, Error::DoneButNotKept { output: None, .. }),
        "{error:?}"
    );
}

#[tokio::test]
async fn what_could_not_be_kept_in_an_outage_is_kept_after_it() {
    let (jobs, cable) = on_a_cable().await;
    let guard = jobs.guard();
    let dir = tempfile::tempdir().unwrap();
    let outage = Outage::journal(dir.path().join("unguarded.jsonl"))
        .unwrap()
        .warn_and_continue("mail");
    let charge = async || charge_and_cut(&cable).await;
    let sent = guard
        .once_or_unguarded(&outage, "mail", "k", hours(1), charge)
        .await;
    assert!(matches!(sent, Ok(Once::Unguarded(Ok(7)))), "{sent:?}");
    assert_eq!(outage.ran_unguarded(), 1);
    cable.is_cut.store(false, Ordering::SeqCst);
    let early = guard.once("k", hours(1), async || Ok::<u8, &str>(8)).await;
    assert!(
        matches!(early, Ok(Once::InProgress)),
        "its reservation holds: {early:?}"
    );
    let found = guard.reconcile(&outage).await.unwrap();
    assert_eq!((found.once, found.duplicates), (vec!["k".to_owned()], vec![]));
    let again = guard.once("k", hours(1), async || Ok::<u8, &str>(8)).await;
    assert!(matches!(again, Ok(Once::Before(7))), "{again:?}");
}

/// The count outlives the process, the lines do not outlive their use.
#[tokio::test]
async fn a_journal_of_which_nothing_is_open_is_emptied_and_still_counts() {
    let (jobs, cable) = on_a_cable().await;
    let guard = jobs.guard();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("unguarded.jsonl");
    let size = || std::fs::metadata(&file).unwrap().len();
    let open = || Outage::journal(&file).unwrap().warn_and_continue("mail");
    let send = async |outage: &Outage, key: &str, ttl, output: Result<String, &'static str>| {
        cable.is_cut.store(true, Ordering::SeqCst);
        let sent = guard
            .once_or_unguarded(outage, "mail", key, ttl, async || output)
            .await;
        assert!(matches!(sent, Ok(Once::Unguarded(_))), "{sent:?}");
        cable.is_cut.store(false, Ordering::SeqCst);
    };
    for run in 1..=3 {
        let outage = open();
        send(&outage, &format!("k{run}"), hours(1), Ok("x".repeat(1_000))).await;
        assert_eq!(open().ran_unguarded(), run, "whoever opens it");
        // Another process has it open meanwhile, and writes after it was emptied.
        let other = open();
        assert_eq!(guard.reconcile(&outage).await.unwrap().once.len(), 1);
        assert!(size() < 100, "{} bytes", size());
        assert_eq!(other.ran_unguarded(), run);
    }
    let (one, other) = (open(), open());
    send(&one, "failed", secs(2), Err("no")).await;
    assert_eq!(guard.reconcile(&one).await.unwrap().in_doubt, ["failed"]);
    assert!(size() > 100, "it may be going on");
    tokio::time::sleep(millis(2_100)).await;
    send(&other, "k4", hours(1), Ok("x".repeat(262_100))).await;
    assert_eq!(guard.reconcile(&one).await.unwrap().once, ["k4"]);
    assert!(size() < 100, "{} bytes", size());
    assert_eq!(open().ran_unguarded(), 5);
}
