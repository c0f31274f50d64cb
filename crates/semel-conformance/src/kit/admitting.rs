//! Submissions and what becomes of them, said shortly; and a picture of the whole store.

use semel_core::counters::{Counter, Counts};
use semel_core::dedup::Dedup;
use semel_core::error::Invalid;
use semel_core::ids::{Digest, JobId};
use semel_core::job::Outcome;
use semel_core::lifecycle::Settle;
use semel_core::store::{
    ActOutcome, ClaimRequest, Claimed, Explanation, JobFilter, KeyFilter, LedgerFilter, Submitted,
    WriteOutcome,
};
use semel_core::submission::Submission;
use semel_core::time::Millis;
use semel_core::view::{HolderView, Job, KeyRow, LedgerEntry};

use super::{World, claim_request, name, secs, token, with, with_input};

/// Everything a store tells about its jobs: two equal pictures mean that nothing happened in between.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// Every listed job.
    pub jobs: Vec<Job>,
    /// Every key, held or free.
    pub keys: Vec<KeyRow>,
    /// Every absorbed submission.
    pub ledger: Vec<LedgerEntry>,
    /// Every counter.
    pub counts: Counts,
}

impl World {
    /// Everything there is to see.
    pub fn picture(&self) -> Picture {
        Picture {
            counts: self.counts(),
            jobs: self.jobs(),
            keys: self.keys(KeyFilter {
                also_free: true,
                ..KeyFilter::default()
            }),
            ledger: self.ledger(LedgerFilter::default()),
        }
    }

    /// The counters, never reset; a store that counts later is given the time to do so.
    pub fn counts(&self) -> Counts {
        self.exact_stats().raw
    }

    /// One counter.
    pub fn count(&self, counter: Counter) -> i64 {
        self.counts().get(counter)
    }

    /// Every listed job, newest first.
    pub fn jobs(&self) -> Vec<Job> {
        self.pages(500, |page| {
            self.block(self.store().jobs(JobFilter::default(), page))
        })
    }

    /// The digest of the key of a job, which must have one.
    pub fn digest(&self, id: &JobId) -> Digest {
        self.job(id)
            .key
            .unwrap_or_else(|| panic!("job {id} has a key"))
            .digest
    }

    /// The job that holds a key.
    pub fn holder(&self, digest: Digest) -> Option<JobId> {
        let row = self.block(self.store().key(digest)).expect("the store answers");
        row.filter(|row| row.key.held).map(|row| row.holder.id)
    }

    /// Whether a job holds its key.
    pub fn holds(&self, id: &JobId) -> bool {
        self.job(id).key.is_some_and(|key| key.held)
    }

    /// Submits one whose answer must have this outcome and name a job that exists, as it stands.
    pub fn answered(&self, submission: Submission, outcome: Outcome) -> JobId {
        let submitted = self.submit(submission);
        assert_eq!(submitted.outcome(), Some(outcome), "{submitted:?}");
        let named = named(&submitted);
        let job = self.job(&named.id);
        let told = (named.task, named.state, named.enqueued_at);
        assert_eq!(
            told,
            (job.task, job.state, job.enqueued_at),
            "what is told of {} is true",
            named.id
        );
        named.id
    }

    /// Submits one that must be a duplicate; the holder.
    pub fn duplicate(&self, submission: Submission) -> JobId {
        self.answered(submission, Outcome::Duplicate)
    }

    /// Submits one that must be refused as nonsense, and leave nothing behind.
    pub fn nonsense(&self, submission: Submission) -> Invalid {
        let before = self.picture();
        let invalid = match self.submit(submission) {
            Submitted::Invalid(invalid) => invalid,
            other => panic!("expected a refusal, got {other:?}"),
        };
        assert_eq!(
            self.picture(),
            before,
            "a refused submission leaves nothing behind"
        );
        invalid
    }

    /// The answer a submission would get.
    pub fn explain(&self, submission: Submission) -> Explanation {
        self.block(self.store().explain(submission))
            .expect("the store answers")
    }

    /// Submits one that must be accepted, and claims exactly that job.
    pub fn start(&self, submission: Submission) -> Claimed {
        let (queues, tasks) = (vec![submission.queue.clone()], vec![submission.task.clone()]);
        let id = self.accepted(submission);
        let claims = self.claim_as(ClaimRequest {
            queues,
            tasks,
            ..claim_request(1)
        });
        assert_eq!(
            claims.first().map(|claimed| &claimed.job.id),
            Some(&id),
            "the job just submitted is claimed"
        );
        claims.into_iter().next().expect("seen one line above")
    }

    /// A claim of any shape.
    pub fn claim_as(&self, request: ClaimRequest) -> Vec<Claimed> {
        self.block(self.store().claim(request))
            .expect("the store answers")
    }

    /// Ends an attempt with an error; the next may begin after `delay`.
    pub fn try_later(&self, claimed: &Claimed, delay: Millis) -> WriteOutcome {
        let result = Settle::Retry {
            error: "not yet".to_owned(),
            delay: Some(delay),
        };
        self.settle(&claimed.job.id, claimed.fence, result)
    }

    /// Lets every lease of 30 seconds run out, and the store notice.
    pub fn expire(&self) {
        self.pass(secs(30));
        self.upkeep();
    }

    /// Releases by hand the key that a job holds.
    pub fn let_go(&self, id: &JobId) -> ActOutcome {
        self.release(self.digest(id), id)
    }

    /// Removes a queue; how many jobs were in it.
    pub fn remove_queue(&self, queue: &str) -> i64 {
        self.block(self.store().remove_queue(&name(queue)))
            .expect("the store answers")
    }
}

/// The job an answer names.
pub fn named(submitted: &Submitted) -> HolderView {
    match submitted {
        Submitted::Job(admitted) => admitted.job.clone(),
        Submitted::Rejected { holder } | Submitted::Conflict { holder, .. } => holder.clone(),
        other => panic!("expected an answer that names a job, got {other:?}"),
    }
}

/// A submission of task `work` under the key "k", held until the job has finished.
pub fn keyed() -> Submission {
    with(Dedup::explicit("k"))
}

/// A submission of task `work` with a policy and a number for an input.
pub fn numbered(policy: Dedup, n: u32) -> Submission {
    with_input(policy, &format!(r#"{{"n":{n}}}"#))
}

/// A submission under the key "k" of which the newest wins.
pub fn latest(n: u32) -> Submission {
    numbered(Dedup::explicit("k").latest(), n)
}

/// Every way in which a worker can end a job.
pub fn ends() -> [Settle; 3] {
    [
        Settle::Complete { output: None },
        Settle::Fail {
            error: "broken".to_owned(),
        },
        Settle::Cancel,
    ]
}

/// The same submission by another caller: everything equal but the token.
pub fn again(submission: &Submission) -> Submission {
    Submission {
        token: token(),
        ..submission.clone()
    }
}

/// The same submission into another queue.
pub fn into_queue(queue: &str, submission: Submission) -> Submission {
    Submission {
        queue: name(queue),
        ..submission
    }
}
