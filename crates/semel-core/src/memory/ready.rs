//! The waiting jobs, so arranged that a claim looks only at what it may take.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};

use crate::job::Life;
use crate::memory::record::{Arrival, Lane};
use crate::time::Timestamp;

/// The place of a waiting job among others: priority, then run_at, then arrival (contract 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    priority: Reverse<i8>,
    run_at: Timestamp,
    arrival: Arrival,
}

impl Rank {
    pub(super) fn of(life: &Life, arrival: Arrival) -> Self {
        Rank {
            priority: Reverse(life.priority),
            run_at: life.run_at,
            arrival,
        }
    }
}

/// Waiting jobs: by lane once they are due, so that a paused lane costs a claim nothing; by time before.
#[derive(Clone, Debug, Default)]
pub(super) struct Ready {
    due: HashMap<Lane, BTreeSet<Rank>>,
    scheduled: BTreeMap<(Timestamp, Arrival), (Lane, Rank)>,
}

impl Ready {
    pub(super) fn insert(&mut self, lane: &Lane, rank: Rank, now: Timestamp) {
        if rank.run_at > now {
            self.scheduled
                .insert((rank.run_at, rank.arrival), (lane.clone(), rank));
        } else {
            self.insert_due(lane.clone(), rank);
        }
    }

    pub(super) fn remove(&mut self, lane: &Lane, rank: Rank) {
        if self.scheduled.remove(&(rank.run_at, rank.arrival)).is_some() {
            return;
        }
        if let Some(ranks) = self.due.get_mut(lane) {
            ranks.remove(&rank);
            if ranks.is_empty() {
                self.due.remove(lane);
            }
        }
    }

    /// The best due jobs of the lanes that are wanted, best first.
    pub(super) fn best(
        &mut self,
        most: usize,
        now: Timestamp,
        wanted: impl Fn(&Lane) -> bool,
    ) -> Vec<Arrival> {
        self.ripen(now);
        let mut lanes: Vec<_> = self
            .due
            .iter()
            .filter(|(lane, _)| wanted(lane))
            .map(|(_, ranks)| ranks.iter())
            .collect();
        let mut heads: BinaryHeap<Reverse<(Rank, usize)>> = lanes
            .iter_mut()
            .enumerate()
            .filter_map(|(lane, ranks)| ranks.next().map(|rank| Reverse((*rank, lane))))
            .collect();
        let mut best = Vec::new();
        while best.len() < most
            && let Some(Reverse((rank, lane))) = heads.pop()
        {
            best.push(rank.arrival);
            heads.extend(lanes[lane].next().map(|next| Reverse((*next, lane))));
        }
        best
    }

    /// Time never goes back, so what is due stays due.
    fn ripen(&mut self, now: Timestamp) {
        while let Some(first) = self.scheduled.first_entry()
            && first.key().0 <= now
        {
            let (lane, rank) = first.remove();
            self.insert_due(lane, rank);
        }
    }

    fn insert_due(&mut self, lane: Lane, rank: Rank) {
        self.due.entry(lane).or_default().insert(rank);
    }
}
