//! Jobs and absorbed submissions that only the newest rows tell of: whoever asks, and however, is answered as if they
//! were in every index already.

mod stage;

use std::path::Path;

use semel_conformance::kit;
use semel_core::dedup::Dedup;
use semel_core::ids::JobId;
use semel_core::job::{Outcome, State};
use semel_core::store::{
    Control as _, Inspect as _, LedgerFilter, Page, Retention, Store as _, UpkeepRequest,
};
use semel_core::submission::{RunAt, Submission};
use semel_core::time::Millis;
use semel_sqlite::{Options, SqliteStore, Synchronous};
use tempfile::tempdir;

use stage::{accept, accepted, assert_sound, claim_of, complete, plain_connection};

fn open(path: &Path) -> SqliteStore {
    let options = Options {
        synchronous: Synchronous::Off,
        ..Options::new(path)
    };
    SqliteStore::open(options).expect("the store opens")
}

fn count(path: &Path, sql: &str) -> i64 {
    let connection = plain_connection(path);
    connection.query_row(sql, [], |row| row.get(0)).expect("a number")
}

async fn ids(store: &SqliteStore, max: usize) -> Vec<JobId> {
    let claims = store.claim(claim_of(&[], max)).await.expect("a claim");
    claims.into_iter().map(|claimed| claimed.job.id).collect()
}

