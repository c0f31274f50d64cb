//! Files broken by hand: the doctor names the invariant, the rest of the store goes on meanwhile, a repair makes it
//! whole.

mod stage;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use semel_conformance::kit;
use semel_core::dedup::Dedup;
use semel_core::ids::JobId;
use semel_core::job::State;
use semel_core::store::{Control as _, Finding, Inspect as _, Store as _};
use semel_core::submission::Submission;
use semel_sqlite::{Options, SqliteStore, Synchronous};
use tempfile::TempDir;

use stage::{accept, all_jobs, assert_sound, claim_of, into_queue, plain_connection, run_one};

/// A store, and the file it lies in.
struct Patient {
    store: Arc<SqliteStore>,
    path: PathBuf,
    _directory: TempDir,
}

impl Patient {
    fn new() -> Self {
        Self::with(Synchronous::Off)
    }

    fn with(synchronous: Synchronous) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("jobs.db");
        let options = Options {
            synchronous,
            ..Options::new(&path)
        };
        let store = Arc::new(SqliteStore::open(options).expect("the store opens"));
        Patient {
            store,
            path,
            _directory: directory,
        }
    }

    /// Breaks the file; how many rows that took.
    async fn break_by(&self, sql: &str) -> usize {
        // Whoever looks has everything in its place.
        self.store.stats().await.expect("a look");
        let connection: Connection = plain_connection(&self.path);
        let rows = connection.execute(sql, []).expect("the file can be broken");
        assert!(rows > 0, "{sql} broke nothing");
        rows
    }

    async fn look(&self) -> Vec<Finding> {
        self.store.doctor(false).await.expect("the doctor can look")
    }

    /// Looks, which must name exactly these invariants and repair nothing.
    async fn assert_found(&self, invariants: &[&str]) {
        let findings = self.look().await;
        let mut found: Vec<&str> = findings.iter().map(|finding| finding.invariant).collect();
        found.dedup();
        assert_eq!(found, invariants, "{findings:#?}");
        assert!(
            findings
                .iter()
                .all(|finding| !finding.repaired && !finding.what.is_empty())
        );
        assert_eq!(self.look().await, findings, "looking repairs nothing");
    }

    /// Repairs, after which nothing is left to be found.
    async fn repair(&self) -> Vec<Finding> {
        let findings = self.store.doctor(true).await.expect("the doctor can repair");
        assert!(!findings.is_empty());
        assert!(findings.iter().all(|finding| finding.repaired), "{findings:#?}");
        assert_sound(&self.store).await;
        findings
    }

    async fn state(&self, id: &JobId) -> Option<State> {
        let jobs = self
            .store
            .jobs_by_id(std::slice::from_ref(id))
            .await
            .expect("a look");
        jobs[0].as_ref().map(|job| job.state)
    }

    /// Other work goes on: a job of another queue comes and goes.
    async fn assert_others_work(&self) {
        let id = accept(&self.store, into_queue("other", "{}")).await;
        assert_eq!(run_one(&self.store, "other").await, id);
        assert_eq!(self.state(&id).await, Some(State::Complete));
    }

    /// Everything that waits in the queue `sick` runs; the ids in order.
    async fn run_all(&self) -> Vec<JobId> {
        let mut ids = Vec::new();
        loop {
            let claims = self
                .store
                .claim(claim_of(&["sick"], 10))
                .await
                .expect("the store hands out work");
            if claims.is_empty() {
                return ids;
            }
            for claimed in claims {
                stage::complete(&self.store, &claimed).await;
                ids.push(claimed.job.id);
            }
        }
    }
}

fn sick() -> Submission {
    into_queue("sick", "{}")
}

fn sick_with_key(key: &str) -> Submission {
    Submission {
        queue: kit::name("sick"),
        ..kit::with(Dedup::explicit(key))
    }
}

