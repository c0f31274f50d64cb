//! Looking: jobs, keys, ledger, steps. Everything here runs on a reader, inside one snapshot.

use std::collections::{BTreeMap, HashMap};

use rusqlite::{OptionalExtension, Row, params};

use semel_core::dedup::{Key, key};
use semel_core::error::StoreError;
use semel_core::ids::{Digest, JobId, Name};
use semel_core::job::{Life, Phase, State, Would};
use semel_core::json::Json;
use semel_core::lifecycle::{AttemptEnd, AttemptResult};
use semel_core::step::{StepRecord, StepState};
use semel_core::store::{JobFilter, KeyFilter, LedgerFilter, Page, StepFilter, Target};
use semel_core::time::{Millis, Timestamp};
use semel_core::view::{
    AttemptView, ErrorGroup, HolderView, Job, JobError, KeyRow, KeyView, LedgerEntry, Listing, StepView,
    error_group,
};

use crate::effects::read_step;
use crate::fail::Fail;
use crate::keys;
use crate::ledger::{self, Kept, Packed};
use crate::rows::{self, AT_ADMISSION, IdBytes, LifeRow};
use crate::settings;
use crate::statements::{Sql, Statements};

/// Rows one page of a list looks at before it says how far it came.
const SEARCH: i64 = 100_000;

/// A row of `job`.
pub struct Whole {
    /// Its identity.
    pub id: JobId,
    /// When it was admitted.
    pub enqueued_at: Timestamp,
    /// Its key.
    pub digest: Option<Digest>,
    /// What an observing submission would have got.
    pub would: Option<Would>,
    /// The job of the same hybrid fields it differs from.
    pub collides_with: Option<JobId>,
    /// Born as a follower.
    pub born_deferred: bool,
    bytes: IdBytes,
    input: Option<Json>,
    headers: Option<String>,
    meta: Option<String>,
    timeout: Option<i64>,
    producer: Option<String>,
    key: Option<Key>,
    origin: Option<JobId>,
    replayed_from: Option<JobId>,
}

impl Whole {
    /// Reads a job whose columns begin at `from`.
    pub fn read(row: &Row<'_>, from: usize) -> rusqlite::Result<Self> {
        let digest = rows::digest(row, from + 7)?;
        let would: Option<String> = row.get(from + 15)?;
        let bytes = IdBytes::read(row.get_ref(from)?.as_blob()?);
        let input = row.get_ref(from + 2)?.as_str_or_null()?;
        Ok(Whole {
            id: rows::id_from(&bytes),
            bytes,
            enqueued_at: rows::time(row.get(from + 1)?),
            input: input.map(Json::trusted),
            headers: row.get(from + 3)?,
            meta: row.get(from + 4)?,
            timeout: row.get(from + 5)?,
            producer: row.get(from + 6)?,
            digest,
            key: digest.map(|digest| read_key(row, from + 8, digest)).transpose()?,
            origin: rows::optional_id(row, from + 13)?,
            replayed_from: rows::optional_id(row, from + 14)?,
            would: would.and_then(|text| serde_json::from_str(&text).ok()),
            collides_with: rows::optional_id(row, from + 16)?,
            born_deferred: row.get::<_, Option<i64>>(from + 17)?.is_some(),
        })
    }

    /// The bytes of its id.
    pub fn id_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Its key as anyone sees it.
    pub fn key_view(&self, life: &Life, now: Timestamp) -> Option<KeyView> {
        let (key, holding) = (self.key.as_ref()?, life.holding.as_ref()?);
        let taken_at = if holding.taken_at == AT_ADMISSION {
            self.enqueued_at
        } else {
            holding.taken_at
        };
        Some(KeyView {
            digest: key.digest,
            text: key.text.as_deref().map(str::to_owned),
            scope: key.scope.to_string(),
            by: key.by,
            hold: holding.hold,
            held: holding.is_held(life, now),
            taken_at,
            expires_at: holding.expires_at,
            generation: holding.generation,
            observed: holding.observed,
        })
    }

