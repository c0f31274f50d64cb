//! What workers write about running jobs: heartbeats and ends. Nothing is written unless the fence is the newest.

use semel_core::counters::Counter;
use semel_core::error::{Invalid, StoreError};
use semel_core::job::State;
use semel_core::json::Json;
use semel_core::lifecycle::{self, Refusal, Settle, Settled};
use semel_core::limits;
use semel_core::store::{Beat, ExtendRequest, Settlement, WriteOutcome, log_feed};
use semel_core::time::Millis;

use crate::head::Head;
use crate::keys::{Id, Keys};
use crate::name;
use crate::shard::Shard;
use crate::tx::{Slot, Tx};

/// What a batch of writes about jobs will ask for.
pub fn wanted<'a>(shard: &Shard, ids: impl Iterator<Item = &'a semel_core::ids::JobId>) -> Vec<Slot> {
    let located = ids.filter_map(|id| shard.locate(id));
    located.map(|id| Slot::head(&shard.keys, &id)).collect()
}

/// Who follows a job.
pub fn follower_slot(keys: &Keys, id: &Id) -> Slot {
    Slot::new(keys.followers(), id.0)
}

impl Tx<'_> {
    /// A job by its id.
    pub async fn find(&mut self, id: &semel_core::ids::JobId) -> Result<Option<Head>, StoreError> {
        match name::parse(id).filter(|_| self.shard.locate(id).is_some()) {
            Some((named, id)) => {
                let head = self.head(&id).await?;
                Ok(head.filter(|head| self.names().named(&head.trail) == named))
            }
            None => Ok(None),
        }
    }

    /// Heartbeats, one after another.
    pub async fn extend(&mut self, request: &ExtendRequest) -> Result<Vec<WriteOutcome>, StoreError> {
        let mut outcomes = Vec::with_capacity(request.leases.len());
        for beat in &request.leases {
            outcomes.push(self.one_beat(beat, request.lease).await?);
        }
        Ok(outcomes)
    }

    async fn one_beat(&mut self, beat: &Beat, lease: Millis) -> Result<WriteOutcome, StoreError> {
        let Some(head) = self.find(&beat.id).await? else {
            return Ok(WriteOutcome::NotFound);
        };
        if beat
            .progress
            .is_some_and(|progress| !(0.0..=1.0).contains(&progress))
        {
            let invalid = Invalid::new("progress", "a number from 0 to 1");
            return Ok(WriteOutcome::Invalid(invalid));
        }
        let until = self.now.plus(lease);
        let life = match lifecycle::extend(&head.life, beat.fence, until, self.now) {
            Ok(life) => life,
            Err(refusal) => return Ok(self.refused(&head, refusal)),
        };
        let mut after = Head { life, ..head.clone() };
        if let Some(progress) = beat.progress {
            let slot = Slot::part(self.names().progress(), &head.id);
            self.set(slot, progress.to_le_bytes().to_vec());
            after.marks.progress = true;
        }
        if !beat.log.is_empty() {
            after.marks.log = true;
            let lines = beat.log.iter().map(|line| log_line(line)).collect();
            self.append(&log_feed(&beat.id), lines);
        }
        self.put(&head, after).await?;
        Ok(WriteOutcome::Ok(State::Running))
    }

    fn refused(&mut self, head: &Head, refusal: Refusal) -> WriteOutcome {
        self.count(head.lane, Counter::StaleWrites);
        WriteOutcome::Refused(refusal)
    }

    /// Ends of attempts, one after another.
    pub async fn settle(&mut self, batch: &[&Settlement]) -> Result<Vec<WriteOutcome>, StoreError> {
        self.load_followers(batch).await?;
        let mut outcomes = Vec::with_capacity(batch.len());
        for settlement in batch {
            outcomes.push(self.one_end(settlement).await?);
        }
        Ok(outcomes)
    }

    /// Whether somebody follows, of all jobs at once.
    async fn load_followers(&mut self, batch: &[&Settlement]) -> Result<(), StoreError> {
        let keys: &Keys = self.names();
        let ids = batch
            .iter()
            .filter_map(|settlement| self.shard.locate(&settlement.id));
        let slots = ids.map(|id| follower_slot(keys, &id)).collect();
        self.load(slots).await
    }

    async fn one_end(&mut self, settlement: &Settlement) -> Result<WriteOutcome, StoreError> {
        let Settlement { id, fence, result } = settlement;
        let Some(head) = self.find(id).await? else {
            return Ok(WriteOutcome::NotFound);
        };
        if let Err(invalid) = check(result) {
            return Ok(WriteOutcome::Invalid(invalid));
        }
        let (life, end) = match lifecycle::settle(&head.life, id, *fence, result, self.now) {
            Err(refusal) => return Ok(self.refused(&head, refusal)),
            Ok(Settled::Before(state)) => {
                // If the first reply was lost, nobody in this process was told.
                self.signals.ends = true;
                return Ok(WriteOutcome::Ok(state));
            }
            Ok(Settled::Moved { life, end }) => (*life, end),
        };
        if let Some(counter) = Counter::of_attempt(end.result) {
            self.count(head.lane, counter);
        }
        let state = life.state(self.now);
        let mut after = head.clone();
        match result {
            // The delivery that completes a job is told by its head.
            Settle::Complete { output } => {
                if let Some(output) = output {
                    let slot = Slot::part(self.names().outputs(), &head.id);
                    self.set(slot, output.as_str().as_bytes().to_vec());
                    after.marks.output = true;
                }
            }
            _ => self.close_attempt(&mut after, &end),
        }
        after.life = life;
        self.put(&head, after).await?;
        Ok(WriteOutcome::Ok(state))
    }
}

fn log_line(line: &str) -> Json {
    let text = serde_json::to_string(limits::cut(line, limits::LOG_LINE_BYTES));
    Json::trusted(text.expect("a text can always be written as JSON"))
}

/// Whether an end makes sense.
pub fn check(result: &Settle) -> Result<(), Invalid> {
    let delay = match result {
        Settle::Complete { output: Some(output) } => return check_output(output),
        Settle::Retry { delay, .. } => delay.unwrap_or(Millis::ZERO),
        Settle::Snooze { delay } => *delay,
        _ => Millis::ZERO,
    };
    if delay > limits::LONGEST {
        return Err(Invalid::new("delay", "at most ten years"));
    }
    Ok(())
}

/// The size of an output, of a job, a step or a guard.
pub fn check_output(output: &Json) -> Result<(), Invalid> {
    if output.as_str().len() > limits::OUTPUT_BYTES {
        let allowed = format!("at most {} bytes", limits::OUTPUT_BYTES);
        return Err(Invalid::new("output", allowed));
    }
    Ok(())
}
