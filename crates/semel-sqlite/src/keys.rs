//! Who owned a key, newest first.
//!
//! A key falls anywhere in the index of keys, so a row there costs a page of the write-ahead log. New
//! owners are therefore logged first, packed, one row per commit; the writer keeps them in memory and
//! moves them into the index in its own order, many at a time. Both places together are the truth.

mod drawers;
mod sieve;

use std::collections::BTreeMap;

use rusqlite::{OptionalExtension, params};

use crate::fail::Fail;
use crate::gathered::Indexed;
use crate::keys::drawers::Drawers;
use crate::keys::sieve::Sieve;
use crate::rows;
use crate::statements::{Sql, Statements};

/// Logged owners from which on they are moved: fewer are not worth their pages.
const MOVE_FROM: usize = 1 << 16;
/// However large the index is, more are not kept in memory.
const MOVE_AT_MOST_FROM: usize = 1 << 19;
/// Owners moved at a time: next to each other in the index.
const MOVED_AT_ONCE: usize = 512;
/// Owners moved for each one that comes, so that moving overtakes.
const PACE: usize = 2;
/// A commit with at least so many new owners also looks at the index for the sieve: it is the one that gains by it.
const LEARN_FROM: usize = 128;
/// Keys of the index that are looked at for each new owner.
const LEARN_PACE: usize = 8;
/// Rows of the log that are dropped by one commit.
const DROPPED_AT_ONCE: i64 = 256;

/// A job that took a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Grows with each that takes it.
    pub generation: i64,
    /// The job.
    pub seq: i64,
}

/// A prefix of a digest and a generation: the order of the index.
pub type Place = (i64, i64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Logged {
    seq: i64,
    /// The row of the log it is in.
    row: i64,
}

/// The owners that are in the log, as the writer remembers them.
#[derive(Default)]
pub struct KeyLog {
    owners: Drawers,
    rows: Rows,
    committed: Rows,
    written: Vec<u8>,
    undo: Vec<(Place, Option<Logged>)>,
    moving: Option<Moving>,
    /// Owners that came since some were moved.
    debt: usize,
    /// Which keys nobody can have owned.
    sieve: Sieve,
}

/// The rows of the log that are in memory: from one to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Rows {
    first: Option<i64>,
    last: i64,
}

/// Goes through the owners once, in order; then the rows up to `row` are no longer needed.
#[derive(Clone, Copy, Debug)]
struct Moving {
    next: Place,
    row: i64,
}

impl KeyLog {
    /// Learns what others have logged.
    pub fn load(&mut self, statements: &mut Statements<'_>) -> Result<(), Fail> {
        self.rows.first = statements
            .get(Sql::KeyLogFirst)?
            .query_row([], |row| row.get(0))?;
        if self.rows.first.is_none() {
            self.owners.clear();
        }
        let floor = moved(statements)?;
        if floor > self.rows.last {
            // Rows were logged and moved into the index by others, and never seen here.
            self.sieve.forget();
            self.rows.last = floor;
        }
        let mut found = statements.get(Sql::KeyLogAfter)?.query([self.rows.last])?;
        while let Some(row) = found.next()? {
            let n: i64 = row.get(0)?;
            for entry in unpack(row.get_ref(1)?.as_blob()?) {
                self.sieve.add(entry.place.0);
                match entry.seq {
                    Some(seq) => self.owners.insert(entry.place, Logged { seq, row: n }),
                    None => self.owners.remove(&entry.place),
                };
            }
            self.rows.last = n;
        }
        self.committed = self.rows;
        Ok(())
    }

    /// What was gathered since the last commit is durable.
    pub fn commit(&mut self) {
        self.undo.clear();
        self.committed = self.rows;
    }

    /// What was gathered since the last commit has not happened.
    pub fn roll_back(&mut self) {
        for (place, before) in self.undo.drain(..).rev() {
            match before {
                Some(logged) => self.owners.insert(place, logged),
                None => self.owners.remove(&place),
            };
        }
        self.written.clear();
        self.rows = self.committed;
        self.moving = None;
    }

