//! Files that were damaged: cut off, overwritten, with flipped bits. What SQLite can know is told, nothing panics,
//! nothing hangs.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, Once, PoisonError, mpsc};
use std::time::Duration;

use semel_conformance::kit;
use semel_core::dedup::Dedup;
use semel_core::error::StoreError;
use semel_core::ids::JobId;
use semel_core::store::{Control as _, Inspect as _, Store as _, UpkeepRequest};
use semel_core::view::Job;
use semel_sqlite::{Options, SqliteStore, Synchronous};

use crate::stage::{Rng, accepted, plain_connection, run_one};

/// A file with jobs of which everything is known.
struct Original {
    database: Vec<u8>,
    log: Vec<u8>,
    /// Jobs as they were shown before the damage.
    jobs: Vec<Job>,
}

const JOBS: usize = 300;

/// Where the second half of the jobs is; the first half is in the database file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rest {
    InTheLog,
    InTheDatabase,
}

fn make_original(rest: Rest) -> Original {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("jobs.db");
    let store = SqliteStore::open(Options {
        synchronous: Synchronous::Off,
        ..Options::new(&path)
    });
    let store = store.expect("the store opens");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let mut ids = Vec::new();
    for half in 0..2 {
        runtime.block_on(fill(&store, half, &mut ids));
        if half == 0 || rest == Rest::InTheDatabase {
            let other = plain_connection(&path);
            other
                .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
                .expect("a checkpoint");
        }
    }
    let jobs = runtime
        .block_on(store.jobs_by_id(&ids))
        .expect("the store looks up jobs");
    // The store is open: nothing has been copied since.
    let read = |name: &str| fs::read(directory.path().join(name)).expect("a file of the store");
    Original {
        database: read("jobs.db"),
        log: read("jobs.db-wal"),
        jobs: jobs.into_iter().map(|job| job.expect("just admitted")).collect(),
    }
}

async fn fill(store: &SqliteStore, half: usize, ids: &mut Vec<JobId>) {
    for n in 0..JOBS / 2 {
        let input = format!(r#"{{"half":{half},"n":{n},"pad":"{}"}}"#, "known ".repeat(20));
        let submission = match n % 3 {
            0 => kit::with_input(Dedup::unique(), &input),
            _ => kit::of("work", &input),
        };
        let answers = store.submit(vec![submission]).await.expect("the store answers");
        ids.push(accepted(&answers[0]));
        if n % 5 == 0 {
            run_one(store, "default").await;
        }
    }
}

/// How a damaged file fared.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Fate {
    /// A typed error was given, at opening or later.
    told: bool,
    /// The doctor found something.
    found: bool,
    /// Known jobs that are shown otherwise than before, without any error.
    wrong: usize,
    /// Of these, those with another input.
    wrong_input: usize,
    /// Known jobs that were said not to exist, without any error.
    missing: usize,
}

impl Fate {
    fn is_silently_wrong(&self) -> bool {
        !self.told && !self.found && self.wrong + self.missing > 0
    }
}

/// Panics of any thread since the beginning: a store's threads may not panic either.
fn panics() -> &'static AtomicUsize {
    static PANICS: AtomicUsize = AtomicUsize::new(0);
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICS.fetch_add(1, Ordering::SeqCst);
            before(panic);
        }));
    });
    &PANICS
}

/// Tests that count panics do so one after another.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Opens a file and uses it in every way, on a thread that is given up if it hangs.
fn use_it(path: PathBuf, jobs: &[Job]) -> Fate {
    let (reply, answer) = mpsc::channel();
    let jobs = jobs.to_vec();
    std::thread::spawn(move || {
        let fate = open_and_use(&path, &jobs);
        let _ = reply.send(fate);
    });
    answer
        .recv_timeout(Duration::from_secs(60))
        .expect("it neither hangs nor panics")
}

fn open_and_use(path: &Path, jobs: &[Job]) -> Fate {
    let mut fate = Fate::default();
    let store = match SqliteStore::open(Options {
        synchronous: Synchronous::Off,
        ..Options::new(path)
    }) {
        Ok(store) => store,
        Err(error) => {
            assert_speaks(&error);
            fate.told = true;
            return fate;
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        read(&store, jobs, &mut fate).await;
        note(store.stats().await, &mut fate);
        let findings = note(store.doctor(false).await, &mut fate);
        fate.found |= findings.is_some_and(|findings| !findings.is_empty());
        write(&store, &mut fate).await;
    });
    fate
}

