//! Which keys nobody can have owned: most new ones, found out without a look at the index.
//!
//! A few bits are set for every prefix that was ever logged or is in the index. While it has not seen all of the index,
//! or where there are more keys than it is made for, it says that everything may be there.

use rusqlite::params;

use crate::fail::Fail;
use crate::keys::Place;
use crate::statements::{Sql, Statements};

/// Keys it is made for at first; it grows by this factor.
const FIRST: usize = 1 << 17;
const GROWTH: usize = 4;
/// For more keys than this it would take too much memory: 64 MiB.
const MOST: usize = FIRST * GROWTH * GROWTH * GROWTH * GROWTH;
/// Words of 64 bits for each so many keys.
const KEYS_PER_WORD: usize = 4;

/// What is known of the keys there are.
#[derive(Default)]
pub struct Sieve {
    words: Vec<u64>,
    keys: usize,
    progress: Progress,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Progress {
    /// Nothing of the index was seen.
    #[default]
    Nothing,
    /// The index was seen up to here.
    Until(Place),
    /// All of it.
    All,
    /// There are too many.
    GivenUp,
}

impl Sieve {
    /// Whether a key of this prefix may have been owned.
    pub fn may_have(&self, prefix: i64) -> bool {
        self.progress != Progress::All || {
            let (word, bits) = self.place(prefix);
            self.words[word] & bits == bits
        }
    }

    /// A key of this prefix is logged.
    pub fn add(&mut self, prefix: i64) {
        if self.words.is_empty() {
            return;
        }
        let (word, bits) = self.place(prefix);
        if self.words[word] & bits != bits {
            self.words[word] |= bits;
            self.keys += 1;
        }
    }

    /// Keys may have come into the index that were never seen in the log.
    pub fn forget(&mut self) {
        *self = Sieve::default();
    }

    /// Looks at so many keys of the index. `logged` are those that are not in it yet, needed when it begins.
    pub fn learn(
        &mut self,
        statements: &mut Statements<'_>,
        budget: usize,
        logged: impl Iterator<Item = i64>,
    ) -> Result<(), Fail> {
        if self.words.is_empty() && self.progress == Progress::Nothing {
            self.words = vec![0; FIRST / KEYS_PER_WORD];
            logged.for_each(|prefix| self.add(prefix));
        }
        if !self.fits() {
            self.grow();
        }
        let after = match self.progress {
            Progress::All | Progress::GivenUp => return Ok(()),
            Progress::Until(place) => place,
            Progress::Nothing => (i64::MIN, i64::MIN),
        };
        let look = params![after.0, after.1, budget as i64];
        let mut found = statements.get(Sql::KeyAfter)?.query(look)?;
        let (mut seen, mut last) = (0, after);
        while let Some(row) = found.next()? {
            last = (row.get(0)?, row.get(1)?);
            self.add(last.0);
            seen += 1;
        }
        self.progress = match seen < budget {
            true => Progress::All,
            false => Progress::Until(last),
        };
        Ok(())
    }

    fn fits(&self) -> bool {
        self.keys <= self.words.len() * KEYS_PER_WORD
    }

    /// Makes room by repeating what is there: a word of the larger one is looked for where the same word of the smaller
    /// one is. What was known stays known, and nothing has to be read again; some bits are set for nobody.
    fn grow(&mut self) {
        if self.words.len() * KEYS_PER_WORD >= MOST {
            *self = Sieve {
                progress: Progress::GivenUp,
                ..Sieve::default()
            };
            return;
        }
        self.words = self.words.repeat(GROWTH);
    }

    /// The word of a prefix, and four bits of it. A prefix is part of a digest, so all its bits are as good.
    fn place(&self, prefix: i64) -> (usize, u64) {
        let mixed = (prefix as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let bit = |shift: u32| 1u64 << ((mixed >> shift) & 63);
        // There are as many words as a power of two says, always: a division would cost more than all the rest.
        let word = (mixed >> 32) as usize & (self.words.len() - 1);
        (word, bit(0) | bit(6) | bit(12) | bit(18))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;

    const MANY: i64 = FIRST as i64 + 50_000;

    fn prefix(n: i64) -> i64 {
        n.wrapping_mul(0x2545_F491_4F6C_DD1D) & 0xFFFF_FFFF_FFFF
    }

    fn database(keys: i64) -> Connection {
        let connection = Connection::open_in_memory().expect("a database");
        connection
            .execute_batch(include_str!("../schema/002.sql"))
            .expect("the schema");
        let mut insert = connection
            .prepare("INSERT INTO key (h, generation) VALUES (?1, ?2)")
            .expect("a statement");
        for n in 0..keys {
            insert.execute([prefix(n), n]).expect("a key");
        }
        drop(insert);
        connection
    }

    #[test]
    fn what_is_there_is_never_denied_and_most_of_what_is_not_is() {
        let connection = database(MANY);
        let mut statements = Statements::new(&connection);
        let mut sieve = Sieve::default();
        let mut rounds = 0;
        while sieve.progress != Progress::All {
            assert!(
                sieve.may_have(prefix(-5)),
                "nothing is denied before all was seen"
            );
            sieve
                .learn(&mut statements, 20_000, std::iter::once(prefix(-1)))
                .expect("seen");
            sieve.add(prefix(-2));
            rounds += 1;
        }
        assert_eq!(rounds, MANY / 20_000 + 1, "it was seen in steps, and once");
        assert!(sieve.words.len() * KEYS_PER_WORD > FIRST, "it has grown");
        for n in -2..MANY {
            assert!(sieve.may_have(prefix(n)), "{n} was logged or is in the index");
        }
        let denied = (1_000_000_000..1_000_010_000)
            .filter(|n| !sieve.may_have(prefix(*n)))
            .count();
        assert!(denied > 9_500, "{denied} of 10,000");
        sieve.forget();
        assert!(sieve.may_have(prefix(1_000_000_000)));
    }
}
