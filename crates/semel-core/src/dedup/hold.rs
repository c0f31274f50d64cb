//! How long a key stays taken, derived from the job that owns it (contract 2.4, 2.9).
//!
//! There is no lock with a life of its own: [`Holding::is_held`] is asked with the owner's life and the time.

use serde::{Deserialize, Serialize};

use crate::error::Invalid;
use crate::job::{Life, Phase};
use crate::limits;
use crate::time::{Millis, Timestamp};

/// The four ways to keep a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldKind {
    /// Until the job is leased for the first time.
    UntilStarted,
    /// Until the job has ended, whatever the outcome.
    UntilFinished,
    /// For a time from the submission, but never less than until the job has ended.
    Window,
    /// Until released by hand.
    Forever,
}

impl HoldKind {
    /// All four, in the order of the contract's table.
    pub const ALL: [HoldKind; 4] = [
        HoldKind::UntilStarted,
        HoldKind::UntilFinished,
        HoldKind::Window,
        HoldKind::Forever,
    ];

    /// The word for this hold.
    pub fn word(self) -> &'static str {
        match self {
            HoldKind::UntilStarted => "until_started",
            HoldKind::UntilFinished => "until_finished",
            HoldKind::Window => "window",
            HoldKind::Forever => "forever",
        }
    }
}

/// Outcomes that free a kept key early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct ReleaseOn {
    /// Free it when the job fails.
    pub failed: bool,
    /// Free it when the job is cancelled.
    pub cancelled: bool,
}

impl ReleaseOn {
    fn covers(self, phase: Phase) -> bool {
        (self.failed && phase == Phase::Failed) || (self.cancelled && phase == Phase::Cancelled)
    }

    fn any(self) -> bool {
        self.failed || self.cancelled
    }
}

/// How long a key stays taken, with its modifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Hold {
    /// Which of the four.
    pub kind: HoldKind,
    /// A bound in time.
    pub ttl: Option<Millis>,
    /// How much longer after the job has ended.
    pub cool_down: Option<Millis>,
    /// Outcomes that free it early.
    pub release_on: ReleaseOn,
}

impl Hold {
    /// The window of an idempotency key where none is given: 30 days.
    pub const DEFAULT_WINDOW: Millis = Millis::from_days(30);

    const fn plain(kind: HoldKind) -> Self {
        Hold {
            kind,
            ttl: None,
            cool_down: None,
            release_on: ReleaseOn {
                failed: false,
                cancelled: false,
            },
        }
    }

    /// Freed at the first lease.
    pub const fn until_started() -> Self {
        Hold::plain(HoldKind::UntilStarted)
    }

    /// Freed when the job ends.
    pub const fn until_finished() -> Self {
        Hold::plain(HoldKind::UntilFinished)
    }

    /// Kept for `ttl` from the submission.
    pub const fn window(ttl: Millis) -> Self {
        Hold {
            ttl: Some(ttl),
            ..Hold::plain(HoldKind::Window)
        }
    }

    /// Kept until released by hand.
    pub const fn forever() -> Self {
        Hold::plain(HoldKind::Forever)
    }

    /// Bounds the hold in time.
    #[must_use]
    pub const fn ttl(mut self, ttl: Millis) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Keeps the key for a while after the job has ended.
    #[must_use]
    pub const fn cool_down(mut self, cool_down: Millis) -> Self {
        self.cool_down = Some(cool_down);
        self
    }

    /// Frees a kept key when the job fails or is cancelled.
    #[must_use]
    pub const fn release_on(mut self, release_on: ReleaseOn) -> Self {
        self.release_on = release_on;
        self
    }

    /// Whether this is `until_finished` with no modifier: what `latest` can follow.
    pub fn is_plain_until_finished(&self) -> bool {
        *self == Hold::until_finished()
    }

