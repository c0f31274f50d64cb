//! Power cuts under the store: a recorded load, the disks it could have left behind, and what is found on them.
//!
//! Several tasks submit, claim and settle on a store whose file lies on the recording VFS, while another connection
//! checkpoints now and then. Each answer is written down and marked in the recording *after* the call returned. A disk
//! after a cut is then opened as a store, and must show every answer that was marked before the cut.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use semel_conformance::kit;
use semel_core::counters::Counter;
use semel_core::dedup::Dedup;
use semel_core::ids::JobId;
use semel_core::job::{Outcome, State};
use semel_core::lifecycle::Settle;
use semel_core::store::{
    Claimed, Control as _, Inspect as _, LedgerFilter, Page, Settlement, Store as _, WriteOutcome,
};
use semel_core::submission::Submission;
use semel_core::view::{Job, Stats};
use semel_powercut::{Counts, Log, Recorder, Survive, Vfs, install};
use semel_sqlite::{Options, SqliteStore, Synchronous};
use tokio::sync::RwLock;

use crate::stage::{Rng, all_jobs};

const PRODUCERS: u64 = 4;
const WORKERS: u64 = 3;
const FILE: &str = "jobs.db";

/// Something the store has answered.
#[derive(Clone, Debug)]
enum Answer {
    /// This job has been admitted, with this input.
    Accepted { id: JobId, input: String },
    /// A submission was absorbed by this job.
    Absorbed { by: JobId },
    /// This job was leased under this fence.
    Leased { id: JobId, fence: i64 },
    /// This job has ended.
    Ended { id: JobId, state: State },
}

/// A recorded load: what reached the disk in which order, and what had been answered when.
pub struct Recording {
    log: Log,
    answers: Vec<Answer>,
    /// Writes and syncs of the load.
    pub counts: Counts,
    /// Checkpoints that moved something into the database file.
    pub checkpoints: usize,
}

/// The load while it runs.
struct Load {
    store: SqliteStore,
    recorder: Recorder,
    answers: Mutex<Vec<Answer>>,
    produced: AtomicUsize,
    submissions: usize,
    /// Held for reading during a call: whoever has it alone has the file alone.
    gate: RwLock<()>,
}

impl Load {
    /// Writes an answer down, then marks it: a cut behind the mark must not lose it.
    fn note(&self, answer: Answer) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.push(answer);
        let mark = answers.len() - 1;
        drop(answers);
        self.recorder.mark(mark as u64);
    }

    fn is_producing(&self) -> bool {
        self.produced.load(Ordering::SeqCst) < PRODUCERS as usize
    }
}

/// Runs a load of so many submissions under the recorder. `name` names the VFS: one per concurrent recording.
pub fn record(name: &str, seed: u64, synchronous: Synchronous, submissions: usize) -> Recording {
    let directory = tempfile::tempdir().expect("a directory");
    let vfs = install(name).expect("the recording VFS can be installed");
    let before = vfs.counts();
    let recorder = vfs.record(directory.path()).expect("a recording can begin");
    let options = Options {
        synchronous,
        vfs: Some(name.to_owned()),
        ..Options::new(directory.path().join(FILE))
    };
    let store = SqliteStore::open(options).expect("the store opens on the recording VFS");
    let load = Arc::new(Load {
        store,
        recorder,
        answers: Mutex::default(),
        produced: AtomicUsize::new(0),
        submissions: submissions / PRODUCERS as usize,
        gate: RwLock::default(),
    });
    let path = directory.path().join(FILE);
    let checkpoints = beside_checkpoints(&load, &vfs, &path, synchronous, || run(&load, seed));
    let load = Arc::into_inner(load).expect("every task of the load has ended");
    // Closing checkpoints too: cuts may fall into that.
    drop(load.store);
    Recording {
        log: load.recorder.stop(),
        answers: load.answers.into_inner().unwrap_or_else(PoisonError::into_inner),
        counts: vfs.counts().since(before),
        checkpoints,
    }
}

fn run(load: &Arc<Load>, seed: u64) {
    let runtime = runtime();
    runtime.block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        for n in 0..PRODUCERS {
            tasks.spawn(produce(load.clone(), Rng::new(seed << 8 | n)));
        }
        for n in 0..WORKERS {
            tasks.spawn(work(load.clone(), Rng::new(seed << 8 | 128 | n)));
        }
        while let Some(ended) = tasks.join_next().await {
            ended.expect("no task of the load panics");
        }
    });
}

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime can be made")
}

