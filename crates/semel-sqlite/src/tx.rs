//! One transaction of the writer: what it may touch, what it remembers, what it counts.

mod erase;
mod lanes;
mod leases;
mod lives;
mod owners;
mod tokens;

pub use lanes::Lane;

use std::collections::BTreeMap;

use foldhash::{HashMap, HashMapExt};
use rusqlite::{Connection, OptionalExtension, params};

use semel_core::counters::{Counter, Counts};
use semel_core::ids::Name;
use semel_core::store::{Setting, Target};
use semel_core::time::Timestamp;

use crate::born::Newborns;
use crate::fail::Fail;
use crate::keys::KeyLog;
use crate::ledger::{self, Ledger};
use crate::recent::Recent;
use crate::rows;
use crate::settings;
use crate::statements::{Sql, Statements};
use crate::tx::tokens::Tokens;

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
    tokens: Tokens,
    /// Read in the middle of a transaction: what it wrote looks as if it were committed.
    reloaded: bool,
}

impl Cache {
    /// Forgets what may have been rolled back.
    pub fn roll_back(&mut self) {
        if self.reloaded {
            *self = Cache::default();
            return;
        }
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
        self.reloaded = false;
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
        };
        let version: i64 = connection
            .prepare_cached("PRAGMA data_version")?
            .query_row([], |row| row.get(0))?;
        if tx.cache.version != Some(version) {
            crate::open::check_schema(connection)?;
            tx.load()?;
            tx.cache.version = Some(version);
        }
        tx.cache.tokens.settle();
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
        self.cache.tokens = Tokens::at_most(token.unwrap_or_default().max(entered));
        self.cache.keys.load(&mut self.statements)?;
        self.load_newborn()
    }

    fn highest(&mut self, sql: Sql) -> Result<i64, Fail> {
        let highest: Option<i64> = self.statements.get(sql)?.query_row([], |row| row.get(0))?;
        Ok(highest.unwrap_or(0))
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

    /// Writes what was gathered, and says what those who wait may want to know.
    pub fn finish(mut self) -> Result<Signals, Fail> {
        self.enter_surplus()?;
        self.flush()?;
        self.cache
            .keys
            .settle(&mut self.statements, self.cache.next_seq)?;
        self.cache.ledger.settle(&mut self.statements, self.ns)?;
        self.statements.write_gathered()?;
        Ok(self.signals)
    }

    /// Reads everything anew that is remembered, after something wrote past this transaction's back.
    pub fn reload(&mut self) -> Result<(), Fail> {
        *self.cache = Cache {
            version: self.cache.version,
            reloaded: true,
            ..Cache::default()
        };
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

#[cfg(test)]
mod tests {
    use rusqlite::TransactionBehavior;
    use semel_core::ids::Digest;

    use super::*;

    fn connect(path: &std::path::Path) -> Connection {
        Connection::open(path).expect("the file opens")
    }

    /// A key taken in a transaction, which is then reloaded or not, and committed or not.
    fn take(connection: &mut Connection, cache: &mut Cache, key: u8, reload: bool, commit: bool) {
        let namespace = Name::new("default").expect("a name");
        let begun = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .expect("begun");
        let mut tx =
            Tx::new(&begun, cache, 1, &namespace, 1_000_000).expect("the cache is brought up to date");
        tx.own(
            &Digest::from_bytes([key; 32]),
            None,
            i64::from(key),
            i64::from(key),
        );
        tx.flush().expect("written");
        if reload {
            tx.reload().expect("read anew");
        }
        tx.finish().expect("written");
        if commit {
            begun.commit().expect("committed");
            cache.commit();
        } else {
            drop(begun);
            cache.roll_back();
        }
    }

    /// A repair read everything anew in the middle of its transaction, and the disk was full when that was committed. The
    /// writer went on believing that it had seen the row of the log which another process wrote next, under the number
    /// that had become free: a key in it was given a second time.
    #[test]
    fn what_was_read_anew_in_a_transaction_that_failed_is_not_believed() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("jobs.db");
        drop(crate::SqliteStore::open(crate::Options::new(&path)).expect("the store opens"));
        let (mut here, mut there) = (connect(&path), connect(&path));
        let (mut ours, mut theirs) = (Cache::default(), Cache::default());
        take(&mut here, &mut ours, 1, false, true);
        take(&mut here, &mut ours, 2, true, false);
        take(&mut there, &mut theirs, 3, false, true);
        let namespace = Name::new("default").expect("a name");
        let mut tx = Tx::new(&here, &mut ours, 1, &namespace, 2_000_000).expect("up to date");
        let mut is_owned = |key: u8| {
            let owners = tx.owners(&Digest::from_bytes([key; 32])).expect("looked for");
            !owners.is_empty()
        };
        assert_eq!([1, 2, 3].map(&mut is_owned), [true, false, true]);
    }
}