    fn log(&mut self, place: Place, seq: i64) {
        let logged = Logged {
            seq,
            row: self.rows.last + 1,
        };
        // Where nobody has a key of this prefix, nobody has this place either.
        let before = match self.sieve.may_have(place.0) {
            true => self.owners.insert(place, logged),
            false => {
                self.owners.insert_new(place, logged);
                None
            }
        };
        self.sieve.add(place.0);
        self.undo.push((place, before));
        pack(&mut self.written, place, Some(seq));
        self.debt += PACE;
    }

    fn forget(&mut self, place: Place) {
        if let Some(before) = self.owners.remove(&place) {
            self.undo.push((place, Some(before)));
            pack(&mut self.written, place, None);
        }
    }

    /// Writes what was gathered as one row.
    pub fn flush(&mut self, statements: &mut Statements<'_>) -> Result<(), Fail> {
        if self.written.is_empty() {
            return Ok(());
        }
        let n = self.rows.last + 1;
        statements
            .get(Sql::KeyLogInsert)?
            .execute(params![n, self.written])?;
        self.written.clear();
        self.rows.last = n;
        self.rows.first.get_or_insert(n);
        Ok(())
    }

    /// Moves a few owners into the index, if there are many. `jobs` says how large the index may be.
    pub fn settle(&mut self, statements: &mut Statements<'_>, jobs: i64) -> Result<(), Fail> {
        if self.undo.len() >= LEARN_FROM {
            let logged = self.owners.iter().map(|((prefix, _), _)| prefix);
            self.sieve
                .learn(statements, self.undo.len() * LEARN_PACE, logged)?;
        }
        let enough = usize::try_from(jobs / 16)
            .unwrap_or(MOVE_FROM)
            .clamp(MOVE_FROM, MOVE_AT_MOST_FROM);
        if self.moving.is_none() && self.owners.len() >= enough {
            self.forget_indexed();
        }
        if self.moving.is_none() && self.owners.len() >= enough {
            self.moving = Some(Moving {
                next: (i64::MIN, i64::MIN),
                row: self.rows.last,
            });
            self.debt = 0;
        }
        while self.moving.is_some() && self.debt >= MOVED_AT_ONCE {
            self.debt -= MOVED_AT_ONCE;
            self.move_some(statements)?;
        }
        Ok(())
    }

    fn move_some(&mut self, statements: &mut Statements<'_>) -> Result<(), Fail> {
        let Some(moving) = self.moving else { return Ok(()) };
        let next = self.owners.next(moving.next, MOVED_AT_ONCE);
        let moved = next.len();
        for ((prefix, generation), logged) in next {
            // Another process has moved what is in no row any more, and may have forgotten it since.
            if self.rows.first.is_some_and(|first| logged.row >= first) {
                let other = (generation != logged.seq).then_some(logged.seq);
                let place = (prefix, generation);
                statements.gather(|gathered| gathered.key(Indexed { place, other }))?;
            }
            self.moving = Some(Moving {
                next: (prefix, generation + 1),
                ..moving
            });
        }
        if moved < MOVED_AT_ONCE {
            self.drop_rows(statements, moving.row)?;
        }
        Ok(())
    }

    /// Every owner up to a row of the log is in the index: the rows go, a few at a time, the oldest first.
    fn drop_rows(&mut self, statements: &mut Statements<'_>, row: i64) -> Result<(), Fail> {
        let first = self.rows.first.unwrap_or(row + 1);
        let to = row.min(first.saturating_add(DROPPED_AT_ONCE - 1));
        statements.get(Sql::KeyLogDrop)?.execute([to])?;
        statements.get(Sql::FloorRaise)?.execute(params!["key_log", to])?;
        self.rows.first = (to < self.rows.last).then_some(to + 1);
        if to == row {
            self.forget_indexed();
            self.moving = None;
        }
        Ok(())
    }

    /// What is in no row of the log any more is in the index.
    fn forget_indexed(&mut self) {
        let (first, undo) = (self.rows.first.unwrap_or(i64::MAX), &mut self.undo);
        self.owners.retain(|place, logged| {
            let stays = logged.row >= first;
            if !stays {
                undo.push((*place, Some(*logged)));
            }
            stays
        });
    }

