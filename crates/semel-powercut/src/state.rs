//! What all connections of one shim VFS share: counters, the armed fault, the running recordings.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::ffi;

use crate::error::Error;
use crate::log::{Event, Log};
use crate::tapes::{Scope, Tapes};

/// What has been done to database, WAL and journal files since the VFS was installed.
///
/// Only successful calls count; temporary files and the wal-index do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Calls of xSync.
    pub syncs: u64,
    /// Calls of xWrite.
    pub writes: u64,
    /// Bytes written by these.
    pub bytes: u64,
}

impl Counts {
    /// The growth since an earlier reading.
    pub fn since(self, earlier: Counts) -> Counts {
        Counts {
            syncs: self.syncs - earlier.syncs,
            writes: self.writes - earlier.writes,
            bytes: self.bytes - earlier.bytes,
        }
    }
}

/// How an injected write failure looks to SQLite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The disk is full: `SQLITE_FULL`.
    Full,
    /// The device failed: `SQLITE_IOERR_WRITE`.
    IoError,
}

impl Fault {
    fn code(self) -> i32 {
        match self {
            Fault::Full => ffi::SQLITE_FULL,
            Fault::IoError => ffi::SQLITE_IOERR_WRITE,
        }
    }
}

struct Armed {
    passes: u64,
    fault: Fault,
}

/// The state behind one VFS name; lives as long as the process.
#[derive(Default)]
pub(crate) struct Shared {
    syncs: AtomicU64,
    writes: AtomicU64,
    bytes: AtomicU64,
    /// Whether `fault` is set: spares the lock on every ordinary write.
    faulty: AtomicBool,
    fault: Mutex<Option<Armed>>,
    /// Whether there is any tape: spares the lock when nothing is recorded.
    recording: AtomicBool,
    tapes: Mutex<Tapes>,
}

impl Shared {
    pub(crate) fn counts(&self) -> Counts {
        Counts {
            syncs: self.syncs.load(Ordering::Relaxed),
            writes: self.writes.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn arm(&self, nth: Option<u64>, fault: Fault) {
        let armed = nth.map(|n| Armed {
            passes: n.saturating_sub(1),
            fault,
        });
        let mut slot = lock(&self.fault);
        self.faulty.store(armed.is_some(), Ordering::SeqCst);
        *slot = armed;
    }

    /// The code with which the write about to be made must fail, if it must.
    pub(crate) fn fault_due(&self) -> Option<i32> {
        if !self.faulty.load(Ordering::SeqCst) {
            return None;
        }
        let mut slot = lock(&self.fault);
        let armed = slot.as_mut()?;
        if armed.passes == 0 {
            return Some(armed.fault.code());
        }
        armed.passes -= 1;
        None
    }

    /// To be called when a write has succeeded, never before: a sync that starts in between must
    /// not be credited with bytes that were not in the file yet.
    pub(crate) fn wrote(&self, path: &Path, offset: u64, data: &[u8]) {
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
        self.log(path, |file| Event::Write {
            file,
            offset,
            data: data.to_vec(),
        });
    }

    /// To be called when a truncation has succeeded.
    pub(crate) fn truncated(&self, path: &Path, size: u64) {
        self.log(path, |file| Event::Truncate { file, size });
    }

    /// To be called before a sync: tells what it will cover, for [`Shared::synced`].
    pub(crate) fn sync_begins(&self) -> u64 {
        if self.is_recording() {
            self.tapes().next_seq()
        } else {
            0
        }
    }

    /// To be called when a sync has succeeded.
    pub(crate) fn synced(&self, path: &Path, covers: u64) {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.log(path, |file| Event::Sync { file, covers });
    }

    /// The tapes, locked. Opening and deleting hold this over the real operation, so that no
    /// other connection can log a write to a file whose creation is not logged yet.
    pub(crate) fn tapes(&self) -> MutexGuard<'_, Tapes> {
        lock(&self.tapes)
    }

    /// Starts a recording of the files in `scope`; returns its number.
    pub(crate) fn start(&self, scope: Scope) -> Result<u64, Error> {
        let mut tapes = self.tapes();
        // Before the files are read: a write that is too early for the log is then in the files.
        self.recording.store(true, Ordering::SeqCst);
        let started = tapes.start(scope);
        self.recording.store(tapes.any(), Ordering::SeqCst);
        started
    }

    pub(crate) fn stop(&self, id: u64) -> Log {
        let mut tapes = self.tapes();
        let log = tapes.stop(id);
        self.recording.store(tapes.any(), Ordering::SeqCst);
        log
    }

    fn is_recording(&self) -> bool {
        self.recording.load(Ordering::SeqCst)
    }

    fn log(&self, path: &Path, event: impl Fn(String) -> Event) {
        if self.is_recording() {
            self.tapes().append(path, event);
        }
    }
}

/// Locks even after a panic elsewhere: a failed assertion in one test must not fail the others.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
