//! Counters, sizes and their history (contract 7.1, 7.2).

use std::collections::BTreeMap;

use rusqlite::{OptionalExtension, Row, params};

use semel_core::counters::{Counter, Counts};
use semel_core::dedup::HoldKind;
use semel_core::ids::Name;
use semel_core::job::{Phase, State};
use semel_core::store::{StepFilter, Target};
use semel_core::time::{Millis, Timestamp};
use semel_core::view::{GuardStats, LaneStats, Snapshot, Stats};

use crate::fail::Fail;
use crate::inspect::Look;
use crate::rows;
use crate::settings;
use crate::statements::{Sql, Statements};
use crate::tx::Tx;

/// The numbers of one lane as stored.
struct LaneRow {
    lane: i64,
    queue: Name,
    task: Name,
    removed: bool,
    phases: [i64; 7],
    counts: Counts,
}

fn lanes(statements: &mut Statements<'_>, ns: i64) -> Result<Vec<LaneRow>, Fail> {
    let mut lanes = Vec::new();
    let mut found = statements.get(Sql::LaneList)?.query([ns])?;
    while let Some(row) = found.next()? {
        let mut phases = [0i64; 7];
        for (at, phase) in phases.iter_mut().enumerate() {
            *phase = row.get(4 + at)?;
        }
        let mut counts = Counts::default();
        for (at, counter) in Counter::ALL.into_iter().enumerate() {
            counts.set(counter, row.get(11 + at)?);
        }
        lanes.push(LaneRow {
            lane: row.get(0)?,
            queue: Name::new(row.get::<_, String>(1)?)?,
            task: Name::new(row.get::<_, String>(2)?)?,
            removed: row.get(3)?,
            phases,
            counts,
        });
    }
    Ok(lanes)
}

fn counts_text(counts: &Counts) -> String {
    let numbers: Vec<String> = Counter::ALL
        .iter()
        .map(|counter| counts.get(*counter).to_string())
        .collect();
    format!("[{}]", numbers.join(","))
}

/// Counters added since a snapshot was taken are missing in it: they were zero.
fn counts_from(text: &str) -> Counts {
    let numbers: Vec<i64> = serde_json::from_str(text).unwrap_or_default();
    let mut counts = Counts::default();
    for (counter, number) in Counter::ALL.into_iter().zip(numbers) {
        counts.set(counter, number);
    }
    counts
}

