//! Rows that are written many at a time.
//!
//! A statement that writes one row costs more than the row. What a call writes about many jobs is
//! therefore gathered and written by statements of [`MANY`] rows: before the commit, and before any
//! statement runs that could miss it ([`crate::statements::Sql::needs`]). If one violates a constraint
//! the whole transaction is rolled back: SQLite then keeps no copies of pages to undo a statement.

use std::sync::LazyLock;

use foldhash::HashMap;
use rusqlite::{CachedStatement, Connection, ToSql};

use semel_core::ids::Digest;
use semel_core::json::Json;

use crate::rows::{IdBytes, LifeRow};

/// Rows of one statement.
const MANY: usize = 16;
/// Rows of a kind that are gathered at most.
const MOST: usize = 128;

/// New jobs that have nothing unusual.
pub const JOBS: u8 = 1;
/// How jobs fare.
pub const LIVES: u8 = 2;
/// Places in the order of dispatch.
pub const PLACES: u8 = 4;
/// What came of submissions.
pub const TOKENS: u8 = 8;
/// Owners of keys that move into the index.
pub const KEYS: u8 = 16;
/// All of these.
pub const ALL: u8 = 31;

/// A new job that has nothing unusual.
pub struct NewJob {
    /// Arrival.
    pub seq: i64,
    /// The bytes of its id.
    pub id: IdBytes,
    /// When it was admitted.
    pub enqueued_at: i64,
    /// How it fares, if nothing else is written about it yet.
    pub birth: Option<Vec<u8>>,
    /// What its handler gets.
    pub input: Json,
    /// Its key.
    pub digest: Option<Digest>,
    /// Its key as text.
    pub key_text: Option<Box<str>>,
    /// What its key is made from.
    pub key_by: Option<i64>,
    /// The digest of its input, where its key does not tell it.
    pub input_digest: Option<Digest>,
}

/// A waiting job's place in the order.
pub struct Place {
    /// Its task in its queue.
    pub lane: i64,
    /// Its priority, negated.
    pub nprio: i64,
    /// When it may start.
    pub run_at: i64,
    /// Arrival.
    pub seq: i64,
}

/// What came of a submission.
pub struct Remembered {
    /// Its token.
    pub token: IdBytes,
    /// The job.
    pub came_of_it: i64,
}

/// An owner of a key that moves into the index.
pub struct Indexed {
    /// The prefix of the key, and the generation.
    pub place: (i64, i64),
    /// The job, where its number is not the generation.
    pub other: Option<i64>,
}

/// The rows of one transaction that are not written yet.
#[derive(Default)]
pub struct Gathered<'c> {
    jobs: Rows<'c, NewJob>,
    lives: Rows<'c, LifeRow>,
    life_at: HashMap<i64, usize>,
    places: Rows<'c, Place>,
    tokens: Rows<'c, Remembered>,
    keys: Rows<'c, Indexed>,
    kinds: u8,
}

impl<'c> Gathered<'c> {
    /// Which kinds of rows there are.
    pub fn kinds(&self) -> u8 {
        self.kinds
    }

    /// A new job.
    pub fn job(&mut self, job: NewJob) {
        self.jobs.gathered.push(job);
        self.kinds |= JOBS;
    }

    /// How a job fares now.
    pub fn life(&mut self, row: LifeRow) {
        let at = *self.life_at.entry(row.seq).or_insert(self.lives.gathered.len());
        match self.lives.gathered.get_mut(at) {
            Some(before) => *before = row,
            None => self.lives.gathered.push(row),
        }
        self.kinds |= LIVES;
    }

    /// A job waits.
    pub fn place(&mut self, place: Place) {
        self.places.gathered.push(place);
        self.kinds |= PLACES;
    }

    /// What came of a submission.
    pub fn token(&mut self, remembered: Remembered) {
        self.tokens.gathered.push(remembered);
        self.kinds |= TOKENS;
    }

    /// An owner of a key moves into the index.
    pub fn key(&mut self, key: Indexed) {
        self.keys.gathered.push(key);
        self.kinds |= KEYS;
    }

    /// Kinds of which there is as much as should be kept in memory.
    pub fn full(&self) -> u8 {
        let full = |length: usize, kind: u8| if length >= MOST { kind } else { 0 };
        full(self.jobs.gathered.len(), JOBS)
            | full(self.lives.gathered.len(), LIVES)
            | full(self.places.gathered.len(), PLACES)
            | full(self.tokens.gathered.len(), TOKENS)
            | full(self.keys.gathered.len(), KEYS)
    }

    /// Writes some kinds of rows.
    pub fn write(&mut self, connection: &'c Connection, kinds: u8) -> rusqlite::Result<()> {
        let wanted = kinds & self.kinds;
        self.kinds &= !kinds;
        if wanted & JOBS != 0 {
            self.jobs.write(connection)?;
        }
        if wanted & LIVES != 0 {
            self.life_at.clear();
            self.lives.write(connection)?;
        }
        if wanted & PLACES != 0 {
            self.places.write(connection)?;
        }
        if wanted & TOKENS != 0 {
            self.tokens.write(connection)?;
        }
        if wanted & KEYS != 0 {
            self.keys.write(connection)?;
        }
        Ok(())
    }
}

/// Rows of one table, with the statements that write one of them and many.
struct Rows<'c, R> {
    gathered: Vec<R>,
    one: Option<CachedStatement<'c>>,
    many: Option<CachedStatement<'c>>,
}

impl<R> Default for Rows<'_, R> {
    fn default() -> Self {
        Rows {
            gathered: Vec::new(),
            one: None,
            many: None,
        }
    }
}

