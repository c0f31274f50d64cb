//! One transaction of the writer: what it may touch, what it remembers, what it counts.

use std::collections::BTreeMap;

use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};
use rusqlite::{Connection, OptionalExtension, params};

use semel_core::admission;
use semel_core::counters::{Counter, Counts};
use semel_core::dedup::Holding;
use semel_core::error::{Invalid, StoreError};
use semel_core::ids::{Digest, JobId, Name};
use semel_core::job::{Life, Phase};
use semel_core::lifecycle::{self, AttemptEnd};
use semel_core::limits;
use semel_core::store::{Setting, Target};
use semel_core::time::Timestamp;

use crate::born::Newborns;
use crate::fail::Fail;
use crate::gathered::{Place, Remembered};
use crate::keys::{KeyLog, Owner};
use crate::ledger::{self, Ledger};
use crate::recent::Recent;
use crate::rows::{self, IdBytes, LifeRow};
use crate::settings;
use crate::statements::{Sql, Statements};

/// Leases looked at by one call, so that no call is long.
const RESCUE: usize = 1_000;

/// Ids remembered, so that settling does not look them up.
const IDS: usize = 200_000;

/// A task in a queue.
#[derive(Clone, Debug)]
pub struct Lane {
    /// The queue.
    pub queue: Name,
    /// The task.
    pub task: Name,
    /// Gone with its queue.
    pub removed: bool,
    /// Jobs by phase.
    pub phases: [i64; 7],
}

/// What the writer remembers between transactions, as long as no other process has written.
#[derive(Default)]
pub struct Cache {
    version: Option<i64>,
    /// Lanes by number.
    pub lanes: HashMap<i64, Lane>,
    by_name: HashMap<Name, HashMap<Name, i64>>,
    /// Settings that are not at their default.
    pub settings: BTreeMap<Target, Setting>,
    next_seq: i64,
    next_entry: i64,
    next_ended: [i64; 2],
    last_fence: i64,
    soonest_lease: i64,
    /// An id never means another job, so these outlive what others write.
    ids: HashMap<[u8; 16], i64>,
    workers: HashMap<Name, i64>,
    /// Whether any job may follow another: most stores never see one.
    pub followers: bool,
    /// Who owned which key.
    pub keys: KeyLog,
    /// Jobs of which only their own row is written.
    pub newborn: Newborns,
    /// Absorbed submissions.
    pub ledger: Ledger,
    /// Jobs that were read or written last.
    pub recent: Recent,
    /// The lane that was asked for last: often all of a batch is for one.
    last_lane: Option<(Name, Name, i64)>,
    highest_token: Vec<u8>,
}

impl Cache {
    /// Forgets what may have been rolled back.
    pub fn roll_back(&mut self) {
        let mut keys = std::mem::take(&mut self.keys);
        keys.roll_back();
        let mut ledger = std::mem::take(&mut self.ledger);
        ledger.roll_back();
        *self = Cache {
            keys,
            ledger,
            ..Cache::default()
        };
    }

    /// What was gathered since the last commit is durable.
    pub fn commit(&mut self) {
        self.keys.commit();
        self.ledger.commit();
    }
}

#[derive(Clone, Default)]
struct Delta {
    phases: [i64; 7],
    counts: Counts,
}

/// What callers that wait may want to know of a commit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Signals {
    /// There may be work.
    pub work: bool,
    /// A job may have ended.
    pub ends: bool,
}

/// The key of a job, and for hybrid keys its group.
type KeyAndGroup = (Option<Digest>, Option<Digest>);

/// One transaction of the writer.
pub struct Tx<'c> {
    /// The statements.
    pub statements: Statements<'c>,
    /// What is remembered.
    pub cache: &'c mut Cache,
    /// The namespace's number.
    pub ns: i64,
    /// The namespace.
    pub namespace: &'c Name,
    /// The store's time, read once per call.
    pub now: Timestamp,
    /// The same, finer.
    pub micros: i64,
    /// What to tell those who wait.
    pub signals: Signals,
    /// Whether new jobs may be written by their own rows alone.
    pub deferring: bool,
    deltas: HashMap<i64, Delta>,
    ended: [Vec<i64>; 2],
    /// Tokens of this transaction, and what was the largest before it: a token is new if it is larger and not among them.
    tokens: HashSet<[u8; 16]>,
    highest_token: Vec<u8>,
}

impl<'c> Tx<'c> {
    /// A transaction that has begun on `connection`. Brings the cache up to date if others have written.
    pub fn new(
        connection: &'c Connection,
        cache: &'c mut Cache,
        ns: i64,
        namespace: &'c Name,
        micros: i64,
    ) -> Result<Self, Fail> {
        let mut tx = Tx {
            statements: Statements::new(connection),
            cache,
            ns,
            namespace,
            now: Timestamp::from_millis(micros / 1_000),
            micros,
            signals: Signals::default(),
            deferring: false,
            deltas: HashMap::new(),
            ended: [Vec::new(), Vec::new()],
            tokens: HashSet::new(),
            highest_token: Vec::new(),
        };
        let version: i64 = connection
            .prepare_cached("PRAGMA data_version")?
            .query_row([], |row| row.get(0))?;
        if tx.cache.version != Some(version) {
            crate::open::check_schema(connection)?;
            tx.load()?;
            tx.cache.version = Some(version);
        }
        tx.highest_token.clone_from(&tx.cache.highest_token);
        Ok(tx)
    }

