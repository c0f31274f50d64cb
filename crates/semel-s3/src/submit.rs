//! Submissions. A key and its job are one object, so there is no moment at which a key names no job.
//!
//! A submission that is sent again finds its job in the cell of its key, by its token. Where that is not sure, the
//! object of its token comes first: it says what became of it. Created under the condition that it is not there, it
//! tells a submission that was sent before.

use std::sync::Arc;

use futures_util::FutureExt as _;
use semel_core::admission::Decision;
use semel_core::error::{Invalid, StoreError};
use semel_core::ids::{Digest, JobId, Token};
use semel_core::limits;
use semel_core::store::{Explanation, Submitted};
use semel_core::submission::{Policy, Prepared, RunAt, Submission};

use crate::bucket::Patience;
use crate::cell::{Cell, Entry, Pointer};
use crate::clock::{Moment, random};
use crate::desk::{Committed, Desk, Loaded, each, lock};
use crate::judge::{Arrived, Judged, absorb, absorbed_answer, born_answer, judge};
use crate::layout;
use crate::setup::Setup;

/// What came of writing the object of a token.
pub enum Ticket {
    /// It is written.
    Ours,
    /// The submission was answered before.
    Before(Submitted),
    /// The object was there, without an answer: the same submission may be on its way to its key. What it meets there
    /// has to be looked at after this object was; then the write over it is refused if another one came.
    Met,
}

/// The object of a token, as it was last seen by who writes it.
pub struct Asked {
    token: Token,
    ticket: Loaded,
    /// The nonces of this call.
    tried: Vec<u64>,
}

impl Asked {
    /// Nothing is known of it yet.
    pub fn new(token: Token) -> Self {
        Asked {
            token,
            ticket: Loaded::absent(layout::task(&token.to_string())),
            tried: Vec::new(),
        }
    }
}

impl Desk {
    pub async fn submit(&self, batch: Vec<Submission>) -> Result<Vec<Submitted>, StoreError> {
        limits::check_batch("submissions", batch.len())?;
        let setup = self.setup().await?;
        let setup = &*setup;
        self.tend(setup).await?;
        let moment = self.moment();
        let mut arrived = Vec::with_capacity(batch.len());
        for submission in batch {
            let arrival = self.arrival(moment.now);
            let wanders = wanders(&submission);
            let prepared = self.prepare(submission, setup, moment);
            arrived.push(prepared.map(|prepared| Arrived {
                prepared,
                arrival,
                wanders,
            }));
        }
        // What belongs together goes one after another: a token, a key, the keys of one group.
        let route = |arrived: &Result<Arrived, Refused>| match arrived {
            Ok(arrived) => match &arrived.prepared.key {
                Some(key) => key.group.unwrap_or(key.digest).to_string(),
                None => arrived.submission().token.to_string(),
            },
            Err(_) => String::new(),
        };
        each(arrived, route, |arrived| {
            async move {
                match arrived {
                    Ok(arrived) => self.admit(arrived, setup).await,
                    Err(refused) => self.refuse(refused, setup).await,
                }
            }
            .boxed()
        })
        .await
    }

    /// Checks a submission and gives it the policy of its queue.
    fn prepare(&self, submission: Submission, setup: &Setup, moment: Moment) -> Result<Prepared, Refused> {
        let token = submission.token;
        let now = moment.now;
        let prepared = Prepared::new(&self.namespace, submission, now).map_err(|invalid| Refused {
            token: None,
            key: None,
            answer: Box::new(Submitted::Invalid(invalid)),
        })?;
        let key = prepared.key.as_ref().map(|key| key.digest);
        let refused = |answer| Refused {
            token: Some(token),
            key,
            answer: Box::new(answer),
        };
        let Submission { queue, task, .. } = &prepared.submission;
        if let Some(target) = setup.closed(queue, task, now) {
            return Err(refused(Submitted::Closed { target }));
        }
        self.check_bounds(&prepared.submission)
            .map_err(|invalid| refused(Submitted::Invalid(invalid)))?;
        if prepared.submission.policy == Policy::Unsaid && setup.is_unique(queue) {
            return prepared
                .with_queue_policy(&self.namespace, now)
                .map_err(|invalid| refused(Submitted::Invalid(invalid)));
        }
        Ok(prepared)
    }