    /// A job takes a key.
    pub fn own(&mut self, prefix: i64, owner: Owner) {
        self.log((prefix, owner.generation), owner.seq);
    }

    /// An owner is forgotten, wherever it is.
    pub fn disown(
        &mut self,
        statements: &mut Statements<'_>,
        prefix: i64,
        generation: i64,
    ) -> Result<(), Fail> {
        self.forget((prefix, generation));
        statements
            .get(Sql::KeyDelete)?
            .execute(params![prefix, generation])?;
        Ok(())
    }

    /// Whether a key of this prefix may have an owner; if not, nobody has to look.
    pub fn may_have(&self, prefix: i64) -> bool {
        self.sieve.may_have(prefix)
    }

    /// Owners under a prefix, newest first.
    pub fn owners(&self, statements: &mut Statements<'_>, prefix: i64) -> Result<Vec<Owner>, Fail> {
        if !self.may_have(prefix) {
            return Ok(Vec::new());
        }
        let mut owners = indexed(statements, prefix)?;
        let before = owners.len();
        owners.extend(self.owners.under(prefix).map(|((_, generation), logged)| Owner {
            generation,
            seq: logged.seq,
        }));
        if before < owners.len() {
            newest_first(&mut owners);
        }
        Ok(owners)
    }
}

/// Owners under a prefix, newest first, for those who have no memory of the log.
pub fn stored_owners(statements: &mut Statements<'_>, prefix: i64) -> Result<Vec<Owner>, Fail> {
    let mut owners = indexed(statements, prefix)?;
    let mut logged: Vec<Owner> = Vec::new();
    let after = moved(statements)?;
    let mut found = statements.get(Sql::KeyLogAfter)?.query([after])?;
    while let Some(row) = found.next()? {
        let mut bytes = row.get_ref(1)?.as_blob()?;
        while let Some(entry) = take_entry(&mut bytes) {
            let (of, generation) = entry.place;
            if of == prefix {
                logged.retain(|owner| owner.generation != generation);
                logged.extend(entry.seq.map(|seq| Owner { generation, seq }));
            }
        }
    }
    owners.extend(logged);
    newest_first(&mut owners);
    Ok(owners)
}

/// Everything that is in the log, in the order of the index: prefix and generation, and the job.
pub fn logged(statements: &mut Statements<'_>) -> Result<BTreeMap<Place, i64>, Fail> {
    let mut log = KeyLog::default();
    log.load(statements)?;
    let owners = log.owners.iter();
    Ok(owners.map(|(place, logged)| (place, logged.seq)).collect())
}

/// Forgets owners that are in the log, for everybody who reads it from now on.
pub fn forget_logged(statements: &mut Statements<'_>, places: &[Place]) -> Result<(), Fail> {
    let mut log = KeyLog::default();
    log.load(statements)?;
    places.iter().for_each(|place| log.forget(*place));
    log.flush(statements)
}

/// The last row of the log whose owners are all in the index.
fn moved(statements: &mut Statements<'_>) -> Result<i64, Fail> {
    let floor = statements
        .get(Sql::FloorFind)?
        .query_row(["key_log"], |row| row.get(0));
    Ok(floor.optional()?.unwrap_or(0))
}

fn indexed(statements: &mut Statements<'_>, prefix: i64) -> Result<Vec<Owner>, Fail> {
    let mut owners = Vec::new();
    let mut found = statements.get(Sql::KeyOwners)?.query([prefix])?;
    while let Some(row) = found.next()? {
        owners.push(Owner {
            generation: row.get(0)?,
            seq: row.get(1)?,
        });
    }
    Ok(owners)
}

fn newest_first(owners: &mut Vec<Owner>) {
    owners.sort_unstable_by_key(|owner| std::cmp::Reverse(owner.generation));
    owners.dedup();
}

/// An owner that came, or, without a job, one that was forgotten.
struct Entry {
    place: Place,
    seq: Option<i64>,
}

