//! Counters and sizes (contract 7.1), and their history (contract 7.2).

use std::collections::BTreeMap;

use crate::counters::Counts;
use crate::job::{Phase, State};
use crate::memory::control::is_paused;
use crate::memory::inner::Inner;
use crate::memory::record::{Lane, Record};
use crate::time::{Millis, Timestamp};
use crate::view::{LaneStats, Snapshot, Stats};

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;

/// How long one snapshot is kept per minute.
const MINUTES_KEPT: Millis = Millis::from_days(1);
/// How long one snapshot is kept per hour.
const HOURS_KEPT: Millis = Millis::from_days(30);

impl Inner {
    pub(super) fn stats(&self, now: Timestamp) -> Stats {
        let raw = self.raw_counts();
        let mut stats = Stats {
            as_of: now,
            since: self.since,
            totals: Counts::default(),
            raw,
            jobs: BTreeMap::new(),
            active_keys: 0,
            keys_by_hold: BTreeMap::new(),
            expired_keys: 0,
            storage_bytes: 0,
            storage_limit: None,
            steps_in_doubt: 0,
            guard: self.guard_stats,
            lanes: Vec::new(),
        };
        self.steps_in_doubt().for_each(|_| stats.steps_in_doubt += 1);
        let mut lanes: BTreeMap<Lane, LaneStats> = self
            .lanes
            .keys()
            .map(|lane| (lane.clone(), self.lane_stats(lane, now)))
            .collect();
        for job in self.jobs.values() {
            stats.count_key(&job.life, job.stub, now);
            if job.stub {
                continue;
            }
            *stats.jobs.entry(job.state(now)).or_default() += 1;
            let lane = lanes
                .entry(job.lane())
                .or_insert_with_key(|lane| self.lane_stats(lane, now));
            add_job(lane, job, now);
        }
        lanes.values().for_each(|lane| stats.totals.merge(&lane.counts));
        stats.lanes = lanes.into_values().collect();
        stats
    }

    /// A lane before its jobs are counted.
    fn lane_stats(&self, lane: &Lane, now: Timestamp) -> LaneStats {
        let counts = self.lanes.get(lane).map(|tally| tally.raw.since(&tally.baseline));
        LaneStats {
            queue: lane.queue.clone(),
            task: lane.task.clone(),
            counts: counts.unwrap_or_default(),
            jobs: BTreeMap::new(),
            oldest_waiting: None,
            paused: is_paused(&self.settings, lane, now),
        }
    }

    fn raw_counts(&self) -> Counts {
        self.lanes.values().fold(Counts::default(), |mut sum, tally| {
            sum.merge(&tally.raw);
            sum
        })
    }

    pub(super) fn reset_stats(&mut self, now: Timestamp) -> Timestamp {
        self.lanes
            .values_mut()
            .for_each(|tally| tally.baseline = tally.raw);
        self.since = Some(now);
        now
    }

    pub(super) fn history(&self, window: Millis, now: Timestamp) -> Vec<Snapshot> {
        let begin = Timestamp::from_millis(now.as_millis().saturating_sub(window.as_millis()));
        self.snapshots
            .range(begin..)
            .map(|(at, counts)| Snapshot {
                at: *at,
                counts: *counts,
            })
            .collect()
    }

    /// Takes the snapshot of this minute, if it was not taken yet, and thins out the old ones.
    pub(super) fn take_snapshot(&mut self, now: Timestamp) -> bool {
        let minute = floored(now, MINUTE);
        let due = !self.snapshots.contains_key(&minute);
        if due {
            self.snapshots.insert(minute, self.raw_counts());
        }
        let mut hour_before = None;
        self.snapshots.retain(|at, _| {
            let first_of_hour = hour_before.replace(floored(*at, HOUR)) != Some(floored(*at, HOUR));
            let age = now.since(*at);
            age <= MINUTES_KEPT || (age <= HOURS_KEPT && first_of_hour)
        });
        due
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