impl<'c, R: Row> Rows<'c, R> {
    fn write(&mut self, connection: &'c Connection) -> rusqlite::Result<()> {
        let batches = self.gathered.chunks_exact(MANY);
        for row in batches.remainder() {
            let statement = prepared(&mut self.one, connection, &R::texts().one)?;
            row.bind(&mut Binding { statement, at: 0 })?;
            statement.raw_execute()?;
        }
        for batch in batches {
            let statement = prepared(&mut self.many, connection, &R::texts().many)?;
            let mut binding = Binding { statement, at: 0 };
            for row in batch {
                row.bind(&mut binding)?;
            }
            statement.raw_execute()?;
        }
        self.gathered.clear();
        Ok(())
    }
}

fn prepared<'s, 'c>(
    slot: &'s mut Option<CachedStatement<'c>>,
    connection: &'c Connection,
    text: &str,
) -> rusqlite::Result<&'s mut CachedStatement<'c>> {
    if slot.is_none() {
        *slot = Some(connection.prepare_cached(text)?);
    }
    Ok(slot.as_mut().expect("prepared two lines above"))
}

/// Parameters, one after another.
struct Binding<'s, 'c> {
    statement: &'s mut CachedStatement<'c>,
    at: usize,
}

impl Binding<'_, '_> {
    fn next(&mut self, value: impl ToSql) -> rusqlite::Result<()> {
        self.at += 1;
        self.statement.raw_bind_parameter(self.at, value)
    }
}

/// A row that can be gathered.
trait Row {
    fn texts() -> &'static Texts;
    fn bind(&self, binding: &mut Binding<'_, '_>) -> rusqlite::Result<()>;
}

/// A statement for one row, and the same for many.
struct Texts {
    one: String,
    many: String,
}

impl Texts {
    fn of(one: &str) -> Self {
        let values = one.find("VALUES (").expect("it inserts values") + "VALUES ".len();
        let end = values + one[values..].find(')').expect("values end") + 1;
        let row = &one[values..end];
        let mut many = one[..values].to_owned();
        for n in 0..MANY {
            many.push_str(if n == 0 { "" } else { ", " });
            many.push_str(row);
        }
        many.push_str(&one[end..]);
        Texts {
            one: one.to_owned(),
            many,
        }
    }
}

macro_rules! texts {
    ($file:literal) => {
        fn texts() -> &'static Texts {
            static TEXTS: LazyLock<Texts> =
                LazyLock::new(|| Texts::of(include_str!(concat!("sql/", $file, ".sql"))));
            &TEXTS
        }
    };
}

impl Row for NewJob {
    texts!("gathered_job");

    fn bind(&self, binding: &mut Binding<'_, '_>) -> rusqlite::Result<()> {
        binding.next(self.seq)?;
        binding.next(&self.id[..])?;
        binding.next(self.enqueued_at)?;
        binding.next(self.birth.as_deref())?;
        binding.next(self.input.as_str())?;
        binding.next(self.digest.as_ref().map(|digest| &digest.as_bytes()[..]))?;
        binding.next(self.key_text.as_deref())?;
        binding.next(self.key_by)?;
        binding.next(self.input_digest.as_ref().map(|digest| &digest.as_bytes()[..]))
    }
}

impl Row for LifeRow {
    texts!("gathered_life");

    fn bind(&self, binding: &mut Binding<'_, '_>) -> rusqlite::Result<()> {
        self.columns(|number| binding.next(number))
    }
}

impl Row for Place {
    texts!("gathered_place");

    fn bind(&self, binding: &mut Binding<'_, '_>) -> rusqlite::Result<()> {
        binding.next(self.lane)?;
        binding.next(self.nprio)?;
        binding.next(self.run_at)?;
        binding.next(self.seq)
    }
}

impl Row for Remembered {
    texts!("gathered_token");

    fn bind(&self, binding: &mut Binding<'_, '_>) -> rusqlite::Result<()> {
        binding.next(&self.token[..])?;
        binding.next(self.came_of_it)
    }
}

impl Row for Indexed {
    texts!("gathered_key");

    fn bind(&self, binding: &mut Binding<'_, '_>) -> rusqlite::Result<()> {
        binding.next(self.place.0)?;
        binding.next(self.place.1)?;
        binding.next(self.other)
    }
}

/// Statements a connection keeps prepared for gathered rows.
pub const COUNT: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_statement_prepares_for_one_row_and_for_many() {
        let connection = Connection::open_in_memory().expect("a database");
        connection
            .execute_batch(include_str!("schema/002.sql"))
            .expect("the schema");
        let all = [
            NewJob::texts(),
            LifeRow::texts(),
            Place::texts(),
            Remembered::texts(),
            Indexed::texts(),
        ];
        for texts in all {
            assert!(texts.one.starts_with("-- "), "{} says what it is for", texts.one);
            let one = connection.prepare(&texts.one).expect("one row");
            let many = connection.prepare(&texts.many).expect("many rows");
            assert_eq!(many.parameter_count(), MANY * one.parameter_count());
        }
    }

    #[test]
    fn every_row_is_written_once_however_many_there_are() {
        let connection = Connection::open_in_memory().expect("a database");
        connection
            .execute_batch(include_str!("schema/002.sql"))
            .expect("the schema");
        let mut gathered = Gathered::default();
        let mut next = 0;
        for rows in [1, MANY - 1, MANY, MANY + 1, 5 * MANY + 3] {
            for _ in 0..rows {
                next += 1;
                gathered.place(Place {
                    lane: 1,
                    nprio: 0,
                    run_at: 7,
                    seq: next,
                });
            }
            gathered.write(&connection, ALL).expect("written");
            let found: i64 = connection
                .query_row("SELECT count(DISTINCT seq) FROM ready", [], |row| row.get(0))
                .expect("a number");
            assert_eq!(found, next);
        }
    }
}
