//! The store's time: a lower bound of the server's, learned from the `Date` of its answers and carried on by a
//! monotonic clock; so nothing is ever early. Also the only file that reads the host's clock and makes nonces.

#![expect(
    clippy::disallowed_methods,
    reason = "the one file that reads the host's clock: to carry the server's time on between two answers"
)]

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use semel_core::time::{Clock, Millis, Timestamp};

/// A second, in microseconds.
const SECOND: i64 = 1_000_000;

/// The one reading of the clock that a step works with.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    pub micros: i64,
    pub now: Timestamp,
}

impl Moment {
    /// A moment from microseconds.
    pub fn at(micros: i64) -> Self {
        Moment {
            micros,
            now: Timestamp::from_millis(micros / 1_000),
        }
    }
}

/// Where the store's time comes from.
#[derive(Debug)]
pub enum Time {
    /// A clock that was handed in.
    Given(Arc<dyn Clock>),
    /// The `Date` of the server's answers.
    Server(ServerTime),
}

/// What is known of the server's clock.
#[derive(Debug)]
pub struct ServerTime {
    /// The highest lower bound of (server's clock − monotonic clock) seen, in microseconds.
    ahead: AtomicI64,
    highest: AtomicI64,
    answers: AtomicU64,
}

impl Default for ServerTime {
    fn default() -> Self {
        ServerTime {
            ahead: AtomicI64::new(i64::MIN),
            highest: AtomicI64::new(0),
            answers: AtomicU64::new(0),
        }
    }
}

impl ServerTime {
    /// An answer said this second. When it arrives, the server's clock shows that second at least.
    pub fn saw(&self, seconds: i64) {
        self.answers.fetch_add(1, Ordering::Relaxed);
        let ahead = seconds.saturating_mul(1_000_000) - monotonic();
        self.ahead.fetch_max(ahead, Ordering::AcqRel);
    }

    /// Somebody who shares the bucket wrote at this moment, by a clock that is never ahead of the server's either. So
    /// it is at least that late; but nobody's clock is more than its second ahead of another's.
    fn heard(&self, at: Timestamp) {
        let own = self.ahead.load(Ordering::Acquire).saturating_add(monotonic());
        let heard = at.as_millis().saturating_mul(1_000);
        if heard > own && own > 0 {
            self.ahead
                .fetch_max(heard.min(own + SECOND) - monotonic(), Ordering::AcqRel);
        }
    }

    /// How many answers said the time.
    pub fn answers(&self) -> u64 {
        self.answers.load(Ordering::Relaxed)
    }

    fn micros(&self) -> i64 {
        let ahead = self.ahead.load(Ordering::Acquire);
        let reading = if ahead == i64::MIN {
            // Before the first answer nothing is decided by it.
            host_micros()
        } else {
            ahead + monotonic()
        };
        self.highest.fetch_max(reading, Ordering::AcqRel).max(reading)
    }
}

impl Time {
    /// Now.
    pub fn moment(&self) -> Moment {
        Moment::at(match self {
            Time::Given(clock) => clock.micros(),
            Time::Server(server) => server.micros(),
        })
    }

    /// Learns from when others wrote: what they did at once is due at once, whoever's clock is behind.
    pub fn heard(&self, at: Timestamp) {
        if let Time::Server(server) = self {
            server.heard(at);
        }
    }

    /// Whether it is the server's, as that of the objects in its lists.
    pub fn is_servers(&self) -> bool {
        matches!(self, Time::Server(_))
    }

    /// How much later than this it may be.
    pub fn slack(&self) -> Millis {
        match self {
            Time::Given(_) => Millis::new(0),
            Time::Server(_) => Millis::from_secs(1),
        }
    }

    /// How finely it tells time.
    pub fn resolution(&self) -> Millis {
        match self {
            Time::Given(_) => Millis::new(1),
            Time::Server(_) => Millis::from_secs(1),
        }
    }
}

/// The host's clock, for stores that have no server.
#[derive(Debug)]
pub struct HostClock;

impl Clock for HostClock {
    fn micros(&self) -> i64 {
        host_micros()
    }
}

fn host_micros() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// Seconds since 1970 by the host's clock: only to tell how old a leftover is.
pub fn host_seconds() -> i64 {
    host_micros() / 1_000_000
}

fn monotonic() -> i64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let since = START.get_or_init(Instant::now).elapsed();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// A moment by which something has to be over.
#[derive(Clone, Copy)]
pub struct Deadline(Instant);

impl Deadline {
    /// So long from now.
    pub fn after(length: Duration) -> Self {
        Deadline(Instant::now() + length)
    }

    /// Whether it is over.
    pub fn is_over(&self) -> bool {
        Instant::now() >= self.0
    }
}

/// A number nobody else has drawn.
pub fn random() -> u64 {
    static DRAWN: AtomicU64 = AtomicU64::new(0);
    RandomState::new().hash_one(DRAWN.fetch_add(1, Ordering::Relaxed))
}

/// Between half and all of a length, so that those who failed together do not try again together.
pub fn jittered(length: Duration) -> Duration {
    let share = random() % 1_000;
    length / 2 + length.mul_f64(share as f64 / 2_000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: i64 = 1_800_000_000;

    /// By the server's clock, in seconds, to within what the test itself takes.
    fn is_about(time: &ServerTime, seconds: i64) -> bool {
        (0..SECOND).contains(&(time.micros() - seconds * SECOND))
    }

    #[test]
    fn time_does_not_go_back_with_the_servers_clock() {
        let time = ServerTime::default();
        time.saw(NOON);
        time.saw(NOON - 3_600);
        assert!(is_about(&time, NOON));
        time.saw(NOON + 1);
        assert!(is_about(&time, NOON + 1));
    }

    /// A process that starts after the server's clock was set back catches up with those who went on: what they have
    /// made due is due, and nobody waits for an hour.
    #[test]
    fn who_comes_later_catches_up_with_what_others_wrote() {
        let time = ServerTime::default();
        time.saw(NOON - 5);
        let noon = Timestamp::from_millis(NOON * 1_000);
        time.heard(noon);
        assert!(is_about(&time, NOON - 4), "a second at a time");
        (0..10).for_each(|_| time.heard(noon));
        assert!(is_about(&time, NOON), "and no further than that");
    }
}
