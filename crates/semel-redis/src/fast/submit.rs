//! New submissions with free keys: one round trip, whatever their policy.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::atomic::Ordering;

use futures_util::future::try_join_all;
use redis::{Cmd, Value};

use semel_core::admission::{self, Decision};
use semel_core::counters::Counter;
use semel_core::error::StoreError;
use semel_core::ids::Digest;
use semel_core::job::{Life, Outcome, Phase};
use semel_core::lifecycle;
use semel_core::store::{Admitted, Submitted};
use semel_core::submission::{Policy, Prepared, Submission};
use semel_core::view::HolderView;

use super::belief::Belief;
use super::{Moment, Said, ask, believed, config};
use crate::config::Config;
use crate::head::{Head, Held, Marks};
use crate::jobs::{member, tallies};
use crate::keys::{Id, Keys};
use crate::link::answer;
use crate::name::Trail;
use crate::records::{Owner, Spec};
use crate::route;
use crate::shard::Shard;
use crate::submit::Item;
use crate::tx::Signals;

/// Jobs in one call: while the server is at one, the next is made ready.
const CALL: usize = 256;

/// What came of submissions.
pub struct Judged {
    /// The answers, where there are some; the others go the long way.
    pub answers: Vec<Option<Submitted>>,
    /// The numbers of arrival that were drawn for them, where they were.
    pub seqs: Vec<Option<i64>>,
}

/// A submission that may be new, and what it is if it is.
struct New<'a> {
    place: usize,
    prepared: Cow<'a, Prepared>,
    life: Life,
}

/// Jobs that differ in nothing the script has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kind {
    lane: u32,
    priority: i8,
    keyed: bool,
    held: Held,
}

struct Batch<'a> {
    kind: Kind,
    jobs: Vec<New<'a>>,
}

