//! Steps and guards: effects that happen once (contract 5).

use semel_core::counters::Counter;
use semel_core::dedup::key;
use semel_core::error::{Invalid, StoreError};
use semel_core::guard::{self, GuardAnswer, GuardCall, GuardChange};
use semel_core::ids::{Digest, Name};
use semel_core::job::Phase;
use semel_core::lifecycle;
use semel_core::limits;
use semel_core::step::{self, Speaker, StepAnswer, StepChange, StepPhase, StepRecord, StepState, Verdict};
use semel_core::store::{GuardOutcome, GuardRequest, StepOutcome, StepRequest};

use crate::jobs::{begun_member, score};
use crate::keys::Id;
use crate::records;
use crate::settle::check_output;
use crate::tx::{Slot, Tx};

impl Tx<'_> {
    /// What workers say about steps, one after another.
    pub async fn steps(&mut self, batch: &[StepRequest]) -> Result<Vec<StepOutcome>, StoreError> {
        let mut outcomes = Vec::with_capacity(batch.len());
        for request in batch {
            outcomes.push(self.one_step(request).await?);
        }
        Ok(outcomes)
    }

    async fn one_step(&mut self, request: &StepRequest) -> Result<StepOutcome, StoreError> {
        let Some(head) = self.find(&request.id).await? else {
            return Ok(StepOutcome::NotFound);
        };
        if let Err(refusal) = lifecycle::may_write(&head.life, request.fence) {
            self.count(head.lane, Counter::StaleWrites);
            return Ok(StepOutcome::Refused(refusal));
        }
        if let StepPhase::Confirm { output } = &request.phase
            && let Err(invalid) = check_output(output)
        {
            return Ok(StepOutcome::Invalid(invalid));
        }
        let origin = self.names().id_of(&head.trail, &head.origin());
        let stored = self.find_step(&head.origin(), &request.step).await?;
        let speaker = Speaker {
            origin: origin.clone(),
            job: request.id.clone(),
            fence: request.fence,
        };
        let change = step::step(stored.as_ref(), &speaker, &request.step, &request.phase, self.now);
        let (record, verdict) = match change {
            StepChange::Write(record, verdict) => {
                self.put_step(&head.origin(), &record);
                (Some(record), verdict)
            }
            StepChange::Keep(verdict) => (stored, verdict),
        };
        let generation = record.map_or(0, |record| record.generation);
        let key = key::downstream(&self.shard.namespace, origin.as_str(), &request.step, generation);
        Ok(StepOutcome::Answer(match verdict {
            Verdict::Ok => StepAnswer::Ok { key },
            Verdict::InDoubt => StepAnswer::InDoubt { key },
            Verdict::Confirmed(output) => StepAnswer::Confirmed { output },
            Verdict::NotBegun => StepAnswer::NotBegun,
        }))
    }

    /// A step by its chain and name.
    pub async fn find_step(&mut self, origin: &Id, name: &Name) -> Result<Option<StepRecord>, StoreError> {
        let slot = Slot::new(self.names().steps(origin), name.as_str());
        self.get(&slot).await?.map(records::decode_step).transpose()
    }

    /// Writes a step.
    pub fn put_step(&mut self, origin: &Id, record: &StepRecord) {
        let keys = self.names();
        let name = record.name.as_str().as_bytes();
        self.set(Slot::new(keys.steps(origin), name), records::encode_step(record));
        let member = begun_member(origin, name);
        if record.state == StepState::Begun {
            self.run(
                "ZADD",
                keys.begun(),
                vec![score(record.begun_at.as_millis()), member],
            );
        } else {
            self.run("ZREM", keys.begun(), vec![member]);
        }
    }

    /// Whether a step's effect may have happened and nobody is at it.
    pub async fn is_in_doubt(&mut self, record: &StepRecord) -> Result<bool, StoreError> {
        if record.state != StepState::Begun {
            return Ok(false);
        }
        let head = self.find(&record.job).await?;
        Ok(!head.is_some_and(|head| head.life.phase == Phase::Running && head.life.fence == record.fence))
    }

    /// Calls to guards, one after another.
    pub async fn guard(&mut self, batch: &[GuardRequest]) -> Result<Vec<GuardOutcome>, StoreError> {
        let mut outcomes = Vec::with_capacity(batch.len());
        for request in batch {
            outcomes.push(match check_guard(&self.shard.namespace, request) {
                Ok(digest) => GuardOutcome::Answer(self.one_guard(digest, &request.call).await?),
                Err(invalid) => GuardOutcome::Invalid(invalid),
            });
        }
        Ok(outcomes)
    }

    async fn one_guard(&mut self, digest: Digest, call: &GuardCall) -> Result<GuardAnswer, StoreError> {
        let keys = self.names();
        let slot = Slot::new(keys.guards(&digest), *digest.as_bytes());
        let stored = self
            .get(&slot)
            .await?
            .map(|bytes| records::decode_guard(digest, bytes))
            .transpose()?;
        let (change, answer) = guard::guard(stored.as_ref(), digest, call, self.now);
        let counter = match (&answer, &change) {
            // The same reservation asked for again is not another one.
            (GuardAnswer::Fresh, GuardChange::Write(_)) => Some("g.fresh"),
            (GuardAnswer::InProgress, _) => Some("g.in_progress"),
            (GuardAnswer::Done(_), _) => Some("g.done"),
            _ => None,
        };
        if let Some(counter) = counter {
            self.add(keys.counts(), counter.to_owned(), 1);
        }
        let member = digest.as_bytes().to_vec();
        match change {
            GuardChange::Keep => {}
            GuardChange::Write(record) => {
                self.run(
                    "ZADD",
                    keys.guards_due(),
                    vec![score(record.expires_at.as_millis()), member],
                );
                self.set(slot, records::encode_guard(&record));
            }
            GuardChange::Remove => {
                self.run("ZREM", keys.guards_due(), vec![member]);
                self.unset(slot);
            }
        }
        Ok(answer)
    }

    /// Forgets guarded keys that have lapsed; says how many.
    pub async fn prune_guards(&mut self, most: usize) -> Result<usize, StoreError> {
        let keys = self.names();
        let due = self.due(keys.guards_due(), most).await?;
        for member in &due {
            let Ok(bytes) = <[u8; 32]>::try_from(member.as_slice()) else {
                continue;
            };
            let digest = Digest::from_bytes(bytes);
            let slot = Slot::new(keys.guards(&digest), bytes);
            let stored = self
                .get(&slot)
                .await?
                .map(|bytes| records::decode_guard(digest, bytes))
                .transpose()?;
            if stored.is_none_or(|guard| guard.expires_at <= self.now) {
                self.unset(slot);
                self.run("ZREM", keys.guards_due(), vec![member.clone()]);
            }
        }
        Ok(due.len())
    }
}

/// The digest of a guarded key, if the call makes sense.
pub fn check_guard(namespace: &Name, request: &GuardRequest) -> Result<Digest, Invalid> {
    match &request.call {
        GuardCall::Reserve { ttl, .. } if ttl.is_zero() || *ttl > limits::LONGEST => {
            return Err(Invalid::new("ttl", "one millisecond to ten years"));
        }
        GuardCall::Confirm { output, .. } => check_output(output)?,
        _ => {}
    }
    key::guard_digest(namespace, &request.key)
}