fn note<T>(result: Result<T, StoreError>, fate: &mut Fate) -> Option<T> {
    if let Err(error) = &result {
        assert_speaks(error);
        fate.told = true;
    }
    result.ok()
}

fn assert_speaks(error: &StoreError) {
    assert!(error.to_string().len() > 20, "{error:?}");
}

async fn read(store: &SqliteStore, jobs: &[Job], fate: &mut Fate) {
    for batch in jobs.chunks(50) {
        let ids: Vec<JobId> = batch.iter().map(|job| job.id.clone()).collect();
        let Some(found) = note(store.jobs_by_id(&ids).await, fate) else {
            continue;
        };
        for (known, job) in batch.iter().zip(found) {
            match job {
                None => fate.missing += 1,
                Some(job) => {
                    fate.wrong += usize::from(job != *known);
                    fate.wrong_input += usize::from(job.input != known.input);
                }
            }
        }
    }
}

/// Writing onto a damaged file may fail, and must say so.
async fn write(store: &SqliteStore, fate: &mut Fate) {
    note(
        store.submit(vec![kit::with(Dedup::explicit("fresh"))]).await,
        fate,
    );
    let claims = note(store.claim(kit::claim_request(20)).await, fate).unwrap_or_default();
    for claimed in claims {
        let settlement = semel_core::store::Settlement {
            id: claimed.job.id,
            fence: claimed.fence,
            result: semel_core::lifecycle::Settle::Complete { output: None },
        };
        note(store.settle(vec![settlement]).await, fate);
    }
    note(store.upkeep(UpkeepRequest::default()).await, fate);
}

/// Puts a damaged file and its log into a directory and uses it.
fn try_damaged(database: &[u8], log: &[u8], jobs: &[Job]) -> Fate {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("jobs.db");
    fs::write(&path, database).expect("the file is written");
    fs::write(directory.path().join("jobs.db-wal"), log).expect("the log is written");
    use_it(path, jobs)
}

/// The sum over many damaged files.
#[derive(Default)]
struct Tally {
    tried: usize,
    told: usize,
    found: usize,
    silently_wrong: usize,
    wrong_input: usize,
    silently_missing: usize,
    unharmed: usize,
}

impl Tally {
    fn add(&mut self, fate: Fate) {
        self.tried += 1;
        self.told += usize::from(fate.told);
        self.found += usize::from(fate.found && !fate.told);
        self.silently_wrong += usize::from(fate.is_silently_wrong() && fate.wrong > 0);
        self.wrong_input += usize::from(fate.is_silently_wrong() && fate.wrong_input > 0);
        self.silently_missing += usize::from(fate.is_silently_wrong() && fate.wrong == 0);
        self.unharmed += usize::from(fate == Fate::default());
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} files: {} gave a typed error, {} were found out by the doctor alone, {} show a job otherwise \
             ({} its input) and {} miss one without a word, {} were unharmed",
            self.tried,
            self.told,
            self.found,
            self.silently_wrong,
            self.wrong_input,
            self.silently_missing,
            self.unharmed
        )
    }
}

#[test]
fn flipped_bits_never_make_it_panic_or_hang() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let (original, before) = (
        make_original(Rest::InTheDatabase),
        panics().load(Ordering::SeqCst),
    );
    let (mut rng, mut tally) = (Rng::new(11), Tally::default());
    for _ in 0..flips() {
        let mut database = original.database.clone();
        let at = rng.below(database.len());
        database[at] ^= 1 << rng.below(8);
        tally.add(try_damaged(&database, &original.log, &original.jobs));
    }
    eprintln!("flipped bits in the database: {tally}");
    assert_eq!(panics().load(Ordering::SeqCst), before, "no thread panics");
    assert!(tally.told + tally.found > 0, "no flip was noticed at all");
    // SQLite keeps no checksum of a page: a flip inside a text or a number may go unnoticed. The bound is that of a
    // file that is mostly text; what it says is that the rest does not.
    assert!(
        tally.silently_wrong + tally.silently_missing < tally.tried / 3,
        "{tally}"
    );
}

