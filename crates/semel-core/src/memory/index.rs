//! Where jobs are found without looking at all of them.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

use crate::ids::{Digest, JobId};
use crate::job::Phase;
use crate::memory::ready::{Rank, Ready};
use crate::memory::record::{Arrival, Lane, Record};
use crate::time::Timestamp;

/// Where a job stands in the indexes, as it was when the job was written last.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(super) struct Places {
    pub(super) spot: Spot,
    owner: Option<(Digest, i64)>,
    group: Option<Digest>,
    follows: Option<JobId>,
}

/// What a job is waiting for, in the order in which it will come about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) enum Spot {
    /// For someone to act: deferred, parked, or not stored.
    #[default]
    None,
    /// For a worker.
    Ready(Rank),
    /// For its lease to run out: until, fence.
    Leased(Timestamp, i64),
    /// For its retention to pass: finished at.
    Ended(Timestamp),
}

impl Places {
    pub(super) fn of(record: &Record, arrival: Arrival, now: Timestamp) -> Self {
        let Record { spec, life, .. } = record;
        let holding = life.holding.as_ref();
        let spot = match life.phase {
            Phase::Waiting => Spot::Ready(Rank::of(life, arrival)),
            Phase::Running => life
                .until
                .map_or(Spot::None, |until| Spot::Leased(until, life.fence)),
            Phase::Deferred | Phase::Parked => Spot::None,
            Phase::Complete | Phase::Failed | Phase::Cancelled => {
                life.finished_at.map_or(Spot::None, Spot::Ended)
            }
        };
        Places {
            spot,
            owner: record.digest().zip(holding.map(|holding| holding.generation)),
            // A key that is not held is never held again without another write, which comes by here.
            group: spec
                .key
                .as_ref()
                .and_then(|key| key.group)
                .filter(|_| life.is_holder(now)),
            follows: record.follows.clone(),
        }
    }
}

/// All indexes over jobs but the one by id.
#[derive(Clone, Debug, Default)]
pub(super) struct Indexes {
    pub(super) ready: Ready,
    /// Running jobs, the lease that runs out first in front: until, fence, arrival.
    pub(super) leases: BTreeSet<(Timestamp, i64, Arrival)>,
    /// Jobs that have ended, the one that ended first in front.
    pub(super) ended: BTreeSet<(Timestamp, Arrival)>,
    /// Who ever took a key, by generation. Only the last of them can hold it.
    pub(super) owners: HashMap<Digest, BTreeSet<(i64, Arrival)>>,
    /// Holders of hybrid keys by their fields.
    pub(super) groups: HashMap<Digest, BTreeSet<Arrival>>,
    /// Deferred jobs by the job they follow.
    pub(super) followers: HashMap<JobId, Arrival>,
}

impl Indexes {
    /// Moves a job from where it was to where it belongs now.
    pub(super) fn shift(
        &mut self,
        arrival: Arrival,
        lane: &Lane,
        before: &Places,
        after: &Places,
        now: Timestamp,
    ) {
        if before.spot != after.spot {
            self.leave(arrival, lane, before.spot);
            self.enter(arrival, lane, after.spot, now);
        }
        if before.owner != after.owner {
            drop_from(
                &mut self.owners,
                before
                    .owner
                    .map(|(digest, generation)| (digest, (generation, arrival))),
            );
            add_to(
                &mut self.owners,
                after
                    .owner
                    .map(|(digest, generation)| (digest, (generation, arrival))),
            );
        }
        if before.group != after.group {
            drop_from(&mut self.groups, before.group.map(|group| (group, arrival)));
            add_to(&mut self.groups, after.group.map(|group| (group, arrival)));
        }
        if before.follows != after.follows {
            if let Some(id) = &before.follows {
                self.followers.remove(id);
            }
            if let Some(id) = &after.follows {
                self.followers.insert(id.clone(), arrival);
            }
        }
    }

    fn leave(&mut self, arrival: Arrival, lane: &Lane, spot: Spot) {
        match spot {
            Spot::None => {}
            Spot::Ready(rank) => self.ready.remove(lane, rank),
            Spot::Leased(until, fence) => {
                self.leases.remove(&(until, fence, arrival));
            }
            Spot::Ended(at) => {
                self.ended.remove(&(at, arrival));
            }
        }
    }

    fn enter(&mut self, arrival: Arrival, lane: &Lane, spot: Spot, now: Timestamp) {
        match spot {
            Spot::None => {}
            Spot::Ready(rank) => self.ready.insert(lane, rank, now),
            Spot::Leased(until, fence) => {
                self.leases.insert((until, fence, arrival));
            }
            Spot::Ended(at) => {
                self.ended.insert((at, arrival));
            }
        }
    }
}

fn add_to<K: Eq + Hash, V: Ord>(index: &mut HashMap<K, BTreeSet<V>>, entry: Option<(K, V)>) {
    if let Some((key, value)) = entry {
        index.entry(key).or_default().insert(value);
    }
}

fn drop_from<K: Eq + Hash, V: Ord>(index: &mut HashMap<K, BTreeSet<V>>, entry: Option<(K, V)>) {
    let Some((key, value)) = entry else { return };
    if let Some(values) = index.get_mut(&key) {
        values.remove(&value);
        if values.is_empty() {
            index.remove(&key);
        }
    }
}
