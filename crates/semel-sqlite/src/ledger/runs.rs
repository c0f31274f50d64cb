//! Where the tokens of older entries are: runs, each sorted, written once and dropped whole.
//!
//! A row per token in an index cost more than the entry it led to. Tokens carry the time they were made at, so most
//! runs have a time of their own, and of all runs one or two can have a token that is looked for. Where several have
//! it, the newest run counts.

use rusqlite::{OptionalExtension, params};

use crate::fail::Fail;
use crate::statements::{Sql, Statements};

/// The bytes of a token, and of the number of its entry.
const TOKEN: usize = 16;
const RECORD: usize = TOKEN + 8;

/// The runs of a namespace, oldest first.
#[derive(Default)]
pub struct Runs {
    known: Vec<Run>,
    /// The largest token in any of them.
    highest: Option<[u8; TOKEN]>,
    last: i64,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    n: i64,
    low: [u8; TOKEN],
    high: [u8; TOKEN],
}

impl Runs {
    /// Learns of runs that others have written.
    pub fn load(&mut self, statements: &mut Statements<'_>, ns: i64) -> Result<(), Fail> {
        let mut found = statements.get(Sql::TokenRunAfter)?.query([self.last])?;
        while let Some(row) = found.next()? {
            self.last = row.get(0)?;
            let bounds = (row.get_ref(2)?.as_blob()?, row.get_ref(3)?.as_blob()?);
            if row.get::<_, i64>(1)? == ns
                && let (Ok(low), Ok(high)) = (bounds.0.try_into(), bounds.1.try_into())
            {
                let n = self.last;
                self.know(Run { n, low, high });
            }
        }
        Ok(())
    }

    /// What was written or dropped since the last commit has not happened: they are read anew.
    pub fn roll_back(&mut self) {
        *self = Runs::default();
    }

    /// The largest token in a run.
    pub fn highest(&self) -> Option<[u8; TOKEN]> {
        self.highest
    }

    fn know(&mut self, run: Run) {
        self.highest = self.highest.max(Some(run.high));
        self.known.push(run);
    }

    /// Writes a run: tokens and the numbers of their entries, sorted; of the same token the last counts.
    pub fn write(
        &mut self,
        statements: &mut Statements<'_>,
        (ns, own): (i64, i64),
        tokens: &[([u8; TOKEN], i64)],
    ) -> Result<(), Fail> {
        // Named after its last entry, it has a number no run had before, whatever was dropped.
        let last = tokens.iter().map(|(_, n)| *n).max();
        let (Some((low, _)), Some((high, _)), Some(n)) = (tokens.first(), tokens.last(), last) else {
            return Ok(());
        };
        let mut bytes = Vec::with_capacity(tokens.len() * RECORD);
        for (token, n) in tokens {
            bytes.extend_from_slice(token);
            bytes.extend_from_slice(&n.to_be_bytes());
        }
        let run = params![n, ns, low, high, bytes];
        statements.get(Sql::TokenRunInsert)?.execute(run)?;
        self.last = self.last.max(n);
        if ns == own {
            let (low, high) = (*low, *high);
            self.know(Run { n, low, high });
        }
        Ok(())
    }

