//! What becomes of a judged submission is written here: key, job and queue position in one step (contract 2.9).

use crate::admission::{self, Decision};
use crate::counters::Counter;
use crate::job::{Life, Outcome, Spec};
use crate::memory::inner::{Inner, Moment, Naming};
use crate::memory::ledger::{Absorbed, Difference};
use crate::memory::record::{Arrival, Lane, Record};
use crate::memory::submit::Judged;
use crate::submission::{Prepared, Submission};
use crate::time::Timestamp;

impl Inner {
    /// Writes a judged submission.
    pub(super) fn admit(&mut self, judged: Judged, moment: Moment) {
        let Judged {
            prepared,
            decision,
            holder,
            follower,
            collides_with,
            differs,
        } = judged;
        let Submission { queue, task, .. } = &prepared.submission;
        let lane = Lane {
            queue: queue.clone(),
            task: task.clone(),
        };
        self.know(&lane);
        match decision {
            Decision::Accept {
                life,
                would,
                takes_over,
            } => {
                self.count(&lane, Counter::Accepted);
                would.iter().for_each(|_| self.count(&lane, Counter::Observed));
                collides_with
                    .iter()
                    .for_each(|_| self.count(&lane, Counter::Collisions));
                holder
                    .filter(|_| takes_over)
                    .into_iter()
                    .for_each(|holder| self.let_go(holder, moment));
                let mut spec = fresh_spec(prepared, self.naming, life.holding.is_some(), moment.now);
                spec.key = spec.key.filter(|_| life.holding.is_some());
                self.insert(
                    Record::new(
                        Spec {
                            would,
                            collides_with,
                            ..spec
                        },
                        *life,
                        Outcome::Accepted,
                    ),
                    moment,
                );
            }
            Decision::Absorb { outcome } => {
                self.absorb(&lane, &prepared, outcome, holder, differs, moment);
            }
            Decision::Replace { outcome, life } => {
                self.absorb(&lane, &prepared, outcome, holder, differs, moment);
                self.take_over_content(prepared, holder, *life, moment);
            }
            Decision::Defer { life } => match follower {
                Some(follower) => {
                    self.absorb(
                        &lane,
                        &prepared,
                        Outcome::Deferred,
                        Some(follower),
                        differs,
                        moment,
                    );
                    let life = admission::replaced(&prepared, &self.record(follower).life, life.run_at);
                    self.take_over_content(prepared, Some(follower), life, moment);
                }
                None => {
                    self.absorb(&lane, &prepared, Outcome::Deferred, holder, differs, moment);
                    self.follow(prepared, holder, *life, moment);
                }
            },
        }
    }

    /// Remembers that a queue and a task are in use.
    fn know(&mut self, lane: &Lane) {
        if !self.queues.contains(&lane.queue) {
            self.queues.insert(lane.queue.clone());
        }
        if !self.tasks.contains(&lane.task) {
            self.tasks.insert(lane.task.clone());
        }
    }

    /// Counts an absorbed submission and writes it into the ledger.
    fn absorb(
        &mut self,
        lane: &Lane,
        prepared: &Prepared,
        outcome: Outcome,
        job: Option<Arrival>,
        differs: Difference,
        moment: Moment,
    ) {
        if let Some(counter) = Counter::of_outcome(outcome) {
            self.count(lane, counter);
        }
        let Some(record) = job.and_then(|arrival| self.jobs.get(&arrival)) else {
            return;
        };
        // A new follower is found under its token itself, and with it the token is forgotten.
        let by_token = outcome != Outcome::Deferred || record.follows.is_some();
        let holder = &record.spec.id;
        self.ledger.write(
            Absorbed {
                prepared,
                outcome,
                holder,
                differs,
                by_token,
            },
            moment.now,
        );
    }

    /// Puts the content of a newer submission into a job (contract 2.5, `replace`).
    fn take_over_content(&mut self, prepared: Prepared, job: Option<Arrival>, life: Life, moment: Moment) {
        let Some(job) = job else { return };
        self.amend(job, moment, |record| {
            record.life = life;
            record.spec.content = prepared.submission.content;
            if let Some((stored, newer)) = record.spec.key.as_mut().zip(prepared.key) {
                stored.input = newer.input;
            }
        });
    }

    /// Makes the job that follows a running holder (contract 2.5, `latest`).
    fn follow(&mut self, prepared: Prepared, holder: Option<Arrival>, life: Life, moment: Moment) {
        let follows = holder.map(|holder| self.record(holder).spec.id.clone());
        let record = Record::new(
            fresh_spec(prepared, self.naming, true, moment.now),
            life,
            Outcome::Deferred,
        );
        self.insert(Record { follows, ..record }, moment);
    }
}

fn fresh_spec(prepared: Prepared, naming: Naming, with_key: bool, now: Timestamp) -> Spec {
    let Prepared { submission, key } = prepared;
    let named = key.as_ref().filter(|_| with_key).map(|key| key.digest);
    let id = naming(submission.token, named);
    Spec {
        origin: id.clone(),
        id,
        task: submission.task,
        queue: submission.queue,
        content: submission.content,
        enqueued_at: now,
        key,
        producer: submission.producer,
        replayed_from: None,
        would: None,
        collides_with: None,
    }
}