    /// The job as anyone sees it. `fresh` says that nobody can have written about it yet.
    #[expect(
        clippy::too_many_arguments,
        reason = "what is known of a job comes from as many tables"
    )]
    pub fn show(
        self,
        statements: &mut Statements<'_>,
        row: &LifeRow,
        queue: Name,
        task: Name,
        worker: Option<Name>,
        now: Timestamp,
        fresh: bool,
    ) -> Result<Job, Fail> {
        let life = &row.life;
        let key = self.key_view(life, now);
        let ended = life.phase.is_terminal();
        // Most jobs have none of these: ask only where there can be one.
        let seen = life.started_at.is_some() && !fresh;
        let blocked_by = if life.phase == Phase::Deferred {
            followed_by(statements, row.seq)?
        } else {
            None
        };
        let replayed_as = if life.phase == Phase::Failed {
            replayed_as(statements, row.seq)?
        } else {
            None
        };
        Ok(Job {
            origin: self.origin.unwrap_or_else(|| self.id.clone()),
            id: self.id,
            task,
            queue,
            state: life.state(now),
            stub: self.input.is_none(),
            input: self.input.unwrap_or_else(Json::null),
            output: if ended {
                text(statements, Sql::OutputFind, row.seq)?.map(Json::trusted)
            } else {
                None
            },
            error: last_error(statements, row)?,
            attempt: life.attempt,
            max_attempts: life.max_attempts,
            deliveries: life.deliveries,
            max_deliveries: life.max_deliveries,
            priority: life.priority,
            enqueued_at: self.enqueued_at,
            run_at: life.run_at,
            started_at: life.started_at,
            finished_at: life.finished_at,
            timeout: self.timeout.map(Millis::new),
            progress: if seen {
                progress(statements, row.seq)?
            } else {
                None
            },
            key,
            worker,
            lease_until: life.until,
            fence: life.fence,
            replayed_from: self.replayed_from,
            replayed_as,
            blocked_by,
            would: self.would,
            collides_with: self.collides_with,
            producer: self.producer.map(Name::new).transpose()?,
            headers: match self.headers {
                Some(text) => serde_json::from_str(&text).map_err(unreadable)?,
                None => BTreeMap::new(),
            },
            meta: self.meta.map(Json::trusted),
        })
    }
}

fn read_key(row: &Row<'_>, at: usize, digest: Digest) -> rusqlite::Result<Key> {
    let scope: Option<String> = row.get(at + 3)?;
    Ok(Key {
        digest,
        group: rows::digest(row, at)?,
        text: row.get::<_, Option<String>>(at + 1)?.map(String::into_boxed_str),
        by: rows::decode(row, at + 2, &rows::KEY_BYS)?,
        scope: scope.map_or_else(|| "task".into(), String::into_boxed_str),
        input: rows::digest(row, at + 4)?.unwrap_or(digest),
    })
}

fn unreadable(error: serde_json::Error) -> Fail {
    Fail::Store(StoreError::corrupt(format!(
        "stored JSON cannot be read: {error}"
    )))
}

/// A whole job by its number, without its life.
pub fn whole_job(statements: &mut Statements<'_>, seq: i64) -> Result<Option<Whole>, Fail> {
    Ok(statements
        .get(Sql::JobFind)?
        .query_row([seq], |row| Whole::read(row, 0))
        .optional()?)
}

/// JSON pointers from their column.
pub fn pointers(text: Option<&str>) -> Result<Vec<String>, Fail> {
    text.map_or(Ok(Vec::new()), |text| {
        serde_json::from_str(text).map_err(unreadable)
    })
}

fn text(statements: &mut Statements<'_>, sql: Sql, seq: i64) -> Result<Option<String>, Fail> {
    Ok(statements
        .get(sql)?
        .query_row([seq], |row| row.get(0))
        .optional()?)
}

fn progress(statements: &mut Statements<'_>, seq: i64) -> Result<Option<f64>, Fail> {
    Ok(statements
        .get(Sql::ProgressFind)?
        .query_row([seq], |row| row.get(0))
        .optional()?)
}

fn replayed_as(statements: &mut Statements<'_>, seq: i64) -> Result<Option<JobId>, Fail> {
    Ok(statements
        .get(Sql::ReplayFind)?
        .query_row([seq], |row| rows::id(row, 0))
        .optional()?)
}

fn followed_by(statements: &mut Statements<'_>, seq: i64) -> Result<Option<JobId>, Fail> {
    let holder = statements
        .get(Sql::FollowedFind)?
        .query_row([seq], |row| row.get::<_, i64>(0))
        .optional()?;
    let Some(holder) = holder else { return Ok(None) };
    Ok(statements
        .get(Sql::JobId)?
        .query_row([holder], |row| rows::id(row, 0))
        .optional()?)
}

