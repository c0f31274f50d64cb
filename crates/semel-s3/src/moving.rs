//! A key that is used again and again has many jobs behind it. Those that have ended are moved out of its cell, each
//! into the object of its token, so that the cell stays small.
//!
//! The cell goes on to name them, and only what it names is there: so moving out, coming home for a new life, and
//! being deleted are each one write of the cell, whatever copies lie about.

use std::sync::Arc;

use futures_util::FutureExt as _;
use semel_core::error::StoreError;
use semel_core::ids::JobId;
use semel_core::time::Timestamp;

use crate::cell::Cell;
use crate::desk::{Desk, each};
use crate::layout;
use crate::record::Record;
use crate::setup::Setup;

/// Ended jobs that a cell keeps.
const KEPT: usize = 8;

impl Desk {
    /// A job that was moved out. Whether it is there is said by the cell of its key.
    pub async fn moved_out(&self, id: &JobId) -> Result<Option<Record>, StoreError> {
        let Some(name) = layout::task_of(id) else {
            return Ok(None);
        };
        let loaded = self.read(&name).await?;
        Ok(loaded.base.and_then(|(_, cell)| cell.find(id).cloned()))
    }

    /// Brings a job back into the cell of its key, where it can be written.
    pub async fn bring_home(&self, id: &JobId, home: &str) -> Result<(), StoreError> {
        let Some(record) = self.moved_out(id).await? else {
            return Ok(());
        };
        self.change(home, true, &Setup::default(), |cell, _| {
            if cell.moved.contains(id) {
                cell.moved.retain(|moved| moved != id);
                let at = cell.jobs.partition_point(|job| job.arrival < record.arrival);
                cell.jobs.insert(at, record.clone());
            }
        })
        .await
    }

    /// Moves ended jobs out of cells that have many; says how many cells.
    pub async fn move_out(&self, most: usize) -> Result<usize, StoreError> {
        let (cells, _) = self.all(&[layout::KEYS]).await?;
        let now = self.moment().now;
        let full = cells
            .into_iter()
            .filter(|(_, cell)| movable(cell, now).count() > KEPT);
        let full: Vec<(String, Arc<Cell>)> = full.take(most).collect();
        let count = full.len();
        for (name, cell) in full {
            self.lighten(&name, &cell, now).await?;
        }
        Ok(count)
    }

    async fn lighten(&self, name: &str, cell: &Cell, now: Timestamp) -> Result<(), StoreError> {
        let keep = KEPT / 2;
        let mut old: Vec<Record> = movable(cell, now).cloned().collect();
        old.sort_by_key(|job| job.arrival);
        old.truncate(old.len().saturating_sub(keep));
        let nothing = &Setup::default();
        let copied = each(
            old,
            |job| job.spec.id.to_string(),
            |job| {
                let copy = async move {
                    let object = layout::task(job.spec.id.as_str());
                    let copied = self.change(&object, true, nothing, |cell, _| {
                        let ours = cell
                            .points_to
                            .as_ref()
                            .is_some_and(|pointer| pointer.cell == name);
                        if ours {
                            cell.jobs = vec![job.clone()];
                        }
                        ours
                    });
                    Ok(copied.await?.then_some(job))
                };
                copy.boxed()
            },
        )
        .await?;
        let copied: Vec<Record> = copied.into_iter().flatten().collect();
        self.change(name, true, nothing, |cell, _| {
            for job in &copied {
                if cell.find(&job.spec.id) == Some(job) {
                    cell.jobs.retain(|other| other.spec.id != job.spec.id);
                    cell.moved.push(job.spec.id.clone());
                }
            }
        })
        .await
    }

    /// Forgets the names of jobs that were moved out and are gone since.
    pub async fn forget_moved(&self, cells: &[(String, Arc<Cell>)]) -> Result<(), StoreError> {
        for (name, cell) in cells.iter().filter(|(_, cell)| !cell.moved.is_empty()) {
            let is_gone = |id: &&JobId| {
                let object = layout::task(id.as_str());
                let at = cells.binary_search_by(|(other, _)| other.as_str().cmp(&object));
                !at.is_ok_and(|at| cells[at].1.find(id).is_some())
            };
            let gone: Vec<JobId> = cell.moved.iter().filter(is_gone).cloned().collect();
            if !gone.is_empty() {
                self.change(name, true, &Setup::default(), |cell, _| {
                    cell.moved.retain(|id| !gone.contains(id));
                })
                .await?;
            }
        }
        Ok(())
    }
}

/// Jobs that nothing in the cell needs: ended, without the key, not the last to have had it, without steps.
fn movable(cell: &Cell, now: Timestamp) -> impl Iterator<Item = &Record> {
    let last = cell.last_owner().map(|job| &job.spec.id);
    cell.jobs.iter().filter(move |job| {
        job.life.phase.is_terminal()
            && !job.life.is_holder(now)
            && Some(&job.spec.id) != last
            && !cell.steps.iter().any(|step| step.origin == job.spec.origin)
    })
}