    fn load(&mut self) -> Result<(), Fail> {
        let lanes = self.statements.get(Sql::LaneList)?;
        let rows = lanes.query_map([self.ns], |row| {
            let mut phases = [0i64; 7];
            for (at, phase) in phases.iter_mut().enumerate() {
                *phase = row.get(4 + at)?;
            }
            Ok((
                row.get::<_, i64>(0)?,
                row.get::<_, String>(1)?,
                row.get::<_, String>(2)?,
                row.get(3)?,
                phases,
            ))
        })?;
        self.cache.lanes.clear();
        self.cache.by_name.clear();
        for row in rows {
            let (number, queue, task, removed, phases) = row?;
            let lane = Lane {
                queue: Name::new(queue)?,
                task: Name::new(task)?,
                removed,
                phases,
            };
            self.cache.remember(number, lane);
        }
        self.cache.settings = settings::read(&mut self.statements, self.ns)?;
        self.cache.next_seq = self
            .highest(Sql::JobLast)?
            .max(self.floor("seq")?)
            .saturating_add(1);
        self.cache.next_entry = ledger::last(&mut self.statements)?
            .max(self.floor("ledger")?)
            .saturating_add(1);
        for kind in 0..2 {
            let last: Option<i64> = self
                .statements
                .get(Sql::EndedLast)?
                .query_row([self.ns, kind], |row| row.get(0))?;
            self.cache.next_ended[kind as usize] = last.unwrap_or(0).saturating_add(1);
        }
        self.cache.last_fence = self.highest(Sql::FenceHighest)?;
        self.refresh_soonest()?;
        self.cache.followers = self
            .statements
            .get(Sql::FollowAny)?
            .query_row([], |row| row.get(0))?;
        self.cache.workers.clear();
        self.cache.recent = Recent::default();
        self.cache.last_lane = None;
        let token: Option<Vec<u8>> = self
            .statements
            .get(Sql::TokenLast)?
            .query_row([], |row| row.get(0))?;
        self.cache.ledger.load(&mut self.statements, self.ns)?;
        let entered = self.cache.ledger.highest_token(self.ns);
        let entered = entered.map_or(Vec::new(), |token| token.to_vec());
        self.cache.highest_token = token.unwrap_or_default().max(entered);
        self.cache.keys.load(&mut self.statements)?;
        self.load_newborn()
    }

    fn highest(&mut self, sql: Sql) -> Result<i64, Fail> {
        let highest: Option<i64> = self.statements.get(sql)?.query_row([], |row| row.get(0))?;
        Ok(highest.unwrap_or(0))
    }

    /// What this transaction has counted and not written yet.
    pub fn counted(&self) -> Counts {
        let mut counts = Counts::default();
        self.deltas.values().for_each(|delta| counts.merge(&delta.counts));
        counts
    }

    /// A number that never goes back.
    pub fn floor(&mut self, name: &str) -> Result<i64, Fail> {
        let found = self
            .statements
            .get(Sql::FloorFind)?
            .query_row([name], |row| row.get(0))
            .optional()?;
        Ok(found.unwrap_or(0))
    }

    /// Raises a number that never goes back.
    pub fn raise_floor(&mut self, name: &str, value: i64) -> Result<(), Fail> {
        self.statements
            .get(Sql::FloorRaise)?
            .execute(params![name, value])?;
        Ok(())
    }

    /// The number of the next job.
    pub fn next_seq(&mut self) -> i64 {
        let next = self.cache.next_seq;
        self.cache.next_seq = next.saturating_add(1);
        next
    }

    /// The number the next job would get.
    pub fn peek_seq(&self) -> i64 {
        self.cache.next_seq
    }

    /// A generation for a key that is taken by a job that is not new.
    pub fn next_generation(&mut self) -> Result<i64, Fail> {
        let generation = self.next_seq();
        self.raise_floor("seq", generation)?;
        Ok(generation)
    }

    /// The number of the next ledger entry.
    pub fn next_entry(&mut self) -> i64 {
        let next = self.cache.next_entry;
        self.cache.next_entry = next.saturating_add(1);
        next
    }

    /// The number the next ledger entry would get.
    pub fn peek_entry(&self) -> i64 {
        self.cache.next_entry
    }

    // Lanes.

