//! The few ways in which a step writes jobs. They keep every index right, let a follower follow, and tell who waits.

use redis::Value;

use semel_core::admission;
use semel_core::counters::Counter;
use semel_core::error::StoreError;
use semel_core::ids::{Digest, Name};
use semel_core::job::{Life, Phase};
use semel_core::lifecycle::{self, AttemptEnd};
use semel_core::store::log_feed;
use semel_core::view::JobError;

use crate::claim::batch_of;
use crate::head::{self, Head, Held};
use crate::keys::{self, Id, Keys, LAPSE_SPAN};
use crate::link::answer;
use crate::records::{self, Claim, Spec};
use crate::tx::{Slot, Tx};

/// Leases looked at by one step, so that no step is long.
pub const RESCUE: usize = 1_000;

/// Where a job is found without looking at all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Spot {
    None,
    Ready(i8, i64),
    Leased(i64),
    Ended(bool, i64),
    Stub(Option<i64>),
}

impl Spot {
    fn of(head: &Head) -> Self {
        let life = &head.life;
        match life.phase {
            Phase::Waiting => Spot::Ready(life.priority, life.run_at.as_millis()),
            Phase::Running => life
                .until
                .map_or(Spot::None, |until| Spot::Leased(until.as_millis())),
            Phase::Deferred | Phase::Parked => Spot::None,
            phase => {
                let at = life.finished_at.unwrap_or_default().as_millis();
                match head.held() {
                    Held::Always if head.marks.stub => Spot::Stub(None),
                    Held::Until(until) if head.marks.stub => Spot::Stub(Some(until.as_millis())),
                    _ => Spot::Ended(phase == Phase::Complete, at),
                }
            }
        }
    }
}

/// Jobs whose leases are watched together under a member of their own, or one job.
pub type Watched = (Option<Vec<u8>>, Vec<Id>);

/// Phases that few jobs are in and that people ask for.
pub fn is_rare(phase: Phase) -> bool {
    matches!(
        phase,
        Phase::Deferred | Phase::Parked | Phase::Failed | Phase::Cancelled
    )
}

/// The numbers that a job counts in: keys and fields.
pub fn tallies(keys: &Keys, lane: u32, phase: Option<Phase>, held: Held) -> Vec<(String, String)> {
    let mut tallies = Vec::with_capacity(3);
    tallies.extend(phase.map(|phase| (keys.counts(), format!("{lane}.p{}", phase as usize))));
    match held {
        Held::No => {}
        Held::Always => tallies.push((keys.counts(), format!("{lane}.h"))),
        Held::Until(moment) => {
            let span = moment.as_millis() / LAPSE_SPAN;
            tallies.push((keys.lapses(), format!("{lane}:{span}")));
            tallies.push((keys.lapse(span), format!("{lane}:{}", moment.as_millis())));
        }
    }
    tallies
}

/// Fields that count jobs as accepted and waiting in one: those without a key that is held until something is written,
/// and those with one, which is counted too.
pub fn born_fields(lane: u32) -> [String; 2] {
    [format!("{lane}.b"), format!("{lane}.k")]
}

/// The numbers that a job counts in which is accepted and waits.
pub fn born_tallies(keys: &Keys, lane: u32, held: Held) -> Vec<(String, String)> {
    let [plain, keyed] = born_fields(lane);
    let mut born = match held {
        Held::Always => vec![(keys.counts(), keyed)],
        Held::No | Held::Until(_) => vec![(keys.counts(), plain)],
    };
    if matches!(held, Held::Until(_)) {
        born.extend(tallies(keys, lane, None, held));
    }
    born
}

/// A job's member in the order of dispatch: arrival first.
pub fn ready_member(head: &Head) -> Vec<u8> {
    member(head.seq, &head.id).to_vec()
}

/// An arrival and the job that arrived.
pub fn member(seq: i64, id: &Id) -> [u8; 24] {
    let mut member = [0; 24];
    member[..8].copy_from_slice(&seq.to_be_bytes());
    member[8..].copy_from_slice(&id.0);
    member
}

/// A job by itself in its chunk of the order of arrival, of whose number the chunk says the rest: what a member ends with.
pub fn arrival(seq: i64, id: &Id) -> Vec<u8> {
    member(seq, id)[ARRIVAL..].to_vec()
}