/// Admits what is new, as far as that can be told at once. Each item sees the effect of those before it: what could
/// depend on another one goes the long way, in its order, with the number of arrival it has here.
pub async fn submit(shard: &Shard, items: &[&Item]) -> Result<Judged, StoreError> {
    let mut judged = Judged {
        answers: items.iter().map(|_| None).collect(),
        seqs: vec![None; items.len()],
    };
    for (place, item) in items.iter().enumerate() {
        if let Err(invalid) = item {
            judged.answers[place] = Some(Submitted::Invalid(invalid.clone()));
        }
    }
    let Some(config) = config(shard) else {
        return Ok(judged);
    };
    // Once more if something was believed wrongly, which the server has told.
    for attempt in 0..2 {
        let moment = Moment::of(shard);
        let batches = sorted(shard, &config, items, &judged.answers, moment);
        if batches.is_empty() {
            break;
        }
        let presumed = match batches.len() {
            1 if attempt == 0 => shard.believe(|belief| belief.draw(items.len())),
            _ => None,
        };
        let drawn = match presumed {
            Some(before) => before,
            None => draw(shard, items.len()).await?,
        };
        let context = Context {
            shard,
            config: &config,
            moment,
            drawn,
            presumed: presumed.is_some(),
        };
        let calls: Vec<(Kind, &[New<'_>])> = batches
            .iter()
            .flat_map(|batch| batch.jobs.chunks(CALL).map(|jobs| (batch.kind, jobs)))
            .collect();
        let (mut first, count) = (0, calls.len());
        let calls = calls.into_iter().enumerate().map(|(n, (kind, jobs))| {
            // Numbers of those that are not among them are drawn with them.
            let last = match jobs.last() {
                Some(job) if n + 1 < count => job.place + 1,
                _ => items.len(),
            };
            let range = (std::mem::replace(&mut first, last), last);
            context.admit(kind, jobs, range)
        });
        let calls: Vec<_> = calls.collect();
        let mut again = false;
        for call in try_join_all(calls).await? {
            again |= call.again;
            for (place, answer) in call.answers {
                judged.answers[place] = Some(answer);
            }
            // Numbers that were only presumed are drawn if the script says so.
            for place in call.drawn {
                judged.seqs[place] = Some(drawn + 1 + place as i64);
            }
        }
        if presumed.is_none() {
            judged.seqs = (drawn + 1..).map(Some).take(items.len()).collect();
        }
        if !again {
            break;
        }
    }
    Ok(judged)
}

/// Draws numbers of arrival; gives the last one before them.
async fn draw(shard: &Shard, count: usize) -> Result<i64, StoreError> {
    let mut ask = redis::pipe();
    ask.cmd("HINCRBY").arg(shard.keys.meta()).arg("seq").arg(count);
    let last = answer::number(shard.link.ask("drawing numbers", &ask).await?.remove(0))?;
    shard.believe(|belief| belief.arrived(last));
    Ok(last - count as i64)
}

/// What may be new, by kind. Of several with one key or token only the first may be.
fn sorted<'a>(
    shard: &Shard,
    config: &Config,
    items: &[&'a Item],
    answers: &[Option<Submitted>],
    moment: Moment,
) -> Vec<Batch<'a>> {
    let mut batches: Vec<Batch<'a>> = Vec::new();
    let (mut ids, mut digests) = (
        HashSet::with_capacity(items.len()),
        HashSet::with_capacity(items.len()),
    );
    for (place, item) in items.iter().enumerate() {
        let Ok(prepared) = item else { continue };
        let first = ids.insert(prepared.submission.token);
        let free = prepared.key.as_ref().is_none_or(|key| digests.insert(key.digest));
        if !first || !free || answers[place].is_some() {
            continue;
        }
        let Some((kind, new)) = judge(shard, config, prepared, place, moment) else {
            continue;
        };
        if let Some(key) = new.prepared.key.as_ref().filter(|_| prepared.key.is_none())
            && !digests.insert(key.digest)
        {
            continue;
        }
        match batches.iter_mut().find(|batch| batch.kind == kind) {
            Some(batch) => batch.jobs.push(new),
            None => batches.push(Batch {
                kind,
                jobs: vec![new],
            }),
        }
    }
    batches
}

/// What core makes of a submission whose key is free.
fn judge<'a>(
    shard: &Shard,
    config: &Config,
    prepared: &'a Prepared,
    place: usize,
    moment: Moment,
) -> Option<(Kind, New<'a>)> {
    let submission = &prepared.submission;
    let (queue, task) = (&submission.queue, &submission.task);
    let lane = config.lane(queue, task)?;
    let mut prepared = Cow::Borrowed(prepared);
    if submission.policy == Policy::Unsaid && config.is_unique(queue) {
        let keyed = prepared.into_owned();
        prepared = Cow::Owned(keyed.with_queue_policy(&shard.namespace, moment.now).ok()?);
    }
    // A key with a period and the end of a setting depend on the exact time, a hybrid key on those of the same fields.
    let mut settings = config.settings.values();
    let timed = prepared.policy().is_some_and(|policy| policy.period.is_some())
        || settings.any(|setting| setting.closed_until.is_some() || setting.observed_until.is_some());
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
    };
    let new = New {
        place,
        prepared,
        life: *life,
    };
    Some((kind, new))
}

struct Context<'a> {
    shard: &'a Shard,
    config: &'a Config,
    moment: Moment,
    drawn: i64,
    presumed: bool,
}

/// What came of one call.
struct Called {
    answers: Vec<(usize, Submitted)>,
    again: bool,
    /// The places whose numbers of arrival are drawn.
    drawn: Range<usize>,
}

