//! What the model remembers of a run, to ask about it again: jobs, deliveries, tokens, versions.

use std::collections::{BTreeMap, VecDeque};

use semel_core::ids::{Digest, JobId, Name, Token};
use semel_core::store::ClaimRequest;
use semel_core::submission::Submission;

use super::keys::Totals;
use super::pair::{Agreed, Both, Side};
use crate::rng::Rng;

/// What was seen so far.
#[derive(Default)]
pub(super) struct Known {
    /// Jobs that may exist, in the order they were first heard of.
    pub(super) jobs: Vec<JobId>,
    /// Jobs that are gone: asking for them has to find nothing.
    pub(super) gone: Recent<JobId, 10>,
    /// The fences each job was leased under.
    pub(super) fences: Fences,
    /// Deliveries a worker may still speak about.
    pub(super) deliveries: Recent<Delivery, 40>,
    /// Submissions that may come again with the same token.
    pub(super) submissions: Recent<Submission, 40>,
    /// Claims that may come again with the same token.
    pub(super) claims: Recent<ClaimRequest, 4>,
    /// How the key of a digest was asked for.
    pub(super) recipes: BTreeMap<Digest, Submission>,
    /// Tokens of steps begun.
    pub(super) step_tokens: Recent<Token, 6>,
    /// Tokens of guards reserved.
    pub(super) guard_tokens: Recent<Token, 6>,
    /// Replays that may come again.
    pub(super) replays: Recent<(JobId, Token), 10>,
    /// How the two count what keys have absorbed.
    pub(super) totals: Totals,
    /// A queue was removed since the last upkeep.
    pub(super) to_sweep: bool,
    /// Versions of documents, per kind and name.
    pub(super) versions: BTreeMap<(Name, String), Vec<Both<i64>>>,
}

impl Known {
    /// A job was named.
    pub(super) fn job(&mut self, id: &JobId) {
        if !self.jobs.contains(id) {
            self.jobs.push(id.clone());
        }
    }

    /// A job was looked for and is not there.
    pub(super) fn forget(&mut self, id: &JobId) {
        self.jobs.retain(|known| known != id);
        self.fences.0.remove(id);
        self.deliveries.0.retain(|delivery| delivery.id != *id);
        self.gone.push(id.clone());
    }

    /// Some job: nearly always one that may exist.
    pub(super) fn any_job(&self, rng: &mut Rng) -> Option<JobId> {
        if rng.once_in(40) {
            return self.gone.any(rng);
        }
        rng.maybe(&self.jobs).cloned()
    }
}

/// The last few of something.
pub(super) struct Recent<T, const KEPT: usize>(pub(super) VecDeque<T>);

impl<T, const KEPT: usize> Default for Recent<T, KEPT> {
    fn default() -> Self {
        Recent(VecDeque::with_capacity(KEPT))
    }
}

impl<T: Clone, const KEPT: usize> Recent<T, KEPT> {
    pub(super) fn push(&mut self, value: T) {
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(value);
    }

    pub(super) fn any(&self, rng: &mut Rng) -> Option<T> {
        (!self.0.is_empty()).then(|| self.0[rng.below(self.0.len())].clone())
    }
}

/// One lease of one job.
#[derive(Clone, Debug)]
pub(super) struct Delivery {
    pub(super) id: JobId,
    pub(super) fence: Both<i64>,
    /// Whether it was not settled yet, as far as the model knows.
    pub(super) open: bool,
}

/// The fences of each job in the order they were given. Their values are the store's own business;
/// which delivery a fence belongs to is not.
#[derive(Default)]
pub(super) struct Fences(BTreeMap<JobId, Vec<Both<i64>>>);

impl Fences {
    /// A lease was given: true if it is a new one. Fences of a job only grow.
    pub(super) fn learn(&mut self, id: &JobId, fence: &Both<i64>) -> Agreed<bool> {
        let list = self.0.entry(id.clone()).or_default();
        if list
            .iter()
            .any(|old| old.store == fence.store && old.reference == fence.reference)
        {
            return Ok(false);
        }
        let grows = list
            .last()
            .is_none_or(|old| old.store < fence.store && old.reference < fence.reference);
        if !grows || fence.store <= 0 {
            return Err(format!("a fence of {id} does not grow: {fence:?} after {list:?}"));
        }
        list.push(fence.clone());
        Ok(true)
    }

    /// What a fence means: twice the number of leases before it, and one less if it is a lease's own.
    pub(super) fn rank(&self, id: &JobId, fence: i64, side: Side) -> i64 {
        let Some(list) = self.0.get(id) else {
            return i64::from(fence > 0);
        };
        let before = list.iter().filter(|lease| *lease.of(side) < fence).count();
        let exact = list.iter().any(|lease| *lease.of(side) == fence);
        2 * i64::try_from(before).expect("few leases") + i64::from(!exact)
    }
}