    /// The lane of a task in a queue, made if it is new.
    pub fn lane(&mut self, queue: &Name, task: &Name) -> Result<i64, Fail> {
        if let Some(number) = self.known_lane(queue, task) {
            if self.cache.last_lane.as_ref().is_none_or(|last| last.2 != number) {
                self.cache.last_lane = Some((queue.clone(), task.clone(), number));
            }
            return Ok(number);
        }
        self.bounded(queue, task)?;
        let insert = self.statements.get(Sql::LaneInsert)?;
        let number = insert.insert(params![self.ns, queue.as_str(), task.as_str()])?;
        let lane = Lane {
            queue: queue.clone(),
            task: task.clone(),
            removed: false,
            phases: [0; 7],
        };
        self.cache.remember(number, lane);
        Ok(number)
    }

    fn known_lane(&self, queue: &Name, task: &Name) -> Option<i64> {
        if let Some((last_queue, last_task, number)) = &self.cache.last_lane
            && (last_queue, last_task) == (queue, task)
        {
            return Some(*number);
        }
        self.cache.by_name.get(queue)?.get(task).copied()
    }

    /// Bounds the numbers of queues and tasks (contract 8.1).
    pub fn bounded(&self, queue: &Name, task: &Name) -> Result<(), Invalid> {
        if self.known_lane(queue, task).is_some() {
            return Ok(());
        }
        if !self.cache.by_name.contains_key(queue) && self.cache.by_name.len() >= limits::QUEUES {
            return Err(Invalid::new(
                "queue",
                format!("at most {} queues", limits::QUEUES),
            ));
        }
        let known = || self.cache.by_name.values().any(|tasks| tasks.contains_key(task));
        let tasks = || {
            let names = self.cache.by_name.values().flat_map(HashMap::keys);
            names.collect::<HashSet<_>>().len()
        };
        if self.cache.lanes.len() >= limits::TASKS && !known() && tasks() >= limits::TASKS {
            return Err(Invalid::new("task", format!("at most {} tasks", limits::TASKS)));
        }
        Ok(())
    }

    /// A lane that is not removed.
    pub fn live_lane(&self, number: i64) -> Option<&Lane> {
        self.cache.lanes.get(&number).filter(|lane| !lane.removed)
    }

    /// Queue and task of a lane.
    pub fn names(&self, number: i64) -> Result<(Name, Name), Fail> {
        let lane = self.cache.lanes.get(&number);
        let lane =
            lane.ok_or_else(|| Fail::Store(StoreError::corrupt(format!("lane {number} is missing"))))?;
        Ok((lane.queue.clone(), lane.task.clone()))
    }

    /// Whether policies only watch in a lane.
    pub fn observes(&self, queue: &Name, task: &Name) -> bool {
        self.any_setting(queue, task, |setting| setting.is_observed(self.now))
    }

    /// Whether work of a lane is held back.
    pub fn is_paused(&self, queue: &Name, task: &Name) -> bool {
        self.any_setting(queue, task, |setting| setting.is_paused(self.now))
    }

    /// What keeps a submission out, if anything does.
    pub fn closed(&self, queue: &Name, task: &Name) -> Option<Target> {
        if self.cache.settings.is_empty() {
            return None;
        }
        let targets = [
            Target::All,
            Target::Queue(queue.clone()),
            Target::Task(task.clone()),
        ];
        targets.into_iter().find(|target| {
            self.cache
                .settings
                .get(target)
                .is_some_and(|setting| setting.is_closed(self.now))
        })
    }

    /// Whether a queue was declared unique.
    pub fn is_unique(&self, queue: &Name) -> bool {
        let is = |target: &Target| {
            self.cache
                .settings
                .get(target)
                .is_some_and(|setting| setting.unique)
        };
        !self.cache.settings.is_empty() && (is(&Target::All) || is(&Target::Queue(queue.clone())))
    }

    fn any_setting(&self, queue: &Name, task: &Name, holds: impl Fn(&Setting) -> bool) -> bool {
        if self.cache.settings.is_empty() {
            return false;
        }
        let targets = [
            Target::All,
            Target::Queue(queue.clone()),
            Target::Task(task.clone()),
        ];
        targets
            .iter()
            .any(|target| self.cache.settings.get(target).is_some_and(&holds))
    }

    /// Counts in a lane.
    pub fn count(&mut self, lane: i64, counter: Counter) {
        self.deltas.entry(lane).or_default().counts.add(counter, 1);
    }

    fn moved(&mut self, lane: i64, from: Option<Phase>, to: Option<Phase>) {
        if from == to {
            return;
        }
        let delta = self.deltas.entry(lane).or_default();
        let known = self.cache.lanes.get_mut(&lane);
        let mut phases = known.map(|lane| &mut lane.phases);
        for (phase, by) in [(from, -1), (to, 1)] {
            let Some(phase) = phase else { continue };
            delta.phases[phase as usize] += by;
            if let Some(phases) = phases.as_deref_mut() {
                phases[phase as usize] = phases[phase as usize].saturating_add(by);
            }
        }
    }

    // Jobs.

