//! One round: take events, submit them, write down what became of them.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use semel_core::error::StoreError;
use semel_core::job::Outcome;
use semel_core::store::{Submitted, Target};
use semel_core::submission::Submission;
use serde::Serialize;

use crate::error::Error;
use crate::relay::Relay;
use crate::source::{Fate, Pending};

/// What a relay did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Round {
    /// Events it took up.
    pub taken: u64,
    /// Events that are jobs now.
    pub sent: u64,
    /// Of those, events that were jobs before: a relay died after the store had answered.
    pub repeated: u64,
    /// Events that are tried again later.
    pub later: u64,
    /// Events that were given up.
    pub parked: u64,
}

impl Round {
    pub(super) fn add(&mut self, other: &Round) {
        self.taken += other.taken;
        self.sent += other.sent;
        self.repeated += other.repeated;
        self.later += other.later;
        self.parked += other.parked;
    }
}

/// Why an event was not taken.
enum Refusal {
    /// The intake is closed for a while, which is no fault of the event's.
    Closed(String),
    /// Trying again may help.
    Passing(String),
    /// It does not.
    Lasting(String),
}

impl Relay {
    /// Takes a batch of events that are due, submits them and marks what the store has answered.
    pub async fn round(&self) -> Result<Round, Error> {
        let claim = self.source.claim(self.batch, &self.boundary).await?;
        if claim.events().is_empty() {
            claim.give_back(&self.boundary).await?;
            return Ok(Round::default());
        }
        let mut round = Round {
            taken: claim.events().len() as u64,
            ..Round::default()
        };
        // Submitting may take long, and nobody else is to take the events meanwhile.
        let submitted = tokio::select! {
            submitted = self.submit_all(claim.events(), &mut round) => submitted,
            never = claim.hold() => match never {},
        };
        let fates = match submitted {
            Ok(fates) => fates,
            Err(error) => {
                // Whether the call was applied is not known: nothing is marked, and sending again gives the same jobs.
                let _ = claim.give_back(&self.boundary).await;
                return Err(error);
            }
        };
        for fate in &fates {
            match fate {
                Fate::Sent { .. } => round.sent += 1,
                Fate::Later { .. } => round.later += 1,
                Fate::Parked { .. } => round.parked += 1,
                Fate::Untouched => round.taken -= 1,
            }
        }
        claim.settle(fates, &self.boundary).await?;
        Ok(round)
    }

    async fn submit_all(&self, events: &[Pending], round: &mut Round) -> Result<Vec<Fate>, Error> {
        let mut fates = vec![Fate::Untouched; events.len()];
        let mut stopped: HashSet<&str> = HashSet::new();
        for wave in waves(events) {
            let mut sending = Vec::new();
            for at in wave {
                let event = &events[at].event;
                if event
                    .partition
                    .as_deref()
                    .is_some_and(|name| stopped.contains(name))
                {
                    continue;
                }
                match event.submission() {
                    Ok(submission) => sending.push((at, submission)),
                    Err(invalid) => {
                        fates[at] = self.refused(&events[at], Refusal::Lasting(invalid.to_string()))
                    }
                }
            }
            self.boundary.reached("before submit");
            let answers = self.send(events, &sending).await?;
            self.boundary.reached("after submit");
            for ((at, _), answer) in sending.iter().zip(answers) {
                let pending = &events[*at];
                let Some(answer) = answer else {
                    stopped.extend(pending.event.partition.as_deref());
                    continue;
                };
                fates[*at] = match judged(answer) {
                    Ok((job, outcome)) => {
                        round.repeated += u64::from(outcome != Outcome::Accepted);
                        Fate::Sent { job }
                    }
                    Err(refusal) => self.refused(pending, refusal),
                };
                if let (Fate::Later { .. }, Some(partition)) = (&fates[*at], &pending.event.partition) {
                    stopped.insert(partition);
                }
            }
        }
        Ok(fates)
    }

