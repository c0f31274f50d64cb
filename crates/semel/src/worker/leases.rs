//! The register of all leases this worker holds, running or waiting in its buffer: what heartbeats are for.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use semel_core::store::{Claimed, Store};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::worker::lease::{Fate, Lease};

/// Every lease from its claim until its settlement was answered.
pub(crate) struct Leases {
    store: Arc<dyn Store>,
    places: Mutex<Places>,
    /// Rung when a handler has something to tell.
    bell: Arc<Notify>,
    /// Rung when leases are older than they should be.
    urgent: Notify,
}

#[derive(Default)]
struct Places {
    held: Vec<Option<Arc<Lease>>>,
    free: Vec<usize>,
}

impl Leases {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Leases {
            store,
            places: Mutex::default(),
            bell: Arc::default(),
            urgent: Notify::new(),
        }
    }

    /// Waits until a handler has something to tell.
    pub(crate) async fn notes(&self) {
        self.bell.notified().await;
    }

    /// Asks for heartbeats at once if they are due: a claim may have taken long.
    pub(crate) fn hurry(&self, due: Instant, now: Instant) {
        if due <= now {
            self.urgent.notify_one();
        }
    }

    /// Waits until heartbeats are wanted out of turn.
    pub(crate) async fn urgent(&self) {
        self.urgent.notified().await;
    }

    /// Enters a claimed batch. `until` is reckoned from before the claim was sent.
    pub(crate) fn enter(&self, batch: Vec<Claimed>, group: usize, until: Instant) -> Vec<Arc<Lease>> {
        let mut places = self.places();
        batch
            .into_iter()
            .map(|claimed| {
                let place = places.vacant();
                let (store, bell) = (self.store.clone(), self.bell.clone());
                let lease = Arc::new(Lease::new(claimed, place, group, store, bell, until));
                places.held[place] = Some(lease.clone());
                lease
            })
            .collect()
    }

    /// Strikes leases out whose jobs are no longer ours to write about.
    pub(crate) fn strike<'a>(&self, leases: impl IntoIterator<Item = &'a Arc<Lease>>) {
        let mut places = self.places();
        for lease in leases {
            let is_there = |held: &Arc<Lease>| Arc::ptr_eq(held, lease);
            if places.held[lease.place].as_ref().is_some_and(is_there) {
                places.held[lease.place] = None;
                places.free.push(lease.place);
            }
        }
    }

    /// All leases that are ours, or those of them that `wanted` picks.
    pub(crate) fn ours(&self, wanted: impl Fn(&Lease) -> bool) -> Vec<Arc<Lease>> {
        let places = self.places();
        let held = places.held.iter().flatten();
        held.filter(|lease| lease.fate() < Fate::Cancelled && wanted(lease))
            .cloned()
            .collect()
    }

    /// All leases, whatever became of them.
    pub(crate) fn all(&self) -> Vec<Arc<Lease>> {
        self.places().held.iter().flatten().cloned().collect()
    }

    /// Gives up the leases that have run out while the store could not be asked: somebody else may be at these
    /// jobs by now. A result is kept all the same, for the store to judge.
    pub(crate) fn give_up(&self, now: Instant) -> usize {
        let places = self.places();
        let held = places.held.iter().flatten();
        held.filter(|lease| !lease.is_over() && lease.has_run_out(now))
            .filter(|lease| lease.tell(Fate::Lost))
            .count()
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Places {
    fn vacant(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            self.held.push(None);
            self.held.len() - 1
        })
    }
}

/// How often leases of this length are extended: a third of it (contract 1.7).
pub(crate) fn beat_every(lease: Duration) -> Duration {
    lease / 3
}
