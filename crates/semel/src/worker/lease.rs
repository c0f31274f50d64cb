//! One leased job in the hands of this worker: what is known of it, what is to be told about it, and whether
//! it still is ours.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use semel_core::store::{Claimed, Store};
use semel_core::view;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Log lines kept for a job until the next heartbeat takes them.
const LINES: usize = 1_000;

/// How far the work on a leased job is.
const WAITING: u8 = 0;
const RUNNING: u8 = 1;
const OVER: u8 = 2;

/// What became of a lease while its job was in our hands; only ever gets worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Fate {
    /// It is ours.
    Held = 0,
    /// The job was cancelled: the handler is told, and may finish tidily.
    Cancelled = 1,
    /// The worker stops and its grace is over: the job is handed back.
    Stopped = 2,
    /// The job is somebody else's by now.
    Lost = 3,
}

/// A leased job.
pub(crate) struct Lease {
    pub(crate) job: view::Job,
    pub(crate) fence: i64,
    /// Its place in the register of leases.
    pub(crate) place: usize,
    /// Which of the worker's claims it counts against.
    pub(crate) group: usize,
    pub(crate) store: Arc<dyn Store>,
    /// When it ends by our own reckoning, unless it is extended.
    until: Mutex<Instant>,
    course: AtomicU8,
    fate: AtomicU8,
    told: Notify,
    notes: Mutex<Notes>,
    /// Rung when there are notes to send.
    bell: Arc<Notify>,
}

/// What a handler has said and the store has not heard yet.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(crate) progress: Option<f64>,
    pub(crate) lines: Vec<String>,
    dropped: usize,
}

impl Lease {
    pub(crate) fn new(
        claimed: Claimed,
        place: usize,
        group: usize,
        store: Arc<dyn Store>,
        bell: Arc<Notify>,
        until: Instant,
    ) -> Self {
        Lease {
            job: claimed.job,
            fence: claimed.fence,
            place,
            group,
            store,
            until: Mutex::new(until),
            course: AtomicU8::new(WAITING),
            fate: AtomicU8::new(Fate::Held as u8),
            told: Notify::new(),
            notes: Mutex::default(),
            bell,
        }
    }

    pub(crate) fn fate(&self) -> Fate {
        match self.fate.load(Ordering::Acquire) {
            0 => Fate::Held,
            1 => Fate::Cancelled,
            2 => Fate::Stopped,
            _ => Fate::Lost,
        }
    }

    /// It ends at this moment instead.
    pub(crate) fn extended(&self, until: Instant) {
        *self.until() = until;
    }

    /// Whether it has run out by our own reckoning: somebody else may have been given the job.
    pub(crate) fn has_run_out(&self, now: Instant) -> bool {
        *self.until() <= now
    }

    fn until(&self) -> MutexGuard<'_, Instant> {
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A handler is at it from now on.
    pub(crate) fn begin(&self) {
        self.course.store(RUNNING, Ordering::Release);
    }

    /// No handler is at it any more; how it ended is still to be told.
    pub(crate) fn end(&self) {
        self.course.store(OVER, Ordering::Release);
    }

    pub(crate) fn is_running(&self) -> bool {
        self.course.load(Ordering::Acquire) == RUNNING
    }

    pub(crate) fn is_over(&self) -> bool {
        self.course.load(Ordering::Acquire) == OVER
    }

    /// Tells whoever is at the job what became of its lease; says whether that was news.
    pub(crate) fn tell(&self, fate: Fate) -> bool {
        let is_news = self.fate.fetch_max(fate as u8, Ordering::AcqRel) < fate as u8;
        if is_news {
            self.told.notify_waiters();
        }
        is_news
    }

    /// Waits until the lease has come to this, or worse.
    pub(crate) async fn comes_to(&self, fate: Fate) {
        loop {
            let told = self.told.notified();
            tokio::pin!(told);
            // Registered before the fate is read, or news in between would be missed.
            told.as_mut().enable();
            if self.fate() >= fate {
                return;
            }
            told.await;
        }
    }

    pub(crate) fn note_progress(&self, progress: f64) {
        self.note(|notes| notes.progress = Some(progress));
    }

    pub(crate) fn note_line(&self, line: String) {
        self.note(|notes| match notes.lines.len() < LINES {
            true => notes.lines.push(line),
            false => notes.dropped += 1,
        });
    }

    fn note(&self, add: impl FnOnce(&mut Notes)) {
        let mut notes = self.notes();
        let first = notes.is_empty();
        add(&mut notes);
        drop(notes);
        if first {
            self.bell.notify_one();
        }
    }

    pub(crate) fn has_notes(&self) -> bool {
        !self.notes().is_empty()
    }

    /// Takes what is to be told.
    pub(crate) fn take_notes(&self) -> Notes {
        let mut notes = std::mem::take(&mut *self.notes());
        if notes.dropped > 0 {
            let line = format!("… {} lines too many at once, not kept", notes.dropped);
            notes.lines.push(line);
            notes.dropped = 0;
        }
        notes
    }

    /// Puts back what could not be told, before what was said since.
    pub(crate) fn return_notes(&self, mut unsent: Notes) {
        let mut notes = self.notes();
        unsent.progress = notes.progress.or(unsent.progress);
        unsent.lines.append(&mut notes.lines);
        unsent.dropped += notes.dropped;
        *notes = unsent;
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Notes {
    pub(crate) fn is_empty(&self) -> bool {
        self.progress.is_none() && self.lines.is_empty() && self.dropped == 0
    }
}
