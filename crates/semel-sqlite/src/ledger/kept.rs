//! The ledger as it is kept: rows of entries, found by number, by key, or one after another.

use std::collections::BTreeSet;

use rusqlite::{OptionalExtension, Row, params};

use semel_core::ids::{Digest, Name};
use semel_core::json::Json;
use semel_core::view::LedgerEntry;

use crate::fail::Fail;
use crate::inspect;
use crate::ledger::packed::{self, Packed, Packer};
use crate::rows;
use crate::statements::{Sql, Statements};

/// A row: entries of one commit.
pub struct Kept {
    /// The number of its first entry, or of one that is gone.
    pub n: i64,
    /// The namespace's number.
    pub ns: i64,
    /// When.
    pub at: i64,
    bytes: Vec<u8>,
}

impl Kept {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Kept {
            n: row.get(0)?,
            ns: row.get(1)?,
            at: row.get(2)?,
            bytes: row.get(3)?,
        })
    }

    /// Its entries, oldest first. What cannot be read ends the list: the doctor finds it.
    pub fn entries(&self) -> Vec<Packed<'_>> {
        packed::unpack(self.n, &self.bytes).0
    }

    /// An entry as anyone sees it.
    pub fn show(&self, entry: &Packed<'_>) -> Result<LedgerEntry, Fail> {
        Ok(LedgerEntry {
            n: entry.n,
            at: rows::time(self.at),
            outcome: entry.outcome,
            digest: entry.digest,
            holder: rows::id_from(&entry.holder),
            queue: Name::new(entry.words.queue)?,
            task: Name::new(entry.words.task)?,
            producer: entry.words.producer.map(Name::new).transpose()?,
            policy: entry.words.policy.to_owned(),
            differs: inspect::pointers(entry.differs)?,
            input: entry.input.map(Json::trusted),
        })
    }
}

/// Rows after an entry, oldest first, as long as they are wanted.
pub fn rows_after(
    statements: &mut Statements<'_>,
    n: i64,
    mut wanted: impl FnMut(&Kept) -> Result<bool, Fail>,
) -> Result<(), Fail> {
    let mut found = statements.get(Sql::LedgerAfter)?.query([n])?;
    while let Some(row) = found.next()? {
        if !wanted(&Kept::read(row)?)? {
            break;
        }
    }
    Ok(())
}

/// The row an entry is in, if it is there at all.
pub fn find(statements: &mut Statements<'_>, n: i64) -> Result<Option<Kept>, Fail> {
    Ok(statements
        .get(Sql::LedgerAt)?
        .query_row([n], Kept::read)
        .optional()?)
}

/// How far the ledger can be searched by key.
pub fn indexed(statements: &mut Statements<'_>) -> Result<i64, Fail> {
    let found = statements
        .get(Sql::FloorFind)?
        .query_row(["ledger_indexed"], |row| row.get(0));
    Ok(found.optional()?.unwrap_or(0))
}

/// Entries of a namespace between two numbers, newest first, as long as they are wanted.
pub fn listed(
    statements: &mut Statements<'_>,
    ns: i64,
    (after, before): (i64, i64),
    mut wanted: impl FnMut(&Kept, &Packed<'_>) -> Result<bool, Fail>,
) -> Result<(), Fail> {
    let mut found = statements.get(Sql::LedgerList)?.query([ns, before, after])?;
    while let Some(row) = found.next()? {
        let row = Kept::read(row)?;
        for entry in row.entries().iter().rev() {
            if entry.n < before && !wanted(&row, entry)? {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Numbers of the indexed entries of a key before one, newest first.
pub fn of_key(statements: &mut Statements<'_>, digest: &Digest, before: i64) -> Result<Vec<i64>, Fail> {
    let list = statements.get(Sql::LedgerKeyList)?;
    let found = list.query_map(params![digest.as_bytes(), before], |row| row.get(0))?;
    Ok(found.collect::<rusqlite::Result<_>>()?)
}

/// How many entries of a key are not indexed yet.
pub fn of_key_in_tail(statements: &mut Statements<'_>, digest: &Digest) -> Result<i64, Fail> {
    let from = indexed(statements)?;
    let mut count = 0;
    rows_after(statements, from, |row| {
        count += row
            .entries()
            .iter()
            .filter(|entry| entry.digest == *digest)
            .count() as i64;
        Ok(true)
    })?;
    Ok(count)
}

/// How many submissions a key has absorbed, with those the ledger has forgotten.
pub fn total(statements: &mut Statements<'_>, digest: &Digest) -> Result<i64, Fail> {
    let gone = statements
        .get(Sql::LedgerTotalFind)?
        .query_row([digest.as_bytes()], |row| row.get::<_, i64>(0));
    let gone = gone.optional()?.unwrap_or(0);
    let indexed: i64 = statements
        .get(Sql::LedgerKeyCount)?
        .query_row([digest.as_bytes()], |row| row.get(0))?;
    Ok(gone + indexed + of_key_in_tail(statements, digest)?)
}

/// An entry that is to be forgotten.
pub struct Gone {
    /// Its number.
    pub n: i64,
    /// The namespace's number.
    pub ns: i64,
    /// Its key.
    pub digest: Digest,
    /// Its token.
    pub token: [u8; 16],
}

/// The oldest entries, at most `most`: all that are as old as `over`, and in any case so many as are too many.
pub fn oldest(
    statements: &mut Statements<'_>,
    over: i64,
    surplus: usize,
    most: usize,
) -> Result<Vec<i64>, Fail> {
    let mut found = Vec::new();
    rows_after(statements, i64::MIN, |row| {
        for entry in row.entries() {
            if found.len() == most || (found.len() >= surplus && row.at > over) {
                return Ok(false);
            }
            found.push(entry.n);
        }
        Ok(true)
    })?;
    Ok(found)
}

/// Takes entries out of their rows; gives what they were.
pub fn remove(statements: &mut Statements<'_>, numbers: &[i64]) -> Result<Vec<Gone>, Fail> {
    let mut gone = Vec::new();
    let mut wanted: BTreeSet<i64> = numbers.iter().copied().collect();
    while let Some(n) = wanted.pop_first() {
        let Some(row) = find(statements, n)? else { continue };
        let mut rest = Packer::default();
        for entry in row.entries() {
            if entry.n == n || wanted.remove(&entry.n) {
                gone.push(Gone {
                    n: entry.n,
                    ns: row.ns,
                    digest: entry.digest,
                    token: entry.token,
                });
            } else {
                rest.push(&entry);
            }
        }
        statements.get(Sql::LedgerDelete)?.execute([row.n])?;
        if let Some((first, bytes)) = rest.row() {
            statements
                .get(Sql::LedgerInsert)?
                .execute(params![first, row.ns, row.at, bytes])?;
        }
    }
    Ok(gone)
}

/// How many rows cannot be read to their end.
pub fn broken(statements: &mut Statements<'_>) -> Result<usize, Fail> {
    let mut broken = 0;
    rows_after(statements, i64::MIN, |row| {
        broken += usize::from(!packed::unpack(row.n, &row.bytes).1);
        Ok(true)
    })?;
    Ok(broken)
}

/// The number of the newest entry.
pub fn last(statements: &mut Statements<'_>) -> Result<i64, Fail> {
    let row = find(statements, i64::MAX)?;
    let last = row.map(|row| row.entries().last().map_or(row.n, |entry| entry.n));
    Ok(last.unwrap_or(0))
}
