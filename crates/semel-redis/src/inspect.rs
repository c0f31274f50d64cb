//! Looking: jobs, keys, ledger, steps. Nothing here is ever written.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use redis::Value;

use semel_core::dedup::key;
use semel_core::error::StoreError;
use semel_core::ids::{Digest, JobId, Name};
use semel_core::job::{Phase, State};
use semel_core::json::Json;
use semel_core::step::StepRecord;
use semel_core::store::{JobFilter, KeyFilter, LedgerFilter, StepFilter};
use semel_core::time::Timestamp;
use semel_core::view::{AttemptView, ErrorGroup, Job, KeyRow, KeyView, LedgerEntry, StepView, error_group};

use crate::config::Config;
use crate::head::Head;
use crate::jobs::{is_rare, parse_arrivals, sound, unless_damaged};
use crate::keys::{Id, Keys};
use crate::link::answer;
use crate::records::{self, Spec};
use crate::tx::{Slot, Tx};

/// Jobs one page of a list looks at before it says how far it came.
const SEARCH: usize = 100_000;
/// Chunks of the order of arrival read at once.
const CHUNKS: usize = 4;
/// Members of an index read at once.
const MEMBERS: usize = 500;

/// A key as anyone sees it; a job that never took its key shows none.
pub fn key_view(head: &Head, spec: &Spec, now: Timestamp) -> Option<KeyView> {
    let (digest, words) = head.digest.zip(spec.key.as_ref())?;
    let holding = head.life.holding.as_ref()?;
    Some(KeyView {
        digest,
        text: words.text.clone(),
        scope: words.scope.clone(),
        by: words.by,
        hold: holding.hold,
        held: holding.is_held(&head.life, now),
        taken_at: holding.taken_at,
        expires_at: holding.expires_at,
        generation: holding.generation,
        observed: holding.observed,
    })
}

/// What a job may have beside head and spec.
#[derive(Default)]
pub struct Parts {
    output: Option<Vec<u8>>,
    error: Option<Vec<u8>>,
    progress: Option<Vec<u8>>,
}

/// A job as anyone sees it.
pub fn show(
    keys: &Keys,
    config: &Config,
    now: Timestamp,
    head: &Head,
    spec: Spec,
    parts: Parts,
) -> Result<Job, StoreError> {
    let (queue, task) = config.names(head.lane)?;
    let life = &head.life;
    let named = |id: Option<Id>| id.map(|id| keys.id_of(&head.trail, &id));
    let text = |bytes: Vec<u8>| Json::trusted(String::from_utf8_lossy(&bytes));
    let error = parts.error.map(|bytes| records::decode_error(&bytes));
    let progress = parts.progress.and_then(|bytes| bytes.try_into().ok());
    Ok(Job {
        id: keys.id_of(&head.trail, &head.id),
        origin: keys.id_of(&head.trail, &head.origin()),
        task,
        queue,
        state: life.state(now),
        output: parts.output.map(text),
        error: error.transpose()?,
        attempt: life.attempt,
        max_attempts: life.max_attempts,
        deliveries: life.deliveries,
        max_deliveries: life.max_deliveries,
        priority: life.priority,
        enqueued_at: head.enqueued_at,
        run_at: life.run_at,
        started_at: life.started_at,
        finished_at: life.finished_at,
        timeout: spec.content.timeout,
        progress: progress.map(f64::from_le_bytes),
        key: key_view(head, &spec, now),
        worker: head.worker.clone(),
        lease_until: life.until,
        fence: life.fence,
        replayed_from: named(spec.replayed_from),
        replayed_as: named(head.replayed_as),
        blocked_by: named(head.follows),
        would: spec.would,
        collides_with: spec.collides_with,
        producer: spec.producer,
        input: spec.content.input,
        headers: spec.content.headers,
        meta: spec.content.meta,
        stub: head.marks.stub,
    })
}