/// Submits, half of it under one of a few keys, one by one and in small batches.
async fn produce(load: Arc<Load>, mut rng: Rng) {
    let mut left = load.submissions;
    while left > 0 {
        let size = if rng.once_in(3) {
            (1 + rng.below(8)).min(left)
        } else {
            1
        };
        left -= size;
        let batch: Vec<Submission> = (0..size).map(|_| submission(&mut rng)).collect();
        let inputs: Vec<String> = batch
            .iter()
            .map(|one| one.content.input.as_str().to_owned())
            .collect();
        let _calling = load.gate.read().await;
        let answers = load.store.submit(batch).await.expect("the store answers");
        for (answer, input) in answers.iter().zip(inputs) {
            let id = answer.id().expect("every answer names a job").clone();
            load.note(match answer.outcome() {
                Some(Outcome::Accepted) => Answer::Accepted { id, input },
                _ => Answer::Absorbed { by: id },
            });
        }
    }
    load.produced.fetch_add(1, Ordering::SeqCst);
}

fn submission(rng: &mut Rng) -> Submission {
    // Some inputs go over several pages.
    let length = if rng.once_in(20) { 9_000 } else { rng.below(300) };
    let key = rng.below(20);
    match rng.below(4) {
        0 => kit::with(Dedup::explicit(format!("k{key}"))),
        1 => kit::with_input(Dedup::unique(), &format!(r#"{{"unique":{key}}}"#)),
        _ => kit::of(
            "work",
            &format!(r#"{{"n":{},"pad":"{}"}}"#, rng.next(), "x".repeat(length)),
        ),
    }
}

/// Claims and settles until everything was submitted and nothing is left.
async fn work(load: Arc<Load>, mut rng: Rng) {
    loop {
        let producing = load.is_producing();
        let request = kit::claim_request(1 + rng.below(6));
        let _calling = load.gate.read().await;
        let claims = load.store.claim(request).await.expect("the store answers");
        if claims.is_empty() && !producing {
            return;
        }
        for claimed in &claims {
            load.note(Answer::Leased {
                id: claimed.job.id.clone(),
                fence: claimed.fence,
            });
        }
        end(&load, &claims, &mut rng).await;
    }
}

async fn end(load: &Load, claims: &[Claimed], rng: &mut Rng) {
    let settle = |claimed: &Claimed, result| Settlement {
        id: claimed.job.id.clone(),
        fence: claimed.fence,
        result,
    };
    let batch: Vec<Settlement> = claims
        .iter()
        .map(|claimed| settle(claimed, ending(rng)))
        .collect();
    let outcomes = load.store.settle(batch).await.expect("the store answers");
    for (claimed, outcome) in claims.iter().zip(outcomes) {
        let id = claimed.job.id.clone();
        match outcome {
            WriteOutcome::Ok(state) if state.is_terminal() => load.note(Answer::Ended { id, state }),
            WriteOutcome::Ok(_) => {}
            other => panic!("nobody else has the lease, yet: {other:?}"),
        }
    }
}

fn ending(rng: &mut Rng) -> Settle {
    let error = "broken".to_owned();
    match rng.below(10) {
        0 => Settle::Fail { error },
        1 => Settle::Retry {
            error,
            delay: Some(kit::secs(0)),
        },
        2 => Settle::Cancel,
        _ => Settle::Complete {
            output: Some(kit::json(r#"{"done":true}"#)),
        },
    }
}

/// Does something while another connection checkpoints now and then; how many checkpoints moved something.
fn beside_checkpoints(
    load: &Load,
    vfs: &Vfs,
    path: &Path,
    synchronous: Synchronous,
    work: impl FnOnce(),
) -> usize {
    let connection = Connection::open_with_flags_and_vfs(path, OpenFlags::default(), vfs.name());
    let connection = connection.expect("another connection opens");
    let word = format!("{synchronous:?}");
    connection
        .pragma_update(None, "synchronous", word)
        .expect("a setting");
    // A checkpoint syncs: under NORMAL few of them leave much to be lost.
    let every = if synchronous == Synchronous::Full {
        100
    } else {
        1_000
    };
    let (done, moved) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Closed before the store: the last connection to close is the one that clears up.
            let connection = connection;
            // In the midst of commits, which it can copy but not take out of the log; and in a moment between two.
            let mut modes = ["PASSIVE", "RESTART", "PASSIVE", "TRUNCATE"].iter().cycle();
            let mut next = every;
            while !done.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_micros(200));
                if load.recorder.len() < next {
                    continue;
                }
                let mode = *modes.next().expect("a cycle does not end");
                let alone = (mode != "PASSIVE").then(|| load.gate.blocking_write());
                moved.fetch_add(usize::from(checkpoint(&connection, mode) > 0), Ordering::SeqCst);
                drop(alone);
                next = load.recorder.len() + every;
            }
        });
        work();
        done.store(true, Ordering::SeqCst);
    });
    moved.into_inner()
}

