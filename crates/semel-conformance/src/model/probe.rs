//! Duplicates on purpose: a key that is held right now, asked for in the way that was visited least.

use semel_core::dedup::HoldKind;
use semel_core::store::{KeyFilter, Page};
use semel_core::submission::Submission;

use super::cells::{ANSWERS, Cell, HolderState, answer};
use super::pair::{Agreed, Run};
use super::submissions;

/// How many of the least visited are drawn from.
const LEAST: usize = 6;

impl Run<'_> {
    pub(super) async fn probe(&mut self) -> Agreed {
        let mut choices = self.choices().await;
        if choices.is_empty() {
            return self.submit_one().await;
        }
        choices.sort_by_key(|(visits, _, _)| *visits);
        choices.truncate(LEAST);
        let (_, cell, recipe) = self.rng.pick(&choices).clone();
        let on_duplicate = answer(&mut self.rng, cell.on_duplicate);
        let now = self.now();
        let submission = submissions::again(&mut self.rng, &self.words, &recipe, on_duplicate, now);
        self.submit_and_count(submission).await
    }

    /// Every cell that can be visited now, how often it was, and how to ask for its key.
    async fn choices(&self) -> Vec<(u64, Cell, Submission)> {
        let mut choices = Vec::new();
        for (hold, holder, recipe) in self.held().await {
            for on_duplicate in ANSWERS {
                let cell = Cell {
                    hold,
                    on_duplicate,
                    holder,
                };
                let visits = self.report.visits.get(&cell).copied().unwrap_or(0);
                choices.push((visits, cell, recipe.clone()));
            }
        }
        choices
    }

    async fn held(&self) -> Vec<(HoldKind, HolderState, Submission)> {
        let reference = self.reference();
        let page = Page::first(100);
        let rows = reference
            .keys(KeyFilter::default(), page)
            .await
            .map(|list| list.items)
            .unwrap_or_default();
        let ids: Vec<_> = rows.iter().map(|row| row.holder.id.clone()).collect();
        let jobs = reference.jobs_by_id(&ids).await.unwrap_or_default();
        let known = rows.iter().zip(jobs).filter_map(|(row, job)| {
            let state = HolderState::of(&job?, self.now())?;
            let recipe = self.known.recipes.get(&row.key.digest)?.clone();
            (!row.key.observed).then_some((row.key.hold.kind, state, recipe))
        });
        known.collect()
    }
}
