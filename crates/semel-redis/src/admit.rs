//! What becomes of a judged submission is written here: key, job and queue position in one step (contract 2.9).

use semel_core::admission::{self, Decision};
use semel_core::counters::Counter;
use semel_core::error::StoreError;
use semel_core::ids::JobId;
use semel_core::job::{Life, Outcome, Would};
use semel_core::limits;
use semel_core::submission::{Prepared, Submission};
use semel_core::time::Timestamp;
use semel_core::view::LedgerEntry;

use crate::head::{Head, Marks};
use crate::jobs::score;
use crate::keys::{Id, Keys};
use crate::name::Trail;
use crate::records::{self, KeyWords, Spec};
use crate::route;
use crate::submit::{Difference, Judged};
use crate::tx::{Slot, Tx};

/// What a new job carries beside its submission.
#[derive(Default)]
struct Birth {
    would: Option<Would>,
    collides_with: Option<JobId>,
    follows: Option<Head>,
}

impl Tx<'_> {
    /// Writes a judged submission.
    pub async fn admit(&mut self, judged: Judged) -> Result<(), StoreError> {
        let Judged {
            prepared,
            decision,
            holder,
            follower,
            collides_with,
            differs,
        } = judged;
        let Submission { queue, task, .. } = &prepared.submission;
        let lane = self.lane(queue, task);
        match decision {
            Decision::Accept {
                life,
                would,
                takes_over,
            } => {
                self.count(lane, Counter::Accepted);
                if would.is_some() {
                    self.count(lane, Counter::Observed);
                }
                if collides_with.is_some() {
                    self.count(lane, Counter::Collisions);
                }
                if let Some(holder) = holder.filter(|_| takes_over) {
                    self.let_go(&holder).await?;
                }
                let birth = Birth {
                    would,
                    collides_with,
                    follows: None,
                };
                self.begin_job(lane, prepared, *life, birth).await
            }
            Decision::Absorb { outcome } => {
                self.absorb(lane, &prepared, outcome, holder.as_ref(), differs)
                    .await
            }
            Decision::Replace { outcome, life } => {
                self.absorb(lane, &prepared, outcome, holder.as_ref(), differs)
                    .await?;
                self.take_over_content(prepared, holder, *life).await
            }
            Decision::Defer { life } if follower.is_some() => {
                self.absorb(lane, &prepared, Outcome::Deferred, follower.as_ref(), differs)
                    .await?;
                let own = follower
                    .as_ref()
                    .map(|head| admission::replaced(&prepared, &head.life, life.run_at));
                self.take_over_content(prepared, follower, own.unwrap_or(*life))
                    .await
            }
            Decision::Defer { life } => {
                self.absorb(lane, &prepared, Outcome::Deferred, holder.as_ref(), differs)
                    .await?;
                let birth = Birth {
                    follows: holder,
                    ..Birth::default()
                };
                self.begin_job(lane, prepared, *life, birth).await
            }
        }
    }

    /// Counts an absorbed submission and writes it into the ledger.
    async fn absorb(
        &mut self,
        lane: u32,
        prepared: &Prepared,
        outcome: Outcome,
        named: Option<&Head>,
        differs: Difference,
    ) -> Result<(), StoreError> {
        if let Some(counter) = Counter::of_outcome(outcome) {
            self.count(lane, counter);
        }
        let Some(named) = named else { return Ok(()) };
        let keys = self.names();
        let Some(entry) = entry(keys, self.now, prepared, outcome, named, differs) else {
            return Ok(());
        };
        let n = self.next_entry().await?;
        let (entry, token) = (LedgerEntry { n, ..entry }, Id::from(prepared.submission.token));
        let page = Keys::page(n);
        let digest = entry.digest.as_bytes().to_vec();
        // Where the server has lost that a number was drawn, it gives it to somebody else too.
        self.set_new(
            Slot::new(keys.ledger(page), n.to_string()),
            records::encode_entry(&entry, &token),
        );
        self.run("ZADD", keys.ledger_pages(), vec![score(page), score(page)]);
        self.run("RPUSH", keys.ledger_of(&entry.digest), vec![score(n)]);
        self.run("SADD", keys.touched(), vec![digest]);
        self.add(keys.meta(), "entries".to_owned(), 1);
        // A new follower is found under its token itself, and with it the token is forgotten.
        if outcome != Outcome::Deferred || named.follows.is_some() {
            self.set(Slot::new(keys.tokens(), token.0), score(n));
        }
        Ok(())
    }

    /// Puts the content of a newer submission into a job (contract 2.5, `replace`).
    async fn take_over_content(
        &mut self,
        prepared: Prepared,
        job: Option<Head>,
        life: Life,
    ) -> Result<(), StoreError> {
        let Some(before) = job else { return Ok(()) };
        let mut spec = self.spec(&before.id).await?;
        spec.content = prepared.submission.content;
        self.set(Slot::spec(self.names(), &before.id), spec.encode());
        let after = Head {
            life,
            input: prepared.key.map(|key| key.input.into()).or(before.input),
            ..before.clone()
        };
        self.put(&before, after).await?;
        Ok(())
    }

    /// A new job, with its key.
    async fn begin_job(
        &mut self,
        lane: u32,
        prepared: Prepared,
        life: Life,
        birth: Birth,
    ) -> Result<(), StoreError> {
        let deferred = birth.follows.is_some();
        let keyed = prepared.key.is_some() && (life.holding.is_some() || deferred);
        let trail = Trail {
            // Jobs that are related are named alike.
            named: birth.follows.as_ref().and_then(|followed| followed.trail.named),
            slot: route::carried(&self.shard.namespace, &prepared, keyed),
        };
        let followed = birth.follows.map(|followed| followed.id);
        let Prepared { submission, key } = prepared;
        let key = key.filter(|_| life.holding.is_some() || deferred);
        let generation = life.holding.as_ref().map(|holding| holding.generation);
        let head = Head {
            id: Id::from(submission.token),
            version: 0,
            lane,
            seq: self.next_seq().await?,
            enqueued_at: self.now,
            life,
            marks: Marks {
                deferred,
                ..Marks::default()
            },
            digest: key.as_ref().map(|key| key.digest),
            group: key.as_ref().and_then(|key| key.group),
            input: key.as_ref().map(|key| key.input.into()),
            origin: None,
            follows: followed,
            replayed_as: None,
            worker: None,
            trail,
        };
        let spec = Spec {
            content: submission.content,
            producer: submission.producer,
            key: key.as_ref().map(KeyWords::of),
            replayed_from: None,
            would: birth.would,
            collides_with: birth.collides_with,
        };
        self.insert(head.clone(), &spec).await?;
        if let Some(followed) = followed {
            self.set(
                Slot::new(self.names().followers(), followed.0),
                head.id.0.to_vec(),
            );
        }
        match generation {
            Some(generation) => self.own(&head, generation).await,
            None => self.know_key(&head).await,
        }
    }
}

/// The record of an absorbed submission, without its number. None if it has no key.
pub fn entry(
    keys: &Keys,
    now: Timestamp,
    prepared: &Prepared,
    outcome: Outcome,
    named: &Head,
    differs: Difference,
) -> Option<LedgerEntry> {
    let (key, policy) = prepared.key.as_ref().zip(prepared.policy())?;
    let submission = &prepared.submission;
    let input = &submission.content.input;
    let kept = differs.any && input.as_str().len() <= limits::LEDGER_INPUT_BYTES;
    Some(LedgerEntry {
        n: 0,
        at: now,
        outcome,
        digest: key.digest,
        holder: keys.id_of(&named.trail, &named.id),
        task: submission.task.clone(),
        queue: submission.queue.clone(),
        producer: submission.producer.clone(),
        policy: policy.on_duplicate.word().to_owned(),
        differs: differs.pointers,
        input: kept.then(|| input.clone()),
    })
}
