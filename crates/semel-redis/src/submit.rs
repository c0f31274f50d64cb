//! Admission: first everything is judged and the answer known, then it is written. `explain` stops in between.

use semel_core::admission::{self, Decision, Holder};
use semel_core::canonical::{self, Limits};
use semel_core::dedup::Key;
use semel_core::error::{Invalid, StoreError};
use semel_core::ids::{Digest, JobId, Name};
use semel_core::job::{Outcome, State};
use semel_core::limits;
use semel_core::store::{Admitted, Explanation, Submitted};
use semel_core::submission::{Policy, Prepared, Submission};
use semel_core::time::Timestamp;
use semel_core::view::HolderView;

use crate::config::Config;
use crate::head::Head;
use crate::inspect;
use crate::keys::{Id, Keys};
use crate::link::answer;
use crate::records;
use crate::tx::{Drawn, Slot, Tx};

/// An item of a batch, prepared on the caller's side.
pub type Item = Result<Prepared, Invalid>;

/// A submission that was judged, with all that is needed to answer and to write it.
pub struct Judged {
    /// The submission, with its key.
    pub prepared: Prepared,
    /// What core says.
    pub decision: Decision,
    /// The job that holds the key.
    pub holder: Option<Head>,
    /// The job that a deferred submission goes into, if there is one already.
    pub follower: Option<Head>,
    /// The job of the same hybrid fields it differs from.
    pub collides_with: Option<JobId>,
    /// How its input differs from that of the job it met.
    pub differs: Difference,
}

/// How the input of a submission differs from that of the job it met.
#[derive(Clone, Debug, Default)]
pub struct Difference {
    /// Where.
    pub pointers: Vec<String>,
    /// Whether.
    pub any: bool,
}

/// What a batch will ask for, so that it is read at once.
pub fn wanted<'a>(keys: &Keys, batch: impl Iterator<Item = &'a Item>) -> Vec<Slot> {
    let mut slots = Vec::new();
    for prepared in batch.flatten() {
        let id = Id::from(prepared.submission.token);
        slots.push(Slot::head(keys, &id));
        slots.push(Slot::spec(keys, &id));
        slots.push(Slot::token(keys, &id));
        slots.extend(prepared.key.as_ref().map(|key| Slot::owner(keys, &key.digest)));
    }
    slots
}

impl Slot {
    pub fn token(keys: &Keys, token: &Id) -> Self {
        Slot::new(keys.tokens(), token.0)
    }
}