/// How many frames of the log are in the database file now; none if others were in the way.
fn checkpoint(connection: &Connection, mode: &str) -> i64 {
    let sql = format!("PRAGMA wal_checkpoint({mode})");
    let frames = |row: &rusqlite::Row<'_>| Ok((row.get::<_, bool>(0)?, row.get::<_, i64>(2)?));
    match connection.query_row(&sql, [], frames) {
        // What TRUNCATE has moved it does not count: nothing of it is left in the log.
        Ok((false, frames)) => frames.max(i64::from(mode == "TRUNCATE")),
        Ok((true, frames)) => frames,
        Err(_) => 0,
    }
}

/// What was found on one disk.
#[derive(Debug, Default)]
struct Verdict {
    /// Answers marked before the cut.
    answers: usize,
    /// Of these, those the disk knows nothing of.
    lost: usize,
    /// What contradicts itself, in words.
    unsound: Vec<String>,
    /// Whether the disk knows of more jobs than had been answered.
    ahead: bool,
}

/// The sum over many cuts.
#[derive(Debug, Default, Clone)]
pub struct Tally {
    /// Disks looked at.
    pub cuts: usize,
    /// Answers looked for, over all of them.
    pub answers: usize,
    /// Disks on which an answer is missing.
    pub lossy: usize,
    /// Answers missing, over all disks.
    pub lost: usize,
    /// Disks on which a call survived that had not been answered: it was in flight.
    pub ahead: usize,
    /// What contradicts itself, in words, with the cut it was found at.
    pub unsound: Vec<String>,
}

impl Tally {
    /// Adds the cuts of another recording.
    #[allow(dead_code)] // for campaigns over several recordings
    pub fn add(&mut self, other: Tally) {
        self.cuts += other.cuts;
        self.answers += other.answers;
        self.lossy += other.lossy;
        self.lost += other.lost;
        self.ahead += other.ahead;
        self.unsound.extend(other.unsound);
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} cuts, {} answers looked for: {} lost on {} disks, {} disks unsound, {} disks know of a call in flight",
            self.cuts,
            self.answers,
            self.lost,
            self.lossy,
            self.unsound.len(),
            self.ahead
        )
    }
}

impl Recording {
    /// The number of recorded writes, syncs, namings and marks.
    pub fn events(&self) -> usize {
        self.log.events()
    }

    /// How often the database file itself was synced, which is what a checkpoint ends with; and how often the log
    /// began anew after one.
    pub fn turns(&self) -> (usize, usize) {
        let log = format!("{:?}", self.log);
        let count = |what: String| log.matches(&what).count();
        (
            count(format!("sync {FILE} up")),
            count(format!("write {FILE}-wal at 0,")),
        )
    }

    /// Cuts the power at random moments.
    pub fn cut(&self, cuts: usize, seed: u64, survive: Survive) -> Tally {
        let runtime = runtime();
        let mut rng = Rng::new(seed);
        let mut tally = Tally::default();
        for _ in 0..cuts {
            let (at, seed) = (rng.below(self.events() + 1), rng.next());
            let verdict = self.judge(&runtime, at, seed, survive);
            tally.cuts += 1;
            tally.answers += verdict.answers;
            tally.lossy += usize::from(verdict.lost > 0);
            tally.lost += verdict.lost;
            tally.ahead += usize::from(verdict.ahead);
            if !verdict.unsound.is_empty() {
                let what = verdict.unsound.join("; ");
                tally
                    .unsound
                    .push(format!("cut {at}, seed {seed}, {survive:?}: {what}"));
            }
        }
        tally
    }

    fn judge(&self, runtime: &tokio::runtime::Runtime, cut: usize, seed: u64, survive: Survive) -> Verdict {
        let directory = tempfile::tempdir().expect("a directory");
        let image = self.log.image(cut, seed, survive);
        image.write_to(directory.path()).expect("an image can be written");
        let answers: Vec<&Answer> = self
            .log
            .marks_before(cut)
            .into_iter()
            .map(|mark| &self.answers[mark as usize])
            .collect();
        let mut verdict = Verdict {
            answers: answers.len(),
            ..Verdict::default()
        };
        let options = Options {
            synchronous: Synchronous::Off,
            ..Options::new(directory.path().join(FILE))
        };
        match SqliteStore::open(options) {
            Ok(store) => runtime.block_on(examine(&store, &answers, &mut verdict)),
            Err(error) => verdict.unsound.push(format!("does not open: {error}")),
        }
        verdict
    }
}

