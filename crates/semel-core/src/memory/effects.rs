//! Steps of jobs (contract 5.1, 5.2) and guards outside jobs (contract 5.3).

use crate::counters::Counter;
use crate::dedup::key;
use crate::error::Invalid;
use crate::guard::{self, GuardAnswer, GuardCall, GuardChange};
use crate::ids::{Digest, JobId, Name};
use crate::job::Phase;
use crate::lifecycle;
use crate::limits;
use crate::memory::inner::{Inner, Moment};
use crate::memory::settle::check_output;
use crate::step::{self, Speaker, StepAnswer, StepChange, StepPhase, StepRecord, StepState, Verdict};
use crate::store::{GuardOutcome, GuardRequest, StepFilter, StepOutcome, StepRequest};
use crate::view::StepView;

impl Inner {
    pub(super) fn step(&mut self, request: StepRequest, moment: Moment) -> StepOutcome {
        let StepRequest {
            id,
            fence,
            step: name,
            phase,
        } = request;
        let Some((_, record)) = self.find(&id) else {
            return StepOutcome::NotFound;
        };
        let lane = record.lane();
        if let Err(refusal) = lifecycle::may_write(&record.life, fence) {
            self.count(&lane, Counter::StaleWrites);
            return StepOutcome::Refused(refusal);
        }
        if let StepPhase::Confirm { output } = &phase
            && let Err(invalid) = check_output(output)
        {
            return StepOutcome::Invalid(invalid);
        }
        let origin = record.spec.origin.clone();
        let stored = self.steps.get(&origin).and_then(|steps| steps.get(&name));
        let generation = stored.map_or(0, |record| record.generation);
        let speaker = Speaker {
            origin: origin.clone(),
            job: id,
            fence,
        };
        let (verdict, generation) = match step::step(stored, &speaker, &name, &phase, moment.now) {
            StepChange::Keep(verdict) => (verdict, generation),
            StepChange::Write(record, verdict) => {
                let generation = record.generation;
                self.steps
                    .entry(origin.clone())
                    .or_default()
                    .insert(name.clone(), record);
                (verdict, generation)
            }
        };
        StepOutcome::Answer(step_answer(verdict, self.downstream(&origin, &name, generation)))
    }

    fn downstream(&self, origin: &JobId, step: &Name, generation: u32) -> Digest {
        key::downstream(&self.namespace, origin.as_str(), step, generation)
    }

    /// Whether the effect of a step may have happened and nobody is at it.
    pub(super) fn is_in_doubt(&self, step: &StepRecord) -> bool {
        let at_it = |life: &crate::job::Life| life.phase == Phase::Running && life.fence == step.fence;
        step.state == StepState::Begun && !self.find(&step.job).is_some_and(|(_, job)| at_it(&job.life))
    }

    pub(super) fn list_steps(&self, filter: &StepFilter) -> Vec<StepView> {
        let mut steps: Vec<StepView> = match filter {
            StepFilter::Origin(origin) => self
                .steps
                .get(origin)
                .into_iter()
                .flatten()
                .map(|(_, step)| self.step_view(step))
                .collect(),
            StepFilter::InDoubt => self.steps_in_doubt().map(|step| self.step_view(step)).collect(),
        };
        steps.sort_by(|a, b| (a.begun_at, &a.origin, &a.name).cmp(&(b.begun_at, &b.origin, &b.name)));
        steps
    }

    pub(super) fn steps_in_doubt(&self) -> impl Iterator<Item = &StepRecord> {
        self.steps
            .values()
            .flat_map(|steps| steps.values())
            .filter(|step| self.is_in_doubt(step))
    }

    fn step_view(&self, step: &StepRecord) -> StepView {
        StepView {
            origin: step.origin.clone(),
            name: step.name.clone(),
            state: step.state,
            in_doubt: self.is_in_doubt(step),
            job: step.job.clone(),
            begun_at: step.begun_at,
            ended_at: step.ended_at,
            output: step.output.clone(),
            key: self.downstream(&step.origin, &step.name, step.generation),
        }
    }

    pub(super) fn guard(&mut self, request: GuardRequest, moment: Moment) -> GuardOutcome {
        let digest = match self.check_guard(&request) {
            Ok(digest) => digest,
            Err(invalid) => return GuardOutcome::Invalid(invalid),
        };
        let (change, answer) = guard::guard(self.guards.get(&digest), digest, &request.call, moment.now);
        let counter = match (&answer, &change) {
            // The same reservation asked for again is not another one.
            (GuardAnswer::Fresh, GuardChange::Write(_)) => Some(&mut self.guard_stats.fresh),
            (GuardAnswer::InProgress, _) => Some(&mut self.guard_stats.in_progress),
            (GuardAnswer::Done(_), _) => Some(&mut self.guard_stats.done),
            _ => None,
        };
        counter.into_iter().for_each(|counter| *counter += 1);
        match change {
            GuardChange::Keep => {}
            GuardChange::Write(record) => drop(self.guards.insert(digest, record)),
            GuardChange::Remove => drop(self.guards.remove(&digest)),
        }
        GuardOutcome::Answer(answer)
    }

    fn check_guard(&self, request: &GuardRequest) -> Result<Digest, Invalid> {
        match &request.call {
            GuardCall::Reserve { ttl, .. } if ttl.is_zero() || *ttl > limits::LONGEST => {
                return Err(Invalid::new("ttl", "1 millisecond to ten years"));
            }
            GuardCall::Confirm { output, .. } => check_output(output)?,
            _ => {}
        }
        key::guard_digest(&self.namespace, &request.key)
    }
}

fn step_answer(verdict: Verdict, key: Digest) -> StepAnswer {
    match verdict {
        Verdict::Ok => StepAnswer::Ok { key },
        Verdict::Confirmed(output) => StepAnswer::Confirmed { output },
        Verdict::InDoubt => StepAnswer::InDoubt { key },
        Verdict::NotBegun => StepAnswer::NotBegun,
    }
}