impl Tx<'_> {
    /// Admits a batch, one item after another.
    pub async fn submit(&mut self, batch: &[(&Item, Drawn)]) -> Result<Vec<Submitted>, StoreError> {
        self.load_holders(batch).await?;
        let mut answers = Vec::with_capacity(batch.len());
        for (item, drawn) in batch {
            self.reserved = *drawn;
            answers.push(match item {
                Ok(prepared) => self.submit_one(prepared.clone()).await?,
                Err(invalid) => Submitted::Invalid(invalid.clone()),
            });
        }
        self.reserved = Drawn::default();
        Ok(answers)
    }

    /// The jobs that own the keys of a batch, read at once.
    async fn load_holders(&mut self, batch: &[(&Item, Drawn)]) -> Result<(), StoreError> {
        let mut ids = Vec::new();
        for key in batch
            .iter()
            .filter_map(|(item, _)| item.as_ref().ok()?.key.as_ref())
        {
            ids.extend(self.owner(&key.digest).await?.and_then(|owner| owner.newest));
        }
        self.load_heads(ids).await
    }

    async fn submit_one(&mut self, prepared: Prepared) -> Result<Submitted, StoreError> {
        match self.judge(prepared).await? {
            Ok(judged) => {
                let answer = self.answer(&judged)?;
                self.admit(judged).await?;
                Ok(answer)
            }
            Err(answer) => Ok(answer),
        }
    }

    /// The answer a submission would get; the step it is part of is never written (contract 2.14).
    pub async fn explain(&mut self, item: &Item) -> Result<Explanation, StoreError> {
        let prepared = match item {
            Ok(prepared) => prepared.clone(),
            Err(invalid) => {
                return Ok(Explanation {
                    submitted: Submitted::Invalid(invalid.clone()),
                    key: None,
                    holder: None,
                    admissible_at: None,
                });
            }
        };
        let judged = self.judge(prepared.clone()).await?;
        let key = match &judged {
            // A unique queue may have added one.
            Ok(judged) => judged.prepared.key.clone(),
            Err(_) => self.at_this_time(prepared).ok().and_then(|prepared| prepared.key),
        };
        let holder = match &key {
            Some(key) => self.holder(&key.digest).await?,
            None => None,
        };
        let free_at = || {
            holder
                .as_ref()
                .and_then(|head| head.life.holding.as_ref()?.free_at(&head.life))
        };
        let admissible_at = match &judged {
            Ok(judged) if matches!(judged.decision, Decision::Accept { .. }) => Some(self.now),
            Ok(_) => free_at(),
            Err(_) => None,
        };
        let shown = match &holder {
            Some(head) => {
                let spec = self.spec(&head.id).await?;
                let key = inspect::key_view(head, &spec, self.now);
                key.zip(Some(self.view(head)?)).map(|(key, view)| (view, key))
            }
            None => None,
        };
        let submitted = match judged {
            Ok(judged) => self.answer(&judged)?,
            Err(answer) => answer,
        };
        Ok(Explanation {
            submitted,
            key,
            holder: shown,
            admissible_at,
        })
    }

    /// A key with a period is made from the store's time, which the caller could only guess.
    fn at_this_time(&self, prepared: Prepared) -> Result<Prepared, Invalid> {
        match prepared.policy() {
            Some(policy) if policy.period.is_some() => {
                Prepared::new(&self.shard.namespace, prepared.submission, self.now)
            }
            _ => Ok(prepared),
        }
    }

    /// Judges a submission; an error is an answer that nothing more has to be done for.
    async fn judge(&mut self, prepared: Prepared) -> Result<Result<Judged, Submitted>, StoreError> {
        let mut prepared = match self.at_this_time(prepared) {
            Ok(prepared) => prepared,
            Err(invalid) => return Ok(Err(Submitted::Invalid(invalid))),
        };
        let token = Id::from(prepared.submission.token);
        if let Some(first) = self.answered_before(&token).await? {
            // If the first reply was lost, nobody in this process was told.
            self.signals.work = true;
            return Ok(Err(first));
        }
        let Submission { queue, task, .. } = &prepared.submission;
        if let Some(target) = self.config.closed(queue, task, self.now) {
            return Ok(Err(Submitted::Closed { target }));
        }
        if let Err(invalid) = self.config.bounded(queue, task) {
            return Ok(Err(Submitted::Invalid(invalid)));
        }
        if prepared.submission.policy == Policy::Unsaid && self.config.is_unique(queue) {
            prepared = match prepared.with_queue_policy(&self.shard.namespace, self.now) {
                Ok(prepared) => prepared,
                Err(invalid) => return Ok(Err(Submitted::Invalid(invalid))),
            };
        }
        self.decide(prepared).await.map(Ok)
    }

    async fn decide(&mut self, prepared: Prepared) -> Result<Judged, StoreError> {
        let (mut holder, mut generation) = (None, 0);
        if let Some(key) = &prepared.key {
            holder = self.holder(&key.digest).await?;
            generation = self.next_generation(&key.digest).await?;
        }
        let Submission { queue, task, .. } = &prepared.submission;
        let observe = self.config.observes(queue, task, self.now);
        let named = holder.as_ref().map(|head| self.view(head)).transpose()?;
        let met = match (&holder, &named, &prepared.key) {
            (Some(head), Some(named), Some(key)) => as_holder(head, named, key),
            _ => None,
        };
        let decision = admission::admit(&prepared, met.as_ref(), observe, self.now, generation);
        let follower = match (&decision, &holder) {
            (Decision::Defer { .. }, Some(head)) => self.follower(&head.id).await?,
            _ => None,
        };
        let collides_with = match (&decision, &prepared.key) {
            // Without a key of its own it collides with nobody.
            (Decision::Accept { life, .. }, Some(key)) if life.holding.is_some() => match &key.group {
                Some(group) => self.collision(group, &key.digest).await?,
                None => None,
            },
            _ => None,
        };
        let differs = match &decision {
            Decision::Accept { .. } => Difference::default(),
            _ => {
                self.difference(&prepared, follower.as_ref().or(holder.as_ref()))
                    .await?
            }
        };
        Ok(Judged {
            decision,
            holder,
            follower,
            collides_with,
            differs,
            prepared,
        })
    }

    /// The job that follows another.
    pub async fn follower(&mut self, followed: &Id) -> Result<Option<Head>, StoreError> {
        let slot = Slot::new(self.names().followers(), followed.0);
        match self
            .get(&slot)
            .await?
            .and_then(|bytes| bytes.try_into().ok().map(Id))
        {
            Some(id) => self.head(&id).await,
            None => Ok(None),
        }
    }

    /// The first answer to a token that was seen before, as long as the job it named is there (contract 3.5).
    pub async fn answered_before(&mut self, token: &Id) -> Result<Option<Submitted>, StoreError> {
        if let Some(head) = self.head(token).await? {
            let spec = self.spec(token).await?;
            return Ok(Some(Submitted::Job(Box::new(Admitted {
                outcome: if head.marks.deferred {
                    Outcome::Deferred
                } else {
                    Outcome::Accepted
                },
                job: self.view(&head)?,
                key: head.digest,
                would: spec.would,
                collides_with: spec.collides_with,
            }))));
        }
        let slot = Slot::token(self.names(), token);
        let Some(n) = self.get(&slot).await?.map(answer::parse).transpose()? else {
            return Ok(None);
        };
        let slot = Slot::new(self.names().ledger(Keys::page(n)), n.to_string());
        let found = self.get(&slot).await?.map(records::decode_entry).transpose()?;
        // An entry of somebody else under its number answers nothing.
        let Some((entry, _)) = found.filter(|(_, answered)| answered == token) else {
            return Ok(None);
        };
        let Some(holder) = self.shard.locate(&entry.holder) else {
            return Ok(None);
        };
        let Some(head) = self.head(&holder).await? else {
            return Ok(None);
        };
        Ok(Some(absorbed_answer(
            entry.outcome,
            self.view(&head)?,
            entry.digest,
            &entry.differs,
        )))
    }

    async fn difference(
        &mut self,
        prepared: &Prepared,
        met: Option<&Head>,
    ) -> Result<Difference, StoreError> {
        let Some((key, met)) = prepared.key.as_ref().zip(met) else {
            return Ok(Difference::default());
        };
        if met.input == Some(key.input.into()) {
            return Ok(Difference::default());
        }
        let whole = || vec![String::new()];
        if met.marks.stub {
            // The other input is gone: all that can be said is that the whole of it differs.
            return Ok(Difference {
                pointers: whole(),
                any: true,
            });
        }
        let spec = self.spec(&met.id).await?;
        let theirs = canonical::parse(spec.content.input.as_str(), Limits::default());
        let ours = canonical::parse(prepared.submission.content.input.as_str(), Limits::default());
        let pointers = match (theirs, ours) {
            (Ok(theirs), Ok(ours)) => canonical::differs(&theirs, &ours, limits::DIFFERS),
            _ => whole(),
        };
        Ok(Difference { pointers, any: true })
    }

    /// A job as a reference.
    pub fn view(&self, head: &Head) -> Result<HolderView, StoreError> {
        reference(self.names(), &self.config, head, self.now)
    }

    /// What a judged submission is answered: true once it is written.
    fn answer(&self, judged: &Judged) -> Result<Submitted, StoreError> {
        let submission = &judged.prepared.submission;
        // A follower is named like the job it follows.
        let followed = match &judged.decision {
            Decision::Defer { .. } => judged.holder.as_ref(),
            _ => None,
        };
        let trail = followed.map(|head| head.trail).unwrap_or_default();
        let fresh = |state: State| HolderView {
            id: self.names().id_of(&trail, &Id::from(submission.token)),
            task: submission.task.clone(),
            state,
            enqueued_at: self.now,
        };
        let seen = |head: &Option<Head>| head.as_ref().map(|head| self.view(head)).transpose();
        let digest = judged.prepared.key.as_ref().map(|key| key.digest);
        let (outcome, job) = match &judged.decision {
            Decision::Accept { life, would, .. } => {
                return Ok(Submitted::Job(Box::new(Admitted {
                    outcome: Outcome::Accepted,
                    job: fresh(life.state(self.now)),
                    key: digest.filter(|_| life.holding.is_some()),
                    would: would.clone(),
                    collides_with: judged.collides_with.clone(),
                })));
            }
            Decision::Absorb { outcome } => (*outcome, seen(&judged.holder)?),
            Decision::Replace { outcome, life } => {
                let state = life.state(self.now);
                (
                    *outcome,
                    seen(&judged.holder)?.map(|holder| HolderView { state, ..holder }),
                )
            }
            Decision::Defer { .. } => {
                let follower = seen(&judged.follower)?;
                (
                    Outcome::Deferred,
                    follower.or_else(|| Some(fresh(State::Deferred))),
                )
            }
        };
        let (job, digest) = job
            .zip(digest)
            .ok_or_else(|| StoreError::corrupt("absorbed without a holder"))?;
        Ok(absorbed_answer(outcome, job, digest, &judged.differs.pointers))
    }
}

