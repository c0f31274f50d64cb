//! Settings, documents, feeds, housekeeping.

use serde::Serialize;

use crate::dedup::Mode;
use crate::ids::Name;
use crate::json::Json;
use crate::time::{Millis, Timestamp};

/// How a target is set.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct Setting {
    /// Work is held back.
    pub paused: Option<Pause>,
    /// Submissions are refused.
    pub closed: bool,
    /// Until when, if not until opened.
    pub closed_until: Option<Timestamp>,
    /// Submissions that say nothing are deduplicated by input (contract 2.15).
    pub unique: bool,
    /// Policies act or only watch.
    pub mode: Mode,
    /// Until when they only watch, if not until they are to act again.
    pub observed_until: Option<Timestamp>,
}

impl Setting {
    /// Whether work is held back at a moment.
    pub fn is_paused(&self, now: Timestamp) -> bool {
        self.paused
            .as_ref()
            .is_some_and(|pause| pause.until.is_none_or(|until| now < until))
    }

    /// Whether submissions are refused at a moment.
    pub fn is_closed(&self, now: Timestamp) -> bool {
        self.closed && self.closed_until.is_none_or(|until| now < until)
    }

    /// Whether policies only watch at a moment.
    pub fn is_observed(&self, now: Timestamp) -> bool {
        self.mode == Mode::Observe && self.observed_until.is_none_or(|until| now < until)
    }

    /// The setting after a change at `now`.
    #[must_use]
    pub fn changed(&self, change: &SettingChange, now: Timestamp) -> Setting {
        let mut next = self.clone();
        match change {
            SettingChange::Pause { lasting, reason } => {
                let until = lasting.map(|length| now.plus(length));
                next.paused = Some(Pause {
                    since: now,
                    until,
                    reason: reason.clone(),
                });
            }
            SettingChange::Resume => next.paused = None,
            SettingChange::Intake { open } => (next.closed, next.closed_until) = (!open, None),
            SettingChange::CloseFor { length } => {
                (next.closed, next.closed_until) = (true, Some(now.plus(*length)));
            }
            SettingChange::Unique { unique } => next.unique = *unique,
            SettingChange::Mode { mode } => (next.mode, next.observed_until) = (*mode, None),
            SettingChange::ObserveFor { length } => {
                (next.mode, next.observed_until) = (Mode::Observe, Some(now.plus(*length)));
            }
        }
        next
    }
}

/// Work is held back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pause {
    /// Since when.
    pub since: Timestamp,
    /// Until when, if not until resumed.
    pub until: Option<Timestamp>,
    /// Why.
    pub reason: Option<String>,
}

/// A change of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingChange {
    /// Holds work back. After the answer no claim hands it out (contract 6.1).
    Pause {
        /// For how long; `None`: until resumed.
        lasting: Option<Millis>,
        /// Why.
        reason: Option<String>,
    },
    /// Lets work go on.
    Resume,
    /// Opens or closes the intake.
    Intake {
        /// Whether submissions are taken.
        open: bool,
    },
    /// Closes the intake for a while.
    CloseFor {
        /// For how long.
        length: Millis,
    },
    /// Declares a queue, or all queues, unique.
    Unique {
        /// Whether it is.
        unique: bool,
    },
    /// Lets policies act or only watch.
    Mode {
        /// Which.
        mode: Mode,
    },
    /// Lets policies only watch for a while.
    ObserveFor {
        /// For how long.
        length: Millis,
    },
}

/// A small versioned document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// What it is: `schedule`, `worker`, …
    pub kind: Name,
    /// Its name among its kind.
    pub name: String,
    /// Grows with each write, also over a removal.
    pub version: i64,
    /// What it says.
    pub body: Json,
    /// When it was written.
    pub updated_at: Timestamp,
    /// When it disappears by itself.
    pub expires_at: Option<Timestamp>,
}

/// A write of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutDocument {
    /// What it is.
    pub kind: Name,
    /// Its name among its kind, at most 512 bytes.
    pub name: String,
    /// What it says.
    pub body: Json,
    /// What has to be there for the write to happen.
    pub expect: Expect,
    /// Let it disappear by itself after this.
    pub ttl: Option<Millis>,
}

/// What has to be there for a write to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Anything or nothing.
    Any,
    /// Nothing.
    Absent,
    /// This version.
    Version(i64),
}

/// What came of a write or a removal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PutOutcome {
    /// Written, or removed; the new or last version.
    Done {
        /// The version.
        version: i64,
    },
    /// Something else was there.
    Mismatch {
        /// What, if anything.
        found: Option<Document>,
    },
}

/// One entry of a feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedEntry {
    /// Its place in the feed.
    pub n: i64,
    /// When it was written.
    pub at: Timestamp,
    /// What it says.
    pub body: Json,
}

/// The name of the feed with the log lines of a job.
pub fn log_feed(id: &crate::ids::JobId) -> String {
    format!("log/{id}")
}

/// Entries a feed keeps; older ones are pruned.
pub const FEED_ENTRIES: usize = 10_000;

/// How long things are kept once they have ended (the defaults of the contract).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Complete jobs.
    pub complete: Millis,
    /// Failed and cancelled jobs.
    pub failed: Millis,
    /// Absorbed submissions.
    pub ledger: Millis,
}

impl Default for Retention {
    fn default() -> Self {
        Retention {
            complete: Millis::from_days(7),
            failed: Millis::from_days(30),
            ledger: Millis::from_days(30),
        }
    }
}

/// A round of housekeeping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpkeepRequest {
    /// How long things are kept.
    pub retention: Retention,
    /// At most this many rows of each kind, so that no step is long.
    pub budget: usize,
    /// One of the rounds that many processes make all the time: a store where a round is expensive may leave out what
    /// another process has done a moment ago, or is doing.
    pub regular: bool,
}

impl Default for UpkeepRequest {
    fn default() -> Self {
        UpkeepRequest {
            retention: Retention::default(),
            budget: 1_000,
            regular: false,
        }
    }
}

/// What a round of housekeeping did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct UpkeepReport {
    /// Leases found to have run out.
    pub expired: u64,
    /// Jobs removed.
    pub pruned: u64,
    /// Jobs of which a stub is left.
    pub stubbed: u64,
    /// Ledger entries folded or removed.
    pub ledger: u64,
    /// Whether a snapshot was taken.
    pub snapshot: bool,
    /// Whether there is more to do right away.
    pub more: bool,
}

/// Something the doctor found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The invariant that is broken, such as `I13`.
    pub invariant: &'static str,
    /// What was found.
    pub what: String,
    /// Whether it was repaired.
    pub repaired: bool,
}
