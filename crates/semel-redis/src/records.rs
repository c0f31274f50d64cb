//! Everything stored of jobs beside their heads, and of what is beside jobs.

use std::collections::BTreeMap;

use semel_core::dedup::{Key, KeyBy};
use semel_core::error::StoreError;
use semel_core::guard::GuardRecord;
use semel_core::ids::{Digest, JobId, Name};
use semel_core::job::{Outcome, Would};
use semel_core::json::Json;
use semel_core::lifecycle::{AttemptEnd, AttemptResult};
use semel_core::step::{StepRecord, StepState};
use semel_core::store::Document;
use semel_core::submission::Content;
use semel_core::time::{Millis, Timestamp};
use semel_core::view::{AttemptView, JobError, LedgerEntry};

use crate::codec::{Reader, Writer, bits, place};
use crate::head::{Head, after_birth, is_birth};
use crate::keys::Id;

const VERSION: u8 = 1;
const SPEC_VERSION: u8 = 6;

const KEY_BYS: [KeyBy; 6] = [
    KeyBy::Explicit,
    KeyBy::Input,
    KeyBy::Fields,
    KeyBy::Except,
    KeyBy::Hybrid,
    KeyBy::Generated,
];
/// Scopes that are stored by their place; any other, in the first place, by its text.
const SCOPES: [&str; 4] = ["", "task", "queue", "global"];
const OUTCOMES: [Outcome; 8] = [
    Outcome::Accepted,
    Outcome::Duplicate,
    Outcome::Replaced,
    Outcome::Debounced,
    Outcome::Deferred,
    Outcome::Spooled,
    Outcome::Rejected,
    Outcome::Conflict,
];
const RESULTS: [AttemptResult; 8] = [
    AttemptResult::Complete,
    AttemptResult::Error,
    AttemptResult::Failed,
    AttemptResult::Snoozed,
    AttemptResult::HandedBack,
    AttemptResult::Parked,
    AttemptResult::Cancelled,
    AttemptResult::Expired,
];
const STEP_STATES: [StepState; 3] = [StepState::Begun, StepState::Confirmed, StepState::Refused];

fn json_text<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("plain data can be written as JSON")
}

fn from_json<T: for<'de> serde::Deserialize<'de>>(text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text)
        .map_err(|error| StoreError::corrupt(format!("stored JSON cannot be read: {error}")))
}

fn job_id(text: &str) -> Result<JobId, StoreError> {
    JobId::new(text).map_err(|_| StoreError::corrupt("a stored id cannot be read"))
}

/// What a job is, as far as its head does not say it.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// What the handler gets.
    pub content: Content,
    /// Who submitted it.
    pub producer: Option<Name>,
    /// The text of its key, what it was made from, its scope.
    pub key: Option<KeyWords>,
    /// The dead letter it replays.
    pub replayed_from: Option<Id>,
    /// What an observing submission would have got.
    pub would: Option<Would>,
    /// The job of the same hybrid fields it differs from.
    pub collides_with: Option<JobId>,
}

/// The part of a key that people read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyWords {
    /// The text a person recognises it by.
    pub text: Option<String>,
    /// What it was made from.
    pub by: KeyBy,
    /// Where it must be unique.
    pub scope: String,
}

/// The same, of somebody else.
#[derive(Clone, Copy)]
struct Words<'a> {
    text: Option<&'a str>,
    by: KeyBy,
    scope: &'a str,
}

impl KeyWords {
    /// The words of a key.
    pub fn of(key: &Key) -> Self {
        KeyWords {
            text: key.text.as_deref().map(str::to_owned),
            by: key.by,
            scope: key.scope.to_string(),
        }
    }
}

impl Spec {
    /// The bytes.
    pub fn encode(&self) -> Vec<u8> {
        let key = self.key.as_ref().map(|key| Words {
            text: key.text.as_deref(),
            by: key.by,
            scope: &key.scope,
        });
        let mut out = Writer::sized(SPEC_VERSION, self.content.input.as_str().len() + 64);
        let rest = [
            self.replayed_from.is_some(),
            self.would.is_some(),
            self.collides_with.is_some(),
        ];
        Spec::begin(&mut out, &self.content, self.producer.as_ref(), key, rest);
        if let Some(from) = &self.replayed_from {
            out.raw(&from.0);
        }
        if let Some(would) = &self.would {
            out.short_text(&json_text(would));
        }
        if let Some(other) = &self.collides_with {
            out.short_text(other.as_str());
        }
        Spec::end(&mut out, &self.content);
        out.done()
    }