    /// A job's life by its id; none if it is not there or its queue was removed.
    pub fn find(&mut self, id: &JobId) -> Result<Option<LifeRow>, Fail> {
        let Some(bytes) = rows::id_bytes(id, self.ns) else {
            return Ok(None);
        };
        let short: [u8; 16] = bytes[..16].try_into().expect("an id has at least 16 bytes");
        if let Some(seq) = self.cache.ids.get(&short).copied() {
            if let Some(row) = self.life(seq)? {
                return Ok(Some(row));
            }
            self.cache.ids.remove(&short);
        }
        self.enter_newborn()?;
        let found = self
            .statements
            .get(Sql::TokenFind)?
            .query_row([&bytes], |row| row.get::<_, i64>(0))
            .optional()?;
        match found {
            Some(seq) if seq > 0 => self.life(seq),
            _ => Ok(None),
        }
    }

    /// Whether a token was never seen, as far as that is known without looking.
    pub fn is_surely_new(&self, token: &[u8]) -> bool {
        let short = rows::short(token);
        token > &self.highest_token[..]
            && !self.tokens.contains(&short)
            && self.cache.ledger.by_token(&short).is_none()
    }

    /// What came of a submission that was sent before: the job, or negated the entry of the ledger.
    pub fn token(&mut self, token: &[u8]) -> Result<Option<i64>, Fail> {
        self.enter_newborn()?;
        let found = self
            .statements
            .get(Sql::TokenFind)?
            .query_row([token], |row| row.get(0))
            .optional()?;
        let entered = || {
            self.cache
                .ledger
                .by_token(&rows::short(token))
                .map(i64::saturating_neg)
        };
        Ok(found.or_else(entered))
    }

    /// Remembers what came of a submission whose token is not known. An entry of the ledger remembers its own.
    pub fn remember_token(&mut self, token: &IdBytes, came_of_it: i64) -> Result<(), Fail> {
        if came_of_it < 0 {
            self.raise_highest_token(token);
            return Ok(());
        }
        self.know_token(token);
        let remembered = Remembered {
            token: *token,
            came_of_it,
        };
        Ok(self.statements.gather(|gathered| gathered.token(remembered))?)
    }

    /// A token is no longer new.
    pub fn know_token(&mut self, token: &IdBytes) {
        self.tokens.insert(rows::short(token));
        self.raise_highest_token(token);
    }

    fn raise_highest_token(&mut self, token: &[u8]) {
        if token > &self.cache.highest_token[..] {
            self.cache.highest_token.clear();
            self.cache.highest_token.extend_from_slice(token);
        }
    }

    /// Remembers the number of a job.
    pub fn remember_id(&mut self, id: &[u8], seq: i64) {
        if self.cache.ids.len() >= IDS {
            self.cache.ids.clear();
        }
        if let Ok(short) = id[..16.min(id.len())].try_into() {
            self.cache.ids.insert(short, seq);
        }
    }

    /// Forgets the number of a job that has ended.
    pub fn forget_id(&mut self, id: &JobId) {
        if let Some(bytes) = rows::id_bytes(id, self.ns)
            && let Ok(short) = <[u8; 16]>::try_from(&bytes[..16])
        {
            self.cache.ids.remove(&short);
        }
    }

    /// A job's life by its number; none if its queue was removed.
    pub fn life(&mut self, seq: i64) -> Result<Option<LifeRow>, Fail> {
        let row = match self.cache.recent.life(seq) {
            Some(row) => Some(row.clone()),
            None => match self.cache.newborn.get(seq) {
                Some(newborn) => Some(newborn.row.clone()),
                None => self.read_life(seq)?,
            },
        };
        Ok(row.filter(|row| self.live_lane(row.lane).is_some()))
    }

    fn read_life(&mut self, seq: i64) -> Result<Option<LifeRow>, Fail> {
        let row = self
            .statements
            .get(Sql::LifeFind)?
            .query_row([seq], LifeRow::read)
            .optional()?;
        if let Some(row) = &row {
            self.cache.recent.put_life(row.clone());
        }
        Ok(row)
    }

    /// The id of a job.
    pub fn id_of(&mut self, seq: i64) -> Result<JobId, Fail> {
        Ok(self
            .statements
            .get(Sql::JobId)?
            .query_row([seq], |row| rows::id(row, 0))?)
    }

    /// A new job's life.
    pub fn begin(&mut self, row: &LifeRow) -> Result<(), Fail> {
        self.write_life(row)?;
        self.moved(row.lane, None, Some(row.life.phase));
        self.list_rare(row, None, Some(row.life.phase))?;
        self.enter(row)
    }

    /// A new job that is being taken out of the order: neither its place nor its life is written, as it has another soon.
    pub fn begin_taken(&mut self, row: &LifeRow) {
        self.cache.recent.put_life(row.clone());
        self.moved(row.lane, None, Some(row.life.phase));
    }

