//! Tokens: which submissions and ids are known.

use rusqlite::OptionalExtension;

use semel_core::ids::JobId;

use crate::fail::Fail;
use crate::gathered::Remembered;
use crate::rows::{self, IdBytes};
use crate::statements::Sql;
use crate::tx::Tx;

/// Ids remembered, so that settling does not look them up.
const IDS: usize = 200_000;

impl Tx<'_> {
    /// Whether a token was never seen, as far as that is known without looking.
    pub fn is_surely_new(&self, token: &[u8]) -> bool {
        let short = rows::short(token);
        token > &self.highest_token[..]
            && !self.tokens.contains(&short)
            && self.cache.ledger.by_heart(&short).is_none()
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
}
