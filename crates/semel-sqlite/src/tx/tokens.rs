//! Tokens: which submissions and ids are known.

use foldhash::HashSet;
use rusqlite::OptionalExtension;

use semel_core::ids::JobId;

use crate::fail::Fail;
use crate::gathered::Remembered;
use crate::rows::{self, IdBytes};
use crate::statements::Sql;
use crate::tx::Tx;

/// Ids remembered, so that settling does not look them up.
const IDS: usize = 200_000;

/// Tokens known by heart.
const KNOWN: usize = 1 << 14;

/// What can be said of a token without looking.
///
/// Tokens begin with the time, but those of several producers do not come in their order. All that came since the last
/// look are known by heart, and all before are at or below a floor.
#[derive(Default)]
pub struct Tokens {
    known: HashSet<[u8; 16]>,
    floor: Vec<u8>,
    highest: Vec<u8>,
}

impl Tokens {
    /// After a look: none is above this one.
    pub fn at_most(highest: Vec<u8>) -> Self {
        Tokens {
            known: HashSet::default(),
            floor: highest.clone(),
            highest,
        }
    }

    /// Forgets what is known by heart, once that is much.
    pub fn settle(&mut self) {
        if self.known.len() > KNOWN {
            self.floor.clone_from(&self.highest);
            self.known.clear();
            self.known.shrink_to(KNOWN * 2);
        }
    }

    fn is_new(&self, token: &[u8]) -> bool {
        token > &self.floor[..] && !self.known.contains(&rows::short(token))
    }

    fn know(&mut self, token: &[u8]) {
        self.known.insert(rows::short(token));
        if token > &self.highest[..] {
            self.highest.clear();
            self.highest.extend_from_slice(token);
        }
    }
}

impl Tx<'_> {
    /// Whether a token was never seen, as far as that is known without looking.
    pub fn is_surely_new(&self, token: &[u8]) -> bool {
        self.cache.tokens.is_new(token) && self.cache.ledger.is_surely_new(&rows::short(token))
    }

    /// What came of a submission that was sent before: the job, or negated the entry of the ledger.
    pub fn token(&mut self, token: &[u8]) -> Result<Option<i64>, Fail> {
        self.enter_newborn()?;
        let found = self
            .statements
            .get(Sql::TokenFind)?
            .query_row([token], |row| row.get(0))
            .optional()?;
        if found.is_some() {
            return Ok(found);
        }
        let entered = self
            .cache
            .ledger
            .by_token(&mut self.statements, &rows::short(token))?;
        Ok(entered.map(i64::saturating_neg))
    }

    /// Remembers what came of a submission whose token is not known. An entry of the ledger remembers its own.
    pub fn remember_token(&mut self, token: &IdBytes, came_of_it: i64) -> Result<(), Fail> {
        if came_of_it < 0 {
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
        self.cache.tokens.know(token);
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(n: u64) -> [u8; 20] {
        let mut token = [0; 20];
        token[..8].copy_from_slice(&n.to_be_bytes());
        token
    }

    #[test]
    fn a_token_is_new_in_whatever_order_it_comes() {
        let mut tokens = Tokens::at_most(token(10).to_vec());
        for n in [30, 12, 25] {
            assert!(tokens.is_new(&token(n)));
            tokens.know(&token(n));
            assert!(!tokens.is_new(&token(n)));
        }
        assert!(!tokens.is_new(&token(10)));
        assert!(!tokens.is_new(&token(9)), "it may have been there before");
    }

    #[test]
    fn what_is_forgotten_is_not_called_new() {
        let mut tokens = Tokens::default();
        let all = 1..=KNOWN as u64 + 1;
        all.clone().for_each(|n| tokens.know(&token(n * 2)));
        tokens.settle();
        assert!(tokens.known.is_empty());
        assert!(all.clone().all(|n| !tokens.is_new(&token(n * 2))));
        assert!(!tokens.is_new(&token(3)), "one that comes late is looked up");
        assert!(tokens.is_new(&token(all.end() * 2 + 1)));
    }
}
