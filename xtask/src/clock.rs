//! The one place of xtask that reads a clock: to say how long a step took, and to end a test that hangs.

use std::time::{Duration, Instant};

/// A moment to measure from.
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts measuring.
    #[expect(
        clippy::disallowed_methods,
        reason = "this file is where xtask reads the clock"
    )]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// The time since the start.
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}
