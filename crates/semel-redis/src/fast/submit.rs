//! New submissions with free keys: one round trip, whatever their policy.

use std::borrow::Cow;
use std::collections::HashSet;
use std::future::poll_fn;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use redis::{Cmd, Pipeline, Value};

use semel_core::admission::{self, Decision};
use semel_core::error::StoreError;
use semel_core::ids::{Digest, Token};
use semel_core::job::{Life, Outcome};
use semel_core::lifecycle;
use semel_core::store::{Admitted, Submitted};
use semel_core::submission::{Policy, Prepared, Submission};
use semel_core::view::HolderView;

use super::absorb;
use super::belief::Belief;
use super::{Moment, Said, ask_all, believed, believed_for_now, config};
use crate::config::Config;
use crate::head::{Head, Held, Marks, is_lasting};
use crate::jobs::{born_tallies, member};
use crate::keys::{Id, Keys};
use crate::link::answer;
use crate::name::Trail;
use crate::open_calls::OpenItem;
use crate::pack;
use crate::records::Spec;
use crate::route;
use crate::scripts;
use crate::shard::Shard;
use crate::tx::{Drawn, Signals};

/// Items in one call: while the server is at one, the next is made ready.
pub const CALL: usize = 256;
/// Items in the first one.
const FIRST: usize = 16;

/// What came of submissions.
pub struct Judged {
    /// The answers, where there are some; the others go the long way.
    pub answers: Vec<Option<Submitted>>,
    /// What was drawn for them.
    pub drawn: Vec<Drawn>,
    /// Whose id or token is known.
    known: HashSet<usize>,
}

/// What came of sending all of it once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Round {
    /// Whatever is open goes the long way.
    Over,
    /// Something was believed wrongly, and nothing was written.
    Refused,
    /// Something was believed wrongly by a part that was not the first.
    Halfway,
}

impl Judged {
    /// Whether a place has its answer.
    pub fn is_answered(&self, place: usize) -> bool {
        self.answers[place].is_some()
    }

    /// Whether the id or token at a place is known.
    pub fn is_known(&self, place: usize) -> bool {
        self.known.contains(&place)
    }

    /// A place has its answer.
    pub fn answer(&mut self, place: usize, answer: Submitted) {
        self.answers[place] = Some(answer);
    }

    /// The number in the ledger that was drawn for a place.
    pub fn number(&self, place: usize) -> Option<i64> {
        self.drawn[place].entry
    }

    /// A number in the ledger was drawn for a place.
    pub fn has_number(&mut self, place: usize, number: i64) {
        self.drawn[place].entry.get_or_insert(number);
    }

    fn answered(&self) -> usize {
        self.answers.iter().flatten().count()
    }

    /// Places have these numbers of arrival, unless they have one by now.
    fn has_seqs(&mut self, seqs: impl Iterator<Item = (usize, i64)>) {
        for (place, seq) in seqs {
            self.drawn[place].seq.get_or_insert(seq);
        }
    }
}

/// A submission that may be new, and what it is if it is.
struct New {
    place: usize,
    prepared: Prepared,
    /// The same with the key it has only in its queue.
    keyed: Option<Prepared>,
    life: Life,
}

impl New {
    /// As it is admitted.
    fn admitted(&self) -> &Prepared {
        self.keyed.as_ref().unwrap_or(&self.prepared)
    }
}

/// Jobs that differ in nothing the script has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kind {
    lane: u32,
    priority: i8,
    keyed: bool,
    held: Held,
    /// They may share a pack: they are due, and neither a lease nor time changes what they have of their keys.
    packs: bool,
}

struct Batch {
    kind: Kind,
    jobs: Vec<New>,
}

/// A part that has ended, with what was in it.
struct Ended {
    jobs: Vec<New>,
    called: Result<Called, StoreError>,
}

/// Ids and keys that were met in one submission.
#[derive(Default)]
struct Met {
    ids: HashSet<Token>,
    digests: HashSet<Digest>,
}

