//! What people do to jobs and keys.

use crate::counters::Counter;
use crate::ids::{Digest, JobId, Name, Token};
use crate::job::{Outcome, Phase, Spec};
use crate::lifecycle::{self, AttemptEnd, AttemptResult};
use crate::memory::inner::{Inner, Moment};
use crate::memory::record::{Arrival, Record};
use crate::step::{self, Resolution};
use crate::store::{Act, ActOutcome, log_feed};
use crate::time::Timestamp;

impl Inner {
    pub(super) fn act(&mut self, act: Act, moment: Moment) -> ActOutcome {
        if let Err(invalid) = act.check() {
            return ActOutcome::Invalid(invalid);
        }
        match act {
            Act::Release { digest, holder } => self.release(digest, &holder, moment),
            Act::Resolve {
                origin,
                step,
                resolution,
            } => self.resolve(&origin, &step, &resolution, moment),
            Act::Cancel { id } => self.on(&id, moment, Inner::cancel),
            Act::Retry { id } => self.on(&id, moment, Inner::retry),
            Act::Replay { id, token } => {
                self.on(&id, moment, |inner, job, moment| inner.replay(job, token, moment))
            }
            Act::Delete { id } => self.on(&id, moment, Inner::delete),
        }
    }

    fn on(
        &mut self,
        id: &JobId,
        moment: Moment,
        act: impl FnOnce(&mut Inner, Arrival, Moment) -> ActOutcome,
    ) -> ActOutcome {
        match self.ids.get(id) {
            Some(&job) => act(self, job, moment),
            None => ActOutcome::NotFound,
        }
    }

    fn done(&self, job: Arrival, now: Timestamp) -> ActOutcome {
        let record = self.record(job);
        ActOutcome::Done {
            id: record.spec.id.clone(),
            state: record.state(now),
        }
    }

    fn cancel(&mut self, job: Arrival, moment: Moment) -> ActOutcome {
        let record = self.record(job);
        let life = match lifecycle::cancel(&record.life, moment.now, moment.micros) {
            Ok(life) => life,
            Err(state) => return ActOutcome::WrongState(state),
        };
        let lane = record.lane();
        let interrupted = (record.life.phase == Phase::Running).then_some(AttemptEnd {
            attempt: record.life.attempt,
            fence: record.life.fence,
            began_at: record.life.began,
            ended_at: moment.now,
            result: AttemptResult::Cancelled,
            error: None,
        });
        self.count(&lane, Counter::Cancelled);
        if let Some(end) = interrupted {
            self.amend(job, moment, |record| record.close_attempt(end));
        }
        self.advance(job, life, moment);
        self.done(job, moment.now)
    }

    fn retry(&mut self, job: Arrival, moment: Moment) -> ActOutcome {
        let record = self.record(job);
        if let Some(by) = record.replayed_as.clone() {
            return ActOutcome::Replayed { by };
        }
        let generation = self.next_generation(moment);
        let life = match lifecycle::retry(
            &record.life,
            record.spec.key.is_some(),
            moment.now,
            moment.micros,
            generation,
        ) {
            Ok(life) => life,
            Err(state) => return ActOutcome::WrongState(state),
        };
        if record.stub {
            // Its content is gone: there is nothing left to run.
            return ActOutcome::NotFound;
        }
        if let Some(holder) = self.other_holder(job, moment.now) {
            return ActOutcome::Held {
                holder: holder.holder_view(moment.now),
            };
        }
        let lane = record.lane();
        self.count(&lane, Counter::Retried);
        self.amend(job, moment, |record| {
            record.output = None;
            record.progress = None;
        });
        self.advance(job, life, moment);
        self.done(job, moment.now)
    }

    /// Another job that holds the key of this one.
    fn other_holder(&self, job: Arrival, now: Timestamp) -> Option<&Record> {
        let digest = self.record(job).digest()?;
        self.holder(digest, now)
            .filter(|holder| *holder != job)
            .map(|holder| self.record(holder))
    }