/// Where in a member the part begins that a chunk has of it.
const ARRIVAL: usize = 7;
/// Bytes of each job that arrived together with others: as in a pack, one byte of its number more than it needs.
const TOGETHER: usize = 18;

/// Arrivals and jobs of an entry in a chunk: one job, or several that came together.
pub fn parse_arrivals(chunk: i64, entry: &[u8]) -> Option<Vec<(i64, Id)>> {
    let one = |arrival: &[u8]| {
        let (place, id) = arrival.split_first()?;
        Some((Keys::arrival(chunk, *place), Id(id.try_into().ok()?)))
    };
    match entry.as_chunks::<TOGETHER>() {
        (together, []) => together.iter().map(|job| one(&job[1..])).collect(),
        _ => one(entry).map(|job| vec![job]),
    }
}

/// The arrival and the job of a member.
pub fn parse_member(member: &[u8]) -> Option<(i64, Id)> {
    let (seq, id) = member.split_first_chunk::<8>()?;
    Some((i64::from_be_bytes(*seq), Id(id.try_into().ok()?)))
}

/// A score as Redis takes it.
pub fn score(number: i64) -> Vec<u8> {
    number.to_string().into_bytes()
}

/// What was found of a job, or nothing if it is damaged: one such record does not keep the others from being worked on
/// (contract 9.5). The doctor tells of it.
pub fn unless_damaged<T>(id: &Id, found: Result<Option<T>, StoreError>) -> Result<Option<T>, StoreError> {
    match found {
        Err(StoreError::Corrupt { what }) => {
            leave_out(&keys::hex(&id.0), &what);
            Ok(None)
        }
        found => found,
    }
}

/// The same of a record that belongs to no job.
pub fn sound<T>(place: &str, found: Result<T, StoreError>) -> Option<T> {
    found
        .inspect_err(|error| leave_out(place, &error.to_string()))
        .ok()
}

fn leave_out(place: &str, what: &str) {
    tracing::warn!(
        place,
        what,
        "a damaged record is left out; `semel doctor` tells which there are"
    );
}

