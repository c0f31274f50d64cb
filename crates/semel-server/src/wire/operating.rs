//! Settings of queues and tasks, guarantees, findings.

use semel_core::dedup::Mode;
use semel_core::store::{self, Capabilities};
use semel_core::time::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use crate::lanes::Sum;
use crate::wire::{Moment, StatsRow, words};

/// Work is held back.
#[derive(Debug, Serialize, ToSchema)]
pub struct Pause {
    since: Moment,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<Moment>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl From<&store::Pause> for Pause {
    fn from(pause: &store::Pause) -> Self {
        Pause {
            since: pause.since.into(),
            until: pause.until.map(Moment),
            reason: pause.reason.clone(),
        }
    }
}

/// How a queue or task is set.
#[derive(Debug, Serialize, ToSchema)]
pub struct Setting {
    #[serde(skip_serializing_if = "Option::is_none")]
    paused: Option<Pause>,
    #[schema(value_type = words::Intake)]
    intake: &'static str,
    /// When a closed intake opens by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    closed_until: Option<Moment>,
    unique: bool,
    #[schema(value_type = words::Mode)]
    mode: Mode,
    /// When policies that only watch act again by themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    observed_until: Option<Moment>,
}

impl Setting {
    /// A setting at a moment: what has run out is none.
    pub fn at(setting: &store::Setting, now: Timestamp) -> Self {
        let (closed, observed) = (setting.is_closed(now), setting.is_observed(now));
        Setting {
            paused: setting
                .paused
                .as_ref()
                .filter(|_| setting.is_paused(now))
                .map(Pause::from),
            intake: if closed { "closed" } else { "open" },
            closed_until: setting.closed_until.filter(|_| closed).map(Moment),
            unique: setting.unique,
            mode: if observed { Mode::Observe } else { Mode::Enforce },
            observed_until: setting.observed_until.filter(|_| observed).map(Moment),
        }
    }
}

/// A queue with its numbers.
#[derive(Debug, Serialize, ToSchema)]
pub struct QueueRow {
    #[serde(flatten)]
    row: StatsRow,
    #[serde(flatten)]
    setting: Setting,
}

/// A task with its numbers and the workers that serve it.
#[derive(Debug, Serialize, ToSchema)]
pub struct TaskRow {
    #[serde(flatten)]
    row: StatsRow,
    #[serde(flatten)]
    setting: Setting,
    workers: usize,
}

impl QueueRow {
    /// A queue at a moment.
    pub fn new(sum: &Sum, setting: &store::Setting, now: Timestamp) -> Self {
        QueueRow {
            row: StatsRow::from(sum),
            setting: Setting::at(setting, now),
        }
    }
}

impl TaskRow {
    /// A task at a moment.
    pub fn new(sum: &Sum, setting: &store::Setting, workers: usize, now: Timestamp) -> Self {
        TaskRow {
            row: StatsRow::from(sum),
            setting: Setting::at(setting, now),
            workers,
        }
    }
}

/// What is atomic and what survives what, and what the store can and cannot do.
#[derive(Debug, Serialize, ToSchema)]
pub struct GuaranteeSheet {
    /// The lines of the sheet.
    #[schema(value_type = Vec<Guarantee>)]
    pub items: Vec<store::Guarantee>,
    /// The closed list of what may differ between stores.
    pub capabilities: CapabilitySheet,
}

/// One line of the guarantee sheet.
#[derive(Debug, ToSchema)]
#[allow(missing_docs)]
pub struct Guarantee {
    pub subject: String,
    pub statement: String,
    pub probed: String,
}

/// What may differ between stores.
#[derive(Debug, Serialize, ToSchema)]
pub struct CapabilitySheet {
    #[schema(value_type = String)]
    name: &'static str,
    strict_order: bool,
    wake_up_ms: i64,
    durable: bool,
    counters_at_once: bool,
    clock_resolution_ms: i64,
    key_search: bool,
    joins_transaction: bool,
    tokens_stand_alone: bool,
    shared_by_processes: bool,
}

impl From<Capabilities> for CapabilitySheet {
    fn from(found: Capabilities) -> Self {
        CapabilitySheet {
            name: found.name,
            strict_order: found.strict_order,
            wake_up_ms: found.wake_up.as_millis(),
            durable: found.durable,
            counters_at_once: found.counters_at_once,
            clock_resolution_ms: found.clock_resolution.as_millis(),
            key_search: found.key_search,
            joins_transaction: found.joins_transaction,
            tokens_stand_alone: found.tokens_stand_alone,
            shared_by_processes: found.shared_by_processes,
        }
    }
}

/// Something the doctor found.
#[derive(Debug, Serialize, ToSchema)]
pub struct Finding<'a> {
    #[schema(value_type = String)]
    invariant: &'a str,
    #[schema(value_type = String)]
    what: &'a str,
    repaired: bool,
}

impl<'a> From<&'a store::Finding> for Finding<'a> {
    fn from(finding: &'a store::Finding) -> Self {
        Finding {
            invariant: finding.invariant,
            what: &finding.what,
            repaired: finding.repaired,
        }
    }
}
