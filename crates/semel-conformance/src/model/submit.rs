//! Submissions: one by one, in batches, again with the same token, and explained.

use semel_core::dedup::{Dedup, KeyBy, KeySource, OnDuplicate};
use semel_core::job::Outcome;
use semel_core::store::{Explanation, Submitted};
use semel_core::submission::{Policy, Submission};

use super::cells::{Cell, HolderState};
use super::pair::{Agreed, Both, Run, same, same_list, unsaid};
use super::submissions;

impl Run<'_> {
    pub(super) async fn submit_one(&mut self) -> Agreed {
        let submission = self.any_submission();
        self.submit_and_count(submission).await
    }

    /// Submits one that is judged alone, and counts the cell it met.
    pub(super) async fn submit_and_count(&mut self, submission: Submission) -> Agreed {
        let cell = self.cell_of(&submission).await;
        let answers = self.submit(vec![submission]).await?;
        if let (Some(cell), Some(outcome)) = (cell, answers.first().and_then(Submitted::outcome)) {
            // A conflict is judged before the table of answers is looked at.
            if !matches!(outcome, Outcome::Accepted | Outcome::Conflict) {
                *self.report.visits.entry(cell).or_default() += 1;
            }
        }
        Ok(())
    }

    pub(super) async fn submit_batch(&mut self) -> Agreed {
        let mut batch = Vec::new();
        for _ in 0..self.rng.between(2, 8) {
            batch.push(self.any_submission());
        }
        if self.rng.chance(30) {
            let twice = self.rng.pick(&batch).clone();
            batch.push(twice);
        }
        if self.rng.once_in(2_000) {
            batch.resize(1_001, batch[0].clone());
        }
        self.submit(batch).await.map(|_| ())
    }

    /// The same token again: as it was, or by mistake with something else.
    pub(super) async fn submit_again(&mut self) -> Agreed {
        let Some(mut submission) = self.known.submissions.any(&mut self.rng) else {
            return Ok(());
        };
        if self.rng.once_in(5) {
            let other = self.any_submission();
            submission = match self.capabilities.tokens_stand_alone {
                true => Submission {
                    token: submission.token,
                    ..other
                },
                false => Submission {
                    priority: other.priority,
                    max_attempts: other.max_attempts,
                    producer: other.producer,
                    ..submission
                },
            };
        }
        self.submit(vec![submission]).await.map(|_| ())
    }

    pub(super) async fn explain(&mut self) -> Agreed {
        let mut submission = self.any_submission();
        if let Some(known) = self
            .known
            .submissions
            .any(&mut self.rng)
            .filter(|_| self.rng.chance(50))
        {
            submission = Submission {
                token: submission.token,
                ..known
            };
        }
        self.note("explain", submission.clone());
        let answers = self
            .look("explain", async |store, _| {
                store.explain(submission.clone()).await
            })
            .await?;
        answers.map_or(Ok(()), |answers| {
            same("explain", &answers.map(|answer, _| plain_explanation(answer)))
        })
    }

    fn any_submission(&mut self) -> Submission {
        let now = self.now();
        submissions::any(&mut self.rng, &self.words, now)
    }

    pub(super) async fn submit(&mut self, batch: Vec<Submission>) -> Agreed<Vec<Submitted>> {
        let call = ("submit", batch.len().min(1_000));
        let answers = self
            .ask(call, batch.clone(), async |store, _| {
                store.submit(batch.clone()).await
            })
            .await?;
        let Some(answers) = answers else {
            return Ok(Vec::new());
        };
        let answers: Both<Vec<Submitted>> = answers.map(|list, _| list.into_iter().map(plain).collect());
        same_list("submit", &answers)?;
        for (submission, answer) in batch.iter().zip(&answers.reference) {
            self.learn(submission, answer);
        }
        Ok(answers.reference)
    }

    fn learn(&mut self, submission: &Submission, answer: &Submitted) {
        if let Some(id) = answer.id() {
            self.known.job(id);
            self.known.submissions.push(submission.clone());
        }
        if let (Submitted::Job(admitted), Policy::Dedup(policy)) = (answer, &submission.policy)
            && comes_again(policy)
            && let (Outcome::Accepted, Some(digest)) = (admitted.outcome, admitted.key)
        {
            self.known.recipes.insert(digest, submission.clone());
        }
    }

    /// The cell a submission is about to meet, as the reference sees it.
    async fn cell_of(&self, submission: &Submission) -> Option<Cell> {
        let explanation = self.reference().explain(submission.clone()).await.ok()?;
        let (holder, key) = explanation
            .holder
            .filter(|_| explanation.key.is_some_and(|key| key.by != KeyBy::Generated))?;
        let job = self.reference().jobs_by_id(&[holder.id]).await.ok()?.pop()??;
        let on_duplicate = match &submission.policy {
            Policy::Dedup(policy) => policy.on_duplicate,
            Policy::Unsaid | Policy::None => OnDuplicate::UseExisting,
        };
        HolderState::of(&job, self.now()).map(|state| Cell::new(key.hold.kind, on_duplicate, state))
    }
}

/// Whether the same submission gives the same key at another time, with other headers.
fn comes_again(policy: &Dedup) -> bool {
    let fresh = policy.key == KeySource::Generated || policy.period.is_some();
    !fresh && policy.headers.is_empty() && policy.meta.is_empty()
}

fn plain(answer: Submitted) -> Submitted {
    match answer {
        Submitted::Invalid(_) => Submitted::Invalid(unsaid()),
        other => other,
    }
}

fn plain_explanation(mut answer: Explanation) -> Explanation {
    answer.submitted = plain(answer.submitted);
    if answer.submitted.outcome().is_none() {
        // Refused as it stands: what its key would have been is not part of the answer.
        return Explanation {
            key: None,
            holder: None,
            admissible_at: None,
            ..answer
        };
    }
    if let Some((_, key)) = &mut answer.holder {
        key.generation = 0;
    }
    answer
}
