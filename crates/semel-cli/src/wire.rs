//! The JSON of `--json`: one shape, the same that HTTP answers have.
//!
//! `snake_case`, times in RFC 3339 UTC, durations with `_ms`, absent members left out. A command that
//! lists says `{"items": […], "next_cursor": …}`; one that shows says the thing itself.

mod job;
mod key;
mod operating;
mod operation;
mod outbox;
mod stats;
mod submitted;
mod working;

pub use job::{Attempt, Job, JobPage, LogLine, Step, StepRow};
pub use key::{Holder, Key, KeyPage, KeyRow, LedgerEntry};
pub use operating::{Finding, GuaranteeSheet, QueueRow, Setting, TaskRow};
pub use operation::{Acted, DeadLetters, ErrorGroup, Operation};
pub use outbox::{Outbox, OutboxAudit};
pub use stats::{Stats, StatsRow};
pub use submitted::{Answer, Explanation};
pub use working::{Delivery, Schedule, Worker};

use semel_core::time::Timestamp;
use serde::{Serialize, Serializer};

/// A moment as RFC 3339.
#[derive(Clone, Copy, Debug)]
pub struct Moment(pub Timestamp);

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl From<Timestamp> for Moment {
    fn from(at: Timestamp) -> Self {
        Moment(at)
    }
}

/// One page of a list.
#[derive(Debug, Serialize)]
pub struct List<T> {
    /// The rows.
    pub items: Vec<T>,
    /// Where the next page begins.
    pub next_cursor: Option<String>,
}

impl<T> List<T> {
    /// A list that has no further page.
    pub fn whole(items: impl IntoIterator<Item = T>) -> Self {
        List {
            items: items.into_iter().collect(),
            next_cursor: None,
        }
    }
}
