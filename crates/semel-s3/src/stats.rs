//! Counters and sizes (contract 7.1), and their history (contract 7.2).
//!
//! Each object counts what its own writes did; the store's counters are the sum over all objects, and over those that
//! are gone. No object is written by everybody, and no crash can part a count from what it counts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use semel_core::counters::{Counter, Counts};
use semel_core::error::StoreError;
use semel_core::job::{Phase, State};
use semel_core::time::{Millis, Timestamp};
use semel_core::view::{GuardStats, LaneStats, Snapshot, Stats};

use crate::cell::{Cell, Sums, Tally};
use crate::desk::Desk;
use crate::inspect::Sight;
use crate::layout;
use crate::record::{Lane, Record};
use crate::setup::Setup;

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;

/// How often old snapshots are looked for, in milliseconds.
const THINNED_EVERY: u64 = 600_000;
/// How long one snapshot is kept per minute.
const MINUTES_KEPT: Millis = Millis::from_days(1);
/// How long one snapshot is kept per hour.
const HOURS_KEPT: Millis = Millis::from_days(30);

/// All that has jobs or guards, and what was counted.
pub struct Look {
    pub sight: Sight,
    pub guards: Vec<(String, Arc<Cell>)>,
    pub counted: Counted,
}

/// What was counted, by lane.
pub struct Counted {
    pub lanes: BTreeMap<Lane, Counts>,
    pub guard: GuardStats,
    pub sums: Sums,
}

impl Counted {
    pub fn raw(&self) -> Counts {
        self.lanes.values().fold(Counts::default(), |mut sum, counts| {
            sum.merge(counts);
            sum
        })
    }
}

impl Desk {
    pub async fn sums(&self) -> Result<Sums, StoreError> {
        let loaded = self.read(layout::SUMS).await?;
        let sums = loaded.base.and_then(|(_, cell)| cell.sums.clone());
        Ok(sums.unwrap_or_default())
    }

    /// Everything at one look, and what was counted in it and in what is gone: nothing was folded meanwhile.
    pub async fn look(&self) -> Result<Look, StoreError> {
        loop {
            let sums = self.sums().await?;
            let sight = self.sight().await?;
            let (guards, _) = self.all(&[layout::GUARDS]).await?;
            if self.sums().await? == sums {
                let counted = count(&sight, &guards, sums);
                return Ok(Look {
                    sight,
                    guards,
                    counted,
                });
            }
        }
    }

    pub async fn stats(&self) -> Result<Stats, StoreError> {
        let setup = self.setup().await?;
        let Look { sight, counted, .. } = self.look().await?;
        let now = sight.now;
        let mut baseline: BTreeMap<Lane, Counts> = BTreeMap::new();
        add(&mut baseline, &counted.sums.baseline);
        let mut stats = Stats {
            as_of: now,
            since: counted.sums.since,
            totals: Counts::default(),
            raw: counted.raw(),
            jobs: BTreeMap::new(),
            active_keys: 0,
            keys_by_hold: BTreeMap::new(),
            expired_keys: 0,
            storage_bytes: i64::try_from(sight.bytes).unwrap_or(i64::MAX),
            storage_limit: None,
            steps_in_doubt: doubts(&sight),
            guard: counted.guard,
            lanes: Vec::new(),
        };
        let lane_stats = |lane: &Lane| {
            let counts = counted.lanes.get(lane).copied().unwrap_or_default();
            let before = baseline.get(lane).copied().unwrap_or_default();
            LaneStats {
                queue: lane.queue.clone(),
                task: lane.task.clone(),
                counts: counts.since(&before),
                jobs: BTreeMap::new(),
                oldest_waiting: None,
                paused: setup.is_paused(lane, now),
            }
        };
        let mut lanes: BTreeMap<Lane, LaneStats> = counted
            .lanes
            .keys()
            .map(|lane| (lane.clone(), lane_stats(lane)))
            .collect();
        for job in sight.jobs() {
            stats.count_key(&job.life, job.stub, now);
            if job.stub {
                continue;
            }
            *stats.jobs.entry(job.state(now)).or_default() += 1;
            add_job(lanes.entry(job.lane()).or_insert_with_key(lane_stats), job, now);
        }
        lanes.values().for_each(|lane| stats.totals.merge(&lane.counts));
        stats.lanes = lanes.into_values().collect();
        Ok(stats)
    }

    pub async fn reset_stats(&self) -> Result<Timestamp, StoreError> {
        let counted = self.look().await?.counted;
        let baseline: Vec<Tally> = counted
            .lanes
            .iter()
            .map(|(lane, counts)| tally(lane, counts))
            .collect();
        let now = self.moment().now;
        self.change(layout::SUMS, false, &Setup::default(), |cell, _| {
            let sums = cell.sums.get_or_insert_default();
            sums.baseline = baseline.clone();
            sums.since = Some(now);
        })
        .await?;
        Ok(now)
    }

