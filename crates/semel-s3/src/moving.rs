//! A key that is used again and again has many jobs behind it. Those that have ended are moved out of its cell, each
//! into the object of its token, so that the cell stays small however many there are.
//!
//! Where a job is, is decided by the cell of its key alone, in one write of it. A job that is in the cell is there.
//! Else its copy is the job, unless the cell says of the move that made the copy that it does not count. A move is
//! announced as one that does not count, then the copies are written, then one write takes the jobs out of the cell
//! and the announcement back. A job that comes home, or goes, is named as a copy that does not count; then the copy is
//! emptied; then the name goes.

use std::sync::Arc;

use futures_util::FutureExt as _;
use semel_core::error::StoreError;
use semel_core::ids::JobId;
use semel_core::time::{Millis, Timestamp};

use crate::cell::{Cell, Dead, Pointer, Step};
use crate::clock::random;
use crate::desk::{Desk, each};
use crate::inspect::Sight;
use crate::layout;
use crate::record::Record;
use crate::setup::Setup;

/// Ended jobs that a cell keeps.
const KEPT: usize = 8;
/// A move of which nothing was heard for a day is over.
const LEFTOVER: Millis = Millis::from_days(1);

/// A job with what moves with it.
#[derive(Clone, PartialEq)]
struct Luggage {
    job: Record,
    steps: Vec<Step>,
}

impl Luggage {
    fn of(cell: &Cell, job: &Record) -> Self {
        let steps = cell.steps.iter().filter(|step| step.origin == job.spec.origin);
        Luggage {
            job: job.clone(),
            steps: steps.cloned().collect(),
        }
    }
}

impl Desk {
    /// The object a job is in that left the cell of its key; `cell` is that cell, read before.
    pub async fn copy_of(
        &self,
        id: &JobId,
        home: &str,
        cell: &Cell,
    ) -> Result<Option<Arc<Cell>>, StoreError> {
        let Some(name) = layout::task_of(id).filter(|name| name != home) else {
            return Ok(None);
        };
        let loaded = self.read(&name).await?;
        let copy = loaded.base.map(|(_, copy)| copy);
        Ok(copy.filter(|copy| is_copy(copy, id, home) && cell.lets_count(id, copy)))
    }

    /// Brings a job that was moved out back into the cell of its key, where it can be written. Says whether it was.
    pub async fn bring_home(&self, id: &JobId, home: &str) -> Result<bool, StoreError> {
        if !home.starts_with(layout::KEYS) {
            return Ok(false);
        }
        let cell = self.read(home).await?.cell();
        let Some(copy) = self.copy_of(id, home, &cell).await? else {
            return Ok(cell.find(id).is_some());
        };
        self.change(home, true, &Setup::default(), |cell, moment| {
            let Some(job) = copy.find(id).filter(|_| cell.lets_count(id, &copy)) else {
                return;
            };
            let at = cell.jobs.partition_point(|other| other.arrival < job.arrival);
            cell.jobs.insert(at, job.clone());
            cell.steps.extend(copy.steps.iter().cloned());
            cell.bury(&copy, vec![id.clone()], moment.now);
        })
        .await?;
        Ok(true)
    }

    /// Moves ended jobs out of cells that have many; says how many cells.
    pub async fn move_out(&self, sight: &Sight, most: usize) -> Result<usize, StoreError> {
        let now = self.moment().now;
        let keys = || {
            let cells = sight.cells.iter();
            cells.filter(|(name, _)| name.starts_with(layout::KEYS))
        };
        self.empty_dead_copies(keys(), now).await?;
        let full = keys().filter(|(_, cell)| movable(cell, now).count() > KEPT);
        let full: Vec<&(String, Arc<Cell>)> = full.take(most).collect();
        for (name, cell) in &full {
            self.lighten(name, cell, now).await?;
        }
        Ok(full.len())
    }