/// A job as a reference.
pub fn reference(
    keys: &Keys,
    config: &Config,
    head: &Head,
    now: Timestamp,
) -> Result<HolderView, StoreError> {
    let (_, task): (Name, Name) = config.names(head.lane)?;
    Ok(HolderView {
        id: keys.id_of(&head.trail, &head.id),
        task,
        state: head.life.state(now),
        enqueued_at: head.enqueued_at,
    })
}

/// The holder of a key as core is asked about it.
pub fn as_holder<'a>(head: &'a Head, named: &'a HolderView, key: &Key) -> Option<Holder<'a>> {
    Some(Holder {
        id: &named.id,
        task: &named.task,
        enqueued_at: head.enqueued_at,
        input: head.input?.beside(key.input),
        life: &head.life,
    })
}

/// What an absorbed submission is answered.
pub fn absorbed_answer(outcome: Outcome, job: HolderView, digest: Digest, differs: &[String]) -> Submitted {
    match outcome {
        Outcome::Rejected => Submitted::Rejected { holder: job },
        Outcome::Conflict => Submitted::Conflict {
            holder: job,
            differs: differs.to_vec(),
        },
        outcome => Submitted::Job(Box::new(Admitted {
            outcome,
            job,
            key: Some(digest),
            would: None,
            collides_with: None,
        })),
    }
}
