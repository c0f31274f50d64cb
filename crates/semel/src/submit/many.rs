//! Many submissions in one go.

use semel_core::limits;
use semel_core::submission::Submission;

use crate::client::Client;
use crate::error::Error;
use crate::submit::Submit;
use crate::submitted::Submitted;

impl Client {
    /// Submits any number of jobs: one outcome per item, in order, as if submitted one after another.
    /// Not a transaction (contract 2.11): an item that makes no sense has its own error.
    ///
    /// ```
    /// # use semel::Task;
    /// # #[tokio::main] async fn main() -> Result<(), semel::Error> {
    /// const SYNC: Task<u64> = Task::new("sync_user");
    /// let jobs = semel::connect("memory:").await?;
    /// let sent = jobs.submit_many([7, 8, 7].iter().map(|user| jobs.submit(SYNC, user).unique())).await;
    /// assert!(sent[2].as_ref().is_ok_and(|third| third.is_duplicate()));
    /// # Ok(()) }
    /// ```
    ///
    /// Builders of several tasks fit in by [`Submit::untyped`].
    pub async fn submit_many<O>(
        &self,
        submissions: impl IntoIterator<Item = Submit<O>>,
    ) -> Vec<Result<Submitted<O>, Error>> {
        let mut drafts: Vec<Result<Submission, Error>> =
            submissions.into_iter().map(Submit::submission).collect();
        let mut answers = Vec::with_capacity(drafts.len());
        while !drafts.is_empty() {
            let rest = drafts.split_off(drafts.len().min(limits::BATCH));
            answers.extend(self.submit_chunk(drafts).await);
            drafts = rest;
        }
        answers
    }

    async fn submit_chunk<O>(
        &self,
        drafts: Vec<Result<Submission, Error>>,
    ) -> Vec<Result<Submitted<O>, Error>> {
        let valid: Vec<Submission> = drafts.iter().flatten().cloned().collect();
        let mut admitted = self.admit_all(valid).await.into_iter();
        let answer = |draft: Result<Submission, Error>| {
            draft.and_then(|_| admitted.next().expect("one answer per submission"))
        };
        drafts.into_iter().map(answer).collect()
    }
}
