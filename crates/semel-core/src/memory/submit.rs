//! Admission: first everything is judged and the answer known, then it is written. `explain` stops in between.

use crate::admission::{self, Decision, Holder};
use crate::dedup::Key;
use crate::error::Invalid;
use crate::ids::{Digest, JobId, Name, Token};
use crate::job::{Outcome, State};
use crate::limits;
use crate::memory::inner::{Inner, Moment};
use crate::memory::ledger::Difference;
use crate::memory::record::{Arrival, Record};
use crate::store::{Admitted, Explanation, Submitted};
use crate::submission::{Policy, Prepared, Submission};
use crate::time::Timestamp;
use crate::view::HolderView;

/// A submission that was judged, with all that is needed to answer and to write it.
pub(super) struct Judged {
    pub(super) prepared: Prepared,
    pub(super) decision: Decision,
    pub(super) holder: Option<Arrival>,
    /// The job that a deferred submission goes into, if there is one already.
    pub(super) follower: Option<Arrival>,
    pub(super) collides_with: Option<JobId>,
    pub(super) differs: Difference,
}

impl Inner {
    pub(super) fn submit(&mut self, submission: Submission, moment: Moment) -> Submitted {
        match self.judge(submission, moment) {
            Ok(judged) => {
                let answer = self.answer(&judged, moment.now);
                self.admit(judged, moment);
                answer
            }
            Err(answer) => answer,
        }
    }

    pub(super) fn explain(&self, submission: Submission, moment: Moment) -> Explanation {
        let now = moment.now;
        let mut key = Prepared::new(&self.namespace, submission.clone(), now)
            .ok()
            .and_then(|it| it.key);
        let judged = self.judge(submission, moment);
        if let Ok(judged) = &judged {
            // A unique queue may have added one.
            key = judged.prepared.key.clone();
        }
        let holder = key
            .as_ref()
            .and_then(|key| self.holder(key.digest, now))
            .map(|it| self.record(it));
        let admissible_at = match &judged {
            Ok(judged) if matches!(judged.decision, Decision::Accept { .. }) => Some(now),
            Ok(_) => holder.and_then(|it| it.life.holding.as_ref()?.free_at(&it.life)),
            Err(_) => None,
        };
        Explanation {
            submitted: judged.map_or_else(|answer| answer, |judged| self.answer(&judged, now)),
            key,
            holder: holder.and_then(|it| Some((it.holder_view(now), it.key_view(now)?))),
            admissible_at,
        }
    }

    /// Judges a submission; an error is an answer that nothing more has to be done for.
    fn judge(&self, submission: Submission, moment: Moment) -> Result<Judged, Submitted> {
        let now = moment.now;
        let mut prepared = Prepared::new(&self.namespace, submission, now).map_err(Submitted::Invalid)?;
        let Submission {
            token, queue, task, ..
        } = &prepared.submission;
        if let Some(first) = self.answered_before(*token, now) {
            return Err(first);
        }
        if let Some(target) = self.closed(queue, task, now) {
            return Err(Submitted::Closed { target });
        }
        self.check_bounds(queue, task).map_err(Submitted::Invalid)?;
        if prepared.submission.policy == Policy::Unsaid && self.is_unique(queue) {
            prepared = prepared
                .with_queue_policy(&self.namespace, now)
                .map_err(Submitted::Invalid)?;
        }
        Ok(self.decide(prepared, moment))
    }

    fn decide(&self, prepared: Prepared, moment: Moment) -> Judged {
        let Submission { queue, task, .. } = &prepared.submission;
        let holder = prepared
            .key
            .as_ref()
            .and_then(|key| self.holder(key.digest, moment.now));
        let met = holder.map(|arrival| self.record(arrival));
        let decision = admission::admit(
            &prepared,
            met.and_then(as_holder).as_ref(),
            self.is_observed(queue, task, moment.now),
            moment.now,
            self.next_generation(moment),
        );
        let follower = match &decision {
            Decision::Defer { .. } => met.and_then(|met| self.follower(&met.spec.id)),
            _ => None,
        };
        let collides_with = match &decision {
            // Without a key of its own it collides with nobody.
            Decision::Accept { life, .. } if life.holding.is_some() => {
                self.collision(prepared.key.as_ref(), moment.now)
            }
            _ => None,
        };
        let differs = match &decision {
            Decision::Accept { .. } => Difference::default(),
            _ => self.difference(&prepared, follower.or(holder)),
        };
        Judged {
            decision,
            holder,
            follower,
            collides_with,
            differs,
            prepared,
        }
    }