    /// A job moves on: its row, its place in the order, the numbers of its lane, what ended with it.
    pub fn put(&mut self, before: &LifeRow, life: Life) -> Result<LifeRow, Fail> {
        let after = LifeRow {
            life,
            ..before.clone()
        };
        self.put_row(before, &after)?;
        Ok(after)
    }

    /// As [`Tx::put`], for a row whose worker or last error changed too.
    pub fn put_row(&mut self, before: &LifeRow, after: &LifeRow) -> Result<(), Fail> {
        let stays = after.life.phase == Phase::Waiting
            && before.life.phase == Phase::Waiting
            && (after.life.priority, after.life.run_at) == (before.life.priority, before.life.run_at);
        if before.life.phase == Phase::Waiting && !stays {
            self.leave(before)?;
        }
        self.put_taken(before, after)?;
        if !stays {
            self.enter(after)?;
        }
        Ok(())
    }

    /// As [`Tx::put_row`], for a job that was taken out of the order already.
    pub fn put_taken(&mut self, before: &LifeRow, after: &LifeRow) -> Result<(), Fail> {
        self.write_life(after)?;
        self.moved(after.lane, Some(before.life.phase), Some(after.life.phase));
        self.list_rare(after, Some(before.life.phase), Some(after.life.phase))?;
        if after.life.phase.is_terminal() && !before.life.phase.is_terminal() {
            self.end(after)?;
        }
        Ok(())
    }

    /// Keeps the list of jobs in phases that few are in.
    fn list_rare(&mut self, row: &LifeRow, from: Option<Phase>, to: Option<Phase>) -> Result<(), Fail> {
        if from == to {
            return Ok(());
        }
        for (phase, sql) in [(from, Sql::RareDelete), (to, Sql::RareInsert)] {
            if let Some(phase) = phase.filter(|phase| is_rare(*phase)) {
                let listed = params![phase as i64, row.lane, row.seq];
                self.statements.get(sql)?.execute(listed)?;
            }
        }
        Ok(())
    }

    fn write_life(&mut self, row: &LifeRow) -> Result<(), Fail> {
        self.cache.recent.put_life(row.clone());
        Ok(self.statements.gather(|gathered| gathered.life(row.clone()))?)
    }

    fn enter(&mut self, row: &LifeRow) -> Result<(), Fail> {
        if row.life.phase != Phase::Waiting {
            return Ok(());
        }
        self.signals.work = true;
        let place = Place {
            lane: row.lane,
            nprio: i64::from(row.life.priority.saturating_neg()),
            run_at: row.life.run_at.as_millis(),
            seq: row.seq,
        };
        Ok(self.statements.gather(|gathered| gathered.place(place))?)
    }

    fn leave(&mut self, row: &LifeRow) -> Result<(), Fail> {
        let place = params![
            row.lane,
            row.life.priority.saturating_neg(),
            row.life.run_at.as_millis(),
            row.seq
        ];
        self.statements.get(Sql::ReadyDelete)?.execute(place)?;
        Ok(())
    }

    fn end(&mut self, row: &LifeRow) -> Result<(), Fail> {
        self.signals.ends = true;
        let kind = usize::from(row.life.phase != Phase::Complete);
        self.ended[kind].push(row.seq);
        self.free(row)
    }

    /// A job lets go of its key for good; if only a stub of it was kept for the key, that can go too.
    pub fn let_go(&mut self, row: &LifeRow) -> Result<LifeRow, Fail> {
        let after = self.put(row, lifecycle::let_go(&row.life))?;
        if after.life.phase.is_terminal() && self.statements.get(Sql::StubFind)?.exists([row.seq])? {
            let now = self.now.as_millis();
            self.statements
                .get(Sql::StubPut)?
                .execute(params![row.seq, self.ns, now])?;
        }
        Ok(after)
    }

    /// A job lets go of its key: the one that follows takes it and waits its turn (contract 2.5).
    pub fn free(&mut self, row: &LifeRow) -> Result<(), Fail> {
        let can_be_followed = |holding: &Holding| holding.hold.is_plain_until_finished();
        if !self.cache.followers || !row.life.holding.as_ref().is_some_and(can_be_followed) {
            return Ok(());
        }
        let found = self
            .statements
            .get(Sql::FollowerFind)?
            .query_row([row.seq], |row| row.get(0))
            .optional()?;
        let Some(follower) = found else { return Ok(()) };
        self.statements.get(Sql::FollowDelete)?.execute([row.seq])?;
        self.promote(follower)
    }

    /// A follower waits its turn, with the key unless another has it.
    pub fn promote(&mut self, follower: i64) -> Result<(), Fail> {
        self.enter_newborn()?;
        let Some(before) = self.life(follower)? else {
            return Ok(());
        };
        let (digest, group) = self.key_of(follower)?;
        let Some(digest) = digest else { return Ok(()) };
        let taken = self.holder(&digest)?.is_some();
        let generation = self.next_generation()?;
        let mut life = admission::promote(&before.life, self.now, generation);
        if taken {
            life.holding = None;
        } else {
            self.own(&digest, group.as_ref(), generation, follower);
        }
        self.put(&before, life)?;
        Ok(())
    }