    async fn lighten(&self, name: &str, cell: &Cell, now: Timestamp) -> Result<(), StoreError> {
        let mut old: Vec<&Record> = movable(cell, now).collect();
        old.sort_by_key(|job| job.arrival);
        old.truncate(old.len().saturating_sub(KEPT / 2));
        let old: Vec<Luggage> = old.into_iter().map(|job| Luggage::of(cell, job)).collect();
        let jobs: Vec<JobId> = old.iter().map(|it| it.job.spec.id.clone()).collect();
        let (by, nothing) = (random(), &Setup::default());
        self.change(name, true, nothing, |cell, moment| {
            cell.dead.push(Dead {
                by,
                jobs: jobs.clone(),
                at: moment.now,
                moving: true,
            });
        })
        .await?;
        let copied = each(
            old,
            |it| it.job.spec.id.to_string(),
            |it| async move { Ok(self.copy(name, &it, by).await?.then_some(it)) }.boxed(),
        )
        .await?;
        let copied: Vec<Luggage> = copied.into_iter().flatten().collect();
        self.change(name, true, nothing, |cell, moment| {
            let stays = |it: &Luggage| {
                let job = cell.find(&it.job.spec.id);
                let is_movable = movable(cell, moment.now).any(|job| job.spec.id == it.job.spec.id);
                !is_movable || job.map(|job| Luggage::of(cell, job)).as_ref() != Some(it)
            };
            if copied.iter().any(stays) {
                // Somebody changed one of them: another time. The copies are all written, and may go.
                let ours = cell.dead.iter_mut().filter(|dead| dead.by == by);
                ours.for_each(|dead| dead.moving = false);
                return;
            }
            cell.dead.retain(|dead| dead.by != by);
            for Luggage { job, .. } in &copied {
                cell.jobs.retain(|other| other.spec.id != job.spec.id);
                cell.steps.retain(|step| step.origin != job.spec.origin);
            }
        })
        .await
    }

    /// Writes the copy of a job, if the object of its token has room for it.
    async fn copy(&self, home: &str, luggage: &Luggage, by: u64) -> Result<bool, StoreError> {
        let Luggage { job, steps } = luggage;
        let Some(object) = layout::task_of(&job.spec.id) else {
            return Ok(false);
        };
        self.change(&object, true, &Setup::default(), |cell, moment| {
            let points = cell.points_to.as_ref().map(|pointer| pointer.cell.as_str());
            // The copy of another move is left alone, as that one may be about to count on it.
            let room = cell.jobs.is_empty() || cell.copied_by == Some(by);
            let ours = room && points.is_none_or(|cell| cell == home);
            if ours {
                cell.points_to.get_or_insert_with(|| Pointer {
                    cell: home.to_owned(),
                    at: moment.now,
                });
                cell.jobs = vec![job.clone()];
                cell.steps = steps.clone();
                cell.copied_by = Some(by);
            }
            ours
        })
        .await
    }

    /// Empties copies that do not count, and forgets them.
    async fn empty_dead_copies(
        &self,
        cells: impl Iterator<Item = &(String, Arc<Cell>)> + Send,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        for (name, cell) in cells.filter(|(_, cell)| !cell.dead.is_empty()) {
            let over = |dead: &&Dead| !dead.moving || dead.at.plus(LEFTOVER) <= now;
            let over: Vec<Dead> = cell.dead.iter().filter(over).cloned().collect();
            let copies = over
                .iter()
                .flat_map(|dead| dead.jobs.iter().map(|id| (id.clone(), dead.by)));
            each(
                copies.collect(),
                |(id, _)| id.to_string(),
                |(id, by)| async move { self.empty_copy(&id, by).await }.boxed(),
            )
            .await?;
            if !over.is_empty() {
                self.change(name, true, &Setup::default(), |cell, _| {
                    cell.dead.retain(|dead| !over.contains(dead));
                })
                .await?;
            }
        }
        Ok(())
    }

    async fn empty_copy(&self, id: &JobId, by: u64) -> Result<(), StoreError> {
        let Some(object) = layout::task_of(id) else {
            return Ok(());
        };
        self.change(&object, false, &Setup::default(), |cell, _| {
            if cell.copied_by == Some(by) {
                cell.jobs.clear();
                cell.steps.clear();
                cell.copied_by = None;
            }
        })
        .await
    }
}

impl Cell {
    /// From now on these copies do not count.
    pub fn bury(&mut self, copy: &Cell, jobs: Vec<JobId>, now: Timestamp) {
        self.dead.extend(copy.copied_by.map(|by| Dead {
            by,
            jobs,
            at: now,
            moving: false,
        }));
    }
}

fn is_copy(cell: &Cell, id: &JobId, home: &str) -> bool {
    let comes_from = cell.points_to.as_ref().map(|pointer| pointer.cell.as_str());
    cell.copied_by.is_some() && comes_from == Some(home) && cell.find(id).is_some()
}

/// Jobs that nothing in the cell needs: ended, without the key, not the last to have had it, alone in their chain.
fn movable(cell: &Cell, now: Timestamp) -> impl Iterator<Item = &Record> {
    let last = cell.last_owner().map(|job| &job.spec.id);
    cell.jobs.iter().filter(move |job| {
        let of_chain = cell
            .jobs
            .iter()
            .filter(|other| other.spec.origin == job.spec.origin);
        job.life.phase.is_terminal()
            && !job.life.is_holder(now)
            && Some(&job.spec.id) != last
            && of_chain.count() == 1
    })
}