    fn check_bounds(&self, submission: &Submission) -> Result<(), Invalid> {
        let queues = lock(&self.queues);
        if queues.len() >= limits::QUEUES && !queues.contains(&submission.queue) {
            return Err(Invalid::new(
                "queue",
                format!("at most {} queues", limits::QUEUES),
            ));
        }
        drop(queues);
        let tasks = lock(&self.tasks);
        if tasks.len() >= limits::TASKS && !tasks.contains(&submission.task) {
            return Err(Invalid::new("task", format!("at most {} tasks", limits::TASKS)));
        }
        Ok(())
    }

    /// Remembers that a queue and a task are in use. Says what is wrong if they are too many by now.
    async fn know(&self, submission: &Submission) -> Result<Option<Invalid>, StoreError> {
        if let Err(invalid) = self.check_bounds(submission) {
            return Ok(Some(invalid));
        }
        let fresh = lock(&self.queues).insert(submission.queue.clone());
        if fresh {
            self.bucket
                .put(&layout::queue(&submission.queue), Vec::new())
                .await?;
        }
        let fresh = lock(&self.tasks).insert(submission.task.clone());
        if fresh {
            self.bucket
                .put(&layout::kind_of_work(&submission.task), Vec::new())
                .await?;
        }
        Ok(None)
    }

    /// A submission that was answered before gets that answer, whatever is closed by now.
    async fn refuse(&self, refused: Refused, setup: &Setup) -> Result<Submitted, StoreError> {
        let Some(token) = refused.token else {
            return Ok(*refused.answer);
        };
        let before = self.answered(token, refused.key, setup).await?;
        Ok(before.unwrap_or(*refused.answer))
    }

    /// The first answer to a token, looked for wherever it may be.
    async fn answered(
        &self,
        token: Token,
        key: Option<Digest>,
        setup: &Setup,
    ) -> Result<Option<Submitted>, StoreError> {
        let ticket = self.read(&layout::task(&token.to_string())).await?;
        if let Some(answer) = self.before(token, &ticket, setup).await? {
            return Ok(Some(answer));
        }
        let Some(digest) = key else { return Ok(None) };
        match self.read(&layout::key_cell(digest)).await?.base {
            Some((_, cell)) => self.answer_in(&cell, token, setup).await,
            None => Ok(None),
        }
    }

    /// The first answer to a token that was seen before, as long as the job it named is there (contract 3.5).
    pub async fn before(
        &self,
        token: Token,
        ticket: &Loaded,
        setup: &Setup,
    ) -> Result<Option<Submitted>, StoreError> {
        let Some((_, own)) = &ticket.base else {
            return Ok(None);
        };
        match &own.points_to {
            Some(pointer) => {
                let there = self.read(&pointer.cell).await?;
                if let Some((_, cell)) = &there.base {
                    if let Some(answer) = self.answer_in(cell, token, setup).await? {
                        return Ok(Some(answer));
                    }
                    let moved = own.jobs.iter().find(|job| cell.lets_count(&job.spec.id, own));
                    if let Some(job) = moved.filter(|job| !setup.is_void(job)) {
                        return Ok(Some(born_answer(job, self.moment().now)));
                    }
                }
            }
            None => {
                if let Some(answer) = self.answer_in(own, token, setup).await? {
                    return Ok(Some(answer));
                }
            }
        }
        let Some(entry) = newest(own, token) else {
            return Ok(None);
        };
        let key = self.read(&layout::key_cell(entry.digest)).await?;
        match key.base {
            Some((_, cell)) => self.entry_answer(&cell, entry, setup).await,
            None => Ok(None),
        }
    }

    /// The answer a cell has for a token.
    async fn answer_in(
        &self,
        cell: &Cell,
        token: Token,
        setup: &Setup,
    ) -> Result<Option<Submitted>, StoreError> {
        let made = cell
            .jobs
            .iter()
            .find(|job| layout::is_made_by(&job.spec.id, token));
        if let Some(job) = made.filter(|job| !setup.is_void(job)) {
            return Ok(Some(born_answer(job, self.moment().now)));
        }
        match newest(cell, token) {
            Some(entry) => self.entry_answer(cell, entry, setup).await,
            None => Ok(None),
        }
    }

