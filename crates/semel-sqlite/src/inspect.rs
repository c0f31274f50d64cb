//! Looking: jobs, keys, ledger, steps. Everything here runs on a reader, inside one snapshot.

mod entries;
mod jobs;
mod keys;
mod letters;
mod steps;
mod whole;
mod work;

pub use steps::step_records;
pub use whole::{Whole, pointers, whole_job};

use std::collections::HashMap;

use rusqlite::{OptionalExtension, Row};

use semel_core::ids::{JobId, Name};
use semel_core::time::Timestamp;
use semel_core::view::Job;

use crate::fail::Fail;
use crate::rows::{self, LifeRow};
use crate::statements::{Sql, Statements};

/// Rows one page of a list looks at before it says how far it came.
const SEARCH: i64 = 100_000;

/// One look at the store: a snapshot, and the lanes of the namespace in it.
pub struct Look<'c> {
    /// The statements.
    pub statements: Statements<'c>,
    /// The namespace's number; 0 if the store has never heard of it.
    pub ns: i64,
    /// The namespace.
    pub namespace: &'c Name,
    /// The store's time.
    pub now: Timestamp,
    lanes: HashMap<i64, (Name, Name)>,
    workers: HashMap<i64, Name>,
}

impl<'c> Look<'c> {
    /// Looks at a snapshot that has begun.
    pub fn new(
        connection: &'c rusqlite::Connection,
        namespace: &'c Name,
        ns: i64,
        now: Timestamp,
    ) -> Result<Self, Fail> {
        let mut look = Look {
            statements: Statements::new(connection),
            ns,
            namespace,
            now,
            lanes: HashMap::new(),
            workers: HashMap::new(),
        };
        let read = |row: &Row<'_>| {
            Ok((
                row.get::<_, i64>(0)?,
                row.get::<_, String>(1)?,
                row.get::<_, String>(2)?,
                row.get(3)?,
            ))
        };
        let rows = look.statements.get(Sql::LaneList)?.query_map([ns], read)?;
        for row in rows {
            let (lane, queue, task, removed): (i64, String, String, bool) = row?;
            if !removed {
                look.lanes.insert(lane, (Name::new(queue)?, Name::new(task)?));
            }
        }
        Ok(look)
    }

    fn seq(&mut self, id: &JobId) -> Result<Option<i64>, Fail> {
        let Some(bytes) = rows::id_bytes(id, self.ns) else {
            return Ok(None);
        };
        let found = self
            .statements
            .get(Sql::TokenFind)?
            .query_row([bytes], |row| row.get::<_, i64>(0))
            .optional()?;
        Ok(found.filter(|found| *found > 0))
    }

    /// A job's life by its number; none if its queue was removed.
    pub fn life(&mut self, seq: i64) -> Result<Option<LifeRow>, Fail> {
        let row = self
            .statements
            .get(Sql::LifeFind)?
            .query_row([seq], LifeRow::read)
            .optional()?;
        Ok(row.filter(|row| self.lanes.contains_key(&row.lane)))
    }

    fn worker(&mut self, number: Option<i64>) -> Result<Option<Name>, Fail> {
        let Some(number) = number else { return Ok(None) };
        if let Some(name) = self.workers.get(&number) {
            return Ok(Some(name.clone()));
        }
        let found = self
            .statements
            .get(Sql::WorkerName)?
            .query_row([number], |row| row.get::<_, String>(0));
        let Some(name) = found.optional()? else {
            return Ok(None);
        };
        let name = Name::new(name)?;
        self.workers.insert(number, name.clone());
        Ok(Some(name))
    }

    /// Jobs by id, in the order asked for.
    pub fn jobs_by_id(&mut self, ids: &[JobId]) -> Result<Vec<Option<Job>>, Fail> {
        ids.iter()
            .map(|id| match self.seq(id)? {
                Some(seq) => self.job(seq),
                None => Ok(None),
            })
            .collect()
    }

    fn job(&mut self, seq: i64) -> Result<Option<Job>, Fail> {
        let Some(row) = self.life(seq)? else {
            return Ok(None);
        };
        let Some(whole) = whole_job(&mut self.statements, seq)? else {
            return Ok(None);
        };
        let (queue, task) = self.lanes[&row.lane].clone();
        let worker = self.worker(row.worker)?;
        whole
            .show(&mut self.statements, &row, queue, task, worker, self.now, false)
            .map(Some)
    }
}
