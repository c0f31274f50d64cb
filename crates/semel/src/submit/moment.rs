//! Moments as people have them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use semel_core::time::Timestamp;

/// A moment, in any of the types people have one in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment(pub(super) Timestamp);

impl From<Timestamp> for Moment {
    fn from(at: Timestamp) -> Self {
        Moment(at)
    }
}

impl From<jiff::Timestamp> for Moment {
    fn from(at: jiff::Timestamp) -> Self {
        Moment(Timestamp::from_millis(at.as_millisecond()))
    }
}

impl From<SystemTime> for Moment {
    fn from(at: SystemTime) -> Self {
        let millis = |length: Duration| i64::try_from(length.as_millis()).unwrap_or(i64::MAX);
        Moment(Timestamp::from_millis(match at.duration_since(UNIX_EPOCH) {
            Ok(since) => millis(since),
            Err(before) => -millis(before.duration()),
        }))
    }
}