/// Admits what is new, as far as that can be told at once. Each item sees the effect of those before it: what could
/// depend on another one goes the long way, in its order, with the number of arrival it has here.
/// After an error, too, some may have their answers: what they are is written.
pub async fn submit(shard: &Shard, items: &mut [&mut OpenItem]) -> (Judged, Result<(), StoreError>) {
    let mut judged = Judged {
        answers: items.iter().map(|_| None).collect(),
        drawn: vec![Drawn::default(); items.len()],
        known: HashSet::new(),
    };
    let outcome = judge_all(shard, items, &mut judged).await;
    // If nobody was answered, it was not looked whether a lease has run out, which comes first of all.
    let looked = judged.answered() > 0;
    for (item, answer) in items.iter_mut().zip(&mut judged.answers) {
        if let Some(Err(invalid)) = item.prepare(shard)
            && looked
        {
            *answer = Some(Submitted::Invalid(invalid.clone()));
        }
    }
    (judged, outcome)
}

async fn judge_all(
    shard: &Shard,
    items: &mut [&mut OpenItem],
    judged: &mut Judged,
) -> Result<(), StoreError> {
    // Once more if something was believed wrongly, which the server has told.
    if let Some(config) = config(shard) {
        let looked_first = shard.believe(|belief| belief.mostly_taken);
        if looked_first {
            look_first(shard, &config, items, judged).await?;
        }
        let before = judged.answered();
        let first = at_once(shard, &config, items, judged).await?;
        if first == Round::Refused {
            // Nothing has arrived, so all of it can be numbered anew.
            judged.drawn.iter_mut().for_each(|drawn| drawn.seq = None);
        }
        if first != Round::Over {
            at_once(shard, &config, items, judged).await?;
        }
        let admitted = judged.answered() - before;
        // Who was admitted just now may be whom the others meet.
        if judged.answered() < items.len() && (admitted > 0 || !looked_first) {
            look_first(shard, &config, items, judged).await?;
        }
        let absorbed = judged.answered() - admitted;
        shard.believe(|belief| belief.mostly_taken = absorbed > admitted);
    }
    Ok(())
}

/// The size of the part that comes after so many items: a short one first, so that the server is soon at work.
pub fn next_size(before: usize) -> usize {
    (before * 2).clamp(FIRST, CALL)
}

/// Absorbs whoever meets a holder.
async fn look_first(
    shard: &Shard,
    config: &Arc<Config>,
    items: &mut [&mut OpenItem],
    judged: &mut Judged,
) -> Result<(), StoreError> {
    match items.len() {
        1 => absorb::absorb(shard, config, items, judged).await,
        _ => {
            shard
                .link
                .drive(absorb::absorb(shard, config, items, judged))
                .await
        }
    }
}

/// Sends all of it. Several calls may be on their way then, and this caller reads and writes for all of them.
async fn at_once(
    shard: &Shard,
    config: &Config,
    items: &mut [&mut OpenItem],
    judged: &mut Judged,
) -> Result<Round, StoreError> {
    match items.len() {
        1 => round(shard, config, items, judged).await,
        _ => shard.link.drive(round(shard, config, items, judged)).await,
    }
}

