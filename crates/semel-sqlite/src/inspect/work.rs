//! When there may be work.

use rusqlite::params;

use semel_core::ids::Name;
use semel_core::store::Target;
use semel_core::time::Timestamp;

use crate::fail::Fail;
use crate::inspect::Look;
use crate::rows;
use crate::settings;
use crate::statements::Sql;

impl Look<'_> {
    /// When there may be work in these queues and tasks without anybody writing: a job comes due, a pause
    /// ends, a lease runs out. A moment that has passed means now.
    pub fn next_work(&mut self, queues: &[Name], tasks: &[Name]) -> Result<Option<Timestamp>, Fail> {
        let wanted = |names: &[Name], name: &Name| names.is_empty() || names.contains(name);
        let settings = settings::read(&mut self.statements, self.ns)?;
        let lanes = self
            .lanes
            .iter()
            .filter(|(_, (queue, task))| wanted(queues, queue) && wanted(tasks, task));
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
        let open: Vec<i64> = lanes
            .filter(|(_, (queue, task))| !paused(queue, task))
            .map(|(lane, _)| *lane)
            .collect();
        let ends = settings
            .values()
            .filter_map(|setting| setting.paused.as_ref()?.until);
        let mut next = ends
            .filter(|until| *until > self.now)
            .min()
            .map(Timestamp::as_millis);
        let lease: Option<i64> = self
            .statements
            .get(Sql::LeaseSoonest)?
            .query_row([self.ns], |row| row.get(0))?;
        next = [next, lease].into_iter().flatten().min();
        for lane in open {
            for nprio in self.priorities(lane)? {
                let first = self.statements.get(Sql::ReadyFirst)?;
                let due: Option<i64> = first.query_row(params![lane, nprio], |row| row.get(0))?;
                next = [next, due].into_iter().flatten().min();
            }
        }
        Ok(next.map(rows::time))
    }

    /// The priorities that wait in a lane.
    pub fn priorities(&mut self, lane: i64) -> Result<Vec<i64>, Fail> {
        let found = self
            .statements
            .get(Sql::ReadyPriorities)?
            .query_map([lane], |row| row.get(0))?;
        Ok(found.collect::<rusqlite::Result<_>>()?)
    }
}
