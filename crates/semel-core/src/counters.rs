//! What is counted, exactly (contract 7.1).

use serde::{Deserialize, Serialize};

use crate::job::Outcome;
use crate::lifecycle::AttemptResult;

/// One counter. Raw counters never go back; a reset moves a baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counter {
    /// Submissions that became a job.
    Accepted,
    /// Submissions that were pointed to the holder.
    Duplicate,
    /// Submissions whose content went into the holder.
    Replaced,
    /// Submissions whose content went into the holder, later.
    Debounced,
    /// Submissions that follow the holder.
    Deferred,
    /// Submissions turned away because the key was held.
    Rejected,
    /// Submissions turned away because the key meant something else.
    Conflicts,
    /// Submissions admitted only because their policy observes.
    Observed,
    /// Jobs admitted beside another of the same hybrid fields.
    Collisions,
    /// Jobs that ended with an output.
    Completed,
    /// Jobs that ended with an error.
    Failed,
    /// Jobs that were cancelled.
    Cancelled,
    /// Jobs sent to run again after an error, by themselves or by hand.
    Retried,
    /// Writes refused because a newer fence existed.
    StaleWrites,
    /// Leases that expired.
    Expired,
}

impl Counter {
    /// Every counter, for stores that number them. The order is part of stored data: add at the end.
    pub const ALL: [Counter; 15] = [
        Counter::Accepted,
        Counter::Duplicate,
        Counter::Replaced,
        Counter::Debounced,
        Counter::Deferred,
        Counter::Rejected,
        Counter::Conflicts,
        Counter::Observed,
        Counter::Collisions,
        Counter::Completed,
        Counter::Failed,
        Counter::Cancelled,
        Counter::Retried,
        Counter::StaleWrites,
        Counter::Expired,
    ];

    /// The name it has in every front end.
    pub fn word(self) -> &'static str {
        match self {
            Counter::Accepted => "accepted",
            Counter::Duplicate => "duplicate",
            Counter::Replaced => "replaced",
            Counter::Debounced => "debounced",
            Counter::Deferred => "deferred",
            Counter::Rejected => "rejected",
            Counter::Conflicts => "conflicts",
            Counter::Observed => "observed",
            Counter::Collisions => "collisions",
            Counter::Completed => "completed",
            Counter::Failed => "failed",
            Counter::Cancelled => "cancelled",
            Counter::Retried => "retried",
            Counter::StaleWrites => "stale_writes",
            Counter::Expired => "expired",
        }
    }

    /// The counter of an outcome; `spooled` is counted when it arrives.
    pub fn of_outcome(outcome: Outcome) -> Option<Counter> {
        Some(match outcome {
            Outcome::Accepted => Counter::Accepted,
            Outcome::Duplicate => Counter::Duplicate,
            Outcome::Replaced => Counter::Replaced,
            Outcome::Debounced => Counter::Debounced,
            Outcome::Deferred => Counter::Deferred,
            Outcome::Rejected => Counter::Rejected,
            Outcome::Conflict => Counter::Conflicts,
            Outcome::Spooled => return None,
        })
    }

    /// The counter of an ended delivery, if it counts.
    pub fn of_attempt(result: AttemptResult) -> Option<Counter> {
        match result {
            AttemptResult::Complete => Some(Counter::Completed),
            AttemptResult::Error => Some(Counter::Retried),
            AttemptResult::Failed => Some(Counter::Failed),
            AttemptResult::Cancelled => Some(Counter::Cancelled),
            AttemptResult::Expired => Some(Counter::Expired),
            AttemptResult::Snoozed | AttemptResult::HandedBack | AttemptResult::Parked => None,
        }
    }
}

/// One number per counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Counts([i64; Counter::ALL.len()]);

impl Counts {
    /// The value of one counter.
    pub fn get(&self, counter: Counter) -> i64 {
        self.0[counter as usize]
    }

    /// Adds to one counter.
    pub fn add(&mut self, counter: Counter, n: i64) {
        let value = &mut self.0[counter as usize];
        *value = value.saturating_add(n);
    }

    /// Sets one counter.
    pub fn set(&mut self, counter: Counter, n: i64) {
        self.0[counter as usize] = n;
    }

    /// Adds all of another's.
    pub fn merge(&mut self, other: &Counts) {
        self.0
            .iter_mut()
            .zip(other.0)
            .for_each(|(mine, theirs)| *mine = mine.saturating_add(theirs));
    }

    /// What was counted since a baseline.
    #[must_use]
    pub fn since(mut self, baseline: &Counts) -> Counts {
        self.0
            .iter_mut()
            .zip(baseline.0)
            .for_each(|(mine, base)| *mine = mine.saturating_sub(base));
        self
    }

    /// Whether nothing was counted.
    pub fn is_zero(&self) -> bool {
        self.0.iter().all(|n| *n == 0)
    }

    /// Absorbed submissions: duplicate + replaced + debounced + deferred + rejected.
    pub fn duplicates(&self) -> i64 {
        [
            Counter::Duplicate,
            Counter::Replaced,
            Counter::Debounced,
            Counter::Deferred,
            Counter::Rejected,
        ]
        .map(|counter| self.get(counter))
        .iter()
        .sum()
    }

    /// Duplicates / (accepted + duplicates); 0 where nothing was submitted (contract 7.2).
    pub fn hit_ratio(&self) -> f64 {
        let all = self.get(Counter::Accepted) + self.duplicates();
        if all == 0 {
            0.0
        } else {
            self.duplicates() as f64 / all as f64
        }
    }
}
