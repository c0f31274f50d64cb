//! The writer's side of the ledger: the row that is being filled, and the tokens that are in no run yet.

use foldhash::HashMap;
use rusqlite::{OptionalExtension, params};

use semel_core::ids::Token;

use crate::fail::Fail;
use crate::ledger::kept::rows_after;
use crate::ledger::packed::{Packed, Packer};
use crate::ledger::runs::Runs;
use crate::rows::{self, IdBytes};
use crate::statements::{Sql, Statements};

/// Bytes from which on a row is written: it then fills a page and needs no other.
const ROW: usize = 3_800;
/// Tokens the writer knows by heart: the older ones go into runs.
const BY_HEART: usize = 1 << 16;
/// Fewer are not worth their pages.
const INDEXED_AT_ONCE: usize = 512;
/// What is in runs, as the number of the last entry.
const FLOOR: &str = "ledger_tokens";

/// What the writer remembers of the ledger.
#[derive(Default)]
pub struct Ledger {
    open: Packer,
    tokens: HashMap<[u8; 16], i64>,
    highest: Option<[u8; 16]>,
    known: Known,
    committed: Known,
    undo: Vec<([u8; 16], Option<i64>)>,
    indexed: Vec<([u8; 16], i64)>,
    /// All tokens of entries up to the floor are in runs, or their entries are gone.
    swept: bool,
    runs: Runs,
}

/// How far it is known, and how far its tokens are in runs.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    read: i64,
    indexed: i64,
}

impl Ledger {
    /// Learns what others have entered.
    pub fn load(&mut self, statements: &mut Statements<'_>, ns: i64) -> Result<(), Fail> {
        let floor = statements
            .get(Sql::FloorFind)?
            .query_row([FLOOR], |row| row.get::<_, i64>(0));
        let floor = floor.optional()?.unwrap_or(0);
        if floor > self.known.indexed {
            self.tokens.retain(|_, n| *n > floor);
            self.known.indexed = floor;
        }
        self.known.read = self.known.read.max(floor);
        let (tokens, highest) = (&mut self.tokens, &mut self.highest);
        let mut last = self.known.read;
        rows_after(statements, last, |row| {
            for entry in row.entries() {
                last = last.max(entry.n);
                if row.ns == ns {
                    tokens.insert(entry.token, entry.n);
                    *highest = (*highest).max(Some(entry.token));
                }
            }
            Ok(true)
        })?;
        self.known.read = last;
        self.committed = self.known;
        self.runs.load(statements, ns)
    }

    /// What was entered since the last commit is durable.
    pub fn commit(&mut self) {
        self.undo.clear();
        self.committed = self.known;
        for (token, n) in self.indexed.drain(..) {
            if self.tokens.get(&token) == Some(&n) {
                self.tokens.remove(&token);
            }
        }
        if std::mem::take(&mut self.swept) {
            self.tokens.retain(|_, n| *n > self.known.indexed);
        }
    }

    /// What was entered since the last commit has not happened.
    pub fn roll_back(&mut self) {
        for (token, before) in self.undo.drain(..).rev() {
            match before {
                Some(n) => self.tokens.insert(token, n),
                None => self.tokens.remove(&token),
            };
        }
        self.open.clear();
        self.indexed.clear();
        self.swept = false;
        self.runs.roll_back();
        self.known = self.committed;
    }

    /// Appends an entry.
    pub fn enter(&mut self, entry: &Packed<'_>) {
        self.open.push(entry);
        let before = self.tokens.insert(entry.token, entry.n);
        self.undo.push((entry.token, before));
        self.highest = self.highest.max(Some(entry.token));
    }

    /// An entry is removed. Without this its token would be known by heart for good: no row has it any more.
    pub fn forget(&mut self, token: [u8; 16], n: i64) {
        self.indexed.push((token, n));
    }

    /// The entry of a token that is in no run yet.
    pub fn by_heart(&self, token: &[u8; 16]) -> Option<i64> {
        self.tokens.get(token).copied()
    }

