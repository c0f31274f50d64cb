//! New submissions with free keys: one round trip, whatever their policy.

mod part;

use std::borrow::Cow;
use std::collections::HashSet;
use std::future::poll_fn;
use std::ops::Range;
use std::sync::Arc;
use std::task::Poll;

use futures_util::stream::{FuturesUnordered, StreamExt as _};

use semel_core::admission::{self, Decision};
use semel_core::error::StoreError;
use semel_core::ids::{Digest, Token};
use semel_core::job::Life;
use semel_core::lifecycle;
use semel_core::store::Submitted;
use semel_core::submission::{Policy, Prepared};

use self::part::{Called, Context};
use super::absorb;
use super::{Moment, config};
use crate::config::Config;
use crate::head::{Held, is_lasting};
use crate::link::answer;
use crate::open_calls::OpenItem;
use crate::shard::Shard;
use crate::tx::Drawn;

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