    /// The first answer to a token that was seen before, as long as the job it named is there (contract 3.5).
    pub(super) fn answered_before(&self, token: Token, now: Timestamp) -> Option<Submitted> {
        if let Some((_, record)) = self.made_by(token) {
            return Some(Submitted::Job(Box::new(Admitted {
                outcome: record.born,
                job: record.holder_view(now),
                key: record.digest(),
                would: record.spec.would.clone(),
                collides_with: record.spec.collides_with.clone(),
            })));
        }
        let entry = self.ledger.by_token(token)?;
        let (_, holder) = self.find(&entry.holder)?;
        Some(absorbed_answer(
            entry.outcome,
            holder.holder_view(now),
            entry.digest,
            &entry.differs,
        ))
    }

    fn check_bounds(&self, queue: &Name, task: &Name) -> Result<(), Invalid> {
        if self.queues.len() >= limits::QUEUES && !self.queues.contains(queue) {
            return Err(Invalid::new(
                "queue",
                format!("at most {} queues", limits::QUEUES),
            ));
        }
        if self.tasks.len() >= limits::TASKS && !self.tasks.contains(task) {
            return Err(Invalid::new("task", format!("at most {} tasks", limits::TASKS)));
        }
        Ok(())
    }

    /// The oldest holder of a hybrid key with the same fields and another input (contract 2.1).
    fn collision(&self, key: Option<&Key>, now: Timestamp) -> Option<JobId> {
        let key = key?;
        let group = self.index.groups.get(&key.group?)?;
        let mut others = group.iter().map(|arrival| self.record(*arrival));
        let collides = |record: &&Record| record.digest() != Some(key.digest) && record.life.is_holder(now);
        others.find(collides).map(|record| record.spec.id.clone())
    }

    fn difference(&self, prepared: &Prepared, met: Option<Arrival>) -> Difference {
        let Some((key, met)) = prepared.key.as_ref().zip(met) else {
            return Difference::default();
        };
        Difference::between(self.record(met), key, &prepared.submission.content.input)
    }

    /// What a judged submission is answered: true once it is written.
    fn answer(&self, judged: &Judged, now: Timestamp) -> Submitted {
        let submission = &judged.prepared.submission;
        let digest = judged.prepared.key.as_ref().map(|key| key.digest);
        let fresh = |with_key: bool, state: State| HolderView {
            id: (self.naming)(submission.token, digest.filter(|_| with_key)),
            task: submission.task.clone(),
            state,
            enqueued_at: now,
        };
        let seen = |arrival: Option<Arrival>| arrival.map(|arrival| self.record(arrival).holder_view(now));
        let (outcome, job) = match &judged.decision {
            Decision::Accept { life, would, .. } => {
                return Submitted::Job(Box::new(Admitted {
                    outcome: Outcome::Accepted,
                    job: fresh(life.holding.is_some(), life.state(now)),
                    key: digest.filter(|_| life.holding.is_some()),
                    would: would.clone(),
                    collides_with: judged.collides_with.clone(),
                }));
            }
            Decision::Absorb { outcome } => (*outcome, seen(judged.holder)),
            Decision::Replace { outcome, life } => (
                *outcome,
                seen(judged.holder).map(|holder| HolderView {
                    state: life.state(now),
                    ..holder
                }),
            ),
            Decision::Defer { .. } => (
                Outcome::Deferred,
                seen(judged.follower).or_else(|| Some(fresh(true, State::Deferred))),
            ),
        };
        let (job, digest) = job
            .zip(digest)
            .expect("only a submission whose key is held is absorbed");
        absorbed_answer(outcome, job, digest, &judged.differs.pointers)
    }
}

fn as_holder(record: &Record) -> Option<Holder<'_>> {
    let key = record.spec.key.as_ref()?;
    Some(Holder {
        id: &record.spec.id,
        task: &record.spec.task,
        enqueued_at: record.spec.enqueued_at,
        input: key.input,
        life: &record.life,
    })
}

fn absorbed_answer(outcome: Outcome, job: HolderView, digest: Digest, differs: &[String]) -> Submitted {
    match outcome {
        Outcome::Rejected => Submitted::Rejected { holder: job },
        Outcome::Conflict => Submitted::Conflict {
            holder: job,
            differs: differs.to_vec(),
        },
        outcome => {
            let key = Some(digest);
            Submitted::Job(Box::new(Admitted {
                outcome,
                job,
                key,
                would: None,
                collides_with: None,
            }))
        }
    }
}