impl Look<'_> {
    /// Counters and sizes.
    pub fn stats(&mut self, storage_bytes: i64, storage_limit: Option<i64>) -> Result<Stats, Fail> {
        let rows = lanes(&mut self.statements, self.ns)?;
        let baselines = self.baselines()?;
        let settings = settings::read(&mut self.statements, self.ns)?;
        let paused = |queue: &Name, task: &Name| {
            let targets = [
                Target::All,
                Target::Queue(queue.clone()),
                Target::Task(task.clone()),
            ];
            targets.iter().any(|target| {
                settings
                    .get(target)
                    .is_some_and(|setting| setting.is_paused(self.now))
            })
        };
        let (mut raw, mut totals, mut jobs) = (Counts::default(), Counts::default(), BTreeMap::new());
        let mut by_name: BTreeMap<(Name, Name), LaneStats> = BTreeMap::new();
        let mut live = Vec::new();
        for row in rows {
            let counts = row
                .counts
                .since(&baselines.get(&row.lane).copied().unwrap_or_default());
            raw.merge(&row.counts);
            totals.merge(&counts);
            let lane = by_name
                .entry((row.queue.clone(), row.task.clone()))
                .or_insert_with(|| LaneStats {
                    paused: paused(&row.queue, &row.task),
                    queue: row.queue.clone(),
                    task: row.task.clone(),
                    counts: Counts::default(),
                    jobs: BTreeMap::new(),
                    oldest_waiting: None,
                });
            lane.counts.merge(&counts);
            if !row.removed {
                live.push(row);
            }
        }
        for row in live {
            let lane = by_name
                .get_mut(&(row.queue.clone(), row.task.clone()))
                .expect("entered above");
            lane.jobs = self.by_state(&row)?;
            lane.oldest_waiting = self.oldest_waiting(row.lane)?;
            for (state, n) in &lane.jobs {
                let sum: &mut i64 = jobs.entry(*state).or_insert(0);
                *sum = sum.saturating_add(*n);
            }
        }
        let since = self
            .statements
            .get(Sql::ResetFind)?
            .query_row([self.ns], |row| row.get(0))
            .optional()?;
        let keys_by_hold = self.keys_by_hold()?;
        let passed = params![self.ns, self.now.as_millis()];
        Ok(Stats {
            as_of: self.now,
            since: since.map(rows::time),
            totals,
            raw,
            jobs,
            active_keys: keys_by_hold.values().sum(),
            keys_by_hold,
            expired_keys: self
                .statements
                .get(Sql::StubPassed)?
                .query_row(passed, |row| row.get(0))?,
            storage_bytes,
            storage_limit,
            steps_in_doubt: self.steps(&StepFilter::InDoubt)?.len() as i64,
            guard: self.guard_stats()?,
            lanes: by_name.into_values().collect(),
        })
    }

    fn keys_by_hold(&mut self) -> Result<BTreeMap<HoldKind, i64>, Fail> {
        let asked = params![self.now.as_millis(), self.ns];
        let counted: [i64; 4] = self.statements.get(Sql::HeldCount)?.query_row(asked, |row| {
            Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?])
        })?;
        let held = HoldKind::ALL.into_iter().zip(counted);
        Ok(held.filter(|(_, n)| *n != 0).collect())
    }

    fn by_state(&mut self, row: &LaneRow) -> Result<BTreeMap<State, i64>, Fail> {
        let waiting = row.phases[Phase::Waiting as usize];
        let scheduled: i64 = if waiting == 0 {
            0
        } else {
            let later = params![row.lane, self.now.as_millis()];
            self.statements
                .get(Sql::ReadyLater)?
                .query_row(later, |row| row.get(0))?
        };
        let at = |phase: Phase| row.phases[phase as usize];
        let numbers = [
            (State::Scheduled, scheduled),
            (State::Queued, waiting.saturating_sub(scheduled)),
            (State::Running, at(Phase::Running)),
            (State::Deferred, at(Phase::Deferred)),
            (State::Parked, at(Phase::Parked)),
            (State::Complete, at(Phase::Complete)),
            (State::Failed, at(Phase::Failed)),
            (State::Cancelled, at(Phase::Cancelled)),
        ];
        Ok(numbers.into_iter().filter(|(_, n)| *n != 0).collect())
    }

    fn oldest_waiting(&mut self, lane: i64) -> Result<Option<Timestamp>, Fail> {
        let mut oldest: Option<i64> = None;
        for nprio in self.priorities(lane)? {
            let due = params![lane, nprio, self.now.as_millis()];
            let first: Option<i64> = self
                .statements
                .get(Sql::ReadyOldest)?
                .query_row(due, |row| row.get(0))?;
            oldest = [oldest, first].into_iter().flatten().min();
        }
        Ok(oldest.map(rows::time))
    }

    fn baselines(&mut self) -> Result<BTreeMap<i64, Counts>, Fail> {
        let read = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, counts_from(&row.get::<_, String>(1)?)));
        let found = self
            .statements
            .get(Sql::BaselineList)?
            .query_map([self.ns], read)?;
        Ok(found.collect::<rusqlite::Result<_>>()?)
    }

    fn guard_stats(&mut self) -> Result<GuardStats, Fail> {
        let read = |row: &Row<'_>| {
            Ok(GuardStats {
                fresh: row.get(0)?,
                in_progress: row.get(1)?,
                done: row.get(2)?,
            })
        };
        Ok(self
            .statements
            .get(Sql::GuardCounts)?
            .query_row([self.ns], read)
            .optional()?
            .unwrap_or_default())
    }

    /// Snapshots of the counters over a window, oldest first.
    pub fn history(&mut self, window: Millis) -> Result<Vec<Snapshot>, Fail> {
        let since = self.now.as_millis().saturating_sub(window.as_millis());
        let read = |row: &Row<'_>| {
            Ok(Snapshot {
                at: rows::time(row.get(0)?),
                counts: counts_from(&row.get::<_, String>(1)?),
            })
        };
        let found = self
            .statements
            .get(Sql::SnapshotList)?
            .query_map(params![self.ns, since], read)?;
        Ok(found.collect::<rusqlite::Result<_>>()?)
    }
}

/// Moves the baseline of the counters to now.
pub fn reset(tx: &mut Tx<'_>) -> Result<Timestamp, Fail> {
    let now = tx.now.as_millis();
    // What this commit has counted so far lies before the baseline.
    tx.flush()?;
    for row in lanes(&mut tx.statements, tx.ns)? {
        tx.statements
            .get(Sql::BaselinePut)?
            .execute(params![row.lane, now, counts_text(&row.counts)])?;
    }
    tx.statements.get(Sql::ResetPut)?.execute(params![tx.ns, now])?;
    Ok(tx.now)
}

/// Takes a snapshot if this minute has none, and thins out old ones. Whether one was taken.
pub fn snapshot(tx: &mut Tx<'_>) -> Result<bool, Fail> {
    const MINUTE: i64 = 60_000;
    let now = tx.now.as_millis();
    let at = now - now.rem_euclid(MINUTE);
    if tx
        .statements
        .get(Sql::SnapshotFind)?
        .query_row(params![tx.ns, at], |row| row.get(0))?
    {
        return Ok(false);
    }
    // What this commit has counted so far is of other namespaces, too: each finds its own in the file.
    tx.flush()?;
    let mut counts = Counts::default();
    for row in lanes(&mut tx.statements, tx.ns)? {
        counts.merge(&row.counts);
    }
    tx.statements
        .get(Sql::SnapshotInsert)?
        .execute(params![tx.ns, at, counts_text(&counts)])?;
    let ago = |length: Millis| now - length.as_millis();
    let thin = params![tx.ns, ago(Millis::from_days(1)), ago(Millis::from_days(30))];
    tx.statements.get(Sql::SnapshotThin)?.execute(thin)?;
    Ok(true)
}
