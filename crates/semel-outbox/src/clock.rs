//! The one place of this crate that reads the clock.

/// The host's time in milliseconds since 1970.
pub(crate) fn now_millis() -> i64 {
    semel::clock::now().as_millis()
}
