//! Disks that do not take what is written: full ones, failing ones.

use std::path::Path;
use std::sync::Arc;

use rusqlite::{Connection, OpenFlags};
use semel_conformance::kit;
use semel_core::counters::Counter;
use semel_core::error::StoreError;
use semel_core::ids::JobId;
use semel_core::job::State;
use semel_core::lifecycle::Settle;
use semel_core::store::{Claimed, Inspect as _, Settlement, Store as _};
use semel_core::submission::Submission;
use semel_powercut::{Fault, Vfs, install};
use semel_sqlite::{Options, SqliteStore};

use crate::stage::{Rng, accept, accepted, all_jobs, assert_sound, complete};

fn options(vfs: &Vfs, directory: &Path) -> Options {
    Options {
        vfs: Some(vfs.name().to_owned()),
        ..Options::new(directory.join("jobs.db"))
    }
}

/// Whether an error says what such a fault means: full, and nothing was applied; or unavailable, and send it again.
fn says(fault: Fault, error: &StoreError) -> bool {
    error.is_retryable()
        && match fault {
            Fault::Full => matches!(error, StoreError::Full { .. }),
            Fault::IoError => matches!(error, StoreError::Unavailable { .. }),
        }
}

/// What callers of a failing disk know.
#[derive(Default)]
struct Known {
    accepted: Vec<JobId>,
    refused: Vec<Submission>,
}

