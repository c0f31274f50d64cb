//! What nothing needs any more goes.
//!
//! The object of a token in which nothing is left but counts is closed, which is final; then its counts are added to
//! the sums, under its name; then it is deleted; then the name is forgotten. A crash leaves it somewhere on this way,
//! and the next upkeep goes on from there. The cell of a key stays, as a tombstone of a few hundred bytes: the key may
//! come back at any time, and a deletion that is late would take its new job along.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use futures_util::FutureExt as _;
use semel_core::error::StoreError;
use semel_core::ids::{Digest, JobId};
use semel_core::time::{Millis, Timestamp};

use crate::cell::Cell;
use crate::desk::{Desk, at_once, each};
use crate::inspect::Sight;
use crate::layout;
use crate::setup::Setup;
use crate::stats::{add, tally};

/// A pointer may be ahead of its job: the write may still be on its way. After a day it is not.
const LEFTOVER: Millis = Millis::from_days(1);

impl Desk {
    /// Retires objects that nothing needs any more; says how many. `folding` are those that an upkeep which ended early
    /// has added to the sums: they are closed, and go with the rest.
    pub async fn retire(
        &self,
        sight: &Sight,
        folding: &[String],
        setup: &Setup,
        most: usize,
    ) -> Result<usize, StoreError> {
        self.forget_totals(sight, setup).await?;
        let done: Vec<&String> = sight
            .cells
            .iter()
            .filter(|(name, cell)| is_done(name, cell, sight, sight.now))
            .map(|(name, _)| name)
            .take(most)
            .collect();
        if done.is_empty() && folding.is_empty() {
            return Ok(0);
        }
        let count = done.len();
        let mut names = each(
            done,
            |name| (*name).clone(),
            |name| async move { self.close(name, setup).await }.boxed(),
        )
        .await?
        .into_iter()
        .flatten()
        .collect::<HashSet<String>>();
        names.extend(folding.iter().cloned());
        let names: Vec<String> = names.into_iter().collect();
        let gone = self.fold(&names).await?;
        self.bucket.delete(gone.clone()).await?;
        self.forget(&gone);
        self.change(layout::SUMS, true, &Setup::default(), |cell, _| {
            if let Some(sums) = &mut cell.sums {
                sums.folding.retain(|name| !names.contains(name));
            }
        })
        .await?;
        Ok(count)
    }

    /// Closes an object, unless there is something in it by now.
    async fn close(&self, name: &str, setup: &Setup) -> Result<Option<String>, StoreError> {
        self.change(name, true, setup, |cell, moment| {
            let empty = cell.jobs.is_empty() && cell.entries.is_empty();
            if empty {
                cell.points_to = None;
                cell.closed = cell.closed.or(Some(moment.now));
            }
            empty.then(|| name.to_owned())
        })
        .await
    }

    /// Adds the counts of closed objects to the sums, each once, whoever else is at it. Gives those that are still there,
    /// and may go.
    async fn fold(&self, names: &[String]) -> Result<Vec<String>, StoreError> {
        let look = |_: &Cell| self.closed(names.to_vec()).boxed();
        self.change_after(layout::SUMS, look, |cell, closed, _| {
            let sums = cell.sums.get_or_insert_default();
            let mut lanes = BTreeMap::new();
            add(&mut lanes, &sums.counts);
            for (name, cell) in closed {
                if !sums.folding.contains(name) {
                    sums.folding.push(name.clone());
                    add(&mut lanes, &cell.counts);
                }
            }
            let lanes = lanes.iter();
            sums.counts = lanes.map(|(lane, counts)| tally(lane, counts)).collect();
            closed.iter().map(|(name, _)| name.clone()).collect()
        })
        .await
    }

    /// Those objects that are there, and closed.
    async fn closed(&self, names: Vec<String>) -> Result<Vec<(String, Arc<Cell>)>, StoreError> {
        let reads = names.into_iter().map(|name| {
            let read = async move {
                let cell = self.read(&name).await?.base.map(|(_, cell)| cell);
                Ok(cell.filter(|cell| cell.closed.is_some()).map(|cell| (name, cell)))
            };
            read.boxed()
        });
        let found: Vec<Option<(String, Arc<Cell>)>> = at_once(reads.collect()).await?;
        Ok(found.into_iter().flatten().collect())
    }

    /// What a key has absorbed is forgotten with the last that is known of it.
    async fn forget_totals(&self, sight: &Sight, setup: &Setup) -> Result<(), StoreError> {
        let mut known: HashSet<Digest> = sight.entries().map(|entry| entry.digest).collect();
        known.extend(sight.jobs().filter_map(|job| job.digest()));
        let bare = |name: &str, cell: &Arc<Cell>| {
            let digest = layout::digest_of(name);
            cell.absorbed != 0
                && cell.jobs.is_empty()
                && cell.dead.is_empty()
                && cell.folding.is_empty()
                && digest.is_some_and(|digest| !known.contains(&digest))
        };
        for (name, _) in sight.cells.iter().filter(|(name, cell)| bare(name, cell)) {
            self.change(name, true, setup, |cell, _| {
                if cell.jobs.is_empty() && cell.dead.is_empty() && cell.entries.is_empty() {
                    cell.absorbed = 0;
                }
            })
            .await?;
        }
        Ok(())
    }
}

/// Whether an object of a token has nothing in it but counts.
fn is_done(name: &str, cell: &Cell, sight: &Sight, now: Timestamp) -> bool {
    if !name.starts_with(layout::TASKS) || !cell.jobs.is_empty() || !cell.entries.is_empty() {
        return false;
    }
    let Some(pointer) = &cell.points_to else {
        return true;
    };
    let there = sight.find(&pointer.cell);
    let Some(token) = layout::token_of(name) else {
        return false;
    };
    let is_its = |id: &JobId| layout::is_made_by(id, token);
    let names_it = |cell: &Cell| {
        cell.jobs
            .iter()
            .any(|job| is_its(&job.spec.id) || is_its(&job.spec.origin))
            || cell.entries.iter().any(|entry| entry.token == token)
    };
    pointer.at.plus(LEFTOVER) <= now && !there.is_some_and(names_it)
}
