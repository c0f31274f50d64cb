//! Moving what was committed from the log into the database file, on a thread of its own.
//!
//! While others write, a checkpoint can copy but not restart the log. When the log has grown past a
//! second mark the writer itself restarts it between two commits: by then the thread has copied
//! nearly everything, so that takes a moment only. The length is counted in pages since the last
//! restart, as SQLite tells it at each commit: the file itself never shrinks.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::JoinHandle;

use rusqlite::Connection;
use rusqlite::hooks::Wal;

use semel_core::error::StoreError;

use crate::fail::translate;

/// The log is copied once it has this many pages: 16 MiB.
const COPY_AT: i32 = 4_096;
/// The log is restarted once it has this many pages: 64 MiB.
const RESTART_AT: i32 = 16_384;

/// The checkpoint thread's handle. Dropping it stops the thread.
pub struct Checkpointer {
    pages: Arc<AtomicI32>,
    nudge: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
    /// How many of those pages are in the database file.
    copied: Arc<AtomicI32>,
}

impl Checkpointer {
    /// Starts the thread with a connection of its own, and lets the writer's connection tell the length of the log.
    pub fn start(connection: Connection, writer: &mut Connection) -> Result<Self, StoreError> {
        let pages = Arc::new(AtomicI32::new(0));
        let told = pages.clone();
        let hook = move |_: &mut Wal, pages: i32| {
            told.store(pages, Ordering::Relaxed);
            Ok(())
        };
        writer
            .wal_hook(Some(hook))
            .map_err(|error| translate(error, "watching the log"))?;
        let (nudge, nudges) = mpsc::sync_channel(1);
        let copied = Arc::new(AtomicI32::new(0));
        let done = copied.clone();
        let thread = std::thread::Builder::new()
            .name("semel-checkpoint".to_owned())
            .spawn(move || serve(&connection, &nudges, &done));
        let thread = thread.map_err(|error| StoreError::Unavailable {
            doing: "starting the checkpointer".to_owned(),
            source: Some(Box::new(error)),
        })?;
        Ok(Checkpointer {
            pages,
            nudge: Some(nudge),
            thread: Some(thread),
            copied,
        })
    }

    /// Called by the writer between two commits.
    pub fn after_commit(&self, writer: &Connection) {
        let pages = self.pages.load(Ordering::Relaxed);
        let behind = pages - self.copied.load(Ordering::Relaxed);
        if behind < 0 {
            // The log began anew by itself.
            self.copied.store(0, Ordering::Relaxed);
        } else if pages >= RESTART_AT && behind < COPY_AT {
            // Busy readers may prevent it; a later commit tries again.
            let _ = writer.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(()));
            self.copied.store(0, Ordering::Relaxed);
            self.pages.store(0, Ordering::Relaxed);
        } else if behind >= COPY_AT
            && let Some(nudge) = &self.nudge
        {
            let _ = nudge.try_send(());
        }
    }
}

fn serve(connection: &Connection, nudges: &Receiver<()>, copied: &AtomicI32) {
    while nudges.recv().is_ok() {
        let done = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get::<_, i32>(2));
        if let Ok(pages) = done {
            copied.store(pages, Ordering::Relaxed);
        }
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
