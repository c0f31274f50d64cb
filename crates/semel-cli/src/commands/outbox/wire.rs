//! An outbox in another database.

use semel_core::time::Timestamp;
use semel_outbox::{Audit, ParkedEvent, Status};
use serde::Serialize;

use crate::wire::Moment;

/// How an outbox stands.
#[derive(Debug, Serialize)]
pub struct Outbox<'a> {
    pending: i64,
    failing: i64,
    parked: i64,
    lag_ms: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_sent_at: Option<Moment>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pruned_before: Option<Moment>,
    parked_events: &'a [ParkedEvent],
}

impl<'a> Outbox<'a> {
    /// The status and the events that were given up.
    pub fn new(status: &Status, parked_events: &'a [ParkedEvent]) -> Self {
        Outbox {
            pending: status.pending,
            failing: status.failing,
            parked: status.parked,
            lag_ms: status.lag_ms,
            last_sent_at: moment(status.last_sent_ms),
            pruned_before: moment(status.pruned_before_ms),
            parked_events,
        }
    }
}

/// Rows of the business compared with events.
#[derive(Debug, Serialize)]
pub struct OutboxAudit<'a> {
    rows: u64,
    missing: &'a [String],
    missing_total: u64,
    added: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pruned_before: Option<Moment>,
}

impl<'a> From<&'a Audit> for OutboxAudit<'a> {
    fn from(audit: &'a Audit) -> Self {
        OutboxAudit {
            rows: audit.rows,
            missing: &audit.missing,
            missing_total: audit.missing_total,
            added: audit.added,
            pruned_before: moment(audit.pruned_before_ms),
        }
    }
}

fn moment(millis: Option<i64>) -> Option<Moment> {
    millis.map(Timestamp::from_millis).map(Moment)
}
