//! Real SQLite databases under power cuts: what must hold does, what must not hold does not.

#![allow(clippy::unwrap_used)] // also in the tests' helpers

mod common;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use common::{assert_nothing_lost, commit, many_cuts, open};
use rusqlite::Connection;
use semel_powercut::{Log, Survive, install};

const WAL_FULL: &str = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;";
const WAL_NORMAL: &str = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;";

/// Records `commits` marked one-row commits, from the creation of the database to its closing.
fn record(vfs: &str, pragmas: &str, commits: u64) -> Log {
    let dir = tempfile::tempdir().unwrap();
    let vfs = install(vfs).unwrap();
    let recorder = vfs.record(dir.path()).unwrap();
    let db = open(&vfs, dir.path(), pragmas);
    for n in 0..commits {
        commit(&db, &recorder, n);
    }
    drop(db);
    recorder.stop()
}

#[test]
fn full_loses_nothing() {
    let log = record("cuts-full", WAL_FULL, 300);
    assert_nothing_lost(&log, 200);
}

#[test]
fn normal_loses_marked_rows_but_stays_sound() {
    let log = record("cuts-normal", WAL_NORMAL, 300);
    let none = many_cuts(&log, 200, Survive::None);
    assert!(none.lossy > 0, "the harness does not bite");
    assert_eq!(none.corrupt, 0);
    let random = many_cuts(&log, 200, Survive::Random);
    assert!(random.lossy > 0);
    assert_eq!(random.corrupt, 0);
    let all = many_cuts(&log, 50, Survive::All);
    assert_eq!(
        (all.corrupt, all.missing),
        (0, 0),
        "a kill loses nothing that was written"
    );
}

#[test]
fn off_can_break_the_database() {
    let pragmas = "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; PRAGMA wal_autocheckpoint = 8;";
    let log = record("cuts-off", pragmas, 300);
    assert!(
        many_cuts(&log, 200, Survive::Random).corrupt > 0,
        "torn checkpoints go unnoticed"
    );
}

#[test]
fn full_loses_nothing_across_checkpoints() {
    let pragmas = format!("{WAL_FULL} PRAGMA wal_autocheckpoint = 5; PRAGMA journal_size_limit = 0;");
    let log = record("cuts-checkpoints", &pragmas, 300);
    assert_nothing_lost(&log, 200);
}

#[test]
fn full_loses_nothing_with_memory_mapped_reads() {
    let pragmas = format!("{WAL_FULL} PRAGMA wal_autocheckpoint = 5; PRAGMA mmap_size = 1000000;");
    let log = record("cuts-mmap", &pragmas, 100);
    assert_nothing_lost(&log, 100);
}

#[test]
fn reopening_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let vfs = install("cuts-reopen").unwrap();
    let recorder = vfs.record(dir.path()).unwrap();
    for round in 0..20 {
        // Closing the last connection deletes the WAL, opening creates a new one.
        let db = open(&vfs, dir.path(), WAL_FULL);
        (0..5).for_each(|n| commit(&db, &recorder, round * 5 + n));
    }
    assert_nothing_lost(&recorder.stop(), 200);
}

#[test]
fn several_connections_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let vfs = install("cuts-threads").unwrap();
    let recorder = vfs.record(dir.path()).unwrap();
    let pragmas = format!("{WAL_FULL} PRAGMA wal_autocheckpoint = 0;");
    let [writer, reader, checkpointer] = [(); 3].map(|()| open(&vfs, dir.path(), &pragmas));
    // It must not wait long for the writer: meanwhile nothing else could checkpoint.
    checkpointer.busy_timeout(Duration::from_millis(2)).unwrap();
    let (done, checkpoints) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let (done, checkpoints) = (&done, &checkpoints);
        scope.spawn(move || read_until(&reader, done));
        scope.spawn(move || checkpoint_until(&checkpointer, checkpoints, done));
        let mut rows = 0;
        while rows < 300 || checkpoints.load(Ordering::Relaxed) < 30 {
            commit(&writer, &recorder, rows);
            rows += 1;
            if rows % 5 == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    let log = recorder.stop();
    let count = |what: &str| format!("{log:?}").matches(what).count();
    let (syncs, truncations) = (count("sync t.db up"), count("truncate t.db-wal"));
    println!("{syncs} syncs of the database, {truncations} truncations of the WAL");
    assert!(syncs > 10, "hardly any checkpoint came between the commits");
    assert_nothing_lost(&log, 300);
}

fn read_until(db: &Connection, done: &AtomicBool) {
    while !done.load(Ordering::Relaxed) {
        db.query_row("SELECT count(*) FROM t", [], |_| Ok(())).unwrap();
    }
}

/// Checkpoints in all ways, counting those that were not turned away.
fn checkpoint_until(db: &Connection, completed: &AtomicUsize, done: &AtomicBool) {
    for mode in ["PASSIVE", "FULL", "RESTART", "TRUNCATE"].iter().cycle() {
        if done.load(Ordering::Relaxed) {
            return;
        }
        let sql = format!("PRAGMA wal_checkpoint({mode})");
        let busy: bool = db.query_row(&sql, [], |row| row.get(0)).unwrap();
        completed.fetch_add(usize::from(!busy), Ordering::Relaxed);
        // Lets commits in between: checkpoints of nothing would only dilute the log.
        std::thread::sleep(Duration::from_micros(500));
    }
}

#[test]
fn a_rollback_journal_needs_extra_to_lose_nothing() {
    let extra = "PRAGMA journal_mode = DELETE; PRAGMA synchronous = EXTRA;";
    assert_nothing_lost(&record("cuts-extra", extra, 100), 200);
    // FULL does not sync the directory after deleting the journal: the last commit may roll back.
    let full = "PRAGMA journal_mode = DELETE; PRAGMA synchronous = FULL;";
    let tally = many_cuts(&record("cuts-journal", full, 100), 200, Survive::None);
    assert!(tally.lossy > 0 && tally.corrupt == 0, "{tally:?}");
}
