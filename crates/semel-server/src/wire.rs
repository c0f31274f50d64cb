//! The JSON of `--json`: one shape, the same that HTTP answers have.
//!
//! `snake_case`, times in RFC 3339 UTC, durations with `_ms`, absent members left out. A command that
//! lists says `{"items": […], "next_cursor": …}`; one that shows says the thing itself.

mod job;
mod key;
mod operating;
mod operation;
mod request;
mod stats;
mod submitted;
pub mod words;
mod working;

pub use job::{Attempt, Job, JobPage, LogLine, Step, StepRow};
pub use key::{Holder, Key, KeyPage, KeyRow, LedgerEntry};
pub use operating::{CapabilitySheet, Finding, Guarantee, GuaranteeSheet, Pause, QueueRow, Setting, TaskRow};
pub use operation::{Acted, DeadLetters, ErrorGroup, Operation, SampleRow};
pub use request::{BatchAnswer, Dedup, DeliveryShape, Period, Submission};
pub use stats::{CountsRow, Guard, Snapshot, Stats, StatsRow};
pub use submitted::{Answer, AnswerKey, Explanation};
pub use working::{Delivery, Schedule, Worker};

use semel_core::time::Timestamp;
use serde::{Serialize, Serializer};
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// A moment as RFC 3339.
#[derive(Clone, Copy, Debug)]
pub struct Moment(pub Timestamp);

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl PartialSchema for Moment {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
            .description(Some("A moment, RFC 3339 in UTC"))
            .into()
    }
}

impl ToSchema for Moment {
    fn name() -> std::borrow::Cow<'static, str> {
        "Moment".into()
    }
}

/// What an observing submission would have got.
#[derive(Debug, ToSchema)]
#[allow(missing_docs)]
pub struct Would {
    pub outcome: words::Outcome,
    pub holder: String,
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
