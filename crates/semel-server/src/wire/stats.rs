//! Counters: totals at the top, then by queue, then by task.

use std::collections::BTreeMap;

use semel_core::counters::{Counter, Counts};
use semel_core::dedup::HoldKind;
use semel_core::job::State;
use semel_core::view;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::wire::Moment;

/// Counters and sizes of a store.
#[derive(Debug, Serialize, ToSchema)]
pub struct Stats {
    as_of: Moment,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<Moment>,
    #[serde(flatten)]
    counts: CountsRow,
    hit_ratio: f64,
    active_keys: i64,
    /// Keys held now by hold; empty where the store does not count them apart.
    #[schema(value_type = BTreeMap<String, i64>)]
    keys_by_hold: BTreeMap<HoldKind, i64>,
    /// Keys whose time has passed that wait to be cleaned up.
    expired_keys: i64,
    storage_bytes: i64,
    steps_in_doubt: i64,
    #[schema(value_type = Guard)]
    guard: view::GuardStats,
    #[schema(value_type = BTreeMap<String, i64>)]
    jobs: BTreeMap<State, i64>,
    queues: Vec<StatsRow>,
    tasks: Vec<StatsRow>,
}

/// The numbers of one queue or task.
#[derive(Debug, Serialize, ToSchema)]
pub struct StatsRow {
    /// Its name.
    pub name: String,
    #[serde(flatten)]
    counts: CountsRow,
    hit_ratio: f64,
    #[schema(value_type = BTreeMap<String, i64>)]
    jobs: BTreeMap<State, i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    oldest_waiting_at: Option<Moment>,
}

impl From<&crate::lanes::Sum> for StatsRow {
    fn from(sum: &crate::lanes::Sum) -> Self {
        StatsRow {
            name: sum.name.to_string(),
            counts: CountsRow::from(&sum.counts),
            hit_ratio: sum.counts.hit_ratio(),
            jobs: sum.jobs.clone(),
            oldest_waiting_at: sum.oldest_waiting.map(Moment),
        }
    }
}

impl From<&view::Stats> for Stats {
    fn from(stats: &view::Stats) -> Self {
        Stats {
            queues: crate::lanes::by_queue(&stats.lanes)
                .iter()
                .map(StatsRow::from)
                .collect(),
            tasks: crate::lanes::by_task(&stats.lanes)
                .iter()
                .map(StatsRow::from)
                .collect(),
            ..Stats::whole(stats)
        }
    }
}

impl Stats {
    /// The totals, without the rows of queues and tasks, of which there may be thousands.
    pub fn totals(stats: &view::Stats) -> Value {
        let mut totals = serde_json::to_value(Stats::whole(stats)).unwrap_or_default();
        if let Some(members) = totals.as_object_mut() {
            members.retain(|name, _| !matches!(name.as_str(), "queues" | "tasks"));
        }
        totals
    }

    fn whole(stats: &view::Stats) -> Self {
        Stats {
            as_of: stats.as_of.into(),
            since: stats.since.map(Moment),
            counts: CountsRow::from(&stats.totals),
            hit_ratio: stats.totals.hit_ratio(),
            active_keys: stats.active_keys,
            keys_by_hold: stats.keys_by_hold.clone(),
            expired_keys: stats.expired_keys,
            storage_bytes: stats.storage_bytes,
            steps_in_doubt: stats.steps_in_doubt,
            guard: stats.guard,
            jobs: stats.jobs.clone(),
            queues: Vec::new(),
            tasks: Vec::new(),
        }
    }
}

/// Counters by name (contract 7.1).
#[derive(Clone, Copy, Debug, Default, Serialize, ToSchema)]
pub struct CountsRow {
    accepted: i64,
    cancelled: i64,
    collisions: i64,
    completed: i64,
    conflicts: i64,
    debounced: i64,
    deferred: i64,
    duplicate: i64,
    duplicates: i64,
    expired: i64,
    failed: i64,
    observed: i64,
    rejected: i64,
    replaced: i64,
    retried: i64,
    stale_writes: i64,
}

impl From<&Counts> for CountsRow {
    fn from(counts: &Counts) -> Self {
        CountsRow {
            accepted: counts.get(Counter::Accepted),
            cancelled: counts.get(Counter::Cancelled),
            collisions: counts.get(Counter::Collisions),
            completed: counts.get(Counter::Completed),
            conflicts: counts.get(Counter::Conflicts),
            debounced: counts.get(Counter::Debounced),
            deferred: counts.get(Counter::Deferred),
            duplicate: counts.get(Counter::Duplicate),
            duplicates: counts.duplicates(),
            expired: counts.get(Counter::Expired),
            failed: counts.get(Counter::Failed),
            observed: counts.get(Counter::Observed),
            rejected: counts.get(Counter::Rejected),
            replaced: counts.get(Counter::Replaced),
            retried: counts.get(Counter::Retried),
            stale_writes: counts.get(Counter::StaleWrites),
        }
    }
}

/// Counters at one moment of the past.
#[derive(Debug, Serialize, ToSchema)]
pub struct Snapshot {
    at: Moment,
    #[serde(flatten)]
    counts: CountsRow,
    hit_ratio: f64,
}

impl From<&view::Snapshot> for Snapshot {
    fn from(snapshot: &view::Snapshot) -> Self {
        Snapshot {
            at: snapshot.at.into(),
            counts: CountsRow::from(&snapshot.counts),
            hit_ratio: snapshot.counts.hit_ratio(),
        }
    }
}

/// How often guards were asked, by answer.
#[derive(Debug, ToSchema)]
#[allow(missing_docs)]
pub struct Guard {
    pub fresh: i64,
    pub in_progress: i64,
    pub done: i64,
}
