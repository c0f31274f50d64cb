//! What happens to the jobs of one cell, in memory: the writes that a decision of core's asks for.
//!
//! Every change of a job goes through [`Cell::insert`], [`Cell::amend`], [`Cell::advance`] or [`Cell::remove`]: they
//! let a follower follow and keep what belongs to a chain together.

use semel_core::admission;
use semel_core::counters::Counter;
use semel_core::ids::JobId;
use semel_core::job::{Life, Phase};
use semel_core::lifecycle;
use semel_core::step::StepState;
use semel_core::time::Timestamp;

use crate::cell::{Cell, Step};
use crate::clock::Moment;
use crate::record::Record;
use crate::setup::Setup;

impl Cell {
    /// The job that took the key last; of all that ever took it only this one can hold it.
    pub fn last_owner(&self) -> Option<&Record> {
        let owners = self.jobs.iter().filter(|job| job.spec.key.is_some());
        let generation = |job: &&Record| job.life.holding.as_ref().map(|holding| holding.generation);
        owners
            .filter(|job| job.life.holding.is_some())
            .max_by_key(|job| (generation(job), job.arrival))
    }

    /// The job that holds the key.
    pub fn holder(&self, now: Timestamp) -> Option<&Record> {
        self.last_owner().filter(|job| job.life.is_holder(now))
    }

    pub fn follower(&self, predecessor: &JobId) -> Option<&Record> {
        self.jobs
            .iter()
            .find(|job| job.follows.as_ref() == Some(predecessor))
    }

    /// The generation the next owner of the key takes it with.
    pub fn next_generation(&self, moment: Moment) -> i64 {
        moment.micros.max(self.generation + 1)
    }

    pub fn insert(&mut self, record: Record) {
        self.note_generation(&record.life);
        self.jobs.push(record);
    }

    fn note_generation(&mut self, life: &Life) {
        let generation = life.holding.as_ref().map_or(0, |holding| holding.generation);
        self.generation = self.generation.max(generation);
    }

    /// Changes a job.
    pub fn amend(&mut self, id: &JobId, change: impl FnOnce(&mut Record)) {
        let Some(record) = self.jobs.iter_mut().find(|job| job.spec.id == *id) else {
            return;
        };
        change(record);
        let life = record.life.clone();
        self.note_generation(&life);
    }

    /// Gives a job its next life. Where that is an end, its follower takes its turn in the same step.
    pub fn advance(&mut self, id: &JobId, life: Life, moment: Moment) {
        let ended = life.phase.is_terminal();
        self.amend(id, |record| {
            if life.phase != Phase::Deferred {
                record.follows = None;
            }
            record.life = life;
        });
        if ended {
            self.promote_follower(id, moment);
        }
    }

    /// Lets go of a key without anybody following.
    pub fn let_go(&mut self, id: &JobId) {
        self.amend(id, |record| record.life = lifecycle::let_go(&record.life));
    }

    /// The follower of a job that ended, let go or is gone waits its turn from now on; it takes the key, unless
    /// somebody else has it by now.
    pub fn promote_follower(&mut self, predecessor: &JobId, moment: Moment) {
        let Some(follower) = self.follower(predecessor) else {
            return;
        };
        let id = follower.spec.id.clone();
        let mut life = admission::promote(&follower.life, moment.now, self.next_generation(moment));
        if self.holder(moment.now).is_some() {
            life.holding = None;
        }
        self.advance(&id, life, moment);
    }

    /// Removes a job and every trace of it but its counts and what was absorbed.
    pub fn remove(&mut self, id: &JobId, moment: Moment) {
        self.forget(id);
        self.promote_follower(id, moment);
    }

    fn forget(&mut self, id: &JobId) {
        let Some(at) = self.jobs.iter().position(|job| job.spec.id == *id) else {
            return;
        };
        let gone = self.jobs.remove(at);
        self.unlogged.extend(gone.logged.then(|| id.clone()));
        let origin = gone.spec.origin;
        if !self.jobs.iter().any(|job| job.spec.origin == origin) {
            self.steps.retain(|step| step.origin != origin);
        }
    }

    /// Removes a job that has ended; while it holds a key, a stub stays, with its output if that is wanted.
    /// Says whether it is gone.
    pub fn drop_content(&mut self, id: &JobId, keep_output: bool, moment: Moment) -> bool {
        let holds = self.find(id).is_some_and(|job| job.life.is_holder(moment.now));
        if holds {
            let logged = self.find(id).is_some_and(|job| job.logged);
            self.unlogged.extend(logged.then(|| id.clone()));
            self.amend(id, |record| {
                record.reduce_to_stub(keep_output);
                record.logged = false;
            });
            return false;
        }
        self.remove(id, moment);
        true
    }

    /// Takes back leases that have run out (contract 1.7); says how many.
    pub fn expire(&mut self, moment: Moment) -> usize {
        let mut late: Vec<(Option<Timestamp>, JobId)> = self
            .jobs
            .iter()
            .filter(|job| lifecycle::is_expired(&job.life, moment.now))
            .map(|job| (job.life.until, job.spec.id.clone()))
            .collect();
        late.sort();
        for (_, id) in &late {
            self.expire_one(id, moment);
        }
        late.len()
    }

    fn expire_one(&mut self, id: &JobId, moment: Moment) {
        let Some(record) = self.find(id) else { return };
        let lane = record.lane();
        let (life, end) = lifecycle::expire(&record.life, moment.now, moment.micros);
        self.count(&lane, Counter::Expired);
        if life.phase == Phase::Failed {
            self.count(&lane, Counter::Failed);
        }
        self.amend(id, |record| record.close_attempt(end));
        self.advance(id, life, moment);
    }

    /// Jobs of queues that were removed are gone, whoever sweeps them up. Says how many could be seen.
    pub fn void(&mut self, setup: &Setup, moment: Moment) -> usize {
        let doomed = |job: &&Record| setup.is_void(job);
        let gone: Vec<(JobId, bool)> = self
            .jobs
            .iter()
            .filter(doomed)
            .map(|job| (job.spec.id.clone(), job.stub))
            .collect();
        // All of them go before anyone follows: a follower in the same queue is gone as well.
        gone.iter().for_each(|(id, _)| self.forget(id));
        gone.iter().for_each(|(id, _)| self.promote_follower(id, moment));
        gone.iter().filter(|(_, stub)| !stub).count()
    }

    /// Whether the effect of a step may have happened and nobody is at it.
    pub fn is_in_doubt(&self, step: &Step) -> bool {
        let at_it = |job: &Record| job.life.phase == Phase::Running && job.life.fence == step.fence;
        step.state == StepState::Begun && !self.find(&step.job).is_some_and(at_it)
    }
}