    /// The birth of a job whose submission met nobody.
    pub fn encode_birth(
        head: &Head,
        content: &Content,
        producer: Option<&Name>,
        key: Option<&Key>,
    ) -> Option<Vec<u8>> {
        let words = key.map(|key| Words {
            text: key.text.as_deref(),
            by: key.by,
            scope: &key.scope,
        });
        let mut out = head.birth(content.input.as_str().len() + 64)?;
        Spec::begin(&mut out, content, producer, words, [false; 3]);
        Spec::end(&mut out, content);
        Some(out.done())
    }

    /// Which parts there are, and the first of them.
    fn begin(
        out: &mut Writer,
        content: &Content,
        producer: Option<&Name>,
        key: Option<Words<'_>>,
        rest: [bool; 3],
    ) {
        let [replays, would, collides] = rest;
        let there = [
            content.timeout.is_some(),
            producer.is_some(),
            key.is_some(),
            replays,
            would,
            collides,
            !content.headers.is_empty(),
            content.meta.is_some(),
        ];
        out.byte(bits(&there));
        if let Some(timeout) = content.timeout {
            out.var(timeout.as_millis());
        }
        if let Some(producer) = producer {
            out.short_text(producer.as_str());
        }
        if let Some(Words { text, by, scope }) = key {
            let known = SCOPES.iter().position(|known| *known == scope).unwrap_or(0);
            let known = u8::try_from(known).expect("there are few");
            out.byte(place(&KEY_BYS, &by) << 3 | known << 1 | u8::from(text.is_some()));
            if let Some(text) = text {
                out.short_text(text);
            }
            if known == 0 {
                out.short_text(scope);
            }
        }
    }

    /// The last parts. The input is as it is, for it is the largest.
    fn end(out: &mut Writer, content: &Content) {
        if !content.headers.is_empty() {
            out.short_text(&json_text(&content.headers));
        }
        if let Some(meta) = &content.meta {
            out.short_text(meta.as_str());
        }
        out.raw(content.input.as_str().as_bytes());
    }

    /// A spec from its bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        const WHAT: &str = "what a job is";
        let mut from = match is_birth(bytes) {
            true => Reader::within(after_birth(bytes).unwrap_or_default(), WHAT),
            false => Reader::new(bytes, SPEC_VERSION, WHAT)?,
        };
        let there = from.byte()?;
        let is = |bit: u8| there & (1 << bit) != 0;
        let timeout = is(0).then(|| from.var()).transpose()?.map(Millis::new);
        let producer = is(1).then(|| from.short_name()).transpose()?;
        let key = match is(2) {
            false => None,
            true => {
                let byte = from.byte()?;
                let text = (byte & 1 != 0).then(|| from.short_text()).transpose()?;
                let by = KEY_BYS.get(usize::from(byte >> 3)).copied();
                let scope = match SCOPES[usize::from(byte >> 1 & 3)] {
                    "" => from.short_text()?,
                    known => known,
                };
                Some(KeyWords {
                    text: text.map(str::to_owned),
                    by: by.ok_or_else(|| StoreError::corrupt("a key made from something unknown"))?,
                    scope: scope.to_owned(),
                })
            }
        };
        let replayed_from = is(3).then(|| from.id()).transpose()?;
        let mut text = |bit: u8| is(bit).then(|| from.short_text()).transpose();
        let would = text(4)?.map(from_json).transpose()?;
        let collides_with = text(5)?.map(job_id).transpose()?;
        let headers = text(6)?.map(from_json).transpose()?.unwrap_or_default();
        let meta = text(7)?.map(Json::trusted);
        Ok(Spec {
            content: Content {
                input: Json::trusted(from.rest()?),
                headers,
                meta,
                timeout,
            },
            producer,
            key,
            replayed_from,
            would,
            collides_with,
        })
    }

    /// Gives up everything but what its key needs (contract 2.4).
    pub fn reduce_to_stub(&mut self) {
        self.content.input = Json::null();
        self.content.headers = BTreeMap::new();
        self.content.meta = None;
    }
}

/// Who took a key last, of the jobs that are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The newest owner.
    pub newest: Option<Id>,
    /// The generation it took the key with; of one that is the first to have it, what its holding says.
    pub generation: i64,
    /// Whether other jobs have the key too.
    pub kin: bool,
}

impl Owner {
    const VERSION: u8 = 2 << 2;
    const KIN: u8 = 1;
    const NEWEST: u8 = 2;

