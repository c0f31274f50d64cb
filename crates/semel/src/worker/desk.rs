//! What all parts of a working worker share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use semel_core::job::State;
use semel_core::lifecycle::Settle;
use semel_core::store::Store;

use crate::worker::floor::Floor;
use crate::worker::handler::Handlers;
use crate::worker::leases::Leases;
use crate::worker::settings::Settings;
use crate::worker::stop::Stop;

/// What all parts of a working worker share.
pub(crate) struct Desk {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) settings: Settings,
    pub(crate) handlers: Handlers,
    pub(crate) leases: Leases,
    pub(crate) floor: Floor,
    pub(crate) stop: Stop,
    pub(crate) tally: Tally,
}

/// What a worker did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct WorkReport {
    /// Jobs it completed.
    pub completed: u64,
    /// Attempts that ended in an error and will be tried again.
    pub retried: u64,
    /// Jobs that failed.
    pub failed: u64,
    /// Attempts that were put off.
    pub snoozed: u64,
    /// Jobs handed back when it stopped.
    pub handed_back: u64,
    /// Jobs left to an operator.
    pub parked: u64,
    /// Jobs that were cancelled while it had them.
    pub cancelled: u64,
    /// Leases that were lost to another worker, or ran out.
    pub lost: u64,
    /// Writes the store refused because the lease was no longer the newest (contract 1.5).
    pub refused_writes: u64,
}

/// Counts what a worker does.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    completed: AtomicU64,
    retried: AtomicU64,
    failed: AtomicU64,
    snoozed: AtomicU64,
    handed_back: AtomicU64,
    parked: AtomicU64,
    cancelled: AtomicU64,
    lost: AtomicU64,
    refused_writes: AtomicU64,
}

impl Tally {
    /// A settlement was accepted.
    pub(crate) fn settled(&self, settle: &Settle, state: State) {
        let counter = match (settle, state) {
            (Settle::Complete { .. }, _) => &self.completed,
            (Settle::Retry { .. } | Settle::Fail { .. }, State::Failed) => &self.failed,
            (Settle::Retry { .. } | Settle::Fail { .. }, _) => &self.retried,
            (Settle::Snooze { .. }, _) => &self.snoozed,
            (Settle::HandBack, _) => &self.handed_back,
            (Settle::Park { .. }, _) => &self.parked,
            (Settle::Cancel, _) => &self.cancelled,
        };
        add(counter, 1);
    }

    /// A job was cancelled under its handler.
    pub(crate) fn cancelled(&self) {
        add(&self.cancelled, 1);
    }

    /// Leases were lost.
    pub(crate) fn lost(&self, leases: usize) {
        add(&self.lost, leases as u64);
    }

    /// A write was refused.
    pub(crate) fn refused(&self) {
        add(&self.refused_writes, 1);
    }

    pub(crate) fn report(&self) -> WorkReport {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        WorkReport {
            completed: read(&self.completed),
            retried: read(&self.retried),
            failed: read(&self.failed),
            snoozed: read(&self.snoozed),
            handed_back: read(&self.handed_back),
            parked: read(&self.parked),
            cancelled: read(&self.cancelled),
            lost: read(&self.lost),
            refused_writes: read(&self.refused_writes),
        }
    }
}

fn add(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}
