//! Moments and lengths of time, and the clock every store is given.
//!
//! Core never reads a clock: a [`Clock`] is handed in. [`MonotoneClock`] turns any reading into one
//! that never goes backwards; [`ManualClock`] is moved by hand.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A moment, in milliseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The last moment a job may be planned for: the end of the year 9999.
    pub const MAX: Timestamp = Timestamp(253_402_300_799_999);

    /// A moment from milliseconds since the epoch.
    pub const fn from_millis(millis: i64) -> Self {
        Timestamp(millis)
    }

    /// Milliseconds since the epoch.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// This moment plus a length, never past the representable range.
    pub const fn plus(self, length: Millis) -> Self {
        Timestamp(self.0.saturating_add(length.0))
    }

    /// How long after `earlier` this moment is; zero if it is not after it.
    pub const fn since(self, earlier: Timestamp) -> Millis {
        let difference = self.0.saturating_sub(earlier.0);
        Millis(if difference > 0 { difference } else { 0 })
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(moment) => write!(f, "{moment}"),
            Err(_) => write!(f, "{}ms", self.0),
        }
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A length of time in whole milliseconds, never negative.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Millis(i64);

impl Millis {
    /// No time at all.
    pub const ZERO: Millis = Millis(0);

    /// A length from milliseconds; negative becomes zero.
    pub const fn new(millis: i64) -> Self {
        Millis(if millis > 0 { millis } else { 0 })
    }

    /// A length from seconds.
    pub const fn from_secs(secs: i64) -> Self {
        Millis::new(secs.saturating_mul(1_000))
    }

    /// A length from days of 24 hours.
    pub const fn from_days(days: i64) -> Self {
        Millis::from_secs(days.saturating_mul(86_400))
    }

    /// The number of milliseconds.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Whether this is no time at all.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl From<Duration> for Millis {
    fn from(duration: Duration) -> Self {
        Millis(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX))
    }
}

impl From<Millis> for Duration {
    fn from(length: Millis) -> Self {
        Duration::from_millis(length.0.unsigned_abs())
    }
}

/// Where a store that has no time of its own gets it from.
///
/// Readings never go backwards within one clock (contract 1.8).
pub trait Clock: Send + Sync + fmt::Debug {
    /// Microseconds since the epoch.
    fn micros(&self) -> i64;

    /// The same reading in milliseconds.
    fn now(&self) -> Timestamp {
        Timestamp(self.micros() / 1_000)
    }
}

/// Any source of readings, made to never go backwards.
pub struct MonotoneClock {
    read: Box<dyn Fn() -> i64 + Send + Sync>,
    highest: AtomicI64,
}

impl MonotoneClock {
    /// A clock over `read`, which gives microseconds since the epoch.
    pub fn new(read: impl Fn() -> i64 + Send + Sync + 'static) -> Self {
        MonotoneClock {
            read: Box::new(read),
            highest: AtomicI64::new(0),
        }
    }
}

impl fmt::Debug for MonotoneClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MonotoneClock")
            .field("highest", &self.highest)
            .finish_non_exhaustive()
    }
}

impl Clock for MonotoneClock {
    fn micros(&self) -> i64 {
        let reading = (self.read)();
        self.highest.fetch_max(reading, Ordering::AcqRel).max(reading)
    }
}

/// A clock that stands still until it is moved; for tests.
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// A clock that shows `start`.
    pub fn new(start: Timestamp) -> Self {
        ManualClock(AtomicI64::new(start.as_millis() * 1_000))
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Millis) {
        self.0.fetch_add(by.as_millis() * 1_000, Ordering::AcqRel);
    }
}

impl Clock for ManualClock {
    fn micros(&self) -> i64 {
        self.0.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_monotone_clock_ignores_a_step_backwards() {
        let source = Arc::new(AtomicI64::new(5_000_000));
        let read = source.clone();
        let clock = MonotoneClock::new(move || read.load(Ordering::Acquire));
        assert_eq!(clock.micros(), 5_000_000);
        source.store(1_000_000, Ordering::Release);
        assert_eq!(clock.micros(), 5_000_000);
        source.store(6_000_000, Ordering::Release);
        assert_eq!(clock.now(), Timestamp::from_millis(6_000));
    }
}
