//! What the ledger advises (contract 7.5): how long keys need to be kept, and who is behind a storm.

use std::collections::{BTreeMap, HashMap};

use semel::Client;
use semel_core::ids::{Digest, Name};
use semel_core::store::{LedgerFilter, Page};
use semel_core::time::{Millis, Timestamp};
use semel_core::view::{KeyRow, LedgerEntry};
use serde::Serialize;
use utoipa::ToSchema;

use crate::problem::Problem;
use crate::text::{percent, plural};
use crate::when::span;
use crate::wording;

/// Absorbed submissions that are looked at.
const LOOKED_AT: usize = 2_000;
/// Keys that are looked up for them.
const KEYS: usize = 500;
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
    let mut keys: HashMap<Digest, Option<KeyRow>> = HashMap::new();
    for entry in &entries {
        if keys.len() < KEYS && !keys.contains_key(&entry.digest) {
            keys.insert(entry.digest, store.key(entry.digest).await?);
        }
    }
    let mut advice = storms(&entries);
    advice.extend(ttls(&entries, &keys));
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
fn ttls(entries: &[LedgerEntry], keys: &HashMap<Digest, Option<KeyRow>>) -> Vec<Advice> {
    let mut gaps: BTreeMap<&Name, (Vec<Millis>, &KeyRow)> = BTreeMap::new();
    for entry in entries {
        let Some(Some(row)) = keys.get(&entry.digest) else {
            continue;
        };
        // An entry of an earlier holder says nothing about this one.
        if row.holder.id != entry.holder || row.key.hold.ttl.is_none() {
            continue;
        }
        let gap = gap(row.key.taken_at, entry.at);
        gaps.entry(&entry.task)
            .or_insert_with(|| (Vec::new(), row))
            .0
            .push(gap);
    }
    let advise = |(task, (mut gaps, row)): (&Name, (Vec<Millis>, &KeyRow))| {
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
                wording::hold(&row.key.hold)
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
