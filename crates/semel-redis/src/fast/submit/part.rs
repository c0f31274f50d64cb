//! One call that admits new jobs of one kind: what is sent, and what the answer means (`lua/submit.lua`).

use std::ops::Range;
use std::sync::atomic::Ordering;

use redis::{Cmd, Pipeline, Value};

use semel_core::error::StoreError;
use semel_core::ids::Digest;
use semel_core::job::Outcome;
use semel_core::store::{Admitted, Submitted};
use semel_core::submission::Submission;
use semel_core::view::HolderView;

use super::{Batch, Ended, Kind, New};
use crate::config::Config;
use crate::fast::belief::Belief;
use crate::fast::{Moment, Said, ask_all, believed, believed_for_now};
use crate::head::{Head, Marks};
use crate::jobs::{born_tallies, member};
use crate::keys::{Id, Keys};
use crate::link::answer;
use crate::name::Trail;
use crate::pack;
use crate::records::Spec;
use crate::route;
use crate::scripts;
use crate::shard::Shard;
use crate::tx::Signals;

/// What all calls of a part share.
pub struct Context<'a> {
    pub shard: &'a Shard,
    pub config: &'a Config,
    pub moment: Moment,
    /// The number of arrival before that of the first place there could be.
    pub before: i64,
    pub presumed: bool,
    /// Another part of the same submission was sent before.
    pub goes_on: bool,
}

/// What came of one call.
pub struct Called {
    pub answers: Vec<(usize, Submitted)>,
    pub again: bool,
    /// It was written, but for what was left out.
    pub written: bool,
    /// Places and the numbers of arrival that are drawn for them.
    pub drawn: Vec<(usize, i64)>,
    /// Places of those whose id or token is known: because of them nothing was written.
    pub known: Vec<usize>,
}

impl Context<'_> {
    /// The number of arrival of a place.
    fn seq(&self, place: usize) -> i64 {
        self.before + 1 + place as i64
    }

    /// Sends it, and gives back what was in it.
    pub async fn admit(self, batch: Batch, places: Range<usize>) -> Ended {
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
