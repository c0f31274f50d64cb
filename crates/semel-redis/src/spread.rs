//! Answers of several shards made into one.

use std::collections::BTreeMap;

use semel_core::counters::Counts;
use semel_core::error::{Invalid, StoreError};
use semel_core::ids::Name;
use semel_core::store::{Page, UpkeepReport};
use semel_core::time::Timestamp;
use semel_core::view::{ErrorGroup, LaneStats, Listing, Snapshot, Stats};

use crate::inspect::Part;

/// Where a list goes on in each shard; none where it has ended.
pub struct Places(pub Vec<Option<i64>>);

impl Places {
    /// The places a cursor names: one per shard.
    pub fn of(page: &Page, query: &str, shards: usize) -> Result<Self, StoreError> {
        let Some(text) = page.place(query)? else {
            return Ok(Places(vec![Some(i64::MAX); shards]));
        };
        let wrong = || {
            Invalid::new(
                "cursor",
                "the next_cursor of the page before, with the same filter",
            )
        };
        let places = text.split('_').map(|place| match place {
            "" => Ok(None),
            place => place.parse().map(Some).map_err(|_| wrong()),
        });
        let places = places.collect::<Result<Vec<Option<i64>>, Invalid>>()?;
        if places.len() != shards {
            return Err(wrong().into());
        }
        Ok(Places(places))
    }

    fn cursor(&self, query: &str) -> Option<String> {
        let text = |place: &Option<i64>| place.map(|place| place.to_string()).unwrap_or_default();
        let places: Vec<String> = self.0.iter().map(text).collect();
        self.0
            .iter()
            .any(Option::is_some)
            .then(|| Page::cursor(query, places.join("_")))
    }
}

/// One page from parts of all shards: within a shard in its order, between shards the newer row first.
pub fn merge<T>(
    query: &str,
    limit: usize,
    mut places: Places,
    parts: Vec<Part<T>>,
    at: impl Fn(&T) -> Timestamp,
) -> Listing<T> {
    let mut nexts = Vec::new();
    let mut queues: Vec<_> = parts
        .into_iter()
        .map(|part| {
            nexts.push(part.next);
            part.rows.into_iter().peekable()
        })
        .collect();
    let mut items = Vec::new();
    while items.len() < limit {
        let heads = queues.iter_mut().enumerate();
        let newest = heads
            .filter_map(|(shard, rows)| rows.peek().map(|(_, row)| (at(row), std::cmp::Reverse(shard))))
            .max();
        let Some((_, std::cmp::Reverse(shard))) = newest else {
            break;
        };
        if let Some((place, row)) = queues[shard].next() {
            places.0[shard] = Some(place);
            items.push(row);
        }
    }
    for (shard, rows) in queues.iter_mut().enumerate() {
        if rows.peek().is_none() {
            places.0[shard] = nexts[shard];
        }
    }
    Listing {
        items,
        next_cursor: places.cursor(query),
    }
}

/// The numbers of all shards together.
pub fn stats(parts: Vec<Stats>) -> Result<Stats, StoreError> {
    let mut parts = parts.into_iter();
    let mut sum = parts
        .next()
        .ok_or_else(|| StoreError::corrupt("a store without shards"))?;
    let mut lanes: BTreeMap<(Name, Name), LaneStats> = BTreeMap::new();
    let add = |lanes: &mut BTreeMap<(Name, Name), LaneStats>, part: Vec<LaneStats>| {
        for lane in part {
            match lanes.entry((lane.queue.clone(), lane.task.clone())) {
                std::collections::btree_map::Entry::Vacant(free) => drop(free.insert(lane)),
                std::collections::btree_map::Entry::Occupied(mut known) => add_lane(known.get_mut(), &lane),
            }
        }
    };
    add(&mut lanes, std::mem::take(&mut sum.lanes));
    for part in parts {
        sum.totals.merge(&part.totals);
        sum.raw.merge(&part.raw);
        for (state, n) in part.jobs {
            *sum.jobs.entry(state).or_default() += n;
        }
        sum.active_keys += part.active_keys;
        sum.expired_keys += part.expired_keys;
        sum.steps_in_doubt += part.steps_in_doubt;
        sum.guard.fresh += part.guard.fresh;
        sum.guard.in_progress += part.guard.in_progress;
        sum.guard.done += part.guard.done;
        add(&mut lanes, part.lanes);
    }
    sum.lanes = lanes.into_values().collect();
    Ok(sum)
}

fn add_lane(lane: &mut LaneStats, other: &LaneStats) {
    lane.counts.merge(&other.counts);
    for (state, n) in &other.jobs {
        *lane.jobs.entry(*state).or_default() += n;
    }
    lane.oldest_waiting = [lane.oldest_waiting, other.oldest_waiting]
        .into_iter()
        .flatten()
        .min();
    lane.paused |= other.paused;
}

/// Snapshots of all shards, by minute.
pub fn history(parts: Vec<Vec<Snapshot>>) -> Vec<Snapshot> {
    let mut minutes: BTreeMap<Timestamp, Counts> = BTreeMap::new();
    for snapshot in parts.into_iter().flatten() {
        minutes.entry(snapshot.at).or_default().merge(&snapshot.counts);
    }
    minutes
        .into_iter()
        .map(|(at, counts)| Snapshot { at, counts })
        .collect()
}

/// Groups of dead letters of all shards, the most frequent first.
pub fn groups(parts: Vec<Vec<ErrorGroup>>) -> Vec<ErrorGroup> {
    let mut groups: BTreeMap<(Name, String), ErrorGroup> = BTreeMap::new();
    for group in parts.into_iter().flatten() {
        let entry = groups.entry((group.task.clone(), group.error.clone()));
        let known = entry.or_insert_with(|| ErrorGroup {
            jobs: 0,
            ..group.clone()
        });
        known.jobs += group.jobs;
        if group.newest_at > known.newest_at {
            known.newest = group.newest;
            known.newest_at = group.newest_at;
        }
    }
    let mut groups: Vec<ErrorGroup> = groups.into_values().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.jobs));
    groups
}

/// What a round of housekeeping did in all shards.
pub fn reports(parts: Vec<UpkeepReport>) -> UpkeepReport {
    parts
        .into_iter()
        .fold(UpkeepReport::default(), |sum, part| UpkeepReport {
            expired: sum.expired + part.expired,
            pruned: sum.pruned + part.pruned,
            stubbed: sum.stubbed + part.stubbed,
            ledger: sum.ledger + part.ledger,
            snapshot: sum.snapshot | part.snapshot,
            more: sum.more | part.more,
        })
}
