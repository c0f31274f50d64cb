//! Heartbeats, and how attempts end.

use futures_util::FutureExt as _;
use semel_core::counters::Counter;
use semel_core::error::{Invalid, StoreError};
use semel_core::ids::JobId;
use semel_core::job::State;
use semel_core::json::Json;
use semel_core::lifecycle::{self, Settle, Settled};
use semel_core::limits;
use semel_core::store::{Beat, ExtendRequest, Settlement, WriteOutcome, log_feed};
use semel_core::time::{Millis, Timestamp};

use crate::cell::Cell;
use crate::clock::{Moment, random};
use crate::desk::{Desk, each, lock};
use crate::layout;
use crate::setup::Setup;

impl Desk {
    /// The cells of jobs, as far as there are any.
    pub async fn homes(&self, ids: Vec<JobId>) -> Result<Vec<Option<String>>, StoreError> {
        each(ids, JobId::to_string, |id| {
            async move { self.home(&id).await }.boxed()
        })
        .await
    }

    pub async fn settle(&self, batch: Vec<Settlement>) -> Result<Vec<WriteOutcome>, StoreError> {
        limits::check_batch("settlements", batch.len())?;
        let setup = self.setup().await?;
        let setup = &*setup;
        self.tend(setup).await?;
        let homes = self.homes(batch.iter().map(|it| it.id.clone()).collect()).await?;
        let items: Vec<(Settlement, Option<String>)> = batch.into_iter().zip(homes).collect();
        each(items, route, |(settlement, home)| {
            async move {
                let Some(home) = home else {
                    return Ok(WriteOutcome::NotFound);
                };
                let is_missing = |it: &WriteOutcome| *it == WriteOutcome::NotFound;
                let settled = self.change_job(&settlement.id, &home, setup, is_missing, |cell, moment| {
                    settle(cell, &settlement, moment)
                });
                let settled = settled.await?;
                // One that is refused is about an older lease: the newest may be this handle's too.
                if matches!(settled, WriteOutcome::Ok(_) | WriteOutcome::NotFound) {
                    lock(&self.entries).ended(&settlement.id);
                }
                Ok(settled)
            }
            .boxed()
        })
        .await
    }

    pub async fn extend(&self, request: ExtendRequest) -> Result<Vec<WriteOutcome>, StoreError> {
        let ExtendRequest { leases, lease } = request;
        limits::check_lease(lease)?;
        limits::check_batch("leases", leases.len())?;
        let setup = self.setup().await?;
        let setup = &*setup;
        self.tend(setup).await?;
        let ids: Vec<JobId> = leases.iter().map(|it| it.id.clone()).collect();
        let homes = self.homes(ids.clone()).await?;
        let jobs: Vec<(String, JobId)> = leases
            .iter()
            .zip(&homes)
            .filter_map(|(beat, home)| Some((home.clone()?, beat.id.clone())))
            .collect();
        let until = self.lease_until(lease);
        let entry = format!("{:016x}", random());
        if !jobs.is_empty() {
            self.advertise(until, &entry, jobs).await?;
        }
        let items: Vec<(Beat, Option<String>)> = leases.into_iter().zip(homes).collect();
        let outcomes = each(items, route, |(beat, home)| {
            async move {
                match home {
                    Some(home) => self.beat(beat, &home, until, lease, setup).await,
                    None => Ok(WriteOutcome::NotFound),
                }
            }
            .boxed()
        })
        .await?;
        let beats = ids.iter().zip(&outcomes);
        let extended = beats.filter(|(_, outcome)| matches!(outcome, WriteOutcome::Ok(_)));
        lock(&self.entries).opened(&layout::lease(until, &entry), extended.map(|(id, _)| id));
        Ok(outcomes)
    }