impl Tx<'_> {
    /// Everything about jobs, read at once if it is not known yet.
    pub async fn load_jobs(&mut self, ids: &[Id]) -> Result<(), StoreError> {
        let keys = self.names();
        let mut slots = Vec::with_capacity(ids.len() * 5);
        for id in ids {
            slots.push(Slot::head(keys, id));
            slots.push(Slot::spec(keys, id));
            slots.push(Slot::part(keys.outputs(), id));
            slots.push(Slot::part(keys.errors(), id));
            slots.push(Slot::part(keys.progress(), id));
        }
        self.load(slots).await
    }

    /// A job as anyone sees it.
    pub async fn job(&mut self, head: &Head) -> Result<Job, StoreError> {
        let keys = self.names();
        let spec = self.spec(&head.id).await?;
        let output = self.part(head.marks.output, keys.outputs(), &head.id).await?;
        let error = self.part(head.marks.error, keys.errors(), &head.id).await?;
        let progress = self.part(head.marks.progress, keys.progress(), &head.id).await?;
        let parts = Parts {
            output,
            error,
            progress,
        };
        show(keys, &self.config, self.now, head, spec, parts)
    }

    async fn part(&mut self, there: bool, key: String, id: &Id) -> Result<Option<Vec<u8>>, StoreError> {
        if !there {
            return Ok(None);
        }
        Ok(self.get(&Slot::part(key, id)).await?.map(<[u8]>::to_vec))
    }

    /// Jobs by id, in the order asked for.
    pub async fn jobs_by_id(&mut self, ids: &[JobId]) -> Result<Vec<Option<Job>>, StoreError> {
        let located: Vec<Option<Id>> = ids.iter().map(|id| self.shard.locate(id)).collect();
        let known: Vec<Id> = located.iter().flatten().copied().collect();
        self.load_jobs(&known).await?;
        let mut jobs = Vec::with_capacity(ids.len());
        for id in ids {
            let head = self.find(id).await?;
            jobs.push(match head {
                Some(head) => Some(self.job(&head).await?),
                None => None,
            });
        }
        Ok(jobs)
    }

    /// The deliveries of a job that have ended, oldest first.
    pub async fn attempts(&mut self, id: &JobId) -> Result<Vec<AttemptView>, StoreError> {
        let Some(head) = self.find(id).await?.filter(|head| !head.marks.stub) else {
            return Ok(Vec::new());
        };
        let mut ask = redis::pipe();
        ask.cmd("LRANGE")
            .arg(self.names().attempts(&head.id))
            .arg(0)
            .arg(-1);
        let lines = answer::all_bytes(self.look(&ask).await?.remove(0))?;
        let mut attempts = lines
            .iter()
            .map(|line| records::decode_attempt(line))
            .collect::<Result<Vec<_>, _>>()?;
        attempts.extend(records::completing_attempt(&head));
        Ok(attempts)
    }

    // Lists of jobs.

    /// Jobs before a place, newest first, some at a time; none when there are no more.
    pub async fn older(&self, source: &Source, before: i64) -> Result<Vec<(i64, Id)>, StoreError> {
        match source {
            Source::All => self.older_of_all(before).await,
            Source::Phase(phase) => self.older_of_phase(*phase, before).await,
            Source::These(ids) => Ok(ids.range(..(before, Id([0; 16]))).rev().copied().collect()),
        }
    }

    async fn older_of_all(&self, before: i64) -> Result<Vec<(i64, Id)>, StoreError> {
        let keys = self.names();
        let mut highest = Keys::chunk(before.saturating_sub(1));
        loop {
            let mut ask = redis::pipe();
            ask.cmd("ZREVRANGEBYSCORE")
                .arg(keys.chunks())
                .arg(highest)
                .arg("-inf")
                .arg("LIMIT")
                .arg(0)
                .arg(CHUNKS);
            let chunks = answer::all_bytes(self.look(&ask).await?.remove(0))?;
            let Some(lowest) = chunks.last().map(|chunk| answer::parse(chunk)).transpose()? else {
                return Ok(Vec::new());
            };
            let mut jobs = self.jobs_in(&chunks).await?;
            jobs.retain(|(seq, _)| *seq < before);
            jobs.sort_unstable_by(|a, b| b.cmp(a));
            if !jobs.is_empty() {
                return Ok(jobs);
            }
            highest = lowest - 1;
        }
    }

    async fn jobs_in(&self, chunks: &[Vec<u8>]) -> Result<Vec<(i64, Id)>, StoreError> {
        let chunks = chunks.iter().map(|chunk| answer::parse(chunk));
        let chunks = chunks.collect::<Result<Vec<i64>, _>>()?;
        let mut ask = redis::pipe();
        for chunk in &chunks {
            ask.cmd("LRANGE").arg(self.names().order(*chunk)).arg(0).arg(-1);
        }
        let mut jobs = Vec::new();
        for (chunk, answer) in chunks.into_iter().zip(self.look(&ask).await?) {
            for entry in answer::all_bytes(answer)? {
                let arrived = parse_arrivals(chunk, &entry);
                let arrived = arrived.ok_or_else(|| StoreError::corrupt("an arrival that is no job"));
                jobs.extend(sound("the order of arrival", arrived).into_iter().flatten());
            }
        }
        Ok(jobs)
    }

    async fn older_of_phase(&self, phase: Phase, before: i64) -> Result<Vec<(i64, Id)>, StoreError> {
        let mut ask = redis::pipe();
        ask.cmd("ZREVRANGEBYSCORE")
            .arg(self.names().rare(phase as usize))
            .arg(format!("({before}"))
            .arg("-inf")
            .arg("WITHSCORES")
            .arg("LIMIT")
            .arg(0)
            .arg(MEMBERS);
        let found = answer::pairs(self.look(&ask).await?.remove(0))?;
        // Who is no job is found by nobody.
        found
            .into_iter()
            .map(|(id, seq)| Ok((answer::parse(&seq)?, Id(id.try_into().unwrap_or_default()))))
            .collect()
    }

    async fn source(&mut self, filter: &JobFilter) -> Result<Source, StoreError> {
        if let Some(digest) = &filter.key {
            let ids = self.jobs_of_key(digest).await?;
            return self.these(ids).await;
        }
        let phase = match filter.state {
            _ if filter.dead_letters => Some(Phase::Failed),
            Some(State::Failed) => Some(Phase::Failed),
            Some(State::Cancelled) => Some(Phase::Cancelled),
            Some(State::Parked) => Some(Phase::Parked),
            Some(State::Deferred) => Some(Phase::Deferred),
            Some(State::Running) => {
                let mut ask = redis::pipe();
                ask.cmd("ZRANGE").arg(self.names().leases()).arg(0).arg(-1);
                let members = answer::all_bytes(self.look(&ask).await?.remove(0))?;
                let watched = self.watched(&members).await?;
                let ids = watched.into_iter().flat_map(|(_, ids)| ids).collect();
                return self.these(ids).await;
            }
            _ => None,
        };
        Ok(phase
            .filter(|phase| is_rare(*phase))
            .map_or(Source::All, Source::Phase))
    }

    async fn these(&mut self, ids: Vec<Id>) -> Result<Source, StoreError> {
        self.load_heads(ids.iter().copied()).await?;
        let mut these = BTreeSet::new();
        for id in ids {
            these.extend(self.sound_head(&id).await?.map(|head| (head.seq, id)));
        }
        Ok(Source::These(these))
    }

    async fn jobs_of_key(&mut self, digest: &Digest) -> Result<Vec<Id>, StoreError> {
        let Some(owner) = self.owner(digest).await? else {
            return Ok(Vec::new());
        };
        let mut ids: Vec<Id> = owner.newest.into_iter().collect();
        if owner.kin {
            ids.extend(self.kin(digest).await?.into_iter().map(|(_, id)| id));
        }
        Ok(ids)
    }

    /// Jobs by filter, newest first, from before an arrival.
    pub async fn jobs(
        &mut self,
        filter: &JobFilter,
        before: i64,
        limit: usize,
    ) -> Result<Part<Job>, StoreError> {
        let source = self.source(filter).await?;
        let mut walk = Walk::new(source, before, limit);
        let mut rows = Rows::new(limit);
        while !rows.is_full() {
            let Some(part) = walk.next(self).await? else { break };
            for (seq, id) in part {
                let Some(head) = self.sound_head(&id).await?.filter(|head| head.seq == seq) else {
                    continue;
                };
                let job = self.job(&head).await.map(Some);
                let job = unless_damaged(&id, job)?.filter(|job| matches(filter, &head, job));
                if let Some(job) = job {
                    rows.push(seq, job);
                }
            }
        }
        Ok(rows.part(&walk))
    }

    // Keys.

    /// Keys by filter, those of the newest jobs first, from before an arrival.
    pub async fn keys(
        &mut self,
        filter: &KeyFilter,
        before: i64,
        limit: usize,
    ) -> Result<Part<KeyRow>, StoreError> {
        let source = match &filter.job {
            Some(id) => {
                let ids = self.shard.locate(id).into_iter().collect();
                self.these(ids).await?
            }
            None => Source::All,
        };
        let mut walk = Walk::new(source, before, limit);
        let mut rows = Rows::new(limit);
        while !rows.is_full() {
            let Some(part) = walk.next(self).await? else { break };
            let totals = self.totals_of(&part).await?;
            for (seq, id) in part {
                let Some(head) = self.sound_head(&id).await?.filter(|head| head.seq == seq) else {
                    continue;
                };
                let absorbed = head.digest.and_then(|digest| totals.get(&digest)).copied();
                let row = self.key_row(&head, absorbed.unwrap_or_default()).await;
                let row = unless_damaged(&id, row)?;
                if let Some(row) = row.filter(|row| matches_key(filter, row)) {
                    rows.push(seq, row);
                }
            }
        }
        Ok(rows.part(&walk))
    }

    /// How much the keys of some jobs have absorbed.
    async fn totals_of(&mut self, part: &[(i64, Id)]) -> Result<HashMap<Digest, i64>, StoreError> {
        let mut digests = Vec::new();
        for (_, id) in part {
            digests.extend(self.sound_head(id).await?.and_then(|head| head.digest));
        }
        digests.sort_unstable();
        digests.dedup();
        if digests.is_empty() {
            return Ok(HashMap::new());
        }
        let keys = self.names();
        let mut ask = redis::pipe();
        // One instant: what leaves the ledger is counted elsewhere from then on.
        ask.atomic();
        for digest in &digests {
            ask.cmd("HGET").arg(keys.absorbed(digest)).arg(digest.as_bytes());
            ask.cmd("LLEN").arg(keys.ledger_of(digest));
        }
        let answers = self.look(&ask).await?;
        let counts: Vec<i64> = answers
            .into_iter()
            .map(answer::number)
            .collect::<Result<_, _>>()?;
        let (counts, _) = counts.as_chunks::<2>();
        let totals = counts.iter().map(|[gone, there]| gone + there);
        Ok(digests.into_iter().zip(totals).collect())
    }

    async fn key_row(&mut self, head: &Head, absorbed: i64) -> Result<Option<KeyRow>, StoreError> {
        if head.digest.is_none() || head.life.holding.is_none() {
            return Ok(None);
        }
        let spec = self.spec(&head.id).await?;
        let Some(view) = key_view(head, &spec, self.now) else {
            return Ok(None);
        };
        let (queue, _) = self.lane_names(head)?;
        Ok(Some(KeyRow {
            absorbed,
            holder: self.view(head)?,
            queue,
            free_at: head
                .life
                .holding
                .as_ref()
                .and_then(|holding| holding.free_at(&head.life)),
            key: view,
        }))
    }

    /// One key: as its newest owner has it, of those that are there.
    pub async fn key(&mut self, digest: &Digest) -> Result<Option<KeyRow>, StoreError> {
        let Some(owner) = self.owner(digest).await? else {
            return Ok(None);
        };
        let mut owners: Vec<Id> = owner.newest.into_iter().collect();
        if owner.kin {
            let kin = self.kin(digest).await?;
            owners.extend(
                kin.iter()
                    .rev()
                    .filter(|(generation, _)| *generation > 0)
                    .map(|(_, id)| *id),
            );
        }
        for id in owners {
            if let Some(head) = self.head(&id).await? {
                let totals = self.totals_of(&[(head.seq, id)]).await?;
                return self
                    .key_row(&head, totals.get(digest).copied().unwrap_or_default())
                    .await;
            }
        }
        Ok(None)
    }

    // The ledger.

    /// Absorbed submissions, newest first, from before a number.
    pub async fn ledger(
        &mut self,
        filter: &LedgerFilter,
        before: i64,
        limit: usize,
    ) -> Result<Part<LedgerEntry>, StoreError> {
        let digest = match (&filter.digest, &filter.holder) {
            (Some(digest), _) => Some(*digest),
            // What a job absorbed came under its key.
            (None, Some(holder)) => match self.shard.locate(holder) {
                Some(id) => self.stored(&id).await?.and_then(|head| head.digest),
                None => None,
            },
            (None, None) => None,
        };
        let (mut rows, mut before) = (Vec::new(), before);
        loop {
            let entries = match &digest {
                Some(digest) => self.entries_of(digest, before).await?,
                None => self.entries_before(before).await?,
            };
            let Some((entries, lowest)) = entries else {
                return Ok(Part { rows, next: None });
            };
            for entry in entries {
                let fits = filter.digest.is_none_or(|digest| digest == entry.digest)
                    && filter
                        .holder
                        .as_ref()
                        .is_none_or(|holder| *holder == entry.holder);
                if !fits {
                    continue;
                }
                if rows.len() == limit {
                    let next = rows.last().map(|(n, _)| *n);
                    return Ok(Part { rows, next });
                }
                rows.push((entry.n, entry));
            }
            before = lowest;
        }
    }

    /// Some entries of a key, newest first, and the lowest of their numbers; none if there are no more.
    async fn entries_of(
        &mut self,
        digest: &Digest,
        before: i64,
    ) -> Result<Option<(Vec<LedgerEntry>, i64)>, StoreError> {
        let mut ask = redis::pipe();
        ask.cmd("LRANGE")
            .arg(self.names().ledger_of(digest))
            .arg(0)
            .arg(-1);
        let numbers = answer::all_bytes(self.look(&ask).await?.remove(0))?;
        let mut numbers = numbers
            .iter()
            .map(|number| answer::parse(number))
            .collect::<Result<Vec<_>, _>>()?;
        numbers.retain(|n| *n < before);
        numbers.sort_unstable_by(|a, b| b.cmp(a));
        numbers.truncate(MEMBERS);
        let Some(lowest) = numbers.last().copied() else {
            return Ok(None);
        };
        let slots: Vec<Slot> = numbers.iter().map(|n| self.entry_slot(*n)).collect();
        self.load(slots.clone()).await?;
        let mut entries = Vec::new();
        for slot in slots {
            let entry = self.get(&slot).await?.map(records::decode_entry);
            let entry = entry.and_then(|entry| sound("the ledger", entry));
            entries.extend(entry.map(|(entry, _)| entry));
        }
        Ok(Some((entries, lowest)))
    }

    /// Where an entry of the ledger is.
    pub fn entry_slot(&self, n: i64) -> Slot {
        Slot::new(self.names().ledger(Keys::page(n)), n.to_string())
    }

    /// The same of all.
    async fn entries_before(&self, before: i64) -> Result<Option<(Vec<LedgerEntry>, i64)>, StoreError> {
        let keys = self.names();
        let mut from = Keys::page(before.saturating_sub(1));
        loop {
            let mut ask = redis::pipe();
            ask.cmd("ZREVRANGEBYSCORE")
                .arg(keys.ledger_pages())
                .arg(from)
                .arg("-inf")
                .arg("LIMIT")
                .arg(0)
                .arg(1);
            let pages = answer::all_bytes(self.look(&ask).await?.remove(0))?;
            let Some(page) = pages.first() else {
                return Ok(None);
            };
            let page = answer::parse(page)?;
            let mut entries = self.entries_on(page).await?.sound;
            entries.retain(|(entry, _)| entry.n < before);
            if let Some((lowest, _)) = entries.first() {
                let lowest = lowest.n;
                let entries = entries.into_iter().rev().map(|(entry, _)| entry);
                return Ok(Some((entries.collect(), lowest)));
            }
            from = page - 1;
        }
    }

    /// The entries on a page, oldest first.
    pub async fn entries_on(&self, page: i64) -> Result<OnPage, StoreError> {
        let mut ask = redis::pipe();
        ask.cmd("HGETALL").arg(self.names().ledger(page));
        let found = answer::pairs(self.look(&ask).await?.into_iter().next().unwrap_or(Value::Nil))?;
        let mut on_page = OnPage::default();
        for (field, bytes) in found {
            match sound("the ledger", records::decode_entry(&bytes)) {
                Some(entry) => on_page.sound.push(entry),
                None => on_page.damaged.push(field),
            }
        }
        on_page.sound.sort_by_key(|(entry, _)| entry.n);
        Ok(on_page)
    }

    // Steps and dead letters.

    /// The steps of a chain.
    pub async fn steps_of(&mut self, origin: &Id) -> Result<Vec<StepRecord>, StoreError> {
        let mut ask = redis::pipe();
        ask.cmd("HVALS").arg(self.names().steps(origin));
        let found = answer::all_bytes(self.look(&ask).await?.remove(0))?;
        let steps = found.iter().map(|bytes| records::decode_step(bytes));
        Ok(steps.filter_map(|step| sound("the steps", step)).collect())
    }

    /// Steps of a chain, or those in doubt.
    pub async fn list_steps(&mut self, filter: &StepFilter) -> Result<Vec<StepView>, StoreError> {
        let records = match filter {
            StepFilter::Origin(origin) => match self.shard.locate(origin) {
                Some(origin) => self.steps_of(&origin).await?,
                None => Vec::new(),
            },
            StepFilter::InDoubt => self.begun_steps().await?,
        };
        let mut views = Vec::new();
        for record in records {
            let in_doubt = self.is_in_doubt(&record).await?;
            let known = matches!(filter, StepFilter::Origin(_)) || in_doubt;
            if !known || !self.is_known_chain(&record).await? {
                continue;
            }
            let namespace = &self.shard.namespace;
            views.push(StepView {
                key: key::downstream(namespace, record.origin.as_str(), &record.name, record.generation),
                origin: record.origin,
                name: record.name,
                state: record.state,
                in_doubt,
                job: record.job,
                begun_at: record.begun_at,
                ended_at: record.ended_at,
                output: record.output,
            });
        }
        views.sort_by(|a, b| (a.begun_at, &a.origin, &a.name).cmp(&(b.begun_at, &b.origin, &b.name)));
        Ok(views)
    }

    async fn begun_steps(&mut self) -> Result<Vec<StepRecord>, StoreError> {
        let keys = self.names();
        let mut ask = redis::pipe();
        ask.cmd("ZRANGE").arg(keys.begun()).arg(0).arg(-1);
        let members = answer::all_bytes(self.look(&ask).await?.remove(0))?;
        let slot = |member: &Vec<u8>| {
            let (origin, name) = member.split_at_checked(16)?;
            Some(Slot::new(keys.steps(&Id(origin.try_into().ok()?)), name))
        };
        let slots: Vec<Slot> = members.iter().filter_map(slot).collect();
        self.load(slots.clone()).await?;
        let mut records = Vec::new();
        for slot in slots {
            let record = self.get(&slot).await?.map(records::decode_step);
            records.extend(record.and_then(|record| sound("the steps", record)));
        }
        Ok(records)
    }

    /// Steps belong to their chain: they are seen for as long as one of its jobs is.
    async fn is_known_chain(&mut self, record: &StepRecord) -> Result<bool, StoreError> {
        match self.shard.locate(&record.origin) {
            Some(origin) => Ok(!self.chain(&origin).await?.is_empty()),
            None => Ok(false),
        }
    }

    /// Dead letters by cause, the most frequent first.
    pub async fn dead_letter_groups(&mut self, task: Option<&Name>) -> Result<Vec<ErrorGroup>, StoreError> {
        let mut groups: BTreeMap<(Name, String), ErrorGroup> = BTreeMap::new();
        let mut before = i64::MAX;
        loop {
            let found = self.older_of_phase(Phase::Failed, before).await?;
            let Some((lowest, _)) = found.last().copied() else {
                break;
            };
            let ids: Vec<Id> = found.iter().map(|(_, id)| *id).collect();
            self.load_jobs(&ids).await?;
            for id in ids {
                let Some(head) = self.sound_head(&id).await?.filter(Head::is_dead_letter) else {
                    continue;
                };
                let job = self.job(&head).await.map(Some);
                let job = unless_damaged(&id, job)?.filter(|job| task.is_none_or(|task| *task == job.task));
                if let Some(job) = job {
                    add_letter(&mut groups, job);
                }
            }
            before = lowest;
        }
        let mut groups: Vec<ErrorGroup> = groups.into_values().collect();
        groups.sort_by_key(|group| std::cmp::Reverse(group.jobs));
        Ok(groups)
    }
}

