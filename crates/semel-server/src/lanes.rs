//! The numbers of a store are kept per queue *and* task; here they are added up by the one or the other.

use std::collections::BTreeMap;

use semel_core::counters::Counts;
use semel_core::ids::Name;
use semel_core::job::State;
use semel_core::time::Timestamp;
use semel_core::view::LaneStats;

/// The numbers of one queue, or of one task.
#[derive(Clone, Debug)]
pub struct Sum {
    /// Its name.
    pub name: Name,
    /// Counters since the last reset.
    pub counts: Counts,
    /// Jobs by state.
    pub jobs: BTreeMap<State, i64>,
    /// Since when the oldest job that is due has been waiting.
    pub oldest_waiting: Option<Timestamp>,
}

impl Sum {
    /// One of which nothing was counted.
    pub fn empty(name: Name) -> Self {
        Sum {
            name,
            counts: Counts::default(),
            jobs: BTreeMap::new(),
            oldest_waiting: None,
        }
    }

    /// How many jobs are in a state.
    pub fn in_state(&self, state: State) -> i64 {
        self.jobs.get(&state).copied().unwrap_or(0)
    }

    /// How many jobs have not ended.
    pub fn open(&self) -> i64 {
        let open = |(state, n): (&State, &i64)| if state.is_terminal() { 0 } else { *n };
        self.jobs.iter().map(open).sum()
    }
}

/// By queue.
pub fn by_queue(lanes: &[LaneStats]) -> Vec<Sum> {
    add_up(lanes, |lane| &lane.queue)
}

/// By task.
pub fn by_task(lanes: &[LaneStats]) -> Vec<Sum> {
    add_up(lanes, |lane| &lane.task)
}

fn add_up(lanes: &[LaneStats], name: impl Fn(&LaneStats) -> &Name) -> Vec<Sum> {
    let mut sums: BTreeMap<Name, Sum> = BTreeMap::new();
    for lane in lanes {
        let sum = sums
            .entry(name(lane).clone())
            .or_insert_with(|| Sum::empty(name(lane).clone()));
        sum.counts.merge(&lane.counts);
        for (state, n) in &lane.jobs {
            *sum.jobs.entry(*state).or_insert(0) += n;
        }
        sum.oldest_waiting = [sum.oldest_waiting, lane.oldest_waiting]
            .into_iter()
            .flatten()
            .min();
    }
    sums.into_values().collect()
}