    /// Whether no entry has this token, as far as that is known without looking, if it is none of those before the last
    /// [`Ledger::load`].
    pub fn is_surely_new(&self, token: &[u8; 16]) -> bool {
        Some(*token) > self.runs.highest() && self.by_heart(token).is_none()
    }

    /// The entry of a token, wherever it is.
    pub fn by_token(&self, statements: &mut Statements<'_>, token: &[u8; 16]) -> Result<Option<i64>, Fail> {
        match self.by_heart(token) {
            Some(entry) => Ok(Some(entry)),
            None => self.runs.find(statements, token),
        }
    }

    /// The largest token there is, or was.
    pub fn highest_token(&self, ns: i64) -> Option<IdBytes> {
        let token = self.highest.max(self.runs.highest()).map(Token::from_bytes);
        token.map(|token| rows::token_bytes(&token, ns))
    }

    /// Whether the row is long enough to be written.
    pub fn is_full(&self) -> bool {
        self.open.len() >= ROW
    }

    /// Writes what was entered.
    pub fn flush(&mut self, statements: &mut Statements<'_>, ns: i64, at: i64) -> Result<(), Fail> {
        if let Some((first, bytes)) = self.open.row() {
            statements
                .get(Sql::LedgerInsert)?
                .execute(params![first, ns, at, bytes])?;
            self.known.read = self.open.last();
            self.open.clear();
        }
        Ok(())
    }

    /// Writes the tokens of the oldest entries into a run, if there are too many to know by heart.
    pub fn settle(&mut self, statements: &mut Statements<'_>, own: i64) -> Result<(), Fail> {
        let surplus = self.tokens.len().saturating_sub(BY_HEART + self.indexed.len());
        if surplus < INDEXED_AT_ONCE {
            return Ok(());
        }
        let mut found = Vec::with_capacity(surplus + 64);
        let (from, mut last) = (self.known.indexed, self.known.indexed);
        rows_after(statements, from, |row| {
            for entry in row.entries() {
                last = last.max(entry.n);
                found.push((row.ns, entry.token, entry.n));
            }
            Ok(found.len() < surplus)
        })?;
        if found.len() < surplus {
            // The entries of the others were removed by another process.
            last = self.known.read;
            self.swept = true;
        }
        let tokens = found.iter().map(|(_, token, n)| (*token, *n));
        self.indexed.extend(tokens);
        found.sort_unstable();
        for of_namespace in found.chunk_by(|a, b| a.0 == b.0) {
            let ns = of_namespace[0].0;
            let tokens: Vec<_> = of_namespace.iter().map(|(_, token, n)| (*token, *n)).collect();
            self.runs.write(statements, (ns, own), &tokens)?;
        }
        statements.get(Sql::FloorRaise)?.execute(params![FLOOR, last])?;
        self.known.indexed = last;
        Ok(())
    }