    fn replay(&mut self, letter: Arrival, token: Token, moment: Moment) -> ActOutcome {
        let record = self.record(letter);
        if let Some(id) = record.replayed_as.clone() {
            return ActOutcome::Before { id };
        }
        if record.life.phase != Phase::Failed {
            return ActOutcome::WrongState(record.state(moment.now));
        }
        if record.stub {
            return ActOutcome::NotFound;
        }
        if let Some(target) = self.closed(&record.spec.queue, &record.spec.task, moment.now) {
            return ActOutcome::Closed { target };
        }
        if let Some(holder) = self.other_holder(letter, moment.now) {
            return ActOutcome::Held {
                holder: holder.holder_view(moment.now),
            };
        }
        // It is where its letter is.
        let place = record.spec.id.as_str().split_once('.').map(|(_, place)| place);
        let id = match place {
            Some(place) => JobId::new(format!("{token}.{place}")).expect("as long as the id of its letter"),
            None => JobId::from(token),
        };
        if self.answered_before(token, moment.now).is_some() {
            return ActOutcome::Invalid(Act::token_taken());
        }
        self.replay_as(letter, id, moment)
    }

    /// The letter's key moves over to the fresh job (contract 6.5).
    fn replay_as(&mut self, letter: Arrival, id: JobId, moment: Moment) -> ActOutcome {
        let record = self.record(letter);
        let lane = record.lane();
        let life = lifecycle::replay(
            &record.life,
            record.spec.key.is_some(),
            moment.now,
            self.next_generation(moment),
        );
        let spec = Spec {
            id: id.clone(),
            enqueued_at: moment.now,
            replayed_from: Some(record.spec.id.clone()),
            would: None,
            collides_with: None,
            ..record.spec.clone()
        };
        self.let_go(letter, moment);
        self.amend(letter, moment, |record| record.replayed_as = Some(id.clone()));
        self.count(&lane, Counter::Accepted);
        let state = life.state(moment.now);
        self.insert(Record::new(spec, life, Outcome::Accepted), moment);
        ActOutcome::Done { id, state }
    }

    fn delete(&mut self, job: Arrival, moment: Moment) -> ActOutcome {
        let record = self.record(job);
        if !record.life.phase.is_terminal() {
            return ActOutcome::WrongState(record.state(moment.now));
        }
        let done = self.done(job, moment.now);
        self.drop_content(job, false, moment);
        done
    }

    /// Removes a job that has ended; while it holds a key, a stub stays, with its output if that is wanted.
    /// Says whether it is gone.
    pub(super) fn drop_content(&mut self, job: Arrival, keep_output: bool, moment: Moment) -> bool {
        if self.record(job).life.is_holder(moment.now) {
            self.amend(job, moment, |record| record.reduce_to_stub(keep_output));
            self.feeds.remove(&log_feed(&self.record(job).spec.id));
            return false;
        }
        self.remove(job, moment);
        true
    }

    fn release(&mut self, digest: Digest, holder: &JobId, moment: Moment) -> ActOutcome {
        let Some(job) = self.holder(digest, moment.now) else {
            return ActOutcome::NotFound;
        };
        let record = self.record(job);
        if record.spec.id != *holder {
            return ActOutcome::Held {
                holder: record.holder_view(moment.now),
            };
        }
        self.let_go(job, moment);
        self.promote_follower(holder, moment);
        self.done(job, moment.now)
    }

    fn resolve(
        &mut self,
        origin: &JobId,
        name: &Name,
        resolution: &Resolution,
        moment: Moment,
    ) -> ActOutcome {
        let stored = self.steps.get(origin).and_then(|steps| steps.get(name));
        let Some(stored) = stored else {
            return ActOutcome::NotFound;
        };
        if !self.is_in_doubt(stored) {
            return ActOutcome::NotInDoubt;
        }
        let began = self.ids.get(&stored.job).copied();
        let resolved = step::resolve(stored, resolution, moment.now);
        self.steps
            .entry(origin.clone())
            .or_default()
            .insert(name.clone(), resolved);
        let doubts = self
            .steps
            .get(origin)
            .is_some_and(|steps| steps.values().any(|it| self.is_in_doubt(it)));
        let chain = self.chain(origin);
        let parked = chain
            .iter()
            .copied()
            .find(|job| self.record(*job).life.phase == Phase::Parked);
        if !doubts {
            for job in &chain {
                if let Some(life) = lifecycle::unpark(&self.record(*job).life, moment.now) {
                    self.advance(*job, life, moment);
                }
            }
        }
        match parked.or(began).or(chain.first().copied()) {
            Some(job) => self.done(job, moment.now),
            None => ActOutcome::NotFound,
        }
    }

    /// The jobs of a chain, oldest first.
    fn chain(&self, origin: &JobId) -> Vec<Arrival> {
        let jobs = self
            .jobs
            .iter()
            .filter(|(_, record)| record.spec.origin == *origin);
        let mut jobs: Vec<Arrival> = jobs.map(|(job, _)| *job).collect();
        jobs.sort_unstable();
        jobs
    }
}
