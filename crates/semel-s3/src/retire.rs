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
use crate::desk::{Desk, each};
use crate::inspect::Sight;
use crate::layout;
use crate::setup::Setup;
use crate::stats::{Counted, add, tally};

/// A pointer may be ahead of its job: the write may still be on its way. After a day it is not.
const LEFTOVER: Millis = Millis::from_days(1);

impl Desk {
    /// Everything counted, in the store and in what is gone from it, of one moment.
    pub async fn count_all(&self) -> Result<Counted, StoreError> {
        loop {
            let before = self.sums().await?;
            let sight = self.sight().await?;
            let counted = self.counted(&sight, before.clone()).await?;
            if self.sums().await? == before {
                return Ok(counted);
            }
        }
    }

    /// Retires objects that nothing needs any more; says how many.
    pub async fn retire(&self, setup: &Setup, most: usize) -> Result<usize, StoreError> {
        let (cells, bytes) = self.cells(setup).await?;
        let now = self.moment().now;
        let sight = Sight { cells, bytes, now };
        self.forget_totals(&sight, setup).await?;
        let done: Vec<&String> = sight
            .cells
            .iter()
            .filter(|(name, cell)| is_done(name, cell, &sight, now))
            .map(|(name, _)| name)
            .take(most)
            .collect();
        let folding = self.sums().await?.folding;
        if done.is_empty() && folding.is_empty() {
            return Ok(0);
        }
        let count = done.len();
        let closed = each(
            done,
            |name| (*name).clone(),
            |name| {
                let close = async move {
                    let closed = self.change(name, true, setup, |cell, moment| {
                        let empty = cell.jobs.is_empty() && cell.entries.is_empty();
                        if empty {
                            cell.points_to = None;
                            cell.closed = cell.closed.or(Some(moment.now));
                        }
                        empty.then(|| (name.clone(), cell.counts.clone()))
                    });
                    closed.await
                };
                close.boxed()
            },
        )
        .await?;
        let closed: Vec<_> = closed.into_iter().flatten().collect();
        self.change(layout::SUMS, false, &Setup::default(), |cell, _| {
            let sums = cell.sums.get_or_insert_default();
            let mut lanes = BTreeMap::new();
            add(&mut lanes, &sums.counts);
            for (name, counts) in &closed {
                if !sums.folding.contains(name) {
                    sums.folding.push(name.clone());
                    add(&mut lanes, counts);
                }
            }
            sums.counts = lanes
                .iter()
                .map(|(lane, counts)| tally(lane, counts))
                .collect::<Vec<_>>();
        })
        .await?;
        // What an upkeep that ended early had folded is closed too, and goes with the rest.
        let mut names: HashSet<String> = folding.into_iter().collect();
        names.extend(closed.into_iter().map(|(name, _)| name));
        let names: Vec<String> = names.into_iter().collect();
        self.bucket.delete(names.clone()).await?;
        self.forget(&names);
        self.change(layout::SUMS, true, &Setup::default(), |cell, _| {
            if let Some(sums) = &mut cell.sums {
                sums.folding.retain(|name| !names.contains(name));
            }
        })
        .await?;
        Ok(count)
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
