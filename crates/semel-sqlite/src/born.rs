//! Jobs of which only their own row is written yet.
//!
//! A commit costs what it costs per page, and a job that is claimed soon never needs a place in the order. New jobs are
//! therefore written as rows of `job` alone, each with how it fares at birth; its life, its place, its token, its key and
//! its number in the counters are entered later, many at a time, and always before anything is done that could miss them:
//! submissions, claims and settlements know what they do, any other call enters them first, whoever reads has them
//! entered, and so does a process that finds those of another. They are the newest jobs there are: those above the floor
//! `born`, down to the first that was written whole.

use foldhash::{HashMap, HashSet};
use rusqlite::OptionalExtension;

use semel_core::counters::Counter;
use semel_core::ids::Digest;
use semel_core::job::Phase;
use semel_core::time::Timestamp;

use crate::fail::Fail;
use crate::keys::Owner;
use crate::recent::Keyed;
use crate::rows::{self, IdBytes, LifeRow};
use crate::statements::{Sql, Statements};
use crate::tx::Tx;

/// Submissions of a call that may be entered later: with more, the pages are worth it at once.
pub const FEW: usize = 32;
/// More are not left to be entered later.
const MOST: usize = 2_048;
/// Fewer are not worth their pages.
const ENTERED_AT_ONCE: usize = 512;
/// The newest job that is entered.
const FLOOR: &str = "born";

/// A job that is not entered yet.
pub struct Newborn {
    /// How it fares.
    pub row: LifeRow,
    /// The bytes of its id.
    pub id: IdBytes,
    /// Its key.
    pub digest: Option<Digest>,
    /// What admission has to know of it, if it has a key.
    pub keyed: Keyed,
}

/// The jobs that are not entered yet, oldest first.
#[derive(Default)]
pub struct Newborns {
    jobs: Vec<Newborn>,
    owners: HashMap<Digest, i64>,
}

impl Newborns {
    fn push(&mut self, newborn: Newborn) {
        if let (Some(digest), Some(_)) = (newborn.digest, &newborn.row.life.holding) {
            self.owners.insert(digest, newborn.row.seq);
        }
        self.jobs.push(newborn);
    }

    fn take_oldest(&mut self, count: usize) -> Vec<Newborn> {
        let rest = self.jobs.split_off(count.min(self.jobs.len()));
        let oldest = std::mem::replace(&mut self.jobs, rest);
        if self.jobs.is_empty() {
            self.owners.clear();
        }
        for newborn in &oldest {
            if let Some(digest) = &newborn.digest
                && self.owners.get(digest) == Some(&newborn.row.seq)
            {
                self.owners.remove(digest);
            }
        }
        oldest
    }

    /// One of them.
    pub fn get(&self, seq: i64) -> Option<&Newborn> {
        let found = self.jobs.binary_search_by_key(&seq, |newborn| newborn.row.seq);
        found.ok().map(|at| &self.jobs[at])
    }

    /// The one that took a key last.
    pub fn owner(&self, digest: &Digest) -> Option<&Newborn> {
        self.owners.get(digest).and_then(|seq| self.get(*seq))
    }

    /// How those fare that are due.
    pub fn due(&self, now: Timestamp) -> impl Iterator<Item = &LifeRow> {
        let rows = self.jobs.iter().map(|newborn| &newborn.row);
        rows.filter(move |row| row.life.phase == Phase::Waiting && row.life.run_at <= now)
    }
}

impl Tx<'_> {
    /// Whether a new job may be written by its own row alone.
    pub fn may_be_newborn(&self, row: &LifeRow, id: &IdBytes) -> bool {
        let plain = row
            .life
            .holding
            .as_ref()
            .is_none_or(|holding| holding.generation == row.seq);
        self.deferring && plain && self.is_surely_new(id)
    }

    /// A job is there by its own row alone.
    pub fn bear(&mut self, newborn: Newborn) {
        self.know_token(&newborn.id);
        self.signals.work = true;
        self.cache.newborn.push(newborn);
    }

    /// Enters what only its own row tells of.
    pub fn enter_newborn(&mut self) -> Result<(), Fail> {
        self.enter_oldest(usize::MAX, &HashSet::default())
    }

    /// Enters the oldest once they are many.
    pub fn enter_surplus(&mut self) -> Result<(), Fail> {
        match self.cache.newborn.jobs.len().saturating_sub(MOST) {
            0 => Ok(()),
            surplus => self.enter_oldest(surplus.max(ENTERED_AT_ONCE), &HashSet::default()),
        }
    }

    /// Enters all of them, but for the lives and places of those that are being taken: these wait no more.
    pub fn enter_but(&mut self, taken: &HashSet<i64>) -> Result<(), Fail> {
        self.enter_oldest(usize::MAX, taken)
    }

    fn enter_oldest(&mut self, count: usize, taken: &HashSet<i64>) -> Result<(), Fail> {
        let oldest = self.cache.newborn.take_oldest(count);
        let Some(last) = oldest.last().map(|newborn| newborn.row.seq) else {
            return Ok(());
        };
        for newborn in oldest {
            let row = &newborn.row;
            self.remember_token(&newborn.id, row.seq)?;
            if let (Some(digest), Some(holding)) = (newborn.digest, &row.life.holding) {
                let owner = Owner {
                    generation: holding.generation,
                    seq: row.seq,
                };
                self.cache.keys.own(rows::prefix(&digest), owner);
                self.cache.recent.put_owner(digest, newborn.keyed);
            }
            self.count(row.lane, Counter::Accepted);
            match taken.contains(&row.seq) {
                true => self.begin_taken(row),
                false => self.begin(row)?,
            }
        }
        self.raise_floor(FLOOR, last)
    }

    /// Learns of those that others have written.
    pub fn load_newborn(&mut self) -> Result<(), Fail> {
        let floor = self.floor(FLOOR)?;
        let mut found = Vec::new();
        let mut rows = self.statements.get(Sql::JobNewborn)?.query([floor])?;
        while let Some(row) = rows.next()? {
            let seq: i64 = row.get(0)?;
            let Some(birth) = row.get_ref(1)?.as_blob_or_null()? else {
                break;
            };
            // One that cannot be read is left out: once others are entered, the doctor finds it.
            let Some(life) = LifeRow::unpack(seq, birth) else {
                continue;
            };
            let id = IdBytes::read(row.get_ref(2)?.as_blob()?);
            found.push(Newborn {
                row: life,
                id,
                digest: rows::digest(row, 4)?,
                keyed: Keyed {
                    seq,
                    id: rows::short(&id),
                    enqueued_at: rows::time(row.get(3)?),
                    input: rows::digest(row, 5)?,
                    stub: false,
                },
            });
        }
        drop(rows);
        self.cache.newborn = Newborns::default();
        for newborn in found.into_iter().rev() {
            self.know_token(&newborn.id);
            self.cache.newborn.push(newborn);
        }
        Ok(())
    }
}

/// Whether there are jobs that only their own row tells of.
pub fn any(statements: &mut Statements<'_>) -> Result<bool, Fail> {
    let floor = statements
        .get(Sql::FloorFind)?
        .query_row([FLOOR], |row| row.get::<_, i64>(0));
    let floor = floor.optional()?.unwrap_or(0);
    let newest = statements
        .get(Sql::JobNewest)?
        .query_row([floor], |row| row.get(0));
    Ok(newest.optional()?.unwrap_or(false))
}