    async fn entry_answer(
        &self,
        cell: &Cell,
        entry: &Entry,
        setup: &Setup,
    ) -> Result<Option<Submitted>, StoreError> {
        let holder = match cell.find(&entry.holder) {
            Some(holder) => Some(holder.clone()),
            None => {
                let key = layout::key_cell(entry.digest);
                let copy = self.copy_of(&entry.holder, &key, cell).await?;
                copy.and_then(|copy| copy.find(&entry.holder).cloned())
            }
        };
        let Some(holder) = holder.filter(|holder| !setup.is_void(holder)) else {
            return Ok(None);
        };
        let view = holder.holder_view(self.moment().now);
        Ok(Some(absorbed_answer(
            entry.outcome,
            view,
            entry.digest,
            &entry.differs,
        )))
    }

    async fn admit(&self, arrived: Arrived, setup: &Setup) -> Result<Submitted, StoreError> {
        match &arrived.prepared.key {
            Some(key) => {
                let name = layout::key_cell(key.digest);
                self.admit_keyed(name, arrived, setup).await
            }
            None => {
                let mut asked = Asked::new(arrived.submission().token);
                let mut patience = Patience::new();
                loop {
                    let judged = judge(&Cell::default(), &arrived, setup, None, self.moment());
                    if let Some(answer) = self.admit_alone(judged, &arrived, &mut asked, setup).await? {
                        return Ok(answer);
                    }
                    patience.again("submitting").await?;
                }
            }
        }
    }

    /// A job without a key: its own object is its cell. Nothing, where that has to be decided again.
    async fn admit_alone(
        &self,
        judged: Judged,
        arrived: &Arrived,
        asked: &mut Asked,
        setup: &Setup,
    ) -> Result<Option<Submitted>, StoreError> {
        if let Some(invalid) = self.know(arrived.submission()).await? {
            return Ok(Some(Submitted::Invalid(invalid)));
        }
        let moment = self.moment();
        let answer = judged.answer(arrived, moment.now);
        let mut whole = Cell::default();
        judged.apply(&mut whole, arrived, setup, moment);
        let written = self
            .write_ticket(asked, None, setup, |cell| {
                cell.points_to = None;
                cell.jobs.extend(whole.jobs.iter().cloned());
                for tally in &whole.counts {
                    for counter in tally.counts.keys() {
                        cell.count(&tally.lane, *counter);
                    }
                }
            })
            .await?;
        Ok(match written {
            Ticket::Ours => Some(answer),
            Ticket::Before(answer) => Some(answer),
            Ticket::Met => None,
        })
    }