    /// The bytes.
    pub fn encode(&self) -> Vec<u8> {
        let kin = if self.kin { Owner::KIN } else { 0 };
        let newest = if self.newest.is_some() { Owner::NEWEST } else { 0 };
        let mut out = Writer::new(Owner::VERSION | kin | newest);
        out.var(self.generation);
        if let Some(id) = &self.newest {
            out.raw(&id.0);
        }
        out.done()
    }

    /// The job that was the first to have a key, of which nothing else is written.
    pub fn first(bytes: &[u8]) -> Option<Id> {
        // Any other record is shorter than an id, or has one and more.
        bytes.try_into().ok().map(Id)
    }

    /// An owner from its bytes; of one that is the first to have its key the generation is not there.
    pub fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        if let Some(first) = Owner::first(bytes) {
            return Ok(Owner {
                newest: Some(first),
                generation: 0,
                kin: false,
            });
        }
        let first = bytes.first().copied().unwrap_or_default();
        let told = first & (Owner::KIN | Owner::NEWEST);
        let mut from = Reader::new(bytes, Owner::VERSION | told, "the owner of a key")?;
        Ok(Owner {
            kin: told & Owner::KIN != 0,
            generation: from.var()?,
            newest: (told & Owner::NEWEST != 0).then(|| from.id()).transpose()?,
        })
    }
}

/// Jobs by arrival, packed: holders of a hybrid group, jobs of a claim.
pub fn encode_ids(ids: &[(i64, Id)]) -> Vec<u8> {
    let mut out = Writer::new(VERSION);
    for (seq, id) in ids {
        out.long(*seq).raw(&id.0);
    }
    out.done()
}

/// The jobs of a packed list.
pub fn decode_ids(bytes: &[u8]) -> Result<Vec<(i64, Id)>, StoreError> {
    let mut from = Reader::new(bytes, VERSION, "a list of jobs")?;
    let mut ids = Vec::new();
    while !from.is_done() {
        ids.push((from.long()?, from.id()?));
    }
    Ok(ids)
}

/// What one claim was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The fence of all its leases.
    pub fence: i64,
    /// The jobs.
    pub ids: Vec<Id>,
}

impl Claim {
    /// The bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::new(VERSION);
        out.long(self.fence);
        for id in &self.ids {
            out.raw(&id.0);
        }
        out.done()
    }

    /// A claim from its bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        let mut from = Reader::new(bytes, VERSION, "a claim")?;
        let fence = from.long()?;
        let mut ids = Vec::new();
        while !from.is_done() {
            ids.push(from.id()?);
        }
        Ok(Claim { fence, ids })
    }
}

/// An absorbed submission, with the token it came with.
pub fn encode_entry(entry: &LedgerEntry, token: &Id) -> Vec<u8> {
    let mut out = Writer::new(VERSION);
    out.long(entry.n)
        .raw(&token.0)
        .time(entry.at)
        .byte(place(&OUTCOMES, &entry.outcome))
        .raw(entry.digest.as_bytes())
        .text(entry.holder.as_str())
        .text(entry.task.as_str())
        .text(entry.queue.as_str())
        .maybe_text(entry.producer.as_ref().map(Name::as_str))
        .text(&entry.policy)
        .text(&json_text(&entry.differs))
        .maybe_text(entry.input.as_ref().map(Json::as_str));
    out.done()
}

/// An absorbed submission from its bytes.
pub fn decode_entry(bytes: &[u8]) -> Result<(LedgerEntry, Id), StoreError> {
    let mut from = Reader::new(bytes, VERSION, "an entry of the ledger")?;
    let (n, token) = (from.long()?, from.id()?);
    let entry = LedgerEntry {
        n,
        at: from.time()?,
        outcome: from.one_of(&OUTCOMES)?,
        digest: from.digest()?,
        holder: job_id(from.text()?)?,
        task: from.name()?,
        queue: from.name()?,
        producer: from.maybe_name()?,
        policy: from.text()?.to_owned(),
        differs: from_json(from.text()?)?,
        input: from.maybe_json()?,
    };
    Ok((entry, token))
}

/// A delivery that ended.
pub fn encode_attempt(end: &AttemptEnd, worker: Option<&Name>) -> Vec<u8> {
    let mut out = Writer::new(VERSION);
    out.small(end.attempt)
        .long(end.fence)
        .maybe_time(end.began_at)
        .time(end.ended_at)
        .byte(place(&RESULTS, &end.result))
        .maybe_text(end.error.as_deref())
        .maybe_text(worker.map(Name::as_str));
    out.done()
}