/// A walk over jobs, newest first, a part at a time: short parts first, as most pages are short.
struct Walk {
    source: Source,
    before: i64,
    part: usize,
    looked: usize,
    found: Vec<(i64, Id)>,
    ended: bool,
}

impl Walk {
    fn new(source: Source, before: i64, limit: usize) -> Self {
        Walk {
            source,
            before,
            part: limit + 1,
            looked: 0,
            found: Vec::new(),
            ended: false,
        }
    }

    /// The next part, with everything about its jobs read; none at the end, or after a long search.
    async fn next(&mut self, tx: &mut Tx<'_>) -> Result<Option<Vec<(i64, Id)>>, StoreError> {
        if self.looked >= SEARCH {
            return Ok(None);
        }
        if self.found.is_empty() {
            self.found = tx.older(&self.source, self.before).await?;
            self.ended = self.found.is_empty();
        }
        let rest = self.found.split_off(self.part.min(self.found.len()));
        let part = std::mem::replace(&mut self.found, rest);
        let Some((lowest, _)) = part.last() else {
            return Ok(None);
        };
        self.before = *lowest;
        self.looked += part.len();
        self.part = (self.part * 2).min(MEMBERS);
        let ids: Vec<Id> = part.iter().map(|(_, id)| *id).collect();
        tx.load_jobs(&ids).await?;
        Ok(Some(part))
    }
}