/// Sends all of it, part by part: while the server is at one, the next is made ready. A part is written only after those
/// before it, so that all arrive in their order.
async fn round(
    shard: &Shard,
    config: &Config,
    items: &mut [&mut OpenItem],
    judged: &mut Judged,
) -> Result<Round, StoreError> {
    let moment = Moment::of(shard);
    let mut met = Met::default();
    let (mut calls, mut heard) = (FuturesUnordered::new(), Heard::default());
    let (mut first, mut undrawn, mut goes_on, all) = (0, 0, false, items.len());
    while first < all {
        let places = first..(first + next_size(first)).min(all);
        first = places.end;
        for item in &mut items[places.clone()] {
            let _known_later = item.prepare(shard);
        }
        let batches = sorted(shard, config, (items, judged), &places, moment, &mut met);
        if batches.is_empty() {
            continue;
        }
        // Numbers of those that go the long way are drawn with them, so that all arrive in their order.
        let places = std::mem::replace(&mut undrawn, places.end)..places.end;
        let presumed = match batches.len() {
            1 => shard.believe(|belief| belief.draw(places.len())),
            _ => None,
        };
        let drawn = match presumed {
            Some(before) => Ok(before),
            None => draw(shard, places.len()).await,
        };
        if presumed.is_none() {
            // Nothing keeps back who comes with numbers that are drawn, so the parts before have to be written. The
            // server was asked for the numbers after them: their answers are there.
            while let Some(ended) = calls.next().await {
                heard.hear(ended, items, judged);
            }
        }
        let drawn = match drawn {
            Ok(before) if presumed.is_some() || heard.all_written => before,
            other => {
                // Without room nothing is drawn; what the server says to the others is for the long way to tell.
                let failed = other
                    .err()
                    .filter(|error| !matches!(error, StoreError::Full { .. }));
                heard.failed = heard.failed.or(failed);
                give_back(items, batches.into_iter().flat_map(|batch| batch.jobs));
                break;
            }
        };
        if presumed.is_none() {
            judged.has_seqs(places.clone().zip(drawn + 1..));
        }
        for batch in batches {
            let context = Context {
                shard,
                config,
                moment,
                before: drawn - places.start as i64,
                presumed: presumed.is_some(),
                goes_on,
            };
            calls.push(context.admit(batch, places.clone()));
        }
        goes_on = true;
        // They are on their way once they were looked at. What is done is let go of now: the server has enough to do.
        let mut ended = Vec::new();
        poll_fn(|context| {
            while let Poll::Ready(Some(one)) = calls.poll_next_unpin(context) {
                ended.push(one);
            }
            Poll::Ready(())
        })
        .await;
        if first < all {
            shard.link.send_off().await;
        }
        ended
            .into_iter()
            .for_each(|ended| heard.hear(ended, items, judged));
    }
    while let Some(ended) = calls.next().await {
        heard.hear(ended, items, judged);
    }
    match heard.failed {
        Some(error) => Err(error),
        None => Ok(match (heard.again, heard.any_written) {
            (false, _) => Round::Over,
            (true, false) => Round::Refused,
            (true, true) => Round::Halfway,
        }),
    }
}

/// What the parts have come to so far.
struct Heard {
    again: bool,
    any_written: bool,
    all_written: bool,
    failed: Option<StoreError>,
}

impl Default for Heard {
    fn default() -> Self {
        Heard {
            again: false,
            any_written: false,
            all_written: true,
            failed: None,
        }
    }
}

impl Heard {
    /// A part has ended. What was answered is gone, the rest is open again.
    fn hear(&mut self, ended: Ended, items: &mut [&mut OpenItem], judged: &mut Judged) {
        match ended.called {
            Ok(called) => {
                self.again |= called.again;
                self.any_written |= called.written;
                self.all_written &= called.written;
                judged.known.extend(called.known);
                for (place, answer) in called.answers {
                    judged.answers[place] = Some(answer);
                }
                // Numbers that were only presumed are drawn if the script says so.
                judged.has_seqs(called.drawn.into_iter());
            }
            Err(error) => {
                self.all_written = false;
                self.failed.get_or_insert(error);
            }
        }
        let open = ended
            .jobs
            .into_iter()
            .filter(|job| !judged.is_answered(job.place));
        give_back(items, open);
    }
}

/// Submissions are open again.
fn give_back(items: &mut [&mut OpenItem], jobs: impl Iterator<Item = New>) {
    for New { place, prepared, .. } in jobs {
        items[place].give_back(prepared);
    }
}

/// Draws numbers of arrival; gives the last one before them.
async fn draw(shard: &Shard, count: usize) -> Result<i64, StoreError> {
    let mut ask = redis::pipe();
    ask.cmd("HINCRBY").arg(shard.keys.meta()).arg("seq").arg(count);
    let last = answer::number(shard.link.ask("drawing numbers", &ask).await?.remove(0))?;
    shard.believe(|belief| belief.arrived(last));
    Ok(last - count as i64)
}

