//! Leases: those that run out, what they are told by, who has them.

use rusqlite::{OptionalExtension, params};

use semel_core::counters::Counter;
use semel_core::ids::Name;
use semel_core::job::Phase;
use semel_core::lifecycle::{self, AttemptEnd};
use semel_core::time::Timestamp;

use crate::fail::Fail;
use crate::rows::{self, LifeRow};
use crate::statements::Sql;
use crate::tx::Tx;

/// Leases looked at by one call, so that no call is long.
const RESCUE: usize = 1_000;

impl Tx<'_> {
    /// Looks at leases that may have run out; what every call does first.
    pub fn rescue(&mut self) -> Result<u64, Fail> {
        let mut left = RESCUE;
        let mut expired = 0;
        while left > 0 && self.cache.soonest_lease <= self.now.as_millis() {
            expired += self.rescue_batch(&mut left)?;
            self.refresh_soonest()?;
        }
        Ok(expired)
    }

    pub(super) fn refresh_soonest(&mut self) -> Result<(), Fail> {
        let soonest: Option<i64> = self
            .statements
            .get(Sql::LeaseSoonest)?
            .query_row([self.ns], |row| row.get(0))?;
        self.cache.soonest_lease = soonest.unwrap_or(i64::MAX);
        Ok(())
    }

    fn rescue_batch(&mut self, left: &mut usize) -> Result<u64, Fail> {
        let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?));
        let due = self
            .statements
            .get(Sql::LeaseDue)?
            .query_row([self.ns, self.now.as_millis()], read)
            .optional()?;
        let Some((fence, seqs)) = due else { return Ok(0) };
        let (mut expired, mut next) = (0, None::<i64>);
        for seq in rows::unpack(&seqs) {
            let Some(row) = self.life(seq)? else { continue };
            if row.life.fence != fence || row.life.phase != Phase::Running {
                continue;
            }
            if !lifecycle::is_expired(&row.life, self.now) {
                let until = row.life.until.map_or(i64::MAX, Timestamp::as_millis);
                next = Some(next.map_or(until, |next| next.min(until)));
            } else if *left == 0 {
                next = Some(self.now.as_millis());
            } else {
                *left -= 1;
                expired += 1;
                self.expire(&row)?;
            }
        }
        match next {
            Some(until) => self
                .statements
                .get(Sql::LeasePutOff)?
                .execute(params![fence, until])?,
            // Kept for a while: the claim may be sent again (contract 3.5).
            None => self
                .statements
                .get(Sql::LeasePutOff)?
                .execute(params![fence, i64::MAX])?,
        };
        Ok(expired)
    }

    fn expire(&mut self, row: &LifeRow) -> Result<(), Fail> {
        let (life, end) = lifecycle::expire(&row.life, self.now, self.micros);
        self.count(row.lane, Counter::Expired);
        if life.phase == Phase::Failed {
            self.count(row.lane, Counter::Failed);
        }
        let after = LifeRow { life, ..row.clone() };
        let after = self.record(&after, &end)?;
        self.put_row(row, &after)
    }

    /// Writes down a delivery that ended; gives the row with its last error.
    pub fn record(&mut self, row: &LifeRow, end: &AttemptEnd) -> Result<LifeRow, Fail> {
        let last: Option<i64> = self
            .statements
            .get(Sql::AttemptLast)?
            .query_row([row.seq], |row| row.get(0))?;
        let n = last.unwrap_or(0).saturating_add(1);
        self.statements.get(Sql::AttemptInsert)?.execute(params![
            row.seq,
            n,
            end.attempt,
            end.fence,
            rows::millis(end.began_at),
            end.ended_at.as_millis(),
            rows::RESULTS
                .iter()
                .position(|result| *result == end.result)
                .map(|place| place as i64),
            end.error,
            row.worker,
        ])?;
        Ok(LifeRow {
            last_error: if end.error.is_some() {
                Some(n)
            } else {
                row.last_error
            },
            ..row.clone()
        })
    }

    /// A fence above every fence given before.
    pub fn next_fence(&mut self, highest: i64) -> i64 {
        let fence = lifecycle::next_fence(highest.max(self.cache.last_fence), self.micros);
        self.cache.last_fence = fence;
        fence
    }

    /// A lease ends at `until`: the batch has to be looked at by then.
    pub fn note_lease(&mut self, until: Timestamp) {
        self.cache.soonest_lease = self.cache.soonest_lease.min(until.as_millis());
    }

    /// The number of a worker.
    pub fn worker(&mut self, name: &Name) -> Result<i64, Fail> {
        if let Some(number) = self.cache.workers.get(name) {
            return Ok(*number);
        }
        let found = self
            .statements
            .get(Sql::WorkerFind)?
            .query_row([name.as_str()], |row| row.get(0))
            .optional()?;
        let number = match found {
            Some(number) => number,
            None => self.statements.get(Sql::WorkerInsert)?.insert([name.as_str()])?,
        };
        self.cache.workers.insert(name.clone(), number);
        Ok(number)
    }
}