/// A delivery that ended, from its bytes.
pub fn decode_attempt(bytes: &[u8]) -> Result<AttemptView, StoreError> {
    let mut from = Reader::new(bytes, VERSION, "a delivery")?;
    Ok(AttemptView {
        end: AttemptEnd {
            attempt: from.small()?,
            fence: from.long()?,
            began_at: from.maybe_time()?,
            ended_at: from.time()?,
            result: from.one_of(&RESULTS)?,
            error: from.maybe_text()?.map(str::to_owned),
        },
        worker: from.maybe_name()?,
    })
}

/// The delivery that completed a job is told by its head.
pub fn completing_attempt(head: &Head) -> Option<AttemptView> {
    let ended_at = head
        .life
        .finished_at
        .filter(|_| head.life.phase == semel_core::job::Phase::Complete)?;
    Some(AttemptView {
        end: AttemptEnd {
            attempt: head.life.attempt,
            fence: head.life.fence,
            began_at: head.life.began,
            ended_at,
            result: AttemptResult::Complete,
            error: None,
        },
        worker: head.worker.clone(),
    })
}

/// What went wrong last.
pub fn encode_error(error: &JobError) -> Vec<u8> {
    let mut out = Writer::new(VERSION);
    out.small(error.attempt).time(error.at).text(&error.message);
    out.done()
}

/// What went wrong last, from its bytes.
pub fn decode_error(bytes: &[u8]) -> Result<JobError, StoreError> {
    let mut from = Reader::new(bytes, VERSION, "the error of a job")?;
    Ok(JobError {
        attempt: from.small()?,
        at: from.time()?,
        message: from.text()?.to_owned(),
    })
}

/// A step.
pub fn encode_step(step: &StepRecord) -> Vec<u8> {
    let mut out = Writer::new(VERSION);
    out.text(step.origin.as_str())
        .text(step.name.as_str())
        .byte(place(&STEP_STATES, &step.state))
        .text(step.job.as_str())
        .long(step.fence)
        .raw(step.token.as_bytes())
        .small(step.generation)
        .time(step.begun_at)
        .maybe_time(step.ended_at)
        .maybe_text(step.output.as_ref().map(Json::as_str));
    out.done()
}

/// A step from its bytes.
pub fn decode_step(bytes: &[u8]) -> Result<StepRecord, StoreError> {
    let mut from = Reader::new(bytes, VERSION, "a step")?;
    Ok(StepRecord {
        origin: job_id(from.text()?)?,
        name: from.name()?,
        state: from.one_of(&STEP_STATES)?,
        job: job_id(from.text()?)?,
        fence: from.long()?,
        token: from.token()?,
        generation: from.small()?,
        begun_at: from.time()?,
        ended_at: from.maybe_time()?,
        output: from.maybe_json()?,
    })
}

/// A guarded key.
pub fn encode_guard(guard: &GuardRecord) -> Vec<u8> {
    let mut out = Writer::new(VERSION);
    out.raw(guard.token.as_bytes())
        .long(guard.ttl.as_millis())
        .time(guard.expires_at)
        .maybe_text(guard.output.as_ref().map(Json::as_str));
    out.done()
}

/// A guarded key from its bytes.
pub fn decode_guard(digest: Digest, bytes: &[u8]) -> Result<GuardRecord, StoreError> {
    let mut from = Reader::new(bytes, VERSION, "a guarded key")?;
    Ok(GuardRecord {
        digest,
        token: from.token()?,
        ttl: Millis::new(from.long()?),
        expires_at: from.time()?,
        output: from.maybe_json()?,
    })
}

/// A document, without its kind.
pub fn encode_document(document: &Document) -> Vec<u8> {
    let mut out = Writer::new(VERSION);
    out.long(document.version)
        .time(document.updated_at)
        .maybe_time(document.expires_at)
        .text(document.body.as_str());
    out.done()
}

/// A document from its bytes.
pub fn decode_document(kind: &Name, name: &str, bytes: &[u8]) -> Result<Document, StoreError> {
    let mut from = Reader::new(bytes, VERSION, "a document")?;
    Ok(Document {
        kind: kind.clone(),
        name: name.to_owned(),
        version: from.long()?,
        updated_at: from.time()?,
        expires_at: from.maybe_time()?,
        body: Json::trusted(from.text()?),
    })
}

/// An entry of a feed.
pub fn encode_line(at: Timestamp, body: &Json) -> Vec<u8> {
    let mut out = Writer::new(VERSION);
    out.time(at).text(body.as_str());
    out.done()
}

/// An entry of a feed from its bytes.
pub fn decode_line(bytes: &[u8]) -> Result<(Timestamp, Json), StoreError> {
    let mut from = Reader::new(bytes, VERSION, "an entry of a feed")?;
    Ok((from.time()?, Json::trusted(from.text()?)))
}