/// What may be new, by kind. Of several with one key or token only the first may be. Whoever has a number of arrival was
/// left out before, and goes the long way with it.
fn sorted(
    shard: &Shard,
    config: &Config,
    (items, judged): (&mut [&mut OpenItem], &Judged),
    places: &Range<usize>,
    moment: Moment,
    met: &mut Met,
) -> Vec<Batch> {
    let mut batches: Vec<Batch> = Vec::new();
    for place in places.clone() {
        let Some(prepared) = items[place].prepared() else {
            continue;
        };
        let first = met.ids.insert(prepared.submission.token);
        let free = prepared
            .key
            .as_ref()
            .is_none_or(|key| met.digests.insert(key.digest));
        let is_settled =
            judged.is_answered(place) || judged.drawn[place].seq.is_some() || judged.is_known(place);
        if !first || !free || is_settled {
            continue;
        }
        let Some((kind, life, keyed)) = judge(shard, config, prepared, moment) else {
            continue;
        };
        if let Some(keyed) = &keyed
            && let Some(key) = &keyed.key
            && !met.digests.insert(key.digest)
        {
            continue;
        }
        let Some(prepared) = items[place].take() else {
            continue;
        };
        let job = New {
            place,
            prepared,
            keyed,
            life,
        };
        match batches.iter_mut().find(|batch| batch.kind == kind) {
            Some(batch) => batch.jobs.push(job),
            None => {
                let mut jobs = Vec::with_capacity(places.end - place);
                jobs.push(job);
                batches.push(Batch { kind, jobs });
            }
        }
    }
    // Nobody may stand between the first and the last of a pack.
    let mixed: Vec<bool> = batches.iter().map(|batch| batch.is_mixed(&batches)).collect();
    for (batch, mixed) in batches.iter_mut().zip(mixed) {
        batch.kind.packs &= !mixed;
    }
    batches
}

impl Batch {
    /// Whether another batch has a job between the first and the last of this one, in the same order of dispatch.
    fn is_mixed(&self, batches: &[Batch]) -> bool {
        let (Some(first), Some(last)) = (self.jobs.first(), self.jobs.last()) else {
            return false;
        };
        let own = first.place..=last.place;
        let there = |batch: &&Batch| {
            let Kind { lane, priority, .. } = batch.kind;
            (lane, priority) == (self.kind.lane, self.kind.priority) && batch.kind != self.kind
        };
        let mut others = batches.iter().filter(there).flat_map(|batch| &batch.jobs);
        others.any(|job| own.contains(&job.place))
    }
}

/// A submission with the key it has in its queue. None if the key depends on the exact time.
pub fn keyed<'a>(shard: &Shard, config: &Config, prepared: &'a Prepared) -> Option<Cow<'a, Prepared>> {
    let submission = &prepared.submission;
    let mut prepared = Cow::Borrowed(prepared);
    if submission.policy == Policy::Unsaid && config.is_unique(&submission.queue) {
        let keyed = prepared.into_owned();
        // It has no period.
        let now = shard.time.about_now();
        prepared = Cow::Owned(keyed.with_queue_policy(&shard.namespace, now).ok()?);
    }
    let timed = prepared.policy().is_some_and(|policy| policy.period.is_some());
    (!timed).then_some(prepared)
}