impl Tx<'_> {
    // Reading.

    /// The heads of jobs, read at once if they are not known yet.
    pub async fn load_heads(&mut self, ids: impl IntoIterator<Item = Id>) -> Result<(), StoreError> {
        let keys = self.names();
        let ids: Vec<Id> = ids.into_iter().collect();
        self.load(ids.iter().map(|id| Slot::head(keys, id)).collect())
            .await?;
        let mut unborn = Vec::new();
        for id in ids {
            if self.get(&Slot::head(keys, &id)).await?.is_none() {
                unborn.push(Slot::spec(keys, &id));
            }
        }
        self.load(unborn).await
    }

    /// A job, even if its queue was removed.
    pub async fn stored(&mut self, id: &Id) -> Result<Option<Head>, StoreError> {
        let keys = self.names();
        let (head, spec) = (Slot::head(keys, id), Slot::spec(keys, id));
        let found = self.head_of(id, &head, &spec).await;
        if !matches!(found, Err(StoreError::Corrupt { .. })) {
            return found;
        }
        // The two may have been read at two moments, between which it was written.
        self.read_again(&[head.clone(), spec.clone()]).await?;
        self.head_of(id, &head, &spec).await
    }

    async fn head_of(&mut self, id: &Id, head: &Slot, spec: &Slot) -> Result<Option<Head>, StoreError> {
        let head = self.get(head).await?.map(<[u8]>::to_vec);
        if head.as_ref().is_some_and(|bytes| !head::is_short(bytes)) {
            return Head::read(*id, head.as_deref(), None);
        }
        // Nothing has happened to it since it was born, if it was, or nothing that touches more than its turn.
        self.rests_on(spec.clone());
        Head::read(*id, head.as_deref(), self.get(spec).await?)
    }

    /// A job; none if its queue was removed.
    pub async fn head(&mut self, id: &Id) -> Result<Option<Head>, StoreError> {
        let head = self.stored(id).await?;
        Ok(head.filter(|head| self.config.live(head.lane).is_some()))
    }

    /// A job; none if its queue was removed, or if what is kept of it is damaged.
    pub async fn sound_head(&mut self, id: &Id) -> Result<Option<Head>, StoreError> {
        let head = self.head(id).await;
        unless_damaged(id, head)
    }

    /// What a job is.
    pub async fn spec(&mut self, id: &Id) -> Result<Spec, StoreError> {
        let slot = Slot::spec(self.names(), id);
        match self.get(&slot).await? {
            Some(bytes) => Spec::decode(bytes),
            None => Err(StoreError::corrupt("a job without its content")),
        }
    }

    /// Queue and task of a job.
    pub fn lane_names(&self, head: &Head) -> Result<(Name, Name), StoreError> {
        self.config.names(head.lane)
    }

    // Writing.

    /// A new job.
    pub async fn insert(&mut self, head: Head, spec: &Spec) -> Result<(), StoreError> {
        if let Some(void) = self.stored(&head.id).await? {
            // It was removed with its queue and not swept yet.
            self.erase(&void).await?;
        }
        let keys = self.names();
        self.set(Slot::spec(keys, &head.id), spec.encode());
        let chunk = Keys::chunk(head.seq);
        self.run("RPUSH", keys.order(chunk), vec![arrival(head.seq, &head.id)]);
        self.run("ZADD", keys.chunks(), vec![score(chunk), score(chunk)]);
        if let Some(origin) = head.origin {
            self.run(
                "ZADD",
                keys.chain(&origin),
                vec![score(head.seq), head.id.0.to_vec()],
            );
        }
        self.enter(&head);
        self.set(Slot::head(keys, &head.id), head.encode());
        Ok(())
    }

    /// A job moves on; where that is an end, its follower takes its turn in the same step.
    pub async fn put(&mut self, before: &Head, after: Head) -> Result<Head, StoreError> {
        let after = self.replace(before, after).await?;
        if after.life.phase.is_terminal() && !before.life.phase.is_terminal() {
            self.promote_follower(&after.id).await?;
        }
        Ok(after)
    }

    /// [`Tx::put`] without letting a follower follow.
    async fn replace(&mut self, before: &Head, mut after: Head) -> Result<Head, StoreError> {
        if after.life.phase != Phase::Deferred {
            self.stop_following(&mut after).await?;
        }
        after.version = before.version.wrapping_add(1);
        self.shift(before, &after);
        self.set(Slot::head(self.names(), &after.id), after.encode());
        Ok(after)
    }

    /// A job follows no more; another may have come in its place.
    async fn stop_following(&mut self, head: &mut Head) -> Result<(), StoreError> {
        let Some(followed) = head.follows.take() else {
            return Ok(());
        };
        let slot = Slot::new(self.names().followers(), followed.0);
        if self.get(&slot).await? == Some(&head.id.0) {
            self.unset(slot);
        }
        Ok(())
    }

    /// A job's next life.
    pub async fn advance(&mut self, before: &Head, life: Life) -> Result<Head, StoreError> {
        let after = Head {
            life,
            ..before.clone()
        };
        self.put(before, after).await
    }

    /// A job lets go of its key for good, without anybody following.
    pub async fn let_go(&mut self, head: &Head) -> Result<Head, StoreError> {
        self.advance(head, lifecycle::let_go(&head.life)).await
    }

    /// Notes a delivery that has ended; its error, if it has one, is the job's newest.
    pub fn close_attempt(&mut self, head: &mut Head, end: &AttemptEnd) {
        let keys = self.names();
        if let Some(message) = &end.error {
            let error = JobError {
                message: message.clone(),
                at: end.ended_at,
                attempt: end.attempt,
            };
            self.set(Slot::part(keys.errors(), &head.id), records::encode_error(&error));
            head.marks.error = true;
        }
        let line = records::encode_attempt(end, head.worker.as_ref());
        self.run("RPUSH", keys.attempts(&head.id), vec![line]);
        head.marks.attempts = true;
    }

    /// The follower of a job that ended, let go or is gone waits its turn from now on; it takes the key, unless
    /// somebody else has it by now.
    pub async fn promote_follower(&mut self, predecessor: &Id) -> Result<(), StoreError> {
        let slot = Slot::new(self.names().followers(), predecessor.0);
        let Some(follower) = self
            .get(&slot)
            .await?
            .and_then(|bytes| bytes.try_into().ok().map(Id))
        else {
            return Ok(());
        };
        self.unset(slot);
        let Some(before) = self.sound_head(&follower).await? else {
            return Ok(());
        };
        let mut after = before.clone();
        after.follows = None;
        let mut generation = 0;
        let mut taken = true;
        if let Some(digest) = before.digest {
            taken = self.holder(&digest).await?.is_some();
            generation = self.next_generation(&digest).await?;
        }
        after.life = admission::promote(&before.life, self.now, generation);
        if taken {
            after.life.holding = None;
        } else {
            self.own(&after, generation).await?;
        }
        self.replace(&before, after).await?;
        Ok(())
    }

    /// Removes a job and every trace of it but its counts and its ledger; its follower follows.
    pub async fn remove(&mut self, head: &Head) -> Result<(), StoreError> {
        self.erase(head).await?;
        self.promote_follower(&head.id).await
    }

    /// [`Tx::remove`] without letting a follower follow.
    pub async fn erase(&mut self, head: &Head) -> Result<(), StoreError> {
        let keys = self.names();
        self.leave(head);
        self.unset(Slot::head(keys, &head.id));
        self.unset(Slot::spec(keys, &head.id));
        let marks = head.marks;
        let parts = [
            (marks.output, keys.outputs()),
            (marks.error, keys.errors()),
            (marks.progress, keys.progress()),
        ];
        for (_, key) in parts.into_iter().filter(|(there, _)| *there) {
            self.unset(Slot::part(key, &head.id));
        }
        if marks.attempts {
            self.run("DEL", keys.attempts(&head.id), Vec::new());
        }
        self.drop_log(head);
        self.stop_following(&mut head.clone()).await?;
        let chunk = Keys::chunk(head.seq);
        let arrived = arrival(head.seq, &head.id);
        self.run("@strike", keys.order(chunk), vec![arrived]);
        self.forget_if_empty(keys.order(chunk), keys.chunks(), "ZREM", score(chunk));
        if let Some(digest) = head.digest {
            self.disown(&digest, head).await?;
        }
        self.leave_chain(head).await
    }

    /// Log lines go with the content of their job.
    pub fn drop_log(&mut self, head: &Head) {
        if head.marks.log {
            let feed = log_feed(&self.names().id_of(&head.trail, &head.id));
            self.run("DEL", self.names().feed(&feed), Vec::new());
            self.run("HDEL", self.names().feeds(), vec![feed.into_bytes()]);
        }
    }

    /// Steps go with the last job of their chain.
    async fn leave_chain(&mut self, head: &Head) -> Result<(), StoreError> {
        let keys = self.names();
        let origin = head.origin();
        let mut ask = redis::pipe();
        ask.cmd("ZRANGE").arg(keys.chain(&origin)).arg(0).arg(-1);
        ask.cmd("HKEYS").arg(keys.steps(&origin));
        let mut answers = self.look(&ask).await?.into_iter();
        let chain = answer::all_bytes(answers.next().unwrap_or(Value::Nil))?;
        let steps = answer::all_bytes(answers.next().unwrap_or(Value::Nil))?;
        if head.origin.is_some() {
            self.run("ZREM", keys.chain(&origin), vec![head.id.0.to_vec()]);
        }
        if steps.is_empty() {
            return Ok(());
        }
        let mut members: Vec<Id> = chain
            .into_iter()
            .filter_map(|id| id.try_into().ok().map(Id))
            .collect();
        members.push(origin);
        for id in members {
            if id != head.id && self.stored(&id).await?.is_some() {
                return Ok(());
            }
        }
        for step in steps {
            self.run("ZREM", keys.begun(), vec![begun_member(&origin, &step)]);
        }
        self.run("DEL", keys.steps(&origin), Vec::new());
        Ok(())
    }

    // Indexes.

    fn enter(&mut self, head: &Head) {
        self.stand(head, &Spot::of(head));
        self.tally(head, 1);
        if head.life.phase == Phase::Waiting {
            self.signals.work = true;
        }
        if let Some(key) = self.rare_key(head) {
            self.run("ZADD", key, vec![score(head.seq), head.id.0.to_vec()]);
        }
    }

    fn leave(&mut self, head: &Head) {
        self.step_down(head, &Spot::of(head));
        self.tally(head, -1);
        self.signals.ends |= !head.life.phase.is_terminal();
        if let Some(key) = self.rare_key(head) {
            self.run("ZREM", key, vec![head.id.0.to_vec()]);
        }
    }

    fn shift(&mut self, before: &Head, after: &Head) {
        let (from, to) = (Spot::of(before), Spot::of(after));
        if from != to {
            self.step_down(before, &from);
            self.stand(after, &to);
            self.signals.work |= after.life.phase == Phase::Waiting;
            self.signals.ends |= after.life.phase.is_terminal();
        }
        let (from, to) = (self.rare_key(before), self.rare_key(after));
        if from != to {
            let member = after.id.0.to_vec();
            from.into_iter()
                .for_each(|key| self.run("ZREM", key, vec![member.clone()]));
            to.into_iter()
                .for_each(|key| self.run("ZADD", key, vec![score(after.seq), member.clone()]));
        }
        self.tally(before, -1);
        self.tally(after, 1);
    }

    fn rare_key(&self, head: &Head) -> Option<String> {
        let rare = is_rare(head.life.phase) && !head.marks.stub;
        rare.then(|| self.names().rare(head.life.phase as usize))
    }

    fn stand(&mut self, head: &Head, spot: &Spot) {
        let keys = self.names();
        let id = head.id.0.to_vec();
        match spot {
            Spot::None => {}
            Spot::Ready(priority, run_at) => {
                let place = format!("{}:{priority}", head.lane).into_bytes();
                self.run(
                    "@place",
                    keys.ready(head.lane, *priority),
                    vec![score(*run_at), ready_member(head)],
                );
                self.run("SADD", keys.places(), vec![place]);
            }
            Spot::Leased(until) => self.run("ZADD", keys.leases(), vec![score(*until), id]),
            Spot::Ended(complete, at) => self.run("ZADD", keys.ended(*complete), vec![score(*at), id]),
            Spot::Stub(until) => {
                let until = until.map_or_else(|| b"+inf".to_vec(), score);
                self.run("ZADD", keys.stubs(), vec![until, id]);
            }
        }
    }

    fn step_down(&mut self, head: &Head, spot: &Spot) {
        let keys = self.names();
        let id = head.id.0.to_vec();
        match spot {
            Spot::None => {}
            Spot::Ready(priority, run_at) => {
                let (ready, place) = (
                    keys.ready(head.lane, *priority),
                    format!("{}:{priority}", head.lane),
                );
                let member = vec![score(*run_at), ready_member(head)];
                self.run("@take", ready.clone(), member);
                self.forget_if_empty(ready, keys.places(), "SREM", place.into_bytes());
            }
            Spot::Leased(_) => self.run("ZREM", keys.leases(), vec![id]),
            Spot::Ended(complete, _) => self.run("ZREM", keys.ended(*complete), vec![id]),
            Spot::Stub(_) => {
                // Once its key has lapsed, upkeep may have moved it to where others wait that ended.
                self.run("ZREM", keys.stubs(), vec![id.clone()]);
                self.run("ZREM", keys.ended(head.life.phase == Phase::Complete), vec![id]);
            }
        }
    }

    /// Counts a job in its lane, by phase, and its key, by when it lapses.
    fn tally(&mut self, head: &Head, by: i64) {
        let phase = Some(head.life.phase).filter(|_| !head.marks.stub);
        for (key, field) in tallies(self.names(), head.lane, phase, head.held()) {
            self.add(key, field, by);
        }
    }

    // Leases.

    /// Takes back leases that have run out, the oldest first (contract 1.7); says how many.
    pub async fn rescue(&mut self, most: usize) -> Result<usize, StoreError> {
        if !self.lease_due {
            return Ok(0);
        }
        let due = self.due(self.names().leases(), most).await?;
        let watched = self.watched(&due).await?;
        let (mut expired, mut seen) = (0, 0);
        for (batch, ids) in watched {
            self.load_heads(ids.iter().copied()).await?;
            for id in &ids {
                if expired == most {
                    return Ok(expired);
                }
                let head = self.sound_head(id).await?;
                match head.filter(|head| lifecycle::is_expired(&head.life, self.now)) {
                    Some(head) => {
                        self.expire(&head).await?;
                        expired += 1;
                    }
                    // Nobody's lease: its queue was removed, it is damaged, or somebody was faster.
                    None => self.drop_lease(id).await?,
                }
            }
            if let Some(member) = batch {
                // Whichever of them still runs was extended, and is watched by itself since.
                self.run("ZREM", self.names().leases(), vec![member]);
            }
            seen += ids.len();
            if seen >= most {
                break;
            }
        }
        Ok(expired)
    }

    /// The jobs that members of the watched leases stand for: each for its own, or for all that were leased together.
    pub async fn watched(&mut self, members: &[Vec<u8>]) -> Result<Vec<Watched>, StoreError> {
        let tokens = members.iter().filter_map(|member| batch_of(member));
        let slots = tokens.map(|token| Slot::claim(self, &token)).collect();
        self.load(slots).await?;
        let mut watched = Vec::with_capacity(members.len());
        for member in members {
            if let Some(token) = batch_of(member) {
                let slot = Slot::claim(self, &token);
                let claim = self.get(&slot).await?.map(Claim::decode).transpose();
                let claim = unless_damaged(&token, claim)?;
                let ids = claim.map(|claim| claim.ids).unwrap_or_default();
                watched.push((Some(member.clone()), ids));
            } else if let Ok(id) = member.as_slice().try_into() {
                watched.push((None, vec![Id(id)]));
            }
        }
        Ok(watched)
    }

    async fn drop_lease(&mut self, id: &Id) -> Result<(), StoreError> {
        let stored = self.stored(id).await;
        let runs = unless_damaged(id, stored)?
            .is_some_and(|head| head.life.phase == Phase::Running && self.config.live(head.lane).is_some());
        if !runs {
            self.run("ZREM", self.names().leases(), vec![id.0.to_vec()]);
        }
        Ok(())
    }

    async fn expire(&mut self, head: &Head) -> Result<(), StoreError> {
        let (life, end) = lifecycle::expire(&head.life, self.now, self.micros);
        self.count(head.lane, Counter::Expired);
        if life.phase == Phase::Failed {
            self.count(head.lane, Counter::Failed);
        }
        let mut after = head.clone();
        self.close_attempt(&mut after, &end);
        after.life = life;
        self.put(head, after).await?;
        Ok(())
    }

    /// The job that holds a key, if one does: of all its owners only the newest can (contract 2.9).
    pub async fn holder(&mut self, digest: &Digest) -> Result<Option<Head>, StoreError> {
        let Some(newest) = self.owner(digest).await?.and_then(|owner| owner.newest) else {
            return Ok(None);
        };
        let now = self.now;
        Ok(self.head(&newest).await?.filter(|head| head.life.is_holder(now)))
    }
}

/// The member of a begun step.
pub fn begun_member(origin: &Id, step: &[u8]) -> Vec<u8> {
    let mut member = origin.0.to_vec();
    member.extend_from_slice(step);
    member
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arrival_is_known_from_its_chunk_and_one_byte() {
        let id = Id([7; 16]);
        for seq in [1, 255, 256, 1_000_003] {
            let kept = arrival(seq, &id);
            assert_eq!(kept.len(), 17);
            assert_eq!(parse_arrivals(Keys::chunk(seq), &kept), Some(vec![(seq, id)]));
        }
    }

    #[test]
    fn those_who_arrived_together_are_told_apart() {
        let jobs: Vec<(i64, Id)> = (1_020..1_024).map(|seq| (seq, Id([seq as u8; 16]))).collect();
        let together: Vec<u8> = jobs
            .iter()
            .flat_map(|(seq, id)| member(*seq, id)[6..].to_vec())
            .collect();
        assert_eq!(parse_arrivals(Keys::chunk(1_020), &together), Some(jobs));
        assert_eq!(parse_arrivals(3, &together[..19]), None);
    }
}