    async fn admit_keyed(
        &self,
        name: String,
        arrived: Arrived,
        setup: &Setup,
    ) -> Result<Submitted, StoreError> {
        let token = arrived.submission().token;
        let mut tried: Vec<(u64, Submitted)> = Vec::new();
        let mut patience = Patience::new();
        let mut known = false;
        let mut asked = Asked::new(token);
        let mut turn = Some(self.turn(&name).await);
        let mut just_read = false;
        loop {
            let loaded = match std::mem::take(&mut just_read) {
                true => self.recall(&name).await?,
                false => self.read(&name).await?,
            };
            if let Some((_, cell)) = &loaded.base {
                let ours = tried.iter().find(|(nonce, _)| cell.was_written_by(*nonce));
                if let Some((_, answer)) = ours {
                    return Ok(answer.clone());
                }
                if let Some(answer) = self.answer_in(cell, token, setup).await? {
                    return Ok(answer);
                }
            }
            let collision = self.collision(&arrived, setup).await?;
            let moment = self.moment();
            let mut cell = loaded.cell();
            cell.void(setup, moment);
            cell.expire(moment);
            let judged = judge(&cell, &arrived, setup, collision.as_ref(), moment);
            let answer = judged.answer(&arrived, moment.now);
            if !known {
                if let Some(invalid) = self.know(arrived.submission()).await? {
                    return Ok(Submitted::Invalid(invalid));
                }
                known = true;
            }
            match &judged.decision {
                Decision::Absorb { outcome } => {
                    let outcome = *outcome;
                    drop(turn.take());
                    let written = self
                        .write_ticket(&mut asked, None, setup, |cell| {
                            cell.points_to = None;
                            let met = judged.holder.as_ref();
                            absorb(cell, &arrived, outcome, met, &judged.differs, moment.now);
                        })
                        .await?;
                    match written {
                        Ticket::Ours => return Ok(answer),
                        Ticket::Before(answer) => return Ok(answer),
                        Ticket::Met => {
                            patience.again("submitting").await?;
                            continue;
                        }
                    }
                }
                Decision::Accept { life, .. } if life.holding.is_none() => {
                    drop(turn.take());
                    if let Some(answer) = self.admit_alone(judged, &arrived, &mut asked, setup).await? {
                        return Ok(answer);
                    }
                    patience.again("submitting").await?;
                    continue;
                }
                _ => {}
            }
            // Into a cell that nobody has written nothing was absorbed: there this submission is new, if its key is the
            // same whenever it is sent. Elsewhere its token is asked, which may have been answered before.
            if loaded.base.is_some() || arrived.wanders {
                let pointed = self
                    .write_ticket(&mut asked, Some(&name), setup, |cell| {
                        cell.points_to = Some(Pointer {
                            cell: name.clone(),
                            at: moment.now,
                        });
                    })
                    .await?;
                if let Ticket::Before(answer) = pointed {
                    return Ok(answer);
                }
            }
            self.join_group(&arrived, &judged).await?;
            judged.apply(&mut cell, &arrived, setup, moment);
            let nonce = random();
            tried.push((nonce, answer.clone()));
            if let Committed::Done(stale) = self.commit(&loaded, cell, nonce, moment).await? {
                self.sweep(stale).await;
                return Ok(answer);
            }
            just_read = true;
            if tried.len() > 2 {
                just_read = false;
                patience.again("submitting").await?;
            }
        }
    }

    /// Writes the object of a token, unless that submission was answered before. With `points`, its caller goes on to
    /// that cell, which it has read before, and found without an answer.
    pub async fn write_ticket(
        &self,
        asked: &mut Asked,
        points: Option<&str>,
        setup: &Setup,
        change: impl Fn(&mut Cell),
    ) -> Result<Ticket, StoreError> {
        let name = asked.ticket.name.clone();
        let mut patience = Patience::new();
        loop {
            if asked.ticket.is_closed() {
                patience.again("waiting for an object to go").await?;
                asked.ticket = self.read(&name).await?;
                continue;
            }
            let moment = self.moment();
            let mut cell = asked.ticket.cell();
            cell.void(setup, moment);
            change(&mut cell);
            let nonce = random();
            asked.tried.push(nonce);
            if let Committed::Done(stale) = self.commit(&asked.ticket, cell, nonce, moment).await? {
                self.sweep(stale).await;
                return Ok(Ticket::Ours);
            }
            // Just read back.
            asked.ticket = self.recall(&name).await?;
            let Some((_, own)) = &asked.ticket.base else {
                continue;
            };
            if own.was_written_by(nonce) {
                return Ok(Ticket::Ours);
            }
            let points_there = own.points_to.as_ref().map(|pointer| pointer.cell.as_str()) == points;
            let is_bare = own.jobs.is_empty() && own.entries.is_empty();
            if !(is_bare && points.is_some() && points_there)
                && let Some(answer) = self.before(asked.token, &asked.ticket, setup).await?
            {
                return Ok(Ticket::Before(answer));
            }
            if points.is_none() {
                return Ok(Ticket::Met);
            }
            if asked.tried.len() > 1 {
                patience.again("submitting").await?;
            }
        }
    }

    /// The oldest holder of a hybrid key with the same fields and another input (contract 2.1).
    async fn collision(&self, arrived: &Arrived, setup: &Setup) -> Result<Option<JobId>, StoreError> {
        let Some((digest, group)) = arrived
            .prepared
            .key
            .as_ref()
            .and_then(|key| Some((key.digest, key.group?)))
        else {
            return Ok(None);
        };
        let listed = self.bucket.list(&layout::group(group), None, usize::MAX).await?;
        let others = listed.iter().filter_map(|one| {
            let other = one.name.rsplit('/').next()?.parse().ok()?;
            (digest != other).then_some(other)
        });
        let mut oldest = None;
        for other in others {
            let loaded = self.read(&layout::key_cell(other)).await?;
            let moment = self.moment();
            let mut cell = loaded.cell();
            cell.void(setup, moment);
            cell.expire(moment);
            if let Some(holder) = cell.holder(moment.now) {
                let found = (holder.arrival, holder.spec.id.clone());
                oldest = Some(oldest.map_or(found.clone(), |oldest: (_, JobId)| oldest.min(found)));
            }
        }
        Ok(oldest.map(|(_, id)| id))
    }

