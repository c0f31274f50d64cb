//! The host's clock: the only place of this crate that reads it.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use semel_core::time::{Clock, MonotoneClock, Timestamp};

/// The host's time, never backwards: for stores in memory.
pub fn host() -> Arc<dyn Clock> {
    Arc::new(MonotoneClock::new(read))
}

/// The host's time right now, for what never reaches a store: ages and log lines.
pub fn now() -> Timestamp {
    Timestamp::from_millis(read() / 1_000)
}

/// A reading to measure waits from; never stored.
pub(crate) fn instant() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
fn read() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