/// Submits until the disk has failed for a while: some are answered before.
async fn submit_until_refused(store: &Arc<SqliteStore>, rng: &mut Rng, fault: Fault) -> Known {
    let mut known = Known::default();
    for _ in 0..100 {
        let mut calls = tokio::task::JoinSet::new();
        for _ in 0..1 + rng.below(6) {
            let pad = "x".repeat(rng.below(3_000));
            let submission = kit::of("work", &format!(r#"{{"pad":"{pad}"}}"#));
            let store = store.clone();
            calls.spawn(async move { (store.submit(vec![submission.clone()]).await, submission) });
        }
        while let Some(answer) = calls.join_next().await {
            match answer.expect("no call panics") {
                (Ok(answers), _) => known.accepted.push(accepted(&answers[0])),
                (Err(error), submission) => {
                    assert!(says(fault, &error), "{error:?}");
                    known.refused.push(submission);
                }
            }
        }
        if known.refused.len() > 10 {
            return known;
        }
    }
    panic!("the disk never failed");
}

async fn assert_there(store: &SqliteStore, ids: &[JobId]) {
    let jobs = store.jobs_by_id(ids).await.expect("reading goes on");
    let missing = jobs.iter().filter(|job| job.is_none()).count();
    assert_eq!(missing, 0, "of {} answered jobs", ids.len());
}

fn completion(claimed: &Claimed) -> Settlement {
    let result = Settle::Complete { output: None };
    Settlement {
        id: claimed.job.id.clone(),
        fence: claimed.fence,
        result,
    }
}

/// One round: some work, a disk that fails at a random write, the same store again once it has recovered.
async fn fail_and_recover(vfs: &Vfs, rng: &mut Rng, fault: Fault) -> (usize, usize) {
    let directory = tempfile::tempdir().expect("a directory");
    let store = Arc::new(SqliteStore::open(options(vfs, directory.path())).expect("the store opens"));
    let mut ids = vec![
        accept(&store, kit::plain()).await,
        accept(&store, kit::plain()).await,
    ];
    let claimed = store
        .claim(kit::claim_request(1))
        .await
        .expect("the store answers")
        .remove(0);

    vfs.fail_writes_after(Some(1 + rng.next() % 40), fault);
    let known = submit_until_refused(&store, rng, fault).await;
    ids.extend(known.accepted.iter().cloned());
    assert_there(&store, &ids).await;
    let settled = store.settle(vec![completion(&claimed)]).await;
    let settled = settled.expect_err("an end has to be written down");
    let claim = store.claim(kit::claim_request(1)).await;
    let claim = claim.expect_err("a claim has to be written down too");
    assert!(
        says(fault, &settled) && says(fault, &claim),
        "{settled:?}, {claim:?}"
    );
    vfs.fail_writes_after(None, fault);

    // Nothing has to be opened again: the same tokens are sent once more, and the lease of before is still good.
    for submission in &known.refused {
        ids.push(accept(&store, submission.clone()).await);
    }
    complete(&store, &claimed).await;
    assert_there(&store, &ids).await;
    assert_sound(&store).await;
    let stats = store.stats().await.expect("the store counts");
    let accepted = usize::try_from(stats.raw.get(Counter::Accepted)).expect("a count");
    assert_eq!((accepted, all_jobs(&store).await.len()), (ids.len(), ids.len()));

    drop(store);
    let store = SqliteStore::open(options(vfs, directory.path())).expect("the store opens again");
    assert_there(&store, &ids).await;
    let first = store.jobs_by_id(&[claimed.job.id]).await.expect("a look")[0].clone();
    assert_eq!(first.map(|job| job.state), Some(State::Complete));
    (known.accepted.len(), known.refused.len())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_is_told_and_forgotten() {
    let (vfs, mut rng) = (install("bad-disk-full").unwrap(), Rng::new(7));
    let (mut answered, mut refused) = (0, 0);
    for _ in 0..25 {
        let round = fail_and_recover(&vfs, &mut rng, Fault::Full).await;
        (answered, refused) = (answered + round.0, refused + round.1);
    }
    eprintln!("full disk: 25 rounds, {answered} answered before it was full, {refused} told so, 0 lost");
    assert!(answered > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_disk_is_told_and_forgotten() {
    let (vfs, mut rng) = (install("bad-disk-error").unwrap(), Rng::new(8));
    let (mut answered, mut refused) = (0, 0);
    for _ in 0..25 {
        let round = fail_and_recover(&vfs, &mut rng, Fault::IoError).await;
        (answered, refused) = (answered + round.0, refused + round.1);
    }
    eprintln!("failing disk: 25 rounds, {answered} answered before it failed, {refused} told so, 0 lost");
    assert!(answered > 0);
}

/// The log is copied into the database file while the disk fails: what is not copied stays in the log.
#[tokio::test]
async fn a_checkpoint_onto_a_full_disk_loses_nothing() {
    let vfs = install("bad-checkpoint").unwrap();
    for nth in 1..12 {
        let directory = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(options(&vfs, directory.path())).unwrap();
        let mut ids = Vec::new();
        for _ in 0..30 {
            ids.push(accept(&store, kit::plain()).await);
        }
        let path = directory.path().join("jobs.db");
        let other = Connection::open_with_flags_and_vfs(path, OpenFlags::default(), vfs.name()).unwrap();
        vfs.fail_writes_after(Some(nth), Fault::Full);
        let checkpoint = other.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        vfs.fail_writes_after(None, Fault::Full);
        assert!(
            checkpoint.is_err() || nth > 5,
            "the disk did not fail at write {nth}"
        );
        ids.push(accept(&store, kit::plain()).await);
        assert_there(&store, &ids).await;
        assert_sound(&store).await;
    }
}

#[tokio::test]
async fn a_file_that_could_not_be_made_can_be_made_later() {
    let (vfs, mut refused) = (install("bad-opening").unwrap(), 0);
    for fault in [Fault::Full, Fault::IoError] {
        for nth in [1, 2, 3, 5, 8, 13, 21, 34] {
            let directory = tempfile::tempdir().unwrap();
            vfs.fail_writes_after(Some(nth), fault);
            let opened = SqliteStore::open(options(&vfs, directory.path()));
            if let Err(error) = &opened {
                assert!(says(fault, error), "write {nth}: {error:?}");
                refused += 1;
            }
            // Also a store that did open must not be left with half a file when the disk fails as it closes.
            drop(opened);
            vfs.fail_writes_after(None, fault);
            let store = SqliteStore::open(options(&vfs, directory.path())).unwrap();
            accept(&store, kit::plain()).await;
            assert_sound(&store).await;
        }
    }
    eprintln!("a disk that fails while a store is made: 16 tries, {refused} refused, 16 made afterwards");
    assert!(refused >= 8);
}