/// What core makes of a submission whose key is free.
fn judge(
    shard: &Shard,
    config: &Config,
    prepared: &Prepared,
    moment: Moment,
) -> Option<(Kind, Life, Option<Prepared>)> {
    let submission = &prepared.submission;
    let (queue, task) = (&submission.queue, &submission.task);
    let lane = config.lane(queue, task)?;
    let prepared = keyed(shard, config, prepared)?;
    // The end of a setting depends on the exact time, a hybrid key on those of the same fields.
    let mut settings = config.settings.values();
    let timed = settings.any(|setting| setting.closed_until.is_some() || setting.observed_until.is_some());
    let grouped = prepared.key.as_ref().is_some_and(|key| key.group.is_some());
    if timed || grouped || config.closed(queue, task, moment.now).is_some() {
        return None;
    }
    let generation = lifecycle::next_fence(0, moment.micros);
    let observe = config.observes(queue, task, moment.now);
    let decision = admission::admit(&prepared, None, observe, moment.now, generation);
    let Decision::Accept {
        life,
        would: None,
        takes_over: false,
    } = decision
    else {
        return None;
    };
    let kind = Kind {
        lane,
        priority: life.priority,
        keyed: life.holding.is_some(),
        held: crate::head::held(&life),
        packs: life.run_at == moment.now && is_lasting(&life),
    };
    let keyed = match prepared {
        Cow::Owned(keyed) => Some(keyed),
        Cow::Borrowed(_) => None,
    };
    Some((kind, *life, keyed))
}

struct Context<'a> {
    shard: &'a Shard,
    config: &'a Config,
    moment: Moment,
    /// The number of arrival before that of the first place there could be.
    before: i64,
    presumed: bool,
    /// Another part of the same submission was sent before.
    goes_on: bool,
}

/// What came of one call.
struct Called {
    answers: Vec<(usize, Submitted)>,
    again: bool,
    /// It was written, but for what was left out.
    written: bool,
    /// Places and the numbers of arrival that are drawn for them.
    drawn: Vec<(usize, i64)>,
    /// Places of those whose id or token is known: because of them nothing was written.
    known: Vec<usize>,
}

