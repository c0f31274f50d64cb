//! Settings of everything, queues and tasks; and the removal of a queue.

use std::collections::BTreeMap;

use rusqlite::params;

use semel_core::dedup::Mode;
use semel_core::error::Invalid;
use semel_core::ids::Name;
use semel_core::store::{Pause, Setting, SettingChange, Target};
use semel_core::time::Timestamp;

use crate::fail::Fail;
use crate::rows;
use crate::statements::{Sql, Statements};
use crate::tx::Tx;

/// All settings that are not at their default.
pub fn read(statements: &mut Statements<'_>, ns: i64) -> Result<BTreeMap<Target, Setting>, Fail> {
    let mut settings = BTreeMap::new();
    let mut found = statements.get(Sql::SettingList)?.query([ns])?;
    while let Some(row) = found.next()? {
        let name = || -> Result<Name, Fail> { Ok(Name::new(row.get::<_, String>(1)?)?) };
        let target = match row.get::<_, i64>(0)? {
            0 => Target::All,
            1 => Target::Queue(name()?),
            _ => Target::Task(name()?),
        };
        let since = rows::optional_time(row, 2)?;
        let (until, reason) = (rows::optional_time(row, 3)?, row.get(4)?);
        let (closed, closed_until) = lasting(row.get(5)?);
        let (observed, observed_until) = lasting(row.get(7)?);
        let setting = Setting {
            paused: since.map(|since| Pause { since, until, reason }),
            closed,
            closed_until,
            unique: row.get(6)?,
            mode: if observed { Mode::Observe } else { Mode::Enforce },
            observed_until,
        };
        settings.insert(target, setting);
    }
    Ok(settings)
}

/// Changes a setting; gives it as it is now.
pub fn set(tx: &mut Tx<'_>, target: &Target, change: &SettingChange) -> Result<Setting, Fail> {
    tx.rescue()?;
    if let (Target::Task(_), SettingChange::Unique { .. }) = (target, change) {
        return Err(Invalid::new("unique", "a queue, or all queues").into());
    }
    let before = tx.cache.settings.get(target).cloned().unwrap_or_default();
    let after = before.changed(change, tx.now);
    let (kind, name) = column(target);
    if after == Setting::default() {
        tx.statements
            .get(Sql::SettingDelete)?
            .execute(params![tx.ns, kind, name])?;
        tx.cache.settings.remove(target);
    } else {
        let pause = after.paused.as_ref();
        tx.statements.get(Sql::SettingPut)?.execute(params![
            tx.ns,
            kind,
            name,
            pause.map(|pause| pause.since.as_millis()),
            pause.and_then(|pause| rows::millis(pause.until)),
            pause.and_then(|pause| pause.reason.as_deref()),
            column_of(after.closed, after.closed_until),
            after.unique,
            column_of(after.mode == Mode::Observe, after.observed_until),
        ])?;
        tx.cache.settings.insert(target.clone(), after.clone());
    }
    tx.signals.work |= *change == SettingChange::Resume;
    Ok(after)
}

/// Whether, and until when: 0 not, 1 until it is changed, else the moment it ends.
fn lasting(column: i64) -> (bool, Option<Timestamp>) {
    (column != 0, (column > 1).then(|| rows::time(column)))
}

fn column_of(holds: bool, until: Option<Timestamp>) -> i64 {
    until.map_or(i64::from(holds), Timestamp::as_millis)
}

fn column(target: &Target) -> (i64, &str) {
    match target {
        Target::All => (0, ""),
        Target::Queue(name) => (1, name.as_str()),
        Target::Task(name) => (2, name.as_str()),
    }
}

/// Removes a queue in one step: its lanes are no longer live (contract 2.16). The sweep comes later.
pub fn remove_queue(tx: &mut Tx<'_>, queue: &Name) -> Result<i64, Fail> {
    tx.rescue()?;
    let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?));
    let orphans = tx
        .statements
        .get(Sql::DeferredAll)?
        .query_map(params![tx.ns, queue.as_str()], read)?;
    let orphans = orphans.collect::<rusqlite::Result<Vec<_>>>()?;
    tx.statements
        .get(Sql::FollowForsake)?
        .execute(params![tx.ns, queue.as_str()])?;
    tx.statements
        .get(Sql::LaneRemove)?
        .execute(params![tx.ns, queue.as_str()])?;
    let lanes = tx.cache.remove_queue(queue);
    let jobs = lanes
        .iter()
        .filter_map(|lane| tx.cache.lanes.get(lane))
        .map(|lane| lane.phases.iter().sum::<i64>())
        .sum();
    for (holder, follower) in orphans {
        tx.statements.get(Sql::FollowDelete)?.execute([holder])?;
        tx.promote(follower)?;
    }
    let target = Target::Queue(queue.clone());
    let (kind, name) = column(&target);
    tx.statements
        .get(Sql::SettingDelete)?
        .execute(params![tx.ns, kind, name])?;
    tx.cache.settings.remove(&target);
    tx.signals.ends = true;
    Ok(jobs)
}
