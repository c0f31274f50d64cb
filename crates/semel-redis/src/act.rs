//! What people do to jobs and keys (contract 6.2–6.5, 7.3, 5.2).

use semel_core::counters::Counter;
use semel_core::error::StoreError;
use semel_core::ids::{Digest, JobId, Name, Token};
use semel_core::job::Phase;
use semel_core::lifecycle::{self, AttemptEnd, AttemptResult};
use semel_core::step::{self, Resolution};
use semel_core::store::{Act, ActOutcome};

use crate::head::{Head, Marks};
use crate::keys::Id;
use crate::link::answer;
use crate::records::Spec;
use crate::tx::{Slot, Tx};

impl Tx<'_> {
    /// One act.
    pub async fn act(&mut self, act: &Act) -> Result<ActOutcome, StoreError> {
        if let Err(invalid) = act.check() {
            return Ok(ActOutcome::Invalid(invalid));
        }
        let id = match act {
            Act::Release { digest, holder } => return self.release(digest, holder).await,
            Act::Resolve {
                origin,
                step,
                resolution,
            } => return self.resolve(origin, step, resolution).await,
            Act::Cancel { id } | Act::Retry { id } | Act::Replay { id, .. } | Act::Delete { id } => id,
        };
        let Some(head) = self.find(id).await? else {
            return Ok(ActOutcome::NotFound);
        };
        match act {
            Act::Cancel { .. } => self.cancel(&head).await,
            Act::Retry { .. } => self.retry(&head).await,
            Act::Replay { token, .. } => self.replay(&head, *token).await,
            _ => self.delete(&head).await,
        }
    }

    fn done(&self, head: &Head) -> ActOutcome {
        ActOutcome::Done {
            id: self.names().id_of(&head.trail, &head.id),
            state: head.life.state(self.now),
        }
    }

    async fn cancel(&mut self, head: &Head) -> Result<ActOutcome, StoreError> {
        let life = match lifecycle::cancel(&head.life, self.now, self.micros) {
            Ok(life) => life,
            Err(state) => return Ok(ActOutcome::WrongState(state)),
        };
        let mut after = head.clone();
        if head.life.phase == Phase::Running {
            let end = AttemptEnd {
                attempt: head.life.attempt,
                fence: head.life.fence,
                began_at: head.life.began,
                ended_at: self.now,
                result: AttemptResult::Cancelled,
                error: None,
            };
            self.close_attempt(&mut after, &end);
        }
        self.count(head.lane, Counter::Cancelled);
        after.life = life;
        let after = self.put(head, after).await?;
        Ok(self.done(&after))
    }

    async fn retry(&mut self, head: &Head) -> Result<ActOutcome, StoreError> {
        if let Some(by) = head.replayed_as {
            return Ok(ActOutcome::Replayed {
                by: self.names().id_of(&head.trail, &by),
            });
        }
        let generation = match &head.digest {
            Some(digest) => self.next_generation(digest).await?,
            None => 0,
        };
        let life = match lifecycle::retry(
            &head.life,
            head.digest.is_some(),
            self.now,
            self.micros,
            generation,
        ) {
            Ok(life) => life,
            Err(state) => return Ok(ActOutcome::WrongState(state)),
        };
        if head.marks.stub {
            // Its content is gone: there is nothing left to run.
            return Ok(ActOutcome::NotFound);
        }
        if let Some(held) = self.held_by_another(head).await? {
            return Ok(held);
        }
        self.count(head.lane, Counter::Retried);
        let keys = self.names();
        let mut after = head.clone();
        if std::mem::take(&mut after.marks.output) {
            self.unset(Slot::part(keys.outputs(), &head.id));
        }
        if std::mem::take(&mut after.marks.progress) {
            self.unset(Slot::part(keys.progress(), &head.id));
        }
        let taken = life.holding.as_ref().map(|holding| holding.generation);
        after.life = life;
        if taken == Some(generation) {
            self.own(&after, generation).await?;
        }
        let after = self.put(head, after).await?;
        Ok(self.done(&after))
    }

    /// Retry and replay are admitted with `reject`: another holder of the key keeps them out.
    async fn held_by_another(&mut self, head: &Head) -> Result<Option<ActOutcome>, StoreError> {
        let Some(digest) = head.digest else {
            return Ok(None);
        };
        let holder = self.holder(&digest).await?.filter(|holder| holder.id != head.id);
        let holder = holder.map(|holder| self.view(&holder)).transpose()?;
        Ok(holder.map(|holder| ActOutcome::Held { holder }))
    }

    async fn replay(&mut self, letter: &Head, token: Token) -> Result<ActOutcome, StoreError> {
        if let Some(before) = letter.replayed_as {
            return Ok(ActOutcome::Before {
                id: self.names().id_of(&letter.trail, &before),
            });
        }
        if letter.life.phase != Phase::Failed {
            return Ok(ActOutcome::WrongState(letter.life.state(self.now)));
        }
        if letter.marks.stub {
            return Ok(ActOutcome::NotFound);
        }
        let (queue, task) = self.lane_names(letter)?;
        if let Some(target) = self.config.closed(&queue, &task, self.now) {
            return Ok(ActOutcome::Closed { target });
        }
        if let Some(held) = self.held_by_another(letter).await? {
            return Ok(held);
        }
        let id = Id::from(token);
        if self.answered_before(&id).await?.is_some() {
            return Ok(ActOutcome::Invalid(Act::token_taken()));
        }
        self.replay_as(letter, id).await
    }

    /// The letter's key moves over to the fresh job (contract 6.5).
    async fn replay_as(&mut self, letter: &Head, id: Id) -> Result<ActOutcome, StoreError> {
        let generation = match &letter.digest {
            Some(digest) => self.next_generation(digest).await?,
            None => 0,
        };
        let fresh = Head {
            id,
            version: 0,
            seq: self.next_seq().await?,
            enqueued_at: self.now,
            life: lifecycle::replay(&letter.life, letter.digest.is_some(), self.now, generation),
            marks: Marks::default(),
            origin: Some(letter.origin()),
            follows: None,
            replayed_as: None,
            worker: None,
            ..letter.clone()
        };
        let spec = Spec {
            replayed_from: Some(letter.id),
            would: None,
            collides_with: None,
            ..self.spec(&letter.id).await?
        };
        let replayed = Head {
            life: lifecycle::let_go(&letter.life),
            replayed_as: Some(id),
            ..letter.clone()
        };
        self.put(letter, replayed).await?;
        self.count(letter.lane, Counter::Accepted);
        let done = self.done(&fresh);
        self.insert(fresh.clone(), &spec).await?;
        if fresh.life.holding.is_some() {
            self.own(&fresh, generation).await?;
        }
        Ok(done)
    }

    async fn delete(&mut self, head: &Head) -> Result<ActOutcome, StoreError> {
        if !head.life.phase.is_terminal() {
            return Ok(ActOutcome::WrongState(head.life.state(self.now)));
        }
        let done = self.done(head);
        self.drop_content(head, false).await?;
        Ok(done)
    }

    /// Removes a job that has ended; while it holds a key, a stub stays, with its output if that is wanted.
    /// Says whether it is gone.
    pub async fn drop_content(&mut self, head: &Head, keep_output: bool) -> Result<bool, StoreError> {
        if !head.life.is_holder(self.now) {
            self.remove(head).await?;
            return Ok(true);
        }
        let keys = self.names();
        let mut spec = self.spec(&head.id).await?;
        spec.reduce_to_stub();
        self.set(Slot::spec(keys, &head.id), spec.encode());
        let mut after = head.clone();
        after.marks.stub = true;
        if !keep_output && std::mem::take(&mut after.marks.output) {
            self.unset(Slot::part(keys.outputs(), &head.id));
        }
        if std::mem::take(&mut after.marks.progress) {
            self.unset(Slot::part(keys.progress(), &head.id));
        }
        if std::mem::take(&mut after.marks.attempts) {
            self.run("DEL", keys.attempts(&head.id), Vec::new());
        }
        self.drop_log(head);
        after.marks.log = false;
        self.put(head, after).await?;
        Ok(false)
    }

    async fn release(&mut self, digest: &Digest, holder: &JobId) -> Result<ActOutcome, StoreError> {
        let Some(head) = self.holder(digest).await? else {
            return Ok(ActOutcome::NotFound);
        };
        let view = self.view(&head)?;
        if view.id != *holder {
            return Ok(ActOutcome::Held { holder: view });
        }
        let after = self.let_go(&head).await?;
        self.promote_follower(&head.id).await?;
        Ok(self.done(&after))
    }

    async fn resolve(
        &mut self,
        origin: &JobId,
        name: &Name,
        how: &Resolution,
    ) -> Result<ActOutcome, StoreError> {
        let Some(origin) = self.shard.locate(origin) else {
            return Ok(ActOutcome::NotFound);
        };
        let chain = self.chain(&origin).await?;
        let Some(record) = self.find_step(&origin, name).await?.filter(|_| !chain.is_empty()) else {
            return Ok(ActOutcome::NotFound);
        };
        if !self.is_in_doubt(&record).await? {
            return Ok(ActOutcome::NotInDoubt);
        }
        self.put_step(&origin, &step::resolve(&record, how, self.now));
        let parked = chain
            .iter()
            .find(|head| head.life.phase == Phase::Parked)
            .map(|head| head.id);
        if !self.others_in_doubt(&origin, name).await? {
            for head in &chain {
                if let Some(life) = lifecycle::unpark(&head.life, self.now) {
                    self.advance(head, life).await?;
                }
            }
        }
        let began = self.find(&record.job).await?.map(|head| head.id);
        let concerned = parked.or(began).or(chain.first().map(|head| head.id));
        let head = match concerned {
            Some(id) => self.head(&id).await?,
            None => None,
        };
        Ok(head.map_or(ActOutcome::NotFound, |head| self.done(&head)))
    }

    /// The jobs of a chain that are there, oldest first.
    pub async fn chain(&mut self, origin: &Id) -> Result<Vec<Head>, StoreError> {
        let mut ask = redis::pipe();
        ask.cmd("ZRANGE").arg(self.names().chain(origin)).arg(0).arg(-1);
        let replays = answer::all_bytes(self.look(&ask).await?.remove(0))?;
        let mut ids = vec![*origin];
        ids.extend(replays.into_iter().filter_map(|id| id.try_into().ok().map(Id)));
        self.load_heads(ids.iter().copied()).await?;
        let mut heads = Vec::new();
        for id in ids {
            heads.extend(self.head(&id).await?);
        }
        heads.sort_by_key(|head| head.seq);
        Ok(heads)
    }

    async fn others_in_doubt(&mut self, origin: &Id, decided: &Name) -> Result<bool, StoreError> {
        for record in self.steps_of(origin).await? {
            if record.name != *decided && self.is_in_doubt(&record).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
