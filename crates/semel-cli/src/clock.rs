//! The one place of this crate that reads the clock: "3 m ago" needs to know when now is.

use semel_core::time::Timestamp;

/// The host's time.
#[expect(clippy::disallowed_methods, reason = "this is the file that reads the clock")]
pub fn now() -> Timestamp {
    Timestamp::from_millis(jiff::Timestamp::now().as_millisecond())
}

/// A reading to measure lengths with.
#[expect(clippy::disallowed_methods, reason = "this is the file that reads the clock")]
pub fn instant() -> std::time::Instant {
    std::time::Instant::now()
}