#[tokio::test]
async fn a_sound_file_has_nothing_to_be_found() {
    let patient = Patient::new();
    assert_sound(&patient.store).await;
    accept(&patient.store, sick()).await;
    accept(&patient.store, sick_with_key("k")).await;
    patient.run_all().await;
    assert_sound(&patient.store).await;
    assert_eq!(patient.store.doctor(true).await.unwrap(), Vec::new());
}

#[tokio::test]
async fn a_waiting_job_without_its_place_gets_it_back() {
    let patient = Patient::new();
    let first = accept(&patient.store, sick()).await;
    let second = accept(&patient.store, sick()).await;
    patient
        .break_by("DELETE FROM ready WHERE seq = (SELECT min(seq) FROM ready)")
        .await;
    patient.assert_found(&["I2"]).await;
    patient.assert_others_work().await;
    assert_eq!(
        run_one(&patient.store, "sick").await,
        second,
        "the job without a place is passed over"
    );
    patient.repair().await;
    assert_eq!(patient.run_all().await, [first]);
    assert_sound(&patient.store).await;
}

#[tokio::test]
async fn a_place_without_a_job_is_taken_away() {
    let patient = Patient::new();
    let id = accept(&patient.store, sick()).await;
    patient
        .break_by("INSERT INTO ready SELECT lane, nprio, run_at - 1, seq + 1000 FROM ready")
        .await;
    patient.assert_found(&["I8"]).await;
    patient.assert_others_work().await;
    patient.repair().await;
    assert_eq!(patient.run_all().await, [id]);
    assert_sound(&patient.store).await;
}

/// The place leads to a job that has ended: whoever is given it must not run it once more (contract 1.3).
#[tokio::test]
async fn a_place_that_leads_to_a_finished_job_does_not_run_it_again() {
    let patient = Patient::new();
    let done = accept(&patient.store, sick()).await;
    assert_eq!(patient.run_all().await, std::slice::from_ref(&done));
    patient
        .break_by("INSERT INTO ready SELECT lane, nprio, run_at, seq FROM life")
        .await;
    patient.break_by("UPDATE lane SET waiting = waiting + 1").await;
    let claims = patient.store.claim(claim_of(&["sick"], 1)).await;
    assert!(
        !claims.is_ok_and(|claims| !claims.is_empty()),
        "a finished job is handed out"
    );
    assert_eq!(patient.state(&done).await, Some(State::Complete));
    // The claim has taken the stray place away; the number of waiting jobs is still wrong.
    patient.assert_found(&["I25"]).await;
    patient.repair().await;
    assert_eq!(patient.run_all().await, []);
}

#[tokio::test]
async fn a_key_whose_job_is_gone_is_free_again() {
    let patient = Patient::new();
    let gone = accept(&patient.store, sick_with_key("k")).await;
    let kept = accept(&patient.store, sick_with_key("other")).await;
    patient
        .break_by("DELETE FROM job WHERE seq = (SELECT min(seq) FROM job)")
        .await;
    patient.assert_found(&["I13", "I25"]).await;
    patient.assert_others_work().await;
    patient.repair().await;
    assert_eq!(patient.state(&gone).await, None);
    let fresh = accept(&patient.store, sick_with_key("k")).await;
    assert_eq!(patient.run_all().await, [kept, fresh]);
    assert_sound(&patient.store).await;
    let jobs = all_jobs(&patient.store).await;
    assert_eq!(jobs.len(), 3, "two in `sick`, one in `other`");
}

#[tokio::test]
async fn a_job_whose_life_is_gone_is_taken_away() {
    let patient = Patient::new();
    accept(&patient.store, sick_with_key("k")).await;
    let kept = accept(&patient.store, sick()).await;
    patient
        .break_by("DELETE FROM life WHERE seq = (SELECT min(seq) FROM life)")
        .await;
    let findings = patient.look().await;
    assert!(
        findings.iter().any(|finding| finding.invariant == "I13"),
        "{findings:#?}"
    );
    patient.assert_others_work().await;
    patient.repair().await;
    let fresh = accept(&patient.store, sick_with_key("k")).await;
    assert_eq!(patient.run_all().await, [kept, fresh]);
    assert_sound(&patient.store).await;
}

