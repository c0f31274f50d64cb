//! The only place of this crate that reads a clock.

use std::time::{Duration, Instant};

/// Runs from its making on.
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts now.
    #[expect(clippy::disallowed_methods, reason = "a bench measures time")]
    pub(crate) fn start() -> Self {
        Stopwatch(Instant::now())
    }

    /// How long it has been running.
    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// What a clock on the wall says, in milliseconds since 1970.
#[cfg(feature = "redis")]
#[expect(
    clippy::disallowed_methods,
    reason = "a token says when it was made; no store takes it for its time"
)]
pub(crate) fn millis_now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}
