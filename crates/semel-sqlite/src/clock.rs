//! The host's clock: the only place of this crate that reads it.

use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use semel_core::time::{Clock, MonotoneClock};

/// The time of an embedded store: the host's, never backwards.
pub fn host() -> Arc<dyn Clock> {
    Arc::new(MonotoneClock::new(read))
}

/// A reading to measure lengths with.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
pub fn instant() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
fn read() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
