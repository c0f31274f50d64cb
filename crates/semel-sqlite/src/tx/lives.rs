//! Lives: how jobs fare, and what moves with them.

use rusqlite::{OptionalExtension, params};

use semel_core::admission;
use semel_core::dedup::Holding;
use semel_core::ids::JobId;
use semel_core::job::{Life, Phase};
use semel_core::lifecycle;

use crate::fail::Fail;
use crate::gathered::Place;
use crate::rows::{self, LifeRow};
use crate::statements::Sql;
use crate::tx::Tx;

impl Tx<'_> {
    /// A job's life by its id; none if it is not there or its queue was removed.
    pub fn find(&mut self, id: &JobId) -> Result<Option<LifeRow>, Fail> {
        let Some(bytes) = rows::id_bytes(id, self.ns) else {
            return Ok(None);
        };
        let short: [u8; 16] = bytes[..16].try_into().expect("an id has at least 16 bytes");
        if let Some(seq) = self.cache.ids.get(&short).copied() {
            if let Some(row) = self.life(seq)? {
                return Ok(Some(row));
            }
            self.cache.ids.remove(&short);
        }
        self.enter_newborn()?;
        let found = self
            .statements
            .get(Sql::TokenFind)?
            .query_row([&bytes], |row| row.get::<_, i64>(0))
            .optional()?;
        match found {
            Some(seq) if seq > 0 => self.life(seq),
            _ => Ok(None),
        }
    }

    /// A job's life by its number; none if its queue was removed.
    pub fn life(&mut self, seq: i64) -> Result<Option<LifeRow>, Fail> {
        let row = match self.cache.recent.life(seq) {
            Some(row) => Some(row),
            None => match self.cache.newborn.get(seq) {
                Some(newborn) => Some(newborn.row.clone()),
                None => self.read_life(seq)?,
            },
        };
        Ok(row.filter(|row| self.live_lane(row.lane).is_some()))
    }

    fn read_life(&mut self, seq: i64) -> Result<Option<LifeRow>, Fail> {
        let row = self
            .statements
            .get(Sql::LifeFind)?
            .query_row([seq], LifeRow::read)
            .optional()?;
        if let Some(row) = &row {
            self.cache.recent.put_life(row);
        }
        Ok(row)
    }

    /// The id of a job.
    pub fn id_of(&mut self, seq: i64) -> Result<JobId, Fail> {
        Ok(self
            .statements
            .get(Sql::JobId)?
            .query_row([seq], |row| rows::id(row, 0))?)
    }

    /// A new job's life.
    pub fn begin(&mut self, row: &LifeRow) -> Result<(), Fail> {
        self.write_life(row)?;
        self.moved(row.lane, None, Some(row.life.phase));
        self.list_rare(row, None, Some(row.life.phase))?;
        self.enter(row)
    }

    /// A new job that is being taken out of the order: neither its place nor its life is written, as it has another soon.
    pub fn begin_taken(&mut self, row: &LifeRow) {
        self.cache.recent.put_life(row);
        self.moved(row.lane, None, Some(row.life.phase));
    }

    /// A job moves on: its row, its place in the order, the numbers of its lane, what ended with it.
    pub fn put(&mut self, before: &LifeRow, life: Life) -> Result<LifeRow, Fail> {
        let after = LifeRow {
            life,
            ..before.clone()
        };
        self.put_row(before, &after)?;
        Ok(after)
    }

    /// As [`Tx::put`], for a row whose worker or last error changed too.
    pub fn put_row(&mut self, before: &LifeRow, after: &LifeRow) -> Result<(), Fail> {
        let stays = after.life.phase == Phase::Waiting
            && before.life.phase == Phase::Waiting
            && (after.life.priority, after.life.run_at) == (before.life.priority, before.life.run_at);
        if before.life.phase == Phase::Waiting && !stays {
            self.leave(before)?;
        }
        self.put_taken(before, after)?;
        if !stays {
            self.enter(after)?;
        }
        Ok(())
    }

    /// As [`Tx::put_row`], for a job that was taken out of the order already.
    pub fn put_taken(&mut self, before: &LifeRow, after: &LifeRow) -> Result<(), Fail> {
        self.write_life(after)?;
        self.moved(after.lane, Some(before.life.phase), Some(after.life.phase));
        self.list_rare(after, Some(before.life.phase), Some(after.life.phase))?;
        if after.life.phase.is_terminal() && !before.life.phase.is_terminal() {
            self.end(after)?;
        }
        Ok(())
    }

    /// Keeps the list of jobs in phases that few are in.
    pub(super) fn list_rare(
        &mut self,
        row: &LifeRow,
        from: Option<Phase>,
        to: Option<Phase>,
    ) -> Result<(), Fail> {
        if from == to {
            return Ok(());
        }
        for (phase, sql) in [(from, Sql::RareDelete), (to, Sql::RareInsert)] {
            if let Some(phase) = phase.filter(|phase| is_rare(*phase)) {
                let listed = params![phase as i64, row.lane, row.seq];
                self.statements.get(sql)?.execute(listed)?;
            }
        }
        Ok(())
    }

    fn write_life(&mut self, row: &LifeRow) -> Result<(), Fail> {
        self.cache.recent.put_life(row);
        Ok(self.statements.gather(|gathered| gathered.life(row.clone()))?)
    }

    fn enter(&mut self, row: &LifeRow) -> Result<(), Fail> {
        if row.life.phase != Phase::Waiting {
            return Ok(());
        }
        self.signals.work = true;
        let place = Place {
            lane: row.lane,
            nprio: i64::from(row.life.priority.saturating_neg()),
            run_at: row.life.run_at.as_millis(),
            seq: row.seq,
        };
        Ok(self.statements.gather(|gathered| gathered.place(place))?)
    }

    pub(super) fn leave(&mut self, row: &LifeRow) -> Result<(), Fail> {
        let place = params![
            row.lane,
            row.life.priority.saturating_neg(),
            row.life.run_at.as_millis(),
            row.seq
        ];
        self.statements.get(Sql::ReadyDelete)?.execute(place)?;
        Ok(())
    }

    fn end(&mut self, row: &LifeRow) -> Result<(), Fail> {
        self.signals.ends = true;
        let kind = usize::from(row.life.phase != Phase::Complete);
        self.ended[kind].push(row.seq);
        self.free(row)
    }

    /// A job lets go of its key for good; if only a stub of it was kept for the key, that can go too.
    pub fn let_go(&mut self, row: &LifeRow) -> Result<LifeRow, Fail> {
        let after = self.put(row, lifecycle::let_go(&row.life))?;
        if after.life.phase.is_terminal() && self.statements.get(Sql::StubFind)?.exists([row.seq])? {
            let now = self.now.as_millis();
            self.statements
                .get(Sql::StubPut)?
                .execute(params![row.seq, self.ns, now])?;
        }
        Ok(after)
    }

    /// A job lets go of its key: the one that follows takes it and waits its turn (contract 2.5).
    pub fn free(&mut self, row: &LifeRow) -> Result<(), Fail> {
        let can_be_followed = |holding: &Holding| holding.hold.is_plain_until_finished();
        if !self.cache.followers || !row.life.holding.as_ref().is_some_and(can_be_followed) {
            return Ok(());
        }
        let found = self
            .statements
            .get(Sql::FollowerFind)?
            .query_row([row.seq], |row| row.get(0))
            .optional()?;
        let Some(follower) = found else { return Ok(()) };
        self.statements.get(Sql::FollowDelete)?.execute([row.seq])?;
        self.promote(follower)
    }

    /// A follower waits its turn, with the key unless another has it.
    pub fn promote(&mut self, follower: i64) -> Result<(), Fail> {
        self.enter_newborn()?;
        let Some(before) = self.life(follower)? else {
            return Ok(());
        };
        let (digest, group) = self.key_of(follower)?;
        let Some(digest) = digest else { return Ok(()) };
        let taken = self.holder(&digest)?.is_some();
        let generation = self.next_generation()?;
        let mut life = admission::promote(&before.life, self.now, generation);
        if taken {
            life.holding = None;
        } else {
            self.own(&digest, group.as_ref(), generation, follower);
        }
        self.put(&before, life)?;
        Ok(())
    }
}

/// Phases that few jobs are in, so that a list of them is worth its rows.
fn is_rare(phase: Phase) -> bool {
    !matches!(phase, Phase::Waiting | Phase::Running | Phase::Complete)
}