    // Keys.

    /// The key of a job and, for hybrid keys, its group.
    pub fn key_of(&mut self, seq: i64) -> Result<KeyAndGroup, Fail> {
        Ok(self.keyed(seq)?.ok_or(rusqlite::Error::QueryReturnedNoRows)?)
    }

    fn keyed(&mut self, seq: i64) -> Result<Option<KeyAndGroup>, Fail> {
        let read = |row: &rusqlite::Row<'_>| Ok((rows::digest(row, 1)?, rows::digest(row, 2)?));
        Ok(self
            .statements
            .get(Sql::JobKeyed)?
            .query_row([seq], read)
            .optional()?)
    }

    /// Makes a job the newest owner of a key.
    pub fn own(&mut self, digest: &Digest, group: Option<&Digest>, generation: i64, seq: i64) {
        let owner = Owner { generation, seq };
        self.cache.recent.forget_owner(digest);
        self.cache.keys.own(rows::prefix(digest), owner);
        if let Some(group) = group {
            self.cache.keys.own(rows::prefix(group), owner);
        }
    }

    /// Those who took a key with this prefix, newest first.
    pub fn owners(&mut self, digest: &Digest) -> Result<Vec<Owner>, Fail> {
        self.cache.keys.owners(&mut self.statements, rows::prefix(digest))
    }

    /// The job that holds a key now: the owner with the highest generation, if it says so (contract 2.9).
    pub fn holder(&mut self, digest: &Digest) -> Result<Option<LifeRow>, Fail> {
        let Some(owner) = self.newest_owner(digest)? else {
            return Ok(None);
        };
        let row = self.life(owner)?;
        Ok(row.filter(|row| row.life.is_holder(self.now)))
    }

    /// The job that owned a key last, whether it holds it or not.
    pub fn newest_owner(&mut self, digest: &Digest) -> Result<Option<i64>, Fail> {
        for owner in self.owners(digest)? {
            let keyed = self.keyed(owner.seq)?;
            if keyed.is_some_and(|(whole, _)| whole.as_ref() == Some(digest)) {
                return Ok(Some(owner.seq));
            }
        }
        Ok(None)
    }

    /// The oldest job that holds a key of this hybrid group, but not this very key. Owners that let go are forgotten.
    pub fn collision(&mut self, group: &Digest, digest: &Digest) -> Result<Option<i64>, Fail> {
        let mut members = Vec::new();
        for owner in self.owners(group)? {
            if let Some((own, found)) = self.keyed(owner.seq)?
                && found.as_ref() == Some(group)
            {
                members.push((owner.seq, owner.generation, own));
            }
        }
        let mut oldest = None;
        for (seq, generation, own) in members {
            let holds = self.life(seq)?.is_some_and(|row| {
                row.life.is_holder(self.now)
                    && row
                        .life
                        .holding
                        .is_some_and(|holding| holding.generation == generation)
            });
            if !holds {
                let prefix = rows::prefix(group);
                self.cache.keys.disown(&mut self.statements, prefix, generation)?;
            } else if own.as_ref() != Some(digest) {
                oldest = Some(oldest.map_or(seq, |found: i64| found.min(seq)));
            }
        }
        Ok(oldest)
    }

    // Leases.

    /// Looks at leases that may have run out; what every call does first.
    pub fn rescue(&mut self) -> Result<u64, Fail> {
        let mut left = RESCUE;
        let mut expired = 0;
        while left > 0 && self.cache.soonest_lease <= self.now.as_millis() {
            expired += self.rescue_batch(&mut left)?;
            self.refresh_soonest()?;
        }
        Ok(expired)
    }

    fn refresh_soonest(&mut self) -> Result<(), Fail> {
        let soonest: Option<i64> = self
            .statements
            .get(Sql::LeaseSoonest)?
            .query_row([self.ns], |row| row.get(0))?;
        self.cache.soonest_lease = soonest.unwrap_or(i64::MAX);
        Ok(())
    }

