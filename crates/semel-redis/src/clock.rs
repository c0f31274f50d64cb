//! The store's time is the server's. This file knows the host's clock only to guess it between two answers,
//! and to make handles and waiting times differ.

#![expect(
    clippy::disallowed_methods,
    reason = "the one file that reads the host's clock: to guess the server's between two answers"
)]

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use semel_core::time::{Clock, Timestamp};

/// Where the store's time comes from.
pub struct Time {
    /// In tests, a clock that is moved by hand instead of the server's.
    manual: Option<Arc<dyn Clock>>,
    /// How far the server's clock is ahead of the host's, as last seen.
    ahead: AtomicI64,
    /// When it was asked for that, by the host's clock and by one that nobody sets.
    asked_at: AtomicI64,
    asked_after: AtomicI64,
    begun: Instant,
}

/// The moment before the server was asked, by the host's clock and by one that nobody sets.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    at: i64,
    after: i64,
}

/// For how long the server's clock need not be looked at again, in microseconds: a step of it is met so much later.
const JUST_NOW: i64 = 50_000;
/// By how much the host's clock may be set meanwhile.
const STEADY: i64 = 5_000;

impl Time {
    /// The server's time, or that of a clock.
    pub fn new(manual: Option<Arc<dyn Clock>>) -> Self {
        Time {
            manual,
            ahead: AtomicI64::new(0),
            asked_at: AtomicI64::new(0),
            asked_after: AtomicI64::new(-JUST_NOW),
            begun: Instant::now(),
        }
    }

    /// The server is about to be asked.
    pub fn ask(&self) -> Asked {
        Asked {
            at: host_micros(),
            after: self.going(),
        }
    }

    /// The time in microseconds, given what the server just said. However long the reply was on its way, or lay there
    /// while this process was stopped, the guess is behind by so much, and trusted from the question on.
    pub fn seen(&self, asked: Asked, server: i64) -> i64 {
        self.ahead.store(server - host_micros(), Ordering::Relaxed);
        self.asked_at.store(asked.at, Ordering::Relaxed);
        self.asked_after.store(asked.after, Ordering::Relaxed);
        self.manual.as_ref().map_or(server, |clock| clock.micros())
    }

    /// About the time the server would say now.
    pub fn about_now(&self) -> Timestamp {
        Timestamp::from_millis(self.about_micros() / 1_000)
    }

    /// The same in microseconds.
    pub fn about_micros(&self) -> i64 {
        match &self.manual {
            Some(clock) => clock.micros(),
            None => host_micros() + self.ahead.load(Ordering::Relaxed),
        }
    }

    /// Whether the server was asked for its time just now and has told it, and the host's clock was not set since: then
    /// the guess is good.
    pub fn was_just_seen(&self) -> bool {
        let passed = self.going() - self.asked_after.load(Ordering::Relaxed);
        let shown = host_micros() - self.asked_at.load(Ordering::Relaxed);
        (0..JUST_NOW).contains(&passed) && (shown - passed).abs() < STEADY
    }

    fn going(&self) -> i64 {
        i64::try_from(self.begun.elapsed().as_micros()).unwrap_or(i64::MAX)
    }

    /// Whether it is the server's.
    pub fn is_the_servers(&self) -> bool {
        self.manual.is_none()
    }
}

fn host_micros() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
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

    /// How much is left.
    pub fn left(&self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }
}

/// A number nobody else has drawn.
pub fn random() -> u64 {
    RandomState::new().hash_one(0u8)
}

/// Between half and all of a length, so that those who failed together do not try again together.
pub fn jittered(length: Duration) -> Duration {
    let share = random() % 1_000;
    length / 2 + length.mul_f64(share as f64 / 2_000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_that_lay_there_for_long_is_not_trusted() {
        let time = Time::new(None);
        time.seen(time.ask(), host_micros());
        assert!(time.was_just_seen());
        // The server answers, and then this process is stopped for a while.
        let (asked, server) = (time.ask(), host_micros());
        std::thread::sleep(Duration::from_millis(60));
        time.seen(asked, server);
        assert!(!time.was_just_seen());
    }
}
