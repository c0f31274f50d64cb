//! What people do to jobs and keys.

use semel_core::dedup::HoldKind;
use semel_core::ids::{Digest, JobId};
use semel_core::job::State;
use semel_core::step::Resolution;
use semel_core::store::{Act, ActOutcome, JobFilter, KeyFilter, Page, StepFilter};
use semel_core::view::Job;

use super::pair::{Agreed, Run, same_list};

impl Run<'_> {
    pub(super) async fn act(&mut self) -> Agreed {
        let mut batch = Vec::new();
        for _ in 0..self.rng.between(1, 3) {
            batch.extend(self.any_act().await);
        }
        self.act_all(batch).await
    }

    async fn any_act(&mut self) -> Option<Act> {
        Some(match self.rng.below(100) {
            0..20 => Act::Cancel {
                id: self.known.any_job(&mut self.rng)?,
            },
            20..52 => Act::Retry {
                id: self.ended(&[State::Failed, State::Cancelled]).await?,
            },
            52..77 => return self.replay().await,
            _ => Act::Delete {
                id: self
                    .ended(&[State::Complete, State::Failed, State::Cancelled])
                    .await?,
            },
        })
    }

    async fn replay(&mut self) -> Option<Act> {
        if let Some((id, token)) = self
            .known
            .replays
            .any(&mut self.rng)
            .filter(|_| self.rng.chance(15))
        {
            return Some(Act::Replay { id, token });
        }
        let id = self.ended(&[State::Failed]).await?;
        let token = self.rng.token(self.now());
        self.known.replays.push((id.clone(), token));
        Some(Act::Replay { id, token })
    }

    /// A job in one of these states, mostly; any job otherwise.
    async fn ended(&mut self, states: &[State]) -> Option<JobId> {
        if self.rng.once_in(8) {
            return self.known.any_job(&mut self.rng);
        }
        let filter = JobFilter {
            state: Some(*self.rng.pick(states)),
            ..JobFilter::default()
        };
        let jobs = self.reference().jobs(filter, Page::first(50)).await.ok()?.items;
        self.rng.maybe(&jobs).map(|job| job.id.clone())
    }

    /// A job that has run and let go of its key at its first lease begins a new life, and takes the key again:
    /// the only way to a holder that is *started* under `until_started`. Duplicates follow at once.
    pub(super) async fn revive(&mut self) -> Agreed {
        let state = *self.rng.pick(&[State::Failed, State::Cancelled]);
        let filter = JobFilter {
            state: Some(state),
            ..JobFilter::default()
        };
        let jobs = self
            .reference()
            .jobs(filter, Page::first(100))
            .await
            .map(|list| list.items)
            .unwrap_or_default();
        let kept = |job: &&Job| {
            job.key
                .as_ref()
                .is_some_and(|key| key.hold.kind == HoldKind::UntilStarted)
        };
        let ran: Vec<&Job> = jobs
            .iter()
            .filter(|job| job.started_at.is_some())
            .filter(kept)
            .collect();
        let Some(id) = self.rng.maybe(&ran).map(|job| job.id.clone()) else {
            return Ok(());
        };
        self.act_all(vec![Act::Retry { id }]).await?;
        self.probe().await?;
        self.probe().await
    }

    /// Frees keys: by the right holder, by another one, or such as are free already.
    pub(super) async fn release(&mut self) -> Agreed {
        let filter = KeyFilter {
            also_free: self.rng.once_in(5),
            ..KeyFilter::default()
        };
        let rows = self
            .reference()
            .keys(filter, Page::first(100))
            .await
            .map(|list| list.items)
            .unwrap_or_default();
        let mut batch = Vec::new();
        for _ in 0..self.rng.between(1, 4) {
            let Some(row) = self.rng.maybe(&rows) else {
                return Ok(());
            };
            let (mut digest, mut holder) = (row.key.digest, row.holder.id.clone());
            if self.rng.once_in(8) {
                holder = self.known.any_job(&mut self.rng).unwrap_or(holder);
            }
            if self.rng.once_in(40) {
                digest = Digest::from_bytes([7; 32]);
            }
            batch.push(Act::Release { digest, holder });
        }
        self.act_all(batch).await
    }

    /// Decides about a step in doubt, or one that is not.
    pub(super) async fn resolve(&mut self) -> Agreed {
        let mut choices: Vec<_> = self
            .reference()
            .list_steps(StepFilter::InDoubt)
            .await
            .unwrap_or_default();
        if choices.is_empty() || self.rng.once_in(4) {
            let Some(origin) = self.known.any_job(&mut self.rng) else {
                return Ok(());
            };
            choices = self
                .reference()
                .list_steps(StepFilter::Origin(origin))
                .await
                .unwrap_or_default();
        }
        let Some(step) = self
            .rng
            .maybe(&choices)
            .map(|step| (step.origin.clone(), step.name.clone()))
        else {
            return Ok(());
        };
        let resolution = match self.rng.chance(50) {
            true => Resolution::Happened {
                output: self.rng.pick(&self.words.outputs).clone(),
            },
            false => Resolution::DidNot,
        };
        self.act_all(vec![Act::Resolve {
            origin: step.0,
            step: step.1,
            resolution,
        }])
        .await
    }

    /// Keeps the population small, so that a full comparison stays cheap: the oldest jobs that have not ended end.
    pub(super) async fn thin_out(&mut self) -> Agreed {
        let ids = self.known.jobs.clone();
        let jobs = self
            .reference()
            .jobs_by_id(&ids)
            .await
            .map_err(|error| format!("thin out: {error:?}"))?;
        let open: Vec<JobId> = jobs
            .into_iter()
            .flatten()
            .filter(|job| !job.state.is_terminal())
            .map(|job| job.id)
            .collect();
        let surplus = open.len().saturating_sub(CROWD);
        let acts: Vec<Act> = open
            .into_iter()
            .take(surplus)
            .map(|id| Act::Cancel { id })
            .collect();
        self.act_all(acts).await
    }

    async fn act_all(&mut self, batch: Vec<Act>) -> Agreed {
        if batch.is_empty() {
            return Ok(());
        }
        let call = ("act", batch.len());
        let answers = self
            .ask(call, batch.clone(), async |store, _| {
                store.act(batch.clone()).await
            })
            .await?;
        let Some(answers) = answers else { return Ok(()) };
        for answer in &answers.reference {
            if let ActOutcome::Done { id, .. } = answer {
                self.known.job(id);
            }
        }
        same_list("act", &answers)
    }
}

/// Jobs that have not ended and may stay.
const CROWD: usize = 40;