    fn rescue_batch(&mut self, left: &mut usize) -> Result<u64, Fail> {
        let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?));
        let due = self
            .statements
            .get(Sql::LeaseDue)?
            .query_row([self.ns, self.now.as_millis()], read)
            .optional()?;
        let Some((fence, seqs)) = due else { return Ok(0) };
        let (mut expired, mut next) = (0, None::<i64>);
        for seq in rows::unpack(&seqs) {
            let Some(row) = self.life(seq)? else { continue };
            if row.life.fence != fence || row.life.phase != Phase::Running {
                continue;
            }
            if !lifecycle::is_expired(&row.life, self.now) {
                let until = row.life.until.map_or(i64::MAX, Timestamp::as_millis);
                next = Some(next.map_or(until, |next| next.min(until)));
            } else if *left == 0 {
                next = Some(self.now.as_millis());
            } else {
                *left -= 1;
                expired += 1;
                self.expire(&row)?;
            }
        }
        match next {
            Some(until) => self
                .statements
                .get(Sql::LeasePutOff)?
                .execute(params![fence, until])?,
            // Kept for a while: the claim may be sent again (contract 3.5).
            None => self
                .statements
                .get(Sql::LeasePutOff)?
                .execute(params![fence, i64::MAX])?,
        };
        Ok(expired)
    }

    fn expire(&mut self, row: &LifeRow) -> Result<(), Fail> {
        let (life, end) = lifecycle::expire(&row.life, self.now, self.micros);
        self.count(row.lane, Counter::Expired);
        if life.phase == Phase::Failed {
            self.count(row.lane, Counter::Failed);
        }
        let after = LifeRow { life, ..row.clone() };
        let after = self.record(&after, &end)?;
        self.put_row(row, &after)
    }

    /// Writes down a delivery that ended; gives the row with its last error.
    pub fn record(&mut self, row: &LifeRow, end: &AttemptEnd) -> Result<LifeRow, Fail> {
        let last: Option<i64> = self
            .statements
            .get(Sql::AttemptLast)?
            .query_row([row.seq], |row| row.get(0))?;
        let n = last.unwrap_or(0).saturating_add(1);
        self.statements.get(Sql::AttemptInsert)?.execute(params![
            row.seq,
            n,
            end.attempt,
            end.fence,
            rows::millis(end.began_at),
            end.ended_at.as_millis(),
            rows::RESULTS
                .iter()
                .position(|result| *result == end.result)
                .map(|place| place as i64),
            end.error,
            row.worker,
        ])?;
        Ok(LifeRow {
            last_error: if end.error.is_some() {
                Some(n)
            } else {
                row.last_error
            },
            ..row.clone()
        })
    }

    /// A fence above every fence given before.
    pub fn next_fence(&mut self, highest: i64) -> i64 {
        let fence = lifecycle::next_fence(highest.max(self.cache.last_fence), self.micros);
        self.cache.last_fence = fence;
        fence
    }

    /// A lease ends at `until`: the batch has to be looked at by then.
    pub fn note_lease(&mut self, until: Timestamp) {
        self.cache.soonest_lease = self.cache.soonest_lease.min(until.as_millis());
    }

    /// The number of a worker.
    pub fn worker(&mut self, name: &Name) -> Result<i64, Fail> {
        if let Some(number) = self.cache.workers.get(name) {
            return Ok(*number);
        }
        let found = self
            .statements
            .get(Sql::WorkerFind)?
            .query_row([name.as_str()], |row| row.get(0))
            .optional()?;
        let number = match found {
            Some(number) => number,
            None => self.statements.get(Sql::WorkerInsert)?.insert([name.as_str()])?,
        };
        self.cache.workers.insert(name.clone(), number);
        Ok(number)
    }

    /// Removes every trace of a job but what others need.
    pub fn erase(&mut self, row: &LifeRow) -> Result<(), Fail> {
        let read = |row: &rusqlite::Row<'_>| {
            let bytes = |at: usize| row.get::<_, Option<Vec<u8>>>(at);
            Ok((
                row.get::<_, Vec<u8>>(0)?,
                rows::digest(row, 1)?,
                rows::digest(row, 2)?,
                bytes(3)?,
            ))
        };
        let (id, digest, group, origin) = self.statements.get(Sql::JobKeyed)?.query_row([row.seq], read)?;
        if row.life.phase == Phase::Waiting {
            self.leave(row)?;
        }
        self.list_rare(row, Some(row.life.phase), None)?;
        self.cache.recent.forget_life(row.seq);
        for digest in digest.iter().chain(group.iter()) {
            self.cache.recent.forget_owner(digest);
            self.disown(digest, row.seq)?;
        }
        if let Some(digest) = &digest {
            self.forget_total(digest)?;
        }
        for sql in [
            Sql::OutputDelete,
            Sql::ProgressDelete,
            Sql::AttemptDelete,
            Sql::ReplayDelete,
            Sql::StubDelete,
            Sql::FollowDelete,
            Sql::FollowCut,
            Sql::LifeDelete,
            Sql::JobDelete,
        ] {
            self.statements.get(sql)?.execute([row.seq])?;
        }
        self.statements
            .get(Sql::TokenDelete)?
            .execute(params![id, row.seq])?;
        let feed = semel_core::store::log_feed(&rows::id_from(&id));
        self.statements
            .get(Sql::FeedDelete)?
            .execute(params![self.ns, feed])?;
        self.forget_steps(origin.as_ref().unwrap_or(&id), row.seq)?;
        if row.seq.saturating_add(1) >= self.cache.next_seq {
            self.raise_floor("seq", row.seq)?;
        }
        Ok(())
    }

    /// Removes a job that is shown to nobody any more from the numbers of its lane.
    pub fn uncount(&mut self, row: &LifeRow) {
        self.moved(row.lane, Some(row.life.phase), None);
    }

    fn disown(&mut self, digest: &Digest, seq: i64) -> Result<(), Fail> {
        for owner in self.owners(digest)? {
            if owner.seq == seq {
                let prefix = rows::prefix(digest);
                self.cache
                    .keys
                    .disown(&mut self.statements, prefix, owner.generation)?;
            }
        }
        Ok(())
    }

    /// The total of a key goes when neither a job nor an entry of the ledger knows the key any more.
    pub fn forget_total(&mut self, digest: &Digest) -> Result<(), Fail> {
        if !self
            .statements
            .get(Sql::LedgerTotalFind)?
            .exists([digest.as_bytes()])?
            || self.newest_owner(digest)?.is_some()
        {
            return Ok(());
        }
        self.write_ledger()?;
        let indexed: i64 = self
            .statements
            .get(Sql::LedgerKeyCount)?
            .query_row([digest.as_bytes()], |row| row.get(0))?;
        if indexed == 0 && ledger::of_key_in_tail(&mut self.statements, digest)? == 0 {
            self.statements
                .get(Sql::LedgerTotalDelete)?
                .execute([digest.as_bytes()])?;
        }
        Ok(())
    }

    /// Steps go with the last job of their chain.
    fn forget_steps(&mut self, origin: &[u8], seq: i64) -> Result<(), Fail> {
        let others: bool = self
            .statements
            .get(Sql::OriginJobs)?
            .query_row(params![origin, seq], |row| row.get(0))?;
        let found = self
            .statements
            .get(Sql::TokenFind)?
            .query_row([origin], |row| row.get::<_, i64>(0))
            .optional()?;
        if !others && found.is_none_or(|found| found == seq || found < 0) {
            self.statements.get(Sql::StepDelete)?.execute([origin])?;
        }
        Ok(())
    }

    /// Writes what was gathered, and says what those who wait may want to know.
    pub fn finish(mut self) -> Result<Signals, Fail> {
        self.enter_surplus()?;
        self.flush()?;
        self.cache
            .keys
            .settle(&mut self.statements, self.cache.next_seq)?;
        self.cache.ledger.settle(&mut self.statements)?;
        self.statements.write_gathered()?;
        Ok(self.signals)
    }

    /// Reads everything anew that is remembered, after something wrote past this transaction's back.
    pub fn reload(&mut self) -> Result<(), Fail> {
        self.load()
    }

    /// Writes the entries of the ledger that were gathered.
    pub fn write_ledger(&mut self) -> Result<(), Fail> {
        let at = self.now.as_millis();
        self.cache.ledger.flush(&mut self.statements, self.ns, at)
    }

    /// Writes what was gathered so far: owners of keys, the numbers of lanes, and what ended.
    pub fn flush(&mut self) -> Result<(), Fail> {
        self.statements.write_gathered()?;
        self.cache.keys.flush(&mut self.statements)?;
        self.write_ledger()?;
        for (lane, delta) in std::mem::take(&mut self.deltas) {
            if delta.counts.is_zero() && delta.phases == [0; 7] {
                continue;
            }
            let update = self.statements.get(Sql::LaneCount)?;
            update.raw_bind_parameter(1, lane)?;
            let phases = delta.phases.iter().copied();
            let numbers = phases.chain(Counter::ALL.map(|counter| delta.counts.get(counter)));
            for (at, number) in numbers.enumerate() {
                update.raw_bind_parameter(2 + at, number)?;
            }
            update.raw_execute()?;
        }
        for kind in 0..2 {
            let seqs = std::mem::take(&mut self.ended[kind]);
            if seqs.is_empty() {
                continue;
            }
            let n = self.cache.next_ended[kind];
            self.cache.next_ended[kind] = n.saturating_add(1);
            let row = params![self.ns, kind as i64, n, self.now.as_millis(), rows::pack(seqs)];
            self.statements.get(Sql::EndedInsert)?.execute(row)?;
        }
        Ok(())
    }
}

/// Phases that few jobs are in, so that a list of them is worth its rows.
fn is_rare(phase: Phase) -> bool {
    !matches!(phase, Phase::Waiting | Phase::Running | Phase::Complete)
}

impl Cache {
    fn remember(&mut self, number: i64, lane: Lane) {
        if !lane.removed {
            self.by_name
                .entry(lane.queue.clone())
                .or_default()
                .insert(lane.task.clone(), number);
        }
        self.lanes.insert(number, lane);
    }

    /// Marks the lanes of a queue as removed; gives their numbers.
    pub fn remove_queue(&mut self, queue: &Name) -> Vec<i64> {
        self.last_lane = None;
        let lanes = self.by_name.remove(queue).unwrap_or_default();
        let numbers: Vec<i64> = lanes.into_values().collect();
        for number in &numbers {
            if let Some(lane) = self.lanes.get_mut(number) {
                lane.removed = true;
            }
        }
        numbers
    }
}
