//! What has changed, for those who wait for it.

use std::collections::HashMap;
use std::task::Waker;

use crate::memory::record::Lane;
use crate::store::{Interest, Mark};

/// The stream of changes: one number for all, and for each kind of interest the number it moved at last.
#[derive(Clone, Debug, Default)]
pub(super) struct Pulse {
    mark: u64,
    /// Whether the call under way changed something.
    moved: bool,
    work: HashMap<Lane, u64>,
    all_work: u64,
    ends: u64,
    waiting: HashMap<u64, (Interest, Waker)>,
    last_ticket: u64,
}

impl Pulse {
    pub(super) fn mark(&self) -> Mark {
        Mark(self.mark)
    }

    /// There is work in a lane.
    pub(super) fn work(&mut self, lane: Lane) {
        self.moved = true;
        self.work.insert(lane, self.mark + 1);
    }

    /// There may be work anywhere: a pause was lifted.
    pub(super) fn all_work(&mut self) {
        self.moved = true;
        self.all_work = self.mark + 1;
    }

    /// A job has ended, or is gone.
    pub(super) fn ends(&mut self) {
        self.moved = true;
        self.ends = self.mark + 1;
    }

    /// Closes a call: moves the mark if something changed, and gives those to be woken once the lock is free.
    pub(super) fn commit(&mut self) -> Vec<Waker> {
        if !std::mem::take(&mut self.moved) {
            return Vec::new();
        }
        let before = self.mark();
        self.mark += 1;
        let concerned: Vec<u64> = self
            .waiting
            .iter()
            .filter(|(_, (interest, _))| self.has_moved(before, interest))
            .map(|(ticket, _)| *ticket)
            .collect();
        concerned
            .iter()
            .filter_map(|ticket| self.waiting.remove(ticket))
            .map(|(_, waker)| waker)
            .collect()
    }

    /// Whether something of interest has changed since a mark.
    pub(super) fn has_moved(&self, since: Mark, interest: &Interest) -> bool {
        match interest {
            Interest::Ends => self.ends > since.0,
            Interest::Work { queues, tasks } => {
                let wanted = |lane: &Lane| {
                    (queues.is_empty() || queues.contains(&lane.queue))
                        && (tasks.is_empty() || tasks.contains(&lane.task))
                };
                self.all_work > since.0 || self.work.iter().any(|(lane, at)| *at > since.0 && wanted(lane))
            }
        }
    }

    /// Someone who will wait.
    pub(super) fn ticket(&mut self) -> u64 {
        self.last_ticket += 1;
        self.last_ticket
    }

    pub(super) fn wait(&mut self, ticket: u64, interest: &Interest, waker: &Waker) {
        self.waiting.insert(ticket, (interest.clone(), waker.clone()));
    }

    pub(super) fn leave(&mut self, ticket: u64) {
        self.waiting.remove(&ticket);
    }
}
