//! Counters: totals at the top, then by queue, then by task.

use std::collections::BTreeMap;

use semel_core::counters::{Counter, Counts};
use semel_core::job::State;
use semel_core::view;
use serde::Serialize;

use crate::wire::Moment;

/// Counters and sizes of a store.
#[derive(Debug, Serialize)]
pub struct Stats {
    as_of: Moment,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<Moment>,
    #[serde(flatten)]
    counts: BTreeMap<&'static str, i64>,
    hit_ratio: f64,
    active_keys: i64,
    storage_bytes: i64,
    steps_in_doubt: i64,
    guard: view::GuardStats,
    jobs: BTreeMap<State, i64>,
    queues: Vec<StatsRow>,
    tasks: Vec<StatsRow>,
}

/// The numbers of one queue or task.
#[derive(Debug, Serialize)]
pub struct StatsRow {
    /// Its name.
    pub name: String,
    #[serde(flatten)]
    counts: BTreeMap<&'static str, i64>,
    hit_ratio: f64,
    jobs: BTreeMap<State, i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    oldest_waiting_at: Option<Moment>,
}

impl From<&crate::lanes::Sum> for StatsRow {
    fn from(sum: &crate::lanes::Sum) -> Self {
        StatsRow {
            name: sum.name.to_string(),
            counts: counts(&sum.counts),
            hit_ratio: sum.counts.hit_ratio(),
            jobs: sum.jobs.clone(),
            oldest_waiting_at: sum.oldest_waiting.map(Moment),
        }
    }
}

impl From<&view::Stats> for Stats {
    fn from(stats: &view::Stats) -> Self {
        Stats {
            as_of: stats.as_of.into(),
            since: stats.since.map(Moment),
            counts: counts(&stats.totals),
            hit_ratio: stats.totals.hit_ratio(),
            active_keys: stats.active_keys,
            storage_bytes: stats.storage_bytes,
            steps_in_doubt: stats.steps_in_doubt,
            guard: stats.guard,
            jobs: stats.jobs.clone(),
            queues: crate::lanes::by_queue(&stats.lanes)
                .iter()
                .map(StatsRow::from)
                .collect(),
            tasks: crate::lanes::by_task(&stats.lanes)
                .iter()
                .map(StatsRow::from)
                .collect(),
        }
    }
}

fn counts(counts: &Counts) -> BTreeMap<&'static str, i64> {
    let each = Counter::ALL.map(|counter| (counter.word(), counts.get(counter)));
    each.into_iter()
        .chain([("duplicates", counts.duplicates())])
        .collect()
}