    /// Forgets runs of which no entry is left.
    pub fn drop_runs(&mut self, statements: &mut Statements<'_>, own: i64) -> Result<(), Fail> {
        let oldest: Option<i64> = statements
            .get(Sql::LedgerFirst)?
            .query_row([], |row| row.get(0))?;
        self.runs.drop_before(statements, oldest.unwrap_or(i64::MAX))?;
        self.runs.load(statements, own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::packed::Words;
    use crate::ledger::{oldest, remove};
    use rusqlite::Connection;
    use semel_core::ids::Digest;
    use semel_core::job::Outcome;

    const NS: i64 = 1;

    fn database() -> Connection {
        let connection = Connection::open_in_memory().expect("a database");
        connection
            .execute_batch(include_str!("../schema/002.sql"))
            .expect("the schema");
        connection
    }

    fn token(n: i64) -> [u8; 16] {
        i128::from(n).to_be_bytes()
    }

    /// Enters and commits so many absorbed submissions of one key.
    fn absorb(ledger: &mut Ledger, statements: &mut Statements<'_>, numbers: std::ops::Range<i64>) {
        for n in numbers {
            ledger.enter(&Packed {
                n,
                token: token(n),
                outcome: Outcome::Duplicate,
                digest: Digest::from_bytes([7; 32]),
                holder: [7; 16],
                words: Words {
                    queue: "q",
                    task: "t",
                    producer: None,
                    policy: "use_existing",
                },
                differs: None,
                input: None,
                made_a_job: false,
            });
            if ledger.is_full() {
                ledger.flush(statements, NS, n).expect("written");
            }
        }
        commit(ledger, statements);
    }

    fn commit(ledger: &mut Ledger, statements: &mut Statements<'_>) {
        ledger.flush(statements, NS, 0).expect("written");
        ledger.settle(statements, NS).expect("settled");
        ledger.commit();
    }

    fn runs(connection: &Connection) -> i64 {
        connection
            .query_row("SELECT count(*) FROM token_run", [], |row| row.get(0))
            .expect("a number")
    }

    /// All but the newest thousand entries of a key are dropped again and again. Their tokens stayed known by heart, and
    /// once there were too many of them every commit wrote a run of a token or two.
    #[test]
    fn tokens_of_removed_entries_are_forgotten() {
        let connection = database();
        let mut statements = Statements::new(&connection);
        let mut ledger = Ledger::default();
        let count = BY_HEART as i64;
        absorb(&mut ledger, &mut statements, 1..count);
        let thinned: Vec<i64> = (1..count - 1_000).collect();
        for gone in remove(&mut statements, &thinned).expect("removed") {
            ledger.forget(gone.token, gone.n);
        }
        ledger.commit();
        assert_eq!(ledger.tokens.len(), 1_000);
        assert_eq!(ledger.by_heart(&token(5)), None);
        assert_eq!(ledger.by_heart(&token(count - 1)), Some(count - 1));
    }

    #[test]
    fn a_removal_that_is_rolled_back_forgets_nothing() {
        let connection = database();
        let mut statements = Statements::new(&connection);
        let mut ledger = Ledger::default();
        absorb(&mut ledger, &mut statements, 1..100);
        ledger.forget(token(5), 5);
        ledger.roll_back();
        ledger.commit();
        assert_eq!(ledger.by_heart(&token(5)), Some(5));
    }

    /// Another process thins the ledger out, and nobody tells this one.
    #[test]
    fn tokens_of_entries_that_others_removed_are_forgotten_once_they_are_many() {
        let connection = database();
        let mut statements = Statements::new(&connection);
        let mut ledger = Ledger::default();
        let count = (BY_HEART + INDEXED_AT_ONCE) as i64;
        absorb(&mut ledger, &mut statements, 1..count);
        let thinned: Vec<i64> = (1..count - 100).collect();
        remove(&mut statements, &thinned).expect("removed");
        absorb(&mut ledger, &mut statements, count..count + 10);
        assert!(ledger.tokens.is_empty(), "they are in a run, or gone");
        assert_eq!(runs(&connection), 1);
        for n in [count - 100, count + 9] {
            let found = ledger.by_token(&mut statements, &token(n)).expect("looked for");
            assert_eq!(found, Some(n));
        }
        absorb(&mut ledger, &mut statements, count + 10..count + 20);
        assert_eq!(runs(&connection), 1, "no run for ten tokens");
    }

    #[test]
    fn as_many_entries_go_as_are_too_many_or_too_old() {
        let connection = database();
        let mut statements = Statements::new(&connection);
        let mut ledger = Ledger::default();
        for (at, numbers) in [(10, 1..4), (20, 4..7), (30, 7..10)] {
            for n in numbers {
                absorb(&mut ledger, &mut statements, n..n + 1);
            }
            connection
                .execute("UPDATE ledger SET at = ?1 WHERE at = 0", [at])
                .expect("aged");
        }
        let mut oldest =
            |over, surplus, most| oldest(&mut statements, over, surplus, most).expect("looked for");
        assert!(oldest(0, 0, 100).is_empty());
        assert_eq!(oldest(10, 0, 100), [1, 2, 3]);
        assert_eq!(oldest(10, 5, 100), [1, 2, 3, 4, 5]);
        assert_eq!(oldest(20, 5, 100), [1, 2, 3, 4, 5, 6]);
        assert_eq!(oldest(30, 0, 2), [1, 2]);
    }
}