async fn examine(store: &SqliteStore, answers: &[&Answer], verdict: &mut Verdict) {
    match store.doctor(false).await {
        Ok(findings) => verdict
            .unsound
            .extend(findings.iter().map(|finding| format!("{finding:?}"))),
        Err(error) => verdict.unsound.push(format!("the doctor cannot look: {error}")),
    }
    let jobs = all_jobs(store).await;
    let stats = store.stats().await.expect("the store counts");
    verdict.unsound.extend(miscounted(&stats, &jobs));
    verdict.lost += missing_jobs(store, answers, jobs.len(), verdict).await;
    verdict.lost += missing_duplicates(store, answers, &stats, verdict).await;
}

/// Counters have to equal what is there: nothing is ever removed in this load.
fn miscounted(stats: &Stats, jobs: &[Job]) -> Vec<String> {
    let there = |state: State| jobs.iter().filter(|job| job.state == state).count() as i64;
    let pairs = [
        (Counter::Accepted, jobs.len() as i64),
        (Counter::Completed, there(State::Complete)),
        (Counter::Failed, there(State::Failed)),
        (Counter::Cancelled, there(State::Cancelled)),
    ];
    let wrong = pairs
        .into_iter()
        .filter(|(counter, there)| stats.raw.get(*counter) != *there);
    wrong
        .map(|(counter, there)| {
            format!(
                "{} counts {}, not {there}",
                counter.word(),
                stats.raw.get(counter)
            )
        })
        .collect()
}

async fn missing_jobs(
    store: &SqliteStore,
    answers: &[&Answer],
    there: usize,
    verdict: &mut Verdict,
) -> usize {
    let ids: Vec<JobId> = answers.iter().map(|answer| named(answer).clone()).collect();
    let found = store.jobs_by_id(&ids).await.expect("the store looks up jobs");
    let mut lost = 0;
    for (answer, job) in answers.iter().zip(&found) {
        match job {
            // Looked for in the ledger.
            None if matches!(answer, Answer::Absorbed { .. }) => {}
            None => lost += 1,
            Some(job) => match contradiction(answer, job) {
                Some(Contradiction::Lost) => lost += 1,
                Some(Contradiction::Unsound(what)) => verdict.unsound.push(what),
                None => {}
            },
        }
    }
    let accepted = answers
        .iter()
        .filter(|answer| matches!(answer, Answer::Accepted { .. }))
        .count();
    verdict.ahead |= there > accepted;
    lost
}

fn named(answer: &Answer) -> &JobId {
    match answer {
        Answer::Accepted { id, .. } | Answer::Leased { id, .. } | Answer::Ended { id, .. } => id,
        Answer::Absorbed { by } => by,
    }
}

enum Contradiction {
    /// The disk is older than the answer.
    Lost,
    /// No age of the disk explains it.
    Unsound(String),
}

fn contradiction(answer: &Answer, job: &Job) -> Option<Contradiction> {
    match answer {
        Answer::Accepted { input, .. } if job.input.as_str() != input => {
            Some(Contradiction::Unsound(format!("{} has another input", job.id)))
        }
        Answer::Leased { fence, .. } if job.fence < *fence => Some(Contradiction::Lost),
        Answer::Ended { state, .. } if !job.state.is_terminal() || job.state != *state => {
            Some(Contradiction::Lost)
        }
        _ => None,
    }
}

/// Absorbed submissions are looked for in the ledger, per job that absorbed them.
async fn missing_duplicates(
    store: &SqliteStore,
    answers: &[&Answer],
    stats: &Stats,
    verdict: &mut Verdict,
) -> usize {
    let mut expected: HashMap<&JobId, usize> = HashMap::new();
    for answer in answers {
        if let Answer::Absorbed { by } = answer {
            *expected.entry(by).or_default() += 1;
        }
    }
    let mut found: HashMap<JobId, usize> = HashMap::new();
    let mut page = Page::first(500);
    loop {
        let listing = store
            .ledger(LedgerFilter::default(), page)
            .await
            .expect("the ledger");
        for entry in listing.items {
            *found.entry(entry.holder).or_default() += 1;
        }
        match listing.next_cursor {
            Some(cursor) => page = Page::after(cursor, 500),
            None => break,
        }
    }
    let entries: usize = found.values().sum();
    if stats.raw.duplicates() != entries as i64 {
        let counted = stats.raw.duplicates();
        verdict
            .unsound
            .push(format!("{counted} duplicates counted, {entries} in the ledger"));
    }
    let lost = |(id, n): (&&JobId, &usize)| n.saturating_sub(found.get(*id).copied().unwrap_or(0));
    expected.iter().map(lost).sum()
}