fn last_error(statements: &mut Statements<'_>, row: &LifeRow) -> Result<Option<JobError>, Fail> {
    let Some(n) = row.last_error else { return Ok(None) };
    let read = |row: &Row<'_>| {
        Ok(JobError {
            message: row.get(0)?,
            at: rows::time(row.get(1)?),
            attempt: row.get(2)?,
        })
    };
    Ok(statements
        .get(Sql::AttemptError)?
        .query_row([row.seq, n], read)
        .optional()?)
}

/// One look at the store: a snapshot, and the lanes of the namespace in it.
pub struct Look<'c> {
    /// The statements.
    pub statements: Statements<'c>,
    /// The namespace's number; 0 if the store has never heard of it.
    pub ns: i64,
    /// The namespace.
    pub namespace: &'c Name,
    /// The store's time.
    pub now: Timestamp,
    lanes: HashMap<i64, (Name, Name)>,
    workers: HashMap<i64, Name>,
}

impl<'c> Look<'c> {
    /// Looks at a snapshot that has begun.
    pub fn new(
        connection: &'c rusqlite::Connection,
        namespace: &'c Name,
        ns: i64,
        now: Timestamp,
    ) -> Result<Self, Fail> {
        let mut look = Look {
            statements: Statements::new(connection),
            ns,
            namespace,
            now,
            lanes: HashMap::new(),
            workers: HashMap::new(),
        };
        let read = |row: &Row<'_>| {
            Ok((
                row.get::<_, i64>(0)?,
                row.get::<_, String>(1)?,
                row.get::<_, String>(2)?,
                row.get(3)?,
            ))
        };
        let rows = look.statements.get(Sql::LaneList)?.query_map([ns], read)?;
        for row in rows {
            let (lane, queue, task, removed): (i64, String, String, bool) = row?;
            if !removed {
                look.lanes.insert(lane, (Name::new(queue)?, Name::new(task)?));
            }
        }
        Ok(look)
    }

    fn seq(&mut self, id: &JobId) -> Result<Option<i64>, Fail> {
        let Some(bytes) = rows::id_bytes(id, self.ns) else {
            return Ok(None);
        };
        let found = self
            .statements
            .get(Sql::TokenFind)?
            .query_row([bytes], |row| row.get::<_, i64>(0))
            .optional()?;
        Ok(found.filter(|found| *found > 0))
    }

    /// A job's life by its number; none if its queue was removed.
    pub fn life(&mut self, seq: i64) -> Result<Option<LifeRow>, Fail> {
        let row = self
            .statements
            .get(Sql::LifeFind)?
            .query_row([seq], LifeRow::read)
            .optional()?;
        Ok(row.filter(|row| self.lanes.contains_key(&row.lane)))
    }

    fn worker(&mut self, number: Option<i64>) -> Result<Option<Name>, Fail> {
        let Some(number) = number else { return Ok(None) };
        if let Some(name) = self.workers.get(&number) {
            return Ok(Some(name.clone()));
        }
        let found = self
            .statements
            .get(Sql::WorkerName)?
            .query_row([number], |row| row.get::<_, String>(0));
        let Some(name) = found.optional()? else {
            return Ok(None);
        };
        let name = Name::new(name)?;
        self.workers.insert(number, name.clone());
        Ok(Some(name))
    }

    /// Jobs by id, in the order asked for.
    pub fn jobs_by_id(&mut self, ids: &[JobId]) -> Result<Vec<Option<Job>>, Fail> {
        ids.iter()
            .map(|id| match self.seq(id)? {
                Some(seq) => self.job(seq),
                None => Ok(None),
            })
            .collect()
    }

    fn job(&mut self, seq: i64) -> Result<Option<Job>, Fail> {
        let Some(row) = self.life(seq)? else {
            return Ok(None);
        };
        let Some(whole) = whole_job(&mut self.statements, seq)? else {
            return Ok(None);
        };
        let (queue, task) = self.lanes[&row.lane].clone();
        let worker = self.worker(row.worker)?;
        whole
            .show(&mut self.statements, &row, queue, task, worker, self.now, false)
            .map(Some)
    }

    /// Jobs by filter, newest first.
    pub fn jobs(&mut self, filter: &JobFilter, page: &Page) -> Result<Listing<Job>, Fail> {
        let query = format!("jobs {filter:?}");
        let before = page.position(&query)?.unwrap_or(i64::MAX);
        let (candidates, looked_to) = self.candidates(filter, before)?;
        let mut items = Vec::new();
        let full = candidates.len();
        for (at, seq) in candidates.into_iter().enumerate() {
            if let Some(job) = self.job(seq)?.filter(|job| matches(filter, job)) {
                items.push(job);
            }
            if items.len() == page.limit {
                let more = at + 1 < full || looked_to.is_some();
                return Ok(Listing {
                    items,
                    next_cursor: more.then(|| Page::cursor(&query, seq)),
                });
            }
        }
        Ok(Listing {
            items,
            next_cursor: looked_to.map(|to| Page::cursor(&query, to)),
        })
    }

    /// Numbers of jobs that may match, newest first, and how far was looked if not to the end.
    fn candidates(&mut self, filter: &JobFilter, before: i64) -> Result<(Vec<i64>, Option<i64>), Fail> {
        if let Some(digest) = filter.key {
            return Ok((self.owners(&digest, before)?, None));
        }
        let state = if filter.dead_letters {
            Some(State::Failed)
        } else {
            filter.state
        };
        match state {
            Some(State::Running) => Ok((self.leased(before)?, None)),
            Some(State::Failed) => self.rare(Phase::Failed, filter, before),
            Some(State::Cancelled) => self.rare(Phase::Cancelled, filter, before),
            Some(State::Parked) => self.rare(Phase::Parked, filter, before),
            Some(State::Deferred) => self.rare(Phase::Deferred, filter, before),
            state => self.scan(filter, state, before),
        }
    }

    fn wanted(&self, filter: &JobFilter, lane: i64) -> bool {
        let is = |wanted: &Option<Name>, name: &Name| wanted.as_ref().is_none_or(|wanted| wanted == name);
        self.lanes
            .get(&lane)
            .is_some_and(|(queue, task)| is(&filter.queue, queue) && is(&filter.task, task))
    }

    fn rare(
        &mut self,
        phase: Phase,
        filter: &JobFilter,
        before: i64,
    ) -> Result<(Vec<i64>, Option<i64>), Fail> {
        const MOST: usize = 2_000;
        let lanes: Vec<i64> = self
            .lanes
            .keys()
            .copied()
            .filter(|lane| self.wanted(filter, *lane))
            .collect();
        let mut seqs: Vec<i64> = Vec::new();
        for lane in lanes {
            let scan = self.statements.get(Sql::RareScan)?;
            let found = scan.query_map(params![phase as i64, lane, before, MOST as i64], |row| row.get(0))?;
            for seq in found {
                seqs.push(seq?);
            }
        }
        seqs.sort_unstable_by(|a, b| b.cmp(a));
        let cut = seqs.len() > MOST;
        seqs.truncate(MOST);
        let to = if cut || seqs.len() == MOST {
            seqs.last().copied()
        } else {
            None
        };
        Ok((seqs, to))
    }

    fn leased(&mut self, before: i64) -> Result<Vec<i64>, Fail> {
        let mut seqs = Vec::new();
        let mut batches = self.statements.get(Sql::LeaseAll)?.query([self.ns])?;
        while let Some(row) = batches.next()? {
            seqs.extend(
                rows::unpack(row.get_ref(0)?.as_blob()?)
                    .into_iter()
                    .filter(|seq| *seq < before),
            );
        }
        drop(batches);
        seqs.sort_unstable_by(|a, b| b.cmp(a));
        seqs.dedup();
        Ok(seqs)
    }

    fn owners(&mut self, digest: &Digest, before: i64) -> Result<Vec<i64>, Fail> {
        let mut seqs = self.owned(digest)?;
        seqs.retain(|seq| *seq < before);
        seqs.sort_unstable_by(|a, b| b.cmp(a));
        seqs.dedup();
        Ok(seqs)
    }

    /// Jobs that owned a key, the newest owner first.
    fn owned(&mut self, digest: &Digest) -> Result<Vec<i64>, Fail> {
        let mut seqs = Vec::new();
        for owner in keys::stored_owners(&mut self.statements, rows::prefix(digest))? {
            let theirs = self
                .statements
                .get(Sql::JobKeyed)?
                .query_row([owner.seq], |row| rows::digest(row, 1));
            if theirs.optional()?.flatten().as_ref() == Some(digest) {
                seqs.push(owner.seq);
            }
        }
        Ok(seqs)
    }

    fn scan(
        &mut self,
        filter: &JobFilter,
        state: Option<State>,
        before: i64,
    ) -> Result<(Vec<i64>, Option<i64>), Fail> {
        const MOST: usize = 2_000;
        let (mut seqs, mut looked, mut last) = (Vec::new(), 0i64, before);
        let now = self.now.as_millis();
        let lanes: std::collections::HashSet<i64> = self
            .lanes
            .keys()
            .copied()
            .filter(|lane| self.wanted(filter, *lane))
            .collect();
        let mut rows = self
            .statements
            .get(Sql::LifeScan)?
            .query(params![before, SEARCH])?;
        while let Some(row) = rows.next()? {
            looked += 1;
            last = row.get(0)?;
            let phase: i64 = row.get(2)?;
            let fits = match state {
                None => true,
                Some(State::Complete) => phase == Phase::Complete as i64,
                Some(State::Scheduled) => phase == Phase::Waiting as i64 && row.get::<_, i64>(3)? > now,
                Some(State::Queued) => phase == Phase::Waiting as i64 && row.get::<_, i64>(3)? <= now,
                Some(_) => false,
            };
            if fits && lanes.contains(&row.get::<_, i64>(1)?) {
                seqs.push(last);
            }
            if seqs.len() == MOST {
                return Ok((seqs, Some(last)));
            }
        }
        Ok((seqs, (looked == SEARCH).then_some(last)))
    }

    /// The deliveries of a job that have ended, oldest first.
    pub fn attempts(&mut self, id: &JobId) -> Result<Vec<AttemptView>, Fail> {
        let Some(seq) = self.seq(id)? else {
            return Ok(Vec::new());
        };
        let Some(row) = self.life(seq)? else {
            return Ok(Vec::new());
        };
        if self.statements.get(Sql::StubFind)?.exists([seq])? {
            return Ok(Vec::new());
        }
        let read = |row: &Row<'_>| {
            let end = AttemptEnd {
                attempt: row.get(0)?,
                fence: row.get(1)?,
                began_at: rows::optional_time(row, 2)?,
                ended_at: rows::time(row.get(3)?),
                result: rows::decode(row, 4, &rows::RESULTS)?,
                error: row.get(5)?,
            };
            Ok((end, row.get::<_, Option<i64>>(6)?))
        };
        let found = self.statements.get(Sql::AttemptList)?.query_map([seq], read)?;
        let mut ends = found.collect::<rusqlite::Result<Vec<_>>>()?;
        if let (Phase::Complete, Some(ended_at)) = (row.life.phase, row.life.finished_at) {
            let end = AttemptEnd {
                attempt: row.life.attempt,
                fence: row.life.fence,
                began_at: row.life.began,
                ended_at,
                result: AttemptResult::Complete,
                error: None,
            };
            ends.push((end, row.worker));
        }
        ends.into_iter()
            .map(|(end, worker)| {
                Ok(AttemptView {
                    end,
                    worker: self.worker(worker)?,
                })
            })
            .collect()
    }

    // Keys and the ledger.

    /// Keys by filter, those of the newest jobs first.
    pub fn keys(&mut self, filter: &KeyFilter, page: &Page) -> Result<Listing<KeyRow>, Fail> {
        let query = format!("keys {filter:?}");
        let before = page.position(&query)?.unwrap_or(i64::MAX);
        let (seqs, looked_to) = match &filter.job {
            Some(id) => (
                self.seq(id)?.into_iter().filter(|seq| *seq < before).collect(),
                None,
            ),
            None => self.keyed(filter, before)?,
        };
        let mut items = Vec::new();
        let full = seqs.len();
        for (at, seq) in seqs.into_iter().enumerate() {
            if let Some(row) = self.key_row(seq, filter)? {
                items.push(row);
            }
            if items.len() == page.limit {
                let more = at + 1 < full || looked_to.is_some();
                return Ok(Listing {
                    items,
                    next_cursor: more.then(|| Page::cursor(&query, seq)),
                });
            }
        }
        Ok(Listing {
            items,
            next_cursor: looked_to.map(|to| Page::cursor(&query, to)),
        })
    }

    fn keyed(&mut self, filter: &KeyFilter, before: i64) -> Result<(Vec<i64>, Option<i64>), Fail> {
        const MOST: usize = 2_000;
        let (mut seqs, mut looked, mut last) = (Vec::new(), 0i64, before);
        let mut rows = self
            .statements
            .get(Sql::KeyScan)?
            .query(params![before, SEARCH])?;
        while let Some(row) = rows.next()? {
            looked += 1;
            last = row.get(0)?;
            let text = row.get_ref(1)?.as_str_or_null()?.unwrap_or_default();
            if filter
                .text
                .as_ref()
                .is_none_or(|wanted| text.contains(wanted.as_str()))
            {
                seqs.push(last);
            }
            if seqs.len() == MOST {
                return Ok((seqs, Some(last)));
            }
        }
        Ok((seqs, (looked == SEARCH).then_some(last)))
    }

    fn key_row(&mut self, seq: i64, filter: &KeyFilter) -> Result<Option<KeyRow>, Fail> {
        let Some(row) = self.life(seq)? else {
            return Ok(None);
        };
        let Some(whole) = whole_job(&mut self.statements, seq)? else {
            return Ok(None);
        };
        let Some(view) = whole.key_view(&row.life, self.now) else {
            return Ok(None);
        };
        let (queue, task) = self.lanes[&row.lane].clone();
        let text = view.text.as_deref().unwrap_or_default();
        let fits = (filter.also_free || view.held)
            && filter
                .text
                .as_ref()
                .is_none_or(|wanted| text.contains(wanted.as_str()))
            && filter.scope.as_ref().is_none_or(|wanted| *wanted == view.scope)
            && filter.task.as_ref().is_none_or(|wanted| *wanted == task);
        if !fits {
            return Ok(None);
        }
        let absorbed = ledger::total(&mut self.statements, &view.digest)?;
        Ok(Some(KeyRow {
            free_at: row
                .life
                .holding
                .as_ref()
                .and_then(|holding| holding.free_at(&row.life)),
            key: view,
            holder: HolderView {
                id: whole.id,
                task,
                state: row.life.state(self.now),
                enqueued_at: whole.enqueued_at,
            },
            queue,
            absorbed,
        }))
    }

    /// One key: its newest owner.
    pub fn key(&mut self, digest: &Digest) -> Result<Option<KeyRow>, Fail> {
        let seqs = self.owned(digest)?;
        let filter = KeyFilter {
            also_free: true,
            ..KeyFilter::default()
        };
        for seq in seqs {
            if let Some(row) = self.key_row(seq, &filter)? {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }

    /// Absorbed submissions, newest first.
    pub fn ledger(&mut self, filter: &LedgerFilter, page: &Page) -> Result<Listing<LedgerEntry>, Fail> {
        let query = format!("ledger {filter:?}");
        let before = page.position(&query)?.unwrap_or(i64::MAX);
        let digest = match (&filter.digest, &filter.holder) {
            (Some(digest), _) => Some(*digest),
            (None, Some(holder)) => self.digest_of(holder)?,
            (None, None) => None,
        };
        let from = match digest {
            Some(_) => ledger::indexed(&mut self.statements)?,
            None => 0,
        };
        let mut found = Entries {
            filter,
            ns: self.ns,
            holder: filter.holder.as_ref().map(|id| rows::id_bytes(id, self.ns)),
            limit: page.limit,
            items: Vec::new(),
            more: false,
        };
        ledger::listed(&mut self.statements, self.ns, (from, before), |row, entry| {
            found.take(row, entry)
        })?;
        if let Some(digest) = digest.filter(|_| !found.more) {
            self.indexed_entries(&digest, before, &mut found)?;
        }
        let Entries { items, more, .. } = found;
        let next_cursor = items
            .last()
            .filter(|_| more)
            .map(|entry| Page::cursor(&query, entry.n));
        Ok(Listing { items, next_cursor })
    }

    fn indexed_entries(&mut self, digest: &Digest, before: i64, found: &mut Entries<'_>) -> Result<(), Fail> {
        let mut row: Option<Kept> = None;
        for n in ledger::of_key(&mut self.statements, digest, before)? {
            // Entries of a key are often in one row.
            if row.as_ref().is_none_or(|row| n < row.n) {
                row = ledger::find(&mut self.statements, n)?;
            }
            let Some(row) = &row else { continue };
            for entry in row.entries().iter().filter(|entry| entry.n == n) {
                if !found.take(row, entry)? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn digest_of(&mut self, id: &JobId) -> Result<Option<Digest>, Fail> {
        let Some(seq) = self.seq(id)? else { return Ok(None) };
        Ok(whole_job(&mut self.statements, seq)?.and_then(|whole| whole.digest))
    }

    // Steps and dead letters.

    /// Steps of a chain, or those in doubt.
    pub fn steps(&mut self, filter: &StepFilter) -> Result<Vec<StepView>, Fail> {
        let mut views = Vec::new();
        for record in step_records(&mut self.statements, filter, self.ns)? {
            let in_doubt = self.is_in_doubt(&record)?;
            let known = matches!(filter, StepFilter::Origin(_)) || in_doubt;
            if known && self.is_ours(&record)? {
                let key = key::downstream(
                    self.namespace,
                    record.origin.as_str(),
                    &record.name,
                    record.generation,
                );
                views.push(StepView {
                    origin: record.origin,
                    name: record.name,
                    state: record.state,
                    in_doubt,
                    job: record.job,
                    begun_at: record.begun_at,
                    ended_at: record.ended_at,
                    output: record.output,
                    key,
                });
            }
        }
        Ok(views)
    }

    fn is_in_doubt(&mut self, record: &StepRecord) -> Result<bool, Fail> {
        if record.state != StepState::Begun {
            return Ok(false);
        }
        let row = match self.seq(&record.job)? {
            Some(seq) => self.life(seq)?,
            None => None,
        };
        Ok(!row.is_some_and(|row| row.life.phase == Phase::Running && row.life.fence == record.fence))
    }

    /// Steps belong to their chain: they are seen for as long as one of its jobs is.
    fn is_ours(&mut self, record: &StepRecord) -> Result<bool, Fail> {
        let origin = rows::id_bytes(&record.origin, self.ns);
        let found = self
            .statements
            .get(Sql::OriginList)?
            .query_map([origin], |row| row.get::<_, i64>(0))?;
        let mut seqs = found.collect::<rusqlite::Result<Vec<_>>>()?;
        seqs.extend(self.seq(&record.origin)?);
        for seq in seqs {
            if self.life(seq)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Dead letters grouped by what they died of.
    pub fn dead_letter_groups(&mut self, task: Option<&Name>) -> Result<Vec<ErrorGroup>, Fail> {
        let filter = JobFilter {
            task: task.cloned(),
            dead_letters: true,
            ..JobFilter::default()
        };
        let mut groups: BTreeMap<(Name, String), ErrorGroup> = BTreeMap::new();
        let mut before = i64::MAX;
        loop {
            let (seqs, looked_to) = self.rare(Phase::Failed, &filter, before)?;
            for seq in seqs {
                self.group(seq, &filter, &mut groups)?;
            }
            match looked_to {
                Some(to) => before = to,
                None => break,
            }
        }
        let mut groups: Vec<ErrorGroup> = groups.into_values().collect();
        groups.sort_by(|a, b| {
            b.jobs
                .cmp(&a.jobs)
                .then_with(|| (&a.task, &a.error).cmp(&(&b.task, &b.error)))
        });
        Ok(groups)
    }

    fn group(
        &mut self,
        seq: i64,
        filter: &JobFilter,
        groups: &mut BTreeMap<(Name, String), ErrorGroup>,
    ) -> Result<(), Fail> {
        let Some(job) = self.job(seq)?.filter(|job| matches(filter, job)) else {
            return Ok(());
        };
        let message = job.error.as_ref().map_or("", |error| error.message.as_str());
        let error = error_group(message);
        let at = job.finished_at.unwrap_or(job.enqueued_at);
        let group = groups
            .entry((job.task.clone(), error.clone()))
            .or_insert_with(|| ErrorGroup {
                task: job.task.clone(),
                error,
                jobs: 0,
                newest: job.id.clone(),
                newest_at: at,
            });
        group.jobs += 1;
        if at > group.newest_at {
            group.newest = job.id;
            group.newest_at = at;
        }
        Ok(())
    }

    /// When there may be work in these queues and tasks without anybody writing: a job comes due, a pause
    /// ends, a lease runs out. A moment that has passed means now.
    pub fn next_work(&mut self, queues: &[Name], tasks: &[Name]) -> Result<Option<Timestamp>, Fail> {
        let wanted = |names: &[Name], name: &Name| names.is_empty() || names.contains(name);
        let settings = settings::read(&mut self.statements, self.ns)?;
        let lanes = self
            .lanes
            .iter()
            .filter(|(_, (queue, task))| wanted(queues, queue) && wanted(tasks, task));
        let paused = |queue: &Name, task: &Name| {
            let targets = [
                Target::All,
                Target::Queue(queue.clone()),
                Target::Task(task.clone()),
            ];
            targets.iter().any(|target| {
                settings
                    .get(target)
                    .is_some_and(|setting| setting.is_paused(self.now))
            })
        };
        let open: Vec<i64> = lanes
            .filter(|(_, (queue, task))| !paused(queue, task))
            .map(|(lane, _)| *lane)
            .collect();
        let ends = settings
            .values()
            .filter_map(|setting| setting.paused.as_ref()?.until);
        let mut next = ends
            .filter(|until| *until > self.now)
            .min()
            .map(Timestamp::as_millis);
        let lease: Option<i64> = self
            .statements
            .get(Sql::LeaseSoonest)?
            .query_row([self.ns], |row| row.get(0))?;
        next = [next, lease].into_iter().flatten().min();
        for lane in open {
            for nprio in self.priorities(lane)? {
                let first = self.statements.get(Sql::ReadyFirst)?;
                let due: Option<i64> = first.query_row(params![lane, nprio], |row| row.get(0))?;
                next = [next, due].into_iter().flatten().min();
            }
        }
        Ok(next.map(rows::time))
    }

    /// The priorities that wait in a lane.
    pub fn priorities(&mut self, lane: i64) -> Result<Vec<i64>, Fail> {
        let found = self
            .statements
            .get(Sql::ReadyPriorities)?
            .query_map([lane], |row| row.get(0))?;
        Ok(found.collect::<rusqlite::Result<_>>()?)
    }
}

/// Steps as stored.
pub fn step_records(
    statements: &mut Statements<'_>,
    filter: &StepFilter,
    ns: i64,
) -> Result<Vec<StepRecord>, Fail> {
    let found = match filter {
        StepFilter::Origin(origin) => {
            let Some(origin) = rows::id_bytes(origin, ns) else {
                return Ok(Vec::new());
            };
            statements
                .get(Sql::StepList)?
                .query_map([origin], read_step)?
                .collect::<rusqlite::Result<Vec<_>>>()
        }
        StepFilter::InDoubt => statements
            .get(Sql::StepBegun)?
            .query_map([], read_step)?
            .collect(),
    };
    Ok(found?)
}

fn matches(filter: &JobFilter, job: &Job) -> bool {
    let dead = !filter.dead_letters || (job.state == State::Failed && job.replayed_as.is_none());
    !job.stub
        && dead
        && filter.state.is_none_or(|state| state == job.state)
        && filter.queue.as_ref().is_none_or(|queue| *queue == job.queue)
        && filter.task.as_ref().is_none_or(|task| *task == job.task)
        && filter
            .key
            .is_none_or(|digest| job.key.as_ref().is_some_and(|key| key.digest == digest))
        && filter.since.is_none_or(|since| job.enqueued_at >= since)
        && filter.until.is_none_or(|until| job.enqueued_at < until)
        && filter.error.as_ref().is_none_or(|text| {
            job.error
                .as_ref()
                .is_some_and(|error| error.message.contains(text.as_str()))
        })
}

/// A page of the ledger that is being filled.
struct Entries<'f> {
    filter: &'f LedgerFilter,
    ns: i64,
    /// The holder that is asked for; none of this store's if it is no id.
    holder: Option<Option<IdBytes>>,
    limit: usize,
    items: Vec<LedgerEntry>,
    more: bool,
}

impl Entries<'_> {
    /// Takes an entry if it fits; whether the page has room for more.
    fn take(&mut self, row: &Kept, entry: &Packed<'_>) -> Result<bool, Fail> {
        let holds = |holder: &Option<IdBytes>| {
            holder
                .as_ref()
                .is_some_and(|holder| rows::short(holder) == entry.holder)
        };
        let fits = row.ns == self.ns
            && self.filter.digest.is_none_or(|digest| digest == entry.digest)
            && self.holder.as_ref().is_none_or(holds);
        if !fits {
            return Ok(true);
        }
        if self.items.len() == self.limit {
            self.more = true;
            return Ok(false);
        }
        self.items.push(row.show(entry)?);
        Ok(true)
    }
}