/// The premise of this file: without it every case below would show nothing.
#[tokio::test]
async fn a_job_by_itself_is_a_row_of_its_own_until_somebody_looks() {
    let directory = tempdir().expect("a directory");
    let path = directory.path().join("jobs.db");
    let store = open(&path);
    accept(&store, kit::plain()).await;
    assert_eq!(count(&path, "SELECT count(*) FROM job"), 1);
    assert_eq!(count(&path, "SELECT count(*) FROM life"), 0);
    assert_sound(&store).await;
    let stats = store.stats().await.expect("counters");
    assert_eq!(stats.jobs.get(&State::Queued), Some(&1));
    assert_eq!(count(&path, "SELECT count(*) FROM life"), 1);
    assert_eq!(count(&path, "SELECT count(*) FROM ready"), 1);
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_job_that_is_claimed_at_once_never_has_a_place() {
    let directory = tempdir().expect("a directory");
    let path = directory.path().join("jobs.db");
    let store = open(&path);
    let id = accept(&store, kit::plain()).await;
    let claims = store.claim(claim_of(&[], 10)).await.expect("a claim");
    assert_eq!(claims.len(), 1);
    assert_eq!(claims[0].job.id, id);
    assert_eq!(count(&path, "SELECT count(*) FROM ready"), 0);
    assert_sound(&store).await;
    complete(&store, &claims[0]).await;
    assert_sound(&store).await;
    assert_eq!(
        store.jobs_by_id(&[id]).await.expect("a look")[0]
            .as_ref()
            .map(|job| job.state),
        Some(State::Complete)
    );
}

#[tokio::test]
async fn jobs_with_and_without_a_place_go_out_in_one_order() {
    let directory = tempdir().expect("a directory");
    let store = open(&directory.path().join("jobs.db"));
    let urgent = |priority: i8| Submission {
        priority,
        ..kit::plain()
    };
    let placed = [accept(&store, urgent(0)).await, accept(&store, urgent(5)).await];
    store.stats().await.expect("a look");
    let newborn = [accept(&store, urgent(5)).await, accept(&store, urgent(9)).await];
    let later = Submission {
        run_at: RunAt::After(Millis::from_days(1)),
        ..kit::plain()
    };
    let later = accept(&store, later).await;
    let other = accept(&store, stage::into_queue("other", "{}")).await;
    let first = ids(&store, 2).await;
    assert_eq!(first, [newborn[1].clone(), placed[1].clone()]);
    let rest = ids(&store, 10).await;
    assert_eq!(rest, [newborn[0].clone(), placed[0].clone(), other]);
    assert_sound(&store).await;
    let jobs = store.jobs_by_id(&[later]).await.expect("a look");
    assert_eq!(jobs[0].as_ref().map(|job| job.state), Some(State::Scheduled));
}

/// Two handles on one file are two processes as far as the store can tell.
#[tokio::test]
async fn another_process_reads_claims_and_counts_what_this_one_has_just_written() {
    let directory = tempdir().expect("a directory");
    let path = directory.path().join("jobs.db");
    let (ours, theirs) = (open(&path), open(&path));
    let key = || kit::with(Dedup::explicit("k"));
    let id = accept(&ours, key()).await;
    let jobs = theirs
        .jobs_by_id(std::slice::from_ref(&id))
        .await
        .expect("a look");
    assert_eq!(jobs[0].as_ref().map(|job| job.state), Some(State::Queued));
    let second = accept(&ours, kit::plain()).await;
    let answers = theirs.submit(vec![key()]).await.expect("an answer");
    assert_eq!(answers[0].outcome(), Some(Outcome::Duplicate));
    assert_eq!(answers[0].id(), Some(&id));
    assert_eq!(ids(&theirs, 10).await, [id, second.clone()]);
    assert_eq!(ids(&ours, 10).await, []);
    let third = accept(&theirs, kit::plain()).await;
    assert_eq!(ids(&ours, 10).await, [third]);
    for store in [&ours, &theirs] {
        assert_sound(store).await;
        let stats = store.stats().await.expect("counters");
        assert_eq!(stats.jobs.get(&State::Running), Some(&3));
        assert_eq!(stats.active_keys, 1);
    }
}

#[tokio::test]
async fn a_repeated_token_gets_its_first_answer_before_and_after_the_file_is_opened_again() {
    let directory = tempdir().expect("a directory");
    let path = directory.path().join("jobs.db");
    let first = kit::with(Dedup::explicit("k"));
    let again = kit::with(Dedup::explicit("k"));
    let plain = kit::plain();
    let all = [first, again, plain];
    let mut answers = Vec::new();
    for opened in 0..3 {
        let store = open(&path);
        for round in 0..2 {
            for (at, submission) in all.iter().enumerate() {
                let given = store.submit(vec![submission.clone()]).await.expect("an answer");
                let answer = (given[0].outcome(), given[0].id().cloned());
                if (opened, round) == (0, 0) {
                    answers.push(answer);
                } else {
                    assert_eq!(
                        answer, answers[at],
                        "opened {opened} times, round {round}, number {at}"
                    );
                }
            }
        }
        let upkeep = UpkeepRequest {
            retention: Retention::default(),
            ..UpkeepRequest::default()
        };
        if opened == 1 {
            store.upkeep(upkeep).await.expect("upkeep");
        }
        let ledger = store
            .ledger(LedgerFilter::default(), Page::first(10))
            .await
            .expect("the ledger");
        assert_eq!(ledger.items.len(), 1);
        assert_eq!(
            store
                .stats()
                .await
                .expect("counters")
                .totals
                .get(semel_core::counters::Counter::Duplicate),
            1
        );
        assert_sound(&store).await;
    }
    assert_eq!(answers[1].0, Some(Outcome::Duplicate));
    assert_eq!(answers[1].1, answers[0].1);
}

/// More than are left to be entered later, and more tokens of duplicates than are known by heart.
#[tokio::test]
async fn nothing_is_lost_on_the_way_into_the_indexes() {
    let directory = tempdir().expect("a directory");
    let path = directory.path().join("jobs.db");
    let (store, bystander) = (open(&path), open(&path));
    let mut jobs = Vec::new();
    for n in 0..5_000 {
        jobs.push(kit::with(Dedup::explicit(n.to_string())));
    }
    let mut first = Vec::new();
    for batch in jobs.chunks(20) {
        first.extend(
            store
                .submit(batch.to_vec())
                .await
                .expect("answers")
                .iter()
                .map(accepted),
        );
    }
    let again = |n: usize| kit::with(Dedup::explicit((n % 5_000).to_string()));
    let duplicates: Vec<Submission> = (0..70_000).map(again).collect();
    for batch in duplicates.chunks(1_000) {
        for answer in store.submit(batch.to_vec()).await.expect("answers") {
            assert_eq!(answer.outcome(), Some(Outcome::Duplicate));
        }
    }
    drop(store);
    let store = open(&path);
    for (store, whose) in [
        (&store, "one that read it all"),
        (&bystander, "one that was there"),
    ] {
        for at in [0, 1, 2_500, 65_000, 69_999] {
            let answers = store
                .submit(vec![duplicates[at].clone()])
                .await
                .expect("an answer");
            assert_eq!(answers[0].outcome(), Some(Outcome::Duplicate), "{whose}");
            assert_eq!(answers[0].id(), Some(&first[at % 5_000]), "{whose}");
        }
    }
    assert!(
        count(&path, "SELECT count(*) FROM token_run") > 0,
        "not all are known by heart"
    );
    let stats = store.stats().await.expect("counters");
    assert_eq!(stats.totals.get(semel_core::counters::Counter::Duplicate), 70_000);
    assert_eq!(stats.jobs.get(&State::Queued), Some(&5_000));
    let key = store.jobs_by_id(&first[..1]).await.expect("a look")[0]
        .clone()
        .and_then(|job| job.key);
    let digest = key.expect("a key").digest;
    let of_key = LedgerFilter {
        digest: Some(digest),
        ..LedgerFilter::default()
    };
    let before = store
        .ledger(of_key.clone(), Page::first(100))
        .await
        .expect("the ledger");
    assert_eq!(before.items.len(), 14);
    let request = UpkeepRequest {
        budget: 10_000,
        ..UpkeepRequest::default()
    };
    while store.upkeep(request).await.expect("upkeep").more {}
    let after = store.ledger(of_key, Page::first(100)).await.expect("the ledger");
    assert_eq!(after.items, before.items);
    assert_eq!(
        store.key(digest).await.expect("a key").map(|key| key.absorbed),
        Some(14)
    );
    assert_sound(&store).await;
}
