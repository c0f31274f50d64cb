//! Moving what was committed from the log into the database file, on a thread of its own.
//!
//! While others write, a checkpoint can copy but not restart the log. When the log has grown past a
//! second mark the writer itself restarts it between two commits: by then the thread has copied
//! nearly everything, so that takes a moment only. The length is counted in pages since the last
//! restart, as SQLite tells it: the file itself never shrinks.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::JoinHandle;

use rusqlite::Connection;

use semel_core::error::StoreError;

/// The log is copied once it has this many pages: 16 MiB.
const COPY_AT: i64 = 4_096;
/// The log is restarted once it has this many pages: 64 MiB.
const RESTART_AT: i64 = 16_384;
/// Commits between two looks at its length: even large ones write a few hundred pages each.
const LOOK_EVERY: u32 = 8;

/// The checkpoint thread's handle. Dropping it stops the thread.
pub struct Checkpointer {
    commits: AtomicU32,
    nudge: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpointer {
    /// Starts the thread with a connection of its own.
    pub fn start(connection: Connection) -> Result<Self, StoreError> {
        let (nudge, nudges) = mpsc::sync_channel(1);
        let thread = std::thread::Builder::new()
            .name("semel-checkpoint".to_owned())
            .spawn(move || serve(&connection, &nudges));
        let thread = thread.map_err(|error| StoreError::Unavailable {
            doing: "starting the checkpointer".to_owned(),
            source: Some(Box::new(error)),
        })?;
        Ok(Checkpointer {
            commits: AtomicU32::new(0),
            nudge: Some(nudge),
            thread: Some(thread),
        })
    }

    /// Called by the writer between two commits.
    pub fn after_commit(&self, writer: &Connection) {
        let commits = self.commits.fetch_add(1, Ordering::Relaxed);
        if !commits.is_multiple_of(LOOK_EVERY) {
            return;
        }
        let Ok(log) = Log::look(writer) else { return };
        let behind = log.pages - log.copied;
        if log.pages >= RESTART_AT && behind < COPY_AT {
            // Busy readers may prevent it; a later commit tries again.
            let _ = writer.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(()));
        } else if behind >= COPY_AT
            && let Some(nudge) = &self.nudge
        {
            let _ = nudge.try_send(());
        }
    }
}

/// How long the log is, and how much of it is in the database file.
struct Log {
    pages: i64,
    copied: i64,
}

impl Log {
    /// Looks without copying anything.
    fn look(connection: &Connection) -> rusqlite::Result<Self> {
        connection
            .prepare_cached("PRAGMA wal_checkpoint(NOOP)")?
            .query_row([], |row| {
                Ok(Log {
                    pages: row.get(1)?,
                    copied: row.get(2)?,
                })
            })
    }
}

fn serve(connection: &Connection, nudges: &Receiver<()>) {
    while nudges.recv().is_ok() {
        // If it fails the log grows a little longer: the next look says so again.
        let _ = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        drop(self.nudge.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looking_at_the_log_copies_nothing() {
        let directory = tempfile::tempdir().expect("a directory");
        let connection = Connection::open(directory.path().join("a.db")).expect("a database");
        connection
            .execute_batch("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; CREATE TABLE a (b)")
            .expect("a table");
        let before = Log::look(&connection).expect("a look");
        assert!(before.pages > 0);
        assert_eq!(before.copied, 0);
        connection
            .execute_batch("INSERT INTO a VALUES (1); PRAGMA wal_checkpoint(PASSIVE)")
            .expect("copied");
        let after = Log::look(&connection).expect("a look");
        assert!(after.pages > before.pages);
        assert_eq!(after.copied, after.pages);
    }
}