impl Context<'_> {
    /// The number of arrival of a place.
    fn seq(&self, place: usize) -> i64 {
        self.before + 1 + place as i64
    }

    async fn admit(self, batch: Batch, places: Range<usize>) -> Ended {
        let called = self.call(&batch, places).await;
        Ended {
            jobs: batch.jobs,
            called,
        }
    }

    async fn call(&self, batch: &Batch, places: Range<usize>) -> Result<Called, StoreError> {
        let (shard, kind, jobs) = (self.shard, batch.kind, &batch.jobs);
        let place = format!("{}:{}", kind.lane, kind.priority);
        let signals = Signals {
            work: true,
            ends: false,
        };
        let mut called = Called {
            answers: Vec::new(),
            again: false,
            written: false,
            drawn: Vec::new(),
            known: Vec::new(),
        };
        let Some(calls) = self.calls(kind, jobs, &places, &place, signals) else {
            return Ok(called);
        };
        let said = ask_all(shard, "submitting", &calls).await?;
        let left_out: Vec<i64> = match said {
            Said::Done(left_out) => left_out
                .into_iter()
                .map(answer::number)
                .collect::<Result<_, _>>()?,
            Said::Again(mut rest) => {
                let seq = answer::number(rest.pop().unwrap_or(Value::Nil))?;
                shard.believe(|belief| belief.was_wrong(seq));
                called.again = true;
                return Ok(called);
            }
            Said::Other(known) => {
                for place in known {
                    let place = usize::try_from(answer::number(place)?).ok();
                    let job = place.and_then(|place| jobs.get(place));
                    called.known.extend(job.map(|job| job.place));
                }
                called.again = true;
                return Ok(called);
            }
            _ => return Ok(called),
        };
        called.written = true;
        if self.presumed {
            called.drawn = places.map(|place| (place, self.seq(place))).collect();
            shard.believe(Belief::was_right);
        }
        let admitted = (jobs.len() - left_out.len()) as u64;
        if admitted > 0 {
            shard.at_once.admitted.fetch_add(admitted, Ordering::Relaxed);
            shard.believe(|belief| belief.places.insert(place.into_bytes()));
            shard.wake.signal(signals);
        }
        let mut left_out = left_out.into_iter().peekable();
        for (n, job) in jobs.iter().enumerate() {
            if left_out.next_if_eq(&(n as i64)).is_none() {
                called.answers.push((job.place, self.answer(job)));
            }
        }
        Ok(called)
    }

    /// See `lua/submit.lua`.
    fn calls(
        &self,
        kind: Kind,
        jobs: &[New],
        places: &Range<usize>,
        place: &str,
        signals: Signals,
    ) -> Option<Pipeline> {
        let (shard, keys) = (self.shard, &self.shard.keys);
        let seq = |job: &New| self.seq(job.place);
        let tallied = born_tallies(keys, kind.lane, kind.held);
        if let ([job], [(_, counted)]) = (jobs, tallied.as_slice()) {
            let call = self.call_for_one(kind, job, places, (place, counted.as_str()), signals)?;
            let mut calls = redis::pipe();
            calls.add_command(call);
            return Some(calls);
        }
        let chunks: Vec<(i64, usize)> = jobs
            .chunk_by(|a, b| Keys::chunk(seq(a)) == Keys::chunk(seq(b)))
            .map(|chunk| (Keys::chunk(seq(&chunk[0])), chunk.len()))
            .collect();
        let digests: Vec<&Digest> = jobs
            .iter()
            .filter(|_| kind.keyed)
            .filter_map(|job| job.admitted().key.as_ref().map(|key| &key.digest))
            .collect();
        let mut call = Cmd::with_capacity(48 + jobs.len() * 4, 512 + jobs.len() * 200);
        call.arg("EVALSHA").arg(shard.link.scripts.submit.get_hash());
        call.arg(9 + chunks.len() + tallied.len() + digests.len());
        let [meta, specs, incoming, left_out] = keys.records();
        call.arg(&meta)
            .arg(&specs)
            .arg(&incoming)
            .arg(&left_out)
            .arg(keys.leases())
            .arg(keys.tokens())
            .arg(keys.ready(kind.lane, kind.priority))
            .arg(keys.places())
            .arg(keys.chunks());
        for (chunk, _) in &chunks {
            call.arg(keys.order(*chunk));
        }
        for (key, _) in &tallied {
            call.arg(key);
        }
        for digest in &digests {
            call.arg(keys.owners(digest));
        }
        believed(&mut call, shard, self.moment, self.config.version);
        self.drawing(&mut call, places);
        call.arg(keys.channel())
            .arg(shard.wake.message(signals))
            .arg(place);
        let owned: Vec<u8> = digests.iter().flat_map(|digest| Keys::owned(digest)).collect();
        call.arg(owned);
        call.arg(jobs.len()).arg(chunks.len()).arg(tallied.len());
        let id = |job: &New| Id::from(job.admitted().submission.token);
        let pack = match kind.packs {
            true => pack::pack(jobs.iter().map(|job| (seq(job), id(job)))),
            false => None,
        };
        match &pack {
            Some(pack) => call.arg(self.moment.now.as_millis()).arg(pack),
            None => call.arg("").arg(""),
        };
        for (chunk, count) in &chunks {
            call.arg(chunk).arg(count);
        }
        for (_, field) in &tallied {
            call.arg(field);
        }
        for job in jobs.iter().filter(|_| pack.is_none()) {
            call.arg(job.life.run_at.as_millis())
                .arg(&member(seq(job), &id(job)));
        }
        let mut records = Cmd::with_capacity(2 + jobs.len() * 2, 64 + jobs.len() * 500);
        records.arg("HSET").arg(&incoming);
        for job in jobs {
            records
                .arg(job.admitted().submission.token.as_bytes())
                .arg(self.birth(kind, job, seq(job))?);
        }
        let mut there = redis::cmd("HSETNX");
        there.arg(&specs).arg("").arg("");
        let mut named = redis::cmd("RENAMENX");
        named.arg(&incoming).arg(&specs);
        let mut calls = Pipeline::with_capacity(5);
        calls.atomic().add_command(there).ignore();
        calls.add_command(call);
        for end in [
            records,
            named,
            scripts::call(&shard.link.scripts.close, &[meta, specs, incoming, left_out]),
        ] {
            calls.add_command(end).ignore();
        }
        Some(calls)
    }

    /// See `lua/submit_one.lua`.
    fn call_for_one(
        &self,
        kind: Kind,
        job: &New,
        places: &Range<usize>,
        (place, counted): (&str, &str),
        signals: Signals,
    ) -> Option<Cmd> {
        let (shard, keys) = (self.shard, &self.shard.keys);
        let (seq, id) = (self.seq(job.place), Id::from(job.admitted().submission.token));
        let digest = job.admitted().key.as_ref().filter(|_| kind.keyed);
        let digest = digest.map(|key| &key.digest);
        let chunk = Keys::chunk(seq);
        let mut call = Cmd::with_capacity(32, 1_024 + job.admitted().submission.content.input.as_str().len());
        call.arg("EVALSHA").arg(shard.link.scripts.submit_one.get_hash());
        call.arg(if digest.is_some() { 9 } else { 8 })
            .arg(keys.meta())
            .arg(keys.leases())
            .arg(keys.specs())
            .arg(keys.tokens())
            .arg(keys.ready(kind.lane, kind.priority))
            .arg(keys.places())
            .arg(keys.chunks())
            .arg(keys.order(chunk));
        if let Some(digest) = digest {
            call.arg(keys.owners(digest));
        }
        believed_for_now(&mut call, shard, self.moment, self.config.version);
        self.drawing(&mut call, places);
        call.arg(keys.channel())
            .arg(shard.wake.message(signals))
            .arg(place)
            .arg(chunk)
            .arg(counted)
            .arg(&id.0)
            .arg(self.birth(kind, job, seq)?)
            .arg(job.life.run_at.as_millis());
        match kind.packs.then(|| pack::pack([(seq, id)])).flatten() {
            Some(pack) => call.arg(pack),
            None => call.arg(&member(seq, &id)),
        };
        if let Some(digest) = digest {
            call.arg(&Keys::owned(digest));
        }
        Some(call)
    }

    /// The numbers of arrival that a call presumes. Those of a later part follow exactly: a gap before them could be the
    /// part before, which was told that it believed something wrongly and comes again.
    fn drawing(&self, call: &mut Cmd, places: &Range<usize>) {
        let (before, last) = (self.seq(places.start) - 1, self.seq(places.end) - 1);
        match (self.presumed, self.goes_on) {
            (true, true) => call.arg(-before).arg(last),
            (true, false) => call.arg(before).arg(last),
            (false, _) => call.arg("").arg(""),
        };
    }

    /// The record of birth of a job.
    fn birth(&self, kind: Kind, job: &New, seq: i64) -> Option<Vec<u8>> {
        let Submission {
            content, producer, ..
        } = &job.admitted().submission;
        let key = job.admitted().key.as_ref().filter(|_| kind.keyed);
        Spec::encode_birth(&self.head(kind, job, seq), content, producer.as_ref(), key)
    }

    fn head(&self, kind: Kind, job: &New, seq: i64) -> Head {
        let key = job.admitted().key.as_ref().filter(|_| kind.keyed);
        Head {
            id: Id::from(job.admitted().submission.token),
            version: 0,
            lane: kind.lane,
            seq,
            enqueued_at: self.moment.now,
            life: job.life.clone(),
            marks: Marks::default(),
            digest: key.map(|key| key.digest),
            group: None,
            input: key.map(|key| key.input.into()),
            origin: None,
            follows: None,
            replayed_as: None,
            worker: None,
            trail: Trail {
                named: None,
                slot: route::carried(&self.shard.namespace, job.admitted(), kind.keyed),
            },
        }
    }

    fn answer(&self, job: &New) -> Submitted {
        let submission = &job.admitted().submission;
        let key = job.admitted().key.as_ref().filter(|_| job.life.holding.is_some());
        Submitted::Job(Box::new(Admitted {
            outcome: Outcome::Accepted,
            job: HolderView {
                id: self.shard.keys.job_id(&Id::from(submission.token)),
                task: submission.task.clone(),
                state: job.life.state(self.moment.now),
                enqueued_at: self.moment.now,
            },
            key: key.map(|key| key.digest),
            would: None,
            collides_with: None,
        }))
    }
}