    pub async fn history(&self, window: Millis) -> Result<Vec<Snapshot>, StoreError> {
        let now = self.moment().now;
        let begin = now.as_millis().saturating_sub(window.as_millis());
        let (cells, _) = self.all(&[layout::HISTORY]).await?;
        let snapshot = |(name, cell): &(String, Arc<Cell>)| {
            let at = layout::snapshot_at(name)?;
            let mut counts = Counts::default();
            cell.snapshot
                .as_ref()?
                .iter()
                .for_each(|(counter, n)| counts.set(*counter, *n));
            (at.as_millis() >= begin).then_some(Snapshot { at, counts })
        };
        Ok(cells.iter().filter_map(snapshot).collect())
    }

    /// Takes the snapshot of this minute, if it was not taken yet, and thins out the old ones.
    pub async fn take_snapshot(&self, raw: &Counts, now: Timestamp) -> Result<bool, StoreError> {
        let minute = floored(now, MINUTE);
        if self.snapped.load(Ordering::Acquire) == minute.as_millis() {
            return Ok(false);
        }
        let name = layout::snapshot(minute);
        let counts: BTreeMap<Counter, i64> = Counter::ALL
            .iter()
            .map(|counter| (*counter, raw.get(*counter)))
            .filter(|(_, n)| *n != 0)
            .collect();
        let due = self
            .change(&name, true, &Setup::default(), |cell, _| {
                let due = cell.snapshot.is_none();
                if due {
                    cell.snapshot = Some(counts.clone());
                }
                due
            })
            .await?;
        self.snapped.store(minute.as_millis(), Ordering::Release);
        let since = now.as_millis().abs_diff(self.thinned.load(Ordering::Acquire));
        if due && since >= THINNED_EVERY {
            self.thin_out(now).await?;
            self.thinned.store(now.as_millis(), Ordering::Release);
        }
        Ok(due)
    }

    async fn thin_out(&self, now: Timestamp) -> Result<(), StoreError> {
        let listed = self.bucket.list(layout::HISTORY, None, usize::MAX).await?;
        let mut hour_before = None;
        let mut old = Vec::new();
        for one in listed {
            let Some(at) = layout::snapshot_at(&one.name) else {
                continue;
            };
            let first_of_hour = hour_before.replace(floored(at, HOUR)) != Some(floored(at, HOUR));
            let age = now.since(at);
            if !(age <= MINUTES_KEPT || (age <= HOURS_KEPT && first_of_hour)) {
                old.push(one.name);
            }
        }
        self.bucket.delete(old).await
    }
}

/// Adds everything up.
fn count(sight: &Sight, guards: &[(String, Arc<Cell>)], sums: Sums) -> Counted {
    let mut lanes = BTreeMap::new();
    let mut guard = GuardStats::default();
    let cells = sight.cells.iter().chain(guards);
    for (_, cell) in cells.filter(|(name, _)| !sums.folding.contains(name)) {
        add(&mut lanes, &cell.counts);
        cell.guarded.iter().for_each(|guarded| guarded.add_to(&mut guard));
    }
    add(&mut lanes, &sums.counts);
    sums.guarded.add_to(&mut guard);
    Counted { lanes, guard, sums }
}

fn doubts(sight: &Sight) -> i64 {
    let in_doubt = |cell: &Cell| cell.steps.iter().filter(|step| cell.is_in_doubt(step)).count();
    let doubts: usize = sight.cells.iter().map(|(_, cell)| in_doubt(cell)).sum();
    i64::try_from(doubts).unwrap_or(i64::MAX)
}

/// Adds tallies up by lane.
pub fn add(lanes: &mut BTreeMap<Lane, Counts>, tallies: &[Tally]) {
    for tally in tallies {
        match lanes.get_mut(&tally.lane) {
            Some(counts) => counts.merge(&tally.counts()),
            None => {
                lanes.insert(tally.lane.clone(), tally.counts());
            }
        }
    }
}

/// Counts, as they are written.
pub fn tally(lane: &Lane, counts: &Counts) -> Tally {
    let counts = Counter::ALL
        .iter()
        .map(|counter| (*counter, counts.get(*counter)))
        .filter(|(_, n)| *n != 0);
    Tally {
        lane: lane.clone(),
        counts: counts.collect(),
    }
}

fn add_job(lane: &mut LaneStats, job: &Record, now: Timestamp) {
    let state = job.state(now);
    *lane.jobs.entry(state).or_default() += 1;
    if job.life.phase == Phase::Waiting && state == State::Queued {
        let oldest = lane.oldest_waiting.unwrap_or(job.life.run_at);
        lane.oldest_waiting = Some(oldest.min(job.life.run_at));
    }
}

fn floored(at: Timestamp, length: i64) -> Timestamp {
    Timestamp::from_millis(at.as_millis().div_euclid(length) * length)
}