/// The rows of a page, and one more: whether there is one decides whether the list goes on.
struct Rows<T> {
    rows: Vec<(i64, T)>,
    limit: usize,
}

impl<T> Rows<T> {
    fn new(limit: usize) -> Self {
        Rows {
            rows: Vec::new(),
            limit,
        }
    }

    fn is_full(&self) -> bool {
        self.rows.len() > self.limit
    }

    fn push(&mut self, seq: i64, row: T) {
        if !self.is_full() {
            self.rows.push((seq, row));
        }
    }

    fn part(mut self, walk: &Walk) -> Part<T> {
        let full = self.is_full();
        self.rows.truncate(self.limit);
        let last = self.rows.last().map(|(seq, _)| *seq);
        let next = match (full, walk.ended) {
            (true, _) => last,
            (false, true) => None,
            (false, false) => Some(walk.before),
        };
        Part {
            rows: self.rows,
            next,
        }
    }
}

/// A part of a list: rows with their places, and where the list goes on, if it does.
pub struct Part<T> {
    /// The rows.
    pub rows: Vec<(i64, T)>,
    /// The next part begins before this place.
    pub next: Option<i64>,
}

/// What is on a page of the ledger.
#[derive(Default)]
pub struct OnPage {
    /// Entries with the tokens they came with.
    pub sound: Vec<(LedgerEntry, Id)>,
    /// The fields of those that cannot be read.
    pub damaged: Vec<Vec<u8>>,
}

