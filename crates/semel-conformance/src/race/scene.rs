//! Setting the scene of a race, and looking at it afterwards.

use semel_core::counters::Counts;
use semel_core::dedup::Dedup;
use semel_core::ids::JobId;
use semel_core::job::Outcome;
use semel_core::lifecycle::Settle;
use semel_core::store::{ClaimRequest, Settlement};
use semel_core::submission::Submission;
use semel_core::view::Job;

use super::team::Arena;
use crate::kit::{claim_request, secs, with};

impl Arena<'_> {
    /// Submits a batch of which every item has to be accepted.
    pub(crate) fn submit_all(&self, batch: Vec<Submission>) -> Vec<JobId> {
        let answers = self.block(self.store.submit(batch)).expect("the store answers");
        let accepted = answers.into_iter().map(|answer| {
            assert_eq!(answer.outcome(), Some(Outcome::Accepted), "{answer:?}");
            answer.id().expect("an accepted submission has a job").clone()
        });
        accepted.collect()
    }

    /// Leases so many jobs, for long enough that no lease ends within a case.
    pub(crate) fn claim(&self, max: usize) -> Vec<(JobId, i64)> {
        let request = ClaimRequest {
            lease: secs(3_600),
            ..claim_request(max)
        };
        let claims = self.block(self.store.claim(request)).expect("the store answers");
        assert_eq!(claims.len(), max);
        claims
            .into_iter()
            .map(|claimed| (claimed.job.id, claimed.fence))
            .collect()
    }

    /// Runs so many jobs to the same end; their ids.
    pub(crate) fn end(&self, count: usize, result: &Settle) -> Vec<JobId> {
        let leases = self.claim(count);
        let batch = leases.iter().map(|(id, fence)| {
            let (id, result) = (id.clone(), result.clone());
            Settlement {
                id,
                fence: *fence,
                result,
            }
        });
        self.block(self.store.settle(batch.collect()))
            .expect("the store answers");
        leases.into_iter().map(|(id, _)| id).collect()
    }

    /// So many dead letters, each under a policy of its own; their ids in that order.
    pub(crate) fn dead_letters(&self, count: usize, policy: impl Fn(usize) -> Dedup) -> Vec<JobId> {
        let ids = self.submit_all((0..count).map(|item| with(policy(item))).collect());
        self.end(
            count,
            &Settle::Fail {
                error: "no".to_owned(),
            },
        );
        ids
    }

    /// One job, which must exist.
    pub(crate) fn job(&self, id: &JobId) -> Job {
        let found = self.block(self.store.jobs_by_id(std::slice::from_ref(id)));
        let found = found.expect("the store answers").remove(0);
        found.unwrap_or_else(|| panic!("job {id} exists"))
    }

    /// The raw counters.
    pub(crate) fn counts(&self) -> Counts {
        self.block(self.store.stats()).expect("the store answers").raw
    }

    /// The invariants that can be read off the store hold.
    pub(crate) fn is_healthy(&self) {
        let findings = self.block(self.store.doctor(false)).expect("the store answers");
        assert_eq!(findings, [], "the doctor finds something after a race");
    }
}
