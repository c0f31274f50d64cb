//! Steps of jobs (contract 5.1, 5.2) and guards outside jobs (contract 5.3).

use futures_util::FutureExt as _;
use semel_core::counters::Counter;
use semel_core::dedup::key;
use semel_core::error::{Invalid, StoreError};
use semel_core::guard::{self, GuardAnswer, GuardCall, GuardChange, GuardRecord};
use semel_core::ids::{Digest, JobId, Name};
use semel_core::lifecycle;
use semel_core::limits;
use semel_core::step::{self, Speaker, StepAnswer, StepChange, StepPhase, StepRecord, Verdict};
use semel_core::store::{GuardOutcome, GuardRequest, StepFilter, StepOutcome, StepRequest};
use semel_core::view::StepView;

use crate::cell::{Cell, Step};
use crate::clock::Moment;
use crate::desk::{Desk, each};
use crate::layout;
use crate::settle::check_output;
use crate::setup::Setup;

impl Desk {
    pub async fn steps(&self, batch: Vec<StepRequest>) -> Result<Vec<StepOutcome>, StoreError> {
        limits::check_batch("steps", batch.len())?;
        let setup = self.setup().await?;
        let setup = &*setup;
        self.tend(setup).await?;
        let homes = self.homes(batch.iter().map(|it| it.id.clone()).collect()).await?;
        let items: Vec<(StepRequest, Option<String>)> = batch.into_iter().zip(homes).collect();
        let route = |(request, home): &(StepRequest, Option<String>)| {
            home.clone().unwrap_or_else(|| request.id.to_string())
        };
        each(items, route, |(request, home)| {
            async move {
                let Some(home) = home else {
                    return Ok(StepOutcome::NotFound);
                };
                let is_missing = |it: &StepOutcome| *it == StepOutcome::NotFound;
                self.change_job(&request.id, &home, setup, is_missing, |cell, moment| {
                    take_step(cell, &request, &self.namespace, moment)
                })
                .await
            }
            .boxed()
        })
        .await
    }

    pub async fn list_steps(&self, filter: StepFilter) -> Result<Vec<StepView>, StoreError> {
        let setup = self.setup().await?;
        let mut steps: Vec<StepView> = match filter {
            StepFilter::Origin(origin) => {
                let Some(home) = self.home(&origin).await? else {
                    return Ok(Vec::new());
                };
                let mut cell = self.read(&home).await?.cell();
                if let Some(copy) = self.copy_of(&origin, &home, &cell).await? {
                    cell = Cell::clone(&copy);
                }
                cell.void(&setup, self.moment());
                let of_chain = cell.steps.iter().filter(|step| step.origin == origin);
                of_chain.map(|step| self.step_view(&cell, step)).collect()
            }
            StepFilter::InDoubt => {
                let (cells, _) = self.cells(&setup).await?;
                let doubts = |cell: &Cell| {
                    let steps = cell.steps.iter().filter(|step| cell.is_in_doubt(step));
                    steps.map(|step| self.step_view(cell, step)).collect::<Vec<_>>()
                };
                cells.iter().flat_map(|(_, cell)| doubts(cell)).collect()
            }
        };
        steps.sort_by(|a, b| (a.begun_at, &a.origin, &a.name).cmp(&(b.begun_at, &b.origin, &b.name)));
        Ok(steps)
    }

    fn step_view(&self, cell: &Cell, step: &Step) -> StepView {
        StepView {
            origin: step.origin.clone(),
            name: step.name.clone(),
            state: step.state,
            in_doubt: cell.is_in_doubt(step),
            job: step.job.clone(),
            begun_at: step.begun_at,
            ended_at: step.ended_at,
            output: step.output.clone(),
            key: downstream(&self.namespace, &step.origin, &step.name, step.generation),
        }
    }

