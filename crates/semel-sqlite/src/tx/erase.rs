//! Removing a job, and what nobody needs once it is gone.

use rusqlite::{OptionalExtension, params};

use semel_core::ids::Digest;
use semel_core::job::Phase;

use crate::fail::Fail;
use crate::ledger;
use crate::rows::{self, LifeRow};
use crate::statements::Sql;
use crate::tx::Tx;

impl Tx<'_> {
    /// Removes every trace of a job but what others need.
    pub fn erase(&mut self, row: &LifeRow) -> Result<(), Fail> {
        let read = |row: &rusqlite::Row<'_>| {
            let bytes = |at: usize| row.get::<_, Option<Vec<u8>>>(at);
            Ok((
                row.get::<_, Vec<u8>>(0)?,
                rows::digest(row, 1)?,
                rows::digest(row, 2)?,
                bytes(3)?,
            ))
        };
        let (id, digest, group, origin) = self.statements.get(Sql::JobKeyed)?.query_row([row.seq], read)?;
        if row.life.phase == Phase::Waiting {
            self.leave(row)?;
        }
        self.list_rare(row, Some(row.life.phase), None)?;
        self.cache.recent.forget_life(row.seq);
        for digest in digest.iter().chain(group.iter()) {
            self.cache.recent.forget_owner(digest);
            self.disown(digest, row.seq)?;
        }
        if let Some(digest) = &digest {
            self.forget_total(digest)?;
        }
        for sql in [
            Sql::OutputDelete,
            Sql::ProgressDelete,
            Sql::AttemptDelete,
            Sql::ReplayDelete,
            Sql::StubDelete,
            Sql::FollowDelete,
            Sql::FollowCut,
            Sql::LifeDelete,
            Sql::JobDelete,
        ] {
            self.statements.get(sql)?.execute([row.seq])?;
        }
        self.statements
            .get(Sql::TokenDelete)?
            .execute(params![id, row.seq])?;
        let feed = semel_core::store::log_feed(&rows::id_from(&id));
        self.statements
            .get(Sql::FeedDelete)?
            .execute(params![self.ns, feed])?;
        self.forget_steps(origin.as_ref().unwrap_or(&id), row.seq)?;
        if row.seq.saturating_add(1) >= self.cache.next_seq {
            self.raise_floor("seq", row.seq)?;
        }
        Ok(())
    }

    /// Removes a job that is shown to nobody any more from the numbers of its lane.
    pub fn uncount(&mut self, row: &LifeRow) {
        self.moved(row.lane, Some(row.life.phase), None);
    }

    fn disown(&mut self, digest: &Digest, seq: i64) -> Result<(), Fail> {
        for owner in self.owners(digest)? {
            if owner.seq == seq {
                let prefix = rows::prefix(digest);
                self.cache
                    .keys
                    .disown(&mut self.statements, prefix, owner.generation)?;
            }
        }
        Ok(())
    }

    /// The total of a key goes when neither a job nor an entry of the ledger knows the key any more.
    pub fn forget_total(&mut self, digest: &Digest) -> Result<(), Fail> {
        if !self
            .statements
            .get(Sql::LedgerTotalFind)?
            .exists([digest.as_bytes()])?
            || self.newest_owner(digest)?.is_some()
        {
            return Ok(());
        }
        self.write_ledger()?;
        let indexed: i64 = self
            .statements
            .get(Sql::LedgerKeyCount)?
            .query_row([digest.as_bytes()], |row| row.get(0))?;
        if indexed == 0 && ledger::of_key_in_tail(&mut self.statements, digest)? == 0 {
            self.statements
                .get(Sql::LedgerTotalDelete)?
                .execute([digest.as_bytes()])?;
        }
        Ok(())
    }

    /// Steps go with the last job of their chain.
    fn forget_steps(&mut self, origin: &[u8], seq: i64) -> Result<(), Fail> {
        let others: bool = self
            .statements
            .get(Sql::OriginJobs)?
            .query_row(params![origin, seq], |row| row.get(0))?;
        let found = self
            .statements
            .get(Sql::TokenFind)?
            .query_row([origin], |row| row.get::<_, i64>(0))
            .optional()?;
        if !others && found.is_none_or(|found| found == seq || found < 0) {
            self.statements.get(Sql::StepDelete)?.execute([origin])?;
        }
        Ok(())
    }
}