    /// Submits together; where the store cannot take the batch as a whole, one by one, so that one event that breaks
    /// it, or whose key leads to a damaged record, does not hold up the others. Those behind it in its partition are not
    /// sent: they have no answer.
    async fn send(
        &self,
        events: &[Pending],
        sending: &[(usize, Submission)],
    ) -> Result<Vec<Option<Result<Submitted, StoreError>>>, Error> {
        let store = self.jobs.store();
        let batch: Vec<Submission> = sending.iter().map(|(_, submission)| submission.clone()).collect();
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        match store.submit(batch).await {
            Ok(answers) => return Ok(answers.into_iter().map(|answer| Some(Ok(answer))).collect()),
            Err(error) if is_of_one_event(&error) => {
                tracing::warn!(%error, "a batch was refused; its events are sent one by one");
            }
            Err(error) => return Err(error.into()),
        }
        let mut answers = Vec::with_capacity(sending.len());
        let mut stopped: HashSet<&str> = HashSet::new();
        for (at, submission) in sending {
            let partition = events[*at].event.partition.as_deref();
            if partition.is_some_and(|name| stopped.contains(name)) {
                answers.push(None);
                continue;
            }
            match store.submit(vec![submission.clone()]).await {
                Ok(mut one) if one.len() == 1 => answers.push(Some(Ok(one.remove(0)))),
                Ok(_) => return Err(StoreError::corrupt("a submission without an answer").into()),
                Err(error) if is_of_one_event(&error) => {
                    stopped.extend(partition);
                    answers.push(Some(Err(error)));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(answers)
    }

    fn refused(&self, pending: &Pending, refusal: Refusal) -> Fate {
        let id = &pending.event.id;
        match refusal {
            Refusal::Closed(error) => Fate::Later {
                error,
                delay: backoff(pending.attempts),
            },
            Refusal::Passing(error) if pending.attempts.saturating_add(1) < self.max_attempts => {
                Fate::Later {
                    error,
                    delay: backoff(pending.attempts),
                }
            }
            Refusal::Passing(error) | Refusal::Lasting(error) => {
                tracing::error!(id, %error, "an event cannot be submitted and is parked");
                Fate::Parked { error }
            }
        }
    }
}

/// Whether it may be one event that the store stumbles over, and the others go through.
fn is_of_one_event(error: &StoreError) -> bool {
    matches!(error, StoreError::Invalid(_) | StoreError::Corrupt { .. })
}

fn judged(answer: Result<Submitted, StoreError>) -> Result<(String, Outcome), Refusal> {
    match answer {
        Ok(Submitted::Job(admitted)) => Ok((admitted.job.id.to_string(), admitted.outcome)),
        Ok(Submitted::Closed { target }) => Err(Refusal::Closed(match target {
            Target::All => "the store takes no submissions for now".to_owned(),
            Target::Queue(name) => format!("queue {name} takes no submissions for now"),
            Target::Task(name) => format!("task {name} takes no submissions for now"),
        })),
        Ok(Submitted::Conflict { holder, .. }) => Err(Refusal::Lasting(format!(
            "the id of the event is the key of something else: job {} of task {}",
            holder.id, holder.task
        ))),
        Ok(Submitted::Rejected { holder }) => {
            Err(Refusal::Lasting(format!("the key is held by job {}", holder.id)))
        }
        Ok(Submitted::Invalid(invalid)) => Err(Refusal::Lasting(invalid.to_string())),
        Err(error) => Err(Refusal::Passing(error.to_string())),
    }
}

/// One second, doubled each time, five minutes at most.
fn backoff(attempts: u32) -> Duration {
    Duration::from_secs(1 << attempts.min(9)).min(Duration::from_secs(300))
}

/// Events in the order in which they may be submitted together.
///
/// Within a partition an event waits for the one before it, unless both go to the same task and queue: then whatever
/// makes the store refuse the first for a while makes it refuse the second as well.
fn waves(events: &[Pending]) -> Vec<Vec<usize>> {
    let mut waves: Vec<Vec<usize>> = Vec::new();
    let mut last: HashMap<&str, (usize, usize)> = HashMap::new();
    for (at, pending) in events.iter().enumerate() {
        let event = &pending.event;
        let wave = match event.partition.as_deref().and_then(|name| last.get(name)) {
            None => 0,
            Some((before, wave)) => {
                let before = &events[*before].event;
                let alike = before.task == event.task && before.queue == event.queue;
                wave + usize::from(!alike)
            }
        };
        if let Some(partition) = event.partition.as_deref() {
            last.insert(partition, (at, wave));
        }
        if waves.len() <= wave {
            waves.resize_with(wave + 1, Vec::new);
        }
        waves[wave].push(at);
    }
    waves
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event;

    fn pending(task: &str, partition: Option<&str>) -> Pending {
        let mut event = Event::new(task, &1).unwrap();
        event.partition = partition.map(str::to_owned);
        Pending {
            seq: 0,
            event,
            attempts: 0,
        }
    }

    #[test]
    fn within_a_partition_another_task_waits_for_the_one_before() {
        let events = [
            pending("a", Some("p")),
            pending("a", Some("p")),
            pending("b", Some("p")),
            pending("b", None),
            pending("a", Some("q")),
            pending("a", Some("p")),
        ];
        assert_eq!(waves(&events), [vec![0, 1, 3, 4], vec![2], vec![5]]);
    }

    #[test]
    fn backoff_doubles_and_ends() {
        let seconds: Vec<u64> = (0..12).map(|n| backoff(n).as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
    }
}
