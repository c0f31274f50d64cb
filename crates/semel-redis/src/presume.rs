//! Steps that are decided before anything is read: what a handle believes of a shard is taken for read, and the script
//! that writes compares it like everything else. Right, and a call has cost one round trip; wrong, and the step is
//! taken again the long way. No decision is made anywhere but in core, by the same code.
//!
//! Believed is that a new submission is new and its key free, that nobody has drawn a number of arrival since, that a
//! job this handle has leased is as it was leased, that no lease has run out, and that the clocks go alike. The script
//! looks at the lease and at the clock itself.

use std::collections::HashMap;

use semel_core::ids::JobId;

use crate::keys::Id;
use crate::settle;
use crate::shard::Shard;
use crate::submit::{self, Item};
use crate::tx::{Slot, Tx};
use crate::writer::Call;

/// Leased jobs that are remembered; a worker has fewer at a time.
const HEADS: usize = 20_000;
/// After how many steps in a row that went the long way it is tried again, at most.
const PATIENCE: u32 = 64;

/// What a handle believes of a shard.
#[derive(Default)]
pub struct Belief {
    /// The last number of arrival.
    pub seq: Option<i64>,
    /// Jobs it has leased, as they were written.
    heads: HashMap<Id, Vec<u8>>,
    /// Steps to take the long way before the next attempt, and how many the last failure cost.
    waiting: u32,
    cost: u32,
}

impl Belief {
    /// Heads as they were just written; those that run are remembered.
    pub fn remember(&mut self, heads: Vec<(Id, Option<Vec<u8>>)>) {
        if self.heads.len() + heads.len() > HEADS {
            self.heads.clear();
        }
        for (id, bytes) in heads {
            match bytes.filter(|bytes| crate::head::is_running(bytes)) {
                Some(bytes) => drop(self.heads.insert(id, bytes)),
                None => drop(self.heads.remove(&id)),
            }
        }
    }

    /// It came out true.
    pub fn was_right(&mut self) {
        self.cost = 0;
    }

    /// It did not: others write too, and asking first is cheaper for a while.
    pub fn was_wrong(&mut self) {
        self.seq = None;
        self.cost = (self.cost * 2 + 1).min(PATIENCE);
        self.waiting = self.cost;
    }

    fn may_try(&mut self) -> bool {
        let may = self.waiting == 0;
        self.waiting = self.waiting.saturating_sub(1);
        may
    }
}

/// Begins a step on what is believed; none where too little is.
pub fn begin<'s>(shard: &'s Shard, calls: &[Call]) -> Option<Tx<'s>> {
    shard.believe(|belief| {
        if !belief.may_try() {
            return None;
        }
        let mut slots: Vec<(Slot, Option<Vec<u8>>)> = Vec::new();
        let mut fresh = 0;
        for call in calls {
            match call {
                Call::Submit(batch) => {
                    fresh += batch.len();
                    slots.extend(new_submissions(shard, batch)?);
                }
                Call::Settle(batch) => {
                    for settlement in batch {
                        slots.extend(leased(shard, belief, &settlement.id)?);
                    }
                }
                _ => return None,
            }
        }
        let seq = if fresh > 0 { belief.seq? } else { 0 };
        Tx::presumed(shard, slots, seq, fresh)
    })
}

/// New submissions with free keys. A key with a period depends on the time.
fn new_submissions(shard: &Shard, batch: &[Item]) -> Option<Vec<(Slot, Option<Vec<u8>>)>> {
    let timeless = |item: &Item| {
        let policy = item.as_ref().ok().and_then(|prepared| prepared.policy());
        policy.is_none_or(|policy| policy.period.is_none())
    };
    if !batch.iter().all(timeless) {
        return None;
    }
    let absent = submit::wanted(&shard.keys, batch);
    Some(absent.into_iter().map(|slot| (slot, None)).collect())
}

/// A job as it was leased, whom nobody follows.
fn leased(shard: &Shard, belief: &Belief, id: &JobId) -> Option<[(Slot, Option<Vec<u8>>); 2]> {
    let id = shard.locate(id)?;
    let head = belief.heads.get(&id)?.clone();
    Some([
        (Slot::head(&shard.keys, &id), Some(head)),
        (settle::follower_slot(&shard.keys, &id), None),
    ])
}
