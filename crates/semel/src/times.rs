//! Durations that read as they are said.

use std::time::Duration;

/// Milliseconds.
pub const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Seconds.
pub const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Minutes.
pub const fn mins(n: u64) -> Duration {
    Duration::from_secs(60 * n)
}

/// Hours.
pub const fn hours(n: u64) -> Duration {
    Duration::from_secs(3_600 * n)
}

/// Days of 24 hours.
pub const fn days(n: u64) -> Duration {
    Duration::from_secs(86_400 * n)
}