/// Six bytes of the digest, how the job is told, the generation, the job if it has another number.
fn pack(bytes: &mut Vec<u8>, place: Place, seq: Option<i64>) {
    let (prefix, generation) = place;
    bytes.extend_from_slice(&prefix.to_be_bytes()[2..]);
    let (how, other) = match seq {
        None => (FORGOTTEN, None),
        Some(seq) if seq == generation => (SAME, None),
        Some(seq) => (OTHER, Some(seq)),
    };
    bytes.push(how);
    rows::push_number(bytes, generation);
    if let Some(other) = other {
        rows::push_number(bytes, other);
    }
}

const SAME: u8 = 0;
const OTHER: u8 = 1;
const FORGOTTEN: u8 = 2;

/// The inverse of [`pack`]. What cannot be read ends the list: the doctor finds who is missing.
fn unpack(mut bytes: &[u8]) -> Vec<Entry> {
    let mut entries = Vec::with_capacity(bytes.len() / 9);
    while let Some(entry) = take_entry(&mut bytes) {
        entries.push(entry);
    }
    entries
}

fn take_entry(bytes: &mut &[u8]) -> Option<Entry> {
    let (head, rest) = bytes.split_first_chunk::<7>()?;
    *bytes = rest;
    let mut prefix = [0u8; 8];
    prefix[2..].copy_from_slice(&head[..6]);
    let generation = rows::take_number(bytes)?;
    let seq = match head[6] {
        SAME => Some(generation),
        OTHER => Some(rows::take_number(bytes)?),
        FORGOTTEN => None,
        _ => return None,
    };
    Some(Entry {
        place: (i64::from_be_bytes(prefix), generation),
        seq,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;

    fn database() -> Connection {
        let connection = Connection::open_in_memory().expect("a database");
        connection
            .execute_batch(include_str!("schema/002.sql"))
            .expect("the schema");
        connection
    }

    fn own(log: &mut KeyLog, prefix: i64, generation: i64) {
        log.own(
            prefix,
            Owner {
                generation,
                seq: generation,
            },
        );
    }

    fn generations(owners: &[Owner]) -> Vec<i64> {
        owners.iter().map(|owner| owner.generation).collect()
    }

    #[test]
    fn owners_come_back_newest_first_from_wherever_they_are() {
        let connection = database();
        let mut statements = Statements::new(&connection);
        let mut log = KeyLog::default();
        own(&mut log, 7, 1);
        log.own(
            7,
            Owner {
                generation: 5,
                seq: 1,
            },
        );
        own(&mut log, 8, 2);
        log.flush(&mut statements).expect("written");
        log.commit();
        connection
            .execute("INSERT INTO key (h, generation) VALUES (7, 3)", [])
            .expect("indexed");
        let owners = log.owners(&mut statements, 7).expect("owners");
        assert_eq!(generations(&owners), [5, 3, 1]);
        assert_eq!(owners[0].seq, 1);
        assert_eq!(stored_owners(&mut statements, 7).expect("owners"), owners);
    }

    #[test]
    fn what_is_rolled_back_has_not_happened() {
        let connection = database();
        let mut statements = Statements::new(&connection);
        let mut log = KeyLog::default();
        own(&mut log, 7, 1);
        log.flush(&mut statements).expect("written");
        log.commit();
        own(&mut log, 7, 2);
        log.forget((7, 1));
        log.roll_back();
        let owners = log.owners(&mut statements, 7).expect("owners");
        assert_eq!(generations(&owners), [1]);
        own(&mut log, 7, 9);
        log.flush(&mut statements)
            .expect("written where the first attempt would have been");
    }

    #[test]
    fn a_forgotten_owner_stays_forgotten_for_those_who_read_the_log() {
        let connection = database();
        let mut statements = Statements::new(&connection);
        let mut log = KeyLog::default();
        own(&mut log, 7, 1);
        log.flush(&mut statements).expect("written");
        log.disown(&mut statements, 7, 1).expect("forgotten");
        log.flush(&mut statements).expect("written");
        assert_eq!(stored_owners(&mut statements, 7).expect("owners"), []);
    }

    #[test]
    fn many_owners_are_moved_into_the_index_and_none_is_lost_on_the_way() {
        let connection = database();
        let mut statements = Statements::new(&connection);
        let mut log = KeyLog::default();
        let prefix = |n: i64| n.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as i64) & 0xFFFF_FFFF_FFFF;
        let many = 3 * MOVE_FROM as i64;
        for batch in 0..many / 1_000 {
            for n in 0..1_000 {
                own(&mut log, prefix(1 + batch * 1_000 + n), 1 + batch * 1_000 + n);
            }
            log.flush(&mut statements).expect("written");
            log.settle(&mut statements, 0).expect("moved");
            statements.write_gathered().expect("written");
            log.commit();
        }
        let indexed: i64 = connection
            .query_row("SELECT count(*) FROM key", [], |row| row.get(0))
            .expect("a number");
        assert!(indexed >= MOVE_FROM as i64, "{indexed} were moved");
        assert!(
            log.owners.len() < 2 * MOVE_FROM,
            "{} are in memory",
            log.owners.len()
        );
        let mut anew = KeyLog::default();
        anew.load(&mut statements).expect("loaded");
        for n in 1..=many / 1_000 * 1_000 {
            let owners = log.owners(&mut statements, prefix(n)).expect("owners");
            assert_eq!(generations(&owners), [n]);
            assert_eq!(anew.owners(&mut statements, prefix(n)).expect("owners"), owners);
        }
    }

    #[test]
    fn a_log_that_was_emptied_by_another_is_followed() {
        let connection = database();
        let mut statements = Statements::new(&connection);
        let (mut one, mut other) = (KeyLog::default(), KeyLog::default());
        own(&mut one, 7, 1);
        one.flush(&mut statements).expect("written");
        one.commit();
        other.load(&mut statements).expect("loaded");
        one.moving = Some(Moving {
            next: (i64::MIN, i64::MIN),
            row: one.rows.last,
        });
        one.move_some(&mut statements).expect("moved");
        own(&mut one, 8, 2);
        one.flush(&mut statements).expect("written");
        one.commit();
        other.load(&mut statements).expect("loaded");
        assert_eq!(
            generations(&other.owners(&mut statements, 7).expect("owners")),
            [1]
        );
        assert_eq!(
            generations(&other.owners(&mut statements, 8).expect("owners")),
            [2]
        );
        other.forget_indexed();
        assert_eq!(
            other.owners.len(),
            1,
            "what is in the index is not kept in memory"
        );
    }

    /// A key that another process took and moved into the index between two looks was in no row of the log that was seen.
    #[test]
    fn what_others_moved_unseen_is_not_taken_for_new() {
        let connection = database();
        let mut statements = Statements::new(&connection);
        let (mut one, mut other) = (KeyLog::default(), KeyLog::default());
        one.load(&mut statements).expect("loaded");
        one.sieve
            .learn(&mut statements, 10, std::iter::empty())
            .expect("an empty index");
        assert!(!one.sieve.may_have(7), "nobody took it yet");
        own(&mut other, 7, 1);
        other.flush(&mut statements).expect("written");
        other.moving = Some(Moving {
            next: (i64::MIN, i64::MIN),
            row: other.rows.last,
        });
        other.move_some(&mut statements).expect("moved");
        other.commit();
        one.load(&mut statements).expect("loaded");
        let owners = one.owners(&mut statements, 7).expect("owners");
        assert_eq!(generations(&owners), [1]);
        own(&mut other, 8, 2);
        other.flush(&mut statements).expect("written");
        other.commit();
        one.sieve
            .learn(&mut statements, 10, std::iter::empty())
            .expect("learnt");
        one.load(&mut statements).expect("loaded");
        let owners = one.owners(&mut statements, 8).expect("owners");
        assert_eq!(generations(&owners), [2], "what is only logged");
    }

    #[test]
    fn damaged_rows_end_the_list_without_a_panic() {
        for length in 0..20 {
            assert!(unpack(&vec![255; length]).is_empty());
        }
    }
}
