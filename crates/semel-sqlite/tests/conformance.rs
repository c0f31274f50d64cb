//! The conformance suite on the SQLite store.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use semel_conformance::{Harness, Instance, Place, main as run};
use semel_core::ids::Name;
use semel_core::store::Store;
use semel_core::time::ManualClock;
use semel_sqlite::{Options, SqliteStore, Synchronous};
use tempfile::TempDir;

/// Stores in a file each, in a directory that lives as long as they do.
pub struct Sqlite;

fn open(directory: &Path, namespace: &Name, clock: Arc<ManualClock>) -> Arc<dyn Store> {
    // A crash of a handle loses nothing that was not synced; the cases that kill processes use a place.
    let options = Options {
        namespace: namespace.clone(),
        synchronous: Synchronous::Off,
        ..Options::new(directory.join("jobs.db"))
    };
    Arc::new(SqliteStore::open_with_clock(options, clock).expect("the store opens"))
}

fn directory(keep: &Instance) -> &Path {
    keep.keep
        .downcast_ref::<TempDir>()
        .expect("made by create")
        .path()
}

impl Harness for Sqlite {
    fn name(&self) -> &'static str {
        "sqlite"
    }

    fn create(&self, namespace: &Name, clock: Arc<ManualClock>) -> Instance {
        let directory = tempfile::tempdir().expect("a directory");
        Instance {
            store: open(directory.path(), namespace, clock),
            keep: Box::new(directory),
        }
    }

    fn sibling(&self, instance: &Instance, namespace: &Name, clock: Arc<ManualClock>) -> Arc<dyn Store> {
        open(directory(instance), namespace, clock)
    }

    fn reopen(&self, instance: Instance, namespace: &Name, clock: Arc<ManualClock>) -> Instance {
        let Instance { store, keep } = instance;
        drop(store);
        let directory = keep.downcast_ref::<TempDir>().expect("made by create").path();
        Instance {
            store: open(directory, namespace, clock),
            keep,
        }
    }

    fn place(&self) -> Option<Place> {
        let directory = tempfile::tempdir().expect("a directory");
        let location = directory.path().join("jobs.db").display().to_string();
        drop(SqliteStore::open(Options::new(&location)).expect("the store opens"));
        Some(Place {
            location,
            keep: Box::new(directory),
        })
    }

    fn join(&self, location: &str) -> Arc<dyn Store> {
        Arc::new(SqliteStore::open(Options::new(location)).expect("the store opens"))
    }
}

fn main() -> ExitCode {
    run(Sqlite)
}
