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