    /// The modifiers each hold takes (the table of contract 2.4).
    pub fn check(&self) -> Result<(), Invalid> {
        let word = self.kind.word();
        let no = |part: &str, allowed: &str| Err(Invalid::new(format!("{part} with hold {word}"), allowed));
        if self.ttl.is_some_and(Millis::is_zero) || self.cool_down.is_some_and(Millis::is_zero) {
            return Err(Invalid::new("ttl or cool_down", "at least one millisecond"));
        }
        if self
            .ttl
            .max(self.cool_down)
            .is_some_and(|length| length > limits::LONGEST)
        {
            return Err(Invalid::new("ttl or cool_down", "at most ten years").hint("use hold forever"));
        }
        match self.kind {
            HoldKind::Window if self.ttl.is_none() => no("no ttl", "a ttl"),
            HoldKind::Forever if self.ttl.is_some() => {
                no("ttl", "no ttl; use hold window for a bound in time")
            }
            HoldKind::UntilFinished => self.no_release_on(),
            _ if self.cool_down.is_some() => no("cool_down", "hold until_finished"),
            HoldKind::UntilStarted => self.no_release_on(),
            HoldKind::Window | HoldKind::Forever => Ok(()),
        }
    }

    fn no_release_on(&self) -> Result<(), Invalid> {
        if self.release_on.any() {
            return Err(Invalid::new(
                format!("release_on with hold {}", self.kind.word()),
                "hold window or forever",
            )
            .hint("until_started and until_finished free the key whatever the outcome"));
        }
        Ok(())
    }
}

/// A key in the hands of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    /// How long it is kept.
    pub hold: Hold,
    /// When it was taken.
    pub taken_at: Timestamp,
    /// When its ttl passes.
    pub expires_at: Option<Timestamp>,
    /// Raised each time the key changes owner (contract 2.10).
    pub generation: i64,
    /// It was let go for good: at the first lease, by hand, by a ttl that passed, or taken over.
    pub freed: bool,
    /// Taken by a submission that only watches (contract 2.13).
    pub observed: bool,
}

impl Holding {
    /// A key taken now.
    pub fn take(hold: Hold, now: Timestamp, generation: i64, observed: bool) -> Self {
        Holding {
            hold,
            taken_at: now,
            expires_at: hold.ttl.map(|ttl| now.plus(ttl)),
            generation,
            freed: false,
            observed,
        }
    }

    /// Whether the owner holds its key at `now`. The one place that decides it.
    pub fn is_held(&self, life: &Life, now: Timestamp) -> bool {
        if self.freed {
            return false;
        }
        let ended = life.phase.is_terminal();
        match self.hold.kind {
            HoldKind::UntilStarted => !ended && !self.lapsed(life, now),
            HoldKind::UntilFinished if ended => self.cools_down(life, now),
            HoldKind::UntilFinished => !self.lapsed(life, now),
            HoldKind::Window if ended => {
                self.expires_at.is_some_and(|at| now < at) && !self.hold.release_on.covers(life.phase)
            }
            HoldKind::Forever if ended => !self.hold.release_on.covers(life.phase),
            HoldKind::Window | HoldKind::Forever => true,
        }
    }

    /// When the key will be free if nothing else happens; `None`: when the job ends, or never.
    pub fn free_at(&self, life: &Life) -> Option<Timestamp> {
        let ended = life.phase.is_terminal();
        match self.hold.kind {
            HoldKind::UntilFinished if ended => life
                .finished_at
                .zip(self.hold.cool_down)
                .map(|(at, more)| at.plus(more)),
            HoldKind::Window if ended => self.expires_at,
            HoldKind::UntilStarted | HoldKind::UntilFinished if life.phase == Phase::Waiting => {
                self.expires_at
            }
            _ => None,
        }
    }

    /// A ttl passes only while the job waits for its turn: never under a lease that began before it,
    /// and not while it waits for an operator (contract 5.2).
    fn lapsed(&self, life: &Life, now: Timestamp) -> bool {
        let Some(expires_at) = self.expires_at else {
            return false;
        };
        now >= expires_at && life.phase != Phase::Parked && !life.is_leased_since_before(expires_at, now)
    }

    fn cools_down(&self, life: &Life, now: Timestamp) -> bool {
        life.finished_at
            .zip(self.hold.cool_down)
            .is_some_and(|(at, more)| now < at.plus(more))
    }
}