    pub async fn guard(&self, batch: Vec<GuardRequest>) -> Result<Vec<GuardOutcome>, StoreError> {
        limits::check_batch("guard calls", batch.len())?;
        let setup = self.setup().await?;
        let setup = &*setup;
        self.tend(setup).await?;
        let items: Vec<(GuardRequest, Result<Digest, Invalid>)> = batch
            .into_iter()
            .map(|request| {
                let digest = self.check_guard(&request);
                (request, digest)
            })
            .collect();
        let route = |(_, digest): &(GuardRequest, Result<Digest, Invalid>)| {
            digest.as_ref().map(Digest::to_string).unwrap_or_default()
        };
        each(items, route, |(request, digest)| {
            async move {
                match digest {
                    Ok(digest) => self.ask_guard(digest, &request.call).await,
                    Err(invalid) => Ok(GuardOutcome::Invalid(invalid)),
                }
            }
            .boxed()
        })
        .await
    }

    async fn ask_guard(&self, digest: Digest, call: &GuardCall) -> Result<GuardOutcome, StoreError> {
        let setup = Setup::default();
        let answer = self
            .change(&layout::guard(digest), false, &setup, |cell, moment| {
                let stored = cell.guard.as_ref().map(GuardRecord::from);
                let (change, answer) = guard::guard(stored.as_ref(), digest, call, moment.now);
                let mut guarded = cell.guarded.unwrap_or_default();
                match (&answer, &change) {
                    // The same reservation asked for again is not another one.
                    (GuardAnswer::Fresh, GuardChange::Write(_)) => guarded.fresh += 1,
                    (GuardAnswer::InProgress, _) => guarded.in_progress += 1,
                    (GuardAnswer::Done(_), _) => guarded.done += 1,
                    _ => {}
                }
                if guarded != cell.guarded.unwrap_or_default() {
                    cell.guarded = Some(guarded);
                }
                match change {
                    GuardChange::Keep => {}
                    GuardChange::Write(record) => cell.guard = Some(record.into()),
                    GuardChange::Remove => cell.guard = None,
                }
                answer
            })
            .await?;
        Ok(GuardOutcome::Answer(answer))
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

fn take_step(cell: &mut Cell, request: &StepRequest, namespace: &Name, moment: Moment) -> StepOutcome {
    let StepRequest {
        id,
        fence,
        step: name,
        phase,
    } = request;
    let Some(record) = cell.find(id) else {
        return StepOutcome::NotFound;
    };
    let lane = record.lane();
    if let Err(refusal) = lifecycle::may_write(&record.life, *fence) {
        cell.count(&lane, Counter::StaleWrites);
        return StepOutcome::Refused(refusal);
    }
    if let StepPhase::Confirm { output } = phase
        && let Err(invalid) = check_output(output)
    {
        return StepOutcome::Invalid(invalid);
    }
    let origin = record.spec.origin.clone();
    let at = cell
        .steps
        .iter()
        .position(|step| step.origin == origin && step.name == *name);
    let stored = at.map(|at| StepRecord::from(&cell.steps[at]));
    let generation = stored.as_ref().map_or(0, |record| record.generation);
    let speaker = Speaker {
        origin: origin.clone(),
        job: id.clone(),
        fence: *fence,
    };
    let (verdict, generation) = match step::step(stored.as_ref(), &speaker, name, phase, moment.now) {
        StepChange::Keep(verdict) => (verdict, generation),
        StepChange::Write(record, verdict) => {
            let generation = record.generation;
            match at {
                Some(at) => cell.steps[at] = record.into(),
                None => cell.steps.push(record.into()),
            }
            (verdict, generation)
        }
    };
    let key = downstream(namespace, &origin, name, generation);
    StepOutcome::Answer(match verdict {
        Verdict::Ok => StepAnswer::Ok { key },
        Verdict::Confirmed(output) => StepAnswer::Confirmed { output },
        Verdict::InDoubt => StepAnswer::InDoubt { key },
        Verdict::NotBegun => StepAnswer::NotBegun,
    })
}

fn downstream(namespace: &Name, origin: &JobId, step: &Name, generation: u32) -> Digest {
    key::downstream(namespace, origin.as_str(), step, generation)
}
