//! Carrying out a plan: in small steps, at a rate if wanted, by one at a time, and on from where it was left.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use semel_core::error::Invalid;
use semel_core::job::State;
use semel_core::store::{Act, ActOutcome};
use semel_core::view::Job;

use crate::acted;
use crate::client::Client;
use crate::error::Error;
use crate::ids::fresh_token;
use crate::operate::Operator;
use crate::operate::action::Action;
use crate::operate::audit;
use crate::operate::operation::{Entry, Operation, Status};
use crate::operate::turn::Turn;

/// Acts in one step; what a crash repeats at most.
const STEP: usize = 100;
/// Refusals that are kept as examples.
const REFUSALS: usize = 10;

impl Client {
    /// A bulk act as it stands.
    pub async fn operation(&self, id: &str) -> Result<Operation, Error> {
        Ok(Operation::read(self, id).await?.0)
    }
}

impl Operator {
    /// Carries out a plan, or carries on with one that was left. Gives the operation once all is done, or once it
    /// was aborted. Dropping the future stops it between two steps.
    pub fn carry_out(&self, id: impl Into<String>) -> CarryOut {
        CarryOut {
            operator: self.clone(),
            id: id.into(),
            rate: None,
        }
    }

    /// Whether this person may carry the plan out: to release keys a reason is needed, here or in the plan.
    pub fn may_carry_out(&self, plan: &Operation) -> Result<(), Error> {
        self.for_plan(plan).map(|_| ())
    }

    /// This person with the plan's reason, where no other is given.
    fn for_plan(&self, plan: &Operation) -> Result<Operator, Error> {
        let mut operator = self.clone();
        operator.reason = operator.reason.or_else(|| plan.reason.clone());
        if plan.action == Action::Release {
            operator.needs_reason("releasing keys")?;
        }
        Ok(operator)
    }

    /// Stops an operation after the step that is under way. What was done stays done.
    pub async fn abort(&self, id: &str) -> Result<Operation, Error> {
        let aborting = async {
            loop {
                let (mut operation, version) = Operation::read(&self.client, id).await?;
                if matches!(operation.status, Status::Done | Status::Aborted) {
                    return Ok(operation);
                }
                operation.status = Status::Aborted;
                if operation.write(&self.client, version).await?.is_some() {
                    return Ok(operation);
                }
            }
        };
        self.on_record("abort", &format!("operation {id}"), aborting)
            .await
    }
}

/// A plan that is being carried out; ends in `.await`.
#[derive(Clone, Debug)]
#[must_use = "nothing is carried out until this is awaited"]
pub struct CarryOut {
    operator: Operator,
    id: String,
    rate: Option<u32>,
}

impl CarryOut {
    /// At most so many a second.
    pub fn rate(mut self, per_second: u32) -> Self {
        self.rate = Some(per_second);
        self
    }

    async fn run(self) -> Result<Operation, Error> {
        if self.rate == Some(0) {
            return Err(Invalid::new("rate", "at least one a second").into());
        }
        let client = &self.operator.client;
        let (operation, _) = Operation::read(client, &self.id).await?;
        if matches!(operation.status, Status::Done | Status::Aborted) {
            return Ok(operation);
        }
        let operator = self.operator.for_plan(&operation)?;
        let mut turn = Turn::take(client, &self.id).await?;
        let subject = audit::subject_of_carrying_out(&operation);
        let carried = operator
            .on_record(audit::CARRY_OUT, &subject, self.all(&mut turn))
            .await;
        turn.give_back(client).await;
        if let Ok(operation) = &carried {
            operation.drop_parts(client).await;
        }
        carried
    }

    async fn all(&self, turn: &mut Turn) -> Result<Operation, Error> {
        let client = &self.operator.client;
        let (mut operation, mut version) = Operation::read(client, &self.id).await?;
        let mut part = Vec::new();
        let mut part_read = None;
        loop {
            if operation.status == Status::Aborted {
                return Ok(operation);
            }
            let at = operation.progress.part;
            if part_read != Some(at) && at < operation.parts {
                part = operation.part(client, at).await?;
                part_read = Some(at);
            }
            turn.keep(client).await?;
            self.step(&mut operation, &part).await?;
            let written = operation.write(client, version).await?;
            if operation.status == Status::Done && written.is_some() {
                return Ok(operation);
            }
            (operation, version) = match written {
                Some(version) => (operation, version),
                // It was aborted meanwhile: the step that is done stays on record.
                None => self.reconcile(operation).await?,
            };
            self.pause().await;
        }
    }

