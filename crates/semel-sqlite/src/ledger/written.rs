//! The writer's side of the ledger: the row that is being filled, and the tokens that are in no index yet.

use foldhash::HashMap;
use rusqlite::{OptionalExtension, params};

use semel_core::ids::Token;

use crate::fail::Fail;
use crate::gathered::Remembered;
use crate::ledger::kept::rows_after;
use crate::ledger::packed::{Packed, Packer};
use crate::rows::{self, IdBytes};
use crate::statements::{Sql, Statements};

/// Bytes from which on a row is written: it then fills a page and needs no other.
const ROW: usize = 3_800;
/// Tokens the writer knows by heart: the older ones go into the index.
const BY_HEART: usize = 1 << 16;
/// Fewer are not worth their pages.
const INDEXED_AT_ONCE: usize = 512;
/// What is in the index, as the number of the last entry.
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
}

/// How far it is known, and how far its tokens are in the index.
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
        Ok(())
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
        self.known = self.committed;
    }

    /// Appends an entry.
    pub fn enter(&mut self, entry: &Packed<'_>) {
        self.open.push(entry);
        let before = self.tokens.insert(entry.token, entry.n);
        self.undo.push((entry.token, before));
        self.highest = self.highest.max(Some(entry.token));
    }

    /// The entry of a token that is in no index yet.
    pub fn by_token(&self, token: &[u8; 16]) -> Option<i64> {
        self.tokens.get(token).copied()
    }

    /// The largest token there is, or was.
    pub fn highest_token(&self, ns: i64) -> Option<IdBytes> {
        let token = self.highest.map(Token::from_bytes);
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

    /// Indexes the oldest tokens, if there are too many to know by heart.
    pub fn settle(&mut self, statements: &mut Statements<'_>) -> Result<(), Fail> {
        let surplus = self.tokens.len().saturating_sub(BY_HEART + self.indexed.len());
        if surplus >= INDEXED_AT_ONCE {
            self.index(statements, surplus)?;
        }
        Ok(())
    }

    /// Indexes the tokens of about so many of the oldest entries; gives how many there were.
    pub fn index(&mut self, statements: &mut Statements<'_>, budget: usize) -> Result<usize, Fail> {
        let mut found = Vec::new();
        let (from, mut last) = (self.known.indexed, self.known.indexed);
        rows_after(statements, from, |row| {
            for entry in row.entries() {
                last = last.max(entry.n);
                found.push((row.ns, entry.token, entry.n));
            }
            Ok(found.len() < budget)
        })?;
        if last == from {
            return Ok(0);
        }
        self.indexed
            .extend(found.iter().map(|(_, token, n)| (*token, *n)));
        // In the order of the index, each of its pages is touched once; of the same token the newer entry counts.
        found.sort_unstable();
        for (ns, token, n) in &found {
            let remembered = Remembered {
                token: rows::token_bytes(&Token::from_bytes(*token), *ns),
                came_of_it: n.saturating_neg(),
            };
            statements.gather(|gathered| gathered.entry(remembered))?;
        }
        statements.get(Sql::FloorRaise)?.execute(params![FLOOR, last])?;
        self.known.indexed = last;
        Ok(found.len())
    }
}