impl Context<'_> {
    async fn admit(&self, kind: Kind, jobs: &[New<'_>], range: (usize, usize)) -> Result<Called, StoreError> {
        let shard = self.shard;
        let place = format!("{}:{}", kind.lane, kind.priority);
        let signals = Signals {
            work: true,
            ends: false,
        };
        let mut called = Called {
            answers: Vec::new(),
            again: false,
            drawn: 0..0,
        };
        let Some(call) = self.call(kind, jobs, range, &place, signals) else {
            return Ok(called);
        };
        let said = ask(shard, "submitting", call).await?;
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
            _ => return Ok(called),
        };
        if self.presumed {
            called.drawn = range.0..range.1;
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
    fn call(
        &self,
        kind: Kind,
        jobs: &[New<'_>],
        (first, last): (usize, usize),
        place: &str,
        signals: Signals,
    ) -> Option<Cmd> {
        let (shard, keys) = (self.shard, &self.shard.keys);
        let seq = |job: &New<'_>| self.drawn + 1 + job.place as i64;
        let chunks: Vec<(i64, usize)> = jobs
            .chunk_by(|a, b| Keys::chunk(seq(a)) == Keys::chunk(seq(b)))
            .map(|chunk| (Keys::chunk(seq(&chunk[0])), chunk.len()))
            .collect();
        let mut tallied = vec![(
            keys.counts(),
            format!("{}.c{}", kind.lane, Counter::Accepted as usize),
        )];
        tallied.extend(tallies(keys, kind.lane, Some(Phase::Waiting), kind.held));
        let digests: Vec<&Digest> = jobs
            .iter()
            .filter(|_| kind.keyed)
            .filter_map(|job| job.prepared.key.as_ref().map(|key| &key.digest))
            .collect();
        let mut call = Cmd::with_capacity(32 + jobs.len() * 8, 512 + jobs.len() * 700);
        call.arg("EVALSHA").arg(shard.link.scripts.submit.get_hash());
        call.arg(7 + chunks.len() + tallied.len() + digests.len());
        call.arg(keys.meta())
            .arg(keys.leases())
            .arg(keys.specs())
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
        match self.presumed {
            true => call.arg(self.drawn + first as i64).arg(self.drawn + last as i64),
            false => call.arg("").arg(""),
        };
        call.arg(keys.channel())
            .arg(shard.wake.message(signals))
            .arg(place);
        match kind.keyed {
            true => call.arg(Owner::lacking_id(lifecycle::next_fence(0, self.moment.micros))),
            false => call.arg(""),
        };
        call.arg(jobs.len()).arg(chunks.len()).arg(tallied.len());
        for (chunk, count) in &chunks {
            call.arg(chunk).arg(count);
        }
        for (_, field) in &tallied {
            call.arg(field);
        }
        for digest in &digests {
            call.arg(digest.as_bytes());
        }
        for job in jobs {
            let Submission {
                token,
                content,
                producer,
                ..
            } = &job.prepared.submission;
            let key = job.prepared.key.as_ref().filter(|_| kind.keyed);
            let head = self.head(kind, job, seq(job));
            let birth = Spec::encode_birth(&head, content, producer.as_ref(), key);
            call.arg(token.as_bytes()).arg(birth?);
        }
        for job in jobs {
            let id = Id::from(job.prepared.submission.token);
            call.arg(job.life.run_at.as_millis()).arg(&member(seq(job), &id));
        }
        Some(call)
    }

    fn head(&self, kind: Kind, job: &New<'_>, seq: i64) -> Head {
        let key = job.prepared.key.as_ref().filter(|_| kind.keyed);
        Head {
            id: Id::from(job.prepared.submission.token),
            version: 0,
            lane: kind.lane,
            seq,
            enqueued_at: self.moment.now,
            life: job.life.clone(),
            marks: Marks::default(),
            digest: key.map(|key| key.digest),
            group: None,
            input: key.map(|key| key.input),
            origin: None,
            follows: None,
            replayed_as: None,
            worker: None,
            trail: Trail {
                named: None,
                slot: route::carried(&self.shard.namespace, &job.prepared, kind.keyed),
            },
        }
    }

    fn answer(&self, job: &New<'_>) -> Submitted {
        let submission = &job.prepared.submission;
        let key = job.prepared.key.as_ref().filter(|_| job.life.holding.is_some());
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
