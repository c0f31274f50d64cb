//! What does not open, and what stops being usable while it is open.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rusqlite::Connection;
use semel_conformance::kit;
use semel_core::error::StoreError;
use semel_core::job::State;
use semel_core::store::{Inspect as _, Store as _};
use semel_sqlite::{Options, SCHEMA, SqliteStore};

use crate::stage::{accept, assert_sound, plain_connection, run_one};

/// The reason and the hint with which a file is refused.
fn refusal(options: Options) -> (String, String) {
    match SqliteStore::open(options) {
        Err(StoreError::Refused { reason, hint }) => (reason, hint),
        Err(other) => panic!("expected a refusal, got {other:?}"),
        Ok(_) => panic!("expected a refusal, but it opened"),
    }
}

/// The names in a directory.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("the directory can be read");
    let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("an entry").file_name().into_string();
    entries
        .map(|entry| name(entry).expect("a name in UTF-8"))
        .collect()
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notes.txt");
    for text in ["hello", &"a longer text, over more than one page. ".repeat(500)] {
        fs::write(&path, text).unwrap();
        let (reason, hint) = refusal(Options::new(&path));
        assert!(reason.contains("not a SQLite database"), "{reason}");
        assert!(!hint.is_empty());
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        assert_eq!(names(directory.path()), ["notes.txt"]);
    }
}

#[test]
fn a_database_of_another_program_is_refused_and_left_alone() {
    for mode in ["DELETE", "WAL"] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("other.db");
        let other = Connection::open(&path).unwrap();
        other
            .query_row(&format!("PRAGMA journal_mode = {mode}"), [], |_| Ok(()))
            .unwrap();
        other
            .execute_batch("CREATE TABLE invoices (n INTEGER); INSERT INTO invoices VALUES (7);")
            .unwrap();
        drop(other);
        let before = fs::read(&path).unwrap();
        let (reason, hint) = refusal(Options::new(&path));
        assert!(reason.contains("another program"), "{reason}");
        assert!(!hint.is_empty());
        assert_eq!(fs::read(&path).unwrap(), before, "not a byte has changed");
    }
}

fn set_schema(path: &Path, version: i64) {
    let sql = format!("PRAGMA user_version = {version}");
    plain_connection(path)
        .execute_batch(&sql)
        .expect("the version is written");
}

#[tokio::test]
async fn a_schema_from_the_future_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("jobs.db");
    let store = SqliteStore::open(Options::new(&path)).unwrap();
    let id = accept(&store, kit::plain()).await;
    drop(store);
    set_schema(&path, SCHEMA + 1);
    let before = fs::read(&path).unwrap();
    let (reason, hint) = refusal(Options::new(&path));
    assert!(
        reason.contains(&(SCHEMA + 1).to_string()) && reason.contains(&SCHEMA.to_string()),
        "{reason}"
    );
    assert!(hint.contains("newer program"), "{hint}");
    assert_eq!(fs::read(&path).unwrap(), before, "not a byte has changed");
    set_schema(&path, SCHEMA);
    let store = SqliteStore::open(Options::new(&path)).unwrap();
    assert!(store.jobs_by_id(&[id]).await.unwrap()[0].is_some());
}

/// Files of schema 1 lack tables: without the refusal somebody would be told of a missing table, in the middle of work.
#[tokio::test]
async fn a_schema_from_the_past_is_refused_with_what_to_do_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("jobs.db");
    let store = SqliteStore::open(Options::new(&path)).unwrap();
    accept(&store, kit::plain()).await;
    drop(store);
    plain_connection(&path)
        .execute_batch("DROP TABLE token_run; PRAGMA user_version = 1")
        .unwrap();
    let before = fs::read(&path).unwrap();
    for create in [true, false] {
        let (reason, hint) = refusal(Options {
            create,
            ..Options::new(&path)
        });
        assert_eq!(reason, "the file has schema 1, this program knows schema 2");
        assert_eq!(
            hint,
            "let the older program finish the jobs in this file, then name another file or move this one away: \
             it is not brought up to date"
        );
    }
    assert_eq!(fs::read(&path).unwrap(), before, "not a byte has changed");
}

/// Every row of every table, counted.
fn rows(path: &Path) -> Vec<(String, i64)> {
    let connection = plain_connection(path);
    let mut tables = connection
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table'")
        .expect("a query");
    let tables = tables
        .query_map([], |row| row.get::<_, String>(0))
        .expect("a list of tables");
    let count = |table: &str| {
        let sql = format!("SELECT count(*) FROM \"{table}\"");
        connection.query_row(&sql, [], |row| row.get(0)).expect("a count")
    };
    tables
        .map(|table| table.expect("a name"))
        .map(|table| (table.clone(), count(&table)))
        .collect()
}

#[tokio::test]
async fn a_schema_that_becomes_newer_under_an_open_store_stops_its_writes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("jobs.db");
    let store = SqliteStore::open(Options::new(&path)).unwrap();
    let id = accept(&store, kit::plain()).await;
    accept(&store, kit::plain()).await;
    let before = rows(&path);
    set_schema(&path, SCHEMA + 1);
    // Twice: the first refusal must not be taken for a look that has already been made.
    for _ in 0..2 {
        let error = store.submit(vec![kit::plain()]).await.unwrap_err();
        let StoreError::Refused { reason, hint } = &error else {
            panic!("{error:?}")
        };
        assert!(reason.contains(&(SCHEMA + 1).to_string()), "{reason}");
        assert!(hint.contains("newer program"), "{hint}");
        assert!(!error.is_retryable());
        let claim = store.claim(kit::claim_request(1)).await;
        assert!(matches!(claim, Err(StoreError::Refused { .. })), "{claim:?}");
    }
    assert_eq!(rows(&path), before, "nothing is written");
    // The other program brings the old schema back: this one goes on.
    set_schema(&path, SCHEMA);
    run_one(&store, "default").await;
    let jobs = store.jobs_by_id(&[id]).await.unwrap();
    assert_eq!(jobs[0].as_ref().unwrap().state, State::Complete);
    assert_sound(&store).await;
}

