//! What became of a submission.

use std::fmt;
use std::marker::PhantomData;

use serde::de::DeserializeOwned;

use semel_core::ids::{Digest, JobId};
use semel_core::job::{Outcome, Would};
use semel_core::store::{self, Admitted};
use semel_core::submission::Submission;
use semel_core::view::HolderView;

use crate::client::Client;
use crate::error::Error;
use crate::wait::{Output, Wait};

/// A submission that a job has: always names a job that exists (contract 2.7).
///
/// The exception is one that is [`Outcome::Spooled`]: it names the job that it will be, unless its key is held by the
/// time it arrives. Waiting for it waits for the store, too, and joins whichever job has it then.
pub struct Submitted<O = serde_json::Value> {
    client: Client,
    admitted: Admitted,
    /// Of one that waits in the spool: by its token the store tells later which job has it.
    spooled: Option<Box<Submission>>,
    output: PhantomData<fn() -> O>,
}

impl<O> Submitted<O> {
    pub(crate) fn new(
        client: Client,
        submission: Submission,
        answer: store::Submitted,
    ) -> Result<Self, Error> {
        match answer {
            store::Submitted::Job(admitted) => Ok(Submitted {
                client,
                spooled: (admitted.outcome == Outcome::Spooled).then(|| Box::new(submission)),
                admitted: *admitted,
                output: PhantomData,
            }),
            refused => Err(refusal(refused)),
        }
    }

    /// The job: the new one, or the one that had the key.
    pub fn id(&self) -> &JobId {
        &self.admitted.job.id
    }

    /// Which of the closed set of answers it was.
    pub fn outcome(&self) -> Outcome {
        self.admitted.outcome
    }

    /// Whether another job had the key already: duplicate, replaced, debounced or deferred.
    pub fn is_duplicate(&self) -> bool {
        matches!(
            self.admitted.outcome,
            Outcome::Duplicate | Outcome::Replaced | Outcome::Debounced | Outcome::Deferred
        )
    }

    /// The job and where it stood when the answer was given; a failed holder is said so.
    pub fn holder(&self) -> &HolderView {
        &self.admitted.job
    }

    /// The digest of its key, if the submission has one.
    pub fn key(&self) -> Option<Digest> {
        self.admitted.key
    }

    /// What an observing submission would have got (contract 2.13).
    pub fn would(&self) -> Option<&Would> {
        self.admitted.would.as_ref()
    }

    /// The job of the same hybrid fields that this one differs from (contract 2.1).
    pub fn collides_with(&self) -> Option<&JobId> {
        self.admitted.collides_with.as_ref()
    }

    /// Everything the store answered.
    pub fn admitted(&self) -> &Admitted {
        &self.admitted
    }

    /// Waits until the job has ended, however it ends.
    pub fn wait(&self) -> Wait {
        let wait = Wait::new(self.client.clone(), self.id().clone());
        match &self.spooled {
            Some(submission) => wait.until_sent(submission.clone()),
            None => wait,
        }
    }
}

impl<O: DeserializeOwned> Submitted<O> {
    /// Waits for the job and gives its output.
    pub fn output(&self) -> Output<O> {
        Output::of_job(self.wait())
    }
}

impl<O> Clone for Submitted<O> {
    fn clone(&self) -> Self {
        Submitted {
            client: self.client.clone(),
            admitted: self.admitted.clone(),
            spooled: self.spooled.clone(),
            output: PhantomData,
        }
    }
}

impl<O> fmt::Debug for Submitted<O> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Submitted")
            .field("id", self.id())
            .field("outcome", &self.outcome())
            .field("holder", self.holder())
            .finish_non_exhaustive()
    }
}

/// The error that an answer is which names no job of one's own.
pub(crate) fn refusal(answer: store::Submitted) -> Error {
    match answer {
        store::Submitted::Rejected { holder } => Error::Duplicate { holder },
        store::Submitted::Conflict { holder, differs } => Error::IdempotencyConflict { holder, differs },
        store::Submitted::Invalid(invalid) => invalid.into(),
        store::Submitted::Closed { target } => Error::Closed { target },
        store::Submitted::Job(admitted) => Error::Duplicate { holder: admitted.job },
    }
}