/// Columns of numbers, by table.
const NUMBERS: [(&str, &str); 10] = [
    (
        "life",
        "seq lane phase nprio run_at attempt max_attempts deliveries max_deliveries fence settled began until \
         started_at finished_at worker last_error hold ttl cool_down taken_at expires_at generation",
    ),
    ("job", "seq enqueued_at timeout key_by born"),
    ("lane", "ns waiting running complete n_accepted"),
    ("ready", "nprio run_at seq"),
    ("key", "generation seq"),
    ("token", "ref"),
    ("lease", "fence until forget_at"),
    ("ended", "n at"),
    ("namespace", "ns"),
    ("ledger", "n ns at"),
];

/// Numbers that no store writes, as a flipped bit leaves them: the highest, the lowest, none of those with a meaning.
#[test]
fn numbers_that_no_store_writes_never_make_it_panic_or_hang() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let original = make_original(Rest::InTheDatabase);
    let (mut tried, mut panicking) = (0, Vec::new());
    for (table, columns) in NUMBERS {
        for column in columns.split_whitespace() {
            for value in [i64::MAX, i64::MIN, -128, -1, 99] {
                let sql = format!(
                    "UPDATE OR REPLACE {table} SET {column} = {value} WHERE {}",
                    newest(table)
                );
                let before = panics().load(Ordering::SeqCst);
                try_edited(&original, &sql);
                tried += 1;
                if panics().load(Ordering::SeqCst) > before {
                    panicking.push(sql);
                }
            }
        }
    }
    eprintln!(
        "numbers that no store writes: {tried} files, {} panics",
        panicking.len()
    );
    assert!(
        panicking.is_empty(),
        "a thread of the store panics after:\n{}",
        panicking.join("\n")
    );
}

/// The newest row, which is what the next number is taken from; all rows where there is no such order.
fn newest(table: &str) -> String {
    match table {
        "ready" | "key" | "token" | "ended" => "true".to_owned(),
        _ => format!("rowid = (SELECT max(rowid) FROM {table})"),
    }
}

/// Edits a copy of the file and uses it.
fn try_edited(original: &Original, sql: &str) -> Fate {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("jobs.db");
    fs::write(&path, &original.database).expect("the file is written");
    plain_connection(&path)
        .execute_batch(sql)
        .expect("the file can be edited");
    use_it(path, &original.jobs)
}

/// How many bits are flipped; a longer campaign can ask for more.
fn flips() -> usize {
    let asked = std::env::var("SEMEL_FLIPS").ok();
    asked.map_or(200, |asked| asked.parse().expect("SEMEL_FLIPS is a number"))
}

/// The log has checksums: whatever is wrong with it, what is read is a state that was once true.
#[test]
fn a_damaged_log_gives_an_older_state_but_never_a_wrong_one() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let (original, before) = (make_original(Rest::InTheLog), panics().load(Ordering::SeqCst));
    let (mut rng, mut older) = (Rng::new(12), 0);
    for round in 0..60 {
        let mut log = original.log.clone();
        let at = rng.below(log.len());
        match round % 4 {
            0 => log.truncate(at),
            1 => log[at] ^= 1 << rng.below(8),
            2 => log[at..].iter_mut().for_each(|byte| *byte = rng.next() as u8),
            _ => log.iter_mut().for_each(|byte| *byte = rng.next() as u8),
        }
        let fate = try_damaged(&original.database, &log, &original.jobs);
        assert!(!fate.told && !fate.found, "round {round}: {fate:?}");
        // What has happened since the state that is left is not shown, but an input never changes.
        assert_eq!(fate.wrong_input, 0, "round {round}: {fate:?}");
        assert!(
            fate.missing <= JOBS / 2,
            "round {round}: what is in the database file is still there"
        );
        older += usize::from(fate.missing > 0);
    }
    eprintln!("damaged logs: 60 files, {older} of them open with an older state, none with a wrong one");
    assert!(older > 0);
    assert_eq!(panics().load(Ordering::SeqCst), before, "no thread panics");
}

#[test]
fn a_database_that_was_cut_off_is_told() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let (original, before) = (
        make_original(Rest::InTheDatabase),
        panics().load(Ordering::SeqCst),
    );
    let (mut rng, mut tally) = (Rng::new(13), Tally::default());
    for _ in 0..40 {
        let mut database = original.database.clone();
        database.truncate(1 + rng.below(database.len() - 1));
        tally.add(try_damaged(&database, &original.log, &original.jobs));
    }
    eprintln!("cut off: {tally}");
    assert_eq!(panics().load(Ordering::SeqCst), before, "no thread panics");
    assert_eq!(tally.silently_wrong + tally.silently_missing, 0, "{tally}");
}