    /// The entry of a token.
    pub fn find(&self, statements: &mut Statements<'_>, token: &[u8; TOKEN]) -> Result<Option<i64>, Fail> {
        for run in self.known.iter().rev() {
            if *token < run.low || *token > run.high {
                continue;
            }
            let find = statements.get(Sql::TokenRunFind)?;
            let found = find.query_row([run.n], |row| Ok(search(row.get_ref(0)?.as_blob()?, token)));
            if let Some(entry) = found.optional()?.flatten() {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    /// Drops runs of which every entry is older than one. They have to be read anew.
    pub fn drop_before(&mut self, statements: &mut Statements<'_>, oldest: i64) -> Result<(), Fail> {
        let dropped = statements.get(Sql::TokenRunDrop)?.execute([oldest])?;
        if dropped > 0 {
            *self = Runs::default();
        }
        Ok(())
    }
}

/// The entry of a token in a run.
fn search(run: &[u8], token: &[u8; TOKEN]) -> Option<i64> {
    let records = run.as_chunks::<RECORD>().0;
    let after = records.partition_point(|record| record[..TOKEN] <= token[..]);
    let record = records[..after].last()?;
    let number = record[TOKEN..].try_into().ok()?;
    (record[..TOKEN] == token[..]).then(|| i64::from_be_bytes(number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;

    fn database() -> Connection {
        let connection = Connection::open_in_memory().expect("a database");
        connection
            .execute_batch(include_str!("../schema/002.sql"))
            .expect("the schema");
        connection
    }

    fn token(n: u8) -> [u8; TOKEN] {
        [n; TOKEN]
    }

    fn write(runs: &mut Runs, statements: &mut Statements<'_>, tokens: &[(u8, i64)]) {
        let tokens: Vec<_> = tokens.iter().map(|(byte, n)| (token(*byte), *n)).collect();
        runs.write(statements, (1, 1), &tokens).expect("written");
    }

    #[test]
    fn a_token_is_found_in_the_newest_run_that_has_it_by_whoever_looks() {
        let connection = database();
        let mut statements = Statements::new(&connection);
        let mut runs = Runs::default();
        write(&mut runs, &mut statements, &[(1, 10), (3, 11), (3, 12), (9, 13)]);
        write(&mut runs, &mut statements, &[(2, 20), (3, 21)]);
        runs.write(&mut statements, (2, 1), &[(token(5), 30)])
            .expect("another namespace");
        let mut other = Runs::default();
        other.load(&mut statements, 1).expect("loaded");
        for runs in [&runs, &other] {
            let found =
                [1, 2, 3, 5, 9, 0, 10].map(|n| runs.find(&mut statements, &token(n)).expect("looked for"));
            assert_eq!(found, [Some(10), Some(20), Some(21), None, Some(13), None, None]);
            assert_eq!(runs.highest(), Some(token(9)));
        }
    }

    #[test]
    fn runs_that_were_rolled_back_are_not_looked_at_and_can_be_written_again() {
        let connection = database();
        let mut statements = Statements::new(&connection);
        let mut runs = Runs::default();
        write(&mut runs, &mut statements, &[(1, 10)]);
        connection.execute_batch("SAVEPOINT undone").expect("begun");
        write(&mut runs, &mut statements, &[(2, 20)]);
        connection
            .execute_batch("ROLLBACK TO undone; RELEASE undone")
            .expect("undone");
        runs.roll_back();
        runs.load(&mut statements, 1).expect("read anew");
        assert_eq!(runs.find(&mut statements, &token(2)).expect("looked for"), None);
        write(&mut runs, &mut statements, &[(2, 20)]);
        assert_eq!(
            runs.find(&mut statements, &token(2)).expect("looked for"),
            Some(20)
        );
    }

    /// Somebody who has seen runs that are dropped since looks for newer ones behind them.
    #[test]
    fn a_run_that_is_written_after_all_were_dropped_is_seen_by_those_who_knew_the_others() {
        let connection = database();
        let mut statements = Statements::new(&connection);
        let (mut runs, mut other) = (Runs::default(), Runs::default());
        write(&mut runs, &mut statements, &[(1, 10), (2, 11)]);
        other.load(&mut statements, 1).expect("loaded");
        runs.drop_before(&mut statements, 12).expect("dropped");
        runs.load(&mut statements, 1).expect("loaded");
        write(&mut runs, &mut statements, &[(3, 12)]);
        other.load(&mut statements, 1).expect("loaded");
        let found = [3, 1].map(|n| other.find(&mut statements, &token(n)).expect("looked for"));
        assert_eq!(found, [Some(12), None]);
    }

    #[test]
    fn a_run_goes_when_its_last_entry_has() {
        let connection = database();
        let mut statements = Statements::new(&connection);
        let mut runs = Runs::default();
        write(&mut runs, &mut statements, &[(1, 10), (2, 11)]);
        write(&mut runs, &mut statements, &[(3, 12)]);
        runs.drop_before(&mut statements, 11).expect("nothing to drop");
        assert_eq!(
            runs.find(&mut statements, &token(1)).expect("looked for"),
            Some(10)
        );
        runs.drop_before(&mut statements, 12).expect("dropped");
        runs.load(&mut statements, 1).expect("loaded");
        assert_eq!(runs.find(&mut statements, &token(1)).expect("looked for"), None);
        assert_eq!(
            runs.find(&mut statements, &token(3)).expect("looked for"),
            Some(12)
        );
    }

    #[test]
    fn a_damaged_run_has_nothing_and_does_not_panic() {
        for length in 0..3 * RECORD {
            assert_eq!(search(&vec![7; length], &token(8)), None);
        }
    }
}
