//! Moving what was committed from the log into the database file, on a thread of its own.
//!
//! While others write, a checkpoint can copy but not restart the log. When the log has grown past a
//! second mark the writer itself restarts it between two commits: by then the thread has copied
//! nearly everything, so that takes a moment only.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::JoinHandle;

use rusqlite::Connection;

/// The log is copied once it is this long.
const COPY_AT: u64 = 16 << 20;
/// The log is restarted once it is this long.
const RESTART_AT: u64 = 64 << 20;
/// Commits between two looks at the length of the log.
const LOOK_EVERY: u32 = 16;

/// The checkpoint thread's handle. Dropping it stops the thread.
pub struct Checkpointer {
    log: PathBuf,
    nudge: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
    copied: std::sync::Arc<AtomicBool>,
    commits: Mutex<u32>,
}

impl Checkpointer {
    /// Starts the thread with a connection of its own.
    pub fn start(connection: Connection, log: PathBuf) -> std::io::Result<Self> {
        let (nudge, nudges) = mpsc::sync_channel(1);
        let copied = std::sync::Arc::new(AtomicBool::new(false));
        let told = copied.clone();
        let thread = std::thread::Builder::new()
            .name("semel-checkpoint".to_owned())
            .spawn(move || serve(&connection, &nudges, &told))?;
        Ok(Checkpointer { log, nudge: Some(nudge), thread: Some(thread), copied, commits: Mutex::new(0) })
    }

    /// Called by the writer between two commits.
    pub fn after_commit(&self, writer: &Connection) {
        let mut commits = self.commits.lock().unwrap_or_else(PoisonError::into_inner);
        *commits += 1;
        if *commits < LOOK_EVERY {
            return;
        }
        *commits = 0;
        drop(commits);
        let length = std::fs::metadata(&self.log).map_or(0, |log| log.len());
        if length >= RESTART_AT && self.copied.swap(false, Ordering::AcqRel) {
            // Busy readers may prevent it; the next look tries again.
            let _ = writer.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(()));
        } else if length >= COPY_AT {
            if let Some(nudge) = &self.nudge {
                let _ = nudge.try_send(());
            }
        }
    }
}

fn serve(connection: &Connection, nudges: &Receiver<()>, copied: &AtomicBool) {
    while nudges.recv().is_ok() {
        let done = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        if done.is_ok() {
            copied.store(true, Ordering::Release);
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
