//! Keys: who owned them, and who holds them.

use rusqlite::OptionalExtension;

use semel_core::ids::Digest;

use crate::fail::Fail;
use crate::keys::Owner;
use crate::recent::Keyed;
use crate::rows::{self, LifeRow};
use crate::statements::Sql;
use crate::tx::Tx;

/// The key of a job, and for hybrid keys its group.
type KeyAndGroup = (Option<Digest>, Option<Digest>);

impl Tx<'_> {
    /// The key of a job and, for hybrid keys, its group.
    pub fn key_of(&mut self, seq: i64) -> Result<KeyAndGroup, Fail> {
        Ok(self.keyed(seq)?.ok_or(rusqlite::Error::QueryReturnedNoRows)?)
    }

    fn keyed(&mut self, seq: i64) -> Result<Option<KeyAndGroup>, Fail> {
        let read = |row: &rusqlite::Row<'_>| Ok((rows::digest(row, 1)?, rows::digest(row, 2)?));
        Ok(self
            .statements
            .get(Sql::JobKeyed)?
            .query_row([seq], read)
            .optional()?)
    }

    /// Makes a job the newest owner of a key.
    pub fn own(&mut self, digest: &Digest, group: Option<&Digest>, generation: i64, seq: i64) {
        self.cache.recent.forget_owner(digest);
        self.log_owner(digest, group, Owner { generation, seq });
    }

    /// As [`Tx::own`], for a new job of which is known what admission will ask.
    pub fn own_newly(&mut self, digest: &Digest, group: Option<&Digest>, generation: i64, keyed: Keyed) {
        let seq = keyed.seq;
        self.cache.recent.put_owner(*digest, keyed);
        self.log_owner(digest, group, Owner { generation, seq });
    }

    fn log_owner(&mut self, digest: &Digest, group: Option<&Digest>, owner: Owner) {
        self.cache.keys.own(rows::prefix(digest), owner);
        if let Some(group) = group {
            self.cache.keys.own(rows::prefix(group), owner);
        }
    }

    /// Whether anybody but a newborn job may have owned a key, as far as that is known without looking.
    pub fn may_be_owned(&self, digest: &Digest) -> bool {
        self.cache.keys.may_have(rows::prefix(digest))
    }

    /// Those who took a key with this prefix, newest first.
    pub fn owners(&mut self, digest: &Digest) -> Result<Vec<Owner>, Fail> {
        self.cache.keys.owners(&mut self.statements, rows::prefix(digest))
    }

    /// The job that holds a key now: the owner with the highest generation, if it says so (contract 2.9).
    pub fn holder(&mut self, digest: &Digest) -> Result<Option<LifeRow>, Fail> {
        let Some(owner) = self.newest_owner(digest)? else {
            return Ok(None);
        };
        let row = self.life(owner)?;
        Ok(row.filter(|row| row.life.is_holder(self.now)))
    }

    /// The job that owned a key last, whether it holds it or not.
    pub fn newest_owner(&mut self, digest: &Digest) -> Result<Option<i64>, Fail> {
        for owner in self.owners(digest)? {
            let keyed = self.keyed(owner.seq)?;
            if keyed.is_some_and(|(whole, _)| whole.as_ref() == Some(digest)) {
                return Ok(Some(owner.seq));
            }
        }
        Ok(None)
    }

    /// The oldest job that holds a key of this hybrid group, but not this very key. Owners that let go are forgotten.
    pub fn collision(&mut self, group: &Digest, digest: &Digest) -> Result<Option<i64>, Fail> {
        let mut members = Vec::new();
        for owner in self.owners(group)? {
            if let Some((own, found)) = self.keyed(owner.seq)?
                && found.as_ref() == Some(group)
            {
                members.push((owner.seq, owner.generation, own));
            }
        }
        let mut oldest = None;
        for (seq, generation, own) in members {
            let holds = self.life(seq)?.is_some_and(|row| {
                row.life.is_holder(self.now)
                    && row
                        .life
                        .holding
                        .is_some_and(|holding| holding.generation == generation)
            });
            if !holds {
                let prefix = rows::prefix(group);
                self.cache.keys.disown(&mut self.statements, prefix, generation)?;
            } else if own.as_ref() != Some(digest) {
                oldest = Some(oldest.map_or(seq, |found: i64| found.min(seq)));
            }
        }
        Ok(oldest)
    }
}
