//! What the ledger advises (contract 7.5): how long keys need to be kept, and who is behind a storm.

use std::collections::{BTreeMap, HashMap};

use semel::Client;
use semel_core::ids::{JobId, Name};
use semel_core::store::{LedgerFilter, Page};
use semel_core::time::{Millis, Timestamp};
use semel_core::view::{Job, KeyView, LedgerEntry};
use serde::Serialize;
use utoipa::ToSchema;

use crate::problem::Problem;
use crate::text::{percent, plural};
use crate::when::span;
use crate::wording;

/// Absorbed submissions that are looked at.
const LOOKED_AT: usize = 2_000;
/// Holders that are looked up for them, in one call.
const HOLDERS: usize = 500;
/// Fewer repeats say nothing.
const ENOUGH: usize = 20;
/// The share of repeats a ttl should catch.
const CAUGHT: f64 = 0.999;
/// A producer with more than this share of what was absorbed is behind it.
const STORM: f64 = 0.5;

/// One piece of advice.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Advice {
    /// ttl or storm.
    pub kind: &'static str,
    /// What it is about.
    pub subject: String,
    /// What was found and what follows from it.
    pub message: String,
    /// Absorbed submissions this rests on.
    pub samples: usize,
    /// For ttl: how long keys need to be kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<i64>,
}

/// Reads the newest part of the ledger and says what follows from it.
pub async fn gather(client: &Client) -> Result<Vec<Advice>, Problem> {
    let store = client.store();
    let mut entries: Vec<LedgerEntry> = Vec::new();
    let mut page = Page::first(500);
    while entries.len() < LOOKED_AT {
        let found = store.ledger(LedgerFilter::default(), page).await?;
        entries.extend(found.items);
        match found.next_cursor {
            Some(cursor) => page = Page::after(cursor, 500),
            None => break,
        }
    }
    let mut ids: Vec<JobId> = Vec::new();
    for entry in &entries {
        if ids.len() < HOLDERS && !ids.contains(&entry.holder) {
            ids.push(entry.holder.clone());
        }
    }
    let found = store.jobs_by_id(&ids).await?.into_iter().flatten();
    let holders: HashMap<JobId, Job> = found.map(|job| (job.id.clone(), job)).collect();
    let mut advice = storms(&entries);
    advice.extend(ttls(&entries, &holders));
    Ok(advice)
}

/// The producer behind most of what was absorbed of a task.
fn storms(entries: &[LedgerEntry]) -> Vec<Advice> {
    let mut tasks: BTreeMap<&Name, BTreeMap<&str, usize>> = BTreeMap::new();
    for entry in entries {
        let producer = entry.producer.as_ref().map_or("(unnamed)", Name::as_str);
        *tasks.entry(&entry.task).or_default().entry(producer).or_default() += 1;
    }
    let storm = |(task, producers): (&Name, BTreeMap<&str, usize>)| {
        let all: usize = producers.values().sum();
        let (producer, n) = producers.into_iter().max_by_key(|(_, n)| *n)?;
        let share = n as f64 / all as f64;
        (all >= ENOUGH && share > STORM).then(|| Advice {
            kind: "storm",
            subject: format!("task {task}"),
            message: format!(
                "Producer {producer} sent {} of the last {}: look at how it retries.",
                percent(share),
                plural(
                    i64::try_from(all).unwrap_or(i64::MAX),
                    "absorbed submission",
                    "absorbed submissions"
                )
            ),
            samples: all,
            ttl_ms: None,
        })
    };
    tasks.into_iter().filter_map(storm).collect()
}

/// How long after a key was taken its repeats came.
fn ttls(entries: &[LedgerEntry], holders: &HashMap<JobId, Job>) -> Vec<Advice> {
    let mut gaps: BTreeMap<&Name, (Vec<Millis>, &KeyView)> = BTreeMap::new();
    for entry in entries {
        let key = holders.get(&entry.holder).and_then(|job| job.key.as_ref());
        let Some(key) = key.filter(|key| key.digest == entry.digest && key.hold.ttl.is_some()) else {
            continue;
        };
        let gap = gap(key.taken_at, entry.at);
        gaps.entry(&entry.task)
            .or_insert_with(|| (Vec::new(), key))
            .0
            .push(gap);
    }
    let advise = |(task, (mut gaps, key)): (&Name, (Vec<Millis>, &KeyView))| {
        gaps.sort();
        let place = ((gaps.len() as f64 * CAUGHT).ceil() as usize).clamp(1, gaps.len()) - 1;
        let needed = gaps[place];
        (gaps.len() >= ENOUGH).then(|| Advice {
            kind: "ttl",
            subject: format!("task {task}"),
            message: format!(
                "99.9 % of the last {} came within {} of the first submission; keys are kept {}.",
                plural(i64::try_from(gaps.len()).unwrap_or(i64::MAX), "repeat", "repeats"),
                span(needed),
                wording::hold(&key.hold)
            ),
            samples: gaps.len(),
            ttl_ms: Some(needed.as_millis()),
        })
    };
    gaps.into_iter().filter_map(advise).collect()
}

fn gap(taken: Timestamp, repeated: Timestamp) -> Millis {
    repeated.since(taken)
}
