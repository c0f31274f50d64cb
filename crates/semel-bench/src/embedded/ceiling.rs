//! The most that SQLite can do: one table, one prepared statement, as durable as the store.

use std::path::Path;

use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use rusqlite::{Connection, OpenFlags};

use semel_sqlite::Options;

use crate::load::input;
use crate::rounds::{Slice, Subject};
use crate::stopwatch::Stopwatch;

/// Transactions of 1,000 rows, about 85 pages each: more than SQLite lets the log hold.
const RUN_IN: usize = 24;

/// Rows of the same payload as the store's jobs, so many in a transaction.
///
/// Checkpoints are SQLite's own: every 1,000 pages, by the writer.
pub(crate) struct Ceiling {
    connection: Connection,
    rows: usize,
    seed: u64,
    next: u64,
    /// The name under which its slowest commits are shown.
    shown: Option<&'static str>,
}

impl Ceiling {
    /// Makes the file.
    pub(crate) fn open(path: &Path, rows: usize, seed: u64) -> Result<Self> {
        let connection = Connection::open(path).context("opening the raw database")?;
        Ceiling::set_up(connection, path, rows, seed)
    }

    /// Makes the file through another VFS.
    pub(crate) fn open_with_vfs(path: &Path, vfs: &str, seed: u64) -> Result<Self> {
        let connection = Connection::open_with_flags_and_vfs(path, OpenFlags::default(), vfs);
        Ceiling::set_up(connection.context("opening the raw database")?, path, 1, seed)
    }

    fn set_up(connection: Connection, path: &Path, rows: usize, seed: u64) -> Result<Self> {
        let cache_kib = i64::from(Options::new(path).cache_mib) * 1_024;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "cache_size", -cache_kib)?;
        connection.execute_batch("CREATE TABLE raw (id INTEGER PRIMARY KEY, payload BLOB NOT NULL)")?;
        Ok(Ceiling {
            connection,
            rows,
            seed,
            next: 0,
            shown: None,
        })
    }

    /// Also shows the slowest one in a hundred of its commits, under this name.
    pub(crate) fn with_slowest(self, name: &'static str) -> Self {
        Ceiling {
            shown: Some(name),
            ..self
        }
    }

    /// Writes until the log has been checkpointed and begun anew, as a store is run in.
    pub(crate) fn run_in(&self) -> Result<()> {
        let payloads: Vec<String> = (0..1_000).map(|n| input(!self.seed, n)).collect();
        (0..RUN_IN).try_for_each(|_| self.insert(&payloads))
    }

    fn insert(&self, payloads: &[String]) -> Result<()> {
        let mut insert = self
            .connection
            .prepare_cached("INSERT INTO raw (payload) VALUES (?1)")?;
        if let [payload] = payloads {
            insert.execute([payload.as_bytes()])?;
            return Ok(());
        }
        self.connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        for payload in payloads {
            insert.execute([payload.as_bytes()])?;
        }
        self.connection.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }
}

impl Subject for Ceiling {
    fn slice(&mut self, jobs: usize) -> Result<Slice> {
        let first = self.next;
        self.next += jobs as u64;
        let payloads: Vec<String> = (first..self.next).map(|n| input(self.seed, n)).collect();
        let mut commits = Histogram::<u64>::new(3)?;
        let watch = Stopwatch::start();
        for batch in payloads.chunks(self.rows) {
            let commit = Stopwatch::start();
            self.insert(batch)?;
            commits.record(u64::try_from(commit.elapsed().as_micros())?)?;
        }
        let slice = Slice::new(jobs, watch.elapsed());
        Ok(match self.shown {
            None => slice,
            // What the disk does to the slowest of them, it does to the store's as well.
            Some(name) => slice.with(
                format!("{name}_p99"),
                commits.value_at_quantile(0.99) as f64 / 1_000.0,
                "ms",
            ),
        })
    }
}