#[tokio::test]
async fn wrong_numbers_of_a_lane_are_counted_again() {
    let patient = Patient::new();
    let ids = [
        accept(&patient.store, sick()).await,
        accept(&patient.store, sick()).await,
    ];
    patient.break_by("UPDATE lane SET waiting = 0, failed = 7").await;
    patient.assert_found(&["I25"]).await;
    patient.assert_others_work().await;
    patient.repair().await;
    let stats = patient.store.stats().await.unwrap();
    assert_eq!(stats.jobs.get(&State::Queued), Some(&2));
    assert_eq!(stats.jobs.get(&State::Failed), None);
    assert_eq!(patient.run_all().await, ids);
    assert_sound(&patient.store).await;
}

#[tokio::test]
async fn a_running_job_whose_lease_is_gone_runs_again() {
    let patient = Patient::new();
    let id = accept(&patient.store, sick()).await;
    let lost = patient
        .store
        .claim(claim_of(&["sick"], 1))
        .await
        .unwrap()
        .remove(0);
    patient.break_by("DELETE FROM lease").await;
    patient.assert_found(&["I11"]).await;
    patient.assert_others_work().await;
    patient.repair().await;
    assert_eq!(patient.state(&id).await, Some(State::Queued));
    let again = patient
        .store
        .claim(claim_of(&["sick"], 1))
        .await
        .unwrap()
        .remove(0);
    assert_eq!(again.job.id, id);
    assert!(again.fence > lost.fence, "whoever had it before is turned away");
    stage::complete(&patient.store, &again).await;
    assert_sound(&patient.store).await;
}

#[tokio::test]
async fn everything_broken_at_once_is_whole_after_one_repair() {
    let patient = Patient::new();
    for n in 0..20 {
        accept(&patient.store, sick()).await;
        accept(&patient.store, sick_with_key(&format!("k{n}"))).await;
    }
    patient.store.claim(claim_of(&["sick"], 5)).await.unwrap();
    patient.break_by("DELETE FROM ready WHERE seq % 7 = 0").await;
    patient
        .break_by("INSERT INTO ready SELECT lane, nprio, run_at, seq + 5000 FROM ready WHERE seq % 5 = 0")
        .await;
    patient.break_by("DELETE FROM job WHERE seq % 11 = 0").await;
    patient.break_by("DELETE FROM life WHERE seq % 13 = 0").await;
    patient.break_by("DELETE FROM lease").await;
    patient.break_by("UPDATE lane SET waiting = waiting + 3").await;
    patient.repair().await;
    let there = all_jobs(&patient.store).await.len();
    assert_eq!(patient.run_all().await.len(), there);
    assert_sound(&patient.store).await;
}

/// A repair shares its commit with whatever else is being called: neither may spoil the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repair_in_the_middle_of_work_finds_and_spoils_nothing() {
    // While a commit is synced the next calls queue up, so that they share one.
    let patient = Patient::with(Synchronous::Full);
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..10 {
        let store = patient.store.clone();
        calls.spawn(async move {
            let mut findings = Vec::new();
            for _ in 0..40 {
                if n < 2 {
                    // So that it comes behind others into their commit.
                    tokio::time::sleep(Duration::from_micros(500)).await;
                    findings.extend(store.doctor(true).await.expect("the doctor can repair"));
                } else {
                    accept(&store, sick()).await;
                }
            }
            findings
        });
    }
    let findings: Vec<Finding> = calls.join_all().await.into_iter().flatten().collect();
    let stats = patient.store.stats().await.unwrap();
    assert_eq!(stats.jobs.get(&State::Queued), Some(&320), "{findings:#?}");
    assert_sound(&patient.store).await;
    assert!(findings.is_empty(), "{findings:#?}");
}