    /// Acts on the next few, and notes how far it has come.
    async fn step(&self, operation: &mut Operation, part: &[Entry]) -> Result<(), Error> {
        operation.status = Status::Running;
        let place = operation.progress.place;
        let most = self.rate.map_or(STEP, |rate| STEP.min(rate as usize));
        let entries = &part[place.min(part.len())..part.len().min(place + most)];
        for (entry, word) in self.act(operation, entries).await? {
            match word {
                None => operation.progress.done += 1,
                Some(word) => {
                    *operation.progress.refused.entry(word.to_owned()).or_default() += 1;
                    if operation.progress.refusals.len() < REFUSALS {
                        operation.progress.refusals.push((entry.id, word.to_owned()));
                    }
                }
            }
        }
        operation.progress.place += entries.len();
        if operation.progress.place >= part.len() {
            operation.progress.part += 1;
            operation.progress.place = 0;
        }
        if operation.progress.part >= operation.parts {
            operation.status = Status::Done;
        }
        Ok(())
    }

    /// Acts on some; says of each why it was refused, if it was.
    async fn act(
        &self,
        operation: &Operation,
        entries: &[Entry],
    ) -> Result<Vec<(Entry, Option<&'static str>)>, Error> {
        let client = &self.operator.client;
        let current = self.current(operation.action, entries).await?;
        let acts: Vec<Act> = entries
            .iter()
            .zip(&current)
            .filter(|(_, is_current)| **is_current)
            .filter_map(|(entry, _)| act_on(operation, entry))
            .collect();
        let seed = *fresh_token().as_bytes();
        let mut calls = 0;
        let call = || {
            calls += 1;
            client.store().act(acts.clone())
        };
        let outcomes = client.options().retry.run(&seed, call).await?;
        let mut outcomes = acts.iter().zip(outcomes);
        let judged = entries.iter().zip(current).map(|(entry, is_current)| {
            let word = match is_current.then(|| outcomes.next()).flatten() {
                Some((act, outcome)) if calls > 1 && acted::is_done(act, &outcome) => None,
                Some((_, outcome)) => refusal(operation.action, &outcome),
                None => Some("changed"),
            };
            (entry.clone(), word)
        });
        Ok(judged.collect())
    }

    /// For retry: whether the job is still in the life that was planned for. A step that is repeated after
    /// a crash finds those it has retried already in another one.
    async fn current(&self, action: Action, entries: &[Entry]) -> Result<Vec<bool>, Error> {
        if action != Action::Retry {
            return Ok(vec![true; entries.len()]);
        }
        let ids: Vec<_> = entries.iter().map(|entry| entry.id.clone()).collect();
        let jobs = self.operator.client.store().jobs_by_id(&ids).await?;
        let same = |(job, entry): (&Option<Job>, &Entry)| {
            job.as_ref().is_none_or(|job| Some(job.fence) == entry.fence)
        };
        Ok(jobs.iter().zip(entries).map(same).collect())
    }

    async fn reconcile(&self, mine: Operation) -> Result<(Operation, i64), Error> {
        let client = &self.operator.client;
        loop {
            let (mut found, version) = Operation::read(client, &self.id).await?;
            if found.status != Status::Aborted {
                return Err(Error::UnderWay { id: self.id.clone() });
            }
            found.progress = mine.progress.clone();
            if let Some(version) = found.write(client, version).await? {
                return Ok((found, version));
            }
        }
    }

    async fn pause(&self) {
        if let Some(rate) = self.rate {
            let step = STEP.min(rate as usize);
            tokio::time::sleep(Duration::from_secs_f64(step as f64 / f64::from(rate))).await;
        }
    }
}

impl IntoFuture for CarryOut {
    type Output = Result<Operation, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

fn act_on(operation: &Operation, entry: &Entry) -> Option<Act> {
    let id = entry.id.clone();
    Some(match operation.action {
        Action::Cancel => Act::Cancel { id },
        Action::Retry => Act::Retry { id },
        Action::Replay => acted::replay(id),
        Action::Delete => Act::Delete { id },
        Action::Release => Act::Release {
            digest: entry.key?,
            holder: id,
        },
    })
}

/// Why an act was not done, in a word. What a repeated step finds done already was done.
fn refusal(action: Action, outcome: &ActOutcome) -> Option<&'static str> {
    match (action, outcome) {
        (_, ActOutcome::Done { .. } | ActOutcome::Before { .. }) => None,
        (Action::Cancel, ActOutcome::WrongState(State::Cancelled)) => None,
        (Action::Delete | Action::Release, ActOutcome::NotFound) => None,
        (_, ActOutcome::NotFound) => Some("not_found"),
        (_, ActOutcome::WrongState(_)) => Some("wrong_state"),
        (_, ActOutcome::Replayed { .. }) => Some("replayed"),
        (_, ActOutcome::Held { .. }) => Some("held"),
        (_, ActOutcome::NotInDoubt) => Some("not_in_doubt"),
        (_, ActOutcome::Closed { .. }) => Some("closed"),
        (_, ActOutcome::Invalid(_)) => Some("invalid"),
    }
}