    async fn beat(
        &self,
        beat: Beat,
        home: &str,
        until: Timestamp,
        lease: Millis,
        setup: &Setup,
    ) -> Result<WriteOutcome, StoreError> {
        let is_missing = |it: &WriteOutcome| *it == WriteOutcome::NotFound;
        let outcome = self
            .change_job(&beat.id, home, setup, is_missing, |cell, moment| {
                // Never past what was advertised, never much before what was asked for.
                let until = until.min(moment.now.plus(lease).plus(self.time.slack()));
                extend(cell, &beat, until, moment)
            })
            .await?;
        if matches!(outcome, WriteOutcome::Ok(_)) {
            self.advertise_late(until, home, &beat.id).await?;
        }
        if matches!(outcome, WriteOutcome::Ok(_)) && !beat.log.is_empty() {
            let lines = beat.log.iter().map(|line| log_line(line)).collect();
            self.append(&log_feed(&beat.id), lines).await?;
        }
        Ok(outcome)
    }
}

fn route<T: Named>((item, home): &(T, Option<String>)) -> String {
    home.clone().unwrap_or_else(|| item.id().to_string())
}

/// Something about a job.
trait Named {
    fn id(&self) -> &JobId;
}

impl Named for Settlement {
    fn id(&self) -> &JobId {
        &self.id
    }
}

impl Named for Beat {
    fn id(&self) -> &JobId {
        &self.id
    }
}

fn settle(cell: &mut Cell, settlement: &Settlement, moment: Moment) -> WriteOutcome {
    let Settlement { id, fence, result } = settlement;
    let Some(record) = cell.find(id) else {
        return WriteOutcome::NotFound;
    };
    if let Err(invalid) = check(result) {
        return WriteOutcome::Invalid(invalid);
    }
    let lane = record.lane();
    match lifecycle::settle(&record.life, id, *fence, result, moment.now) {
        Ok(Settled::Before(state)) => WriteOutcome::Ok(state),
        Ok(Settled::Moved { life, end }) => {
            if let Some(counter) = Counter::of_attempt(end.result) {
                cell.count(&lane, counter);
            }
            cell.amend(id, |record| {
                record.close_attempt(end);
                if let Settle::Complete { output } = result {
                    record.output = output.clone();
                }
            });
            let state = life.state(moment.now);
            cell.advance(id, *life, moment);
            WriteOutcome::Ok(state)
        }
        Err(refusal) => {
            cell.count(&lane, Counter::StaleWrites);
            WriteOutcome::Refused(refusal)
        }
    }
}

fn extend(cell: &mut Cell, beat: &Beat, until: Timestamp, moment: Moment) -> WriteOutcome {
    let Some(record) = cell.find(&beat.id) else {
        return WriteOutcome::NotFound;
    };
    if beat
        .progress
        .is_some_and(|progress| !(0.0..=1.0).contains(&progress))
    {
        return WriteOutcome::Invalid(Invalid::new("progress", "0 to 1"));
    }
    let lane = record.lane();
    match lifecycle::extend(&record.life, beat.fence, until, moment.now) {
        Ok(life) => {
            cell.advance(&beat.id, life, moment);
            cell.amend(&beat.id, |record| {
                record.progress = beat.progress.or(record.progress);
                record.logged |= !beat.log.is_empty();
            });
            WriteOutcome::Ok(State::Running)
        }
        Err(refusal) => {
            cell.count(&lane, Counter::StaleWrites);
            WriteOutcome::Refused(refusal)
        }
    }
}

fn check(result: &Settle) -> Result<(), Invalid> {
    match result {
        Settle::Complete { output: Some(output) } => check_output(output),
        Settle::Retry {
            delay: Some(delay), ..
        }
        | Settle::Snooze { delay } => check_delay(*delay),
        _ => Ok(()),
    }
}

fn check_delay(delay: Millis) -> Result<(), Invalid> {
    if delay > limits::LONGEST {
        return Err(Invalid::new("delay", "at most ten years"));
    }
    Ok(())
}

/// The size of an output, of a job, a step or a guard.
pub fn check_output(output: &Json) -> Result<(), Invalid> {
    if output.as_str().len() > limits::OUTPUT_BYTES {
        return Err(Invalid::new(
            "output",
            format!("at most {} bytes", limits::OUTPUT_BYTES),
        ));
    }
    Ok(())
}

fn log_line(line: &str) -> Json {
    let text = serde_json::to_string(limits::cut(line, limits::LOG_LINE_BYTES));
    Json::trusted(text.expect("a text can always be written as JSON"))
}