/// Several calls that wait for the same commit are all told the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_callers_of_a_commit_are_told_of_the_newer_schema() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("jobs.db");
    let store = std::sync::Arc::new(SqliteStore::open(Options::new(&path)).unwrap());
    accept(&store, kit::plain()).await;
    set_schema(&path, SCHEMA + 1);
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let store = store.clone();
        calls.spawn(async move { store.submit(vec![kit::plain()]).await });
    }
    while let Some(answer) = calls.join_next().await {
        let answer = answer.unwrap();
        assert!(matches!(answer, Err(StoreError::Refused { .. })), "{answer:?}");
    }
}

#[test]
fn a_missing_file_is_not_made_by_those_who_only_look() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options {
        create: false,
        ..Options::new(directory.path().join("jobs.db"))
    };
    let (reason, hint) = refusal(options);
    assert!(reason.contains("there is no store"), "{reason}");
    assert!(!hint.is_empty());
    assert_eq!(names(directory.path()), Vec::<String>::new());
}

#[test]
fn a_place_where_no_file_can_be_is_refused_with_a_hint() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("file"), "").unwrap();
    let places: [PathBuf; 5] = [
        directory.path().join("missing/jobs.db"),
        directory.path().to_owned(),
        directory.path().join("file/jobs.db"),
        PathBuf::from("/proc/jobs.db"),
        PathBuf::from("/sys/jobs.db"),
    ];
    for place in places {
        for create in [true, false] {
            let (reason, hint) = refusal(Options {
                create,
                ..Options::new(&place)
            });
            assert!(
                !reason.is_empty() && !hint.is_empty(),
                "{}: {reason}; {hint}",
                place.display()
            );
        }
    }
    assert_eq!(names(directory.path()), ["file"]);
}

/// The place that a process without rights is to try.
const PLACE: &str = "SEMEL_READ_ONLY_PLACE";

/// Access rights bind everybody but root: where root runs the tests, a process of nobody's is started for it.
#[test]
fn what_may_not_be_written_to_says_so() {
    if let Ok(place) = std::env::var(PLACE) {
        return try_read_only(Path::new(&place));
    }
    let directory = tempfile::tempdir().unwrap();
    allow(directory.path(), 0o755);
    for (name, directory_mode, file_mode) in [
        ("both", 0o555, 0o444),
        ("directory", 0o555, 0o666),
        ("file", 0o777, 0o444),
        ("empty", 0o555, 0),
    ] {
        let place = directory.path().join(name);
        fs::create_dir(&place).unwrap();
        if file_mode != 0 {
            drop(SqliteStore::open(Options::new(place.join("jobs.db"))).unwrap());
            allow(&place.join("jobs.db"), file_mode);
        }
        allow(&place, directory_mode);
        as_nobody(&place);
        allow(&place, 0o755);
    }
}

fn allow(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("rights can be changed");
}

fn as_nobody(place: &Path) {
    const NOBODY: u32 = 65_534;
    let root = fs::metadata("/proc/self")
        .expect("a process has a directory")
        .uid()
        == 0;
    if !root {
        return try_read_only(place);
    }
    // The executable may lie where nobody may not go.
    let program = place.parent().expect("made in a directory").join("test");
    fs::copy(
        std::env::current_exe().expect("a test knows its executable"),
        &program,
    )
    .expect("it can be copied");
    let child = Command::new(program)
        .args([
            "--exact",
            "refused::what_may_not_be_written_to_says_so",
            "--nocapture",
        ])
        .env(PLACE, place)
        .current_dir("/")
        .uid(NOBODY)
        .gid(NOBODY)
        .output()
        .expect("the test starts again");
    let said = String::from_utf8_lossy(&child.stdout).into_owned() + &String::from_utf8_lossy(&child.stderr);
    assert!(
        child.status.success() && said.contains("1 passed"),
        "{}: {said}",
        place.display()
    );
    eprint!("{}", String::from_utf8_lossy(&child.stderr));
}

fn try_read_only(place: &Path) {
    let there = names(place);
    for create in [true, false] {
        let error = match SqliteStore::open(Options {
            create,
            ..Options::new(place.join("jobs.db"))
        }) {
            // A file that can be read but not written, in a directory that can: it opens for those who only look.
            Ok(store) => first_write(&store),
            Err(error) => {
                assert_eq!(names(place), there, "nothing is left behind");
                error
            }
        };
        eprintln!("{}: {error}", place.display());
        let clear = matches!(&error, StoreError::Refused { hint, .. } if !hint.is_empty())
            || matches!(&error, StoreError::ReadOnly { .. });
        assert!(clear, "{}: {error:?}", place.display());
        assert!(!error.is_retryable());
    }
}

fn first_write(store: &SqliteStore) -> StoreError {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        assert!(store.stats().await.is_ok(), "what can be read is read");
        store
            .submit(vec![kit::plain()])
            .await
            .expect_err("what cannot be written is not answered")
    })
}
