//! The VFS around the log: installing, counting, scoping, failing.

#![allow(clippy::unwrap_used)] // also in the tests' helpers

mod common;

use common::{commit, judge, open};
use rusqlite::ErrorCode;
use semel_powercut::{Error, Fault, Survive, install};

const WAL_FULL: &str = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;";

#[test]
fn installing_twice_gives_the_same_vfs() {
    let dir = tempfile::tempdir().unwrap();
    let (first, second) = (install("vfs-twice").unwrap(), install("vfs-twice").unwrap());
    let _db = open(&first, dir.path(), WAL_FULL);
    assert_eq!(first.name(), second.name());
    assert!(first.counts().writes > 0);
    assert_eq!(first.counts(), second.counts());
}

#[test]
fn impossible_names_are_refused() {
    assert!(matches!(install("unix"), Err(Error::NameTaken(_))));
    assert!(matches!(install("a\0b"), Err(Error::BadName)));
}

#[test]
fn full_syncs_on_every_commit_and_normal_does_not() {
    let vfs = install("vfs-counts").unwrap();
    let syncs = |pragmas: &str| {
        let dir = tempfile::tempdir().unwrap();
        let recorder = vfs.record(dir.path()).unwrap();
        let db = open(&vfs, dir.path(), pragmas);
        let start = vfs.counts();
        for n in 0..50 {
            let before = vfs.counts();
            commit(&db, &recorder, n);
            let grown = vfs.counts().since(before);
            assert!(grown.writes >= 1 && grown.bytes > 300, "{grown:?}");
            assert!(grown.syncs >= 1 || pragmas != WAL_FULL);
        }
        vfs.counts().since(start)
    };
    let full = syncs(WAL_FULL);
    let normal = syncs("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;");
    println!("50 commits: FULL {full:?}, NORMAL {normal:?}");
    assert_eq!((full.syncs, normal.syncs), (50, 0));
}

#[test]
fn a_recording_starts_from_the_files_it_finds() {
    let dir = tempfile::tempdir().unwrap();
    let vfs = install("vfs-base").unwrap();
    let unrecorded = vfs.record(dir.path()).unwrap();
    let db = open(&vfs, dir.path(), WAL_FULL);
    commit(&db, &unrecorded, 1);
    drop((db, unrecorded));
    let recorder = vfs.record(&dir.path().join("t.db")).unwrap();
    assert!(recorder.is_empty());
    let db = open(&vfs, dir.path(), WAL_FULL);
    commit(&db, &recorder, 2);
    assert!(recorder.len() > 1);
    let log = recorder.stop();
    assert_eq!((recorder.len(), recorder.stop().events()), (0, 0));
    let before = judge(&log.image(0, 0, Survive::None), &[1]);
    assert!(!before.corrupt && before.missing == 0, "{before:?}");
    let image = log.image(log.events(), 0, Survive::None);
    assert_eq!(
        image.files().map(|(name, _)| name).collect::<Vec<_>>(),
        ["t.db", "t.db-wal"]
    );
    assert_eq!(judge(&image, &[1, 2]).missing, 0);
}

#[test]
fn recordings_of_one_vfs_do_not_mix() {
    let (left, right) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let vfs = install("vfs-two").unwrap();
    let (a, b) = (
        vfs.record(left.path()).unwrap(),
        vfs.record(right.path()).unwrap(),
    );
    let db = open(&vfs, left.path(), WAL_FULL);
    commit(&db, &a, 1);
    assert!(a.len() > 1);
    assert!(b.is_empty());
}

#[test]
fn a_missing_directory_is_an_error() {
    let vfs = install("vfs-missing").unwrap();
    let path = std::path::Path::new("/nonexistent/semel/t.db");
    assert!(matches!(vfs.record(path), Err(Error::Snapshot { .. })));
}

/// Commits 10 rows, lets the `nth` write fail, then goes on; returns the error.
fn fail_and_recover(name: &str, nth: u64, fault: Fault) -> ErrorCode {
    let dir = tempfile::tempdir().unwrap();
    let vfs = install(name).unwrap();
    let recorder = vfs.record(dir.path()).unwrap();
    let db = open(&vfs, dir.path(), WAL_FULL);
    (0..10).for_each(|n| commit(&db, &recorder, n));
    vfs.fail_writes_after(Some(nth), fault);
    let insert = |n: i64| db.execute("INSERT INTO t VALUES (?1, zeroblob(20000))", [n]);
    let error = insert(100).unwrap_err();
    assert!(insert(101).is_err(), "the fault stays until cleared");
    let count = || {
        db.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0))
            .unwrap()
    };
    assert_eq!(count(), 10, "reading goes on");
    vfs.fail_writes_after(None, fault);
    (10..20).for_each(|n| commit(&db, &recorder, n));
    assert_eq!(count(), 20);
    let log = recorder.stop();
    let verdict = judge(
        &log.image(log.events(), 0, Survive::None),
        &(0..20).collect::<Vec<_>>(),
    );
    assert!(
        !verdict.corrupt && verdict.missing == 0 && verdict.unmarked == 0,
        "{verdict:?}"
    );
    error.sqlite_error_code().unwrap()
}

#[test]
fn a_full_disk_surfaces_and_passes() {
    assert_eq!(
        fail_and_recover("vfs-disk-full", 1, Fault::Full),
        ErrorCode::DiskFull
    );
    assert_eq!(
        fail_and_recover("vfs-disk-full-later", 4, Fault::Full),
        ErrorCode::DiskFull
    );
}

#[test]
fn a_write_error_surfaces_and_passes() {
    assert_eq!(
        fail_and_recover("vfs-io-error", 1, Fault::IoError),
        ErrorCode::SystemIoFailure
    );
    assert_eq!(
        fail_and_recover("vfs-io-error-later", 4, Fault::IoError),
        ErrorCode::SystemIoFailure
    );
}