    /// A hybrid key is found by its fields before it is taken.
    async fn join_group(&self, arrived: &Arrived, judged: &Judged) -> Result<(), StoreError> {
        let Some((digest, group)) = arrived
            .prepared
            .key
            .as_ref()
            .and_then(|key| Some((key.digest, key.group?)))
        else {
            return Ok(());
        };
        match &judged.decision {
            Decision::Accept { .. } | Decision::Defer { .. } => {
                self.bucket
                    .put(&layout::in_group(group, digest), Vec::new())
                    .await
            }
            _ => Ok(()),
        }
    }

    /// The answer a submission would get. Writes nothing (contract 2.14).
    pub async fn explain(&self, submission: Submission) -> Result<Explanation, StoreError> {
        let setup: Arc<Setup> = self.setup().await?;
        let moment = self.moment();
        let now = moment.now;
        let token = submission.token;
        let wanders = wanders(&submission);
        let mut key = Prepared::new(&self.namespace, submission.clone(), now)
            .ok()
            .and_then(|it| it.key);
        let prepared = self.prepare(submission, &setup, moment);
        let refused = prepared.as_ref().err().and_then(|refused| refused.token);
        let before = match (&prepared, refused) {
            (Err(_), None) => None,
            (Ok(Prepared { key: asked, .. }), _) => {
                let digest = asked.as_ref().or(key.as_ref()).map(|key| key.digest);
                self.answered(token, digest, &setup).await?
            }
            _ => {
                let digest = key.as_ref().map(|key| key.digest);
                self.answered(token, digest, &setup).await?
            }
        };
        let judged = match (prepared, before) {
            (_, Some(before)) => Err(before),
            (Err(refused), None) => Err(*refused.answer),
            (Ok(prepared), None) => {
                // A unique queue may have added one.
                key = prepared.key.clone();
                let arrival = Default::default();
                Ok(Arrived {
                    prepared,
                    arrival,
                    wanders,
                })
            }
        };
        let mut cell = match &key {
            Some(key) => self.read(&layout::key_cell(key.digest)).await?.cell(),
            None => Cell::default(),
        };
        cell.void(&setup, moment);
        cell.expire(moment);
        let judged = match judged {
            Ok(arrived) => {
                let collision = self.collision(&arrived, &setup).await?;
                let judged = judge(&cell, &arrived, &setup, collision.as_ref(), moment);
                Ok((judged, arrived))
            }
            Err(answer) => Err(answer),
        };
        let holder = key.as_ref().and_then(|_| cell.holder(now));
        let admissible_at = match &judged {
            Ok((judged, _)) if matches!(judged.decision, Decision::Accept { .. }) => Some(now),
            Ok(_) => holder.and_then(|it| it.life.holding.as_ref()?.free_at(&it.life)),
            Err(_) => None,
        };
        Ok(Explanation {
            submitted: judged.map_or_else(|answer| answer, |(judged, arrived)| judged.answer(&arrived, now)),
            key,
            holder: holder.and_then(|it| Some((it.holder_view(now), it.key_view(now)?))),
            admissible_at,
        })
    }
}

fn newest(cell: &Cell, token: Token) -> Option<&Entry> {
    let entries = cell
        .entries
        .iter()
        .filter(|entry| entry.token == token && entry.by_token);
    entries.max_by_key(|entry| entry.arrival)
}

/// Whether a submission may have another key when it is sent again.
fn wanders(submission: &Submission) -> bool {
    match &submission.policy {
        Policy::Unsaid => true,
        Policy::None => false,
        Policy::Dedup(policy) => policy.period.is_some() && !matches!(submission.run_at, RunAt::At(_)),
    }
}

/// A submission that is not taken.
struct Refused {
    /// Set where an earlier answer goes before this one.
    token: Option<Token>,
    key: Option<Digest>,
    answer: Box<Submitted>,
}
