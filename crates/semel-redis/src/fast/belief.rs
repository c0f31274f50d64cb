//! What a handle believes of a shard. Nothing rests on it: the scripts look themselves.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use crate::head::Head;
use crate::keys::Id;

/// Leased jobs that are remembered; a worker has fewer at a time.
const HEADS: usize = 20_000;
/// Calls that draw their numbers of arrival first, after one that had believed them wrongly, at most.
const PATIENCE: u32 = 64;

/// Jobs that were leased together.
#[derive(Debug)]
pub struct Together {
    /// What their heads begin with.
    pub turn: Vec<u8>,
    /// The member of the watched leases that stands for all of them.
    pub member: Vec<u8>,
    /// How many of them this handle has not settled.
    pub left: AtomicUsize,
}

/// A job as this handle has leased it.
#[derive(Debug)]
pub struct Leased {
    /// How it was written.
    pub head: Head,
    /// With whom.
    pub together: Arc<Together>,
}

/// What a handle believes of a shard.
#[derive(Default)]
pub struct Belief {
    seq: Option<i64>,
    /// Lanes and priorities with waiting jobs, as they are stored.
    pub places: BTreeSet<Vec<u8>>,
    leased: HashMap<Id, Leased>,
    waiting: u32,
    cost: u32,
    /// Whether of the keys that came last most were taken, so that it is better to look first.
    pub mostly_taken: bool,
}

impl Belief {
    /// The last number of arrival is this, or one that is on its way.
    pub fn arrived(&mut self, seq: i64) {
        self.seq = self.seq.max(Some(seq));
    }

    /// The last number of arrival before so many that are now taken for drawn; none where others draw too.
    pub fn draw(&mut self, count: usize) -> Option<i64> {
        if self.waiting > 0 {
            self.waiting -= 1;
            return None;
        }
        let last = self.seq?;
        self.seq = Some(last + count as i64);
        Some(last)
    }

    /// Numbers that were taken for drawn were.
    pub fn was_right(&mut self) {
        self.cost = 0;
    }

    /// They were not: the last one is this. If others draw too, to draw first is cheaper for a while.
    pub fn was_wrong(&mut self, seq: i64) {
        if self.seq.is_some_and(|own| seq <= own) {
            // A call of this handle was faster than one before it.
            return;
        }
        self.seq = Some(seq);
        self.cost = (self.cost * 2 + 1).min(PATIENCE);
        self.waiting = self.cost;
    }

    /// Jobs were leased.
    pub fn lease(&mut self, jobs: impl ExactSizeIterator<Item = Leased>) {
        if self.leased.len() + jobs.len() > HEADS {
            self.leased.clear();
        }
        self.leased.extend(jobs.map(|leased| (leased.head.id, leased)));
    }

    /// A job as it was leased, if it still is as far as this handle knows. It is forgotten.
    pub fn take(&mut self, id: &Id) -> Option<Leased> {
        self.leased.remove(id)
    }

    /// A job was written by a step.
    pub fn forget(&mut self, id: &Id) {
        self.leased.remove(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whom_a_call_of_the_same_handle_has_overtaken_goes_on_believing() {
        let mut belief = Belief::default();
        belief.arrived(10);
        assert_eq!([belief.draw(1), belief.draw(4)], [Some(10), Some(11)]);
        // The second one was faster.
        belief.was_wrong(15);
        assert_eq!(belief.draw(1), Some(15));
    }

    #[test]
    fn where_others_draw_too_numbers_are_drawn_first_for_a_while() {
        let mut belief = Belief::default();
        belief.arrived(10);
        assert_eq!(belief.draw(1), Some(10));
        belief.was_wrong(40);
        assert_eq!([belief.draw(1), belief.draw(1)], [None, Some(40)]);
    }
}