/// Where a list takes its jobs from.
pub enum Source {
    /// From all jobs.
    All,
    /// From those in a phase that few are in.
    Phase(Phase),
    /// From these, by arrival.
    These(BTreeSet<(i64, Id)>),
}

/// Letters come newest first: of those that died in the same moment the one that came last is named.
fn add_letter(groups: &mut BTreeMap<(Name, String), ErrorGroup>, job: Job) {
    let error = error_group(job.error.as_ref().map_or("", |error| &error.message));
    let died_at = job.finished_at.unwrap_or_default();
    let group = groups
        .entry((job.task.clone(), error.clone()))
        .or_insert_with(|| ErrorGroup {
            task: job.task,
            error,
            jobs: 0,
            newest: job.id.clone(),
            newest_at: died_at,
        });
    group.jobs += 1;
    if died_at > group.newest_at {
        group.newest = job.id;
        group.newest_at = died_at;
    }
}

fn matches(filter: &JobFilter, head: &Head, job: &Job) -> bool {
    let JobFilter {
        state,
        queue,
        task,
        key,
        error,
        since,
        until,
        dead_letters,
    } = filter;
    let message = job.error.as_ref().map(|error| error.message.as_str());
    !job.stub
        && state.is_none_or(|state| state == job.state)
        && queue.as_ref().is_none_or(|queue| *queue == job.queue)
        && task.as_ref().is_none_or(|task| *task == job.task)
        && key.is_none_or(|key| Some(key) == head.digest && head.life.has_or_awaits_key())
        && error
            .as_ref()
            .is_none_or(|text| message.is_some_and(|message| message.contains(text.as_str())))
        && since.is_none_or(|since| job.enqueued_at >= since)
        && until.is_none_or(|until| job.enqueued_at < until)
        && (!dead_letters || head.is_dead_letter())
}

fn matches_key(filter: &KeyFilter, row: &KeyRow) -> bool {
    let KeyFilter {
        text,
        scope,
        task,
        job,
        also_free,
    } = filter;
    let key_text = row.key.text.as_deref();
    (*also_free || row.key.held)
        && text
            .as_ref()
            .is_none_or(|text| key_text.is_some_and(|key| key.contains(text.as_str())))
        && scope.as_ref().is_none_or(|scope| *scope == row.key.scope)
        && task.as_ref().is_none_or(|task| *task == row.holder.task)
        && job.as_ref().is_none_or(|id| *id == row.holder.id)
}
